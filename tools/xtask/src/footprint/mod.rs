//! The footprint of a call: instructions, cache lines and pages that the library uses beyond the
//! MPI call itself.
//!
//! `tools/overhead/call_cost.c` is stepped through its operations, one instruction at a time.
//! Unlike nanoseconds these figures are the same each time, so that a change which makes calls
//! dearer is seen for what it is. Instructions are what a call in a hot loop costs; lines and pages
//! are what it costs in a program whose own data fill the caches between two calls.

mod figures;
mod steps;
mod trace;

use crate::build::MpiSelection;
use crate::flavour::Flavour;
use crate::{dist, launch, mpi, root};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use figures::{Figures, OperationOfMpi};
use std::fs::File;
use std::process::Command;
use std::thread;
use trace::{Recorded, Sources};

/// The figures that hold.
const FILE: &str = "tools/overhead/footprint.csv";
/// Limit on the growth of a figure, in percent.
const MARGIN_PERCENT: f64 = 10.0;

/// Options of the count.
#[derive(Args)]
pub struct FootprintArgs {
    #[command(flatten)]
    wanted: MpiSelection,
    /// Write the new figures instead
    #[arg(long)]
    accept: bool,
    /// Print besides where each line of an operation is, and the code that uses it: Allreduce
    #[arg(long, value_name = "OPERATION")]
    lines: Option<String>,
    /// Take target/dist as it is
    #[arg(long)]
    no_build: bool,
}

/// Counts, prints, and compares with the figures that hold, or writes these.
pub fn footprint(wish: &FootprintArgs) -> Result<()> {
    if !wish.no_build {
        dist::dist(&wish.wanted, false)?;
    }
    let file = root().join(FILE);
    let held = figures::read(&file)?;
    let mut found = Figures::new();
    let flavours = mpi::find(wish.wanted.mpicc())?;
    let all: Vec<Result<Recorded>> = thread::scope(|scope| {
        let runs: Vec<_> = flavours.iter().map(|flavour| scope.spawn(|| record(flavour))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| bail!("reading a trace panicked"))).collect()
    });
    let all = all.into_iter().collect::<Result<Vec<_>>>()?;
    for (flavour, recorded) in flavours.iter().zip(&all) {
        if let Some(operation) = &wish.lines {
            print_lines(flavour, recorded, operation)?;
        }
        for (operation, figure) in recorded.figures() {
            found.insert(OperationOfMpi { flavour: flavour.name.clone(), operation }, figure);
        }
    }
    figures::print(&found, &held);
    if wish.accept {
        let is_counted = |key: &OperationOfMpi| found.keys().any(|other| other.flavour == key.flavour);
        let mut all: Figures = held.into_iter().filter(|(key, _)| !is_counted(key)).collect();
        all.extend(found);
        return figures::write(&file, &all);
    }
    let grown = figures::grown(&found, &held, MARGIN_PERCENT);
    for operation in grown.keys() {
        for (flavour, recorded) in flavours.iter().zip(&all).filter(|(it, _)| it.name == operation.flavour) {
            print_lines(flavour, recorded, &operation.operation)?;
        }
    }
    ensure!(
        grown.is_empty(),
        "more than {MARGIN_PERCENT} % above {FILE}: {}. What they use is above. If that is worth it, \
         `cargo xtask footprint --accept` writes the new figures",
        grown.into_values().flatten().collect::<Vec<_>>().join(", ")
    );
    let unmatched = figures::unmatched(&found, &held);
    ensure!(
        unmatched.is_empty(),
        "either counted now or in {FILE}, not both: {}. If that is meant, `cargo xtask footprint --accept` writes what is counted",
        unmatched.join(", ")
    );
    Ok(())
}

/// Steps through the program.
fn record(flavour: &Flavour) -> Result<Recorded> {
    let program = launch::compile(flavour, "call_cost")?;
    let folder = tempfile::tempdir()?;
    let printed = folder.path().join("printed");
    let library = root().join("target/dist/lib/mpisee").join(&flavour.name).join("libmpisee.so");
    let mut command = Command::new(&program);
    command
        .arg("count")
        .env("LD_PRELOAD", &library)
        .env("MPISEE_QUIET", "on")
        .env("MPISEE_OUTPUT", folder.path().join("count.mpisee"))
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        // The same functions of libc on each processor.
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM")
        .stdout(File::create(&printed)?);
    let windows =
        steps::windows(&mut command).with_context(|| format!("{}, built for {flavour}", program.display()));
    let printed = std::fs::read_to_string(&printed)?;
    Recorded::new(&printed, windows.with_context(|| printed.clone())?)
}

/// Prints the lines of an operation, and how many instructions each time took.
fn print_lines(flavour: &Flavour, recorded: &Recorded, operation: &str) -> Result<()> {
    let window = recorded.typical(operation).with_context(|| {
        let there: Vec<&str> = recorded.operations().collect();
        format!("there is no operation '{operation}', but: {}", there.join("; "))
    })?;
    println!("{operation} with {flavour}, of {:?} instructions:", recorded.instructions(operation));
    let sources = Sources::from_recorded(recorded)?;
    for line in recorded.lines(window, &sources) {
        println!("{line}");
    }
    println!();
    Ok(())
}
