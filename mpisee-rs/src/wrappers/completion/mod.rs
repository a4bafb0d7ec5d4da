//! The wait and test family, `MPI_Request_free` and `MPI_Cancel`.
//!
//! Requests are looked up before the call, since MPI sets completed ones to `MPI_REQUEST_NULL`, and
//! removed from the table after it, once it is known which completed.

mod array;
mod few;
pub mod settling;

pub use array::{some, testall, testany, waitall, waitany};

use crate::generated::pmpi;
use crate::mpi::abi::{Raw, Request, STATUS_IGNORE, Status, bits, constant, from_bits};
use crate::mpi::argument::HandlePtr;
use crate::naming;
use crate::recording::polls::{self, RepeatedPoll};
use crate::recording::{RecordedCall, Recorder, streams, unfinished};
use crate::state::order;
use crate::state::poll::PollId;
use crate::state::request::REQUESTS;
use crate::state::request::{Removed, RequestRef, RequestState};
use crate::state::sites;
use crate::state::world;
use array::{awaited_by, first_of, length};
use mpisee_profile::segment::{NotSeen, awaited};
use mpisee_profile::{Operation, Ticks};
use settling::{Completion, freed, is_refusal, request_in, settle};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::slice;

/// True if `MPI_Request_get_status` raises no error for a failed request. In MPICH it does, and the
/// error handler might end a program that would go on without the profiler; there only requests
/// that the program itself has queried are safe.
const GET_STATUS_IS_SILENT: bool = cfg!(mpi_family = "openmpi");

/// `MPI_Wait` (MPI 4.1, 3.7.3).
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function
/// here.
#[inline]
pub unsafe fn wait(
    request: HandlePtr<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { one(Operation::Wait, request, status, |status| (make(status), true)) }
}

/// `MPI_Test`.
///
/// # Safety
/// See [`wait`].
#[inline]
pub unsafe fn test(
    request: HandlePtr<Request>,
    flag: *const c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |status| {
        let code = make(status);
        // SAFETY: a call that succeeds writes the flag.
        (code, code == constant::SUCCESS && unsafe { *flag } != 0)
    };
    // SAFETY: the request is valid, the caller says.
    let Some(poll) = RepeatedPoll::begin(unsafe { poll_of(Operation::Test, request) }, |_| true) else {
        // SAFETY: the arguments are those of the application's call, and `make` makes it.
        return unsafe { one(Operation::Test, request, status, make) };
    };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && poll.needs_status() { own.as_mut_ptr() } else { status };
    let (code, completed) = poll.make(|| make(status));
    if code == constant::SUCCESS && !completed {
        poll.found_nothing();
    } else {
        // SAFETY: the call has ended with this code, and there was this request in the variable.
        unsafe { test_ended(poll, request, status, code) };
    }
    code
}

/// The poll for the request in `variable`.
///
/// # Safety
/// There is one, if `variable` is not null.
#[inline(always)]
unsafe fn poll_of(operation: Operation, variable: HandlePtr<Request>) -> Option<PollId> {
    if variable.is_null() {
        return None;
    }
    // SAFETY: there is a request in the variable.
    polls::poll_for_requests(operation, variable.address(), || bits(unsafe { variable.handle() }))
}

/// Records a test that repeats others, and has completed its request or failed.
///
/// # Safety
/// The call ended with `code`; there is a request in `variable`.
#[cold]
#[inline(never)]
unsafe fn test_ended(poll: RepeatedPoll, variable: HandlePtr<Request>, status: *const Status, code: c_int) {
    let handle: Request = from_bits(poll.poll().asked());
    let call = poll.end_run();
    let known = HandlePtr::c(&raw const handle);
    // SAFETY: there is a request in `known`.
    let Some((given, ..)) = (unsafe { REQUESTS.find_simple(known) }) else {
        return world::not_seen(NotSeen::UnknownRequest);
    };
    if code == constant::SUCCESS {
        // SAFETY: the call has succeeded.
        unsafe { few::complete(call.thread(), &given, status) };
    } else {
        // SAFETY: the call has failed with this code, and there is a request in the variable.
        unsafe { one_failed(&call, Operation::Test, &given, variable, status, code, None) };
    }
}

