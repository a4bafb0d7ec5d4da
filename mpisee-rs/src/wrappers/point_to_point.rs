//! Point-to-point communication and probes.

use super::completion::settling::{count_truncated, is_truncation};
use crate::mpi::abi::{Comm, Raw, Request, Status, constant, read_status, received_bytes};
use crate::mpi::argument::HandlePtr;
use crate::recording::cached_counter::rarely;
use crate::recording::comm_call::{CommCall, NO_SPREAD, record_on, record_on_with_status};
use crate::recording::volume::{Block, Number};
use crate::recording::{Call, Recorder, record_call};
use crate::state::call_sample::CallSample;
use crate::state::request::REQUESTS;
use crate::state::request::{Kind, RequestState};
use crate::state::world;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{Operation, Ticks};
use std::ffi::c_int;

/// The bytes that a send of `block` to `peer` moves, or the size of a receive buffer; 0 if the call failed or `peer` is
/// `MPI_PROC_NULL`.
#[inline(always)]
fn bytes_of<C: Number>(code: c_int, peer: c_int, block: Block<C>) -> u64 {
    if code != constant::SUCCESS || peer == constant::PROC_NULL { 0 } else { block.bytes() }
}

/// A blocking send.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function below.
#[inline(always)]
pub unsafe fn send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_on(operation, comm, dest, make, |call, code, ticks| {
        let bytes = bytes_of(code, dest, block);
        call.count(bytes, bytes, ticks);
        if code == constant::SUCCESS {
            call.sent(dest, bytes);
        }
    })
}

/// A blocking receive. The bytes that arrived are in the status, also when the application ignores it.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn receive(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let note = |call: &CommCall, code: c_int, ticks, status: *const Status| {
        let mut bytes = 0;
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it filled the status.
            let status = unsafe { read_status(status) };
            bytes = received_bytes(&status);
            call.received(status.MPI_SOURCE, bytes);
        } else {
            note_failed_receive(call, code, status);
        }
        call.count(bytes, bytes, ticks);
    };
    // SAFETY: the caller's promise.
    unsafe { record_on_with_status(operation, comm, source, status, make, note) }
}

/// Counts what a receive that failed took. True if it was truncated.
#[cold]
#[inline(never)]
fn note_failed_receive(call: &CommCall, code: c_int, status: *const Status) -> bool {
    let count = |recorder: &Recorder| {
        let is_truncated = is_truncation(code);
        if is_truncated {
            count_truncated(recorder, call.id(), Some(status));
        }
        is_truncated
    };
    rarely(count).unwrap_or(false)
}

/// A send and a receive in one; the sum of both directions counts.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn send_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let note = |call: &CommCall, code: c_int, ticks, status: *const Status| {
        let mut bytes = 0;
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it filled the status.
            let status = unsafe { read_status(status) };
            let (sent, received) = (bytes_of(code, dest, block), received_bytes(&status));
            call.sent(dest, sent);
            call.received(status.MPI_SOURCE, received);
            bytes = sent + received;
        } else if note_failed_receive(call, code, status) {
            // The send succeeds even if the receive is truncated.
            bytes = bytes_of(constant::SUCCESS, dest, block);
            call.sent(dest, bytes);
        }
        call.count(bytes, bytes, ticks);
    };
    // SAFETY: the caller's promise.
    unsafe { record_on_with_status(operation, comm, dest, status, make, note) }
}

/// A call that counts with its time alone: a probe.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn plain(operation: Operation, comm: Raw<Comm>, make: impl FnOnce() -> c_int) -> c_int {
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
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_on(operation, comm, NO_SPREAD, make, |call, code, ticks| {
        let sample = call.count(0, 0, ticks);
        if code == constant::SUCCESS {
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { call.add_request(request, Kind::Collective, constant::PROC_NULL, sample, 0) };
        }
    })
}

