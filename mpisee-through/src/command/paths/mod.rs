//! `paths`: the call paths that lead to MPI calls that took long.

mod folded;
mod tree;

use super::Outcome;
use crate::debug_info::BETWEEN;
use crate::filter::{CallFilter, CallPattern, CommFilter};
use crate::group::{By, seconds};
use crate::no_match;
use crate::output::{Format, OutputArgs, is_stdout, write_file};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::sites::{PathSum, SiteArgs, SiteFrame, Sites, need_frames, path_sums};
use crate::units::time;
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use mpisee_profile::PathId;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::segment::log::{MOST_PATH_FRAMES, MOST_PATH_LINES};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through paths app.mpisee                          the ten paths with most time, as a tree
  mpisee-through paths app.mpisee --call allreduce --all   all paths to MPI_Allreduce
  mpisee-through paths app.mpisee --folded app.folded      for flame graphs (inferno-flamegraph)
  mpisee-through paths app.mpisee --format csv             a row for each path";

/// Call paths that lead to MPI calls; flame graphs
///
/// Only calls that take much longer than walking the stack have a path. The first line says how
/// much of the MPI time is on paths. Other calls have only a call site (mpisee-through sites). Time
/// and Calls are sums over ranks. % of MPI is relative to all calls that the filters choose, with
/// or without path.
///
/// --folded writes a line for each path, for flame graphs: outer;inner;MPI_Wait 12345, in
/// microseconds over all ranks. Calls without a path are below '(no path)', so the graph has all of
/// the MPI time. --skip-frames and the file in MPISEE_SKIP_FRAMES leave out functions, or those of
/// a library. See docs/how-to/slow-line.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PathsArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Write the paths to FILE as folded stacks, instead of the tree; - is standard output
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// Search binaries below DIR first; repeatable
    #[arg(long, value_name = "DIR")]
    source: Vec<PathBuf>,

    #[command(flatten)]
    sites: SiteArgs,

    #[command(flatten)]
    comms: CommFilter,

    /// Only operations whose name matches, with or without MPI_, in any case; * is any text, ? any
    /// character; repeatable (default: all)
    #[arg(long, value_name = "GLOB")]
    call: Vec<CallPattern>,

    #[command(flatten)]
    output: OutputArgs,
}

/// The calls of an operation on a path.
#[derive(Debug)]
pub struct OnPath {
    path: PathId,
    pub call: String,
    /// The functions from the outermost on.
    pub frames: Vec<SiteFrame>,
    calls: u64,
    time_ns: u128,
    /// Calls and nanoseconds by communicator.
    pub comms: BTreeMap<String, (u64, u128)>,
}

/// Time in MPI in nanoseconds, over all ranks.
#[derive(Clone, Copy, Debug)]
struct Times {
    all: u128,
    on_paths: u128,
}

/// A sentence on how much of a time is on paths.
fn sentence(times: Times, what: &str) -> String {
    format!(
        "Paths are known of {} of {what}, {:.1} %; {} were in calls whose path was not taken.\n",
        time(seconds(times.on_paths)),
        100.0 * times.share(times.on_paths),
        time(seconds(times.not_on_paths()))
    )
}

impl Times {
    /// A part of the time in MPI.
    fn share(self, time_ns: u128) -> f64 {
        time_ns as f64 / self.all.max(1) as f64
    }

    /// The same of an operation; calls of NCCL have no part in it.
    fn share_of(self, call: &str, time_ns: u128) -> Value {
        if is_nccl(call) { Value::Nothing } else { Value::Share(self.share(time_ns)) }
    }

    fn not_on_paths(self) -> u128 {
        self.all.saturating_sub(self.on_paths)
    }
}

/// Runs the command.
pub fn run(args: &PathsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    PathsAnswer::from_view(args, &view)?.answer.write(&args.output)
}

/// The answer of the command, and the paths that its rows are of.
pub struct PathsAnswer {
    pub answer: Answer,
    pub paths: Vec<OnPath>,
}

