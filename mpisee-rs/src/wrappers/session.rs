//! Sessions (MPI 4.1, 11.3): MPI without a world. A process that never calls `MPI_Init` is recorded
//! from its first session to the end of its last one.
//!
//! `MPI_COMM_WORLD` cannot be used there, not even to query the own rank; the process set
//! `mpi://WORLD` has the processes of the run. A communicator from groups has no parent: it is
//! named by its members and the tag, `F<n>.<r>` with the smallest rank among them.

// An MPI may lack every function that is here.
#![allow(dead_code)]

use super::creation::created;
use super::lifecycle::{note_session, start_without_world};
use crate::finalize;
use crate::generated::pmpi;
use crate::mpi::abi::{Comm, Group, Raw, Session, constant};
use crate::mpi::argument::{HandlePtr, Text};
use crate::naming::{self, CreationKind};
use crate::recording::{RecordedCall, Recorder};
use crate::state::process;
use crate::state::world;
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Held while a session starts the profiler: threads may open several at once.
static STARTING: Mutex<()> = Mutex::new(());

/// `MPI_Session_init`.
///
/// # Safety
/// The arguments are those of the application's call; so for every function here.
pub unsafe fn session_init(session: HandlePtr<Session>, make: impl FnOnce() -> c_int) -> c_int {
    finalize::end_without_mpi();
    if let Some(world) = world::world() {
        world::guarded(|| note_session(world));
    }
    let code = make();
    if code == constant::SUCCESS {
        process::session_began();
        // SAFETY: the call that succeeded has stored the session.
        let session = unsafe { session.handle() };
        let _one_starts = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if world::world().is_none() {
            start_without_world(|| world_of(session));
        }
    }
    code
}

/// `MPI_Session_finalize`. No process need wait for another here, so that the profile is written
/// when the processes end.
///
/// # Safety
/// See [`session_init`].
pub unsafe fn session_finalize(session: HandlePtr<Session>, make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    if code == constant::SUCCESS && !session.is_null() && process::is_tracking() {
        process::session_ended();
    }
    code
}

/// The processes of the run, as the session has them.
pub fn world_of(session: Session) -> Option<Group> {
    let mut group = MaybeUninit::<Group>::uninit();
    // SAFETY: the session is open, the name ends in a zero; the call that succeeds writes the
    // group.
    unsafe {
        let from_set = pmpi::MPI_Group_from_session_pset.get();
        let code = from_set(Raw::new(session), c"mpi://WORLD".as_ptr(), group.as_mut_ptr());
        (code == constant::SUCCESS).then(|| group.assume_init())
    }
}

/// A call that creates a communicator from a group, without a parent.
///
/// # Safety
/// See [`session_init`].
pub unsafe fn create_from_group(
    operation: Operation,
    tag: Text,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let (code, ticks) = call.time(operation, CommId::NONE, make);
    call.record(|recorder| {
        // SAFETY: the call has returned this code, and a call that succeeded has stored a handle
        // there.
        if let Some(comm) = unsafe { created(recorder.world, code, new) } {
            // SAFETY: the call took the tag.
            let tag = unsafe { tag.read() };
            enter(recorder, operation, comm, &tag, ticks);
        }
    });
    code
}

/// Enters the communicator. The call is counted on it, since there is no parent.
fn enter(recorder: &Recorder, operation: Operation, comm: Comm, tag: &str, ticks: Ticks) {
    let kind = CreationKind::by(operation);
    let id = naming::enter_by_members(recorder.world, comm, None, kind, tag.as_bytes());
    if id != CommId::NONE {
        recorder.count_time(id, operation, ticks);
    }
}
