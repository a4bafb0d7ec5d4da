//! Creation, naming and destruction of communicators (MPI 4.1, chapters 7 and 8).
//!
//! The members agree on the number in the new name before the communicator is created, also while recording
//! is off: ranks may differ in that. The time of the agreement is not the call's.

use crate::abi::{Comm, Raw, Request, constant};
use crate::argument::{Place, Text};
use crate::communicator::Communicator;
use crate::naming::{self, Birth, Membership, Number, Parent};
use crate::process::{self, COMMUNICATORS, Process, REQUESTS};
use crate::record::{Call, Recorder};
use crate::request::{self, Started};
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::now::UNKNOWN;
use std::ffi::c_int;

/// The number of a communicator, as far as it has one.
pub fn number_of(communicator: Option<&Communicator>) -> u32 {
    communicator.map_or(UNKNOWN, |communicator| communicator.id)
}

/// A call that creates a communicator and is collective over its parent.
///
/// # Safety
/// The arguments are those of the application's call, which stores the communicator at `new`, and `make` makes it; so
/// for every function here.
pub unsafe fn create(
    operation: Operation,
    parent: Raw<Comm>,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { agree_and_create(Birth::by(operation), parent, new, make) }
}

/// The same, where the application says whether the ranks may be in another order.
///
/// # Safety
/// See [`create`].
pub unsafe fn create_in_order(
    operation: Operation,
    parent: Raw<Comm>,
    reorder: c_int,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { agree_and_create(Birth::by(operation).reordering(reorder != 0), parent, new, make) }
}

unsafe fn agree_and_create(
    birth: Birth,
    parent: Raw<Comm>,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(parent.get());
    if let Some(operation) = birth.operation {
        call.begin(operation, number_of(parent.as_ref()));
    }
    let mut number = None;
    call.record(|recorder| {
        if let Some(parent) = &parent {
            number = Some(naming::agree(recorder.process, parent));
        }
    });
    let (code, ticks) = call.time_begun(make);
    call.record(|recorder| {
        // SAFETY: the caller's promise.
        unsafe { note_created(recorder, birth, parent.as_ref(), number, new, code, ticks) };
    });
    code
}

unsafe fn note_created(
    recorder: &Recorder,
    birth: Birth,
    parent: Option<&Communicator>,
    number: Option<Number>,
    new: Place<Comm>,
    code: c_int,
    ticks: u64,
) {
    // Whose parent is unknown has no name: calls on it are not seen, either.
    let (Some(parent), Some(number)) = (parent, number) else {
        return process::not_seen(NotSeen::UnknownCommunicator);
    };
    if let Some(operation) = birth.operation {
        recorder.count_time(parent.id, operation, ticks);
    }
    // SAFETY: a call that succeeded has stored a communicator, or `MPI_COMM_NULL` where there is none.
    match unsafe { created(recorder.process, code, new) } {
        Some(comm) => {
            naming::enter(recorder.process, comm, &Parent::Known(parent), birth, number);
        }
        None => number.give_back(recorder.process),
    }
}

/// The communicator that a call created for this process.
///
/// # Safety
/// `new` is where the call stores it.
pub unsafe fn created(process: &Process, code: c_int, new: Place<Comm>) -> Option<Comm> {
    if code != constant::SUCCESS {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { new.handle() }).filter(|&comm| comm != process.predefined.comm_null)
}

/// `MPI_Comm_create_group` is collective over the new communicator alone, so its members agree on it.
///
/// # Safety
/// See [`create`].
pub unsafe fn comm_create_group(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let (code, ticks) = call.time(Operation::CommCreateGroup, number_of(parent.as_ref()), make);
    call.record(|recorder| {
        let process = recorder.process;
        let Some(parent) = &parent else { return process::not_seen(NotSeen::UnknownCommunicator) };
        recorder.count_time(parent.id, Operation::CommCreateGroup, ticks);
        // SAFETY: the caller's promise.
        let Some(comm) = (unsafe { created(process, code, new) }) else { return };
        // With processes of other worlds nothing is agreed, and some of the parent's know nothing of this: there
        // is no number, and the communicator stays unknown.
        if !(parent.has_outsiders && Membership::of(process, comm).has_outsiders()) {
            let number = naming::agree_within(process, comm, process.so_far());
            let birth = Birth::by(Operation::CommCreateGroup);
            naming::enter(process, comm, &Parent::Known(parent), birth, number);
        }
    });
    code
}

