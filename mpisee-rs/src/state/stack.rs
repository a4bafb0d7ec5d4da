//! The calling thread's stack, read where a call begins while another one seems not to have ended:
//! the MPI library may have made the call, a callback of the program may have, or the earlier call
//! was left by a longjmp out of an error handler and never returned.
//!
//! Only such calls come here, so that it may take microseconds.

use crate::binaries::mapping::{self, MOST_NAME_BYTES};
use crate::binaries::objects::{object_at, own_range};
use crate::binaries::unwinder::{Unwinder, WalkEnd};
use crate::mpi::symbol;
use crate::state::world;
use crate::storage::frame::{self, CalledFrom, ExportFrame};
use crate::storage::hot::HOT;
use crate::storage::patience::try_lock_anyway;
use mpisee_in_process::symbols::is_mpi_library;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The relation between a call that begins and the one that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// The earlier call goes on, and the MPI library has made this one.
    ByLibrary,
    /// The earlier call goes on, and a callback of the program has made this one.
    ByProgram,
    /// The earlier call is on the stack no longer.
    Left,
}

/// Compares the earlier call's frame with the calling thread's stack, and walks up the stack if
/// that does not decide whether the call goes on. A walk that is lost, as at a frame without unwind
/// tables, has not found that the earlier call was left: it is taken to go on.
///
/// By the [`Unwinder`], which evaluates no rule that may not end, and reads tables that may go away
/// as copies: a program's own tables may be wrong, as long as nothing unwinds by them.
#[cold]
#[inline(never)]
pub fn nesting(earlier: Option<CalledFrom>) -> Nesting {
    static UNWINDER: Mutex<Option<Unwinder>> = Mutex::new(None);
    let own = own_range();
    let pointer = frame::pointer();
    // SAFETY: it is this function's frame pointer.
    let Some(export) = (unsafe { ExportFrame::leaving(pointer, own) }) else { return Nesting::ByLibrary };
    if earlier.is_some_and(|earlier| is_gone(earlier, &(pointer..export.stack), own)) {
        return Nesting::Left;
    }
    let end = world::guarded(|| {
        // Another thread may have it, or a call that was left by `siglongjmp`.
        let mut unwinder = try_lock_anyway(&UNWINDER)?;
        let unwinder = unwinder.get_or_insert_with(Unwinder::new);
        unwinder.refresh();
        // A call may be its function's last instruction.
        Some(unwinder.visit(&export, |address| !own.contains(&(address - 1))))
    });
    match end.flatten() {
        Some(WalkEnd::Begin) => Nesting::Left,
        _ if !is_of_library(export.returns_to as usize) => Nesting::ByProgram,
        _ => Nesting::ByLibrary,
    }
}

/// Returns whether a call's frame is certainly on the stack no longer, where the library has these
/// frames now: it would lie among them, or has another return address than at the begin of the
/// call. False where that cannot be told.
fn is_gone(call: CalledFrom, frames: &Range<u64>, own: &Range<usize>) -> bool {
    if frames.contains(&call.frame) {
        return true;
    }
    // The return address is that of the export, or in the library, if the frame is of a function
    // that the export has called; from bindings it is in these.
    if call.caller == 0 || HOT.looks_at_frames() {
        return false;
    }
    let mut word = [0; size_of::<u64>()];
    // The stack of a coroutine may be unmapped.
    let is_read = mapping::read_memory(call.frame as usize + size_of::<u64>(), &mut word) == word.len();
    let returns_to = u64::from_ne_bytes(word);
    is_read && returns_to != call.caller && !own.contains(&(returns_to as usize))
}

/// Returns whether the code at `address` is the MPI library's: its main object, or one of those
/// that come with it.
///
/// Each call after one that was left by a jump comes here, so that nothing is allocated and no lock
/// is taken: what a jump out of here would leave undone, such as a lock of `malloc`'s, would be so
/// for good.
fn is_of_library(address: usize) -> bool {
    let is = |range: &Range<usize>, name: &[u8]| {
        is_mpi_library(name) || function_of_library().is_some_and(|function| range.contains(&function))
    };
    if !mapping::has_finder() {
        return object_at(address).is_some_and(|object| is(&object.range, &object.name));
    }
    let Some(mapping) = mapping::at(address) else { return false };
    is(&mapping.range, mapping.name(&mut [0; MOST_NAME_BYTES]).unwrap_or_default())
}

/// The address of a function in the MPI's main object.
fn function_of_library() -> Option<usize> {
    static FUNCTION: AtomicUsize = AtomicUsize::new(0);
    let known = FUNCTION.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known);
    }
    let address = symbol::function(c"PMPI_Wait")?.addr();
    FUNCTION.store(address, Ordering::Relaxed);
    Some(address)
}

/// Looks up, when MPI starts, what takes the loader's lock.
pub fn prepare() {
    mapping::prepare();
    function_of_library();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_gone_whose_frame_is_others_now() {
        let own = own_range();
        let (in_program, elsewhere) = (own.end as u64 + 16, own.end as u64 + 32);
        // As a frame lies on the stack: the outer frame pointer, and the return address.
        let frame = |returns_to: u64| [0, returns_to];
        let is_gone_at = |words: &[u64; 2], caller: u64, frames: &Range<u64>| {
            is_gone(CalledFrom { frame: words.as_ptr().addr() as u64, caller }, frames, own)
        };
        let words = frame(in_program);
        let at = words.as_ptr().addr() as u64;
        assert!(is_gone_at(&words, in_program, &(at - 64..at + 64)), "the library's frames lie over it");
        assert!(!is_gone_at(&words, in_program, &(at - 64..at)));
        assert!(is_gone_at(&words, elsewhere, &(at - 64..at)), "another return address is in its place");
        assert!(!is_gone_at(&frame(own.start as u64), elsewhere, &(at - 64..at)), "it is in the library");
        assert!(!is_gone_at(&words, 0, &(at - 64..at)), "its address is not known");
        let unmapped = CalledFrom { frame: 8, caller: in_program };
        assert!(!is_gone(unmapped, &(at - 64..at), own));
    }
}
