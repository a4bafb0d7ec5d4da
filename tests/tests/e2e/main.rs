//! End-to-end tests by subject: real MPI programs under real launchers, which use `target/dist`.
//! One binary, so that the tests of all subjects keep the processors busy together. `cargo test -p
//! mpisee-tests --test e2e collectives::` runs one subject.

use std::process::ExitCode;

mod address_space;
mod agent;
mod agent_counts;
mod agent_gpus;
mod aggregate;
mod bench;
mod bench_gpu;
mod bench_patterns;
mod bench_tune;
mod buffers;
mod churn;
mod ci_templates;
mod clocks;
mod collection;
mod collectives;
mod communicators;
mod completions;
mod corrupted;
mod devices;
mod doctor;
mod dynamic;
mod ended_deadlocks;
mod exact;
mod fault_tolerance;
mod flavours;
mod fortran;
mod full;
mod gpu;
mod gpu_check;
mod hostile;
mod hostile_calls;
mod hostile_processes;
mod io;
mod launching;
mod members;
mod messages;
mod nccl;
mod nodes;
mod one_sided;
mod order;
mod own_names;
mod pages;
mod partial;
mod persistent;
mod point_to_point;
mod processes;
mod python;
mod python_package;
mod record;
mod recover;
mod regions;
mod repeat;
mod requests;
mod roll;
mod sanitizers;
mod serve;
mod sessions;
mod settings;
mod shares;
mod sites;
mod smoke;
mod soak;
mod stacks;
mod start_folder;
mod stub;
mod sums;
mod thread_state;
mod threads;
mod top;
mod tutorial;
mod unprofiled;
mod valgrind;
mod variables;
mod without_order;

fn main() -> ExitCode {
    mpisee_tests::harness::run("e2e")
}
