//! Communicators of NCCL beside those of MPI, by a library that is pretended: it makes
//! communicators and moves nothing.

mod left;
mod nvidia;
mod several_gpus;
mod without_mpi;

use crate::buffers::{driver, driver_before_12_5};
use crate::exact::assert_all_seen;
use mpisee_profile::Profile;
use mpisee_profile::rows::{Memory, NcclPeerRow, NcclTimeRow, Seconds};
use mpisee_tests::{Finished, Mpi, Run, Tables, case, root, through};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the library, compiled; under a name of its own the launcher would not know it.
fn library() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || {
        let folder = root().join("target/tests/pretended");
        std::fs::create_dir_all(&folder).expect("target can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o"]);
        compiler.arg(folder.join("libnccl.so.2")).arg(root().join("tests/programs/gpu/pretended_nccl.c"));
        assert!(compiler.status().expect("cc starts").success());
        folder
    };
    FOLDER.get_or_init(compiled).clone()
}

/// The options by which a program is linked with the library.
fn linked() -> [String; 3] {
    let folder = library().display().to_string();
    [format!("-L{folder}"), "-l:libnccl.so.2".to_owned(), format!("-Wl,-rpath,{folder}")]
}

/// A library that is linked with NCCL, for programs that load it for themselves.
fn plugin() -> PathBuf {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || {
        let plugin = library().join("libplugin.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-o"]).arg(&plugin);
        compiler.arg(root().join("tests/programs/gpu/nccl_plugin.c")).args(linked());
        assert!(compiler.status().expect("cc starts").success());
        plugin
    };
    PLUGIN.get_or_init(compiled).clone()
}

fn compile(mpi: &Mpi, name: &str) -> PathBuf {
    let linked = linked();
    mpi.compile_with(name, &linked.each_ref().map(String::as_str))
}

