//! Readers that the targets run on an input. The fuzzers and the test that replays their corpora
//! share them.

use mpisee_bench::language::Program;
use mpisee_collect::files::parts;
use mpisee_collect::gpu;
use mpisee_collect::segments::{CallLocation, Clock, collected, of_snapshot};
use mpisee_collect::wire::Message;
use mpisee_collect::{Aggregate, RankTables};
use mpisee_profile::gpu::{GpuFile, MAGIC as GPU_MAGIC};
use mpisee_profile::options::{Options, SETTINGS};
use mpisee_profile::rows::{
    ArrivalRow, BinaryRow, CallRow, CollectiveRow, CommRow, GpuRow, GpuTotalRow, Members, NcclPeerRow,
    NcclTimeRow, OffsetRow, OrderRow, OrderRuleRow, OrderStepRow, OrderTimeRow, OutsideRow, PathRow,
    PathTotalRow, PeerRow, RankRow, RegionRow, Row, SiteRow, StackRow, VariableRow, VariableTotalRow,
};
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::layout::{Header, MAGIC, VERSION};
use mpisee_profile::segment::names::{name_of, names, names_can_be};
use mpisee_profile::{CommId, Operation, Profile, RankSet};
use std::ffi::OsString;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

/// Function that reads an input.
pub type Reader = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Reader); 8] = [
    ("segment", segment),
    ("tables", tables),
    ("answers", answers),
    ("texts", texts),
    ("sums", sums),
    ("kernels", kernels),
    ("roll", roll),
    ("patterns", patterns),
];

/// A segment, up to the rows of the profile that `recover` makes of it, and the calls that `top`
/// shows. What says that it is one of this version is put into its place, so that a new version
/// does not make the corpus worthless.
pub fn segment(input: &[u8]) {
    let (words, _) = input.as_chunks::<8>();
    let mut words: Vec<u64> = words.iter().map(|&word| u64::from_ne_bytes(word)).collect();
    for (place, value) in [
        (offset_of!(Header, magic), MAGIC),
        (offset_of!(Header, version), VERSION),
        (offset_of!(Header, operations), Operation::fingerprint()),
    ] {
        if let Some(word) = words.get_mut(place / 8) {
            *word = value;
        }
    }
    let Ok(snapshot) = Snapshot::read(words.as_slice()) else { return };
    if names_can_be(&snapshot).is_err() {
        return;
    }
    let mut tables = <RankTables>::of_ended(&snapshot);
    let rows = parts(&mut tables);
    assert!(rows[0].ends_with(b"\n"), "there is a row of the rank");
    name_of(words.as_slice(), CommId::NONE);
    let clock = Clock::of_ended(&snapshot, snapshot.last_known().ticks);
    let calls = of_snapshot(&snapshot, &names(&snapshot), &clock, |_| CallLocation::default());
    for place in collected([(snapshot.world_rank, false, calls.as_slice())]) {
        assert!(place.call.is_none_or(|call| call.name().starts_with("MPI")));
    }
}

