//! `recover` on segments that nobody's program wrote: cut off, overwritten, planted. Each gives one
//! sentence, and what can be read is recovered all the same.

use mpisee_collect::process;
use mpisee_profile::rows::{CallRow, CommRow, Memory, RankRow};
use mpisee_profile::segment::active_call::{self, CurrentFunction};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::Header;
use mpisee_profile::segment::log::{Created, Record, Runs};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, OperationAtSite, SlotKey, file_name};
use mpisee_profile::{CommId, CommRank, Operation, Profile, RegionId, WorldRank};
use proptest::prelude::*;
use std::mem::offset_of;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The number of a process that is gone.
fn gone() -> u32 {
    static PID: OnceLock<u32> = OnceLock::new();
    *PID.get_or_init(|| {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    })
}

/// Rank `rank` of 3 of one job, with an Allreduce that `rank` tells from the others'.
fn of_rank(rank: u32) -> Words {
    let mut words = Words::new(Owner { pid: gone(), host: "", world_rank: rank, world_size: 3 });
    for (place, value) in [
        (offset_of!(Header, start_ticks), 1000),
        (offset_of!(Header, start_monotonic_ns), 1000),
        (offset_of!(Header, last_ticks), 2_000_001_000),
        (offset_of!(Header, job), 17),
        (offset_of!(Header, boot), process::boot()),
        (offset_of!(Header, namespace), process::namespace()),
    ] {
        words.set(place, value);
    }
    let records = [
        Record::Created(Created::with_world(CommId::WORLD, CommRank::new(rank), Runs::first(3))),
        Record::Created(Created::with_world(CommId::SELF, CommRank::FIRST, just(rank))),
        Fact::Argument.record("./app"),
        Fact::Argument.record("two words"),
        Fact::Profile.record("app.mpisee"),
        Fact::Library.record("Some MPI"),
        Fact::Job.record("Slurm 61.0"),
    ];
    let (operation, memory) = (OperationAtSite::from_operation(Operation::Allreduce), Memory::Host);
    let key =
        CallKey { communicator: CommId::WORLD, region: RegionId::OUTSIDE, operation, size_class: 7, memory }
            .pack();
    words.log(&records).counters(&[(key, [1, 100 + u64::from(rank), 900, 901, 900, 0])])
}

/// A group of one process.
fn just(rank: u32) -> Runs {
    [WorldRank::new(rank)].into_iter().collect()
}

