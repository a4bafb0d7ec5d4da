//! Extremes of what a program controls. Each reader reads whatever the recorder has written: the segment in memory, the file
//! of another process, a running process, the messages between ranks, the collection and the recovery.

use crate::state::region::Regions;
use crate::storage::counters::{Counters, add, update};
use crate::storage::hot::HOT;
use crate::storage::segment::{Segment, publish};
use mpisee_collect::RankTables;
use mpisee_collect::aggregate::Aggregate;
use mpisee_collect::files::parts;
use mpisee_collect::form::AsText;
use mpisee_collect::profile::{Overrides, recover, write};
use mpisee_collect::segments::{Followed, WorldSegments, find, own_user, worlds};
use mpisee_collect::wire::Message;
use mpisee_collect::wire::pieces::{Frame, Pieces, frames};
use mpisee_profile::rows::{
    CallRow, CommRow, Memory, PathRow, PeerRow, RankRow, RegionRow, RegionTotalRow, Row, SiteRow, StackRow,
    VariableRow,
};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::{HOST_BYTES, call, path, peer, state, variable};
use mpisee_profile::segment::log::{Code, Created, MOST_PATH_FRAMES, MOST_PATH_LINES, Record, Run, Runs};
use mpisee_profile::segment::names::MOST_NAME_BYTES;
use mpisee_profile::segment::{CallKey, OperationAtSite, PathKey, PeerKey, SlotKey, Snapshot};
use mpisee_profile::{CommId, CommRank, Operation, Profile, RankSet, RegionId, WorldRank};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Communicators of a rank below the world, each below the one before.
const GENERATIONS: u32 = 33;
const WORLD_SIZE: u32 = 1 << 20;

/// What a program gives the recorder.
#[derive(Clone, Debug)]
struct Given {
    /// Regions that begin; `None` ends the innermost.
    regions: Vec<Option<String>>,
    /// A text of each kind: label, topology, argument, note, path of a binary, file and name of a function, description.
    texts: [String; 8],
    host: [u8; HOST_BYTES],
    /// World ranks of communicators, in their order.
    members: Vec<u32>,
    frames: usize,
    peers: Vec<u32>,
}

/// A text that a program can pass as a C string, which may be long.
fn text(most_bytes: usize) -> impl Strategy<Value = String> {
    let characters = prop_oneof![3 => any::<char>(), 1 => Just('"'), 1 => Just('\n'), 1 => Just(',')];
    let begin = prop::collection::vec(characters.prop_filter("no C string has it", |&it| it != '\0'), 0..9);
    (begin, 0..=most_bytes).prop_map(move |(begin, bytes)| {
        let begin: String = begin.into_iter().collect();
        begin.repeat(bytes.checked_div(begin.len()).unwrap_or(0).max(1))
    })
}

fn regions() -> impl Strategy<Value = Vec<Option<String>>> {
    let in_a_loop = (text(40), 0usize..2200).prop_map(|(name, times)| vec![Some(name); times]);
    let deep = (text(3 * MOST_NAME_BYTES), 0usize..5).prop_map(|(name, times)| vec![Some(name); times]);
    let many = (0usize..4500).prop_map(|count| {
        (0..count).flat_map(|number| [Some(format!("{number}")), None]).collect::<Vec<_>>()
    });
    let ends = (0usize..99).prop_map(|times| vec![None; times]);
    let parts = prop_oneof![2 => in_a_loop, 3 => deep, 1 => many, 1 => ends];
    prop::collection::vec(parts, 1..3).prop_map(|parts| parts.concat())
}

fn given() -> impl Strategy<Value = Given> {
    let texts = prop::array::uniform8(text(1 << 14));
    let host = prop::array::uniform32(b'a'..=b'z');
    let members = prop::collection::hash_set(1..WORLD_SIZE / 2, 0..3000);
    let peers = prop::collection::vec(0..WORLD_SIZE, 0..3000);
    let frames = 1..=MOST_PATH_FRAMES + MOST_PATH_LINES;
    (regions(), texts, host, members, frames, peers).prop_map(
        |(regions, texts, host, members, frames, peers)| Given {
            regions,
            texts,
            host: std::array::from_fn(|at| host[at % host.len()]),
            members: std::iter::once(0).chain(members).collect(),
            frames,
            peers,
        },
    )
}

