//! Bytes that each process records of a collective operation; the parts add up to the bound in
//! docs/explanation/bytes-and-times.md. The sizes of the blocks are those of the programs; each has
//! its own, so that a mix-up shows.
use mpisee_tests::{Finished, Mpi, Run, Tables, case};
use std::collections::BTreeSet;

/// A process in a communicator.
#[derive(Clone, Copy)]
struct At {
    /// Processes.
    p: u64,
    /// Its rank.
    i: u64,
    /// `MPI_IN_PLACE` stands where it may.
    in_place: bool,
}

/// In elements: the message, and what the process contributes.
type Part = fn(At) -> (u64, u64);

/// Elements that all processes together record, from their number and whether it is in place.
type Sum = fn(u64, bool) -> u64;

/// Process 1 has nothing in operations with a count for each process.
fn part(base: u64, i: u64) -> u64 {
    if i == 1 { 0 } else { base + 3 * i }
}

fn parts(base: u64, p: u64) -> u64 {
    (0..p).map(|i| part(base, i)).sum()
}

/// Elements from `i` to `j`.
fn pair(base: u64, in_place: bool, i: u64, j: u64) -> u64 {
    match in_place {
        true if i + j == 1 => 0,
        true => base + 7 * (i + j),
        false if (i, j) == (1, 2) => 0,
        false => base + 5 * i + 3 * j,
    }
}

fn pairs(base: u64, p: u64, in_place: bool, i: u64) -> u64 {
    (0..p).map(|j| pair(base, in_place, i, j)).sum()
}

fn all_pairs(base: u64, p: u64, in_place: bool) -> u64 {
    (0..p).map(|i| pairs(base, p, in_place, i)).sum()
}

fn twice(bytes: u64) -> (u64, u64) {
    (bytes, bytes)
}

/// The blocking and the nonblocking operation on an intracommunicator; the last process is the
/// root.
const INSIDE: &[(&str, &str, Part, Sum)] = &[
    ("MPI_Barrier", "MPI_Ibarrier", |_| (0, 0), |_, _| 0),
    ("MPI_Bcast", "MPI_Ibcast", |at| (11, if at.i == at.p - 1 { 0 } else { 11 }), |p, _| (p - 1) * 11),
    ("MPI_Gather", "MPI_Igather", |_| twice(13), |p, _| p * 13),
    ("MPI_Scatter", "MPI_Iscatter", |_| twice(17), |p, _| p * 17),
    ("MPI_Allgather", "MPI_Iallgather", |_| twice(19), |p, _| p * 19),
    ("MPI_Alltoall", "MPI_Ialltoall", |at| twice(at.p * 23), |p, _| p * p * 23),
    ("MPI_Reduce", "MPI_Ireduce", |_| twice(29), |p, _| p * 29),
    ("MPI_Allreduce", "MPI_Iallreduce", |_| twice(31), |p, _| p * 31),
    ("MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block", |_| twice(37), |p, _| p * 37),
    ("MPI_Scan", "MPI_Iscan", |at| (41, if at.i == 0 { 0 } else { 41 }), |p, _| (p - 1) * 41),
    ("MPI_Exscan", "MPI_Iexscan", |at| (71, if at.i == 0 { 0 } else { 71 }), |p, _| (p - 1) * 71),
    ("MPI_Gatherv", "MPI_Igatherv", |at| twice(part(43, at.i)), |p, _| parts(43, p)),
    ("MPI_Scatterv", "MPI_Iscatterv", |at| twice(part(47, at.i)), |p, _| parts(47, p)),
    ("MPI_Allgatherv", "MPI_Iallgatherv", |at| twice(part(53, at.i)), |p, _| parts(53, p)),
    ("MPI_Reduce_scatter", "MPI_Ireduce_scatter", |at| twice(part(59, at.i)), |p, _| parts(59, p)),
    (
        "MPI_Alltoallv",
        "MPI_Ialltoallv",
        |at| twice(pairs(61, at.p, at.in_place, at.i)),
        |p, in_place| all_pairs(61, p, in_place),
    ),
    (
        "MPI_Alltoallw",
        "MPI_Ialltoallw",
        |at| twice(pairs(67, at.p, at.in_place, at.i)),
        |p, in_place| all_pairs(67, p, in_place),
    ),
];

