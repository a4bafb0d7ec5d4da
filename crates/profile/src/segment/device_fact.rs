//! Facts in a segment about the GPUs that a process sees, and what its node has near them.

use crate::CommRank;
use crate::rows::{Cpus, DeviceLinkRow, DeviceRow, NicRow};
use serde::{Deserialize, Serialize};

/// A fact about GPUs. The hosts and ranks in the rows are empty: they are those of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DeviceFact {
    /// The driver shows a GPU to the process.
    Device(Box<DeviceRow>),
    /// The driver, or NVML, describes the link of two GPUs.
    Link(DeviceLinkRow),
    /// The process uses a GPU, by its UUID.
    Used(String),
    /// The node has a network adapter.
    Nic(NicRow),
    /// The node has a NUMA node with these CPUs.
    NumaNode(u32, Cpus),
    /// A rank of the process in a communicator of NCCL uses a GPU.
    NcclRank {
        /// The number of the communicator in the segment.
        comm: u32,
        /// The rank there.
        rank: CommRank,
        /// The GPU's UUID.
        uuid: String,
    },
}

impl DeviceFact {
    /// The text of the record in the log.
    pub fn to_text(&self) -> String {
        // Strings, numbers and lists alone, which JSON has.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads such a text; `None` if it is none.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let device = DeviceRow {
            uuid: "GPU-1".to_owned(),
            numa_node: Some(1),
            cpus_near: "8-15".parse().unwrap(),
            memory_bytes: Some(u64::MAX),
            ..DeviceRow::default()
        };
        for fact in [
            DeviceFact::Device(Box::new(device)),
            DeviceFact::Link(DeviceLinkRow { nvlinks: Some(18), ..DeviceLinkRow::default() }),
            DeviceFact::Used("GPU-1".to_owned()),
            DeviceFact::Nic(NicRow { nic: "mlx5_0".to_owned(), ..NicRow::default() }),
            DeviceFact::NumaNode(1, "8-15,24-31".parse().unwrap()),
            DeviceFact::NcclRank { comm: 3, rank: CommRank::new(5), uuid: "GPU-1".to_owned() },
        ] {
            assert_eq!(DeviceFact::from_text(&fact.to_text()), Some(fact));
        }
        assert_eq!(DeviceFact::from_text("{\"Used\":1}"), None);
    }
}
