//! Programs of NCCL without MPI: each process is profiled, and the last one to end on the node
//! writes the profile of all.

use super::{Comm, Sums, library, linked, sums};
use crate::buffers::driver;
use mpisee_profile::Profile;
use mpisee_profile::rows::NcclPeerRow;
use mpisee_tests::{LIMIT, Mpi, Tables, case, dist, root, through, within};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The program, which is linked with NCCL and with no MPI.
pub(super) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = library().join("nccl_alone");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-o"]).arg(&program);
        compiler
            .arg(root().join("tests/programs/gpu/nccl_alone.c"))
            .args(linked())
            .args(["-ldl", "-pthread"]);
        assert!(compiler.status().expect("cc starts").success());
        program
    })
}

/// Starts processes with a rank each, as torchrun does, and waits for all.
pub(super) const STARTED: &str = r#"
size=$1; shift
for ((rank = 0; rank < size; rank++)); do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$size "$@" &
done
wait"#;

/// Variables of launchers, from which these processes are to have none but their own.
pub(super) const OF_LAUNCHERS: [&str; 7] =
    ["RANK", "WORLD_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "SLURM_JOB_ID"];

pub(super) fn start(folder: &Path, options: &[&str], ranks: u32, arguments: &[&str]) -> Output {
    std::fs::create_dir_all(folder.join("segments")).expect("it can be made");
    let mut command = Command::new("bash");
    command.args(["-c", STARTED, "bash"]).arg(ranks.to_string()).arg(dist().join("bin/mpisee"));
    command.args(["--output", "test.mpisee", "--segments"]).arg(folder.join("segments")).args(options);
    command.arg(program()).args(arguments).current_dir(folder);
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    within(LIMIT, &mut command)
}

/// Starts the program with these arguments as three processes, each with an `mpisee` of its own;
/// ranks 0 and 1 leave a file `done.N` once they have ended.
pub(super) fn start_and_mark_ends(folder: &Path, arguments: &str) -> String {
    std::fs::create_dir_all(folder.join("segments")).expect("it can be made");
    let launcher = dist().join("bin/mpisee").display().to_string();
    let script = format!(
        "{launcher} --output test.mpisee --segments $PWD/segments {} {arguments}; [ $RANK = 2 ] || touch done.$RANK",
        program().display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", STARTED, "bash", "3", "sh", "-c", &script]).current_dir(folder);
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    String::from_utf8_lossy(&within(LIMIT, &mut command).stderr).into_owned()
}

pub(super) fn left(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("segments")).expect("it was made").count()
}

/// The calls and bytes of a run on that number of ranks.
pub(super) fn expected(ranks: u32) -> Sums {
    let members = if ranks == 1 { "0".to_owned() } else { format!("0-{}", ranks - 1) };
    let calls = u64::from(ranks);
    let comm = |name: &str| -> Comm { (name.to_owned(), ranks, members.clone()) };
    let whole = [
        ("ncclCommInitRank", calls, 0),
        ("ncclAllReduce", 3 * calls, 3 * calls * 83),
        ("ncclSend", calls, calls * 89),
        ("ncclRecv", calls, calls * 89),
        ("ncclGroupEnd", calls, 0),
        ("ncclCommSplit", calls, 0),
        ("ncclCommDestroy", calls, 0),
    ];
    let part = [("ncclBroadcast", calls, (calls - 1) * 97), ("ncclCommDestroy", calls, 0)];
    let rows = whole.iter().map(|row| (comm("N1"), row)).chain(part.iter().map(|row| (comm("N1_s1.0"), row)));
    rows.map(|(comm, &(call, calls, bytes))| ((comm, call.to_owned()), (calls, bytes))).collect()
}

fn assert_consistent(profile: &Path) {
    let checked = through(&["check", &profile.display().to_string()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[case]
fn processes_of_a_launcher_have_one_profile() {
    one_profile_of_a_launcher(None);
}

#[case]
fn processes_of_a_launcher_have_one_profile_by_each_flavour(mpi: &Mpi) {
    one_profile_of_a_launcher(Some(mpi));
}

fn one_profile_of_a_launcher(mpi: Option<&Mpi>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flavour = mpi.map_or(vec![], |mpi| vec!["--flavour", &mpi.name]);
    let output = start(folder.path(), &flavour, 3, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    // A rank for which others take long leaves its part to them, and says so.
    let others = said.lines().filter(|line| !line.contains("whoever ends last"));
    let written = "mpisee: profile of 3 ranks in test.mpisee";
    assert!(others.clone().count() == 1 && others.clone().all(|line| line.contains(written)), "{said}");
    let directory = folder.path().join("test.mpisee");
    let tables = Tables::read(&directory, &said);
    assert_eq!(sums(&tables), expected(3), "{said}");
    let profile = Profile::open(&directory).expect("it was written");
    let run = profile.run();
    assert_eq!((run.ranks, run.complete, run.mpi.library.as_str()), (3, true, "none"));
    assert_eq!((run.not_seen.values().sum::<u64>(), run.notes.len()), (0, 0), "{run:?}");
    let peers = profile.rows_if_any::<NcclPeerRow>().expect("it can be read").map(|row| row.expect("a row"));
    let mut ends: Vec<[u64; 5]> = peers
        .map(|row| {
            let ranks = [row.rank, row.rank_in_comm.get(), row.peer_in_comm.get()].map(u64::from);
            [ranks[0], ranks[1], ranks[2], row.sent_bytes, row.received_bytes]
        })
        .collect();
    ends.sort_unstable();
    let of_rank = |rank: u64| {
        let (right, left) = ((rank + 1) % 3, (rank + 2) % 3);
        [[rank, rank, right, 89, 0], [rank, rank, left, 0, 89]]
    };
    let mut expected: Vec<[u64; 5]> = (0..3).flat_map(of_rank).collect();
    expected.sort_unstable();
    assert_eq!(ends, expected);
    assert_consistent(&directory);
    assert_eq!(left(folder.path()), 0, "a clean run leaves nothing");
}

#[case]
fn a_process_without_a_launcher_is_rank_0_of_1() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(folder.path().join("segments")).expect("it can be made");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(["--output", "test.mpisee", "--segments"]).arg(folder.path().join("segments"));
    command.arg(program()).current_dir(folder.path());
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{said}");
    let directory = folder.path().join("test.mpisee");
    let tables = Tables::read(&directory, &said);
    let calls: u64 = tables.calls.iter().filter(|row| row.call == "ncclAllReduce").map(|row| row.calls).sum();
    assert_eq!((calls, tables.ranks.len()), (3, 1), "{said}");
    let shown = through(&[&directory.display().to_string()]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("MPI        none\n") && shown.contains("ncclAllReduce"), "{shown}");
}

/// As with torch.multiprocessing.spawn, after which the program alone knows its ranks.
#[case]
fn processes_without_a_launcher_have_the_ranks_of_their_first_communicator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(folder.path().join("segments")).expect("it can be made");
    let own =
        STARTED.replace("RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$size", "OWN_RANK=$rank OWN_SIZE=$size");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command
        .args(["--nccl", "on", "--output", "test.mpisee", "--segments"])
        .arg(folder.path().join("segments"));
    command.args(["bash", "-c", &own]);
    command.args(["bash", "2"]).arg(program()).current_dir(folder.path());
    // A shell does not know its launcher's ranks, but has the variables of one.
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    command.env("SLURM_PROCID", "0").env("SLURM_NTASKS", "1");
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    assert_eq!(sums(&tables), expected(2), "{said}");
    assert_eq!(left(folder.path()), 0, "a clean run leaves nothing");
}

#[case]
fn a_program_may_begin_with_a_group() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = start(folder.path(), &[], 2, &["group"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    let comm: Comm = ("N1".to_owned(), 4, "0-1".to_owned());
    let calls = [
        ("ncclCommInitRank", 4, 0),
        ("ncclGroupEnd", 2, 0),
        ("ncclAllReduce", 4, 4 * 101),
        ("ncclCommDestroy", 4, 0),
    ];
    let expected = calls.map(|(call, calls, bytes)| ((comm.clone(), call.to_owned()), (calls, bytes)));
    assert_eq!(sums(&tables), Sums::from(expected), "{said}");
}

#[case]
fn a_thread_with_the_smallest_stack_may_make_the_first_communicator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Debian's are optimised here; without optimisation a call takes more of a stack.
    let optimised = ["--flavour", "mpich-4.0"];
    let output = start(folder.path(), &optimised, 1, &["stack", &driver().display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    let directory = folder.path().join("test.mpisee");
    let comm: Comm = ("N1".to_owned(), 1, "0".to_owned());
    let calls = [("ncclCommInitRank", 1, 0), ("ncclAllReduce", 50, 50 * 109), ("ncclCommDestroy", 1, 0)];
    let expected = calls.map(|(call, calls, bytes)| ((comm.clone(), call.to_owned()), (calls, bytes)));
    assert_eq!(sums(&Tables::read(&directory, &said)), Sums::from(expected), "{said}");
    assert!(directory.join("gpus.csv").exists(), "the devices were looked at: {said}");
}

/// One thread begins the profile, and the others wait for it.
#[case]
fn threads_may_make_the_first_communicators_at_once() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = start(folder.path(), &[], 1, &["threads"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
        let of = |call: &str| {
            let rows = tables.calls.iter().filter(|row| row.call == call);
            rows.fold((0, 0), |(calls, bytes), row| (calls + row.calls, bytes + row.bytes))
        };
        assert_eq!(of("ncclCommInitRank"), (4, 0), "{said}");
        assert_eq!(of("ncclAllReduce"), (4 * 50, 4 * 50 * 109), "{said}");
        assert_eq!(of("ncclCommDestroy"), (4, 0), "{said}");
    }
}

/// MPI comes when NCCL has communicators already: by its library, which the program loads.
#[case]
fn an_mpi_that_is_initialised_later_ends_the_profile(mpi: &Mpi) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flavour = dist().join("lib/mpisee").join(&mpi.name).join("flavour.json");
    let flavour = std::fs::read_to_string(flavour).expect("dist has it");
    let flavour: serde_json::Value = serde_json::from_str(&flavour).expect("it is JSON");
    let library = flavour["library"].as_str().expect("it names the library");
    let mut command = mpi.launcher(1, &[]);
    command.arg(dist().join("bin/mpisee")).args(["--output", "test.mpisee", "--segments"]).arg(folder.path());
    command.arg(program()).args(["mpi", library]).current_dir(folder.path());
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", mpi.name);
    assert!(said.contains("the profile ends here"), "{}: {said}", mpi.name);
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    let profile = Profile::open(folder.path().join("test.mpisee")).expect("it was written");
    assert!(profile.run().notes.iter().any(|note| note.contains("the profile ends here")), "{}", mpi.name);
    let found: Vec<_> = tables.calls.iter().map(|row| (row.call.as_str(), row.calls)).collect();
    assert_eq!(found, [("ncclAllReduce", 3), ("ncclCommInitRank", 1)], "{}: {said}", mpi.name);
}

#[case]
fn what_a_killed_process_counted_is_recovered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = start(folder.path(), &[], 3, &["killed"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let directory = folder.path().join("test.mpisee");
    if !directory.exists() {
        // The killed one was the last to end.
        let segments = folder.path().join("segments").display().to_string();
        let recovered = through(&["recover", &segments, "--output", &directory.display().to_string()]);
        assert!(recovered.status.success(), "{said}{}", String::from_utf8_lossy(&recovered.stderr));
    }
    let tables = Tables::read(&directory, &said);
    let of = |rank: u32| {
        let rows = tables.calls.iter().filter(|row| row.rank == rank && row.call == "ncclAllReduce");
        rows.map(|row| (row.calls, row.bytes)).collect::<Vec<_>>()
    };
    assert_eq!([of(0), of(1)], [vec![(3, 3 * 83)], vec![(3, 3 * 83)]], "{said}");
}

/// Ranks end at different times: those that are done leave their counts, and the last one writes
/// the profile.
#[case]
fn the_last_process_to_end_writes_the_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = start_and_mark_ends(folder.path(), "after 2");
    let directory = folder.path().join("test.mpisee");
    assert!(said.contains("profile of 3 ranks"), "{said}");
    assert_eq!(sums(&Tables::read(&directory, &said)), expected(3), "{said}");
    assert_eq!(left(folder.path()), 0, "a clean run leaves nothing");
}

/// Starts processes that do not see each other's segments, as on a node each.
const STARTED_APART: &str = r#"
size=$1 launcher=$2; shift 2
for ((rank = 0; rank < size; rank++)); do
    mkdir -p segments/$rank
    (
        RANK=$rank LOCAL_RANK=0 WORLD_SIZE=$size "$launcher" --output test.mpisee --segments $PWD/segments/$rank "$@"
        [ $rank = $((size - 1)) ] || touch done.$rank
    ) &
done
wait"#;

fn start_apart(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("bash");
    command.args(["-c", STARTED_APART, "bash", "3"]).arg(dist().join("bin/mpisee")).arg(program());
    command.args(arguments).current_dir(folder);
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    String::from_utf8_lossy(&within(LIMIT, &mut command).stderr).into_owned()
}

/// The folders in which parts of a job wait for the others.
fn waiting(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read").path());
    entries.filter(|path| path.display().to_string().contains(".parts-")).collect()
}

#[case]
fn processes_of_several_nodes_have_one_profile() {
    // All at once, so that whoever comes first may find that all are there; and the last one after
    // the others.
    for (arguments, waits) in [(&[][..], 0..=1), (&["after", "2"], 1..=1)] {
        assert_have_one_profile(arguments, waits);
    }
}

fn assert_have_one_profile(arguments: &[&str], waits: RangeInclusive<usize>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = start_apart(folder.path(), arguments, &[]);
    let directory = folder.path().join("test.mpisee");
    assert_eq!(sums(&Tables::read(&directory, &said)), expected(3), "{said}");
    let profile = Profile::open(&directory).expect("it was written");
    assert_eq!((profile.run().ranks, profile.run().complete), (3, true), "{said}");
    assert_consistent(&directory);
    assert_eq!(said.matches("profile of 3 ranks in test.mpisee").count(), 1, "{said}");
    assert!(waits.contains(&said.matches("whoever ends last").count()), "the first says it: {said}");
    assert_eq!(waiting(folder.path()), Vec::<PathBuf>::new(), "{said}");
    for rank in 0..3 {
        let segments = folder.path().join("segments").join(rank.to_string());
        assert_eq!(
            std::fs::read_dir(segments).expect("it was made").count(),
            0,
            "a clean run leaves nothing"
        );
    }
}

#[case]
fn what_waits_for_a_process_that_never_ends_is_recovered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = start_apart(folder.path(), &["killed"], &[]);
    assert!(!folder.path().join("test.mpisee").exists(), "{said}");
    let [parts] = &waiting(folder.path())[..] else { panic!("no parts: {said}") };
    let directory = folder.path().join("recovered.mpisee").display().to_string();
    let places = ["rank-0", "rank-1"].map(|part| parts.join(part).display().to_string());
    let killed = folder.path().join("segments/2").display().to_string();
    let recovered = through(&["recover", &places[0], &places[1], &killed, "--output", &directory]);
    assert!(recovered.status.success(), "{said}{}", String::from_utf8_lossy(&recovered.stderr));
    let found = String::from_utf8_lossy(&recovered.stdout).into_owned();
    assert!(
        found.contains("incomplete profile of ranks 0-2 of 3"),
        "the killed rank is in it: {said}{found}"
    );
    let tables = Tables::read(Path::new(&directory), &said);
    let calls = |rank: u32| -> u64 {
        tables
            .calls
            .iter()
            .filter(|row| row.rank == rank && row.call == "ncclAllReduce")
            .map(|row| row.calls)
            .sum()
    };
    assert_eq!([calls(0), calls(1)], [3, 3], "{said}{found}");
}

/// Without a folder that all nodes see, each node has a profile of its own ranks.
#[case]
fn nodes_without_a_common_folder_have_a_profile_each() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let said = start_apart(folder.path(), &[], &[("LOCAL_WORLD_SIZE", "1")]);
    assert_eq!(waiting(folder.path()), Vec::<PathBuf>::new(), "{said}");
    assert_eq!(said.matches("profile of 1 rank of 3").count(), 3, "{said}");
}

#[case]
fn each_call_has_its_line_of_python_and_its_region() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(["--nccl", "on", "--output", "test.mpisee", "--segments"]).arg(folder.path());
    command.arg("python3").arg(root().join("tests/programs/gpu/nccl_lines.py")).arg(super::plugin());
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    let output = within(LIMIT, command.current_dir(folder.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let directory = folder.path().join("test.mpisee");
    assert_consistent(&directory);
    let place = directory.display().to_string();
    let options = ["--call", "ncclAllReduce", "--skip-frames", "libplugin.so", "--format", "csv"];
    let answer = through(&[&["sites", &place], &options[..]].concat());
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut rows = text.lines();
    let column = |name: &str, heads: &[&str]| heads.iter().position(|head| *head == name).expect("a column");
    let heads: Vec<&str> = rows.next().expect("heads").split(',').collect();
    let (at, calls) = (column("at", &heads), column("calls", &heads));
    let mut found: Vec<(String, u64)> = rows
        .map(|row| row.split(',').collect::<Vec<_>>())
        .map(|cells| (cells[at].to_owned(), cells[calls].parse().expect("a number")))
        .collect();
    found.sort_unstable();
    let line = |function: &str, line: u32| format!("{function} at nccl_lines.py:{line} (by plugin_reduce)");
    assert_eq!(found, [(line("gradients", 13), 12), (line("loss", 17), 4)], "{text}");
    let tables = Tables::read(&directory, &said);
    let in_region: Vec<_> = tables
        .calls
        .iter()
        .filter(|row| row.call == "ncclAllReduce" && row.region == "step")
        .map(|row| (row.calls, row.bytes))
        .collect();
    assert_eq!(in_region, [(12, 12 * 83)]);
}
