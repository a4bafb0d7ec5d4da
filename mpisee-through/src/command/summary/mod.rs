//! `summary`: the run, then per communicator its operations, as in Fig. 6 of the mpisee paper.

mod gpu_times;
pub mod outline;
mod render;
mod run;
mod table;

pub use run::RunSummary;

use super::Outcome;
use crate::command::advise;
use crate::family_rows::FamilyArgs;
use crate::filter::CallFilter;
use crate::next_step;
use crate::no_match;
use crate::operation_sums::{self, CommSum, OperationSum};
use crate::output::{Format, OutputArgs};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::Result;
use clap::{Args, ValueEnum};
use gpu_times::GpuTimes;
use std::cmp::{Ordering, Reverse};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through summary app.mpisee                           the ten busiest communicators
  mpisee-through summary app.mpisee --all --sort volume       everything, by bytes
  mpisee-through summary app.mpisee --each                    a row for each communicator
  mpisee-through summary app.mpisee --comm 'W_s2.*' --call 'All*'
  mpisee-through summary app.mpisee --kind p2p --size 64k-    large point-to-point messages
  mpisee-through summary app.mpisee --format csv -o app.csv   every row, for scripts";

/// The run, and time, bytes and calls per communicator and operation
///
/// Time sum, Volume (bytes) and Calls are sums over ranks. Mean/rank, Min/rank and Max/rank are the
/// time of a rank, over the members of the communicator that have a profile. A member without such
/// calls counts as 0 s. % of MPI is Time sum relative to the MPI time of all ranks or those of
/// --ranks, whatever the other filters.
///
/// A message is on the row of its send and on that of its receive. The Volume of a communicator has
/// it twice. A collective counts the rank's part of the least data that has to move. MPI_Waitall
/// counts as one call on each communicator of its requests. See docs/explanation/bytes-and-times.md
/// for the rules. Calls of NCCL have the time of the host. GPU time is that of the GPU, a mean over
/// ranks (`mpisee --nccl-gpu-time`).
///
/// In the table, like communicators share a row, such as W_s2.*. The times of those with least and
/// most are below. CSV and JSON have a row for each communicator.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SummaryArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Show N communicators (default: in a table the first 10 with 0.1 % of MPI time or more, all
    /// in CSV and JSON)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all communicators with all operations (default: see --top; in a table, operations below
    /// 0.1 % of MPI time share a line)
    #[arg(long)]
    all: bool,

    /// Order of communicators and of their operations, largest first; size sorts operations by
    /// time; name is ascending
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Time)]
    sort: SortKey,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// Rows below this share of the MPI time are shown with `--all` only.
const SMALL_SHARE: f64 = 0.001;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Time,
    Volume,
    Calls,
    Size,
    Name,
}

/// The result, for any format.
struct Summary<'a> {
    run: RunSummary<'a>,
    /// The communicators to show, in order.
    comms: &'a [CommSum<'a>],
    /// The communicators after those.
    left_out: &'a [CommSum<'a>],
    /// The MPI time of all chosen ranks.
    mpi_s: f64,
    /// The time of GPUs in calls of NCCL.
    gpu: GpuTimes,
    /// Notes on what times are of.
    notes: Vec<String>,
    /// True if operations of little time are shown.
    all: bool,
    /// Why `calls.csv` was read in part only.
    partial_because: Option<String>,
    /// True if a filter is on.
    filtered: bool,
    /// The first of the findings of `advise`, in a table of the whole run.
    first_finding: Option<String>,
    /// The line with the command to type next.
    next: String,
}

