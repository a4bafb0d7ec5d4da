//! Cancellation of threads (`pthread_cancel`), which is not to take place in the library.
//!
//! Many functions of the C library that work on files are points where a thread that was cancelled
//! ends, by unwinding its stack. A program may cancel a thread that polls by `MPI_Iprobe`, where
//! MPI has no such point; and unwinding that comes to [`std::panic::catch_unwind`] ends the
//! program.

use std::ffi::c_int;
use std::ptr;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of Linux's C libraries.
const DISABLE: c_int = 1;

/// While it lives, the thread goes on though it was cancelled.
pub struct Held {
    before: c_int,
}

/// Keeps the thread from being cancelled.
pub fn hold() -> Held {
    let mut before = 0;
    // SAFETY: there is room for the state before.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    Held { before }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the state is that of before; nobody asks for the one that it replaces, for which
        // the C libraries of Linux allow null.
        unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
    }
}
