//! Values that are made for good when they are first needed, by whichever thread is the first.

#[cfg(not(loom))]
use crate::storage::memory::Zeros;
use crate::storage::sync::{AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::ptr;

/// A value of zeros, which is an empty one.
///
/// # Safety
/// All zeros are a value of the type, except with the atomics of the model checker.
pub unsafe trait Blank: Sized {
    /// The model checker's.
    #[cfg(loom)]
    fn blank() -> Self;
}

/// The first of `count` blank values, which are made for good if there are none; null if there is
/// no memory for them.
pub fn once<T: Blank>(place: &AtomicPtr<T>, count: usize) -> *mut T {
    let there = place.load(Ordering::Acquire);
    if there.is_null() { make_once(place, count) } else { there }
}

#[cold]
#[inline(never)]
#[cfg(not(loom))]
fn make_once<T: Blank>(place: &AtomicPtr<T>, count: usize) -> *mut T {
    // Memory of zeros that nobody has touched takes no room.
    let Some(new) = Zeros::for_values(count) else { return ptr::null_mut() };
    match place.compare_exchange(ptr::null_mut(), new.first(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new.keep(),
        // Another thread was first.
        Err(there) => there,
    }
}

#[cfg(loom)]
fn make_once<T: Blank>(place: &AtomicPtr<T>, count: usize) -> *mut T {
    let new = Box::into_raw((0..count).map(|_| T::blank()).collect::<Box<[T]>>());
    match place.compare_exchange(std::ptr::null_mut(), new.cast(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new.cast(),
        Err(there) => {
            // SAFETY: another thread was first; `new` was not published, so it is still ours alone.
            drop(unsafe { Box::from_raw(new) });
            there
        }
    }
}
