//! A seqlock: updates of a slot behind a sequence number, so that concurrent readers see all of an
//! update or none.

use crate::storage::sync::{AtomicU64, Ordering, fence, own_value};

/// Changes values of a slot so that a reader sees all changes or none: while they change `sequence`
/// is odd.
#[inline]
pub fn update(sequence: &AtomicU64, change: impl FnOnce()) {
    let before = own_value(sequence);
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::Release);
    change();
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Adds to a value that only the caller writes.
#[inline]
pub fn add(value: &AtomicU64, amount: u64) {
    value.store(own_value(value).wrapping_add(amount), Ordering::Relaxed);
}
