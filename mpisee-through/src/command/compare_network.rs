//! `compare-network`: what the program got of the network, beside what its communication gets without the computation.

use super::Outcome;
use crate::beside_network::{Compared, Comparison};
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::view::ProfileView;
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
/// family communicate at once; and Not explained, what is left: other traffic at the same time, cold caches, waiting that no sample
/// shows. Of operations with vectors of lengths (MPI_Alltoallv), all that is no waiting is not explained, since their blocks are replayed as
/// equally long. Rate is the volume by the time without waiting, At once and Alone that of the replay, for each rank.
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

const HEADS: [sheet::Head; 17] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("block_bytes", "Size"),
    sheet::number("size_min", "MIN"),
    sheet::number("size_max", "MAX"),
    sheet::number("calls", "Calls").hidden_at(4),
    sheet::number("time_s", "Time"),
    sheet::number("waiting_s", "Waiting"),
    sheet::number("network_s", "Network"),
    sheet::number("siblings_s", "Siblings"),
    sheet::number("not_explained_s", "Not explained"),
    sheet::number("bytes", "Volume").hidden_at(0),
    sheet::number("bytes_per_s", "Rate/s").hidden_at(3),
    sheet::number("together_bytes_per_s", "At once/s").hidden_at(2),
    sheet::number("alone_bytes_per_s", "Alone/s").hidden_at(1),
    sheet::number("together_s", "per call at once"),
    sheet::number("alone_s", "per call alone"),
];
/// Columns that tables leave out.
const EXACT: [&str; 4] = ["size_min", "size_max", "together_s", "alone_s"];

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
    let told = |time_s| if doubt.is_some() { Value::Nothing } else { Value::Seconds(time_s) };
    let [rate, together, alone] = it.rates().map(Value::BytesPerSecond);
    vec![
        replay.family.as_str().into(),
        replay.call.as_str().into(),
        Value::Bytes(replay.bytes),
        Value::Count(replay.size_min),
        Value::Count(replay.size_max),
        Value::Count(recorded.calls),
        seconds(parts.time_s),
        parts.waiting_s.map_or(Value::Nothing, Value::Seconds),
        told(parts.network_s),
        told(parts.siblings_s),
        seconds(parts.rest_s),
        Value::Bytes(recorded.bytes),
        rate,
        together,
        alone,
        seconds(replay.together_s),
        seconds(replay.alone_s),
    ]
}
