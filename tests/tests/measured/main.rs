//! End-to-end tests of times: who waits for whom, who had no core, what the profiler says it costs.
//! Ranks wait as the MPI has it, so that one case runs per core. Cases that compare times with
//! those of the program run alone: others on the same cores would change these times.

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
    mpisee_tests::harness::run_awake(
        "measured",
        &["bench", "cores", "efficiency", "replay", "stated_overhead", "tune", "waits"],
    )
}