/// A nonblocking send, completed by `request`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn start_send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_on(operation, comm, dest, make, |call, code, ticks| {
        let bytes = bytes_of(code, dest, block);
        let sample = call.count(bytes, bytes, ticks);
        if code == constant::SUCCESS {
            call.sent(dest, bytes);
            // SAFETY: as above.
            unsafe { call.add_request(request, Kind::Send, dest, sample, bytes) };
        }
    })
}

/// A nonblocking receive, completed by `request`. Until the message arrives, the size class is that of the receive
/// buffer.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub unsafe fn start_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_on(operation, comm, source, make, |call, code, ticks| {
        let room = bytes_of(code, source, block);
        let sample = call.count(room, 0, ticks);
        if code == constant::SUCCESS {
            // SAFETY: as above.
            unsafe { call.add_request(request, Kind::Receive, constant::PROC_NULL, sample, room) };
        }
    })
}

/// A nonblocking send and receive, completed by one `request`, whose status is that of the receive.
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
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_on(operation, comm, dest, make, |call, code, ticks| {
        let sent = bytes_of(code, dest, send);
        let message = sent + bytes_of(code, source, receive);
        let sample = call.count(message, sent, ticks);
        if code == constant::SUCCESS {
            call.sent(dest, sent);
            // SAFETY: as above.
            unsafe { call.add_request(request, Kind::SendReceive, constant::PROC_NULL, sample, message) };
        }
    })
}

/// Creates a persistent send.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { prepare_partitioned_send(operation, comm, dest, 1, block, request, make) }
}

/// Creates a persistent receive.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { prepare_partitioned_receive(operation, comm, source, 1, block, request, make) }
}

/// Creates a partitioned send of `partitions` blocks (MPI 4.1, chapter 4). The creating call counts no bytes; each
/// start counts all of them.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_partitioned_send<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    dest: c_int,
    partitions: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let started = |template, bytes| RequestState {
        peer: dest,
        ..RequestState::persistent(Kind::Send, template, bytes, bytes)
    };
    // SAFETY: the caller's promise.
    unsafe { prepare(operation, comm, (dest, partitions, block), request, make, started) }
}

/// Creates a partitioned receive of `partitions` blocks.
///
/// # Safety
/// See [`send`].
pub unsafe fn prepare_partitioned_receive<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    source: c_int,
    partitions: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let started = |template, room| RequestState::persistent(Kind::Receive, template, room, 0);
    // SAFETY: the caller's promise.
    unsafe { prepare(operation, comm, (source, partitions, block), request, make, started) }
}

/// Creates a persistent request for `partitions` blocks to or from a peer; `started` gets the bytes of all of them.
///
/// # Safety
/// See [`send`].
unsafe fn prepare<C: Number>(
    operation: Operation,
    comm: Raw<Comm>,
    (peer, partitions, block): (c_int, c_int, Block<C>),
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
    started: impl FnOnce(CallSample, u64) -> RequestState,
) -> c_int {
    record_call(
        Call::if_tracking(),
        operation,
        |call| call.number_of(comm),
        make,
        |recorder, made| {
            made.count_time(recorder);
            let bytes = bytes_of(made.code, peer, block).wrapping_mul(partitions.number());
            let template = recorder.sample(made.communicator, operation, bytes, 0, Ticks::ZERO);
            if made.succeeded() {
                // SAFETY: the caller's promise.
                unsafe { REQUESTS.add_persistent(request, started(template, bytes)) };
            }
        },
    )
}

/// A call on a persistent request of which only the time is counted: `MPI_Pready`, `MPI_Parrived` and their variants.
///
/// # Safety
/// See [`send`].
pub unsafe fn on_request(operation: Operation, request: Raw<Request>, make: impl FnOnce() -> c_int) -> c_int {
    let find = |_: &Call| {
        let started = REQUESTS.persistent(request.get()).map(|(_, started)| started);
        if started.is_none() {
            world::not_seen(NotSeen::UnknownRequest);
        }
        started.map(|started| started.sample.communicator())
    };
    record_call(Call::if_recording(), operation, find, make, |recorder, made| made.count_time(recorder))
}
