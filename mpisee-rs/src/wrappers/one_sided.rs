//! One-sided communication (MPI 4.1, chapter 12), on the communicator on which the window was made.

use crate::mpi::abi::{Comm, Op, Raw, Request, Win, constant};
use crate::mpi::argument::HandlePtr;
use crate::recording::volume::{Block, CountArgument};
use crate::recording::{RecordedCall, Recorder, ReturnedCall, record_call};
use crate::state::handles::WINDOWS;
use crate::state::request::RequestKind;
use mpisee_profile::Operation;
use mpisee_profile::rows::Access;
use std::ffi::c_int;

/// `MPI_Win_create` and its like.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function
/// below.
pub unsafe fn create_window(
    operation: Operation,
    comm: Raw<Comm>,
    win: HandlePtr<Win>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { WINDOWS.create(operation, comm, win, make) }
}

/// `MPI_Win_free`.
///
/// # Safety
/// See [`create_window`].
pub unsafe fn free_window(operation: Operation, win: HandlePtr<Win>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { WINDOWS.free(operation, win, make) }
}

/// A call on a window that counts with its time alone: synchronisation.
///
/// # Safety
/// See [`create_window`].
#[inline]
pub unsafe fn on_window(operation: Operation, win: Raw<Win>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { WINDOWS.plain(operation, win, make) }
}

/// An access to the memory of `target`: a put, a get, or an accumulation of `block`.
///
/// # Safety
/// See [`create_window`].
#[inline]
pub unsafe fn access<C: CountArgument>(
    operation: Operation,
    win: Raw<Win>,
    target: c_int,
    block: Block<C>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    count(operation, win, target, |_| block.bytes(), make)
}

/// `MPI_Get_accumulate`.
///
/// # Safety
/// See [`create_window`].
pub unsafe fn access_and_get<C: CountArgument>(
    operation: Operation,
    win: Raw<Win>,
    target: c_int,
    op: Raw<Op>,
    origin: Block<C>,
    result: Block<C>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    count(operation, win, target, |recorder| accumulated(recorder, op, origin, result), make)
}

/// An access that goes on after the call, as `request`.
///
/// # Safety
/// See [`create_window`].
pub unsafe fn start_access<C: CountArgument>(
    operation: Operation,
    win: Raw<Win>,
    target: c_int,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { start(operation, win, target, |_| block.bytes(), request, make) }
}

/// `MPI_Rget_accumulate`.
///
/// # Safety
/// See [`create_window`].
#[expect(clippy::too_many_arguments, reason = "the standard's signature has more")]
pub unsafe fn start_access_and_get<C: CountArgument>(
    operation: Operation,
    win: Raw<Win>,
    target: c_int,
    op: Raw<Op>,
    origin: Block<C>,
    result: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let bytes = |recorder: &Recorder| accumulated(recorder, op, origin, result);
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { start(operation, win, target, bytes, request, make) }
}

/// Bytes accumulated; with `MPI_NO_OP`, which only fetches, the origin's arguments are ignored.
fn accumulated<C: CountArgument>(
    recorder: &Recorder,
    op: Raw<Op>,
    origin: Block<C>,
    result: Block<C>,
) -> u64 {
    if op.get() == recorder.world.predefined.no_op { result.bytes() } else { origin.bytes() }
}

/// The bytes of an operation on the memory of another process; `None` if the call failed.
#[inline]
fn bytes_at_target(
    recorder: &Recorder,
    made: &ReturnedCall,
    target: c_int,
    bytes: impl FnOnce(&Recorder) -> u64,
) -> Option<u64> {
    (made.succeeded() && target != constant::PROC_NULL).then(|| bytes(recorder))
}

/// Counts the operation at its target.
#[inline]
fn count_at_target(recorder: &Recorder, made: &ReturnedCall, target: c_int, bytes: Option<u64>) {
    if let Some((access, bytes)) = Access::from_operation(made.operation).zip(bytes) {
        recorder.count_access(made.communicator, access, target, bytes);
    }
}

#[inline]
fn count(
    operation: Operation,
    win: Raw<Win>,
    target: c_int,
    bytes: impl FnOnce(&Recorder) -> u64,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_call(
        RecordedCall::if_recording(),
        operation,
        |_| WINDOWS.communicator_of(win),
        make,
        |recorder, made| {
            let known = bytes_at_target(recorder, made, target, bytes);
            let bytes = known.unwrap_or(0);
            made.count(recorder, bytes, bytes);
            count_at_target(recorder, made, target, known);
        },
    )
}

/// An access that goes on after the call, as `request`.
///
/// # Safety
/// `make` makes the application's call, which stores its request there.
unsafe fn start(
    operation: Operation,
    win: Raw<Win>,
    target: c_int,
    bytes: impl FnOnce(&Recorder) -> u64,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_call(
        RecordedCall::if_recording(),
        operation,
        |_| WINDOWS.communicator_of(win),
        make,
        |recorder, made| {
            let known = bytes_at_target(recorder, made, target, bytes);
            let bytes = known.unwrap_or(0);
            let sample = made.count(recorder, bytes, bytes);
            count_at_target(recorder, made, target, known);
            // SAFETY: a call that succeeded has stored it there.
            unsafe { made.add_request(request, RequestKind::Access, sample, bytes) };
        },
    )
}
