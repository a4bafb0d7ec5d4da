//! The tables of what the host asked GPUs to copy, set and launch.

use super::{Memory, MessageEnd, Row, Seconds};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// The way in which the host waits for what it asks of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMode {
    /// The call returns when the work is done, as far as CUDA promises it.
    Blocking,
    /// The call puts the work into a stream.
    Stream,
}

impl CopyMode {
    /// Of calls that put work into a stream, or not.
    pub fn new(is_async: bool) -> CopyMode {
        if is_async { CopyMode::Stream } else { CopyMode::Blocking }
    }
}

/// `copies.csv`: copies, sets and launches that the host asked of GPUs (`mpisee --gpu-copies`); one
/// row per rank, device, function of the driver, mode, memory of both ends and line of Python. A
/// profile without such calls has no such file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct CopyRow {
    /// The process.
    pub rank: u32,
    /// The device of the context in which the call was made, by its UUID.
    pub device: String,
    /// The function of the driver, without suffixes: `cuMemcpyDtoHAsync`, `cuLaunchKernel`.
    pub call: String,
    /// The mode: `blocking` or `stream`.
    pub mode: CopyMode,
    /// The memory that was read: `host`, `pinned`, `managed` or `device`; empty where nothing is
    /// read.
    pub from: Option<Memory>,
    /// The device that it is on, by its UUID; empty where it is on none, or nothing is read.
    pub from_device: String,
    /// The memory that was written; empty for launches.
    pub to: Option<Memory>,
    /// The device that it is on, by its UUID; empty where it is on none, or for launches.
    pub to_device: String,
    /// `file:line` of Python that made the call; empty where none did.
    pub line: String,
    /// Calls that succeeded; of a batch each copy is one.
    pub calls: u64,
    /// Bytes that were copied or set.
    pub bytes: u64,
    /// Time of the host in the calls, in seconds: that of the GPU is not in it where the call does
    /// not wait.
    pub time_s: Seconds,
}

impl Row for CopyRow {
    const FILE: &'static str = "copies.csv";
}

/// `staged.csv`: copies between device and host right before a send of the same memory of the host,
/// or right after a receive into it; one row per communicator, rank, direction, memory and mode. A
/// profile without such copies has no such file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct StagedRow {
    /// The communicator of the messages.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The direction of the messages: `sent`, copied to the host before; `received`, copied to a
    /// device afterwards.
    pub direction: MessageEnd,
    /// The memory of the host: `host`, `pinned` or `managed`.
    pub memory: Memory,
    /// The mode of the copies: `blocking` or `stream`.
    pub mode: CopyMode,
    /// Messages and copies that had bytes in common.
    pub matches: u64,
    /// Bytes that were both copied and communicated; each is counted once.
    pub bytes: u64,
    /// Time of the host in the copies, in seconds, in proportion to these bytes.
    pub time_s: Seconds,
}

impl Row for StagedRow {
    const FILE: &'static str = "staged.csv";
}
