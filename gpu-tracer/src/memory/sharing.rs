//! Memory that processes share: exports of this one, and the origin of its imports.
//!
//! Physical memory of the driver's virtual memory management has handles, is mapped, and is
//! exported in any order, and named at any time.

use crate::memory::registry::Registry;
use mpisee_profile::gpu::{Descriptor, Handle};
use std::collections::{BTreeMap, HashMap};

/// Physical memory.
#[derive(Clone, Debug)]
pub enum Physical {
    /// Of this process.
    Own(Own),
    /// Of another one.
    Imported(Option<Handle>),
}

#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Never used again, other than handles.
    pub number: u64,
    /// [`ON_HOST`](crate::process::driver::ON_HOST) if it is on none.
    pub device: i32,
    pub bytes: u64,
    /// The call stack that made it.
    pub object: u32,
}

/// Key of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The allocation with that number.
    Allocation(u32),
    /// Physical memory.
    Physical(u64),
}

#[derive(Debug)]
pub struct Exported {
    /// The address that was exported, of an allocation.
    pub address: u64,
    /// Of physical memory.
    pub own: Option<Own>,
    /// The number that its descriptors have.
    pub number: u64,
    pub handles: Vec<Handle>,
    /// The last written description: device, call stack and name.
    pub written: Option<(String, u32, String)>,
}

/// Memory shared with other processes.
#[derive(Debug, Default)]
pub struct Sharing {
    /// By the driver's handle.
    pub physical: HashMap<u64, Physical>,
    /// The number of pieces of physical memory that were made.
    pub made: u64,
    /// Ends of mappings by their begin, and what is mapped.
    pub mapped: BTreeMap<u64, (u64, Physical)>,
    pub exported: HashMap<Source, Exported>,
    /// The number of the next that is exported.
    numbers: u64,
}

impl Sharing {
    /// The allocation at the address is about to be freed; its addresses may then be other memory.
    pub fn freed(&mut self, registry: &Registry, base: u64) {
        if !self.exported.is_empty()
            && let Some((_, allocation)) = registry.at(base)
        {
            self.exported.remove(&Source::Allocation(allocation.root));
        }
    }

    /// Addresses were unmapped.
    pub fn unmapped(&mut self, begin: u64, bytes: u64) {
        let range = begin..begin.saturating_add(bytes);
        let gone: Vec<u64> = self.mapped.range(range).map(|(&begin, _)| begin).collect();
        for begin in gone {
            let Some((_, Physical::Own(own))) = self.mapped.remove(&begin) else { continue };
            if self.addresses(own.number).next().is_none() {
                self.exported.remove(&Source::Physical(own.number));
            }
        }
    }

    /// The addresses at which physical memory is mapped.
    pub fn addresses(&self, number: u64) -> impl Iterator<Item = u64> {
        let is_one =
            move |it: &Physical| matches!(it, Physical::Own(Own { number: own, .. }) if *own == number);
        self.mapped.iter().filter(move |(_, (_, physical))| is_one(physical)).map(|(&begin, _)| begin)
    }

    pub fn exported(&mut self, source: Source, address: u64, own: Option<Own>) -> &mut Exported {
        let next = &mut self.numbers;
        self.exported.entry(source).or_insert_with(|| {
            let number = *next;
            *next += 1;
            Exported { address, own, number, handles: Vec::new(), written: None }
        })
    }

    /// Memory of this process that it imports itself, if that is certain.
    pub fn own(&self, handle: &Handle) -> Option<Own> {
        let is_meant = |it: &Handle| match (it, handle) {
            (Handle::Descriptor(it), Handle::Descriptor(read)) => {
                (it.boot, it.namespace, it.pid) == (read.boot, read.namespace, read.pid)
                    && it.number % Descriptor::NUMBERS == read.number
            }
            (it, handle) => it == handle,
        };
        let mut all = self.exported.values().filter(|it| it.handles.iter().any(is_meant));
        let first = all.next()?.own;
        if all.next().is_some() { None } else { first }
    }
}
