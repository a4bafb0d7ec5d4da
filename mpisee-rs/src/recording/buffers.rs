//! Notes the buffers of calls, for the kind of memory under which they are counted.

use crate::mpi::abi::{Comm, Raw, constant};
use crate::state::communicator::{COMMUNICATORS, CommShape};
use crate::state::gpu::memory_kind;
use crate::state::gpu::staging::Used;
use crate::state::thread;
use crate::storage::hot::HOT;
use std::ffi::{c_int, c_void};

/// Notes the buffers of a call that begins.
#[inline(always)]
pub fn note<const N: usize>(buffers: [*const c_void; N]) {
    if HOT.asks_driver() {
        note_kinds(&buffers, || Used::Both);
    }
}

/// The way of the data of a rooted call.
#[derive(Clone, Copy)]
pub enum Rooted {
    /// The root has the buffer that it sends, and others have the one that they receive.
    Broadcast,
    /// All send, and the root has a buffer to receive beside.
    ToRoot,
    /// All receive, and the root has a buffer to send beside.
    FromRoot,
}

/// The same of a rooted call, with its root and communicator. MPI does not look at buffers that are
/// significant at the root alone elsewhere.
#[inline(always)]
pub fn note_rooted<const N: usize>(
    buffers: [*const c_void; N],
    call: impl FnOnce() -> (Rooted, c_int, Raw<Comm>),
) {
    if HOT.asks_driver() {
        let (rooted, root, comm) = call();
        note_kinds(&buffers, || used(rooted, root, comm));
    }
}

#[cold]
#[inline(never)]
fn note_kinds(buffers: &[*const c_void], used: impl FnOnce() -> Used) {
    // The MPI library's own calls inside of one of the program's are not counted.
    if !thread::is_inside() {
        memory_kind::note(buffers);
        memory_kind::leave_unused(used());
    }
}

/// The buffers that this process uses.
fn used(rooted: Rooted, root: c_int, comm: Raw<Comm>) -> Used {
    let Some(shape) = COMMUNICATORS.get(comm.get()).as_ref().map(CommShape::from_communicator) else {
        return Used::Both;
    };
    let is_root = if shape.is_inter() { root == constant::ROOT } else { root == shape.rank.to_mpi() };
    match (rooted, is_root) {
        _ if shape.is_inter() && root == constant::PROC_NULL => Used::Neither,
        (Rooted::Broadcast, true) => Used::Sent,
        (Rooted::Broadcast, false) => Used::Received,
        // Another process of the root's group has no part in it.
        (Rooted::ToRoot, true) if shape.is_inter() => Used::Received,
        (Rooted::FromRoot, true) if shape.is_inter() => Used::Sent,
        (Rooted::ToRoot | Rooted::FromRoot, true) => Used::Both,
        (Rooted::ToRoot, false) => Used::Sent,
        (Rooted::FromRoot, false) => Used::Received,
    }
}
