//! Threads that call MPI at the same time (MPI 4.1, 11.6): every call is counted once, where it
//! belongs. `scripts/races` runs these programs under a race detector.

use crate::exact::{assert_all_seen, assert_calls, assert_classes};
use mpisee_profile::Profile;
use mpisee_profile::rows::{RegionTotalRow, Seconds};
use mpisee_tests::profile::rows;
use mpisee_tests::{Mpi, Run, case};

#[case]
fn threads_are_counted_exactly(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/threads").ranks(2).profiled();
    let tables = finished.tables();
    assert_eq!(tables.run.mpi.thread_level, "multiple");
    let (threads, rounds) = (4, 500);
    let sum = |least: u64| rounds * (0..threads).map(|thread| least + thread).sum::<u64>();
    let all = threads * rounds;
    for rank in 0..2 {
        let on_world = [
            ("MPI_Irecv", all, sum(101)),
            ("MPI_Isend", all, sum(101)),
            ("MPI_Waitall", all, 0),
            ("MPI_Sendrecv", all, 2 * sum(211)),
            ("MPI_Comm_dup", threads, 0),
        ];
        assert_calls(tables, "W", rank, &on_world);
        let moved = sum(101) + sum(211);
        assert_eq!(tables.peer("W", rank, 1 - rank), [2 * all, moved, 2 * all, moved]);
        for thread in 0..threads {
            let bytes = rounds * (8009 + thread);
            let own = [
                ("MPI_Irecv", rounds, bytes),
                ("MPI_Isend", rounds, bytes),
                ("MPI_Waitall", rounds, 0),
                ("MPI_Comm_free", 1, 0),
            ];
            assert_calls(tables, &format!("W_d{}", thread + 1), rank, &own);
        }
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn eight_threads_that_call_everything_at_once_are_counted_exactly(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/hammer").ranks(2).profiled();
    let tables = finished.tables();
    let (threads, rounds, dups) = (8, 100, 4);
    let sum = |least: u64| rounds * (0..threads).map(|thread| least + thread).sum::<u64>();
    let all = threads * rounds;
    for rank in 0..2 {
        let on_world = [
            ("MPI_Comm_dup", 1, 0),
            ("MPI_Recv_init", threads, 0),
            ("MPI_Send_init", threads, 0),
            ("MPI_Startall", all, 2 * sum(409)),
            ("MPI_Waitall", all, 0),
            ("MPI_Request_free", 2 * threads, 0),
            ("MPI_Sendrecv", all, 2 * sum(1009)),
        ];
        assert_calls(tables, "W", rank, &on_world);
        let moved = sum(409) + sum(1009);
        assert_eq!(tables.peer("W", rank, 1 - rank), [2 * all, moved, 2 * all, moved]);
        let on_common = [
            ("MPI_Comm_dup", threads, 0),
            ("MPI_Irecv", all, sum(3001)),
            ("MPI_Isend", all, sum(3001)),
            ("MPI_Waitall", all, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, "W_d1", rank, &on_common);
        assert_eq!(tables.peer("W_d1", rank, 1 - rank), [all, sum(3001), all, sum(3001)]);
        for thread in 0..threads {
            let (comm, bytes) = (format!("W_d1_d{}", thread + 1), rounds * (211 + thread));
            let own = [
                ("MPI_Allreduce", rounds, rounds * 16),
                ("MPI_Isend", rounds, bytes),
                ("MPI_Mprobe", rounds, 0),
                ("MPI_Mrecv", rounds, bytes),
                ("MPI_Wait", rounds, 0),
                ("MPI_Comm_dup", dups, 0),
                ("MPI_Comm_free", 1, 0),
            ];
            assert_calls(tables, &comm, rank, &own);
            assert_eq!(tables.peer(&comm, rank, 1 - rank), [rounds, bytes, rounds, bytes]);
        }
    }
    let passing =
        |call: &str| tables.sum_where(|row| row.call == call && row.comm.matches("_d").count() == 3);
    assert_eq!(passing("MPI_Bcast").calls, 2 * threads * dups);
    assert_eq!(passing("MPI_Bcast").bytes, dups * (0..threads).map(|thread| 601 + thread).sum::<u64>());
    assert_eq!(passing("MPI_Comm_free").calls, 2 * threads * dups);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn threads_whose_requests_share_handles_are_charged_for_their_own(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/copies").ranks(2).profiled();
    let tables = finished.tables();
    for thread in 0..4 {
        let (comm, bytes) = (format!("W_d{}", thread + 1), 8 * 500 * (31 + thread));
        let sender = [("MPI_Isend", 8 * 500, bytes), ("MPI_Waitall", 500, 0), ("MPI_Comm_free", 1, 0)];
        assert_calls(tables, &comm, 0, &sender);
        assert_calls(tables, &comm, 1, &[("MPI_Recv", 8 * 500, bytes), ("MPI_Comm_free", 1, 0)]);
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_request_may_be_completed_by_another_thread_than_started_it(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/handed_over").ranks(2).profiled();
    let tables = finished.tables();
    for (comm, parity) in [("W", 0), ("W_d1", 1)] {
        let bytes = 100 * (0..20).filter(|i| i % 2 == parity).map(|i| 503 + i).sum::<u64>();
        let other = if parity == 0 { ("MPI_Comm_dup", 1, 0) } else { ("MPI_Comm_free", 1, 0) };
        let receives = [("MPI_Irecv", 1000, bytes), ("MPI_Waitall", 100, 0), other];
        assert_calls(tables, comm, 0, &receives);
        assert_calls(tables, comm, 1, &[("MPI_Send", 1000, bytes), other]);
        let classes: Vec<u64> = (0..1000).map(|message| 503 + 2 * (message % 10) + parity).collect();
        assert_classes(tables, comm, 0, "MPI_Irecv", &classes);
        assert_eq!(tables.peer(comm, 0, 1), [0, 0, 1000, bytes]);
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn threads_that_do_not_call_mpi_change_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/funneled").ranks(2).profiled();
    let tables = finished.tables();
    assert_eq!(tables.run.mpi.thread_level, "funneled");
    assert_calls(tables, "W", 0, &[("MPI_Send", 100, 90700)]);
    assert_calls(tables, "W", 1, &[("MPI_Recv", 100, 90700)]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn a_thread_that_only_begins_and_ends_mpi_has_no_part(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/one_worker").ranks(2).profiled();
    let ranks = &finished.tables().ranks;
    assert_eq!(ranks.iter().map(|row| row.mpi_threads).collect::<Vec<_>>(), [Some(1); 2]);
    finished.check();
}

#[case]
fn a_region_has_the_threads_that_call_in_it(mpi: &Mpi) {
    let expected = [("all", 5), ("first", 2), ("first/second", 1), ("silent", 0)];
    let run = || Run::new(mpi, "threads/some_regions").ranks(2);
    let by_rank = run().profiled();
    for row in &by_rank.tables().regions {
        let threads = expected.iter().find(|(name, _)| row.region == *name).map(|&(_, threads)| threads);
        assert_eq!(row.mpi_threads, threads, "{row:?}");
    }
    assert_eq!(by_rank.tables().regions.len(), 2 * expected.len());
    let sums = run().options(&["--fold", "1"]).folded();
    let rows: Vec<RegionTotalRow> = rows(&Profile::open(sums.directory()).unwrap());
    let found: Vec<(&str, Option<u64>)> =
        rows.iter().map(|row| (row.region.as_str(), row.mpi_threads)).collect();
    assert_eq!(found, expected.map(|(name, threads)| (name, Some(2 * u64::from(threads.max(1))))));
}

/// The bounds of a time that a program printed.
fn bounds(stdout: &str, what: &str) -> [f64; 2] {
    let line = stdout.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(" from ")).expect(what);
    let (least_s, most_s) = line.trim_end_matches(" s").split_once(" to ").expect("two times");
    [least_s, most_s].map(|time_s| time_s.parse().expect("a time"))
}

/// A thread ends a moment before the other one knows.
const CLOCKS: f64 = 1e-3;

/// A thread that lives for a part of the run is that part of a thread.
#[case]
fn threads_count_for_as_long_as_they_live(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/short_helper").ranks(2).profiled();
    let tables = finished.tables();
    assert_calls(tables, "W", 1, &[("MPI_Bcast", 3, 3 * 733), ("MPI_Barrier", 2, 0)]);
    let [least_s, most_s] = bounds(&finished.stdout, "helpers lived");
    let lived = |threads, thread_s: Option<Seconds>, wall_s: Seconds| {
        assert_eq!(threads, Some(2));
        thread_s.unwrap().0 - wall_s.0
    };
    let row = tables.ranks.iter().find(|row| row.rank == 0).unwrap();
    let region = tables.regions.iter().find(|row| row.rank == 0).unwrap();
    for lived_s in [
        lived(row.mpi_threads, row.mpi_thread_s, row.wall_s),
        lived(region.mpi_threads, region.mpi_thread_s, region.wall_s),
    ] {
        assert!(least_s <= lived_s + CLOCKS && lived_s <= most_s + CLOCKS, "{least_s} {lived_s} {most_s}");
    }
    finished.check();
}

/// The rank is there while no helper lives, as one thread outside of MPI.
#[case]
fn time_without_a_helper_counts_once_where_helpers_make_all_calls(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/only_helpers").ranks(2).profiled();
    let messages = finished.tables().sum("S", "MPI_Sendrecv");
    assert_eq!((messages.calls, messages.bytes), (2 * 4, 2 * 2 * 2 * (751 + 752)));
    let [all_least_s, all_most_s] = bounds(&finished.stdout, "all lived");
    let [one_least_s, one_most_s] = bounds(&finished.stdout, "one lived");
    let row = &finished.tables().ranks[0];
    assert_eq!(row.mpi_threads, Some(2));
    let beyond_s = row.mpi_thread_s.unwrap().0 - row.wall_s.0;
    let (least_s, most_s) = (all_least_s - one_most_s, all_most_s - one_least_s);
    assert!(least_s - CLOCKS <= beyond_s && beyond_s <= most_s + CLOCKS, "{least_s} {beyond_s} {most_s}");
    finished.check();
}

#[case]
fn calls_of_ending_threads_are_counted(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/late_destructors").ranks(2).profiled();
    let tables = finished.tables();
    let bytes = 601 + 50 * (611 + 621 + 631 + 641);
    for rank in 0..2 {
        assert_calls(tables, "W", rank, &[("MPI_Bcast", 1 + 4 * 50, u64::from(rank) * bytes)]);
        let row = &tables.ranks[rank as usize];
        // Each took the state of the one before it.
        assert_eq!(row.mpi_threads, Some(1));
    }
    assert_all_seen(tables);
    finished.check();
}
