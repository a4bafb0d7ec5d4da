//! The wait and test family, `MPI_Request_free` and `MPI_Cancel`.
//!
//! Requests are looked up before the call, since MPI sets completed ones to `MPI_REQUEST_NULL`, and removed from the
//! table after it, once it is known which completed.

mod few;
pub mod settling;

use crate::generated::pmpi;
use crate::mpi::abi::{Raw, Request, STATUS_IGNORE, Status, constant};
use crate::mpi::argument::{HandlePtr, Indices};
use crate::naming;
use crate::recording::{Call, Recorder};
use crate::state::request::REQUESTS;
use crate::state::request::{Removed, RequestRef, RequestState};
use crate::state::scratch::Scratch;
use crate::state::world;
use few::Few;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{CommId, Operation, Ticks};
use settling::{Completion, freed, given, settle};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Whether `MPI_Request_get_status` raises no error for a failed request. In MPICH it does, and the error handler might
/// end a program that would go on without the profiler; there only requests that the program itself has queried are
/// safe.
const LOOKS_IN_SILENCE: bool = cfg!(mpi_family = "openmpi");

/// `MPI_Wait` (MPI 4.1, 3.7.3).
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function here.
#[inline]
pub unsafe fn wait(
    request: HandlePtr<Request>,
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
    // SAFETY: the caller's promise.
    unsafe { one(Operation::Test, request, status, make) }
}

/// A call on one request; `make` returns the code, and whether the request completed.
#[inline]
unsafe fn one(
    operation: Operation,
    request: HandlePtr<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    let Some(call) = Call::if_completing().filter(|_| !request.is_null()) else { return make(status).0 };
    // SAFETY: the request is valid, the caller says.
    let Some((given, communicator)) = (unsafe { REQUESTS.usual(request) }) else {
        // SAFETY: as above.
        return unsafe { one_unusual(&call, operation, request, status, make) };
    };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && given.needs_status() { own.as_mut_ptr() } else { status };
    let ((code, completed), ticks) = call.time(operation, communicator, || make(status));
    if code != constant::SUCCESS {
        // SAFETY: the call has failed, and the place is not null.
        unsafe { one_failed(&call, operation, &given, request, status, code, ticks) };
        return code;
    }
    if completed {
        // SAFETY: the call has succeeded.
        unsafe { few::complete(call.thread(), &given, status) };
    }
    few::charge(call.thread(), operation, communicator, ticks);
    code
}

/// Records a call on a usual request that failed.
///
/// # Safety
/// The call failed with `code`; there is a request at `place`.
#[cold]
#[inline(never)]
unsafe fn one_failed(
    call: &Call,
    operation: Operation,
    given: &RequestRef,
    place: HandlePtr<Request>,
    status: *const Status,
    code: c_int,
    ticks: Ticks,
) {
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = Completion::begin(&mut scratch, recorder, operation);
        // SAFETY: the caller's promise.
        if unsafe { ended_with(code, given, place) } {
            completion.failed(given, None, code, given.needs_status().then_some(status));
        } else {
            completion.asked(std::slice::from_ref(given));
        }
        completion.charge(ticks);
    });
}

/// As [`one`], for a request that is not as usual.
#[inline(never)]
unsafe fn one_unusual(
    call: &Call,
    operation: Operation,
    request: HandlePtr<Request>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { given(call.request_null(), request) };
    let kept = REQUESTS.keep(&given);
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE && given.needs_status() { own.as_mut_ptr() } else { status };
    let ((code, completed), ticks) = call.time(operation, REQUESTS.communicator_of(&given), || make(status));
    call.record(|recorder| {
        if code == constant::SUCCESS
            && !completed
            && settling::asked_in_vain(recorder, operation, &given, ticks)
        {
            return;
        }
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = Completion::begin(&mut scratch, recorder, operation);
        let filled = given.needs_status().then_some(status.cast_const());
        if code == constant::SUCCESS && completed {
            completion.completed(&given, kept.as_ref(), filled);
        // SAFETY: the place is not null.
        } else if code != constant::SUCCESS && unsafe { ended_with(code, &given, request) } {
            completion.failed(&given, kept.as_ref(), code, filled);
        } else {
            completion.asked(std::slice::from_ref(&given));
        }
        completion.charge(ticks);
    });
    code
}

