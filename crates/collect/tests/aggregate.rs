//! Sums over ranks: the order of merging makes no difference, and bytes that are no sums are
//! refused.

use mpisee_collect::aggregate::AggregateTables;
use mpisee_collect::wire::Message;
use mpisee_collect::{Aggregate, RankTables};
use mpisee_profile::rows::{CommRow, Memory, Row};
use mpisee_profile::segment::Moment;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::segment::layout::Header;
use mpisee_profile::segment::log::{Created, NONE, Record};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, CpuReading, OperationAtSite, PeerKey, SlotKey, Snapshot};
use mpisee_profile::writer::to_csv;
use mpisee_profile::{CommId, CommRank, Operation, RankSet, RegionId, Ticks, WorldRank};
use proptest::prelude::*;
use std::mem::offset_of;

const END: Moment = Moment { monotonic_ns: 5_000_000_000, ticks: Ticks::new(5_000_000_000) };
const RANKS: u32 = 12;

fn created(id: u32, parent: u32, letter: u8, n: u32, r: Option<u32>, rank: u32, group: Vec<u32>) -> Record {
    let operation = if letter == 0 { NONE } else { Operation::CommSplit as u32 };
    let (id, parent) = (CommId::new(id), (letter != 0).then(|| CommId::new(parent)));
    let (r, rank) = (r.map(CommRank::new), CommRank::new(rank));
    let group = group.into_iter().map(WorldRank::new).collect();
    Record::Created(Created { parent, letter, n, r, operation, ..Created::with_world(id, rank, group) })
}

/// The key of messages to and from a peer.
fn peer(communicator: u32, rank: u32) -> SlotKey {
    PeerKey { communicator: CommId::new(communicator), peer: CommRank::new(rank) }.pack()
}

/// The world of 12, thirds of it by remainder, and of these pairs and duplicates; calls and
/// messages differ by rank.
fn rank(rank: u32) -> Aggregate {
    let (third, place) = (rank % 3, rank / 3);
    let members: Vec<u32> = (third..RANKS).step_by(3).collect();
    let pair = place / 2 * 2;
    let partners: Vec<u32> = members[pair as usize..pair as usize + 2].to_vec();
    let call = |communicator: u32, operation: Operation, size: u64, region: u32| {
        let (operation, size_class, memory) =
            (OperationAtSite::from_operation(operation), size_class(size), Memory::Host);
        let communicator = CommId::new(communicator);
        let region = RegionId::new(region);
        CallKey { communicator, region, operation, size_class, memory }.pack()
    };
    let time = 1000 + u64::from(rank * rank);
    let calls = u64::from(rank) + 1;
    let mut counters = vec![
        (call(0, Operation::Barrier, 0, 0), [1, 0, time, 8, 77, 0]),
        (call(2, Operation::Allreduce, 100 << (rank % 4), 0), [calls, 101 * calls, 2 * time, 5, 900, 0]),
        (call(2, Operation::Allreduce, 8, 1), [3, 24, 31, 6, 20, 0]),
        (call(3, Operation::Send, 8, 0), [1, 8, time / 2, 3, 500, 0]),
        (peer(3, 1 - place % 2), [1, 8, 1, 8, 0, 0]),
        (SlotKey::region(RegionId::new(1)), [2, 4000 + u64::from(rank), 0, 0, 0, 0]),
    ];
    if rank == 7 {
        counters.push((call(0, Operation::Bcast, 64, 0), [1, 64, 5, 6, 5, 0]));
    }
    let records = [
        created(0, 0, 0, 0, None, rank, (0..RANKS).collect()),
        created(1, 0, 0, 0, None, 0, vec![rank]),
        created(2, 0, b's', 2, Some(third), place, members),
        created(3, 2, b's', 3, Some(pair), place % 2, partners),
        created(4, 2, b'd', 4, None, place, (third..RANKS).step_by(3).collect()),
        Record::Label { id: CommId::new(2), text: "third".to_owned() },
        Record::Label { id: CommId::new(3), text: format!("pair {pair}") },
        Record::Region { id: RegionId::new(1), parent: RegionId::OUTSIDE, name: "solver".to_owned() },
        Fact::Cpus.record(format!("{}", rank % 4)),
    ];
    let host = format!("node{}", rank / 4);
    let owner = Owner { pid: 1, host: &host, world_rank: rank, world_size: RANKS };
    let mut words = Words::new(owner).log(&records).counters(&counters);
    // Of one rank nothing is known.
    for (at, reading) in [(offset_of!(Header, cpu_at_start), 1), (offset_of!(Header, cpu_at_end), 3)] {
        let reading = CpuReading {
            user_us: reading * 1_000_000,
            wait_ns: Some(reading * u64::from(rank % 5) * 1_000_000_000),
            ..CpuReading::default()
        };
        let stored = reading.to_words(0).into_iter().enumerate().filter(|_| rank != 6);
        stored.for_each(|(which, word)| words.set(at + 8 * which, word));
    }
    let snapshot = Snapshot::read(words.words()).unwrap();
    let none = RankSet::default();
    Aggregate::from_snapshot(&snapshot, &RankTables::new(&snapshot, END), &none)
}

