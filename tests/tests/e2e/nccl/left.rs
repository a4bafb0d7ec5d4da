//! Counts of processes without MPI that ended in another way than by an exit, or that had no room
//! for a segment.

use super::without_mpi::{OF_LAUNCHERS, STARTED, expected, left, program, start, start_and_mark_ends};
use super::{plugin, sums};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{LIMIT, Tables, case, dist, root, through, within};
use std::path::Path;
use std::process::Command;

/// The calls of `ncclAllReduce` of each rank that the profile has.
fn reductions(tables: &Tables) -> Vec<(u32, u64, u64)> {
    let rows = tables.calls.iter().filter(|row| row.call == "ncclAllReduce");
    rows.map(|row| (row.rank, row.calls, row.bytes)).collect()
}

fn recovered(folder: &Path) -> Tables {
    let (segments, directory) = (folder.join("segments"), folder.join("recovered.mpisee"));
    let [segments, output] = [&segments, &directory].map(|path| path.display().to_string());
    let recovered = through(&["recover", &segments, "--output", &output]);
    let said = String::from_utf8_lossy(&recovered.stderr).into_owned();
    assert!(recovered.status.success(), "{said}");
    let tables = Tables::read(&directory, &said);
    let why = tables.run.incomplete_because.as_deref().unwrap_or_default();
    assert!(why.contains("ended before the exit (killed, or by _exit or exec)"), "{why}");
    tables
}

/// The command at the end of a line, run: it says what it has recovered.
#[track_caller]
fn paste(said: &str) -> String {
    let command = said.lines().find_map(|line| line.split_once(", run: ")).expect("it tells a command").1;
    let mut shell = Command::new("bash");
    let search = format!("{}:/usr/bin:/bin", dist().join("bin").display());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = shell.args(["-c", command]).env("PATH", search).current_dir(folder.path()).output();
    let output = output.expect("there is a shell");
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program that comes by `exec` has the process, the rank and a segment of its own.
#[case]
fn what_comes_before_exec_is_left_beside_the_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let again = program().display().to_string();
    let output = start(folder.path(), &[], 2, &["exec", &again]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("profile of 2 ranks in test.mpisee"), "{said}");
    assert_eq!(said.matches("what ranks 0-1 counted before a call of exec is left").count(), 1, "{said}");
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    assert_eq!(sums(&tables), expected(2), "{said}");
    assert_eq!(tables.run.notes, ["what ranks 0-1 counted before a call of exec is not in it"]);
    assert_eq!(left(folder.path()), 2, "{said}");
    assert_eq!(reductions(&recovered(folder.path())), [(0, 3, 3 * 83), (1, 3, 3 * 83)]);
}

#[case]
fn a_program_that_comes_by_exec_and_has_no_profile_says_what_is_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = start(folder.path(), &[], 2, &["exec", "/bin/true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("of the program that ran before /bin/true in its process").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(reductions(&recovered(folder.path())), [(0, 3, 3 * 83), (1, 3, 3 * 83)]);
}

/// As torchrun, of which a process was killed: it ends the others.
#[case]
fn who_started_processes_says_what_they_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let segments = folder.path().join("segments");
    std::fs::create_dir_all(&segments).expect("it can be made");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(["--nccl", "on", "--segments"]).arg(&segments).args(["bash", "-c", STARTED, "bash", "2"]);
    command.arg(program()).args(["exec", "/bin/true"]).current_dir(folder.path());
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    let sentence = "mpisee: the counts are left of 2 processes that bash started and that ended before their \
                    exit; for a profile, run: mpisee-through recover --only ";
    assert!(said.contains(sentence) && said.contains(&format!(" {}\n", segments.display())), "{said}");
    assert!(paste(&said).contains("incomplete profile of ranks 0-1 of 2"), "{said}");
    assert_eq!(reductions(&recovered(folder.path())), [(0, 3, 3 * 83), (1, 3, 3 * 83)]);
}

/// A rank that is not the first: the others end before it, and nobody is left who could write a
/// profile.
#[case]
fn a_rank_alone_that_calls_exec_says_what_is_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wait = "'until [ -e done.0 -a -e done.1 ]; do sleep 0.01; done; exit 0'";
    let said = start_and_mark_ends(folder.path(), &format!("last-exec /bin/bash -c {wait}"));
    assert_eq!(said.matches("of the program that ran before /bin/bash in its process").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(
        reductions(&recovered(folder.path())),
        [(0, 3, 3 * 83), (1, 3, 3 * 83), (2, 3, 3 * 83)],
        "{said}"
    );
}