/// Whether a call that failed with `code` still completed the request at `place`. MPI then sets the handle to null,
/// except for a persistent request, which has failed unless MPI rejected the call.
///
/// # Safety
/// There is a request at `place`.
#[cold]
unsafe fn ended_with(code: c_int, given: &RequestRef, place: HandlePtr<Request>) -> bool {
    if given.is_persistent() {
        return !is_refusal(code);
    }
    // SAFETY: the caller's promise.
    REQUESTS.is_null(unsafe { place.handle() })
}

/// The requests of an array that a call completed.
enum Outcome {
    /// All requests; if the call failed, those that it set to null.
    All,
    Nothing,
    /// The request of this index; its status is the only one.
    One(usize),
    /// The requests at these indices; the statuses are in the same order.
    Some(Indices, usize),
}

/// A call on an array of requests: looks them up, makes the call with readable statuses, records the completions.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it with the statuses that it is given.
unsafe fn many(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    let Some(call) = Call::if_completing() else { return make(statuses).0 };
    let mut few = Few::new();
    // SAFETY: the caller's promise.
    if !unsafe { few.look_up(call.request_null(), length(count, requests), requests) } {
        // SAFETY: the caller's promise.
        return unsafe { many_unusual(&call, operation, count, requests, statuses, make) };
    }
    let statuses = few.statuses(statuses);
    let ((code, outcome), ticks) = call.time(operation, few.communicator, || make(statuses));
    match outcome {
        // SAFETY: the call has succeeded.
        Outcome::All if code == constant::SUCCESS => unsafe {
            few.completed(call.thread(), operation, statuses, ticks);
        },
        // SAFETY: as above.
        Outcome::One(index) => unsafe {
            few.completed_one(call.thread(), operation, index, statuses, ticks);
        },
        Outcome::Nothing => few.charge(call.thread(), operation, ticks),
        outcome => {
            let answer = Answer { code, requests, statuses };
            // SAFETY: the call has ended; it filled what `outcome` says.
            unsafe { record_unusual(&call, operation, &few, answer, outcome, ticks) };
        }
    }
    code
}

/// Records a call on usual requests that did not complete all of them, or one, or none.
///
/// # Safety
/// The call has ended with `answer`, and left what `outcome` says.
#[inline(never)]
unsafe fn record_unusual(
    call: &Call,
    operation: Operation,
    few: &Few,
    answer: Answer,
    outcome: Outcome,
    ticks: Ticks,
) {
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        if few.pass_on(&mut scratch) {
            // SAFETY: the caller's promise.
            unsafe { record(recorder, &mut scratch, operation, answer, outcome) }.charge(ticks);
        } else {
            world::not_seen(NotSeen::NoRoom);
        }
    });
}

/// As [`many`], for requests that are not as usual.
#[inline(never)]
unsafe fn many_unusual(
    call: &Call,
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    let mut scratch = call.scratch();
    let mut looked_up = Some(false);
    // SAFETY: the caller's promise.
    call.record(|recorder| looked_up = unsafe { look_up(recorder, &mut scratch, count, requests) });
    let Some(needs_status) = looked_up else {
        return call.unseen(operation, || make(statuses).0);
    };
    let ignored = statuses == STATUS_IGNORE;
    let statuses = if ignored && needs_status { scratch.statuses.as_mut_ptr().cast() } else { statuses };
    let ((code, outcome), ticks) = call.time(operation, first_of(&scratch.given), || make(statuses));
    call.record(|recorder| {
        let answer = Answer { code, requests, statuses };
        // SAFETY: the call has ended; it filled what `outcome` says.
        unsafe { record(recorder, &mut scratch, operation, answer, outcome) }.charge(ticks);
    });
    code
}

/// Looks up the requests of an array; returns whether a status is needed. `None` if there is no room for so many.
///
/// PERF: like [`record`], one copy for all calls on arrays.
///
/// # Safety
/// The array has `count` requests.
#[inline(never)]
unsafe fn look_up(
    recorder: &Recorder,
    scratch: &mut Scratch,
    count: c_int,
    requests: HandlePtr<Request>,
) -> Option<bool> {
    let count = length(count, requests);
    if !scratch.reset(count) {
        world::not_seen(NotSeen::NoRoom);
        return None;
    }
    let null = recorder.world.predefined.request_null;
    // SAFETY: the caller's promise.
    scratch.given.extend((0..count).map(|index| unsafe { given(null, requests.at(index)) }));
    if REQUESTS.is_shared() {
        let Scratch { given, kept, .. } = scratch;
        kept.extend(given.iter().map(|given| REQUESTS.keep(given)));
    }
    Some(scratch.given.iter().any(RequestRef::needs_status))
}

