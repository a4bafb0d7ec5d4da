//! Programs in Fortran: each of the three interfaces is recorded, once, and like the others.

use crate::exact::{assert_all_seen, assert_calls_but, assert_peers, counts};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, Tables, case};
use std::collections::BTreeMap;
use std::path::PathBuf;

const INTERFACES: [&str; 3] = ["MPIF_H", "USE_MPI", "USE_MPI_F08"];

/// Runs `test` with each interface of each MPI that has any.
fn with_each_interface(program: &str, test: impl Fn(&Mpi, &str, PathBuf)) {
    with_each_interface_of(|_| true, program, test);
}

/// The same, of the MPIs that `has_it` names.
fn with_each_interface_of(has_it: impl Fn(&Mpi) -> bool, program: &str, test: impl Fn(&Mpi, &str, PathBuf)) {
    for mpi in &Mpi::all() {
        for interface in INTERFACES.into_iter().filter(|_| has_it(mpi)) {
            match mpi.compile_fortran(program, interface) {
                Some(program) => test(mpi, interface, program),
                None => mpisee_tests::note!("{} has no Fortran", mpi.name),
            }
        }
    }
}

/// Calls that ask whether something is done: how many it takes depends on time.
const ASKING: [&str; 6] =
    ["MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Improbe", "MPI_Request_get_status"];

/// Runs a program with each interface of each MPI that has one of the functions it `needs`, and
/// `assert_expected`; the counts are the same everywhere, but of those that ask.
fn assert_alike(program: &str, needs: &[&str], assert_expected: impl Fn(&Finished)) {
    let first = std::cell::RefCell::new(None);
    let has_it = |mpi: &Mpi| needs.iter().any(|&name| mpi.counted_functions().contains(name));
    with_each_interface_of(has_it, program, |mpi, interface, program| {
        // Open MPI 4.1 makes no window on a communicator that is not the whole world over UCX.
        let run = || Run::from_program(mpi, program.clone()).variable("OMPI_MCA_osc", "^ucx");
        let plain = run().plain();
        assert_eq!(plain.stdout, "all is well\n");
        let finished = run().profiled();
        assert_eq!(finished.stdout, plain.stdout);
        assert_expected(&finished);
        // A receive that the MPI does not report is missing beside its send.
        if finished.tables().not_seen(NotSeen::UnreportedReceive) == 0 {
            finished.check();
        }
        let mut counts = counts(finished.tables());
        counts.retain(|row| !ASKING.iter().any(|call| row.contains(&format!("{call} "))));
        let mut first = first.borrow_mut();
        let first = first.get_or_insert_with(|| counts.clone());
        assert_eq!(&counts, first, "left: {interface} of {}, right: the first", mpi.name);
    });
}

#[case]
fn every_call_is_seen_once_whatever_the_interface_and_the_mpi() {
    assert_alike("fortran/every_meaning", &["MPI_Send"], assert_expected);
}

/// Asserts calls and bytes on a communicator, over all ranks.
#[track_caller]
fn assert_sums(tables: &Tables, comm: &str, expected: &[(&str, u64, u64)]) {
    for &(call, calls, bytes) in expected {
        let sum = tables.sum(comm, call);
        assert_eq!((sum.calls, sum.bytes), (calls, bytes), "left: got, right: expected, of {call} on {comm}");
    }
}

