//! Accesses of GPU kernels, summed over ranks: the sums are those of the rows by rank, and the
//! order of merging makes no difference, however many names there are.

use mpisee_collect::aggregate::{AggregateTables, MOST_OBJECTS};
use mpisee_collect::gpu::{Exports, GpuPart, join, parts};
use mpisee_collect::wire::Message;
use mpisee_collect::{Aggregate, RankTables};
use mpisee_profile::gpu::{Access, FileEntry, GpuFile, Handle, RemoteMemory, Values};
use mpisee_profile::rows::{GpuMemory, GpuRow, GpuTotalRow, PeerDevice};
use mpisee_profile::segment::Moment;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::log::{Created, Record as Logged, Runs};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::writer::to_csv;
use mpisee_profile::{CommId, CommRank, RankSet};
use proptest::prelude::*;
use std::collections::BTreeMap;

const RANKS: u32 = 9;

/// The sums of a rank that did nothing else.
fn aggregate(rank: u32, gpu: Vec<GpuPart>) -> Aggregate {
    let (itself, world) = (CommRank::new(rank), Runs::first(RANKS));
    let record = Logged::Created(Created::with_world(CommId::WORLD, itself, world));
    let owner = Owner { pid: 1, host: "node", world_rank: rank, world_size: RANKS };
    let words = Words::new(owner).log(&[record]).counters(&[]);
    let snapshot = Snapshot::read(words.words()).unwrap();
    let none = RankSet::default();
    let tables = RankTables { gpu, ..RankTables::new(&snapshot, Moment::default()) };
    Aggregate::from_snapshot(&snapshot, &tables, &none)
}

/// The same of all ranks, each with the owners that it can find.
fn all_aggregates(of_ranks: &[Vec<GpuPart>]) -> Vec<Aggregate> {
    let mut owners = Exports::default();
    of_ranks.iter().for_each(|parts| owners.add(parts.clone()));
    let one = |(rank, parts): (u32, &Vec<GpuPart>)| {
        let mut parts = parts.clone();
        owners.fill_all(&mut parts);
        aggregate(rank, parts)
    };
    (0..).zip(of_ranks).map(one).collect()
}

fn merged(mut one: Aggregate, other: Aggregate) -> Aggregate {
    one.merge(Aggregate::decode(&other.encode()).unwrap());
    one
}

fn text(tables: &AggregateTables) -> (String, String, Vec<String>) {
    let csv = |bytes| String::from_utf8(bytes).unwrap();
    (csv(to_csv(&tables.gpu)), csv(to_csv(&tables.binaries)), tables.notes.clone())
}

/// One counter: the line, where its memory is, which object, how it is accessed, and what was
/// counted.
#[derive(Clone, Debug)]
struct Counted {
    line: u32,
    place: u32,
    object: u32,
    access: Access,
    width: u32,
    accesses: u64,
    extra: u64,
}

fn counted(objects: u32) -> impl Strategy<Value = Counted> {
    let access = prop_oneof![Just(Access::Load), Just(Access::Store), Just(Access::Atomic)];
    let widths = prop_oneof![Just(0u32), Just(4), Just(8), Just(16)];
    (0..3u32, 0..RANKS + 5, 0..objects, access, widths, 0..5000u64, 0..1_000_000u64).prop_map(
        |(line, place, object, access, width, accesses, extra)| Counted {
            line,
            place,
            object,
            access,
            width,
            accesses,
            extra,
        },
    )
}

