//! A lock-free hash table, keyed by MPI handles.
//!
//! A level is an array of buckets, a bucket is a cache line of four keys beside its values. A
//! look-up reads the whole bucket of each level, so that an entry is removed by clearing its key,
//! with nothing left behind. When a bucket is full the entry goes to the next level, which is eight
//! times as large, and from the last one to [`Overflow`]. Nothing moves and no level is ever freed,
//! so that readers need no protection.

use crate::storage::bucket::{Bucket, Entry, WAYS, count};
use crate::storage::once::once;
use crate::storage::overflow::Overflow;
use crate::storage::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence, wait_turn};
#[cfg(loom)]
use std::array;
#[cfg(not(loom))]
use std::ptr;

// A model checker explores every interleaving of threads, so it needs small tables.
const LEVELS: usize = if cfg!(loom) { 1 } else { 2 };
const FIRST_BUCKETS: usize = if cfg!(loom) { 1 } else { 8 };
/// The key of an entry that is being written; no handle has all bits set.
const BUSY: u64 = u64::MAX;

/// The table. `V` is copied out; two entries never have the same key.
///
/// PERF: the pointers to the levels are beside what every call reads.
#[repr(C, align(64))]
pub struct Table<V> {
    shared: AtomicBool,
    /// Entries inserted so far, and changes noted.
    inserted: AtomicUsize,
    /// Entries removed so far, and changes noted.
    removed: AtomicUsize,
    /// The entries of these that are in the overflow.
    overflow_count: AtomicUsize,
    /// The first bucket of each level, which has [`buckets_of`] it.
    levels: [AtomicPtr<Bucket<V>>; LEVELS],
    overflow: AtomicPtr<Overflow<V>>,
}

/// An entry as it was found.
#[derive(Clone, Copy)]
pub struct EntryRef<V: 'static> {
    bucket: &'static Bucket<V>,
    /// The way of the bucket; of an entry in the overflow its slot, plus [`WAYS`].
    way: u32,
    writes: u32,
}

// SAFETY: a value is written by the thread that has made the key BUSY or claimed the version, or by
// the only thread. It is read by those that know the handle, which the program has handed from one
// to the other.
unsafe impl<V: Send> Sync for Table<V> {}

