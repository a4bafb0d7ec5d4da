//! Builds mpisee. What is done to the project in more than one step, or once per MPI, is done through here.

mod bench;
mod big_profile;
mod build;
mod dist;
mod emit;
mod flavour;
mod gpu;
mod instructions;
mod launch;
mod mpi;
mod overhead;
mod scale;
mod simulated;
mod spec;

use anyhow::{Result, bail};
use build::Wanted;
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Generate, build and install mpisee.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Write the generated sources from xtask/spec
    Generate {
        /// Fail if that changes anything
        #[arg(long)]
        check: bool,
    },
    /// Build libmpisee.so for every MPI on this machine
    Build(Wanted),
    /// Build everything and lay out a relocatable installation in target/dist
    Dist(Wanted),
    /// Build the GPU tracer; what of it runs on a GPU needs CUDA's compiler
    Gpu {
        /// Get the compiler from Python's package index, 110 MB, if there is none
        #[arg(long)]
        fetch: bool,
    },
    /// Copy what `dist` made
    Install {
        /// Where to: DIR/bin, DIR/lib, DIR/include, DIR/share
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
    /// Run clippy over everything, the library once per MPI
    Clippy(Wanted),
    /// Run the unit tests of the library, once per MPI
    Test(Wanted),
    /// Build libmpisee.so with ThreadSanitizer in it, for scripts/races
    Sanitize(Wanted),
    /// Measure what the profiler adds to a call, on an idle machine
    Bench {
        #[command(flatten)]
        wanted: Wanted,
        /// How often everything is run, without and with the profiler in turns
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Measure what the profiler adds to a whole program, on an idle machine; after `dist`
    Overhead(overhead::Measured),
    /// Measure what collecting the profile adds to MPI_Finalize, over the number of ranks, on an idle machine; after
    /// `dist`
    Scale(scale::Scaled),
    /// Count the library's instructions per call, and fail if they grew
    Instructions {
        #[command(flatten)]
        wanted: Wanted,
        /// Write the new figures instead
        #[arg(long)]
        accept: bool,
        /// Print besides in which source files those of an operation are, inlined code included: Allreduce
        #[arg(long, value_name = "OPERATION")]
        by_file: Option<String>,
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
    /// Play very many ranks without MPI, fold their profile, and measure that and what mpisee-through makes of it
    ScaleSimulated(simulated::Played),
    /// Compare the speed of mpisee-through with that of DuckDB and polars, which pip installs below target/
    BenchThrough {
        /// Rows of calls.csv
        #[arg(long, default_value_t = 10_000_000)]
        rows: u64,
        /// How often each is run, in turns
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Generate { check } => generate(check),
        Task::Build(wanted) => build::flavours(&wanted, |built| {
            built.iter().for_each(|it| println!("{}: {}", it.flavour.name, it.library.display()));
            Ok(())
        }),
        Task::Dist(wanted) => dist::dist(&wanted),
        Task::Gpu { fetch } => gpu::build(fetch).map(|tracer| {
            tracer.files().for_each(|it| println!("{}", it.display()));
        }),
        Task::Install { prefix } => dist::install(&prefix),
        Task::Clippy(wanted) => build::clippy(&wanted),
        Task::Test(wanted) => build::test(&wanted),
        Task::Sanitize(wanted) => build::sanitized(&wanted, |flavour, library| {
            println!("{} {} {}", flavour.name, flavour.mpicc.display(), library.display());
        }),
        Task::Bench { wanted, rounds } => bench::bench(&wanted, rounds),
        Task::Overhead(measured) => overhead::overhead(&measured),
        Task::Scale(scaled) => scale::scale(&scaled),
        Task::Instructions { wanted, accept, by_file } => {
            instructions::instructions(&wanted, accept, by_file.as_deref())
        }
        Task::BigProfile { folder, rows } => big_profile::write(&folder, rows),
        Task::ScaleSimulated(played) => simulated::measure(played),
        Task::BenchThrough { rows, rounds } => big_profile::compare(rows, rounds),
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

fn generate(check: bool) -> Result<()> {
    let functions = spec::read(&root().join("xtask/spec"))?;
    let changed = emit::all(&root(), &functions)?;
    if check && !changed.is_empty() {
        bail!("{} did not match the spec and was rewritten; commit the result", changed.join(", "));
    }
    Ok(())
}
