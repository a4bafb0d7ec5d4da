//! The parts of their time that ranks were on a core, and ready to run without one.

use mpisee_profile::rows::{NodeRow, RankRow};

/// One thread is ready for its wall time at the most, and by clocks that differ a bit for this many
/// times it.
pub const TOLERANCE: f64 = 1.05;

/// The part of its time in which a rank was ready to run and had no core. The time of a rank with
/// several threads is that in which these ran or were ready, if it is longer than the wall time.
pub fn share(row: &RankRow) -> Option<f64> {
    Some(share_of(row.wall_s.0, row.cpu_s().unwrap_or(0.0), row.cpu_wait_s?.0)).filter(|_| row.wall_s.0 > 0.0)
}

/// As [`share`], of the ranks of a node together.
pub fn share_of_node(row: &NodeRow) -> Option<f64> {
    let cpu_s = row.cpu_s.map_or(0.0, |cpu_s| cpu_s.0);
    Some(share_of(row.wall_s.0, cpu_s, row.cpu_wait_s?.0)).filter(|_| row.wall_s.0 > 0.0)
}

/// The part of its time in which a rank was on a core, as [`share`] has that without one.
pub fn share_on_core(row: &RankRow) -> Option<f64> {
    let wait_s = row.cpu_wait_s.map_or(0.0, |wait_s| wait_s.0);
    row.cpu_s().filter(|_| row.wall_s.0 > 0.0).map(|cpu_s| share_of(row.wall_s.0, wait_s, cpu_s))
}

/// As [`share_on_core`], of the ranks of a node together.
pub fn share_of_node_on_core(row: &NodeRow) -> Option<f64> {
    let wait_s = row.cpu_wait_s.map_or(0.0, |wait_s| wait_s.0);
    row.cpu_s.filter(|_| row.wall_s.0 > 0.0).map(|cpu_s| share_of(row.wall_s.0, wait_s, cpu_s.0))
}

/// The part of `time_s`, of threads that also spent `other_s` on a core or without one.
pub fn share_of(wall_s: f64, other_s: f64, time_s: f64) -> f64 {
    let ready_s = other_s + time_s;
    let whole_s = if ready_s <= TOLERANCE * wall_s { wall_s } else { ready_s };
    (time_s / whole_s).min(1.0)
}
