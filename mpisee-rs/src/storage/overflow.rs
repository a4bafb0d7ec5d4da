//! The entries of a [`Table`](super::table::Table) beyond its own levels, where a program has
//! hundreds of requests open or a million.
//!
//! Entries are in a slab, which grows by what is open and no more: a slot that was freed is used
//! again before a new one. An index finds their slots by the key. It has levels, each four times as
//! large as the one before; a way of the index takes eight bytes, so that a level which is hardly
//! used costs little. As in the table nothing moves and nothing is ever freed, so that readers need
//! no protection.

use crate::storage::bucket::{Bucket, WAYS, count};
use crate::storage::once::{Blank, once};
use crate::storage::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
use std::array;

const INDEX_WAYS: usize = if cfg!(loom) { 2 } else { 8 };
const INDEX_LEVELS: usize = if cfg!(loom) { 2 } else { 10 };
/// The binary logarithm of the buckets of the first level.
const FIRST_INDEX_BITS: usize = if cfg!(loom) { 0 } else { 6 };
const CHUNKS: usize = if cfg!(loom) { 2 } else { 22 };
/// The buckets of the first chunk of the slab; each chunk has twice as many as the one before.
const FIRST_CHUNK: usize = if cfg!(loom) { 1 } else { 64 };
/// Bits of a [`Position`] below its level.
const WAY_BITS: u32 = 28;
const _: () = assert!((INDEX_WAYS << (FIRST_INDEX_BITS + 2 * (INDEX_LEVELS - 1))) <= 1 << WAY_BITS);

/// The entries.
pub struct Overflow<V> {
    index: [AtomicPtr<IndexBucket>; INDEX_LEVELS],
    /// The entries on each level of the index.
    on_level: [AtomicUsize; INDEX_LEVELS],
    chunks: [AtomicPtr<Bucket<V>>; CHUNKS],
    /// A word for each slot of a chunk: the [`Position`] of an entry; of a free slot the next free
    /// one, plus 1, or 0.
    words: [AtomicPtr<AtomicU32>; CHUNKS],
    /// The first free slot, plus 1, below a count of its changes: a thread that was interrupted
    /// sees that it is another.
    free: AtomicU64,
    /// Slots that were ever used.
    used: AtomicU32,
}

/// Ways of the index: for each entry the low half of its key above the number of its slot, plus 1;
/// 0 where there is none.
#[repr(C, align(64))]
struct IndexBucket {
    ways: [AtomicU64; INDEX_WAYS],
}

/// The place of an entry in the index: its level above the number of its way there.
#[derive(Clone, Copy)]
struct Position(u32);

// SAFETY: its fields are atomics.
unsafe impl<V> Blank for Overflow<V> {
    #[cfg(loom)]
    fn blank() -> Self {
        Overflow {
            index: array::from_fn(|_| AtomicPtr::default()),
            on_level: array::from_fn(|_| AtomicUsize::new(0)),
            chunks: array::from_fn(|_| AtomicPtr::default()),
            words: array::from_fn(|_| AtomicPtr::default()),
            free: AtomicU64::new(0),
            used: AtomicU32::new(0),
        }
    }
}

// SAFETY: its fields are atomics.
unsafe impl Blank for IndexBucket {
    #[cfg(loom)]
    fn blank() -> Self {
        IndexBucket { ways: array::from_fn(|_| AtomicU64::new(0)) }
    }
}

// SAFETY: it is an atomic.
unsafe impl Blank for AtomicU32 {
    #[cfg(loom)]
    fn blank() -> Self {
        AtomicU32::new(0)
    }
}

