//! Point-to-point communication and probes.

use super::completion::count_on;
use super::volume::{Block, Number};
use crate::abi::{Comm, Raw, Request, STATUS_IGNORE, Status, constant, received_bytes};
use crate::argument::Place;
use crate::process::{self, REQUESTS};
use crate::record::{Call, Recorder};
use crate::request::{Kind, Started};
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The bytes that a send of `block` to `dest` moves, if the call succeeded.
#[inline]
fn sent_bytes<C: Number>(code: c_int, dest: c_int, block: Block<C>) -> u64 {
    if code != constant::SUCCESS || dest == constant::PROC_NULL { 0 } else { block.bytes() }
}

/// The bytes for which a receive from `source` offers room.
#[inline]
fn room<C: Number>(code: c_int, source: c_int, block: Block<C>) -> u64 {
    if code != constant::SUCCESS || source == constant::PROC_NULL { 0 } else { block.bytes() }
}

/// A blocking send.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every meaning below.
#[inline]
pub unsafe fn send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let bytes = sent_bytes(code, dest, block);
        recorder.count(communicator, operation, bytes, bytes, ticks);
        if code == constant::SUCCESS {
            recorder.sent(communicator, dest, 1, bytes);
        }
    });
    code
}

/// A blocking receive. The status says what came, also when the application ignores it.
///
/// # Safety
/// See [`send`].
#[inline]
pub unsafe fn receive(
    operation: Operation,
    comm: Raw<Comm>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make(status) };
    let Some(communicator) = call.number_of(comm) else {
        return call.unseen(operation, || make(status));
    };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE { own.as_mut_ptr() } else { status };
    let (code, ticks) = call.time(operation, communicator, || make(status));
    call.record(|recorder| {
        // SAFETY: the call that succeeded has filled the status.
        let bytes = unsafe { note_received(recorder, communicator, code, status) };
        recorder.count(communicator, operation, bytes, bytes, ticks);
    });
    code
}

/// A send and a receive in one; the sum of both directions counts.
///
/// # Safety
/// See [`send`].
#[inline]
pub unsafe fn send_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make(status) };
    let Some(communicator) = call.number_of(comm) else {
        return call.unseen(operation, || make(status));
    };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE { own.as_mut_ptr() } else { status };
    let (code, ticks) = call.time(operation, communicator, || make(status));
    call.record(|recorder| {
        let mut bytes = 0;
        if code == constant::SUCCESS {
            // SAFETY: the call that succeeded has filled the status.
            // One of Fortran is aligned as an integer is.
            let status = unsafe { status.read_unaligned() };
            let (sent, received) = (sent_bytes(code, dest, block), received_bytes(&status));
            recorder.exchanged(communicator, dest, sent, status.MPI_SOURCE, received);
            bytes = sent + received;
        }
        recorder.count(communicator, operation, bytes, bytes, ticks);
    });
    code
}

/// Counts the message that `status` speaks of, if the call succeeded, and returns its bytes.
unsafe fn note_received(recorder: &Recorder, communicator: u32, code: c_int, status: *const Status) -> u64 {
    if code != constant::SUCCESS {
        return 0;
    }
    // SAFETY: the caller's promise. A status of Fortran is aligned as an integer is.
    let status = unsafe { status.read_unaligned() };
    let bytes = received_bytes(&status);
    recorder.received(communicator, status.MPI_SOURCE, bytes);
    bytes
}

/// A call that counts with its time alone: a probe.
///
/// # Safety
/// See [`send`].
#[inline]
pub unsafe fn plain(operation: Operation, comm: Raw<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        recorder.count(communicator, operation, 0, 0, ticks);
    });
    code
}

/// A call that counts with its time alone, and goes on as `request`.
///
/// # Safety
/// See [`send`].
pub unsafe fn start_plain(
    operation: Operation,
    comm: Raw<Comm>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let counted = recorder.count(communicator, operation, 0, 0, ticks);
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { REQUESTS.add(request, || Started::once(Kind::Collective, counted, 0)) };
        }
    });
    code
}

/// A send that goes on after the call, as `request`.
///
/// # Safety
/// See [`send`].
#[inline]
pub unsafe fn start_send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let bytes = sent_bytes(code, dest, block);
        let counted = recorder.count(communicator, operation, bytes, bytes, ticks);
        if code == constant::SUCCESS {
            recorder.sent(communicator, dest, 1, bytes);
            let started = || Started { peer: dest, ..Started::once(Kind::Send, counted, bytes) };
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { REQUESTS.add(request, started) };
        }
    });
    code
}

