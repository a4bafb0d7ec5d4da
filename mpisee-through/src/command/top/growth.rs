//! The growth of a job's counts per second, between two looks at it.

use super::job::Job;
use std::collections::BTreeMap;

/// Growth per second. Nodes are looked at in intervals of different lengths, so that that of a whole job is the sum of the nodes'.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// Seconds between the looks; of several nodes the longest interval.
    pub interval_s: f64,
    /// Seconds of ranks: the number of those that run.
    pub rank_seconds: f64,
    /// By name.
    pub comms: BTreeMap<String, CommGrowth>,
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
    /// Of a job whose ranks were all looked at in the same interval.
    pub fn between(before: &Job, now: &Job) -> Growth {
        let interval_s = (now.elapsed_s - before.elapsed_s).max(0.0);
        let per_second = |more: f64| if interval_s > 0.0 { more.max(0.0) / interval_s } else { 0.0 };
        // Counts of one message may be taken back when another size is known.
        let more = |now: u64, old: u64| now.saturating_sub(old) as f64;
        let mut comms = BTreeMap::new();
        for (name, comm) in &now.comms {
            let old = before.comms.get(name).map_or((0, 0, 0.0), |old| (old.calls, old.bytes, old.time_s));
            let growth = CommGrowth {
                calls: per_second(more(comm.calls, old.0)),
                bytes: per_second(more(comm.bytes, old.1)),
                time_s: per_second(comm.time_s - old.2),
            };
            comms.insert(name.clone(), growth);
        }
        Growth { interval_s, rank_seconds: per_second(now.rank_seconds() - before.rank_seconds()), comms }
    }

    /// Adds that of other nodes.
    pub fn join(&mut self, other: Growth) {
        self.interval_s = self.interval_s.max(other.interval_s);
        self.rank_seconds += other.rank_seconds;
        for (name, more) in other.comms {
            let comm = self.comms.entry(name).or_default();
            comm.calls += more.calls;
            comm.bytes += more.bytes;
            comm.time_s += more.time_s;
        }
    }
}