/// The length of the array; 0 for arguments that MPI will reject.
fn length(count: c_int, requests: HandlePtr<Request>) -> usize {
    if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) }
}

/// The communicator of the first active request.
fn first_of(given: &[RequestRef]) -> CommId {
    let active = given.iter().find(|given| !matches!(given, RequestRef::Nothing));
    active.map_or(CommId::NONE, |given| REQUESTS.communicator_of(given))
}

/// Whether an error says that a request is neither complete nor failed. MPICH from 5.0 on has codes of its own in
/// that class.
fn is_pending(error: c_int) -> bool {
    settling::class_of(error) == constant::ERR_PENDING
}

/// Whether an error says that MPI refused the arguments of a call and has completed nothing.
fn is_refusal(error: c_int) -> bool {
    matches!(settling::class_of(error), constant::ERR_REQUEST | constant::ERR_ARG)
}

/// The results of a call on an array of requests.
#[derive(Clone, Copy)]
struct Answer {
    code: c_int,
    requests: HandlePtr<Request>,
    statuses: *const Status,
}

impl Answer {
    /// Whether each status has the error code of its operation.
    fn tells(&self) -> bool {
        let has_statuses = !self.statuses.is_null() && self.statuses != STATUS_IGNORE.cast_const();
        self.code == constant::ERR_IN_STATUS && has_statuses
    }

    /// The error code of the operation whose status is at `at`; success if the call returned `MPI_ERR_IN_STATUS`
    /// without statuses, since it is unknown then which operation failed.
    ///
    /// # Safety
    /// The call filled the status if it returned that errors are in the statuses.
    unsafe fn error(&self, at: usize) -> c_int {
        match self.code {
            // SAFETY: the caller's promise. A status of Fortran is aligned as an integer is.
            constant::ERR_IN_STATUS if self.tells() => unsafe {
                self.statuses.add(at).read_unaligned().MPI_ERROR
            },
            constant::ERR_IN_STATUS => constant::SUCCESS,
            code => code,
        }
    }

    /// The status at `at`, if it is filled and needed. A call that returns another error than `MPI_ERR_IN_STATUS`
    /// completes one request, whose status is the only one.
    fn status(&self, given: &RequestRef, at: usize) -> Option<*const Status> {
        let at = if self.code == constant::SUCCESS || self.tells() { at } else { 0 };
        let is_filled = self.code != constant::ERR_IN_STATUS || self.tells();
        (is_filled && given.needs_status()).then(|| self.statuses.wrapping_add(at))
    }

    /// Whether a request is open after a call that failed.
    ///
    /// # Safety
    /// The array has a request at `index`; as for [`Answer::error`].
    unsafe fn is_open(&self, given: &RequestRef, index: usize) -> bool {
        // The handle of a persistent request stays. For others it is more reliable than the status: MPICH from 5.0 on
        // may leave completed requests of a failed MPI_Testall open.
        // SAFETY: the caller's promise.
        unsafe {
            if self.tells() && given.is_persistent() {
                is_pending(self.error(index))
            } else {
                !REQUESTS.is_null(self.requests.at(index).handle())
            }
        }
    }
}

/// The request that failed in a call which completes one and has set none to null: a persistent one. If there are
/// several, nothing shows which it was.
#[cold]
fn one_persistent(given: &[RequestRef], error: c_int) -> Option<usize> {
    let persistent = || given.iter().enumerate().filter(|(_, given)| given.is_persistent());
    if persistent().count() == 1 {
        return persistent().next().map(|(index, _)| index);
    }
    for (_, given) in persistent() {
        if let RequestRef::Known(known) = given {
            REQUESTS.doubt(known);
        }
    }
    if settling::is_truncation(error) {
        world::not_seen(NotSeen::TruncatedReceive);
    }
    None
}