/// The file of a rank: it maps memory of others by the handles that these export, and one that
/// nobody exports.
fn file(rank: u32, sampled: u32, counted: &[Counted]) -> GpuFile {
    let mut file = GpuFile { entries: vec![FileEntry::Sampled(sampled)], ..GpuFile::default() };
    let device = |rank: u32| format!("GPU-{}", rank / 2);
    for (id, one) in (0..).zip(counted) {
        let place = match one.place {
            owner if owner < RANKS => RemoteMemory::Ipc(format!("handle of {owner}")),
            number => [
                RemoteMemory::Ipc("nobody's".to_owned()),
                RemoteMemory::Device(device(rank + 2)),
                RemoteMemory::Pinned,
                RemoteMemory::Managed,
                RemoteMemory::Imported { device: String::new(), handle: None },
            ][(number - RANKS) as usize]
                .clone(),
        };
        let name = format!("cells of {}", one.object);
        file.entries.push(FileEntry::Range { id, place, object: 0, name });
        let (kernel, source) = ("halo".to_owned(), format!("halo.cu:{}", one.line));
        let (access, width) = (one.access, one.width);
        file.entries.push(FileEntry::Counter {
            id,
            device: device(rank),
            kernel,
            source,
            launched: format!("train.py:{}", one.line / 2),
            range: id,
            access,
            width,
        });
        file.values.insert(id, Values { accesses: one.accesses, extra: one.extra, variance: 0 });
    }
    let name = format!("ghost of {rank}");
    file.entries.push(FileEntry::Export {
        handle: Handle::Ipc(format!("handle of {rank}")),
        device: device(rank),
        object: 0,
        name,
    });
    file.entries.push(FileEntry::Lost { accesses: 10 + u64::from(rank), why: "full".to_owned() });
    file.entries.push(FileEntry::Binary { file: "/app".to_owned(), build_id: "ab".to_owned() });
    file
}

fn of_ranks(sampled: u32, counted: &[Vec<Counted>]) -> Vec<Vec<GpuPart>> {
    (0..).zip(counted).map(|(rank, counted)| parts(&file(rank, sampled, counted), rank)).collect()
}

type Key = ([String; 3], GpuMemory, Option<i64>, Option<PeerDevice>, Access, u32, u32);
/// Rows, accesses, bytes, fewest and most, the rank with most, and the square of the error.
type Sums = (u64, u64, u64, u64, u64, u32, f64);

fn expected(rows: &[GpuRow]) -> BTreeMap<Key, Sums> {
    let mut sums: BTreeMap<Key, Sums> = BTreeMap::new();
    for row in rows {
        let offset = row.peer_rank.map(|peer| i64::from(peer) - i64::from(row.rank));
        let peer_device = match row.peer_device.as_str() {
            "" => None,
            "host" => Some(PeerDevice::Host),
            "managed" => Some(PeerDevice::Managed),
            device if device == row.device => Some(PeerDevice::Same),
            _ => Some(PeerDevice::Another),
        };
        let code = [row.source.clone(), row.launched.clone(), row.object.clone()];
        let key = (code, row.memory, offset, peer_device, row.access, row.width, row.sampled);
        let sum = sums.entry(key).or_insert((0, 0, 0, u64::MAX, 0, 0, 0.0));
        // Rows come in the order of ranks.
        if row.bytes > sum.4 || sum.0 == 0 {
            (sum.4, sum.5) = (row.bytes, row.rank);
        }
        sum.3 = sum.3.min(row.bytes);
        *sum = (
            sum.0 + 1,
            sum.1 + row.accesses,
            sum.2 + row.bytes,
            sum.3,
            sum.4,
            sum.5,
            sum.6 + row.error.powi(2),
        );
    }
    sums
}

fn found(rows: &[GpuTotalRow]) -> BTreeMap<Key, Sums> {
    let one = |row: &GpuTotalRow| {
        assert_eq!(row.offset_min, row.offset_max);
        let code = [row.source.clone(), row.launched.clone(), row.object.clone()];
        let key = (code, row.memory, row.offset_min, row.peer_device, row.access, row.width, row.sampled);
        let most = (row.bytes_min, row.bytes_max, row.bytes_max_rank);
        (key, (row.count, row.accesses, row.bytes, most.0, most.1, most.2, row.error.powi(2)))
    };
    rows.iter().map(one).collect()
}

/// Rows, accesses, bytes, and the square of the error, of all.
fn all<'r>(rows: impl Iterator<Item = (u64, u64, u64, f64)> + 'r) -> (u64, u64, u64, f64) {
    rows.fold((0, 0, 0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1, sum.2 + row.2, sum.3 + row.3.powi(2)))
}

