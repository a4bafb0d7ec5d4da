//! The floating-point environment of a program, which `stub.rs` tries around every function, here
//! around the whole life of an MPI.

use mpisee_tests::{Ended, Mpi, Run, case};
use std::path::PathBuf;

fn program(mpi: &Mpi) -> PathBuf {
    mpi.compile_with("lifecycle/floating_point", &["-lm"])
}

#[case]
fn the_program_alone_raises_exceptions_and_rounds(mpi: &Mpi) {
    let run = || Run::from_program(mpi, program(mpi)).ranks(2);
    assert_eq!(run().profiled().stdout, run().plain().stdout);
}

#[case]
fn inexact_results_may_trap(mpi: &Mpi) {
    for what in ["trap", "finalize"] {
        let mut alone = mpi.launcher(2, &[]);
        alone.arg(program(mpi)).arg(what);
        // MPICH's MPI_Finalize has arithmetic of its own.
        let can_be_used_so = Ended::run(&mut alone).code == Some(0);
        assert!(can_be_used_so || what == "finalize" && !mpi.is_open_mpi, "{}", mpi.name);
        if can_be_used_so {
            let tables = Run::from_program(mpi, program(mpi)).ranks(2).argument(what).profiled();
            assert_eq!(tables.tables().sum("W_d1", "MPI_Sendrecv").calls, 2 * 5000);
        }
    }
}
