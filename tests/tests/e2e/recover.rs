//! Programs that end without `MPI_Finalize`: what every rank had completed is in the profile that
//! `mpisee-through recover` writes, and nothing else.

use crate::exact::{assert_all_seen, assert_calls, assert_peers};
use crate::sums::{all, assert_sums_of};
use mpisee_profile::Profile;
use mpisee_profile::rows::TotalRow;
use mpisee_profile::segment::file_name;
use mpisee_profile::segment::layout::HEADER_BYTES;
use mpisee_tests::place::{Staying, until_arrived};
use mpisee_tests::signal::SIGTERM;
use mpisee_tests::{LIMIT, Mpi, Place, Tables, case, dist, through, within};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const EVERYBODY: &str = "-1";

/// `ends HOW WHO SIZE` on 4 ranks in a folder of its own, about to run.
fn command(place: &Place, mpi: &Mpi, name: &str, arguments: [&str; 3]) -> Command {
    let folder = place.path(name);
    std::fs::create_dir(&folder).expect("each name is used once");
    let mut command = place.command(mpi, 4);
    command.arg(mpi.compile("lifecycle/ends")).args(arguments).current_dir(folder);
    command
}

/// Runs it to its end, which must not be a good one.
fn run(place: &Place, mpi: &Mpi, name: &str, arguments: [&str; 3]) {
    let others = place.left();
    let output = within(LIMIT, &mut command(place, mpi, name, arguments));
    let said = String::from_utf8_lossy(&output.stderr);
    let seen =
        || format!("{arguments:?}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stdout));
    assert!(!output.status.success() && !said.contains("not so"), "{}", seen());
    let tells = said.contains(" aborts the run; what the ranks counted is kept in ");
    // On a busy machine MPICH's launcher may end before it has read what the rank that aborts
    // wrote, MPICH's own line included.
    let is_lost = !mpi.is_open_mpi && arguments[0] == "abort" && said.is_empty();
    assert!(is_lost || tells == (arguments[0] == "abort"), "{}", seen());
    place.wait_for_ranks(&others);
}

/// Starts one that stays, and waits until all ranks have made their calls.
fn start(place: &Place, mpi: &Mpi, name: &str, size: &str) -> Staying {
    let staying = Staying::start(&mut command(place, mpi, name, ["stay", EVERYBODY, size]));
    until_arrived(&place.path(name), 4);
    staying
}

/// Asserts that the profile has what `ends` did by then, on the ranks `ranks`, and no more; `who`
/// did a bit more.
#[track_caller]
fn assert_counted(tables: &Tables, base: u64, ranks: &[u32], who: &[u32]) {
    assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), ranks);
    let mut peers = Vec::new();
    for &rank in ranks {
        let of = u64::from(rank);
        let (before, after) = ((rank + 3) % 4, (rank + 1) % 4);
        let mut calls = vec![
            ("MPI_Allreduce", 1, base + 13),
            ("MPI_Comm_split", 1, 0),
            ("MPI_Irecv", 1, base + 100 + u64::from(before)),
            ("MPI_Isend", 1, base + 100 + of),
            ("MPI_Waitall", 1, 0),
        ];
        peers.push(("W", rank, after, [1, base + 100 + of, 0, 0]));
        peers.push(("W", rank, before, [0, 0, 1, base + 100 + u64::from(before)]));
        if who.contains(&rank) {
            calls.push(("MPI_Sendrecv", 1, 2 * (base + 7)));
            peers.push(("W", rank, rank, [1, base + 7, 1, base + 7]));
        }
        assert_calls(tables, "W", rank, &calls);
        assert_calls(tables, "S", rank, &[]);
        let half = format!("W_s1.{}", rank % 2);
        assert_calls(tables, &half, rank, &[("MPI_Bcast", 3, if rank < 2 { 0 } else { 3 * (base + 29) })]);
        let members = if rank % 2 == 0 { "0,2" } else { "1,3" };
        let row = tables.comm(&half);
        assert_eq!((row.members.to_string().as_str(), row.label.as_str(), row.nodes), (members, "half", 1));
    }
    assert_peers(tables, &peers);
    assert_all_seen(tables);
    for row in &tables.ranks {
        assert!(row.mpi_s.0 > 0.0 && row.mpi_s.0 <= row.wall_s.0 && row.wall_s.0 < 60.0, "{row:?}");
        // What it used is read at its end; what it might use, at its begin.
        assert_eq!((row.cpu_user_s, row.cpu_wait_s, row.minor_faults), (None, None, None), "{row:?}");
        assert!(!row.cpus_allowed.is_empty() && row.node_cpus.is_some(), "{row:?}");
    }
    assert!(!tables.run.complete);
    assert_eq!(tables.run.ranks, 4);
    assert!(tables.run.command[0].ends_with("/ends"), "{:?}", tables.run.command);
    assert!(tables.run.mpi.library.contains("MPI"), "{:?}", tables.run.mpi);
}

