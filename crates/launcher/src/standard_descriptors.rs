//! The first three descriptors, as this process was started with them.
//!
//! Rust opens `/dev/null` before `main` where one is closed, so that no file gets its number. The
//! program is to start without it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Runs before Rust's own start.
#[used]
// SAFETY: the section holds addresses of functions that the dynamic loader calls once, with
// arguments that this one does not look at.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: the call takes numbers alone.
        was_closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

/// A function that closes those that were closed, for the moment before the program begins.
pub fn closer() -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
    || {
        for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
            if was_closed.load(Ordering::Relaxed) {
                // SAFETY: the call is async-signal-safe, and what it closes is Rust's own.
                unsafe { libc::close(fd) };
            }
        }
        Ok(())
    }
}
