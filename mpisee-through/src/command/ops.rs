//! `ops`: the operations, over all communicators.

use super::Outcome;
use crate::filter::{CallFilter, kind_name};
use crate::group::{self, By, Cell, seconds};
use crate::load::{self, Processes};
use crate::matched;
use crate::output::OutputArgs;
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::units::natural_order;
use anyhow::Result;
use clap::{Args, ValueEnum};
use mpisee_profile::Operation;
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through ops app.mpisee                       where the MPI time goes, by operation
  mpisee-through ops app.mpisee --comm 'W_s2.*'       on some communicators
  mpisee-through ops app.mpisee --kind collective --sort calls
  mpisee-through ops app.mpisee --region 'solver*' --format csv";

/// The operations over all communicators: time over ranks, share of the MPI time, volume, calls.
///
/// Mean, Min and Max are over all ranks of the run (or those of --ranks); a rank that did not use the operation
/// counts as 0 s. Time% is of the MPI time of what the filters choose. Per call is the mean time of one call,
/// Longest the longest call of any rank.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OpsArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Order, largest first; name is ascending
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
    Name,
}

const HEADS: [sheet::Head; 11] = [
    sheet::fixed("call", "CALL"),
    sheet::fixed("kind", "KIND").or_none(),
    sheet::number("comms", "COMMS").or_none(),
    sheet::number("mean_s", "Mean[s]"),
    sheet::number("min_s", "Min[s]").or_none(),
    sheet::number("max_s", "Max[s]"),
    sheet::number("share_of_time", "Time%"),
    sheet::number("bytes", "Volume"),
    sheet::number("calls", "#Calls"),
    sheet::number("per_call_s", "Per call[us]").or_none(),
    sheet::number("longest_s", "Longest[us]").or_none(),
];

/// Runs the command.
pub fn run(args: &OpsArgs) -> Result<Outcome> {
    let profile = load::open(&args.profile)?;
    let processes = Processes::load(&profile)?;
    let by = By { comm: true, call: true, ..By::default() };
    let groups = group::group(&profile, &processes, &args.filter, by)?;
    // Sums over ranks of several communicators cannot be added: how all of them differ is told apart.
    let over_all = match profile.run().is_aggregate {
        true => Some(group::group(&profile, &processes, &args.filter, By { call: true, ..By::default() })?),
        false => None,
    };
    let mut calls: BTreeMap<&str, (u64, Cell)> = BTreeMap::new();
    for (key, cell) in &groups.cells {
        let (comms, sum) = calls.entry(groups.call(key)).or_insert((0, Cell::EMPTY));
        *comms += 1;
        sum.merge(cell.clone());
    }
    for (key, cell) in over_all.iter().flat_map(|all| &all.cells) {
        if let Some((_, sum)) = over_all.as_ref().and_then(|all| calls.get_mut(all.call(key))) {
            sum.ranks = cell.ranks.clone();
        }
    }
    let ranks = processes.chosen(&args.filter.comms);
    calls.retain(|_, (_, cell)| args.filter.takes_time(cell.ranks.most_ns().map(seconds)));
    let mut calls: Vec<(&str, (u64, Cell))> = calls.into_iter().collect();
    calls.sort_by(|(left, (_, one)), (right, (_, other))| {
        let order = match args.sort {
            SortKey::Time => other.time_ns.cmp(&one.time_ns),
            SortKey::Volume => other.bytes.cmp(&one.bytes),
            SortKey::Calls => other.calls.cmp(&one.calls),
            SortKey::Name => std::cmp::Ordering::Equal,
        };
        order.then_with(|| natural_order(left, right))
    });
    let all_ns = calls.iter().map(|(_, (_, cell))| cell.time_ns).fold(0, u128::saturating_add);
    let mut rows: Vec<Vec<Value>> =
        calls.iter().map(|(call, (comms, cell))| row(call, *comms, cell, ranks, all_ns)).collect();
    matched::need_operation(&profile, &processes, &args.filter, rows.is_empty())?;
    let closing = args.shown.cut(&args.output, &mut rows, args.filter.nothing());
    let sheet = Sheet { name: "operations", heads: HEADS.to_vec(), rows };
    let mut answer = Answer::new(&profile, sheet, groups.cut_off);
    answer.closing = closing;
    answer.write(&args.output, args.human)
}

fn row(call: &str, comms: u64, cell: &Cell, ranks: u64, all_ns: u128) -> Vec<Value> {
    let ranks = ranks.max(cell.ranks.ranks().unwrap_or(0));
    let known =
        |time_ns: Option<u64>| time_ns.map_or(Value::Nothing, |time_ns| Value::Seconds(seconds(time_ns)));
    vec![
        call.into(),
        Operation::from_name(call).map_or(Value::Nothing, |operation| kind_name(operation.kind()).into()),
        Value::Count(comms),
        Value::Seconds(cell.time_s() / ranks as f64),
        known(cell.ranks.least_ns(ranks)),
        known(cell.ranks.most_ns()),
        Value::Share(cell.time_ns as f64 / all_ns.max(1) as f64),
        Value::Bytes(cell.bytes),
        Value::Count(cell.calls),
        Value::Micros(cell.time_s() / cell.calls.max(1) as f64),
        Value::Micros(seconds(cell.max_ns)),
    ]
}
