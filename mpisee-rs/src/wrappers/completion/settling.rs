//! Records completed requests, for the whole family of waits and tests.
//!
//! A completion call is charged to the communicators of the requests that it completes, its time
//! split equally among them; a test that completes nothing is charged to the communicators of all
//! its requests. So a rank's MPI time is never counted twice.

use crate::generated::pmpi;
use crate::mpi::abi::{Request, Status, constant, read_status, received_bytes};
use crate::mpi::argument::HandlePtr;
use crate::naming;
use crate::recording::Recorder;
use crate::recording::streams;
use crate::recording::unfinished::{self, CompletingCall};
use crate::state::cached_call::Envelope;
use crate::state::order;
use crate::state::process;
use crate::state::request::REQUESTS;
use crate::state::request::{Owner, RequestKind, RequestRef, RequestState};
use crate::state::scratch::{CommSet, Scratch};
use crate::state::world::{self, Settling};
use crate::storage::sync::own_value;
use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::order::{NO_TAG, StepKind};
use mpisee_profile::segment::{NotSeen, SlotKey, active_call};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;

/// A completion call being recorded.
pub struct Completion<'c> {
    recorder: &'c Recorder,
    operation: Operation,
    charged: &'c mut CommSet,
    unknown: bool,
    /// The sends, receives and collective operations that it completed; without those that were
    /// complete when they started.
    completed: u32,
    /// As [`Scratch::finished`].
    finished: &'c mut Vec<(u32, Option<u64>)>,
}

impl<'c> Completion<'c> {
    /// Begins to record a completion call; also returns its requests, and the copies that were kept
    /// of their entries.
    #[inline]
    pub fn begin(
        scratch: &'c mut Scratch,
        recorder: &'c Recorder,
        operation: Operation,
    ) -> (Completion<'c>, &'c [RequestRef], &'c [Option<RequestState>]) {
        scratch.charged.clear();
        scratch.finished.clear();
        let Scratch { given, copies, charged, finished, .. } = scratch;
        let completion = Completion { recorder, operation, charged, unknown: false, completed: 0, finished };
        (completion, given, copies)
    }
}

