//! Runs the tests of mpi4py without and with the profiler, and compares what came of each; see
//! `--help`.

use clap::Parser;
use mpisee_tests::python::{self, Stack};
use mpisee_tests::{Mpi, Tables, dist, root, through, within};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Run the tests of mpi4py twice without the profiler and once with it, and compare the outcome of
/// each test.
///
/// A test whose outcome differs between the two runs without is unsteady: with the profiler it may
/// be either. Exits with 1 if any other test has another outcome with the profiler, or if its
/// profile does not pass `mpisee-through check`. The tests of MPI_Pcontrol are left out: they
/// switch recording off, and then a profile cannot be checked; with Open MPI those of
/// MPI_Comm_spawn, too, which do not end there.
#[derive(Parser)]
struct Arguments {
    /// Processes
    #[arg(long, default_value_t = 1)]
    ranks: u32,
    /// The MPI, as --list has it; may be given again (default: all)
    #[arg(long, value_name = "NAME")]
    stack: Vec<String>,
    /// The modules whose names match; may be given again (default: all)
    #[arg(long, value_name = "REGEX")]
    module: Vec<String>,
    /// Leave out tests whose names contain this; may be given again
    #[arg(long, value_name = "PART")]
    without: Vec<String>,
    /// Show what can be given to --stack
    #[arg(long)]
    list: bool,
}

/// The time limit of one run.
const LIMIT: Duration = Duration::from_secs(900);

/// Outcome of each test, by rank and name.
type Outcomes = BTreeMap<(u32, String), String>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let stacks = Stack::all();
    if arguments.list {
        stacks.iter().for_each(|stack| println!("{}", stack.name()));
        return ExitCode::SUCCESS;
    }
    let names: BTreeSet<String> = stacks.iter().map(Stack::name).collect();
    if let Some(unknown) = arguments.stack.iter().find(|&name| !names.contains(name)) {
        eprintln!("Error: there is no '{unknown}'; there are {names:?}");
        return ExitCode::FAILURE;
    }
    let is_wanted = |name: &String| arguments.stack.is_empty() || arguments.stack.contains(name);
    let failures = stacks
        .iter()
        .filter(|stack| is_wanted(&stack.name()))
        .filter(|stack| !compare(&stack.name(), &stack.install(), &arguments))
        .count();
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns whether all outcomes are the same with the profiler.
fn compare(name: &str, mpi: &Mpi, arguments: &Arguments) -> bool {
    println!("{name}, {} rank(s)", arguments.ranks);
    let folder = root().join("target/mpi4py-suite").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("target can be written");
    let first = run(mpi, arguments, &folder, "without", false);
    let second = run(mpi, arguments, &folder, "again", false);
    let profiled = run(mpi, arguments, &folder, "with", true);

    let tests: BTreeSet<&(u32, String)> = first.keys().chain(second.keys()).chain(profiled.keys()).collect();
    let (mut unsteady, mut different) = (0, 0);
    for test in tests {
        let [before, again, with] =
            [&first, &second, &profiled].map(|outcomes| outcomes.get(test).map_or("not run", String::as_str));
        if before != again {
            unsteady += 1;
            println!("  unsteady  rank {} {}\n    {before}\n    {again}\n    with: {with}", test.0, test.1);
        }
        if with != before && with != again {
            different += 1;
            println!("  DIFFERS   rank {} {}\n    {before}\n    with: {with}", test.0, test.1);
        }
    }
    println!("  without   {}", counts(&first));
    println!("  with      {}; {different} different, {unsteady} unsteady", counts(&profiled));
    let sound = check(&folder);
    different == 0 && !profiled.is_empty() && sound
}

/// Runs the tests; what they print is in a file beside their outcomes.
fn run(mpi: &Mpi, arguments: &Arguments, folder: &Path, name: &str, profiled: bool) -> Outcomes {
    let mut command = mpi.launcher(arguments.ranks, &[]);
    command.current_dir(folder);
    if profiled {
        command.arg(dist().join("bin/mpisee")).args(["--output", "suite.mpisee"]).args(mpi.python_options());
    }
    command.arg(mpi.python()).arg(root().join("tests/programs/python/mpi4py_suite.py"));
    command.arg(folder.join(name)).arg(python::sources().join("test/main.py"));
    command.args(["--verbose", "-x", "testPControl"]);
    if mpi.is_open_mpi {
        // Without the profiler, too, its processes that spawn many do not come to an end.
        command.args(["-x", "test_spawn."]);
    }
    command.args(arguments.without.iter().flat_map(|part| ["-x", part]));
    command.args(arguments.module.iter().flat_map(|module| ["-i", module]));
    let output = within(LIMIT, &mut command);
    let printed = [output.stdout, output.stderr].concat();
    std::fs::write(folder.join(format!("{name}.txt")), printed).expect("target can be written");
    println!("  ({name}: {})", output.status);
    read(folder, name, arguments.ranks)
}

fn read(folder: &Path, name: &str, ranks: u32) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for rank in 0..ranks {
        let text = std::fs::read_to_string(folder.join(format!("{name}.{rank}"))).unwrap_or_default();
        for line in text.lines() {
            let (test, outcome) = line.split_once('\t').expect("a line of mpi4py_suite.py");
            outcomes.insert((rank, test.to_owned()), outcome.to_owned());
        }
    }
    outcomes
}

/// `2127 tests: 1822 ok, 305 skipped`.
fn counts(outcomes: &Outcomes) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes.values() {
        *kinds.entry(outcome.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    format!("{} tests: {}", outcomes.len(), kinds.join(", "))
}

/// Returns whether the run left one valid profile, as `mpisee-through check` says.
fn check(folder: &Path) -> bool {
    let directory = folder.join("suite.mpisee");
    if !directory.join("run.json").exists() {
        println!("  profile   none");
        return false;
    }
    let tables = Tables::read(&directory, "");
    println!("  profile   {} communicators, flavour {}", tables.comms.len(), tables.run.mpi.flavour);
    for (reason, calls) in &tables.run.not_seen {
        println!("            not seen: {calls} {reason}");
    }
    let output = through(&["check", &directory.display().to_string()]);
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
    output.status.success()
}
