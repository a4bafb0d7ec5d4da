//! `diff`: two runs beside each other.

mod bound;
mod by_site;
mod pairing;
mod unlike;

use super::Outcome;
use crate::family::{self, EACH_HINT, FamilyArgs};
use crate::filter::CallFilter;
use crate::group::{By, Cell};
use crate::matched;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value, caveats};
use crate::sites::SiteArgs;
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use bound::{Bound, Totals, Verdict};
use clap::{Args, ValueEnum};
use pairing::Pairing;
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through diff before.mpisee after.mpisee                          largest changes of time first
  mpisee-through diff before.mpisee after.mpisee --kind collective --all
  mpisee-through diff 64.mpisee 128.mpisee                                other numbers of ranks
  mpisee-through diff before.mpisee after.mpisee --by site                by function and line, also between builds
  mpisee-through diff before.mpisee after.mpisee --fail-if 'time+10%'     exit code 1 if it got slower";

/// Two runs: what changed in calls, bytes and time, per communicator and operation.
///
/// A is the first profile, B the other. Communicators are paired by name; those left over by how they were made, their size and shape, if only one pair
/// fits. Between runs with different numbers of ranks, communicators that one call made count together (W_s2.*), and
/// all numbers are per rank. Else like communicators share a row in the table. Time is the mean over ranks, Change % that
/// of B by A. Spread is the standard deviation over the ranks of one run, the one in which it is larger, and ~ marks a
/// change that is no larger. How ranks of one run differ does not say how runs differ: a change without ~ may be noise
/// between runs, and one with it none. To know that noise, compare several runs of the same program.
///
/// The first lines say if the runs have different programs, MPI libraries, ranks or nodes; in JSON both runs' are program_before,
/// program_after and so on.
///
/// With --by site a row is a place in the program and the operation that is called there, as mpisee-through sites has them. Places
/// are paired by function and line, and what is left over by function and file, where both runs have as many of these, in
/// the order of their lines.
///
/// With --fail-if the exit code is 1 if a bound is exceeded.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// The profile of the run to compare with
    before: PathBuf,

    /// The profile of the other run
    after: PathBuf,

    /// Fail if wall, time (in MPI), calls or bytes of what the filters choose grow or shrink by more: time+10%,
    /// calls+0, bytes-5% (per rank), wall+0.5 (seconds, without %); may be repeated
    #[arg(long, value_name = "BOUND")]
    fail_if: Vec<Bound>,

    /// What is compared: operations on communicators, or the places in the program that call MPI, by function and line
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Compared::Comm)]
    by: Compared,

    #[command(flatten)]
    sites: SiteArgs,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compared {
    Comm,
    Site,
}

const HEADS: [Head; 12] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("comm_after", "IN B"),
    sheet::fixed("call", "CALL"),
    sheet::number("calls_before", "Calls A").hidden_at(0),
    sheet::number("calls_after", "Calls B").hidden_at(0),
    sheet::number("bytes_before", "Volume A").hidden_at(1),
    sheet::number("bytes_after", "Volume B").hidden_at(1),
    sheet::number("mean_before_s", "Time A"),
    sheet::number("mean_after_s", "Time B"),
    sheet::number("time_change", "Change %"),
    sheet::number("spread_s", "Spread").hidden_at(2),
    sheet::fixed("within_spread", ""),
];

/// One of the two runs.
struct Run {
    view: ProfileView,
    /// Sums by communicator and operation.
    cells: BTreeMap<Name, Cell>,
    /// The ranks that the filter takes.
    chosen: u64,
    cut_off: Option<mpisee_profile::ProfileError>,
}

impl Run {
    fn new(view: ProfileView, filter: &CallFilter) -> Result<Self> {
        let by = By { comm: true, call: true, ..By::default() };
        let mut groups = view.group(filter, by)?;
        let cells = std::mem::take(&mut groups.cells);
        let cells = cells
            .into_iter()
            .map(|(key, cell)| ((groups.comm(&key).to_owned(), groups.call(&key).to_owned()), cell))
            .collect();
        let chosen = view.processes().chosen(&filter.comms);
        Ok(Run { view, cells, chosen, cut_off: groups.cut_off })
    }

    fn totals(&self) -> Totals {
        let ranks = self.chosen.max(1) as f64;
        let sum = |of: fn(&Cell) -> f64| self.cells.values().map(of).sum::<f64>() / ranks;
        Totals {
            wall_s: self.view.processes().wall_max_s(),
            time_s: sum(Cell::time_s),
            calls: sum(|cell| cell.calls as f64),
            bytes: sum(|cell| cell.bytes as f64),
        }
    }
}

/// An operation on a communicator, or on like ones, in one run.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    calls: f64,
    bytes: f64,
    mean_s: f64,
    /// Standard deviation over ranks; unknown where several sums over ranks are one side.
    deviation_s: Option<f64>,
    /// Over all ranks.
    time_s: f64,
}

