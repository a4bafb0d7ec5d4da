//! Persistent collectives and partitioned communication: each start has the bytes of what it starts.

mod exact;

use exact::{assert_all_seen, assert_calls, assert_classes, assert_peers, counts};
use mpisee_tests::{Finished, Mpi, Run, on_each_mpi};

/// What a rank contributes to each operation, and the message of which it is a part; one operation has one
/// communicator, with its name. Four ranks, the last is the root.
fn volume(operation: &str, rank: u64) -> (u64, u64) {
    let both = |bytes| (bytes, bytes);
    let unless = |without, bytes| (if rank == without { 0 } else { bytes }, bytes);
    match operation {
        "Barrier" => both(0),
        "Bcast" => unless(3, 1103),
        "Gather" => both(1109),
        "Scatter" => both(1117),
        "Allgather" => both(1123),
        "Alltoall" => both(4 * 1129),
        "Reduce" => both(1151),
        "Allreduce" => both(1153),
        "Reduce_scatter_block" => both(1163),
        "Scan" => unless(0, 1171),
        "Exscan" => unless(0, 1181),
        "Gatherv" => both(1187 + rank),
        "Scatterv" => both(1193 + rank),
        "Allgatherv" => both(1201 + rank),
        "Reduce_scatter" => both(1213 + rank),
        "Alltoallv" => both(4 * (1217 + 5 * rank) + 6),
        "Alltoallw" => both(4 * (1229 + 5 * rank) + 6),
        "Neighbor_allgather" => both(2 * 1231),
        "Neighbor_allgatherv" => both(2 * (1237 + rank)),
        "Neighbor_alltoall" => both(2 * 1249),
        "Neighbor_alltoallv" => both(2 * (1259 + rank)),
        "Neighbor_alltoallw" => both(2 * (1277 + rank)),
        other => panic!("{other} is not in the program"),
    }
}

#[test]
fn each_start_of_a_persistent_collective_has_its_bytes() {
    on_each_mpi(|mpi| {
        let finished = Run::new(mpi, "persistent_collectives").profiled();
        let tables = finished.tables();
        let labelled: Vec<_> = tables.comms.iter().filter(|row| row.parent == "W").collect();
        assert_eq!(labelled.len(), 22);
        for comm in labelled {
            let init = format!("MPI_{}_init", comm.label);
            for rank in 0..4 {
                let (bytes, message) = volume(&comm.label, rank.into());
                let starts = if ["Bcast", "Allreduce"].contains(&comm.label.as_str()) { 3 } else { 1 };
                let rows = [
                    (init.as_str(), 2, 0),
                    ("MPI_Start", starts, starts * bytes),
                    ("MPI_Startall", 1, bytes),
                    ("MPI_Wait", starts, 0),
                    ("MPI_Waitall", 1, 0),
                    ("MPI_Request_free", 2, 0),
                    ("MPI_Comm_free", 1, 0),
                ];
                assert_calls(tables, &comm.comm, rank, &rows);
                if bytes == message {
                    let messages = [message; 3];
                    assert_classes(tables, &comm.comm, rank, "MPI_Start", &messages[..starts as usize]);
                }
            }
        }
        assert_peers(tables, &[]);
        assert_all_seen(tables);
        finished.check();
    });
}

#[test]
fn persistent_collectives_do_not_depend_on_the_mpi() {
    let run = |mpi: &Mpi| Run::new(mpi, "persistent_collectives").profiled();
    let finished: Vec<Finished> = Mpi::all().iter().map(run).collect();
    for other in &finished[1..] {
        assert_eq!(counts(finished[0].tables()), counts(other.tables()));
    }
}