impl Completion<'_> {
    /// Records that the call completed this request; `kept` is the copy of its entry. `status` is
    /// filled if [`RequestRef::needs_status`] is true and the operation succeeded.
    #[inline]
    pub fn completed(
        &mut self,
        given: &RequestRef,
        kept: Option<&RequestState>,
        status: Option<*const Status>,
    ) {
        let is_known = match given {
            RequestRef::Nothing => true,
            RequestRef::Unknown => false,
            RequestRef::Known(known) => REQUESTS.complete(known, kept, |started| {
                self.completed += started.kind.operations(started.peer);
                if started.recorded {
                    self.charged.add(started.counted.communicator());
                    settle(self.recorder, started, status);
                }
                if started.unfinished != 0 {
                    self.finish(started, status);
                }
                started.recorded
            }),
            RequestRef::Aliased(key, variable) => {
                let prefer = self.charged.first;
                let owner = REQUESTS.complete_aliased(*key, *variable, prefer).filter(|owner| owner.recorded);
                if let Some(owner) = &owner {
                    self.charged.add(owner.communicator);
                    settle_aliased(self.recorder, owner);
                }
                owner.is_some()
            }
        };
        if !is_known {
            self.count_unknown(given);
        }
    }

    /// Records that the operation of this request failed; `status` is as for
    /// [`Completion::completed`].
    #[cold]
    pub fn failed(
        &mut self,
        given: &RequestRef,
        kept: Option<&RequestState>,
        error: c_int,
        status: Option<*const Status>,
    ) {
        let RequestRef::Known(known) = given else { return self.completed(given, kept, None) };
        let recorded = REQUESTS.complete(known, kept, |started| {
            self.completed += started.kind.operations(started.peer);
            unfinished::forget(started.unfinished);
            if started.recorded {
                self.charged.add(started.counted.communicator());
                note_completion(self.recorder, started.counted.key);
                settle_failed(self.recorder, started, error, status);
            }
            started.recorded
        });
        if !recorded {
            self.count_unknown(given);
        }
    }

    /// Records that the call completed none of these requests.
    pub fn completed_none(&mut self, given: &[RequestRef]) {
        for given in given {
            match REQUESTS.owner(given) {
                Some(owner) if owner.recorded => self.charged.add(owner.communicator),
                _ => self.count_unknown(given),
            }
        }
    }

    /// Notes that the call completed an operation of which a sample is kept. A message that was
    /// cancelled has none.
    #[cold]
    fn finish(&mut self, started: &RequestState, status: Option<*const Status>) {
        let number = started.unfinished;
        if started.cancelled && status.is_some_and(was_cancelled) || self.finished.try_reserve(1).is_err() {
            return unfinished::forget(number);
        }
        let is_receive = started.kind == RequestKind::Receive;
        // SAFETY: the operation completed and succeeded, and with it the call filled the status.
        let bytes = |status| received_bytes(&unsafe { read_status(status) });
        match status.filter(|_| is_receive).map(bytes) {
            None if is_receive => unfinished::forget(number),
            bytes => self.finished.push((number, bytes)),
        }
    }

    /// Keeps the samples that the call finished; none while recording is off.
    #[cold]
    fn keep_finished(&mut self) {
        if !process::is_recording() {
            return self.finished.drain(..).for_each(|(number, _)| unfinished::forget(number));
        }
        let values = &self.recorder.thread.active_call.values;
        let [arrival, departure] =
            [active_call::SINCE, active_call::RETURNED].map(|at| Ticks::new(own_value(&values[at])));
        let arrival = if waits(self.operation) { arrival } else { departure };
        let call =
            CompletingCall { operation: self.operation, arrival, departure, completed: self.completed };
        for (number, bytes) in self.finished.drain(..) {
            unfinished::finish(self.recorder.world, number, &call, bytes);
        }
    }

    fn count_unknown(&mut self, given: &RequestRef) {
        self.unknown |= !matches!(given, RequestRef::Nothing);
        count_unknown(given);
    }

    /// Charges the call.
    #[inline]
    pub fn charge(mut self, ticks: Ticks) {
        if !self.finished.is_empty() {
            self.keep_finished();
        }
        if !process::is_recording() {
            return;
        }
        let Some(first) = self.charged.first else {
            if !self.unknown {
                world::not_seen(NotSeen::CompletionOfNothing);
            }
            return;
        };
        let all = 1 + self.charged.others.len();
        if all == 1 {
            self.recorder.count(first, self.operation, 0, 0, ticks);
            return;
        }
        let communicators = std::iter::once(&first).chain(&self.charged.others);
        for (&communicator, ticks) in communicators.zip(shares(all, ticks)) {
            self.recorder.count(communicator, self.operation, 0, 0, ticks);
        }
    }
}

/// Returns whether a completion call waits until something is complete.
fn waits(operation: Operation) -> bool {
    matches!(operation, Operation::Wait | Operation::Waitall | Operation::Waitany | Operation::Waitsome)
}

/// Charges a call that did not complete its one request. False if the request is unknown.
///
/// PERF: programs poll, so that most tests are of this kind.
#[inline]
pub fn test_found_none(recorder: &Recorder, operation: Operation, given: &RequestRef, ticks: Ticks) -> bool {
    let Some(owner) = REQUESTS.owner(given).filter(|owner| owner.recorded) else { return false };
    if process::is_recording() {
        recorder.count(owner.communicator, operation, 0, 0, ticks);
    }
    true
}

/// Counts a request of unknown origin, unless recording is off.
pub fn count_unknown(given: &RequestRef) {
    if !matches!(given, RequestRef::Nothing) && process::is_recording() {
        world::not_seen(NotSeen::UnknownRequest);
    }
}

/// `ticks` split into `count` equal shares, to the last one.
pub fn shares(count: usize, ticks: Ticks) -> impl Iterator<Item = Ticks> {
    let (count, ticks) = (count as u64, ticks.get());
    (0..count).map(move |index| Ticks::new(ticks * (index + 1) / count - ticks * index / count))
}

