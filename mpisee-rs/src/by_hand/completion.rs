//! The wait and test family, `MPI_Request_free` and `MPI_Cancel`.
//!
//! Requests are looked at before the call, since a completed one is `MPI_REQUEST_NULL` after it, and taken
//! out of the table after it, once it is known which completed.

use crate::abi::{Raw, Request, STATUS_IGNORE, Status, constant};
use crate::generated::pmpi;
use crate::meaning::completion::{self, Scratch, freed, given};
use crate::process::REQUESTS;
use crate::record::{Call, Recorder};
use crate::request::{Given, Started};
use mpisee_profile::Operation;
use std::ffi::c_int;
use std::mem::MaybeUninit;

type OneFn = unsafe extern "C-unwind" fn(*mut Request, *mut Status) -> c_int;
type TestFn = unsafe extern "C-unwind" fn(*mut Request, *mut c_int, *mut Status) -> c_int;

/// `MPI_Wait` (MPI 4.1, 3.7.3).
///
/// # Safety
/// The arguments are those of the application's call; so for every function here.
#[inline]
pub unsafe fn wait(twin: OneFn, request: *mut Request, status: *mut Status) -> c_int {
    // SAFETY: the caller's promise, as for every call of a twin below.
    unsafe { one(Operation::Wait, request, status, |status| (twin(request, status), true)) }
}