impl<V: Copy + 'static> Overflow<V> {
    /// The bucket of a key's entry, and its slot.
    ///
    /// PERF: the largest level has most of many entries, and after many none: levels without
    /// entries are skipped.
    pub fn find(&self, key: u64) -> Option<(&'static Bucket<V>, u32)> {
        let hash = hash(key);
        for level in (0..INDEX_LEVELS).rev() {
            if self.on_level[level].load(Ordering::Relaxed) == 0 {
                continue;
            }
            let first = self.index[level].load(Ordering::Acquire);
            if first.is_null() {
                continue;
            }
            let (_, index) = index_bucket(level, first, hash);
            for way in &index.ways {
                let word = way.load(Ordering::Acquire);
                if let Some(slot) = slot_of(word, key) {
                    let bucket = self.bucket(slot)?;
                    if bucket.has(slot as usize, key) {
                        return Some((bucket, slot));
                    }
                }
            }
        }
        None
    }

    /// Adds an entry for a key that has none; false if there is no room.
    pub fn insert(&self, key: u64, value: V, is_shared: bool) -> bool {
        let Some(slot) = self.take_slot(is_shared) else { return false };
        let (Some(bucket), Some(word)) = (self.bucket(slot), self.word(slot)) else { return false };
        bucket.write_anew(slot as usize, key, value);
        let is_indexed = self.enter(key, slot, word, is_shared);
        if !is_indexed {
            bucket.clear(slot as usize);
            self.free_slot(slot, word, is_shared);
        }
        is_indexed
    }

    /// Frees the slot of an entry whose key was removed.
    pub fn release(&self, slot: u32, is_shared: bool) {
        let Some(word) = self.word(slot) else { return };
        let (level, number) = Position(word.load(Ordering::Relaxed)).split();
        let first = self.index[level].load(Ordering::Acquire);
        // SAFETY: the position is that of a way of this level, which is never freed.
        let index = unsafe { &*first.wrapping_add(number / INDEX_WAYS) };
        index.ways[number % INDEX_WAYS].store(0, Ordering::Release);
        count(&self.on_level[level], usize::MAX, is_shared);
        self.free_slot(slot, word, is_shared);
    }

    /// Enters a slot into the index, on the first level that has a way for it.
    fn enter(&self, key: u64, slot: u32, word: &AtomicU32, is_shared: bool) -> bool {
        let hash = hash(key);
        let entry = key << 32 | u64::from(slot + 1);
        for level in 0..INDEX_LEVELS {
            let first = once(&self.index[level], index_buckets(level));
            if first.is_null() {
                return false;
            }
            if self.on_level[level].load(Ordering::Relaxed) == INDEX_WAYS * index_buckets(level) {
                continue;
            }
            // Whoever may look for the entry sees that there is one.
            count(&self.on_level[level], 1, is_shared);
            let (bucket, index) = index_bucket(level, first, hash);
            for (at, way) in index.ways.iter().enumerate() {
                if way.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                word.store(Position::new(level, bucket * INDEX_WAYS + at).0, Ordering::Relaxed);
                if !is_shared {
                    way.store(entry, Ordering::Release);
                    return true;
                }
                if way.compare_exchange(0, entry, Ordering::Release, Ordering::Relaxed).is_ok() {
                    return true;
                }
            }
            count(&self.on_level[level], usize::MAX, is_shared);
        }
        false
    }

    /// The bucket of a slot.
    #[inline]
    fn bucket(&self, slot: u32) -> Option<&'static Bucket<V>> {
        let (chunk, at) = chunk_of(slot as usize / WAYS);
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: a chunk that was published has so many buckets, and is never freed.
        (!first.is_null()).then(|| unsafe { &*first.wrapping_add(at) })
    }

    /// The word of a slot.
    #[inline]
    fn word(&self, slot: u32) -> Option<&'static AtomicU32> {
        let (chunk, at) = chunk_of(slot as usize / WAYS);
        let first = self.words.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: as above, with a word for each slot.
        (!first.is_null()).then(|| unsafe { &*first.wrapping_add(at * WAYS + slot as usize % WAYS) })
    }

    /// A slot for a new entry, one that was freed if there is one.
    fn take_slot(&self, is_shared: bool) -> Option<u32> {
        loop {
            let head = self.free.load(Ordering::Acquire);
            let Some(slot) = (head as u32).checked_sub(1) else { return self.new_slot(is_shared) };
            let next = u64::from(self.word(slot)?.load(Ordering::Relaxed));
            if self.change_free(head, next, is_shared) {
                return Some(slot);
            }
        }
    }

    fn free_slot(&self, slot: u32, word: &AtomicU32, is_shared: bool) {
        loop {
            let head = self.free.load(Ordering::Relaxed);
            word.store(head as u32, Ordering::Relaxed);
            if self.change_free(head, u64::from(slot + 1), is_shared) {
                return;
            }
        }
    }

    /// Makes `first` the first free slot, plus 1, if `head` is still what was there.
    fn change_free(&self, head: u64, first: u64, is_shared: bool) -> bool {
        let new = (head >> 32).wrapping_add(1) << 32 | first;
        if is_shared {
            return self.free.compare_exchange(head, new, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        }
        self.free.store(new, Ordering::Release);
        true
    }

    /// A slot that was never used, in a chunk that is made if need be.
    fn new_slot(&self, is_shared: bool) -> Option<u32> {
        loop {
            let slot = self.used.load(Ordering::Relaxed);
            let (chunk, _) = chunk_of(slot as usize / WAYS);
            let buckets = FIRST_CHUNK << chunk;
            if chunk >= CHUNKS
                || once(&self.words[chunk], buckets * WAYS).is_null()
                || once(&self.chunks[chunk], buckets).is_null()
            {
                return None;
            }
            if !is_shared {
                self.used.store(slot + 1, Ordering::Relaxed);
                return Some(slot);
            }
            if self.used.compare_exchange(slot, slot + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some(slot);
            }
        }
    }
}

