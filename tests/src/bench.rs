//! `mpisee-bench` under a launcher, and the table that it prints.

use crate::mpi::yielding;
use crate::{Finished, LIMIT, Mpi, Place, Run, dist, within};
use std::collections::BTreeMap;
use std::process::{Command, Output};

/// `mpisee-bench` with these words, with few and short repetitions; the profile it may leave is
/// `test.mpisee`.
pub fn bench<'m>(mpi: &'m Mpi, words: &str) -> Run<'m> {
    let quick = "--repetitions 3 --warm-up 1 --least-ms 1 --format csv";
    let words = words.split_whitespace().chain(quick.split_whitespace());
    let run = Run::from_program(mpi, dist().join("bin/mpisee-bench"));
    let run = run.variable("LD_PRELOAD", &yielding().display().to_string());
    words.fold(run, Run::argument)
}

/// Returns whether there is an `mpisee-bench` for an MPI. rsmpi does not read the header of the
/// standard's own interface.
pub fn has_bench(mpi: &Mpi) -> bool {
    mpi.library().with_file_name("mpisee-bench").exists() || !mpi.name.starts_with("mpiabi")
}

/// The rows of the results: each a value by column.
pub fn rows(finished: &Finished) -> Vec<BTreeMap<String, String>> {
    let mut lines = finished.stdout.lines();
    let heads: Vec<&str> = lines.next().expect("there is a header").split(',').collect();
    lines
        .map(|line| heads.iter().map(|&it| it.to_owned()).zip(line.split(',').map(str::to_owned)).collect())
        .collect()
}

/// The number in a column of a row.
pub fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

/// The ranks that `tune` starts: as many as there are cores on a small machine, since a rank
/// without a core hides what algorithms do.
pub const TUNED_RANKS: u32 = 2;

/// Variables of the environment.
pub type Variables = BTreeMap<String, String>;

/// `mpisee-bench tune` with this launcher.
pub fn tune(
    place: &Place,
    mpi: &Mpi,
    words: &[&str],
    launched_with: &[&str],
    variables: &Variables,
) -> Output {
    let launcher = mpi.launcher(TUNED_RANKS, &[]);
    let mut command = Command::new(dist().join("bin/mpisee-bench"));
    command.current_dir(place.folder()).arg("tune").args(words);
    command.args(["--repetitions", "20", "--warm-up", "1", "--least-ms", "1", "--"]);
    command.arg(launcher.get_program()).args(launched_with).args(launcher.get_args()).envs(variables);
    for (name, value) in launcher.get_envs() {
        value.map(|value| command.env(name, value));
    }
    // Some eighty runs of the launcher, one after the other.
    within(3 * LIMIT, &mut command)
}
