//! Accesses of GPU kernels and copies of the host: turns the files of processes into rows, and
//! joins the rows of all ranks with the owners of memory.

mod copies;
mod join;
mod part;

pub use copies::{copies, name_communicators};
pub use join::{Exports, binaries, join, needs_owners, processing_elements};
pub use part::{Copied, GpuPart, Import, Staged, parts};

use crate::process;
use std::path::{Path, PathBuf};

/// The path of this process's file, whether it exists yet or not. `user` is the user who runs the
/// process.
pub fn own_path(segments: &Path, user: u32) -> PathBuf {
    let pid = std::process::id();
    let start = process::look_at(pid).map_or(0, |seen| seen.start);
    mpisee_profile::gpu::path(segments, user, pid, start, process::namespace())
}
