//! Completions that fail, handles of several requests, and threads that leave a call without a
//! return: the program goes on as without the profiler, and later calls are counted exactly.

use crate::exact::{assert_all_seen, assert_calls, assert_peers, printed};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, case, through};
use std::collections::BTreeMap;

const UCX: &[&str] =
    &["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"];

/// Runs a program without the profiler and with it; both print the same, in some order.
fn compared<'m>(run: impl Fn() -> Run<'m>) -> Finished {
    let sorted = |finished: &Finished| {
        let mut lines: Vec<_> = finished.stdout.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (plain, profiled) = (run().plain(), run().profiled());
    assert_eq!(sorted(&profiled), sorted(&plain), "{}", profiled.stderr);
    profiled
}

#[track_caller]
fn assert_not_seen(finished: &Finished, expected: &[(NotSeen, u64)]) {
    let expected: BTreeMap<String, u64> =
        expected.iter().map(|&(reason, count)| (reason.name().to_owned(), count)).collect();
    assert_eq!(finished.tables().run.not_seen, expected);
}

#[case]
fn refused_completions_leave_requests_open_and_results_unread(mpi: &Mpi) {
    if mpi.is_left_out(&["mpiabi"], "null arrays end the program") {
        return;
    }
    let finished = compared(|| Run::new(mpi, "hostile/refused_each_way").ranks(1));
    let tables = finished.tables();
    assert_eq!(tables.of_rank("S", "MPI_Irecv", 0).bytes, 1931);
    assert_eq!(tables.of_rank("S", "MPI_Wait", 0).calls, 1);
    assert_eq!(tables.not_seen(NotSeen::UnknownRequest), 0);
    assert_eq!(tables.not_seen(NotSeen::InternalError), 0);
}

fn assert_pairs(mpi: &Mpi, launcher: &[&str], how: &str, call: &str) -> u64 {
    let run = || Run::new(mpi, "hostile/one_handle_in_orders").ranks(2).argument(how).launched_with(launcher);
    let finished = run().profiled();
    for comm in ["W_d1", "W_d2"] {
        let expected = [("MPI_Isend", 100, 400), (call, 100, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(finished.tables(), comm, 0, &expected);
    }
    assert_all_seen(finished.tables());
    finished.check();
    printed(&finished.stdout, "pairs:")
}

#[case]
fn sends_with_one_handle_are_charged_to_their_communicators_in_any_order(mpi: &Mpi) {
    for (how, call) in
        [("each", "MPI_Wait"), ("last_first", "MPI_Wait"), ("moved", "MPI_Wait"), ("together", "MPI_Waitall")]
    {
        assert_pairs(mpi, &[], how, call);
        if mpi.name == "openmpi-4.1" {
            let pairs = assert_pairs(mpi, UCX, how, call);
            assert!(pairs > 0, "pml/ucx gave no two sends one handle");
        }
    }
}

#[case]
fn handles_of_requests_that_completed_unseen_are_taken_over(mpi: &Mpi) {
    let finished = compared(|| Run::new(mpi, "hostile/completed_unseen").ranks(1));
    let both = |bytes: u64| [("MPI_Irecv", 200, 200 * bytes), ("MPI_Isend", 200, 200 * bytes)];
    let on_self = [&both(2003)[..], &[("MPI_Wait", 200, 0), ("MPI_Comm_dup", 1, 0)]].concat();
    assert_calls(finished.tables(), "S", 0, &on_self);
    let on_dup = [&both(3001)[..], &[("MPI_Wait", 400, 0), ("MPI_Comm_free", 1, 0)]].concat();
    assert_calls(finished.tables(), "S_d1", 0, &on_dup);
    assert_all_seen(finished.tables());
}

#[case]
fn receives_that_were_seen_complete_and_then_freed_have_their_messages(mpi: &Mpi) {
    let finished = compared(|| Run::new(mpi, "hostile/freed_when_complete").ranks(2));
    let bytes = 4001 + 4011 + 4021;
    // MPICH 5.0 reports the completion of a persistent receive once, and not again.
    let is_told_once = mpi.name.starts_with("mpich-5.0") || mpi.family == "standard";
    let received = if is_told_once { [0, 0, 2, 4001 + 4021] } else { [0, 0, 3, bytes] };
    assert_peers(finished.tables(), &[("W", 1, 0, [3, bytes, 0, 0]), ("W", 0, 1, received)]);
    let not_seen = [(NotSeen::FreedReceive, 1)];
    assert_not_seen(&finished, if is_told_once { &not_seen } else { &[] });
    finished.check();
}

#[case]
fn truncated_messages_are_counted_without_bytes_and_explained(mpi: &Mpi) {
    let run = || Run::new(mpi, "hostile/truncated_each_way").ranks(2);
    // Open MPI 5.0 reports no error of MPI_Waitall without statuses if the receive was over before;
    // the profiler needs the statuses.
    let finished = if mpi.name.starts_with("openmpi-5.0") { run().profiled() } else { compared(run) };
    let tables = finished.tables();
    assert_not_seen(&finished, &[(NotSeen::TruncatedReceive, 8)]);
    assert_eq!(tables.peer("W", 1, 0), [9, 8 * 44 + 31, 1, 29]);
    assert_eq!(tables.peer("W", 0, 1), [1, 29, 9, 31]);
    let check = through(&["check", &finished.directory().display().to_string()]);
    let said = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{said}");
    assert!(said.contains("less room than their message"), "{said}");
}

#[case]
fn persistent_receives_that_were_truncated_were_not_freed_before_they_completed(mpi: &Mpi) {
    let finished = compared(|| Run::new(mpi, "hostile/truncated_persistent").ranks(2));
    // Open MPI 4 ends both receives when one fails, and the last call has nothing to wait for.
    let nothing = if mpi.name.starts_with("openmpi-4") { 1 } else { 0 };
    let expected = [(NotSeen::TruncatedReceive, 3), (NotSeen::CompletionOfNothing, nothing)];
    assert_not_seen(&finished, &expected[..1 + nothing as usize]);
    assert_eq!(finished.tables().peer("W", 1, 0), [3, 3 * 53, 0, 0]);
}

#[case]
fn moved_handles_are_found_behind_many_of_another_kind(mpi: &Mpi) {
    let finished = compared(|| Run::new(mpi, "hostile/moved_among_others").ranks(1));
    let tables = finished.tables();
    assert_not_seen(&finished, &[]);
    let free = ("MPI_Comm_free", 1, 0);
    assert_calls(tables, "W_d1", 0, &[("MPI_Isend", 10, 0), ("MPI_Waitall", 1, 0), free]);
    assert_calls(tables, "W_d2", 0, &[("MPI_Isend", 10, 0), ("MPI_Wait", 10, 0), free]);
}

#[case]
fn the_size_of_a_datatype_that_is_gone_with_many_others_is_not_guessed(mpi: &Mpi) {
    let finished = compared(|| {
        Run::from_program(mpi, mpi.compile_with("hostile/types_freed_many", &["-pthread"])).ranks(1)
    });
    assert_not_seen(&finished, &[(NotSeen::NoRoom, 10)]);
    let tables = finished.tables();
    let of = |call: &str| tables.of_rank("S", call, 0);
    assert_eq!((of("MPI_Ssend").calls, of("MPI_Ssend").bytes), (10, 0));
    assert_eq!((of("MPI_Recv").calls, of("MPI_Recv").bytes), (10, 10 * 1003));
}

#[case]
fn a_duplicate_is_known_as_soon_as_its_request_is_seen_complete(mpi: &Mpi) {
    let finished = compared(|| Run::new(mpi, "hostile/idup_looked_at").ranks(2));
    let tables = finished.tables();
    let of_duplicate = tables.comms.iter().find(|row| row.parent == "W_i1");
    let of_duplicate = &of_duplicate.expect("a duplicate of the duplicate").comm;
    for rank in 0..2 {
        let expected = [("MPI_Allreduce", 1, 4), ("MPI_Comm_free", 1, 0)];
        assert_calls(tables, of_duplicate, rank, &expected);
    }
    assert_eq!(tables.sum_where(|row| row.call == "MPI_Barrier").calls, 2);
    // Rank 1 waits for a request that it has waited for already.
    assert_not_seen(&finished, &[(NotSeen::CompletionOfNothing, 1)]);
}

#[case]
fn calls_after_a_longjmp_out_of_an_error_handler_are_counted(mpi: &Mpi) {
    for deeper in ["", "0", "1", "2", "5", "9", "30"] {
        let finished = compared(|| {
            let run = Run::new(mpi, "hostile/left_by_longjmp").ranks(2);
            if deeper.is_empty() { run } else { run.argument(deeper) }
        });
        for rank in 0..2 {
            let expected = [
                ("MPI_Irecv", 1, 701),
                ("MPI_Isend", 1, 701),
                ("MPI_Waitall", 1, 0),
                ("MPI_Comm_free", 1, 0),
            ];
            assert_calls(finished.tables(), "W_d1", rank, &expected);
        }
        assert_not_seen(&finished, &[(NotSeen::CallLeft, 2)]);
        finished.check();
    }
}

/// The frame of the call that was left decides where the stack cannot be walked.
#[case]
fn calls_after_a_longjmp_are_counted_in_code_without_unwind_tables(mpi: &Mpi) {
    const WITHOUT: [&str; 4] =
        ["-O2", "-fomit-frame-pointer", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"];
    let program = mpi.compile_variant("hostile/left_without_tables", "O2", &WITHOUT);
    let finished = compared(|| Run::from_program(mpi, program.clone()).ranks(2));
    for rank in 0..2 {
        assert_calls(finished.tables(), "S", rank, &[("MPI_Allreduce", 1009, 1009 * 4)]);
    }
    assert_not_seen(&finished, &[(NotSeen::CallLeft, 1)]);
    finished.check();
}

#[case]
fn calls_after_an_exception_out_of_an_error_handler_are_counted(mpi: &Mpi) {
    let Some(program) = mpi.compile_cpp("hostile/left_by_exception") else { return };
    let finished = compared(|| Run::from_program(mpi, program.clone()).ranks(2));
    for rank in 0..2 {
        let expected = [("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(finished.tables(), "W_d1", rank, &expected);
    }
    assert_not_seen(&finished, &[(NotSeen::CallLeft, 1)]);
}

#[case]
fn calls_inside_callbacks_are_counted_as_not_seen(mpi: &Mpi) {
    let finished = compared(|| Run::new(mpi, "hostile/callbacks").ranks(2));
    for rank in 0..2 {
        let expected = [("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(finished.tables(), "W_d1", rank, &expected);
        assert_eq!(finished.tables().of_rank("W", "MPI_Scan", rank).calls, 1);
    }
    // A barrier in the error handler and a duplication on each rank, and a probe in each addition.
    let tables = finished.tables();
    let additions = |rank| printed(&finished.stdout, &format!("additions of {rank}:"));
    assert_eq!(tables.not_seen(NotSeen::CallInCallback), 4 + additions(0) + additions(1));
    assert_eq!(tables.not_seen(NotSeen::UnknownCommunicator), 4);
}
