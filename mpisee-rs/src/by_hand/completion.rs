//! The wait and test family, `MPI_Request_free` and `MPI_Cancel`.
//!
//! Requests are looked at before the call, since a completed one is `MPI_REQUEST_NULL` after it, and taken
//! out of the table after it, once it is known which completed.

use crate::abi::{Raw, Request, STATUS_IGNORE, Status, constant};
use crate::argument::{Indices, Place};
use crate::generated::pmpi;
use crate::meaning::completion::{self, Scratch, freed, given, settle};
use crate::process::REQUESTS;
use crate::record::{Call, Recorder};
use crate::request::Given;
use mpisee_profile::Operation;
use mpisee_profile::segment::now::UNKNOWN;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// `MPI_Wait` (MPI 4.1, 3.7.3).
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function here.
#[inline]
pub unsafe fn wait(
    request: Place<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { one(Operation::Wait, request, status, |status| (make(status), true)) }
}

/// `MPI_Test`.
///
/// # Safety
/// See [`wait`].
#[inline]
pub unsafe fn test(
    request: Place<Request>,
    flag: *const c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |status| {
        let code = make(status);
        // SAFETY: a call that succeeds writes the flag.
        (code, code != constant::SUCCESS || unsafe { *flag } != 0)
    };
    // SAFETY: the caller's promise.
    unsafe { one(Operation::Test, request, status, make) }
}

/// A call on one request; `make` tells whether it completed.
#[inline]
unsafe fn one(
    operation: Operation,
    request: Place<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    let Some(call) = Call::completing().filter(|_| !request.is_null()) else { return make(status).0 };
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { given(call.request_null(), request) };
    let kept = REQUESTS.keep(&given);
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && given.needs_status() { own.as_mut_ptr() } else { status };
    let ((code, completed), ticks) = call.time(operation, REQUESTS.communicator_of(&given), || make(status));
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = scratch.completion(recorder, operation);
        if completed {
            let filled = code == constant::SUCCESS && given.needs_status();
            completion.completed(&given, kept.as_ref(), filled.then_some(status.cast_const()));
        } else {
            completion.asked(std::slice::from_ref(&given));
        }
        completion.charge(ticks);
    });
    code
}

/// What a call on an array of requests completed: by index, or all of it.
enum Outcome {
    All,
    Nothing,
    /// The request of this index; its status is the only one.
    One(usize),
    /// These; the statuses are in the same order.
    Some(Indices, usize),
}

/// A call on an array of requests: looks at them, makes the call with statuses that can be read, records.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it with the statuses that it is given.
unsafe fn many(
    operation: Operation,
    count: c_int,
    requests: Place<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    let Some(call) = Call::completing() else { return make(statuses).0 };
    let mut scratch = call.scratch();
    let mut needs_status = false;
    call.record(|recorder| {
        let count = usize::try_from(count).unwrap_or(0);
        let null = recorder.process.predefined.request_null;
        scratch.reset(count);
        // SAFETY: the array has `count` requests.
        scratch.given.extend((0..count).map(|index| unsafe { given(null, requests.at(index)) }));
        needs_status = scratch.given.iter().any(Given::needs_status);
        if REQUESTS.is_shared() {
            let Scratch { given, kept, .. } = &mut *scratch;
            kept.extend(given.iter().map(|given| REQUESTS.keep(given)));
        }
    });
    let ignored = statuses == STATUS_IGNORE;
    let statuses = if ignored && needs_status { scratch.statuses.as_mut_ptr().cast() } else { statuses };
    let ((code, outcome), ticks) = call.time(operation, first_of(&scratch.given), || make(statuses));
    call.record(|recorder| {
        // SAFETY: the call has ended; it filled what `outcome` says.
        unsafe { record(recorder, &mut scratch, operation, code, requests, statuses, outcome) }.charge(ticks);
    });
    code
}

/// The communicator of the first active request.
fn first_of(given: &[Given]) -> u32 {
    let active = given.iter().find(|given| !matches!(given, Given::Nothing));
    active.map_or(UNKNOWN, |given| REQUESTS.communicator_of(given))
}

