//! The jobs in `examples/ci` run here for two commits, with stand-ins for what a CI installs and
//! builds.

use crate::pages::{prepare, write_script};
use mpisee_tests::{LIMIT, Mpi, case, dist, root, within};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs of the jobs that do nothing here: the installation is the one under test, and `app` is
/// compiled.
const STAND_INS: [(&str, &str); 5] = [
    ("sudo", "exec \"$@\""),
    ("apt-get", ":"),
    ("pip", "[ \"$1 $2\" = 'install wheel.whl' ]"),
    ("make", "[ \"$1\" = app ]"),
    ("git", "echo \"$CI_COMMIT_SHORT_SHA\""),
];

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines below a line that are indented further.
fn below<'t>(lines: &[&'t str], at: usize) -> Vec<&'t str> {
    let is_below = |line: &&&str| indent(line) > indent(lines[at]) || line.trim().is_empty();
    lines[at + 1..].iter().take_while(is_below).copied().collect()
}

/// The `run` steps of a workflow of GitHub, each after what steps before it have exported.
fn github_steps(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let step = |at: usize| match lines[at].trim().strip_prefix("run: ")? {
        "|" => Some(below(&lines, at).join("\n")),
        command => Some(command.to_owned()),
    };
    let with_exports = |step: String| format!("set -a; . \"$GITHUB_ENV\"; set +a\n{step}");
    (0..lines.len()).filter_map(step).map(with_exports).collect()
}

/// The script of a job of GitLab, after its variables, and what follows it in a shell of its own.
fn gitlab_steps(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let list = |key: &str| {
        let at = lines.iter().position(|line| line.trim() == key).expect("the job has this key");
        below(&lines, at).into_iter().map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    let commands = |key: &str| {
        let items = list(key).into_iter().map(|item| item.strip_prefix("- ").expect("a command").to_owned());
        items.collect::<Vec<_>>().join("\n")
    };
    // The variable of the project comes before that of the job.
    let variable = |line: String| {
        let (name, value) = line.split_once(": ").expect("a variable");
        match name {
            "MPISEE_WHEEL" => String::new(),
            _ => format!("export {name}=\"{}\"\n", value.trim_matches('"')),
        }
    };
    let variables: String = list("variables:").into_iter().map(variable).collect();
    vec![
        [variables.clone(), commands("before_script:"), commands("script:")].join("\n"),
        variables + &commands("after_script:"),
    ]
}

/// Runs a step for a commit, and returns what it prints.
fn run_step(folder: &Path, commit: &str, step: &str) -> String {
    let path = format!("bin:{}:/usr/bin:/bin", dist().join("bin").display());
    let mut shell = Command::new("bash");
    shell.args(["-e", "-c", step]).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", path).env("CI_COMMIT_SHORT_SHA", commit).env("MPISEE_WHEEL", "wheel.whl");
    shell.env("GITHUB_ENV", folder.join("exports")).env("OMPI_MCA_mpi_yield_when_idle", "1");
    let output = within(LIMIT, &mut shell);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{step}\n{}\n{stdout}\n{stderr}", output.status);
    stdout
}

fn is_open_mpi(mpi: &Mpi) -> bool {
    mpi.is_open_mpi
}

#[case(only = is_open_mpi)]
fn jobs_of_a_ci_keep_a_history(mpi: &Mpi) {
    for (template, steps_of) in
        [("github.yml", github_steps as fn(&str) -> Vec<String>), ("gitlab.yml", gitlab_steps)]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        prepare(folder, mpi);
        for (name, text) in STAND_INS {
            write_script(&folder.join("bin").join(name), text);
        }
        fs::write(folder.join("exports"), "").expect("it is a new folder");
        let expectations = "mpirun -n 2 mpisee -o good.mpisee ./app\n\
                            mpisee-through expect --write app.expect good.mpisee";
        run_step(folder, "", expectations);
        let text = fs::read_to_string(root().join("examples/ci").join(template)).expect("the template");
        let steps = steps_of(&text);
        assert!(steps.len() >= 2, "{template}: {steps:?}");
        let mut printed = String::new();
        for commit in ["a1b2c3d", "d4e5f6a"] {
            printed = steps.iter().map(|step| run_step(folder, commit, step)).collect();
        }
        let title = "2 entries from a1b2c3d to d4e5f6a\nNo lasting change";
        assert!(printed.contains(title), "{template}: {printed}");
        let page = fs::read_to_string(folder.join("history.html")).expect("the report");
        assert!(page.starts_with("<!doctype html>"), "{template}");
        let points = "mpisee-through runs --history history --table points --format csv";
        let points = run_step(folder, "", points);
        let walls = points.lines().filter(|line| line.contains(",3,wall_s,")).count();
        assert_eq!(walls, 2, "{template}: three runs of each commit\n{points}");
    }
}
