//! The growth of a job's counts per second, between two looks at it.

use mpisee_profile::WorldRank;
use std::collections::BTreeMap;

/// Growth per second. Nodes are looked at in intervals of different lengths, so that that of a
/// whole job is the sum of the nodes'.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// Seconds between the looks; of several nodes the longest interval.
    pub interval_s: f64,
    /// Seconds of ranks: the number of those that run.
    pub thread_seconds: f64,
    /// By name.
    pub comms: BTreeMap<String, CommGrowth>,
    /// The part of the interval in which the first thread of a rank was ready to run and had no
    /// core, where that is known.
    pub no_core: BTreeMap<WorldRank, f64>,
}

/// Growth of a communicator per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommGrowth {
    pub calls: f64,
    pub bytes: f64,
    /// Seconds of its members here in calls.
    pub time_s: f64,
}

impl Growth {
    /// Adds that of other nodes.
    pub fn join(&mut self, other: Growth) {
        self.interval_s = self.interval_s.max(other.interval_s);
        self.thread_seconds += other.thread_seconds;
        self.no_core.extend(other.no_core);
        for (name, more) in other.comms {
            let comm = self.comms.entry(name).or_default();
            comm.calls += more.calls;
            comm.bytes += more.bytes;
            comm.time_s += more.time_s;
        }
    }
}