/// Between the groups {0, 1} and {2, 3, 4}: what each of the five processes contributes, and the
/// message of those that contribute nothing to a message. Process 3 is the root, or its receivers
/// the first group.
const BETWEEN: &[(&str, &str, [u64; 5], [u64; 5])] = &[
    ("MPI_Barrier", "MPI_Ibarrier", [0; 5], [0; 5]),
    ("MPI_Bcast", "MPI_Ibcast", [11, 11, 0, 0, 0], [11, 11, 0, 11, 0]),
    ("MPI_Gather", "MPI_Igather", [13, 13, 0, 0, 0], [13, 13, 0, 0, 0]),
    ("MPI_Scatter", "MPI_Iscatter", [17, 17, 0, 0, 0], [17, 17, 0, 0, 0]),
    ("MPI_Allgather", "MPI_Iallgather", [19, 19, 22, 22, 22], [19, 19, 22, 22, 22]),
    // A block for each process of the other group.
    ("MPI_Alltoall", "MPI_Ialltoall", [69, 69, 54, 54, 54], [69, 69, 54, 54, 54]),
    ("MPI_Reduce", "MPI_Ireduce", [29, 29, 0, 0, 0], [29, 29, 0, 0, 0]),
    ("MPI_Allreduce", "MPI_Iallreduce", [31; 5], [31; 5]),
    ("MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block", [111, 111, 74, 74, 74], [111, 111, 74, 74, 74]),
    ("MPI_Reduce_scatter", "MPI_Ireduce_scatter", [59, 295, 118, 59, 177], [59, 295, 118, 59, 177]),
    ("MPI_Gatherv", "MPI_Igatherv", [43, 0, 0, 0, 0], [43, 0, 0, 0, 0]),
    ("MPI_Scatterv", "MPI_Iscatterv", [47, 0, 0, 0, 0], [47, 0, 0, 0, 0]),
    ("MPI_Allgatherv", "MPI_Iallgatherv", [53, 0, 59, 62, 65], [53, 0, 59, 62, 65]),
    // 61 + 5i + 3j from i to j, and nothing from 1 to 2.
    ("MPI_Alltoallv", "MPI_Ialltoallv", [210, 153, 145, 155, 165], [210, 153, 145, 155, 165]),
    ("MPI_Alltoallw", "MPI_Ialltoallw", [228, 165, 157, 167, 177], [228, 165, 157, 167, 177]),
];

/// The topologies of `collectives_of_neighbours.c`: the processes to which each of the four gives.
const NEIGHBOURS: &[(&str, [&[u64]; 4])] = &[
    ("line", [&[1], &[0, 2], &[1, 3], &[2]]),
    // 2x2: not periodic along the first dimension, twice the same neighbour along the second.
    ("mixed", [&[2, 1, 1], &[3, 0, 0], &[0, 3, 3], &[1, 2, 2]]),
    ("graph", [&[1, 2, 3], &[0, 2], &[0, 1], &[0]]),
    ("adjacent", [&[1, 2, 3], &[2], &[3], &[]]),
    ("dist", [&[2], &[2, 3], &[0], &[3]]),
    ("ring", [&[1], &[2], &[3], &[0]]),
];

/// In bytes, from process `i` to `j`.
type Edge = fn(u64, u64) -> u64;

const TO_NEIGHBOURS: &[(&str, &str, Edge)] = &[
    ("MPI_Neighbor_allgather", "MPI_Ineighbor_allgather", |_, _| 11),
    ("MPI_Neighbor_alltoall", "MPI_Ineighbor_alltoall", |_, _| 13),
    ("MPI_Neighbor_allgatherv", "MPI_Ineighbor_allgatherv", |i, _| 17 + 3 * i),
    ("MPI_Neighbor_alltoallv", "MPI_Ineighbor_alltoallv", |i, j| pair(19, false, i, j)),
    ("MPI_Neighbor_alltoallw", "MPI_Ineighbor_alltoallw", |i, j| pair(23, false, i, j)),
];

