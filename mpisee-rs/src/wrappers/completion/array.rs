//! Calls on an array of requests: `MPI_Waitall`, `MPI_Testany` and their like.

use super::few::Few;
use super::settling::{self, Completion, is_refusal, request_in};
use crate::mpi::abi::{Request, STATUS_IGNORE, Status, bits, constant, from_bits, read_status};
use crate::mpi::argument::{HandlePtr, Indices};
use crate::recording::polls::{self, RepeatedPoll};
use crate::recording::{RecordedCall, Recorder};
use crate::state::cached_call::CachedCall;
use crate::state::poll::{MOST_REQUESTS, Poll, PollId};
use crate::state::request::{REQUESTS, RequestRef};
use crate::state::sampled_overhead::LongArray;
use crate::state::scratch::Scratch;
use crate::state::sites;
use crate::state::world;
use mpisee_profile::segment::{NotSeen, awaited};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The requests of an array that a call completed.
enum Outcome {
    /// All requests.
    All,
    /// The call failed: those that it set to null, or whose status has an error.
    Failed,
    Nothing,
    /// The request of this index; its status is the only one.
    One(usize),
    /// The requests at these indices; the statuses are in the same order.
    Listed(Indices, usize),
}

/// A call on an array of requests: looks them up, makes the call with readable statuses, records
/// the completions.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it with the statuses that it
/// is given.
#[inline(always)]
unsafe fn many(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    let Some(call) = RecordedCall::if_completing() else { return make(statuses).0 };
    let mut few = Few::new();
    // SAFETY: the array has `count` requests, as MPI needs it.
    if !unsafe { few.look_up(call.request_null(), length(count, requests), requests) } {
        // SAFETY: the arguments are those of the application's call, and `make` makes it.
        return unsafe { many_general(&call, operation, count, requests, statuses, make) };
    }
    let statuses = few.statuses(statuses);
    let ((code, outcome), ticks) =
        call.time_with(operation, few.communicator, few.awaited(), || make(statuses));
    let caller = sites::caller_of_export();
    let answer = Answer { code, requests, statuses };
    // SAFETY: the call has ended with this answer.
    let counted = unsafe { record_few(&call, operation, &few, answer, outcome, ticks, caller) };
    if is_test(operation) && polls::is_called_by_program() {
        match counted {
            None => polls::note_timed_success(operation, requests.address(), call.thread(), ticks),
            Some(counted) if few.has_aliased() || !counted.counts(caller) => {}
            Some(counted) => {
                if let Some(id) = poll_of(operation, count, requests) {
                    let (thread, ends) = (call.thread(), few.awaited());
                    // SAFETY: the array has `count` requests.
                    let handle = |at| bits(unsafe { requests.at(at).handle() });
                    let count = length(count, requests);
                    polls::note_timed_array(&id, thread, counted, ends, few.needs_status(), count, handle);
                }
            }
        }
    }
    code
}

/// As [`many`], of a test, which may repeat the last one of these requests.
///
/// # Safety
/// See [`many`].
#[inline(always)]
unsafe fn many_or_repeated(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    // SAFETY: the array has `count` requests.
    let handle = |at| bits(unsafe { requests.at(at).handle() });
    let same = |poll: &Poll| poll.has_requests(length(count, requests), handle);
    let Some(poll) = RepeatedPoll::begin(poll_of(operation, count, requests), same) else {
        // SAFETY: the arguments are those of the application's call, and `make` makes it.
        return unsafe { many(operation, count, requests, statuses, make) };
    };
    let mut own = [const { MaybeUninit::<Status>::uninit() }; MOST_REQUESTS];
    let statuses = match statuses == STATUS_IGNORE && poll.needs_status() {
        true => own.as_mut_ptr().cast(),
        false => statuses,
    };
    let (code, outcome) = poll.make(|| make(statuses));
    if matches!(outcome, Outcome::Nothing) {
        poll.found_nothing();
    } else {
        let answer = Answer { code, requests, statuses };
        // SAFETY: the call has ended with this answer, and left what `outcome` says.
        unsafe { many_ended(poll, operation, answer, outcome) };
    }
    code
}

