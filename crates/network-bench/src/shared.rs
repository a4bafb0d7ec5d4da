//! The backends of one node, `shared` and `ipc`: where its ranks have what they share, and which
//! rank of a message copies its bytes.
//!
//! Each rank of a node has a segment of one shared window: a slot for each message that the rank
//! gets, then its arena, which with `ipc` is in the memory of its GPU instead. By the slot the two
//! ranks of a message agree on who copies. Both announce that they have started the step, which
//! never blocks, so that a rank which waits for the message depends on nothing but the other rank's
//! start, as with the other backends.

use crate::backend::Backend;
use crate::pattern::Pattern;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a slot: a cache line, so that messages do not slow each other down.
pub const SLOT_BYTES: u64 = 64;

/// The alignment of an arena in its segment: a page.
pub const PAGE: u64 = 4096;

/// Where slots and arenas are in the segments of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// By step and message, the place of the slot in the segment of the destination; nothing for
    /// steps of other backends.
    slots: Vec<Vec<u64>>,
    /// By rank, the bytes of its slots.
    slot_bytes: Vec<u64>,
    /// By rank, the bytes of its arena.
    arena_bytes: Vec<u64>,
}

impl Layout {
    /// The layout of a pattern that [`Pattern::check`] accepts, for `shared` or `ipc`; `None` if it
    /// has no messages of this backend.
    pub fn from_pattern(pattern: &Pattern, ranks: u32, backend: Backend) -> Option<Layout> {
        let mut slot_bytes = vec![0; ranks as usize];
        let mut slots = Vec::new();
        for step in &pattern.steps {
            let of_backend = step.messages.iter().filter(|_| step.backend == backend);
            let slot = |destination: u32| {
                let end = &mut slot_bytes[destination as usize];
                *end += SLOT_BYTES;
                *end - SLOT_BYTES
            };
            slots.push(of_backend.map(|message| message.destination).map(slot).collect::<Vec<_>>());
        }
        let arena = |rank| if backend == Backend::Shared { pattern.arena(rank) } else { 0 };
        let arena_bytes = (0..ranks).map(arena).collect();
        slots.iter().any(|of_step| !of_step.is_empty()).then_some(Layout { slots, slot_bytes, arena_bytes })
    }

    /// The place of a message's slot in the segment of its destination.
    pub fn slot(&self, step: usize, message: usize) -> u64 {
        self.slots[step][message]
    }

    /// The place of a rank's arena in its segment.
    pub fn arena(&self, rank: u32) -> u64 {
        self.slot_bytes[rank as usize].next_multiple_of(PAGE)
    }

    /// The bytes of a rank's segment.
    pub fn segment_bytes(&self, rank: u32) -> u64 {
        self.arena(rank).saturating_add(self.arena_bytes[rank as usize])
    }
}

/// Checks that both ranks of each message of this backend are on one node. `nodes` has the node of
/// each rank.
pub fn check_nodes(pattern: &Pattern, backend: Backend, nodes: &[i64]) -> Result<(), String> {
    for step in pattern.steps.iter().filter(|step| step.backend == backend) {
        let is_apart = |source: u32, destination: u32| nodes[source as usize] != nodes[destination as usize];
        if let Some(it) = step.messages.iter().find(|it| is_apart(it.source, it.destination)) {
            let name = if step.name.is_empty() { "a step".to_owned() } else { format!("step {}", step.name) };
            return Err(format!(
                "in {name}, ranks {} and {} are on two nodes, which share no memory; take another --backend than {backend} \
                 for messages between nodes",
                it.source, it.destination
            ));
        }
    }
    Ok(())
}

/// The phases of a message in one run of a pattern. A slot goes on with the next run's after the
/// last, so that nothing is reset between runs.
const PHASES: u64 = 4;
/// Both ranks have started the step, and none copies.
const READY: u64 = 2;
/// One of the two copies.
const CLAIMED: u64 = 3;

/// A message's slot as one of its ranks has it, in one run of the pattern.
#[derive(Clone, Copy, Debug)]
pub struct Handshake<'s> {
    slot: &'s AtomicU64,
    /// The slot's number before the run.
    before: u64,
}

impl<'s> Handshake<'s> {
    /// The handshake of a run, counted from 0 on; the slot was zero before the first.
    pub fn new(slot: &'s AtomicU64, run: u64) -> Self {
        Handshake { slot, before: run * PHASES }
    }

    /// Announces that this rank has started the step: a source's bytes may be read from now on, a
    /// destination's written.
    pub fn announce(self) {
        self.slot.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether the bytes have arrived. Copies them by `copy`, if both ranks have started
    /// the step and the other one does not copy.
    pub fn complete(self, copy: impl FnOnce()) -> bool {
        if self.is_complete() {
            return true;
        }
        if !self.claim() {
            return false;
        }
        copy();
        self.finish();
        true
    }

    /// Returns whether the bytes have arrived.
    pub fn is_complete(self) -> bool {
        // Acquire: the copy happened before its end. A run's end lets the other rank start the next
        // run at once, but not complete it.
        self.slot.load(Ordering::Acquire) >= self.before + PHASES
    }

    /// Returns whether this rank is to copy the bytes now, and then to [`finish`](Self::finish):
    /// both ranks have started the step, and the other one does not copy.
    pub fn claim(self) -> bool {
        let (ready, claimed) = (self.before + READY, self.before + CLAIMED);
        // Acquire: what both ranks did before they announced their starts happened before the copy.
        // Most looks find nothing to claim, and leave the cache line to the other rank.
        self.slot.load(Ordering::Relaxed) == ready
            && self.slot.compare_exchange(ready, claimed, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Announces that the bytes have arrived, by the rank that has copied them.
    pub fn finish(self) {
        self.slot.store(self.before + PHASES, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
