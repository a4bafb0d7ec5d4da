//! Point-to-point communication and probes.

use super::completion::settling::{count_truncated, is_truncation};
use crate::mpi::abi::{Comm, Raw, Request, STATUS_IGNORE, Status, constant, read_status, received_bytes};
use crate::mpi::argument::HandlePtr;
use crate::recording::cached_counter::rarely;
use crate::recording::comm_call::{CommCall, NO_SPREAD, Uncounted, call_uncounted, record_on, spread};
use crate::recording::polls::{self, RepeatedPoll};
use crate::recording::streams;
use crate::recording::volume::{Block, CountArgument};
use crate::recording::{RecordedCall, Recorder, record_call};
use crate::state::cached_call::Envelope;
use crate::state::communicator::CommRef;
use crate::state::counted_call::CountedCall;
use crate::state::order;
use crate::state::request::REQUESTS;
use crate::state::request::{RequestKind, RequestState};
use crate::state::{process, thread, world};
use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{Operation, Ticks};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The bytes that a send of `block` to `peer` moves, or the size of a receive buffer; 0 if the call
/// failed or `peer` is `MPI_PROC_NULL`.
#[inline(always)]
fn bytes_of<C: CountArgument>(code: c_int, peer: c_int, block: Block<C>) -> u64 {
    if code != constant::SUCCESS || peer == constant::PROC_NULL { 0 } else { block.bytes() }
}

/// A blocking send.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function
/// below.
#[inline(always)]
pub unsafe fn send<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    tag: c_int,
    block: Block<C>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let to = Envelope::new(dest, tag);
    let Some(call) = CommCall::begin(operation, comm, spread(to)) else {
        return make_uncounted(operation, comm, to, MessageEnd::Sent, make);
    };
    let (code, ticks) = call.time_message(to, make);
    let bytes = bytes_of(code, dest, block);
    call.count(bytes, bytes, ticks);
    if code == constant::SUCCESS {
        call.sent(to, bytes, 1);
    }
    code
}

/// Makes a call that sends or posts a receive, and is not counted.
#[inline(always)]
fn make_uncounted(
    operation: Operation,
    comm: Raw<Comm>,
    ends: Envelope,
    end: MessageEnd,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let uncounted = Uncounted::begin(operation, comm, spread(ends));
    let code = make();
    pass(&uncounted, code, comm, ends, end);
    code
}

/// A call that sends or posts a receive, and is not counted, has returned. While recording is off,
/// its message counts in its stream; one that a callback of the program makes is missing there.
#[cold]
#[inline(never)]
fn pass(uncounted: &Uncounted, code: c_int, comm: Raw<Comm>, ends: Envelope, end: MessageEnd) {
    match uncounted {
        _ if code != constant::SUCCESS => {}
        Uncounted::Off(call) => call.pass(ends, end),
        Uncounted::Passed if process::is_tracking() => {
            rarely(|_| streams::miss(comm.get(), end, ends));
        }
        Uncounted::Passed | Uncounted::Unseen { .. } => {}
    }
}

/// A blocking receive. The bytes that arrived are in the status, also when the application ignores
/// it.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn receive(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let asked = Envelope::new(source, tag);
    let mut own = MaybeUninit::<Status>::uninit();
    let Some(call) = CommCall::begin(operation, comm, spread(asked)) else {
        let uncounted = Uncounted::begin(operation, comm, spread(asked));
        if !uncounted.is_tracked() {
            return make(status);
        }
        let status = own_if_ignored(status, &mut own);
        let code = make(status);
        pass_received(&uncounted, code, comm, status);
        return code;
    };
    let status = own_if_ignored(status, &mut own);
    let (code, ticks) = call.time_message(asked, || make(status));
    if code != constant::SUCCESS {
        note_failed_receive(&call, code, status);
        call.count(0, 0, ticks);
        return code;
    }
    // SAFETY: the call succeeded, so it filled the status.
    let status = unsafe { read_status(status) };
    let bytes = received_bytes(&status);
    call.count(bytes, bytes, ticks);
    // Last, since it may take the place of the cached call.
    call.received(source, ends_of(&status), bytes, 1);
    code
}