/// The poll for these requests; `None` for a long array.
#[inline(always)]
fn poll_of(operation: Operation, count: c_int, requests: HandlePtr<Request>) -> Option<PollId> {
    let count = length(count, requests);
    if count > MOST_REQUESTS {
        return None;
    }
    polls::poll_for_requests(operation, requests.address(), || count as u64)
}

/// Records a test that repeats others, and has completed something or failed.
///
/// # Safety
/// The call has ended with `answer`, and left what `outcome` says.
#[cold]
#[inline(never)]
unsafe fn many_ended(poll: RepeatedPoll, operation: Operation, answer: Answer, outcome: Outcome) {
    let (count, handles) = (poll.poll().asked() as usize, poll.poll().requests());
    let requests: [Request; MOST_REQUESTS] = handles.map(from_bits);
    let call = poll.end_run();
    let mut few = Few::new();
    // SAFETY: a poll has no more requests than it can keep.
    if !unsafe { few.look_up(call.request_null(), count, HandlePtr::c(requests.as_ptr())) } {
        return world::not_seen(NotSeen::UnknownRequest);
    }
    let thread = call.thread();
    // SAFETY: the call has ended with this answer, and left what `outcome` says.
    unsafe {
        match outcome {
            Outcome::All => {
                (0..count).for_each(|at| few.complete_at(thread, at, answer.statuses.wrapping_add(at)));
            }
            Outcome::One(index) => few.complete_at(thread, index, answer.statuses),
            Outcome::Nothing => {}
            outcome => record_general(&call, operation, &few, answer, outcome, None),
        }
    }
}

/// Returns whether an operation does not wait.
#[inline(always)]
fn is_test(operation: Operation) -> bool {
    matches!(operation, Operation::Testany | Operation::Testall | Operation::Testsome)
}

/// Records a call on simple requests; returns where it is counted if it has completed none.
///
/// # Safety
/// The call has ended with `answer`, and left what `outcome` says.
#[inline(always)]
unsafe fn record_few(
    call: &RecordedCall,
    operation: Operation,
    few: &Few,
    answer: Answer,
    outcome: Outcome,
    ticks: Ticks,
    caller: u64,
) -> Option<&'static CachedCall> {
    match outcome {
        // SAFETY: the call has succeeded.
        Outcome::All => unsafe {
            few.completed(call.thread(), operation, answer.statuses, ticks, caller);
        },
        // SAFETY: the call has succeeded, and completed the request at this index.
        Outcome::One(index) => unsafe {
            few.completed_one(call.thread(), operation, index, answer.statuses, ticks, caller);
        },
        Outcome::Nothing => return few.charge(call.thread(), operation, ticks, caller),
        // SAFETY: the call has ended; it filled what `outcome` says.
        outcome => unsafe { record_general(call, operation, few, answer, outcome, Some(ticks)) },
    }
    None
}

/// Records a call on simple requests that failed, or completed some of them; without `ticks` the
/// call itself is counted already.
///
/// # Safety
/// The call has ended with `answer`, and left what `outcome` says.
#[inline(never)]
unsafe fn record_general(
    call: &RecordedCall,
    operation: Operation,
    few: &Few,
    answer: Answer,
    outcome: Outcome,
    ticks: Option<Ticks>,
) {
    call.record(|recorder| {
        let mut scratch = recorder.thread.scratch();
        if !few.pass_on(&mut scratch) {
            return world::not_seen(NotSeen::NoRoom);
        }
        // SAFETY: the call has ended with this answer, and left what the outcome says.
        let completion = unsafe { record(recorder, &mut scratch, operation, answer, outcome) };
        if let Some(ticks) = ticks {
            completion.charge(ticks);
        }
    });
}

/// As [`many`], for requests of which one is not simple.
#[inline(never)]
unsafe fn many_general(
    call: &RecordedCall,
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, Outcome),
) -> c_int {
    let mut measured = LongArray::begin(length(count, requests));
    let mut scratch = call.scratch();
    let mut looked_up = Some(false);
    // SAFETY: the array has `count` requests, as MPI needs it.
    call.record(|recorder| looked_up = unsafe { look_up(recorder, &mut scratch, count, requests) });
    let Some(needs_status) = looked_up else {
        drop(measured);
        return call.make_uncounted(operation, || make(statuses).0);
    };
    let ignored = statuses == STATUS_IGNORE;
    let statuses = if ignored && needs_status { scratch.statuses.as_mut_ptr().cast() } else { statuses };
    let (communicator, ends) = (first_of(&scratch.given), awaited_by(&scratch.given));
    if let Some(measured) = &mut measured {
        measured.pause();
    }
    let ((code, outcome), ticks) = call.time_with(operation, communicator, ends, || make(statuses));
    if let Some(measured) = &mut measured {
        measured.go_on();
    }
    call.record(|recorder| {
        let answer = Answer { code, requests, statuses };
        // SAFETY: the call has ended; it filled what `outcome` says.
        unsafe { record(recorder, &mut scratch, operation, answer, outcome) }.charge(ticks);
    });
    code
}

