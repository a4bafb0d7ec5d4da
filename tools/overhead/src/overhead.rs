//! Cost of the profiler in whole programs: each run without and with it in turns.

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use xtask::root;

/// Programs and how to start them.
#[derive(Args)]
pub struct Measured {
    /// How many pairs of runs, without and with the profiler
    #[arg(long, default_value_t = 15)]
    pairs: usize,
    /// The launcher with its options, as one argument: "mpirun -n 2"
    #[arg(long, required_unless_present = "list")]
    launcher: Option<String>,
    /// A list of programs in place of one, as tools/overhead/programs.toml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["launcher", "program"])]
    list: Option<PathBuf>,
    /// Write the times of every run to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The program with its arguments
    #[arg(last = true, required_unless_present = "list")]
    program: Vec<String>,
}

/// A list of programs.
#[derive(Deserialize)]
struct List {
    program: Vec<Program>,
}

/// A program that is run in pairs.
#[derive(Deserialize)]
struct Program {
    name: String,
    /// The files that it needs where it runs, beside the list; a copy of the folder is made.
    folder: Option<PathBuf>,
    /// Run by a shell there before all pairs.
    prepare: Option<String>,
    launcher: String,
    command: Vec<String>,
}

/// Runs the pairs, and prints for each program the median of what was added with its confidence
/// interval.
pub fn overhead(measured: &Measured) -> Result<()> {
    // Fewer give no interval: the median of 6 lies between the extremes with 97 %.
    ensure!(measured.pairs >= 6, "--pairs {} is too few: 6 at least", measured.pairs);
    let mut csv = measured.csv.as_ref().map(File::create).transpose().context("the file for --csv")?;
    if let Some(csv) = &mut csv {
        writeln!(csv, "program,pair,without_s,with_s")?;
    }
    for program in programs(measured)? {
        let pairs = pairs(&program, measured, csv.as_mut()).with_context(|| program.name.clone())?;
        println!("{}: {}", program.name, summary(&pairs));
    }
    Ok(())
}

/// The programs; folders from where this process is.
fn programs(measured: &Measured) -> Result<Vec<Program>> {
    let Some(list) = &measured.list else {
        return Ok(vec![Program {
            name: measured.program[0].clone(),
            folder: None,
            prepare: None,
            launcher: measured.launcher.clone().unwrap_or_default(),
            command: measured.program.clone(),
        }]);
    };
    let text = std::fs::read_to_string(list).with_context(|| list.display().to_string())?;
    let mut programs = toml::from_str::<List>(&text).with_context(|| list.display().to_string())?.program;
    let beside = list.parent().unwrap_or(Path::new(""));
    for program in &mut programs {
        program.folder = program.folder.take().map(|folder| beside.join(folder));
    }
    Ok(programs)
}

/// Seconds of the runs without and with the profiler.
fn pairs(program: &Program, measured: &Measured, mut csv: Option<&mut File>) -> Result<Vec<[f64; 2]>> {
    let scratch = tempfile::tempdir()?;
    let folder = match &program.folder {
        Some(folder) => copy(folder, scratch.path())?,
        None => std::env::current_dir()?,
    };
    if let Some(prepare) = &program.prepare {
        run(&["sh".to_owned(), "-ec".to_owned(), prepare.clone()], &folder)?;
    }
    let mpisee = root().join("target/dist/bin/mpisee").display().to_string();
    let mut launcher: Vec<String> = program.launcher.split_whitespace().map(str::to_owned).collect();
    ensure!(!launcher.is_empty(), "no launcher is given");
    let plain = [&launcher[..], &program.command].concat();
    let output = scratch.path().join("run.mpisee").display().to_string();
    launcher.extend([mpisee, "--quiet".to_owned(), "--output".to_owned(), output]);
    let profiled = [&launcher[..], &program.command].concat();
    run(&plain, &folder)?; // what is read from disk the first time is in memory then
    let mut pairs = Vec::new();
    for pair in 0..measured.pairs {
        // Each first in turn, so that what drifts during a pair cancels.
        let times = if pair % 2 == 0 {
            let without = run(&plain, &folder)?;
            [without, run(&profiled, &folder)?]
        } else {
            let with = run(&profiled, &folder)?;
            [run(&plain, &folder)?, with]
        };
        if let Some(csv) = &mut csv {
            writeln!(csv, "\"{}\",{pair},{:.3},{:.3}", program.name, times[0], times[1])?;
        }
        pairs.push(times);
    }
    Ok(pairs)
}

/// Copies the files of a folder to one in `scratch`.
fn copy(folder: &Path, scratch: &Path) -> Result<PathBuf> {
    let to = scratch.join("folder");
    std::fs::create_dir(&to)?;
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(to)
}

/// The median of what pairs of runs, without and with the profiler, show to be added, with its
/// confidence interval.
pub fn summary(pairs: &[[f64; 2]]) -> String {
    let sorted = |figure: fn(&[f64; 2]) -> f64| {
        let mut figures: Vec<f64> = pairs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let percent = sorted(|[without, with]| 100.0 * (with / without - 1.0));
    let (least, most) = interval(&percent);
    format!(
        "{} pairs: {:.3} s without, {:.3} s with (medians); added {:+.2} % (median of pairs; 95 % confidence: {least:+.2} \
         to {most:+.2} %)",
        pairs.len(),
        median(&sorted(|times| times[0])),
        median(&sorted(|times| times[1])),
        median(&percent)
    )
}

/// Seconds of wall time.
fn run(command: &[String], folder: &Path) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new(&command[0])
        .args(&command[1..])
        .current_dir(folder)
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

/// The interval in which the median lies with at least 95 % confidence, whatever the distribution:
/// how many of `n` figures are below it is binomial with probability one half.
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
