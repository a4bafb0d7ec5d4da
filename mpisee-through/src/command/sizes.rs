//! `sizes`: a histogram of message sizes per operation.

use super::Outcome;
use crate::filter::CallFilter;
use crate::group::{self, By, Cell, GroupKey, Groups};
use crate::no_match;
use crate::output::{OutputArgs, Page};
use crate::sheet::{self, Answer, Sheet, Value};
use crate::units::{self, count, human_bytes, natural_order, range_ends, short_bytes, time};
use crate::view::ProfileView;
use anyhow::Result;
use clap::{Args, ValueEnum};
use mpisee_profile::rows::UNKNOWN_SIZE;
use mpisee_profile::{Operation, OperationKind};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through sizes app.mpisee                          calls by message size, per operation
  mpisee-through sizes app.mpisee --by time                time by message size
  mpisee-through sizes app.mpisee --comm W --call '*send'  some operations on one communicator
  mpisee-through sizes app.mpisee --format csv             for scripts";

/// Message sizes: a histogram per operation
///
/// Sizes are recorded in classes between powers of two. See docs/explanation/bytes-and-times.md for
/// the message of each operation. Operations without a message (completions, probes,
/// synchronisation) are left out; ops has them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SizesArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Show N operations (default: 10 in a table, all in CSV and JSON)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all operations (default: see --top)
    #[arg(long)]
    all: bool,

    /// Quantity of the bars
    #[arg(long, value_name = "KEY", value_enum, default_value_t = BarOf::Calls)]
    by: BarOf,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BarOf {
    Calls,
    Volume,
    Time,
}

impl BarOf {
    fn amount(self, cell: &Cell) -> u128 {
        match self {
            BarOf::Calls => cell.calls.into(),
            BarOf::Volume => cell.bytes.into(),
            BarOf::Time => cell.time_ns,
        }
    }
}

const HEADS: [sheet::Head; 6] = [
    sheet::fixed("call", "CALL"),
    sheet::number("size_min", "MIN"),
    sheet::number("size_max", "MAX"),
    sheet::number("calls", "Calls"),
    sheet::number("bytes", "Volume"),
    sheet::number("time_s", "Time sum"),
];
/// The longest bar, in characters, and the shortest that the longest one is in a narrow page.
const BAR: usize = 40;
const BAR_AT_LEAST: usize = 8;

/// Runs the command.
pub fn run(args: &SizesArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let by = By { call: true, size: true, ..By::default() };
    let groups = view.group(&view.with_times_as_operations(&args.filter)?, by)?;
    let mut operations: Vec<&[(GroupKey, Cell)]> =
        groups.cells.chunk_by(|(left, _), (right, _)| left.call == right.call).collect();
    let is_any = !operations.is_empty();
    operations.retain(|cells| {
        has_messages(groups.call(&cells[0].0)) || cells.iter().any(|(key, _)| groups.size(key) != (0, 0))
    });
    let total =
        |cells: &[(GroupKey, Cell)]| cells.iter().map(|(_, cell)| cell.time_ns).fold(0, u128::saturating_add);
    operations.sort_by(|left, right| {
        let order = total(right).cmp(&total(left));
        order.then_with(|| natural_order(groups.call(&left[0].0), groups.call(&right[0].0)))
    });
    no_match::need_operation(&view, &args.filter, !is_any)?;
    let shown = args.output.limit(args.top, args.all).min(operations.len());
    let left_out = operations.len() - shown;
    operations.truncate(shown);
    let page = args.output.page();
    let drawn: Vec<String> =
        operations.iter().map(|cells| histogram(cells, &groups, args.by, page)).collect();
    let rows = operations.iter().flat_map(|cells| cells.iter().map(|(key, cell)| row(key, cell, &groups)));
    let sheet = Sheet { name: "sizes", heads: HEADS.to_vec(), rows: rows.collect() };
    let nothing = operations.is_empty().then(|| match is_any {
        true => "None of the operations has a message.\n".to_owned(),
        false => format!("{}\n", args.filter.nothing()),
    });
    let calls: Vec<&str> = operations.iter().map(|cells| groups.call(&cells[0].0)).collect();
    let of_nccl = view.note_on_nccl_times(calls);
    let mut answer = Answer::new(view.profile(), sheet, groups.cut_off);
    answer.caveats.extend(of_nccl);
    if args.output.format() == crate::output::Format::Table {
        answer.sheets.clear();
        answer.lead = drawn.join("\n");
        answer.closing = nothing.unwrap_or_else(|| units::left_out(left_out, "operation"));
    }
    answer.write(&args.output)
}

