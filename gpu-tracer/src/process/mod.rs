//! The process around the tracer: CUDA's driver, Python and NVSHMEM as far as they are loaded, call stacks, open files.

pub(crate) mod descriptor;
pub(crate) mod driver;
pub(crate) mod nvshmem;
pub(crate) mod python;
pub(crate) mod stacks;

use mpisee_profile::segment::layout::HOST_BYTES;

/// The name of this machine, cut off where that in a segment is.
pub(crate) fn host() -> String {
    let mut name = [0u8; HOST_BYTES];
    // SAFETY: there is room for as many bytes, less one for the zero.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), HOST_BYTES - 1) };
    String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}
