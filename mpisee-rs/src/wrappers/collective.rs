//! Collective operations.

use crate::mpi::abi::{Comm, Raw, Request, constant};
use crate::mpi::argument::HandlePtr;
use crate::recording::comm_call::{CommCall, NO_SPREAD, Uncounted};
use crate::recording::volume::Volume;
use crate::recording::{RecordedCall, instances};
use crate::state::communicator::CommShape;
use crate::state::request::REQUESTS;
use crate::state::request::{RequestKind, RequestState};
use mpisee_profile::{Operation, Ticks};
use std::ffi::c_int;

/// A blocking collective operation on `comm`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
#[inline(always)]
pub unsafe fn collective(
    operation: Operation,
    comm: Raw<Comm>,
    volume: impl FnOnce(&CommShape) -> Volume,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = CommCall::begin(operation, comm, NO_SPREAD) else {
        let _uncounted = begin_uncounted(operation, comm);
        return make();
    };
    call.begin_instance();
    let (code, ticks) = call.time(make);
    let volume = volume_if(code, volume, &call);
    call.count(volume.message, volume.bytes, ticks);
    call.end_instance(code == constant::SUCCESS && !volume.is_sparse, volume.root);
    code
}

/// A collective call that is not counted begins. While recording is off, its instance is.
#[cold]
#[inline(never)]
fn begin_uncounted(operation: Operation, comm: Raw<Comm>) -> Uncounted {
    let uncounted = Uncounted::begin(operation, comm, NO_SPREAD);
    if let Some(call) = uncounted.off() {
        call.begin_instance();
    }
    uncounted
}

/// A nonblocking collective operation on `comm`, completed by `request`.
///
/// # Safety
/// As for [`collective`]; `request` is where the call stores the request.
#[inline(always)]
pub unsafe fn start_collective(
    operation: Operation,
    comm: Raw<Comm>,
    volume: impl FnOnce(&CommShape) -> Volume,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = CommCall::begin(operation, comm, NO_SPREAD) else {
        let _uncounted = begin_uncounted(operation, comm);
        return make();
    };
    call.begin_instance();
    let (code, ticks) = call.time(make);
    let volume = volume_if(code, volume, &call);
    let sample = call.count(volume.message, volume.bytes, ticks);
    if code == constant::SUCCESS {
        // SAFETY: the call succeeded, so it stored a request.
        unsafe {
            call.add_request(request, RequestKind::Collective, constant::PROC_NULL, sample, volume.message)
        };
    }
    // SAFETY: the handle is read only if the call succeeded, and so stored a request.
    let stored = || (code == constant::SUCCESS && !volume.is_sparse).then(|| unsafe { request.handle() });
    call.start_instance(stored, volume.root);
    code
}

/// Creates a persistent collective operation on `comm`: the creating call counts no bytes, each
/// start counts those of `volume`.
///
/// # Safety
/// As for [`start_collective`].
pub unsafe fn prepare_collective(
    operation: Operation,
    comm: Raw<Comm>,
    volume: impl FnOnce(&CommShape) -> Volume,
    request: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let Some(known) = call.communicator(comm) else { return call.make_uncounted(operation, make) };
    let id = known.id();
    let mut counted_by = 0;
    call.record(|recorder| {
        counted_by = instances::number_of_request(
            recorder,
            operation,
            id,
            &CommShape::from_communicator(&known.get()),
        );
    });
    let (code, ticks) = call.time(operation, id, make);
    call.record(|recorder| {
        let communicator = known.get();
        recorder.count_time(id, operation, ticks);
        if code == constant::SUCCESS {
            let Volume { message, bytes, root, is_sparse } =
                volume(&CommShape::from_communicator(&communicator));
            let template = recorder.counted_call(id, operation, message, 0, Ticks::ZERO);
            let started = RequestState::persistent(RequestKind::Collective, template, message, bytes);
            let peer = root.and_then(|root| i32::try_from(root).ok()).unwrap_or(constant::PROC_NULL);
            let counted_by = if is_sparse { 0 } else { counted_by };
            let started = RequestState { counted_by, peer, ..started };
            // SAFETY: the call succeeded, so it stored a request.
            unsafe { REQUESTS.add_persistent(request, started) };
        }
    });
    code
}

/// A call that failed communicated nothing.
#[inline(always)]
fn volume_if(code: c_int, volume: impl FnOnce(&CommShape) -> Volume, call: &CommCall) -> Volume {
    if code == constant::SUCCESS { volume(&call.members()) } else { Volume::NOTHING }
}