/// A receive that goes on after the call, as `request`. Until the message is known the call is classed by
/// the room that it offers.
///
/// # Safety
/// See [`send`].
#[inline]
pub unsafe fn start_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    block: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let room = room(code, source, block);
        let counted = recorder.count(communicator, operation, room, 0, ticks);
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { REQUESTS.add(request, || Started::once(Kind::Receive, counted, room)) };
        }
    });
    code
}

/// A send and a receive in one that go on after the call, as one `request`, whose status is the receive's.
///
/// # Safety
/// See [`send`].
#[expect(clippy::too_many_arguments, reason = "it has those of two operations")]
pub unsafe fn start_send_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    send: Block<C>,
    source: c_int,
    receive: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let sent = sent_bytes(code, dest, send);
        let message = sent + room(code, source, receive);
        let counted = recorder.count(communicator, operation, message, sent, ticks);
        if code == constant::SUCCESS {
            recorder.sent(communicator, dest, 1, sent);
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { REQUESTS.add(request, || Started::once(Kind::SendReceive, counted, message)) };
        }
    });
    code
}

/// A persistent send is made, to be started later.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let bytes = sent_bytes(code, dest, block);
        // SAFETY: the caller's promise.
        unsafe { prepare(recorder, operation, communicator, Kind::Send, dest, bytes, request, code, ticks) };
    });
    code
}

/// A persistent receive is made, to be started later.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    block: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let room = room(code, source, block);
        let peer = constant::PROC_NULL;
        // SAFETY: the caller's promise.
        unsafe {
            prepare(recorder, operation, communicator, Kind::Receive, peer, room, request, code, ticks)
        };
    });
    code
}

/// A send in `partitions` of `block` is made, to be started later (MPI 4.1, chapter 4). Each start has all of it.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_partitioned_send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    partitions: c_int,
    block: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let bytes = sent_bytes(code, dest, block).wrapping_mul(partitions.number());
        // SAFETY: the caller's promise.
        unsafe { prepare(recorder, operation, communicator, Kind::Send, dest, bytes, request, code, ticks) };
    });
    code
}

/// A receive in `partitions` of `block` is made, to be started later.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_partitioned_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    partitions: c_int,
    block: Block<C>,
    request: Place<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let Some(communicator) = call.number_of(comm) else { return call.unseen(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        let room = room(code, source, block).wrapping_mul(partitions.number());
        let peer = constant::PROC_NULL;
        // SAFETY: the caller's promise.
        unsafe {
            prepare(recorder, operation, communicator, Kind::Receive, peer, room, request, code, ticks)
        };
    });
    code
}

/// A call about a persistent request that counts with its time alone: a partition is ready, or has it arrived.
///
/// # Safety
/// See [`send`].
pub unsafe fn on_request(operation: Operation, request: Raw<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = Call::counted() else { return make() };
    let Some((_, started)) = REQUESTS.persistent(request.get()) else {
        process::not_seen(NotSeen::UnknownRequest);
        return call.unseen(operation, make);
    };
    let communicator = started.counted.communicator();
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| count_on(recorder, operation, communicator, ticks));
    code
}

/// The making of a persistent request counts with no bytes; each start has those of its message.
///
/// # Safety
/// `request` is where the call, which has ended with `code`, stores its request.
#[expect(clippy::too_many_arguments, reason = "the shared tail of two functions")]
unsafe fn prepare(
    recorder: &Recorder,
    operation: Operation,
    communicator: u32,
    kind: Kind,
    peer: c_int,
    message: u64,
    request: Place<Request>,
    code: c_int,
    ticks: u64,
) {
    if process::is_recording() {
        recorder.count(communicator, operation, 0, 0, ticks);
    }
    if code == constant::SUCCESS {
        let template = recorder.counted(communicator, operation, message, 0, 0);
        let at_start = if kind == Kind::Send { message } else { 0 };
        let started = Started { peer, ..Started::persistent(kind, template, message, at_start) };
        // SAFETY: the call succeeded, so it stored a request.
        unsafe { REQUESTS.add(request, || started) };
    }
}