/// The file of a reader of `top` on another node, read up to the roll call.
pub fn roll(input: &[u8]) {
    let folder = directory();
    std::fs::create_dir_all(&folder).expect("memory takes a directory");
    std::fs::write(folder.join("mpisee-top-0000000000000000-n1-0.json"), input).expect("memory takes a file");
    for format in ["table", "json"] {
        let words = ["mpisee-through", "top", "--format", format, "--from"].map(OsString::from);
        let _ = mpisee_through::run(words.into_iter().chain([folder.clone().into()]));
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// The sums of other ranks, as they come up the tree. What says that they are of this version is
/// put into its place.
pub fn sums(input: &[u8]) {
    let head = &Aggregate::default().encode()[..9];
    let bytes: Vec<u8> = head.iter().chain(input).copied().collect();
    let Ok(mut sums) = Aggregate::decode(&bytes) else { return };
    sums.merge(sums.clone());
    let again = Aggregate::decode(&sums.encode()).expect("what was written can be read");
    assert_eq!(again.tables().gpu, sums.tables().gpu);
}

/// The file in which a process counts what its GPU kernels access, behind what says that it is one.
pub fn kernels(input: &[u8]) {
    let bytes: Vec<u8> = GPU_MAGIC.iter().chain(input).copied().collect();
    let Ok(file) = GpuFile::parse(&bytes) else { return };
    let parts = gpu::parts(&file, 3);
    let rows = parts.iter().filter(|part| matches!(part, gpu::GpuPart::Row(..))).count();
    gpu::binaries(&parts);
    assert_eq!(gpu::join(parts).0.len(), rows);
}

/// The sections of a profile as one text: each begins with a line `@` and the name of the file.
fn sections(input: &[u8]) -> Vec<(&'static str, &[u8])> {
    const FILES: [&str; 25] = [
        "run.json",
        RankRow::FILE,
        CommRow::FILE,
        CallRow::FILE,
        PeerRow::FILE,
        RegionRow::FILE,
        OutsideRow::FILE,
        NcclPeerRow::FILE,
        NcclTimeRow::FILE,
        OffsetRow::FILE,
        GpuRow::FILE,
        GpuTotalRow::FILE,
        BinaryRow::FILE,
        ArrivalRow::FILE,
        CollectiveRow::FILE,
        SiteRow::FILE,
        PathRow::FILE,
        PathTotalRow::FILE,
        StackRow::FILE,
        VariableRow::FILE,
        VariableTotalRow::FILE,
        OrderRow::FILE,
        OrderRuleRow::FILE,
        OrderStepRow::FILE,
        OrderTimeRow::FILE,
    ];
    let mut found: Vec<(&'static str, &[u8])> = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.iter().position(|&byte| byte == b'@') {
        rest = &rest[at + 1..];
        let Some(file) = FILES.iter().find(|file| rest.starts_with(file.as_bytes())) else { continue };
        let Some(body) = rest.get(file.len() + 1..) else { break };
        let end = body.windows(2).position(|pair| pair == b"\n@").map_or(body.len(), |at| at + 1);
        found.push((file, &body[..end]));
        rest = &body[end..];
    }
    found
}

/// A directory of this process in memory, in which the same profile is written again and again.
fn directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    base.join(format!("mpisee-fuzz-{}-{:?}.mpisee", std::process::id(), std::thread::current().id()))
}

/// Writes the profile that the input describes, uses it and removes it.
fn with_profile(input: &[u8], default: &[(&str, &str)], use_it: impl FnOnce(&Path)) {
    let directory = directory();
    std::fs::create_dir_all(&directory).expect("memory takes a directory");
    let sections = sections(input);
    for (file, content) in default {
        if !sections.iter().any(|(named, _)| named == file) {
            std::fs::write(directory.join(file), content).expect("memory takes a file");
        }
    }
    for (file, content) in sections {
        std::fs::write(directory.join(file), content).expect("memory takes a file");
    }
    use_it(&directory);
    std::fs::remove_dir_all(&directory).expect("it is ours");
}

const RUN: &str = r#"{"format_version":1,"mpisee_version":"0.1.0","mpi":{"library":"MPI","flavour":"f","thread_level":"single"},
"command":["./a"],"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:00:01Z","ranks":4,"nodes":1,"complete":true,
"incomplete_because":null,"clock":"tsc","recording_was_off":false,"not_seen":{}}"#;

/// Every table through the reader of mpisee-profile; what was read is written and read again.
pub fn tables(input: &[u8]) {
    with_profile(input, &[("run.json", RUN)], |directory| {
        let Ok(profile) = Profile::open(directory) else { return };
        fn read<R: Row + PartialEq + std::fmt::Debug>(profile: &Profile) {
            let Ok(rows) = profile.rows::<R>() else { return };
            let rows: Vec<R> = rows.map_while(Result::ok).collect();
            let again = mpisee_profile::writer::from_csv::<R>(&mpisee_profile::writer::to_csv(&rows));
            assert_eq!(again.expect("what was written can be read").len(), rows.len());
        }
        read::<RankRow>(&profile);
        read::<CommRow>(&profile);
        read::<CallRow>(&profile);
        read::<PeerRow>(&profile);
        read::<RegionRow>(&profile);
        read::<OutsideRow>(&profile);
        read::<NcclPeerRow>(&profile);
        read::<NcclTimeRow>(&profile);
        read::<OffsetRow>(&profile);
        read::<GpuRow>(&profile);
        read::<GpuTotalRow>(&profile);
        read::<BinaryRow>(&profile);
        read::<ArrivalRow>(&profile);
        read::<CollectiveRow>(&profile);
        read::<SiteRow>(&profile);
        read::<PathRow>(&profile);
        read::<PathTotalRow>(&profile);
        read::<StackRow>(&profile);
        read::<VariableRow>(&profile);
        read::<VariableTotalRow>(&profile);
        read::<OrderRow>(&profile);
        read::<OrderRuleRow>(&profile);
        read::<OrderStepRow>(&profile);
        read::<OrderTimeRow>(&profile);
    });
}

