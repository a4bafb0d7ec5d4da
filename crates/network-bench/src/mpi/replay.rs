//! `mpisee-bench --like app.mpisee`: the profile's communication without the computation, in
//! `network.json`.

use super::agree::{Failed, agree};
use super::cores::Watch;
use super::measure::{self, Effort};
use super::memory;
use super::place::Setting;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::cli::Settings;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::network::{self, now};
use mpisee_bench::output::{Format, aligned, digits, size};
use mpisee_bench::replay::{Item, Plan, Weighted, plan};
use mpisee_bench::statistics::Summary;
use mpisee_profile::Profile;
use mpisee_profile::network::{NETWORK_VERSION, Network, Replay};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Replays and writes, together with all ranks.
pub fn measure(
    world: &SimpleCommunicator,
    setting: &Setting,
    settings: &Settings,
    path: &Path,
    effort: Effort,
) -> Result<(), Failed> {
    let output = settings.output.as_deref().unwrap_or(Path::new("network.json"));
    // Rank 0 alone reads files.
    let read = if world.rank() == 0 {
        network::check_folder(output)
            .and_then(|()| Ok((read(path)?, before(output, setting, kind(settings))?)))
            .map(Some)
    } else {
        Ok(None)
    };
    let (plan, before) = agree(world, read)?.unzip();
    let plan = shared(world, plan.as_ref());
    let ranks = world.size() as u32;
    let fits = match plan.ranks == ranks {
        true => Ok(()),
        false => Err(format!(
            "'{}' is of {} ranks, and there are {ranks}: start as many with mpirun -n {}",
            path.display(),
            plan.ranks,
            plan.ranks
        )),
    };
    agree(world, fits)?;
    let mut plan = plan;
    leave_out_what_is_too_large(world, &mut plan);
    let mut replays = Vec::new();
    for item in &plan.items {
        replays.push(replay(world, &plan, &setting.hosts, item, effort)?);
    }
    let written = match before {
        Some(network) => write(network, replays, &plan, setting, settings, [path, output]),
        None => Ok(()),
    };
    agree(world, written)
}

/// Leaves out the operations whose buffers do not fit into the memory of a node, on all ranks
/// alike.
fn leave_out_what_is_too_large(world: &SimpleCommunicator, plan: &mut Plan) {
    let ranks_without = |item: &Item| {
        // Each check is one of all ranks, whatever it finds on this node.
        let patterns = item.patterns(None).into_iter();
        let fits = patterns.fold(true, |fits, it| fits & memory::check(world, &it.pattern).is_ok());
        let (own, mut all) = (u32::from(!fits), 0);
        world.all_reduce_into(&own, &mut all, SystemOperation::sum());
        all
    };
    let (too_large, items) = plan.items.drain(..).partition(|item: &Item| ranks_without(item) > 0);
    plan.items = items;
    let reason = "its buffers do not fit into memory".to_owned();
    plan.left_out.extend(too_large.into_iter().map(|item: Item| item.left_out(reason.clone())));
}

fn read(path: &Path) -> Result<Plan, String> {
    let plan = plan(&Profile::open(path).map_err(|error| error.to_string())?)?;
    match plan.items.is_empty() {
        true => Err(plan.nothing(path)),
        false => Ok(plan),
    }
}

/// The kind of memory as the file has it.
fn kind(settings: &Settings) -> Option<String> {
    settings.memory.filter(|&kind| kind != MemoryKind::Host).map(|kind| kind.name().to_owned())
}

/// The content of the file so far; fails if there is one that is not of this MPI and this kind of
/// memory. Replays and models go beside each other.
pub fn before(output: &Path, setting: &Setting, memory: Option<String>) -> Result<Network, String> {
    let fresh = Network {
        network_version: NETWORK_VERSION,
        measured: now(),
        mpi: setting.mpi.clone(),
        hosts: setting.hosts.clone(),
        ranks: setting.places.len() as u32,
        memory,
        ..Network::default()
    };
    if !output.exists() {
        return Ok(fresh);
    }
    let found = Network::read(output).map_err(|error| error.to_string())?;
    if found.mpi != setting.mpi || found.memory != fresh.memory {
        return Err(format!(
            "{} is of {} or of other settings or --memory than this run; name another file with --output",
            output.display(),
            found.mpi.library.split(',').next().unwrap_or_default()
        ));
    }
    // The head of the file is of the models, if it has any.
    Ok(if found.pairs.is_empty() { Network { replays: found.replays, ..fresh } } else { found })
}

