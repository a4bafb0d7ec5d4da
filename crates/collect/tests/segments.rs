//! Segments that are not what a writer makes: cut off, overwritten, or no segments at all. A reader
//! in another process may find any of these; it says so, or takes what is there, and ends.

use mpisee_collect::RankTables;
use mpisee_collect::rank_tables::merge;
use mpisee_profile::rows::{CommRow, Members, Seconds};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::{HEADER_BYTES, Header, Slot};
use mpisee_profile::segment::log::{Code, Created, Record, Runs};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, CpuReading, Moment, OperationAtSite, PeerKey, SlotKey, Snapshot};
use mpisee_profile::writer::to_csv;
use mpisee_profile::{CommId, CommRank, Operation, ProfileError, RegionId, Ticks, WorldRank, rows::Memory};
use proptest::prelude::*;
use std::mem::offset_of;
use std::time::{Duration, Instant};

const END: Moment = Moment { monotonic_ns: 5_000_000_000, ticks: Ticks::new(5_000_000_000) };

/// A header and nothing else.
fn header() -> Words {
    Words::new(Owner { pid: 4711, host: "node0001", world_rank: 0, world_size: 64 })
}

/// Reads a segment to the end, as the library does at finalize.
fn read(words: &[u64]) -> Result<RankTables, ProfileError> {
    let snapshot = Snapshot::read(words)?;
    let tables = <RankTables>::new(&snapshot, END);
    for text in [to_csv(&tables.comms), to_csv(&tables.calls), to_csv(&tables.regions)] {
        assert!(text.len() < 1 << 26, "{} bytes", text.len());
    }
    Ok(tables)
}

fn why_not(words: &[u64]) -> String {
    read(words).expect_err("it cannot be read").to_string()
}

fn runs_of<const COUNT: usize>(ranks: [u32; COUNT]) -> Runs {
    ranks.into_iter().map(WorldRank::new).collect()
}

/// The key of messages to and from a peer.
fn peer(communicator: u32, rank: u32) -> SlotKey {
    PeerKey { communicator: CommId::new(communicator), peer: CommRank::new(rank) }.pack()
}

fn region(id: u32, parent: u32, name: &str) -> Record {
    Record::Region { id: RegionId::new(id), parent: RegionId::new(parent), name: name.to_owned() }
}

fn created(id: u32, letter: u8, group: Runs) -> Created {
    let (id, parent) = (CommId::new(id), (letter != 0).then_some(CommId::WORLD));
    let operation = Operation::CommSplit as u32;
    Created { parent, letter, n: 3, operation, ..Created::with_world(id, CommRank::FIRST, group) }
}

/// Of whose members no list is kept: world rank 0 is the last of six.
fn without_order() -> Created {
    let whole = Created { n: 9, rank: CommRank::new(5), ..created(4, b's', runs_of([7, 3, 9, 2, 22, 0])) };
    whole.without_list(1).expect("it has more runs")
}

/// One of everything.
fn valid() -> Words {
    let other = runs_of([9, 8, 7, 12, 40]);
    let between = Created { remote: Some(other.clone()), ..created(3, b'x', Runs::first(4)) };
    let key = CallKey {
        communicator: CommId::new(2),
        region: RegionId::new(2),
        operation: OperationAtSite::from_operation(Operation::Allreduce),
        size_class: 4,
        memory: Memory::Host,
    };
    header()
        .log(&[
            Record::Created(created(0, 0, Runs::first(64))),
            Record::Created(created(1, 0, Runs::first(1))),
            Record::Created(created(2, b's', other)),
            Record::Created(between),
            Record::Created(without_order()),
            region(1, 0, "solver"),
            region(2, 1, "halo"),
        ])
        .counters(&[
            (key.pack(), [5, 40, 900, 101, 300, 0]),
            (peer(3, 1), [2, 16, 1, 8, 0, 0]),
            (peer(4, 5), [1, 32, 0, 0, 23, 0]),
            (SlotKey::region(RegionId::new(1)), [1, 5000, 0, 0, 0, 0]),
            (SlotKey::region(RegionId::new(2)), [2, 3000, 7, 0, 0, 0]),
        ])
        .log(&[
            Record::Label { id: CommId::new(2), text: "rows".to_owned() },
            Record::Topology { id: CommId::new(2), text: "cart dims=5 periods=0".to_owned() },
            Record::Freed { id: CommId::new(2) },
        ])
}

