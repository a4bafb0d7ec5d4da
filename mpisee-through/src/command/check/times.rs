//! The MPI time of a rank is that of its calls, and fits into its wall time.

use super::{Check, Findings};
use mpisee_profile::rows::{CallRow, RankRow, Seconds};
use std::collections::{BTreeMap, HashSet};

/// Times are written with nanoseconds: each is off by half of one at most.
const ROUNDING_S: f64 = 0.5e-9;
/// What adding doubles may lose beside that, relative to the sum.
const SUMMATION: f64 = 1e-12;

/// The time in a rank's rows of `calls.csv`.
#[derive(Debug, Default)]
struct Calls {
    time_s: f64,
    rows: u64,
}

impl Calls {
    /// How far the sum may be from a time that is itself rounded.
    fn tolerance_s(&self) -> f64 {
        ROUNDING_S * (self.rows + 1) as f64 + SUMMATION * self.time_s
    }
}

/// Sums up `calls.csv` per rank, to be compared with `ranks.csv`.
pub struct TimeCheck<'a> {
    ranks: &'a [RankRow],
    threads_overlap: bool,
    calls: BTreeMap<u32, Calls>,
}

impl<'a> TimeCheck<'a> {
    /// Where `threads_overlap`, MPI time may exceed wall time.
    pub fn new(ranks: &'a [RankRow], threads_overlap: bool) -> Self {
        TimeCheck { ranks, threads_overlap, calls: BTreeMap::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, row: &CallRow) {
        let calls = self.calls.entry(row.rank).or_default();
        calls.time_s += row.time_s.0;
        calls.rows += 1;
    }

    /// Compares, when all rows are added.
    pub fn finish(self, findings: &mut Findings) {
        if self.threads_overlap {
            findings.skipped = Some("MPI time is not compared with wall time: threads call MPI at once");
        }
        let none = Calls::default();
        for row in self.ranks {
            self.compare(row, self.calls.get(&row.rank).unwrap_or(&none), findings);
        }
        let known: HashSet<u32> = self.ranks.iter().map(|row| row.rank).collect();
        for rank in self.calls.keys().filter(|rank| !known.contains(rank)) {
            findings
                .differs(Check::Time, || format!("rank {rank} has rows in calls.csv and none in ranks.csv"));
        }
    }

    fn compare(&self, row: &RankRow, calls: &Calls, findings: &mut Findings) {
        let RankRow { rank, wall_s: Seconds(wall_s), mpi_s: Seconds(mpi_s), .. } = row;
        let time_s = calls.time_s;
        if (mpi_s - time_s).abs() > calls.tolerance_s() {
            findings.differs(Check::Time, || {
                format!("rank {rank} has mpi_s {mpi_s:.9} in ranks.csv and {time_s:.9} s in calls.csv")
            });
        }
        if !self.threads_overlap && time_s > wall_s + calls.tolerance_s() {
            findings.differs(Check::Time, || {
                format!("rank {rank} spent {time_s:.9} s in MPI calls, more than its wall_s {wall_s:.9}")
            });
        }
    }
}