impl<V: Copy + 'static> Table<V> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Table {
            shared: AtomicBool::new(false),
            inserted: AtomicUsize::new(0),
            removed: AtomicUsize::new(0),
            overflow_count: AtomicUsize::new(0),
            levels: [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS],
            overflow: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The atomics of the model checker are no constants.
    #[cfg(loom)]
    pub fn new() -> Self {
        Table {
            shared: AtomicBool::new(false),
            inserted: AtomicUsize::new(0),
            removed: AtomicUsize::new(0),
            overflow_count: AtomicUsize::new(0),
            levels: array::from_fn(|_| AtomicPtr::default()),
            overflow: AtomicPtr::default(),
        }
    }

    /// Several threads will use the table at the same time.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// The bucket of a key on a level, if there is that level.
    #[inline(always)]
    fn bucket(&self, number: usize, key: u64) -> Option<&'static Bucket<V>> {
        let level = self.levels[number].load(Ordering::Acquire);
        // SAFETY: a level that was published has so many buckets, and is never freed.
        unsafe {
            let hash = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
            let at = hash & (buckets_of(number) - 1);
            level.wrapping_add(at).as_ref().filter(|_| !level.is_null())
        }
    }

    /// The value at `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<V> {
        let (bucket, way) = self.place(key)?;
        Some(bucket.value(way))
    }

    /// The place of the value at `key`.
    #[inline]
    pub fn entry(&self, key: u64) -> Option<Entry<V>> {
        let (bucket, way) = self.place(key)?;
        Some(Entry(&bucket.values[way % WAYS]))
    }

    /// The entry at `key`.
    #[inline]
    pub fn find(&self, key: u64) -> Option<EntryRef<V>> {
        let (bucket, way) = self.place(key)?;
        let writes = bucket.writes[way % WAYS].load(Ordering::Relaxed);
        Some(EntryRef { bucket, way: way as u32, writes })
    }

    /// The value of a found entry. With several threads it may be that of a newer entry as soon as
    /// MPI may have reused the handle.
    #[inline]
    pub fn value(&self, found: &EntryRef<V>) -> V {
        found.bucket.value(found.way as usize)
    }

    #[inline(always)]
    fn place(&self, key: u64) -> Option<(&'static Bucket<V>, usize)> {
        // No handle in use is 0, but a null handle may be, and so is the key of an empty way.
        if key == 0 {
            return None;
        }
        let bucket = self.bucket(0, key)?;
        match bucket.way(key) {
            Some(way) => Some((bucket, way)),
            None => self.place_beyond(key),
        }
    }

    /// As [`Table::place`], on the levels from the second one on and in the overflow.
    #[inline(never)]
    fn place_beyond(&self, key: u64) -> Option<(&'static Bucket<V>, usize)> {
        for number in (0..LEVELS).skip(1) {
            let bucket = self.bucket(number, key)?;
            if let Some(way) = bucket.way(key) {
                return Some((bucket, way));
            }
        }
        if self.overflow_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (bucket, slot) = self.overflow()?.find(key)?;
        Some((bucket, slot as usize + WAYS))
    }

    fn overflow(&self) -> Option<&'static Overflow<V>> {
        // SAFETY: it was made for good, or the pointer is null.
        unsafe { self.overflow.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the value at `key`, replacing an existing entry: MPI has reused the handle, so its old
    /// object is gone. False if there is no room.
    #[inline]
    pub fn insert(&self, key: u64, value: V) -> bool {
        self.insert_with(key, || value)
    }

    /// Sets the value at `key` to what `make` returns.
    ///
    /// PERF: constructs the value in place. Copying a value that was just written field by field,
    /// in larger pieces, would stall on store forwarding.
    #[inline(always)]
    pub fn insert_with(&self, key: u64, make: impl FnOnce() -> V) -> bool {
        self.insert_or(key, make, |value| self.replace_or_insert(key, value))
    }

    /// Adds an entry for a key that has none. Returns false, and changes nothing, if the key is
    /// there, several threads share the table, or memory is short.
    ///
    /// PERF: constructs the value in place, as above.
    #[inline(always)]
    pub fn insert_new(&self, key: u64, make: impl FnOnce() -> V) -> bool {
        let mut free = None;
        for number in 0..LEVELS {
            let Some(bucket) = self.bucket(number, key) else { break };
            for way in 0..WAYS {
                let there = bucket.keys[way].load(Ordering::Relaxed);
                if there == key {
                    return false;
                }
                if there == 0 && free.is_none() {
                    free = Some((bucket, way));
                }
            }
        }
        if self.is_shared() {
            return false;
        }
        let is_nowhere_else = self.overflow_count.load(Ordering::Relaxed) == 0;
        let Some((bucket, way)) = free.filter(|_| is_nowhere_else) else {
            return self.insert_beyond(key, make());
        };
        self.inserted.store(self.inserted.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        bucket.write(way, key, make, bucket.writes[way].load(Ordering::Relaxed));
        true
    }

    /// As [`Table::insert_with`], but where there is an entry at `key` already, `again` decides
    /// what to do with the value.
    #[inline(always)]
    pub fn insert_or(&self, key: u64, make: impl FnOnce() -> V, again: impl FnOnce(V) -> bool) -> bool {
        let mut free = None;
        for number in 0..LEVELS {
            let Some(bucket) = self.bucket(number, key) else { break };
            for way in 0..WAYS {
                let there = bucket.keys[way].load(Ordering::Acquire);
                if there == key {
                    return again(make());
                }
                if there == 0 && free.is_none() {
                    free = Some((bucket, way));
                }
            }
        }
        let is_nowhere_else = self.overflow_count.load(Ordering::Relaxed) == 0;
        match free.filter(|(bucket, way)| is_nowhere_else && self.take(&bucket.keys[*way])) {
            Some((bucket, way)) => {
                self.fill(bucket, way, key, make);
                true
            }
            None if is_nowhere_else || !self.is_in_overflow(key) => self.insert_free(key, make()),
            None => again(make()),
        }
    }

    /// As [`Table::insert_new`], for a key that is on no level; false if it is in the overflow, or
    /// there is no room.
    #[inline(never)]
    fn insert_beyond(&self, key: u64, value: V) -> bool {
        !self.is_in_overflow(key) && self.insert_free(key, value)
    }

    fn is_in_overflow(&self, key: u64) -> bool {
        self.overflow().is_some_and(|overflow| overflow.find(key).is_some())
    }

    #[cold]
    #[inline(never)]
    fn replace_or_insert(&self, key: u64, value: V) -> bool {
        let mut turn = 0;
        while let Some((bucket, way)) = self.place(key) {
            let writes = bucket.writes[way % WAYS].load(Ordering::Acquire);
            // If another thread has removed the entry since the look-up, the version may be that of
            // its successor.
            if bucket.has(way, key) && bucket.claim(way, writes, self.is_shared()) {
                self.note_change();
                bucket.write(way, key, || value, writes);
                return true;
            }
            // Another thread is removing it at this moment.
            wait_turn(turn);
            turn = turn.saturating_add(1);
        }
        self.insert_free(key, value)
    }

    /// Adds an entry for a key that has none; false if there is no room.
    #[inline(never)]
    fn insert_free(&self, key: u64, value: V) -> bool {
        for number in 0..LEVELS {
            if once(&self.levels[number], buckets_of(number)).is_null() {
                return false;
            }
            let Some(bucket) = self.bucket(number, key) else { return false };
            if let Some(way) = (0..WAYS).find(|&way| self.take(&bucket.keys[way])) {
                self.fill(bucket, way, key, || value);
                return true;
            }
        }
        // SAFETY: it was made for good, or the pointer is null.
        let Some(overflow) = (unsafe { once(&self.overflow, 1).as_ref() }) else { return false };
        self.count(&self.inserted, 1);
        self.count(&self.overflow_count, 1);
        let is_added = overflow.insert(key, value, self.is_shared());
        if !is_added {
            self.count(&self.removed, 1);
            self.count(&self.overflow_count, usize::MAX);
        }
        is_added
    }

    /// Writes an entry into a free way that was taken for it.
    #[inline(always)]
    fn fill(&self, bucket: &Bucket<V>, way: usize, key: u64, make: impl FnOnce() -> V) {
        self.count(&self.inserted, 1);
        let mut writes = bucket.writes[way].load(Ordering::Relaxed);
        if !writes.is_multiple_of(2) {
            writes = bucket.writes_once_even(way);
        }
        bucket.write(way, key, make, writes);
    }

    /// Returns whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // In this order: where others insert and remove meanwhile, no entry of the caller's is
        // overlooked.
        let removed = self.removed.load(Ordering::Acquire);
        self.inserted.load(Ordering::Relaxed) == removed
    }

    /// Counts a change of an entry, as if it was replaced by a new one.
    pub fn note_change(&self) {
        self.count(&self.inserted, 1);
        self.count(&self.removed, 1);
    }

    /// A number that changes whenever an entry is inserted or replaced by a new one.
    #[inline(always)]
    pub fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed) as u64
    }

    #[inline]
    fn count(&self, number: &AtomicUsize, more: usize) {
        count(number, more, self.is_shared());
    }

    /// Returns whether several threads use the table.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    fn take(&self, key: &AtomicU64) -> bool {
        if key.load(Ordering::Relaxed) != 0 {
            return false;
        }
        // PERF: an atomic exchange costs five nanoseconds, which a single thread need not pay.
        !self.is_shared() || key.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Removes what was found, unless its handle was given out again since and stands for something
    /// new.
    #[inline]
    pub fn remove_found(&self, found: &EntryRef<V>) {
        if self.claim(found) {
            let way = found.way as usize % WAYS;
            found.bucket.keys[way].store(0, Ordering::Release);
            // Who sees this sees the insertion, see `is_empty`.
            fence(Ordering::Release);
            self.count(&self.removed, 1);
            found.bucket.writes[way].store(found.writes.wrapping_add(2), Ordering::Release);
            if let Some(slot) = found.way.checked_sub(WAYS as u32) {
                self.release(slot);
            }
        }
    }

    /// Frees the slot of an entry of the overflow that was removed.
    #[inline(never)]
    fn release(&self, slot: u32) {
        if let Some(overflow) = self.overflow() {
            overflow.release(slot, self.is_shared());
        }
        self.count(&self.overflow_count, usize::MAX);
    }

    /// Replaces the value of what was found, unless its handle was given out again since.
    pub fn replace_found(&self, found: &EntryRef<V>, value: V) {
        if self.claim(found) {
            let key = found.bucket.keys[found.way as usize % WAYS].load(Ordering::Relaxed);
            found.bucket.write(found.way as usize, key, || value, found.writes);
        }
    }

    #[inline]
    fn claim(&self, found: &EntryRef<V>) -> bool {
        found.bucket.claim(found.way as usize, found.writes, self.is_shared())
    }

    /// Removes the entry at `key`.
    pub fn remove(&self, key: u64) -> Option<V> {
        let found = self.find(key)?;
        let value = self.value(&found);
        self.remove_found(&found);
        Some(value)
    }
}

