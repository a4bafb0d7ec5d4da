//! Creation, naming and destruction of communicators (MPI 4.1, chapters 7 and 8).
//!
//! A call that is collective over a communicator is numbered there before it is made, also while
//! recording is off: ranks may differ in that, and a call may fail on some of them.

use crate::mpi::abi::{Comm, Raw, Request, constant};
use crate::mpi::argument::{HandlePtr, Text};
use crate::naming::{self, CreationKind, NumberedCreation, ROWS};
use crate::recording::{RecordedCall, Recorder};
use crate::state::communicator::COMMUNICATORS;
use crate::state::communicator::Communicator;
use crate::state::process;
use crate::state::request::{REQUESTS, RequestKind, RequestOrigin};
use crate::state::world::{self, World};
use crate::storage::memory;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of a communicator, or [`CommId::NONE`].
pub fn number_of(communicator: Option<&Communicator>) -> CommId {
    communicator.map_or(CommId::NONE, |communicator| communicator.id)
}

/// A call that creates a communicator and is collective over its parent.
///
/// # Safety
/// The arguments are those of the application's call, which stores the communicator at `new`, and
/// `make` makes it; so for every function here.
pub unsafe fn create(
    operation: Operation,
    parent: Raw<Comm>,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { create_as(CreationKind::by(operation), parent, new, make) }
}

/// As [`create`], for a call with a `reorder` argument.
///
/// # Safety
/// See [`create`].
pub unsafe fn create_in_order(
    operation: Operation,
    parent: Raw<Comm>,
    reorder: c_int,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { create_as(CreationKind::by(operation).reordering(reorder != 0), parent, new, make) }
}

unsafe fn create_as(
    kind: CreationKind,
    parent: Raw<Comm>,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe {
        create_on(kind, COMMUNICATORS.get(parent.get()), new, make, |recorder, comm, parent, numbered| {
            naming::enter(recorder.world, comm, parent, kind, numbered);
        })
    }
}

/// A call that creates a communicator and is collective over `parent`; `enter` enters what it
/// created.
///
/// # Safety
/// See [`create`].
pub unsafe fn create_on(
    kind: CreationKind,
    parent: Option<Communicator>,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
    enter: impl FnOnce(&Recorder, Comm, &Communicator, NumberedCreation),
) -> c_int {
    let (Some(call), Some(operation)) = (RecordedCall::if_tracking(), kind.operation) else { return make() };
    let numbered = call.number(parent.as_ref(), kind);
    let (code, ticks) = call.time(operation, number_of(parent.as_ref()), make);
    call.record(|recorder| {
        // A child of an unknown parent has no name: calls on it count as not seen, too.
        let Some(parent) = &parent else { return world::not_seen(NotSeen::UnknownCommunicator) };
        recorder.count_time(parent.id, operation, ticks);
        // SAFETY: a call that succeeded has stored a communicator, or `MPI_COMM_NULL` where there
        // is none.
        if let Some(comm) = unsafe { created(recorder.world, code, new) } {
            enter(recorder, comm, parent, numbered);
        }
    });
    code
}

/// The communicator that a call created for this process.
///
/// # Safety
/// `new` is where the call stores it.
pub unsafe fn created(world: &World, code: c_int, new: HandlePtr<Comm>) -> Option<Comm> {
    if code != constant::SUCCESS {
        return None;
    }
    // SAFETY: a call that succeeded has stored a handle there.
    Some(unsafe { new.handle() }).filter(|&comm| comm != world.predefined.comm_null)
}

/// `MPI_Comm_create_group` is collective over the new communicator alone, which is named by its
/// members and the tag: threads may make several of one parent at once, with different tags.
///
/// # Safety
/// See [`create`].
pub unsafe fn comm_create_group(
    comm: Raw<Comm>,
    tag: c_int,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let (code, ticks) = call.time(Operation::CommCreateGroup, number_of(parent.as_ref()), make);
    call.record(|recorder| {
        let world = recorder.world;
        let Some(parent) = &parent else { return world::not_seen(NotSeen::UnknownCommunicator) };
        recorder.count_time(parent.id, Operation::CommCreateGroup, ticks);
        // SAFETY: the call has returned this code, and a call that succeeded has stored a handle
        // there.
        if let Some(comm) = unsafe { created(world, code, new) } {
            let kind = CreationKind::by(Operation::CommCreateGroup);
            naming::enter_by_members(world, comm, Some(parent), kind, &tag.to_ne_bytes());
        }
    });
    code
}

