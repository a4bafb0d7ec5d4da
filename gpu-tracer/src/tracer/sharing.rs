//! Memory that processes share, as the driver reports it. The handles by which others import memory
//! are written again whenever more is known of it.

use super::Tracer;
use crate::memory::registry::Where;
use crate::memory::sharing::{Own, Physical, Source};
use crate::process::descriptor;
use crate::process::driver::{ON_HOST, size_of_mapping};
use mpisee_profile::gpu::{Descriptor, FileEntry, Handle};
use std::collections::HashSet;
use std::ffi::c_int;

impl Tracer {
    /// The device of imported memory, if it was reported.
    pub fn imported_on(&self, address: u64) -> Option<i32> {
        match self.registry.at(address)?.1.place {
            Where::Imported(device, _) => device,
            _ => None,
        }
    }

    /// Memory of another process was mapped at once. Its length may have been reported; the driver
    /// is only queried if not, since with the Sanitizer nobody says that it may be. Another mapping
    /// behind it may be of the same block of its owner.
    pub fn imported(&mut self, begin: u64, place: Where) {
        let known = self.registry.at(begin).map_or(0, |(_, it)| it.end - begin);
        let bytes = if known > 0 { known } else { size_of_mapping(begin) };
        let end = self.registry.next_imported(begin, begin.saturating_add(bytes));
        self.allocated(begin, end - begin, place);
        self.asks_for_pe = true;
    }

    /// The allocation at the address was made accessible to other processes.
    pub fn exported(&mut self, address: u64, handle: Handle) {
        let Some((_, allocation)) = self.registry.at(address) else { return };
        let source = Source::Allocation(allocation.root);
        self.export(source, address, None, handle);
    }

    /// Physical memory was made.
    pub fn created(&mut self, handle: u64, bytes: u64, device: i32) {
        self.sharing.made += 1;
        let own = Own { number: self.sharing.made, device, bytes, object: self.stacks.here() };
        self.sharing.physical.insert(handle, Physical::Own(own));
    }

    /// Physical memory of another process was imported.
    pub fn imported_physical(&mut self, handle: u64, known: Option<Handle>) {
        let own = known.as_ref().and_then(|it| self.sharing.own(it));
        self.sharing.physical.insert(handle, own.map_or(Physical::Imported(known), Physical::Own));
        self.asks_for_pe = true;
    }

    /// Physical memory got another handle, by an address where it is mapped.
    pub fn retained(&mut self, handle: u64, address: u64) {
        let before = self.sharing.mapped.range(..=address).next_back();
        let physical = before.filter(|(_, (end, _))| address < *end).map(|(_, (_, it))| it.clone());
        self.sharing.physical.insert(handle, physical.unwrap_or(Physical::Imported(None)));
    }

    /// Physical memory was made accessible to other processes.
    pub fn exported_physical(&mut self, handle: u64, known: Handle) {
        let Some(&Physical::Own(own)) = self.sharing.physical.get(&handle) else { return };
        self.export(Source::Physical(own.number), 0, Some(own), known);
    }

    /// The same by a file descriptor, which is about to be the program's.
    pub fn exported_file(&mut self, handle: u64, file: c_int) {
        let Some(&Physical::Own(own)) = self.sharing.physical.get(&handle) else { return };
        let number = self.sharing.exported(Source::Physical(own.number), 0, Some(own)).number;
        if let Some(known) = descriptor::mark(file, number, own.bytes) {
            self.exported_physical(handle, Handle::Descriptor(known));
        }
    }

    /// Physical memory was mapped.
    pub fn mapped(&mut self, begin: u64, bytes: u64, offset: u64, handle: u64) {
        let physical = self.sharing.physical.get(&handle).cloned().unwrap_or(Physical::Imported(None));
        let place = match &physical {
            Physical::Own(own) if own.device == ON_HOST => Where::Pinned,
            Physical::Own(own) => Where::Device(own.device),
            Physical::Imported(Some(Handle::Descriptor(it))) => {
                let part = Descriptor { bytes: offset.saturating_add(bytes), ..it.clone() };
                Where::Imported(None, Some(Handle::Descriptor(part)))
            }
            Physical::Imported(known) => Where::Imported(None, known.clone()),
        };
        self.sharing.mapped.insert(begin, (begin.saturating_add(bytes), physical.clone()));
        self.allocated(begin, bytes, place);
        if let Physical::Own(own) = physical {
            self.tell_export(Source::Physical(own.number));
        }
    }

    fn export(&mut self, source: Source, address: u64, own: Option<Own>, handle: Handle) {
        let exported = self.sharing.exported(source, address, own);
        // Of an allocation with several names that which was exported last.
        exported.address = address;
        if !exported.handles.contains(&handle) {
            exported.handles.push(handle);
            exported.written = None;
        }
        self.tell_export(source);
    }

    /// Writes down anew what between these addresses is now known by another name.
    pub fn tell_exports(&mut self, begin: u64, end: u64) {
        let physical = self.sharing.mapped.range(..end).filter(|(_, (until, _))| *until > begin);
        let mut sources: HashSet<Source> = physical
            .filter_map(|(_, (_, it))| match it {
                Physical::Own(own) => Some(Source::Physical(own.number)),
                Physical::Imported(_) => None,
            })
            .collect();
        sources.extend(self.registry.roots(begin, end).map(Source::Allocation));
        sources.retain(|it| self.sharing.exported.contains_key(it));
        sources.into_iter().for_each(|it| self.tell_export(it));
    }

    /// Writes the handles by which others import memory, unless that is done.
    fn tell_export(&mut self, source: Source) {
        let Some(described) = self.describe(source) else { return };
        let Some(exported) = self.sharing.exported.get_mut(&source) else { return };
        if exported.written.as_ref() == Some(&described) {
            return;
        }
        exported.written = Some(described.clone());
        let handles = exported.handles.clone();
        let (device, object, name) = described;
        if let Some(recorder) = &mut self.recorder {
            let object = if name.is_empty() { self.stacks.text(object) } else { name.clone() };
            handles.iter().for_each(|it| recorder.export(it.clone(), device.clone(), object.clone()));
        }
        let mut records = self.counts.object(object, &self.stacks);
        records.extend(handles.into_iter().map(|handle| {
            let (device, name) = (device.clone(), name.clone());
            FileEntry::Export { handle, device, object, name }
        }));
        self.write(records);
    }

    /// Device, call stack and name of what was exported.
    fn describe(&self, source: Source) -> Option<(String, u32, String)> {
        let exported = self.sharing.exported.get(&source)?;
        let device = |device: i32| self.backend.device_name(device);
        match exported.own {
            None => {
                let (_, it) = self.registry.at(exported.address)?;
                let Where::Device(own) = it.place else { return None };
                let is_same = source == Source::Allocation(it.root);
                is_same.then(|| (device(own), it.object, it.name.clone()))
            }
            Some(own) => {
                let place = if own.device == ON_HOST { Where::Pinned } else { Where::Device(own.device) };
                let device = if own.device == ON_HOST { "host".to_owned() } else { device(own.device) };
                let mapped = self.sharing.addresses(own.number).find_map(|it| {
                    self.registry.at(it).filter(|(_, it)| it.place == place).map(|(_, it)| it)
                });
                let (object, name) =
                    mapped.map_or((own.object, String::new()), |it| (it.object, it.name.clone()));
                Some((device, object, name))
            }
        }
    }
}