/// The buckets of a level.
#[inline(always)]
const fn buckets_of(level: usize) -> usize {
    FIRST_BUCKETS << (3 * level)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::storage::sync::core_time;
    use std::collections::HashMap;
    use std::thread;
    use std::time::Duration;

    /// A sequence of numbers that is the same on each run.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state: u64 = 0x2545_f491_4f6c_dd1d;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    fn behaves_as_a_map(table: &Table<u64>) {
        let mut model = HashMap::new();
        let mut draw = numbers();
        for step in 0..200_000 {
            let key = 1 + draw(3000);
            match draw(3) {
                0 => assert_eq!(table.remove(key), model.remove(&key), "step {step}"),
                1 => assert_eq!(table.get(key), model.get(&key).copied(), "step {step}"),
                _ => {
                    assert!(table.insert(key, step));
                    model.insert(key, step);
                }
            }
        }
    }

    #[test]
    fn a_null_handle_stands_for_nothing() {
        let table = Table::new();
        assert_eq!(table.get(0), None);
        table.insert(8, 3);
        assert_eq!((table.get(0), table.remove(0), table.get(8)), (None, None, Some(3)));
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        behaves_as_a_map(&Table::new());
        let shared = Table::new();
        shared.share();
        behaves_as_a_map(&shared);
    }

    #[test]
    fn it_takes_more_than_its_first_level_and_gives_it_back() {
        let table = Table::new();
        for key in 1..=10_000u64 {
            assert!(table.insert(key, key * 3));
        }
        for key in 1..=10_000u64 {
            assert_eq!(table.remove(key), Some(key * 3));
        }
        assert!((1..=10_000).all(|key| table.get(key).is_none()));
        assert!(table.is_empty());
    }

    #[test]
    fn found_entry_is_removed_only_while_unchanged() {
        for shared in [false, true] {
            let table = Table::new();
            if shared {
                table.share();
            }
            table.insert(7, 1);
            let before = table.find(7).unwrap();
            // The library gives the handle out again, to another thread.
            table.insert(7, 2);
            table.remove_found(&before);
            assert_eq!(table.get(7), Some(2));
            table.replace_found(&before, 3);
            assert_eq!(table.get(7), Some(2));
        }
    }

    #[test]
    fn threads_do_not_disturb_each_other() {
        static TABLE: Table<u64> = Table::new();
        TABLE.share();
        std::thread::scope(|scope| {
            for thread in 1..=4u64 {
                scope.spawn(move || {
                    for round in 0..20_000u64 {
                        let key = thread << 32 | (round % 97 + 1);
                        assert!(TABLE.insert(key, round));
                        assert_eq!(TABLE.get(key), Some(round));
                        assert_eq!(TABLE.remove(key), Some(round));
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_another_thread_gives_up_its_core() {
        const LONG: Duration = Duration::from_millis(400);
        for is_removed in [false, true] {
            let table = &*Box::leak(Box::new(Table::new()));
            table.share();
            table.insert(7, 1);
            let found = table.find(7).unwrap();
            let (bucket, way) = (found.bucket, found.way as usize);
            // The thread that has claimed the entry loses its core, before it takes the key away or
            // after that.
            assert!(table.claim(&found));
            let take_away = || bucket.keys[way].store(0, Ordering::Release);
            if is_removed {
                take_away();
            }
            let waiting = thread::spawn(|| core_time(|| assert!(table.insert(7, 2))));
            thread::sleep(LONG);
            assert!(!waiting.is_finished());
            if !is_removed {
                take_away();
            }
            bucket.writes[way].store(found.writes.wrapping_add(2), Ordering::Release);
            assert!(waiting.join().unwrap() < LONG / 8);
            assert_eq!(table.get(7), Some(2));
        }
    }
}