/// A rank whose process has ended.
struct Rank {
    folder: tempfile::TempDir,
    segment: Segment,
}

impl Rank {
    /// Records what the program gives.
    fn new(given: &Given) -> Rank {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (segment, complaint) = Segment::create(folder.path()).expect("there is memory");
        assert_eq!(complaint, None);
        let header = segment.header();
        for (field, value) in [
            (&header.pid, u64::from(std::process::id())),
            (&header.world_size, u64::from(WORLD_SIZE)),
            (&header.start_ticks, 1),
            (&header.state, state::ACTIVE),
        ] {
            field.store(value, Ordering::Relaxed);
        }
        let (host, _) = given.host.as_chunks::<8>();
        header.host.iter().zip(host).for_each(|(word, bytes)| {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        });
        publish(header);
        let rank = Rank { folder, segment };
        rank.log(given);
        rank.count(given);
        rank
    }

    fn log(&self, Given { texts, members, frames, .. }: &Given) {
        let [label, topology, argument, note, module, file, function, description] = texts.each_ref();
        let log = |record: Record| assert!(self.segment.log(&record), "there is room");
        log(Record::Created(Created::with_world(CommId::WORLD, CommRank::FIRST, Runs::first(WORLD_SIZE))));
        log(Record::Created(Created::with_world(CommId::SELF, CommRank::FIRST, Runs::first(1))));
        let members: Runs = members.iter().copied().map(WorldRank::new).collect();
        let others = Runs::of([Run { first: WORLD_SIZE / 2, count: WORLD_SIZE / 2, stride: 1 }]);
        for id in 2..2 + GENERATIONS {
            let (id, parent) = (CommId::new(id), CommId::new(if id == 2 { 0 } else { id - 1 }));
            let created = Created::with_world(id, CommRank::FIRST, members.clone());
            log(Record::Created(Created {
                parent: Some(parent),
                letter: b'm',
                n: u32::MAX - 1,
                r: Some(CommRank::new(i32::MAX as u32)),
                code: u64::MAX,
                operation: Operation::IntercommMerge as u32,
                remote: (id.get() == 1 + GENERATIONS).then(|| others.clone()),
                ..created
            }));
            log(Record::Label { id, text: label.clone() });
            log(Record::Topology { id, text: topology.clone() });
        }
        [Fact::Argument, Fact::Argument].into_iter().for_each(|fact| log(fact.record(argument)));
        [Fact::Note, Fact::NoteOfRank, Fact::Job, Fact::Profile].into_iter().for_each(|fact| {
            log(fact.record(note));
        });
        let build_id = "0".repeat(128);
        log(Record::Module { path: module.clone(), build_id, layout: u32::MAX });
        log(Record::Function { file: file.clone(), name: function.clone() });
        let code = |at: usize| Code { module: (at % 2) as u32, offset: u64::MAX - at as u64 };
        log(Record::Site { operation: Operation::Send as u16, code: code(0) });
        log(Record::Path { frames: (0..*frames).map(code).collect() });
        let (class, name) = ("level".to_owned(), "depth".to_owned());
        log(Record::Variable { of_world: true, class, name, description: description.clone() });
    }