/// A call on one request; `make` returns the code, and whether the request completed.
#[inline]
unsafe fn one(
    operation: Operation,
    request: HandlePtr<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    let Some(call) = RecordedCall::if_completing().filter(|_| !request.is_null()) else {
        return make(status).0;
    };
    // SAFETY: the request is valid, the caller says.
    let Some((given, communicator, first)) = (unsafe { REQUESTS.find_simple(request) }) else {
        // SAFETY: request and status are those of the program's call, and `make` makes it.
        return unsafe { one_general(&call, operation, request, status, make) };
    };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && given.needs_status() { own.as_mut_ptr() } else { status };
    let ends = awaited::requests(1, first);
    let ((code, completed), ticks) = call.time_with(operation, communicator, ends, || make(status));
    if code != constant::SUCCESS {
        // SAFETY: the call has failed, and the variable's address is not null.
        unsafe { one_failed(&call, operation, &given, request, status, code, Some(ticks)) };
        return code;
    }
    let caller = sites::caller_of_export();
    if completed {
        // SAFETY: the call has succeeded.
        unsafe { few::complete(call.thread(), &given, status) };
    }
    let counted = few::charge(call.thread(), operation, communicator, ticks, caller);
    if operation == Operation::Test && polls::is_called_by_program() {
        if completed {
            polls::note_timed_success(operation, request.address(), call.thread(), ticks);
        } else if let Some(counted) = counted.filter(|counted| counted.counts(caller) && !given.is_aliased())
        {
            // SAFETY: the request is valid, the caller says.
            if let Some(id) = unsafe { poll_of(operation, request) } {
                polls::note_timed(&id, call.thread(), counted, ends, given.needs_status());
            }
        }
    }
    code
}

/// Records a call on a simple request that failed; without `ticks` the call itself is counted
/// already.
///
/// # Safety
/// The call failed with `code`; there is a request in `variable`.
#[cold]
#[inline(never)]
unsafe fn one_failed(
    call: &RecordedCall,
    operation: Operation,
    given: &RequestRef,
    variable: HandlePtr<Request>,
    status: *const Status,
    code: c_int,
    ticks: Option<Ticks>,
) {
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = Completion::begin(&mut scratch, recorder, operation);
        // SAFETY: the call failed with this code, and there is a request in the variable.
        if unsafe { ended_with(code, given, variable) } {
            completion.failed(given, None, code, given.needs_status().then_some(status));
        } else {
            completion.completed_none(slice::from_ref(given));
        }
        if let Some(ticks) = ticks {
            completion.charge(ticks);
        }
    });
}

/// As [`one`], for a request that is not simple.
#[inline(never)]
unsafe fn one_general(
    call: &RecordedCall,
    operation: Operation,
    request: HandlePtr<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { request_in(call.request_null(), request) };
    let kept = REQUESTS.copy_if_shared(&given);
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && given.needs_status() { own.as_mut_ptr() } else { status };
    let (communicator, ends) = (REQUESTS.communicator_of(&given), awaited_by(slice::from_ref(&given)));
    let ((code, completed), ticks) = call.time_with(operation, communicator, ends, || make(status));
    call.record(|recorder| {
        if code == constant::SUCCESS
            && !completed
            && settling::test_found_none(recorder, operation, &given, ticks)
        {
            return;
        }
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = Completion::begin(&mut scratch, recorder, operation);
        let filled = given.needs_status().then_some(status.cast_const());
        if code == constant::SUCCESS && completed {
            completion.completed(&given, kept.as_ref(), filled);
        // SAFETY: the variable's address is not null.
        } else if code != constant::SUCCESS && unsafe { ended_with(code, &given, request) } {
            completion.failed(&given, kept.as_ref(), code, filled);
        } else {
            completion.completed_none(slice::from_ref(&given));
        }
        completion.charge(ticks);
    });
    code
}

/// Returns whether a call that failed with `code` still completed the request in `variable`. MPI
/// then sets the handle to null, except for a persistent request, which has failed unless MPI
/// rejected the call.
///
/// # Safety
/// There is a request in `variable`.
#[cold]
unsafe fn ended_with(code: c_int, given: &RequestRef, variable: HandlePtr<Request>) -> bool {
    if given.is_persistent() {
        return !is_refusal(code);
    }
    // SAFETY: there is a request in the variable.
    REQUESTS.is_null(unsafe { variable.handle() })
}

/// `MPI_Request_get_status`: a test that does not free the request, whose completion is recorded
/// later.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_get_status(
    request: Raw<Request>,
    flag: *const c_int,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_completing() else { return make() };
    // Where the application keeps it is unknown, since it was passed by value.
    let given = REQUESTS.look_up(request.get(), HandlePtr::c(std::ptr::null()), call.request_null());
    let (operation, communicator) = (Operation::RequestGetStatus, REQUESTS.communicator_of(&given));
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        // SAFETY: a call that succeeds writes the flag.
        if code == constant::SUCCESS && unsafe { *flag } != 0 {
            REQUESTS.seen_complete(&given);
            enter_duplicate(recorder, request.get(), &given);
            order::note_found(&recorder.thread.order);
        }
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = Completion::begin(&mut scratch, recorder, operation);
        completion.completed_none(slice::from_ref(&given));
        completion.charge(ticks);
    });
    code
}

