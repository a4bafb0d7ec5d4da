//! Call sites: the places in the program from which it calls MPI, with a number each.
//!
//! A site is known by the address to which the call returns. What repeats finds its number beside
//! its counters (see
//! [`CachedCounter::count`](crate::recording::cached_counter::CachedCounter::count)), without
//! coming here.

use crate::binaries::library_files::LibraryFiles;
use crate::binaries::objects::{self, Loaded, Object, Stamp, own_range};
use crate::state::fortran_bindings::BINDINGS;
use crate::state::gpu::memory_kind;
use crate::state::python::Line;
use crate::state::sampled_overhead::Rare;
use crate::state::world::World;
use crate::storage::frame::{self, CalledFrom, ExportFrame};
use crate::storage::hot::{HOT, SiteMode};
use crate::storage::memory;
use crate::storage::patience::PatientMutex;
use crate::storage::segment::Segment;
use crate::storage::table::Table;
use mpisee_in_process::guards::cancellation;
use mpisee_profile::Operation;
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::call;
use mpisee_profile::segment::log::{Code, Record};
use mpisee_profile::segment::{OperationAtSite, SlotKey};
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// The numbers of sites, by operation and address.
pub static SITES: Sites = Sites {
    site_numbers: Table::new(),
    over_limit: AtomicU32::new(0),
    without_room: AtomicU32::new(0),
    outside: AtomicU32::new(0),
    loaded: PatientMutex::new(None),
    logged: PatientMutex::new(Logged {
        modules: Vec::new(),
        files: LibraryFiles::new(),
        count: 0,
        sites: Vec::new(),
        is_reloaded: false,
        mapped: Vec::new(),
    }),
};

/// The sites that are known.
pub struct Sites {
    site_numbers: Table<u32>,
    /// Sites that came after the limit on their number.
    over_limit: AtomicU32,
    /// Calls and sites for which there was no memory, no room in the segment, or no lock.
    without_room: AtomicU32,
    /// Addresses in no binary.
    outside: AtomicU32,
    /// The objects that were loaded when an address was last found outside of all of them.
    loaded: PatientMutex<Option<Loaded>>,
    logged: PatientMutex<Logged>,
}

/// Binaries and sites that are in the log.
struct Logged {
    /// The binaries and functions, in the order of their numbers.
    modules: Vec<Module>,
    files: LibraryFiles,
    /// The number of sites.
    count: u32,
    /// The sites by number. There is room from the begin, so that nothing is allocated for a new
    /// one.
    sites: Vec<Site>,
    /// True once a binary was found at other addresses than before, whose sites may have numbers.
    is_reloaded: bool,
    /// The binaries that have sites, where they were last.
    mapped: Vec<Mapped>,
}

/// A site in the log.
#[derive(Clone, Copy, PartialEq)]
struct Site {
    operation: Operation,
    code: Code,
}

/// A binary where it is loaded.
struct Mapped {
    range: Range<usize>,
    stamp: Stamp,
    bias: usize,
    /// Its number.
    module: u32,
}

impl Mapped {
    /// The place to which a call returns whose last byte is at `call_end`.
    fn code_at(&self, call_end: usize) -> Code {
        Code { module: self.module, offset: (call_end + 1).wrapping_sub(self.bias) as u64 }
    }
}

#[derive(Clone, PartialEq)]
enum Module {
    Binary {
        path: String,
        build_id: String,
        layout: u32,
    },
    /// A function of Python.
    Function {
        file: String,
        name: String,
    },
}

/// An upper bound of the bytes that it takes to find a site, and to log it.
const BYTES_TO_FIND_A_SITE: usize = 1 << 15;
/// An address to which no call returns.
const NO_ADDRESS: u64 = u64::MAX;
/// In place of the number of a site that has none.
const NO_NUMBER: u32 = u32::MAX;
/// Addresses of programs have fewer bits on all machines whose kernel gives out 47 bits unless
/// asked for more.
const ADDRESS_BITS: u32 = 48;

