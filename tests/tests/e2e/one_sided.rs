//! One-sided communication: what happens on a window counts on the communicator on which it was
//! made.

use crate::exact::{assert_all_seen, assert_calls, assert_classes, assert_peers, counts, printed};
use crate::sums::assert_sums_of;
use mpisee_profile::rows::PeerRow;
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, case, through};
use serde_json::Value;
use std::collections::BTreeMap;

fn run<'m>(mpi: &'m Mpi, program: &str) -> Run<'m> {
    // Open MPI 4.1 makes no window on a communicator that is not the whole world over UCX.
    Run::new(mpi, program).variable("OMPI_MCA_osc", "^ucx")
}

const INT: u64 = 4;

#[case]
fn windows_count_on_the_communicator_on_which_they_were_made(mpi: &Mpi) {
    let finished = run(mpi, "one_sided/windows").profiled();
    let tables = finished.tables();
    let tests = printed(&finished.stdout, "tests");
    for rank in 0..4 {
        let put = 1009 + u64::from(rank) + 89 * 8;
        let mut on_world = vec![
            ("MPI_Win_create", 1, 0),
            ("MPI_Win_fence", 3, 0),
            ("MPI_Put", 3, put),
            ("MPI_Get", 1, 2003),
            ("MPI_Win_free", 1, 0),
            ("MPI_Comm_split", 1, 0),
            ("MPI_Comm_dup", 1, 0),
            ("MPI_Barrier", 4, 0),
        ];
        match rank {
            0 => on_world.extend([
                ("MPI_Win_start", 2, 0),
                ("MPI_Accumulate", 2, 2 * 307 * INT),
                ("MPI_Win_complete", 2, 0),
            ]),
            1 => {
                on_world.extend([("MPI_Win_post", 2, 0), ("MPI_Win_wait", 1, 0), ("MPI_Win_test", tests, 0)])
            }
            _ => {}
        }
        assert_calls(tables, "W", rank, &on_world);
        assert_classes(tables, "W", rank, "MPI_Put", &[1009 + u64::from(rank), 89 * 8, 0]);
        let half = format!("W_s1.{}", rank % 2);
        assert_calls(tables, &half, rank, &on_half(rank < 2));
        assert_classes(tables, &half, rank, "MPI_Get_accumulate", &[103 * INT, 211 * INT]);
        let shared = [
            ("MPI_Win_allocate_shared", 1, 0),
            ("MPI_Win_lock_all", 1, 0),
            ("MPI_Win_sync", 1, 0),
            ("MPI_Win_unlock_all", 1, 0),
            ("MPI_Win_free", 1, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, "W_d2", rank, &shared);
        let dynamic = [
            ("MPI_Win_create_dynamic", 1, 0),
            ("MPI_Win_attach", 1, 0),
            ("MPI_Win_detach", 1, 0),
            ("MPI_Win_free", 1, 0),
        ];
        assert_calls(tables, "S", rank, &dynamic);
    }
    assert_peers(tables, &[]);
    assert_all_seen(tables);
    finished.check();
}

/// Calls of a rank on the window of its half, whose communicator is already freed.
fn on_half(first: bool) -> Vec<(&'static str, u64, u64)> {
    let all = [
        ("MPI_Win_allocate", 1, 0),
        ("MPI_Comm_free", 1, 0),
        ("MPI_Win_lock_all", 1, 0),
        ("MPI_Accumulate", 1, 101 * INT),
        ("MPI_Win_flush_all", 1, 0),
        ("MPI_Get_accumulate", 2, (103 + 211) * INT),
        ("MPI_Win_flush", if first { 3 } else { 2 }, 0),
        ("MPI_Fetch_and_op", 1, 8),
        ("MPI_Win_flush_local_all", 1, 0),
        ("MPI_Compare_and_swap", 2, INT),
        ("MPI_Rput", 2, 503),
        ("MPI_Wait", 1, 0),
        ("MPI_Rget", 1, 509),
        ("MPI_Raccumulate", 1, 113 * INT),
        ("MPI_Rget_accumulate", 1, 127 * INT),
        ("MPI_Waitall", 1, 0),
        ("MPI_Win_sync", 1, 0),
        ("MPI_Win_unlock_all", 1, 0),
        ("MPI_Win_free", 1, 0),
    ];
    let of_the_first = [
        ("MPI_Win_lock", 1, 0),
        ("MPI_Put", 1, 401),
        ("MPI_Get", 1, 409),
        ("MPI_Win_flush_local", 1, 0),
        ("MPI_Win_unlock", 1, 0),
    ];
    if first { [&all[..], &of_the_first].concat() } else { all.to_vec() }
}

#[case]
fn one_sided_counts_do_not_depend_on_the_mpi() {
    let finished: Vec<Finished> =
        Mpi::all().iter().map(|mpi| run(mpi, "one_sided/windows").profiled()).collect();
    let counts = |finished: &Finished| {
        let mut counts = counts(finished.tables());
        // The number of tests depends on timing.
        counts.retain(|line| !line.contains("MPI_Win_test"));
        counts
    };
    for other in &finished[1..] {
        assert_eq!(counts(&finished[0]), counts(other));
    }
}

#[case]
fn a_window_of_unknown_origin_is_not_seen(mpi: &Mpi) {
    let finished = run(mpi, "one_sided/windows").ranks(2).argument("unknown").profiled();
    let tables = finished.tables();
    // Two fences, a put and the end on each rank.
    assert_eq!(tables.run.not_seen, [(NotSeen::UnknownWindow.name().to_owned(), 2 * 4)].into());
    assert!(tables.calls.is_empty(), "{:?}", tables.calls);
}

#[case]
fn one_sided_operations_are_a_kind_of_their_own(mpi: &Mpi) {
    let finished = run(mpi, "one_sided/windows").profiled();
    let directory = finished.directory().display().to_string();
    let output = through(&[&directory, "--kind", "one-sided", "--all", "--format", "csv"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("MPI_Put") && said.contains("MPI_Win_free"), "{said}");
    assert!(!said.contains("MPI_Comm_dup") && !said.contains("MPI_Barrier"), "{said}");
}

#[case]
fn a_window_that_was_made_while_recording_was_off_is_known(mpi: &Mpi) {
    let finished = run(mpi, "one_sided/windows").ranks(2).argument("off").profiled();
    let tables = finished.tables();
    for rank in 0..2 {
        assert_calls(tables, "W", rank, &[("MPI_Put", 1, 71)]);
    }
    assert_all_seen(tables);
}

/// Each byte has its target, as the program's own books say: whether or not members are listed, and
/// whether or not communicators share a row as ones of changing members.
#[case]
fn each_byte_has_its_target(mpi: &Mpi) {
    for (listed, alike) in [("1000", "1000"), ("1", "1000"), ("1000", "1"), ("1", "1")] {
        let run = run(mpi, "one_sided/targets").ranks(6);
        let finished = run.variable("MPISEE_LISTED", listed).variable("MPISEE_ALIKE", alike).profiled();
        // In a row of several communicators, their names are not those that the program prints.
        let comm = |name: &str| if alike == "1" { String::new() } else { name.to_owned() };
        let mut got = Books::new();
        for row in finished.tables().peers.iter() {
            let PeerRow { puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes, .. } = *row;
            let counts = [puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes];
            add(&mut got, (comm(&row.comm), row.rank, row.peer), counts);
        }
        let mut expected = Books::new();
        for line in finished.stdout.lines().filter_map(|line| line.strip_prefix("books ")) {
            let mut fields = line.split(' ');
            let name = fields.next().expect("a name");
            let numbers: Vec<u64> = fields.map(|number| number.parse().expect("a number")).collect();
            let counts = std::array::from_fn(|at| numbers[2 + at]);
            add(&mut expected, (comm(name), numbers[0] as u32, numbers[1] as u32), counts);
        }
        assert_eq!(got, expected, "{listed} {alike}");
        assert!(expected.len() >= 30, "{expected:?}");
        assert_all_seen(finished.tables());
        finished.check();
    }
}

/// Numbers and bytes of puts, gets and accumulations, by communicator, origin and target.
type Books = BTreeMap<(String, u32, u32), [u64; 6]>;

fn add(books: &mut Books, key: (String, u32, u32), counts: [u64; 6]) {
    if counts != [0; 6] {
        let sum = books.entry(key).or_default();
        *sum = std::array::from_fn(|at| sum[at] + counts[at]);
    }
}

/// Sums over ranks have the same, and both show it in the matrix.
#[case]
fn the_matrix_has_one_sided_operations(mpi: &Mpi) {
    let [by_rank, sums] = ["6", "2"].map(|fold| {
        let run = run(mpi, "one_sided/targets").ranks(6).variable("MPISEE_FOLD", fold);
        run.preloaded_to("test.mpisee")
    });
    assert_sums_of(&by_rank.directory(), &sums.directory());
    let finished = [by_rank, sums];
    let matrix = |at: usize, options: &[&str]| -> Value {
        let directory = finished[at].directory().display().to_string();
        let output = through(&[&["matrix", &directory, "--format", "json"], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    };
    let books: Vec<Vec<u64>> = finished[0]
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("books W "))
        .map(|line| line.split(' ').map(|number| number.parse().expect("a number")).collect())
        .collect();
    // What came from rank 4 to rank 1: it put and accumulated there, and rank 1 got it.
    let moved = |from: u64, to: u64| -> u64 {
        let there = books.iter().filter(|row| (row[0], row[1]) == (from, to)).map(|row| row[3] + row[7]);
        let back = books.iter().filter(|row| (row[0], row[1]) == (to, from)).map(|row| row[5]);
        there.chain(back).sum()
    };
    let document = matrix(0, &["--comm", "W", "--all"]);
    let pairs = document["pairs"].as_array().expect("pairs");
    for (from, to) in [(4, 1), (1, 4), (2, 2)] {
        let ends = (from.to_string(), to.to_string());
        let row = pairs.iter().find(|row| row["from"] == ends.0 && row["to"] == ends.1);
        let row = row.expect("the pair is there");
        assert_eq!(row["one_sided_bytes"], moved(from, to), "{row}");
        assert_eq!((&row["bytes"], &row["messages"]), (&row["one_sided_bytes"], &0.into()), "{row}");
    }
    let all = document["one_sided_bytes"].clone();
    assert_eq!(matrix(1, &["--comm", "W"])["one_sided_bytes"], all);
    assert!(!document.to_string().contains("Not in it"), "{document}");
}
