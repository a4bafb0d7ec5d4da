//! Communicators that are created and freed without end: what is kept of them ends, and every call
//! is still counted.
use mpisee_profile::comm_name::{is_of_changing_members, is_shared_row};
use mpisee_profile::rows::CommRow;
use mpisee_tests::profile::without_digests;
use mpisee_tests::{Finished, LIMIT, Mpi, Place, Run, Tables, case, through, within};
use std::collections::{BTreeMap, BTreeSet};

/// Of so many like communicators each has a row.
const ALIKE: u64 = 10;
/// A message of 101 bytes goes through each, and each process brings 12 to an MPI_Allreduce.
const MESSAGE: u64 = 101;
const ALLREDUCE: u64 = 12;

struct Churned {
    finished: Finished,
    place: Place,
}

fn churned(mpi: &Mpi, kind: &str, ranks: u32, cycles: u64) -> Churned {
    mpisee_tests::note!("{kind}, {ranks} ranks, {cycles} cycles");
    let place = Place::new();
    let finished = Run::new(mpi, "communicators/churn")
        .ranks(ranks)
        .argument(kind)
        .argument(cycles)
        .variable("MPISEE_SEGMENTS", &place.segments().display().to_string())
        .options(&["--alike", &ALIKE.to_string()])
        .profiled();
    finished.check();
    Churned { finished, place }
}

impl Churned {
    fn tables(&self) -> &Tables {
        self.finished.tables()
    }

    /// Asserts that no segment grew after a quarter of the cycles, and that none is left.
    fn assert_bounded(&self, ranks: u32) {
        for rank in 0..ranks {
            let path = self.finished.place.path(&format!("memory.{rank}"));
            let text = std::fs::read_to_string(path).unwrap();
            let bytes: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(bytes.len(), 2, "{text}");
            assert!(bytes[0] > 0, "rank {rank} has no segment");
            assert_eq!(bytes[0], bytes[1], "bytes of the segment of rank {rank}");
        }
        assert_eq!(self.place.left().len(), 0, "segments are left");
    }

    /// Asserts that below `parent` there are as many rows as like communicators may have, and one
    /// row with a plus for all others of the `total`, whose names end in `end` but for digests.
    /// Returns all of them.
    fn assert_rows(&self, parent: &str, letter: char, end: &str, total: u64, members: &str) -> Vec<String> {
        let begin = format!("{parent}_{letter}");
        let rows = self.tables().comms.iter();
        let rows: Vec<_> = rows.filter(|row| row.parent == parent && row.comm.starts_with(&begin)).collect();
        let rows: Vec<_> = rows.into_iter().filter(|row| without_digests(&row.comm).ends_with(end)).collect();
        let names: Vec<String> = rows.iter().map(|row| row.comm.clone()).collect();
        let (many, single): (Vec<&CommRow>, Vec<&CommRow>) =
            rows.iter().copied().partition(|row| is_shared_row(&row.comm));
        assert_eq!((many.len() as u64, single.len() as u64), (1, ALIKE), "{names:?}");
        assert_eq!(many[0].count, total - ALIKE, "{names:?}");
        assert!(single.iter().all(|row| row.count == 1));
        let shared = format!("{begin}{}+{end}", ALIKE + 1);
        assert_eq!(without_digests(&many[0].comm), shared, "the row is named after its first communicator");
        for row in &rows {
            assert_eq!(row.members.to_string(), members, "members of {}", row.comm);
            assert_eq!(row.freed, 1, "{}", row.comm);
        }
        names
    }

