//! Extremes of what a program controls. Each reader reads whatever the recorder has written: the
//! segment in memory, the file of another process, a running process, the messages between ranks,
//! the collection and the recovery.

mod given;

use super::Own;
use crate::state::region::Regions;
use crate::storage::counters::{Counters, add, update};
use crate::storage::hot::HOT;
use crate::storage::segment::{Segment, publish};
use given::{Comm, Given, Module, Place, WORLD_SIZE, any_given};
use mpisee_collect::RankTables;
use mpisee_collect::aggregate::Aggregate;
use mpisee_collect::files::parts;
use mpisee_collect::form::AsText;
use mpisee_collect::profile::{Overrides, recover, write};
use mpisee_collect::run::RunSums;
use mpisee_collect::segments::{Followed, Segment as Left, WorldSegments, find, own_user, worlds};
use mpisee_collect::wire::Message;
use mpisee_collect::wire::pieces::{Frame, Pieces, frames};
use mpisee_profile::rows::{
    CallRow, CommRow, Memory, PathRow, PeerRow, RankRow, RegionRow, RegionTotalRow, Row, SiteRow, StackRow,
    VariableRow,
};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::segment::layout::{call, path, peer, state, variable};
use mpisee_profile::segment::log::{Code, Created, NONE, Record, Run, Runs};
use mpisee_profile::segment::names::MOST_NAME_BYTES;
use mpisee_profile::segment::snapshot::RunEnd;
use mpisee_profile::segment::{CallKey, OperationAtSite, PathKey, PeerKey, SlotKey, Snapshot};
use mpisee_profile::{CommId, CommRank, Operation, Profile, RankSet, RegionId};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Generations below the world that have rows of their own, see `naming/row_sharing.rs`.
const MOST_GENERATIONS: u32 = 32;

