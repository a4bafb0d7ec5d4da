//! Requests: whatever completes them, wherever they wander, their bytes and time come to the
//! communicator and the call that they belong to.

use crate::exact::{assert_all_seen, assert_calls, assert_classes, assert_peers, counts, printed};
use mpisee_profile::rows::CallRow;
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, Tables, case, through};
use std::collections::BTreeMap;

#[case]
fn bytes_of_persistent_requests_are_on_each_start(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/persistent").ranks(2).profiled();
    let tables = finished.tables();
    let modes = [1103, 2111, 4111, 8111];
    let round: u64 = modes.iter().sum();
    let shared = [
        ("MPI_Start", 12, 3 * round),
        ("MPI_Startall", 3, 3 * round),
        ("MPI_Wait", 12, 0),
        ("MPI_Waitall", 3, 0),
        ("MPI_Request_free", 4, 0),
        ("MPI_Barrier", 6, 0),
        ("MPI_Comm_dup", 1, 0),
    ];
    let sends = ["MPI_Send_init", "MPI_Bsend_init", "MPI_Ssend_init", "MPI_Rsend_init"];
    let sender: Vec<_> = shared.into_iter().chain(sends.map(|call| (call, 1, 0))).collect();
    let receiver: Vec<_> = shared.into_iter().chain([("MPI_Recv_init", 4, 0)]).collect();
    assert_calls(tables, "W", 0, &sender);
    assert_calls(tables, "W", 1, &receiver);
    for (rank, init) in [(0, "MPI_Send_init"), (1, "MPI_Recv_init")] {
        let on_dup = [
            (init, 1, 0),
            ("MPI_Startall", 3, 3 * 503),
            ("MPI_Waitall", 3, 0),
            ("MPI_Request_free", 1, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, "W_d1", rank, &on_dup);
        assert_classes(tables, "W", rank, "MPI_Start", &modes.repeat(3));
        assert_classes(tables, "W_d1", rank, "MPI_Startall", &[503; 3]);
    }
    let (messages, bytes) = (24, 6 * round);
    assert_peers(
        tables,
        &[
            ("W", 0, 1, [messages, bytes, 0, 0]),
            ("W", 1, 0, [0, 0, messages, bytes]),
            ("W_d1", 0, 1, [3, 3 * 503, 0, 0]),
            ("W_d1", 1, 0, [0, 0, 3, 3 * 503]),
        ],
    );
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_completion_without_an_active_request_belongs_to_no_communicator(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/nothing_to_complete").ranks(2).profiled();
    let tables = finished.tables();
    for rank in 0..2 {
        let on_world = [("MPI_Comm_dup", 1, 0), ("MPI_Recv_init", 1, 0), ("MPI_Request_free", 1, 0)];
        assert_calls(tables, "W", rank, &on_world);
        let bytes = 1201 + 1213 + 1217;
        let on_dup = [
            ("MPI_Irecv", 3, bytes),
            ("MPI_Send", 3, bytes),
            ("MPI_Waitall", 1, 0),
            ("MPI_Waitany", 1, 0),
            ("MPI_Waitsome", 1, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, "W_d1", rank, &on_dup);
    }
    let of_nothing = (NotSeen::CompletionOfNothing.name().to_owned(), 2 * (3 * 6 + 4));
    assert_eq!(tables.run.not_seen, BTreeMap::from([of_nothing]));
    finished.check();
}

/// Compares with what the program worked out: `RANK COMM CALL CALLS BYTES`.
#[track_caller]
fn assert_as_printed(finished: &Finished) {
    let tables = finished.tables();
    type Rows<'t> = BTreeMap<(u32, &'t str), Vec<(&'t str, u64, u64)>>;
    let mut expected: Rows = BTreeMap::new();
    for line in finished.stdout.lines().filter(|line| !line.starts_with("of nothing")) {
        let words: Vec<_> = line.split(' ').collect();
        let &[rank, comm, call, calls, bytes] = &words[..] else { panic!("{line}") };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let row = (call, number(calls), number(bytes));
        expected.entry((number(rank) as u32, comm)).or_default().push(row);
    }
    for ((rank, comm), rows) in &mut expected {
        rows.push(if *comm == "W" { ("MPI_Comm_dup", 2, 0) } else { ("MPI_Comm_free", 1, 0) });
        assert_calls(tables, comm, *rank, rows);
    }
    let of_nothing: Vec<u64> =
        finished.stdout.lines().filter_map(|line| line.strip_prefix("of nothing ")?.parse().ok()).collect();
    assert_eq!(of_nothing.len(), tables.ranks.len());
    assert_eq!(expected.len(), 3 * tables.ranks.len());
    let expected = (NotSeen::CompletionOfNothing.name().to_owned(), of_nothing.iter().sum());
    assert_eq!(tables.run.not_seen, BTreeMap::from([expected]));
    finished.check();
}

#[case]
fn every_way_of_completion_is_charged_to_the_communicators_of_its_requests(mpi: &Mpi) {
    let run = Run::new(mpi, "random/completion_family").ranks(2);
    assert_as_printed(&run.argument(70001).argument("moved").profiled());
}

#[case]
fn so_are_small_messages_whose_requests_share_handles(mpi: &Mpi) {
    for ranks in [1, 2] {
        let run = Run::new(mpi, "random/completion_family").ranks(ranks);
        assert_as_printed(&run.argument(13).profiled());
    }
}

#[case]
fn test_in_vain_is_charged_to_the_communicators_of_its_requests(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/tests_in_vain").ranks(2).profiled();
    let tables = finished.tables();
    let (all, any, some, with_send) = (211, 223, 227, 229);
    let both = [
        ("MPI_Irecv", 1, 1301),
        ("MPI_Testall", all + with_send, 0),
        ("MPI_Testany", any, 0),
        ("MPI_Testsome", some, 0),
        ("MPI_Waitall", 1, 0),
    ];
    let and = |more: &[(&'static str, u64, u64)]| [&both, more].concat();
    assert_calls(tables, "W", 0, &and(&[("MPI_Comm_dup", 2, 0), ("MPI_Barrier", 1, 0)]));
    assert_calls(tables, "W_d1", 0, &and(&[("MPI_Test", 1009, 0), ("MPI_Comm_free", 1, 0)]));
    let other =
        [("MPI_Isend", 1, 13), ("MPI_Testall", with_send, 0), ("MPI_Waitall", 1, 0), ("MPI_Comm_free", 1, 0)];
    assert_calls(tables, "W_d2", 0, &other);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_wait_over_three_communicators_is_one_call_on_each_and_shares_its_time(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/three_communicators").ranks(4).profiled();
    let tables = finished.tables();
    let names = tables.names();
    for rank in [0, 2] {
        let holds = |name: &&&str| name.starts_with("W_s") && tables.comm(name).members.all().contains(rank);
        let half = *names.iter().find(holds).expect("a half with the rank");
        let dup = *names.iter().find(|name| name.starts_with("W_d")).expect("a duplicate");
        let bytes = [("W", 1, 60013), (half, 1, 60017), (dup, 2, 60029 + 60037)];
        let mut times = Vec::new();
        for (comm, calls, bytes) in bytes {
            assert_eq!(tables.of_rank(comm, "MPI_Irecv", rank), mpisee_tests::profile::Sum { calls, bytes });
            let waits: Vec<_> = (tables.calls.iter())
                .filter(|row| row.comm == comm && row.rank == rank && row.call == "MPI_Waitall")
                .collect();
            assert_eq!(waits.len(), 1, "{comm}");
            assert_eq!((waits[0].calls, waits[0].bytes), (1, 0), "{comm}");
            assert_eq!((waits[0].min_s, waits[0].max_s), (waits[0].time_s, waits[0].time_s), "{comm}");
            times.push(waits[0].time_s.0);
        }
        let [least, most] = [f64::min, f64::max].map(|f| times.iter().copied().reduce(f).unwrap_or(0.0));
        // One tick apart at most, and rounded to nanoseconds.
        assert!(least > 0.0 && most - least < 5e-9, "{times:?}");
    }
    for row in &tables.ranks {
        assert!(row.mpi_s <= row.wall_s, "{row:?}");
    }
    assert_all_seen(tables);
    finished.check();
}

/// Rows of rank 0 of `eager_copies` on both communicators.
fn assert_eager(
    mpi: &Mpi,
    how: &str,
    pairs: u64,
    on_each: impl Fn(u64) -> [Vec<(&'static str, u64, u64)>; 2],
) {
    let finished = Run::new(mpi, "requests/eager_copies").ranks(2).argument(how).profiled();
    let tables = finished.tables();
    let [mut world, mut dup] = on_each(printed(&finished.stdout, "tests"));
    world.extend([("MPI_Isend", pairs, 17 * pairs), ("MPI_Comm_dup", 1, 0)]);
    dup.extend([("MPI_Isend", pairs, 19 * pairs), ("MPI_Comm_free", 1, 0)]);
    assert_calls(tables, "W", 0, &world);
    assert_calls(tables, "W_d1", 0, &dup);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn eager_sends_are_charged_to_their_communicators_after_being_copied(mpi: &Mpi) {
    let waitall = vec![("MPI_Waitall", 1, 0)];
    assert_eager(mpi, "copied", 10, |_| [waitall.clone(), waitall.clone()]);
}

#[case]
fn eager_sends_are_charged_to_their_communicators_in_the_order_of_their_start(mpi: &Mpi) {
    assert_eager(mpi, "in_order", 10, |tests| [vec![("MPI_Wait", 10, 0)], vec![("MPI_Test", tests, 0)]]);
}

#[case]
fn an_eager_send_is_charged_to_its_communicator_where_its_variable_was_used_before(mpi: &Mpi) {
    assert_eager(mpi, "reused", 1, |tests| [vec![("MPI_Wait", 1, 0)], vec![("MPI_Test", tests, 0)]]);
}

#[case]
fn a_thousand_eager_sends_are_distinguished_by_their_addresses(mpi: &Mpi) {
    assert_eager(mpi, "places", 500, |tests| [vec![("MPI_Wait", 500, 0)], vec![("MPI_Test", tests, 0)]]);
}

#[case]
fn handles_that_are_used_again_stand_for_the_new_request(mpi: &Mpi) {
    for ranks in [1, 2] {
        let finished = Run::new(mpi, "requests/recycled").ranks(ranks).profiled();
        let tables = finished.tables();
        for (comm, parity) in [("W", 0), ("W_d1", 1)] {
            let bytes = (0..4000).filter(|i| i % 2 == parity).map(|i| [7, 1031, 70001][i % 3]).sum();
            let other = if parity == 0 { "MPI_Comm_dup" } else { "MPI_Comm_free" };
            let rows = [
                ("MPI_Irecv", 2000, bytes),
                ("MPI_Isend", 2000, bytes),
                ("MPI_Wait", 4000, 0),
                (other, 1, 0),
            ];
            for rank in 0..ranks {
                assert_calls(tables, comm, rank, &rows);
                let peer = ranks - 1 - rank;
                assert_eq!(tables.peer(comm, rank, peer), [2000, bytes, 2000, bytes]);
            }
        }
        assert_all_seen(tables);
        finished.check();
    }
}

/// Rows of both ranks of `freed` on the duplicate, where the handles stand for something else.
fn assert_later(tables: &Tables) {
    for (rank, call) in [(0, "MPI_Isend"), (1, "MPI_Irecv")] {
        let rows = [(call, 100, 100 * 70009), ("MPI_Wait", 100, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(tables, "W_d1", rank, &rows);
    }
}

#[case]
fn a_send_that_is_freed_while_active_counts_whole(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/freed").ranks(2).argument("send").profiled();
    let tables = finished.tables();
    let bytes = 100 * (70003 + 11);
    let both = [("MPI_Barrier", 100, 0), ("MPI_Comm_dup", 1, 0)];
    let sender = [("MPI_Isend", 200, bytes), ("MPI_Request_free", 200, 0)];
    assert_calls(tables, "W", 0, &[both, sender].concat());
    assert_calls(tables, "W", 1, &[&both[..], &[("MPI_Recv", 200, bytes)]].concat());
    assert_later(tables);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_receive_that_is_freed_while_active_is_counted_as_not_seen(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/freed").ranks(2).argument("receive").profiled();
    let tables = finished.tables();
    let both = [("MPI_Barrier", 200, 0), ("MPI_Comm_dup", 1, 0)];
    let sender = [("MPI_Isend", 200, 100 * (70003 + 11)), ("MPI_Wait", 200, 0)];
    let receiver = [("MPI_Irecv", 100, 0), ("MPI_Request_free", 100, 0), ("MPI_Recv", 100, 100 * 11)];
    assert_calls(tables, "W", 0, &[both, sender].concat());
    assert_calls(tables, "W", 1, &[&both[..], &receiver].concat());
    assert_later(tables);
    let freed = (NotSeen::FreedReceive.name().to_owned(), 100);
    assert_eq!(tables.run.not_seen, BTreeMap::from([freed]));
    // Bytes of those receives are in no table, so sent and received bytes differ.
    let check = through(&["check", &finished.directory().display().to_string()]);
    let said = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{said}");
    assert!(said.contains("there were receives whose request was freed before they completed"), "{said}");
}

#[case]
fn a_receive_from_nobody_that_is_freed_while_active_loses_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/freed_from_nobody").ranks(1).profiled();
    let tables = finished.tables();
    let of_all = [("MPI_Irecv", 1, 0), ("MPI_Recv_init", 1, 0), ("MPI_Start", 1, 0)];
    let combined = tables.sum("S", "MPI_Isendrecv").calls > 0;
    let freed = [("MPI_Request_free", if combined { 3 } else { 2 }, 0)];
    let of_both = [("MPI_Isendrecv", 1, 419), ("MPI_Recv", 1, 419)];
    let of_both = if combined { &of_both[..] } else { &[] };
    assert_calls(tables, "S", 0, &[&of_all[..], &freed, of_both].concat());
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn polls_that_repeat_are_counted_where_they_belong(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/polls").ranks(2).profiled();
    let tables = finished.tables();
    for line in finished.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [call, comm, region, calls] = words[..] else { panic!("{line}") };
        let region = if region == "-" { "" } else { region };
        let is_here = |row: &&CallRow| {
            (row.comm.as_str(), row.call.as_str(), row.region.as_str()) == (comm, call, region)
        };
        let rows: Vec<&CallRow> = tables.calls.iter().filter(|row| row.rank == 0).filter(is_here).collect();
        assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>().to_string(), calls, "{line}");
        for row in rows {
            assert!(row.time_s.0 > 0.0 && row.time_s.0 < tables.ranks[0].wall_s.0, "{row:?}");
            let error_s = row.time_error_s.map_or(0.0, |error| error.0);
            assert!(error_s < tables.ranks[0].wall_s.0, "{row:?}");
        }
    }
    assert_eq!(finished.stdout.lines().count(), 20);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_cancelled_request_moves_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/cancelled").ranks(2).profiled();
    let tables = finished.tables();
    let on_self = [
        ("MPI_Irecv", 3, 1709),
        ("MPI_Send", 3, 3 * 1709),
        ("MPI_Recv_init", 1, 0),
        ("MPI_Start", 4, 2 * 1709),
        ("MPI_Cancel", 5, 0),
        ("MPI_Wait", 7, 0),
        ("MPI_Request_free", 1, 0),
    ];
    for rank in 0..2 {
        let looks = printed(&finished.stdout, &format!("looks of {rank}:"));
        let looks = [("MPI_Request_get_status", looks, 0)];
        assert_calls(tables, "S", rank, &[&on_self[..], &looks].concat());
        assert_eq!(tables.peer("S", rank, rank), [3, 3 * 1709, 3, 3 * 1709]);
    }
    let cancelled = printed(&finished.stdout, "cancelled") == 1;
    let (messages, bytes) = if cancelled { (0, 0) } else { (1, 2203) };
    let sender = [
        ("MPI_Issend", 1, bytes),
        ("MPI_Cancel", 1, 0),
        ("MPI_Test", printed(&finished.stdout, "tests"), 0),
        ("MPI_Ssend", 1, 0),
        ("MPI_Send", 1, 4),
    ];
    assert_calls(tables, "W", 0, &sender);
    let mut receiver = vec![("MPI_Irecv", 1, bytes), ("MPI_Recv", 2, 4), ("MPI_Wait", 1, 0)];
    receiver.extend(cancelled.then_some(("MPI_Cancel", 1, 0)));
    assert_calls(tables, "W", 1, &receiver);
    assert_eq!(tables.peer("W", 0, 1), [2 + messages, 4 + bytes, 0, 0]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_request_that_was_cancelled_and_then_freed_moves_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/cancelled_and_freed").ranks(2).profiled();
    let tables = finished.tables();
    for rank in 0..2 {
        let of_rank = |what: &str| printed(&finished.stdout, &format!("{what} of {rank}:"));
        let received = 5 - of_rank("sends");
        let rows = [
            ("MPI_Issend", 5, received * 1709),
            ("MPI_Irecv", 5, 0),
            ("MPI_Cancel", 10, 0),
            ("MPI_Request_get_status", of_rank("looks"), 0),
            ("MPI_Request_free", 5 + of_rank("sends"), 0),
        ];
        let otherwise = [("MPI_Recv", received, received * 1709), ("MPI_Wait", received, 0)];
        let otherwise = if received > 0 { &otherwise[..] } else { &[] };
        assert_calls(tables, "S", rank, &[&rows[..], otherwise].concat());
        let expected = [received, received * 1709, received, received * 1709];
        assert_eq!(tables.peer("S", rank, rank), expected);
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_completed_send_that_is_cancelled_counts_whole(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/cancel_complete").ranks(2).profiled();
    let tables = finished.tables();
    let messages = 1 - printed(&finished.stdout, "cancelled");
    let rows =
        [("MPI_Isend", 1, 29 * messages), ("MPI_Cancel", 1, 0), ("MPI_Wait", 1, 0), ("MPI_Comm_free", 1, 0)];
    assert_calls(tables, "W_d1", 0, &rows);
    assert_eq!(tables.peer("W_d1", 0, 1), [messages, 29 * messages, 0, 0]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_request_belongs_to_its_communicator_after_that_was_freed(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/freed_communicator").ranks(2).profiled();
    let tables = finished.tables();
    for (rank, call) in [(0, "MPI_Irecv"), (1, "MPI_Isend")] {
        let both = [("MPI_Waitall", 1, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(tables, "W_d1", rank, &[&both[..], &[(call, 2, 70039 + 23)]].concat());
        assert_calls(tables, "W_d2", rank, &[&both[..], &[(call, 1, 70051)]].concat());
    }
    assert_peers(
        tables,
        &[
            ("W_d1", 1, 0, [2, 70039 + 23, 0, 0]),
            ("W_d1", 0, 1, [0, 0, 2, 70039 + 23]),
            ("W_d2", 1, 0, [1, 70051, 0, 0]),
            ("W_d2", 0, 1, [0, 0, 1, 70051]),
        ],
    );
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn ten_million_requests_take_no_memory(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/request_memory").ranks(1).argument(10_000_000).profiled();
    let tables = finished.tables();
    for comm in ["S", "S_d1"] {
        let half = 2_500_000;
        let other = if comm == "S" { "MPI_Comm_dup" } else { "MPI_Comm_free" };
        let rows = [
            ("MPI_Irecv", half, half),
            ("MPI_Isend", half, half),
            ("MPI_Waitall", 100_000, 0),
            (other, 1, 0),
        ];
        assert_calls(tables, comm, 0, &rows);
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn twenty_thousand_requests_are_open_at_once_and_come_back(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/many_open").ranks(2).profiled();
    let tables = finished.tables();
    for (comm, parity) in [("W", 0), ("W_d1", 1)] {
        let bytes = 2 * (0..10_000).filter(|i| i % 2 == parity).map(|i| 1 + i % 13).sum::<u64>();
        let mut rows =
            vec![("MPI_Irecv", 10_000, bytes), ("MPI_Isend", 10_000, bytes), ("MPI_Waitall", 400, 0)];
        rows.extend(match comm {
            "W" => vec![("MPI_Comm_dup", 1, 0), ("MPI_Barrier", 2, 0)],
            _ => vec![("MPI_Comm_free", 1, 0)],
        });
        for rank in 0..2 {
            assert_calls(tables, comm, rank, &rows);
        }
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn requests_are_kept_track_of_while_recording_is_off(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/switched_off").ranks(1).profiled();
    let tables = finished.tables();
    let rows = [
        ("MPI_Irecv", 2, 1709 + 3413),
        ("MPI_Isend", 1, 70019),
        ("MPI_Start", 2, 27299 + 27300),
        ("MPI_Wait", 2, 0),
        ("MPI_Request_free", 1, 0),
    ];
    assert_calls(tables, "S", 0, &rows);
    assert_classes(tables, "S", 0, "MPI_Irecv", &[1709, 3413]);
    assert_eq!(tables.peer("S", 0, 0), [1, 70019, 4, 1709 + 3413 + 27299 + 27300]);
    assert!(tables.run.recording_was_off);
    // One completion of a receive, one of a persistent request; both were started while off.
    let unknown = (NotSeen::UnknownRequest.name().to_owned(), 2);
    assert_eq!(tables.run.not_seen, BTreeMap::from([unknown]));
    finished.check();
}

#[case]
fn failed_completions_return_the_same_errors_as_without_the_profiler(mpi: &Mpi) {
    let plain = Run::new(mpi, "requests/failed_completions").ranks(2).plain();
    let finished = Run::new(mpi, "requests/failed_completions").ranks(2).profiled();
    // To learn what arrived, the profiler requests statuses where the program ignores them, and
    // newer MPIs fail in another way then: README.md, "What it does not do".
    let depends = mpi.name != "openmpi-4.1" && mpi.name != "mpich-4.0";
    let comparable = |printed: &str| {
        let lines: Vec<_> = printed.lines().map(str::to_owned).collect();
        let answers = lines.chunks(2).filter(|answer| !depends || !answer[0].contains("ignored"));
        answers.flatten().cloned().collect::<Vec<_>>()
    };
    assert_eq!(comparable(&finished.stdout), comparable(&plain.stdout));
    let tables = finished.tables();
    assert_eq!(tables.of_rank("W", "MPI_Irecv", 1).calls, 15);
    assert_eq!(tables.not_seen(NotSeen::UnknownRequest), 0);
}

#[case]
fn completions_beside_failed_ones_count_their_bytes(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/failed_completions").ranks(2).profiled();
    let bytes = 5 * (1901 + 1903);
    assert_eq!(finished.tables().of_rank("W", "MPI_Irecv", 1).bytes, bytes);
    // The five that fail have taken their messages, too.
    assert_eq!(finished.tables().peer("W", 1, 0), [0, 0, 15, bytes]);
}

#[case]
fn counts_do_not_depend_on_the_mpi() {
    for program in [
        "requests/persistent",
        "requests/nothing_to_complete",
        "requests/tests_in_vain",
        "requests/recycled",
        "threads/threads",
    ] {
        let all: Vec<_> = Mpi::all()
            .iter()
            .map(|mpi| counts(Run::new(mpi, program).ranks(2).profiled().tables()))
            .collect();
        for other in &all[1..] {
            assert_eq!(&all[0], other, "{program}");
        }
    }
}

/// Bytes of memory for each of so many open requests, in the first round and in all rounds.
fn bytes_for_each(finished: &Finished) -> [i64; 2] {
    let said = finished.stdout.lines().find_map(|line| line.strip_prefix("bytes ")).expect("two numbers");
    let bytes: Vec<i64> = said.split(' ').map(|number| number.parse().expect("a number")).collect();
    bytes.try_into().expect("two numbers")
}

#[case]
fn an_open_request_takes_two_hundred_bytes_which_are_used_again(mpi: &Mpi) {
    let cases = [
        (40_000, "single", "each"),
        (200_000, "multiple", "each"),
        (40_000, "single", "all"),
        (40_000, "multiple", "all"),
    ];
    for (open, level, starts) in cases {
        let run = || {
            let run = Run::new(mpi, "requests/many_requests").ranks(1);
            run.argument(open).argument(level).argument(starts)
        };
        let [plain, plain_again] = bytes_for_each(&run().plain());
        let finished = run().profiled();
        let [once, again] = bytes_for_each(&finished);
        assert!(once - plain <= 200, "{once} bytes for each with the profiler, {plain} without");
        let more = (again - once) - (plain_again - plain);
        assert!(more <= 16, "{more} more bytes for each in later rounds");
        let calls = 3 * open;
        let both = [("MPI_Send", calls, 4 * calls), ("MPI_Waitall", 3, 0)];
        let started = match starts {
            "each" => vec![("MPI_Irecv", calls, 4 * calls)],
            _ => vec![
                ("MPI_Recv_init", calls, 0),
                ("MPI_Startall", 3, 4 * calls),
                ("MPI_Request_free", calls, 0),
            ],
        };
        assert_calls(finished.tables(), "S", 0, &[&both[..], &started].concat());
        assert_all_seen(finished.tables());
        finished.check();
    }
}
