//! Cost of the profiler in a whole program: the program run without and with it in turns.

use anyhow::{Context, Result, ensure};
use clap::Args;
use std::process::{Command, Stdio};
use std::time::Instant;
use xtask::root;

/// A program and how to start it.
#[derive(Args)]
pub struct Measured {
    /// How many pairs of runs, without and with the profiler
    #[arg(long, default_value_t = 15)]
    pairs: usize,
    /// The launcher with its options, as one argument: "mpirun -n 2"
    #[arg(long)]
    launcher: String,
    /// The program with its arguments
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

/// Runs the pairs, and prints the median of what was added with its confidence interval.
pub fn overhead(measured: &Measured) -> Result<()> {
    // Fewer give no interval: the median of 6 lies between the extremes with 97 %.
    ensure!(measured.pairs >= 6, "--pairs {} is too few: 6 at least", measured.pairs);
    let profile = tempfile::tempdir()?;
    let mpisee = root().join("target/dist/bin/mpisee").display().to_string();
    let mut launcher: Vec<String> = measured.launcher.split_whitespace().map(str::to_owned).collect();
    ensure!(!launcher.is_empty(), "--launcher is empty");
    let plain = [&launcher[..], &measured.program].concat();
    let output = profile.path().join("run").display().to_string();
    launcher.extend([mpisee, "--quiet".to_owned(), "--output".to_owned(), output]);
    let profiled = [&launcher[..], &measured.program].concat();
    run(&plain)?; // what is read from disk the first time is in memory then
    let mut percent = Vec::new();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for pair in 0..measured.pairs {
        // Each first in turn, so that what drifts during a pair cancels.
        let (base, added_to) = if pair % 2 == 0 {
            let base = run(&plain)?;
            (base, run(&profiled)?)
        } else {
            let added_to = run(&profiled)?;
            (run(&plain)?, added_to)
        };
        without.push(base);
        with.push(added_to);
        percent.push(100.0 * (added_to / base - 1.0));
    }
    for figures in [&mut percent, &mut without, &mut with] {
        figures.sort_by(f64::total_cmp);
    }
    let (least, most) = interval(&percent);
    println!(
        "{} pairs: {:.3} s without, {:.3} s with (medians); added {:+.2} % (median of pairs; 95 % confidence: {least:+.2} \
         to {most:+.2} %)",
        measured.pairs,
        median(&without),
        median(&with),
        median(&percent)
    );
    Ok(())
}

/// Seconds of wall time.
fn run(command: &[String]) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new(&command[0])
        .args(&command[1..])
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", command[0]))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(seconds)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The interval in which the median lies with at least 95 % confidence, whatever the distribution: how many of
/// `n` figures are below it is binomial with probability one half.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    let mut term = 0.5f64.powi(n as i32); // the probability that none is below
    let (mut below, mut rank) = (term, 0);
    while below + term * (n - rank) as f64 / (rank + 1) as f64 <= 0.025 {
        term *= (n - rank) as f64 / (rank + 1) as f64;
        below += term;
        rank += 1;
    }
    (sorted[rank], sorted[n - 1 - rank])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks are those of printed tables of the sign test: 15 figures, the 4th and the 12th.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        let ascending = |n: usize| (1..=n).map(|at| at as f64).collect::<Vec<_>>();
        assert_eq!(interval(&ascending(6)), (1.0, 6.0));
        assert_eq!(interval(&ascending(15)), (4.0, 12.0));
        assert_eq!(interval(&ascending(20)), (6.0, 15.0));
        assert_eq!((median(&ascending(15)), median(&ascending(6))), (8.0, 3.5));
    }
}
