//! `mpisee-bench network`: models of latency and bandwidth, for each class of pairs of ranks, in
//! `network.json`.

use super::agree::{Failed, agree};
use super::border::{Memory, Pending, begin_send, done};
use super::cores::Watch;
use super::measure::{self, Effort};
use super::place::Setting;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::backend::Backend;
use mpisee_bench::builtin::{Builtin, Direction, Exchange, Groups};
use mpisee_bench::cli::Settings;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::model::{self, interface};
use mpisee_bench::network::{self, now};
use mpisee_bench::output::Format;
use mpisee_bench::pattern::Pattern;
use mpisee_bench::statistics::Summary;
use mpisee_profile::network::{InterfaceModel, NETWORK_VERSION, Network, PairClass, PairModel, PairPoint};
use std::collections::BTreeMap;
use std::os::raw::c_int;
use std::path::Path;

/// Messages in a window of a stream: fewer where they are long.
const WINDOW: u32 = 64;
const WINDOW_BYTES: u64 = 4 << 20;
/// Sizes up to that are tried for the eager limit.
const MOST_EAGER_BYTES: u64 = 4 << 20;
/// Message size for models of interfaces.
const INTERFACE_BYTES: u64 = 1 << 20;

/// Measures, fits and writes, together with all ranks.
pub fn measure(
    world: &SimpleCommunicator,
    setting: &Setting,
    settings: &Settings,
    backend: Backend,
    effort: Effort,
) -> Result<(), Failed> {
    let sizes: Vec<u64> = settings.sizes.0.iter().copied().filter(|&bytes| bytes > 0).collect();
    let enough = match (world.size(), sizes.len()) {
        (..2, _) => Err("a network is between two ranks or more: start them with mpirun -n 2".to_owned()),
        (_, ..3) => Err("a model needs three --sizes or more".to_owned()),
        _ => network::check_folder(output(settings)),
    };
    agree(world, enough)?;
    // Models go beside the replays that are in the file; rank 0 alone reads it.
    let memory = memory_of(settings, backend);
    let before = match world.rank() {
        0 => super::replay::before(output(settings), setting, memory).map(Some),
        _ => Ok(None),
    };
    let before = agree(world, before)?.unwrap_or_default();
    let watch = Watch::start();
    let mut pairs = Vec::new();
    for (class, ranks) in pairs_of_classes(setting) {
        pairs.push(pair(world, class, ranks, backend, &sizes, effort)?);
    }
    let interfaces = interfaces(world, setting, backend, effort)?;
    let no_core = watch.end(world);
    let network = Network {
        network_version: NETWORK_VERSION,
        measured: now(),
        mpi: setting.mpi.clone(),
        hosts: setting.hosts.clone(),
        ranks: world.size() as u32,
        memory: memory_of(settings, backend),
        no_core,
        pairs,
        interfaces,
        replays: before.replays,
    };
    let written = if world.rank() == 0 { write(&network, setting, settings) } else { Ok(()) };
    agree(world, written)
}

/// The kind of memory as the file has it.
fn memory_of(settings: &Settings, backend: Backend) -> Option<String> {
    let by_default = if backend.is_of_gpus() { MemoryKind::Device } else { MemoryKind::Host };
    let kind = settings.memory.unwrap_or(by_default);
    (kind != MemoryKind::Host).then(|| kind.name().to_owned())
}

fn output(settings: &Settings) -> &Path {
    settings.output.as_deref().unwrap_or(Path::new("network.json"))
}

fn write(network: &Network, setting: &Setting, settings: &Settings) -> Result<(), String> {
    let path = output(settings);
    std::fs::write(path, network.text()).map_err(|why| format!("writing {}: {why}", path.display()))?;
    match settings.format() {
        Format::Table => {
            println!("{}", setting.text());
            print!("{}", network::text(network, setting.nodes()));
            println!("Written to {}.", path.display());
        }
        Format::Csv => print!("{}", network::csv(network)),
        Format::Json => print!("{}", network.text()),
    }
    Ok(())
}

/// The first pair of each class that there is.
fn pairs_of_classes(setting: &Setting) -> BTreeMap<PairClass, [u32; 2]> {
    let ranks = setting.places.len();
    let mut pairs = BTreeMap::new();
    for one in 0..ranks {
        for other in one + 1..ranks {
            pairs.entry(setting.class(one, other)).or_insert([one as u32, other as u32]);
        }
        // What the first rank lacks, such as a neighbour in its cache, another one may have.
        if pairs.len() == CLASSES {
            break;
        }
    }
    pairs
}

const CLASSES: usize = 4;

fn pair(
    world: &SimpleCommunicator,
    class: PairClass,
    ranks: [u32; 2],
    backend: Backend,
    sizes: &[u64],
    effort: Effort,
) -> Result<PairModel, Failed> {
    let times = |exchange, window, bytes| {
        let builtin = Builtin::PointToPoint { ranks, exchange, window };
        let pattern = agree(world, checked(world, &builtin, bytes, backend))?;
        let times = measure::time(world, &pattern, effort)?;
        let parts = if exchange == Exchange::PingPong { pattern.parts } else { window };
        Ok(Summary::from_times(&times.longest_s).divided(parts.into()))
    };
    let mut points = Vec::new();
    for &bytes in sizes {
        let one_way = times(Exchange::PingPong, 1, bytes)?;
        let window = u64::from(WINDOW).min((WINDOW_BYTES / bytes).max(4)) as u32;
        let stream = times(Exchange::Uni, window, bytes)?;
        points.push(PairPoint {
            bytes,
            one_way_min_s: one_way.min_s,
            one_way_median_s: one_way.median_s,
            one_way_spread: one_way.spread(),
            stream_min_s: stream.min_s,
            stream_median_s: stream.median_s,
        });
    }
    let is_two_sided = matches!(backend, Backend::Isend | Backend::Persistent);
    let kind = effort.memory.unwrap_or_default();
    let eager_limit_bytes = if is_two_sided { eager_limit(world, ranks, kind)? } else { None };
    let measured: Vec<(u64, f64)> = points.iter().map(|point| (point.bytes, point.one_way_min_s)).collect();
    let fit = model::fit(&measured, eager_limit_bytes);
    let (gap_s, gap_per_byte_s) = model::gaps(&points);
    Ok(PairModel {
        class,
        ranks,
        backend: backend.name().to_owned(),
        eager_limit_bytes,
        segments: fit.segments,
        error_median: fit.error_median,
        error_max: fit.error_max,
        gap_s,
        gap_per_byte_s,
        points,
    })
}