/// As [`pass`] for a blocking receive. Where it came from is in the status.
#[cold]
#[inline(never)]
fn pass_received(uncounted: &Uncounted, code: c_int, comm: Raw<Comm>, status: *const Status) {
    if code != constant::SUCCESS {
        // A message that was truncated is taken.
        if process::is_tracking() {
            rarely(|_| streams::miss(comm.get(), MessageEnd::Received, Envelope::any()));
        }
        return;
    }
    // SAFETY: the call succeeded, so it filled the status.
    let from = ends_of(&unsafe { read_status(status) });
    match uncounted {
        Uncounted::Off(call) => call.pass_received(from),
        Uncounted::Passed if process::is_tracking() => {
            rarely(|_| streams::miss(comm.get(), MessageEnd::Received, from));
        }
        Uncounted::Passed | Uncounted::Unseen { .. } => {}
    }
}

/// The status for the call: the application's, or `own` if it ignores it.
#[inline(always)]
fn own_if_ignored(status: *mut Status, own: &mut MaybeUninit<Status>) -> *mut Status {
    if status == STATUS_IGNORE { own.as_mut_ptr() } else { status }
}

/// Where a message came from, and its tag.
#[inline(always)]
fn ends_of(status: &Status) -> Envelope {
    Envelope::new(status.MPI_SOURCE, status.MPI_TAG)
}

/// Counts what a receive that failed took. True if it was truncated.
#[cold]
#[inline(never)]
fn note_failed_receive(call: &CommCall, code: c_int, status: *const Status) -> bool {
    let count = |recorder: &Recorder| {
        let is_truncated = is_truncation(code);
        if is_truncated {
            count_truncated(recorder, call.id(), Some(status));
            // Not every MPI says which message it was.
            streams::unorder(call.id(), MessageEnd::Received, Envelope::any());
        }
        is_truncated
    };
    rarely(count).unwrap_or(false)
}

/// A send and a receive in one. The bytes of both directions count, in the size class of the
/// message that is sent.
///
/// # Safety
/// See [`send`].
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "it has those of two operations")]
pub unsafe fn send_receive<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    tag: c_int,
    block: Block<C>,
    source: c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let to = Envelope::new(dest, tag);
    let mut own = MaybeUninit::<Status>::uninit();
    let Some(call) = CommCall::begin(operation, comm, spread(to)) else {
        let uncounted = Uncounted::begin(operation, comm, spread(to));
        if !uncounted.is_tracked() {
            return make(status);
        }
        let status = own_if_ignored(status, &mut own);
        let code = make(status);
        pass(&uncounted, code, comm, to, MessageEnd::Sent);
        pass_received(&uncounted, code, comm, status);
        return code;
    };
    let status = own_if_ignored(status, &mut own);
    let (code, ticks) = call.time_both(to, source, || make(status));
    if code != constant::SUCCESS {
        let mut bytes = 0;
        if note_failed_receive(&call, code, status) {
            // The send succeeds even if the receive is truncated.
            bytes = bytes_of(constant::SUCCESS, dest, block);
            call.sent(to, bytes, 1);
        }
        call.count(bytes, bytes, ticks);
        return code;
    }
    // SAFETY: the call succeeded, so it filled the status.
    let status = unsafe { read_status(status) };
    let (sent, received) = (bytes_of(code, dest, block), received_bytes(&status));
    let is_process = |rank| u32::from(rank != constant::PROC_NULL);
    let together = is_process(dest) + is_process(source);
    call.count(sent, sent + received, ticks);
    call.sent(to, sent, together);
    // Last, since it may take the place of the cached call.
    call.received_beside(ends_of(&status), received, together);
    code
}

/// A probe, which counts with its time alone.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn probe(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    make: impl Fn() -> c_int + Copy,
) -> c_int {
    let Some(call) = CommCall::begin(operation, comm, NO_SPREAD) else {
        let copied = make;
        return call_uncounted(operation, comm, NO_SPREAD, &copied);
    };
    let (code, ticks) = call.time_message(Envelope::new(source, tag), make);
    call.count(0, 0, ticks);
    code
}