/// The value of rank 0, on all ranks.
pub fn shared<T: Serialize + DeserializeOwned>(world: &SimpleCommunicator, own: Option<&T>) -> T {
    let root = world.process_at_rank(0);
    let mut text =
        own.map(|own| serde_json::to_vec(own).expect("numbers and texts are JSON")).unwrap_or_default();
    let mut length = text.len() as u64;
    root.broadcast_into(&mut length);
    text.resize(length as usize, 0);
    root.broadcast_into(&mut text[..]);
    serde_json::from_slice(&text).expect("rank 0 wrote it")
}

fn replay(
    world: &SimpleCommunicator,
    plan: &Plan,
    hosts: &[String],
    item: &Item,
    effort: Effort,
) -> Result<Replay, Failed> {
    let watch = Watch::start();
    let (together_s, together_spread) = per_call(world, item, None, effort)?;
    let (alone_s, alone_spread) = match item.comms.len() {
        1 => (together_s, together_spread),
        _ => alone(world, item, effort)?,
    };
    Ok(Replay {
        command: plan.command.clone(),
        ranks: plan.ranks,
        family: item.family.clone(),
        comms: item.comms.iter().map(|(name, _)| name.clone()).collect(),
        call: item.call.clone(),
        size_min: item.size[0],
        size_max: item.size[1],
        bytes: item.bytes,
        calls: item.calls,
        volume: Some(item.volume),
        measured: now(),
        hosts: hosts.to_vec(),
        repetitions: Some(effort.repetitions),
        together_s,
        together_spread,
        alone_s,
        alone_spread,
        no_core: watch.end(world),
    })
}

/// The time of a call with one communicator at a time, over all calls; and the spread.
fn alone(world: &SimpleCommunicator, item: &Item, effort: Effort) -> Result<(f64, f64), Failed> {
    let (mut time_s, mut spread_s) = (0.0, 0.0);
    for (at, part) in item.measured_alone() {
        let (call_s, spread) = per_call(world, item, Some(at), effort)?;
        time_s += part * call_s;
        spread_s += part * call_s * spread;
    }
    Ok((time_s, if time_s > 0.0 { spread_s / time_s } else { 0.0 }))
}

/// The time of all ranks by the calls of all ranks: of a collective the mean time of a call; and
/// the spread.
fn per_call(
    world: &SimpleCommunicator,
    item: &Item,
    alone: Option<usize>,
    effort: Effort,
) -> Result<(f64, f64), Failed> {
    let (mut time_s, mut spread_s) = (0.0, 0.0);
    for Weighted { pattern, weight } in item.patterns(alone) {
        agree(world, pattern.check(world.size() as u32).map_err(|fault| fault.what))?;
        let times = measure::time(world, &pattern, effort)?;
        let summary = Summary::from_times(&times.mean_s);
        let of_all_s = summary.median_s * f64::from(times.ranks) * weight;
        time_s += of_all_s;
        spread_s += of_all_s * summary.spread();
    }
    Ok((time_s, if time_s > 0.0 { spread_s / time_s } else { 0.0 }))
}

fn write(
    mut network: Network,
    replays: Vec<Replay>,
    plan: &Plan,
    setting: &Setting,
    settings: &Settings,
    [profile, output]: [&Path; 2],
) -> Result<(), String> {
    network.replays.retain(|it| it.command != plan.command || it.ranks != plan.ranks);
    network.replays.extend(replays.iter().cloned());
    std::fs::write(output, network.text()).map_err(|why| format!("writing {}: {why}", output.display()))?;
    if settings.format() != Format::Table {
        return Ok(());
    }
    println!("{}", setting.text());
    print!("{}", table(plan, &replays));
    if let Some(share) = replays.iter().filter_map(|it| it.no_core).reduce(f64::max) {
        print!("{}", network::without_core_text(share));
    }
    println!("The replay covers {:.1} % of the time in communication.", 100.0 * plan.covered());
    print!("{}", plan.left_out_text());
    println!("Read it with: mpisee-through compare-network {} {}", profile.display(), output.display());
    Ok(())
}

fn table(plan: &Plan, replays: &[Replay]) -> String {
    let heads =
        ["COMM", "CALL", "Size", "Calls", "Profile µs", "At once", "Alone", "Spread %"].map(str::to_owned);
    let row = |(item, it): (&Item, &Replay)| {
        [
            it.family.clone(),
            it.call.clone(),
            size(it.bytes),
            it.calls.to_string(),
            digits(item.time_s / item.calls.max(1) as f64 * 1e6),
            digits(it.together_s * 1e6),
            digits(it.alone_s * 1e6),
            format!("{:.1}", 100.0 * it.together_spread),
        ]
    };
    aligned(&heads, plan.items.iter().zip(replays).map(row), 2)
}
