//! Files (MPI 4.1, chapter 14), on the communicator on which they were opened. How much was read or
//! written is in the status, also when the application ignores it.

use crate::mpi::abi::{Comm, File, Raw, Request, Status, read_status, received_bytes};
use crate::mpi::argument::HandlePtr;
use crate::recording::volume::{Block, CountArgument};
use crate::recording::{RecordedCall, Recorder, ReturnedCall, record_call, record_call_with_status};
use crate::state::handles::FILES;
use crate::state::request::RequestKind;
use mpisee_profile::Operation;
use std::ffi::c_int;

/// `MPI_File_open`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function
/// below.
pub unsafe fn open_file(
    operation: Operation,
    comm: Raw<Comm>,
    file: HandlePtr<File>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { FILES.create(operation, comm, file, make) }
}

/// `MPI_File_close`.
///
/// # Safety
/// See [`open_file`].
pub unsafe fn close_file(operation: Operation, file: HandlePtr<File>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { FILES.free(operation, file, make) }
}

/// A call on a file that counts with its time alone.
///
/// # Safety
/// See [`open_file`].
pub unsafe fn on_file(operation: Operation, file: Raw<File>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { FILES.plain(operation, file, make) }
}

/// A read or write that ends with the call.
///
/// # Safety
/// See [`open_file`].
pub unsafe fn transfer(
    operation: Operation,
    file: Raw<File>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
) -> c_int {
    let note = |recorder: &Recorder, made: &ReturnedCall, status: *const Status| {
        // SAFETY: a call that succeeded filled the status.
        let bytes = if made.succeeded() { received_bytes(&unsafe { read_status(status) }) } else { 0 };
        made.count(recorder, bytes, bytes);
    };
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { record_call_with_status(operation, |_| FILES.communicator_of(file), status, make, note) }
}

/// A read or write that goes on after the call, as `request`. Until it is complete it is classed by
/// `block`.
///
/// # Safety
/// See [`open_file`].
pub unsafe fn start_transfer<C: CountArgument>(
    operation: Operation,
    file: Raw<File>,
    block: Block<C>,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    record_call(
        RecordedCall::if_recording(),
        operation,
        |_| FILES.communicator_of(file),
        make,
        |recorder, made| {
            let message = if made.succeeded() { block.bytes() } else { 0 };
            let sample = made.count(recorder, message, 0);
            // SAFETY: a call that succeeded has stored it there.
            unsafe { made.add_request(request, RequestKind::Transfer, sample, message) };
        },
    )
}