/// Asserts that every command reads it, and that it is said to be incomplete and not to be wrong.
fn assert_readable(directory: &Path, why: &str) {
    for command in ["check", "summary", "comms"] {
        let output = through(&[command, &directory.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {said}{}", String::from_utf8_lossy(&output.stderr));
        let sentence = format!("The profile is incomplete: {why}.");
        assert!(command == "comms" || said.contains(&sentence), "{command}: {said}");
        assert!(!said.contains("DIFFERS"), "{said}");
    }
}

#[case]
fn however_a_run_ends_what_was_completed_is_recovered(mpi: &Mpi) {
    let ends = [
        ("kill", "2"),
        ("kill", EVERYBODY),
        ("term", "0"),
        ("term", EVERYBODY),
        ("abort", "1"),
        ("_exit", "3"),
        ("_exit", EVERYBODY),
        ("exit", "0"),
        ("exit", EVERYBODY),
    ];
    for (how, who) in ends {
        mpisee_tests::note!("{how} {who}");
        let place = Place::new();
        run(&place, mpi, "job", [how, who, "1000"]);
        assert_eq!(place.left().len(), 4, "{how} {who}");
        let said = place.recover(&[]);
        assert!(said.contains("incomplete profile of ranks 0-3 of 4, "), "{said}");
        let who: Vec<u32> = who.parse().map_or((0..4).collect(), |rank: u32| vec![rank]);
        assert_counted(&place.tables("ends.mpisee"), 1000, &[0, 1, 2, 3], &who);
        let why = "ranks 0-3 ended without MPI_Finalize";
        assert_readable(&place.path("ends.mpisee"), why);
        assert_eq!(place.left().len(), 4, "nothing is deleted unasked");
    }
}

#[case]
fn the_command_after_an_abort_recovers_that_run_alone(mpi: &Mpi) {
    let place = Place::new();
    run(&place, mpi, "another", ["kill", EVERYBODY, "1000"]);
    let others = place.left();
    let output = within(LIMIT, &mut command(&place, mpi, "job", ["abort", "1", "2000"]));
    place.wait_for_ranks(&others);
    let said = String::from_utf8_lossy(&output.stderr);
    let Some((_, command)) = said.lines().find_map(|line| line.split_once(", run: mpisee-through ")) else {
        // As above, MPICH's launcher may lose the line.
        assert!(!mpi.is_open_mpi && said.is_empty(), "{said}");
        return;
    };
    let words: Vec<&str> = command.split(' ').collect();
    let recovered = place.through(&words);
    let found = String::from_utf8_lossy(&recovered.stdout);
    assert_eq!(found.matches("incomplete profile of").count(), 1, "{command}: {found}");
    assert_counted(&place.tables("ends.mpisee"), 2000, &[0, 1, 2, 3], &[1]);
}

#[case]
fn a_batch_system_ends_the_launcher(mpi: &Mpi) {
    let place = Place::new();
    start(&place, mpi, "job", "2000").end(SIGTERM);
    place.wait_for_ranks(&[]);
    place.recover(&["--output", "given.mpisee", "--clean"]);
    assert_counted(&place.tables("given.mpisee"), 2000, &[0, 1, 2, 3], &[0, 1, 2, 3]);
    assert_eq!(place.left(), Vec::<PathBuf>::new());
    assert!(place.recover(&[]).starts_with("no segment of a process that ended is in "));
}

#[case]
fn jobs_are_recovered_separately_and_running_ones_left_alone(mpi: &Mpi) {
    let place = Place::new();
    let mut staying = start(&place, mpi, "staying", "3000");
    let running = place.left();
    run(&place, mpi, "first", ["kill", EVERYBODY, "4000"]);
    let said = place.recover(&["--clean"]);
    assert!(
        said.contains("ranks 0-3 of 4 run, process ") && said.contains("the segments are left alone"),
        "{said}"
    );
    let everybody = [0, 1, 2, 3];
    assert_counted(&place.tables("ends.mpisee"), 4000, &everybody, &everybody);
    let left = place.left();
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|path| running.contains(path)));

    run(&place, mpi, "second", ["kill", "1", "5000"]);
    staying.end(SIGTERM);
    place.wait_for_ranks(&[]);
    let said = place.recover(&[]);
    assert_eq!(said.matches("incomplete profile of ranks 0-3 of 4, ").count(), 2, "{said}");
    // The name is taken: numbers are added, to the run first that began first.
    assert_counted(&place.tables("ends-2.mpisee"), 3000, &everybody, &everybody);
    assert_counted(&place.tables("ends-3.mpisee"), 5000, &everybody, &[1]);
}

