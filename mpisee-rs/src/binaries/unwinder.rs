//! Walks up the calling thread's stack, from the library's caller on.
//!
//! Nothing that it reads can end the program: the kernel copies the stack, page by page, and fails
//! where nothing is mapped; unwind tables of libraries that may be unloaded are copies, too. Return
//! addresses are found by these tables, and by frame pointers where a binary has none.

use crate::binaries::mapping::read_memory;
use crate::binaries::objects::{self, Stamp, WithTables};
use crate::binaries::unwind_tables::{Bytes, UnwindTables};
use crate::storage::clock;
use crate::storage::frame::ExportFrame;
use crate::storage::memory;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use mpisee_in_process::native_frames::computed_frame::ComputedFrame;
use mpisee_in_process::native_frames::unwind_rules::Rules;
use mpisee_in_process::native_frames::{Lost, leave_frame};
use mpisee_profile::segment::log::MOST_PATH_FRAMES;
use std::ops::Range;

/// An upper bound of the bytes that a binary takes beside its tables.
const BYTES_PER_BINARY: usize = 1 << 16;
/// The same of finding the rules of an address, and of the unwinder's cache.
const BYTES_TO_FIND_RULES: usize = 1 << 16;

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// At the begin of the thread.
    Begin,
    /// Where `goes_on` returned false.
    Stopped,
    /// At a frame that is not understood.
    Lost,
}

/// A binary on the stacks so far.
struct Binary {
    range: Range<usize>,
    /// As it was when its tables were found.
    stamp: Stamp,
    /// Without tables it is walked by frame pointers.
    tables: Option<UnwindTables>,
}

/// Addresses that are remembered as having safe rules.
const MOST_SAFE: usize = 1 << 10;

/// The same of those whose callers are computed.
const MOST_COMPUTED: usize = 1 << 6;

/// Unwind tables of the binaries on the stacks so far.
pub struct Unwinder {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// The binaries that the unwinder has.
    known: Vec<Binary>,
    /// Addresses whose rules are safe, each at the index that its bits give.
    safe: Vec<u64>,
    /// Addresses whose callers are computed.
    computed: Vec<(u64, ComputedFrame)>,
    /// Bytes of tables that may be copied at once.
    most_table_bytes: usize,
    /// True if a walk ended since the last limit was set where tables had more.
    was_limited: bool,
    /// Bytes of tables that were copied, and the ticks that this took.
    copied_bytes: u64,
    copy_ticks: u64,
}

/// Ticks that copying a byte of unwind tables takes at most, as a rule: memory that is new to the
/// process, and the table from the file.
const MOST_TICKS_PER_BYTE: u64 = 16;
/// Bytes that must have been copied before their time is used.
const LEAST_MEASURED_BYTES: u64 = 1 << 15;
/// By how much a copy may take longer than those before.
const MARGIN: u64 = 2;

impl Unwinder {
    pub fn new() -> Unwinder {
        Unwinder {
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            known: Vec::new(),
            safe: Vec::new(),
            computed: Vec::new(),
            most_table_bytes: usize::MAX,
            was_limited: false,
            copied_bytes: 0,
            copy_ticks: 0,
        }
    }

    /// From now on, a walk ends at a binary whose tables are not known and would take longer to
    /// copy.
    pub fn limit_copying(&mut self, ticks: u64) {
        let most_bytes = ticks / self.ticks_per_byte();
        (self.most_table_bytes, self.was_limited) =
            (usize::try_from(most_bytes).unwrap_or(usize::MAX), false);
    }

    /// Ticks that copying a byte of tables takes, as far as is known from those that were copied.
    fn ticks_per_byte(&self) -> u64 {
        if self.copied_bytes < LEAST_MEASURED_BYTES {
            return MOST_TICKS_PER_BYTE;
        }
        let measured = self.copy_ticks.saturating_mul(MARGIN).div_ceil(self.copied_bytes);
        measured.clamp(1, MOST_TICKS_PER_BYTE)
    }

    /// Returns whether a walk ended there since.
    pub fn was_limited(&self) -> bool {
        self.was_limited
    }

    /// Forgets binaries that were unloaded, whose addresses others may have by now; true if there
    /// are any.
    pub fn refresh(&mut self) -> bool {
        // PERF: the program and the C library, most of what is on stacks, are known by their
        // addresses alone.
        if self.known.iter().all(|binary| binary.stamp.is_current()) {
            return false;
        }
        let unwinder = &mut self.unwinder;
        self.known.retain(|binary| {
            let is_current = binary.stamp.is_current();
            if !is_current {
                unwinder.remove_module(binary.range.start as u64);
            }
            is_current
        });
        // Without room for another one this stays: its entries are known to be old by a count of
        // the modules' changes, which has 16 bits.
        if memory::is_left_to_all(BYTES_TO_FIND_RULES) {
            self.cache = CacheNative::new();
        }
        self.safe.clear();
        self.computed.clear();
        true
    }

