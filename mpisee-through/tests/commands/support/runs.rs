//! Runs that repeat each other, and series of runs.

use super::{Builder, Written};
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes runs to the folder `set`.
pub fn write(builders: &[Builder]) -> Written {
    let home = builders[0].write();
    add(&home, "set", builders);
    home
}

/// Writes runs to a folder beside the profile, each with processes of its own.
pub fn add(home: &Written, folder: &str, builders: &[Builder]) {
    /// More than a run has.
    const PROCESSES: u32 = 100_000;
    static RUNS: AtomicU32 = AtomicU32::new(1);
    std::fs::create_dir(home.beside().join(folder)).unwrap();
    for (number, builder) in (1..).zip(builders) {
        let mut run = builder.clone();
        let first = PROCESSES * RUNS.fetch_add(1, Ordering::Relaxed);
        run.ranks.iter_mut().for_each(|row| row.pid += first);
        let place = home.beside().join(format!("{folder}/app-{number}.mpisee"));
        std::fs::rename(run.write().directory, place).unwrap();
    }
}

/// Copies a profile of a folder, with its tables.
pub fn copy(home: &Written, from: &str, to: &str) {
    let (from, to) = (home.beside().join(from), home.beside().join(to));
    std::fs::create_dir_all(&to).unwrap();
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// A run in which each rank computes, reduces on `W` and exchanges on its part of `W`: seconds of
/// each, by rank.
pub fn run(ranks: u32, [outside_s, reduce_s, exchange_s]: [f64; 3]) -> Builder {
    let mut builder = Builder::new(ranks);
    for first in (0..ranks).step_by(2) {
        let members = if first + 1 < ranks { format!("{first}-{}", first + 1) } else { first.to_string() };
        builder = builder.comm(&format!("W_s1.{first}"), "W", "MPI_Comm_split", &members, |_| {});
    }
    for rank in 0..ranks {
        let comm = format!("W_s1.{}", rank - rank % 2);
        builder = builder
            .call("W", rank, "MPI_Allreduce", 10, 80, reduce_s)
            .call(&comm, rank, "MPI_Alltoall", 3, 3000, exchange_s)
            .with(|profile| profile.ranks[rank as usize].wall_s.0 = outside_s + reduce_s + exchange_s);
    }
    builder
}

/// As Fig. 4 of the mpisee paper: the time on the parts goes with the run time, that of `W` does
/// not.
pub fn repetitions() -> Vec<Builder> {
    let times = [(1.0, 0.52), (1.3, 0.48), (1.1, 0.50), (1.6, 0.51), (1.2, 0.49), (1.4, 0.51)];
    let mut runs: Vec<Builder> =
        times.iter().map(|&(exchange, reduce)| run(4, [3.0, reduce, exchange])).collect();
    for (minute, run) in (10..).zip(&mut runs) {
        run.run.start = format!("2026-06-01T12:{minute}:00Z");
    }
    runs
}

/// The computation is divided among the ranks; a reduction takes log p, an exchange p.
pub fn series(ranks: &[u32]) -> Vec<Builder> {
    let of = |&ranks: &u32| {
        let p = f64::from(ranks);
        run(ranks, [16.0 / p, 0.001 + 0.1 * p.log2(), 0.02 * p])
    };
    ranks.iter().map(of).collect()
}