/// # Safety
/// The call has ended with `answer`, and left what `outcome` says.
#[inline(never)]
unsafe fn record<'s>(
    recorder: &'s Recorder,
    scratch: &'s mut Scratch,
    operation: Operation,
    answer: Answer,
    outcome: Outcome,
) -> Completion<'s> {
    let (mut completion, given, kept) = Completion::begin(scratch, recorder, operation);
    let mut any = true;
    let mut ended = |index: usize, given: &RequestRef, at: usize| {
        let (kept, status) = (kept.get(index).and_then(Option::as_ref), answer.status(given, at));
        // SAFETY: the caller's promise.
        match unsafe { answer.error(at) } {
            constant::SUCCESS => completion.completed(given, kept, status),
            error => completion.failed(given, kept, error, status),
        }
    };
    match outcome {
        Outcome::All if answer.code == constant::SUCCESS => {
            given.iter().enumerate().for_each(|(index, given)| ended(index, given, index));
        }
        Outcome::All => {
            any = false;
            for (index, given) in given.iter().enumerate() {
                let is_active = !matches!(given, RequestRef::Nothing);
                // SAFETY: the array has as many requests as were looked at.
                if is_active && !unsafe { answer.is_open(given, index) } {
                    ended(index, given, index);
                    any = true;
                }
            }
            let completes_one = matches!(operation, Operation::Waitany | Operation::Testany);
            if !any && completes_one && !is_refusal(answer.code) {
                let failed = one_persistent(given, answer.code);
                if let Some((index, given)) = failed.and_then(|index| Some((index, given.get(index)?))) {
                    ended(index, given, 0);
                    any = true;
                }
            }
        }
        Outcome::One(index) => {
            if let Some(given) = given.get(index) {
                ended(index, given, 0);
            }
        }
        Outcome::Some(indices, count) => {
            for at in 0..count.min(given.len()) {
                // SAFETY: the call stored `count` indices.
                let index = unsafe { indices.index(at) };
                if let Some((index, given)) = index.and_then(|index| Some((index, given.get(index)?))) {
                    ended(index, given, at);
                }
            }
        }
        Outcome::Nothing => any = false,
    }
    if !any {
        completion.asked(given);
    }
    completion
}

/// `MPI_Waitall` (MPI 4.1, 3.7.5).
///
/// # Safety
/// See [`wait`].
pub unsafe fn waitall(
    count: c_int,
    requests: HandlePtr<Request>,
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
    requests: HandlePtr<Request>,
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
    requests: HandlePtr<Request>,
    index: Indices,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |status| {
        let code = make(status);
        // SAFETY: a call that succeeds writes the index.
        (code, if code == constant::SUCCESS { unsafe { outcome_at(index) } } else { Outcome::All })
    };
    // SAFETY: the caller's promise.
    unsafe { many(Operation::Waitany, count, requests, status, make) }
}

/// `MPI_Testany`.
///
/// # Safety
/// See [`wait`].
pub unsafe fn testany(
    count: c_int,
    requests: HandlePtr<Request>,
    index: Indices,
    flag: *const c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |status| {
        let code = make(status);
        if code != constant::SUCCESS {
            return (code, Outcome::All);
        }
        // SAFETY: a call that succeeds writes flag and index.
        (code, unsafe { if *flag != 0 { outcome_at(index) } else { Outcome::Nothing } })
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
    requests: HandlePtr<Request>,
    outcount: *const c_int,
    indices: Indices,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |statuses| {
        let code = make(statuses);
        if code != constant::SUCCESS && code != constant::ERR_IN_STATUS {
            return (code, Outcome::All);
        }
        // SAFETY: a call that succeeds, or returns that errors are in the statuses, writes the count and as many indices.
        let count = unsafe { *outcount };
        let outcome = if count > 0 { Outcome::Some(indices, count as usize) } else { Outcome::Nothing };
        (code, outcome)
    };
    // SAFETY: the caller's promise.
    unsafe { many(operation, incount, requests, statuses, make) }
}

/// `MPI_Request_get_status`: a test that does not free the request, whose completion is recorded later.
///
/// # Safety
/// See [`wait`].
pub unsafe fn request_get_status(
    request: Raw<Request>,
    flag: *const c_int,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::if_completing() else { return make() };
    // Where the application keeps it is unknown, since it was passed by value.
    let given = REQUESTS.given(request.get(), HandlePtr::c(std::ptr::null()), call.request_null());
    let (operation, communicator) = (Operation::RequestGetStatus, REQUESTS.communicator_of(&given));
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        // SAFETY: a call that succeeds writes the flag.
        if code == constant::SUCCESS && unsafe { *flag } != 0 {
            REQUESTS.seen_complete(&given);
            enter_duplicate(recorder, request.get(), &given);
        }
        let mut scratch = recorder.thread.scratch();
        let (mut completion, ..) = Completion::begin(&mut scratch, recorder, operation);
        completion.asked(std::slice::from_ref(&given));
        completion.charge(ticks);
    });
    code
}