/// The key of an operation's site in the table of numbers.
fn key_of(operation: Operation, caller: u64) -> u64 {
    caller | (operation as u64) << ADDRESS_BITS
}

impl Sites {
    /// Lets several threads use the tables (`MPI_THREAD_MULTIPLE`).
    pub fn share(&self) {
        self.site_numbers.share();
        BINDINGS.share();
    }

    /// The operation with the number of the site at the return address `caller`; the operation
    /// alone where that is 0, in no binary, or beyond the limit on sites.
    pub fn at_site(&self, world: &World, operation: Operation, caller: u64) -> OperationAtSite {
        if caller == 0 || caller >> ADDRESS_BITS != 0 {
            return OperationAtSite::from_operation(operation);
        }
        let key = key_of(operation, caller);
        let number =
            self.site_numbers.get(key).unwrap_or_else(|| self.first_seen(world, key, operation, caller));
        if number == NO_NUMBER {
            OperationAtSite::from_operation(operation)
        } else {
            OperationAtSite::site(number)
        }
    }

    /// Notes what code is at an address now: `None` if it is in no binary. Where it is another than
    /// when sites there got their numbers, as a library was loaded where another one had been
    /// unloaded, calls that return there count at the site of the new code from now on, whatever
    /// their operation. Returns whether that is so of this operation.
    #[cold]
    pub fn replace(&self, world: &World, operation: Operation, caller: u64, code: Option<Code>) -> bool {
        if caller >> ADDRESS_BITS != 0 {
            return false;
        }
        let Some(mut logged) = self.logged.lock() else { return false };
        let mut is_replaced = false;
        let mut is_any_replaced = false;
        for other in Operation::all() {
            let key = key_of(other, caller);
            let Some(number) = self.site_numbers.get(key) else { continue };
            let Some(new) = self.replaced_number(world, &mut logged, other, number, code) else {
                continue;
            };
            self.site_numbers.insert(key, new);
            is_any_replaced = true;
            is_replaced |= other == operation;
        }
        drop(logged);
        if !is_any_replaced {
            return false;
        }
        // Slots recognise the site by its address, until they have it no more.
        world.segment.each_slot(|slot| {
            if matches!(SlotKey(slot.key.load(Ordering::Relaxed)).meaning(), Some(Meaning::Call(_))) {
                let returns_to = &slot.values[call::RETURNS_TO];
                // If its thread writes another address meanwhile, that stays.
                let _ = returns_to.compare_exchange(caller, NO_ADDRESS, Ordering::Relaxed, Ordering::Relaxed);
            }
        });
        is_replaced
    }

    /// The number that calls of an operation have from now on at a site that had another number;
    /// `None` if it keeps that.
    fn replaced_number(
        &self,
        world: &World,
        logged: &mut Logged,
        operation: Operation,
        number: u32,
        code: Option<Code>,
    ) -> Option<u32> {
        let before = if number == NO_NUMBER { None } else { Some(logged.sites.get(number as usize)?.code) };
        if before == code {
            return None;
        }
        let Some(code) = code else {
            self.outside.fetch_add(1, Ordering::Relaxed);
            return Some(NO_NUMBER);
        };
        let site = Site { operation, code };
        logged.is_reloaded |= number != NO_NUMBER;
        let new = logged.logged_site_number(site).or_else(|| logged.site_number(world, site));
        if new.is_none() && number != NO_NUMBER {
            self.note_without_number(world, logged);
        }
        Some(new.unwrap_or(NO_NUMBER)).filter(|&new| new != number)
    }

