//! `variables`: what MPI's own variables counted.

use super::Outcome;
use crate::filter::parse_ranks;
use crate::output::OutputArgs;
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use clap::Args;
use mpisee_profile::glob::Glob;
use mpisee_profile::rows::{VariableRow, VariableTotalRow};
use mpisee_profile::run::{ControlInfo, MpiInfo};
use mpisee_profile::{RankSet, RunInfo};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee --flavour openmpi-4.1 --mpi-t list            variables of an MPI library
  mpirun -n 4 mpisee --mpi-t 'pml_*,*recvq*' ./app     reads some of them
  mpisee-through variables app.mpisee                  their values, over ranks
  mpisee-through variables app.mpisee --name '*recvq*' --each --all
  mpisee-through variables app.mpisee --region 'solver*' --format csv";

/// Performance variables of the MPI library, with `mpisee --mpi-t`
///
/// Counters, aggregates and timers show their growth while the region was the innermost one. Total
/// is the sum over ranks. Mean, Min and Max are over the ranks that have a row.
///
/// Other classes, such as levels and watermarks, show values. Mean is over the values when ranks
/// last left the region. Min and Max are the extremes that were read at its borders.
///
/// Only the MPI library knows the unit and meaning of a variable; IS has its description. Variables
/// that stayed 0 come last. See docs/how-to/mpi-variables.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VariablesArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Only variables whose name matches; * is any text, ? any character (default: all)
    #[arg(long, value_name = "GLOB")]
    name: Option<Glob>,

    /// Only regions whose name matches, 'solver*'; '' is outside any region (default: all)
    #[arg(long, value_name = "GLOB")]
    region: Option<Glob>,

    /// Only these ranks of MPI_COMM_WORLD: 0-3,8 (default: all)
    #[arg(long, value_name = "RANKS", value_parser = parse_ranks)]
    ranks: Option<RankSet>,

    /// Show a row for each rank
    #[arg(long)]
    each: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [sheet::Head; 10] = [
    sheet::fixed("name", "VARIABLE"),
    sheet::fixed("class", "CLASS").hidden_at(2),
    sheet::fixed("region", "REGION"),
    sheet::number("ranks", "RANKS").hidden_at(1),
    sheet::number("total", "Total"),
    sheet::number("mean", "Mean"),
    sheet::number("min", "Min").hidden_at(3),
    sheet::number("max", "Max").hidden_at(4),
    sheet::number("max_rank", "MAX RANK").hidden_at(1),
    sheet::fixed("description", "IS").hidden_at(0),
];

const RANK_HEADS: [sheet::Head; 8] = [
    sheet::fixed("name", "VARIABLE"),
    sheet::fixed("class", "CLASS").hidden_at(2),
    sheet::fixed("region", "REGION"),
    sheet::number("rank", "RANK"),
    sheet::number("grew_by", "Grew by"),
    sheet::number("value", "Value"),
    sheet::number("min", "Min").hidden_at(3),
    sheet::number("max", "Max").hidden_at(4),
];

/// Runs the command.
pub fn run(args: &VariablesArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let mut rows: Vec<VariableRow> = view.profile().rows_if_any()?.collect::<Result<_, _>>()?;
    let mut totals: Vec<VariableTotalRow> = view.profile().rows_if_any()?.collect::<Result<_, _>>()?;
    if !totals.is_empty() && (args.each || args.ranks.is_some()) {
        return Err(view.unanswerable("what MPI's variables counted on each rank").into());
    }
    let notes = notes(view.run());
    let has_none = rows.is_empty() && totals.is_empty();
    let control = &view.run().mpi.control;
    if has_none && control.is_empty() && view.run().mpi.variables.is_empty() && notes.is_empty() {
        bail!(
            "'{}' has no variables of MPI; `mpisee --mpi-t 'pml_*'` reads those of the names that match, and `mpisee --mpi-t list` lists all",
            view.profile().directory().display()
        );
    }
    let is_chosen = |name: &str, region: &str| {
        args.name.as_ref().is_none_or(|chosen| chosen.matches(name))
            && args.region.as_ref().is_none_or(|chosen| chosen.matches(region))
    };
    let is_of_rank = |rank| args.ranks.as_ref().is_none_or(|ranks| ranks.contains(rank));
    rows.retain(|row| is_chosen(&row.name, &row.region) && is_of_rank(row.rank));
    totals.retain(|row| is_chosen(&row.name, &row.region));
    let mut sums = Sum::from_rows(&rows);
    sums.extend(totals.iter().map(Sum::of_total));
    let sheet = if args.each { of_each(&rows, &sums) } else { over_ranks(&sums, &view.run().mpi) };
    let nothing = match has_none {
        true => "No performance variable was read in this run.",
        false => "No variable of the profile is chosen.",
    };
    let mut answer = answer(args, &view, sheet, nothing);
    answer.caveats.extend(notes);
    answer.write(&args.output)
}

/// The recorder's sentences on `--mpi-t`, as on patterns that choose no variable.
fn notes(run: &RunInfo) -> Vec<String> {
    run.notes.iter().filter(|note| note.contains("--mpi-t")).cloned().collect()
}

