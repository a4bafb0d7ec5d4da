//! The tables of what GPU kernels accessed.

use super::Row;
use crate::gpu::Access;
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// The kind of memory that a GPU kernel accessed: its place, and how it came to be accessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuMemory {
    /// On another device of the same process.
    Device,
    /// Of another process, mapped by CUDA IPC.
    Ipc,
    /// Of another process, imported in another way.
    Imported,
    /// Of the host, allocated by CUDA.
    Pinned,
    /// Of the host, registered with CUDA.
    Registered,
    /// Managed memory, wherever it was just then.
    Managed,
}

/// `gpu.csv`: accesses of kernels to memory beyond their own device and process; one row per rank,
/// device, owner, kernel, source line, launching line, object, kind of access and width. A profile
/// without such accesses has no such file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct GpuRow {
    /// The process.
    pub rank: u32,
    /// The device that ran the kernel, by its UUID: `GPU-8f6ad5c8-…`.
    pub device: String,
    /// The process that owns the memory; empty if that is unknown.
    pub peer_rank: Option<u32>,
    /// The device that the memory is on, `host`, `managed`, or empty if it is unknown.
    pub peer_device: String,
    /// The kind of memory: `device`, `ipc`, `imported`, `pinned`, `registered` or `managed`.
    pub memory: GpuMemory,
    /// The kernel's name, mangled.
    pub kernel: String,
    /// `file:line`; `function+0x120` where the module has no line table.
    pub source: String,
    /// `file:line` of Python that launched the kernel; empty where none did.
    #[serde(default)]
    pub launched: String,
    /// The name that the program gave the memory, or the return addresses of the call that
    /// allocated it, innermost first.
    pub object: String,
    /// The kind of access: `load`, `store` or `atomic`.
    pub access: Access,
    /// Bytes of one lane's access; 0 for bulk copies, each of which is one access.
    pub width: u32,
    /// Accesses by single lanes; scaled, if sampled.
    pub accesses: u64,
    /// Bytes of `accesses`.
    pub bytes: u64,
    /// N, where one warp in N was counted, or one interval between waits of the program.
    pub sampled: u32,
    /// The standard error of `accesses`; 0 if all were counted.
    pub error: f64,
}

impl Row for GpuRow {
    const FILE: &'static str = "gpu.csv";
    const OPTIONAL: &'static [&'static str] = &["launched"];
}

/// `binaries.csv`: the program and its libraries, as far as `gpu.csv` has addresses in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct BinaryRow {
    /// The file, with its whole path.
    pub file: String,
    /// Its GNU build ID, in hexadecimal; empty if it has none.
    pub build_id: String,
}

impl Row for BinaryRow {
    const FILE: &'static str = "binaries.csv";
}

/// `pes.csv`: which PE of NVSHMEM a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct PeRow {
    /// The process.
    pub rank: u32,
    /// Its PE, its number in NVSHMEM.
    pub pe: u32,
}

impl Row for PeRow {
    const FILE: &'static str = "pes.csv";
}
