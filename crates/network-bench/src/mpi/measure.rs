//! Measures a pattern: verification, warm-up, repetitions.

use super::agree::{Failed, agree};
use super::gpu;
use super::plan::Plan;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::backend::Backend;
use mpisee_bench::cli::Settings;
use mpisee_bench::memory::{self, MemoryKind};
use mpisee_bench::output::Measurement;
use mpisee_bench::pattern::Pattern;
use mpisee_bench::statistics::{Summary, median};
use std::time::{Duration, Instant};

/// How a pattern is run.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Repetitions, whose times are kept.
    pub repetitions: u32,
    /// Runs before.
    pub warm_up: u32,
    /// The least time of a repetition.
    pub least_s: f64,
    /// True if each run has a barrier before it.
    pub apart: bool,
    /// True if to verify first.
    pub verify: bool,
    /// The kind of memory of the buffers; that of the backends if it is left to them.
    pub memory: Option<MemoryKind>,
    /// True if MPI is taken to know the memory of GPUs.
    pub assume_gpu_aware: bool,
}

impl Effort {
    /// As the command line has it.
    pub fn from_settings(settings: &Settings) -> Effort {
        Effort {
            repetitions: settings.repetitions,
            warm_up: settings.warm_up,
            least_s: f64::from(settings.least_ms) / 1e3,
            apart: settings.apart,
            verify: !settings.no_verify,
            memory: settings.memory,
            assume_gpu_aware: settings.assume_gpu_aware,
        }
    }
}

/// Runs in a repetition at the most.
const MOST_ITERATIONS: f64 = 1e6;

/// The times of a pattern, alike on all ranks.
pub struct Times {
    /// Runs in each repetition.
    pub iterations: u32,
    /// The time of a run by repetition, on the rank that took longest.
    pub longest_s: Vec<f64>,
    /// The same as a mean over the ranks that have a part in the pattern.
    pub mean_s: Vec<f64>,
    /// How many these are.
    pub ranks: u32,
    /// The kind of memory of the buffers.
    pub memory: MemoryKind,
}

/// Measures a pattern for messages of `bytes`, together with all ranks.
pub fn measure(
    world: &SimpleCommunicator,
    name: &str,
    bytes: u64,
    pattern: &Pattern,
    effort: Effort,
) -> Result<Measurement, Failed> {
    let times = time(world, pattern, effort)?;
    let time = Summary::from_times(&times.longest_s).divided(pattern.parts.into());
    let rate = |part_s| Measurement::rate(pattern.moved(), pattern.parts, part_s);
    Ok(Measurement {
        pattern: name.to_owned(),
        backend: pattern.backends(),
        memory: times.memory,
        ranks: times.ranks,
        bytes,
        moved_bytes: pattern.moved(),
        parts: pattern.parts,
        repetitions: effort.repetitions,
        iterations: times.iterations,
        verified: effort.verify,
        time,
        ranks_mean_s: median(&times.mean_s) / f64::from(pattern.parts),
        bytes_per_s: rate(time.median_s),
        best_bytes_per_s: rate(time.min_s),
    })
}

/// Verifies a pattern and takes its times, together with all ranks.
pub fn time(world: &SimpleCommunicator, pattern: &Pattern, effort: Effort) -> Result<Times, Failed> {
    let memory = prepare(world, pattern, effort)?;
    let mut plan = Plan::new(world, pattern, memory)?;
    if effort.verify {
        let verified = plan.verify(world, pattern);
        agree(world, verified.map_err(|what| format!("{what}; {}", broken(pattern))))?;
    }
    let ranks = Ranks::from_world(world, pattern);
    let iterations = iterations(&ranks, &mut plan, effort);
    let own_s: Vec<f64> = (0..effort.repetitions)
        .map(|_| {
            if effort.apart {
                apart(&ranks, &mut plan, iterations)
            } else {
                in_a_row(&ranks, &mut plan, iterations)
            }
        })
        .collect();
    let has_part = ranks.has_part;
    let mut longest_s = vec![0.0; own_s.len()];
    world.all_reduce_into(&own_s[..], &mut longest_s[..], SystemOperation::max());
    // The last number counts the ranks.
    let mut parts: Vec<f64> = own_s.iter().map(|&time_s| if has_part { time_s } else { 0.0 }).collect();
    parts.push(if has_part { 1.0 } else { 0.0 });
    let mut sums = vec![0.0; parts.len()];
    world.all_reduce_into(&parts[..], &mut sums[..], SystemOperation::sum());
    let ranks = sums.pop().unwrap_or(1.0);
    let mean_s = sums.into_iter().map(|sum_s| sum_s / ranks).collect();
    Ok(Times { iterations, longest_s, mean_s, ranks: ranks as u32, memory })
}