    /// Asserts what the members of all these rows did on them together: `cycles` times one message
    /// from the first to the last, and one MPI_Allreduce.
    fn assert_traffic(&self, names: &[String], members: &[u32], cycles: u64) {
        let tables = self.tables();
        let (first, last) = (members[0], members[members.len() - 1]);
        for &rank in members {
            let sum = |call: &str| {
                let is_one = |name: &str| names.iter().any(|one| one == name);
                tables.sum_where(|row| row.rank == rank && row.call == call && is_one(&row.comm))
            };
            let reduced = sum("MPI_Allreduce");
            assert_eq!((reduced.calls, reduced.bytes), (cycles, cycles * ALLREDUCE), "rank {rank}");
            assert_eq!(sum("MPI_Comm_free").calls, cycles, "rank {rank}");
            let sent = if rank == first { cycles } else { 0 };
            assert_eq!((sum("MPI_Send").calls, sum("MPI_Send").bytes), (sent, sent * MESSAGE), "rank {rank}");
            let received = if rank == last { cycles } else { 0 };
            assert_eq!(sum("MPI_Irecv").bytes, received * MESSAGE, "rank {rank}");
        }
        let exchanged: Vec<[u64; 4]> = names.iter().map(|name| tables.peer(name, first, last)).collect();
        let sum = |which: usize| exchanged.iter().map(|numbers| numbers[which]).sum::<u64>();
        assert_eq!((sum(0), sum(1)), (cycles, cycles * MESSAGE), "from {first} to {last}");
    }

    fn assert_note(&self, communicators: u64, rows: u64) {
        let plural = if rows == 1 { "" } else { "s" };
        let begin =
            format!("{communicators} communicators like many before them are in {rows} row{plural} of");
        let notes = &self.tables().run.notes;
        assert!(notes.iter().any(|note| note.starts_with(&begin)), "{notes:?} instead of {begin}");
        assert!(self.tables().run.not_seen.is_empty(), "{:?}", self.tables().run.not_seen);
    }
}

#[case]
fn a_thousand_like_communicators_share_a_row(mpi: &Mpi) {
    const CYCLES: u64 = 1_000;
    for (kind, letter) in [("dup", 'd'), ("cart", 'a')] {
        let churned = churned(mpi, kind, 2, CYCLES);
        let names = churned.assert_rows("W", letter, "", CYCLES, "0-1");
        churned.assert_traffic(&names, &[0, 1], CYCLES);
        churned.assert_note(CYCLES - ALIKE, 1);
        churned.assert_bounded(2);
    }
}

#[case]
fn duplicates_that_are_made_beside_others_share_a_row(mpi: &Mpi) {
    const CYCLES: u64 = 1_000;
    let churned = churned(mpi, "idup", 2, CYCLES);
    let names = churned.assert_rows("W", 'i', "", CYCLES, "0-1");
    churned.assert_traffic(&names, &[0, 1], CYCLES);
    churned.assert_note(CYCLES - ALIKE, 1);
    churned.assert_bounded(2);
}

#[case]
fn parts_of_a_split_share_a_row_each_and_who_is_in_none_counts_none(mpi: &Mpi) {
    const CYCLES: u64 = 400;
    // 0 and 2 are of one colour, 1 of the other, and 3 is in none.
    let churned = churned(mpi, "split", 4, CYCLES);
    let even = churned.assert_rows("W", 's', ".0", CYCLES, "0,2");
    let odd = churned.assert_rows("W", 's', ".1", CYCLES, "1");
    // The key turns their order.
    churned.assert_traffic(&even, &[2, 0], CYCLES);
    churned.assert_traffic(&odd, &[1], CYCLES);
    churned.assert_note(2 * (CYCLES - ALIKE), 2);
    churned.assert_bounded(4);
    let numbers = |names: &[String]| -> BTreeSet<String> {
        names.iter().map(|name| name.split('.').next().unwrap().to_owned()).collect()
    };
    assert_eq!(numbers(&even), numbers(&odd), "one call has one number");
}

