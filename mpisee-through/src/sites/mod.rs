//! Call sites: the places in the program that call MPI, as functions and lines.
//!
//! `sites.csv` has the addresses, [`tables`] reads it, [`crate::debug_info`] resolves them.
//! [`frames`] has the frames of a site, [`wrappers`] says which of them are of libraries that call
//! MPI for the program, [`place`] which frame is shown, [`sums`] adds up the calls of each place,
//! [`paths`] reads call paths, and [`skipped`] reports patterns for frames that match none.

mod frames;
mod paths;
mod place;
mod skipped;
mod sums;
mod tables;
mod wrappers;

pub use frames::{SiteFrame, file_name};
pub use paths::{PathSum, path_sums};
pub use place::{How, SitePlace};
pub use skipped::need_frames;
pub use sums::{PlaceSum, PlaceSums, place_sums, share_of_time, without_place};
pub use wrappers::{Wrappers, is_start};

use crate::debug_info::{Binaries, DebugFiles, SearchDirs};
use crate::filter::CallFilter;
use crate::group::By;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use frames::Unresolved;
use mpisee_profile::glob::Glob;
use mpisee_profile::options::DEBUG_DIRS;
use mpisee_profile::rows::SiteRow;
use mpisee_profile::{PathId, SiteId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;

/// Options about call sites.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Call sites")]
pub struct SiteArgs {
    /// Show the callers of functions or libraries of this name (paths: leave these out); * is any
    /// text, ? any character; repeatable
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern)]
    skip_frames: Vec<Glob>,

    /// Get missing debug information from the servers of DEBUGINFOD_URLS, by debuginfod-find
    #[arg(long)]
    debuginfod: bool,
}

fn parse_pattern(text: &str) -> Result<Glob, &'static str> {
    if text.is_empty() { Err("is empty, and matches no function") } else { Ok(Glob::new(text)) }
}

/// The call sites of a profile.
pub struct Sites {
    rows: HashMap<SiteId, SiteRow>,
    /// The sites of each call path, the innermost first.
    stacks: HashMap<PathId, Vec<SiteId>>,
    binaries: Binaries,
    wrappers: Wrappers,
    frames: HashMap<SiteId, Rc<[SiteFrame]>>,
    /// Binaries with sites whose lines are not known, by their paths.
    unresolved: BTreeMap<String, Unresolved>,
}

impl Sites {
    /// The call sites of the profile, `None` if it has none; nothing is resolved yet. Binaries are
    /// looked for below `dirs` first.
    ///
    /// # Errors Of a table or a list of frames to skip that cannot be read, of servers that cannot
    /// be asked, and of `dirs` that are no folders.
    pub fn from_view(view: &ProfileView, args: &SiteArgs, dirs: &[PathBuf]) -> Result<Option<Self>> {
        if args.debuginfod
            && let Some(problem) = DebugFiles::servers_problem()
        {
            bail!(problem);
        }
        if let Some(dir) = dirs.iter().find(|dir| !dir.is_dir()) {
            bail!("'{}', which --source names, is no folder", dir.display());
        }
        let rows = tables::sites(view.profile())?;
        if rows.is_empty() {
            return Ok(None);
        }
        let stacks = tables::stacks(view.profile())?;
        let wrappers = Wrappers::from_environment(&args.skip_frames)?;
        let debug = DebugFiles::from_environment(args.debuginfod);
        Ok(Some(Sites {
            rows: rows.into_iter().map(|row| (row.site, row)).collect(),
            stacks,
            binaries: Binaries::new(SearchDirs(dirs.to_vec()), debug, &view.run().start),
            wrappers,
            frames: HashMap::new(),
            unresolved: BTreeMap::new(),
        }))
    }

    /// The same, or an error that says why there are none.
    ///
    /// # Errors
    /// As [`Sites::from_view`].
    pub fn needed(view: &ProfileView, args: &SiteArgs, dirs: &[PathBuf]) -> Result<Self> {
        match Sites::from_view(view, args, dirs)? {
            Some(sites) => Ok(sites),
            None if view.run().imported.is_some() => {
                bail!("'{}' is imported, and has no call sites", view.profile().directory().display())
            }
            None if has_no_calls(view)? => {
                bail!(
                    "'{}' has no call sites: no rank made an MPI call that is recorded",
                    view.profile().directory().display()
                )
            }
            None => bail!(
                "'{}' has no call sites: they were left out (MPISEE_SITES=0), or a version of mpisee wrote it that did not keep them",
                view.profile().directory().display()
            ),
        }
    }

