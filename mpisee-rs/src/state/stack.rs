//! The calling thread's stack, read where a call begins while another one seems not to have ended: the MPI library may
//! have made the call, a callback of the program may have, or the earlier call was left by a longjmp out of an error
//! handler and never returned.
//!
//! Only such calls come here, so that it may take microseconds.

use crate::mpi::symbol;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

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
    let mut walk = Walk { own: own_range(), caller: None, ended_at: None };
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

fn own_range() -> Range<usize> {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    let find = || object_at(own_range as *const () as usize).map_or(0..0, |object| object.range);
    OWN.get_or_init(find).clone()
}

/// Returns whether the code at `address` is the MPI library's: its main object, or one of those that come with it.
fn is_of_library(address: usize) -> bool {
    let Some(object) = object_at(address) else { return false };
    let has = |function: *mut c_void| object.range.contains(&function.addr());
    object.is_named_as_library || symbol::function(c"PMPI_Wait").is_some_and(has)
}

/// An object that the loader has mapped.
struct Object {
    range: Range<usize>,
    /// True if its file name is that of an MPI library.
    is_named_as_library: bool,
}

struct Search {
    address: usize,
    found: Option<Object>,
}

/// The object that is mapped around `address`.
fn object_at(address: usize) -> Option<Object> {
    let mut search = Search { address, found: None };
    // SAFETY: the callback has the signature that dl_iterate_phdr documents, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info, and the pointer that `object_at` gave it.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the loader's array has that many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let offset = info.dlpi_addr;
    let start = loaded().map(|header| offset.wrapping_add(header.p_vaddr)).min().unwrap_or(0);
    let end = loaded().map(|header| offset.wrapping_add(header.p_vaddr + header.p_memsz)).max().unwrap_or(0);
    let range = start as usize..end as usize;
    if !range.contains(&search.address) {
        return 0;
    }
    // SAFETY: the loader's names end in a zero.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    search.found = Some(Object { range, is_named_as_library: name.is_some_and(is_named_as_library) });
    1
}

fn is_named_as_library(path: &CStr) -> bool {
    let file = path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
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
            (c"/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_io_romio321.so", true),
            (c"/usr/lib/x86_64-linux-gnu/libmpichfort.so.12", true),
            (c"/opt/intel/oneapi/mpi/2021.13/lib/libmpi.so.12", true),
            (c"/usr/lib/x86_64-linux-gnu/libpetsc.so.3", false),
            (c"/home/user/lib/libmpitools.so", false),
            (c"", false),
        ] {
            assert_eq!(is_named_as_library(path), expected, "{path:?}");
        }
    }

    #[test]
    fn own_code_lies_in_its_object() {
        assert!(own_range().contains(&(own_range as *const () as usize)));
        assert!(!is_of_library(own_range as *const () as usize));
    }
}