/// The commands that only read a profile; `{}` stands for it.
const COMMANDS: [&str; 27] = [
    "summary {}",
    "summary --all {}",
    "comms {}",
    "comms --all {}",
    "ops {}",
    "ranks {}",
    "regions {}",
    "sizes {}",
    "matrix {}",
    "matrix --by node {}",
    "efficiency {}",
    "locality {}",
    "advise {}",
    "check {}",
    "diff {} {}",
    "summary --format json {}",
    "ops --format csv --kind p2p --size 64- {}",
    "comms --comm W* --format csv {}",
    "gpu {}",
    "gpu --by device --detail {}",
    "gpu --by object --of accesses {}",
    "gpu --annotate --format json {}",
    "waits {}",
    "waits --format json --each {}",
    "sites {}",
    "paths {}",
    "order {}",
];

/// A whole profile, through a command of mpisee-through: the first byte says which.
pub fn answers(input: &[u8]) {
    let Some((&which, input)) = input.split_first() else { return };
    let empty = |row: &[&str]| row.join(",") + "\n";
    let headers = [
        empty(RankRow::columns()),
        empty(CommRow::columns()),
        empty(CallRow::columns()),
        empty(PeerRow::columns()),
        empty(RegionRow::columns()),
    ];
    let default = [
        ("run.json", RUN),
        (RankRow::FILE, headers[0].as_str()),
        (CommRow::FILE, headers[1].as_str()),
        (CallRow::FILE, headers[2].as_str()),
        (PeerRow::FILE, headers[3].as_str()),
        (RegionRow::FILE, headers[4].as_str()),
    ];
    with_profile(input, &default, |directory| {
        let command = COMMANDS[usize::from(which) % COMMANDS.len()];
        let words = command.split(' ').map(|word| match word {
            "{}" => directory.into(),
            word => OsString::from(word),
        });
        let _ = mpisee_through::run([OsString::from("mpisee-through")].into_iter().chain(words));
    });
}

/// Sets of ranks, members, the options of the environment: the first byte says which.
pub fn texts(input: &[u8]) {
    let Some((&which, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match which % 3 {
        0 => {
            let Ok(set) = text.parse::<RankSet>() else { return };
            let again: RankSet = set.to_string().parse().expect("what was written can be read");
            assert_eq!((again.len(), again.to_string()), (set.len(), set.to_string()));
            assert_eq!(set.is_empty(), set.ranges().is_empty());
            if let Some(range) = set.ranges().first() {
                assert!(set.contains(range.first) && set.contains(range.last));
            }
        }
        1 => {
            let Ok(members) = text.parse::<Members>() else { return };
            let again: Members = members.to_string().parse().expect("what was written can be read");
            assert_eq!(again.to_string(), members.to_string());
            assert_eq!(again.outsiders(), members.outsiders());
            members.all();
        }
        _ => {
            let variables = text.lines().filter_map(|line| line.split_once('='));
            let named = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            Options::from_environment(variables.map(named));
            for setting in SETTINGS {
                let _ = setting.check(text);
            }
        }
    }
}

/// A pattern file: what is accepted can be carried out, and is read from its own text as the same;
/// what is refused has one sentence about one of its lines.
pub fn patterns(input: &[u8]) {
    const RANKS: u32 = 4;
    let text = String::from_utf8_lossy(input);
    let pattern = match Program::parse(&text).and_then(|program| program.pattern(1000, RANKS, &[])) {
        Ok(pattern) => pattern,
        Err(mistake) => {
            assert!((1..=text.lines().count().max(1)).contains(&mistake.line), "{mistake}");
            assert!(!mistake.what.contains('\n'), "{mistake}");
            return;
        }
    };
    assert_eq!(pattern.check(RANKS), Ok(()));
    let mut again = Program::parse(&pattern.to_string()).and_then(|program| program.pattern(1, RANKS, &[]));
    // A pattern's text has a name for each step.
    if let Ok(again) = &mut again {
        again
            .steps
            .iter_mut()
            .zip(&pattern.steps)
            .for_each(|(step, first)| step.name.clone_from(&first.name));
    }
    assert_eq!(again, Ok(pattern));
}