/// Returns whether each call of the operation has a message, if only of no bytes.
pub fn has_messages(call: &str) -> bool {
    const WITHOUT: [&str; 7] = ["arrier", "_init", "_buffer", "Buffer_", "Pready", "Parrived", "agree"];
    let kind = Operation::from_name(call).map(Operation::kind);
    matches!(kind, Some(OperationKind::PointToPoint | OperationKind::Collective))
        && !WITHOUT.iter().any(|part| call.contains(part))
}

fn row(key: &GroupKey, cell: &Cell, groups: &Groups) -> Vec<Value> {
    let (size_min, size_max) = groups.size(key);
    vec![
        groups.call(key).into(),
        Value::Count(size_min),
        Value::Count(size_max),
        Value::Count(cell.calls),
        Value::Bytes(cell.bytes),
        Value::Seconds(cell.time_s()),
    ]
}

/// One operation: a line with its sums, then one per size class.
fn histogram(cells: &[(GroupKey, Cell)], groups: &Groups, by: BarOf, page: Page) -> String {
    let sum = |of: fn(&Cell) -> u64| cells.iter().map(|(_, cell)| of(cell)).fold(0, u64::saturating_add);
    let mut text = format!(
        "{}  {}, {}, {} over all ranks\n",
        page.bold(groups.call(&cells[0].0)),
        count(sum(|cell| cell.calls), "call"),
        human_bytes(sum(|cell| cell.bytes)),
        time(group::seconds(cells.iter().map(|(_, cell)| cell.time_ns).fold(0, u128::saturating_add))),
    );
    let most = cells.iter().map(|(_, cell)| by.amount(cell)).max().unwrap_or(0).max(1);
    let lines: Vec<([String; 3], u128)> = cells
        .iter()
        .map(|(key, cell)| {
            let amount = match by {
                BarOf::Calls => cell.calls.to_string(),
                BarOf::Volume => human_bytes(cell.bytes),
                BarOf::Time => time(cell.time_s()),
            };
            let (size_min, size_max) = groups.size(key);
            let ends = match [size_min, size_max] {
                UNKNOWN_SIZE => ["unknown"; 2].map(str::to_owned),
                [least, most] if least == most => [least; 2].map(|size| short_bytes(u128::from(size))),
                ends => range_ends(ends),
            };
            let [from, to] = ends;
            ([from, to, amount], by.amount(cell))
        })
        .collect();
    let width = |column: usize| lines.iter().map(|(line, _)| line[column].chars().count()).max().unwrap_or(0);
    let (from, to, amounts) = (width(0), width(1), width(2));
    let before_bar = 2 + from + 3 + to + 2 + amounts + 2;
    let room = page.width.map_or(BAR, |width| usize::from(width).saturating_sub(before_bar));
    let longest = room.clamp(BAR_AT_LEAST, BAR) as u128;
    for ([size_min, size_max, amount], value) in &lines {
        // At least a mark where there is something.
        let bar = "█".repeat(value.saturating_mul(longest).div_ceil(most) as usize);
        let range = if size_min == size_max {
            format!("{:>width$}", size_min, width = from + 3 + to)
        } else {
            format!("{size_min:>from$} - {size_max:>to$}")
        };
        text += format!("  {range}  {amount:>amounts$}  {bar}").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{has_messages, range_ends};

    #[test]
    fn empty_messages_are_told_from_none() {
        for call in ["MPI_Send", "MPI_Bcast", "MPI_Irecv", "MPI_Start"] {
            assert!(has_messages(call), "{call}");
        }
        for call in [
            "MPI_Ibarrier",
            "MPI_Send_init",
            "MPI_Buffer_attach",
            "MPI_Waitall",
            "MPI_Probe",
            "MPI_Win_fence",
        ] {
            assert!(!has_messages(call), "{call}");
        }
    }

    #[test]
    fn ends_of_classes_have_one_form() {
        for (ends, expected) in [
            ([8, 15], ["8 B", "<16 B"]),
            ([0, 127], ["0 B", "<128 B"]),
            ([512, 1023], ["512 B", "<1 KiB"]),
            ([1024, 2047], ["1 KiB", "<2 KiB"]),
            ([512 << 20, (1 << 30) - 1], ["512 MiB", "<1 GiB"]),
            ([1500, 3000], ["1500 B", "3000 B"]),
            ([32 << 20, u64::MAX], ["32 MiB", "<16 EiB"]),
        ] {
            assert_eq!(range_ends(ends), expected);
        }
    }
}
