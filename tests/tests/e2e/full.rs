//! No room for the counters: a file system that is full at the start or gets full, limits on files
//! and on memory, calls that signals interrupt. The program does what it does without the profiler,
//! the profile at the end is whole, and of a program that is killed what the segment had room for
//! is recovered.

use mpisee_tests::{LIMIT, Mpi, Place, Tables, case, dist, through, within};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const RANKS: u32 = 2;
const COMMS: u64 = 150;
const KINDS: u64 = 14;

/// `growing` with these arguments. With a size the segments are in a file system of that size,
/// mounted where nobody else sees it; after the run what is left there is copied to `left`. Before
/// the run `before` is a line of shell.
fn run(place: &Place, mpi: &Mpi, size: Option<&str>, before: &str, arguments: &[&str]) -> Output {
    let mut command = mpi.launcher(RANKS, &[]);
    command.arg(dist().join("bin/mpisee")).arg("--segments").arg(place.segments());
    command
        .args(["--output", &text(&place.path("test.mpisee"))])
        .arg(mpi.compile("lifecycle/growing"))
        .args(arguments);
    let mut command = match size {
        None => command,
        Some(size) => {
            let segments = text(&place.segments());
            let script = format!(
                "mount -t tmpfs -o size={size} none '{segments}' || exit 99; {before}\n\"$@\"; code=$?\n\
                 rm -f '{segments}/filler'; mkdir '{left}'; sleep 0.3\n\
                 cp -p '{segments}'/* '{left}' 2>/dev/null; exit $code",
                left = text(&place.path("left"))
            );
            let mut inside = private_mounts();
            inside.args(["sh", "-c", &script, "script"]).arg(command.get_program()).args(command.get_args());
            for (name, value) in command.get_envs() {
                inside.env(name, value.unwrap_or_default());
            }
            inside
        }
    };
    within(LIMIT, command.current_dir(place.folder()))
}

