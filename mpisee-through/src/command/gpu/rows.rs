//! Reads the accesses of GPU kernels from a profile of either layout.

use super::label::{Label, or_unknown};
use crate::processes::ProcessRows;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::ProfileError;
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{GpuMemory, GpuRow, GpuTotalRow, PeerDevice, Row};

/// A row of `gpu.csv`, or of `gpu-totals.csv`.
#[derive(Clone, Debug)]
pub struct Accessed {
    /// Whose kernels they are, and on which device; unknown where rows are sums over ranks.
    pub rank: Option<(u32, String)>,
    /// Whose memory it is: a rank, or in sums how far it is; or the kind of memory where that tells
    /// more.
    pub owner: Label,
    /// Where it is.
    pub peer_device: String,
    pub kernel: String,
    pub source: String,
    /// The line of Python that launched the kernel, if any did.
    pub launched: String,
    pub object: String,
    pub access: Access,
    pub width: u32,
    pub accesses: u64,
    pub bytes: u64,
    pub sampled: u32,
    pub error: f64,
}

impl From<GpuRow> for Accessed {
    fn from(row: GpuRow) -> Self {
        Accessed {
            owner: owner(row.memory, row.peer_rank.map(Label::Number)),
            rank: Some((row.rank, row.device)),
            peer_device: row.peer_device,
            kernel: row.kernel,
            source: row.source,
            launched: row.launched,
            object: row.object,
            access: row.access,
            width: row.width,
            accesses: row.accesses,
            bytes: row.bytes,
            sampled: row.sampled,
            error: row.error,
        }
    }
}

impl From<GpuTotalRow> for Accessed {
    fn from(row: GpuTotalRow) -> Self {
        let offset = row.offset_min.zip(row.offset_max).map(|(first, last)| Label::Offset(first, last));
        let peer_device = match row.peer_device {
            Some(PeerDevice::Same) => "same device",
            Some(PeerDevice::Another) => "another device",
            Some(PeerDevice::Host) => "host",
            Some(PeerDevice::Managed) => "managed",
            None => "",
        };
        Accessed {
            owner: owner(row.memory, offset),
            rank: None,
            peer_device: peer_device.to_owned(),
            kernel: row.kernel,
            source: row.source,
            launched: row.launched,
            object: row.object,
            access: row.access,
            width: row.width,
            accesses: row.accesses,
            bytes: row.bytes,
            sampled: row.sampled,
            error: row.error,
        }
    }
}

fn owner(memory: GpuMemory, rank: Option<Label>) -> Label {
    match memory {
        GpuMemory::Pinned | GpuMemory::Registered => Label::from("host"),
        GpuMemory::Managed => Label::from("managed"),
        _ => rank.unwrap_or_else(|| Label::Text(or_unknown(""))),
    }
}

/// How rows say whose kernels access whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// By rank and device, both of the kernel and of the memory.
    Pairs,
    /// By how far the owner of the memory is; whose kernels they are is unknown.
    Distances,
}

/// All rows, and how they say who accesses whose memory.
pub fn rows(view: &ProfileView) -> Result<(Vec<Accessed>, Ends)> {
    fn read<R: Row + Into<Accessed>>(view: &ProfileView) -> Result<Vec<Accessed>, ProfileError> {
        view.profile().rows_if_any::<R>()?.map(|row| row.map(Into::into)).collect()
    }
    Ok(match &view.processes().rows {
        ProcessRows::Ranks(_) => (read::<GpuRow>(view)?, Ends::Pairs),
        ProcessRows::Nodes(_) => (read::<GpuTotalRow>(view)?, Ends::Distances),
    })
}