    /// Counts calls in each region, messages to each peer, and the rest.
    fn count(&self, Given { regions, peers, .. }: &Given) {
        let (counters, tracked) = (Counters::new(), Regions::new());
        let bump = |key: SlotKey, which: &[usize]| {
            let slot = counters.slot(&self.segment, key).expect("there is room");
            update(slot, |values| which.iter().for_each(|&which| add(&values[which], 1)));
        };
        let call = |communicator, size_class| {
            let region = HOT.region();
            let operation = OperationAtSite::of(Operation::Send);
            let key = CallKey { communicator, region, operation, size_class, memory: Memory::Host };
            bump(key.pack(), &[call::CALLS, call::BYTES]);
        };
        let deepest = CommId::new(1 + GENERATIONS);
        HOT.set_region(RegionId::OUTSIDE);
        call(CommId::WORLD, 0);
        for step in regions {
            match step {
                Some(name) => tracked.begin(&self.segment, name),
                None => tracked.end(None),
            }
            call(CommId::WORLD, 0);
        }
        bump(SlotKey::variable(0, HOT.region()), &[variable::READINGS]);
        HOT.set_region(RegionId::OUTSIDE);
        (0..=64).for_each(|size_class| call(deepest, size_class));
        for &rank in peers {
            let peer = CommRank::new(rank);
            bump(PeerKey { communicator: CommId::WORLD, peer }.pack(), &[peer::SENT_MESSAGES]);
        }
        let path = PathKey { path: 0, communicator: deepest, operation: Operation::Send as u16 };
        bump(path.pack(), &[path::CALLS]);
    }

    /// The segment, as another process finds it.
    fn found(&self) -> WorldSegments {
        let scan = find(self.folder.path(), own_user().expect("a user"), true).expect("a folder");
        assert_eq!((scan.unreadable.len(), scan.empty.len()), (0, 0), "{:?}", scan.unreadable);
        worlds(scan.segments).pop().expect("there is one")
    }
}

/// The content of a snapshot, but for its tables of hashes.
fn content(snapshot: &Snapshot) -> String {
    let Snapshot { host, program, communicators, regions, modules, sites, paths, counters, .. } = snapshot;
    format!("{:?}", (host, program, communicators, regions, modules, sites, paths, counters))
}

fn rows<R: Row>(profile: &Profile) -> Vec<R> {
    profile.rows_if_any().expect("a table").map(|row| row.expect("a row")).collect()
}

/// The paths of the regions in a profile, none of which is there twice.
fn regions_of(profile: &Profile) -> BTreeSet<String> {
    let rows: Vec<String> = match rows::<RegionTotalRow>(profile) {
        totals if totals.is_empty() => rows::<RegionRow>(profile).into_iter().map(|row| row.region).collect(),
        totals => totals.into_iter().map(|row| row.region).collect(),
    };
    let count = rows.len();
    let paths: BTreeSet<String> = rows.into_iter().collect();
    assert_eq!(paths.len(), count, "a path stands for one region");
    paths
}

/// Reads all tables with what the program has named.
fn assert_profile(directory: &Path, expected: &BTreeSet<String>, given: &Given) {
    let profile = Profile::open(directory).expect("a profile");
    assert!(regions_of(&profile) == *expected, "the regions of {} differ", directory.display());
    let label = &given.texts[0];
    let comms: Vec<CommRow> = rows(&profile);
    assert!(comms.iter().filter(|row| row.label == *label).count() >= GENERATIONS as usize);
    if profile.run().is_aggregate {
        return;
    }
    let calls: Vec<CallRow> = rows(&profile);
    assert_eq!(
        calls.iter().map(|row| row.calls).sum::<u64>(),
        1 + given.regions.len() as u64 + 65,
        "no call is lost"
    );
    let peers: u64 = rows::<PeerRow>(&profile).iter().map(|row| row.sent_messages).sum();
    assert_eq!(peers, given.peers.len() as u64);
    assert_eq!(rows::<RankRow>(&profile)[0].host.as_bytes(), given.host);
    let (stacks, sites): (Vec<StackRow>, Vec<SiteRow>) = (rows(&profile), rows(&profile));
    assert_eq!((stacks.len(), sites.is_empty()), (1, false));
    assert_eq!((rows::<PathRow>(&profile).len(), rows::<VariableRow>(&profile).len()), (1, 1));
}

