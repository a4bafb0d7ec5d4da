//! `mpisee-bench tune`: chooses the algorithms of an MPI for what a profile has, by runs of the
//! replay in turn.
//!
//! `knobs` are what can be chosen, as the MPI itself reports it; `runner` starts runs under a
//! choice; `search` finds the choices that seem better than none, and confirms them in fresh runs
//! of exactly the files that are written. `rules` has Open MPI's files, `selection` MPICH's,
//! `program` the program's own runs, `output` what people and programs read.

pub mod difference;
mod interrupt;
mod knobs;
mod output;
mod program;
mod rules;
mod runner;
mod search;
pub mod selection;

use crate::cli::Settings;
use crate::output::Format;
use crate::replay::{self, Item, Plan};
use crate::trial::Trial;
use clap::Args;
use difference::LEAST_PAIRS;
use knobs::collective;
use mpisee_profile::Profile;
use output::Outcome;
use runner::{Change, FIRST_LIMIT, Runner};
use search::{Chosen, Search, progress};
use selection::Tree;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The settings of tuning.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Profile NAME.mpisee of a run on as many ranks as the launcher starts
    profile: PathBuf,

    /// Runs of each algorithm, and pairs of runs that confirm a choice; at least 6
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(i64::from(LEAST_PAIRS)..))]
    rounds: u32,

    /// Part of the time in collectives to tune
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=100))]
    share: u32,

    /// Shell command to measure without and with the result
    #[arg(long, value_name = "COMMAND")]
    program: Option<String>,

    /// Pairs of runs of the program; at least 6
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(i64::from(LEAST_PAIRS)..))]
    pairs: u32,

    /// Launcher with its options, such as `mpirun -n 16`
    #[arg(last = true, required = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

/// Operations that are tuned at the most.
const MOST_ITEMS: usize = 16;

/// Tunes, writes files and returns what to print.
pub fn run(args: &TuneArgs, settings: &Settings) -> Result<String, String> {
    if settings.format() == Format::Csv {
        return Err("tune prints a table or, with --format json, JSON; there is no CSV of it".to_owned());
    }
    let profile = Profile::open(&args.profile).map_err(|error| error.to_string())?;
    let plan = replay::plan(&profile)?;
    let items = costly(&plan, args.share);
    if items.is_empty() {
        return Err(format!(
            "'{}' has no collective operations that take a hundredth of the time in communication, so there is nothing to tune",
            args.profile.display()
        ));
    }
    check_environment(std::env::var_os(selection::FILE))?;
    let output = output_name(args, settings)?;
    interrupt::notice();
    let folder = Folder::new(&output)?;
    let rules = output.with_extension_added("rules");
    let outcome = tune(args, settings, &plan, items, &folder.0, &rules)?;
    let file = output.with_extension_added("env");
    // An earlier result, which may be in use, stays as it is until there is another one; the
    // variables come last, since they name the rules.
    if outcome.is_kept() {
        if let Some((path, text)) = &outcome.change.rules {
            replace(path, text, &folder)?;
        }
        replace(&file, &outcome.change.shell(), &folder)?;
    }
    let text = match settings.format() {
        Format::Json => outcome.json(&file),
        _ => outcome.text(&file),
    };
    if outcome.is_interrupted {
        // What took long to measure is shown all the same.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Err(outcome.interruption().to_owned());
    }
    Ok(text)
}

/// Fails where the environment names a selection file that does not exist: MPICH's programs crash
/// then.
fn check_environment(selection: Option<OsString>) -> Result<(), String> {
    match selection.map(PathBuf::from).filter(|path| !path.as_os_str().is_empty() && !path.exists()) {
        Some(path) => Err(format!(
            "{}={} is in the environment, and there is no such file; take it out first (unset {})",
            selection::FILE,
            path.display(),
            selection::FILE
        )),
        None => Ok(()),
    }
}

/// Writes a file in one step, from a folder beside it.
fn replace(path: &Path, text: &str, folder: &Folder) -> Result<(), String> {
    let fresh = folder.0.join("fresh");
    std::fs::write(&fresh, text)
        .and_then(|()| std::fs::rename(&fresh, path))
        .map_err(|why| format!("writing {}: {why}", path.display()))
}