#[test]
fn processes_of_other_worlds_are_counted_apart() {
    // World rank 1 of 2; rank 3 in a communicator of which 0, 1 and 4 are of another world.
    let outside = WorldRank::OUTSIDE.get();
    let mixed = runs_of([outside, outside, 0, 1, outside]);
    let parent = Created {
        parent: None,
        rank: CommRank::new(1),
        remote: Some(mixed.clone()),
        ..created(2, b'p', Runs::first(2))
    };
    let merged =
        Created { parent: Some(CommId::new(2)), rank: CommRank::new(2), n: 1, ..created(3, b'm', mixed) };
    let message = |communicator, rank| (peer(communicator, rank), [1, 100 + u64::from(rank), 0, 0, 0, 0]);
    let words = header().log(&[
        Record::Created(created(0, 0, Runs::first(2))),
        Record::Created(created(1, 0, Runs::first(1))),
        Record::Created(parent),
        Record::Created(merged),
    ]);
    let words = words.counters(&[message(3, 0), message(3, 3), message(3, 4)]);
    let tables = read(words.words()).unwrap();
    let rows: Vec<_> =
        tables.comms.iter().map(|row| (row.comm.as_str(), row.size, row.members.to_string())).collect();
    // The first process of this world reports the communicator; here it is this one.
    assert!(rows.contains(&("P_m1", 5, "0-1+3".to_owned())), "{rows:?}");
    let inside: Vec<_> =
        tables.peers.iter().map(|row| (row.comm.as_str(), row.peer, row.sent_bytes)).collect();
    assert_eq!(inside, [("P_m1", 1, 103)]);
    let outside: Vec<_> = tables
        .outside
        .iter()
        .map(|row| (row.comm.as_str(), row.peer_in_comm.get(), row.sent_bytes))
        .collect();
    assert_eq!(outside, [("P_m1", 0, 100), ("P_m1", 4, 104)]);
}

#[test]
fn a_library_that_is_loaded_again_elsewhere_has_one_row_for_a_site() {
    let code = |module, offset| Code { module, offset };
    let site =
        |module, offset| Record::Site { operation: Operation::Allreduce as u16, code: code(module, offset) };
    let module = |path: &str, build_id: &str| Record::Module {
        path: path.into(),
        build_id: build_id.into(),
        layout: 5,
    };
    let key = |number| CallKey {
        communicator: CommId::new(2),
        region: RegionId::OUTSIDE,
        operation: OperationAtSite::site(number),
        size_class: 4,
        memory: Memory::Host,
    };
    // Sites 0, 1 and 3 are one: of a library at two addresses, and by another path.
    let words = valid()
        .log(&[module("/lib/a.so", "ab"), module("/other/a.so", "ab"), module("/lib/b.so", "cd")])
        .log(&[site(0, 16), site(0, 16), site(2, 16), site(1, 16)])
        .counters(&[
            (key(0).pack(), [5, 40, 900, 101, 300, 77]),
            (key(1).pack(), [2, 16, 500, 51, 400, 78]),
            (key(2).pack(), [1, 8, 100, 101, 100, 79]),
            (key(3).pack(), [1, 8, 200, 0, 200, 80]),
        ]);
    let tables = read(words.words()).unwrap();
    let nanoseconds = |seconds: Seconds| (seconds.0 * 1e9).round() as u64;
    let mut rows: Vec<_> = tables
        .calls
        .iter()
        .filter(|row| row.site.is_some())
        .map(|row| (row.calls, row.bytes, [row.time_s, row.min_s, row.max_s].map(nanoseconds)))
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [(1, 8, [100, 100, 100]), (8, 64, [1600, 50, 400])]);
    assert_eq!(tables.rank.mpi_s.0, 2600.0 * 1e-9);
}

