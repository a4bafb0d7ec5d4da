//! Blocks signals while the profiler writes: a write beyond `RLIMIT_FSIZE`, or into a pipe without a reader, then fails with
//! an error instead of ending the program.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// Keeps signals blocked on this thread while it lives.
pub struct Held<const COUNT: usize> {
    signals: [c_int; COUNT],
    before: libc::sigset_t,
}

/// Blocks the signals on this thread.
pub fn hold<const COUNT: usize>(signals: [c_int; COUNT]) -> Option<Held<COUNT>> {
    let mut before = MaybeUninit::uninit();
    let set = set_of(&signals);
    // SAFETY: the first set is filled, the second is filled by the call, if it succeeds.
    unsafe {
        let code = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr());
        (code == 0).then(|| Held { signals, before: before.assume_init() })
    }
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes an empty set, to which the others add.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

impl<const COUNT: usize> Drop for Held<COUNT> {
    fn drop(&mut self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets are valid, and nothing is waited for.
        unsafe {
            // If the application blocks a signal itself, a pending one is left to it.
            for &signal in
                self.signals.iter().filter(|&&it| libc::sigismember(&raw const self.before, it) == 0)
            {
                let set = set_of(&[signal]);
                while libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const now) == signal {}
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}
