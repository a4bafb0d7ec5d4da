//! Programs that start MPI without the profiler, or past it: one sentence says that there is no
//! profile, and why.

use mpisee_tests::{Ended, Mpi, Place, case, dist, root};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

fn mpisee() -> PathBuf {
    dist().join("bin/mpisee")
}

/// Asserts that the program ended well without a profile, and returns the sentence.
#[track_caller]
fn sentence(command: &mut Command) -> String {
    let ended = Ended::run(command);
    assert_eq!((ended.code, ended.profiles().len()), (Some(0), 0), "{}", ended.stderr);
    let [said] = &ended.said()[..] else { panic!("{}", ended.stderr) };
    (*said).to_owned()
}

fn launched(mpi: &Mpi) -> Command {
    let mut command = mpi.launcher(2, &[]);
    command.arg(mpisee());
    command
}

#[case]
fn a_wrapper_that_takes_the_profiler_away_is_reported(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/launched");
    let place = Place::new();
    let wrapper = |commands: &str| {
        let path = place.path("wrapper.sh");
        std::fs::write(&path, format!("#!/bin/bash\n{commands}\n\"$@\"\nrc=$?\nexit $rc\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    for commands in ["export LD_PRELOAD=libm.so.6", "unset LD_PRELOAD"] {
        let said = sentence(launched(mpi).arg(wrapper(commands)).arg(&program));
        assert!(
            said.starts_with("mpisee: rank 0 is in no profile: ") && said.contains("wrapper.sh"),
            "{said}"
        );
        assert!(said.contains("put `mpisee` directly before"), "{said}");
    }
    let said = sentence(launched(mpi).args(["env", "-u", "LD_PRELOAD"]).arg(&program));
    assert!(said.starts_with("mpisee: rank 0 is in no profile: ") && said.contains("env "), "{said}");
    // One that leaves it alone has a profile, and nothing else is said.
    let ended = Ended::run(launched(mpi).arg(wrapper("true")).arg(&program));
    assert_eq!((ended.said().len(), ended.profiles().len()), (1, 1), "{}", ended.stderr);
}

/// A program with an MPI of its own, and a wrapper that becomes what its arguments say.
fn with_own_mpi(place: &Place, arguments: &[&str]) -> [PathBuf; 2] {
    let program = place.path("own_mpi");
    let source = root().join("tests/programs/processes/plays_static_mpi.c");
    let compiled = Command::new("cc").args(arguments).arg(source).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    let wrapper = place.path("wrapper.sh");
    std::fs::write(&wrapper, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    [program, wrapper]
}

/// Nothing can be preloaded into a static program, and the launcher does not see it behind a
/// wrapper.
#[case]
fn a_static_program_behind_a_wrapper_is_reported(mpi: &Mpi) {
    let place = Place::new();
    let [program, wrapper] = with_own_mpi(&place, &["-static"]);
    // It may end before it is looked at, on a busy machine.
    let mut sentences = ["1", "4", "16", "64"]
        .into_iter()
        .map(|seconds| sentence(launched(mpi).arg(&wrapper).arg(&program).arg(seconds)));
    let named = sentences.find(|said| !said.contains("nothing that")).expect("it is seen once");
    let expected = format!(
        "mpisee: rank 0 is in no profile: {0} started {1}, which is linked statically, so {1} had no profiler; link it \
         dynamically",
        wrapper.display(),
        program.display()
    );
    assert_eq!(named, expected);
}

/// The profiler is loaded, and the program's calls do not reach it.
#[case]
fn a_static_mpi_in_a_dynamic_program_is_reported(mpi: &Mpi) {
    let place = Place::new();
    let [program, wrapper] = with_own_mpi(&place, &[]);
    for command in [vec![&program], vec![&wrapper, &program]] {
        let said = sentence(launched(mpi).args(command));
        let expected = format!(
            "mpisee: no profile was written: {} is linked with a static MPI, whose calls do not reach the profiler; link \
             MPI dynamically",
            program.display()
        );
        assert_eq!(said, expected);
    }
}

#[case]
fn calls_that_go_past_the_profiler_are_reported(mpi: &Mpi) {
    const SOURCE: &str = "lifecycle/past_the_profiler";
    let library = mpi.compile_variant(SOURCE, "library", &["-DLIBRARY", "-shared", "-fPIC"]);
    let opens = mpi.compile_variant(SOURCE, "opens", &["-DOPENS", "-ldl"]);
    // Whether an MPI was called that is out of sight is not known.
    let apart = mpi.compile_variant(SOURCE, "apart", &["-DAPART", "-ldl"]);
    let said = sentence(launched(mpi).arg(&apart).arg(&library));
    assert!(said.contains("has loaded MPI by dlmopen"), "{said}");
    // Open MPI's MPI_Init crashes in a name space of its own, also without the profiler.
    if !mpi.is_open_mpi {
        let said = sentence(launched(mpi).arg(&apart).arg("calls").arg(&library));
        assert!(said.starts_with("mpisee: no profile was written: "), "{said}");
        let why = "has loaded MPI by dlmopen, and no call from that name space reaches the profiler";
        assert!(said.contains(why), "{said}");
    }
    for command in [vec![mpi.compile(SOURCE)], vec![opens, library]] {
        let said = sentence(launched(mpi).args(&command));
        assert!(said.contains("its call of MPI_Init did not reach the profiler"), "{command:?}: {said}");
    }
}

/// Two tools by the profiling interface: of each call the first one passes on what the second one
/// cannot see.
#[case]
fn another_tool_before_the_profiler_is_reported(mpi: &Mpi) {
    let tool = mpi.compile_variant("lifecycle/another_tool", "library", &["-shared", "-fPIC"]);
    let program = mpi.compile("lifecycle/launched");
    let said = sentence(
        launched(mpi)
            .args(["sh", "-c", "LD_PRELOAD=\"$0:$LD_PRELOAD\" exec \"$@\""])
            .arg(&tool)
            .arg(&program),
    );
    assert!(said.contains("its call of MPI_Init did not reach the profiler"), "{said}");
    // Behind the profiler it sees nothing, and the profile is whole.
    let behind = "LD_PRELOAD=\"$LD_PRELOAD:$0\" exec \"$@\"";
    let ended = Ended::run(launched(mpi).args(["sh", "-c", behind]).arg(&tool).arg(&program));
    assert_eq!((ended.said().len(), ended.profiles().len()), (1, 1), "{}", ended.stderr);
    assert_eq!(ended.tables(&ended.profiles()[0]).sum("W", "MPI_Allreduce").bytes, 2 * 307);
}

/// As behind sudo, which gives its program another user and takes the preload away.
#[case]
fn a_program_of_another_user_is_reported(mpi: &Mpi) {
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    if !Command::new(nobody[0]).args(&nobody[1..]).arg("true").status().is_ok_and(|it| it.success()) {
        mpisee_tests::harness::leave_out("nothing can be run as another user here");
        return;
    }
    let mut command = alone(mpi);
    command.args(["sh", "-c", "\"$@\"; exit $?", "sh"]).args(nobody).args(["env", "-u", "LD_PRELOAD"]);
    let said = sentence(command.arg(mpi.compile("lifecycle/launched")));
    assert!(said.contains("sh started ") && said.contains("launched without LD_PRELOAD"), "{said}");
}

/// Programs of coreutils close their stderr in an exit handler, before the profiler could say
/// something.
#[case]
fn a_program_that_closes_its_stderr_at_its_end_is_reported(mpi: &Mpi) {
    // The standby cannot tell a program that is slow to end from one that goes on without stderr.
    const TRIES: usize = 10;
    let is_reported = || {
        let ended = Ended::run(launched(mpi).args(["sleep", "0"]));
        ended.said().iter().any(|said| said.contains("nothing that sleep ran"))
    };
    assert!((0..TRIES).any(|_| is_reported()));
}

/// A program run without a launcher. Open MPI as root needs these variables.
fn alone(mpi: &Mpi) -> Command {
    let mut command = Command::new(mpisee());
    command.args(["--flavour", &mpi.name]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// The program ends before the one that it started calls MPI_Init.
#[case]
fn nothing_is_said_of_a_program_whose_child_records_after_its_end(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/late_child");
    let of_shell = ["bash", "-c", "\"$0\" $$ & exit 2"];
    for command in [&[][..], &of_shell] {
        let ended = Ended::run(alone(mpi).args(command).arg(&program));
        let [said] = ended.said()[..] else { panic!("{command:?}: {}", ended.stderr) };
        assert!(ended.code == Some(2) && said.starts_with("mpisee: profile of 1 rank in "), "{said}");
        assert_eq!(ended.tables(&ended.profiles()[0]).sum("W", "MPI_Allreduce").bytes, 353);
    }
}

#[case]
fn nothing_is_said_of_a_program_that_comes_by_exec_after_the_profile(mpi: &Mpi) {
    let ended = Ended::run(alone(mpi).arg(mpi.compile("lifecycle/goes_on")));
    let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
    assert!(ended.code == Some(4) && said.starts_with("mpisee: profile of 1 rank in "), "{said}");
    assert_eq!(ended.tables(&ended.profiles()[0]).sum("W", "MPI_Allreduce").bytes, 359);
}

/// Open MPI 4 starts a daemon for a process that has no launcher. It inherits the process's
/// environment and outlives it.
#[case]
fn a_process_without_a_launcher_whose_daemon_outlives_it_is_reported(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/launched");
    let said = sentence(alone(mpi).args(["env", "-u", "LD_PRELOAD"]).arg(program));
    assert!(said.starts_with("mpisee: no profile was written: "), "{said}");
}

#[case]
fn the_standby_leaves_nothing_and_delays_nobody(mpi: &Mpi) {
    let place = Place::new();
    let mut command = place.command(mpi, 2);
    command.args(["sh", "-c", "exit 5"]);
    let ended = place.run(&mut command);
    assert_eq!((ended.code, ended.place.left().len()), (Some(5), 0), "{}", ended.stderr);
}