/// A test of an array of requests that frees none of them (MPI 4.1, 3.7.6).
///
/// # Safety
/// See [`wait`].
pub unsafe fn get_status_many(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_completing() else { return make() };
    let count = length(count, requests);
    // SAFETY: the array has `count` requests.
    let first = (count > 0).then(|| unsafe { request_in(call.request_null(), requests) });
    let (code, ticks) = call.time(operation, first_of(first.as_slice()), make);
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        if !scratch.reset(count) {
            return world::not_seen(NotSeen::NoRoom);
        }
        for at in 0..count {
            // SAFETY: the array has `count` requests, which the call left as they were.
            let (handle, given) =
                unsafe { (requests.at(at).handle(), request_in(call.request_null(), requests.at(at))) };
            if code == constant::SUCCESS {
                enter_duplicate(recorder, handle, &given);
            }
            scratch.given.push(given);
        }
        let (mut completion, given, _) = Completion::begin(&mut scratch, recorder, operation);
        completion.completed_none(given);
        completion.charge(ticks);
    });
    code
}

/// Enters the new communicator of an `MPI_Comm_idup`: the program may use it as soon as a test that
/// does not free the request has reported it complete.
fn enter_duplicate(recorder: &Recorder, request: Request, given: &RequestRef) {
    if let Some(number) = REQUESTS.duplication(given)
        && status_of(request).is_some_and(|status| status.MPI_ERROR == constant::SUCCESS)
    {
        naming::duplicated(recorder.world, number);
        REQUESTS.duplicated(given);
    }
}

/// `MPI_Request_free`: an active operation continues, but its completion is not reported.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_free(request: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = RecordedCall::if_tracking().filter(|_| !request.is_null()) else { return make() };
    // SAFETY: the request is valid, the caller says.
    let (handle, given) = unsafe { (request.handle(), request_in(call.request_null(), request)) };
    // After the call, MPI cannot be queried for what a complete receive got, or whether a
    // cancellation succeeded.
    let unrecorded = REQUESTS.unrecorded(&given);
    let unrecorded = unrecorded.filter(|it| it.seen_complete || it.cancelled || GET_STATUS_IS_SILENT);
    let ended = unrecorded.and_then(|started| Some((started, status_of(handle)?)));
    // MPICH 5.0 reports a persistent receive as complete once, and as inactive from then on. The
    // status of a cancelled receive has no source, either.
    let is_empty = |status: &Status| status.MPI_SOURCE < 0 && status.MPI_SOURCE != constant::PROC_NULL;
    let status_is_valid = |(started, status): &(RequestState, Status)| {
        started.cancelled || !started.kind.is_receive() || !is_empty(status)
    };
    let ended = ended.filter(status_is_valid);
    let communicator = REQUESTS.communicator_of(&given);
    let removed = REQUESTS.remove(handle, request);
    let (code, ticks) = call.time(Operation::RequestFree, communicator, make);
    call.record(|recorder| {
        if code == constant::SUCCESS {
            if let Some((started, status)) = ended.as_ref().filter(|(started, _)| started.recorded) {
                match status.MPI_ERROR {
                    constant::SUCCESS => settle(recorder, started, Some(status)),
                    error => settling::settle_failed(recorder, started, error, Some(status)),
                }
            }
            if let Some(Removed::Entry(_, started)) = &removed {
                unfinished::abandon(recorder.world, started);
            }
            let owner = removed.as_ref().map(Removed::owner);
            let is_counted = ended.is_some() || removed.as_ref().is_some_and(Removed::is_from_nobody);
            freed(recorder, Operation::RequestFree, owner, is_counted, ticks);
        } else if let Some(removed) = removed {
            REQUESTS.put_back(removed);
        }
    });
    code
}

/// The status of an open request if its operation has ended; without an error in it, the operation
/// succeeded. The program may have learnt so by `MPI_Request_get_status`, and then frees the
/// request.
fn status_of(request: Request) -> Option<Status> {
    // SAFETY: a status consists of numbers, for which 0 is valid.
    let mut status: Status = unsafe { std::mem::zeroed() };
    status.MPI_ERROR = constant::SUCCESS;
    let mut ended = 0;
    // SAFETY: the request is open; the call writes the flag, and the status if the operation has
    // ended.
    let code =
        unsafe { pmpi::MPI_Request_get_status.get()(Raw::new(request), &raw mut ended, &raw mut status) };
    (code == constant::SUCCESS && ended != 0).then_some(status)
}

/// `MPI_Cancel` (MPI 4.1, 3.8.4): whether it succeeded is known when the request completes.
///
/// # Safety
/// See [`wait`].
pub unsafe fn cancel(request: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = RecordedCall::if_tracking().filter(|_| !request.is_null()) else { return make() };
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { request_in(call.request_null(), request) };
    let (code, ticks) = call.time(Operation::Cancel, REQUESTS.communicator_of(&given), make);
    call.record(|recorder| {
        let Some(owner) = REQUESTS.owner(&given).filter(|owner| owner.recorded) else {
            // It may have been started while recording was off, and its message may have its
            // number.
            streams::unorder_all();
            return settling::count_unknown(&given);
        };
        // An aliased request was complete when it started, and cannot be cancelled.
        if let RequestRef::Known(known) = &given
            && code == constant::SUCCESS
        {
            REQUESTS.cancel(known);
        }
        recorder.count_time(owner.communicator, Operation::Cancel, ticks);
    });
    code
}
