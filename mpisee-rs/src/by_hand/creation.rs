//! Creation, naming and destruction of communicators (MPI 4.1, chapters 7 and 8).
//!
//! The members agree on the number in the new name before the communicator is created, also while recording
//! is off: ranks may differ in that. The time of the agreement is not the call's.

use crate::abi::{Comm, Group, Info, Raw, Request, constant};
use crate::communicator::Communicator;
use crate::meaning::completion::count_on;
use crate::naming::{self, Birth, Parent, TopologyFrom};
use crate::process::{self, COMMUNICATORS, Process, REQUESTS};
use crate::record::{Call, Counted, Recorder};
use crate::request::{Kind, Started};
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::log::Record;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::Ordering;

const fn birth(letter: u8, operation: Operation) -> Birth {
    Birth { letter, operation, several: false, reorder: None, topology: TopologyFrom::Nothing }
}

impl Birth {
    const fn one_of_several(self) -> Birth {
        Birth { several: true, ..self }
    }

    const fn duplicating(self) -> Birth {
        Birth { topology: TopologyFrom::Parent, ..self }
    }

    const fn shaping(self) -> Birth {
        Birth { topology: TopologyFrom::Call, ..self }
    }

    fn reordering(self, reorder: c_int) -> Birth {
        Birth { reorder: Some(reorder != 0), ..self.shaping() }
    }
}

/// A call that is collective over the parent.
///
/// # Safety
/// `new` is where the call stores the communicator; the other arguments are the application's.
unsafe fn create(birth: Birth, parent: Raw<Comm>, new: *mut Comm, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(parent.get());
    let mut n = 0;
    call.record(|recorder| {
        if let Some(parent) = &parent {
            n = naming::agree(recorder.process, parent);
        }
    });
    let (code, ticks) = call.time(make);
    call.record(|recorder| {
        // SAFETY: the caller's promise.
        unsafe { note_created(recorder, birth, parent.as_ref(), n, new, code, ticks) };
    });
    code
}

unsafe fn note_created(
    recorder: &Recorder,
    birth: Birth,
    parent: Option<&Communicator>,
    n: u32,
    new: *const Comm,
    code: c_int,
    ticks: u64,
) {
    // Whose parent is unknown has no name: calls on it are not seen, either.
    let Some(parent) = parent else { return process::not_seen(NotSeen::UnknownCommunicator) };
    count_on(recorder, birth.operation, parent.id, ticks);
    // SAFETY: a call that succeeded has stored a communicator, or `MPI_COMM_NULL` where there is none.
    if let Some(comm) = unsafe { created(recorder.process, code, new) } {
        naming::enter(recorder.process, comm, &Parent::Known(parent), birth, n);
    }
}

/// The communicator that a call created for this process.
///
/// # Safety
/// `new` is where the call stores it.
pub unsafe fn created(process: &Process, code: c_int, new: *const Comm) -> Option<Comm> {
    if code != constant::SUCCESS {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { *new }).filter(|&comm| comm != process.predefined.comm_null)
}

/// `MPI_Comm_dup`.
///
/// # Safety
/// The arguments are those of the application's call; so for every function here.
pub unsafe fn comm_dup(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    new: *mut Comm,
) -> c_int {
    // SAFETY: the caller's promise; so for every call of a twin below.
    unsafe { create(birth(b'd', Operation::CommDup).duplicating(), comm, new, || twin(comm, new)) }
}

/// `MPI_Comm_dup_with_info`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_dup_with_info(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, Raw<Info>, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    info: Raw<Info>,
    new: *mut Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        create(birth(b'd', Operation::CommDupWithInfo).duplicating(), comm, new, || twin(comm, info, new))
    }
}

/// `MPI_Comm_split`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_split(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, c_int, c_int, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    color: c_int,
    key: c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b's', Operation::CommSplit).one_of_several();
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, || twin(comm, color, key, new)) }
}

/// `MPI_Comm_split_type`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_split_type(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, c_int, c_int, Raw<Info>, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    kind: c_int,
    key: c_int,
    info: Raw<Info>,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b't', Operation::CommSplitType).one_of_several();
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, || twin(comm, kind, key, info, new)) }
}