/// Whether an error says that a request is neither complete nor failed. MPICH from 5.0 on has codes of its own in
/// that class.
fn is_pending(error: c_int) -> bool {
    let mut class = error;
    if error != constant::SUCCESS && error != constant::ERR_PENDING {
        // SAFETY: the class is written.
        unsafe { pmpi::MPI_Error_class.get()(error, &raw mut class) };
    }
    class == constant::ERR_PENDING
}

unsafe fn record<'s>(
    recorder: &'s Recorder,
    scratch: &'s mut Scratch,
    operation: Operation,
    code: c_int,
    requests: Place<Request>,
    statuses: *const Status,
    outcome: Outcome,
) -> completion::Completion<'s> {
    let (mut completion, given, kept) = scratch.completion(recorder, operation);
    let tells = code == constant::ERR_IN_STATUS && !statuses.is_null() && statuses != STATUS_IGNORE;
    // SAFETY: the call filled the status at `at`, since it said that the statuses tell what succeeded.
    let error = |at: usize| unsafe { statuses.add(at).read_unaligned() }.MPI_ERROR;
    let useful = |given: &Given, at: usize| {
        let succeeded = || code == constant::SUCCESS || tells && error(at) == constant::SUCCESS;
        (given.needs_status() && succeeded()).then(|| statuses.wrapping_add(at))
    };
    let kept = |index: usize| kept.get(index).and_then(Option::as_ref);
    // SAFETY: the array has as many requests as were looked at; of those that completed only null is left.
    let handle = |at: usize| unsafe { requests.at(at).handle() };
    match outcome {
        Outcome::All => {
            for (index, given) in given.iter().enumerate() {
                let open = match code {
                    constant::SUCCESS => false,
                    // The handle of a persistent request tells nothing. Of others it tells more than the status:
                    // MPICH from 5.0 on may leave requests of a failed MPI_Testall that are complete.
                    _ if tells && given.is_persistent() => is_pending(error(index)),
                    _ => handle(index) != recorder.process.predefined.request_null,
                };
                if !open {
                    completion.completed(given, kept(index), useful(given, index));
                }
            }
        }
        Outcome::One(index) => {
            if let Some(given) = given.get(index) {
                completion.completed(given, kept(index), useful(given, 0));
            }
        }
        Outcome::Some(indices, count) => {
            for at in 0..count {
                // SAFETY: the call stored `count` indices.
                let index = unsafe { indices.index(at) };
                if let Some((index, given)) = index.and_then(|index| Some((index, given.get(index)?))) {
                    completion.completed(given, kept(index), useful(given, at));
                }
            }
        }
        Outcome::Nothing => completion.asked(given),
    }
    completion
}

/// `MPI_Waitall` (MPI 4.1, 3.7.5).
///
/// # Safety
/// See [`wait`].
pub unsafe fn waitall(
    count: c_int,
    requests: Place<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |statuses| (make(statuses), Outcome::All);
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Waitall, count, requests, statuses, make) }
}

/// `MPI_Testall`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn testall(
    count: c_int,
    requests: Place<Request>,
    flag: *const c_int,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |statuses| {
        let code = make(statuses);
        // SAFETY: a call that succeeds writes the flag.
        let all = code != constant::SUCCESS || unsafe { *flag } != 0;
        (code, if all { Outcome::All } else { Outcome::Nothing })
    };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Testall, count, requests, statuses, make) }
}

/// `MPI_Waitany`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn waitany(
    count: c_int,
    requests: Place<Request>,
    index: Indices,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    // SAFETY: the call writes the index.
    let make = |status| (make(status), unsafe { outcome_at(index) });
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Waitany, count, requests, status, make) }
}

/// `MPI_Testany`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn testany(
    count: c_int,
    requests: Place<Request>,
    index: Indices,
    flag: *const c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |status| {
        let code = make(status);
        // SAFETY: the call writes flag and index.
        unsafe {
            let completed = code != constant::SUCCESS || *flag != 0;
            (code, if completed { outcome_at(index) } else { Outcome::Nothing })
        }
    };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Testany, count, requests, status, make) }
}

/// # Safety
/// The call has written the index.
unsafe fn outcome_at(index: Indices) -> Outcome {
    // SAFETY: the caller's promise. There is none where no request was active.
    unsafe { index.index(0) }.map_or(Outcome::Nothing, Outcome::One)
}

