//! The process around the tracer: CUDA's driver, Python and NVSHMEM as far as they are loaded, call
//! stacks, open files.

pub(crate) mod descriptor;
pub(crate) mod driver;
pub(crate) mod nvshmem;
pub(crate) mod python;
pub(crate) mod stacks;

use mpisee_in_process::guards::{cancellation, errno, signals};
use mpisee_profile::segment::layout::HOST_BYTES;

/// While it lives, nothing shows in a thread of the program of what the tracer does there.
pub(crate) struct Hidden {
    /// No handler waits for a lock that its own thread has, or leaves one held; no write beyond the
    /// program's limit ends it.
    _signals: Option<signals::Held<1>>,
    /// The tracer opens files, where a thread that was cancelled would end.
    _cancellation: cancellation::Held,
    /// At last, as what ends the others may set it.
    _errno: errno::Kept,
}

/// Hides what follows from the program's thread.
pub(crate) fn hide() -> Hidden {
    let errno = errno::keep();
    Hidden {
        _signals: signals::hold_all([libc::SIGXFSZ]),
        _cancellation: cancellation::hold(),
        _errno: errno,
    }
}

/// The name of this machine, cut off where that in a segment is.
pub(crate) fn host() -> String {
    let mut name = [0u8; HOST_BYTES];
    // SAFETY: there is room for as many bytes, less one for the zero.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), HOST_BYTES - 1) };
    String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}
