//! `compare-network`: what the program got of the network, beside what its communication gets without the computation.

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
  mpirun -n 16 mpisee-bench --like app.mpisee               replay the communication of app.mpisee, on as many ranks
  mpisee-through compare-network app.mpisee network.json    what is waiting, what is the network, what are siblings?
  mpisee-through compare-network app.mpisee network.json --format csv";

/// Operations of a profile beside their replay without computation (mpisee-bench --like): what is waiting, what the network.
///
/// Time is that of all ranks in the program. It is divided in four: Waiting for other ranks, as sampled in the run; Network, what the
/// operation takes when its communicator has the network to itself; Siblings, what it takes longer when all communicators of the
/// family communicate at once; and Rest, what is not explained: other traffic at the same time, cold caches, waiting that no sample
/// shows. Of operations with vectors of lengths (MPI_Alltoallv), all that is no waiting is not explained, since their blocks are replayed as
/// equally long. The waiting has a 95 % interval, network and siblings have one as wide as the middle half of the repetitions: in CSV and JSON as
/// columns, and in the sentences. Rate is the volume by the time without waiting, At once and Alone that of the replay, for each rank.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareNetworkArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// The file with the replay of this profile, of mpisee-bench --like
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