/// `MPI_Iprobe`, which programs repeat until it finds a message.
///
/// # Safety
/// See [`send`]. A call that succeeds writes the flag.
#[inline(always)]
pub unsafe fn immediate_probe(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    flag: *const c_int,
    make: impl Fn() -> c_int + Copy,
) -> c_int {
    let ends = Envelope::new(source, tag);
    // SAFETY: a call that succeeds writes the flag.
    let found_none = |code| code == constant::SUCCESS && unsafe { *flag } == 0;
    if let Some(poll) = RepeatedPoll::begin(polls::poll_for_message(operation, comm.get(), ends), |_| true) {
        let code = poll.make(make);
        if found_none(code) {
            poll.found_nothing();
        } else {
            poll.end_run();
        }
        return code;
    }
    let Some(call) = CommCall::begin(operation, comm, NO_SPREAD) else {
        let copied = make;
        return call_uncounted(operation, comm, NO_SPREAD, &copied);
    };
    let (code, ticks) = call.time_message(ends, make);
    if order::is_on() && !found_none(code) {
        thread::own().into_iter().for_each(|thread| order::note_found(&thread.order));
    }
    call.count(0, 0, ticks);
    if polls::is_called_by_program() {
        let id = polls::poll_for_message(operation, comm.get(), ends);
        call.note_poll(id, ends, found_none(code), ticks);
    }
    code
}

/// A call that counts with its time alone.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn plain(operation: Operation, comm: Raw<Comm>, make: impl Fn() -> c_int + Copy) -> c_int {
    record_on(operation, comm, NO_SPREAD, make, |call, _, ticks| {
        call.count(0, 0, ticks);
    })
}

/// A call that counts with its time alone, and goes on as `request`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn start_plain(
    operation: Operation,
    comm: Raw<Comm>,
    request: HandlePtr<Request>,
    make: impl Fn() -> c_int + Copy,
) -> c_int {
    record_on(operation, comm, NO_SPREAD, make, |call, code, ticks| {
        let counted = call.count(0, 0, ticks);
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { call.add_request(request, RequestKind::Collective, constant::PROC_NULL, counted, 0) };
        }
    })
}

/// A nonblocking send, completed by `request`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn start_send<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    tag: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let to = Envelope::new(dest, tag);
    let Some(call) = CommCall::begin(operation, comm, spread(to)) else {
        return make_uncounted(operation, comm, to, MessageEnd::Sent, make);
    };
    let (code, ticks) = call.time_message(to, make);
    let bytes = bytes_of(code, dest, block);
    let counted = call.count(bytes, bytes, ticks);
    if code == constant::SUCCESS {
        let message = call.starts_to_send(to, bytes);
        // SAFETY: the call succeeded, so it stored a request.
        unsafe { call.add_request(request, RequestKind::Send, dest, counted, bytes) };
        if let Some(message) = message {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { call.keep_later(message, request, bytes) };
        }
    }
    code
}

/// A nonblocking receive, completed by `request`. Until the message arrives, the size class is that
/// of the receive buffer.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn start_receive<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let from = Envelope::new(source, tag);
    let Some(call) = CommCall::begin(operation, comm, spread(from)) else {
        return make_uncounted(operation, comm, from, MessageEnd::Received, make);
    };
    let (code, ticks) = call.time_message(from, make);
    let room = bytes_of(code, source, block);
    let counted = call.count(room, 0, ticks);
    if code == constant::SUCCESS {
        let message = call.posted(from);
        // SAFETY: the call succeeded, so it stored a request.
        unsafe { call.add_request(request, RequestKind::Receive, source, counted, room) };
        if let Some(message) = message {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { call.keep_later(message, request, 0) };
        }
    }
    code
}

