//! Asks the MPI whether it takes the memory of GPUs.

use mpisee_bench::memory::MemoryKind;
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

/// Of MPICH's `MPIX_GPU_query_support`.
const MPIX_GPU_SUPPORT_CUDA: c_int = 0;

/// Fails if the MPI does not say that it takes memory of this kind, unless that is to be assumed.
pub fn check(kind: MemoryKind, is_assumed: bool) -> Result<(), String> {
    let why = match says() {
        Some(true) => return Ok(()),
        _ if is_assumed => return Ok(()),
        Some(false) => "says that it does not take it (MPIX_Query_cuda_support)",
        None => "does not say that it takes it (it has no MPIX_Query_cuda_support)",
    };
    let library = mpi::environment::library_version().unwrap_or_default();
    let first = library.lines().next().unwrap_or_default().split(',').next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    Err(format!(
        "MPI would get {kind} memory, and this MPI ({}) {why}; take one that is built for CUDA, a backend without MPI \
         (ipc, nccl), or --assume-gpu-aware to try",
        words.join(" ")
    ))
}

/// The MPI's answer; `None` if it has no function for that. Open MPI has the second one, MPICH
/// both.
fn says() -> Option<bool> {
    let of_kind = find(c"MPIX_GPU_query_support").is_some_and(|function| {
        // SAFETY: MPICH's function has this signature.
        let function: extern "C" fn(c_int, *mut c_int) -> c_int = unsafe { std::mem::transmute(function) };
        let mut is_supported = 0;
        function(MPIX_GPU_SUPPORT_CUDA, &mut is_supported) == 0 && is_supported != 0
    });
    if of_kind {
        return Some(true);
    }
    find(c"MPIX_Query_cuda_support").map(|function| {
        // SAFETY: the function has this signature in Open MPI and MPICH.
        let function: extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
        function() != 0
    })
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