/// Runs the command. A profile that breaks off is shown as far as it goes, and is an error after
/// that.
pub fn run(args: &SummaryArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let with_families = args.families.are_on(&args.output);
    let mut sums = operation_sums::sums(&view, &args.filter, with_families)?;
    if sums.cut_off.is_none() {
        no_match::need_operation(&view, &args.filter, sums.comms.is_empty())?;
    }
    sort(&mut sums.comms, args.sort);
    let mpi_s = view.processes().chosen_mpi_s(&args.filter.comms);
    let shown = shown(args, &sums.comms, mpi_s);
    let (comms, left_out) = sums.comms.split_at(shown);
    let operations = comms.iter().flat_map(|comm| &comm.operations);
    let gpu = GpuTimes::read(&view, &args.filter)?;
    let on_nccl = view.note_on_nccl_times(operations.map(|operation| operation.call.as_str()));
    let on_nccl = on_nccl.into_iter().chain(gpu.note()).reduce(|one, other| one + " " + &other);
    let summary = Summary {
        notes: on_nccl.into_iter().chain(view.note_on_waits(&args.filter)).collect(),
        gpu,
        run: RunSummary::new(&view),
        comms,
        left_out,
        mpi_s,
        all: args.all,
        partial_because: sums.cut_off.as_ref().map(ToString::to_string),
        filtered: args.filter.is_on(),
        first_finding: first_finding(args, &view),
        next: next_step::line(view.profile(), "advise", "what costs most, and what to try"),
    };
    let text = match args.output.format() {
        Format::Table => table::table(&summary, args.output.page()).into_bytes(),
        Format::Csv => render::csv(&summary)?,
        Format::Json => render::json(&summary)?,
    };
    args.output.write(&text)?;
    match sums.cut_off {
        Some(error) => Err(error.into()),
        None => Ok(Outcome::Done),
    }
}

/// The first finding. Larger profiles take longer to judge than to sum up, and those that break off
/// have no findings.
fn first_finding(args: &SummaryArgs, view: &ProfileView) -> Option<String> {
    const MOST_BYTES: u64 = 64 << 20;
    let is_wanted = args.output.format() == Format::Table && !args.filter.is_on();
    let size = || -> std::io::Result<u64> {
        let files = view.profile().directory().read_dir()?;
        files.map(|file| Ok(file?.metadata()?.len())).sum()
    };
    if !is_wanted || size().is_ok_and(|bytes| bytes > MOST_BYTES) {
        return None;
    }
    advise::first(view).ok().flatten()
}

/// How many communicators to show.
fn shown(args: &SummaryArgs, comms: &[CommSum<'_>], mpi_s: f64) -> usize {
    let limit = args.output.limit(args.top, args.all).min(comms.len());
    let is_chosen = args.top.is_some() || args.all || args.filter.is_on() || args.sort != SortKey::Time;
    if is_chosen || args.output.format() != Format::Table {
        return limit;
    }
    let large = comms.iter().take_while(|comm| comm.sums.time_s >= SMALL_SHARE * mpi_s).count();
    limit.min(large.max(1))
}

fn sort(comms: &mut [CommSum<'_>], key: SortKey) {
    for comm in comms.iter_mut() {
        comm.operations.sort_by(|left, right| {
            by_operation(key, left, right).then_with(|| natural_order(&left.call, &right.call))
        });
    }
    comms.sort_by(|left, right| {
        by_comm(key, left, right).then_with(|| natural_order(&left.comm, &right.comm))
    });
}

fn by_operation(key: SortKey, left: &OperationSum, right: &OperationSum) -> Ordering {
    match key {
        SortKey::Time | SortKey::Size => right.sums.time_s.total_cmp(&left.sums.time_s),
        SortKey::Volume => right.sums.bytes.cmp(&left.sums.bytes),
        SortKey::Calls => right.sums.calls.cmp(&left.sums.calls),
        SortKey::Name => Ordering::Equal,
    }
}

fn by_comm(key: SortKey, left: &CommSum, right: &CommSum) -> Ordering {
    let by_time = || right.sums.time_s.total_cmp(&left.sums.time_s);
    match key {
        SortKey::Time => by_time(),
        SortKey::Volume => right.sums.bytes.cmp(&left.sums.bytes),
        SortKey::Calls => right.sums.calls.cmp(&left.sums.calls),
        SortKey::Size => {
            let size = |comm: &CommSum| {
                let rows = comm.family.iter().flat_map(|family| &family.rows);
                Reverse(rows.map(|row| row.size).max())
            };
            size(left).cmp(&size(right)).then_with(by_time)
        }
        SortKey::Name => Ordering::Equal,
    }
}