/// A nonblocking send and receive, completed by one `request`, whose status is that of the receive.
/// As [`send_receive`], it stays in the size class of the message that is sent.
///
/// # Safety
/// See [`send`].
#[expect(clippy::too_many_arguments, reason = "it has those of two operations")]
pub unsafe fn start_send_receive<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    send_tag: c_int,
    send: Block<C>,
    source: c_int,
    receive_tag: c_int,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let (to, from) = (Envelope::new(dest, send_tag), Envelope::new(source, receive_tag));
    let Some(call) = CommCall::begin(operation, comm, spread(to)) else {
        let uncounted = Uncounted::begin(operation, comm, spread(to));
        let code = make();
        if let Some(call) = uncounted.off().filter(|_| code == constant::SUCCESS) {
            call.pass(to, MessageEnd::Sent);
            call.pass_received(from);
        }
        return code;
    };
    let (code, ticks) = call.time_both(to, source, make);
    let sent = bytes_of(code, dest, send);
    let counted = call.count(sent, sent, ticks);
    if code == constant::SUCCESS {
        // No sample of it is kept, since its request completes both.
        let _ = call.starts_to_send(to, sent);
        call.pass_received(from);
        // With nobody to receive from it is a send.
        let (kind, peer) = match source {
            constant::PROC_NULL => (RequestKind::Send, dest),
            _ => (RequestKind::SendReceive, constant::PROC_NULL),
        };
        // SAFETY: the call succeeded, so it stored a request.
        unsafe { call.add_request(request, kind, peer, counted, sent) };
    }
    code
}

/// Creates a persistent send.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_send<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    tag: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let started = |recorder: &Recorder, known: &CommRef, template, bytes| RequestState {
        peer: dest,
        counted_by: streams::find_number(recorder, &known.get(), MessageEnd::Sent, Envelope::new(dest, tag)),
        ..RequestState::persistent(RequestKind::Send, template, bytes, bytes)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { prepare(operation, comm, (dest, 1, block), request, make, started) }
}

/// Creates a persistent receive.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_receive<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    tag: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let from = Envelope::new(source, tag);
    let started = |recorder: &Recorder, known: &CommRef, template, room| RequestState {
        peer: source,
        counted_by: streams::find_number(recorder, &known.get(), MessageEnd::Received, from),
        ..RequestState::persistent(RequestKind::Receive, template, room, 0)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { prepare(operation, comm, (source, 1, block), request, make, started) }
}

/// Creates a partitioned send of `partitions` blocks (MPI 4.1, chapter 4). The creating call counts
/// no bytes; each start counts all of them.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_partitioned_send<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    partitions: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let started = |_: &Recorder, _: &CommRef, template, bytes| RequestState {
        peer: dest,
        ..RequestState::persistent(RequestKind::Send, template, bytes, bytes)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { prepare(operation, comm, (dest, partitions, block), request, make, started) }
}

/// Creates a partitioned receive of `partitions` blocks.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_partitioned_receive<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    partitions: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let started = |_: &Recorder, _: &CommRef, template, room| {
        RequestState::persistent(RequestKind::Receive, template, room, 0)
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { prepare(operation, comm, (source, partitions, block), request, make, started) }
}

/// Creates a persistent request for `partitions` blocks to or from a peer; `started` gets the bytes
/// of all of them. Partitioned messages are matched apart from others (MPI 4.1, 4.2) and belong to
/// no stream.
///
/// # Safety
/// See [`send`].
unsafe fn prepare<C: CountArgument>(
    operation: Operation,
    comm: Raw<Comm>,
    (peer, partitions, block): (c_int, c_int, Block<C>),
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
    started: impl FnOnce(&Recorder, &CommRef, CountedCall, u64) -> RequestState,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let Some(known) = call.communicator(comm) else { return call.make_uncounted(operation, make) };
    let id = known.id();
    let (code, ticks) = call.time(operation, id, make);
    call.record(|recorder| {
        recorder.count_time(id, operation, ticks);
        let bytes = bytes_of(code, peer, block).wrapping_mul(partitions.number());
        let template = recorder.counted_call(id, operation, bytes, 0, Ticks::ZERO);
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { REQUESTS.add_persistent(request, started(recorder, &known, template, bytes)) };
        }
    });
    code
}

/// A call on a persistent request of which only the time is counted: `MPI_Pready`, `MPI_Parrived`
/// and their variants.
///
/// # Safety
/// See [`send`].
pub unsafe fn on_request(operation: Operation, request: Raw<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let find = |_: &RecordedCall| {
        let started = REQUESTS.persistent(request.get()).map(|(_, started)| started);
        if started.is_none() {
            world::not_seen(NotSeen::UnknownRequest);
        }
        started.map(|started| started.counted.communicator())
    };
    record_call(RecordedCall::if_recording(), operation, find, make, |recorder, made| {
        made.count_time(recorder)
    })
}