/// A directory with segments, and beside it the profiles.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.segments()).unwrap();
        place
    }

    /// With the segments of ranks 0 and 2, which can be read.
    fn with_two() -> Place {
        let place = Place::new();
        place.put(gone(), 0, &of_rank(0).bytes());
        place.put(gone(), 2, &of_rank(2).bytes());
        place
    }

    fn segments(&self) -> PathBuf {
        self.0.path().join("segments")
    }

    fn path(&self, pid: u32, number: u32) -> PathBuf {
        let user = std::fs::metadata(self.0.path()).unwrap().uid();
        self.segments().join(file_name(user, pid, number.into()))
    }

    fn put(&self, pid: u32, number: u32, bytes: &[u8]) -> PathBuf {
        use std::io::Write;
        let path = self.path(pid, number);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(bytes).unwrap();
        path
    }

    fn recover(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpisee-through"));
        command.arg("recover").args(arguments).current_dir(self.0.path());
        command.env("MPISEE_SEGMENTS", self.segments()).output().unwrap()
    }

    fn profile(&self, name: &str) -> Profile {
        Profile::open(self.0.path().join(name)).unwrap()
    }

    /// Expects that ranks 0 and 2 are recovered, and `path` is skipped with a sentence that has
    /// `why`.
    #[track_caller]
    fn skips(&self, path: &Path, why: &str) {
        let output = self.recover(&["--clean"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let first = said.lines().next().unwrap();
        assert!(first.starts_with(&format!("mpisee-through: '{}' is skipped: ", path.display())), "{said}");
        assert!(first.contains(why), "{said}");
        assert_eq!(
            said.lines().nth(1),
            Some("mpisee-through: a segment could not be read; it is left as it is")
        );
        assert_eq!(said.lines().count(), 2, "{said}");
        assert_eq!(bytes_by_rank(&self.profile("app.mpisee")), [(0, 100), (2, 102)]);
        assert!(std::fs::symlink_metadata(path).is_ok(), "what is skipped is not removed");
        assert_eq!(std::fs::read_dir(self.segments()).unwrap().count(), 1, "what is recovered is removed");
    }
}

fn bytes_by_rank(profile: &Profile) -> Vec<(u32, u64)> {
    // A changed byte may make the run one of very many ranks, whose profile has sums.
    let rows = profile.rows_if_any::<CallRow>().unwrap();
    rows.map(|row| row.map(|row| (row.rank, row.bytes)).unwrap()).collect()
}

#[test]
fn segments_of_a_killed_run_become_a_profile() {
    let place = Place::with_two();
    let output = place.recover(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = place.profile("app.mpisee");
    let run = profile.run();
    assert_eq!(
        run.incomplete_because.as_deref(),
        Some("ranks 0,2 ended without MPI_Finalize; rank 1 left no segment here")
    );
    assert_eq!((run.command.join("|").as_str(), run.mpi.library.as_str()), ("./app|two words", "Some MPI"));
    assert_eq!(run.job.as_deref(), Some("Slurm 61.0"));
    assert_eq!((run.complete, run.ranks, run.nodes), (false, 3, 1));
    let comms: Vec<_> = profile.rows::<CommRow>().unwrap().map(Result::unwrap).collect();
    let comms: Vec<_> = comms.iter().map(|row| (row.comm.as_str(), row.members.to_string())).collect();
    assert_eq!(comms, [("W", "0-2".to_owned()), ("S", "0,2".to_owned())]);
    // What was counted first is the last that is known, 2 s after the begin.
    let ranks: Vec<_> = profile.rows::<RankRow>().unwrap().map(Result::unwrap).collect();
    assert!(ranks.iter().all(|row| (row.wall_s.0 - 2.0).abs() < 1e-9), "{ranks:?}");
    // Once more it is not written, unless a name is given; the first stays.
    let output = place.recover(&["-o", "app.mpisee"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains(" in app-2.mpisee, since app.mpisee exists; read it with: mpisee-through app-2.mpisee"),
        "{said}"
    );
    assert_eq!(bytes_by_rank(&place.profile("app-2.mpisee")), [(0, 100), (2, 102)]);
    let output = place.recover(&["--clean"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stdout);
    let before = "these ranks were recovered before: app.mpisee; read it with: mpisee-through app.mpisee\n\
                  --clean removed 2 segments of these ranks\n";
    assert_eq!(said, before);
    assert!(!place.0.path().join("app-3.mpisee").exists());
    assert_eq!(std::fs::read_dir(place.segments()).unwrap().count(), 0);
    let output = place.recover(&[]);
    assert!(output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("no segment of a process that ended is in '")
    );
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let place = Place::with_two();
    for output in ["not/there/", "not/there/app.mpisee"] {
        let output = place.recover(&["--output", output]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("there is no folder 'not/there"), "{said}");
    }
}

#[test]
fn files_of_gpu_tracers_without_a_segment_are_cleaned() {
    let place = Place::with_two();
    let user = std::fs::metadata(place.0.path()).unwrap().uid();
    let gpu_file = |pid: u32, start: u64, namespace: u64| {
        let path = mpisee_profile::gpu::path(&place.segments(), user, pid, start, namespace);
        std::fs::write(&path, "").unwrap();
        path
    };
    // Of a process that is gone, one that runs, and one elsewhere.
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let own = process::look_at(std::process::id()).unwrap().start;
    let left = gpu_file(child.id(), 7, process::namespace());
    let running = gpu_file(std::process::id(), own, process::namespace());
    let elsewhere = gpu_file(child.id(), 7, process::namespace() + 1);
    assert!(place.recover(&[]).status.success() && left.exists());
    let output = place.recover(&["--clean"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("--clean removed 1 file with counts of GPUs"), "{said}");
    assert!(!left.exists() && running.exists() && elsewhere.exists());
}

#[test]
fn runs_are_listed_and_chosen_by_name_process_and_job() {
    let place = Place::new();
    let mut other = Command::new("true").spawn().unwrap();
    let (first, second) = (gone(), other.id());
    other.wait().unwrap();
    let run = |pid: u32, name: &str, job: &str| {
        let mut words = of_rank(0);
        words.set(offset_of!(Header, pid), pid.into());
        words.set(offset_of!(Header, job), pid.into());
        place.put(pid, pid, &words.log(&[Fact::Profile.record(name), Fact::Job.record(job)]).bytes())
    };
    let paths = [run(first, "one.mpisee", "Slurm 7_1.0"), run(second, "two.mpisee", "Slurm 8")];
    let listed = place.recover(&["--list"]);
    let said = String::from_utf8_lossy(&listed.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines.iter().any(|line| line.starts_with("one.mpisee: of 3 ranks, rank 0 ended, ")), "{said}");
    assert!(said.contains(&format!("processes {second}, Slurm 8, begun ")), "{said}");
    assert!(paths.iter().all(|path| path.exists()));

    let output = place.recover(&["--only", "three", "--clean"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is called 'three'"));
    assert!(place.recover(&["--only", "8", "--clean"]).status.success());
    assert!(paths[0].exists() && !paths[1].exists());
    assert!(place.recover(&["--only", "one", "--only", &first.to_string()]).status.success());
    place.profile("one.mpisee");
    place.profile("two.mpisee");
}

/// A number that no process can have, since Linux gives none from 2^22 on.
const NO_PROCESS: u32 = 1 << 22;

/// Runs of which all that is printed is the same on every machine and at every time.
fn left_behind() -> Place {
    let place = Place::new();
    let left = |rank: u32, pid: u32, job: u64, facts: &[Record]| {
        let mut words = of_rank(rank);
        words.set(offset_of!(Header, pid), pid.into());
        words.set(offset_of!(Header, job), job);
        // 2025-06-01T12:00:00Z
        words.set(offset_of!(Header, start_realtime_ns), 1_748_779_200_000_000_000);
        let waits = [
            active_call::pack(CurrentFunction::Operation(Operation::Recv), CommId::WORLD),
            500_001_000,
            0,
            0,
            0,
            0,
        ];
        let words = words.log(facts).counters(&[(SlotKey::ACTIVE_CALL, waits)]);
        place.put(pid, pid, &words.bytes());
    };
    left(0, NO_PROCESS, 17, &[]);
    left(2, NO_PROCESS + 2, 17, &[]);
    left(1, NO_PROCESS + 7, 18, &[Fact::Profile.record("lu.B.4.mpisee"), Fact::Job.record("Slurm 62.0")]);
    place
}

#[test]
fn recovered_runs_are_listed_and_reported() {
    let place = left_behind();
    let said = |name: &str, arguments: &[&str]| {
        let output = place.recover(&[&["segments"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        crate::support::golden(name, &String::from_utf8(output.stdout).unwrap());
    };
    said("recover-list", &["--list"]);
    said("recover-list-only", &["--list", "--only", "lu.B.4"]);
    said("recover-one", &["--only", "4194311"]);
    said("recover-all", &[]);
    said("recover-clean", &["--clean"]);
    said("recover-nothing", &[]);
    said("recover-nothing-list", &["--list"]);
}

#[test]
fn who_looks_for_a_profile_hears_of_ended_runs() {
    let place = left_behind();
    let said = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpisee-through"));
        command.args(arguments).current_dir(place.0.path()).env("MPISEE_SEGMENTS", place.segments());
        let output = command.output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let runs = "2 ended runs left their counts on this node (app, lu.B.4): mpisee-through recover --list\n";
    assert!(said(&[]).ends_with(&format!("\n\nENDED RUNS:\n  {runs}")));
    assert!(said(&["ops"]).ends_with(&format!("--help lists the options; {runs}")));
    assert!(said(&["ops", "nothing.mpisee"]).ends_with(&format!("; {runs}")));
    assert!(!said(&["--help"]).contains("ended run"));
    let only = "; an ended run 'lu.B.4' left its counts on this node: mpisee-through recover --only lu.B.4\n";
    assert!(said(&["lu.B.mpisee"]).ends_with(only), "{}", said(&["lu.B.mpisee"]));
    let one = "its counts are left: mpisee-through recover --only app\n";
    assert!(said(&["app.mpisee"]).ends_with(one), "{}", said(&["app.mpisee"]));
    place.recover(&["segments"]);
    assert!(!said(&["ops", "nothing"]).contains("ended run"), "all are recovered");
}

#[test]
fn two_of_one_rank_are_of_two_runs() {
    let place = Place::with_two();
    let mut other = of_rank(0);
    other.set(offset_of!(Header, start_realtime_ns), 1_000_000_000);
    place.put(gone(), 5, &other.bytes());
    assert!(place.recover(&[]).status.success());
    assert_eq!(bytes_by_rank(&place.profile("app.mpisee")), [(0, 100), (2, 102)]);
    assert_eq!(bytes_by_rank(&place.profile("app-2.mpisee")), [(0, 100)]);
}

#[test]
fn a_number_that_another_process_has_is_no_life() {
    let own = std::process::id();
    let start = process::look_at(own).unwrap().start;
    let mut words = of_rank(1);
    words.set(offset_of!(Header, pid), own.into());
    words.set(offset_of!(Header, process_start), start);
    let place = Place::with_two();
    let path = place.put(own, 1, &words.bytes());
    let output = place.recover(&["--clean"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains(&format!("rank 1 of 3 runs, process {own} since "))
            && said.contains(": the segment is left alone"),
        "{said}"
    );
    assert!(path.exists(), "{said}");
    assert!(
        place.profile("app.mpisee").run().incomplete_because.as_deref().unwrap().contains("rank 1 still ran")
    );
    assert_eq!(std::fs::read_dir(place.segments()).unwrap().count(), 3, "the run goes on");

    words.set(offset_of!(Header, process_start), start + 1);
    let place = Place::with_two();
    place.put(own, 1, &words.bytes());
    assert!(place.recover(&["--clean"]).status.success());
    assert_eq!(bytes_by_rank(&place.profile("app.mpisee")), [(0, 100), (1, 101), (2, 102)]);
    assert_eq!(std::fs::read_dir(place.segments()).unwrap().count(), 0);
}

#[test]
fn processes_of_another_container_are_not_judged() {
    let mut words = of_rank(1);
    words.set(offset_of!(Header, namespace), process::namespace() + 1);
    let place = Place::with_two();
    let path = place.put(gone(), 1, &words.bytes());
    place.skips(&path, "its process is in another container");
    assert!(place.recover(&["--ended"]).status.success());
    assert_eq!(bytes_by_rank(&place.profile("app-2.mpisee")), [(1, 101)]);
    // On another machine, or before the last start of this one, it ended in any case.
    words.set(offset_of!(Header, boot), process::boot() + 1);
    let place = Place::with_two();
    place.put(gone(), 1, &words.bytes());
    assert!(place.recover(&[]).status.success());
    assert_eq!(bytes_by_rank(&place.profile("app.mpisee")), [(0, 100), (1, 101), (2, 102)]);
}

#[test]
fn links_pipes_and_folders_are_not_opened() {
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("target");
    std::fs::write(&target, of_rank(1).bytes()).unwrap();
    let place = Place::with_two();
    std::os::unix::fs::symlink(&target, place.path(gone(), 1)).unwrap();
    place.skips(&place.path(gone(), 1), "it is a symbolic link");

    let place = Place::with_two();
    assert!(Command::new("mkfifo").arg(place.path(gone(), 1)).status().unwrap().success());
    place.skips(&place.path(gone(), 1), "it is no regular file");

    let place = Place::with_two();
    std::fs::create_dir(place.path(gone(), 1)).unwrap();
    place.skips(&place.path(gone(), 1), "it is no regular file");
}

#[test]
fn segments_that_others_may_write_are_skipped() {
    let place = Place::with_two();
    let path = place.put(gone(), 1, &of_rank(1).bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    place.skips(&path, "others than its owner may open it");

    let place = Place::with_two();
    let path = place.put(gone(), 1, &of_rank(1).bytes());
    // Only root can give files away.
    if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
        place.skips(&path, "and it belongs to user 65534");
    }
}

#[test]
fn a_segment_with_two_names_is_not_opened() {
    let place = Place::with_two();
    let path = place.put(gone(), 1, &of_rank(1).bytes());
    std::fs::hard_link(&path, place.0.path().join("another name")).unwrap();
    place.skips(&path, "it has 2 names");
}

#[test]
fn counters_without_room_in_the_file_are_reported_missing() {
    let place = Place::with_two();
    let mut words = of_rank(1);
    let length = words.bytes().len();
    words.set(offset_of!(Header, used), length as u64 + 4096);
    place.put(gone(), 1, &words.bytes());
    assert!(place.recover(&["--clean"]).status.success());
    let profile = place.profile("app.mpisee");
    assert_eq!(bytes_by_rank(&profile), [(0, 100), (1, 101), (2, 102)]);
    let why = profile.run().incomplete_because.clone().unwrap();
    assert!(why.contains("; rank 1 found no room for all counters in the segment, so that "), "{why}");
}

#[test]
fn one_that_contradicts_itself_is_skipped() {
    let changes: [(usize, u64, &str); 5] = [
        (offset_of!(Header, pid), 1, "and it says that it is of process 1"),
        (offset_of!(Header, world_rank), 3, "it says that it is of rank 3 of 3"),
        (offset_of!(Header, version), 2, "its layout has version 2"),
        (offset_of!(Header, operations), 0, "another version of mpisee wrote it"),
        (offset_of!(Header, used), 8, "it says that 8 bytes are in use"),
    ];
    for (place_in_header, value, why) in changes {
        let place = Place::with_two();
        let mut words = of_rank(1);
        words.set(place_in_header, value);
        place.skips(&place.put(gone(), 1, &words.bytes()), why);
    }
    let place = Place::with_two();
    let mut words = of_rank(1);
    words.set(offset_of!(Header, used), 1 << 40);
    words.set(offset_of!(Header, shared), 1 << 40);
    place.skips(&place.put(gone(), 1, &words.bytes()), "it is cut off: it has ");
    let place = Place::with_two();
    let empty = place.put(gone(), 1, &[]);
    let output = place.recover(&["--clean"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" is removed: nothing is in it; process ") && !empty.exists(), "{said}");
    let place = Place::with_two();
    place.skips(&place.put(std::process::id(), 1, &[0; 65_536]), "may be about to begin it");
}

#[test]
fn a_chain_of_names_does_not_grow_without_end() {
    let chain = |length: u32| {
        let created = |id: u32| {
            let group = just(1);
            let (parent, letter, n) = (Some(CommId::new(id - 1)), b'd', 4_000_000_000);
            Record::Created(Created {
                parent,
                letter,
                n,
                ..Created::with_world(CommId::new(id), CommRank::FIRST, group)
            })
        };
        of_rank(1).log(&(2..length).map(created).collect::<Vec<_>>())
    };
    let place = Place::with_two();
    let path = place.put(gone(), 1, &chain(20_000).bytes());
    let begin = Instant::now();
    place.skips(&path, "a name of a communicator or a region in it has ");
    assert!(begin.elapsed() < Duration::from_secs(20));
    let place = Place::with_two();
    place.put(gone(), 1, &chain(400).bytes());
    assert!(place.recover(&[]).status.success());
    assert_eq!(bytes_by_rank(&place.profile("app.mpisee")), [(0, 100), (1, 101), (2, 102)]);
}

#[test]
fn files_planted_by_another_user_are_neither_read_nor_removed() {
    // Only root can act as another user.
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("left out: this is not root, who could act as another user");
        return;
    }
    const NOBODY: u32 = 65_534;
    let place = Place::with_two();
    std::fs::set_permissions(place.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(place.segments(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    // In the name it is root's.
    let path = place.path(gone(), 1);
    let target = place.0.path().join("words");
    std::fs::write(&target, of_rank(1).bytes()).unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o644)).unwrap();
    use std::os::unix::process::CommandExt;
    let mut planting = Command::new("install");
    planting.args(["-m", "600"]).arg(&target).arg(&path).uid(NOBODY).gid(NOBODY);
    assert!(planting.status().unwrap().success());
    place.skips(&path, "its name is that of user 0, and it belongs to user 65534");

    // The other user can neither read nor remove what is root's, and gets an error that says so.
    let place = Place::with_two();
    std::fs::set_permissions(place.0.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::set_permissions(place.segments(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let program = place.0.path().join("mpisee-through");
    std::fs::copy(env!("CARGO_BIN_EXE_mpisee-through"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["recover", "--clean", "--user", "0"]).arg(place.segments()).current_dir(place.0.path());
    let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("mpisee-through: 2 segments are skipped, the first of them '"), "{said}");
    assert!(said.contains("': cannot open it: Permission denied"), "{said}");
    assert_eq!(std::fs::read_dir(place.segments()).unwrap().count(), 2);
}

#[test]
fn a_directory_that_is_none_is_named() {
    let place = Place::new();
    let output = place.recover(&["nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("mpisee-through: cannot read 'nowhere': "));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_that_changed_or_lack_never_cost_the_others(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let place = Place::with_two();
        let mut bytes = of_rank(1).bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        if is_cut {
            bytes.truncate(length.index(bytes.len()));
        }
        place.put(gone(), 1, &bytes);
        let begin = Instant::now();
        let output = place.recover(&[]);
        let said = String::from_utf8_lossy(&output.stderr);
        prop_assert!(matches!(output.status.code(), Some(0 | 2)) && !said.contains("panicked"), "{}", said);
        prop_assert!(begin.elapsed() < Duration::from_secs(20));
        prop_assert_eq!(said.contains("is skipped"), output.status.code() == Some(2));
        // What changed may have another name, or be of another run.
        let folders = std::fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().path());
        let profiles: Vec<_> = folders.filter(|path| *path != place.segments()).collect();
        let all: Vec<_> =
            profiles.iter().flat_map(|path| bytes_by_rank(&Profile::open(path).unwrap())).collect();
        prop_assert!(all.contains(&(0, 100)) && all.contains(&(2, 102)), "{:?}\n{}", all, said);
    }
}