#[test]
fn peers_are_known_and_members_counted_where_no_list_is_kept() {
    let met = |rank, plus_1| (peer(4, rank), [1, 100 + u64::from(rank), 0, 0, plus_1, 0]);
    // Two threads met the same one; one is of another world; of the last nobody knows who it is.
    let words = valid().counters(&[
        met(5, 23),
        met(2, 10),
        met(3, u64::from(WorldRank::OUTSIDE.get()) + 1),
        met(4, 0),
    ]);
    let words = words.counters(&[met(1, u64::MAX)]);
    let tables = read(words.words()).unwrap();
    let of_it = |row: &&mpisee_profile::rows::PeerRow| row.comm == "W_s9";
    let peers: Vec<_> = tables.peers.iter().filter(of_it).map(|row| (row.peer, row.sent_bytes)).collect();
    assert_eq!(peers, [(9, 102), (22, 32 + 105)]);
    assert_eq!(
        tables.outside.iter().map(|row| (row.peer_in_comm.get(), row.sent_bytes)).collect::<Vec<_>>(),
        [(3, 103)]
    );
    // Another member says that it is in it, too.
    let mut row = tables.comms[4].clone();
    let others: Members = "7,22~4".parse().unwrap();
    let other = CommRow { members: others, ..row.clone() };
    merge(&mut row, &other);
    assert_eq!((row.members.to_string().as_str(), row.size, row.count), ("0,7,22~3", 6, 1));
}

#[test]
fn a_whole_segment_is_read() {
    let tables = read(valid().words()).unwrap();
    let names: Vec<&str> = tables.comms.iter().map(|row| row.comm.as_str()).collect();
    assert_eq!(names, ["W", "S", "W_s3", "W_x3", "W_s9"]);
    assert_eq!(tables.comms[2].members.group.to_string(), "7-9,12,40");
    assert_eq!(tables.comms[3].size, 9);
    assert_eq!(tables.calls.len(), 1);
    assert_eq!((tables.calls[0].comm.as_str(), tables.calls[0].calls), ("W_s3", 5));
    assert_eq!(tables.peers.iter().map(|row| row.peer).collect::<Vec<_>>(), [8, 22]);
    assert_eq!(tables.comms[4].members.to_string(), "0,7~4");
    // What was called in the inner region was called in the outer one, too.
    let regions: Vec<_> = tables.regions.iter().map(|row| (row.region.as_str(), row.mpi_s.0)).collect();
    assert_eq!(regions, [("solver", 900.0 * 1e-9), ("solver/halo", 900.0 * 1e-9)]);
}

#[test]
fn a_group_larger_than_any_job_is_refused() {
    let huge = created(0, 0, Runs::first(i32::MAX as u32));
    let why = why_not(header().log(&[Record::Created(huge)]).words());
    assert!(why.contains("more processes than there can be"), "{why}");
}

#[test]
fn more_regions_than_keys_tell_apart_are_refused() {
    let regions: Vec<_> = (1..5000).map(|id| region(id, id - 1, "r")).collect();
    let why = why_not(header().log(&regions).words());
    assert!(why.contains("regions"), "{why}");
}

