//! What GPU kernels access by themselves is counted by a library of its own, which CUDA's driver loads. It comes to the
//! profiler, not the other way round; what it counted lies in a file beside the segment.

use crate::message::say;
use crate::process::Process;
use mpisee_profile::gpu::{self, GpuFile, Part};
use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Completes the file.
type Collect = extern "C" fn();
/// Gives memory a name.
type NameMemory = unsafe extern "C" fn(*const c_void, usize, *const c_char);

static TRACER: OnceLock<(Collect, NameMemory)> = OnceLock::new();

/// Called by the tracer when it begins.
#[unsafe(no_mangle)]
pub extern "C" fn mpisee_gpu_attach(collect: Collect, name_memory: NameMemory) {
    let _ = TRACER.set((collect, name_memory));
}

/// What mpisee.h passes with the level that names memory.
#[repr(C)]
pub struct Named {
    address: *const c_void,
    bytes: usize,
    name: *const c_char,
}

/// Gives memory a name, if there is a tracer.
///
/// # Safety
/// The name ends in a zero.
pub unsafe fn name_memory(named: &Named) {
    if let Some((_, name_memory)) = TRACER.get()
        && !named.name.is_null()
    {
        // SAFETY: as the caller says.
        unsafe { name_memory(named.address, named.bytes, named.name) };
    }
}

/// What this rank's kernels accessed; nothing if they were not traced.
pub fn parts(process: &Process) -> Vec<Part> {
    if !process.options.gpu {
        return Vec::new();
    }
    if let Some((collect, _)) = TRACER.get() {
        collect();
    }
    match GpuFile::read(&path(process)) {
        Ok(file) => file.map_or(Vec::new(), |file| gpu::parts(&file, process.world_rank)),
        Err(error) => {
            say(format_args!("rank {}: {error}; what its GPU kernels accessed is lost", process.world_rank));
            Vec::new()
        }
    }
}

/// Removes the file; the rows of it are in the profile.
pub fn remove(process: &Process) {
    if process.options.gpu {
        let _ = std::fs::remove_file(path(process));
    }
}

fn path(process: &Process) -> PathBuf {
    // SAFETY: getuid cannot fail.
    gpu::own_path(&process.options.segments, unsafe { libc::getuid() })
}
