//! Programs in Fortran: each of the three interfaces is recorded, once, and like the others.

mod exact;

use exact::{assert_calls_but, assert_peers, counts};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, Tables, on_each_mpi};
use std::collections::BTreeMap;

const INTERFACES: [&str; 3] = ["MPIF_H", "USE_MPI", "USE_MPI_F08"];

/// Runs `test` with each interface of each MPI that has any.
fn with_each_interface(program: &str, test: impl Fn(&Mpi, &str, std::path::PathBuf)) {
    on_each_mpi(|mpi| {
        for interface in INTERFACES {
            match mpi.compile_fortran(program, interface) {
                Some(program) => test(mpi, interface, program),
                None => eprintln!("{} has no Fortran", mpi.name),
            }
        }
    });
}

/// Calls that ask whether something is done: how many it takes depends on time.
const ASKING: [&str; 4] = ["MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome"];

#[test]
fn every_call_is_seen_once_whatever_the_interface_and_the_mpi() {
    let first = std::cell::RefCell::new(None);
    with_each_interface("fortran", |mpi, interface, program| {
        let plain = Run::of(mpi, program.clone()).plain();
        assert_eq!(plain.stdout, "all is well\n");
        let finished = Run::of(mpi, program).profiled();
        assert_eq!(finished.stdout, plain.stdout);
        assert_expected(&finished);
        let mut counts = counts(finished.tables());
        counts.retain(|row| !ASKING.iter().any(|call| row.contains(&format!("{call} "))));
        let mut first = first.borrow_mut();
        let first = first.get_or_insert_with(|| counts.clone());
        assert_eq!(&counts, first, "left: {interface} of {}, right: the first", mpi.name);
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
    finished.check();
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
    for call in ASKING {
        assert!(count("W_d1", call).0 >= 4, "{call}");
    }
    // communicators(): two halves, a duplicate, what was made of it, and what was made of that.
    let half = tables.comm("W_s2.0");
    assert_eq!(half.label, "a half");
    assert_eq!(count("W_s2.0", "MPI_Allreduce"), (2, 8));
    assert_eq!(count("W_s2.1", "MPI_Allreduce"), (1, 4));
    assert_eq!(count("W_d3", "MPI_Barrier"), (4, 0));
    assert_eq!(count("W_d3_c4.0", "MPI_Barrier"), (2, 0));
    assert_eq!(count("W_d3_i5", "MPI_Barrier"), (4, 0));
    assert_eq!(count("W_d3_i5_t6.0", "MPI_Barrier"), (4, 0));
    // topologies()
    assert_eq!(count("W_a7", "MPI_Neighbor_allgather").0, 4);
    assert_eq!(count("W_a7_b8.0", "MPI_Bcast"), (2, 4 * 3));
    assert_eq!(count("W_a7_b8.2", "MPI_Bcast"), (2, 4 * 3));
    assert_eq!(count("W_j9", "MPI_Neighbor_alltoall"), (4, 4 * 4 * 4));
}

#[test]
fn regions_by_number_and_recording_off_and_on() {
    with_each_interface("fortran_regions", |mpi, interface, program| {
        let finished = Run::of(mpi, program).ranks(2).profiled();
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

#[test]
fn windows_and_files_count_on_their_communicator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    with_each_interface("fortran_storage", |mpi, interface, program| {
        // Open MPI 4.1 makes no window on a communicator that is not the whole world over UCX.
        let run = Run::of(mpi, program).variable("OMPI_MCA_osc", "^ucx");
        let finished = run.argument(folder.path().display()).profiled();
        assert_eq!(finished.stdout, "all is well\n");
        let tables = finished.tables();
        for rank in 0..4 {
            let expected = [
                ("MPI_Win_create", 1, 0),
                ("MPI_Win_fence", 4, 0),
                ("MPI_Put", 1, 4 * 3),
                ("MPI_Accumulate", 1, 4 * 2),
                ("MPI_Win_lock_all", 1, 0),
                ("MPI_Get_accumulate", 1, 4 * 5),
                ("MPI_Win_flush", 1, 0),
                ("MPI_Rget", 1, 4 * 4),
                ("MPI_Win_unlock_all", 1, 0),
                ("MPI_Win_free", 1, 0),
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
        assert!(tables.run.not_seen.is_empty(), "{interface} of {}: {:?}", mpi.name, tables.run.not_seen);
        finished.check();
    });
}
