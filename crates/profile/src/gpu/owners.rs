//! Owners of memory that several processes share: the exporter and the importer have the same
//! handle, so that they need not communicate while the program runs.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Identifies memory of another process. Bytes are in hexadecimal; `@` and a number of the machine
/// follow if they are valid on one machine only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Handle {
    /// A `CUipcMemHandle`.
    Ipc(String),
    /// A `CUmemFabricHandle`.
    Fabric(String),
    /// A `CUmemPoolPtrExportData`.
    Pool(String),
    /// A file descriptor.
    Descriptor(Descriptor),
    /// The PE of NVSHMEM whose memory it is.
    Pe(u32),
}

/// The mark in the open file behind a descriptor, with the properties known beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Descriptor {
    /// Of which run of which system the process is: a hash of the boot id.
    pub boot: u64,
    /// Among which processes it has its number: its PID namespace.
    pub namespace: u64,
    /// The process that exported it.
    pub pid: u32,
    /// The number of the allocation among those that it exported. The importing process reads it
    /// modulo [`Descriptor::NUMBERS`].
    pub number: u64,
    /// The length of the allocation; in the importing process, the end of the part that was mapped.
    pub bytes: u64,
}

impl Descriptor {
    /// The number of different numbers that fit into the file.
    pub const NUMBERS: u64 = 64;
}

impl fmt::Display for Handle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handle::Ipc(bytes) => to.write_str(bytes),
            Handle::Fabric(bytes) => write!(to, "fabric {bytes}"),
            Handle::Pool(bytes) => write!(to, "pool {bytes}"),
            Handle::Descriptor(it) => write!(to, "pid {} export {}", it.pid, it.number % Descriptor::NUMBERS),
            Handle::Pe(pe) => write!(to, "pe {pe}"),
        }
    }
}

/// The part of a handle that is the same on both sides.
type Key = Handle;

fn key(handle: &Handle) -> Key {
    match handle {
        Handle::Descriptor(it) => {
            Handle::Descriptor(Descriptor { number: it.number % Descriptor::NUMBERS, bytes: 0, ..it.clone() })
        }
        handle => handle.clone(),
    }
}

/// The exporters of memory, by handle.
#[derive(Debug)]
pub struct Owners<T>(HashMap<Key, Vec<(Handle, T)>>);

impl<T> Default for Owners<T> {
    fn default() -> Self {
        Owners(HashMap::new())
    }
}

impl<T> Owners<T> {
    /// Adds exported memory. A later export of the same handle replaces the earlier one.
    pub fn insert(&mut self, handle: Handle, owner: T) {
        let same = self.0.entry(key(&handle)).or_default();
        // There may be more than one NVSHMEM in a world.
        match same.iter_mut().find(|(it, _)| *it == handle && !matches!(it, Handle::Pe(_))) {
            Some((_, before)) => *before = owner,
            None => same.push((handle, owner)),
        }
    }

    /// All exports that an import may refer to; none if no profiled process exported it.
    pub fn find(&self, handle: &Handle) -> Vec<&T> {
        let same = self.0.get(&key(handle)).map(Vec::as_slice).unwrap_or_default();
        let Handle::Descriptor(imported) = handle else { return same.iter().map(|(_, it)| it).collect() };
        let bytes = |it: &Handle| if let Handle::Descriptor(it) = it { it.bytes } else { 0 };
        let chosen = |is_one: &dyn Fn(u64) -> bool| {
            same.iter().filter(|(it, _)| is_one(bytes(it))).map(|(_, owner)| owner).collect::<Vec<&T>>()
        };
        let whole = chosen(&|bytes| bytes == imported.bytes);
        if whole.is_empty() { chosen(&|bytes| bytes > imported.bytes) } else { whole }
    }
}

/// The value that all have in common, if there is one.
pub fn common<'t, T, V: PartialEq>(all: &[&'t T], value: impl Fn(&'t T) -> V) -> Option<V> {
    let mut values = all.iter().map(|it| value(it));
    let first = values.next()?;
    values.all(|it| it == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(pid: u32, number: u64, bytes: u64) -> Handle {
        Handle::Descriptor(Descriptor { boot: 1, namespace: 2, pid, number, bytes })
    }

    #[test]
    fn handles_of_the_same_bytes_are_of_one_kind() {
        let mut owners = Owners::default();
        owners.insert(Handle::Fabric("ab".to_owned()), "fabric");
        owners.insert(Handle::Pool("ab".to_owned()), "pool");
        owners.insert(Handle::Ipc("ab".to_owned()), "ipc");
        owners.insert(Handle::Ipc("ab".to_owned()), "ipc, named later");
        assert_eq!(owners.find(&Handle::Fabric("ab".to_owned())), [&"fabric"]);
        assert_eq!(owners.find(&Handle::Pool("ab".to_owned())), [&"pool"]);
        assert_eq!(owners.find(&Handle::Ipc("ab".to_owned())), [&"ipc, named later"]);
        assert!(owners.find(&Handle::Ipc("cd".to_owned())).is_empty());
        // Of another node.
        assert!(owners.find(&Handle::Ipc("ab@1".to_owned())).is_empty());
    }

    #[test]
    fn a_descriptor_may_mean_several_allocations() {
        let mut owners = Owners::default();
        owners.insert(descriptor(7, 3, 4096), "small");
        owners.insert(descriptor(7, 3 + 64, 8192), "large");
        owners.insert(descriptor(7, 3 + 128, 8192), "as large");
        owners.insert(descriptor(7, 4, 4096), "the next");
        owners.insert(descriptor(8, 3, 4096), "another's");
        assert_eq!(owners.find(&descriptor(7, 3, 4096)), [&"small"]);
        assert_eq!(owners.find(&descriptor(7, 3, 8192)), [&"large", &"as large"]);
        // A part was mapped.
        assert_eq!(owners.find(&descriptor(7, 3, 6000)), [&"large", &"as large"]);
        assert_eq!(owners.find(&descriptor(7, 3, 2000)).len(), 3);
        assert!(owners.find(&descriptor(7, 3, 10_000)).is_empty());
        assert!(owners.find(&descriptor(9, 3, 4096)).is_empty());
        // Reported again, with the name that it got.
        owners.insert(descriptor(7, 3, 4096), "named");
        assert_eq!(owners.find(&descriptor(7, 3, 4096)), [&"named"]);
    }

    #[test]
    fn a_pe_of_two_worlds_is_nobodys() {
        let mut owners = Owners::default();
        owners.insert(Handle::Pe(0), 4u32);
        assert_eq!(common(&owners.find(&Handle::Pe(0)), |rank| *rank), Some(4));
        owners.insert(Handle::Pe(0), 6);
        assert_eq!(common(&owners.find(&Handle::Pe(0)), |rank| *rank), None);
        assert_eq!(common::<u32, u32>(&[], |rank| *rank), None);
    }
}
