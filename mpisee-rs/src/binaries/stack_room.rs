//! The room that is left on the calling thread's stack: programs may have threads with a stack of
//! `PTHREAD_STACK_MIN`, 16 KiB, and the C library takes a third of that for what threads have of
//! their own.

use crate::storage::frame;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

/// A walk up a stack by unwind tables takes 24 KiB, most of it for rules that are parsed.
pub const OF_WALK: usize = 32 << 10;
/// The look at devices takes 10 KiB, and what the driver takes itself.
pub const OF_DEVICES: usize = 64 << 10;
/// The begin of a profile takes 52 KiB.
pub const OF_BEGIN: usize = 80 << 10;

thread_local! {
    /// The addresses of the thread's stack; none before they are looked up. A stack without limits
    /// has all.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Returns whether as many bytes are left. True of stacks that the C library has not made, as of
/// coroutines, whose ends are not known.
pub fn is_left(bytes: usize) -> bool {
    let (mut lowest, mut end) = STACK.get();
    if end == 0 {
        let stack = stack();
        (lowest, end) = (stack.start, stack.end);
        STACK.set((lowest, end));
    }
    let here = frame::pointer() as usize;
    !(lowest..end).contains(&here) || here - lowest >= bytes
}

/// The addresses of the thread's stack, where it has one that is limited.
fn stack() -> Range<usize> {
    const UNLIMITED: Range<usize> = 0..usize::MAX;
    // SAFETY: numbers.
    if unsafe { libc::gettid() == libc::getpid() } {
        // That of the program itself grows, and to ask for its end takes the reading of a file.
        return UNLIMITED;
    }
    let mut attributes = MaybeUninit::uninit();
    let (mut lowest, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: attributes are used if they were filled, and given back; the stack is the calling
    // thread's.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return UNLIMITED;
        }
        let status = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if status != 0 { UNLIMITED } else { lowest.addr()..lowest.addr().saturating_add(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn room_is_that_between_the_frame_and_the_end_of_a_small_stack() {
        // The C library may take one from before that is up to four times as large.
        const BYTES: usize = 256 << 10;
        let of_thread = || [0, BYTES / 2, 8 * BYTES, 1 << 40].map(is_left);
        let small = thread::Builder::new().stack_size(BYTES).spawn(of_thread).expect("a thread can be made");
        assert_eq!(small.join().expect("it does not panic"), [true, true, false, false]);
    }
}
