//! `summary`: the run, then per communicator its operations, as in Fig. 6 of the mpisee paper.

mod render;
mod run;

use super::Outcome;
use crate::filter::CallFilter;
use crate::matched;
use crate::operation_sums::{self, CommSum, OperationSum};
use crate::output::{Format, OutputArgs};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::Result;
use clap::{Args, ValueEnum};
use run::RunSummary;
use std::cmp::{Ordering, Reverse};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through summary app.mpisee                           the ten busiest communicators
  mpisee-through summary app.mpisee --all --sort volume       all of them, by bytes
  mpisee-through summary app.mpisee --comm 'W_s2.*' --call 'All*'
  mpisee-through summary app.mpisee --kind p2p --size 64k-    large point-to-point messages
  mpisee-through summary app.mpisee --format csv -o app.csv   every row, for other programs";

/// The run, and per communicator its operations: time, volume, calls.
///
/// Mean, Min and Max are over the members of the communicator that have a profile; a member that
/// did not use the operation counts as 0 s. Volume and #Calls are sums over ranks.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SummaryArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// Show N communicators (default: 10 in a table, all in csv and json)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all communicators (default: see --top)
    #[arg(long)]
    all: bool,

    /// Order of communicators and of operations in them, largest first; size is the communicator's
    /// and leaves operations by time, name is ascending
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Time)]
    sort: SortKey,

    /// Volume in KiB, MiB, … in the table (default: exact bytes)
    #[arg(long)]
    human: bool,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Time,
    Volume,
    Calls,
    Size,
    Name,
}

/// What the command found, for any format.
struct Summary<'a> {
    run: RunSummary<'a>,
    /// The communicators to show, in order.
    comms: &'a [CommSum<'a>],
    /// The communicators after those.
    left_out: &'a [CommSum<'a>],
    /// Why `calls.csv` was read in part only.
    partial_because: Option<String>,
    /// Whether a filter is on.
    filtered: bool,
}

/// Runs the command. A profile that breaks off is shown as far as it goes, and is an error after that.
pub fn run(args: &SummaryArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let mut sums = operation_sums::sums(&view, &args.filter)?;
    if sums.cut_off.is_none() {
        matched::need_operation(&view, &args.filter, sums.comms.is_empty())?;
    }
    sort(&mut sums.comms, args.sort);
    let shown = args.output.limit(args.top, args.all).min(sums.comms.len());
    let (comms, left_out) = sums.comms.split_at(shown);
    let summary = Summary {
        run: RunSummary::new(&view),
        comms,
        left_out,
        partial_because: sums.cut_off.as_ref().map(ToString::to_string),
        filtered: args.filter.is_on(),
    };
    let text = match args.output.format() {
        Format::Table => render::table(&summary, args.output.page(), args.human).into_bytes(),
        Format::Csv => render::csv(&summary)?,
        Format::Json => render::json(&summary)?,
    };
    args.output.write(&text)?;
    match sums.cut_off {
        Some(error) => Err(error.into()),
        None => Ok(Outcome::Done),
    }
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
        SortKey::Time | SortKey::Size => right.time_s.total_cmp(&left.time_s),
        SortKey::Volume => right.bytes.cmp(&left.bytes),
        SortKey::Calls => right.calls.cmp(&left.calls),
        SortKey::Name => Ordering::Equal,
    }
}

fn by_comm(key: SortKey, left: &CommSum, right: &CommSum) -> Ordering {
    match key {
        SortKey::Time => right.time_s.total_cmp(&left.time_s),
        SortKey::Volume => right.bytes.cmp(&left.bytes),
        SortKey::Calls => right.calls.cmp(&left.calls),
        SortKey::Size => {
            let size = |comm: &CommSum| Reverse(comm.row.map(|row| row.size));
            size(left).cmp(&size(right)).then_with(|| right.time_s.total_cmp(&left.time_s))
        }
        SortKey::Name => Ordering::Equal,
    }
}
