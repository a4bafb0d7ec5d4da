//! Call sites: the places in the program from which it calls MPI, with a number each.
//!
//! A site is known by the address to which the call returns. What repeats finds its number beside its counters (see
//! [`CachedCounter::count`](crate::recording::cached_counter::CachedCounter::count)), without coming here.

use crate::state::bindings::BINDINGS;
use crate::state::buffers;
use crate::state::objects::{self, Object};
use crate::state::world::World;
use crate::storage::frame::{self, ExportFrame};
use crate::storage::hot::HOT;
use crate::storage::memory;
use crate::storage::segment::Segment;
use crate::storage::table::Table;
use mpisee_profile::Operation;
use mpisee_profile::segment::CallPlace;
use mpisee_profile::segment::log::{Code, Record};
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The numbers of sites, by operation and address.
pub static SITES: Sites = Sites {
    numbers: Table::new(),
    beyond: AtomicU32::new(0),
    known: Mutex::new(Known { modules: Vec::new(), sites: 0 }),
};

/// The sites that are known.
pub struct Sites {
    numbers: Table<u32>,
    /// Sites that came after the limit on their number.
    beyond: AtomicU32,
    known: Mutex<Known>,
}

/// Binaries and sites that are in the log.
struct Known {
    /// The binaries, in the order of their numbers.
    modules: Vec<Module>,
    /// The number of sites.
    sites: u32,
}

struct Module {
    path: String,
    build_id: String,
}

/// More than is taken to find a site, and to log it.
const BYTES_TO_FIND_A_SITE: usize = 1 << 15;
/// In place of the number of a site that has none.
const BEYOND: u32 = u32::MAX;
/// Addresses of programs have fewer bits on all machines whose kernel gives out 47 bits unless asked for more.
const ADDRESS_BITS: u32 = 48;

impl Sites {
    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.numbers.share();
        BINDINGS.share();
    }

    /// The operation at the site that is left at `caller`; at no known site where that is 0, and beyond the limit on sites.
    pub fn place(&self, world: &World, operation: Operation, caller: u64) -> CallPlace {
        if caller == 0 || caller >> ADDRESS_BITS != 0 {
            return CallPlace::of(operation);
        }
        let key = caller | (operation as u64) << ADDRESS_BITS;
        let number = self.numbers.get(key).unwrap_or_else(|| self.first_seen(world, key, operation, caller));
        if number == BEYOND { CallPlace::of(operation) } else { CallPlace::site(number) }
    }

    #[cold]
    fn first_seen(&self, world: &World, key: u64, operation: Operation, caller: u64) -> u32 {
        // Before the lock is taken: another thread may hold the loader's and want this one.
        let found = Found::new(caller);
        buffers::look_for_driver();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have come first.
        if let Some(number) = self.numbers.get(key) {
            return number;
        }
        let number = if known.sites < world.options.sites {
            found.and_then(|found| known.add_site(&world.segment, operation, found))
        } else {
            self.beyond.fetch_add(1, Ordering::Relaxed);
            None
        };
        // A program that makes code as it runs, and so sites without end, is not to fill the table: what has no number
        // then is looked for each time.
        let has_end = number.is_some() || self.beyond.load(Ordering::Relaxed) <= CallPlace::MOST_SITES;
        let number = number.unwrap_or(BEYOND);
        if has_end {
            self.numbers.insert(key, number);
        }
        number
    }

    /// The number of sites that came after the limit.
    pub fn beyond(&self) -> u32 {
        self.beyond.load(Ordering::Relaxed)
    }

    /// The places in binaries of return addresses, from the MPI call outwards; what lies in no binary ends them.
    pub fn codes(&self, segment: &Segment, addresses: &[usize]) -> Vec<Code> {
        let before: Vec<usize> = addresses.iter().map(|address| address.wrapping_sub(1)).collect();
        let objects = objects::objects_at(&before);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let codes = addresses.iter().zip(objects).map_while(|(&address, object)| {
            let object = object?;
            let offset = address.wrapping_sub(object.bias) as u64;
            Some(Code { module: known.module(segment, object)?, offset })
        });
        codes.collect()
    }
}