/// The class of the largest message.
const LARGEST_CLASS: u8 = 64;

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
        rank.log_program(given);
        rank.log_comms(&given.comms);
        rank.log_code(given);
        rank.count(given);
        rank
    }

    fn log(&self, record: &Record) {
        assert!(self.segment.log(record), "there is room");
    }

    fn log_program(&self, given: &Given) {
        let fact = |fact: Fact, text: &str| self.log(&fact.record(text));
        given.words.iter().for_each(|word| fact(Fact::Argument, word));
        for note in &given.notes {
            [Fact::Note, Fact::NoteOfRank].into_iter().for_each(|which| fact(which, note));
        }
        given.job.iter().for_each(|job| fact(Fact::Job, job));
        given.control.iter().for_each(|parts| fact(Fact::Control, &parts.join("\0")));
        for [name, description] in &given.variables {
            let [class, name, description] = ["level", name, description].map(str::to_owned);
            self.log(&Record::Variable { of_world: true, class, name, description });
        }
    }

    fn log_comms(&self, comms: &[Comm]) {
        self.log(&Record::Created(Created::with_world(
            CommId::WORLD,
            CommRank::FIRST,
            Runs::first(WORLD_SIZE),
        )));
        self.log(&Record::Created(Created::with_world(CommId::SELF, CommRank::FIRST, Runs::first(1))));
        for (created, comm) in creations(comms).into_iter().zip(comms) {
            let id = created.id;
            self.log(&Record::Created(created));
            if comm.is_shared {
                self.log(&Record::SharedRow { id, changing: false });
            }
            comm.labels.iter().for_each(|text| self.log(&Record::Label { id, text: text.clone() }));
            self.log(&Record::Topology { id, text: comm.topology.clone() });
            if comm.is_freed {
                self.log(&Record::Freed { id });
            }
        }
    }

    fn log_code(&self, given: &Given) {
        for module in &given.modules {
            self.log(&match module.clone() {
                Module::Binary { path, build_id, layout } => {
                    Record::Module { path, build_id: hexadecimal(&build_id), layout }
                }
                Module::Function { file, name } => Record::Function { file, name },
            });
        }
        for &(operation, place) in &given.sites {
            let operation = operation.get(&SENDS);
            self.log(&Record::Site { operation: *operation as u16, code: given.code(place) });
        }
        for frames in &given.paths {
            self.log(&Record::Path { frames: frames.iter().map(|&place| given.code(place)).collect() });
        }
    }

    /// Counts calls in each region, messages to each peer, and the rest.
    fn count(&self, given: &Given) {
        let (counters, tracked) = (Counters::new(), Regions::new());
        let bump = |key: SlotKey, counts: &[(usize, u64)]| {
            let slot = counters.slot(&self.segment, key).expect("there is room");
            update(slot, |values| counts.iter().for_each(|&(which, more)| add(&values[which], more)));
        };
        let call = |communicator, operation, size_class, bytes| {
            let region = HOT.region();
            let key = CallKey { communicator, region, operation, size_class, memory: Memory::Host };
            bump(key.pack(), &[(call::CALLS, 1), (call::BYTES, bytes)]);
        };
        let in_region = || call(CommId::WORLD, OperationAtSite::from_operation(Operation::Send), 0, 0);
        HOT.set_region(RegionId::OUTSIDE);
        in_region();
        for step in &given.regions {
            match step {
                Some(name) => tracked.begin(&self.segment, name),
                None => tracked.end(None),
            }
            in_region();
        }
        for number in 0..given.variables.len() as u16 {
            bump(SlotKey::variable(number, HOT.region()), &[(variable::READINGS, 1)]);
        }
        for &(comm, site, bytes) in &given.calls {
            let site = site.filter(|_| !given.sites.is_empty()).map(|it| it.index(given.sites.len()) as u32);
            let operation =
                site.map_or(OperationAtSite::from_operation(Operation::Recv), OperationAtSite::site);
            call(given.comm(comm), operation, size_class(bytes), bytes);
        }
        for size_class in 0..=LARGEST_CLASS {
            call(CommId::SELF, OperationAtSite::from_operation(Operation::Allreduce), size_class, 0);
        }
        HOT.set_region(RegionId::OUTSIDE);
        for &rank in &given.peers {
            let peer = CommRank::new(rank);
            bump(PeerKey { communicator: CommId::WORLD, peer }.pack(), &[(peer::SENT_MESSAGES, 1)]);
        }
        for path in 0..given.paths.len() as u16 {
            let key = PathKey { path, communicator: CommId::WORLD, operation: Operation::Send as u16 };
            bump(key.pack(), &[(path::CALLS, 1)]);
        }
    }

    /// The segment, as another process finds it.
    fn found(&self) -> WorldSegments {
        let scan = find(self.folder.path(), own_user().expect("a user"), true).expect("a folder");
        assert_eq!((scan.unreadable.len(), scan.empty.len()), (0, 0), "{:?}", scan.unreadable);
        worlds(scan.segments).pop().expect("there is one")
    }
}

const SENDS: [Operation; 3] = [Operation::Send, Operation::Isend, Operation::Allreduce];

impl Given {
    fn code(&self, (module, offset): Place) -> Code {
        Code { module: module.index(self.modules.len()) as u32, offset }
    }