fn answer(args: &VariablesArgs, view: &ProfileView, mut sheet: Sheet, nothing: &str) -> Answer {
    let closing = args.shown.cut(&args.output, &mut sheet.rows, nothing);
    let mut answer = Answer::new(view.profile(), sheet, None);
    answer.closing = closing + &control(&view.run().mpi.control);
    answer.sheets.push(Sheet {
        name: "control",
        heads: vec![
            sheet::fixed("name", "CONTROL VARIABLE"),
            sheet::fixed("value", "Value"),
            sheet::fixed("set_by", "SET BY"),
        ],
        rows: view.run().mpi.control.iter().map(control_row).collect(),
    });
    answer
}

fn control_row(info: &ControlInfo) -> Vec<Value> {
    vec![info.name.as_str().into(), info.value.as_str().into(), info.set_by.as_str().into()]
}

fn control(control: &[ControlInfo]) -> String {
    let set = "On rank 0 no control variable is set by the environment, by a file of parameters, or by the program.\n";
    if control.is_empty() { set.to_owned() } else { String::new() }
}

/// A variable in a region, over ranks.
struct Sum<'r> {
    class: &'r str,
    grows: bool,
    ranks: u64,
    sum: f64,
    min: f64,
    max: f64,
    max_rank: u32,
}

impl<'r> Sum<'r> {
    /// The sums, by variable and region.
    fn from_rows(rows: &'r [VariableRow]) -> BTreeMap<(String, String), Sum<'r>> {
        let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
        for row in rows {
            let sum = sums.entry((row.name.clone(), row.region.clone())).or_insert(Sum {
                class: &row.class,
                grows: row.delta.is_some(),
                ranks: 0,
                sum: 0.0,
                min: f64::INFINITY,
                max: f64::NEG_INFINITY,
                max_rank: row.rank,
            });
            let own = row.delta.unwrap_or(row.value);
            sum.ranks += 1;
            sum.sum += own;
            sum.min = sum.min.min(row.least.unwrap_or(own));
            let most = row.most.unwrap_or(own);
            if most > sum.max {
                (sum.max, sum.max_rank) = (most, row.rank);
            }
        }
        sums
    }

    /// The sum that a profile with sums over ranks has.
    fn of_total(row: &'r VariableTotalRow) -> ((String, String), Sum<'r>) {
        let sum = Sum {
            class: &row.class,
            grows: row.delta.is_some(),
            ranks: row.ranks,
            sum: row.delta.unwrap_or(row.value),
            min: row.least,
            max: row.most,
            max_rank: row.most_rank,
        };
        ((row.name.clone(), row.region.clone()), sum)
    }

    fn is_zero(&self) -> bool {
        self.sum == 0.0 && self.min == 0.0 && self.max == 0.0
    }
}

/// The rows over ranks; what was 0 throughout comes last.
fn over_ranks(sums: &BTreeMap<(String, String), Sum>, mpi: &MpiInfo) -> Sheet {
    let mut all: Vec<_> = sums.iter().collect();
    all.sort_by(|((one, of_one), first), ((other, of_other), second)| {
        let order = first.is_zero().cmp(&second.is_zero());
        order.then_with(|| natural_order(one, other)).then_with(|| natural_order(of_one, of_other))
    });
    let row = |((name, region), sum): (&(String, String), &Sum)| {
        let info = mpi.variables.iter().find(|info| info.name == *name);
        vec![
            name.as_str().into(),
            sum.class.into(),
            Value::Region(region.clone()),
            Value::Count(sum.ranks),
            if sum.grows { Value::Quantity(sum.sum) } else { Value::Nothing },
            Value::Quantity(sum.sum / sum.ranks as f64),
            Value::Quantity(sum.min),
            Value::Quantity(sum.max),
            Value::Count(sum.max_rank.into()),
            info.map_or(Value::Nothing, |info| info.description.as_str().into()),
        ]
    };
    Sheet { name: "variables", heads: HEADS.to_vec(), rows: all.into_iter().map(row).collect() }
}

/// A row for each rank.
fn of_each(rows: &[VariableRow], sums: &BTreeMap<(String, String), Sum>) -> Sheet {
    let is_zero =
        |row: &VariableRow| sums.get(&(row.name.clone(), row.region.clone())).is_some_and(Sum::is_zero);
    let mut rows: Vec<&VariableRow> = rows.iter().collect();
    rows.sort_by(|one, other| {
        let order = is_zero(one).cmp(&is_zero(other)).then_with(|| natural_order(&one.name, &other.name));
        order.then_with(|| natural_order(&one.region, &other.region)).then_with(|| one.rank.cmp(&other.rank))
    });
    let quantity = |number: Option<f64>| number.map_or(Value::Nothing, Value::Quantity);
    let row = |row: &VariableRow| {
        vec![
            row.name.as_str().into(),
            row.class.as_str().into(),
            Value::Region(row.region.clone()),
            Value::Count(row.rank.into()),
            quantity(row.delta),
            Value::Quantity(row.value),
            quantity(row.least),
            quantity(row.most),
        ]
    };
    Sheet { name: "variables", heads: RANK_HEADS.to_vec(), rows: rows.into_iter().map(row).collect() }
}
