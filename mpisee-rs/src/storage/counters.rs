//! Slots of the segment with one writer, found by key.

use crate::storage::segment::Segment;
use crate::storage::seqlock;
use mpisee_profile::WorldRank;
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::{CHUNK_HEADER_BYTES, ChunkHeader, SLOT_BYTES, Slot, peer};
use mpisee_profile::segment::{SlotKey, TargetKey};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::storage::seqlock::add;

/// Bytes of the first chunk: 63 slots. Each further one is twice as large, up to the largest.
const FIRST_CHUNK_BYTES: usize = 1 << 12;
const LARGEST_CHUNK_BYTES: usize = 1 << 16;
/// Entries of the first index; a power of two.
const FIRST_ENTRIES: usize = 128;

/// The key under which readers find the counts.
#[derive(Clone, Copy)]
pub struct Lasting {
    /// A key of a communicator with a temporary number is replaced by that of its row.
    pub key: SlotKey,
    /// World rank of a peer that is in no logged member list.
    pub world_rank: Option<WorldRank>,
}

impl Lasting {
    /// The key as it is.
    pub fn from_key(key: SlotKey) -> Lasting {
        Lasting { key, world_rank: None }
    }
}

/// A set of counters with a single writer at a time.
pub struct Counters {
    /// Open addressing; key 0 is free. About half of the entries are taken at most. An index that
    /// was outgrown is never freed, nor is the last one: a thread's counters live as long as the
    /// process.
    index: Cell<&'static [Cell<Entry>]>,
    taken: Cell<usize>,
    chunk: Cell<Option<&'static ChunkHeader>>,
    /// The number of these counters in [`ChunkHeader::key`]; 0 until there is a chunk.
    number: Cell<u64>,
    next_chunk_bytes: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    slot: *const Slot,
}

const FREE: Entry = Entry { key: 0, slot: ptr::null() };

/// The index of counters without a slot: one free entry, in which nothing is ever put.
struct Nothing([Cell<Entry>; 1]);

// SAFETY: nobody changes it.
unsafe impl Sync for Nothing {}

static NOTHING: Nothing = Nothing([Cell::new(FREE)]);

impl Counters {
    pub fn new() -> Self {
        Counters {
            index: Cell::new(&NOTHING.0),
            taken: Cell::new(0),
            chunk: Cell::new(None),
            number: Cell::new(0),
            next_chunk_bytes: Cell::new(FIRST_CHUNK_BYTES),
        }
    }

    /// The slot with that key, made if there is none; `None` if there is no room for it.
    #[inline]
    pub fn slot(&self, segment: &Segment, key: SlotKey) -> Option<&'static Slot> {
        self.slot_or(key, || self.insert(segment, key, Lasting::from_key(key)))
    }

    /// The slot with that key; what `make` returns, which calls [`Counters::insert`], if there is
    /// none.
    #[inline]
    pub fn slot_or(
        &self,
        key: SlotKey,
        make: impl FnOnce() -> Option<&'static Slot>,
    ) -> Option<&'static Slot> {
        let index = self.index.get();
        let mut at = hash(key);
        loop {
            let entry = index[at & (index.len() - 1)].get();
            if entry.key == key.0 {
                // SAFETY: a taken entry points to a slot in the segment, which is never unmapped.
                return Some(unsafe { &*entry.slot });
            }
            if entry.key == 0 {
                return make();
            }
            at += 1;
        }
    }

    /// Makes a slot for a key that has none.
    #[cold]
    #[inline(never)]
    pub fn insert(&self, segment: &Segment, key: SlotKey, lasting: Lasting) -> Option<&'static Slot> {
        if (self.taken.get() + 1) * 2 > self.index.get().len() {
            self.make_room()?;
        }
        let slot = if lasting.key == key {
            self.slot_with(segment, key, lasting.world_rank.map_or(0, |rank| u64::from(rank.get()) + 1))?
        } else {
            self.slot(segment, lasting.key)?
        };
        self.put(Entry { key: key.0, slot });
        self.taken.set(self.taken.get() + 1);
        Some(slot)
    }

    /// Drops keys of temporary communicators, which may be freed, and doubles the index if that is
    /// not enough. `None` if there is no memory for that.
    fn make_room(&self) -> Option<()> {
        let index = self.index.get();
        let taken = index.iter().map(Cell::get).filter(|entry| entry.key != 0);
        let mut lasting: Vec<Entry> = Vec::new();
        lasting.try_reserve_exact(self.taken.get()).ok()?;
        lasting.extend(taken.filter(|entry| !is_temporary(SlotKey(entry.key))));
        if lasting.len() * 4 >= index.len() || index.len() < FIRST_ENTRIES {
            self.index.set(new_index(FIRST_ENTRIES.max(index.len() * 2))?);
        } else {
            index.iter().for_each(|entry| entry.set(FREE));
        }
        self.taken.set(lasting.len());
        lasting.into_iter().for_each(|entry| self.put(entry));
        Some(())
    }

    fn put(&self, new: Entry) {
        let index = self.index.get();
        let from = hash(SlotKey(new.key));
        let entry = (from..).map(|at| &index[at & (index.len() - 1)]).find(|entry| entry.get().key == 0);
        // There is a free one: at most half of them are taken.
        if let Some(entry) = entry {
            entry.set(new);
        }
    }

    /// Makes a slot that is not in the index; `None` if there is no room for it.
    pub fn new_slot(&self, segment: &Segment, key: SlotKey) -> Option<&'static Slot> {
        self.slot_with(segment, key, 0)
    }

    /// The same, of a peer whose rank in the world readers find nowhere else, see
    /// [`peer::WORLD_RANK_PLUS_1`].
    fn slot_with(&self, segment: &Segment, key: SlotKey, world_rank_plus_1: u64) -> Option<&'static Slot> {
        let slots_of = |chunk: &ChunkHeader| {
            (chunk.bytes.load(Ordering::Relaxed) as usize - CHUNK_HEADER_BYTES) / SLOT_BYTES
        };
        let full = |chunk: &ChunkHeader| chunk.used.load(Ordering::Relaxed) as usize >= slots_of(chunk);
        if self.chunk.get().is_none_or(full) {
            let bytes = self.next_chunk_bytes.get();
            let chunk = segment.counters(bytes)?;
            if self.number.get() == 0 {
                // No two chunks begin at one address.
                self.number.set(ptr::from_ref(chunk).addr() as u64);
            }
            chunk.key.store(self.number.get(), Ordering::Relaxed);
            self.chunk.set(Some(chunk));
            self.next_chunk_bytes.set((bytes * 2).min(LARGEST_CHUNK_BYTES));
        }
        let chunk = self.chunk.get()?;
        let used = chunk.used.load(Ordering::Relaxed);
        let offset = CHUNK_HEADER_BYTES + used as usize * SLOT_BYTES;
        // SAFETY: the chunk has room for the slot, as just looked at; chunks are mapped, aligned
        // and zero.
        let slot = unsafe { &*ptr::from_ref(chunk).cast::<u8>().add(offset).cast::<Slot>() };
        slot.key.store(key.0, Ordering::Relaxed);
        if world_rank_plus_1 > 0 {
            slot.values[peer::WORLD_RANK_PLUS_1].store(world_rank_plus_1, Ordering::Relaxed);
        }
        // Publishes the slot, whose key is visible before.
        chunk.used.store(used + 1, Ordering::Release);
        segment.note_moment();
        Some(slot)
    }
}

