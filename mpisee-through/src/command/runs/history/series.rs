//! The numbers of a history: of the whole run, and of the operations with most time.

use super::super::sums::{Part, Run};
use super::Entry;
use crate::sheet::Value;
use crate::statistics::Spread;
use crate::statistics::steps::{Step, exact_steps, level, noisy_steps, possible_step};
use crate::units::{human_bytes, large_count, time};
use std::collections::BTreeSet;

/// Operations on families of communicators that have series of their own.
const PARTS: usize = 5;
/// The probability of any step in the histories of a folder if no run differs but by chance.
pub const FALSE_STEPS: f64 = 0.01;

/// A quantity of a run or of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Wall time of the longest rank.
    Wall,
    /// Time in MPI, of all operations or of one; mean over ranks.
    Time,
    /// Parallel efficiency.
    Efficiency,
    /// Sum over ranks.
    Calls,
    /// Sum over ranks.
    Bytes,
}

impl Quantity {
    /// The name in CSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Wall => "wall_s",
            Quantity::Time => "time_s",
            Quantity::Efficiency => "parallel_efficiency",
            Quantity::Calls => "calls",
            Quantity::Bytes => "bytes",
        }
    }

    /// Returns whether its numbers are counts, which equal programs have in common.
    fn is_count(self) -> bool {
        matches!(self, Quantity::Calls | Quantity::Bytes)
    }

    /// A number with its unit.
    pub fn value(self, number: f64) -> Value {
        match self {
            Quantity::Wall | Quantity::Time => Value::Seconds(number),
            Quantity::Efficiency => Value::Share(number),
            Quantity::Calls => Value::Number(number),
            Quantity::Bytes => Value::Bytes(number.round() as u64),
        }
    }

    /// A number with its unit, in a sentence.
    pub fn text(self, number: f64) -> String {
        match self {
            Quantity::Wall | Quantity::Time => time(number),
            Quantity::Efficiency => format!("{:.1} %", 100.0 * number),
            Quantity::Calls => large_count(number.round() as u64),
            Quantity::Bytes => human_bytes(number.round() as u64),
        }
    }
}

/// The lasting changes of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Steps {
    /// Read off: all runs of an entry have the same number.
    Exact(Vec<Step>),
    /// Tested.
    Noisy(Vec<Step>),
    /// So few runs cannot show any.
    TooFewRuns,
}

/// A number over the entries.
pub struct Series {
    pub quantity: Quantity,
    /// The operation on a family of communicators; nothing for the whole run.
    pub part: Option<Part>,
    /// By entry, of each run.
    pub values: Vec<Vec<f64>>,
    pub steps: Steps,
}

impl Series {
    fn new(entries: &[Entry], quantity: Quantity, part: Option<Part>) -> Option<Self> {
        let value = |run: &Run| number(run, quantity, part.as_ref());
        let of_entry = |entry: &Entry| entry.runs.iter().map(value).collect::<Option<Vec<f64>>>();
        let values: Vec<Vec<f64>> = entries.iter().map(of_entry).collect::<Option<_>>()?;
        let is_nothing = values.iter().flatten().all(|&value| value == 0.0);
        (!is_nothing).then_some(Series { quantity, part, values, steps: Steps::TooFewRuns })
    }

    /// The numbers of an entry.
    pub fn spread(&self, entry: usize) -> Spread {
        Spread::from_values(&self.values[entry])
    }

    /// Steps that were read off or tested.
    pub fn lasting_changes(&self) -> &[Step] {
        match &self.steps {
            Steps::Exact(steps) | Steps::Noisy(steps) => steps,
            Steps::TooFewRuns => &[],
        }
    }

    /// A large step of a number of the whole run that is not certain, where no step is.
    pub fn uncertain_change(&self) -> Option<Step> {
        const CHANCE: f64 = 0.05;
        const LARGE: f64 = 0.2;
        let is_open = self.part.is_none() && !matches!(self.steps, Steps::Exact(_));
        let is_open = is_open && self.lasting_changes().is_empty();
        is_open.then(|| possible_step(&self.values, CHANCE, LARGE)).flatten()
    }

    /// Communicator and operation; empty for the whole run.
    pub fn names(&self) -> [&str; 2] {
        self.part.as_ref().map_or([""; 2], |(comm, call)| [comm, call])
    }
}