/// `MPI_Waitsome` or `MPI_Testsome`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn some(
    operation: Operation,
    incount: c_int,
    requests: Place<Request>,
    outcount: *const c_int,
    indices: Indices,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |statuses| {
        let code = make(statuses);
        // SAFETY: the call writes the count and as many indices.
        let count = unsafe { *outcount };
        let outcome = if count > 0 { Outcome::Some(indices, count as usize) } else { Outcome::Nothing };
        (code, outcome)
    };
    // SAFETY: the caller's promise.
    unsafe { many(operation, incount, requests, statuses, make) }
}

/// `MPI_Request_get_status`: a test that leaves the request as it is, so that its completion is yet to come.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_get_status(request: Raw<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    // Where the application keeps it is unknown, since it was passed by value.
    let given = REQUESTS.given(request.get(), Place::c(std::ptr::null()), call.request_null());
    let (operation, communicator) = (Operation::RequestGetStatus, REQUESTS.communicator_of(&given));
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = scratch.completion(recorder, operation);
        completion.asked(std::slice::from_ref(&given));
        completion.charge(ticks);
    });
    code
}

/// A test of an array of requests that leaves all of them as they are (MPI 4.1, 3.7.6).
///
/// # Safety
/// See [`wait`].
pub unsafe fn look_at_many(
    operation: Operation,
    count: c_int,
    requests: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    // SAFETY: the array has `count` requests.
    let first = (count > 0).then(|| unsafe { given(call.request_null(), requests) });
    let (code, ticks) = call.time(operation, first_of(first.as_slice()), make);
    call.record(|recorder| {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the array has `count` requests, which the call left as they were.
        let given = (0..count).map(|at| unsafe { given(call.request_null(), requests.at(at)) });
        let mut scratch = recorder.thread.scratch();
        scratch.reset(0);
        scratch.given.extend(given);
        let (mut completion, given, _) = scratch.completion(recorder, operation);
        completion.asked(given);
        completion.charge(ticks);
    });
    code
}

/// `MPI_Request_free`: an active operation goes on, and nobody learns of its end.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_free(request: Place<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::tracked().filter(|_| !request.is_null()) else { return make() };
    // SAFETY: the request is valid, the caller says.
    let (handle, given) = unsafe { (request.handle(), given(call.request_null(), request)) };
    let cancelled = REQUESTS.cancelled(&given);
    let ended = cancelled.and_then(|started| Some((started, status_of(handle)?)));
    let communicator = REQUESTS.communicator_of(&given);
    let (code, ticks) = call.time(Operation::RequestFree, communicator, make);
    call.record(|recorder| {
        if code == constant::SUCCESS {
            if let Some((started, status)) = ended.as_ref().filter(|(started, _)| started.recorded) {
                settle(recorder, started, Some(status));
            }
            let owner = REQUESTS.forget(handle, request);
            freed(recorder, Operation::RequestFree, owner, ended.is_some(), ticks);
        }
    });
    code
}

/// The status of an open request if its operation has ended. Of one that was cancelled the program may have learnt so
/// by `MPI_Request_get_status`, and then frees it.
fn status_of(request: Request) -> Option<Status> {
    let (mut ended, mut status) = (0, MaybeUninit::uninit());
    // SAFETY: the request is open; the call writes the flag, and the status if the operation has ended.
    unsafe {
        let code = pmpi::MPI_Request_get_status.get()(Raw::new(request), &raw mut ended, status.as_mut_ptr());
        (code == constant::SUCCESS && ended != 0).then(|| status.assume_init())
    }
}

/// `MPI_Cancel` (MPI 4.1, 3.8.4): whether it was in time is known when the request completes.
///
/// # Safety
/// See [`wait`].
pub unsafe fn cancel(request: Place<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::tracked().filter(|_| !request.is_null()) else { return make() };
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { given(call.request_null(), request) };
    let (code, ticks) = call.time(Operation::Cancel, REQUESTS.communicator_of(&given), make);
    call.record(|recorder| {
        let Some(owner) = REQUESTS.owner(&given).filter(|owner| owner.recorded) else {
            return completion::count_unknown(&given);
        };
        // What was complete when it began, and so shares its handle, cannot be cancelled any more.
        if let Given::Known(known) = &given
            && code == constant::SUCCESS
        {
            REQUESTS.cancel(known);
        }
        recorder.count_time(owner.communicator, Operation::Cancel, ticks);
    });
    code
}
