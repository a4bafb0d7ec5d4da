//! Registry of memory: location, owner and name, updated at every allocation and free.
//!
//! An allocation has a number that is never used again, also when its addresses are. What is
//! counted for a number stays its own after the memory was freed. Of one allocation there may be
//! several pieces: a part was named, or unmapped, or another took its addresses.

use mpisee_profile::gpu::{Handle, RemoteMemory};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Location of memory, as the backend reports it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Where {
    /// On a device of this process, by the driver's number.
    Device(i32),
    /// Mapped by CUDA IPC; the handle, in hexadecimal.
    Ipc(String),
    /// Imported from another process: the device's number, and a handle that its owner has, too, if
    /// known.
    Imported(Option<i32>, Option<Handle>),
    /// Of the host, by CUDA.
    Pinned,
    /// Of the host, registered.
    Registered,
    /// Managed.
    Managed,
}

impl Where {
    /// Rank by precision: a backend may report one allocation twice, first without knowing what it
    /// is.
    fn detail(&self) -> u8 {
        match self {
            Where::Device(_) | Where::Pinned => 0,
            Where::Registered | Where::Managed | Where::Imported(_, None) => 1,
            Where::Ipc(_) | Where::Imported(_, Some(_)) => 2,
        }
    }

    /// As it is written to files; `name` gives the name of a device.
    pub fn place(&self, name: impl Fn(i32) -> String) -> RemoteMemory {
        match self {
            Where::Device(device) => RemoteMemory::Device(name(*device)),
            Where::Ipc(handle) => RemoteMemory::Ipc(handle.clone()),
            Where::Imported(device, handle) => RemoteMemory::Imported {
                device: device.map(name).unwrap_or_default(),
                handle: handle.clone(),
            },
            Where::Pinned => RemoteMemory::Pinned,
            Where::Registered => RemoteMemory::Registered,
            Where::Managed => RemoteMemory::Managed,
        }
    }
}

/// An allocation, or a named part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The first address.
    pub begin: u64,
    /// One after the last.
    pub end: u64,
    /// Its place.
    pub place: Where,
    /// The call stack that made it.
    pub object: u32,
    /// Name that the program gave it, or empty.
    pub name: String,
    /// The number of what was allocated, of which this may be a part.
    pub root: u32,
}

impl Allocation {
    fn is_imported(&self) -> bool {
        matches!(self.place, Where::Ipc(_) | Where::Imported(..))
    }
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    id: u32,
    /// The begin of what was allocated, by which it is freed.
    base: u64,
}

/// A piece of memory as the device's table has it.
pub type Entry = crate::device::layout::Range;

/// All memory that is known.
#[derive(Debug, Default)]
pub struct Registry {
    /// Live pieces by their begin; disjoint.
    pieces: BTreeMap<u64, Piece>,
    /// The end of the allocation that was at an address.
    ends: HashMap<u64, u64>,
    /// By number; those that were freed, too, until nobody can ask for them.
    allocations: HashMap<u32, Allocation>,
    last_id: u32,
    /// Raised whenever the table of a device may have changed: of one, and of all others.
    changes: HashMap<i32, u64>,
    changes_for_all: u64,
}

impl Registry {
    /// Memory was allocated or mapped. What was there is gone, also if nobody said so. Returns its
    /// number.
    pub fn insert(&mut self, begin: u64, bytes: u64, place: Where, object: u32) -> Option<u32> {
        let end = begin.checked_add(bytes).filter(|&end| end > begin)?;
        if let Some(id) = self.same(begin, end, &place) {
            return Some(id);
        }
        self.remove(begin);
        self.cut(begin, end);
        self.changed(&place);
        let id = self.next_id();
        self.pieces.insert(begin, Piece { end, id, base: begin });
        self.ends.insert(begin, end);
        self.allocations.insert(id, Allocation { begin, end, place, object, name: String::new(), root: id });
        Some(id)
    }

    /// The allocation that is reported again; with the better of the two descriptions.
    fn same(&mut self, begin: u64, end: u64, place: &Where) -> Option<u32> {
        self.ends.get(&begin).filter(|&&was| was == end)?;
        let piece = *self.pieces.get(&begin).filter(|piece| piece.end == end && piece.base == begin)?;
        let allocation = self.allocations.get_mut(&piece.id)?;
        if allocation.place == *place {
            return Some(piece.id);
        }
        if place.detail() > allocation.place.detail() {
            let old = std::mem::replace(&mut allocation.place, place.clone());
            self.changed(&old);
            self.changed(place);
            return Some(piece.id);
        }
        // The same addresses in another place, and nothing better known: they were freed in
        // between.
        (place.detail() < allocation.place.detail()).then_some(piece.id)
    }

    /// The allocation at `base` was freed.
    pub fn remove(&mut self, base: u64) {
        let Some(end) = self.ends.remove(&base) else { return };
        let own = self.pieces.range(base..end).filter(|(_, piece)| piece.base == base);
        let own: Vec<(u64, u32)> = own.map(|(&begin, piece)| (begin, piece.id)).collect();
        for (begin, id) in own {
            self.pieces.remove(&begin);
            if let Some(place) = self.allocations.get(&id).map(|it| it.place.clone()) {
                self.changed(&place);
            }
        }
    }

    /// Addresses that hold nothing any more, whatever was there.
    pub fn remove_range(&mut self, begin: u64, bytes: u64) {
        self.cut(begin, begin.saturating_add(bytes));
    }

