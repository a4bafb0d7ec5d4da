//! The commands of pages run as they stand there, in the order of the page, and succeed.
//!
//! `mpirun` and `srun` start four ranks, whatever the page asks for. Every program is one that
//! ignores its arguments.

use mpisee_tests::{LIMIT, Mpi, case, dist, root, within};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A page, and commands for what it takes as given.
const PAGES: [(&str, &[&str]); 13] = [
    ("README.md", &[]),
    ("docs/introduction.md", &[]),
    ("docs/how-to/profile.md", &[]),
    ("docs/how-to/late-rank.md", &[PROFILE]),
    ("docs/how-to/slow-line.md", &[PROFILE]),
    ("docs/how-to/compare-runs.md", &["mpisee --repeat 2 -- mpirun mpisee ./app"]),
    (
        "docs/how-to/ci.md",
        &[
            "mpisee --repeat 2 -o good -- mpirun mpisee ./app",
            "mpisee --repeat 2 -o ci -- mpirun mpisee ./app",
        ],
    ),
    ("docs/how-to/report.md", &[PROFILE, RUNS, SCALING, HISTORY]),
    ("docs/how-to/export.md", &[PROFILE]),
    ("docs/how-to/many-ranks.md", &[]),
    ("docs/how-to/mpi-variables.md", &[]),
    ("docs/how-to/network.md", &[]),
    ("docs/how-to/over-time.md", &[]),
];
const PROFILE: &str = "mpirun mpisee ./app";
const SCALING: &str = "mpisee --repeat 2 -o scaling/ -- mpirun mpisee ./app";
const HISTORY: &str = "mpisee --repeat 2 -o history/a1b2c3d -- mpirun mpisee ./app";
const RUNS: &str = "for name in before after; do mpisee --repeat 2 -o $name -- mpirun mpisee ./app; done";

/// Words that begin a command that runs here.
const BEGINNINGS: [&str; 7] = ["mpirun", "srun", "mpisee", "mpisee-through", "mpisee-bench", "rm", "."];

/// Parts of commands that do not run here, and why.
const LEFT_OUT: [(&str, &str); 12] = [
    ("mpisee-through agent", "has a running job to look at; tested by itself"),
    ("n1/app.timeline", "is of two nodes"),
    ("mpisee-bench p2p", "measures, which takes long; tested by itself"),
    ("mpisee-bench tune", "measures, which takes long; tested by itself"),
    ("app.tuned.env", "is written by it"),
    ("--memory device", "has a GPU"),
    ("--backend", "has a GPU"),
    (".mpiP", "is written by another tool"),
    ("mpisee_1732492951.db", "is written by another tool"),
    ("--skip-frames", "is for functions of another program"),
    ("| dot", "is another tool"),
    ("--flavour mpich-4.0", "is another MPI's"),
];

/// The lines of `sh` blocks, with those that end in a backslash joined.
fn shell_lines(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

pub fn write_script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("it is a new folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is our file");
}

/// Puts the programs of the pages into a folder, and launchers into its `bin`.
pub fn prepare(folder: &Path, mpi: &Mpi) {
    let programs = folder.join("bin");
    fs::create_dir(&programs).expect("it is a new folder");
    let launcher = mpi.launcher(4, &[]);
    let words: Vec<_> = [launcher.get_program()].into_iter().chain(launcher.get_args()).collect();
    let words = words.iter().map(|word| word.to_str().expect("plain words")).collect::<Vec<_>>().join(" ");
    for name in ["mpirun", "srun"] {
        write_script(&programs.join(name), &format!("[ \"$1\" != -n ] || shift 2\nexec {words} \"$@\""));
    }
    let program = mpi.compile("communicators/halves");
    for name in ["app", "app-new", "solver", "a", "b"] {
        fs::copy(&program, folder.join(name)).expect("it was compiled");
    }
    write_script(&folder.join("app.sh"), "exec ./app");
    write_script(&folder.join("wrapper.sh"), "exec \"$@\"");
    write_script(
        &folder.join("rank-0.sh"),
        "[ \"$OMPI_COMM_WORLD_RANK\" != 0 ] || exec mpisee \"$@\"\nexec \"$@\"",
    );
}

fn is_open_mpi(mpi: &Mpi) -> bool {
    mpi.is_open_mpi
}

#[case(only = is_open_mpi)]
fn commands_run_as_pages_show_them(mpi: &Mpi) {
    let path = format!("bin:{}:/usr/bin:/bin", dist().join("bin").display());
    let mut left_out = [0; LEFT_OUT.len()];
    let mut failed = String::new();
    let mut ran = 0;
    for (page, before) in PAGES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(folder.path(), mpi);
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        let lines = before.iter().map(|&line| line.to_owned()).chain(shell_lines(&text));
        for (at, line) in lines.enumerate() {
            let begins = line.split_whitespace().next().is_some_and(|word| BEGINNINGS.contains(&word));
            let why = LEFT_OUT.iter().position(|(part, _)| line.contains(part));
            if let Some(reason) = why.filter(|_| begins) {
                left_out[reason] += 1;
            } else if begins || at < before.len() {
                ran += 1;
                let mut shell = Command::new("sh");
                shell.args(["-c", &line]).current_dir(folder.path()).stdin(Stdio::null());
                shell.env("PATH", &path).env("PREFIX", dist()).env("OMPI_MCA_mpi_yield_when_idle", "1");
                if line.contains("--watch") {
                    // The program takes no time, and its agent sees jobs that last 0.1 s.
                    shell.env("AWAITED", "app.timeline");
                }
                let output = within(LIMIT, &mut shell);
                if !output.status.success() {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    failed += &format!("{page}: {line}: {}\n{said}\n", output.status);
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(ran > 60, "{ran} commands ran");
    assert!(!left_out.contains(&0), "a reason of no command: {left_out:?}");
}