fn text<R: Row>(rows: &[R]) -> String {
    String::from_utf8(to_csv(rows)).unwrap()
}

fn texts(tables: &AggregateTables) -> [String; 6] {
    let AggregateTables { nodes, comms, totals, spread, offsets, regions, .. } = tables;
    [text(nodes), text(comms), text(totals), text(spread), text(offsets), text(regions)]
}

fn merged(mut one: Aggregate, other: Aggregate) -> Aggregate {
    one.merge(Aggregate::decode(&other.encode()).unwrap());
    one
}

fn all() -> Aggregate {
    (0..RANKS).map(rank).reduce(merged).unwrap()
}

#[test]
fn like_communicators_are_one_row() {
    let tables = all().tables();
    let comms: Vec<_> = tables
        .comms
        .iter()
        .map(|row| {
            let CommRow { comm, parent, size, count, label, nodes, .. } = row;
            (comm.as_str(), parent.as_str(), *size, *count, row.members.to_string(), label.as_str(), *nodes)
        })
        .collect();
    let everybody = || "0-11".to_owned();
    assert_eq!(
        comms,
        [
            ("S", "", 1, 1, everybody(), "", 1),
            ("W", "", 12, 1, everybody(), "", 3),
            ("W_s2.*@4", "W", 4, 3, everybody(), "third", 3),
            ("W_s2.*_d4@4", "W_s2.*@4", 4, 3, everybody(), "", 3),
            ("W_s2.*_s3.*@2", "W_s2.*@4", 2, 6, everybody(), "", 3),
        ]
    );
}

#[test]
fn nodes_have_the_cpu_use_of_their_ranks() {
    let tables = all().tables();
    let cores = tables.nodes.iter().map(|row| {
        let seconds = [row.cpu_s, row.cpu_wait_s, row.cpu_wait_max_s].map(|time_s| time_s.unwrap().0);
        (row.host.as_str(), seconds, row.cpu_wait_max_rank.unwrap(), row.cpus_allowed.to_string())
    });
    assert_eq!(
        cores.collect::<Vec<_>>(),
        [
            ("node0", [8.0, 2.0 * (1.0 + 2.0 + 3.0), 6.0], 3, "0-3".to_owned()),
            ("node1", [6.0, 2.0 * (4.0 + 0.0 + 2.0), 8.0], 4, "0-3".to_owned()),
            ("node2", [8.0, 2.0 * (3.0 + 4.0 + 0.0 + 1.0), 8.0], 9, "0-3".to_owned()),
        ]
    );
}