/// `MPI_Comm_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_create(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, Raw<Group>, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    group: Raw<Group>,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'c', Operation::CommCreate).one_of_several();
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, || twin(comm, group, new)) }
}

/// `MPI_Comm_create_group` is collective over the new communicator alone, so its members agree on it.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_create_group(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, Raw<Group>, c_int, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    group: Raw<Group>,
    tag: c_int,
    new: *mut Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    let make = || unsafe { twin(comm, group, tag, new) };
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let (code, ticks) = call.time(make);
    call.record(|recorder| {
        let process = recorder.process;
        // SAFETY: the caller's promise.
        let comm = unsafe { created(process, code, new) };
        let mut n = 0;
        if let (Some(comm), Some(_)) = (comm, &parent) {
            let so_far = &process.communicators_so_far;
            let own = so_far.load(Ordering::Relaxed);
            n = if process::size(comm) == 1 { own } else { naming::allreduce_max(process, comm, own) };
            so_far.fetch_max(n + 1, Ordering::Relaxed);
        }
        let birth = birth(b'g', Operation::CommCreateGroup).one_of_several();
        // SAFETY: the caller's promise.
        unsafe { note_created(recorder, birth, parent.as_ref(), n, new, code, ticks) };
    });
    code
}

/// `MPI_Cart_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn cart_create(
    twin: unsafe extern "C-unwind" fn(
        Raw<Comm>,
        c_int,
        *const c_int,
        *const c_int,
        c_int,
        *mut Comm,
    ) -> c_int,
    comm: Raw<Comm>,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'a', Operation::CartCreate).reordering(reorder);
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, || twin(comm, ndims, dims, periods, reorder, new)) }
}

/// `MPI_Cart_sub`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn cart_sub(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, *const c_int, *mut Comm) -> c_int,
    comm: Raw<Comm>,
    remain: *const c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'b', Operation::CartSub).one_of_several().shaping();
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, || twin(comm, remain, new)) }
}

/// `MPI_Graph_create`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn graph_create(
    twin: unsafe extern "C-unwind" fn(
        Raw<Comm>,
        c_int,
        *const c_int,
        *const c_int,
        c_int,
        *mut Comm,
    ) -> c_int,
    comm: Raw<Comm>,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'r', Operation::GraphCreate).reordering(reorder);
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, || twin(comm, nodes, index, edges, reorder, new)) }
}

/// `MPI_Dist_graph_create`.
///
/// # Safety
/// See [`comm_dup`].
#[expect(clippy::too_many_arguments, reason = "the standard's signature")]
pub unsafe fn dist_graph_create(
    twin: unsafe extern "C-unwind" fn(
        Raw<Comm>,
        c_int,
        *const c_int,
        *const c_int,
        *const c_int,
        *const c_int,
        Raw<Info>,
        c_int,
        *mut Comm,
    ) -> c_int,
    comm: Raw<Comm>,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: Raw<Info>,
    reorder: c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'n', Operation::DistGraphCreate).reordering(reorder);
    // SAFETY: the caller's promise.
    let make = || unsafe { twin(comm, n, sources, degrees, destinations, weights, info, reorder, new) };
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, make) }
}

/// `MPI_Dist_graph_create_adjacent`.
///
/// # Safety
/// See [`comm_dup`].
#[expect(clippy::too_many_arguments, reason = "the standard's signature")]
pub unsafe fn dist_graph_create_adjacent(
    twin: unsafe extern "C-unwind" fn(
        Raw<Comm>,
        c_int,
        *const c_int,
        *const c_int,
        c_int,
        *const c_int,
        *const c_int,
        Raw<Info>,
        c_int,
        *mut Comm,
    ) -> c_int,
    comm: Raw<Comm>,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: Raw<Info>,
    reorder: c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'j', Operation::DistGraphCreateAdjacent).reordering(reorder);
    // SAFETY: the caller's promise.
    let make = || unsafe {
        twin(comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder, new)
    };
    // SAFETY: the caller's promise.
    unsafe { create(birth, comm, new, make) }
}