/// Asserts that `rank` made `call` once on `comm`, with that message and those bytes.
fn assert_once(tables: &Tables, comm: &str, rank: u32, call: &str, (message, bytes): (u64, u64)) {
    let rows: Vec<_> =
        tables.calls.iter().filter(|row| row.comm == comm && row.rank == rank && row.call == call).collect();
    let [row] = rows[..] else { panic!("{comm} {rank} {call}: {rows:#?}") };
    assert_eq!((row.calls, row.bytes), (1, bytes), "calls and bytes of {call} by {rank} on {comm}");
    assert!(
        (row.size_min..=row.size_max).contains(&message),
        "{call} by {rank} on {comm} has a message of {message} bytes: {row:?}"
    );
}

/// Calls of collective operations in the table, on all communicators.
fn collective_calls(tables: &Tables) -> u64 {
    let known = INSIDE.iter().map(|entry| [entry.0, entry.1]);
    let known = known.chain(TO_NEIGHBOURS.iter().map(|entry| [entry.0, entry.1]));
    let known: BTreeSet<&str> = known.flatten().collect();
    tables.sum_where(|row| known.contains(row.call.as_str())).calls
}

#[case]
fn each_process_records_its_part_of_every_collective(mpi: &Mpi) {
    let finished = Run::new(mpi, "collectives/collectives").profiled();
    let tables = finished.tables();
    let on_communicator = |comm: &str, ranks: &[u32], element: u64, in_place: bool| {
        let p = ranks.len() as u64;
        for (i, &rank) in (0..).zip(ranks) {
            for &(blocking, nonblocking, part, _) in INSIDE {
                let (message, bytes) = part(At { p, i, in_place });
                let expected = (message * element, bytes * element);
                assert_once(tables, comm, rank, blocking, expected);
                assert_once(tables, comm, rank, nonblocking, expected);
            }
        }
    };
    on_communicator("W", &[0, 1, 2, 3], 1, false);
    on_communicator(tables.labelled("in place"), &[0, 1, 2, 3], 1, true);
    // Two bytes of four: it is data that is counted, not holes.
    on_communicator(tables.labelled("derived"), &[0, 1, 2, 3], 2, false);
    on_communicator(tables.labelled("some"), &[3, 2, 0], 1, false);
    for rank in 0..4 {
        on_communicator("S", &[rank], 1, false);
        on_communicator(tables.labelled("alone"), &[rank], 1, false);
        on_communicator(tables.labelled("alone in place"), &[rank], 1, true);
    }
    // 27 processes in communicators, and nothing besides.
    assert_eq!(collective_calls(tables), 27 * 2 * INSIDE.len() as u64);
    finished.check();
}

#[case]
fn the_parts_add_up_to_the_lower_bound(mpi: &Mpi) {
    let finished = Run::new(mpi, "collectives/collectives").profiled();
    let tables = finished.tables();
    for &(blocking, nonblocking, _, sum) in INSIDE {
        for call in [blocking, nonblocking] {
            let bytes = |comm: &str| tables.sum(comm, call).bytes;
            assert_eq!(bytes("W"), sum(4, false), "{call}");
            assert_eq!(bytes(tables.labelled("in place")), sum(4, true), "{call} in place");
            assert_eq!(bytes(tables.labelled("derived")), 2 * sum(4, false), "{call} of derived data");
            assert_eq!(bytes(tables.labelled("some")), sum(3, false), "{call} of three processes");
            assert_eq!(bytes("S"), 4 * sum(1, false), "{call} on MPI_COMM_SELF of four processes");
        }
    }
}

