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
    const ALL: [Memory; 4] = [Memory::Host, Memory::Device, Memory::Managed, Memory::Pinned];

    /// Of the number that it has in keys.
    pub fn from_number(number: u64) -> Option<Memory> {
        Memory::ALL.into_iter().find(|&memory| memory as u64 == number)
    }

    /// The name that it has in tables.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Host => "host",
            Memory::Device => "device",
            Memory::Managed => "managed",
            Memory::Pinned => "pinned",
        }
    }

    /// Of the name that it has in tables.
    pub fn from_name(name: &[u8]) -> Option<Memory> {
        Memory::ALL.into_iter().find(|memory| memory.name().as_bytes() == name)
    }

    /// By the answers of CUDA's driver to `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and `…_IS_MANAGED`
    /// (cuda.h): a `CUmemorytype`, 0 for an address that the driver does not know, and whether the
    /// driver moves it.
    pub fn of_cuda(memory_type: u32, is_managed: bool) -> Memory {
        const HOST: u32 = 1;
        const DEVICE: u32 = 2;
        const ARRAY: u32 = 3;
        match memory_type {
            _ if is_managed => Memory::Managed,
            DEVICE | ARRAY => Memory::Device,
            HOST => Memory::Pinned,
            _ => Memory::Host,
        }
    }

    /// The order by distance from the host: of a call with several buffers, the farthest one
    /// counts.
    pub fn distance(self) -> u8 {
        match self {
            Memory::Host => 0,
            Memory::Pinned => 1,
            Memory::Managed => 2,
            Memory::Device => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tables() {
        for memory in Memory::ALL {
            assert_eq!(Memory::from_name(memory.name().as_bytes()), Some(memory));
            assert_eq!(serde_json::to_value(memory).unwrap(), memory.name());
        }
        assert_eq!(Memory::from_name(b"gpu"), None);
    }
}