/// `MPI_Comm_idup`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_idup(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, *mut Comm, *mut Request) -> c_int,
    comm: Raw<Comm>,
    new: *mut Comm,
    request: *mut Request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { idup(Operation::CommIdup, comm, new, request, || twin(comm, new, request)) }
}

/// `MPI_Comm_idup_with_info`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_idup_with_info(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, Raw<Info>, *mut Comm, *mut Request) -> c_int,
    comm: Raw<Comm>,
    info: Raw<Info>,
    new: *mut Comm,
    request: *mut Request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { idup(Operation::CommIdupWithInfo, comm, new, request, || twin(comm, info, new, request)) }
}

/// A duplication whose agreement goes on beside it and ends with its request.
unsafe fn idup(
    operation: Operation,
    comm: Raw<Comm>,
    new: *mut Comm,
    request: *mut Request,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let parent = COMMUNICATORS.get(comm.get());
    let mut number = None;
    call.record(|recorder| {
        number =
            parent.as_ref().map(|parent| naming::start_duplication(recorder.process, parent, operation, new));
    });
    let (code, ticks) = call.time(make);
    call.record(|recorder| {
        let (Some(parent), Some(number)) = (&parent, number) else {
            return process::not_seen(NotSeen::UnknownCommunicator);
        };
        count_on(recorder, operation, parent.id, ticks);
        if code != constant::SUCCESS {
            return naming::abandon_duplication(number);
        }
        let (communicator, region) = (parent.id, recorder.region());
        let counted = Counted { communicator, region, operation, message: 0, bytes: 0, ticks };
        let started = Started::once(Kind::Duplication(number), counted);
        // SAFETY: the call succeeded, so it stored a request.
        REQUESTS.add(unsafe { *request }, request, started);
    });
    code
}

/// `MPI_Intercomm_merge`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn intercomm_merge(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, c_int, *mut Comm) -> c_int,
    intercomm: Raw<Comm>,
    high: c_int,
    new: *mut Comm,
) -> c_int {
    let birth = birth(b'm', Operation::IntercommMerge);
    // SAFETY: the caller's promise.
    unsafe { create(birth, intercomm, new, || twin(intercomm, high, new)) }
}

/// `MPI_Comm_free`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_free(twin: unsafe extern "C-unwind" fn(*mut Comm) -> c_int, comm: *mut Comm) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { free(Operation::CommFree, twin, comm) }
}

/// `MPI_Comm_disconnect`.
///
/// # Safety
/// See [`comm_dup`].
pub unsafe fn comm_disconnect(
    twin: unsafe extern "C-unwind" fn(*mut Comm) -> c_int,
    comm: *mut Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { free(Operation::CommDisconnect, twin, comm) }
}

unsafe fn free(
    operation: Operation,
    twin: unsafe extern "C-unwind" fn(*mut Comm) -> c_int,
    comm: *mut Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    let make = || unsafe { twin(comm) };
    if !process::is_tracking() || comm.is_null() {
        return make();
    }
    // Out of the table before the call: as soon as it ends, another thread may get the handle for a new
    // communicator. A call from inside of MPI, as a delete callback makes, frees all the same.
    // SAFETY: the communicator is valid, the caller says.
    let freed = COMMUNICATORS.get(unsafe { *comm });
    // SAFETY: as above.
    let handle = unsafe { *comm };
    COMMUNICATORS.forget(handle);
    let call = Call::tracked();
    let (code, ticks) = match &call {
        Some(call) => call.time(make),
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
        naming::log_about(process, freed.id, |id| Record::Freed { id });
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
pub unsafe fn comm_set_name(
    twin: unsafe extern "C-unwind" fn(Raw<Comm>, *const c_char) -> c_int,
    comm: Raw<Comm>,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let code = unsafe { twin(comm, name) };
    if code == constant::SUCCESS
        && let Some(call) = Call::tracked()
    {
        call.record(|recorder| {
            if let Some(communicator) = COMMUNICATORS.get(comm.get()) {
                // SAFETY: a name that the call took ends in a zero.
                let text = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
                naming::log_about(recorder.process, communicator.id, |id| Record::Label { id, text });
            }
        });
    }
    code
}