/// A built-in pattern that can be carried out.
fn checked(
    world: &SimpleCommunicator,
    builtin: &Builtin,
    bytes: u64,
    backend: Backend,
) -> Result<Pattern, String> {
    let ranks = world.size() as u32;
    let pattern = builtin.pattern(bytes, ranks, backend)?;
    pattern.check(ranks).map_err(|fault| fault.what)?;
    Ok(pattern)
}

/// The largest message that the first rank can send while the second takes no part, by bisection;
/// `None` where none is, or all are.
fn eager_limit(world: &SimpleCommunicator, ranks: [u32; 2], kind: MemoryKind) -> Result<Option<u64>, Failed> {
    let (mut below, mut above) = (0, MOST_EAGER_BYTES);
    let buffer = agree(world, Memory::allocate(kind, above))?;
    if !is_sent_alone(world, ranks, &buffer, below) || is_sent_alone(world, ranks, &buffer, above) {
        return Ok(None);
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        match is_sent_alone(world, ranks, &buffer, middle) {
            true => below = middle,
            false => above = middle,
        }
    }
    Ok(Some(below))
}

/// Returns whether the first rank completes a send to the second before that posts its receive;
/// alike on all ranks. The second is in MPI meanwhile, since an eager message may need it to take
/// the data from a common buffer; no time is a limit, so that ranks which wait for a core are no
/// reason.
fn is_sent_alone(world: &SimpleCommunicator, [from, to]: [u32; 2], buffer: &Memory, bytes: u64) -> bool {
    const MESSAGE: c_int = 1;
    const WORD: c_int = 2;
    const NEVER_SENT: c_int = 3;
    const POLLS: usize = 200;
    let rank = world.rank() as u32;
    world.barrier();
    let mut alone = 0_i32;
    let mut message: Option<Pending> = None;
    if rank == from {
        let peer = world.process_at_rank(to as c_int);
        let mut begun = begin_send(world, to as c_int, MESSAGE, buffer, bytes as c_int);
        peer.send_with_tag(&0_i32, WORD);
        peer.receive_with_tag::<i32>(WORD);
        alone = i32::from((0..POLLS).any(|_| begun.test()));
        message = Some(begun);
    } else if rank == to {
        let peer = world.process_at_rank(from as c_int);
        // The word comes behind the message.
        peer.receive_with_tag::<i32>(WORD);
        for _ in 0..POLLS {
            let _ = peer.immediate_probe_with_tag(NEVER_SENT);
        }
        peer.send_with_tag(&0_i32, WORD);
    }
    world.process_at_rank(from as c_int).broadcast_into(&mut alone);
    if rank == to {
        receive(world, from as c_int, MESSAGE, buffer, bytes as c_int);
    }
    drop(message);
    alone != 0
}

fn receive(world: &SimpleCommunicator, from: c_int, tag: c_int, buffer: &Memory, bytes: c_int) {
    // SAFETY: the buffer has that many bytes; the call returns when they are there.
    done(unsafe {
        let kind = super::border::byte();
        ffi::MPI_Recv(buffer.at(0), bytes, kind, from, tag, world.as_raw(), ffi::RSMPI_STATUS_IGNORE)
    });
}

/// Models of the interfaces, where the ranks of the first two nodes are two groups of consecutive
/// ranks.
fn interfaces(
    world: &SimpleCommunicator,
    setting: &Setting,
    backend: Backend,
    effort: Effort,
) -> Result<Vec<InterfaceModel>, Failed> {
    let first = setting.places[0].node;
    let size = setting.places.iter().take_while(|place| place.node == first).count();
    let second = setting.places.get(size).map(|place| place.node);
    let is_whole = second.is_some_and(|node| {
        setting.places[size..].iter().take_while(|place| place.node == node).count() >= size
    });
    if size < 2 || !is_whole {
        return Ok(Vec::new());
    }
    let mut models = Vec::new();
    for name in ["rail", "fan"] {
        let mut rates = Vec::new();
        for active in 1..=size as u32 {
            let groups = Groups { count: 2, size: size as u32, active };
            let builtin = match name {
                "rail" => Builtin::Rail(groups, Direction::Uni),
                _ => Builtin::Fan(groups, Direction::Uni),
            };
            let pattern = agree(world, checked(world, &builtin, INTERFACE_BYTES, backend))?;
            let times = measure::time(world, &pattern, effort)?;
            rates.push(pattern.moved() as f64 / Summary::from_times(&times.longest_s).min_s);
        }
        models.extend(interface::fit(name, INTERFACE_BYTES, &rates));
    }
    Ok(models)
}
