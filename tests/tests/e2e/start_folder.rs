//! Where a profile is if the program leaves the folder in which it was started, and the command
//! that reads it, pasted into a shell.

use mpisee_tests::{Ended, Mpi, Place, case, dist};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

fn mpisee() -> PathBuf {
    dist().join("bin/mpisee")
}

/// The command that the profiler said, run by a shell where the user stood.
#[track_caller]
fn paste(ended: &Ended) {
    let [said] = &ended.said()[..] else { panic!("{}", ended.stderr) };
    let command = said.split_once("read it with: ").expect("it tells the command").1;
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(command).current_dir(ended.place.folder());
    let through = dist().join("bin").display().to_string();
    let output = shell.env("PATH", format!("{through}:/usr/bin:/bin")).output().expect("there is a shell");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("MPI_Allreduce"), "{command}: {output:?}");
}

/// Runs `changes_folder` on three ranks, and asserts where its profile is.
#[track_caller]
fn run(mpi: &Mpi, options: &[&str], arguments: &[&str], profile: &str) {
    let place = Place::new();
    std::fs::create_dir(place.path("results")).expect("it is new");
    let mut command = mpi.launcher(3, &[]);
    command.arg(mpisee()).args(options).arg(mpi.compile("lifecycle/changes_folder")).args(arguments);
    let ended = place.run(&mut command);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.tables(profile).sum("W", "MPI_Allreduce").calls, 30);
    paste(&ended);
}

#[case]
fn a_program_that_leaves_its_folder_leaves_the_profile_where_the_user_stood(mpi: &Mpi) {
    for arguments in [&[][..], &["early"]] {
        run(mpi, &[], arguments, "changes_folder.mpisee");
        run(mpi, &["--output", "results/first"], arguments, "results/first.mpisee");
        run(mpi, &["--output", "results/"], arguments, "results/changes_folder.mpisee");
    }
}

#[case]
fn a_preloaded_library_knows_where_the_program_was_started(mpi: &Mpi) {
    let place = Place::new();
    let variables = [
        ("LD_PRELOAD".to_owned(), mpi.library().display().to_string()),
        ("MPISEE_OUTPUT".to_owned(), "first".to_owned()),
    ];
    let mut command = mpi.launcher(2, &variables);
    let ended = place.run(command.arg(mpi.compile("lifecycle/changes_folder")));
    assert_eq!(ended.tables("first.mpisee").sum("W", "MPI_Allreduce").calls, 20);
    paste(&ended);
}

#[case]
fn the_command_can_be_pasted_whatever_the_name(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/changes_folder");
    for name in [&b"my app"[..], b"-dash", b"it's", b"caf\xe9", "gr\u{fc}n".as_bytes(), b"$HOME;true"] {
        let place = Place::new();
        let name = OsStr::from_bytes(name);
        let mut command = mpi.launcher(2, &[]);
        let mut output = OsStr::new("--output=").to_owned();
        output.push(name);
        let ended = place.run(command.arg(mpisee()).arg(output).arg(&program));
        let mut profile = name.to_owned();
        profile.push(".mpisee");
        assert!(ended.place.folder().join(&profile).join("run.json").exists(), "{}", ended.stderr);
        paste(&ended);
    }
    // The program's own name.
    let place = Place::new();
    std::fs::copy(&program, place.path("my app")).expect("it can be copied");
    let mut command = mpi.launcher(2, &[]);
    let ended = place.run(command.arg(mpisee()).arg("./my app"));
    assert_eq!(ended.tables("my app.mpisee").sum("W", "MPI_Allreduce").calls, 20);
    paste(&ended);
}

#[case]
fn a_program_in_the_working_directory_is_found_as_the_launcher_finds_it(mpi: &Mpi) {
    let place = Place::new();
    std::fs::copy(mpi.compile("lifecycle/changes_folder"), place.path("own-program"))
        .expect("it can be copied");
    let in_folder = |command: &mut Command| {
        let output = command.current_dir(place.folder()).output().expect("the launcher is there");
        output.status.success()
    };
    let plain = in_folder(mpi.launcher(1, &[]).arg("own-program"));
    let profiled = in_folder(mpi.launcher(1, &[]).arg(mpisee()).arg("own-program"));
    // Open MPI's launcher looks there; MPICH's does in some versions.
    assert!(plain || !mpi.is_open_mpi);
    assert_eq!((profiled, place.path("own-program.mpisee").exists()), (plain, plain));
}
