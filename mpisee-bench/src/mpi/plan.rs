//! A pattern made ready on one rank: its arena, and what carries out each step.

use super::border::{Memory, OneSided, Part, Persistent, TwoSided};
use super::collective::Operation;
use super::shared::{Segments, SharedMessages};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::backend::Backend;
use mpisee_bench::pattern::{Pattern, Step};
use mpisee_bench::provenance;
use mpisee_bench::schedule::{Action, schedule};
use mpisee_bench::shared::Layout;
use std::os::raw::c_int;

/// What carries out a step's messages.
enum Carrier {
    TwoSided(TwoSided),
    Persistent(Persistent),
    OneSided(OneSided),
    Shared(SharedMessages),
    /// This rank has none, and need not take part in making a window.
    None,
}

struct Ready {
    carrier: Carrier,
    operation: Option<Operation>,
}

/// A pattern made ready. Carriers and operations go before the arena that they use.
pub struct Plan {
    actions: Vec<Action>,
    steps: Vec<Ready>,
    arena: Memory,
    arena_bytes: u64,
}

/// Tags below that are legal with every MPI.
const TAGS: usize = 32_000;

impl Plan {
    /// Makes the pattern ready, together with all ranks.
    pub fn new(world: &SimpleCommunicator, pattern: &Pattern) -> Plan {
        let rank = world.rank() as u32;
        let arena_bytes = pattern.arena(rank);
        let (segments, arena) = match Layout::of(pattern, world.size() as u32) {
            Some(layout) => {
                let (segments, arena) = Segments::new(world, layout);
                (Some(segments), arena)
            }
            None => (None, Memory::new(arena_bytes)),
        };
        let ready = |(number, step): (usize, &Step)| {
            let operation = (!step.collectives.is_empty()).then(|| Operation::new(world, &step.collectives));
            let carrier = match &segments {
                Some(segments) if step.backend == Backend::Shared && step.concerns(rank) => {
                    Carrier::Shared(SharedMessages::new(world, pattern, number, segments))
                }
                _ => carrier(world, number, step, &arena, arena_bytes),
            };
            Ready { carrier, operation: operation.flatten() }
        };
        let steps = pattern.steps.iter().enumerate().map(ready).collect();
        Plan { actions: schedule(pattern, rank), steps, arena, arena_bytes }
    }

    /// Runs the pattern once.
    pub fn run(&mut self) {
        for &action in &self.actions {
            match action {
                Action::Start(step) => {
                    let Ready { carrier, operation } = &mut self.steps[step];
                    match carrier {
                        Carrier::TwoSided(it) => it.start(),
                        Carrier::Persistent(it) => it.start(),
                        Carrier::OneSided(it) => it.start(),
                        Carrier::Shared(it) => it.start(),
                        Carrier::None => {}
                    }
                    if let Some(operation) = operation {
                        operation.run();
                    }
                }
                Action::Wait(step) => match &mut self.steps[step].carrier {
                    Carrier::TwoSided(it) => it.wait(),
                    Carrier::Persistent(it) => it.wait(),
                    Carrier::OneSided(it) => it.wait(),
                    Carrier::Shared(it) => it.wait(),
                    Carrier::None => {}
                },
            }
        }
    }

    /// Runs the pattern once, and says what of this rank's memory is wrong then.
    pub fn verify(&mut self, world: &SimpleCommunicator, pattern: &Pattern) -> Result<(), String> {
        let rank = world.rank() as u32;
        let bytes = self.arena_bytes as usize;
        provenance::fill(&mut self.arena.bytes()[..bytes], rank);
        self.steps.iter_mut().filter_map(|step| step.operation.as_mut()).for_each(Operation::fill);
        world.barrier();
        self.run();
        world.barrier();
        let expected = &provenance::after(pattern, world.size() as u32)[rank as usize];
        if let Some(offset) = provenance::first_wrong(&self.arena.bytes()[..bytes], expected) {
            return Err(format!("after the pattern, rank {rank} has a wrong byte at {offset}"));
        }
        for operation in self.steps.iter_mut().filter_map(|step| step.operation.as_mut()) {
            if !operation.is_correct() {
                return Err(format!("rank {rank} got a wrong result from {}", operation.name()));
            }
        }
        Ok(())
    }
}

fn carrier(
    world: &SimpleCommunicator,
    number: usize,
    step: &Step,
    arena: &Memory,
    arena_bytes: u64,
) -> Carrier {
    let rank = world.rank() as u32;
    let mut parts = Vec::new();
    for it in &step.messages {
        let bytes = it.bytes as c_int;
        let (from, to) = (it.source_offset, it.destination_offset);
        let part = |peer: u32, is_source, offset, peer_offset| Part {
            peer: peer as c_int,
            is_source,
            offset,
            peer_offset,
            bytes,
        };
        for _ in 0..it.times {
            if it.source == rank {
                parts.push(part(it.destination, true, from, to));
            }
            if it.destination == rank {
                parts.push(part(it.source, false, to, from));
            }
        }
    }
    let tag = (number % TAGS) as c_int;
    match step.backend {
        // A window is made by all.
        Backend::Put | Backend::Get if !step.messages.is_empty() => {
            let is_put = step.backend == Backend::Put;
            Carrier::OneSided(OneSided::new(world, is_put, &parts, arena, arena_bytes))
        }
        _ if parts.is_empty() => Carrier::None,
        Backend::Persistent => Carrier::Persistent(Persistent::new(world, tag, &parts, arena)),
        _ => Carrier::TwoSided(TwoSided::new(world, tag, &parts, arena)),
    }
}
