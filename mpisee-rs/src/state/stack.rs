//! The calling thread's stack, read where a call begins while another one seems not to have ended: the MPI library may
//! have made the call, a callback of the program may have, or the earlier call was left by a longjmp out of an error
//! handler and never returned.
//!
//! Only such calls come here, so that it may take microseconds.

use crate::mpi::symbol;
use crate::state::objects::object_at;
use crate::state::sites::own_range;
use std::ffi::{c_int, c_void};
use std::ops::Range;

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

/// Unwinds the calling thread's stack. Frames without unwind tables end the walk early; the earlier call is then
/// assumed to be still running.
#[cold]
#[inline(never)]
pub fn nesting() -> Nesting {
    let mut walk = Walk { own: own_range().clone(), caller: None, ended_at: None };
    // SAFETY: `visit` has the signature of a trace function, and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    match walk.caller {
        Some(_) if walk.ended_at == Some(0) => Nesting::Left,
        Some(caller) if !is_of_library(caller) => Nesting::ByProgram,
        _ => Nesting::ByLibrary,
    }
}

struct Walk {
    /// The addresses of this library's code.
    own: Range<usize>,
    /// The caller: the first return address outside this library.
    caller: Option<usize>,
    /// The last address; 0 behind the first frame of a thread, `None` if an earlier call of ours was found.
    ended_at: Option<usize>,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        trace: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// `_URC_NO_REASON`: go on.
const GO_ON: c_int = 0;
/// `_URC_NORMAL_STOP`.
const STOP: c_int = 4;

unsafe extern "C" fn visit(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its context, and the pointer that `nesting` gave it.
    let (address, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
    // A call may be its function's last instruction.
    let is_own = walk.own.contains(&address.wrapping_sub(1));
    walk.ended_at = Some(address);
    if !is_own && walk.caller.is_none() {
        walk.caller = Some(address);
    } else if is_own && walk.caller.is_some() {
        walk.ended_at = None;
        return STOP;
    }
    GO_ON
}

/// Returns whether the code at `address` is the MPI library's: its main object, or one of those that come with it.
fn is_of_library(address: usize) -> bool {
    let Some(object) = object_at(address) else { return false };
    let has = |function: *mut c_void| object.range.contains(&function.addr());
    is_named_as_library(&object.name) || symbol::function(c"PMPI_Wait").is_some_and(has)
}

fn is_named_as_library(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let starts = [
        &b"libmpi."[..],
        b"libmpi_",
        b"libmpich",
        b"libmpifort",
        b"libmpicxx",
        b"libpmpi",
        b"libopen-",
        b"mca_",
        b"libmca_",
        b"libromio",
    ];
    starts.iter().any(|start| file.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_mpi_libraries_are_known_by_their_names() {
        for (path, expected) in [
            ("/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_io_romio321.so", true),
            ("/usr/lib/x86_64-linux-gnu/libmpichfort.so.12", true),
            ("/opt/intel/oneapi/mpi/2021.13/lib/libmpi.so.12", true),
            ("/usr/lib/x86_64-linux-gnu/libpetsc.so.3", false),
            ("/home/user/lib/libmpitools.so", false),
            ("", false),
        ] {
            assert_eq!(is_named_as_library(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn own_code_is_no_mpi_library_s() {
        assert!(own_range().contains(&(own_range as *const () as usize)));
        assert!(!is_of_library(own_range as *const () as usize));
    }
}