/// Looks up the requests of an array; returns whether a status is needed. `None` if there is no
/// room for them.
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
    // SAFETY: the array has `count` requests.
    scratch.given.extend((0..count).map(|index| unsafe { request_in(null, requests.at(index)) }));
    if REQUESTS.is_shared() {
        let Scratch { given, copies, .. } = scratch;
        copies.extend(given.iter().map(|given| REQUESTS.copy_if_shared(given)));
    }
    Some(scratch.given.iter().any(RequestRef::needs_status))
}

/// The length of the array; 0 for arguments that MPI will reject.
pub fn length(count: c_int, requests: HandlePtr<Request>) -> usize {
    if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) }
}

/// The communicator of the first active request.
pub fn first_of(given: &[RequestRef]) -> CommId {
    let active = given.iter().find(|given| !matches!(given, RequestRef::Nothing));
    active.map_or(CommId::NONE, |given| REQUESTS.communicator_of(given))
}

/// The word for the segment of what a call on these requests waits for.
pub fn awaited_by(given: &[RequestRef]) -> u64 {
    let mut active = given.iter().filter(|given| !matches!(given, RequestRef::Nothing));
    let first = active.next().and_then(|first| REQUESTS.owner(first));
    let count = given.len() - given.iter().filter(|given| matches!(given, RequestRef::Nothing)).count();
    awaited::requests(count, first.map_or(0, |owner| owner.kind.awaited(owner.peer)))
}

/// Returns whether an error says that a request is neither complete nor failed. MPICH from 5.0 on
/// has codes of its own in that class.
fn is_pending(error: c_int) -> bool {
    settling::class_of(error) == constant::ERR_PENDING
}

/// The results of a call on an array of requests.
#[derive(Clone, Copy)]
struct Answer {
    code: c_int,
    requests: HandlePtr<Request>,
    statuses: *const Status,
}

impl Answer {
    /// Returns whether each status has the error code of its operation.
    fn has_error_codes(&self) -> bool {
        let has_statuses = !self.statuses.is_null() && self.statuses != STATUS_IGNORE.cast_const();
        self.code == constant::ERR_IN_STATUS && has_statuses
    }

    /// The error code of the operation whose status is at `at`; success if the call returned
    /// `MPI_ERR_IN_STATUS` without statuses, since it is unknown then which operation failed.
    ///
    /// # Safety
    /// The call filled the status if it returned that errors are in the statuses.
    unsafe fn error(&self, at: usize) -> c_int {
        match self.code {
            // SAFETY: the call has filled the statuses if it returned that errors are in them.
            constant::ERR_IN_STATUS if self.has_error_codes() => unsafe {
                read_status(self.statuses.add(at)).MPI_ERROR
            },
            constant::ERR_IN_STATUS => constant::SUCCESS,
            code => code,
        }
    }

    /// The status at `at`, if it is filled and needed. A call that returns another error than
    /// `MPI_ERR_IN_STATUS` completes one request, whose status is the only one.
    fn status(&self, given: &RequestRef, at: usize) -> Option<*const Status> {
        let at = if self.code == constant::SUCCESS || self.has_error_codes() { at } else { 0 };
        let is_filled = self.code != constant::ERR_IN_STATUS || self.has_error_codes();
        (is_filled && given.needs_status()).then(|| self.statuses.wrapping_add(at))
    }

