//! Atomics and cells of the standard library, in one place: `tests/model` compiles the modules that use them with those
//! of a model checker instead.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// A value that only the caller writes.
#[inline]
pub fn own_value(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

/// A cell whose uses are functions, so that a model checker sees where each begins and ends.
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    #[inline]
    pub const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Reads.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Writes.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
