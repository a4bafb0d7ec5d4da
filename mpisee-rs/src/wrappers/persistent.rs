//! `MPI_Start` and `MPI_Startall`: persistent requests become active.

use crate::mpi::abi::{Request, constant};
use crate::mpi::argument::HandlePtr;
use crate::recording::{Call, Recorder};
use crate::state::process;
use crate::state::request::REQUESTS;
use crate::state::request::{Kind, RequestState};
use crate::state::world;
use crate::storage::table::Found;
use crate::wrappers::completion::settling::shares;
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::active_call::UNKNOWN;
use std::ffi::c_int;

/// `MPI_Start` (MPI 4.1, 3.9): the bytes of a persistent operation are counted here.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn start(request: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { start_many(Operation::Start, 1, request, make) }
}

/// `MPI_Startall`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn startall(count: c_int, requests: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { start_many(Operation::Startall, count, requests, make) }
}

unsafe fn start_many(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::if_tracking() else { return make() };
    let count = if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    // SAFETY: the array has `count` requests.
    let handle = |at| unsafe { requests.at(at).handle() };
    let mut before: Vec<Request> = Vec::new();
    if before.try_reserve_exact(count).is_ok() {
        before.extend((0..count).map(handle));
    }
    let first = before.first().and_then(|&first| REQUESTS.persistent(first));
    let communicator = first.map_or(UNKNOWN, |(_, started)| started.sample.communicator());
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| {
        if code != constant::SUCCESS {
            return;
        }
        let mut opened = Vec::new();
        for at in 0..count {
            let request = handle(at);
            // While a buffered message is on its way, Open MPI starts another request in place of the persistent one.
            if let Some(&old) = before.get(at)
                && old != request
            {
                REQUESTS.rename(old, request);
            }
            match REQUESTS.persistent(request) {
                Some(found) => opened.push(found),
                None if process::is_recording() => world::not_seen(NotSeen::UnknownRequest),
                None => {}
            }
        }
        if process::is_recording() {
            note_opened(recorder, operation, &opened, ticks);
        } else {
            for (found, started) in &opened {
                REQUESTS.change(found, RequestState { active: true, recorded: false, ..*started });
            }
        }
    });
    code
}

/// Counts one call on each communicator of the requests, its time split equally among them, and the bytes that they
/// contribute. Receives add their bytes to the same rows when they complete.
fn note_opened(
    recorder: &Recorder,
    operation: Operation,
    opened: &[(Found<RequestState>, RequestState)],
    ticks: u64,
) {
    let mut communicators: Vec<u32> =
        opened.iter().map(|(_, started)| started.sample.communicator()).collect();
    communicators.sort_unstable();
    communicators.dedup();
    for (&communicator, ticks) in communicators.iter().zip(shares(communicators.len(), ticks)) {
        let here = || opened.iter().filter(move |(_, started)| started.sample.communicator() == communicator);
        let message: u64 = here().map(|(_, started)| started.message).sum();
        let bytes: u64 = here().map(|(_, started)| started.at_start).sum();
        let sample = recorder.count(communicator, operation, message, bytes, ticks);
        for (found, template) in here() {
            if template.kind == Kind::Send {
                recorder.sent(communicator, template.peer, 1, template.message);
            }
            // The size class can follow the message that arrives only if the call started nothing else on the
            // communicator.
            let reclassed = here().count() == 1;
            REQUESTS
                .change(found, RequestState { active: true, recorded: true, reclassed, sample, ..*template });
        }
    }
}
