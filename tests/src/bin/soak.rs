//! Random communication for as long as is wished, in half of the runs with a rank that is killed;
//! see `--help`.

use clap::Parser;
use mpisee_tests::soak::{RANKS, Soak};
use mpisee_tests::{Mpi, dist};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Run tests/programs/random/soak.c again and again, and compare its profile with the books that
/// each rank keeps.
///
/// In every second run a rank is killed at some time; then every call that it and the others had
/// completed must be in what `mpisee-through recover` makes of it. No file and no process may be
/// left. Ends with 1 at the first difference, and says how to make that run again; its folder is
/// kept.
#[derive(Parser)]
struct Arguments {
    /// How long, over all MPIs
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// The MPI, as `mpisee --flavours` has it; may be given again (default: all, one after the
    /// other)
    #[arg(long, value_name = "NAME")]
    mpi: Vec<String>,
    /// Of the first run; the next ones have the numbers after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long one run communicates at most, in seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let all = Mpi::all_in(&dist());
    let mpis: Vec<&Mpi> = match arguments.mpi.as_slice() {
        [] => all.iter().collect(),
        names => all.iter().filter(|mpi| names.contains(&mpi.name)).collect(),
    };
    if mpis.len() < arguments.mpi.len().max(1) {
        let known: Vec<&str> = all.iter().map(|mpi| mpi.name.as_str()).collect();
        eprintln!("soak: an MPI of {:?} is not there; there are {known:?}", arguments.mpi);
        return ExitCode::FAILURE;
    }
    let mut totals = vec![Total::default(); mpis.len()];
    let begin = Instant::now();
    let mut seed = arguments.seed;
    while begin.elapsed() < Duration::from_secs_f64(arguments.minutes * 60.0) {
        for (mpi, total) in mpis.iter().zip(&mut totals) {
            if !run(mpi, seed, arguments.seconds, total) {
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
    }
    for (mpi, total) in mpis.iter().zip(&totals) {
        println!(
            "{}: {} runs of {RANKS} ranks balance, {} of them killed: {} calls completed, {} recorded ({} of killed \
             runs completed, {} recovered), {} communicators",
            mpi.name,
            total.runs,
            total.killed,
            total.calls,
            total.recorded,
            total.calls_of_killed,
            total.recovered,
            total.communicators
        );
    }
    println!("{:.1} minutes", begin.elapsed().as_secs_f64() / 60.0);
    ExitCode::SUCCESS
}

#[derive(Clone, Default)]
struct Total {
    runs: u64,
    killed: u64,
    calls: u64,
    recorded: u64,
    calls_of_killed: u64,
    recovered: u64,
    communicators: usize,
}

/// Returns whether the run balances.
fn run(mpi: &Mpi, seed: u64, seconds: f64, total: &mut Total) -> bool {
    let soak = Soak::drawn(seed, seconds);
    let folder = tempfile::Builder::new().prefix("soak-").tempdir().expect("a temporary folder");
    let begin = Instant::now();
    match soak.run(mpi, folder.path()) {
        Ok(balance) => {
            let how = soak
                .kill
                .map_or("ends".to_owned(), |(rank, after)| format!("rank {rank} killed at {after} ms"));
            println!(
                "{} seed {seed}: {how}: {} communicators, {} calls in the books, {} in the profile, {:.1} s",
                mpi.name,
                balance.communicators,
                balance.calls,
                balance.recorded,
                begin.elapsed().as_secs_f64()
            );
            total.runs += 1;
            total.calls += balance.calls;
            total.recorded += balance.recorded;
            total.communicators += balance.communicators;
            if soak.kill.is_some() {
                total.killed += 1;
                total.calls_of_killed += balance.calls;
                total.recovered += balance.recorded;
            }
            true
        }
        Err(why) => {
            println!("{} seed {seed}: DIFFERS: {why}", mpi.name);
            println!("{soak:?}, kept in {}", folder.keep().display());
            println!(
                "again: cargo run -p mpisee-tests --bin soak -- --mpi {} --seed {seed} --seconds {seconds} --minutes 0.01",
                mpi.name
            );
            false
        }
    }
}
