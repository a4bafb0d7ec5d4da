//! `sites`: the places in the program that call MPI.

mod linked;
mod resolve;
mod rows;
mod source;
mod waiting;

use super::Outcome;
use crate::filter::CallFilter;
use crate::next_step;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::sheet::{Answer, Sheet, Shown, Value};
use crate::sites::{How, PlaceSum, SiteArgs, Sites, need_frames, place_sums, share_of_time, without_place};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use rows::Families;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through sites app.mpisee                            where in the program the MPI time goes
  mpisee-through sites app.mpisee --call 'wait*'             places that wait for messages
  mpisee-through sites app.mpisee --annotate                 with lines of source around each
  mpisee-through sites app.mpisee --skip-frames 'Comm::*'    callers of the program's own wrappers
  mpisee-through sites app.mpisee --resolve                  keeps lines in the profile
  mpisee-through sites app.mpisee --format csv -o sites.csv";

/// Call sites: function and line of MPI calls, with their time
///
/// A row is an operation at a place: function and line, with the functions into which it is inlined
/// (inner < outer). Calls by libraries such as HDF5, PETSc and mpi4py are shown at their caller,
/// with the library in parentheses. --skip-frames and the file in MPISEE_SKIP_FRAMES add functions
/// and libraries. Without a recorded path, as for short calls, the library's function is shown,
/// with (caller not known).
///
/// Mean/rank and Max/rank are the time of a rank, over all ranks of the run or those of --ranks. A
/// rank without such calls counts as 0 s. % of MPI is Mean/rank relative to the mean MPI time of
/// these ranks. Per call is the mean time of a call, Longest call that of any rank. Waiting and
/// Transfer are parts of Mean/rank, shown if one place makes all calls of the operation on these
/// communicators.
///
/// Lines need debug information. See docs/how-to/slow-line.md for the places that are searched,
/// such as the folders of MPISEE_DEBUGINFO.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SitesArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Order, largest first; name is ascending (default: time; volume for processes without MPI)
    #[arg(long, value_name = "KEY", value_enum)]
    sort: Option<SortKey>,

    /// Show the lines of source around each call
    #[arg(long)]
    annotate: bool,

    /// Search sources and binaries below DIR first; repeatable
    #[arg(long, value_name = "DIR")]
    source: Vec<PathBuf>,

    /// Write functions, files and lines into the profile's sites.csv, for use on other machines
    #[arg(long)]
    resolve: bool,

    #[command(flatten)]
    sites: SiteArgs,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Time,
    /// Time of the slowest rank
    Max,
    Volume,
    Calls,
    /// Longest call
    Longest,
    Name,
}

/// Runs the command.
pub fn run(args: &SitesArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let mut answer = SitesAnswer::from_view(args, &view)?.answer;
    if !args.resolve {
        answer.next = next_step::line(view.profile(), "paths", "which call paths lead to slow calls");
    }
    answer.write(&args.output)
}

/// The answer of the command, and the sums that its rows are of.
pub struct SitesAnswer {
    pub answer: Answer,
    /// In the order of all rows; a table may show the first ones only.
    pub sums: Vec<PlaceSum>,
}

