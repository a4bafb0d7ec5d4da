//! `ops`: the operations, over all communicators.

use super::Outcome;
use crate::filter::{CallFilter, kind_name};
use crate::group::seconds;
use crate::next_step;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::several_comms;
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::units::natural_order;
use crate::view::{OperationOverComms, ProfileView};
use anyhow::Result;
use clap::{Args, ValueEnum};
use mpisee_profile::Operation;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::run::Lacking;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through ops app.mpisee                   where the MPI time goes, by operation
  mpisee-through ops app.mpisee --comm 'W_s2.*'   on some communicators
  mpisee-through ops app.mpisee --kind collective --sort calls
  mpisee-through ops app.mpisee --region 'solver*' --format csv";

/// Operations over all communicators: time, volume, calls
///
/// Mean/rank, Min/rank and Max/rank are the time of a rank, over all ranks of the run or those of
/// --ranks. A rank without such calls counts as 0 s. % of MPI is Mean/rank relative to the mean MPI
/// time of these ranks, whatever the other filters. Per call is the mean time of a call. Longest
/// call is that of any rank. Volume (bytes) and Calls are sums over ranks.
///
/// A message is on the row of its send and on that of its receive. MPI_Waitall and its kind count
/// as one call on each communicator of their requests, with a part of the time. The calls are then
/// more and shorter than those that the program made. A sentence below the table names such
/// operations. See docs/explanation/bytes-and-times.md for the rules.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OpsArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Order, largest first; name is ascending
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Time)]
    sort: SortKey,

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
    Name,
}

/// The column that tables of processes without MPI do not have.
const SHARE_OF_MPI: &str = "share_of_mpi";

const HEADS: [sheet::Head; 11] = [
    sheet::fixed("call", "CALL"),
    sheet::fixed("kind", "KIND").hidden_at(2),
    sheet::number("comms", "COMMS").hidden_at(0),
    sheet::number("mean_s", "Mean/rank"),
    sheet::number(SHARE_OF_MPI, "% of MPI").of_whole(),
    sheet::number("min_s", "Min/rank").hidden_at(1),
    sheet::number("max_s", "Max/rank").hidden_at(5),
    sheet::number("bytes", "Volume").hidden_at(6),
    sheet::number("calls", "Calls").hidden_at(7),
    sheet::number("per_call_s", "Per call").hidden_at(4),
    sheet::number("longest_s", "Longest call").hidden_at(3),
];

/// Runs the command.
pub fn run(args: &OpsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let (mut calls, cut_off) = view.operations(&args.filter)?;
    let ranks = view.processes().chosen(&args.filter.comms);
    calls.retain(|of| args.filter.takes_time(of.sum.ranks.most_ns().map(seconds)));
    calls.sort_by(|left, right| {
        let (one, other) = (&left.sum, &right.sum);
        let order = match args.sort {
            SortKey::Time => other.time_ns.cmp(&one.time_ns),
            SortKey::Volume => other.bytes.cmp(&one.bytes),
            SortKey::Calls => other.calls.cmp(&one.calls),
            SortKey::Name => std::cmp::Ordering::Equal,
        };
        order.then_with(|| natural_order(&left.call, &right.call))
    });
    let mpi_s = view.processes().chosen_mpi_s(&args.filter.comms);
    let mut rows: Vec<Vec<Value>> = calls.iter().map(|of| row(of, ranks, mpi_s)).collect();
    if view.run().lacks(Lacking::LongestCalls) {
        rows.iter_mut().filter_map(|row| row.last_mut()).for_each(|longest| *longest = Value::Nothing);
    }
    no_match::need_operation(&view, &args.filter, rows.is_empty())?;
    let mut closing = args.shown.cut(&args.output, &mut rows, args.filter.nothing());
    let shown = &calls[..rows.len()];
    let on_each = shown.iter().filter(|of| of.is_counted_on_each).map(|of| of.call.as_str());
    let note = several_comms::sentence(on_each);
    closing.extend(note.as_ref().map(|sentence| format!("{sentence}\n")));
    let of_nccl = view.note_on_nccl_times(shown.iter().map(|of| of.call.as_str()));
    let mut sheet = Sheet { name: "operations", heads: HEADS.to_vec(), rows };
    if args.output.format() == Format::Table && view.run().is_without_mpi() {
        sheet.keep_columns(|name, _| name != SHARE_OF_MPI);
    }
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    answer.caveats.extend(of_nccl);
    answer.caveats.extend(view.note_on_waits(&args.filter));
    answer.closing = closing;
    answer.next = next_step::line(view.profile(), "sizes", "how long the messages of each operation are");
    answer.values = vec![("note_on_calls", note.as_deref().map_or(Value::Nothing, Value::from))];
    answer.write(&args.output)
}

fn row(of: &OperationOverComms, ranks: u64, mpi_s: f64) -> Vec<Value> {
    let OperationOverComms { call, comms, sum: cell, .. } = of;
    let ranks = ranks.max(cell.ranks.ranks().unwrap_or(0));
    let known =
        |time_ns: Option<u64>| time_ns.map_or(Value::Nothing, |time_ns| Value::Seconds(seconds(time_ns)));
    vec![
        call.as_str().into(),
        Operation::from_name(call).map_or(Value::Nothing, |operation| kind_name(operation.kind()).into()),
        Value::Count(*comms),
        Value::Seconds(cell.time_s() / ranks as f64),
        // Calls of NCCL have no share of the time in MPI.
        if mpi_s > 0.0 && !is_nccl(call) { Value::Share(cell.time_s() / mpi_s) } else { Value::Nothing },
        known(cell.ranks.least_ns(ranks)),
        known(cell.ranks.most_ns()),
        Value::Bytes(cell.bytes),
        Value::Count(cell.calls),
        Value::Seconds(cell.time_s() / cell.calls.max(1) as f64),
        Value::Seconds(seconds(cell.max_ns)),
    ]
}
