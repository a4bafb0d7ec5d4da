//! Requests that MPI 4 adds: persistent collectives and partitioned messages, of which each start
//! has the bytes; and what else looks at requests or makes them.

use crate::exact::{assert_all_seen, assert_calls, assert_classes, assert_peers, counts, printed};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, case};

/// Bytes that a rank contributes to each operation, and the message of which they are a part; one
/// operation has one communicator, with its name. Four ranks, the last is the root.
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

#[case]
fn each_start_of_a_persistent_collective_has_its_bytes(mpi: &Mpi) {
    let finished = Run::new(mpi, "collectives/persistent").profiled();
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
}

#[case]
fn persistent_collectives_do_not_depend_on_the_mpi() {
    let run = |mpi: &Mpi| Run::new(mpi, "collectives/persistent").profiled();
    let finished: Vec<Finished> = Mpi::all().iter().map(run).collect();
    for other in &finished[1..] {
        assert_eq!(counts(finished[0].tables()), counts(other.tables()));
    }
}

#[case]
fn each_start_of_a_partitioned_message_has_all_of_it(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/partitioned").ranks(2).profiled();
    if finished.stdout.contains("asked -") {
        return;
    }
    let tables = finished.tables();
    let asked = [printed(&finished.stdout, "asked"), printed(&finished.stdout, "asked too")];
    let message = 6 * 101 * 4;
    for rank in 0..2 {
        let on_dup = [
            ("MPI_Psend_init", 1, 0),
            ("MPI_Precv_init", 1, 0),
            ("MPI_Startall", 1, 2 * message),
            ("MPI_Start", 4, 4 * message),
            ("MPI_Pready", 3, 0),
            ("MPI_Pready_range", 3, 0),
            ("MPI_Pready_list", 3, 0),
            ("MPI_Parrived", asked[rank as usize], 0),
            ("MPI_Waitall", 3, 0),
            ("MPI_Request_free", 2, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, "W_d1", rank, &on_dup);
        assert_classes(tables, "W_d1", rank, "MPI_Start", &[message; 4]);
        assert_calls(tables, "W", rank, &[("MPI_Comm_dup", 1, 0), ("MPI_Barrier", 1, 0)]);
    }
    let traffic = [3, 3 * message, 3, 3 * message];
    assert_peers(tables, &[("W_d1", 0, 1, traffic), ("W_d1", 1, 0, traffic)]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn buffered_sends_started_again_before_they_arrive_are_counted(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/restarted").ranks(2).profiled();
    let tables = finished.tables();
    let sender = [
        ("MPI_Bsend_init", 2, 0),
        ("MPI_Start", 6, 3 * (70001 + 66003)),
        ("MPI_Startall", 2, 2 * (70001 + 66003)),
        ("MPI_Wait", 6, 0),
        ("MPI_Waitall", 2, 0),
        ("MPI_Request_free", 2, 0),
        ("MPI_Barrier", 1, 0),
    ];
    assert_calls(tables, "W", 0, &sender);
    let traffic = 5 * (70001 + 66003);
    assert_peers(tables, &[("W", 0, 1, [10, traffic, 0, 0]), ("W", 1, 0, [0, 0, 10, traffic])]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_request_that_is_looked_at_stays_open(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/request_status").ranks(2).profiled();
    let tables = finished.tables();
    let looked = printed(&finished.stdout, "looked");
    let receiver = [
        ("MPI_Irecv", 1, 1201),
        ("MPI_Request_get_status", looked, 0),
        ("MPI_Wait", 1, 0),
        ("MPI_Comm_free", 1, 0),
    ];
    assert_calls(tables, "W_d1", 1, &receiver);
    assert_peers(tables, &[("W_d1", 0, 1, [1, 1201, 0, 0]), ("W_d1", 1, 0, [0, 0, 1, 1201])]);
    // The last look, at no request, belongs to no communicator.
    let nothing = (NotSeen::CompletionOfNothing.name().to_owned(), 1);
    assert_eq!(tables.run.not_seen, [nothing].into());
    finished.check();
}

#[case]
fn a_duplicate_with_info_is_named_as_one_without(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/idup_with_info").profiled();
    let tables = finished.tables();
    let has_it = printed(&finished.stdout, "version") >= 4;
    let call = if has_it { "MPI_Comm_idup_with_info" } else { "MPI_Comm_idup" };
    assert_eq!(tables.comm("W_i1_i1").created_by, call);
    for rank in 0..4 {
        assert_calls(tables, "W", rank, &[(call, 1, 0), ("MPI_Wait", 1, 0)]);
        let on_first = [(call, 1, 0), ("MPI_Wait", 1, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(tables, "W_i1", rank, &on_first);
        assert_calls(tables, "W_i1_i1", rank, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
    }
    assert_all_seen(tables);
    finished.check();
}