/// A run whose profile `check` has found consistent.
fn checked(run: Run<'_>) -> Finished {
    let finished = run.profiled();
    let profile = finished.directory().display().to_string();
    let output = through(&["check", &profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    finished
}

/// A communicator of NCCL without its digests: the steps of its name, its size and its members.
type Comm = (String, u32, String);
type Sums = BTreeMap<(Comm, String), (u64, u64)>;

/// Calls and bytes over all ranks by communicator and operation.
fn sums(tables: &Tables) -> Sums {
    let without_digests = |name: &str| {
        let steps = name.split('_').map(|step| step.split('-').next().unwrap_or_default());
        steps.collect::<Vec<_>>().join("_")
    };
    let comms: BTreeMap<&str, Comm> = tables
        .comms
        .iter()
        .filter(|row| row.comm.starts_with('N'))
        .map(|row| (row.comm.as_str(), (without_digests(&row.comm), row.size, row.members.to_string())))
        .collect();
    let mut sums = Sums::new();
    for row in &tables.calls {
        assert_eq!(row.call.starts_with("nccl"), row.comm.starts_with('N'), "{row:?}");
        let Some(comm) = comms.get(row.comm.as_str()) else { continue };
        let sum = sums.entry((comm.clone(), row.call.clone())).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.bytes);
    }
    sums
}

/// Name, size, members, and of each operation calls and bytes.
type Expected<'e> = (&'e str, u32, &'e str, &'e [(&'e str, u64, u64)]);

fn expected() -> Sums {
    let all = [
        ("ncclCommInitRank", 4, 0),
        ("ncclAllReduce", 12, 12 * 40),
        ("ncclBroadcast", 4, 3 * 88),
        ("ncclBcast", 4, 3 * 13),
        ("ncclReduce", 8, 4 * 17 * 8),
        ("ncclAllGather", 4, 4 * 19 * 4),
        ("ncclReduceScatter", 4, 4 * 23 * 2),
        ("ncclAlltoAll", 4, 4 * 4 * 5 * 4),
        ("ncclGather", 4, 4 * 29),
        ("ncclScatter", 4, 4 * 31),
        ("ncclSend", 4, 4 * 37),
        ("ncclRecv", 4, 4 * 37),
        ("ncclGroupEnd", 4, 0),
        ("ncclCommSplit", 8, 0),
        ("ncclCommShrink", 3, 0),
        ("ncclCommDestroy", 4, 0),
    ];
    let part = [("ncclAllReduce", 2, 2 * 82), ("ncclCommAbort", 2, 0)];
    let some = [("ncclAllReduce", 3, 3 * 43), ("ncclCommDestroy", 3, 0)];
    let rest = [("ncclBroadcast", 3, 2 * 47), ("ncclCommDestroy", 3, 0)];
    let own = [
        ("ncclCommInitAll", 1, 0),
        ("ncclAllReduce", 3, 3 * 53),
        ("ncclGroupEnd", 1, 0),
        ("ncclCommDestroy", 3, 0),
    ];
    let pairs = [
        ("ncclCommInitRankScalable", 8, 0),
        ("ncclGroupEnd", 8, 0),
        ("ncclBroadcast", 8, 7 * 59),
        ("ncclSend", 4, 4 * 67),
        ("ncclRecv", 4, 4 * 67),
        ("ncclCommFinalize", 4, 0),
        ("ncclCommDestroy", 8, 0),
    ];
    let comms: [Expected; 10] = [
        ("N1", 4, "0-3", &all),
        ("N1_s1.0", 2, "0,2", &part),
        ("N1_s1.1", 2, "1,3", &part),
        ("N1_s2.5", 3, "0-2", &some),
        ("N1_k1", 3, "1-3", &rest),
        ("N1", 3, "0", &own),
        ("N1", 3, "1", &own),
        ("N1", 3, "2", &own),
        ("N1", 3, "3", &own),
        ("N1", 8, "0-3", &pairs),
    ];
    expected_of(&comms)
}

fn expected_of(comms: &[Expected]) -> Sums {
    let rows = comms.iter().flat_map(|&(name, size, members, calls)| {
        let comm = (name.to_owned(), size, members.to_owned());
        calls.iter().map(move |&(call, calls, bytes)| ((comm.clone(), call.to_owned()), (calls, bytes)))
    });
    rows.collect()
}

#[case]
fn every_communicator_has_its_calls_and_bytes(mpi: &Mpi) {
    let finished = checked(Run::from_program(mpi, compile(mpi, "gpu/nccl")).ranks(4));
    let tables = finished.tables();
    assert_eq!(sums(tables), expected(), "{}", mpi.name);
    assert_all_seen(tables);
    let freed = tables.comms.iter().filter(|row| row.comm.starts_with('N')).map(|row| row.freed);
    assert_eq!(BTreeSet::from_iter(freed), [1].into(), "{}", mpi.name);
}

#[case]
fn the_memory_of_the_first_call_after_a_communicator_was_made_is_known(mpi: &Mpi) {
    let linked = linked();
    let options = [&linked[0], &linked[1], &linked[2], "-ldl"];
    let program = mpi.compile_with("gpu/nccl_memory", &options);
    let run = Run::from_program(mpi, program).ranks(1).argument(driver().display());
    // Where each call's place is looked up, the driver is found with a new place.
    let finished = checked(run.options(&["--sites", "0"]));
    let rows = finished.tables().calls.iter().filter(|row| row.call == "ncclAllReduce");
    let kinds: Vec<_> = rows.map(|row| (row.memory, row.calls, row.bytes)).collect();
    assert_eq!(kinds, [(Memory::Device, 1, 67)], "{}", mpi.name);
}

/// Each process, its rank in the communicator and a peer's there, and what it sent to that one and
/// received from it.
type Ends = (u32, [u32; 2], [u64; 4]);

/// All messages of a run.
fn ends(finished: &Finished) -> Vec<Ends> {
    let profile = Profile::open(finished.directory()).expect("it was written");
    let rows = profile.rows_if_any::<NcclPeerRow>().expect("nccl-peers.csv can be read");
    let rows = rows.map(|row| row.expect("a row"));
    let ends = rows.map(|row| {
        let counts = [row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes];
        (row.rank, [row.rank_in_comm.get(), row.peer_in_comm.get()], counts)
    });
    let mut ends: Vec<Ends> = ends.collect();
    ends.sort_unstable();
    ends
}

/// A message of 37 bytes to the right; and where each process has two ranks, one of 67 from its
/// first to the second of the next.
fn ring() -> Vec<Ends> {
    let of_rank = |rank: u32| {
        let (left, right) = ((rank + 3) % 4, (rank + 1) % 4);
        [
            (rank, [rank, right], [1, 37, 0, 0]),
            (rank, [rank, left], [0, 0, 1, 37]),
            (rank, [2 * rank, 2 * right + 1], [1, 67, 0, 0]),
            (rank, [2 * rank + 1, 2 * left], [0, 0, 1, 67]),
        ]
    };
    let mut ends: Vec<Ends> = (0..4).flat_map(of_rank).collect();
    ends.sort_unstable();
    ends
}

#[case]
fn messages_are_counted_between_ranks_of_their_communicator(mpi: &Mpi) {
    let finished = checked(Run::from_program(mpi, compile(mpi, "gpu/nccl")).ranks(4));
    assert_eq!(ends(&finished), ring(), "{}", mpi.name);
}

#[case]
fn the_same_through_a_tree_of_ranks(mpi: &Mpi) {
    let run = Run::from_program(mpi, compile(mpi, "gpu/nccl")).ranks(4);
    let finished = checked(run.options(&["--collect", "tree"]));
    assert_eq!(sums(finished.tables()), expected(), "{}", mpi.name);
    assert_eq!(ends(&finished), ring(), "{}", mpi.name);
}

#[case]
fn nccl_is_switched_off_by_option(mpi: &Mpi) {
    let run = Run::from_program(mpi, compile(mpi, "gpu/nccl")).ranks(4);
    let finished = checked(run.options(&["--nccl", "off"]));
    assert_eq!(sums(finished.tables()), Sums::new(), "{}", mpi.name);
}

/// A program that is not linked with NCCL, on one rank.
fn by_name(mpi: &Mpi, nccl: &str, arguments: &[&str]) -> Sums {
    let program = mpi.compile_with("gpu/nccl_by_name", &["-ldl"]);
    let run = Run::from_program(mpi, program).ranks(1);
    let run = arguments.iter().fold(run, |run, argument| run.argument(argument));
    sums(checked(run.options(&["--nccl", nccl])).tables())
}

#[case]
fn a_program_without_nccl_finds_none(mpi: &Mpi) {
    assert_eq!(by_name(mpi, "auto", &["none"]), Sums::new(), "{}", mpi.name);
    assert_eq!(by_name(mpi, "on", &["some"]), Sums::new(), "{}", mpi.name);
}

#[case]
fn a_library_that_is_linked_with_nccl_is_seen_by_option(mpi: &Mpi) {
    let plugin = plugin().display().to_string();
    let comm = ("N1".to_owned(), 1, "0".to_owned());
    let calls = [("ncclCommInitRank", 0), ("ncclAllReduce", 71), ("ncclCommDestroy", 0)];
    let seen = calls.map(|(call, bytes)| ((comm.clone(), call.to_owned()), (1, bytes)));
    assert_eq!(by_name(mpi, "on", &["plugin", &plugin]), Sums::from(seen), "{}", mpi.name);
    assert_eq!(by_name(mpi, "auto", &["plugin", &plugin]), Sums::new(), "{}", mpi.name);
}

#[case]
fn functions_that_a_program_asks_the_library_for_are_not_seen(mpi: &Mpi) {
    let library = library().join("libnccl.so.2").display().to_string();
    assert_eq!(by_name(mpi, "on", &["handle", &library]), Sums::new(), "{}", mpi.name);
}

/// Function, size class, and of the calls in it how many were timed, how many not, bytes, and
/// nanoseconds: all, the shortest, the longest.
type Timed<'t> = (&'t str, u64, [u64; 3], [u64; 3]);

#[case]
fn the_time_of_calls_on_the_gpu_is_measured(mpi: &Mpi) {
    measures_times(mpi, &driver());
    measures_times(mpi, &driver_before_12_5());
}

#[case]
fn without_the_option_no_call_has_a_time_on_the_gpu(mpi: &Mpi) {
    let run = Run::from_program(mpi, of_times(mpi)).ranks(2).argument(driver().display());
    let profile = Profile::open(checked(run).directory()).expect("it was written");
    assert_eq!(profile.rows_if_any::<NcclTimeRow>().expect("there is none").count(), 0);
}

fn of_times(mpi: &Mpi) -> PathBuf {
    let linked = linked();
    mpi.compile_with("gpu/nccl_times", &[&linked[0], &linked[1], &linked[2], "-ldl"])
}

fn measures_times(mpi: &Mpi, driver: &Path) {
    let run = Run::from_program(mpi, of_times(mpi)).ranks(2).argument(driver.display());
    let finished = checked(run.options(&["--nccl-gpu-time=on"]));
    let profile = Profile::open(finished.directory()).expect("it was written");
    let rows = profile.rows_if_any::<NcclTimeRow>().expect("nccl-times.csv can be read");
    let rows: Vec<NcclTimeRow> = rows.map(|row| row.expect("a row")).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.comm.as_str()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    let ns = |seconds: Seconds| (seconds.0 * 1e9).round() as u64;
    let of_rank = |rank: u32| {
        let mut found: Vec<Timed> = rows
            .iter()
            .filter(|row| row.rank == rank)
            .map(|row| {
                let times = [row.gpu_s, row.min_s, row.max_s].map(ns);
                (row.call.as_str(), row.size_min, [row.calls, row.untimed, row.bytes], times)
            })
            .collect();
        found.sort_unstable();
        found
    };
    for rank in 0..2 {
        let own = 67 + u64::from(rank);
        let expected = [
            ("ncclAllReduce", 0, [0, 1, 0], [0, 0, 0]),
            ("ncclAllReduce", 32, [0, 1, 0], [0, 0, 0]),
            ("ncclAllReduce", 32, [1, 2, 37], [37_000, 37_000, 37_000]),
            ("ncclAllReduce", 64, [2, 0, 65 + own], [65_000 + own * 1000, 65_000, own * 1000]),
            ("ncclAllReduce", 128, [1, 0, 131], [131_000, 131_000, 131_000]),
            ("ncclAllReduce", 512, [0, 1, 0], [0, 0, 0]),
            ("ncclAllReduce", 512, [1, 0, 521], [521_000, 521_000, 521_000]),
            ("ncclAllReduce", 1024, [0, 2, 0], [0, 0, 0]),
            ("ncclAllReduce", 2048, [2, 0, 4116], [4_116_000, 2_053_000, 2_063_000]),
            ("ncclAllReduce", 4096, [0, 1, 0], [0, 0, 0]),
            // 4096 wait at most, and the call that finds the GPU done has no room itself.
            (
                "ncclAllReduce",
                16_384,
                [4097, 905, 4097 * 16_500],
                [4097 * 16_500_000, 16_500_000, 16_500_000],
            ),
            ("ncclBroadcast", 256, [1, 0, 257 * u64::from(rank)], [257_000, 257_000, 257_000]),
            ("ncclGroupEnd", 128, [1, 0, 146], [73_000, 73_000, 73_000]),
        ];
        assert_eq!(of_rank(rank), expected, "rank {rank} of {}", mpi.name);
    }
}

#[case]
fn sums_over_ranks_say_that_times_on_the_gpu_are_left_out(mpi: &Mpi) {
    let linked = linked();
    let program = mpi.compile_with(
        "gpu/nccl_times",
        &[linked.each_ref().map(String::as_str).as_slice(), &["-ldl"]].concat(),
    );
    let run = Run::from_program(mpi, program).ranks(2).argument(driver().display());
    let finished = run.options(&["--nccl-gpu-time=on", "--fold", "1"]).folded();
    let profile = Profile::open(finished.directory()).expect("it was written");
    assert_eq!(profile.rows_if_any::<NcclTimeRow>().expect("there is none").count(), 0);
    let notes = &profile.run().notes;
    assert!(notes.iter().any(|it| it.contains("the GPU's time in calls of NCCL was measured")), "{notes:?}");
}

#[case]
fn parts_late_handles_groups_that_fail_windows_and_grown_communicators_are_counted(mpi: &Mpi) {
    let finished = checked(Run::from_program(mpi, compile(mpi, "gpu/nccl_more")).ranks(2));
    let tables = finished.tables();
    let all = [
        ("ncclCommInitRankConfig", 2, 0),
        ("ncclCommSplit", 7, 0),
        ("ncclAllReduce", 4, 2 * 17),
        ("ncclSend", 2, 0),
        ("ncclGroupEnd", 4, 0),
        ("ncclCommWindowRegister", 2, 0),
        ("ncclPutSignal", 2, 2 * 76),
        ("ncclSignal", 2, 0),
        ("ncclWaitSignal", 2, 0),
        ("ncclCommWindowDeregister", 2, 0),
        ("ncclAllToAllv", 2, 2 * 52 * 8),
        ("ncclCommDestroy", 2, 0),
    ];
    let late = [("ncclAllReduce", 4, 4 * 11), ("ncclCommDestroy", 2, 0)];
    let other = [("ncclAllReduce", 2, 2 * 7), ("ncclCommDestroy", 2, 0)];
    let repeated = [("ncclAllReduce", 2, 2 * 13), ("ncclCommDestroy", 2, 0)];
    let alone = [("ncclCommInitRank", 1, 0), ("ncclCommGrow", 1, 0), ("ncclCommDestroy", 1, 0)];
    let grown = [("ncclAllReduce", 1, 31), ("ncclCommRevoke", 1, 0), ("ncclCommDestroy", 1, 0)];
    let joined = [("ncclCommGrow", 1, 0), grown[0], grown[1], grown[2]];
    let comms: [Expected; 7] = [
        ("N1", 2, "0-1", &all),
        ("N1_s1.3", 2, "0-1", &late),
        ("N1_s2.4", 2, "0-1", &other),
        ("N1_s3.5", 2, "0-1", &repeated),
        ("N1", 1, "0", &alone),
        ("N1_g1", 2, "0", &grown),
        ("N1", 2, "1", &joined),
    ];
    assert_eq!(sums(tables), expected_of(&comms), "{}", mpi.name);
    assert_all_seen(tables);
    let messages = tables.calls.iter().filter(|row| row.call == "ncclSend");
    assert!(messages.into_iter().all(|row| row.size_max == 0), "of a group that failed");
    assert_eq!(ends(&finished), [], "{}", mpi.name);
    let labels: Vec<&str> =
        tables.comms.iter().map(|row| row.label.as_str()).filter(|label| *label == "gradients").collect();
    assert_eq!(labels.len(), 1, "{}", mpi.name);
}

#[case]
fn handles_are_those_that_the_program_passes(mpi: &Mpi) {
    let finished = checked(Run::from_program(mpi, compile(mpi, "gpu/nccl_stale")).ranks(2));
    let tables = finished.tables();
    let moved = [("ncclAllReduce", 4, 2 * (61 + 67)), ("ncclCommDestroy", 2, 0)];
    let named = [("ncclAllReduce", 2, 2 * 73), ("ncclCommDestroy", 2, 0)];
    // Of three communicators without a parent.
    let others = [
        ("ncclCommInitRank", 6, 0),
        ("ncclCommSplit", 6, 0),
        ("ncclCommAbort", 2, 0),
        ("ncclAllReduce", 2, 2 * 71),
        ("ncclCommDestroy", 4, 0),
    ];
    let comms: [Expected; 3] =
        [("N1", 2, "0-1", &others), ("N1_s1.3", 2, "0-1", &moved), ("N1_s2.5", 2, "0-1", &named)];
    assert_eq!(sums(tables), expected_of(&comms), "{}", mpi.name);
    assert_all_seen(tables);
    let labels = tables.comms.iter().filter(|row| row.label == "pipeline").count();
    assert_eq!(labels, 1, "{}", mpi.name);
}
