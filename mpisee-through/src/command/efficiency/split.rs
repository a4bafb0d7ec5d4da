//! Serialisation and transfer, the two parts of the communication efficiency, as far as waiting was
//! measured.

use super::ratio;
use crate::filter::CallFilter;
use crate::sheet::{self, Head, Value};
use crate::units::time;
use crate::useful::Useful;
use crate::view::ProfileView;
use crate::waits::{self, Estimate, Report};
use mpisee_profile::rows::RankRow;
use std::collections::HashMap;

/// Time in MPI that is neither known as waiting nor as transfer does not matter if it makes a
/// smaller difference than this part of the runtime.
const LITTLE: f64 = 0.01;

/// Seconds up to which a difference of sums of rows may be rounding.
const ROUNDING_S: f64 = 1e-6;

/// The name of both factors, which a narrow table hides together.
const FACTORS: &str = "SerE % and TE %";

/// For people.
pub const HEADS: [Head; 3] = [
    sheet::number("serialisation_efficiency", "SerE %").hidden_at(3).hidden_as(FACTORS),
    sheet::number("transfer_efficiency", "TE %").hidden_at(3).hidden_as(FACTORS),
    sheet::number("not_measured_s", "Not measured").hidden_at(0),
];
/// For programs.
pub const EXACT_HEADS: [Head; 7] = [
    sheet::number("serialisation_efficiency", "SerE %"),
    sheet::number("serialisation_low", "from"),
    sheet::number("serialisation_high", "to"),
    sheet::number("transfer_efficiency", "TE %"),
    sheet::number("transfer_low", "from"),
    sheet::number("transfer_high", "to"),
    sheet::number("not_measured_s", "Not measured"),
];

/// Time in operations of which waiting is known, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitingKnown {
    pub time_s: f64,
    pub waiting: Estimate,
}

impl WaitingKnown {
    fn add(&mut self, time_s: f64, waiting: Estimate) {
        self.time_s += time_s;
        self.waiting = self.waiting.plus(waiting).clamped(0.0, self.time_s);
    }

    /// Adds what is known of others.
    pub fn plus(mut self, other: WaitingKnown) -> Self {
        self.add(other.time_s, other.waiting);
        self
    }

    /// Of a time in MPI, what is neither known as waiting nor as transfer.
    pub fn rest_of(&self, mpi_s: f64) -> f64 {
        let rest_s = mpi_s - self.time_s;
        // Each row is rounded to a nanosecond, and sums in another order differ.
        if rest_s > (1e-9 * mpi_s).max(ROUNDING_S) { rest_s } else { 0.0 }
    }
}

/// Waiting and transfer by communicator and by rank.
pub struct Measured {
    pub of_comm: HashMap<String, WaitingKnown>,
    of_rank: HashMap<u32, WaitingKnown>,
}

impl Measured {
    /// Of a profile that has samples of single ranks; else why there are none.
    pub fn from_view(view: &ProfileView) -> Result<(Self, Report), String> {
        let report = waits::measure(view, &CallFilter::default()).map_err(|error| format!("{error:#}"))?;
        let mut measured = Measured { of_comm: HashMap::new(), of_rank: HashMap::new() };
        for operation in &report.operations {
            let Some(waiting) = operation.waiting else { continue };
            measured.of_comm.entry(operation.comm.clone()).or_default().add(operation.time_s, waiting);
            for member in &operation.members {
                let of_rank = measured.of_rank.entry(member.rank).or_default();
                of_rank.add(member.time_s, member.suffered.unwrap_or_default());
            }
        }
        Ok((measured, report))
    }
}

/// The runtime without transfers: time outside of MPI and waiting of the rank that has most of
/// both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    outside_max_s: f64,
    runtime_s: f64,
    /// None where what was not measured matters.
    without_transfer_s: Option<f64>,
    low_s: f64,
    high_s: f64,
    /// Over all ranks, the time in MPI that is neither known as waiting nor as transfer; and all of
    /// it.
    not_measured_s: f64,
    mpi_s: f64,
}

