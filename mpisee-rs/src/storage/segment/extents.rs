//! Addresses of the segment's bytes: extents of memory, found by offset without a lock.
//!
//! Address space is taken when it is needed, not set aside for growth: batch systems, `ulimit -v`
//! and `mlockall` count what is mapped, used or not. So the segment cannot be one range of
//! addresses; each extent is wherever the kernel puts it, and stays there until the process ends.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Extents begin at multiples of this many bytes of the segment, and are multiples of it long.
pub const GRANULE: usize = 1 << 16;
const GRANULES_PER_LEAF: usize = 1 << 11;
const LEAVES: usize = 1 << 7;
/// Bytes that a segment has at most.
pub const MOST_BYTES: usize = GRANULE * GRANULES_PER_LEAF * LEAVES;

/// A tree of two levels with the address of each granule.
pub struct Extents([OnceLock<Vec<AtomicPtr<u8>>>; LEAVES]);

impl Extents {
    /// Without an extent.
    pub const fn new() -> Self {
        Extents([const { OnceLock::new() }; LEAVES])
    }

    /// Makes room for the addresses of `from..to`, which are at most [`MOST_BYTES`]; false if there
    /// is no memory.
    pub fn make_room(&self, from: usize, to: usize) -> bool {
        let leaves = from / GRANULE / GRANULES_PER_LEAF..(to / GRANULE).div_ceil(GRANULES_PER_LEAF);
        self.0[leaves].iter().all(|leaf| {
            if leaf.get().is_some() {
                return true;
            }
            let mut addresses = Vec::new();
            if addresses.try_reserve_exact(GRANULES_PER_LEAF).is_err() {
                return false;
            }
            addresses.resize_with(GRANULES_PER_LEAF, AtomicPtr::default);
            leaf.set(addresses).is_ok()
        })
    }

    /// Maps the segment's bytes from `from` on to the extent of `bytes` bytes at `base`, for which
    /// there is room.
    pub fn enter(&self, from: usize, bytes: usize, base: *mut u8) {
        for offset in (0..bytes).step_by(GRANULE) {
            let granule = (from + offset) / GRANULE;
            let leaf = self.0[granule / GRANULES_PER_LEAF].get();
            if let Some(place) = leaf.and_then(|leaf| leaf.get(granule % GRANULES_PER_LEAF)) {
                place.store(base.wrapping_add(offset), Ordering::Release);
            }
        }
    }

    /// The address of the byte at `offset`; `None` where no extent is.
    #[inline]
    pub fn address(&self, offset: usize) -> Option<*mut u8> {
        let granule = offset / GRANULE;
        let leaf = self.0.get(granule / GRANULES_PER_LEAF)?.get()?;
        let base = leaf[granule % GRANULES_PER_LEAF].load(Ordering::Acquire);
        (!base.is_null()).then(|| base.wrapping_add(offset % GRANULE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    #[test]
    fn each_byte_is_found_in_the_extent_that_has_it() {
        let extents = Extents::new();
        let leaf = GRANULE * GRANULES_PER_LEAF;
        assert_eq!(extents.address(0), None);
        // The second crosses the border between two leaves.
        for (from, bytes, base) in [(0, GRANULE, 0x7000_0000), (leaf - GRANULE, 3 * GRANULE, 0x3000_0000)] {
            assert!(extents.make_room(from, from + bytes));
            extents.enter(from, bytes, without_provenance_mut(base));
            for offset in [0, 8, GRANULE - 1, bytes - 1] {
                assert_eq!(extents.address(from + offset), Some(without_provenance_mut(base + offset)));
            }
            assert_eq!(extents.address(from + bytes), None);
        }
        assert_eq!(extents.address(MOST_BYTES), None);
    }
}
