//! Kinds of memory.

use serde::{Deserialize, Serialize};

/// The kind of memory that has a communication buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Memory of the host.
    Host,
    /// Memory of a GPU.
    Device,
    /// Memory that the driver moves between host and GPU.
    Managed,
    /// Memory of the host that the driver has allocated or registered, so that GPUs reach it.
    Pinned,
}

impl Memory {
    /// Of the number that it has in keys.
    pub fn from_number(number: u64) -> Option<Memory> {
        let all = [Memory::Host, Memory::Device, Memory::Managed, Memory::Pinned];
        all.into_iter().find(|&memory| memory as u64 == number)
    }

    /// The order by distance from the host: of a call with several buffers, the farthest one counts.
    pub fn distance(self) -> u8 {
        match self {
            Memory::Host => 0,
            Memory::Pinned => 1,
            Memory::Managed => 2,
            Memory::Device => 3,
        }
    }
}
