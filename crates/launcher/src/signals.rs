//! The signals that this process was started with, so that the program starts with them.
//!
//! Rust ignores SIGPIPE before `main`, and on exec gives it its default and clears the mask. A
//! launcher that started us with something else meant the program.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's own start.
#[used]
// SAFETY: the section holds addresses of functions that the dynamic loader calls once, with
// arguments that this one does not look at.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note_pipe;

extern "C" fn note_pipe() {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set; what is found is written, and zeros are valid if it is not.
    let ignored = unsafe {
        libc::sigaction(libc::SIGPIPE, ptr::null(), found.as_mut_ptr());
        found.assume_init().sa_sigaction == libc::SIG_IGN
    };
    PIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
}

/// A function that restores the signal mask and the action of SIGPIPE, for the moment before the
/// program begins.
pub fn restorer() -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: nothing is set; the mask is written, and zeros are a valid one.
    let mask = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    };
    move || {
        // SAFETY: both calls are async-signal-safe and take valid arguments.
        unsafe {
            if PIPE_WAS_IGNORED.load(Ordering::Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut());
        }
        Ok(())
    }
}

/// Leaves interrupts from the terminal to the commands that this process waits for, as a shell
/// does; returns a function that gives a command the actions that there were, and ends it with this
/// process.
pub fn left_to_child() -> impl FnMut() -> io::Result<()> + Copy + Send + Sync + 'static {
    let found = [libc::SIGINT, libc::SIGQUIT].map(|signal| {
        // SAFETY: ignoring a signal runs no code of ours.
        (signal, unsafe { libc::signal(signal, libc::SIG_IGN) })
    });
    move || {
        // SAFETY: all calls are async-signal-safe; the actions are those that this process was
        // started with, which are the default or to ignore.
        unsafe {
            for (signal, action) in found {
                libc::signal(signal, action);
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        }
        Ok(())
    }
}