#[test]
fn sums_are_those_of_the_ranks() {
    let tables = all().tables();
    let squares: u64 = (0..12).map(|rank| rank * rank).sum();
    let barrier = tables.totals.iter().find(|row| row.call == "MPI_Barrier").unwrap();
    assert_eq!((barrier.comm.as_str(), barrier.ranks, barrier.calls, barrier.bytes), ("W", 12, 12, 0));
    assert_eq!((barrier.time_s.0 * 1e9).round() as u64, 12_000 + squares);
    assert_eq!(((barrier.time_max_s.0 * 1e9).round() as u64, barrier.time_max_rank), (1121, 11));
    assert_eq!(((barrier.time_min_s.0 * 1e9).round() as u64, barrier.time_min_rank), (1000, 0));
    // Over size classes and regions of one rank.
    let of = |comm: &str, call: &str| {
        tables.spread.iter().find(|row| (row.comm.as_str(), row.call.as_str()) == (comm, call)).unwrap()
    };
    let allreduce = of("W_s2.*@4", "MPI_Allreduce");
    assert_eq!((allreduce.ranks, allreduce.calls, allreduce.calls_max), (12, 78 + 36, 15));
    assert_eq!((allreduce.bytes_max, allreduce.bytes_max_rank), (12 * 101 + 24, 11));
    assert_eq!((allreduce.time_max_s.0 * 1e9).round() as u64, 2 * 1121 + 31);
    assert_eq!(of("", "MPI_Bcast").ranks, 1);
    assert_eq!(of("", "").calls, 12 + 78 + 36 + 12 + 1);
    // Partners in a pair are three ranks apart.
    let offsets: Vec<_> = tables
        .offsets
        .iter()
        .map(|row| (row.offset_min, row.offset_max, row.pairs, row.sent_bytes))
        .collect();
    assert_eq!(offsets, [(-3, -3, 6, 48), (3, 3, 6, 48)]);
    let [solver] = &tables.regions[..] else { panic!("{:?}", tables.regions) };
    assert_eq!((solver.region.as_str(), solver.ranks, solver.entries), ("solver", 12, 24));
    let nodes: Vec<_> = tables.nodes.iter().map(|row| (row.host.as_str(), row.members.to_string())).collect();
    assert_eq!(
        nodes,
        [("node0", "0-3".into()), ("node1", "4-7".into()), ("node2", "8-11".into())] as [(_, String); 3]
    );
}

#[test]
fn peers_everywhere_are_counted_by_powers_of_two() {
    let world = |rank: u32| {
        let records = [created(0, 0, 0, 0, None, rank, (0..400).collect())];
        let counters: Vec<_> = (0..400).map(|rank| (peer(0, rank), [1, 10, 1, 10, 0, 0])).collect();
        let owner = Owner { pid: 1, host: "node", world_rank: rank, world_size: 400 };
        let words = Words::new(owner).log(&records).counters(&counters);
        let snapshot = Snapshot::read(words.words()).unwrap();
        Aggregate::from_snapshot(&snapshot, &RankTables::new(&snapshot, END), &RankSet::default())
    };
    let tables = [0, 399, 200].map(world).into_iter().reduce(merged).unwrap().tables();
    assert!(tables.offsets.len() < 20, "{}", tables.offsets.len());
    assert_eq!(tables.offsets.iter().map(|row| row.pairs).sum::<u64>(), 1200);
    assert_eq!(tables.offsets.iter().map(|row| row.sent_bytes).sum::<u64>(), 12_000);
    assert!(tables.offsets.iter().any(|row| (row.offset_min, row.offset_max, row.pairs) == (64, 127, 128)));
}

proptest! {
    #[test]
    fn the_order_of_merging_makes_no_difference(
        order in Just((0..RANKS).collect::<Vec<u32>>()).prop_shuffle(), cuts in proptest::collection::vec(any::<proptest::sample::Index>(), RANKS as usize)
    ) {
        let mut parts: Vec<Aggregate> = order.into_iter().map(rank).collect();
        for cut in cuts {
            if parts.len() > 1 {
                let one = parts.swap_remove(cut.index(parts.len()));
                let place = cut.index(parts.len());
                parts[place].merge(one);
            }
        }
        let merged = parts.into_iter().reduce(merged).unwrap();
        prop_assert_eq!(texts(&merged.tables()), texts(&all().tables()));
    }

    #[test]
    fn bytes_that_were_changed_are_refused_or_merged(at: proptest::sample::Index, byte: u8, cut: Option<proptest::sample::Index>) {
        let mut bytes = rank(5).encode();
        prop_assert_eq!(&Aggregate::decode(&bytes).unwrap(), &rank(5));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match Aggregate::decode(&bytes) {
            Ok(changed) => {
                let mut sum = all();
                sum.merge(changed);
                texts(&sum.tables());
            }
            Err(error) => prop_assert!(error.to_string().contains("did not arrive whole")),
        }
    }

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut whole = rank(5).encode();
        whole.truncate(9);
        whole.extend(&bytes);
        let _ = Aggregate::decode(&whole);
        prop_assert!(Aggregate::decode(&bytes).is_err());
    }
}