/// `MPI_Test`.
///
/// # Safety
/// See [`wait`].
#[inline]
pub unsafe fn test(twin: TestFn, request: *mut Request, flag: *mut c_int, status: *mut Status) -> c_int {
    let make = |status| {
        // SAFETY: the caller's promise; a call that succeeds writes the flag.
        unsafe {
            let code = twin(request, flag, status);
            (code, code != constant::SUCCESS || *flag != 0)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { one(Operation::Test, request, status, make) }
}

/// A call on one request; `make` tells whether it completed.
#[inline]
unsafe fn one(
    operation: Operation,
    request: *mut Request,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    let Some(call) = Call::completing().filter(|_| !request.is_null()) else { return make(status).0 };
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { given(call.request_null(), request) };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && given.needs_status() { own.as_mut_ptr() } else { status };
    let ((code, completed), ticks) = call.time(|| make(status));
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch.borrow_mut();
        let (mut completion, _) = scratch.completion(recorder, operation);
        if completed {
            let filled = code == constant::SUCCESS && given.needs_status();
            // SAFETY: the operation completed and succeeded, and with it the call filled the status.
            completion.completed(&given, filled.then(|| unsafe { &*status }));
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
    Some(*const c_int, usize),
}

/// A call on an array of requests: looks at them, makes the call with statuses that can be read, records.
unsafe fn many(
    operation: Operation,
    count: c_int,
    requests: *mut Request,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    let Some(call) = Call::completing() else { return make(statuses).0 };
    let Some(mut scratch) = call.scratch() else { return make(statuses).0 };
    let mut needs_status = false;
    call.record(|recorder| {
        let count = usize::try_from(count).unwrap_or(0);
        scratch.reset(count);
        for index in 0..count {
            // SAFETY: the array has `count` requests.
            let given = unsafe { given(recorder.process.predefined.request_null, requests.add(index)) };
            needs_status |= given.needs_status();
            scratch.given.push(given);
        }
    });
    let ignored = statuses == STATUS_IGNORE;
    let statuses = if ignored && needs_status { scratch.statuses.as_mut_ptr().cast() } else { statuses };
    let ((code, outcome), ticks) = call.time(|| make(statuses));
    call.record(|recorder| {
        // SAFETY: the call has ended; it filled what `outcome` says.
        unsafe { record(recorder, &mut scratch, operation, code, requests, statuses, outcome) }.charge(ticks);
    });
    code
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

fn is_persistent(given: &Given) -> bool {
    given.started().is_some_and(|started| started.persistent)
}

unsafe fn record<'s>(
    recorder: &'s Recorder,
    scratch: &'s mut Scratch,
    operation: Operation,
    code: c_int,
    requests: *const Request,
    statuses: *const Status,
    outcome: Outcome,
) -> completion::Completion<'s> {
    let (mut completion, given) = scratch.completion(recorder, operation);
    // SAFETY: the call filled the status at `at`, if it is read at all: it succeeded, or said that the
    // statuses tell what did.
    let status = |at: usize| unsafe { &*statuses.add(at) };
    let tells = code == constant::ERR_IN_STATUS && !statuses.is_null() && statuses != STATUS_IGNORE;
    let useful = |given: &Given, at: usize| {
        let succeeded = code == constant::SUCCESS || tells && status(at).MPI_ERROR == constant::SUCCESS;
        (succeeded && given.needs_status()).then(|| status(at))
    };
    // SAFETY: the array has as many requests as were looked at; of those that completed only null is left.
    let handle = |at: usize| unsafe { *requests.add(at) };
    match outcome {
        Outcome::All => {
            for (index, given) in given.iter().enumerate() {
                let open = match code {
                    constant::SUCCESS => false,
                    // The handle of a persistent request tells nothing. Of others it tells more than the status:
                    // MPICH from 5.0 on may leave requests of a failed MPI_Testall that are complete.
                    _ if tells && is_persistent(given) => is_pending(status(index).MPI_ERROR),
                    _ => handle(index) != recorder.process.predefined.request_null,
                };
                if !open {
                    completion.completed(given, useful(given, index));
                }
            }
        }
        Outcome::One(index) => {
            if let Some(given) = given.get(index) {
                completion.completed(given, useful(given, 0));
            }
        }
        Outcome::Some(indices, count) => {
            for at in 0..count {
                // SAFETY: the call stored `count` indices.
                let index = unsafe { *indices.add(at) };
                if let Some(given) = given.get(index as usize) {
                    completion.completed(given, useful(given, at));
                }
            }
        }
        Outcome::Nothing => completion.asked(given),
    }
    completion
}

type AllFn = unsafe extern "C-unwind" fn(c_int, *mut Request, *mut Status) -> c_int;
type TestallFn = unsafe extern "C-unwind" fn(c_int, *mut Request, *mut c_int, *mut Status) -> c_int;
type AnyFn = unsafe extern "C-unwind" fn(c_int, *mut Request, *mut c_int, *mut Status) -> c_int;
type TestanyFn =
    unsafe extern "C-unwind" fn(c_int, *mut Request, *mut c_int, *mut c_int, *mut Status) -> c_int;
type SomeFn = unsafe extern "C-unwind" fn(c_int, *mut Request, *mut c_int, *mut c_int, *mut Status) -> c_int;

/// `MPI_Waitall` (MPI 4.1, 3.7.5).
///
/// # Safety
/// See [`wait`].
pub unsafe fn waitall(twin: AllFn, count: c_int, requests: *mut Request, statuses: *mut Status) -> c_int {
    // SAFETY: the caller's promise.
    let make = |statuses| unsafe { (twin(count, requests, statuses), Outcome::All) };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Waitall, count, requests, statuses, make) }
}

/// `MPI_Testall`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn testall(
    twin: TestallFn,
    count: c_int,
    requests: *mut Request,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    let make = |statuses| {
        // SAFETY: the caller's promise; a call that succeeds writes the flag.
        unsafe {
            let code = twin(count, requests, flag, statuses);
            let all = code != constant::SUCCESS || *flag != 0;
            (code, if all { Outcome::All } else { Outcome::Nothing })
        }
    };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Testall, count, requests, statuses, make) }
}

/// `MPI_Waitany`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn waitany(
    twin: AnyFn,
    count: c_int,
    requests: *mut Request,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    let make = |status| {
        // SAFETY: the caller's promise; the call writes the index.
        unsafe {
            let code = twin(count, requests, index, status);
            (code, outcome_at(index))
        }
    };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Waitany, count, requests, status, make) }
}

/// `MPI_Testany`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn testany(
    twin: TestanyFn,
    count: c_int,
    requests: *mut Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let make = |status| {
        // SAFETY: the caller's promise; the call writes flag and index.
        unsafe {
            let code = twin(count, requests, index, flag, status);
            let completed = code != constant::SUCCESS || *flag != 0;
            (code, if completed { outcome_at(index) } else { Outcome::Nothing })
        }
    };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Testany, count, requests, status, make) }
}

