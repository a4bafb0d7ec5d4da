//! Slots of the segment with one writer, found by key.

use crate::segment::Segment;
use mpisee_profile::segment::Key;
use mpisee_profile::segment::layout::{CHUNK_HEADER_BYTES, ChunkHeader, SLOT_BYTES, Slot};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of the first chunk: 63 slots. Each further one is twice as large, up to the largest.
const FIRST_CHUNK_BYTES: usize = 1 << 12;
const LARGEST_CHUNK_BYTES: usize = 1 << 16;
/// Places in the first index; a power of two.
const FIRST_PLACES: usize = 128;

/// A set of counters that one thread at a time writes.
pub struct Counters {
    /// Open addressing; key 0 is free. At most half of the places are taken.
    index: Box<[Place]>,
    taken: usize,
    chunk: Option<&'static ChunkHeader>,
    next_chunk_bytes: usize,
}

#[derive(Clone, Copy)]
struct Place {
    key: u64,
    slot: *const Slot,
}

const FREE: Place = Place { key: 0, slot: ptr::null() };

impl Counters {
    pub fn new() -> Self {
        Counters {
            index: vec![FREE; FIRST_PLACES].into_boxed_slice(),
            taken: 0,
            chunk: None,
            next_chunk_bytes: FIRST_CHUNK_BYTES,
        }
    }

    /// The slot with that key, made if there is none; `None` if there is no room for it.
    #[inline]
    pub fn slot(&mut self, segment: &Segment, key: Key) -> Option<&'static Slot> {
        let mask = self.index.len() - 1;
        let mut at = hash(key) & mask;
        loop {
            let place = self.index[at];
            if place.key == key.0 {
                // SAFETY: a taken place points to a slot in the segment, which is never unmapped.
                return Some(unsafe { &*place.slot });
            }
            if place.key == 0 {
                return self.insert(segment, key);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, segment: &Segment, key: Key) -> Option<&'static Slot> {
        let slot = self.new_slot(segment, key)?;
        if (self.taken + 1) * 2 > self.index.len() {
            let larger = vec![FREE; self.index.len() * 2].into_boxed_slice();
            let old = std::mem::replace(&mut self.index, larger);
            old.iter().filter(|place| place.key != 0).for_each(|&place| self.place(place));
        }
        self.place(Place { key: key.0, slot });
        self.taken += 1;
        Some(slot)
    }

    fn place(&mut self, new: Place) {
        let mask = self.index.len() - 1;
        let mut at = hash(Key(new.key)) & mask;
        while self.index[at].key != 0 {
            at = (at + 1) & mask;
        }
        self.index[at] = new;
    }

    fn new_slot(&mut self, segment: &Segment, key: Key) -> Option<&'static Slot> {
        let slots_of = |chunk: &ChunkHeader| {
            (chunk.bytes.load(Ordering::Relaxed) as usize - CHUNK_HEADER_BYTES) / SLOT_BYTES
        };
        let full = |chunk: &ChunkHeader| chunk.used.load(Ordering::Relaxed) as usize >= slots_of(chunk);
        if self.chunk.is_none_or(full) {
            self.chunk = Some(segment.counters(self.next_chunk_bytes)?);
            self.next_chunk_bytes = (self.next_chunk_bytes * 2).min(LARGEST_CHUNK_BYTES);
        }
        let chunk = self.chunk?;
        let used = chunk.used.load(Ordering::Relaxed);
        let offset = CHUNK_HEADER_BYTES + used as usize * SLOT_BYTES;
        // SAFETY: the chunk has room for the slot, as just looked at; chunks are mapped, aligned and zero.
        let slot = unsafe { &*ptr::from_ref(chunk).cast::<u8>().add(offset).cast::<Slot>() };
        slot.key.store(key.0, Ordering::Relaxed);
        // The slot counts from here on; its key is visible before.
        chunk.used.store(used + 1, Ordering::Release);
        Some(slot)
    }
}

#[inline]
fn hash(key: Key) -> usize {
    // Multiplication spreads the low bits upwards; the high half is the better one.
    (key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Changes the values of a slot so that a reader sees all changes or none.
#[inline]
pub fn update(slot: &Slot, change: impl FnOnce(&[AtomicU64; 6])) {
    let sequence = slot.sequence.load(Ordering::Relaxed);
    slot.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::Release);
    change(&slot.values);
    slot.sequence.store(sequence.wrapping_add(2), Ordering::Release);
}

/// Adds to a value that only the caller writes.
#[inline]
pub fn add(value: &AtomicU64, amount: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
