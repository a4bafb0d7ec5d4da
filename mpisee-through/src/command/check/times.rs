//! Checks that the MPI time of a rank is that of its calls, and fits into its wall time.

use super::findings::{Check, Findings};
use mpisee_profile::RunInfo;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::{CallRow, RankRow, Seconds};
use std::collections::{BTreeMap, HashSet};

/// Times are written with nanoseconds: each is off by half of one at most, and so is each that was
/// added up.
pub const ROUNDING_S: f64 = 0.5e-9;
/// The rounding error of adding doubles beside that, relative to the sum.
pub const SUMMATION: f64 = 1e-12;

/// The note where calls of threads overlap, and the profile does not tell how long the threads
/// lived.
pub const NOT_COMPARED: &str = "MPI time is not compared with wall time: threads may call MPI at once";

/// The claim where calls of threads overlap.
pub const WITHIN_LIVES: &str = "within the time that its threads lived";

/// The claims of processes without MPI, which have no time in it.
pub const WITHOUT_TIMES: (&str, &str) = ("no process has time in MPI, which none used", "");

/// Returns whether calls of threads may overlap, so that time in MPI may exceed wall time.
pub fn may_overlap(run: &RunInfo) -> bool {
    run.mpi.thread_level == "multiple" && !run.is_without_mpi()
}

/// The sum of the times of some rows.
#[derive(Debug, Default)]
pub struct Times {
    pub sum_s: f64,
    /// Half of the 95 % intervals of rows in which not all calls were timed.
    error_s: f64,
    rows: u64,
}

impl Times {
    /// Adds that of a row.
    pub fn add(&mut self, Seconds(time_s): Seconds) {
        self.sum_s += time_s;
        self.rows += 1;
    }

    /// The most by which the sum may exceed the true one: twice the half intervals, since one in 20
    /// times lies outside of its interval.
    fn most_above_s(&self) -> f64 {
        self.tolerance_s() + 2.0 * self.error_s
    }

    /// Returns whether it may be the same as a time that is itself rounded.
    pub fn is_close_to(&self, Seconds(time_s): Seconds) -> bool {
        (time_s - self.sum_s).abs() <= self.tolerance_s()
    }

    fn tolerance_s(&self) -> f64 {
        ROUNDING_S * (self.rows + 1) as f64 + SUMMATION * self.sum_s
    }
}

/// Sums up `calls.csv` per rank, to be compared with `ranks.csv`.
pub struct TimeCheck<'a> {
    ranks: &'a [RankRow],
    threads_overlap: bool,
    calls: BTreeMap<u32, Times>,
}

impl<'a> TimeCheck<'a> {
    /// Where `threads_overlap`, MPI time may exceed wall time.
    pub fn new(ranks: &'a [RankRow], threads_overlap: bool) -> Self {
        TimeCheck { ranks, threads_overlap, calls: BTreeMap::new() }
    }

    /// Adds a row; calls of NCCL are not in MPI.
    pub fn row(&mut self, row: &CallRow) {
        let times = self.calls.entry(row.rank).or_default();
        if !is_nccl(&row.call) {
            times.add(row.time_s);
            times.error_s += row.time_error_s.map_or(0.0, |error| error.0);
        }
    }

    /// Compares, when all rows are added.
    pub fn finish(self, findings: &mut Findings) {
        if self.threads_overlap {
            findings.claims.within_wall_time = WITHIN_LIVES;
        }
        if self.ranks.iter().any(|row| self.most(row).is_none()) {
            findings.skipped = Some(NOT_COMPARED);
        }
        let none = Times::default();
        for row in self.ranks {
            self.compare(row, self.calls.get(&row.rank).unwrap_or(&none), findings);
        }
        let known: HashSet<u32> = self.ranks.iter().map(|row| row.rank).collect();
        for rank in self.calls.keys().filter(|rank| !known.contains(rank)) {
            findings
                .differs(Check::Time, || format!("rank {rank} has rows in calls.csv and none in ranks.csv"));
        }
    }

    /// The most time that a rank can have been in MPI, with its column: the wall time, or where
    /// calls of threads overlap the time that these lived. `None` where that is unknown.
    fn most(&self, row: &RankRow) -> Option<(f64, &'static str)> {
        match (self.threads_overlap, row.mpi_thread_s) {
            (false, _) => Some((row.wall_s.0, "wall_s")),
            (true, lived_s) => Some((lived_s?.0, "mpi_thread_s")),
        }
    }

    fn compare(&self, row: &RankRow, calls: &Times, findings: &mut Findings) {
        let RankRow { rank, mpi_s: Seconds(mpi_s), .. } = row;
        let time_s = calls.sum_s;
        if !calls.is_close_to(row.mpi_s) {
            findings.differs(Check::Time, || {
                format!("rank {rank} has mpi_s {mpi_s:.9} in ranks.csv and {time_s:.9} s in calls.csv")
            });
        }
        let most = self.most(row).filter(|(most_s, _)| time_s > most_s + calls.most_above_s());
        if let Some((most_s, column)) = most {
            findings.differs(Check::Time, || {
                format!("rank {rank} spent {time_s:.9} s in MPI calls, more than its {column} {most_s:.9}")
            });
        }
    }
}