#[case]
fn communicators_made_in_every_way_sections_matched_probes_and_buffers() {
    assert_alike("fortran/creations", &["MPI_Send"], |finished| {
        let tables = finished.tables();
        for (comm, label) in [("W_d6", "the first of two"), ("W_d6_i1", "")] {
            assert_eq!(tables.comm(comm).label, label);
        }
        let inter = tables.labelled("between");
        assert!(inter.starts_with("W_x1.0-"), "{inter}");
        assert_eq!(tables.comm(inter).between.to_string(), "W_s1.0|W_s1.1");
        for (comm, creator) in [("W_r2", "MPI_Graph_create"), ("W_n3", "MPI_Dist_graph_create")] {
            assert_eq!(tables.comm(comm).created_by, creator);
        }
        assert_sums(tables, "W", &[("MPI_Graph_map", 4, 0), ("MPI_Cart_map", 4, 0)]);
        assert_sums(tables, "W_s1.0", &[("MPI_Intercomm_create", 2, 0)]);
        let between = [("MPI_Bcast", 4, 2 * 4 * 6), ("MPI_Intercomm_merge", 4, 0), ("MPI_Comm_free", 4, 0)];
        assert_sums(tables, inter, &between);
        let merged = [("MPI_Allreduce", 4, 4 * 4 * 7), ("MPI_Comm_disconnect", 4, 0)];
        assert_sums(tables, &format!("{inter}_m1"), &merged);
        assert_sums(tables, "W_r2", &[("MPI_Neighbor_allgather", 4, 4 * 2 * 4 * 3)]);
        assert_sums(tables, "W_n3", &[("MPI_Neighbor_allgather", 4, 4 * 4 * 5)]);
        assert_sums(tables, "W_j4", &[("MPI_Neighbor_allgather", 4, 4 * 4 * 7)]);
        assert_sums(tables, "W_j5", &[("MPI_Neighbor_allgather", 4, 0)]);
        assert_sums(tables, "W_d6", &[("MPI_Comm_set_info", 4, 0), ("MPI_Comm_idup", 4, 0)]);
        assert_sums(tables, "W_d6_i1", &[("MPI_Barrier", 4, 0)]);
        let some = tables.labelled("some of all");
        assert!(some.starts_with("W_g1.1-"), "{some}");
        assert_sums(tables, some, &[("MPI_Barrier", 3, 0)]);
        let sections = [
            ("MPI_Sendrecv", 4, 4 * 2 * 4 * 8),
            ("MPI_Send", 2, 2 * 4 * 11),
            ("MPI_Recv", 2, 2 * 4 * 11),
            ("MPI_Bcast", 4, 3 * 4 * 7),
            ("MPI_Allgather", 4, 4 * 4 * 5),
        ];
        assert_sums(tables, "W_d7", &sections);
        let looks = [("MPI_Isend", 4, 4 * 4 * 9), ("MPI_Imrecv", 4, 4 * 4 * 9), ("MPI_Wait", 8, 0)];
        assert_sums(tables, "W_d8", &looks);
        for call in ["MPI_Improbe", "MPI_Request_get_status"] {
            assert!(tables.sum("W_d8", call).calls >= 4, "{call}");
        }
        assert_sums(tables, "W_d9", &[("MPI_Bsend", 4, 4 * 4 * 10), ("MPI_Recv", 4, 4 * 4 * 10)]);
        assert_sums(tables, "W_d10", &[("MPI_Sendrecv", 4, 4 * 2 * 4 * 13)]);
        let own = [
            ("MPI_Buffer_attach", 4, 0),
            ("MPI_Buffer_detach", 4, 0),
            ("MPI_Grequest_start", 4, 0),
            ("MPI_Grequest_complete", 4, 0),
            ("MPI_Wait", 4, 0),
        ];
        assert_sums(tables, "S", &own);
        assert_all_seen(tables);
    });
}

#[case]
fn persistent_collectives_under_either_of_their_names() {
    assert_alike("fortran/persistent", &["MPI_Bcast_init", "MPIX_Bcast_init"], |finished| {
        let tables = finished.tables();
        // The root of the broadcast contributes nothing.
        let (barrier, bcast, allreduce, alltoallv) = (0, 3 * 4 * 7, 4 * 4 * 5, 4 * 4 * 4);
        let expected = [
            ("MPI_Barrier_init", 4, 0),
            ("MPI_Bcast_init", 4, 0),
            ("MPI_Allreduce_init", 4, 0),
            ("MPI_Alltoallv_init", 4, 0),
            ("MPI_Startall", 3 * 4, 3 * (barrier + bcast + allreduce + alltoallv)),
            ("MPI_Waitall", 3 * 4, 0),
            ("MPI_Start", 4, bcast),
            ("MPI_Wait", 4, 0),
            ("MPI_Request_free", 4 * 4, 0),
        ];
        assert_sums(tables, "W_d1", &expected);
        let of_ring = [("MPI_Neighbor_allgather_init", 4, 0), ("MPI_Startall", 12, 3 * 4 * 2 * 4 * 2)];
        assert_sums(tables, "W_d1_a1", &of_ring);
        assert_all_seen(tables);
    });
}