#[test]
fn a_bit_that_flipped_costs_no_time() {
    let begin = Instant::now();
    let mut words = valid();
    for at in 0..words.words().len() {
        for bit in 0..64 {
            words.words_mut()[at] ^= 1 << bit;
            let _ = read(words.words());
            words.words_mut()[at] ^= 1 << bit;
        }
    }
    // It takes a second; a group of as many ranks as one bit announces, taken one by one, minutes.
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn a_segment_that_is_cut_off_says_so_or_is_short() {
    let whole = valid();
    for length in 0..whole.words().len() {
        let short = &whole.words()[..length];
        if length < HEADER_BYTES / 8 {
            assert!(why_not(short).contains("a header has"));
        } else if let Ok(tables) = read(short) {
            assert!(tables.comms.len() <= 5);
        }
    }
}

#[test]
fn a_slot_that_its_owner_never_finished_is_read_as_it_is() {
    let mut words = valid();
    let slot =
        words.words().iter().position(|&word| SlotKey(word) == SlotKey::region(RegionId::new(1))).unwrap();
    words.words_mut()[slot + offset_of!(Slot, sequence) / 8] = 1;
    assert_eq!(read(words.words()).unwrap().regions.len(), 2);
}

/// CPU use at the begin or the end, as a rank stores it.
fn store(words: &mut Words, byte: usize, reading: CpuReading) {
    for (which, word) in reading.to_words(1000).into_iter().enumerate() {
        words.set(byte + 8 * which, word);
    }
}

#[test]
fn cpu_use_is_that_between_begin_and_end() {
    let start = CpuReading {
        user_us: 500_000,
        system_us: 20_000,
        wait_ns: Some(3_000),
        involuntary_switches: 4,
        voluntary_switches: 5,
        minor_faults: 600,
        major_faults: 7,
    };
    let end = CpuReading {
        user_us: 1_500_000,
        system_us: 30_000,
        wait_ns: Some(2_000_003_000),
        involuntary_switches: 14,
        voluntary_switches: 25,
        minor_faults: 630,
        major_faults: 47,
    };
    let mut words = valid().log(&[Fact::Cpus.record("0-3"), Fact::Cpus.record("2")]);
    words.set(offset_of!(Header, node_cpus), 8);
    words.set(offset_of!(Header, cpu_quota), 1500);
    store(&mut words, offset_of!(Header, cpu_at_start), start);
    store(&mut words, offset_of!(Header, cpu_at_end), end);
    let rank = read(words.words()).unwrap().rank;
    let seconds = [rank.cpu_user_s, rank.cpu_system_s, rank.cpu_wait_s].map(|time_s| time_s.unwrap().0);
    assert_eq!(seconds, [1.0, 0.01, 2.0]);
    let counts = [rank.involuntary_switches, rank.voluntary_switches, rank.minor_faults, rank.major_faults];
    assert_eq!(counts, [10, 20, 30, 40].map(Some));
    assert_eq!((rank.cpus_allowed.to_string(), rank.cpus_at_start.to_string()), ("2".into(), "0-3".into()));
    assert_eq!((rank.node_cpus, rank.cpu_quota), (Some(8), Some(1.5)));
}

#[test]
fn cpu_use_of_a_rank_without_an_end_is_unknown() {
    let mut words = valid().log(&[Fact::Cpus.record("0-3")]);
    store(&mut words, offset_of!(Header, cpu_at_start), CpuReading { user_us: 5, ..CpuReading::default() });
    let rank = <RankTables>::of_ended(&Snapshot::read(words.words()).unwrap()).rank;
    assert_eq!((rank.cpu_s(), rank.cpu_wait_s, rank.minor_faults), (None, None, None));
    assert_eq!((rank.cpus_allowed.to_string(), rank.cpus_at_start.is_empty()), ("0-3".to_owned(), true));
    assert_eq!((rank.node_cpus, rank.cpu_quota), (None, None));
    // The kernel counts no waits.
    store(&mut words, offset_of!(Header, cpu_at_end), CpuReading { user_us: 9, ..CpuReading::default() });
    let rank = read(words.words()).unwrap().rank;
    assert_eq!((rank.cpu_user_s.map(|user_s| user_s.to_ns()), rank.cpu_wait_s), (Some(4000), None));
}

/// A word as chance, or a writer that failed, may leave it.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..16,
        (0u32..64).prop_map(|bit| 1 << bit),
        (any::<u32>(), 0u64..40).prop_map(|(low, high)| u64::from(low) | high << 32),
        Just(u64::MAX),
        Just(u64::from(i32::MAX as u32)),
        Just((2 << 62) | (3 << 32)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn words_that_changed_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any_word()), 1..6)) {
        let mut words = valid();
        // What comes first is looked at first: mostly leave it.
        let begin = HEADER_BYTES / 8;
        for (index, word) in changes {
            let at = begin + index.index(words.words().len() - begin);
            words.words_mut()[at] = word;
        }
        let _ = read(words.words());
    }

    #[test]
    fn a_changed_header_is_read_or_refused(at in 0..HEADER_BYTES / 8, word in any_word()) {
        let mut words = valid();
        words.words_mut()[at] = word;
        let _ = read(words.words());
    }

    #[test]
    fn any_words_behind_a_header_are_read_or_refused(kind in 1u64..3, used: u64, body in prop::collection::vec(any_word(), 0..50)) {
        let _ = read(header().chunk(kind, used, body).words());
    }
}
