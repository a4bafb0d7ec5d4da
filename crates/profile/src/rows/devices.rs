//! The tables of what a node has: GPUs, how they are linked, and network adapters near them.

use super::{Cpus, Ranks, Row};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// `gpus.csv`: one row per node and GPU, or MIG instance of one, that CUDA's driver showed to a
/// rank. A profile of a program that did not initialise CUDA has no such file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct DeviceRow {
    /// The name of the host.
    pub host: String,
    /// The UUID: `GPU-8f6ad5c8-…`, of a MIG instance `MIG-…`.
    pub uuid: String,
    /// The name of the product.
    pub model: String,
    /// The PCI address as the kernel writes it: `0000:17:00.0`; of a MIG instance that of its GPU.
    pub pci_address: String,
    /// The NUMA node of the host that is nearest; empty if the kernel does not say.
    pub numa_node: Option<u32>,
    /// The CPUs that are nearest, `0-31`; empty if the kernel does not say.
    pub cpus_near: Cpus,
    /// Memory, of which programs can allocate a bit less.
    pub memory_bytes: Option<u64>,
    /// 1 for a MIG instance, 0 for a whole GPU; empty if the driver does not say.
    pub mig: Option<u8>,
    /// The UUID of the GPU that a MIG instance is a part of; else empty.
    pub part_of: String,
    /// Active NVLinks, to other GPUs and to switches; empty unless a rank used it and had
    /// initialised NVML, as NCCL does.
    pub nvlinks: Option<u32>,
    /// The way to it in the PCI tree, as in `/sys/devices`: host bridge, ports and switches, and
    /// the GPU, with `/` between them.
    pub pci_path: String,
    /// The ranks that used it, see [`super::RankRow::gpu`].
    pub ranks: Ranks,
}

impl Row for DeviceRow {
    const FILE: &'static str = "gpus.csv";
}

/// `gpu-links.csv`: one row per node, GPU, and other GPU or network adapter. A pair has one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct DeviceLinkRow {
    /// The name of the host.
    pub host: String,
    /// The GPU, by its UUID.
    pub device: String,
    /// The other GPU, by its UUID, or the network adapter by `nic` of [`NicRow`].
    pub peer: String,
    /// The way by PCIe, as `nvidia-smi topo` calls it: `PIX` (one switch at most), `PXB` (several),
    /// `PHB` (the host bridge), `NODE` (between host bridges of a NUMA node), `SYS` (between NUMA
    /// nodes), `same` of parts of one GPU; empty if it is unknown.
    pub path: String,
    /// Active NVLinks from one to the other; empty where `nvlinks` of [`DeviceRow`] is, and where
    /// those of the device lead to switches instead, by which they may be joined.
    pub nvlinks: Option<u32>,
    /// 1 if kernels on either GPU can access memory of the other, 0 if not; empty if no rank saw
    /// both.
    pub peer_access: Option<u8>,
    /// 1 if atomics between the two are done by the link itself, 0 if not; empty if no rank saw
    /// both.
    pub native_atomics: Option<u8>,
    /// The driver's rank of the link's performance: lower is better; empty if no rank saw both.
    pub performance: Option<u32>,
}

impl Row for DeviceLinkRow {
    const FILE: &'static str = "gpu-links.csv";
}

/// `nics.csv`: one row per node and network adapter on PCI, of nodes that are in `gpus.csv`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct NicRow {
    /// The name of the host.
    pub host: String,
    /// The name of the kernel: `mlx5_0`, `eth0`. An adapter may have one of each class.
    pub nic: String,
    /// The class in `/sys/class`: `infiniband` (RoCE, too) or `net`.
    pub class: String,
    /// The PCI address: `0000:18:00.0`.
    pub pci_address: String,
    /// The NUMA node of the host that is nearest; empty if the kernel does not say.
    pub numa_node: Option<u32>,
    /// The way to it in the PCI tree, see [`DeviceRow::pci_path`].
    pub pci_path: String,
    /// 1 if a port of it was up, 0 if not; empty if the kernel does not say.
    pub is_up: Option<u8>,
}

impl Row for NicRow {
    const FILE: &'static str = "nics.csv";
}