impl Split {
    /// Of the ranks of a run.
    pub fn from_ranks(ranks: &[RankRow], measured: &Measured) -> Self {
        let mut split = Split {
            outside_max_s: 0.0,
            runtime_s: ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max),
            without_transfer_s: None,
            low_s: 0.0,
            high_s: 0.0,
            not_measured_s: 0.0,
            mpi_s: 0.0,
        };
        let (mut least_s, mut most_s) = (0.0f64, 0.0f64);
        for row in ranks {
            let (wall_s, mpi_s) = (row.wall_s.0, row.mpi_s.0);
            let outside_s = Useful::of_rank(row).outside_max_s;
            let known = measured.of_rank.get(&row.rank).copied().unwrap_or_default();
            let rest_s = known.rest_of(mpi_s);
            // Waiting is that of all threads that call MPI.
            let with = |waiting_s: f64| (outside_s + waiting_s / row.threads()).min(wall_s);
            split.outside_max_s = split.outside_max_s.max(outside_s);
            split.low_s = split.low_s.max(with(known.waiting.low));
            split.high_s = split.high_s.max(with(known.waiting.high + rest_s));
            least_s = least_s.max(with(known.waiting.total));
            most_s = most_s.max(with(known.waiting.total + rest_s));
            split.not_measured_s += rest_s;
            split.mpi_s += mpi_s;
        }
        split.without_transfer_s = (most_s - least_s < LITTLE * split.runtime_s).then_some(least_s);
        split
    }

    /// The largest time outside of MPI by the runtime without transfers: the value if it is known,
    /// and its bounds.
    pub fn serialisation(&self) -> (Option<f64>, [Option<f64>; 2]) {
        let of = |without_s: f64| ratio(self.outside_max_s, without_s);
        (self.without_transfer_s.and_then(of), [of(self.high_s), of(self.low_s)])
    }

    /// The runtime without transfers by the runtime.
    pub fn transfer(&self) -> (Option<f64>, [Option<f64>; 2]) {
        let of = |without_s: f64| ratio(without_s, self.runtime_s);
        (self.without_transfer_s.and_then(of), [of(self.low_s), of(self.high_s)])
    }

    /// The cells under [`HEADS`], or under [`EXACT_HEADS`].
    pub fn cells(&self, is_table: bool) -> Vec<Value> {
        let parts = [self.serialisation(), self.transfer()];
        let cells = parts.into_iter().flat_map(|part| if is_table { vec![text(part)] } else { exact(part) });
        cells.chain([Value::Seconds(self.not_measured_s)]).collect()
    }

    /// The limits of both, if they are bounds alone.
    pub fn limits(&self) -> Option<String> {
        self.without_transfer_s.is_none().then(|| {
            format!(
                "{} of {} in MPI have no sample that tells waiting from transfer: SerE and TE are bounds.",
                time(self.not_measured_s),
                time(self.mpi_s)
            )
        })
    }
}

fn exact((value, bounds): (Option<f64>, [Option<f64>; 2])) -> Vec<Value> {
    let share = |share: Option<f64>| share.map_or(Value::Nothing, Value::Share);
    [value, bounds[0], bounds[1]].map(share).to_vec()
}