    /// The number of binaries whose tables are known.
    pub fn binaries(&self) -> usize {
        self.known.len()
    }

    /// Puts the return addresses from `caller` on into `path`, the innermost first, up to one at
    /// which `ends` says so.
    pub fn walk(
        &mut self,
        caller: &ExportFrame,
        path: &mut [usize; MOST_PATH_FRAMES],
        mut ends: impl FnMut(usize) -> bool,
    ) -> usize {
        let mut frames = 0;
        self.visit(caller, |address| {
            // The call's own site stays on its path in any case.
            if frames == MOST_PATH_FRAMES || frames > 0 && ends(address) {
                return false;
            }
            path[frames] = address;
            frames += 1;
            frames < MOST_PATH_FRAMES
        });
        frames
    }

    /// Shows the return addresses from `caller` on, the innermost first, as long as `goes_on` says
    /// so.
    pub fn visit(&mut self, caller: &ExportFrame, mut goes_on: impl FnMut(usize) -> bool) -> WalkEnd {
        let mut registers = UnwindRegsNative::new(caller.returns_to, caller.stack, caller.outer);
        let mut address = caller.returns_to;
        let mut page = Page::new(caller.stack as usize);
        let mut read = |at: u64| page.word(at as usize);
        while let Some(next) = FrameAddress::from_return_address(address) {
            if !goes_on(address as usize) {
                return WalkEnd::Stopped;
            }
            if !self.add_binary(address as usize - 1) {
                return WalkEnd::Lost;
            }
            let rules = self.rules(next.address_for_lookup());
            match self.leave_frame(next, &rules, &mut registers, &mut read) {
                Ok(Some(outer)) if rules != Rules::Missing || may_be_return(outer) => address = outer,
                Ok(Some(_)) | Err(Lost) => return WalkEnd::Lost,
                Ok(None) => break,
            }
        }
        WalkEnd::Begin
    }

    /// The stack pointer where the function returns to which the library returns; `None` if the
    /// size of its frame varies, which is known from the frame pointer then.
    pub fn stack_of_caller(&mut self, caller: &ExportFrame) -> Option<u64> {
        let without_frame_pointer = ExportFrame { outer: 0, ..*caller };
        let stack = self.unwind_once(caller)?;
        (self.unwind_once(&without_frame_pointer)? == stack).then_some(stack)
    }

    fn unwind_once(&mut self, caller: &ExportFrame) -> Option<u64> {
        let mut registers = UnwindRegsNative::new(caller.returns_to, caller.stack, caller.outer);
        if !self.add_binary(caller.returns_to as usize - 1) {
            return None;
        }
        let address = FrameAddress::from_return_address(caller.returns_to)?;
        let rules = self.rules(address.address_for_lookup());
        let mut page = Page::new(caller.stack as usize);
        let mut read = |at: u64| page.word(at as usize);
        self.leave_frame(address, &rules, &mut registers, &mut read).ok()??;
        Some(registers.sp())
    }

