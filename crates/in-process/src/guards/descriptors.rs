//! Descriptors 0 to 2, which a program may have closed and still write to.

use std::ffi::c_int;

/// Keeps closed standard descriptors taken while it lives, so that no file of the profiler gets
/// such a number. They are held by descriptors that can neither be read nor written, so that the
/// program sees the same error as before.
pub struct Held {
    descriptors: [c_int; 3],
    count: usize,
}

/// Takes those that are closed.
pub fn hold() -> Held {
    let mut held = Held { descriptors: [0; 3], count: 0 };
    // One more than there can be, which shows that none is left.
    for _ in 0..=held.descriptors.len() {
        // SAFETY: the path ends in a zero.
        let descriptor = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if descriptor > libc::STDERR_FILENO {
            // SAFETY: it is ours.
            unsafe { libc::close(descriptor) };
        }
        if !(0..=libc::STDERR_FILENO).contains(&descriptor) {
            break;
        }
        held.descriptors[held.count] = descriptor;
        held.count += 1;
    }
    held
}

impl Drop for Held {
    fn drop(&mut self) {
        for &descriptor in &self.descriptors[..self.count] {
            // SAFETY: it was opened here.
            unsafe { libc::close(descriptor) };
        }
    }
}
