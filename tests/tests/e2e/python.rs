//! mpi4py, which loads MPI privately, recognises the MPI by its symbols, and calls the
//! functions with large counts where there are any.

use mpisee_tests::python::Stack;
use mpisee_tests::{Mpi, Run};

/// Runs `test` with mpi4py on every MPI that there is.
fn on_each_stack(test: impl Fn(&Mpi)) {
    if !Stack::are_there() {
        eprintln!("left out: Python with venv and pip is not installed (on Debian python3-venv)");
        return;
    }
    for stack in Stack::all() {
        eprintln!("--- {}", stack.name());
        test(&stack.install());
    }
}

#[test]
fn mpi4py_is_recorded() {
    on_each_stack(|mpi| {
        communicators_are_counted(mpi);
        a_benchmark_is_counted(mpi);
    });
}

fn communicators_are_counted(mpi: &Mpi) {
    let finished = Run::python(mpi, &["python/communicators.py"]).ranks(2).profiled();
    let tables = finished.tables();
    assert_eq!(tables.comm("W_d1").label, "copy");
    for (comm, call, rank, calls, bytes) in [
        ("W_d1", "MPI_Send", 0, 1, 1009),
        ("W_d1", "MPI_Recv", 1, 1, 1009),
        ("W", "MPI_Isend", 0, 1, 4001),
        ("W", "MPI_Irecv", 1, 1, 4001),
        ("W", "MPI_Waitall", 1, 1, 0),
        ("W", "MPI_Allreduce", 1, 1, 40),
        ("W_s2.1", "MPI_Bcast", 1, 1, 0),
        ("W_a3", "MPI_Neighbor_allgather", 0, 1, 26),
    ] {
        let sum = tables.of_rank(comm, call, rank);
        assert_eq!((sum.calls, sum.bytes), (calls, bytes), "{call} of {rank} on {comm}");
    }
    assert_eq!(tables.peer("W_d1", 1, 0), [0, 0, 1, 1009]);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
    finished.check();
}

fn a_benchmark_is_counted(mpi: &Mpi) {
    let arguments = ["-m", "mpi4py.bench", "pingpong", "--max-size", "1024", "--loop", "10", "--skip", "0"];
    let finished = Run::python(mpi, &arguments).ranks(2).profiled();
    assert!(finished.stdout.contains("1024"), "{}", finished.stdout);
    let sent = finished.tables().sum_where(|row| row.call == "MPI_Send" && row.size_max >= 1024);
    assert_eq!(sent.bytes, 2 * 10 * 1024, "{sent:?}");
    finished.check();
}