    /// Returns whether a request is open after a call that failed.
    ///
    /// # Safety
    /// The array has a request at `index`; as for [`Answer::error`].
    unsafe fn is_open(&self, given: &RequestRef, index: usize) -> bool {
        // The handle of a persistent request stays. For others it is more reliable than the status:
        // MPICH from 5.0 on may leave completed requests of a failed MPI_Testall open.
        // SAFETY: the array has a request at `index`, and the call has filled the statuses if it
        // says so.
        unsafe {
            if self.has_error_codes() && given.is_persistent() {
                is_pending(self.error(index))
            } else {
                !REQUESTS.is_null(self.requests.at(index).handle())
            }
        }
    }
}

/// The request that failed in a call which completes one and has set none to null: a persistent
/// one. If there are several, nothing shows which it was.
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

/// Passes on the requests that ended in a call which failed; false if none did.
///
/// # Safety
/// The call has ended with `answer`; the requests were those of its array.
#[cold]
unsafe fn end_after_error(
    operation: Operation,
    answer: Answer,
    given: &[RequestRef],
    ended: &mut impl FnMut(usize, &RequestRef, usize),
) -> bool {
    let mut any = false;
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
    any
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
        // SAFETY: the call has ended with this answer.
        match unsafe { answer.error(at) } {
            constant::SUCCESS => completion.completed(given, kept, status),
            error => completion.failed(given, kept, error, status),
        }
    };
    match outcome {
        Outcome::All => {
            given.iter().enumerate().for_each(|(index, given)| ended(index, given, index));
        }
        // SAFETY: the call has ended with this answer, and the requests were those of its array.
        Outcome::Failed => any = unsafe { end_after_error(operation, answer, given, &mut ended) },
        Outcome::One(index) => {
            if let Some(given) = given.get(index) {
                ended(index, given, 0);
            }
        }
        Outcome::Listed(indices, count) => {
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
        completion.completed_none(given);
    }
    completion
}

/// `MPI_Waitall` (MPI 4.1, 3.7.5).
///
/// # Safety
/// See [`super::wait`].
pub unsafe fn waitall(
    count: c_int,
    requests: HandlePtr<Request>,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |statuses| {
        let code = make(statuses);
        (code, if code == constant::SUCCESS { Outcome::All } else { Outcome::Failed })
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { many(Operation::Waitall, count, requests, statuses, make) }
}

/// `MPI_Testall`.
///
/// # Safety
/// See [`super::wait`].
pub unsafe fn testall(
    count: c_int,
    requests: HandlePtr<Request>,
    flag: *const c_int,
    statuses: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |statuses| {
        let code = make(statuses);
        let outcome = if code != constant::SUCCESS {
            Outcome::Failed
        // SAFETY: a call that succeeds writes the flag.
        } else if unsafe { *flag } != 0 {
            Outcome::All
        } else {
            Outcome::Nothing
        };
        (code, outcome)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { many_or_repeated(Operation::Testall, count, requests, statuses, make) }
}

/// `MPI_Waitany`.
///
/// # Safety
/// See [`super::wait`].
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
        (code, if code == constant::SUCCESS { unsafe { outcome_at(index) } } else { Outcome::Failed })
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { many(Operation::Waitany, count, requests, status, make) }
}

/// `MPI_Testany`.
///
/// # Safety
/// See [`super::wait`].
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
            return (code, Outcome::Failed);
        }
        // SAFETY: a call that succeeds writes flag and index.
        (code, unsafe { if *flag != 0 { outcome_at(index) } else { Outcome::Nothing } })
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { many_or_repeated(Operation::Testany, count, requests, status, make) }
}

/// # Safety
/// The call has written the index.
unsafe fn outcome_at(index: Indices) -> Outcome {
    // SAFETY: the call has written the index. There is none where no request was active.
    unsafe { index.index(0) }.map_or(Outcome::Nothing, Outcome::One)
}

/// `MPI_Waitsome` or `MPI_Testsome`.
///
/// # Safety
/// See [`super::wait`].
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
            return (code, Outcome::Failed);
        }
        // SAFETY: a call that succeeds, or returns that errors are in the statuses, writes the
        // count and as many indices.
        let count = unsafe { *outcount };
        let outcome = if count > 0 { Outcome::Listed(indices, count as usize) } else { Outcome::Nothing };
        (code, outcome)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe {
        match operation {
            Operation::Testsome => many_or_repeated(operation, incount, requests, statuses, make),
            _ => many(operation, incount, requests, statuses, make),
        }
    }
}
