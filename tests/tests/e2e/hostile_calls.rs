//! Hostile programs: their communicators, requests and messages. Each one ends and prints with the
//! profiler what it does without, leaves no segment behind, and is counted as the comment at its
//! top says.

use crate::exact::{assert_all_seen, assert_calls};
use crate::hostile::{Case, case, created_by, sorted};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, case};
use std::collections::BTreeSet;

#[case]
fn longjmp(mpi: &Mpi) {
    let finished = case("longjmp", 2).run(mpi);
    for rank in 0..2 {
        assert_eq!(finished.tables().of_rank("W", "MPI_Comm_dup", rank).calls, 1);
        assert_calls(finished.tables(), "W_d1", rank, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
    }
}

#[case]
fn idup_get_status(mpi: &Mpi) {
    let finished = case("idup_get_status", 2).run(mpi);
    for rank in 0..2 {
        assert_eq!(finished.tables().of_rank("W", "MPI_Comm_idup", rank).calls, 1);
        let expected = [("MPI_Allreduce", 1, 4), ("MPI_Comm_free", 1, 0)];
        assert_calls(finished.tables(), "W_i1_d1", rank, &expected);
    }
    assert_all_seen(finished.tables());
}

#[case]
fn intercomm_outsiders(mpi: &Mpi) {
    // Debian's MPICH cannot spawn.
    if mpi.is_open_mpi {
        let finished = case("intercomm_outsiders", 2).run(mpi);
        let expected =
            "child 0: remote size 1, sum 1\nparent 0: remote size 1, sum 1\nparent 1: remote size 2, sum 2";
        assert_eq!(sorted(&finished.stdout), sorted(expected));
        assert_eq!(finished.tables().sum_where(|row| row.call == "MPI_Allreduce").calls, 2);
    }
}

#[case]
fn receives_while_off(mpi: &Mpi) {
    let off_from_the_start = case("receives_while_off", 2).argument("on").options(&["--record", "off"]);
    let cases = [
        (case("receives_while_off", 2).argument("on"), 4),
        (case("receives_while_off", 2).argument("off"), 0),
        (off_from_the_start, 0),
    ];
    for (case, receives) in cases {
        let finished = case.run(mpi);
        assert_eq!(finished.tables().sum("W", "MPI_Barrier").calls, 2);
        assert_eq!(finished.tables().sum("W", "MPI_Irecv").calls, receives);
    }
}

#[case]
fn refused_completions(mpi: &Mpi) {
    if mpi.is_left_out(&["mpiabi"], "null arrays end the program") {
        return;
    }
    for argument in ["some", "null", "any"] {
        case("refused_completions", 1).argument(argument).run(mpi);
    }
}

#[case]
fn one_handle(mpi: &Mpi) {
    const UCX: &[&str] =
        &["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"];
    for (argument, call) in [("", "MPI_Wait"), ("all", "MPI_Waitall")] {
        let launcher = if mpi.is_open_mpi { UCX } else { &[] };
        let finished = Case { launcher, ..case("one_handle", 2).argument(argument) }.run(mpi);
        for comm in ["W_d1", "W_d2"] {
            let expected = [("MPI_Isend", 100, 400), (call, 100, 0), ("MPI_Comm_free", 1, 0)];
            assert_calls(finished.tables(), comm, 0, &expected);
        }
        assert_all_seen(finished.tables());
    }
}

#[case]
fn create_group_threads(mpi: &Mpi) {
    let finished = case("create_group_threads", 3).run(mpi);
    let tables = finished.tables();
    let made = created_by(tables, "MPI_Comm_create_group");
    assert_eq!(made.len(), 600);
    for (comm, members) in made {
        let (other, bytes) = if members == "0-1" { (1, 100) } else { (2, 200) };
        assert_calls(tables, comm, 0, &[("MPI_Bcast", 1, 0), ("MPI_Comm_free", 1, 0)]);
        assert_calls(tables, comm, other, &[("MPI_Bcast", 1, bytes), ("MPI_Comm_free", 1, 0)]);
        assert_calls(tables, comm, 3 - other, &[]);
    }
    finished.check();
}

/// Asserts that of what two threads created some have rows of their own, on which both ranks moved
/// messages of one size by one `call`, and that all calls are there: `bytes` in all.
#[track_caller]
fn assert_same_on_both(finished: &Finished, created: &str, call: &str, bytes: u64) {
    let tables = finished.tables();
    let made = created_by(tables, created);
    assert!((20..=40).contains(&made.len()), "{} have rows of their own", made.len());
    for comm in made.into_keys() {
        let rows = tables.calls.iter().filter(|row| row.comm == comm && row.call == call);
        let mut rows: Vec<_> = rows.map(|row| (row.rank, row.calls, row.size_min)).collect();
        rows.sort_unstable();
        assert!(matches!(rows[..], [(0, 1, least), (1, 1, other)] if least == other), "{comm}: {rows:?}");
    }
    let sum = tables.sum_where(|row| row.call == call);
    assert_eq!((sum.calls, sum.bytes), (2 * 2 * 300, bytes));
    finished.check();
}

#[case]
fn create_group_tags(mpi: &Mpi) {
    let finished = case("create_group_tags", 2).options(&["--alike", "20"]).run(mpi);
    assert_same_on_both(&finished, "MPI_Comm_create_group", "MPI_Bcast", 300 * (100 + 200));
}

#[case]
fn intercomm_threads(mpi: &Mpi) {
    let finished = case("intercomm_threads", 2).options(&["--alike", "20"]).run(mpi);
    assert_same_on_both(&finished, "MPI_Intercomm_create", "MPI_Sendrecv", 300 * 2 * 2 * (100 + 200));
}

/// Threads may enter such communicators in another order on each rank. Nothing that all members
/// have distinguishes them, so that the profile has to say whether their names belong together.
#[case]
fn intercomm_same_tag(mpi: &Mpi) {
    let finished = case("intercomm_same_tag", 4).run(mpi);
    let tables = finished.tables();
    let made = created_by(tables, "MPI_Intercomm_create");
    let is_one = |comm: &str| {
        let rows = tables.calls.iter().filter(|row| row.comm == comm && row.call == "MPI_Sendrecv");
        rows.map(|row| row.size_min).collect::<BTreeSet<_>>().len() == 1
    };
    let agree = made.into_keys().all(is_one);
    assert_eq!(tables.run.names_agree, Some(agree));
    assert_eq!(tables.sum_where(|row| row.call == "MPI_Sendrecv").calls, 100 * 2 * 4);
}

#[case]
fn split_threads(mpi: &Mpi) {
    let finished = case("split_threads", 2).run(mpi);
    let tables = finished.tables();
    let numbers = || (1..=300).filter(|number| number % 10 != 4);
    let expected: BTreeSet<String> =
        (1..=2).flat_map(|parent| numbers().map(move |n| format!("W_d{parent}_s{n}.0"))).collect();
    let made = created_by(tables, "MPI_Comm_split");
    assert_eq!(made.into_keys().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
    for comm in &expected {
        let bytes = if comm.starts_with("W_d1") { 100 } else { 200 };
        assert_calls(tables, comm, 1, &[("MPI_Bcast", 1, bytes), ("MPI_Comm_free", 1, 0)]);
    }
    finished.check();
}

#[case]
fn failing_creations(mpi: &Mpi) {
    let finished = case("failing_creations", 2).run(mpi);
    for (rank, own) in [(0, "S_d1"), (1, "S_d3")] {
        for comm in ["W_d2", own] {
            let expected = [("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)];
            assert_calls(finished.tables(), comm, rank, &expected);
        }
    }
}

#[case]
fn freed_complete(mpi: &Mpi) {
    let finished = case("freed_complete", 2).run(mpi);
    assert_eq!(finished.tables().peer("W", 0, 1), [0, 0, 1, 4001]);
    assert_all_seen(finished.tables());
    finished.check();
}

#[case]
fn many_copies(mpi: &Mpi) {
    let finished = case("many_copies", 16).run(mpi);
    assert_eq!(created_by(finished.tables(), "MPI_Comm_dup").len(), 20);
    assert_eq!(finished.tables().sum("W", "MPI_Comm_dup").calls, 20 * 16);
    assert_eq!(finished.tables().sum("W_d20", "MPI_Comm_free").calls, 16);
}

#[case]
fn idups_then_dups(mpi: &Mpi) {
    let finished = case("idups_then_dups", 4).run(mpi);
    assert_eq!(created_by(finished.tables(), "MPI_Comm_idup").len(), 5);
    for comm in ["W_d6", "W_d7", "W_d8"] {
        assert_eq!(finished.tables().sum(comm, "MPI_Allreduce").calls, 4);
    }
}

#[case]
fn truncated(mpi: &Mpi) {
    let finished = case("truncated", 2).run(mpi);
    assert_eq!(finished.tables().peer("W", 1, 0)[..2], [1, 44]);
    assert_eq!(finished.tables().peer("W", 0, 1)[2], 1);
}

#[case]
fn idup_in_callback(mpi: &Mpi) {
    let finished = case("idup_in_callback", 2).run(mpi);
    let tables = finished.tables();
    for rank in 0..2 {
        assert_eq!(tables.of_rank("W", "MPI_Comm_idup", rank).calls, 3);
        assert_eq!(tables.of_rank("W", "MPI_Barrier", rank).calls, 1);
    }
    assert_eq!(created_by(tables, "MPI_Comm_idup").len(), 0);
    assert!(tables.not_seen(NotSeen::UnknownCommunicator) > 0);
}

#[case]
fn freed_beside(mpi: &Mpi) {
    let finished = case("freed_beside", 1).run(mpi);
    let tables = finished.tables();
    assert_eq!(tables.peer("S_d1", 0, 0), [100_000, 400_000, 100_000, 400_000]);
    assert_all_seen(tables);
}

/// The delete function of an attribute ends in a jump to MPI.
#[case]
fn callback_tail(mpi: &Mpi) {
    let finished = Case { compiler: &["-O2"], ..case("callback_tail", 2) }.run(mpi);
    assert_eq!(finished.tables().not_seen(NotSeen::CallInCallback), 2 * 10);
    assert_eq!(finished.tables().of_rank("W", "MPI_Recv", 1).calls, 10);
    finished.check();
}

#[case]
fn type_freed(mpi: &Mpi) {
    let finished = Case { compiler: &["-pthread"], ..case("type_freed", 2) }.run(mpi);
    assert_eq!(finished.tables().of_rank("W", "MPI_Ssend", 0).bytes, 20 * 400_000);
    assert_eq!(finished.tables().peer("W", 0, 1)[..2], [20 + 20, 20 * 400_000 + 20 * 4]);
    finished.check();
}