/// `entries` free ones, a power of two; `None` if there is no memory for them.
fn new_index(entries: usize) -> Option<&'static [Cell<Entry>]> {
    let mut index = Vec::new();
    index.try_reserve_exact(entries).ok()?;
    index.resize(entries, Cell::new(FREE));
    Some(index.leak())
}

/// Returns whether the key is of a communicator with a temporary number, which is in no segment.
fn is_temporary(key: SlotKey) -> bool {
    match key.meaning() {
        Some(Meaning::Call(call)) => call.communicator.is_temporary(),
        Some(Meaning::Peer(peer) | Meaning::Target(TargetKey { peer, .. })) => {
            peer.communicator.is_temporary()
        }
        Some(Meaning::Path(path)) => path.communicator.is_temporary(),
        Some(Meaning::GpuTime(time)) => time.communicator.is_temporary(),
        _ => false,
    }
}

#[inline]
fn hash(key: SlotKey) -> usize {
    // Multiplication spreads the low bits upwards; the high half is the better one.
    (key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Changes the values of a slot so that a reader sees all changes or none.
#[inline]
pub fn update(slot: &Slot, change: impl FnOnce(&[AtomicU64; 6])) {
    seqlock::update(&slot.sequence, || change(&slot.values));
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::segment::PeerKey;
    use mpisee_profile::{CommId, CommRank};

    fn with_segment(test: impl FnOnce(&Segment)) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (segment, complaint) = Segment::create(folder.path()).expect("there is memory");
        assert_eq!(complaint, None);
        test(&segment);
        segment.remove();
    }

    fn key(communicator: u32, peer: u32) -> SlotKey {
        PeerKey { communicator: CommId::new(communicator), peer: CommRank::new(peer) }.pack()
    }

    #[test]
    fn a_key_has_one_slot_however_many_follow() {
        with_segment(|segment| {
            let counters = Counters::new();
            let slot =
                |peer: u32| ptr::from_ref(counters.slot(segment, key(1, peer)).expect("there is room"));
            let slots: Vec<*const Slot> = (0..5000).map(slot).collect();
            assert_eq!((0..5000).map(slot).collect::<Vec<_>>(), slots);
            let distinct: std::collections::HashSet<_> = slots.iter().collect();
            assert_eq!(distinct.len(), 5000);
        });
    }

    #[test]
    fn a_slot_has_the_sum_of_what_was_counted_under_its_key() {
        with_segment(|segment| {
            let counters = Counters::new();
            for peer in (0..200).chain(0..100) {
                let slot = counters.slot(segment, key(7, peer)).expect("there is room");
                update(slot, |values| add(&values[0], u64::from(peer) + 1));
            }
            let sum = |peer: u32| {
                counters.slot(segment, key(7, peer)).expect("it is there").values[0].load(Ordering::Relaxed)
            };
            assert_eq!((sum(42), sum(142)), (86, 143));
        });
    }

    #[test]
    fn keys_of_temporary_communicators_count_for_their_row_and_make_room() {
        with_segment(|segment| {
            let counters = Counters::new();
            for number in 0..3000 {
                let temporary = key(CommId::FIRST_TEMPORARY.get() + number, 0);
                let lasting = Lasting::from_key(key(5, number % 3));
                let slot = counters.slot_or(temporary, || counters.insert(segment, temporary, lasting));
                update(slot.expect("there is room"), |values| add(&values[0], 1));
            }
            let counted = |peer: u32| {
                counters.slot(segment, key(5, peer)).expect("it is there").values[0].load(Ordering::Relaxed)
            };
            assert_eq!([0, 1, 2].map(counted), [1000; 3]);
            assert_eq!(counters.index.get().len(), FIRST_ENTRIES);
        });
    }
}