/// Records what only the completion of a request shows: bytes, source, cancellation. `status` is
/// filled if it was requested.
#[inline]
pub fn settle(recorder: &Recorder, started: &RequestState, status: Option<*const Status>) {
    let status = match recorder.world.settling {
        Settling::Plain => status,
        Settling::ExceptIsendrecv => status.filter(|_| !started.is_combined()),
        Settling::Noted => return settle_and_note(recorder, started, status),
    };
    settle_with::<false>(recorder, started, status);
}

/// As [`settle`], where the order is kept.
#[cold]
#[inline(never)]
fn settle_and_note(recorder: &Recorder, started: &RequestState, status: Option<*const Status>) {
    note_completion(recorder, started.counted.key);
    let status = status.filter(|_| recorder.world.reports_isendrecv_status || !started.is_combined());
    settle_with::<true>(recorder, started, status);
}

/// Notes the completion of a request, where the order is kept.
fn note_completion(recorder: &Recorder, started: SlotKey) {
    if order::is_on() {
        order::note_completion(&recorder.thread.order, started);
    }
}

/// As [`settle`]; `NOTED` if the order is kept.
#[inline]
fn settle_with<const NOTED: bool>(
    recorder: &Recorder,
    started: &RequestState,
    status: Option<*const Status>,
) {
    let Some(status) = status else { return settle_without_status(recorder, &started.owner()) };
    if started.cancelled && was_cancelled(status) {
        return settle_cancelled(recorder, started);
    }
    if !started.kind.bytes_come_from_status() {
        return settle_without_status(recorder, &started.owner());
    }
    // SAFETY: the operation completed and succeeded, and with it the call filled the status.
    let status = unsafe { read_status(status) };
    let bytes = received_bytes(&status);
    let counted = &started.counted;
    if started.kind != RequestKind::Transfer {
        let slot = recorder.received(counted.communicator(), status.MPI_SOURCE, bytes);
        if let Some(slot) = slot.filter(|_| NOTED) {
            recorder.note(StepKind::Received, slot, bytes, status.MPI_TAG);
        }
    }
    // The bytes that the same call sent are counted already.
    match counted.reclassed(counted.bytes + bytes).filter(|_| started.reclassed) {
        None => {
            let slot = recorder.add_bytes(counted, bytes);
            if let Some(slot) = slot.filter(|_| NOTED) {
                recorder.note(StepKind::Bytes, slot, bytes, NO_TAG);
            }
        }
        Some(reclassed) => {
            recorder.uncount(counted);
            recorder.count_anew(&reclassed);
        }
    }
}

/// As [`settle`], of a request with an aliased handle.
#[inline]
fn settle_aliased(recorder: &Recorder, owner: &Owner) {
    match recorder.world.settling {
        Settling::Plain => settle_duplication(recorder, owner),
        Settling::ExceptIsendrecv => settle_without_status(recorder, owner),
        Settling::Noted => settle_aliased_and_note(recorder, owner),
    }
}

/// As [`settle_aliased`], where the order is kept.
#[cold]
#[inline(never)]
fn settle_aliased_and_note(recorder: &Recorder, owner: &Owner) {
    note_completion(recorder, SlotKey::shared_row(owner.communicator));
    settle_without_status(recorder, owner);
}

/// As [`settle`], without a status.
#[inline]
fn settle_without_status(recorder: &Recorder, owner: &Owner) {
    if owner.kind == RequestKind::SendReceive && !recorder.world.reports_isendrecv_status {
        world::not_seen(NotSeen::UnreportedReceive);
    }
    settle_duplication(recorder, owner);
}

/// Of a duplication of a communicator, records the new one.
#[inline]
fn settle_duplication(recorder: &Recorder, owner: &Owner) {
    if let Some(number) = owner.duplication() {
        naming::duplicated(recorder.world, number);
    }
}

/// Records a request whose operation failed.
#[cold]
pub fn settle_failed(
    recorder: &Recorder,
    started: &RequestState,
    error: c_int,
    status: Option<*const Status>,
) {
    match started.kind {
        RequestKind::Receive | RequestKind::SendReceive if is_truncation(error) => {
            let status = status.filter(|_| recorder.world.reports_isendrecv_status || !started.is_combined());
            count_truncated(recorder, started.counted.communicator(), status);
        }
        RequestKind::Duplication => naming::abandon_duplication(started.peer as u32),
        _ => {}
    }
}