impl PathsAnswer {
    /// Of the profile.
    ///
    /// # Errors
    /// As [`need_frames`], [`Sites::needed`] and [`path_sums`].
    pub fn from_view(args: &PathsArgs, view: &ProfileView) -> Result<Self> {
        need_frames([view], &args.sites, &args.source)?;
        let mut sites = Sites::needed(view, &args.sites, &args.source)?;
        let filter = CallFilter::of_calls(args.comms.clone(), &args.call);
        let mut groups = view.group(&filter, By { call: true, without_times: true, ..By::default() })?;
        no_match::need_operation(view, &filter, groups.cells.is_empty())?;
        let sums = path_sums(view, &filter)?;
        let times_of = |of_nccl: bool| {
            let is_of = |call: &str| is_nccl(call) == of_nccl;
            let all = groups.cells.iter().filter(|(key, _)| is_of(groups.call(key)));
            let on_paths = sums.iter().filter(|sum| is_of(&sum.call));
            Times {
                all: all.map(|(_, cell)| cell.time_ns).sum(),
                on_paths: on_paths.map(|sum| u128::from(sum.time_ns)).sum(),
            }
        };
        let times = times_of(false);
        let lead = match view.run().is_without_mpi() {
            true => sentence(times_of(true), "the time in calls of NCCL"),
            false => sentence(times, "the MPI time"),
        };
        if let Some(file) = &args.folded {
            let text = folded::text(view, &mut sites, &filter, &sums)?;
            write_file(file, text.as_bytes())?;
        }
        let mut paths = on_paths(sums, &mut sites);
        let shown = paths.len().min(args.shown.limit(&args.output));
        let left_out = &paths[shown..];
        let closing = closing(paths.is_empty(), left_out);
        let mut sheet = match args.output.format() {
            Format::Table if args.folded.is_some() => {
                Sheet { name: "paths", heads: Vec::new(), rows: Vec::new() }
            }
            Format::Table => tree::sheet(&paths, shown, times),
            Format::Csv | Format::Json => rows(&paths[..shown], times),
        };
        if args.output.format() == Format::Table && view.run().is_without_mpi() {
            sheet.keep_columns(|name, _| name != "share_of_mpi");
        }
        paths.truncate(shown);
        let mut answer = Answer::new(view.profile(), sheet, groups.cut_off.take());
        answer.lead = lead;
        let mut notes = Vec::from_iter(sites.note());
        notes.extend(view.note_on_nccl_times(groups.cells.iter().map(|(key, _)| groups.call(key))));
        if args.folded.is_none() {
            answer.closing = closing;
            let on_comms = paths.iter().map(|path| (path.call.as_str(), path.comms.len()));
            notes.extend(view.note_on_calls(&filter, on_comms)?);
        }
        answer.closing.extend(notes.iter().map(|note| format!("{note}\n")));
        if args.folded.as_deref().is_some_and(is_stdout) {
            // Who reads the stacks there wants nothing else.
            eprint!("{}{}", std::mem::take(&mut answer.lead), std::mem::take(&mut answer.closing));
        }
        answer.values = vec![
            ("mpi_time_s", Value::Seconds(seconds(times.all))),
            ("on_paths_s", Value::Seconds(seconds(times.on_paths))),
            ("not_on_paths_s", Value::Seconds(seconds(times.not_on_paths()))),
            (
                "note",
                Some(notes.join(" ")).filter(|note| !note.is_empty()).map_or(Value::Nothing, Value::Text),
            ),
        ];
        Ok(PathsAnswer { answer, paths })
    }
}

fn closing(is_empty: bool, left_out: &[OnPath]) -> String {
    let paths = match left_out.len() {
        0 if is_empty => return "No path was taken: calls were too short, or the 2 % of their time that walking stacks may take were used up; mpisee-through sites has \
             the places of all calls.\n".to_owned(),
        0 => return String::new(),
        1 => "1 more path is".to_owned(),
        count => format!("{count} more paths are"),
    };
    let left_out_ns: u128 = left_out.iter().map(|path| path.time_ns).sum();
    format!(
        "{paths} left out, of {}, which the functions above include where they are on them; --all shows all, --top N the N with most time.\n",
        time(seconds(left_out_ns))
    )
}