/// A nonblocking duplication, completed by its request.
///
/// # Safety
/// See [`create`].
pub unsafe fn start_duplicate(
    operation: Operation,
    comm: Raw<Comm>,
    new: HandlePtr<Comm>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let numbered = call.number(parent.as_ref(), CreationKind::by(operation));
    let (code, ticks) = call.time(operation, number_of(parent.as_ref()), make);
    call.record(|recorder| {
        let Some(parent) = &parent else { return world::not_seen(NotSeen::UnknownCommunicator) };
        recorder.count_time(parent.id, operation, ticks);
        if code != constant::SUCCESS {
            return;
        }
        let number = naming::start_duplication(recorder.world, parent, operation, numbered, new);
        let counted = recorder.counted_call(parent.id, operation, 0, 0, ticks);
        // SAFETY: the call succeeded, so it stored a request.
        unsafe {
            REQUESTS.add(request, RequestOrigin::new(RequestKind::Duplication, number as i32), counted, 0)
        };
    });
    code
}

/// `MPIX_Comm_shrink`: a communicator of the surviving processes, numbered by how often the parent
/// was shrunk, since other creating calls may fail on some of them and be repeated.
///
/// # Safety
/// See [`create`].
pub unsafe fn comm_shrink(comm: Raw<Comm>, new: HandlePtr<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let kind = CreationKind::by(Operation::CommShrink);
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe {
        create_on(kind, COMMUNICATORS.get(comm.get()), new, make, |recorder, comm, parent, mut numbered| {
            numbered.number.n = numbered.number.of_letter;
            naming::enter(recorder.world, comm, parent, kind, numbered);
        })
    }
}

/// A call that frees a communicator.
///
/// # Safety
/// See [`create`].
pub unsafe fn free(operation: Operation, comm: HandlePtr<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    if !process::is_tracking() || comm.is_null() {
        return make();
    }
    // Removed before the call: as soon as it returns, MPI may give the handle to another thread. A
    // call from inside MPI, as a delete callback makes, frees the communicator, too.
    // SAFETY: the communicator is valid, the caller says.
    let handle = unsafe { comm.handle() };
    if world::world().is_some_and(|world| handle == world.predefined.comm_null) {
        return make(); // An error of the program's that MPI reports.
    }
    let freed = COMMUNICATORS.get(handle);
    COMMUNICATORS.forget(handle);
    let call = RecordedCall::if_tracking();
    let (code, ticks) = match &call {
        Some(call) => call.time(operation, number_of(freed.as_ref()), make),
        None => (make(), Ticks::ZERO),
    };
    let Some(freed) = freed else {
        if call.is_some() {
            world::not_seen(NotSeen::UnknownCommunicator);
        }
        return code;
    };
    if code != constant::SUCCESS {
        COMMUNICATORS.insert(freed);
        return code;
    }
    let release = || {
        if let Some(world) = world::world() {
            ROWS.free(&world.segment, freed.id);
        }
        freed.release();
    };
    if catch_unwind(AssertUnwindSafe(release)).is_err() {
        world::not_seen(NotSeen::InternalError);
    }
    if let Some(call) = call {
        call.record(|recorder| recorder.count_time(freed.id, operation, ticks));
    }
    code
}

/// More bytes than keeping a name takes.
const LABEL_BYTES: usize = 1 << 12;

/// `MPI_Comm_set_name`: keeps the application's name as the label.
///
/// # Safety
/// See [`create`].
pub unsafe fn comm_set_name(comm: Raw<Comm>, name: Text, make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    if code == constant::SUCCESS
        && let Some(call) = RecordedCall::if_tracking()
    {
        call.record(|recorder| {
            if let Some(communicator) = COMMUNICATORS.get(comm.get())
                && memory::is_left(LABEL_BYTES)
            {
                // SAFETY: the call took the name.
                let text = unsafe { name.read_name() };
                ROWS.label(&recorder.world.segment, communicator.id, text);
            }
        });
    }
    code
}
