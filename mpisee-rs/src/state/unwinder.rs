//! Walks up the calling thread's stack, from the library's caller on.
//!
//! Nothing that it reads can end the program: the stack is read between the stack pointer and the end of the thread's stack, and
//! unwind tables are copies, since a library may be unloaded. Return addresses are found by these tables, and by frame pointers
//! where a binary has none.

use crate::state::objects::{self, Tables};
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

/// What is known of the binaries on the stacks so far.
pub struct Unwinder {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// The addresses of binaries that the unwinder has.
    known: Vec<Range<usize>>,
    /// How many binaries had been unloaded when they were looked at.
    unloaded: u64,
}

impl Unwinder {
    pub fn new() -> Unwinder {
        Unwinder {
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            known: Vec::new(),
            unloaded: objects::unloaded(),
        }
    }

    /// Forgets all binaries if one was unloaded, whose addresses another may have by now; true if it did.
    pub fn refresh(&mut self) -> bool {
        let unloaded = objects::unloaded();
        let is_stale = unloaded != self.unloaded;
        if is_stale {
            *self = Unwinder { unloaded, ..Unwinder::new() };
        }
        is_stale
    }

    /// Puts the return addresses from `caller` on into `path`, the innermost first.
    pub fn walk(&mut self, caller: &ExportFrame, path: &mut [usize; MOST_FRAMES]) -> usize {
        let mut registers = UnwindRegsNative::new(caller.returns_to, caller.stack, caller.outer);
        let mut address = caller.returns_to;
        let stack = stack_from(caller.stack as usize);
        let mut read = |at: u64| {
            let at = at as usize;
            let is_inside = at.is_multiple_of(align_of::<u64>())
                && stack.contains(&at)
                && stack.end - at >= size_of::<u64>();
            // SAFETY: aligned, and in the part of the calling thread's stack that is in use.
            if is_inside { Ok(unsafe { (at as *const u64).read() }) } else { Err(()) }
        };
        let mut frames = 0;
        for place in path.iter_mut() {
            let Some(next) = FrameAddress::from_return_address(address) else { break };
            *place = address as usize;
            frames += 1;
            if !self.learn(address as usize - 1) {
                break;
            }
            match self.unwinder.unwind_frame(next, &mut registers, &mut self.cache, &mut read) {
                Ok(Some(outer)) => address = outer,
                _ => break,
            }
        }
        frames
    }

    /// Adds the binary at an address to those that are known; false if there is none.
    fn learn(&mut self, address: usize) -> bool {
        if self.known.iter().any(|range| range.contains(&address)) {
            return true;
        }
        if !memory::is_left_to_all(BYTES_PER_BINARY) {
            return false;
        }
        let Some((object, tables)) = objects::with_tables(address) else { return false };
        self.known.push(object.range.clone());
        if let Some(Tables { header_at, header, frames_at, frames }) = tables {
            let range = |at: usize, bytes: usize| {
                let start = at.wrapping_sub(object.bias) as u64;
                start..start + bytes as u64
            };
            let sections = ExplicitModuleSectionInfo {
                eh_frame_hdr_svma: Some(range(header_at, header.len())),
                eh_frame_hdr: Some(header),
                eh_frame_svma: Some(range(frames_at, frames.len())),
                eh_frame: Some(frames),
                ..ExplicitModuleSectionInfo::default()
            };
            let addresses = object.range.start as u64..object.range.end as u64;
            self.unwinder.add_module(Module::new(String::new(), addresses, object.bias as u64, sections));
        }
        true
    }
}

/// The stack of the calling thread from `stack` on; nothing where that is not on it, as in a coroutine.
fn stack_from(stack: usize) -> Range<usize> {
    let end = end_of_stack(stack).filter(|&end| end > stack).unwrap_or(stack);
    stack..end
}

/// The main thread's stack grows to this at most before the kernel places something else below it.
const MOST_BYTES_OF_MAIN_STACK: usize = 64 << 20;

fn end_of_stack(stack: usize) -> Option<usize> {
    // SAFETY: both calls have no preconditions.
    if unsafe { libc::gettid() == libc::getpid() } {
        // What the C library finds out of this thread it reads from a file each time.
        // SAFETY: the loader sets it before anything else runs.
        let end = unsafe { __libc_stack_end }.addr();
        return Some(end).filter(|end| end.wrapping_sub(stack) < MOST_BYTES_OF_MAIN_STACK);
    }
    // SAFETY: the attributes are set by the first call, used if it succeeded, and freed.
    unsafe {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
        let code = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        let range = start.addr()..start.addr().checked_add(bytes)?;
        (code == 0 && range.contains(&stack)).then_some(range.end)
    }
}

unsafe extern "C" {
    /// Where the main thread's stack ends, of the C library's loader.
    static __libc_stack_end: *const std::ffi::c_void;
}

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
        let count = Unwinder::new().walk(&caller, &mut path);
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
    fn nothing_is_read_beside_the_stack() {
        let heap = vec![0u64; 64];
        let address = heap.as_ptr() as u64;
        let caller = ExportFrame {
            returns_to: walk_from_here as *const () as u64 + 8,
            stack: address,
            outer: address,
        };
        assert!(Unwinder::new().walk(&caller, &mut [0; MOST_FRAMES]) <= 1);
    }
}
