//! Walks up the calling thread's stack, from the library's caller on.
//!
//! Nothing that it reads can end the program: the kernel copies the stack, page by page, and fails where nothing is mapped; unwind tables are copies, too, since a library may be unloaded. Return addresses are found by these tables, and by frame pointers
//! where a binary has none.

use crate::state::objects;
use crate::state::unwind_tables::{Bytes, UnwindTables};
use crate::storage::frame::ExportFrame;
use crate::storage::memory;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use std::ops::Range;

/// Frames of a path at most; of a deeper one those nearest to the call are kept.
pub const MOST_FRAMES: usize = 64;
/// More than is taken for a binary beside its tables.
const BYTES_PER_BINARY: usize = 1 << 16;

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// At the begin of the thread.
    Begin,
    /// Where it was told to.
    Stopped,
    /// At a frame that is not understood.
    Lost,
}

/// A binary on the stacks so far.
struct Binary {
    range: Range<usize>,
    /// Without tables it is walked by frame pointers.
    tables: Option<UnwindTables>,
}

/// Addresses that are remembered as ending.
const MOST_ENDING: usize = 1 << 10;

/// Unwind tables of the binaries on the stacks so far.
pub struct Unwinder {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// The binaries that the unwinder has.
    known: Vec<Binary>,
    /// Addresses whose rules end when they are evaluated, each at the place that its number gives it.
    ending: Vec<u64>,
    /// How many binaries had been unloaded when they were looked at.
    unloaded: u64,
}

impl Unwinder {
    pub fn new() -> Unwinder {
        Unwinder {
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            known: Vec::new(),
            ending: Vec::new(),
            unloaded: objects::changes().unloaded,
        }
    }

    /// Forgets all binaries if one was unloaded, whose addresses another may have by now; true if it did.
    pub fn refresh(&mut self) -> bool {
        let unloaded = objects::changes().unloaded;
        let is_stale = unloaded != self.unloaded;
        if is_stale {
            *self = Unwinder { unloaded, ..Unwinder::new() };
        }
        is_stale
    }

    /// The number of binaries whose tables are known.
    pub fn binaries(&self) -> usize {
        self.known.len()
    }

    /// Puts the return addresses from `caller` on into `path`, the innermost first, up to one at which `ends` says so.
    pub fn walk(
        &mut self,
        caller: &ExportFrame,
        path: &mut [usize; MOST_FRAMES],
        mut ends: impl FnMut(usize) -> bool,
    ) -> usize {
        let mut frames = 0;
        self.visit(caller, |address| {
            // The call's own site stays on its path in any case.
            if frames == MOST_FRAMES || frames > 0 && ends(address) {
                return false;
            }
            path[frames] = address;
            frames += 1;
            frames < MOST_FRAMES
        });
        frames
    }

    /// Shows the return addresses from `caller` on, the innermost first, as long as `goes_on` says so.
    pub fn visit(&mut self, caller: &ExportFrame, mut goes_on: impl FnMut(usize) -> bool) -> WalkEnd {
        let mut registers = UnwindRegsNative::new(caller.returns_to, caller.stack, caller.outer);
        let mut address = caller.returns_to;
        let mut page = Page::new(caller.stack as usize);
        let mut read = |at: u64| page.word(at as usize);
        while let Some(next) = FrameAddress::from_return_address(address) {
            if !goes_on(address as usize) {
                return WalkEnd::Stopped;
            }
            if !self.learn(address as usize - 1) || !self.has_end(next.address_for_lookup()) {
                return WalkEnd::Lost;
            }
            let stack = registers.sp();
            match self.unwinder.unwind_frame(next, &mut registers, &mut self.cache, &mut read) {
                // Each frame is above the last one, so that the walk ends.
                Ok(Some(outer)) if registers.sp() > stack => address = outer,
                Ok(Some(_)) | Err(_) => return WalkEnd::Lost,
                Ok(None) => break,
            }
        }
        WalkEnd::Begin
    }

