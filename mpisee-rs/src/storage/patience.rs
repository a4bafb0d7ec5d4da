//! A lock whose waiters give up.
//!
//! The handler of a signal may leave a call by `siglongjmp` while this library holds a lock, which
//! then is never given back. Signals are not blocked against that: one for the process would come
//! to another thread instead, to whose stack the handler must not jump.

use crate::storage::sync::wait_turn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Longer than any thread holds a lock, on a machine with far more threads than cores, too.
const PATIENCE: Duration = Duration::from_secs(1);

/// A mutex whose waiters give up after [`PATIENCE`].
pub struct PatientMutex<T> {
    mutex: Mutex<T>,
    /// True if the lock was waited for in vain: nobody does so again, until it has been given back.
    is_given_up: AtomicBool,
}

impl<T> PatientMutex<T> {
    pub const fn new(value: T) -> Self {
        PatientMutex { mutex: Mutex::new(value), is_given_up: AtomicBool::new(false) }
    }

    /// The lock; `None` if whoever holds it does not give it back.
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.try_lock();
        if guard.is_some() {
            self.is_given_up.store(false, Ordering::Relaxed);
        }
        guard.or_else(|| self.wait())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        try_lock_anyway(&self.mutex)
    }

    #[cold]
    fn wait(&self) -> Option<MutexGuard<'_, T>> {
        let begin = Instant::now();
        for turn in 0.. {
            if self.is_given_up.load(Ordering::Relaxed) || begin.elapsed() >= PATIENCE {
                break;
            }
            wait_turn(turn);
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
        }
        let late = self.try_lock();
        self.is_given_up.store(late.is_none(), Ordering::Relaxed);
        late
    }
}

/// A lock, unless somebody holds it. What a panic has left in it is used as it is.
pub fn try_lock_anyway<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_given_back_is_waited_for_once() {
        let mutex = PatientMutex::new(7);
        let left = mutex.lock().expect("nobody holds it");
        let waited = |mutex: &PatientMutex<i32>| {
            let begin = Instant::now();
            let is_there = mutex.lock().is_some();
            (is_there, begin.elapsed() >= PATIENCE)
        };
        assert_eq!(waited(&mutex), (false, true));
        assert_eq!(waited(&mutex), (false, false));
        drop(left);
        assert_eq!(mutex.lock().as_deref(), Some(&7));
        let again = mutex.lock();
        assert_eq!(waited(&mutex), (false, true), "it was given back meanwhile");
        drop(again);
        assert_eq!(waited(&mutex), (true, false));
    }

    #[test]
    fn threads_wait_for_each_other() {
        let mutex = PatientMutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| *mutex.lock().expect("all give it back") += 1));
            }
        });
        assert_eq!(mutex.lock().as_deref(), Some(&400));
    }
}