/// Counts a truncated receive: MPI has taken the message from the sender all the same. The status
/// has its source, but not reliably its length: Open MPI usually reports it, MPICH reports 0.
#[cold]
pub fn count_truncated(recorder: &Recorder, communicator: CommId, status: Option<*const Status>) {
    world::not_seen(NotSeen::TruncatedReceive);
    if let Some(status) = status {
        // SAFETY: both MPIs fill the status of a receive that took a message.
        let status = unsafe { read_status(status) };
        if let Some(slot) = recorder.received(communicator, status.MPI_SOURCE, 0) {
            recorder.note(StepKind::Received, slot, 0, status.MPI_TAG);
        }
    }
}

/// Returns whether an error says that a message was longer than the receive buffer.
#[cold]
pub fn is_truncation(error: c_int) -> bool {
    class_of(error) == constant::ERR_TRUNCATE
}

/// Returns whether an error says that MPI refused the arguments of a call and has completed
/// nothing.
pub fn is_refusal(error: c_int) -> bool {
    matches!(class_of(error), constant::ERR_REQUEST | constant::ERR_ARG)
}

/// The class of an error.
#[cold]
pub fn class_of(error: c_int) -> c_int {
    let mut class = error;
    if error != constant::SUCCESS {
        // SAFETY: the class is written.
        unsafe { pmpi::MPI_Error_class.get()(error, &raw mut class) };
    }
    class
}

/// Subtracts the message of a cancelled send; for other kinds nothing was counted. The numbers of
/// later messages are unknown.
fn settle_cancelled(recorder: &Recorder, started: &RequestState) {
    let end = if started.kind == RequestKind::Send { MessageEnd::Sent } else { MessageEnd::Received };
    streams::unorder(started.counted.communicator(), end, Envelope::new(started.peer, constant::ANY_TAG));
    if started.kind == RequestKind::Send {
        let (communicator, nothing) = (started.counted.communicator(), 0u64.wrapping_sub(started.message));
        recorder.sent(communicator, started.peer, 1u64.wrapping_neg(), nothing);
        if let Some(slot) = recorder.add_bytes(&started.counted, nothing) {
            recorder.note(StepKind::Bytes, slot, nothing, NO_TAG);
        }
    }
}

fn was_cancelled(status: *const Status) -> bool {
    let mut flag = 0;
    // SAFETY: the status is that of a completed operation; `flag` is written.
    unsafe { pmpi::MPI_Test_cancelled.get()(status, &raw mut flag) };
    flag != 0
}

/// Records a freed request. If its operation had ended by then, its bytes are counted already.
pub fn freed(
    recorder: &Recorder,
    operation: Operation,
    owner: Option<Owner>,
    is_counted: bool,
    ticks: Ticks,
) {
    let Some(owner) = owner else {
        if process::is_recording() {
            world::not_seen(NotSeen::UnknownRequest);
        }
        return;
    };
    if owner.active && owner.recorded && owner.kind.bytes_come_from_status() && !is_counted && !owner.doubtful
    {
        world::not_seen(NotSeen::FreedReceive);
    }
    recorder.count_time(owner.communicator, operation, ticks);
}

/// Looks up the request in `variable`.
///
/// # Safety
/// `variable` holds a request.
#[inline(always)]
pub unsafe fn request_in(null: Request, variable: HandlePtr<Request>) -> RequestRef {
    // SAFETY: there is a request in the variable.
    REQUESTS.look_up(unsafe { variable.handle() }, variable, null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_completion_is_split_without_a_rest() {
        for (count, ticks) in [(1, 7), (3, 10), (4, 3), (7, 1_000_003), (1000, 999)] {
            let all: Vec<u64> = shares(count, Ticks::new(ticks)).map(Ticks::get).collect();
            assert_eq!((all.len(), all.iter().sum::<u64>()), (count, ticks));
            let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            assert!(most - least <= 1, "{all:?}");
        }
    }
}
