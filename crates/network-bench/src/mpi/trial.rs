//! A trial of `mpisee-bench tune`: replays under the setting that this run was started with, and
//! reports times and settings.

use super::agree::{Failed, agree};
use super::measure::{self, Effort};
use super::place::Setting;
use super::replay::shared;
use super::variables;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::replay::{Item, Weighted};
use mpisee_bench::statistics::Summary;
use mpisee_bench::trial::{Report, Trial, Variable};
use std::path::{Path, PathBuf};

/// Carries out the trial in `path` and writes the report to `output`, together with all ranks.
pub fn run(
    world: &SimpleCommunicator,
    setting: &Setting,
    path: &Path,
    output: &Path,
    effort: Effort,
) -> Result<(), Failed> {
    let read = if world.rank() == 0 { read(path).map(Some) } else { Ok(None) };
    let trial: Trial = shared(world, agree(world, read)?.as_ref());
    let ranks = world.size() as u32;
    let fits = (trial.ranks == ranks).then_some(()).ok_or_else(|| {
        format!("the profile is of {} ranks, and the launcher has started {ranks}", trial.ranks)
    });
    agree(world, fits)?;
    for file in &trial.files {
        see(world, file)?;
    }
    let found = variables::read(&trial.variables);
    let variables: Vec<Variable> = shared(world, (world.rank() == 0).then_some(&found));
    let differs = found.iter().zip(&variables).find(|(own, first)| own != first).map(|(own, first)| {
        format!("{} is '{}' on rank {}, and '{}' on rank 0", own.name, own.value, world.rank(), first.value)
    });
    agree(world, differs.map_or(Ok(()), Err))?;
    let mut times_s = Vec::new();
    for item in &trial.items {
        times_s.push(least_per_call(world, item, effort)?);
    }
    let report = Report {
        mpi: setting.mpi.clone(),
        setting: setting.text(),
        nodes: setting.nodes(),
        times_s,
        variables,
        selection: (trial.wants_selection && world.rank() == 0).then(variables::selection).flatten(),
    };
    let written = match world.rank() {
        0 => write(&report, output),
        _ => Ok(()),
    };
    agree(world, written)
}

fn read(path: &Path) -> Result<Trial, String> {
    let text = std::fs::read(path).map_err(|why| format!("reading {}: {why}", path.display()))?;
    serde_json::from_slice(&text).map_err(|why| format!("{} is no trial: {why}", path.display()))
}

fn write(report: &Report, path: &Path) -> Result<(), String> {
    let text = serde_json::to_vec(report).expect("numbers and texts are JSON");
    std::fs::write(path, text).map_err(|why| format!("writing {}: {why}", path.display()))
}

/// Fails if a rank does not see the file as rank 0 does, as where nodes do not share a file system.
fn see(world: &SimpleCommunicator, file: &PathBuf) -> Result<(), Failed> {
    let own = std::fs::read_to_string(file).map_err(|why| {
        format!("rank {} cannot read {}: {why}; nodes have to share its folder", world.rank(), file.display())
    });
    let own = agree(world, own)?;
    let first: String = shared(world, (world.rank() == 0).then_some(&own));
    let same = (own == first).then_some(()).ok_or_else(|| {
        format!("{} has other contents on rank {} than on rank 0", file.display(), world.rank())
    });
    agree(world, same)
}

/// The mean time of a call in the fastest repetition, with all communicators of the family at once.
fn least_per_call(world: &SimpleCommunicator, item: &Item, effort: Effort) -> Result<f64, Failed> {
    let mut time_s = 0.0;
    for Weighted { pattern, weight } in item.patterns(None) {
        agree(world, pattern.check(world.size() as u32).map_err(|fault| fault.what))?;
        let times = measure::time(world, &pattern, effort)?;
        time_s += Summary::from_times(&times.mean_s).min_s * f64::from(times.ranks) * weight;
    }
    Ok(time_s)
}