    #[cold]
    fn first_seen(&self, world: &World, key: u64, operation: Operation, caller: u64) -> u32 {
        let _not_cancelled = cancellation::hold();
        let _rare = Rare::begin(world);
        // Before `logged` is locked: this may take the loader's lock, and a thread that holds that,
        // in a constructor of a library, may make an MPI call and wait for `logged`.
        let found = self.find(caller);
        // New sites are often those of a library that was just loaded, and that may have brought
        // the driver.
        memory_kind::look_for_driver();
        let Some(mut logged) = self.logged.lock() else { return self.note_no_room() };
        // Another thread may have come first.
        if let Some(number) = self.site_numbers.get(key) {
            return number;
        }
        let number = match found {
            Lookup::Outside => None,
            Lookup::NoRoom => return self.note_no_room(),
            found => {
                let code = logged.code(world, found);
                let number = code.and_then(|code| logged.site_number(world, Site { operation, code }));
                if number.is_none() {
                    self.note_without_number(world, &logged);
                }
                number
            }
        };
        // A program that makes code as it runs has new sites as long as it runs. They are not to
        // fill the table: above a limit, those without a number are looked for at each call.
        let counts = [&self.over_limit, &self.without_room, &self.outside];
        let without_number = counts.map(|count| u64::from(count.load(Ordering::Relaxed))).iter().sum::<u64>();
        let may_remember = number.is_some() || without_number <= u64::from(OperationAtSite::MOST_SITES);
        let number = number.unwrap_or(NO_NUMBER);
        if may_remember {
            self.site_numbers.insert(key, number);
        }
        number
    }

    /// Notes a call whose site is not found now, and may be at the next one.
    fn note_no_room(&self) -> u32 {
        self.without_room.fetch_add(1, Ordering::Relaxed);
        NO_NUMBER
    }

    /// Notes a site that gets no number.
    fn note_without_number(&self, world: &World, logged: &Logged) {
        let count = if logged.count < world.options.sites { &self.without_room } else { &self.over_limit };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The place of a return address.
    fn find(&self, caller: u64) -> Lookup {
        // The call may be the last instruction of its function, and of its binary.
        let call_end = caller as usize - 1;
        // PERF: most places are in few binaries. Nothing is allocated for these, so that the
        // handler of a signal that leaves from here leaves nothing undone.
        let Some(stamp) = Stamp::at(call_end) else { return self.outside() };
        let Some(logged) = self.logged.lock() else { return Lookup::NoRoom };
        if let Some(code) = logged.code_at(call_end, &stamp) {
            return Lookup::Known(code);
        }
        drop(logged);
        // PERF: of code that is made as the program runs each place is new, and binaries are many.
        if let Stamp::Changes(changes) = stamp {
            let Some(loaded) = self.loaded.lock() else { return Lookup::NoRoom };
            if loaded.as_ref().is_some_and(|loaded| loaded.is_outside(call_end, changes)) {
                return self.outside();
            }
        }
        if !memory::is_left_to_all(BYTES_TO_FIND_A_SITE) {
            return Lookup::NoRoom;
        }
        let Some(object) = objects::object_at(call_end) else {
            let now = Loaded::now();
            if let Some(mut loaded) = self.loaded.lock() {
                *loaded = now;
            }
            return self.outside();
        };
        if own_range().contains(&call_end) {
            return Lookup::Outside;
        }
        // This call is at its place in the bindings, later ones are where the program calls these.
        if BINDINGS.note_late(&object) {
            HOT.set_sites(SiteMode::ByFrames);
        }
        Lookup::New { object, call_end, stamp }
    }

    fn outside(&self) -> Lookup {
        self.outside.fetch_add(1, Ordering::Relaxed);
        Lookup::Outside
    }

    /// Sites that came after the limit on their number, and calls and sites for which there was no
    /// room.
    pub fn without_number(&self) -> [u32; 2] {
        [&self.over_limit, &self.without_room].map(|count| count.load(Ordering::Relaxed))
    }

    /// The places in binaries of return addresses, from the MPI call outwards; what lies in no
    /// binary ends them.
    pub fn codes(&self, segment: &Segment, addresses: &[usize]) -> Vec<Code> {
        let before: Vec<usize> = addresses.iter().map(|address| address.wrapping_sub(1)).collect();
        let objects = objects::objects_at(&before);
        let Some(mut logged) = self.logged.lock() else { return Vec::new() };
        let codes = addresses.iter().zip(objects).map_while(|(&address, object)| {
            let object = object?;
            let offset = address.wrapping_sub(object.bias) as u64;
            Some(Code { module: logged.binary_number(segment, object)?, offset })
        });
        codes.collect()
    }

    /// The places of lines of Python, from the MPI call outwards.
    pub fn codes_of_lines(&self, segment: &Segment, lines: Vec<Line>) -> Vec<Code> {
        let Some(mut logged) = self.logged.lock() else { return Vec::new() };
        let code = |Line { file, function, line }| {
            let module = logged.module_number(segment, Module::Function { file, name: function })?;
            Some(Code { module, offset: u64::from(line) })
        };
        lines.into_iter().map_while(code).collect()
    }
}

/// Where the call of a return address was found.
enum Lookup {
    /// In a binary that has sites.
    Known(Code),
    /// In another one; the address is that of the call's last byte.
    New { object: Object, call_end: usize, stamp: Stamp },
    /// In no binary of the program.
    Outside,
    /// Not known now: there is no memory, or no lock.
    NoRoom,
}

impl Logged {
    /// The place of a call, whose binary is logged if it has no number yet; `None` if there is no
    /// room for it, or the binary is new and no more sites are kept.
    fn code(&mut self, world: &World, found: Lookup) -> Option<Code> {
        let (object, call_end, stamp) = match found {
            Lookup::Known(code) => return Some(code),
            Lookup::New { object, call_end, stamp } => (object, call_end, stamp),
            Lookup::Outside | Lookup::NoRoom => return None,
        };
        let (range, bias) = (object.range.clone(), object.bias);
        let binary = self.binary(&object);
        let module = match self.known_module(&binary) {
            None if self.count >= world.options.sites => return None,
            None => self.log_module(&world.segment, binary)?,
            Some(known) => known,
        };
        // What was there, and where the binary was before, is not loaded any more.
        let before = self.mapped.len();
        self.mapped.retain(|other| {
            let is_apart = other.range.end <= range.start || range.end <= other.range.start;
            is_apart && other.module != module && stamp.agrees_with(&other.stamp)
        });
        self.is_reloaded |= self.mapped.len() < before;
        let addresses = range.start as u64..range.end as u64;
        let mapped = Mapped { range, stamp, bias, module };
        let code = mapped.code_at(call_end);
        if self.mapped.try_reserve(1).is_ok() {
            self.mapped.push(mapped);
            // Without room for it, readers do not know from where a call in progress is made.
            world.segment.log(&Record::Loaded { module, addresses, bias: bias as u64 });
        }
        Some(code)
    }