/// The operations that take the share of the time in collectives, the most costly first.
fn costly(plan: &Plan, share: u32) -> Vec<Item> {
    let all: Vec<&Item> = plan.items.iter().filter(|item| collective(item).is_some()).collect();
    let wanted_s = all.iter().map(|item| item.time_s).sum::<f64>() * f64::from(share) / 100.0;
    let mut items = Vec::new();
    let mut covered_s = 0.0;
    for item in all.into_iter().take(MOST_ITEMS) {
        if covered_s >= wanted_s {
            break;
        }
        covered_s += item.time_s;
        items.push(item.clone());
    }
    items
}

/// The begin of the names of files: absolute, since Open MPI's ranks may be in other folders.
struct Name(PathBuf);

impl Name {
    fn with_extension_added(&self, extension: &str) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

fn output_name(args: &TuneArgs, settings: &Settings) -> Result<Name, String> {
    let own = || {
        let stem = args.profile.file_stem().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("{stem}.tuned"))
    };
    let name = settings.output.clone().unwrap_or_else(own);
    let absolute = std::path::absolute(&name).map_err(|why| format!("{}: {why}", name.display()))?;
    Ok(Name(absolute))
}

/// A folder for the files of runs, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    /// Beside the output, since ranks on other nodes may see nothing of `/tmp`.
    fn new(output: &Name) -> Result<Folder, String> {
        let path = output.with_extension_added(&format!("{}.tmp", std::process::id()));
        std::fs::create_dir(&path).map_err(|why| format!("creating {}: {why}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tune(
    args: &TuneArgs,
    settings: &Settings,
    plan: &Plan,
    items: Vec<Item>,
    folder: &Path,
    rules: &Path,
) -> Result<Outcome, String> {
    let trial = Trial {
        ranks: plan.ranks,
        items,
        variables: knobs::variables(),
        files: Vec::new(),
        wants_selection: false,
    };
    let runner = Runner { launcher: &args.launcher, settings, folder: folder.to_owned(), limit: FIRST_LIMIT };
    // Runs never write where an earlier result is.
    let trial_rules = folder.join("rules");
    let mut search = Search::new(runner, trial, &trial_rules);
    let report = search.begin()?;
    search.selection = report.selection.as_deref().and_then(Tree::parse);
    search.knobs = knobs::knobs(&report, &search.trial.items, search.selection.as_ref())?;
    if search.knobs.is_empty() {
        return Err(format!("{} offers no choice of algorithms for what costs most", report.setting));
    }
    progress(&search.outlook(args.rounds));
    let tried = search.try_all(args.rounds)?;
    let (best, mut overlapped) = search.best(&tried);
    let mut confirmed = unless_interrupted(|| search.confirm(best, args.rounds))?.unwrap_or_default();
    if confirmed.is_empty() {
        let second = std::mem::take(&mut overlapped);
        confirmed = unless_interrupted(|| search.confirm(second, args.rounds))?.unwrap_or_default();
    }
    let chosen: Chosen = confirmed.iter().map(|(&knob, it)| (knob, it.choice)).collect();
    let tried_change = search.change(&chosen);
    let program = match &args.program {
        Some(command) if tried_change != Change::default() => {
            tried_change.write()?;
            unless_interrupted(|| program::measure(command, &tried_change, args.pairs, folder))?
        }
        _ => None,
    };
    // The same, with its file where it is kept.
    search.rules = rules;
    let change = search.change(&chosen);
    Ok(Outcome {
        setting: report.setting,
        ranks: plan.ranks,
        rounds: args.rounds,
        items: search.trial.items,
        knobs: search.knobs,
        tried,
        confirmed,
        overlapped,
        change,
        program,
        is_interrupted: interrupt::came(),
    })
}

/// A step of the search; none if a signal ended it, or came before.
fn unless_interrupted<T>(step: impl FnOnce() -> Result<T, String>) -> Result<Option<T>, String> {
    if interrupt::came() {
        return Ok(None);
    }
    match step() {
        Err(_) if interrupt::came() => Ok(None),
        done => done.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_file_that_is_gone_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tuned.rules");
        let said = check_environment(Some(path.clone().into_os_string())).unwrap_err();
        assert!(
            said.contains("app.tuned.rules") && said.contains("unset MPIR_CVAR_COLL_SELECTION"),
            "{said}"
        );
        std::fs::write(&path, "").unwrap();
        assert_eq!(check_environment(Some(path.into_os_string())), Ok(()));
        assert_eq!((check_environment(None), check_environment(Some(OsString::new()))), (Ok(()), Ok(())));
    }
}