fn ranks_of(objects: u32, most: usize) -> impl Strategy<Value = Vec<Vec<Counted>>> {
    proptest::collection::vec(proptest::collection::vec(counted(objects), 0..most), RANKS as usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sums_are_those_of_the_rows_by_rank(counted in ranks_of(7, 40), sampled in prop_oneof![Just(1u32), Just(100)]) {
        let of_ranks = of_ranks(sampled, &counted);
        let (rows, _) = join(of_ranks.concat());
        let tables = all_aggregates(&of_ranks).into_iter().reduce(merged).unwrap().tables();
        let (expected, found) = (expected(&rows), found(&tables.gpu));
        prop_assert_eq!(expected.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
        for (key, one) in expected {
            let other = &found[&key];
            prop_assert_eq!((one.0, one.1, one.2, one.3, one.4, one.5), (other.0, other.1, other.2, other.3, other.4, other.5));
            prop_assert!((one.6 - other.6).abs() <= 1e-9 * one.6.max(1.0), "{} {}", one.6, other.6);
        }
        prop_assert_eq!(tables.binaries.len(), 1);
        prop_assert_eq!(
            &tables.notes[0],
            "rank 0 and 8 others: 126 accesses of GPU kernels are not in gpu-totals.csv: full"
        );
    }

    #[test]
    fn the_order_of_merging_makes_no_difference_and_nothing_is_lost(
        counted in ranks_of(200, 120),
        order in Just((0..RANKS).collect::<Vec<u32>>()).prop_shuffle(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), RANKS as usize)
    ) {
        let of_ranks = of_ranks(10, &counted);
        let (rows, _) = join(of_ranks.concat());
        let in_order = all_aggregates(&of_ranks);
        let expected = in_order.clone().into_iter().reduce(merged).unwrap().tables();
        let mut parts: Vec<Aggregate> = order.iter().map(|&rank| in_order[rank as usize].clone()).collect();
        for cut in cuts {
            if parts.len() > 1 {
                let one = parts.swap_remove(cut.index(parts.len()));
                let place = cut.index(parts.len());
                parts[place].merge(one);
            }
        }
        let found = parts.into_iter().reduce(merged).unwrap().tables();
        prop_assert_eq!(text(&found), text(&expected));
        let by_rank = all(rows.iter().map(|row| (1, row.accesses, row.bytes, row.error)));
        let summed = all(found.gpu.iter().map(|row| (row.count, row.accesses, row.bytes, row.error)));
        prop_assert_eq!((by_rank.0, by_rank.1, by_rank.2), (summed.0, summed.1, summed.2));
        prop_assert!((by_rank.3 - summed.3).abs() <= 1e-9 * by_rank.3);
    }

    #[test]
    fn bytes_that_were_changed_are_refused_or_merged(
        counted in ranks_of(80, 20), at: proptest::sample::Index, byte: u8, cut: Option<proptest::sample::Index>
    ) {
        let all = all_aggregates(&of_ranks(1, &counted));
        let mut bytes = all[0].encode();
        prop_assert_eq!(&Aggregate::decode(&bytes).unwrap(), &all[0]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match Aggregate::decode(&bytes) {
            Ok(changed) => {
                let mut sum = all[1].clone();
                sum.merge(changed);
                text(&sum.tables());
            }
            Err(error) => prop_assert!(error.to_string().contains("did not arrive whole")),
        }
    }
}

/// A rank that writes to its right neighbour, in a line of its own if `line` says so.
fn neighbour(rank: u32, object: String, line: u32) -> Vec<GpuPart> {
    let row = GpuRow {
        rank,
        device: format!("GPU-{rank}"),
        peer_rank: Some(rank + 1),
        peer_device: format!("GPU-{}", rank + 1),
        memory: GpuMemory::Ipc,
        kernel: "halo".to_owned(),
        source: format!("halo.cu:{line}"),
        launched: String::new(),
        object,
        access: Access::Store,
        width: 8,
        accesses: 32,
        bytes: 256 + u64::from(rank),
        sampled: 1,
        error: 0.0,
    };
    vec![GpuPart::Row(row, None)]
}

/// The tables over so many ranks, and how many bytes their sums are.
fn sums_of(ranks: u32, of_rank: impl Fn(u32) -> Vec<GpuPart>) -> (AggregateTables, usize) {
    let all = (0..ranks).map(|rank| aggregate(rank % RANKS, of_rank(rank)));
    let all = all.reduce(|mut one, other| {
        one.merge(other);
        one
    });
    let all = all.unwrap();
    (all.tables(), all.encode().len())
}

#[test]
fn names_with_the_rank_in_them_become_one_when_they_are_too_many() {
    let (few, _) = sums_of(MOST_OBJECTS as u32, |rank| neighbour(rank, format!("ghost of {rank}"), 1));
    assert_eq!((few.gpu.len(), few.notes.len()), (MOST_OBJECTS, 0));
    let (many, _) = sums_of(MOST_OBJECTS as u32 + 1, |rank| neighbour(rank, format!("ghost of {rank}"), 1));
    let [row] = &many.gpu[..] else { panic!("{:?}", many.gpu) };
    assert_eq!((row.object.as_str(), row.count, row.accesses), ("ghost of *", 65, 65 * 32));
    assert_eq!(
        (row.offset_min, row.offset_max, row.peer_device),
        (Some(1), Some(1), Some(PeerDevice::Another))
    );
    assert_eq!((row.bytes_min, row.bytes_max, row.bytes_max_rank), (256, 320, 64));
    assert_eq!(
        many.notes,
        ["objects of lines that access more than 64 have * in gpu-totals.csv: those of 1 of 1 lines"]
    );
    // Names that differ by more than numbers.
    let letters = |rank: u32| char::from_u32(0x4e00 + rank).unwrap();
    let (none, _) = sums_of(100, |rank| neighbour(rank, format!("ghost of {}", letters(rank)), 1));
    assert_eq!(none.gpu.iter().map(|row| (row.object.as_str(), row.count)).collect::<Vec<_>>(), [("*", 100)]);
}

#[test]
fn sums_do_not_grow_with_the_ranks() {
    let of_rank = |rank: u32| {
        let mut parts = neighbour(rank, format!("ghost of {rank}"), rank % 50);
        parts.push(GpuPart::Note { rank, text: format!("GPU {rank} is too old") });
        parts.push(GpuPart::Note { rank, text: "the same of all".to_owned() });
        parts
    };
    let ((small, bytes), (large, more)) = (sums_of(4000, of_rank), sums_of(8000, of_rank));
    assert_eq!((small.gpu.len(), large.gpu.len()), (50, 50));
    // Numbers get longer.
    assert!(more < bytes + bytes / 10, "{bytes} {more}");
    assert_eq!(large.gpu.iter().map(|row| row.count).sum::<u64>(), 8000);
    assert_eq!(
        large.notes[..2],
        ["rank 0 and 7999 others: GPU * is too old", "rank 0 and 7999 others: the same of all"]
    );
    let letters = |number: u32| String::from_iter([97, 97].map(|a| char::from_u32(a + number % 26).unwrap()));
    let words =
        |rank: u32| vec![GpuPart::Note { rank, text: format!("{}{}", letters(rank), letters(rank / 26)) }];
    let (many, _) = sums_of(200, words);
    assert_eq!(many.notes.len(), 65, "{:#?}", many.notes);
    assert!(many.notes[64].contains(" 136 sentences are left out"), "{}", many.notes[64]);
}

#[test]
fn too_many_lines_are_told_without_their_numbers() {
    let line = |rank: u32| neighbour(rank, "ghost".to_owned(), rank);
    let parts: Vec<GpuPart> = (0..16_385).flat_map(line).collect();
    let tables = aggregate(0, parts).tables();
    let [row] = &tables.gpu[..] else { panic!("{}", tables.gpu.len()) };
    assert_eq!((row.source.as_str(), row.kernel.as_str(), row.count), ("halo.cu:*", "halo", 16_385));
    assert!(
        tables.notes[0].starts_with("GPU kernels access memory in more than 16384 lines"),
        "{:?}",
        tables.notes
    );
}
