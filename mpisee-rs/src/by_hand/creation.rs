//! Creation, naming and destruction of communicators (MPI 4.1, chapters 7 and 8).
//!
//! The members agree on the number in the new name before the communicator is created, also while recording
//! is off: ranks may differ in that. The time of the agreement is not the call's.

use crate::abi::{Comm, Raw, Request, constant};
use crate::argument::{Place, Text};
use crate::communicator::Communicator;
use crate::meaning::completion::count_on;
use crate::naming::{self, Birth, Membership, Number, Parent, TopologyFrom};
use crate::process::{self, COMMUNICATORS, Process, REQUESTS};
use crate::record::{Call, Recorder};
use crate::request::{self, Started};
use crate::topology::Kind;
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::now::UNKNOWN;
use std::ffi::c_int;

/// A creation that has nothing special.
pub const fn birth(letter: u8, operation: Operation) -> Birth {
    Birth {
        letter,
        operation: Some(operation),
        several: false,
        reorder: None,
        topology: TopologyFrom::Nothing,
    }
}

impl Birth {
    /// One call may create several.
    pub const fn one_of_several(self) -> Birth {
        Birth { several: true, ..self }
    }

    const fn duplicating(self) -> Birth {
        Birth { topology: TopologyFrom::Parent, ..self }
    }

    const fn shaping(self, kind: Kind) -> Birth {
        Birth { topology: TopologyFrom::Call(kind), ..self }
    }

    fn reordering(self, reorder: c_int) -> Birth {
        Birth { reorder: Some(reorder != 0), ..self }
    }
}

/// The number of a communicator, as far as it has one.
pub fn number_of(communicator: Option<&Communicator>) -> u32 {
    communicator.map_or(UNKNOWN, |communicator| communicator.id)
}

/// A call that is collective over the parent.
///
/// # Safety
/// `new` is where the call stores the communicator; the other arguments are the application's.
unsafe fn create(birth: Birth, parent: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
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
        count_on(recorder, operation, parent.id, ticks);
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

/// `MPI_Comm_dup`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function here.
pub unsafe fn comm_dup(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(birth(b'd', Operation::CommDup).duplicating(), comm, new, make) }
}

/// `MPI_Comm_dup_with_info`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_dup_with_info(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(birth(b'd', Operation::CommDupWithInfo).duplicating(), comm, new, make) }
}

/// `MPI_Comm_split`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_split(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(birth(b's', Operation::CommSplit).one_of_several(), comm, new, make) }
}

/// `MPI_Comm_split_type`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_split_type(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(birth(b't', Operation::CommSplitType).one_of_several(), comm, new, make) }
}

/// `MPI_Comm_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_create(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(birth(b'c', Operation::CommCreate).one_of_several(), comm, new, make) }
}

/// `MPI_Comm_create_group` is collective over the new communicator alone, so its members agree on it.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_create_group(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let (code, ticks) = call.time(Operation::CommCreateGroup, number_of(parent.as_ref()), make);
    call.record(|recorder| {
        let process = recorder.process;
        let Some(parent) = &parent else { return process::not_seen(NotSeen::UnknownCommunicator) };
        count_on(recorder, Operation::CommCreateGroup, parent.id, ticks);
        // SAFETY: the caller's promise.
        let Some(comm) = (unsafe { created(process, code, new) }) else { return };
        // With processes of other worlds nothing is agreed, and some of the parent's know nothing of this: there
        // is no number, and the communicator stays unknown.
        if !(parent.has_outsiders && Membership::of(process, comm).has_outsiders()) {
            let number = naming::agree_within(process, comm, process.so_far());
            let birth = birth(b'g', Operation::CommCreateGroup).one_of_several();
            naming::enter(process, comm, &Parent::Known(parent), birth, number);
        }
    });
    code
}

/// `MPI_Cart_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn cart_create(
    comm: Raw<Comm>,
    reorder: c_int,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        create(birth(b'a', Operation::CartCreate).shaping(Kind::Cart).reordering(reorder), comm, new, make)
    }
}

/// `MPI_Cart_sub`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn cart_sub(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let birth = birth(b'b', Operation::CartSub).one_of_several().shaping(Kind::Cart);
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, make) }
}

/// `MPI_Graph_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn graph_create(
    comm: Raw<Comm>,
    reorder: c_int,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        create(birth(b'r', Operation::GraphCreate).shaping(Kind::Graph).reordering(reorder), comm, new, make)
    }
}

/// `MPI_Dist_graph_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn dist_graph_create(
    comm: Raw<Comm>,
    reorder: c_int,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        create(
            birth(b'n', Operation::DistGraphCreate).shaping(Kind::DistGraph).reordering(reorder),
            comm,
            new,
            make,
        )
    }
}

/// `MPI_Dist_graph_create_adjacent`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn dist_graph_create_adjacent(
    comm: Raw<Comm>,
    reorder: c_int,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        create(
            birth(b'j', Operation::DistGraphCreateAdjacent).shaping(Kind::DistGraph).reordering(reorder),
            comm,
            new,
            make,
        )
    }
}

/// `MPI_Comm_idup`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_idup(
    comm: Raw<Comm>,
    new: Place<Comm>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { idup(Operation::CommIdup, comm, new, request, make) }
}

/// `MPI_Comm_idup_with_info`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_idup_with_info(
    comm: Raw<Comm>,
    new: Place<Comm>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { idup(Operation::CommIdupWithInfo, comm, new, request, make) }
}

/// A duplication whose agreement goes on beside it and ends with its request.
unsafe fn idup(
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
        count_on(recorder, operation, parent.id, ticks);
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

/// `MPI_Intercomm_merge`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn intercomm_merge(comm: Raw<Comm>, new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(birth(b'm', Operation::IntercommMerge), comm, new, make) }
}

/// `MPIX_Comm_shrink`: a communicator of the processes that are still there. Some may not be, and more may go at
/// any time, so that nothing is agreed: each counts how often the parent was shrunk.
///
/// # Safety
/// See [`comm_dup`].
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
        let birth = birth(b'k', Operation::CommShrink);
        // SAFETY: the caller's promise.
        unsafe { note_created(recorder, birth, parent.as_ref(), number, new, code, ticks) };
    });
    code
}

/// `MPI_Comm_free`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_free(comm: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { free(Operation::CommFree, comm, make) }
}

/// `MPI_Comm_disconnect`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_disconnect(comm: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { free(Operation::CommDisconnect, comm, make) }
}

unsafe fn free(operation: Operation, comm: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
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
        call.record(|recorder| count_on(recorder, operation, freed.id, ticks));
    }
    freed.release();
    code
}

/// `MPI_Comm_set_name`: the application's name is kept beside ours.
///
/// # Safety
/// See [`comm_dup`].
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
