//! Measures what mpisee costs, and how fast mpisee-through is. The programs that are measured lie
//! beside `src`.

mod agent;
mod big_profile;
mod calls;
mod merged;
mod overhead;
mod scale;
mod simulated;
mod slow;
mod stated;

use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::build::MpiSelection;

/// Measure what mpisee costs; each on an idle machine.
#[derive(Parser)]
#[command(name = "cargo measure", bin_name = "cargo measure")]
enum Benchmark {
    /// Measure what the profiler adds to an MPI call, for every MPI found
    Calls {
        #[command(flatten)]
        wanted: MpiSelection,
        /// How often everything is run, without and with the profiler in turns
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Measure what the profiler adds to a whole program; after `cargo xtask dist`
    Overhead(overhead::Measured),
    /// Compare what the profiler states as its overhead with what it adds, for calls in a loop and
    /// with other work between
    Stated(stated::Compared),
    /// Measure what the profiler adds to slow calls, whose paths it takes; after `cargo xtask dist`
    SlowCalls(slow::SlowCalls),
    /// Measure what collecting the profile adds to MPI_Finalize, over the number of ranks; after
    /// `cargo xtask dist`
    Scale(scale::Scaled),
    /// Play very many ranks without MPI, aggregate their profile, and measure that and
    /// mpisee-through on the result
    ScaleSimulated(simulated::Played),
    /// Measure what `mpisee-through agent` takes of a core beside many ranks, which are played;
    /// after `cargo build --release -p mpisee-through`
    Agent(agent::Watched),
    /// The speed of mpisee-through beside DuckDB and polars, which pip installs below target/
    Through {
        /// Rows of calls.csv
        #[arg(long, default_value_t = 10_000_000)]
        rows: u64,
        /// How often each is run, in turns
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Write a large profile of a run that never was, to try mpisee-through on
    BigProfile {
        /// The directory to create
        #[arg(value_name = "NAME.mpisee")]
        folder: PathBuf,
        /// Rows of calls.csv
        #[arg(long, default_value_t = 10_000_000)]
        rows: u64,
    },
}

fn main() -> ExitCode {
    match xtask::find_root().and_then(|()| run(Benchmark::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(benchmark: Benchmark) -> Result<()> {
    match benchmark {
        Benchmark::Calls { wanted, rounds } => calls::calls(&wanted, rounds),
        Benchmark::Overhead(measured) => overhead::overhead(&measured),
        Benchmark::Stated(compared) => stated::stated(&compared),
        Benchmark::SlowCalls(measured) => slow::slow_calls(&measured),
        Benchmark::Scale(scaled) => scale::scale(&scaled),
        Benchmark::ScaleSimulated(played) => simulated::measure(played),
        Benchmark::Agent(watched) => agent::agent(&watched),
        Benchmark::Through { rows, rounds } => big_profile::compare(rows, rounds),
        Benchmark::BigProfile { folder, rows } => big_profile::write(&folder, rows),
    }
}