/// A duplication whose agreement goes on beside it and ends with its request.
///
/// # Safety
/// See [`create`].
pub unsafe fn start_duplicate(
    operation: Operation,
    comm: Raw<Comm>,
    new: Place<Comm>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    call.begin(operation, number_of(parent.as_ref()));
    let mut number = None;
    call.record(|recorder| {
        number =
            parent.as_ref().map(|parent| naming::start_duplication(recorder.process, parent, operation, new));
    });
    let (code, ticks) = call.time_begun(make);
    call.record(|recorder| {
        let (Some(parent), Some(number)) = (&parent, number) else {
            return process::not_seen(NotSeen::UnknownCommunicator);
        };
        recorder.count_time(parent.id, operation, ticks);
        if code != constant::SUCCESS {
            return naming::abandon_duplication(number);
        }
        let counted = recorder.counted(parent.id, operation, 0, 0, ticks);
        let started = Started::once(request::Kind::Duplication(number), counted, 0);
        // SAFETY: the call succeeded, so it stored a request.
        unsafe { REQUESTS.add(request, || started) };
    });
    code
}

/// `MPIX_Comm_shrink`: a communicator of the processes that are still there. Some may not be, and more may go at
/// any time, so that nothing is agreed: each counts how often the parent was shrunk.
///
/// # Safety
/// See [`create`].
pub unsafe fn comm_shrink(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let mut number = None;
    if let (Some(parent), Some(process)) = (parent, process::process()) {
        COMMUNICATORS.insert(parent.shrunk());
        let n = process.folding.count_shrink(parent.id, parent.shrinks + 1);
        number = Some(Number::of_another_count(n));
    }
    let (code, ticks) = call.time(Operation::CommShrink, number_of(parent.as_ref()), make);
    call.record(|recorder| {
        let birth = Birth::by(Operation::CommShrink);
        // SAFETY: the caller's promise.
        unsafe { note_created(recorder, birth, parent.as_ref(), number, new, code, ticks) };
    });
    code
}

/// A call that ends a communicator.
///
/// # Safety
/// See [`create`].
pub unsafe fn free(operation: Operation, comm: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    if !process::is_tracking() || comm.is_null() {
        return make();
    }
    // Out of the table before the call: as soon as it ends, another thread may get the handle for a new
    // communicator. A call from inside of MPI, as a delete callback makes, frees all the same.
    // SAFETY: the communicator is valid, the caller says.
    let handle = unsafe { comm.handle() };
    let freed = COMMUNICATORS.get(handle);
    COMMUNICATORS.forget(handle);
    let call = Call::tracked();
    let (code, ticks) = match &call {
        Some(call) => call.time(operation, number_of(freed.as_ref()), make),
        None => (make(), 0),
    };
    let Some(freed) = freed else {
        if call.is_some() {
            process::not_seen(NotSeen::UnknownCommunicator);
        }
        return code;
    };
    if code != constant::SUCCESS {
        COMMUNICATORS.insert(freed);
        return code;
    }
    if let Some(process) = process::process() {
        process.folding.free(&process.segment, freed.id);
    }
    if let Some(call) = call {
        call.record(|recorder| recorder.count_time(freed.id, operation, ticks));
    }
    freed.release();
    code
}

/// `MPI_Comm_set_name`: the application's name is kept beside ours.
///
/// # Safety
/// See [`create`].
pub unsafe fn comm_set_name(comm: Raw<Comm>, name: Text, make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    if code == constant::SUCCESS
        && let Some(call) = Call::tracked()
    {
        call.record(|recorder| {
            if let Some(communicator) = COMMUNICATORS.get(comm.get()) {
                // SAFETY: the call took the name.
                let text = unsafe { name.read() };
                recorder.process.folding.label(&recorder.process.segment, communicator.id, text);
            }
        });
    }
    code
}
