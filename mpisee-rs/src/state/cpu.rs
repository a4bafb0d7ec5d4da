//! CPU use of this process, in the segment: read when recording begins and at the end of MPI, never
//! between.

use crate::state::world::World;
use crate::storage::clock;
use mpisee_collect::process::cpu::{self, Sample};
use mpisee_in_process::guards::descriptors;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::cpu::{READING_NS_PLUS_1, WORDS};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// CPU use when recording began. A process records one world.
static AT_START: OnceLock<Sample> = OnceLock::new();

/// Stores what was used before recording, the cores that the process may use, and those of its
/// node.
pub fn note_start(world: &World) {
    // The program may have closed its standard descriptors.
    let _held = descriptors::hold();
    let header = world.segment.header();
    let online = cpu::online().map_or(0, |cpus| u64::from(cpus.get()));
    header.node_cpus.store(online, Ordering::Relaxed);
    header.cpu_quota.store(cpu::quota().map_or(0, Into::into), Ordering::Relaxed);
    let sample = read_into(&header.cpu_at_start, None);
    log(world, &sample);
    let _ = AT_START.set(sample);
}

/// Stores what was used up to the end of MPI. The caller holds the standard descriptors.
pub fn note_end(world: &World) {
    let at_start = AT_START.get();
    let sample = read_into(&world.segment.header().cpu_at_end, at_start);
    if at_start.is_none_or(|before| before.cpus != sample.cpus) {
        log(world, &sample);
    }
}

fn read_into(words: &[AtomicU64; WORDS], since: Option<&Sample>) -> Sample {
    let began_ns = clock::monotonic_ns();
    let sample = cpu::read(since);
    let values = sample.reading.to_words(clock::monotonic_ns().saturating_sub(began_ns));
    for (word, value) in words.iter().zip(values).take(READING_NS_PLUS_1) {
        word.store(value, Ordering::Relaxed);
    }
    // It shows readers that the other words are there.
    words[READING_NS_PLUS_1].store(values[READING_NS_PLUS_1], Ordering::Release);
    sample
}

/// Logs the CPUs that the process may use.
fn log(world: &World, sample: &Sample) {
    if !sample.cpus.is_empty() {
        world.segment.log(&Fact::Cpus.record(sample.cpus.to_string()));
    }
}
