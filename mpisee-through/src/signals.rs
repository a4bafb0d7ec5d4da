//! Signals that end a program, noted instead, so that it can put things in order first.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signal that came, 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// From now on signals that end a program are noted.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler: extern "C" fn(c_int) = note;
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// The signal that came last, if there was one.
pub fn caught() -> Option<c_int> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Ends as the signal would have ended the program.
pub fn die_of(signal: c_int) {
    // SAFETY: neither call has preconditions.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