    /// `W`, `S`, or a communicator below.
    fn comm(&self, at: Index) -> CommId {
        CommId::new(at.index(self.comms.len() + 2) as u32)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The creation of each, with an ordinal that no other call on its parent has.
fn creations(comms: &[Comm]) -> Vec<Created> {
    let mut generations = vec![0, MOST_GENERATIONS];
    let mut ordinals: BTreeSet<(CommId, u8, u32)> = BTreeSet::new();
    let mut all = Vec::new();
    for (comm, id) in comms.iter().zip(2u32..) {
        let parent = comm.parent.map_or(id as usize - 1, |parent| parent.index(id as usize));
        let parent = if generations[parent] < MOST_GENERATIONS { parent } else { 0 };
        generations.push(generations[parent] + 1);
        let (parent, (letter, operation)) = (CommId::new(parent as u32), comm.made_by);
        let free = (0..).map(|more| comm.n.wrapping_add(more).max(1));
        let n = free
            .into_iter()
            .find(|&n| n != NONE && ordinals.insert((parent, letter, n)))
            .expect("there is one");
        let others = Run { first: WORLD_SIZE / 2, count: WORLD_SIZE / 2, stride: 1 };
        let created = Created {
            parent: Some(parent),
            letter,
            n,
            r: comm.r.map(CommRank::new),
            code: comm.code,
            operation: operation as u32,
            remote: comm.has_remote.then(|| Runs::from_runs([others])),
            ..Created::with_world(CommId::new(id), CommRank::FIRST, comm.members.clone())
        };
        let elided = created.without_list(1).filter(|_| comm.is_elided);
        all.push(elided.unwrap_or(created));
    }
    all
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
    assert_description(&profile, given);
    assert_code(&rows(&profile), given);
    if profile.run().is_aggregate {
        return;
    }
    let comms: BTreeMap<String, CommRow> =
        rows::<CommRow>(&profile).into_iter().map(|row| (row.comm.clone(), row)).collect();
    assert_eq!(comms.len(), 2 + given.comms.len(), "each has a name of its own");
    let calls: Vec<CallRow> = rows(&profile);
    let known = (1 + given.regions.len() + given.calls.len()) as u64 + u64::from(LARGEST_CLASS) + 1;
    assert_eq!(calls.iter().map(|row| row.calls).sum::<u64>(), known, "no call is lost");
    let bytes: u64 = given.calls.iter().map(|&(_, _, bytes)| bytes).sum();
    assert_eq!(calls.iter().map(|row| row.bytes).sum::<u64>(), bytes, "no byte is lost");
    assert!(calls.iter().all(|row| comms.contains_key(&row.comm)));
    let peers: u64 = rows::<PeerRow>(&profile).iter().map(|row| row.sent_messages).sum();
    assert_eq!(peers, given.peers.len() as u64);
    assert_eq!(rows::<RankRow>(&profile)[0].host.as_bytes(), given.host);
    let paths: u64 = rows::<PathRow>(&profile).iter().map(|row| row.calls).sum();
    assert_eq!(paths, given.paths.len() as u64);
    let stacks: BTreeSet<usize> =
        rows::<StackRow>(&profile).iter().map(|row| row.sites.split(' ').count()).collect();
    assert_eq!(stacks, given.paths.iter().map(Vec::len).collect());
    let variables: Vec<VariableRow> = rows(&profile);
    assert!(variables.iter().map(|row| &row.name).eq(given.variables.iter().map(|[name, _]| name)));
}

/// Asserts that `run.json` and `comms.csv` have the texts.
fn assert_description(profile: &Profile, given: &Given) {
    let run = profile.run();
    assert_eq!((&run.command, &run.job), (&given.words, &given.job));
    assert!(given.notes.iter().all(|note| run.notes.contains(note)));
    let control = run.mpi.control.iter().map(|it| [&it.name, &it.value, &it.set_by]);
    assert!(control.eq(given.control.iter().map(|parts| parts.each_ref())));
    let variables = run.mpi.variables.iter().map(|it| [&it.name, &it.description]);
    assert!(variables.eq(given.variables.iter().map(|parts| parts.each_ref())));
    let comms: Vec<CommRow> = rows(profile);
    let has = |label: &str, topology: &str| {
        comms.iter().any(|row| row.label == label && (row.topology == topology || run.is_aggregate))
    };
    for comm in &given.comms {
        assert!(has(comm.labels.last().map_or("", String::as_str), &comm.topology), "{comm:?}");
    }
}

/// Asserts that each place has a row with the binary's path, or with the function.
fn assert_code(sites: &[SiteRow], given: &Given) {
    let found: BTreeSet<[&str; 3]> =
        sites.iter().map(|row| [row.module.as_str(), &row.file, &row.function]).collect();
    let places = given.sites.iter().map(|&(_, place)| place).chain(given.paths.iter().flatten().copied());
    for place in places {
        let expected = match &given.modules[given.code(place).module as usize] {
            Module::Binary { path, .. } => [path.as_str(), "", ""],
            Module::Function { file, name } => ["", file.as_str(), name],
        };
        assert!(found.contains(&expected), "{expected:?}");
    }
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
    let sums = Aggregate::from_snapshot(&in_file, &tables, &RankSet::default());
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
    assert_profile(&write_profile(&rank, "one_of_many.mpisee"), &paths, given);
    // Where all ranks are there, one leaves its rows for another that writes the profile.
    header.world_size.store(1, Ordering::Relaxed);
    let from_counts = write_profile(&rank, "counts.mpisee");
    assert_profile(&from_counts, &paths, given);
    leave_rows(&rank);
    assert!(
        content_of(&write_profile(&rank, "rows.mpisee")) == content_of(&from_counts),
        "the profile differs"
    );
}

/// Writes the profile of a rank that came to the end of MPI.
fn write_profile(rank: &Rank, name: &str) -> PathBuf {
    let written = write(&rank.found(), &rank.folder.path().join(name), None, None);
    let written = written.expect("it can be written");
    assert!(written.unreadable.is_empty(), "{:?}", written.unreadable);
    written.directory
}

/// Has a rank leave its rows, as in [`super::leave_rows`].
fn leave_rows(rank: &Rank) {
    let snapshot = Snapshot::read(&rank.segment).expect("it can be read");
    let end = RunEnd { realtime_ns: 0, moment: snapshot.last_known() };
    let sums = RunSums::of_header(&snapshot, Some(end));
    let own = Own::from_snapshot(&snapshot, end, &RankSet::default(), &sums, Vec::new());
    let path = rank.segment.path().expect("it is in a file");
    Left::leave_rows(&path, own.sums.clone(), own.rows()).expect("there is room");
    let world = rank.found();
    assert!(world.segments().all(|segment| segment.left_rows().is_some()), "they can be read");
}

/// The files of a profile.
fn content_of(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let files = std::fs::read_dir(directory).expect("a folder").map(|file| file.expect("a file"));
    files.map(|file| (file.file_name(), std::fs::read(file.path()).expect("it can be read"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn readers_read_whatever_the_recorder_writes(given in any_given()) {
        assert_read(&given);
    }
}

fn with_regions(regions: Vec<Option<String>>) -> Given {
    Given {
        regions,
        host: *b"a-node-whose-name-has-as-many-characters-as-linux-lets-it-have-1",
        words: vec!["app".to_owned()],
        notes: vec!["text".to_owned()],
        job: None,
        control: Vec::new(),
        variables: Vec::new(),
        comms: Vec::new(),
        modules: Vec::new(),
        sites: Vec::new(),
        paths: Vec::new(),
        peers: vec![1],
        calls: Vec::new(),
    }
}

#[test]
fn regions_that_nest_too_deeply_count_in_those_around_them() {
    let given = with_regions(vec![Some("step of solver".to_owned()); 600]);
    assert_read(&given);
    let rank = Rank::new(&given);
    let snapshot = Snapshot::read(&rank.segment).expect("it can be read");
    assert_eq!(snapshot.regions.len(), (MOST_NAME_BYTES + 1) / "/step of solver".len());
    let [note, joined] = snapshot.program.notes_of_rank.as_slice() else { panic!("two notes") };
    assert_eq!(note, "text");
    assert!(joined.starts_with("rank 0 has regions that are counted in the region around them"), "{joined}");
    assert!(joined.contains("'step of solver'"), "{joined}");
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