    fn leave_frame(
        &mut self,
        at: FrameAddress,
        rules: &Rules,
        registers: &mut UnwindRegsNative,
        read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<u64>, Lost> {
        leave_frame(&self.unwinder, &mut self.cache, at, rules, registers, read)
    }

    /// Adds the binary at an address to those that are known; false if there is none.
    fn add_binary(&mut self, address: usize) -> bool {
        if self.known.iter().any(|binary| binary.range.contains(&address)) {
            return true;
        }
        if !memory::is_left_to_all(BYTES_PER_BINARY) {
            return false;
        }
        let Some(stamp) = Stamp::at(address) else { return false };
        let start = clock::ticks();
        let (object, tables) = match objects::with_tables(address, self.most_table_bytes) {
            Some(WithTables::Found(object, tables)) => (object, tables),
            Some(WithTables::TooLarge) => {
                self.was_limited = true;
                return false;
            }
            None => return false,
        };
        if let Some(tables) = &tables {
            let bytes = tables.copied_bytes() as u64;
            self.copied_bytes += bytes;
            self.copy_ticks += if bytes > 0 { clock::since(start).get() } else { 0 };
        }
        let tables = tables.and_then(|tables| UnwindTables::new(tables, object.bias));
        if let Some(tables) = &tables {
            let sections = ExplicitModuleSectionInfo {
                eh_frame_hdr_svma: Some(tables.header_range()),
                eh_frame_hdr: Some(tables.header()),
                eh_frame_svma: Some(tables.frames_range()),
                eh_frame: Some(tables.frames()),
                ..ExplicitModuleSectionInfo::default()
            };
            let addresses = object.range.start as u64..object.range.end as u64;
            self.unwinder.add_module(Module::new(String::new(), addresses, object.bias as u64, sections));
        }
        self.known.push(Binary { range: object.range, stamp, tables });
        true
    }

    /// The rules by which the frame at an address is left, refused where there is no memory to find
    /// them; remembers safe ones.
    fn rules(&mut self, address: u64) -> Rules {
        // PERF: programs have few places from which they call, and a walk passes many.
        self.safe.resize(MOST_SAFE, 0);
        let index = (address ^ address >> 10) as usize % MOST_SAFE;
        if self.safe[index] == address {
            return Rules::Safe;
        }
        if let Some(&(_, frame)) = self.computed.iter().find(|&&(known, _)| known == address) {
            return Rules::Computed(frame);
        }
        if !memory::is_left_to_all(BYTES_TO_FIND_RULES) {
            return Rules::Refused;
        }
        let binary = self.known.iter().find(|binary| binary.range.contains(&(address as usize)));
        let tables = binary.and_then(|binary| binary.tables.as_ref());
        let rules = tables.map_or(Rules::Missing, |tables| tables.rules(address));
        match rules {
            Rules::Safe => self.safe[index] = address,
            Rules::Computed(frame) if self.computed.len() < MOST_COMPUTED => {
                self.computed.push((address, frame))
            }
            Rules::Computed(_) | Rules::Refused | Rules::Missing => {}
        }
        rules
    }
}

/// Returns whether a call may return to an address of this process.
pub fn may_be_return(address: u64) -> bool {
    mpisee_in_process::native_frames::may_be_return(address, |from, bytes| {
        read_memory(from as usize, bytes) == bytes.len()
    })
}

/// Bytes that are copied at once; a page is mapped as a whole or not at all.
const PAGE_BYTES: usize = 1 << 12;

/// A copy of a page of the stack.
struct Page {
    stack: Range<usize>,
    at: usize,
    bytes: [u8; PAGE_BYTES],
}

impl Page {
    /// None yet of the stack from `start` on.
    fn new(start: usize) -> Page {
        Page { stack: start..start.saturating_add(MOST_BYTES_OF_STACK), at: 0, bytes: [0; PAGE_BYTES] }
    }

    /// A word of the stack, from the stack pointer on.
    fn word(&mut self, at: usize) -> Result<u64, ()> {
        const WORD: usize = size_of::<u64>();
        if !at.is_multiple_of(WORD) || !self.stack.contains(&at) {
            return Err(());
        }
        let page = at & !(PAGE_BYTES - 1);
        if page != self.at {
            self.at = 0;
            if read_memory(page, &mut self.bytes) != PAGE_BYTES {
                return Err(());
            }
            self.at = page;
        }
        let word = self.bytes[at - page..].first_chunk::<WORD>().ok_or(())?;
        Ok(u64::from_ne_bytes(*word))
    }
}

/// The part of a stack that is read, from the stack pointer on: of deeper stacks the outer frames
/// are missing.
const MOST_BYTES_OF_STACK: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::frame;

    #[inline(never)]
    fn walk_from_here() -> (Vec<usize>, WalkEnd) {
        let frame = frame::pointer() as usize as *const [u64; 2];
        // SAFETY: this function has a frame, as the tests are built with frame pointers.
        let [outer, returns_to] = unsafe { frame.read() };
        let caller = ExportFrame { returns_to, stack: frame as u64 + 16, outer };
        let mut path = Vec::new();
        let end = Unwinder::new().visit(&caller, |address| {
            path.push(address);
            true
        });
        (path, end)
    }

    #[test]
    fn a_thread_s_stack_is_walked_to_its_begin() {
        let (deep, end) = std::thread::spawn(walk_from_here).join().expect("it ends");
        assert!(deep.len() > 2, "{deep:x?}");
        assert_eq!(end, WalkEnd::Begin, "{deep:x?}");
    }

    #[test]
    fn addresses_after_calls_are_told_from_others() {
        assert!(may_be_return(0));
        assert!(walk_from_here().0.iter().all(|&address| may_be_return(address as u64)));
        assert!(!may_be_return(1 << 12), "where nothing is mapped");
    }

    #[test]
    fn what_is_not_mapped_ends_the_walk() {
        let address = 1 << 12;
        let caller = ExportFrame {
            returns_to: walk_from_here as *const () as u64 + 8,
            stack: address,
            outer: address,
        };
        assert_eq!(Unwinder::new().walk(&caller, &mut [0; MOST_PATH_FRAMES], |_| false), 1);
    }
}
