//! End-to-end tests of times: who waits for whom, who had no core, what the profiler says it costs. They run one after the
//! other, since others on the same cores would change what they measure.

use std::process::ExitCode;

mod advise;
mod arrivals;
mod bench;
mod causes;
mod cores;
mod efficiency;
mod replay;
mod stated_overhead;
mod tune;
mod waits;

fn main() -> ExitCode {
    mpisee_tests::harness::run_alone("measured")
}