/// # Safety
/// The call has written the index.
unsafe fn outcome_at(index: *const c_int) -> Outcome {
    // SAFETY: the caller's promise.
    match usize::try_from(unsafe { *index }) {
        Ok(index) => Outcome::One(index),
        // `MPI_UNDEFINED`: no request was active.
        Err(_) => Outcome::Nothing,
    }
}

/// `MPI_Waitsome`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn waitsome(
    twin: SomeFn,
    incount: c_int,
    requests: *mut Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { some(Operation::Waitsome, twin, incount, requests, outcount, indices, statuses) }
}

/// `MPI_Testsome`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn testsome(
    twin: SomeFn,
    incount: c_int,
    requests: *mut Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { some(Operation::Testsome, twin, incount, requests, outcount, indices, statuses) }
}

unsafe fn some(
    operation: Operation,
    twin: SomeFn,
    incount: c_int,
    requests: *mut Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    let make = |statuses| {
        // SAFETY: the caller's promise; the call writes the count and as many indices.
        unsafe {
            let code = twin(incount, requests, outcount, indices, statuses);
            let count = *outcount;
            let outcome = if count > 0 { Outcome::Some(indices, count as usize) } else { Outcome::Nothing };
            (code, outcome)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { many(operation, incount, requests, statuses, make) }
}

/// `MPI_Request_get_status`: a test that leaves the request as it is, so that its completion is yet to come.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_get_status(
    twin: unsafe extern "C-unwind" fn(Raw<Request>, *mut c_int, *mut Status) -> c_int,
    request: Raw<Request>,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the caller's promise.
    let make = || unsafe { twin(request, flag, status) };
    let Some(call) = Call::counted() else { return make() };
    // Where the application keeps it is unknown, since it was passed by value.
    let given = REQUESTS.given(request.get(), std::ptr::null(), call.request_null());
    let (code, ticks) = call.time(make);
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch.borrow_mut();
        let (mut completion, _) = scratch.completion(recorder, Operation::RequestGetStatus);
        completion.asked(std::slice::from_ref(&given));
        completion.charge(ticks);
    });
    code
}

/// `MPI_Request_free`: an active operation goes on, and nobody learns of its end.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_free(
    twin: unsafe extern "C-unwind" fn(*mut Request) -> c_int,
    request: *mut Request,
) -> c_int {
    let Some(call) = Call::tracked().filter(|_| !request.is_null()) else {
        // SAFETY: the caller's promise.
        return unsafe { twin(request) };
    };
    // SAFETY: the request is valid, the caller says.
    let handle = unsafe { *request };
    // SAFETY: the caller's promise.
    let (code, ticks) = call.time(|| unsafe { twin(request) });
    call.record(|recorder| {
        if code == constant::SUCCESS {
            freed(recorder, Operation::RequestFree, REQUESTS.forget(handle, request), ticks);
        }
    });
    code
}

/// `MPI_Cancel` (MPI 4.1, 3.8.4): whether it was in time is known when the request completes.
///
/// # Safety
/// See [`wait`].
pub unsafe fn cancel(
    twin: unsafe extern "C-unwind" fn(*mut Request) -> c_int,
    request: *mut Request,
) -> c_int {
    let Some(call) = Call::tracked().filter(|_| !request.is_null()) else {
        // SAFETY: the caller's promise.
        return unsafe { twin(request) };
    };
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { given(call.request_null(), request) };
    // SAFETY: the caller's promise.
    let (code, ticks) = call.time(|| unsafe { twin(request) });
    call.record(|recorder| {
        let Some(started) = REQUESTS.look(&given).filter(|started| started.recorded) else {
            return completion::count_unknown(&given);
        };
        // What was complete when it began, and so shares its handle, cannot be cancelled any more.
        if let Given::Known(key, found) = &given {
            let cancelled = code == constant::SUCCESS;
            REQUESTS.change(*key, found, Started { cancelled, ..started });
        }
        completion::count_on(recorder, Operation::Cancel, started.counted.communicator, ticks);
    });
    code
}
