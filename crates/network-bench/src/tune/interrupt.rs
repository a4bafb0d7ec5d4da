//! SIGINT, SIGTERM and SIGHUP, so that an interrupted search ends its run and leaves no files
//! behind.

use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: c_int) {
    CAME.store(true, Ordering::Relaxed);
}

/// From now on, the signals are noted, unless whoever started this process has them ignored.
pub fn notice() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores to an atomic alone, which may be done at any time; both
        // structures are whole.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut noted: libc::sigaction = std::mem::zeroed();
                noted.sa_sigaction = note as extern "C" fn(c_int) as libc::sighandler_t;
                noted.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &noted, std::ptr::null_mut());
            }
        }
    }
}

/// Returns whether one of them came.
pub fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}