/// Communicator and operation.
type Name = (String, String);

/// Runs the command.
pub fn run(args: &DiffArgs) -> Result<Outcome> {
    if args.by == Compared::Site {
        if !args.fail_if.is_empty() {
            bail!("--fail-if is about the whole run: leave out --by site");
        }
        return by_site::run(args);
    }
    let [before, after] = load(args)?;
    // An aggregate profile has families only, as those of runs with other numbers of ranks are compared.
    let same_ranks = before.view.processes().count() == after.view.processes().count()
        && before.view.is_laid_out_as(&after.view);
    let pairing = Pairing::new(before.view.processes(), after.view.processes(), same_ranks);
    let rows_by_name = match args.families.are_on(&args.output) && same_ranks {
        true => family_names([&before, &after], &pairing),
        false => BTreeMap::new(),
    };
    let pairs = pairs([&before, &after], &pairing, &rows_by_name, same_ranks, &args.filter)?;
    let mut rows: Vec<Vec<Value>> = pairs.iter().map(|(key, sides)| row(key, sides, &pairing)).collect();
    let mut closing = args.shown.cut(&args.output, &mut rows, "There are no operations to compare.");
    if !rows_by_name.is_empty() {
        closing += EACH_HINT;
    }
    let totals = [before.totals(), after.totals()];
    let verdicts: Vec<Verdict> = args.fail_if.iter().map(|bound| bound.judge(totals[0], totals[1])).collect();
    for Verdict { is_exceeded, said } in &verdicts {
        closing += &format!("{} {said}\n", if *is_exceeded { "Failed    " } else { "Holds     " });
    }
    let in_table = args.output.format() == Format::Table;
    let one_name = in_table && pairing.all_have_one_name();
    let sheet = changes(rows, same_ranks, one_name);
    let mut answer = Answer::new(before.view.profile(), sheet, before.cut_off.or(after.cut_off));
    let views = [&before.view, &after.view];
    let of_profiles = [("A", &before.view), ("B", &after.view)];
    let of_profiles = of_profiles.iter().flat_map(|(name, view)| {
        caveats(view.profile()).into_iter().map(move |said| format!("In {name}: {said}"))
    });
    answer.caveats = unlike::sentences(views).into_iter().chain(of_profiles).collect();
    answer.values = unlike::values(views);
    answer.sheets.push(bound::sheet(totals, [before.chosen, after.chosen]));
    // The run as a whole comes first in a table, and second in CSV, which has one sheet.
    if in_table {
        answer.sheets.reverse();
    }
    answer.closing = closing;
    let outcome = answer.write(&args.output)?;
    Ok(if verdicts.iter().any(|verdict| verdict.is_exceeded) { Outcome::Differs } else { outcome })
}

/// Both runs. An operation that is within bounds on times in one of them is compared in both.
fn load(args: &DiffArgs) -> Result<[Run; 2]> {
    let [before, after] = [ProfileView::open(&args.before)?, ProfileView::open(&args.after)?];
    let filter = both_filtered([&before, &after], &args.filter)?;
    let [before, after] = [Run::new(before, &filter)?, Run::new(after, &filter)?];
    let is_empty = before.cells.is_empty() && after.cells.is_empty() && after.cut_off.is_none();
    matched::need_operation(&before.view, &args.filter, is_empty)?;
    Ok([before, after])
}

/// The filter with bounds on times replaced by the operations that are within them in one of the runs.
fn both_filtered(views: [&ProfileView; 2], filter: &CallFilter) -> Result<CallFilter> {
    match views.map(|view| view.operations_within_times(filter)) {
        [Ok(Some(one)), Ok(Some(other))] => Ok(filter.of_operations(one.into_iter().chain(other).collect())),
        [Err(error), _] | [_, Err(error)] => Err(error),
        _ => Ok(filter.clone()),
    }
}

/// The rows of both runs by their common names, largest changes of the mean time first.
fn pairs(
    runs: [&Run; 2],
    pairing: &Pairing,
    rows_by_name: &BTreeMap<String, String>,
    totals: bool,
    filter: &CallFilter,
) -> Result<Vec<(Name, [Option<Side>; 2])>> {
    let mut pairs: BTreeMap<Name, [Option<Side>; 2]> = BTreeMap::new();
    for (place, run) in runs.into_iter().enumerate() {
        let row_of = |comm: &str| {
            let name = pairing.name(place, comm);
            rows_by_name.get(name).map_or(name, String::as_str).to_owned()
        };
        for (key, side) in sides(run, row_of, totals, filter)? {
            pairs.entry(key).or_default()[place] = Some(side);
        }
    }
    let mut pairs: Vec<(Name, [Option<Side>; 2])> = pairs.into_iter().collect();
    pairs.sort_by(|(left, one), (right, other)| {
        let change = |[before, after]: &[Option<Side>; 2]| {
            (after.unwrap_or_default().mean_s - before.unwrap_or_default().mean_s).abs()
        };
        change(other)
            .total_cmp(&change(one))
            .then_with(|| natural_order(&left.0, &right.0))
            .then(left.1.cmp(&right.1))
    });
    Ok(pairs)
}

