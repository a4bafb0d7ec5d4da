//! Programs started in all the ways that users start them: what they print, how they end, and what
//! the profiler says and leaves behind.
use mpisee_profile::{Profile, RunInfo};
use mpisee_tests::{Ended, Mpi, Place, Run, case, dist, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command to start programs with.
fn mpisee() -> PathBuf {
    dist().join("bin/mpisee")
}

fn pair(name: &str, value: impl AsRef<Path>) -> (String, String) {
    (name.to_owned(), value.as_ref().display().to_string())
}

/// A program run without a launcher. Open MPI as root needs these variables.
fn alone(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

#[case]
fn the_flavour_is_that_of_the_programs_mpi(mpi: &Mpi) {
    let finished =
        Run::new(mpi, "lifecycle/launched").argument("in put").argument("--output").argument("").profiled();
    assert_eq!(finished.stdout, "<in put>\n<--output>\n<>\n");
    let run = &finished.tables().run;
    assert_eq!(run.mpi.flavour, mpi.name);
    assert_eq!((run.ranks, run.nodes, run.complete), (4, 1, true));
    let program = mpi.compile("lifecycle/launched").display().to_string();
    assert_eq!(run.command, [program.as_str(), "in put", "--output", ""]);
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 4 * 307);
    assert!(run.not_seen.is_empty() && run.notes.is_empty() && !run.recording_was_off, "{run:?}");
    let said = finished.said();
    let expected = "mpisee: profile of 4 ranks in test.mpisee; read it with: mpisee-through test.mpisee";
    assert_eq!(said, [expected]);
    finished.check();
}

#[case]
fn a_profile_has_the_programs_name_where_its_first_thread_has_ended(mpi: &Mpi) {
    let program = mpi.compile_with("lifecycle/first_thread_ends", &["-pthread"]);
    let mut command = mpi.launcher(2, &[]);
    let ended = Ended::run(command.arg(mpisee()).arg(&program));
    let name = format!("{}.mpisee", program.file_name().expect("it has a name").to_string_lossy());
    assert_eq!((ended.code, ended.profiles()), (Some(0), vec![name.clone()]), "{}", ended.stderr);
    let tables = ended.tables(&name);
    assert_eq!(tables.run.command, [program.display().to_string()]);
    assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 2 * 433);
    assert!(tables.run.complete, "{}", ended.stderr);
}

#[case]
fn a_preloaded_library_needs_no_launcher(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/launched").ranks(2).argument(1).preloaded();
    assert_eq!(finished.stdout, "<1>\n");
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 2 * 307);
    finished.check();
}

#[case]
fn a_library_preloaded_into_everything_profiles_the_mpi_program_alone(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/launched");
    let script = r#"echo start | cat; /bin/true; "$0" from a script; sh -c 'exit 0'; echo end"#;
    let mut command = mpi.launcher(1, &[]);
    command.args(["sh", "-c", script]).arg(&program);
    command.env("LD_PRELOAD", mpi.library()).env("MPISEE_OUTPUT", "test.mpisee");
    let ended = Ended::run(&mut command);
    ended.assert_printed("start\n<from>\n<a>\n<script>\nend\n");
    assert_eq!(ended.profiles(), ["test.mpisee"]);
    assert_eq!(ended.said().len(), 1, "{}", ended.stderr);
    assert_eq!(ended.tables("test.mpisee").sum("W", "MPI_Allreduce").bytes, 307);
}

#[case]
fn a_library_preloaded_around_the_launcher_reaches_the_ranks(mpi: &Mpi) {
    let mut command = mpi.launcher(3, &[]);
    command.arg(mpi.compile("lifecycle/launched")).arg("a");
    command.env("LD_PRELOAD", mpi.library()).env("MPISEE_OUTPUT", "test.mpisee");
    let ended = Ended::run(&mut command);
    ended.assert_printed("<a>\n");
    assert_eq!(
        (ended.profiles(), ended.said().len()),
        (vec!["test.mpisee".to_owned()], 1),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.tables("test.mpisee").sum("W", "MPI_Allreduce").bytes, 3 * 307);
}

