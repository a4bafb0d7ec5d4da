//! Blocks SIGXFSZ while the profile is written: a write beyond `RLIMIT_FSIZE` then fails with an error instead of
//! ending the program.

use std::mem::MaybeUninit;
use std::ptr;

/// Keeps the signal blocked on this thread while it lives.
pub struct Held {
    before: libc::sigset_t,
}

/// Blocks the signal on this thread.
pub fn hold() -> Option<Held> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the first set is filled before it is used, the second by the call, if it succeeds.
    unsafe {
        let set = the_signal();
        let code = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr());
        (code == 0).then(|| Held { before: before.assume_init() })
    }
}

fn the_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes an empty set, to which the second adds.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
        set.assume_init()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the sets are valid, and nothing is waited for.
        unsafe {
            // If the application blocks the signal itself, a pending one is left to it.
            if libc::sigismember(&raw const self.before, libc::SIGXFSZ) == 0 {
                let (set, now) = (the_signal(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
                while libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const now) == libc::SIGXFSZ {}
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}