#[case]
fn fortran_calls_of_mpi_4_and_large_counts_are_counted() {
    assert_alike("fortran/mpi_four", &["MPI_Isendrecv"], |finished| {
        let tables = finished.tables();
        // MPICH 4.0 does not report what MPI_Isendrecv received.
        let untold = tables.not_seen(NotSeen::UnreportedReceive);
        let ways = if untold == 0 { 2 } else { 1 };
        assert!([0, 8].contains(&untold), "{untold}");
        assert_eq!(tables.run.not_seen.len(), usize::from(untold > 0));
        let both_ways = [
            ("MPI_Isendrecv", 4, ways * 4 * 4 * 6),
            ("MPI_Isendrecv_replace", 4, ways * 4 * 4 * 7),
            ("MPI_Wait", 8 + 4, 0),
            ("MPI_Comm_idup_with_info", 4, 0),
        ];
        assert_sums(tables, "W", &both_ways);
        let in_parts = [
            ("MPI_Psend_init", 4, 0),
            ("MPI_Precv_init", 4, 0),
            ("MPI_Startall", 4, 2 * 4 * 4 * 12),
            ("MPI_Pready", 4, 0),
            ("MPI_Pready_range", 4, 0),
            ("MPI_Pready_list", 4, 0),
            ("MPI_Parrived", 4, 0),
            ("MPI_Waitall", 4, 0),
            ("MPI_Request_free", 8, 0),
        ];
        assert_sums(tables, "W_d1", &in_parts);
        let large = [
            ("MPI_Isend", 4, 4 * 4 * 8),
            ("MPI_Recv", 4, 4 * 4 * 8),
            ("MPI_Bcast", 4, 3 * 4 * 9),
            ("MPI_Win_allocate", 4, 0),
            ("MPI_Win_allocate_shared", 4, 0),
            ("MPI_Win_fence", 8, 0),
            ("MPI_Win_free", 8, 0),
        ];
        assert_sums(tables, "W_d2", &large);
        assert_sums(tables, "W_i3", &[("MPI_Barrier", 4, 0)]);
    });
}

fn assert_expected(finished: &Finished) {
    let tables = finished.tables();
    assert_point_to_point_of_world(tables);
    assert_collectives_of_world(tables);
    assert_communicators(tables);
    // Each rank has one waitany that had nothing to wait for.
    let expected = BTreeMap::from([(NotSeen::CompletionOfNothing.name().to_owned(), 4)]);
    assert_eq!(tables.run.not_seen, expected);
}

/// The collective operations of the program on `MPI_COMM_WORLD`, and what creates communicators.
const OTHERS: [&str; 28] = [
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Scatter",
    "MPI_Scatterv",
    "MPI_Allgather",
    "MPI_Allgatherv",
    "MPI_Alltoall",
    "MPI_Alltoallv",
    "MPI_Alltoallw",
    "MPI_Scan",
    "MPI_Exscan",
    "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block",
    "MPI_Ibcast",
    "MPI_Iallreduce",
    "MPI_Ibarrier",
    "MPI_Iallgather",
    "MPI_Comm_split",
    "MPI_Comm_dup",
    "MPI_Comm_free",
    "MPI_Comm_create",
    "MPI_Cart_create",
    "MPI_Dist_graph_create_adjacent",
    "MPI_Cart_sub",
];