    /// The sites of a call path, the innermost first; nothing if it is not known.
    pub fn stack(&self, path: PathId) -> &[SiteId] {
        self.stacks.get(&path).map(Vec::as_slice).unwrap_or_default()
    }

    /// The sites in binaries that have a build ID.
    pub fn identified(&self) -> BTreeSet<SiteId> {
        self.rows.values().filter(|row| !row.build_id.is_empty()).map(|row| row.site).collect()
    }

    /// The functions that a site is in, one at least: the innermost of inlined ones first.
    pub fn frames(&mut self, site: SiteId) -> Rc<[SiteFrame]> {
        if let Some(known) = self.frames.get(&site) {
            return Rc::clone(known);
        }
        let frames: Rc<[SiteFrame]> = match self.rows.get(&site) {
            None => [SiteFrame::unlisted(site)].into(),
            Some(row) => {
                let (frames, unresolved) = frames::of_row(row, &mut self.binaries);
                if let Some(why) = unresolved {
                    self.unresolved.insert(row.module.clone(), why);
                }
                frames.into()
            }
        };
        self.frames.insert(site, Rc::clone(&frames));
        frames
    }

    /// The binaries whose lines or functions are not known, and what to do; none if all that were
    /// asked for are.
    pub fn note(&self) -> Option<String> {
        let is_ours = |(module, _): &(&String, &Unresolved)| !self.wrappers.is_library(module);
        let (split, without_lines): (Vec<_>, Vec<_>) = self
            .unresolved
            .iter()
            .filter(is_ours)
            .partition(|(_, why)| **why == Unresolved::WithoutFunctions);
        let notes = [note_on_lines(&without_lines), note_on_functions(&split), self.binaries.servers_note()];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        (!notes.is_empty()).then(|| notes.join(" "))
    }
}

/// Returns whether no rank made a call.
fn has_no_calls(view: &ProfileView) -> Result<bool> {
    let all = view.group(&CallFilter::default(), By { call: true, without_times: true, ..By::default() })?;
    Ok(all.cells.is_empty() && all.cut_off.is_none())
}

/// The binaries whose lines are not known, and how these can be had.
fn note_on_lines(modules: &[(&String, &Unresolved)]) -> Option<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, why) in modules {
        by_reason.entry(why.text()).or_default().push(frames::file_name(module));
    }
    let each: Vec<String> =
        by_reason.into_iter().map(|(why, names)| format!("{} ({why})", first_of(&names))).collect();
    let what_to_do = match modules.iter().any(|(_, why)| why.is_for_debug_files()) {
        true => format!(
            "Build with -g, install the debug symbols of the package (NAME-dbgsym, NAME-dbg or NAME-debuginfo), name a folder that has \
             them by {DEBUG_DIRS}=DIR, or where DEBUGINFOD_URLS is set use mpisee-through sites --resolve --debuginfod."
        ),
        false => format!("{DEBUG_DIRS}=DIR names a folder that has it as it ran."),
    };
    (!each.is_empty()).then(|| format!("No lines are known of {}. {what_to_do}", each.join(", ")))
}

/// Names of binaries in a note at most: a program that compiles as it runs may have thousands.
const MOST_NAMES: usize = 8;

/// `a, b and 5 more`.
fn first_of(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let first = names[..names.len() - more].join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// The binaries of which lines are known, but not the functions that these are of.
fn note_on_functions(modules: &[(&String, &Unresolved)]) -> Option<String> {
    let each: Vec<&str> = modules.iter().map(|(module, _)| frames::file_name(module)).collect();
    (!each.is_empty()).then(|| {
        format!(
            "The functions of {} are described in files that are missing here (.dwo of -gsplit-dwarf, or the common one of dwz): a line may be of a function that \
             was inlined into the one beside it.",
            first_of(&each)
        )
    })
}