impl Position {
    fn new(level: usize, way: usize) -> Position {
        Position((level as u32) << WAY_BITS | way as u32)
    }

    fn split(self) -> (usize, usize) {
        ((self.0 >> WAY_BITS) as usize % INDEX_LEVELS, self.0 as usize % (1 << WAY_BITS))
    }
}

/// The hash of a key.
///
/// PERF: handles come in the order of their numbers, or of their addresses. Those of a few lines of
/// the index follow each other, and so a program that goes through its requests in order finds the
/// index in its cache.
#[inline]
fn hash(key: u64) -> usize {
    const LINES_IN_ORDER: u64 = 4;
    // Eight handles that are numbers, or as many as are in a page of memory.
    let line = if key >> 32 == 0 { key >> 3 } else { key >> 12 };
    let product = u128::from(line / LINES_IN_ORDER) * 0x9e37_79b9_7f4a_7c15;
    let mixed = (product >> 64) as u64 ^ product as u64;
    ((mixed >> 20) * LINES_IN_ORDER + line % LINES_IN_ORDER) as usize
}

/// The slot of a word of the index, if it has one and the word may be of that key.
#[inline]
fn slot_of(word: u64, key: u64) -> Option<u32> {
    (word as u32).checked_sub(1).filter(|_| word >> 32 == key & u64::from(u32::MAX))
}

const fn index_buckets(level: usize) -> usize {
    1 << (FIRST_INDEX_BITS + 2 * level)
}

/// The bucket of a hash on a level of the index that begins at `first`, and its number.
#[inline]
fn index_bucket(level: usize, first: *mut IndexBucket, hash: usize) -> (usize, &'static IndexBucket) {
    let number = hash & (index_buckets(level) - 1);
    // SAFETY: a level that was published has so many buckets, and is never freed.
    (number, unsafe { &*first.wrapping_add(number) })
}

/// The chunk of a bucket of the slab, and its number there.
#[inline]
const fn chunk_of(bucket: usize) -> (usize, usize) {
    let chunk = (bucket / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, bucket - FIRST_CHUNK * ((1 << chunk) - 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_from_chunk_to_chunk() {
        assert_eq!([0, 63, 64, 191, 192].map(chunk_of), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
    }

    #[test]
    fn positions_name_level_and_way() {
        let last = INDEX_WAYS * index_buckets(INDEX_LEVELS - 1) - 1;
        for place in [(0, 0), (3, 77), (INDEX_LEVELS - 1, last)] {
            assert_eq!(Position::new(place.0, place.1).split(), place);
        }
    }

    #[test]
    fn handles_in_order_share_lines_of_the_index() {
        let distinct = |hashes: &mut dyn Iterator<Item = usize>| {
            hashes.map(|hash| hash & (index_buckets(5) - 1)).collect::<std::collections::HashSet<_>>().len()
        };
        // Numbers as MPICH has them, and addresses of structures as Open MPI has them.
        assert!(distinct(&mut (0..1000).map(|number| hash(0xec00_0000 + number))) <= 1000 / 8 + 1);
        assert!(distinct(&mut (0..1000).map(|number| hash(0x55c1_1549_e580 + 768 * number))) <= 190);
        // Lines that do not follow each other are spread over the level.
        assert!(distinct(&mut (0..1000).map(|number| hash(0x7f00_0000_0000 + (number << 20)))) > 900);
    }

    #[test]
    fn slots_that_were_freed_are_used_again() {
        let entries = once(&AtomicPtr::default(), 1);
        // SAFETY: it was made now, for good.
        let entries: &Overflow<u64> = unsafe { &*entries };
        for round in 0..5 {
            for key in 1..=1000 {
                assert!(entries.insert(key << round, key, round % 2 == 0));
            }
            for key in 1..=1000 {
                let (bucket, slot) = entries.find(key << round).unwrap();
                bucket.clear(slot as usize);
                entries.release(slot, round % 2 == 0);
                assert!(entries.find(key << round).is_none());
            }
            assert_eq!(entries.used.load(Ordering::Relaxed), 1000);
        }
    }
}
