//! End-to-end tests of times: who waits for whom, who had no core, what the profiler says it costs. They run one after the
//! other, since others on the same cores would change what they measure.

use mpisee_tests::{Mpi, on_each_mpi};
use std::sync::{Mutex, PoisonError};

mod advise;
mod agent;
mod agent_counts;
mod agent_gpus;
mod agent_otlp;
mod arrivals;
mod bench;
mod causes;
mod cores;
mod efficiency;
mod replay;
mod stated_overhead;
mod tune;
mod waits;

/// Runs a test with each MPI, and no other of these tests meanwhile.
fn alone(test: impl Fn(&Mpi)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    on_each_mpi(test);
}
