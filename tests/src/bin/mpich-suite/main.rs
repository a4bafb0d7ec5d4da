//! Runs MPICH's own test suite without and with the profiler, and compares the outcomes; see
//! `--help`.

mod build;
mod launch;
mod list;
mod report;

use build::Suite;
use clap::Parser;
use launch::{Outcome, Setting};
use list::Test;
use mpisee_tests::{Mpi, root};
use report::Results;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// The directories of the suite. `manual` and `perf` are no tests that run by themselves; `ckpoint`
/// and `ft` need an MPI that survives the loss of ranks.
const DIRECTORIES: [&str; 23] = [
    "attr", "basic", "coll", "comm", "cxx", "datatype", "errhan", "errors", "f08", "f77", "f90", "group",
    "impls", "info", "init", "io", "mpi_t", "part", "pt2pt", "rma", "spawn", "threads", "topo",
];

/// The number of runs, without and with the profiler, of a test whose outcome differs with it.
const REPEATS: usize = 3;

/// Run MPICH's own test suite without and with the profiler, and compare the outcome of each test.
///
/// A test whose outcome is another with the profiler is run three times without and with. It is
/// unsteady if its runs without are not alike; else it differs, or differs sometimes. A test that
/// hangs without the profiler is not run with it. The profile of a test that succeeds has to pass
/// `mpisee-through check`. Exits with 1 if a test differs, or if a profile does not pass.
///
/// The results are lines of JSON, one per test.
#[derive(Parser)]
struct Arguments {
    /// The suite: the folder test/mpi of a release of MPICH
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    /// The installation of the profiler
    #[arg(long, value_name = "DIR", default_value_os_t = root().join("target/dist"))]
    dist: PathBuf,
    /// The MPI, by the name of its flavour; may be given again (default: all)
    #[arg(long, value_name = "NAME")]
    mpi: Vec<String>,
    /// The directories of the suite; may be given again (default: all but those of performance)
    #[arg(long, value_name = "DIR")]
    directory: Vec<PathBuf>,
    /// Tests whose names contain this ("coll/allred 4"); may be given again (default: all)
    #[arg(long, value_name = "PART")]
    test: Vec<String>,
    /// Leave out tests whose names contain this; may be given again
    #[arg(long, value_name = "PART")]
    without: Vec<String>,
    /// The lists of tests; testlist.dtp and testlist.cvar are further ones; may be given again
    #[arg(long, value_name = "NAME", default_value = "testlist")]
    list: Vec<String>,
    /// Leave out tests of more ranks
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_ranks: u32,
    /// Leave out tests that need more memory, in GB
    #[arg(long, value_name = "GB", default_value_t = 4.0)]
    memory: f64,
    /// A test's time limit in seconds, where the suite has no longer one
    #[arg(long, value_name = "S", default_value_t = 120)]
    limit: u64,
    /// Tests at once, and commands of make
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Where the results go
    #[arg(long, value_name = "FILE", default_value_os_t = root().join("target/mpich-suite/results.jsonl"))]
    results: PathBuf,
    /// Keep the results that are there, and run the other tests
    #[arg(long)]
    resume: bool,
    /// Print the tables of the results that are there, and run nothing
    #[arg(long)]
    summary: bool,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    for path in [&mut arguments.source, &mut arguments.dist] {
        match std::path::absolute(&path) {
            Ok(absolute) if absolute.exists() => *path = absolute,
            _ => {
                eprintln!("Error: there is no {}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    std::fs::create_dir_all(root().join("target/mpich-suite")).expect("target can be written");
    let results = Results::open(&arguments.results, arguments.resume || arguments.summary);
    if !arguments.summary {
        let is_wanted = |mpi: &Mpi| arguments.mpi.is_empty() || arguments.mpi.contains(&mpi.name);
        Mpi::all_in(&arguments.dist)
            .iter()
            .filter(|mpi| is_wanted(mpi))
            .for_each(|mpi| run(mpi, &arguments, &results));
    }
    if results.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the wanted tests of an MPI, directory by directory.
fn run(mpi: &Mpi, arguments: &Arguments, results: &Results) {
    let work = root().join("target/mpich-suite").join(&mpi.name);
    std::fs::create_dir_all(&work).expect("target can be written");
    eprintln!("{}: configuring", mpi.name);
    let setting = Setting {
        mpi,
        suite: Suite::configure(mpi, &arguments.source, &work, arguments.jobs),
        installation: arguments.dist.clone(),
        pause: build::pause(mpi, &work),
        limit: Duration::from_secs(arguments.limit),
        stacks: work.join("stacks"),
    };
    let all = DIRECTORIES.map(PathBuf::from).to_vec();
    let directories = if arguments.directory.is_empty() { &all } else { &arguments.directory };
    for directory in directories {
        let tests = wanted(&setting, directory, arguments, results);
        eprintln!("{} {}: {} tests", mpi.name, directory.display(), tests.len());
        let to_run: Vec<Test> =
            tests.iter().filter(|test| left_out(test, mpi, arguments).is_none()).cloned().collect();
        setting.suite.make(&to_run);
        let queue = Mutex::new(VecDeque::from(tests));
        let next = || queue.lock().expect("no thread panics with the queue").pop_front();
        std::thread::scope(|scope| {
            for _ in 0..arguments.jobs {
                scope.spawn(|| {
                    while let Some(test) = next() {
                        let mut row = compare(&setting, &test, arguments);
                        row["mpi"] = json!(mpi.name);
                        row["directory"] = json!(test.top());
                        row["test"] = json!(test.name());
                        eprintln!("{} {}: {}", mpi.name, test.name(), row["verdict"]);
                        results.add(row);
                    }
                });
            }
        });
    }
}

fn wanted(setting: &Setting, directory: &Path, arguments: &Arguments, results: &Results) -> Vec<Test> {
    let done = results.done(&setting.mpi.name);
    let is_wanted = |name: &String| {
        !done.contains(name)
            && !arguments.without.iter().any(|part| name.contains(part))
            && (arguments.test.is_empty() || arguments.test.iter().any(|part| name.contains(part)))
    };
    let mut tests = list::read(&arguments.source, &setting.suite.build, directory, &arguments.list);
    tests.retain(|test| is_wanted(&test.name()));
    tests
}

/// Why a test is not run.
fn left_out(test: &Test, mpi: &Mpi, arguments: &Arguments) -> Option<&'static str> {
    if test.ranks > arguments.max_ranks {
        Some("more ranks than --max-ranks")
    } else if test.memory_gb > arguments.memory {
        Some("more memory than --memory")
    } else if !test.launcher_options.is_empty() && mpi.family != "mpich" {
        Some("options of MPICH's launcher")
    } else {
        None
    }
}

/// The row of a test in the results.
fn compare(setting: &Setting, test: &Test, arguments: &Arguments) -> Value {
    if let Some(why) = left_out(test, setting.mpi, arguments) {
        return json!({ "verdict": "left out", "why": why });
    }
    if !setting.suite.is_built(test) {
        return json!({ "verdict": "not built" });
    }
    let first = setting.plain(test);
    if first.code.is_none() {
        return json!({ "verdict": "hangs alike", "without": [first.json()] });
    }
    let limit = first.took;
    let mut without = vec![first];
    let mut with = vec![setting.profiled(test, limit)];
    if !with[0].is_like(&without[0]) {
        for _ in 1..REPEATS {
            without.push(setting.plain(test));
            with.push(setting.profiled(test, limit));
        }
    }
    let check = wrong(&with);
    json!({
        "verdict": verdict(&without, &with),
        "without": without.iter().map(Outcome::json).collect::<Vec<_>>(),
        "with": with.iter().map(Outcome::json).collect::<Vec<_>>(),
        "profiles": with[0].check.profiles,
        "check": check,
        "not_seen": with[0].check.not_seen,
    })
}

fn verdict(without: &[Outcome], with: &[Outcome]) -> &'static str {
    let first = &without[0];
    match () {
        () if with[0].is_like(first) && first.success => "same",
        () if with[0].is_like(first) => "fails alike",
        () if without.iter().any(|outcome| !outcome.is_like(first)) => "unsteady",
        () if with.iter().any(|outcome| outcome.is_like(first)) => "SOMETIMES",
        () => "DIFFERS",
    }
}

/// Error in the profile of a run that ended in success. One that fails may leave a part of a
/// profile.
fn wrong(with: &[Outcome]) -> Vec<String> {
    let Some(outcome) = with.iter().find(|outcome| outcome.success && outcome.code == Some(0)) else {
        return Vec::new();
    };
    let mut wrong = outcome.check.wrong.clone();
    if outcome.check.profiles == 0 {
        wrong.push("no profile".to_owned());
    }
    wrong
}