    /// The number of a site that is in the log, wherever its binary is loaded now.
    fn logged_site_number(&self, site: Site) -> Option<u32> {
        self.sites.iter().position(|&known| known == site).map(|number| number as u32)
    }

    /// The number of a site, which is logged if it has none yet; `None` if there is no room, or no
    /// more sites are kept.
    fn site_number(&mut self, world: &World, site: Site) -> Option<u32> {
        // PERF: until a binary is loaded at other addresses a new address is a new site, and the
        // list need not be searched.
        if self.is_reloaded
            && let Some(number) = self.logged_site_number(site)
        {
            return Some(number);
        }
        let Site { operation, code } = site;
        let is_logged = self.count < world.options.sites
            && world.segment.log(&Record::Site { operation: operation as u16, code });
        if !is_logged {
            return None;
        }
        let number = self.count;
        if self.sites.len() == number as usize && self.sites.len() < self.sites.capacity() {
            self.sites.push(site);
        }
        self.count += 1;
        Some(number)
    }

    /// The place to which a call returns whose last byte is at `call_end`, if that is in a binary
    /// with a site that still is there.
    fn code_at(&self, call_end: usize, stamp: &Stamp) -> Option<Code> {
        let mapped = self.mapped.iter().find(|mapped| mapped.range.contains(&call_end))?;
        mapped.stamp.is_same(stamp).then(|| mapped.code_at(call_end))
    }

    /// The number of a binary, which is logged if it is new; `None` if there is no room for it.
    fn binary_number(&mut self, segment: &Segment, object: Object) -> Option<u32> {
        let binary = self.binary(&object);
        self.module_number(segment, binary)
    }