    /// The program's name for memory. A part of an allocation becomes one of its own. False if
    /// nothing is known there.
    pub fn name(&mut self, begin: u64, bytes: u64, name: &str) -> bool {
        let end = begin.saturating_add(bytes);
        let touched: Vec<(u64, Piece)> = self.overlapping(begin, end);
        for &(from, piece) in &touched {
            let Some(whole) = self.allocations.get(&piece.id).cloned() else { continue };
            if begin <= whole.begin && end >= whole.end {
                if let Some(allocation) = self.allocations.get_mut(&piece.id) {
                    name.clone_into(&mut allocation.name);
                }
                continue;
            }
            let (begin, end) = (begin.max(from), end.min(piece.end));
            self.cut(begin, end);
            let id = self.next_id();
            self.pieces.insert(begin, Piece { end, id, base: piece.base });
            self.changed(&whole.place);
            self.allocations.insert(id, Allocation { begin, end, name: name.to_owned(), ..whole });
        }
        !touched.is_empty()
    }

    /// The same for memory that was imported from a PE of NVSHMEM.
    pub fn name_of_pe(&mut self, pe: u32, begin: u64, bytes: u64, name: &str) {
        let end = begin.saturating_add(bytes);
        let all_of = |registry: &Registry| -> Vec<u32> {
            registry.overlapping(begin, end).into_iter().map(|(_, piece)| piece.id).collect()
        };
        let touched = all_of(self);
        if !touched.iter().all(|id| self.allocations.get(id).is_some_and(Allocation::is_imported)) {
            return;
        }
        self.name(begin, bytes, name);
        for id in all_of(self) {
            if let Some(Allocation { place: Where::Imported(_, handle @ None), .. }) =
                self.allocations.get_mut(&id)
            {
                *handle = Some(Handle::Pe(pe));
            }
        }
    }

    /// An allocation by its number.
    pub fn get(&self, id: u32) -> Option<&Allocation> {
        self.allocations.get(&id)
    }

    /// The live allocation that holds the address.
    pub fn at(&self, address: u64) -> Option<(u32, &Allocation)> {
        let (_, piece) =
            self.pieces.range(..=address).next_back().filter(|(_, piece)| address < piece.end)?;
        Some((piece.id, self.allocations.get(&piece.id)?))
    }

    /// The begin of the first imported memory between the addresses, or the latter of the two.
    pub fn next_imported(&self, begin: u64, end: u64) -> u64 {
        let is_imported = |id| self.allocations.get(&id).is_some_and(Allocation::is_imported);
        let mut behind = self.pieces.range(begin.saturating_add(1).min(end)..end);
        behind.find(|(_, piece)| is_imported(piece.id)).map_or(end, |(&at, _)| at)
    }

    /// A number that changes whenever [`Registry::table`] of the device does.
    pub fn version(&self, device: i32) -> u64 {
        // Changes on the device itself are in the sum of all, but not seen from there.
        self.changes_for_all - self.changes.get(&device).copied().unwrap_or(0)
    }

    /// Ranges that are not of the device's own memory, sorted.
    pub fn table(&self, device: i32) -> Vec<Entry> {
        let own = Where::Device(device);
        let is_remote = |id| self.allocations.get(&id).is_some_and(|it: &Allocation| it.place != own);
        let mut table: Vec<Entry> = Vec::new();
        for (&begin, piece) in self.pieces.iter().filter(|(_, piece)| is_remote(piece.id)) {
            match table.last_mut() {
                Some(last) if last.end == begin && last.id == u64::from(piece.id) => last.end = piece.end,
                _ => table.push(Entry { begin, end: piece.end, id: u64::from(piece.id) }),
            }
        }
        table
    }

    /// Returns whether there is anything that is not of the device's own memory.
    pub fn has_remote(&self, device: i32) -> bool {
        let own = Where::Device(device);
        self.pieces.values().any(|piece| self.allocations.get(&piece.id).is_some_and(|it| it.place != own))
    }

    /// Forgets what was freed, but for those that are needed.
    pub fn forget_freed(&mut self, needed: &HashSet<u32>) {
        let live: HashSet<u32> = self.pieces.values().map(|piece| piece.id).collect();
        self.allocations.retain(|id, _| live.contains(id) || needed.contains(id));
    }

    /// The number of allocations that are kept, live and freed.
    pub fn len(&self) -> usize {
        self.allocations.len()
    }

    /// Returns whether it has no allocation.
    pub fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    fn next_id(&mut self) -> u32 {
        // Four thousand million allocations later numbers begin again; 0 is none.
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.last_id
    }

    fn changed(&mut self, place: &Where) {
        self.changes_for_all += 1;
        if let Where::Device(device) = place {
            *self.changes.entry(*device).or_default() += 1;
        }
    }

    /// The numbers of what was allocated between the addresses, as it was then.
    pub fn roots(&self, begin: u64, end: u64) -> impl Iterator<Item = u32> {
        let pieces = self.overlapping(begin, end).into_iter();
        pieces.filter_map(|(_, piece)| self.allocations.get(&piece.id)).map(|it| it.root)
    }

    fn overlapping(&self, begin: u64, end: u64) -> Vec<(u64, Piece)> {
        let before = self.pieces.range(..begin).next_back().filter(|(_, piece)| piece.end > begin);
        before
            .into_iter()
            .chain(self.pieces.range(begin..end.max(begin)))
            .map(|(&at, &piece)| (at, piece))
            .collect()
    }

    /// Takes [begin, end) away from all pieces.
    fn cut(&mut self, begin: u64, end: u64) {
        for (from, piece) in self.overlapping(begin, end) {
            self.pieces.remove(&from);
            if from < begin {
                self.pieces.insert(from, Piece { end: begin, ..piece });
            }
            if piece.end > end {
                self.pieces.insert(end, piece);
            }
            if let Some(place) = self.allocations.get(&piece.id).map(|it| it.place.clone()) {
                self.changed(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests;