#[case]
fn collectives_receive_the_same_with_the_profiler_as_without(mpi: &Mpi) {
    let lines = |finished: &Finished| {
        let lines: BTreeSet<String> = finished.stdout.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4, "{}", finished.stdout);
        lines
    };
    let plain = Run::new(mpi, "collectives/collectives").plain();
    let profiled = Run::new(mpi, "collectives/collectives").profiled();
    assert_eq!(lines(&profiled), lines(&plain));
}

#[case]
fn on_an_intercommunicator_the_group_that_sends_contributes(mpi: &Mpi) {
    let finished = Run::new(mpi, "collectives/between_groups").ranks(5).profiled();
    let tables = finished.tables();
    let between = &tables.comms.iter().find(|row| row.created_by == "MPI_Intercomm_create").unwrap().comm;
    for &(blocking, nonblocking, bytes, messages) in BETWEEN {
        for call in [blocking, nonblocking] {
            for (rank, expected) in (0..).zip(messages.into_iter().zip(bytes)) {
                assert_once(tables, between, rank, call, expected);
            }
        }
    }
    assert_eq!(collective_calls(tables), 5 * 2 * BETWEEN.len() as u64);
    finished.check();
}

#[case]
fn in_a_neighbourhood_only_what_goes_to_processes_counts(mpi: &Mpi) {
    let finished = Run::new(mpi, "collectives/of_neighbours").profiled();
    let tables = finished.tables();
    let mut calls = 0;
    for &(label, neighbours) in NEIGHBOURS {
        let comm = tables.labelled(label);
        for &(blocking, nonblocking, edge) in TO_NEIGHBOURS {
            if ["adjacent", "dist"].contains(&label) && blocking == "MPI_Neighbor_alltoallw" {
                continue; // the program says why
            }
            for (rank, targets) in (0..).zip(neighbours) {
                let bytes = targets.iter().map(|&target| edge(u64::from(rank), target)).sum();
                assert_once(tables, comm, rank, blocking, (bytes, bytes));
                assert_once(tables, comm, rank, nonblocking, (bytes, bytes));
                calls += 2;
            }
        }
    }
    assert_eq!(collective_calls(tables), calls);
    finished.check();
}

#[case]
fn every_mpi_counts_collectives_alike() {
    for (program, ranks) in
        [("collectives/collectives", 4), ("collectives/between_groups", 5), ("collectives/of_neighbours", 4)]
    {
        let of = |mpi: &Mpi| {
            let finished = Run::new(mpi, program).ranks(ranks).profiled();
            let rows = finished.tables().calls.iter().map(|row| {
                let (comm, region, call) = (row.comm.clone(), row.region.clone(), row.call.clone());
                (comm, row.rank, region, call, row.size_min, row.size_max, row.calls, row.bytes)
            });
            rows.collect::<BTreeSet<_>>()
        };
        let all: Vec<_> = Mpi::all_for_core().iter().map(|mpi| (mpi.name.clone(), of(mpi))).collect();
        for (name, rows) in &all[1..] {
            let differ: Vec<_> = all[0].1.symmetric_difference(rows).collect();
            assert!(differ.is_empty(), "{program}: {} and {name} differ in {differ:#?}", all[0].0);
        }
    }
}

#[case]
fn nothing_of_a_null_datatype_is_refused_or_allowed_as_without_the_profiler(mpi: &Mpi) {
    let plain = Run::new(mpi, "collectives/count_of_none").plain();
    let finished = Run::new(mpi, "collectives/count_of_none").profiled();
    assert_eq!(finished.stdout, plain.stdout);
    let tables = finished.tables();
    let counted = |call: &str| tables.sum_where(|row| row.call == call);
    for line in plain.stdout.lines() {
        let (call, _) = line.split_once(' ').expect("a call and what came of it");
        assert_eq!((counted(call).calls, counted(call).bytes), (4, 0), "{call}");
    }
    assert!(plain.stdout.lines().count() >= 9, "{}", plain.stdout);
    finished.check();
}
