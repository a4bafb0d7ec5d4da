//! `mpisee --repeat`: a whole command run several times, with profiles that do not overwrite each
//! other, and the command that reads them.

use mpisee_tests::{Ended, Mpi, Place, case, dist};
use std::path::Path;
use std::process::Command;

/// `mpisee` with options, and the launcher of an MPI behind it, as it would be started alone.
fn repeated(mpi: &Mpi, options: &[&str], ranks: u32) -> Command {
    let launcher = mpi.launcher(ranks, &[]);
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(options).arg("--").arg(launcher.get_program()).args(launcher.get_args());
    for (name, value) in launcher.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder of the profiles");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[case]
fn runs_of_a_job_have_a_profile_each_and_are_read_by_the_command_that_is_printed(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/launched");
    let ended = Ended::run(repeated(mpi, &["--repeat", "2"], 2).arg(&program).arg("a"));
    ended.assert_printed("<a>\n<a>\n");
    assert_eq!(
        ended.said(),
        ["mpisee: 2 runs; profiles in launched.runs: mpisee-through runs launched.runs"]
    );
    assert_eq!(names(&ended.place.path("launched.runs")), ["launched-2.mpisee", "launched.mpisee"]);
    for name in ["launched", "launched-2"] {
        let tables = ended.tables(&format!("launched.runs/{name}.mpisee"));
        assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 2 * 307);
        assert_eq!((tables.run.ranks, tables.run.complete), (2, true));
    }
    let output = ended.place.through(&["runs", "launched.runs"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("2 runs of ") && text.contains("Calls and bytes are the same in all runs."),
        "{text}"
    );
}

#[case]
fn mpisee_inside_of_the_command_stays_where_it_is(mpi: &Mpi) {
    let place = Place::new();
    for (ranks, expected) in [(1, 1), (2, 2)] {
        let mut command = repeated(mpi, &["--repeat", "1", "--output", "all/"], ranks);
        command
            .arg(dist().join("bin/mpisee"))
            .args(["--instances", "0"])
            .arg(mpi.compile("lifecycle/launched"));
        let output = command.current_dir(place.folder()).output().expect("mpisee starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(names(&place.path("all")).len(), expected);
    }
    let output = place.through(&["runs", "all"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" on 1, 2 ranks\n") && text.contains("Speedup"), "{text}");
}

#[case]
fn a_run_that_fails_is_the_last_and_its_code_is_passed_on(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/garbage_and_code");
    let ended = Ended::run(repeated(mpi, &["--repeat", "3"], 2).arg(&program));
    assert_eq!((ended.code, ended.stdout.len()), (Some(3), 100_003), "one run: {}", ended.stderr);
    let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
    assert!(
        said.starts_with("mpisee: run 1 of 3 ended with exit code 3, so the other 2 are not started"),
        "{said}"
    );
}

#[case]
fn what_would_be_a_guess_is_refused_before_anything_runs(mpi: &Mpi) {
    let ended = Ended::run(repeated(mpi, &["--repeat", "2"], 2).args(["sh", "-c", "echo ran"]));
    assert_eq!((ended.code, ended.stdout.len()), (Some(2), 0), "{}", ended.stderr);
    let [said] = ended.said()[..] else { panic!("{}", ended.stderr) };
    assert!(said.contains("is not certain; put mpisee before it"), "{said}");
    assert!(!names(ended.place.folder()).iter().any(|name| name.ends_with(".runs")));
}