fn assert_whole(place: &Place, output: &Output) {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n", "{said}");
    let tables = Tables::read(&place.path("test.mpisee"), &said);
    assert!(tables.run.complete && tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
    for rank in 0..RANKS {
        let of = |call| tables.of_rank("W", call, rank);
        assert_eq!((of("MPI_Allreduce").calls, of("MPI_Allreduce").bytes), (2, 2 * 359));
        assert_eq!(of("MPI_Comm_split").calls, COMMS);
        let on_parts =
            |call: &str| tables.sum_where(|row| row.comm != "W" && row.call == call && row.rank == rank);
        let one_of_each = (1..=COMMS).sum::<u64>();
        assert_eq!((on_parts("MPI_Allreduce").calls, on_parts("MPI_Allreduce").bytes), (COMMS, one_of_each));
        assert_eq!(on_parts("MPI_Bcast").calls, COMMS * KINDS);
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command behind which mounts are seen by nobody else.
fn private_mounts() -> Command {
    let mut command = Command::new("unshare");
    let options: &[&str] = if is_root() { &["--mount"] } else { &["--mount", "--map-root-user"] };
    command.args(options);
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Returns whether file systems can be mounted here; says so if not.
fn can_mount() -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = private_mounts();
    command.args(["mount", "-t", "tmpfs", "-o", "size=64k", "none"]).arg(folder.path());
    let can = command.output().is_ok_and(|output| output.status.success());
    if !can {
        mpisee_tests::harness::leave_out(
            "no file system can be mounted here, not even in a namespace of its own",
        );
    }
    can
}

#[case]
fn a_file_system_that_is_full_at_the_start_costs_nothing_but_the_recovery(mpi: &Mpi) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let filler = format!("head -c 65536 /dev/zero > '{}/filler'", text(&place.segments()));
    let output = run(&place, mpi, Some("64k"), &filler, &["none", "finalize"]);
    assert_whole(&place, &output);
    let said = said(&output);
    assert_eq!(said.matches("no segment in '").count(), 1, "{said}");
    assert!(said.contains("the counters are in private memory, and a killed rank loses them"), "{said}");
    assert_eq!(std::fs::read_dir(place.path("left")).unwrap().count(), 0, "nothing is left");
    let tables = Tables::read(&place.path("test.mpisee"), "");
    assert!(
        tables.run.notes.iter().any(|note| note.starts_with("no segment in '")),
        "{:?}",
        tables.run.notes
    );
}

#[case]
fn one_that_gets_full_is_no_reason_to_stop_counting(mpi: &Mpi) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let filler = text(&place.path("segments/filler"));
    let output = run(&place, mpi, Some("512k"), "", &["fill", &filler, "finalize"]);
    assert_whole(&place, &output);
    let said = said(&output);
    assert_eq!(said.matches(" cannot grow (").count(), RANKS as usize, "{said}");
    assert_eq!(std::fs::read_dir(place.path("left")).unwrap().count(), 0, "nothing is left");
}

#[case]
fn full_file_system_recovers_what_had_room_and_reports_the_rest_missing(mpi: &Mpi) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let filler = text(&place.path("segments/filler"));
    let output = run(&place, mpi, Some("512k"), "", &["fill", &filler, "kill"]);
    assert!(!output.status.success() && output.stdout.starts_with(b"through"), "{}", said(&output));
    let recovered =
        through(&["recover", &text(&place.path("left")), "-o", &text(&place.path("test.mpisee"))]);
    assert!(recovered.status.success(), "{}", said(&recovered));
    let tables = Tables::read(&place.path("test.mpisee"), "");
    let why = tables.run.incomplete_because.clone().unwrap_or_default();
    assert!(why.contains("ranks 0-1 found no room for all counters in the segment"), "{why}");
    for rank in 0..RANKS {
        let of = |call| tables.of_rank("W", call, rank);
        // Counters that had their place count on, after the trouble too.
        assert_eq!((of("MPI_Allreduce").calls, of("MPI_Allreduce").bytes), (2, 2 * 359));
        assert_eq!(of("MPI_Comm_split").calls, COMMS);
        let parts = tables.sum_where(|row| row.comm != "W" && row.rank == rank && row.call == "MPI_Bcast");
        assert!((KINDS..COMMS * KINDS).contains(&parts.calls), "{parts:?}");
    }
    let check = through(&["check", &text(&place.path("test.mpisee"))]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[case]
fn a_limit_on_files_does_not_end_the_program(mpi: &Mpi) {
    if mpi.is_left_out(&["mpich-5", "mpiabi"], "a limit on files ends the program") {
        return;
    }
    let place = Place::new();
    let output = run(&place, mpi, None, "", &["limit", "finalize"]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n");
    assert_eq!(said.matches(" cannot grow (File too large").count(), RANKS as usize, "{said}");
    // The profile consists of files, too.
    assert!(said.contains("mpisee: no profile: ") && said.contains(".csv': File too large"), "{said}");
}

#[case]
fn a_mask_that_takes_all_rights_leaves_the_owner_theirs(mpi: &Mpi) {
    let place = Place::new();
    assert_whole(&place, &run(&place, mpi, None, "", &["mask", "finalize"]));
    let mode = |path: &str| std::fs::metadata(path).expect("it was written").permissions().mode();
    let profile = text(&place.path("test.mpisee"));
    assert_eq!(mode(&profile) & 0o777, 0o700);
    for file in ["run.json", "ranks.csv", "calls.csv"] {
        assert_eq!(mode(&format!("{profile}/{file}")) & 0o777, 0o600, "{file}");
    }
}

#[case]
fn signals_that_interrupt_calls_and_little_address_space_change_nothing(mpi: &Mpi) {
    for trouble in ["timer", "space"] {
        let place = Place::new();
        let output = run(&place, mpi, None, "", &[trouble, "finalize"]);
        assert_whole(&place, &output);
        assert!(!said(&output).contains("cannot grow"), "{}", said(&output));
        assert_eq!(place.left().len(), 0, "nothing is left");
    }
}