#[case]
fn a_program_linked_with_the_library_needs_nothing_else(mpi: &Mpi) {
    let folder = mpi.library().parent().unwrap().display().to_string();
    let (search, found) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let program = mpi.compile_with("lifecycle/linked", &[&search, &found, "-Wl,--no-as-needed", "-lmpisee"]);
    let mut command = mpi.launcher(2, &[pair("MPISEE_OUTPUT", "test.mpisee")]);
    let ended = Ended::run(command.arg(program));
    ended.assert_printed("");
    assert_eq!(ended.tables("test.mpisee").sum("W", "MPI_Allreduce").bytes, 2 * 311);
}

#[case]
fn output_and_exit_code_are_the_programs(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/garbage_and_code");
    let plain = Ended::run(mpi.launcher(2, &[]).arg(&program));
    let profiled = Ended::run(mpi.launcher(2, &[]).arg(mpisee()).arg(&program));
    assert_eq!((plain.code, plain.stdout.len()), (Some(3), 100_003));
    assert_eq!(profiled.code, Some(3), "{}", profiled.stderr);
    assert!(profiled.stdout == plain.stdout, "the output differs");
    assert_eq!(profiled.profiles(), ["garbage_and_code.mpisee"]);
}

#[case]
fn a_program_that_dies_is_reported_as_without_the_profiler_and_leaves_its_counters(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/dies");
    for signal in ["9", "11"] {
        let place = Place::new();
        let plain = Ended::run(mpi.launcher(1, &[]).arg(&program).arg(signal));
        let mut command = mpi.launcher(1, &[]);
        command.arg(mpisee()).arg("--segments").arg(place.segments()).arg(&program).arg(signal);
        let profiled = Ended::run(&mut command);
        assert_ne!(plain.code, Some(0));
        assert_eq!(profiled.code, plain.code, "signal {signal}:\n{}", profiled.stderr);
        assert_eq!((profiled.said().len(), profiled.profiles().len()), (0, 0), "{}", profiled.stderr);
        assert_eq!(place.left().len(), 1, "the counters of the dead rank");
    }
}

#[case]
fn the_wrong_library_records_nothing_and_says_so_once(mpi: &Mpi) {
    for other in Mpi::all().iter().filter(|other| other.is_open_mpi != mpi.is_open_mpi) {
        let mut command =
            mpi.launcher(2, &[pair("LD_PRELOAD", other.library()), pair("MPISEE_OUTPUT", "test.mpisee")]);
        let ended = Ended::run(command.arg(mpi.compile("lifecycle/launched")).arg("same"));
        ended.assert_printed("<same>\n");
        assert_eq!(ended.profiles(), [""; 0]);
        let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
        let expected = format!("mpisee: this libmpisee.so is for {}, the program runs ", other.name);
        assert!(said.starts_with(&expected), "{said}");

        let mut command = mpi.launcher(2, &[pair("LD_PRELOAD", other.library())]);
        let ended = Ended::run(command.arg(mpi.compile("lifecycle/garbage_and_code")));
        assert_eq!((ended.code, ended.stdout.len()), (Some(3), 100_003), "{}", ended.stderr);
    }
}

#[case]
fn programs_without_mpi_run_under_the_launcher_of_mpi(mpi: &Mpi) {
    let mut command = mpi.launcher(2, &[]);
    let ended = Ended::run(command.arg(mpisee()).args(["sh", "-c", "exit 0"]));
    ended.assert_printed("");
    let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
    assert!(said.contains("no profile"), "{said}");
    assert_eq!(ended.profiles().len(), 0);

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fixed");
    let source = root().join("tests/programs/lifecycle/no_mpi.c");
    let compiled = Command::new("cc").arg("-static").arg(source).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    // A launcher may end the others as soon as one has failed, so the exit code is that of one
    // alone.
    let ended = Ended::run(mpi.launcher(1, &[]).arg(mpisee()).arg(&program).arg("6"));
    assert_eq!((ended.code, ended.text().as_str()), (Some(6), "no MPI\n"), "{}", ended.stderr);
    let ended = Ended::run(mpi.launcher(2, &[]).arg(mpisee()).arg(&program));
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), "no MPI\nno MPI\n"), "{}", ended.stderr);
    let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
    assert!(said.contains("is linked statically"), "{said}");
}

