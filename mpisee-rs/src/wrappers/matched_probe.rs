//! Matched probes and the receives of their messages (MPI 4.1, 3.8.2): a table maps each message to
//! its communicator.

use super::completion::settling::{count_truncated, is_truncation};
use crate::mpi::abi::{
    self, Comm, Message, Raw, Request, STATUS_IGNORE, Status, constant, read_status, received_bytes,
};
use crate::mpi::argument::HandlePtr;
use crate::recording::volume::{Block, CountArgument};
use crate::recording::{RecordedCall, Recorder, ReturnedCall, record_call, record_call_with_status, streams};
use crate::state::cached_call::Envelope;
use crate::state::handles::MESSAGES;
use crate::state::order;
use crate::state::request::RequestKind;
use crate::state::world;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::order::StepKind;
use mpisee_profile::{CommId, Operation};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// `MPI_Mprobe`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function
/// below.
pub unsafe fn matched_probe(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    message: HandlePtr<Message>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let from = Envelope::new(source, tag);
    // SAFETY: the arguments are those of the application's call, and `make` makes it. One that
    // succeeds stores a message.
    unsafe { probe(operation, comm, from, message, status, |status| (make(status), true)) }
}

/// `MPI_Improbe`.
///
/// # Safety
/// See [`matched_probe`].
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn immediate_matched_probe(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    flag: *mut c_int,
    message: HandlePtr<Message>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let make = |status| {
        let code = make(status);
        // SAFETY: a call that succeeds writes the flag.
        (code, code == constant::SUCCESS && unsafe { *flag } != 0)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { probe(operation, comm, Envelope::new(source, tag), message, status, make) }
}

unsafe fn probe(
    operation: Operation,
    comm: Raw<Comm>,
    from: Envelope,
    message: HandlePtr<Message>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> (c_int, bool),
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make(status).0 };
    let known = call.communicator(comm);
    let communicator = known.map(|known| known.id());
    let id = communicator.unwrap_or(CommId::NONE);
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE { own.as_mut_ptr() } else { status };
    let ((code, found), ticks) = call.time_with(operation, id, from.word(), || make(status));
    call.record(|recorder| {
        if found {
            order::note_found(&recorder.thread.order);
        }
        if let Some(communicator) = communicator {
            recorder.count_time(communicator, operation, ticks);
        }
        if code != constant::SUCCESS || !found {
            return;
        }
        if let Some(known) = known {
            // SAFETY: the call found a message, and filled the status.
            let status = unsafe { read_status(status) };
            let from = Envelope::new(status.MPI_SOURCE, status.MPI_TAG);
            streams::matched(recorder, &known.get(), from, received_bytes(&status));
        }
        // SAFETY: the call found a message and stored it.
        let message = abi::bits(unsafe { message.handle() });
        match communicator {
            Some(communicator) => MESSAGES.insert(message, communicator),
            // The handle may have stood for a message of a communicator that is known.
            None => MESSAGES.remove(message).is_some(),
        };
    });
    code
}

/// The communicator of a message that is about to be received.
unsafe fn communicator_of(message: HandlePtr<Message>) -> Option<CommId> {
    // SAFETY: the application gives a message. MPI refuses a null pointer.
    let handle = (!message.is_null()).then(|| unsafe { message.handle() });
    let communicator = handle.and_then(|handle| MESSAGES.get(abi::bits(handle)));
    if communicator.is_none() {
        world::not_seen(NotSeen::UnknownCommunicator);
    }
    communicator
}

/// `MPI_Mrecv`.
///
/// # Safety
/// See [`matched_probe`].
pub unsafe fn receive_matched(
    operation: Operation,
    message: HandlePtr<Message>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    // SAFETY: the application's message is valid.
    let find = |_: &RecordedCall| unsafe { communicator_of(message) };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { record_call_with_status(operation, find, status, make, note_received) }
}

/// Counts a receive by its status.
fn note_received(recorder: &Recorder, made: &ReturnedCall, status: *const Status) {
    let mut bytes = 0;
    if made.succeeded() {
        // SAFETY: the call succeeded, so it filled the status.
        let status = unsafe { read_status(status) };
        bytes = received_bytes(&status);
        if let Some(slot) = recorder.received(made.communicator, status.MPI_SOURCE, bytes) {
            recorder.note(StepKind::Received, slot, bytes, status.MPI_TAG);
        }
    } else if is_truncation(made.code) {
        count_truncated(recorder, made.communicator, Some(status));
    }
    made.count(recorder, bytes, bytes);
}

/// `MPI_Imrecv`.
///
/// # Safety
/// See [`matched_probe`].
pub unsafe fn start_receive_matched<C: CountArgument>(
    operation: Operation,
    message: HandlePtr<Message>,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the application's message is valid.
    let find = |_: &RecordedCall| unsafe { communicator_of(message) };
    record_call(RecordedCall::if_recording(), operation, find, make, |recorder, made| {
        let room = if made.succeeded() { block.bytes() } else { 0 };
        let sample = made.count(recorder, room, 0);
        // SAFETY: a call that succeeded has stored it there.
        unsafe { made.add_request(request, RequestKind::Receive, sample, room) };
    })
}