#[case]
fn children_of_a_row_of_many_are_below_it_and_share_one_per_letter(mpi: &Mpi) {
    const CYCLES: u64 = 300;
    let churned = churned(mpi, "child", 4, CYCLES);
    for (end, members, ranks) in [(".0", "0,2", [0, 2]), (".1", "1,3", [1, 3])] {
        let parents = churned.assert_rows("W", 's', end, CYCLES, members);
        let many = parents.iter().find(|name| is_shared_row(name)).unwrap();
        // Threads may use communicators of one row in any order: ordinals below it have no meaning.
        let below: Vec<&CommRow> = churned.tables().comms.iter().filter(|row| row.parent == *many).collect();
        let [aggregate] = below[..] else { panic!("below {many}: {below:#?}") };
        assert_eq!(aggregate.comm, format!("{many}_d+"));
        assert!(is_of_changing_members(&aggregate.comm));
        assert_eq!((aggregate.count, aggregate.freed, aggregate.size), (CYCLES - ALIKE, 1, 2));
        assert_eq!(aggregate.members.to_string(), members);
        assert_eq!(aggregate.created_by, "MPI_Comm_dup");
        // It has both labels, so neither.
        assert_eq!(aggregate.label, "");
        let mut all = vec![aggregate.comm.clone()];
        for parent in parents.iter().filter(|name| !name.contains('+')) {
            let rows = churned.tables().comms.iter().filter(|row| row.parent == *parent);
            let children: Vec<String> = rows.map(|row| row.comm.clone()).collect();
            assert_eq!(children, [format!("{parent}_d1")]);
            assert!(["odd", "even"].contains(&churned.tables().comm(&children[0]).label.as_str()));
            all.extend(children);
        }
        churned.assert_traffic(&all, &ranks, CYCLES);
    }
    churned.assert_bounded(4);
}

#[case]
fn groups_and_intercommunicators_share_rows(mpi: &Mpi) {
    const CYCLES: u64 = 300;
    let groups = churned(mpi, "group", 4, CYCLES);
    let names = groups.assert_rows("W", 'g', ".0", CYCLES, "0-2");
    let digests: BTreeSet<&str> = names.iter().map(|name| name.split_once('-').unwrap().1).collect();
    assert_eq!(digests.len(), 1, "{names:?}");
    groups.assert_traffic(&names, &[2, 1, 0], CYCLES);
    groups.assert_note(CYCLES - ALIKE, 1);
    groups.assert_bounded(4);

    let between = churned(mpi, "inter", 4, CYCLES);
    let names = between.assert_rows("W", 'x', ".0", CYCLES, "0-1|2-3");
    // The same groups and tag each time: one digest for all of them.
    let digests: BTreeSet<&str> = names.iter().map(|name| name.split_once('-').unwrap().1).collect();
    assert_eq!(digests.len(), 1, "{names:?}");
    assert!(names.iter().all(|name| between.tables().comm(name).between == "W_s1.0|W_s1.2"));
    for (rank, peer) in [(0, 2), (2, 0)] {
        let tables = between.tables();
        let sum: [u64; 4] = names
            .iter()
            .map(|name| tables.peer(name, rank, peer))
            .fold([0; 4], |sum, one| std::array::from_fn(|which| sum[which] + one[which]));
        assert_eq!(sum, [CYCLES, CYCLES * MESSAGE, CYCLES, CYCLES * MESSAGE]);
    }
    for rank in 0..4 {
        let is_one = |name: &str| names.iter().any(|one| one == name);
        let freed = between
            .tables()
            .sum_where(|row| row.rank == rank && row.call == "MPI_Comm_free" && is_one(&row.comm));
        assert_eq!(freed.calls, CYCLES);
    }
    between.assert_note(CYCLES - ALIKE, 1);
    between.assert_bounded(4);
}

/// Messages of `churn.c` between ranks of the world in all cycles of `changing`, and the number of
/// communicators.
fn expected_of_changing(ranks: u32, cycles: u64) -> (BTreeMap<(u32, u32), u64>, u64) {
    let (mut sent, mut communicators) = (BTreeMap::new(), 0);
    for k in 0..cycles as u32 {
        let draw = k.wrapping_mul(2_654_435_761);
        for colour in 0..2 {
            let mut members: Vec<(u32, u32)> = (0..ranks)
                .filter(|rank| draw >> (7 + rank) & 1 == colour)
                .map(|rank| ((draw >> (11 + 2 * rank)) % 16, rank))
                .collect();
            members.sort_unstable();
            if let (Some(first), Some(last)) = (members.first(), members.last()) {
                communicators += 1;
                *sent.entry((first.1, last.1)).or_default() += 1;
            }
        }
    }
    (sent, communicators)
}