#[case]
fn a_profile_that_exists_is_not_overwritten(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/launched");
    let mut command = mpi.launcher(2, &[]);
    command.arg(mpisee()).args(["--output", "here"]).arg(&program);
    let first = Ended::run(&mut command);
    assert_eq!(first.profiles(), ["here.mpisee"]);
    let before = std::fs::read(first.place.path("here.mpisee/calls.csv")).unwrap();
    let second = first.place.run(&mut command);
    assert_eq!(second.profiles(), ["here-2.mpisee", "here.mpisee"]);
    let expected = "mpisee: profile of 2 ranks in here-2.mpisee, since here.mpisee exists; read it with: \
                    mpisee-through here-2.mpisee";
    assert_eq!(second.said(), [expected]);
    assert_eq!(std::fs::read(second.place.path("here.mpisee/calls.csv")).unwrap(), before);
}

#[case]
fn a_profile_that_cannot_be_where_it_is_wanted_is_elsewhere_and_changes_nothing_else(mpi: &Mpi) {
    let place = Place::new();
    let mut command = mpi.launcher(2, &[]);
    command.arg(mpisee()).args(["--output", "no/such/folder/a.mpisee"]);
    command.arg("--segments").arg(place.segments()).arg(mpi.compile("lifecycle/garbage_and_code"));
    let ended = Ended::run(&mut command);
    assert_eq!((ended.code, ended.stdout.len()), (Some(3), 100_003), "{}", ended.stderr);
    let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
    // A rank writes it that may be in another directory than the first, so that the whole path is
    // said.
    let wanted = ended.place.path("no/such/folder/a.mpisee");
    assert!(
        said.starts_with(&format!("mpisee: cannot create '{}': ", wanted.display()))
            && said.contains("a.mpisee instead; read it with: mpisee-through /"),
        "{said}"
    );
    assert_eq!(ended.profiles(), ["a.mpisee"]);
    assert_eq!(place.left().len(), 0);
}

#[case]
fn wrong_options_are_reported_once(mpi: &Mpi) {
    let variables =
        [pair("MPISEE_RECORD", "maybe"), pair("MPISEE_OUTPT", "there"), pair("LD_PRELOAD", mpi.library())];
    let ended = Ended::run(mpi.launcher(3, &variables).arg(mpi.compile("lifecycle/launched")));
    ended.assert_printed("");
    let mut said = ended.said();
    said.sort_unstable();
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(
        said[0].starts_with("mpisee: MPISEE_OUTPT is not an option; there are MPISEE_OUTPUT, "),
        "{said:#?}"
    );
    assert_eq!(said[1], "mpisee: MPISEE_RECORD='maybe' is neither on nor off; the default on is used");
    assert!(said[2].starts_with("mpisee: profile of 3 ranks in launched.mpisee; "), "{said:#?}");
    assert_eq!(ended.tables("launched.mpisee").sum("W", "MPI_Allreduce").bytes, 3 * 307);
}

#[case]
fn a_quiet_profiler_says_nothing(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/launched").ranks(2).options(&["--quiet"]).profiled();
    assert!(!finished.stderr.contains("mpisee"), "{}", finished.stderr);
}

#[case]
fn nothing_is_left_of_the_segments(mpi: &Mpi) {
    let place = Place::new();
    let folder = place.segments().display().to_string();
    let finished = Run::new(mpi, "lifecycle/launched").options(&["--segments", &folder]).profiled();
    assert!(finished.tables().run.notes.is_empty());
    assert_eq!(place.left().len(), 0);
    finished.check();
}

#[case]
fn without_a_place_for_segments_counters_are_in_private_memory(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/launched").options(&["--segments", "/no/such/folder"]).profiled();
    let tables = finished.tables();
    assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 4 * 307);
    let [note] = &tables.run.notes[..] else { panic!("{:?}", tables.run.notes) };
    assert!(note.starts_with("no segment in '/no/such/folder' ("), "{note}");
    assert_eq!(finished.stderr.matches(note.as_str()).count(), 1, "{}", finished.stderr);
    finished.check();
}

