//! Programs with a sanitizer's runtime, which wants to be loaded before everything else.

use mpisee_tests::{ADDRESS_SANITIZER, Mpi, Run, case};

#[case]
fn a_program_with_address_sanitizer_is_profiled(mpi: &Mpi) {
    mpi.compile_with("hostile/sanitized", ADDRESS_SANITIZER);
    // MPI libraries keep memory to the end.
    for options in ["detect_leaks=0", "color=never:detect_leaks=0"] {
        let run = Run::new(mpi, "hostile/sanitized").ranks(3).variable("ASAN_OPTIONS", options);
        let finished = run.profiled();
        assert_eq!(finished.stdout, "shell\n", "{}", finished.stderr);
        assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 3 * 521);
        finished.check();
    }
}