/// The operations of each path, most time first.
fn on_paths(sums: Vec<PathSum>, sites: &mut Sites) -> Vec<OnPath> {
    let mut by_path: BTreeMap<(PathId, String), BTreeMap<String, (u64, u128)>> = BTreeMap::new();
    for sum in sums {
        let comms = by_path.entry((sum.path, sum.call)).or_default();
        let (calls, time_ns) = comms.entry(sum.comm).or_default();
        *calls = calls.saturating_add(sum.calls);
        *time_ns += u128::from(sum.time_ns);
    }
    let on_path = |((path, call), comms): (_, BTreeMap<String, (u64, u128)>)| OnPath {
        path,
        call,
        frames: frames(path, sites),
        calls: comms.values().fold(0, |sum, (calls, _)| sum.saturating_add(*calls)),
        time_ns: comms.values().map(|(_, time_ns)| time_ns).sum(),
        comms,
    };
    let mut paths: Vec<OnPath> = by_path.into_iter().map(on_path).collect();
    paths.sort_by(|one, other| other.time_ns.cmp(&one.time_ns).then(one.path.cmp(&other.path)));
    paths
}

/// The functions of a path from the outermost on, which is `main` where that is on it; else what
/// the C library calls.
fn frames(path: PathId, sites: &mut Sites) -> Vec<SiteFrame> {
    let mut frames = Vec::new();
    let mut has_main = false;
    let stack = sites.stack(path).to_vec();
    let mut lines = 0;
    'sites: for &site in &stack {
        for frame in sites.frames(site).iter() {
            lines += usize::from(frame.is_of_interpreter());
            if !sites.is_skipped(site, frame) {
                frames.push(frame.clone());
            }
            // Not one of Python, which has the module around it.
            if frame.function == "main" && !frame.module.is_empty() {
                has_main = true;
                break 'sites;
            }
        }
    }
    if !has_main {
        let outermost = stack.last().and_then(|&site| sites.frames(site).last().cloned());
        let is_cut_off = is_cut_off(stack.len() - lines, lines, outermost.as_ref());
        end(&mut frames, is_cut_off);
    }
    frames.reverse();
    frames
}

/// Stands for the functions of a stack that is deeper than what is kept of it.
const NOT_KEPT: &str = "(outer functions not kept)";
/// Return addresses in MPI's bindings at most, which the recorder has taken off a path.
const MOST_IN_BINDINGS: usize = 4;

/// Returns whether a stack may have been deeper: it has as many return addresses as are kept, or
/// lines of Python without its outermost function.
fn is_cut_off(addresses: usize, lines: usize, outermost: Option<&SiteFrame>) -> bool {
    match lines {
        0 => addresses + MOST_IN_BINDINGS >= MOST_PATH_FRAMES,
        _ => lines >= MOST_PATH_LINES && outermost.is_none_or(|frame| frame.function != "<module>"),
    }
}

/// Ends functions from the innermost on, without `main`, before those that start the program or a
/// thread. Where these are not on a stack that is cut off, others are missing.
fn end(frames: &mut Vec<SiteFrame>, is_cut_off: bool) {
    let kept = without_start(frames);
    if kept < frames.len() {
        frames.truncate(kept);
    } else if is_cut_off {
        frames.push(SiteFrame::of_name(NOT_KEPT));
    }
}

/// The functions of the C library, and `_start`, below which that calls `main`.
const MOST_OF_START: usize = 4;

/// The number of functions up to those that start the program, or a thread, of functions from the
/// innermost on.
fn without_start(frames: &[SiteFrame]) -> usize {
    let first = frames.len().saturating_sub(MOST_OF_START).max(1);
    let is_start = |frame: &SiteFrame| frame.module.starts_with("libc.so") || frame.function == "_start";
    let outermost = frames.iter().enumerate().skip(first);
    outermost.filter(|(_, frame)| is_start(frame)).map(|(place, _)| place).next().unwrap_or(frames.len())
}

const HEADS: [Head; 6] = [
    sheet::fixed("path", "Path"),
    sheet::fixed("call", "CALL"),
    sheet::number("calls", "Calls"),
    sheet::number("time_s", "Time sum"),
    sheet::number("share_of_mpi", "% of MPI"),
    sheet::fixed("frames", "Frames"),
];

