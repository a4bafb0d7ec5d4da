//! Calls that concern the process rather than a communicator, as `MPI_Buffer_detach`, which waits
//! for the buffered messages on all communicators. They are counted under the name of
//! `MPI_COMM_SELF`, also in a process that has only sessions and no such communicator.

use crate::mpi::abi::Request;
use crate::mpi::argument::HandlePtr;
use crate::recording::{RecordedCall, record_call};
use crate::state::request::RequestKind;
use mpisee_profile::{CommId, Operation};
use std::ffi::c_int;

/// A call that counts with its time alone.
///
/// # Safety
/// `make` makes the application's call.
pub unsafe fn on_process(operation: Operation, make: impl FnOnce() -> c_int) -> c_int {
    record_call(
        RecordedCall::if_recording(),
        operation,
        |_| Some(CommId::SELF),
        make,
        |recorder, made| {
            made.count(recorder, 0, 0);
        },
    )
}

/// A call that counts with its time alone, and goes on as `request`.
///
/// # Safety
/// `make` makes the application's call; `request` is where it stores the request.
pub unsafe fn start_on_process(
    operation: Operation,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_call(
        RecordedCall::if_recording(),
        operation,
        |_| Some(CommId::SELF),
        make,
        |recorder, made| {
            let sample = made.count(recorder, 0, 0);
            // SAFETY: a call that succeeded has stored it there.
            unsafe { made.add_request(request, RequestKind::Local, sample, 0) };
        },
    )
}
