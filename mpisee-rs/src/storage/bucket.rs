//! The entries of a [`Table`](super::table::Table), four to a cache line of keys.

use crate::storage::once::Blank;
use crate::storage::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, wait_turn};
#[cfg(loom)]
use std::array;
use std::mem::MaybeUninit;

/// Entries of a bucket.
pub const WAYS: usize = if cfg!(loom) { 2 } else { 4 };

/// A bucket. Functions take the number of a way modulo [`WAYS`], so that a slot of the overflow is
/// one, too.
#[repr(C, align(64))]
pub struct Bucket<V> {
    pub keys: [AtomicU64; WAYS],
    /// Version of the entry: grows by two with each write or removal; odd while one of several
    /// threads changes the entry.
    pub writes: [AtomicU32; WAYS],
    pub values: [UnsafeCell<MaybeUninit<V>>; WAYS],
}

/// The place of an entry's value.
#[derive(Clone, Copy)]
pub struct Entry<V: 'static>(pub &'static UnsafeCell<MaybeUninit<V>>);

impl<V: Copy> Entry<V> {
    /// The value; while the handle is in use it is that of the handle.
    #[inline]
    pub fn value(&self) -> V {
        // SAFETY: the key was seen with acquire ordering, so the value written before it is
        // complete.
        self.0.with(|value| unsafe { (*value).assume_init_read() })
    }
}

// SAFETY: its fields are atomics, and values that may be anything.
unsafe impl<V> Blank for Bucket<V> {
    #[cfg(loom)]
    fn blank() -> Self {
        Bucket {
            keys: array::from_fn(|_| AtomicU64::new(0)),
            writes: array::from_fn(|_| AtomicU32::new(0)),
            values: array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
        }
    }
}

impl<V: Copy> Bucket<V> {
    /// Returns whether a way has the entry of a key.
    #[inline(always)]
    pub fn has(&self, way: usize, key: u64) -> bool {
        self.keys[way % WAYS].load(Ordering::Acquire) == key
    }

    /// Writes an entry into a way that nobody else can find.
    pub fn write_anew(&self, way: usize, key: u64, value: V) {
        self.write(way, key, || value, self.writes[way % WAYS].load(Ordering::Relaxed));
    }

    /// Removes an entry that nobody else can find.
    pub fn clear(&self, way: usize) {
        self.keys[way % WAYS].store(0, Ordering::Release);
    }

    /// The way that has the entry of a key.
    #[inline]
    pub fn way(&self, key: u64) -> Option<usize> {
        (0..WAYS).find(|&way| self.keys[way].load(Ordering::Acquire) == key)
    }

    /// The value of a way whose key was seen.
    #[inline]
    pub fn value(&'static self, way: usize) -> V {
        Entry(&self.values[way % WAYS]).value()
    }

    /// Claims the entry if its version is still `writes`; with several threads the version is odd
    /// meanwhile.
    #[inline]
    pub fn claim(&self, way: usize, writes: u32, shared: bool) -> bool {
        let count = &self.writes[way % WAYS];
        if shared {
            writes.is_multiple_of(2)
                && count
                    .compare_exchange(writes, writes.wrapping_add(1), Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        } else {
            count.load(Ordering::Relaxed) == writes
        }
    }

    /// The version of a way that is free: the thread that freed it is about to count that.
    #[cold]
    #[inline(never)]
    pub fn writes_once_even(&self, way: usize) -> u32 {
        let mut turn = 0;
        loop {
            let writes = self.writes[way].load(Ordering::Relaxed);
            if writes.is_multiple_of(2) {
                return writes;
            }
            wait_turn(turn);
            turn = turn.saturating_add(1);
        }
    }

    /// Writes an entry that is the caller's: it was free and taken, or claimed while it had
    /// `writes`.
    #[inline(always)]
    pub fn write(&self, way: usize, key: u64, make: impl FnOnce() -> V, writes: u32) {
        let way = way % WAYS;
        // SAFETY: no other thread writes the way, and none that follows the MPI standard reads it:
        // those that know the handle have yet to learn that it stands for this.
        self.values[way].with_mut(|place| unsafe { (*place).write(make()) });
        self.writes[way].store(writes.wrapping_add(2), Ordering::Release);
        self.keys[way].store(key, Ordering::Release);
    }
}

/// Adds to a number of entries; `usize::MAX` takes one away.
#[inline]
pub fn count(number: &AtomicUsize, more: usize, is_shared: bool) {
    if is_shared {
        number.fetch_add(more, Ordering::Relaxed);
    } else {
        number.store(number.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}
