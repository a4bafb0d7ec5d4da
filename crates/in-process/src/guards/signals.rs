//! Blocks signals: while the profiler writes, a write beyond `RLIMIT_FSIZE`, or into a pipe without
//! a reader, then fails with an error instead of ending the program; and while a lock is held, no
//! handler waits for it, or keeps it for good by `siglongjmp`.

use crate::guards::errno;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// The number of the last signal.
const LAST_SIGNAL: c_int = 64;
/// Signals of faults, which cannot wait.
const OF_FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Keeps signals blocked on this thread while it lives.
pub struct Held<const COUNT: usize> {
    signals: [c_int; COUNT],
    before: libc::sigset_t,
}

/// Blocks the signals on this thread, and drops those that come.
pub fn hold<const COUNT: usize>(signals: [c_int; COUNT]) -> Option<Held<COUNT>> {
    block(set_of(signals), signals)
}

/// Blocks all signals on this thread but those of its own faults. Of `own` those that come are
/// dropped, others come afterwards.
pub fn hold_all<const COUNT: usize>(own: [c_int; COUNT]) -> Option<Held<COUNT>> {
    block(set_of((1..=LAST_SIGNAL).filter(|signal| !OF_FAULTS.contains(signal))), own)
}

fn block<const COUNT: usize>(set: libc::sigset_t, signals: [c_int; COUNT]) -> Option<Held<COUNT>> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the first set is filled, the second is filled by the call, if it succeeds.
    unsafe {
        let code = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr());
        (code == 0).then(|| Held { signals, before: before.assume_init() })
    }
}

fn set_of(signals: impl IntoIterator<Item = c_int>) -> libc::sigset_t {
    // A signal that is refused sets it.
    let _errno = errno::keep();
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes an empty set, to which the others add, or refuse a signal that
    // the C library keeps for itself.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

impl<const COUNT: usize> Drop for Held<COUNT> {
    fn drop(&mut self) {
        // A signal that is not pending sets it.
        let _errno = errno::keep();
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets are valid, and nothing is waited for.
        unsafe {
            // If the application blocks a signal itself, a pending one is left to it.
            for &signal in
                self.signals.iter().filter(|&&it| libc::sigismember(&raw const self.before, it) == 0)
            {
                let set = set_of([signal]);
                while libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const now) == signal {}
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn counted(signal: c_int, handler: extern "C" fn(c_int)) {
        // SAFETY: the handler only counts, and no other test uses this signal.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }

    fn raise(signal: c_int) {
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(signal) };
    }

    #[test]
    fn signals_wait_and_those_of_our_own_are_dropped() {
        static HANDLED: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handle(signal: c_int) {
            HANDLED.fetch_add(if signal == libc::SIGUSR1 { 1 } else { 100 }, Ordering::SeqCst);
        }
        let signals = [libc::SIGUSR1, libc::SIGXFSZ];
        signals.into_iter().for_each(|signal| counted(signal, handle));
        {
            let _held = hold_all([libc::SIGXFSZ]);
            signals.into_iter().for_each(raise);
            assert_eq!(HANDLED.load(Ordering::SeqCst), 0);
        }
        assert_eq!(HANDLED.load(Ordering::SeqCst), 1, "the one that is not ours");
        {
            let _held = hold([libc::SIGXFSZ]);
            raise(libc::SIGUSR1);
            assert_eq!(HANDLED.load(Ordering::SeqCst), 2, "it is not held");
        }
        raise(libc::SIGXFSZ);
        assert_eq!(HANDLED.load(Ordering::SeqCst), 102);
    }
}