/// The rank of which a segment is.
fn rank_of(path: &Path) -> u64 {
    let bytes = std::fs::read(path).expect("it can be read");
    u64::from_ne_bytes(bytes[32..40].try_into().expect("the header is there"))
}

#[case]
fn parts_of_two_jobs_are_not_taken_for_one(mpi: &Mpi) {
    let place = Place::new();
    let everybody = [0, 1, 2, 3];
    run(&place, mpi, "first", ["kill", EVERYBODY, "1000"]);
    for path in place.left().iter().filter(|path| rank_of(path) > 1) {
        std::fs::remove_file(path).expect("it is there");
    }
    let of_the_first = place.left();
    run(&place, mpi, "second", ["kill", EVERYBODY, "2000"]);
    for path in place.left().iter().filter(|path| rank_of(path) < 2 && !of_the_first.contains(path)) {
        std::fs::remove_file(path).expect("it is there");
    }
    assert_eq!(place.left().len(), 4);
    place.recover(&["--clean"]);
    assert_counted(&place.tables("ends.mpisee"), 1000, &[0, 1], &everybody);
    assert_counted(&place.tables("ends-2.mpisee"), 2000, &[2, 3], &everybody);
}

#[case]
fn segments_of_ended_processes_without_counts_can_be_removed() {
    let place = Place::new();
    let mut process = Command::new("true").spawn().expect("there is true");
    let pid = process.id();
    process.wait().expect("it ends");
    let user = std::fs::metadata(place.segments()).expect("it is there").uid();
    for number in [1, 2] {
        let path = place.segments().join(file_name(user, pid, number));
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|file| file.set_len(HEADER_BYTES as u64)).expect("the folder can be written");
    }
    let kept = place.through(&["recover"]);
    let said = String::from_utf8_lossy(&kept.stderr);
    assert_eq!(kept.status.code(), Some(2), "{said}");
    let why = format!("nothing is in it; process {pid} ended before it began to record");
    assert!(said.starts_with("mpisee-through: 2 segments are skipped") && said.contains(&why), "{said}");
    let said = place.recover(&["--clean"]);
    assert!(said.contains("2 segments are removed, the first of them '"), "{said}");
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[case]
fn worlds_of_one_run_get_a_profile_each(mpi: &Mpi) {
    // MPICH 4.0 in Debian cannot spawn.
    let is_without = mpi.is_left_out(&["openmpi-5"], "processes that are spawned do not get what -x gave");
    if !mpi.is_open_mpi || is_without {
        return;
    }
    let place = Place::new();
    let library = mpi.library().display().to_string();
    let segments = place.segments().display().to_string();
    let variables = [("LD_PRELOAD", library), ("MPISEE_SEGMENTS", segments)];
    let mut command = mpi.launcher(2, &variables.map(|(name, value)| (name.to_owned(), value)));
    command.arg(mpi.compile("dynamic/worlds_end")).current_dir(place.path(""));
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    assert_eq!(place.left().len(), 4);
    place.recover(&[]);
    for (name, bytes, spawns) in [("worlds_end.mpisee", 11, 1), ("worlds_end-spawned.mpisee", 22, 0)] {
        let tables = place.tables(name);
        assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), [0, 1]);
        for rank in 0..2 {
            let of = |call| tables.of_rank("W", call, rank);
            assert_eq!((of("MPI_Allreduce").calls, of("MPI_Allreduce").bytes), (1, bytes), "{name}");
            assert_eq!(of("MPI_Comm_spawn").calls, spawns, "{name}");
        }
    }
}