#[case]
fn a_program_that_never_begins_mpi_leaves_a_line_alone(mpi: &Mpi) {
    let ended = Ended::run(mpi.launcher(2, &[]).arg(mpisee()).arg(mpi.compile("lifecycle/never_inits")));
    // Open MPI 5's launcher ends the other process as soon as one has failed.
    let least = if mpi.name.starts_with("openmpi-5") { 1 } else { 2 };
    let lines = ended.text().matches("never began\n").count();
    assert!(ended.code == Some(4) && (least..=2).contains(&lines), "{lines}: {}", ended.stderr);
    let said = ended.said();
    // It may have been rank 0 that was ended.
    if least == 1 && said.is_empty() {
        return;
    }
    let [line] = &said[..] else { panic!("{}", ended.stderr) };
    assert!(line.ends_with("never_inits ended without a call of MPI_Init, so there is no profile"), "{line}");
    assert_eq!(ended.profiles().len(), 0);
    // A shell's children may use MPI; these do not.
    let shell = ["sh", "-c", "true; /bin/true; exit 3"];
    let ended = Ended::run(mpi.launcher(2, &[]).arg(mpisee()).args(shell));
    assert_eq!((ended.code, ended.said().len()), (Some(3), 1), "{}", ended.stderr);
    assert!(ended.said()[0].contains("nothing that sh ran called MPI_Init"), "{}", ended.stderr);
}

#[case]
fn mpi_may_end_when_the_process_does(mpi: &Mpi) {
    for how in [&[][..], &["in the destructor"]] {
        let mut run = Run::new(mpi, "lifecycle/finalize_at_exit").ranks(2);
        for argument in how {
            run = run.argument(argument);
        }
        let finished = run.profiled();
        assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 2 * 331);
        finished.check();
    }
}

#[case]
fn children_of_a_process_do_not_disturb_it(mpi: &Mpi) {
    let place = Place::new();
    let folder = place.segments().display().to_string();
    let finished = Run::new(mpi, "processes/forks").ranks(2).options(&["--segments", &folder]).profiled();
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 2 * (337 + 347));
    assert_eq!(place.left().len(), 0);
    finished.check();
}

#[case]
fn a_program_may_begin_with_a_level_of_threads(mpi: &Mpi) {
    const LEVELS: [&str; 4] = ["single", "funneled", "serialized", "multiple"];
    for how in [&[][..], &["multiple"]] {
        let mut run = Run::new(mpi, "lifecycle/init_thread").ranks(2);
        for argument in how {
            run = run.argument(argument);
        }
        let finished = run.profiled();
        let provided: usize = finished.stdout.trim().parse().unwrap();
        assert_eq!(finished.tables().run.mpi.thread_level, LEVELS[provided]);
        assert_eq!(finished.tables().sum("W", "MPI_Allreduce").bytes, 2 * 317);
        finished.check();
    }
}

#[case]
fn a_program_without_a_launcher_is_a_run_of_one_rank(mpi: &Mpi) {
    let ended = Ended::run(alone(mpisee()).arg(mpi.compile("lifecycle/launched")).arg("alone"));
    ended.assert_printed("<alone>\n");
    let run: RunInfo = Profile::open(ended.place.path("launched.mpisee")).unwrap().run().clone();
    assert_eq!((run.ranks, run.mpi.flavour.as_str()), (1, mpi.name.as_str()));
    let tables = ended.tables("launched.mpisee");
    assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 307);
}

#[case]
fn an_output_with_a_slash_at_its_end_is_a_folder(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/in_order");
    let ended = Ended::run(mpi.launcher(1, &[]).arg(mpisee()).args(["-o", "./"]).arg(&program));
    let name = program.file_name().expect("a program has a name").to_string_lossy();
    assert_eq!(ended.profiles(), [format!("{name}.mpisee")]);
}

#[case]
fn ranks_that_another_mpi_started_are_said_to_be_apart() {
    let all: Vec<Mpi> = Mpi::all().into_iter().filter(|mpi| mpi.name.contains("-4.")).collect();
    for (mpi, other) in all.iter().flat_map(|mpi| all.iter().map(move |other| (mpi, other))) {
        let ended = Ended::run(other.launcher(2, &[]).arg(mpisee()).arg(mpi.compile("lifecycle/in_order")));
        let said: Vec<&str> = ended.said().into_iter().filter(|it| it.contains("of its own")).collect();
        let profiles = ended.profiles();
        if mpi.name == other.name {
            assert_eq!((said.len(), profiles.len()), (0, 1), "{}", ended.stderr);
            continue;
        }
        let launcher = if other.is_open_mpi { "Open MPI's mpirun" } else { "MPICH's mpiexec" };
        assert!(said.len() == 1 && said[0].contains(launcher), "{}", ended.stderr);
        assert_eq!(profiles.len(), 2);
        let notes = &ended.tables(&profiles[1]).run.notes;
        assert!(notes.iter().any(|note| note.contains("has started 2 processes")), "{notes:?}");
    }
}
