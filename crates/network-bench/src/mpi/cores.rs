//! The time in which ranks had no core while they were measured: what they took then is no time of
//! the network's.

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_collect::process::cpu;
use std::time::Instant;

/// Watches, from a moment on, for how long this rank has no core.
pub struct Watch {
    began: Instant,
    waited_ns: Option<u64>,
}

impl Watch {
    /// Begins.
    pub fn start() -> Watch {
        Watch { began: Instant::now(), waited_ns: cpu::read(None).reading.wait_ns }
    }

    /// The part of its time since that the rank with most of it was ready to run without a core;
    /// `None` if the kernel tells none of them. All ranks call it.
    pub fn end(self, world: &SimpleCommunicator) -> Option<f64> {
        const UNKNOWN: f64 = -1.0;
        let passed_ns = self.began.elapsed().as_nanos() as f64;
        let now_ns = cpu::read(None).reading.wait_ns;
        let waited_ns = self.waited_ns.zip(now_ns).map(|(before, now)| now.saturating_sub(before));
        let own = waited_ns.map_or(UNKNOWN, |waited_ns| (waited_ns as f64 / passed_ns.max(1.0)).min(1.0));
        let mut most = UNKNOWN;
        world.all_reduce_into(&own, &mut most, SystemOperation::max());
        (most >= 0.0).then_some(most)
    }
}