/// A number of a run; nothing if the run does not have it.
fn number(run: &Run, quantity: Quantity, part: Option<&Part>) -> Option<f64> {
    let sum = |of: fn(&super::super::sums::Sums) -> f64| run.parts.values().map(of).sum::<f64>();
    Some(match (quantity, part) {
        (Quantity::Wall, _) => run.runtime_s,
        (Quantity::Efficiency, _) => run.efficiency.parallel().filter(|_| !run.is_without_mpi)?.0,
        (Quantity::Time, None) => run.mpi_s / run.ranks.max(1) as f64,
        (Quantity::Calls, None) => sum(|sums| sums.calls),
        (Quantity::Bytes, None) => sum(|sums| sums.bytes),
        (Quantity::Time, Some(part)) => run.time_per_rank_s(part),
        (Quantity::Calls, Some(part)) => run.part(part).calls,
        (Quantity::Bytes, Some(part)) => run.part(part).bytes,
    })
}

/// The series of entries, without their steps: of the whole run, then of operations by their time.
pub fn collect_series(entries: &[Entry]) -> Vec<Series> {
    let of_run = [Quantity::Wall, Quantity::Time, Quantity::Efficiency, Quantity::Calls, Quantity::Bytes];
    let mut series: Vec<Series> =
        of_run.into_iter().filter_map(|quantity| Series::new(entries, quantity, None)).collect();
    let is_operation = |part: &Part| !part.1.is_empty();
    let mut parts: Vec<(Part, f64)> = parts(entries)
        .into_iter()
        .filter(is_operation)
        .map(|part| (part.clone(), most_s(entries, &part)))
        .collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    for (part, _) in parts.into_iter().take(PARTS) {
        let of_part = [Quantity::Time, Quantity::Calls, Quantity::Bytes];
        series.extend(of_part.into_iter().filter_map(|of| Series::new(entries, of, Some(part.clone()))));
    }
    series
}

/// The parts of any run.
fn parts(entries: &[Entry]) -> BTreeSet<Part> {
    entries.iter().flat_map(|entry| &entry.runs).flat_map(|run| run.parts.keys().cloned()).collect()
}

/// The most time by rank of an entry.
fn most_s(entries: &[Entry], part: &Part) -> f64 {
    let of = |entry: &Entry| level(&[entry.runs.iter().map(|run| run.time_per_rank_s(part)).collect()]);
    entries.iter().map(of).fold(0.0, f64::max)
}

/// Finds the steps of all series of a folder, which share the probability of a false one.
pub fn find_steps(all: &mut [&mut Series]) {
    let mut noisy: Vec<&mut &mut Series> = Vec::new();
    for series in all {
        match exact_steps(&series.values).filter(|_| series.quantity.is_count()) {
            Some(steps) => series.steps = Steps::Exact(steps),
            None => noisy.push(series),
        }
    }
    let limit = FALSE_STEPS / noisy.len().max(1) as f64;
    for series in noisy {
        series.steps = noisy_steps(&series.values, limit).map_or(Steps::TooFewRuns, Steps::Noisy);
    }
}

/// The part whose change explains most of a step of the whole run, with this change; nothing if no
/// part explains a quarter.
pub fn explanation(entries: &[Entry], series: &Series, step: &Step) -> Option<(Part, f64)> {
    const LEAST: f64 = 0.25;
    let quantity = match series.quantity {
        Quantity::Wall => Quantity::Time,
        Quantity::Efficiency => return None,
        other => other,
    };
    let is_in = |part: &Part| match series.quantity {
        Quantity::Wall => true,
        Quantity::Time => !part.1.is_empty() && !mpisee_profile::operation::is_nccl(&part.1),
        _ => !part.1.is_empty(),
    };
    let whole = step.after - step.before;
    let change = |part: Part| {
        let values: Vec<Vec<f64>> = entries[step.from..step.to]
            .iter()
            .map(|entry| entry.runs.iter().filter_map(|run| number(run, quantity, Some(&part))).collect())
            .collect();
        let (before, after) = values.split_at(step.at - step.from);
        (part, level(after) - level(before))
    };
    let changes = parts(entries).into_iter().filter(is_in).map(change);
    changes
        .max_by(|one, other| (one.1 * whole.signum()).total_cmp(&(other.1 * whole.signum())))
        .filter(|(_, change)| change / whole >= LEAST)
}