#[case]
fn where_members_change_with_each_call_rows_end_and_peers_are_still_known(mpi: &Mpi) {
    const CYCLES: u64 = 3_000;
    const RANKS: u32 = 4;
    // Processes that wait for each other on too few cores need long in MPICH.
    let cycles = if mpi.is_open_mpi { CYCLES } else { CYCLES / 10 };
    let place = Place::new();
    let finished = Run::new(mpi, "communicators/churn")
        .ranks(RANKS)
        .argument("changing")
        .argument(cycles)
        .variable("MPISEE_SEGMENTS", &place.segments().display().to_string())
        .options(&["--alike", "1"])
        .profiled();
    finished.check();
    let churned = Churned { finished, place };
    let (expected, communicators) = expected_of_changing(RANKS, cycles);
    let tables = churned.tables();
    let below: Vec<_> = tables.comms.iter().filter(|row| row.parent == "W").collect();
    assert_eq!(below.iter().map(|row| row.count).sum::<u64>(), communicators);
    let many = tables.comm("W_s+");
    assert!(many.count > 20, "{many:?}");
    assert_eq!((many.size, many.freed), (4, 1));
    let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for row in tables.peers.iter().filter(|row| row.sent_messages > 0) {
        assert_eq!(row.sent_bytes, row.sent_messages * MESSAGE);
        *sent.entry((row.rank, row.peer)).or_default() += row.sent_messages;
    }
    assert_eq!(sent, expected);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
    churned.assert_bounded(RANKS);
}

#[case]
fn names_do_not_grow_where_a_communicator_is_made_of_the_last_one(mpi: &Mpi) {
    const CYCLES: u64 = 2_000;
    /// Generations below `W` that have rows of their own.
    const GENERATIONS: usize = 32;
    let churned = churned(mpi, "chain", 2, CYCLES);
    let tables = churned.tables();
    let longest = tables.names().into_iter().max_by_key(|name| name.len()).unwrap();
    assert_eq!(longest, format!("W{}_d+", "_d1".repeat(GENERATIONS)));
    let names: Vec<String> =
        tables.names().into_iter().filter(|name| name.starts_with("W_")).map(str::to_owned).collect();
    // One came before the cycles.
    assert_eq!(names.iter().map(|name| tables.comm(name).count).sum::<u64>(), CYCLES + 1);
    assert_eq!(tables.comm(longest).count, CYCLES + 1 - GENERATIONS as u64);
    assert_eq!(tables.comm(longest).members.to_string(), "0-1");
    let calls = |call: &str| tables.sum_where(|row| row.call == call && row.rank == 0);
    assert_eq!(calls("MPI_Allreduce").calls, CYCLES);
    assert_eq!(calls("MPI_Send").bytes, CYCLES * MESSAGE);
    churned.assert_bounded(2);
}

#[case]
fn killed_program_is_recovered_with_the_same_rows(mpi: &Mpi) {
    const KILLED_AT: u64 = 500;
    let place = Place::new();
    let variables = [
        ("MPISEE_SEGMENTS", place.segments().display().to_string()),
        ("CHURN_KILL", KILLED_AT.to_string()),
        ("MPISEE_ALIKE", ALIKE.to_string()),
        ("LD_PRELOAD", mpi.library().display().to_string()),
    ];
    let variables: Vec<(String, String)> =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut command = mpi.launcher(2, &variables);
    command.arg(mpi.compile("communicators/churn")).args(["dup", "1000"]).current_dir(place.folder());
    let output = within(LIMIT, &mut command);
    assert!(!output.status.success());
    let profile = place.path("recovered.mpisee");
    let (profile, from) = (profile.display().to_string(), place.segments().display().to_string());
    let output = through(&["recover", &from, "-o", &profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tables = Tables::read(profile.as_ref(), "");
    let many: Vec<_> = tables.comms.iter().filter(|row| row.comm.contains('+')).collect();
    assert_eq!(many.len(), 1, "{:?}", tables.names());
    assert_eq!((many[0].count, many[0].freed), (KILLED_AT - ALIKE, 1));
    assert_eq!(tables.names().iter().filter(|name| name.starts_with("W_d")).count() as u64, ALIKE + 1);
    for rank in 0..2 {
        assert_eq!(tables.of_rank(&many[0].comm, "MPI_Allreduce", rank).calls, KILLED_AT - ALIKE);
    }
    assert!(tables.run.notes.iter().any(|note| note.contains("MPISEE_ALIKE")), "{:?}", tables.run.notes);
}
