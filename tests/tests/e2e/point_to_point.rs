//! Point-to-point communication: what was sent and received, between whom, on which communicator.

use crate::exact::{
    assert_all_seen, assert_calls, assert_classes, assert_in_classes, assert_peers, counts, printed,
};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Mpi, Run, case};

#[case]
fn each_mode_of_blocking_send_has_its_row_and_receives_have_the_bytes_that_came(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/blocking_sends").ranks(2).profiled();
    let tables = finished.tables();
    assert_calls(
        tables,
        "W",
        0,
        &[
            ("MPI_Send", 1, 1009),
            ("MPI_Bsend", 1, 2003),
            ("MPI_Ssend", 1, 4001),
            ("MPI_Rsend", 1, 8009),
            ("MPI_Recv", 1, 0),
        ],
    );
    assert_calls(
        tables,
        "W",
        1,
        &[
            ("MPI_Recv", 3, 1009 + 2003 + 4001),
            ("MPI_Irecv", 1, 8009),
            ("MPI_Send", 1, 0),
            ("MPI_Wait", 1, 0),
        ],
    );
    assert_classes(tables, "W", 1, "MPI_Recv", &[1009, 2003, 4001]);
    assert_classes(tables, "W", 1, "MPI_Irecv", &[8009]);
    assert_classes(tables, "W", 0, "MPI_Recv", &[0]);
    let bytes = 1009 + 2003 + 4001 + 8009;
    assert_peers(tables, &[("W", 0, 1, [4, bytes, 1, 0]), ("W", 1, 0, [1, 0, 4, bytes])]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn bytes_of_an_irecv_are_on_its_row_whatever_completes_it(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/nonblocking_sends").ranks(3).profiled();
    let tables = finished.tables();
    assert_calls(
        tables,
        "W",
        0,
        &[
            ("MPI_Isend", 1, 1013),
            ("MPI_Ibsend", 1, 2011),
            ("MPI_Issend", 1, 4003),
            ("MPI_Irsend", 1, 8011),
            ("MPI_Waitall", 1, 0),
            ("MPI_Barrier", 2, 0),
        ],
    );
    let bytes = 1013 + 2011 + 4003 + 8011;
    assert_calls(
        tables,
        "W",
        1,
        &[
            ("MPI_Irecv", 4, bytes),
            ("MPI_Wait", 1, 0),
            ("MPI_Waitany", 1, 0),
            ("MPI_Waitall", 1, 0),
            ("MPI_Waitsome", 1, 0),
            ("MPI_Barrier", 2, 0),
        ],
    );
    assert_calls(tables, "W", 2, &[("MPI_Barrier", 2, 0)]);
    assert_classes(tables, "W", 1, "MPI_Irecv", &[1013, 2011, 4003, 8011]);
    assert_peers(tables, &[("W", 0, 1, [4, bytes, 0, 0]), ("W", 1, 0, [0, 0, 4, bytes])]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn bytes_are_those_of_the_data_whatever_the_datatype(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/datatypes").ranks(2).profiled();
    let tables = finished.tables();
    let long_double = size_of::<u128>() as u64;
    let messages = [101, 103 * 4, 107 * 8, 109 * long_double, 113 * 60, 127 * 21, 131 * 2, 0];
    let bytes = messages.iter().sum();
    assert_calls(tables, "W", 0, &[("MPI_Send", 8, bytes), ("MPI_Irecv", 8, bytes), ("MPI_Wait", 8, 0)]);
    assert_calls(tables, "W", 1, &[("MPI_Recv", 8, bytes), ("MPI_Isend", 8, bytes), ("MPI_Wait", 8, 0)]);
    for (rank, call) in [(0, "MPI_Send"), (0, "MPI_Irecv"), (1, "MPI_Recv"), (1, "MPI_Isend")] {
        assert_classes(tables, "W", rank, call, &messages);
    }
    assert_peers(tables, &[("W", 0, 1, [8, bytes, 8, bytes]), ("W", 1, 0, [8, bytes, 8, bytes])]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn communication_with_proc_null_counts_and_moves_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/proc_null").ranks(2).profiled();
    let tables = finished.tables();
    for rank in 0..2 {
        assert_calls(
            tables,
            "W",
            rank,
            &[
                ("MPI_Send", 1, 0),
                ("MPI_Bsend", 1, 0),
                ("MPI_Ssend", 1, 0),
                ("MPI_Rsend", 1, 0),
                ("MPI_Recv", 2, 0),
                ("MPI_Isend", 1, 0),
                ("MPI_Ibsend", 1, 0),
                ("MPI_Issend", 1, 0),
                ("MPI_Irsend", 1, 0),
                ("MPI_Irecv", 1, 0),
                ("MPI_Send_init", 1, 0),
                ("MPI_Bsend_init", 1, 0),
                ("MPI_Ssend_init", 1, 0),
                ("MPI_Rsend_init", 1, 0),
                ("MPI_Recv_init", 1, 0),
                ("MPI_Start", 1, 0),
                ("MPI_Startall", 1, 0),
                ("MPI_Waitall", 1, 0),
                ("MPI_Request_free", 5, 0),
                ("MPI_Sendrecv", 1, 0),
                ("MPI_Sendrecv_replace", 1, 0),
                ("MPI_Probe", 1, 0),
                ("MPI_Iprobe", 1, 0),
            ],
        );
    }
    assert!(tables.peers.is_empty(), "{:?}", tables.peers);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn calls_with_proc_null_are_in_the_class_of_no_bytes(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/proc_null").ranks(1).profiled();
    let calls = &finished.tables().calls;
    let others: Vec<_> = calls.iter().filter(|row| row.size_max > 0).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[case]
fn sendrecv_counts_both_directions_in_the_class_of_what_it_sends(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/sendrecv").ranks(3).profiled();
    let tables = finished.tables();
    // Up go 1000 and 1001, down 5002 and 5001.
    let both = [[1000, 5002], [1000 + 1001, 5002 + 5001], [1001, 5001]];
    // The ends of the chain send nothing outwards.
    let sent = [[1000, 0], [1001, 5002], [0, 5001]];
    for (rank, ([sendrecv, replace], sent)) in (0..).zip(both.into_iter().zip(sent)) {
        assert_calls(
            tables,
            "W",
            rank,
            &[("MPI_Sendrecv", 1, sendrecv), ("MPI_Sendrecv_replace", 1, replace)],
        );
        assert_in_classes(tables, "W", rank, "MPI_Sendrecv", &[[sent[0], sendrecv]]);
        assert_in_classes(tables, "W", rank, "MPI_Sendrecv_replace", &[[sent[1], replace]]);
        assert_in_classes(tables, "S", rank, "MPI_Sendrecv", &[[211, 2 * 211]]);
        assert_in_classes(tables, "S", rank, "MPI_Sendrecv_replace", &[[307, 2 * 307]]);
        let itself = [("MPI_Sendrecv", 1, 2 * 211), ("MPI_Sendrecv_replace", 1, 2 * 307)];
        assert_calls(tables, "S", rank, &itself);
    }
    let own = [2, 211 + 307, 2, 211 + 307];
    assert_peers(
        tables,
        &[
            ("W", 0, 1, [1, 1000, 1, 5002]),
            ("W", 1, 0, [1, 5002, 1, 1000]),
            ("W", 1, 2, [1, 1001, 1, 5001]),
            ("W", 2, 1, [1, 5001, 1, 1001]),
            ("S", 0, 0, own),
            ("S", 1, 1, own),
            ("S", 2, 2, own),
        ],
    );
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn probes_count_and_move_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/probes").ranks(2).profiled();
    let asked = printed(&finished.stdout, "asked");
    let tables = finished.tables();
    assert_calls(tables, "W", 0, &[("MPI_Send", 2, 1511 + 1523)]);
    assert_calls(
        tables,
        "W",
        1,
        &[("MPI_Probe", 1, 0), ("MPI_Iprobe", asked, 0), ("MPI_Recv", 2, 1511 + 1523)],
    );
    assert_calls(tables, "S", 1, &[("MPI_Iprobe", 1, 0)]);
    assert_peers(tables, &[("W", 0, 1, [2, 3034, 0, 0]), ("W", 1, 0, [0, 0, 2, 3034])]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_message_that_a_probe_took_is_received_where_it_was_sent(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/matched_probes").ranks(2).profiled();
    let asked = printed(&finished.stdout, "asked");
    let tables = finished.tables();
    let made = [("MPI_Comm_dup", 1, 0)];
    let [dup] = made;
    assert_calls(tables, "W", 0, &[dup, ("MPI_Send", 1, 1601)]);
    assert_calls(tables, "W", 1, &[dup, ("MPI_Mprobe", 1, 0), ("MPI_Mrecv", 1, 1601)]);
    assert_calls(
        tables,
        "W_d1",
        1,
        &[("MPI_Improbe", asked, 0), ("MPI_Imrecv", 1, 1607), ("MPI_Wait", 1, 0), ("MPI_Comm_free", 1, 0)],
    );
    assert_classes(tables, "W_d1", 1, "MPI_Imrecv", &[1607]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_message_from_nobody_is_received_where_it_was_probed(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/matched_nobody").ranks(1).profiled();
    let tables = finished.tables();
    let calls = ["MPI_Mprobe", "MPI_Improbe", "MPI_Mrecv", "MPI_Imrecv", "MPI_Wait", "MPI_Comm_free"];
    assert_calls(tables, "W_d1", 0, &calls.map(|call| (call, 1, 0)));
    assert_peers(tables, &[]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_combined_nonblocking_send_and_receive_has_the_sum_of_both_directions(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/isendrecv").ranks(2).profiled();
    let ways = match finished.stdout.trim() {
        "whole" => 2,
        "half" => 1,
        _ => return,
    };
    let tables = finished.tables();
    for rank in 0..2 {
        // Messages to 0 are one byte longer.
        let first = if ways == 2 { 1129 + 1130 } else { 1129 + u64::from(rank) };
        let rows = [
            ("MPI_Isendrecv", 2, first + ways * 2137),
            ("MPI_Isendrecv_replace", 1, ways * 4139),
            ("MPI_Wait", 1, 0),
            ("MPI_Waitall", 1, 0),
        ];
        assert_calls(tables, "W", rank, &rows);
        let sent = 1129 + u64::from(rank) + 2137 + 4139;
        assert_eq!(tables.peer("W", rank, 1 - rank)[..2], [3, sent]);
        let sent = [[1129 + u64::from(rank), first], [2137, ways * 2137]];
        assert_in_classes(tables, "W", rank, "MPI_Isendrecv", &sent);
        assert_in_classes(tables, "W", rank, "MPI_Isendrecv_replace", &[[4139, ways * 4139]]);
    }
    if ways == 2 {
        assert_all_seen(tables);
        finished.check();
    } else {
        // The received message is in no table, and has no sender.
        assert_eq!(tables.run.not_seen, [(NotSeen::UnreportedReceive.name().to_owned(), 6)].into());
        assert_eq!([0, 1].map(|rank| tables.peer("W", rank, 1 - rank)[2..].to_vec()), [[0, 0], [0, 0]]);
    }
}

#[case]
fn peers_are_ranks_of_the_world(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/split_peers").ranks(4).profiled();
    let tables = finished.tables();
    let names = tables.names();
    let [even, odd] = [0, 1].map(|rank| {
        let holds = |name: &&&str| tables.comm(name).members.all().contains(rank);
        *names.iter().filter(|name| name.starts_with("W_s")).find(holds).expect("a split with the rank")
    });
    assert_peers(
        tables,
        &[
            (even, 2, 0, [1, 603, 0, 0]),
            (even, 0, 2, [0, 0, 1, 603]),
            (odd, 3, 1, [1, 604, 0, 0]),
            (odd, 1, 3, [0, 0, 1, 604]),
        ],
    );
    assert_calls(tables, even, 2, &[("MPI_Send", 1, 603), ("MPI_Comm_free", 1, 0)]);
    assert_calls(tables, odd, 1, &[("MPI_Recv", 1, 604), ("MPI_Comm_free", 1, 0)]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn peers_across_groups_are_ranks_of_the_world(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/across_groups").ranks(4).profiled();
    let tables = finished.tables();
    let names = tables.names();
    let both = *names.iter().find(|name| name.contains("_x")).expect("an intercommunicator");
    for rank in 0..4 {
        let (sent, received) = (4019 + u64::from(rank), 4019 + u64::from(3 - rank));
        assert_eq!(tables.peer(both, rank, 3 - rank), [1, sent, 1, received]);
        let rows = [
            ("MPI_Irecv", 1, received),
            ("MPI_Isend", 1, sent),
            ("MPI_Waitall", 1, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, both, rank, &rows);
    }
    assert_eq!(tables.peers.len(), 4);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn errors_are_those_without_the_profiler_and_move_nothing(mpi: &Mpi) {
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let plain = Run::new(mpi, "point_to_point/errors").ranks(2).plain();
    let finished = Run::new(mpi, "point_to_point/errors").ranks(2).profiled();
    assert_eq!(sorted(&finished.stdout), sorted(&plain.stdout));
    let failed = |line: &&str| line.split(' ').rev().nth(1) == Some("0");
    assert_eq!(plain.stdout.lines().filter(failed).count(), 2 + 2 * 9, "{}", plain.stdout);
    let tables = finished.tables();
    let both = [("MPI_Irecv", 1, 0), ("MPI_Isend", 1, 0), ("MPI_Send_init", 1, 0), ("MPI_Sendrecv", 1, 0)];
    let [irecv, isend, init, sendrecv] = both;
    assert_calls(
        tables,
        "W",
        0,
        &[irecv, isend, init, sendrecv, ("MPI_Send", 6, 2 * 2999 + 2503), ("MPI_Recv", 1, 0)],
    );
    assert_calls(
        tables,
        "W",
        1,
        &[
            ("MPI_Irecv", 2, 0),
            isend,
            init,
            sendrecv,
            ("MPI_Send", 3, 0),
            ("MPI_Recv", 3, 2503),
            ("MPI_Wait", 1, 0),
        ],
    );
    assert_eq!(tables.not_seen(NotSeen::UnknownCommunicator), 2);
    assert_eq!(tables.not_seen(NotSeen::UnknownRequest), 0);
    // Two messages were longer than their receives: they count, without bytes.
    assert_eq!(tables.not_seen(NotSeen::TruncatedReceive), 2);
    assert_peers(tables, &[("W", 0, 1, [3, 2 * 2999 + 2503, 0, 0]), ("W", 1, 0, [0, 0, 3, 2503])]);
}

#[case]
fn large_counts_count_under_the_plain_names(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/large_count").ranks(2).profiled();
    finished.check();
    if !finished.stdout.contains("large") {
        return;
    }
    let tables = finished.tables();
    let (sent, back) = (1069 + 1087, 1091 + 1087);
    let started = 1051 + 1061 + 1063;
    assert_calls(
        tables,
        "W",
        0,
        &[
            ("MPI_Send", 1, 1019),
            ("MPI_Bsend", 1, 1021),
            ("MPI_Ssend", 1, 1031),
            ("MPI_Isend", 1, 1033),
            ("MPI_Ibsend", 1, 1039),
            ("MPI_Issend", 1, 1049),
            ("MPI_Send_init", 1, 0),
            ("MPI_Bsend_init", 1, 0),
            ("MPI_Ssend_init", 1, 0),
            ("MPI_Startall", 1, started),
            ("MPI_Waitall", 1, 0),
            ("MPI_Sendrecv", 1, 1069 + 1091),
            ("MPI_Sendrecv_replace", 1, 2 * 1087),
            ("MPI_Request_free", 3, 0),
        ],
    );
    let (blocking, nonblocking) = (1019 + 1021 + 1031, 1033 + 1039 + 1049);
    assert_calls(
        tables,
        "W",
        1,
        &[
            ("MPI_Recv", 3, blocking),
            ("MPI_Irecv", 3, nonblocking),
            ("MPI_Recv_init", 1, 0),
            ("MPI_Start", 3, started),
            ("MPI_Wait", 6, 0),
            ("MPI_Sendrecv", 1, 1069 + 1091),
            ("MPI_Sendrecv_replace", 1, 2 * 1087),
            ("MPI_Request_free", 1, 0),
        ],
    );
    let up = blocking + nonblocking + started + sent;
    assert_peers(tables, &[("W", 0, 1, [11, up, 2, back]), ("W", 1, 0, [2, back, 11, up])]);
    assert_all_seen(tables);
}

/// Programs that call the same functions in every run under every MPI.
const DETERMINISTIC: [&str; 7] = [
    "point_to_point/blocking_sends",
    "point_to_point/nonblocking_sends",
    "point_to_point/datatypes",
    "point_to_point/proc_null",
    "point_to_point/sendrecv",
    "point_to_point/split_peers",
    "point_to_point/across_groups",
];

#[case]
fn counts_do_not_depend_on_the_mpi() {
    for program in DETERMINISTIC {
        let all: Vec<_> = Mpi::all_for_core()
            .iter()
            .map(|mpi| counts(Run::new(mpi, program).profiled().tables()))
            .collect();
        for other in &all[1..] {
            assert_eq!(&all[0], other, "{program}");
        }
    }
}