/// A test of an array of requests that frees none of them (MPI 4.1, 3.7.6).
///
/// # Safety
/// See [`wait`].
pub unsafe fn look_at_many(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::if_completing() else { return make() };
    let count = length(count, requests);
    // SAFETY: the array has `count` requests.
    let first = (count > 0).then(|| unsafe { given(call.request_null(), requests) });
    let (code, ticks) = call.time(operation, first_of(first.as_slice()), make);
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        if !scratch.reset(count) {
            return world::not_seen(NotSeen::NoRoom);
        }
        for at in 0..count {
            // SAFETY: the array has `count` requests, which the call left as they were.
            let (handle, given) =
                unsafe { (requests.at(at).handle(), given(call.request_null(), requests.at(at))) };
            if code == constant::SUCCESS {
                enter_duplicate(recorder, handle, &given);
            }
            scratch.given.push(given);
        }
        let (mut completion, given, _) = Completion::begin(&mut scratch, recorder, operation);
        completion.asked(given);
        completion.charge(ticks);
    });
    code
}

/// Enters the new communicator of an `MPI_Comm_idup`: the program may use it as soon as a test that does not free the
/// request has reported it complete.
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
    let Some(call) = Call::if_tracking().filter(|_| !request.is_null()) else { return make() };
    // SAFETY: the request is valid, the caller says.
    let (handle, given) = unsafe { (request.handle(), given(call.request_null(), request)) };
    // After the call, MPI cannot be queried for what a complete receive got, or whether a cancellation succeeded.
    let untold = REQUESTS.untold(&given);
    let untold = untold.filter(|it| it.seen_complete || it.cancelled || LOOKS_IN_SILENCE);
    let ended = untold.and_then(|started| Some((started, status_of(handle)?)));
    // MPICH 5.0 reports a persistent receive as complete once, and as inactive from then on. The status of a cancelled
    // receive has no source, either.
    let is_empty = |status: &Status| status.MPI_SOURCE < 0 && status.MPI_SOURCE != constant::PROC_NULL;
    let was_told = |(started, status): &(RequestState, Status)| {
        started.cancelled || !started.kind.is_receive() || !is_empty(status)
    };
    let ended = ended.filter(was_told);
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
            let owner = removed.as_ref().map(Removed::owner);
            freed(recorder, Operation::RequestFree, owner, ended.is_some(), ticks);
        } else if let Some(removed) = removed {
            REQUESTS.put_back(removed);
        }
    });
    code
}

/// The status of an open request if its operation has ended; without an error in it, the operation succeeded. The program
/// may have learnt so by `MPI_Request_get_status`, and then frees the request.
fn status_of(request: Request) -> Option<Status> {
    // SAFETY: a status consists of numbers, for which 0 is valid.
    let mut status: Status = unsafe { std::mem::zeroed() };
    status.MPI_ERROR = constant::SUCCESS;
    let mut ended = 0;
    // SAFETY: the request is open; the call writes the flag, and the status if the operation has ended.
    let code =
        unsafe { pmpi::MPI_Request_get_status.get()(Raw::new(request), &raw mut ended, &raw mut status) };
    (code == constant::SUCCESS && ended != 0).then_some(status)
}

/// `MPI_Cancel` (MPI 4.1, 3.8.4): whether it succeeded is known when the request completes.
///
/// # Safety
/// See [`wait`].
pub unsafe fn cancel(request: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::if_tracking().filter(|_| !request.is_null()) else { return make() };
    // SAFETY: the request is valid, the caller says.
    let given = unsafe { given(call.request_null(), request) };
    let (code, ticks) = call.time(Operation::Cancel, REQUESTS.communicator_of(&given), make);
    call.record(|recorder| {
        let Some(owner) = REQUESTS.owner(&given).filter(|owner| owner.recorded) else {
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
