//! Atomics and cells of the standard library, in one place: `tests/model` compiles the modules that
//! use them with those of a model checker instead.

use mpisee_in_process::guards::cancellation;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

/// Turns for which [`wait_turn`] keeps its core, and those for which it offers it to threads of its
/// own priority.
const SPINS: u32 = 100;
const YIELDS: u32 = 4;
/// Its pauses from then on, each twice as long as the one before, up to the last one.
const FIRST_PAUSE: Duration = Duration::from_micros(10);
const DOUBLINGS: u32 = 6;

/// Waits for what another thread does in a few instructions, in a loop that counts its turns from
/// 0.
///
/// The other thread may have no core. If this one has a real-time priority, and the core on which
/// the other one ran, the other one goes on only while this one sleeps.
#[cold]
#[inline(never)]
pub fn wait_turn(turn: u32) {
    let Some(later) = turn.checked_sub(SPINS) else { return std::hint::spin_loop() };
    match later.checked_sub(YIELDS) {
        None => std::thread::yield_now(),
        Some(pauses) => {
            let _not_cancelled = cancellation::hold();
            std::thread::sleep(FIRST_PAUSE * (1 << pauses.min(DOUBLINGS)));
        }
    }
}

/// A value that only the caller writes.
#[inline]
pub fn own_value(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

/// A cell whose uses are functions, so that a model checker sees where each begins and ends.
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
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

/// The time for which the calling thread had a core while it did that.
#[cfg(test)]
pub fn core_time(work: impl FnOnce()) -> Duration {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: there is room for the time.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    work();
    now() - before
}