    fn binary(&mut self, object: &Object) -> Module {
        let path = self.files.path(object);
        Module::Binary { path, build_id: hexadecimal(&object.build_id), layout: object.layout }
    }

    fn known_module(&self, module: &Module) -> Option<u32> {
        self.modules.iter().position(|known| known == module).map(|number| number as u32)
    }

    /// The number of a binary or of a function of Python, which is logged if it is new.
    fn module_number(&mut self, segment: &Segment, module: Module) -> Option<u32> {
        match self.known_module(&module) {
            Some(known) => Some(known),
            None => self.log_module(segment, module),
        }
    }

    /// Logs a binary or a function of Python that is new, and returns its number.
    fn log_module(&mut self, segment: &Segment, module: Module) -> Option<u32> {
        self.modules.try_reserve(1).ok()?;
        let record = match module.clone() {
            Module::Binary { path, build_id, layout } => Record::Module { path, build_id, layout },
            Module::Function { file, name } => Record::Function { file, name },
        };
        if !segment.log(&record) {
            return None;
        }
        self.modules.push(module);
        Some(self.modules.len() as u32 - 1)
    }
}

/// More than the library's code takes: what lies behind it may be taken for its own, and is looked
/// at more closely.
const MOST_BYTES_OF_LIBRARY: u64 = 8 << 20;

/// Prepares to keep calls apart by their sites, before the first call is counted.
pub fn prepare(world: &World) {
    let own = own_range();
    if world.options.sites > 0 {
        let sites = world.options.sites as usize;
        if memory::is_left_to_all(sites * size_of::<Site>())
            && let Some(mut logged) = SITES.logged.lock()
        {
            // Without room, calls from a library at the place of another one stay at the site of
            // that.
            let _ = logged.sites.try_reserve_exact(sites);
        }
        let has_bindings = BINDINGS.find();
        // A larger library has callers of its own behind these bytes, which the comparison in
        // `caller_of_export` would take for the program's.
        let is_large = own.len() as u64 > MOST_BYTES_OF_LIBRARY;
        let mode = if has_bindings || is_large { SiteMode::ByFrames } else { SiteMode::OfProgram };
        HOT.set_sites(mode);
    }
}

/// The address in the program to which the call returns, by which it is kept apart from others; 0
/// if sites are not kept apart.
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

/// Returns whether a call that returns to that address comes from the program itself, whose address
/// it is.
#[inline(always)]
pub fn is_of_program(caller: u64) -> bool {
    caller.wrapping_sub(frame::library()) >= MOST_BYTES_OF_LIBRARY && !HOT.looks_at_frames()
}

/// The frame of the function into which this is inlined, and the address in the program to which
/// its export returns.
#[inline(always)]
pub fn called_from() -> CalledFrom {
    CalledFrom { frame: frame::pointer(), caller: caller_of_export() }
}

/// As [`caller_of_export`], where sites are not kept apart, the export has called another function
/// of the library, as those of Fortran do, or the MPI's bindings have called it.
#[cold]
#[inline(never)]
fn caller_further_out(pointer: u64) -> u64 {
    // SAFETY: the export, or a function that it has called, reads its frame pointer and calls this
    // function.
    unsafe { export_frame(pointer) }.map_or(0, |frame| caller_of(&frame))
}

/// The address in the program to which a call returns that came to the library by this frame.
#[inline]
pub fn caller_of(frame: &ExportFrame) -> u64 {
    if HOT.looks_at_frames() { BINDINGS.caller_outside(frame) } else { frame.returns_to }
}

/// The frame of the export, from the frame pointer of any function that it calls; `None` if sites
/// are not kept apart.
///
/// # Safety
/// As [`ExportFrame::leaving`] has it.
#[inline]
pub unsafe fn export_frame(pointer: u64) -> Option<ExportFrame> {
    // SAFETY: what the caller of this function vouches for.
    if HOT.keeps_sites() { unsafe { ExportFrame::leaving(pointer, own_range()) } } else { None }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