/// Chooses the memory of a pattern, checks that the pattern can be carried out in it, and loads
/// what is needed for that, together with all ranks.
fn prepare(world: &SimpleCommunicator, pattern: &Pattern, effort: Effort) -> Result<MemoryKind, Failed> {
    let kind = agree(world, memory::choose(pattern, effort.memory))?;
    // Of GPUs' memory, a verification has a copy.
    if effort.verify || !kind.is_for_gpu_aware_mpi() {
        agree(world, super::memory::check(world, pattern))?;
    }
    for backend in [Backend::Shared, Backend::Ipc] {
        agree(world, super::shared::check(world, pattern, backend))?;
    }
    if kind != MemoryKind::Host {
        gpu::open(world)?;
    }
    if kind.is_for_gpu_aware_mpi() && memory::is_moved_by_mpi(pattern) {
        agree(world, gpu::check_mpi(kind, effort.assume_gpu_aware))?;
    }
    if pattern.steps.iter().any(|step| step.backend == Backend::Nccl) {
        gpu::open_nccl(world)?;
    }
    Ok(kind)
}

/// The parts at fault if the bytes of a pattern are wrong.
fn broken(pattern: &Pattern) -> String {
    match pattern.steps.iter().any(|step| step.backend.is_of_gpus()) {
        true => format!("what carries {} between these GPUs is broken", pattern.backends()),
        false => "this MPI or its transport is broken".to_owned(),
    }
}

/// All ranks, some of which may have no part in a pattern.
struct Ranks<'w> {
    world: &'w SimpleCommunicator,
    /// True if this one has.
    has_part: bool,
    /// True if each one has.
    all_have: bool,
}

/// How long a rank without a part sleeps before it looks again.
const NAP: Duration = Duration::from_micros(200);

impl<'w> Ranks<'w> {
    fn from_world(world: &'w SimpleCommunicator, pattern: &Pattern) -> Self {
        let has_part = |rank: i32| pattern.steps.iter().any(|step| step.concerns(rank as u32));
        Ranks { world, has_part: has_part(world.rank()), all_have: (0..world.size()).all(has_part) }
    }

    /// Lets ranks without a part sleep until all others have ended theirs: one that polled would
    /// take memory, or a core, from them.
    fn end(&self) {
        if self.all_have {
            return;
        }
        let mut barrier = self.world.immediate_barrier();
        while let Err(request) = barrier.test() {
            barrier = request;
            if self.has_part {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
}

/// Warms up, and finds how many runs make a repetition long enough.
fn iterations(ranks: &Ranks, plan: &mut Plan, effort: Effort) -> u32 {
    in_a_row(ranks, plan, effort.warm_up.max(1));
    // Twice as many runs as before, until they take a part of a repetition.
    let mut runs = 1_u32;
    loop {
        let time_s = longest(ranks.world, in_a_row(ranks, plan, runs)) * f64::from(runs);
        let wanted = (effort.least_s / (time_s / f64::from(runs)).max(1e-9)).ceil();
        if time_s * 4.0 >= effort.least_s || f64::from(runs) * 2.0 > MOST_ITERATIONS {
            return wanted.clamp(1.0, MOST_ITERATIONS) as u32;
        }
        runs *= 2;
    }
}

/// The time of a run, of several one after the other.
fn in_a_row(ranks: &Ranks, plan: &mut Plan, iterations: u32) -> f64 {
    ranks.world.barrier();
    let begin = Instant::now();
    (0..iterations).for_each(|_| plan.run());
    let time_s = begin.elapsed().as_secs_f64() / f64::from(iterations);
    ranks.end();
    time_s
}

/// The time of a run, of several with a barrier before each.
fn apart(ranks: &Ranks, plan: &mut Plan, iterations: u32) -> f64 {
    let time = |_| {
        ranks.world.barrier();
        let begin = Instant::now();
        plan.run();
        let time_s = begin.elapsed().as_secs_f64();
        ranks.end();
        time_s
    };
    (0..iterations).map(time).sum::<f64>() / f64::from(iterations)
}

/// The largest value of all ranks.
pub fn longest(world: &SimpleCommunicator, own: f64) -> f64 {
    let mut most = 0.0;
    world.all_reduce_into(&own, &mut most, SystemOperation::max());
    most
}
