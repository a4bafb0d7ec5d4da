//! Notes the buffers of calls, for the kind of memory under which they are counted.

use crate::state::gpu::memory_kind;
use crate::state::thread;
use crate::storage::hot::HOT;
use std::ffi::c_void;

/// Notes the buffers of a call that begins, if it has any.
#[inline(always)]
pub fn note<const N: usize>(buffers: [*const c_void; N]) {
    if HOT.asks_driver() {
        note_kinds(&buffers);
    }
}

#[cold]
#[inline(never)]
fn note_kinds(buffers: &[*const c_void]) {
    // The MPI library's own calls inside of one of the program's are not counted.
    if !thread::is_inside() {
        memory_kind::note(buffers);
    }
}