/// Children of multiprocessing's fork server are not those of the program, and end without exit
/// handlers as forked ones do.
#[case]
fn what_processes_of_python_leave_is_said() {
    for (method, left_by) in [("fork", 2), ("forkserver", 2), ("spawn", 0)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let segments = folder.path().join("segments");
        std::fs::create_dir_all(&segments).expect("it can be made");
        let mut command = Command::new(dist().join("bin/mpisee"));
        command.args(["--nccl", "on", "--output", "test.mpisee", "--segments"]).arg(&segments);
        let script = root().join("tests/programs/gpu/nccl_processes.py");
        command.arg("python3").arg(script).arg(method).arg(plugin()).current_dir(folder.path());
        for name in OF_LAUNCHERS {
            command.env_remove(name);
        }
        let output = within(LIMIT, &mut command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{method}: {said}");
        assert_eq!(left(folder.path()), left_by, "{method}: {said}");
        assert_eq!(said.contains("mpisee-through recover --only "), left_by > 0, "{method}: {said}");
        assert_eq!(said.contains(&format!(" {}\n", segments.display())), left_by > 0, "{method}: {said}");
        assert!(!said.contains("there is no profile"), "{method}: {said}");
        assert_eq!(said.matches("profile of 1 rank").count(), 2 - left_by, "{method}: {said}");
    }
}

/// A forked process is no rank: what it communicates is in no table, and is counted.
#[case]
fn calls_of_a_forked_process_are_not_seen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = start(folder.path(), &[], 2, &["fork"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    assert_eq!(sums(&tables), expected(2), "{said}");
    let reason = NotSeen::ForkedProcess.name().to_owned();
    // ncclCommInitRank, ncclAllReduce, ncclCommDestroy.
    assert_eq!(tables.run.not_seen, [(reason, 2 * (1 + 7 + 1))].into(), "{said}");
}

/// Where `mpisee` starts each process, the line of the profile's name is the only one that can name
/// what a killed rank left.
#[case]
fn what_a_killed_rank_left_is_said_beside_the_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = start_and_mark_ends(folder.path(), "first-killed 2");
    assert!(said.contains("profile of 2 ranks of 3 (rank 0 ended before the profile was written)"), "{said}");
    let folder_of_it = folder.path().join("segments").display().to_string();
    let left_by_it = "what rank 0 counted before the end is left: for a profile of it, run: mpisee-through recover --only ";
    assert!(said.contains(left_by_it) && said.contains(&format!(" {folder_of_it}\n")), "{said}");
    assert!(paste(&said).contains("incomplete profile of rank 0 of 3"), "{said}");
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    assert_eq!(reductions(&tables), [(1, 3, 3 * 83), (2, 3, 3 * 83)], "{said}");
    assert_eq!(reductions(&recovered(folder.path())), [(0, 3, 3 * 83)], "{said}");
}

#[case]
fn a_single_process_needs_no_room_for_a_segment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command
        .args(["--segments", "/dev/null", "--output", "test.mpisee"])
        .arg(program())
        .current_dir(folder.path());
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no segment in '/dev/null'"), "{said}");
    assert!(said.contains("profile of 1 rank in test.mpisee"), "{said}");
    assert_eq!(sums(&Tables::read(&folder.path().join("test.mpisee"), &said)), expected(1), "{said}");
}

/// A child that comes without the handlers of `fork` has all that the parent has, and exits as a
/// program does.
#[case]
fn a_child_leaves_the_profile_to_its_parent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = start(folder.path(), &[], 1, &["child"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("profile of 1 rank in test.mpisee") && said.lines().count() == 1, "{said}");
    assert_eq!(sums(&Tables::read(&folder.path().join("test.mpisee"), &said)), expected(1), "{said}");
}

/// Each rank has a communicator of its own, so that one may end while another writes its profile:
/// each is in one profile, and nothing is left.
#[case]
fn each_rank_is_in_one_profile_whenever_it_ends() {
    for _ in 0..12 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = start(folder.path(), &[], 4, &["threads"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let profiles = std::fs::read_dir(folder.path()).expect("it is there").flatten();
        let profiles = profiles
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "mpisee"));
        let mut ranks: Vec<u32> = Vec::new();
        for profile in profiles {
            ranks.extend(Tables::read(&profile, &said).ranks.iter().map(|row| row.rank));
        }
        ranks.sort_unstable();
        assert_eq!(ranks, [0, 1, 2, 3], "{said}");
        assert_eq!(left(folder.path()), 0, "{said}");
    }
}