fn assert_point_to_point_of_world(tables: &Tables) {
    for rank in 0..4 {
        let sends = rank % 2 == 0;
        let mut expected = vec![
            ("MPI_Sendrecv", 1, 4 * (6 + 6)),
            ("MPI_Sendrecv_replace", 1, 4 * (7 + 7)),
            ("MPI_Irecv", 8, 4 * (8 + 9 + 2 + 10 + 20 + 11)),
            ("MPI_Isend", 4, 4 * (8 + 2 + 10 + 20)),
            ("MPI_Issend", 1, 4 * 9),
            ("MPI_Cancel", 1, 0),
            ("MPI_Waitany", 5, 0),
            ("MPI_Waitsome", 1, 0),
            ("MPI_Recv_init", 1, 0),
            ("MPI_Send_init", 1, 0),
            ("MPI_Startall", 2, 4 * 2 * (12 + 12)),
            ("MPI_Start", 2, 4 * (12 + 12)),
            ("MPI_Request_free", 2, 0),
            ("MPI_Waitall", 2 + 2 + 1, 0),
        ];
        if sends {
            expected.push(("MPI_Send", 3 + 1 + 3, 4 * (10 + 5 + 11 + 13 + 14 + 15)));
            expected.push(("MPI_Ssend", 1, 4 * 3));
            expected.push(("MPI_Wait", 5, 0));
        } else {
            expected.push(("MPI_Send", 1, 4 * 11));
            expected.push(("MPI_Recv", 4, 4 * (10 + 3 + 5 + 13)));
            expected.push(("MPI_Probe", 1, 0));
            expected.push(("MPI_Mprobe", 2, 0));
            expected.push(("MPI_Mrecv", 1, 4 * 14));
            expected.push(("MPI_Imrecv", 1, 4 * 15));
            expected.push(("MPI_Wait", 6, 0));
        }
        assert_calls_but(tables, "W", rank, &OTHERS, &expected);
    }
}

fn assert_collectives_of_world(tables: &Tables) {
    let expected: [(&str, u64, u64); 21] = [
        ("MPI_Barrier", 4, 0),
        ("MPI_Bcast", 4, 4 * 3 * 8),
        ("MPI_Reduce", 4, 4 * 4 * 8),
        ("MPI_Allreduce", 8, 4 * 4 * (8 + 3)),
        ("MPI_Gather", 4, 4 * 4 * 2),
        ("MPI_Scatter", 4, 4 * 4 * 2),
        ("MPI_Allgather", 4, 4 * 4 * 2),
        ("MPI_Alltoall", 4, 4 * 4 * 8),
        ("MPI_Scan", 4, 4 * 3 * 5),
        ("MPI_Exscan", 4, 4 * 3 * 6),
        ("MPI_Reduce_scatter_block", 4, 4 * 4 * 2),
        ("MPI_Gatherv", 4, 4 * 10),
        ("MPI_Scatterv", 4, 4 * 10),
        ("MPI_Allgatherv", 4, 4 * 10),
        ("MPI_Alltoallv", 4, 4 * 4 * 4),
        ("MPI_Alltoallw", 4, 4 * 4 * 4),
        ("MPI_Reduce_scatter", 4, 4 * 10),
        ("MPI_Ibcast", 4, 4 * 3 * 8),
        ("MPI_Iallreduce", 4, 4 * 4 * 8),
        ("MPI_Ibarrier", 4, 0),
        ("MPI_Iallgather", 4, 4 * 4 * 2),
    ];
    for (call, calls, bytes) in expected {
        let sum = tables.sum("W", call);
        assert_eq!((sum.calls, sum.bytes), (calls, bytes), "{call}");
    }
}

fn assert_communicators(tables: &Tables) {
    let count = |comm: &str, call: &str| {
        let sum = tables.sum(comm, call);
        (sum.calls, sum.bytes)
    };
    // in_time()'s, with its 4 messages from each rank.
    assert_eq!(count("W_d1", "MPI_Irecv"), (16, 4 * 4 * (3 + 6 + 9 + 12)));
    assert_eq!(count("W_d1", "MPI_Isend"), (16, 4 * 4 * (3 + 6 + 9 + 12)));
    for call in ASKING.into_iter().filter(|call| call.starts_with("MPI_Test")) {
        assert!(count("W_d1", call).0 >= 4, "{call}");
    }
    // communicators(): two halves, a duplicate, what was made of it, and what was made of that.
    let half = tables.comm("W_s2.0");
    assert_eq!(half.label, "a half");
    assert_eq!(count("W_s2.0", "MPI_Allreduce"), (2, 8));
    assert_eq!(count("W_s2.1", "MPI_Allreduce"), (1, 4));
    assert_eq!(count("W_d3", "MPI_Barrier"), (4, 0));
    assert_eq!(count("W_d3_c1.0", "MPI_Barrier"), (2, 0));
    assert_eq!(count("W_d3_i2", "MPI_Barrier"), (4, 0));
    assert_eq!(count("W_d3_i2_t1.0", "MPI_Barrier"), (4, 0));
    // topologies()
    assert_eq!(count("W_a4", "MPI_Neighbor_allgather").0, 4);
    assert_eq!(count("W_a4_b1.0", "MPI_Bcast"), (2, 4 * 3));
    assert_eq!(count("W_a4_b1.2", "MPI_Bcast"), (2, 4 * 3));
    assert_eq!(count("W_j5", "MPI_Neighbor_alltoall"), (4, 4 * 4 * 4));
}