/// A return address in a binary.
struct Found {
    object: Object,
    offset: u64,
}

impl Found {
    /// `None` if the code is in no binary of the program, or there is no memory to look.
    fn new(caller: u64) -> Option<Found> {
        if !memory::is_left_to_all(BYTES_TO_FIND_A_SITE) {
            return None;
        }
        // The call may be the last instruction of its function, and of its binary.
        let address = caller as usize;
        let object = objects::object_at(address - 1).filter(|_| !own_range().contains(&(address - 1)))?;
        let offset = address.wrapping_sub(object.bias) as u64;
        Some(Found { object, offset })
    }
}

impl Known {
    /// Logs a site; `None` if there is no room.
    fn add_site(&mut self, segment: &Segment, operation: Operation, found: Found) -> Option<u32> {
        let Found { object, offset } = found;
        let code = Code { module: self.module(segment, object)?, offset };
        if !segment.log(&Record::Site { operation: operation as u16, code }) {
            return None;
        }
        let number = self.sites;
        self.sites += 1;
        Some(number)
    }

    /// The number of a binary; `None` if there is no room for it.
    fn module(&mut self, segment: &Segment, object: Object) -> Option<u32> {
        let path = if object.name.is_empty() { program() } else { absolute(&object.name) };
        let build_id = hexadecimal(&object.build_id);
        let is_same = |module: &Module| module.path == path && module.build_id == build_id;
        if let Some(number) = self.modules.iter().position(is_same) {
            return Some(number as u32);
        }
        self.modules.try_reserve(1).ok()?;
        let record = Record::Module { path: path.clone(), build_id: build_id.clone() };
        if !segment.log(&record) {
            return None;
        }
        self.modules.push(Module { path, build_id });
        Some(self.modules.len() as u32 - 1)
    }
}

/// More than the library's code takes: what lies behind it may be taken for its own, and is looked at more closely.
const MOST_BYTES_OF_LIBRARY: u64 = 4 << 20;

/// Prepares to keep calls apart by their sites, before the first call is counted.
pub fn prepare(world: &World) {
    own_range();
    if world.options.sites > 0 {
        HOT.keep_sites(BINDINGS.find());
    }
}

/// The address in the program to which the call returns, by which it is kept apart from others; 0 if sites are not kept apart.
///
/// PERF: as a rule this is inlined into the export, and a load is enough.
#[inline(always)]
pub fn caller_of_export() -> u64 {
    let caller = frame::caller();
    if HOT.is_called_by_program() && caller.wrapping_sub(frame::library()) >= MOST_BYTES_OF_LIBRARY {
        return caller;
    }
    caller_further_out(frame::pointer())
}

/// As [`caller_of_export`], where sites are not kept apart, the export has called another function of the library, as those of Fortran
/// do, or the MPI's bindings have called it.
#[cold]
#[inline(never)]
fn caller_further_out(pointer: u64) -> u64 {
    export_frame(pointer).map_or(0, |frame| caller_of(&frame))
}

/// The address in the program to which a call returns that came to the library by this frame.
#[inline]
pub fn caller_of(frame: &ExportFrame) -> u64 {
    if HOT.has_bindings() { BINDINGS.caller_beyond(frame) } else { frame.returns_to }
}

/// The frame of the export, from the frame pointer of any function that it calls; `None` if sites are not kept apart.
#[inline]
pub fn export_frame(pointer: u64) -> Option<ExportFrame> {
    if HOT.keeps_sites() { ExportFrame::beyond(pointer, own_range()) } else { None }
}

/// The addresses of this library's code.
pub fn own_range() -> &'static Range<usize> {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    let find = || objects::object_at(own_range as *const () as usize).map_or(0..0, |object| object.range);
    OWN.get_or_init(find)
}

/// The file of the program.
fn program() -> String {
    std::fs::read_link("/proc/self/exe")
        .map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned())
}

/// The path of a library: the loader keeps what it was opened by, which may depend on the working directory.
fn absolute(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    match std::path::absolute(name.as_ref()) {
        Ok(path) if name.contains('/') => path.to_string_lossy().into_owned(),
        // The kernel's own, which is in no file.
        _ => name.into_owned(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