/// The sheet of changes; without the names in the second run if all have one name.
fn changes(mut rows: Vec<Vec<Value>>, totals: bool, one_name: bool) -> Sheet {
    let mut heads = HEADS.to_vec();
    if !totals {
        heads.iter_mut().for_each(|head| head.heading = per_rank(head.heading));
    }
    if one_name {
        heads.remove(1);
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    Sheet { name: "changes", heads, rows }
}

/// The heading of a column whose numbers are per rank.
fn per_rank(heading: &'static str) -> &'static str {
    match heading {
        "Calls A" => "Calls/rank A",
        "Calls B" => "Calls/rank B",
        "Volume A" => "Volume/rank A",
        "Volume B" => "Volume/rank B",
        "Time A" => "Time/rank A",
        "Time B" => "Time/rank B",
        other => other,
    }
}

/// The family of each common name that shares a row: that of the first run, else that of the second.
fn family_names(runs: [&Run; 2], pairing: &Pairing) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (place, run) in runs.into_iter().enumerate() {
        for family in family::of_table(&run.view, |_| true, true) {
            for row in family.rows.iter().filter(|_| !family.is_single()) {
                let common = pairing.name(place, &row.comm);
                let is_of_first = place == 1 && runs[0].view.processes().comms.contains_key(common);
                if !is_of_first {
                    names.insert(common.to_owned(), family.name.clone());
                }
            }
        }
    }
    names
}

/// The operations of a run by the name of their row.
fn sides(
    run: &Run,
    row_of: impl Fn(&str) -> String,
    totals: bool,
    filter: &CallFilter,
) -> Result<BTreeMap<Name, Side>> {
    // Like communicators are one: their members' times stand beside each other.
    let mut cells: BTreeMap<Name, Vec<&Cell>> = BTreeMap::new();
    let mut members: BTreeMap<String, u64> = BTreeMap::new();
    for row in run.view.processes().comms.values() {
        let present = run.view.processes().chosen_count(&row.members, &filter.comms);
        *members.entry(row_of(&row.comm)).or_default() += present;
    }
    for ((comm, call), cell) in &run.cells {
        cells.entry((row_of(comm), call.clone())).or_default().push(cell);
    }
    let side = |(name, cells): (Name, Vec<&Cell>)| {
        let ranks = members.get(&name.0).copied().unwrap_or(0);
        let sum = Cell::sum(cells, &name.0)?;
        Ok((name, side(&sum, ranks, totals)))
    };
    cells.into_iter().map(side).collect()
}

fn side(cell: &Cell, ranks: u64, totals: bool) -> Side {
    let ranks = ranks.max(cell.ranks.ranks().unwrap_or(0)).max(1);
    let mean_s = cell.time_s() / ranks as f64;
    let deviation_s = cell.ranks.deviation_s(ranks, mean_s);
    let by = if totals { 1.0 } else { ranks as f64 };
    Side {
        calls: cell.calls as f64 / by,
        bytes: cell.bytes as f64 / by,
        mean_s,
        deviation_s,
        time_s: cell.time_s(),
    }
}

fn row((comm, call): &Name, sides: &[Option<Side>; 2], pairing: &Pairing) -> Vec<Value> {
    let [before, after] = sides;
    let each =
        |of: fn(&Side) -> Value| sides.iter().map(move |side| side.as_ref().map_or(Value::Nothing, of));
    let mut row = vec![
        comm.as_str().into(),
        pairing.other_name(comm).map_or(Value::Nothing, Value::from),
        call.as_str().into(),
    ];
    row.extend(each(|side| Value::Number(side.calls)));
    row.extend(each(|side| Value::Bytes(side.bytes.round() as u64)));
    row.extend(each(|side| Value::Seconds(side.mean_s)));
    let (change, spread_s) = match (before, after) {
        (Some(before), Some(after)) if before.time_s > 0.0 => {
            let change = after.mean_s - before.mean_s;
            let both = before.deviation_s.zip(after.deviation_s);
            (Some((change, change / before.mean_s)), both.map(|(one, other)| one.max(other)))
        }
        _ => (None, before.or(*after).unwrap_or_default().deviation_s),
    };
    let is_within =
        |change_s: f64| change_s != 0.0 && spread_s.is_some_and(|spread_s| change_s.abs() <= spread_s);
    row.push(change.map_or(Value::Nothing, |(change_s, share)| Value::Change {
        share,
        matters: spread_s.is_some() && !is_within(change_s),
    }));
    row.push(spread_s.map_or(Value::Nothing, Value::Seconds));
    row.push(if change.is_some_and(|(change_s, _)| is_within(change_s)) { "~" } else { "" }.into());
    row
}