impl SitesAnswer {
    /// Of the profile.
    ///
    /// # Errors
    /// As [`need_frames`], [`Sites::needed`] and [`place_sums`].
    pub fn from_view(args: &SitesArgs, view: &ProfileView) -> Result<Self> {
        let is_table = args.output.format() == Format::Table;
        if args.annotate && !is_table {
            bail!(
                "--annotate adds lines of source to a table, and CSV and JSON have none: leave one of them out"
            );
        }
        need_frames([view], &args.sites, &args.source)?;
        let mut sites = Sites::needed(view, &args.sites, &args.source)?;
        let resolved = args.resolve.then(|| resolve::write(view, &mut sites)).transpose()?;
        let filter = view.with_times_as_operations(&args.filter)?;
        let mut found = place_sums(view, &mut sites, &filter)?;
        no_match::need_operation(view, &args.filter, found.sums.is_empty())?;
        // The time of NCCL's calls is the host's alone.
        let by_default = if view.run().is_without_mpi() { SortKey::Volume } else { SortKey::Time };
        sort(&mut found.sums, args.sort.unwrap_or(by_default));
        let waiting = waiting::sum(view, &args.filter, &found)?;
        let families = Families::from_view(view);
        let row = |sum: &PlaceSum| rows::row(sum, view, &args.filter, &families, &waiting, is_table);
        let mut rows: Vec<Vec<Value>> = found.sums.iter().map(row).collect();
        let mut closing = args.shown.cut(&args.output, &mut rows, args.filter.nothing());
        let shown = &found.sums[..rows.len()];
        let mut notes = notes(&found.sums, &sites, &filter);
        let on_comms = shown.iter().map(|sum| (sum.call.as_str(), sum.comms.len()));
        notes.extend(view.note_on_calls(&filter, on_comms)?);
        closing.extend(notes.iter().map(|note| format!("{note}\n")));
        closing.extend(resolved);
        let is_of_mpi = !view.run().is_without_mpi();
        let mut sheet = Sheet { name: "sites", heads: rows::heads(is_table, is_of_mpi), rows };
        if is_table {
            sheet.keep_columns(|name, is_empty| {
                let is_needed = is_of_mpi || name != rows::SHARE_OF_MPI;
                is_needed && (!is_empty || !rows::ONLY_IF_MEASURED.contains(&name))
            });
        }
        let of_nccl = view.note_on_nccl_times(shown.iter().map(|sum| sum.call.as_str()));
        let mut answer = Answer::new(view.profile(), sheet, found.cut_off);
        answer.caveats.extend(of_nccl);
        if args.annotate {
            let sources = source::text(shown, view, &args.source, args.output.page());
            closing = format!("{sources}{closing}");
        }
        answer.closing = closing;
        answer.values = vec![("notes", Value::Text(notes.join(" ")))];
        Ok(SitesAnswer { answer, sums: found.sums })
    }
}

fn sort(sums: &mut [PlaceSum], key: SortKey) {
    sums.sort_by(|left, right| {
        let (one, other) = (&left.cell, &right.cell);
        let order = match key {
            SortKey::Time => other.time_ns.cmp(&one.time_ns),
            SortKey::Max => other.ranks.most_ns().cmp(&one.ranks.most_ns()),
            SortKey::Volume => volume(right).cmp(&volume(left)),
            SortKey::Calls => other.calls.cmp(&one.calls),
            SortKey::Longest => longest_ns(right).cmp(&longest_ns(left)),
            SortKey::Name => std::cmp::Ordering::Equal,
        };
        order.then_with(|| natural_order(&text(left), &text(right))).then_with(|| left.call.cmp(&right.call))
    });
}

fn longest_ns(sum: &PlaceSum) -> u64 {
    if sum.is_whole { sum.cell.max_ns } else { 0 }
}

fn volume(sum: &PlaceSum) -> u64 {
    if sum.is_whole { sum.cell.bytes } else { 0 }
}

/// The place for reading.
fn text(sum: &PlaceSum) -> String {
    sum.place.as_ref().map_or_else(|| rows::UNKNOWN.to_owned(), |place| place.text())
}

/// Notes on the places: which were chosen how, how much is at none, and where lines are missing.
pub fn notes(sums: &[PlaceSum], sites: &Sites, filter: &CallFilter) -> Vec<String> {
    let share = |is_it: &dyn Fn(&PlaceSum) -> bool| share_of_time(sums, is_it);
    let how = |sum: &PlaceSum| sum.place.as_ref().map(|place| place.how.clone());
    let outside = share(&|sum| matches!(how(sum), Some(How::Outside(_))));
    let inside = share(&|sum| how(sum) == Some(How::InWrapper));
    let skipped = share(&|sum| how(sum) == Some(How::AllSkipped));
    let mut notes = Vec::new();
    let of_wrappers = "of this time, in libraries or functions that call MPI for others, the caller is";
    // An inlined wrapper is looked past without a path.
    let needs_paths = |sum: &PlaceSum| !sum.is_whole && matches!(how(sum), Some(How::Outside(_)));
    let of_paths = match sums.iter().any(needs_paths) {
        true => ", with the calls whose path was taken; how many others it made is not known",
        false => "",
    };
    notes.extend(outside.map(|outside| format!("Of {outside} {of_wrappers} shown{of_paths}.")));
    let why_not = match filter.names_parts_of_operations() {
        true => "since paths have no regions, sizes and kinds of memory",
        false => {
            "since the path was not taken (the call was too short, or walks had used up their 2 % of the time of slow calls) or ends in \
             the library"
        }
    };
    notes.extend(inside.map(|inside| {
        format!("Of {inside} {of_wrappers} not known, {why_not}: the innermost function is shown.")
    }));
    notes.extend(skipped.map(|skipped| {
        format!(
            "Of {skipped} of this time all functions on the path are skipped: the innermost function is shown."
        )
    }));
    notes.extend(linked::note(sums));
    notes.extend(without_place(sums));
    notes.extend(sites.note());
    notes
}
