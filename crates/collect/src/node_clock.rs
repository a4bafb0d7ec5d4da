//! The clock that the ranks of a node share.

use mpisee_profile::Ticks;
use mpisee_profile::rows::Seconds;
use mpisee_profile::segment::snapshot::{Moment, Snapshot};

/// The monotonic clock of a rank's node, by the rank's ticks. Ranks of one node agree on it as well
/// as both clocks can be read at once, some 100 ns.
pub struct NodeClock {
    start: Moment,
    ns_per_tick: f64,
}

impl NodeClock {
    /// Of a process whose recording ended at `end`.
    pub fn new(snapshot: &Snapshot, end: Moment) -> NodeClock {
        let start = Moment { monotonic_ns: snapshot.start_monotonic_ns, ticks: snapshot.start_ticks };
        let ticks = end.ticks.saturating_sub(start.ticks).get();
        let ns = end.monotonic_ns.saturating_sub(start.monotonic_ns);
        let ns_per_tick = if snapshot.ticks_are_tsc && ticks > 0 { ns as f64 / ticks as f64 } else { 1.0 };
        NodeClock { start, ns_per_tick }
    }

    /// Seconds since the clock's begin, from ticks.
    pub fn seconds(&self, ticks: f64) -> Seconds {
        let since_start_ns = (ticks - self.start.ticks.get() as f64) * self.ns_per_tick;
        Seconds(((self.start.monotonic_ns as f64 + since_start_ns) * 1e-9).max(0.0))
    }

    /// The same, from a moment of the process.
    pub fn moment(&self, moment: Ticks) -> Seconds {
        let since_start_ns = moment.signed_since(self.start.ticks) as f64 * self.ns_per_tick;
        let ns = self.start.monotonic_ns.cast_signed().saturating_add(since_start_ns.round() as i64);
        Seconds(ns.max(0) as f64 / 1e9)
    }
}
