//! `MPI_Start` and `MPI_Startall`: persistent requests become active.

use crate::mpi::abi::{Request, constant};
use crate::mpi::argument::HandlePtr;
use crate::recording::{RecordedCall, Recorder, samples, streams, unfinished};
use crate::state::gpu::memory_kind;
use crate::state::order;
use crate::state::process;
use crate::state::request::REQUESTS;
use crate::state::request::{RequestKind, RequestState};
use crate::state::sampled_overhead::LongArray;
use crate::state::scratch::{Opened, Scratch};
use crate::state::{thread, world};
use crate::storage::sync::own_value;
use crate::storage::table::EntryRef;
use crate::wrappers::completion::settling::shares;
use mpisee_profile::segment::{NotSeen, active_call};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;

/// `MPI_Start` (MPI 4.1, 3.9): the bytes of a persistent operation are counted here.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn start(request: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { start_many(Operation::Start, 1, request, make) }
}

/// `MPI_Startall`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn startall(count: c_int, requests: HandlePtr<Request>, make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { start_many(Operation::Startall, count, requests, make) }
}

unsafe fn start_many(
    operation: Operation,
    count: c_int,
    requests: HandlePtr<Request>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let count = if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    let mut measured = LongArray::begin(count);
    // SAFETY: the array has `count` requests.
    let handle = |at| unsafe { requests.at(at).handle() };
    let mut scratch = call.scratch();
    let Scratch { before, opened, .. } = &mut *scratch;
    before.clear();
    if before.try_reserve(count).is_ok() {
        before.extend((0..count).map(handle));
    }
    let first = before.first().and_then(|&first| REQUESTS.persistent(first));
    let communicator = first.map_or(CommId::NONE, |(_, started)| started.counted.communicator());
    if let Some(measured) = &mut measured {
        measured.pause();
    }
    let (code, ticks) = call.time(operation, communicator, make);
    if let Some(measured) = &mut measured {
        measured.go_on();
    }
    call.record(|recorder| {
        if code != constant::SUCCESS {
            return;
        }
        opened.clear();
        let has_room = opened.try_reserve(count).is_ok();
        for at in 0..count {
            let request = handle(at);
            // While a buffered message is on its way, Open MPI starts another request in place of
            // the persistent one.
            if let Some(&old) = before.get(at)
                && old != request
            {
                REQUESTS.rename(old, request);
            }
            match REQUESTS.persistent(request) {
                Some((found, started)) if has_room => {
                    let communicator = started.counted.communicator();
                    opened.push(Opened { found, communicator, unfinished: 0 });
                }
                Some((found, started)) => open_unseen(&found, &started),
                None if process::is_recording() => world::not_seen(NotSeen::UnknownRequest),
                None => {}
            }
        }
        if process::is_recording() {
            if !has_room {
                return world::not_seen(NotSeen::NoRoom);
            }
            note_opened(recorder, operation, opened, ticks);
        } else {
            opened.iter().for_each(|it| open_unseen(&it.found, &template(it)));
        }
    });
    code
}

/// Marks a request as active whose start is not counted, but in its stream.
fn open_unseen(found: &EntryRef<RequestState>, started: &RequestState) {
    if let Some(thread) = thread::own() {
        streams::count_again(thread, samples::numbered(started.counted_by));
    }
    REQUESTS.change(found, RequestState { active: true, recorded: false, doubtful: false, ..*started });
}

/// The entry of a request before its start.
fn template(opened: &Opened) -> RequestState {
    REQUESTS.state(&opened.found)
}

/// Counts one call on each communicator of the requests, its time split equally among them, and the
/// bytes that they contribute. Receives add their bytes to the same rows when they complete.
fn note_opened(recorder: &Recorder, operation: Operation, opened: &mut [Opened], ticks: Ticks) {
    let start = Ticks::new(own_value(&recorder.thread.active_call.values[active_call::SINCE]));
    // They have their numbers in the order in which they are started.
    for it in &mut *opened {
        let template = template(it);
        let slot = samples::numbered(template.counted_by);
        let number = streams::count_again(recorder.thread, slot);
        it.unfinished = unfinished::begin_again(slot, number, &template, start);
    }
    opened.sort_unstable_by_key(|it| it.communicator);
    let by_communicator = || opened.chunk_by(|one, next| one.communicator == next.communicator);
    for (here, ticks) in by_communicator().zip(shares(by_communicator().count(), ticks)) {
        let communicator = here[0].communicator;
        let templates = || here.iter().map(template);
        let message: u64 = templates().map(|template| template.message).sum();
        let bytes: u64 = templates().map(|template| template.at_start).sum();
        memory_kind::note_known(templates().map(|template| template.memory));
        let counted = recorder.count(communicator, operation, message, bytes, ticks);
        // The size class can follow the message that arrives only if the call started nothing else
        // on the communicator.
        let reclassed = here.len() == 1;
        for it in here {
            let template = template(it);
            match template.kind {
                RequestKind::Send => recorder.sent(communicator, template.peer, 1, template.message),
                RequestKind::Collective if order::is_on() => {
                    if let Ok(root) = u32::try_from(template.peer) {
                        order::note_root(&recorder.thread.order, communicator, root);
                    }
                }
                _ => {}
            }
            let unfinished = it.unfinished;
            REQUESTS.change(
                &it.found,
                RequestState { active: true, recorded: true, reclassed, counted, unfinished, ..template },
            );
        }
    }
}
