//! Guards of a library that works in the threads of a program: nothing of its work shows there as
//! long as they live.

pub mod cancellation;
pub mod descriptors;
pub mod errno;
pub mod floating_point;
pub mod signals;

/// While it lives, neither `errno` nor the floating-point environment of the thread changes, and
/// the thread is not cancelled.
pub struct ThreadState {
    _floating_point: floating_point::Held,
    _not_cancelled: cancellation::Held,
    /// The last one to be dropped.
    _errno: errno::Kept,
}

/// Keeps the state of the calling thread, for work that takes long enough for that not to matter.
#[must_use]
pub fn keep_thread_state() -> ThreadState {
    ThreadState {
        _floating_point: floating_point::hold(),
        _not_cancelled: cancellation::hold(),
        _errno: errno::keep(),
    }
}