fn rows(paths: &[OnPath], times: Times) -> Sheet {
    let row = |of: &OnPath| {
        let frames: Vec<String> = of.frames.iter().rev().map(SiteFrame::text).collect();
        vec![
            Value::Text(of.path.to_string()),
            of.call.as_str().into(),
            Value::Count(of.calls),
            Value::Seconds(seconds(of.time_ns)),
            times.share_of(&of.call, of.time_ns),
            Value::Text(frames.join(BETWEEN)),
        ]
    };
    Sheet { name: "paths", heads: HEADS.to_vec(), rows: paths.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_of_as_many_frames_as_are_kept_has_others_around_it() {
        let of_binary = |function: &str| SiteFrame { module: "app".into(), ..SiteFrame::of_name(function) };
        assert!(is_cut_off(MOST_PATH_FRAMES, 0, Some(&of_binary("down"))));
        assert!(!is_cut_off(MOST_PATH_FRAMES / 2, 0, Some(&of_binary("down"))));
        assert!(is_cut_off(3, MOST_PATH_LINES, Some(&SiteFrame::of_name("down"))));
        assert!(!is_cut_off(3, MOST_PATH_LINES, Some(&SiteFrame::of_name("<module>"))));
        assert!(!is_cut_off(3, MOST_PATH_LINES - 1, Some(&SiteFrame::of_name("down"))));
        let ended = |outermost: SiteFrame, is_cut_off: bool| {
            let mut frames = vec![of_binary("wait"), of_binary("down"), of_binary("down"), outermost];
            end(&mut frames, is_cut_off);
            frames.last().map(SiteFrame::text)
        };
        assert_eq!(ended(of_binary("solve"), true), Some(NOT_KEPT.to_owned()));
        assert_eq!(ended(of_binary("solve"), false), Some("solve in app".to_owned()));
        assert_eq!(ended(of_binary("_start"), true), Some("down in app".to_owned()));
    }

    #[test]
    fn outer_functions_that_are_not_kept_are_the_root_of_the_tree() {
        let on_path = |functions: &[&str], time_ns: u128| OnPath {
            path: PathId::new([]),
            call: "MPI_Barrier".to_owned(),
            frames: functions.iter().map(|&function| SiteFrame::of_name(function)).collect(),
            calls: 1,
            time_ns,
            comms: BTreeMap::new(),
        };
        let paths = [on_path(&["main", "down"], 3), on_path(&[NOT_KEPT, "down"], 2)];
        let sheet = tree::sheet(&paths, paths.len(), Times { all: 5, on_paths: 5 });
        let functions: Vec<&Value> = sheet.rows.iter().filter_map(|row| row.last()).collect();
        let expected = ["main", "└─ down", "   └─ MPI_Barrier", NOT_KEPT, "└─ down", "   └─ MPI_Barrier"];
        assert_eq!(functions, expected.map(Value::from).each_ref());
    }

    #[test]
    fn what_starts_the_program_is_no_part_of_a_path() {
        let frame = |(function, module): (&str, &str)| SiteFrame {
            function: function.to_owned(),
            file: String::new(),
            line: None,
            module: module.to_owned(),
            offset: 7,
        };
        let kept =
            |frames: &[(&str, &str)]| without_start(&frames.iter().copied().map(frame).collect::<Vec<_>>());
        let start = [("", "libc.so.6"), ("__libc_start_main", "libc.so.6"), ("_start", "app")];
        assert_eq!(kept(&[&[("", "app"), ("", "app")][..], &start].concat()), 2);
        assert_eq!(
            kept(&[&[("", "app"), ("qsort", "libc.so.6"), ("", "app"), ("", "app")][..], &start].concat()),
            4
        );
        assert_eq!(kept(&[("work", "app"), ("start_thread", "libc.so.6"), ("", "libc.so.6")]), 1);
        assert_eq!(kept(&[("", "app"), ("", "app")]), 2);
        assert_eq!(kept(&[("", "libc.so.6")]), 1);
    }
}
