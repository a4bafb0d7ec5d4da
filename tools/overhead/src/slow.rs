//! Measures the time that the profiler adds to slow calls, whose paths it takes:
//! `tools/overhead/slow_calls.c` without and with it in turns.

use crate::overhead;
use anyhow::{Context, Result, ensure};
use clap::Args;
use mpisee_profile::Profile;
use mpisee_profile::rows::PathRow;
use std::path::Path;
use xtask::build::MpiSelection;
use xtask::flavour::Flavour;
use xtask::{launch, mpi};

/// The calls, and how often.
#[derive(Args)]
pub struct SlowCalls {
    #[command(flatten)]
    wanted: MpiSelection,
    /// How many pairs of runs, without and with the profiler
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Calls of a run
    #[arg(long, default_value_t = 100_000)]
    calls: u64,
    /// How long each call takes
    #[arg(long, default_value_t = 50)]
    microseconds: u64,
    /// Functions on the stack
    #[arg(long, default_value_t = 20)]
    frames: u32,
}

/// A run.
struct Ran {
    took_s: f64,
    /// Calls whose path was taken; 0 without the profiler.
    on_paths: u64,
}

/// Runs the pairs for each MPI, and prints the median of what was added, in per cent of the time of
/// the calls.
pub fn slow_calls(measured: &SlowCalls) -> Result<()> {
    // Fewer give no interval.
    ensure!(measured.pairs >= 6, "--pairs {} is too few: 6 at least", measured.pairs);
    for flavour in mpi::find(measured.wanted.mpicc())? {
        let program = launch::compile(&flavour, "slow_calls")?;
        let mut pairs = Vec::new();
        let mut on_paths = 0;
        run(measured, &flavour, &program, false)?; // what is read from disk the first time is in memory then
        for pair in 0..measured.pairs {
            // Each first in turn, so that what drifts during a pair cancels.
            let first = run(measured, &flavour, &program, pair % 2 == 1)?;
            let second = run(measured, &flavour, &program, pair % 2 == 0)?;
            let (plain, profiled) = if pair % 2 == 0 { (first, second) } else { (second, first) };
            on_paths += profiled.on_paths;
            pairs.push([plain.took_s, profiled.took_s]);
        }
        let SlowCalls { calls, microseconds, frames, .. } = measured;
        println!(
            "{flavour}, {calls} calls of {microseconds} µs below {frames} functions: {}; {:.1} % of the calls on paths",
            overhead::summary(&pairs),
            100.0 * on_paths as f64 / (*calls * measured.pairs as u64) as f64
        );
    }
    Ok(())
}

fn run(measured: &SlowCalls, flavour: &Flavour, program: &Path, is_profiled: bool) -> Result<Ran> {
    let profile = program.with_extension("mpisee");
    let _ = std::fs::remove_dir_all(&profile);
    let mut command = launch::launcher(flavour, 2, is_profiled.then_some(&profile));
    let numbers =
        [measured.calls, measured.microseconds, measured.frames.into()].map(|number| number.to_string());
    let output = command.arg(program).args(numbers).output()?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let took_s = text.trim().parse().with_context(|| format!("'{text}' is no number of seconds"))?;
    let mut on_paths = 0;
    if is_profiled {
        for row in Profile::open(&profile)?.rows_if_any::<PathRow>()? {
            on_paths += row?.calls;
        }
    }
    Ok(Ran { took_s, on_paths })
}