#[case]
fn a_script_around_each_rank_does_not_part_them(mpi: &Mpi) {
    let place = Place::new();
    let mut command = mpi.launcher(4, &[]);
    // A command after the program keeps the shell from exec'ing the program.
    command.args(["sh", "-c", "\"$@\"; code=$?; exit $code", "script"]);
    command.arg(dist().join("bin/mpisee")).arg("--segments").arg(place.segments());
    command.arg(mpi.compile("lifecycle/ends")).args(["kill", EVERYBODY, "1000"]).current_dir(place.path(""));
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    let said = place.recover(&[]);
    assert!(said.contains("incomplete profile of ranks 0-3 of 4, "), "{said}");
}

#[case]
fn a_rank_without_a_segment_is_named_and_one_that_is_broken_is_skipped(mpi: &Mpi) {
    let place = Place::new();
    run(&place, mpi, "job", ["kill", EVERYBODY, "6000"]);
    for path in place.left() {
        match rank_of(&path) {
            1 => std::fs::remove_file(&path).expect("it is there"),
            // The chunk after the header has no bytes.
            2 => {
                let mut bytes = std::fs::read(&path).expect("it can be read");
                bytes[HEADER_BYTES + 8..HEADER_BYTES + 16].fill(0);
                std::fs::write(&path, bytes).expect("it can be written");
            }
            _ => {}
        }
    }
    let output = place.through(&["recover", "--clean"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let why = format!("is skipped: not a readable segment: the chunk at byte {HEADER_BYTES} says");
    assert!(said.contains(&why), "{said}");
    assert_counted(&place.tables("ends.mpisee"), 6000, &[0, 3], &[0, 3]);
    let why = "ranks 0,3 ended without MPI_Finalize; rank 1 left no segment here; rank 2 left a segment that \
               cannot be read";
    assert_readable(&place.path("ends.mpisee"), why);
    assert_eq!(place.left().len(), 1, "what was not recovered stays");
}

#[case]
fn above_the_limit_of_the_run_sums_over_ranks_are_recovered(mpi: &Mpi) {
    let place = Place::new();
    let variables = [("MPISEE_FOLD", "3"), ("MPISEE_ALIKE", "5")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut command = mpi.launcher(6, &variables);
    command.arg(dist().join("bin/mpisee")).arg("--segments").arg(place.segments());
    command.arg(mpi.compile("communicators/parts")).arg("kill").current_dir(place.path("."));
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    let recover_both = |sums: &str, rows: &str| {
        place.recover(&["--output", sums]);
        place.recover(&["--output", rows, "--fold", "6"]);
        let [sums, rows] = [sums, rows].map(|name| place.path(name));
        assert_sums_of(&rows, &sums);
        sums
    };
    let sums = recover_both("sums.mpisee", "rows.mpisee");
    assert_readable(&sums, "ranks 0-5 ended without MPI_Finalize");
    let totals: Vec<TotalRow> = all(&Profile::open(&sums).expect("it is a profile"));
    let of = |is_in: &dyn Fn(&str) -> bool, call: &str| {
        let rows = totals.iter().filter(|row| is_in(&row.comm) && row.call == call);
        rows.fold((0, 0), |sum, row| (sum.0 + row.calls, sum.1 + row.bytes))
    };
    let own = (1..=6).sum::<u64>();
    assert_eq!(of(&|comm| comm.starts_with("S_d"), "MPI_Allreduce"), (own, 907 * own));
    assert_eq!(of(&|comm| comm == "W_s1.*@3", "MPI_Comm_dup"), (6 * 12, 0));
    // Messages of the roots to two others each: four copies with rows of their own, and the rest in
    // one.
    let (copies, bytes) = (6 * 12, 4 * (401..=412).sum::<u64>());
    assert_eq!(of(&|comm| comm.starts_with("W_s1.*_d"), "MPI_Bcast"), (copies, bytes));
    assert_eq!(of(&|comm| comm == "W_j2", "MPI_Sendrecv"), (6, 2 * (503..509).sum::<u64>()));

    for path in place.left().iter().filter(|path| [0, 4].contains(&rank_of(path))) {
        std::fs::remove_file(path).expect("it is there");
    }
    let sums = recover_both("fewer-sums.mpisee", "fewer-rows.mpisee");
    assert_readable(&sums, "ranks 1-3,5 ended without MPI_Finalize; ranks 0,4 left no segment here");
}
