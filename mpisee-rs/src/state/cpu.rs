//! CPU use of this process, in the segment: read when recording begins and at the end of MPI, never between.

use crate::state::world::World;
use crate::storage::{clock, descriptors};
use mpisee_collect::process::cpu;
use mpisee_profile::rows::Cpus;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::cpu::{READING_NS_PLUS_1, WORDS};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The CPUs that the process could use when recording began.
static CPUS_AT_START: OnceLock<Cpus> = OnceLock::new();

/// Stores what was used before recording, the cores that the process may use, and those of its node.
pub fn note_start(world: &World) {
    // The program may have closed its standard descriptors.
    let _held = descriptors::hold();
    let header = world.segment.header();
    let online = cpu::online().map_or(0, |cpus| u64::from(cpus.get()));
    header.node_cpus.store(online, Ordering::Relaxed);
    header.cpu_quota.store(cpu::quota().map_or(0, Into::into), Ordering::Relaxed);
    let cpus = read_into(&header.cpu_at_start);
    log(world, &cpus);
    // One world is recorded in a process.
    let _ = CPUS_AT_START.set(cpus);
}

/// Stores what was used up to the end of MPI. The caller holds the standard descriptors.
pub fn note_end(world: &World) {
    let cpus = read_into(&world.segment.header().cpu_at_end);
    if CPUS_AT_START.get() != Some(&cpus) {
        log(world, &cpus);
    }
}

fn read_into(words: &[AtomicU64; WORDS]) -> Cpus {
    let began_ns = clock::monotonic_ns();
    let (reading, cpus) = cpu::read();
    let values = reading.to_words(clock::monotonic_ns().saturating_sub(began_ns));
    for (word, value) in words.iter().zip(values).take(READING_NS_PLUS_1) {
        word.store(value, Ordering::Relaxed);
    }
    // It shows readers that the other words are there.
    words[READING_NS_PLUS_1].store(values[READING_NS_PLUS_1], Ordering::Release);
    cpus
}

fn log(world: &World, cpus: &Cpus) {
    if !cpus.is_empty() {
        world.segment.log(&Fact::Cpus.record(cpus.to_string()));
    }
}