#[case]
fn sessions_without_a_world() {
    assert_alike("fortran/sessions", &["MPI_Session_init"], |finished| {
        let tables = finished.tables();
        let everyone = tables.labelled("everyone");
        assert!(everyone.starts_with("F1.0-"), "{everyone}");
        assert_sums(tables, everyone, &[("MPI_Comm_create_from_group", 4, 0), ("MPI_Bcast", 4, 3 * 4 * 7)]);
        for half in ["evens", "odds"] {
            let half = tables.labelled(half);
            assert_sums(tables, half, &[("MPI_Comm_create_from_group", 2, 0), ("MPI_Barrier", 2, 0)]);
        }
        let both = [("MPI_Intercomm_create_from_groups", 4, 0), ("MPI_Sendrecv", 4, 4 * 2 * 4 * 11)];
        assert_sums(tables, tables.labelled("both"), &both);
        assert_all_seen(tables);
    });
}

#[case]
fn regions_by_number_and_recording_off_and_on() {
    with_each_interface("fortran/regions", |mpi, interface, program| {
        let finished = Run::from_program(mpi, program).ranks(2).profiled();
        let tables = finished.tables();
        let mut barriers: BTreeMap<String, u64> = BTreeMap::new();
        for row in &tables.calls {
            assert_eq!(row.call, "MPI_Barrier", "{interface} of {}", mpi.name);
            *barriers.entry(row.region.clone()).or_default() += row.calls;
        }
        let expected = [("", 2), ("region 7", 4), ("region 7/region 8", 4)];
        let expected = expected.map(|(region, calls)| (region.to_owned(), calls));
        assert_eq!(barriers, BTreeMap::from(expected), "{interface} of {}", mpi.name);
        assert_peers(tables, &[]);
    });
}

#[case]
fn windows_and_files_count_on_their_communicator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    with_each_interface("fortran/storage", |mpi, interface, program| {
        // Open MPI 4.1 makes no window on a communicator that is not the whole world over UCX.
        let run = Run::from_program(mpi, program).variable("OMPI_MCA_osc", "^ucx");
        let finished = run.argument(folder.path().display()).profiled();
        assert_eq!(finished.stdout, "all is well\n");
        let tables = finished.tables();
        for rank in 0..4 {
            let expected = [
                ("MPI_Win_create", 1, 0),
                ("MPI_Win_allocate", 1, 0),
                ("MPI_Win_allocate_shared", 1, 0),
                ("MPI_Win_fence", 4 + 2 + 1, 0),
                ("MPI_Put", 2, 4 * (3 + 6)),
                ("MPI_Accumulate", 1, 4 * 2),
                ("MPI_Win_lock_all", 1, 0),
                ("MPI_Get_accumulate", 1, 4 * 5),
                ("MPI_Win_flush", 1, 0),
                ("MPI_Rget", 1, 4 * 4),
                ("MPI_Win_unlock_all", 1, 0),
                ("MPI_Win_free", 3, 0),
                ("MPI_File_open", 1, 0),
                ("MPI_File_write_at", 1, 4 * 10),
                ("MPI_File_sync", 2, 0),
                ("MPI_Barrier", 1, 0),
                ("MPI_File_read_at_all", 1, 4 * 5),
                ("MPI_File_iread_at", 1, 4 * 7),
                ("MPI_File_close", 1, 0),
                ("MPI_Wait", 2, 0),
                ("MPI_Comm_free", 1, 0),
            ];
            assert_calls_but(tables, "W_d1", rank, &[], &expected);
        }
        assert_sums(tables, "S", &[("MPI_File_delete", 1, 0)]);
        assert!(!folder.path().join("storage").exists());
        assert!(tables.run.not_seen.is_empty(), "{interface} of {}: {:?}", mpi.name, tables.run.not_seen);
        finished.check();
    });
}
