//! Children of ranks, and several jobs at once: nobody counts for another, and nobody removes what
//! is another's.

use mpisee_tests::place::{runs, until};
use mpisee_tests::{LIMIT, Mpi, Place, Run, Tables, case, through, within};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `children KIND …` on two ranks.
fn children(place: &Place, mpi: &Mpi, arguments: &[&str]) -> Command {
    let mut command = place.command(mpi, 2);
    command.args(["--output", "test.mpisee"]).arg(mpi.compile("processes/children")).args(arguments);
    command
}

/// The daemons of both ranks, which run.
fn daemons(place: &Place) -> Vec<u32> {
    let read =
        |rank: u32| std::fs::read_to_string(place.path(&format!("daemon.{rank}"))).expect("it wrote it");
    (0..2).map(|rank| read(rank).trim().parse().expect("a number")).collect()
}

/// Ends the daemons, and waits until they are gone.
fn end_daemons(place: &Place) {
    let daemons = daemons(place);
    std::fs::write(place.path("leave"), "").expect("it can be written");
    until("the daemons end", || !daemons.iter().any(|&pid| runs(pid)));
}

/// Asserts that no segment is left.
#[track_caller]
fn assert_none_left(place: &Place) {
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

/// Asserts the calls of `children` itself, and no others.
#[track_caller]
fn assert_counted(tables: &Tables, barriers: u64) {
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
    assert!(!tables.run.recording_was_off && tables.regions.is_empty(), "a child has written");
    for rank in 0..2 {
        let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for row in tables.calls.iter().filter(|row| row.rank == rank) {
            let sum = counts.entry(&row.call).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.bytes);
        }
        let expected = [("MPI_Allreduce", (2, 367 + 373)), ("MPI_Barrier", (barriers, 0))];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}

/// The number of lines that the profiler said.
fn lines(stderr: &[u8]) -> usize {
    String::from_utf8_lossy(stderr).lines().filter(|line| line.starts_with("mpisee")).count()
}

#[case]
fn children_neither_count_nor_speak_nor_remove(mpi: &Mpi) {
    for kind in ["vfork", "spawn", "system", "calls"] {
        let place = Place::new();
        let output = within(LIMIT, &mut children(&place, mpi, &[kind]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {said}");
        assert_eq!(lines(&output.stderr), 1, "{kind}: {said}");
        assert_counted(&place.tables("test.mpisee"), 1);
        assert_none_left(&place);
    }
}

#[case]
fn a_daemon_that_outlives_its_rank_changes_nothing(mpi: &Mpi) {
    let place = Place::new();
    let output = within(LIMIT, &mut children(&place, mpi, &["daemon"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && lines(&output.stderr) == 1, "{said}");
    assert!(daemons(&place).into_iter().all(runs), "they go on");
    assert_counted(&place.tables("test.mpisee"), 1);
    assert_none_left(&place);
    end_daemons(&place);
    assert_counted(&place.tables("test.mpisee"), 1);
    assert_none_left(&place);
    assert!(!place.path("test-2.mpisee").exists());
}

#[case]
fn the_counters_of_killed_ranks_are_recovered_while_and_after_a_daemon_has_them_too(mpi: &Mpi) {
    let place = Place::new();
    let output = within(LIMIT, &mut children(&place, mpi, &["orphan"]));
    assert!(!output.status.success());
    let recover = || place.recover(&["--output", "recovered.mpisee"]);
    until("both segments are there", || place.left().len() == 2);
    // Its ranks ended; that others have the memory mapped is no life.
    recover();
    end_daemons(&place);
    recover();
    assert_eq!(place.left().len(), 2, "nothing is removed unasked");
    for name in ["recovered.mpisee", "recovered-2.mpisee"] {
        let tables = place.tables(name);
        let of = |call| tables.of_rank("W", call, 0).calls + tables.of_rank("W", call, 1).calls;
        // The first that passes the last barrier may kill the other in it.
        assert_eq!(of("MPI_Allreduce"), 4);
        assert!((3..=4).contains(&of("MPI_Barrier")), "{}", of("MPI_Barrier"));
        assert!(tables.regions.is_empty() && !tables.run.recording_was_off);
    }
}

#[case]
fn a_child_with_a_world_of_its_own_has_a_profile_of_its_own(mpi: &Mpi) {
    let place = Place::new();
    let alone = mpi.compile("lifecycle/launched").display().to_string();
    let output = within(LIMIT, &mut children(&place, mpi, &["singleton", &alone]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(lines(&output.stderr), 2, "{said}");
    assert_counted(&place.tables("test.mpisee"), 1);
    let own = place.tables("launched.mpisee");
    assert_eq!((own.run.ranks, own.sum("W", "MPI_Allreduce").bytes), (1, 307));
    assert_none_left(&place);
}

#[case]
fn a_program_may_load_mpi_after_its_start(mpi: &Mpi) {
    let plugin = mpi.compile_with("processes/plugin", &["-shared", "-fPIC"]).display().to_string();
    for how in ["local", "global"] {
        let host = mpi.compile_with("processes/host", &["-Wl,--as-needed", "-ldl"]);
        let run =
            Run::from_program(mpi, host).argument(&plugin).argument(how).options(&["--flavour", &mpi.name]);
        let finished = run.profiled();
        let tables = finished.tables();
        assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 4 * 379, "{how}");
        assert_eq!(tables.sum("W", "MPI_Comm_split").calls, 4);
        // Of two parts, the second rank of each gets it.
        assert_eq!(tables.sum_where(|row| row.call == "MPI_Bcast").bytes, 2 * 383);
        assert!(tables.run.not_seen.is_empty());
        finished.check();
    }
}

#[case]
fn libraries_beside_one_with_mpi_can_be_unloaded(mpi: &Mpi) {
    let plugin = mpi.compile_with("processes/plugin", &["-shared", "-fPIC"]).display().to_string();
    let bystander = mpi.compile_with("processes/bystander", &["-shared", "-fPIC"]).display().to_string();
    let host = mpi.compile_with("processes/unloads", &["-Wl,--as-needed", "-ldl"]);
    let run = Run::from_program(mpi, host).argument(&plugin).argument(&bystander);
    let finished = run.options(&["--flavour", &mpi.name]).profiled();
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 4 * 379);
}

#[case]
fn a_library_may_have_functions_of_its_own_that_are_called_like_those_of_mpi_for_fortran(mpi: &Mpi) {
    let plugin = mpi.compile_with("processes/own_names", &["-shared", "-fPIC"]).display().to_string();
    let host = mpi.compile_with("processes/host", &["-Wl,--as-needed", "-ldl"]);
    let run =
        Run::from_program(mpi, host).argument(&plugin).argument("local").options(&["--flavour", &mpi.name]);
    let finished = run.profiled();
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").calls, 4);
    // All but the root get it.
    assert_eq!(finished.tables().sum("W", "MPI_Bcast").bytes, 3 * 389);
    finished.check();
}

#[case]
fn a_sequential_library_that_plays_mpi_for_itself_stays_as_it_is(mpi: &Mpi) {
    let plugin = mpi.compile_with("processes/plays_mpi", &["-shared", "-fPIC"]).display().to_string();
    for how in ["local", "global"] {
        let host = mpi.compile_with("processes/host", &["-Wl,--as-needed", "-ldl"]);
        let finished =
            Run::from_program(mpi, host).argument(&plugin).argument(how).ranks(1).preloaded_in_vain(mpi);
        assert_eq!(finished.stdout, "0, 0 0 0, 3 4\n", "{how}");
        assert_eq!(finished.stderr, "", "{how}");
    }
}

#[case]
fn jobs_in_one_folder_at_one_time_have_profiles_of_their_own() {
    let mpis = Mpi::all();
    let place = Place::new();
    // Two of each MPI, of one user on one node, which write under one name.
    let mut running = Vec::new();
    for mpi in mpis.iter().chain(&mpis) {
        let mut command = children(&place, mpi, &["calls"]);
        running.push(std::thread::spawn(move || within(LIMIT, &mut command)));
    }
    let count = running.len();
    let mut named: Vec<String> = Vec::new();
    for job in running {
        let output = job.join().expect("the thread only waits");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let message =
            said.lines().find(|line| line.starts_with("mpisee: profile of 2 ranks in ")).expect("it is said");
        named.push(message.split("mpisee-through ").nth(1).expect("how to read it").to_owned());
    }
    named.sort();
    let mut expected: Vec<String> = (2..=count).map(|number| format!("test-{number}.mpisee")).collect();
    expected.push("test.mpisee".to_owned());
    expected.sort();
    let names: Vec<String> = named.iter().map(|path| name_of(Path::new(path))).collect();
    assert_eq!(names, expected, "each job says where its own profile is");
    let mut flavours: Vec<String> = Vec::new();
    for name in &expected {
        let tables = place.tables(name);
        assert_counted(&tables, 1);
        flavours.push(tables.run.mpi.flavour);
        let check = through(&["check", &place.path(name).display().to_string()]);
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    }
    flavours.sort();
    let mut twice: Vec<String> = mpis.iter().chain(&mpis).map(|mpi| mpi.name.clone()).collect();
    twice.sort();
    assert_eq!(flavours, twice);
    assert_none_left(&place);
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("it has a name").to_string_lossy().into_owned()
}