    /// The stack pointer where the function returns to which the library returns; `None` if the size of its frame varies, which
    /// is known from the frame pointer then.
    pub fn stack_of_caller(&mut self, caller: &ExportFrame) -> Option<u64> {
        let without_frame_pointer = ExportFrame { outer: 0, ..*caller };
        let stack = self.unwind_once(caller)?;
        (self.unwind_once(&without_frame_pointer)? == stack).then_some(stack)
    }

    fn unwind_once(&mut self, caller: &ExportFrame) -> Option<u64> {
        let mut registers = UnwindRegsNative::new(caller.returns_to, caller.stack, caller.outer);
        if !self.learn(caller.returns_to as usize - 1) {
            return None;
        }
        let address = FrameAddress::from_return_address(caller.returns_to)?;
        if !self.has_end(address.address_for_lookup()) {
            return None;
        }
        let mut page = Page::new(caller.stack as usize);
        let mut read = |at: u64| page.word(at as usize);
        self.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read).ok()??;
        Some(registers.sp())
    }

    /// Adds the binary at an address to those that are known; false if there is none.
    fn learn(&mut self, address: usize) -> bool {
        if self.known.iter().any(|binary| binary.range.contains(&address)) {
            return true;
        }
        if !memory::is_left_to_all(BYTES_PER_BINARY) {
            return false;
        }
        let Some((object, tables)) = objects::with_tables(address) else { return false };
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
        self.known.push(Binary { range: object.range, tables });
        true
    }

    /// Returns whether the rules by which the frame at an address is left end when they are evaluated.
    fn has_end(&mut self, address: u64) -> bool {
        // PERF: programs have few places from which they call, and a walk passes many.
        self.ending.resize(MOST_ENDING, 0);
        let place = (address ^ address >> 10) as usize % MOST_ENDING;
        if self.ending[place] == address {
            return true;
        }
        let binary = self.known.iter().find(|binary| binary.range.contains(&(address as usize)));
        let tables = binary.and_then(|binary| binary.tables.as_ref());
        let has_end = tables.is_none_or(|tables| tables.has_end(address));
        if has_end {
            self.ending[place] = address;
        }
        has_end
    }
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
            if objects::read_memory(page, &mut self.bytes) != PAGE_BYTES {
                return Err(());
            }
            self.at = page;
        }
        let word = self.bytes[at - page..].first_chunk::<WORD>().ok_or(())?;
        Ok(u64::from_ne_bytes(*word))
    }
}

/// The part of a stack that is read, from the stack pointer on: of deeper stacks the outer frames are missing.
const MOST_BYTES_OF_STACK: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::frame;

    #[inline(never)]
    fn walk_from_here() -> Vec<usize> {
        let frame = frame::pointer() as usize as *const [u64; 2];
        // SAFETY: this function has a frame, as the tests are built with frame pointers.
        let [outer, returns_to] = unsafe { frame.read() };
        let caller = ExportFrame { returns_to, stack: frame as u64 + 16, outer };
        let mut path = [0; MOST_FRAMES];
        let count = Unwinder::new().walk(&caller, &mut path, |_| false);
        path[..count].to_vec()
    }

    #[test]
    fn a_thread_s_stack_is_walked_to_its_begin() {
        let deep = std::thread::spawn(walk_from_here).join().expect("it ends");
        assert!(deep.len() > 2, "{deep:x?}");
        let own = walk_from_here as *const () as usize;
        assert!(deep[0].abs_diff(own) < 1 << 30, "in this program");
    }

    #[test]
    fn what_is_not_mapped_ends_the_walk() {
        let address = 1 << 12;
        let caller = ExportFrame {
            returns_to: walk_from_here as *const () as u64 + 8,
            stack: address,
            outer: address,
        };
        assert!(Unwinder::new().walk(&caller, &mut [0; MOST_FRAMES], |_| false) <= 1);
    }
}
