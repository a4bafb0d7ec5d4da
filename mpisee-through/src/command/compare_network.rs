//! `compare-network`: what the program got of the network, beside what its communication gets
//! without the computation.

use super::Outcome;
use crate::beside_network::{Compared, Comparison};
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::view::ProfileView;
use crate::waits::Estimate;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 16 mpisee-bench --like app.mpisee               replays the communication of app.mpisee
  mpisee-through compare-network app.mpisee network.json    waiting, network, siblings, and the rest
  mpisee-through compare-network app.mpisee network.json --format csv";

/// A profile beside its replay: what is waiting, what is the network
///
/// Time is that of all ranks in the program. Waiting, Network, Siblings and Rest add up to it.
/// Waiting is for other ranks, from the samples of the run. Network is the replay with one
/// communicator at a time. Siblings is the extra time when the whole family communicates at once.
/// Rest is unexplained. Rate is the volume divided by the time without waiting, per rank. At once
/// and Alone are the rates of the replay.
///
/// Waiting has a 95 % interval. Network and Siblings have one as wide as the middle half of the
/// repetitions. CSV, JSON and the sentences have the intervals. Calls with a vector of lengths,
/// such as MPI_Alltoallv, have no Network and no Siblings. See docs/how-to/network.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareNetworkArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// File with the replay of this profile, from mpisee-bench --like
    network: PathBuf,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [sheet::Head; 25] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("block_bytes", "Block"),
    sheet::number("size_min", "MIN"),
    sheet::number("size_max", "MAX"),
    sheet::number("calls", "Calls").hidden_at(4),
    sheet::number("time_s", "Time"),
    sheet::number("waiting_s", "Waiting"),
    sheet::number("waiting_low_s", "from"),
    sheet::number("waiting_high_s", "to"),
    sheet::number("network_s", "Network"),
    sheet::number("network_low_s", "from"),
    sheet::number("network_high_s", "to"),
    sheet::number("siblings_s", "Siblings"),
    sheet::number("siblings_low_s", "from"),
    sheet::number("siblings_high_s", "to"),
    sheet::number("not_explained_s", "Rest"),
    sheet::number("bytes", "Volume").hidden_at(0),
    sheet::number("bytes_per_s", "Rate/s").hidden_at(3),
    sheet::number("together_bytes_per_s", "At once/s").hidden_at(2),
    sheet::number("alone_bytes_per_s", "Alone/s").hidden_at(1),
    sheet::number("together_s", "per call at once"),
    sheet::number("together_spread", "spread"),
    sheet::number("alone_s", "per call alone"),
    sheet::number("alone_spread", "spread"),
];
/// Columns that tables leave out; the sentences below have the intervals of what they name.
const EXACT: [&str; 12] = [
    "size_min",
    "size_max",
    "waiting_low_s",
    "waiting_high_s",
    "network_low_s",
    "network_high_s",
    "siblings_low_s",
    "siblings_high_s",
    "together_s",
    "together_spread",
    "alone_s",
    "alone_spread",
];

/// Runs the command.
pub fn run(args: &CompareNetworkArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let Comparison { heading, lack, mut operations } = Comparison::with(&view, &args.network)?;
    let is_table = args.output.format() == Format::Table;
    let mut sheet = sheet("operations", &operations, is_table);
    let cut = args.shown.cut(&args.output, &mut sheet.rows, "No operation of the replay is in the profile.");
    operations.truncate(sheet.rows.len());
    let mut answer = Answer::new(view.profile(), sheet, None);
    if is_table {
        answer.lead = heading + &lack.map_or(String::new(), |lack| format!("{lack}.\n"));
        answer.closing =
            if cut.is_empty() { String::new() } else { format!("{cut}\n") } + &verdicts(operations.iter());
    }
    answer.write(&args.output)
}

/// The operations as rows.
pub fn sheet(name: &'static str, operations: &[Compared], is_table: bool) -> Sheet {
    let mut sheet = Sheet { name, heads: HEADS.to_vec(), rows: operations.iter().map(row).collect() };
    if is_table {
        sheet.keep_columns(|name, _| !EXACT.contains(&name));
    }
    sheet
}

/// A sentence on each operation, a paragraph each.
pub fn verdicts<'c>(operations: impl Iterator<Item = &'c Compared>) -> String {
    operations.map(|it| it.verdict() + "\n").collect::<Vec<_>>().join("\n")
}

fn row(it: &Compared) -> Vec<Value> {
    let Compared { replay, recorded, parts, doubt, .. } = it;
    let seconds = |time_s: f64| Value::Seconds(time_s);
    let of = |part: Option<Estimate>| {
        part.map_or([Value::Nothing, Value::Nothing, Value::Nothing], |part| {
            [part.total, part.low, part.high].map(Value::Seconds)
        })
    };
    let unless_doubted = |part| of(doubt.is_none().then_some(part));
    let [rate, together, alone] = it.rates().map(Value::BytesPerSecond);
    let mut row = vec![
        replay.family.as_str().into(),
        replay.call.as_str().into(),
        Value::Bytes(replay.bytes),
        Value::Count(replay.size_min),
        Value::Count(replay.size_max),
        Value::Count(recorded.calls),
        seconds(parts.time_s),
    ];
    row.extend(of(parts.waiting));
    row.extend(unless_doubted(parts.network));
    row.extend(unless_doubted(parts.siblings));
    row.extend([
        seconds(parts.rest_s),
        Value::Bytes(recorded.bytes),
        rate,
        together,
        alone,
        seconds(replay.together_s),
        Value::Share(replay.together_spread),
        seconds(replay.alone_s),
        Value::Share(replay.alone_spread),
    ]);
    row
}