/// Has each reader read what the recorder writes.
fn assert_read(given: &Given) {
    let rank = Rank::new(given);
    let in_memory = Snapshot::read(&rank.segment).expect("it reads its own segment");
    let world = rank.found();
    let segment = world.segments().next().expect("it is there");
    let in_file = segment.read().expect("its file can be read");
    assert!(content(&in_file) == content(&in_memory), "the file differs");
    Followed::new(segment).and_then(|mut it| it.update(true, &mut Vec::new())).expect("it can be followed");

    let tables = RankTables::new(&in_file, in_file.last_known());
    let paths: BTreeSet<String> = tables.regions.iter().map(|row| row.region.clone()).collect();
    assert!(paths.iter().all(|path| !path.is_empty() && path.len() <= MOST_NAME_BYTES));
    let sent = parts(&mut RankTables::<AsText>::new(&in_file, in_file.last_known()));
    let mut arrived = vec![Vec::new(); sent.len()];
    let mut pieces = Pieces::new(|piece: &[u8]| {
        for frame in frames(piece) {
            let Frame::Rows { table, text, .. } = frame else { panic!("no rows") };
            arrived[usize::from(table)].extend_from_slice(text);
        }
    });
    pieces.put(sent.each_ref().map(Vec::as_slice));
    pieces.finish();
    assert!(arrived.iter().eq(&sent), "rows between ranks differ");
    let sums = Aggregate::of(&in_file, &tables, &RankSet::default());
    assert!(Aggregate::decode(&sums.encode()).expect("sums between ranks") == sums);

    for fold in [WORLD_SIZE, 0] {
        let output = rank.folder.path().join(format!("recovered-{fold}"));
        let (recovered, unreadable) =
            recover(&world, Overrides { output: Some(&output), fold: Some(fold) }, Vec::new())
                .expect("it can be written");
        assert!(unreadable.is_empty(), "{:?}", unreadable.first().map(|(_, why)| why));
        assert_profile(&recovered.expect("there is one").directory, &paths, given);
    }
    let header = rank.segment.header();
    header.state.store(state::ARRIVED, Ordering::Relaxed);
    let written = write(&rank.found(), &rank.folder.path().join("written.mpisee"), None, None);
    let written = written.expect("it can be written");
    assert!(written.unreadable.is_empty(), "{:?}", written.unreadable);
    assert_profile(&written.directory, &paths, given);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn readers_read_whatever_the_recorder_writes(given in given()) {
        assert_read(&given);
    }
}

fn with_regions(regions: Vec<Option<String>>) -> Given {
    Given {
        regions,
        texts: [(); 8].map(|()| "text".to_owned()),
        host: *b"a-node-whose-name-has-as-many-characters-as-linux-lets-it-have-1",
        members: vec![0, 1],
        frames: 3,
        peers: vec![1],
    }
}

#[test]
fn regions_that_nest_too_deeply_count_in_those_around_them() {
    let given = with_regions(vec![Some("step".to_owned()); 2000]);
    assert_read(&given);
    let rank = Rank::new(&given);
    let snapshot = Snapshot::read(&rank.segment).expect("it can be read");
    assert_eq!(snapshot.regions.len(), (MOST_NAME_BYTES + 1) / "/step".len());
    let [note, joined] = snapshot.program.notes_of_rank.as_slice() else { panic!("two notes") };
    assert_eq!(note, "text");
    assert!(joined.starts_with("rank 0 has regions that are counted in the region around them"), "{joined}");
    assert!(joined.contains("'step'"), "{joined}");
}

#[test]
fn long_names_of_regions_are_cut_and_differ() {
    let long = |last: char| Some(format!("{}{last}", "r".repeat(9000)));
    let given = with_regions(vec![long('a'), None, long('b'), None, long('a'), Some("inner".to_owned())]);
    assert_read(&given);
    let snapshot = Snapshot::read(&Rank::new(&given).segment).expect("it can be read");
    let names: Vec<&str> = snapshot.regions.iter().map(|region| region.name.as_str()).collect();
    let [one, other] = names.as_slice() else { panic!("two regions: {}", names.len()) };
    assert!(one != other && one.len() == MOST_NAME_BYTES && one.contains('…'));
}