/// `85.0 (83.1 to 86.2)`, `85.0` where that is as good as exact, `40.0 to 100.0` if it is bounds
/// alone.
pub fn text((value, bounds): (Option<f64>, [Option<f64>; 2])) -> Value {
    let [Some(low), Some(high)] = bounds else { return Value::Nothing };
    let [low, high] = [low, high].map(|bound| format!("{:.1}", 100.0 * bound));
    Value::Text(match value.map(|value| format!("{:.1}", 100.0 * value)) {
        Some(value) if low == high => value,
        Some(value) => format!("{value} ({low} to {high})"),
        None => format!("{low} to {high}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Seconds;

    fn split(ranks: &[(f64, f64, f64, Estimate)]) -> Split {
        let mut measured = Measured { of_comm: HashMap::new(), of_rank: HashMap::new() };
        let mut rows = Vec::new();
        for (rank, &(wall_s, mpi_s, time_s, waiting)) in (0..).zip(ranks) {
            measured.of_rank.insert(rank, WaitingKnown { time_s, waiting });
            let (wall_s, mpi_s) = (Seconds(wall_s), Seconds(mpi_s));
            rows.push(RankRow { rank, wall_s, mpi_s, ..RankRow::default() });
        }
        Split::from_ranks(&rows, &measured)
    }

    #[test]
    fn the_parts_are_serialisation_and_transfer() {
        // Useful 8 s and 4 s; of 2 s and 6 s in MPI rank 1 waits 4 s for rank 0, and the rest is
        // transfer.
        let found = split(&[(10.0, 2.0, 2.0, Estimate::exact(0.0)), (10.0, 6.0, 6.0, Estimate::exact(4.0))]);
        assert_eq!(found.serialisation(), (Some(1.0), [Some(1.0); 2]));
        assert_eq!(found.transfer(), (Some(0.8), [Some(0.8); 2]));
        // In turn, each waits for the other: nothing is transferred, and yet the largest useful
        // time is half of the runtime.
        let found = split(&[(10.0, 5.0, 5.0, Estimate::exact(5.0)), (10.0, 5.0, 5.0, Estimate::exact(5.0))]);
        assert_eq!((found.serialisation().0, found.transfer().0), (Some(0.5), Some(1.0)));
        assert_eq!(found.limits(), None);
    }

    #[test]
    fn intervals_of_waiting_become_those_of_both() {
        let waiting = Estimate { total: 2.0, low: 1.0, high: 3.0, error: 0.5 };
        let found = split(&[(10.0, 5.0, 5.0, waiting)]);
        assert_eq!(found.serialisation(), (Some(5.0 / 7.0), [Some(5.0 / 8.0), Some(5.0 / 6.0)]));
        assert_eq!(found.transfer(), (Some(0.7), [Some(0.6), Some(0.8)]));
        assert_eq!(text(found.transfer()), Value::Text("70.0 (60.0 to 80.0)".to_owned()));
    }

    #[test]
    fn without_a_measure_there_are_bounds_alone() {
        let found = split(&[(10.0, 4.0, 1.0, Estimate::exact(0.5))]);
        assert_eq!(found.serialisation(), (None, [Some(6.0 / 9.5), Some(6.0 / 6.5)]));
        assert_eq!(found.transfer(), (None, [Some(0.65), Some(0.95)]));
        assert_eq!(text(found.serialisation()), Value::Text("63.2 to 92.3".to_owned()));
        assert_eq!(found.not_measured_s, 3.0);
        let limits = "3.00 s of 4.00 s in MPI have no sample that tells waiting from transfer: SerE and TE \
                      are bounds.";
        assert_eq!(found.limits().as_deref(), Some(limits));
        // A hundredth of the runtime does not matter.
        assert_eq!(split(&[(10.0, 4.0, 3.91, Estimate::exact(0.5))]).transfer().0, Some(0.65));
    }

    #[test]
    fn rounding_is_no_time_that_was_not_measured() {
        let known = |time_s| WaitingKnown { time_s, waiting: Estimate::exact(0.0) };
        assert_eq!(known(0.010_000_001).rest_of(0.010_000_002), 0.0);
        assert!((known(0.010).rest_of(0.011) - 0.001).abs() < 1e-9);
    }

    #[test]
    fn the_product_is_the_communication_efficiency() {
        let waiting = Estimate { total: 1.7, low: 0.9, high: 2.9, error: 0.5 };
        for found in [
            split(&[
                (10.0, 5.0, 5.0, waiting),
                (9.0, 3.0, 3.0, waiting),
                (9.5, 8.0, 8.0, Estimate::exact(7.0)),
            ]),
            split(&[(10.0, 5.0, 3.0, waiting), (9.0, 3.0, 3.0, waiting)]),
            // In MPI all the time.
            split(&[(2.0, 2.0, 2.0, waiting), (1.0, 0.5, 0.5, Estimate::exact(0.5))]),
        ] {
            let (serialisation, [low, high]) = found.serialisation();
            let (transfer, [least, most]) = found.transfer();
            let whole = found.outside_max_s / found.runtime_s;
            for (one, other) in [(serialisation, transfer), (low, most), (high, least)] {
                if let (Some(one), Some(other)) = (one, other) {
                    assert!((one * other - whole).abs() < 1e-12, "{one} {other} {whole}");
                }
            }
        }
    }
}
