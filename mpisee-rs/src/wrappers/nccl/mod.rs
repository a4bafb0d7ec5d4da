//! The calls of NCCL's functions, as `libmpisee_nccl.so` hands them over.
//!
//! A call returns when its work is in the stream, so that its time is the host's alone. Calls in a
//! group are handed to the GPU when the outermost one ends: its time is split equally among the
//! communicators of the calls in it, and communicators that were made in it exist from then on.

mod creation;
mod group;
mod pending;

use crate::binaries::{apart, objects, stack_room};
use crate::naming::nccl as naming;
use crate::recording::gpu_time::{self, Timing, Work};
use crate::recording::{RecordedCall, Recorder, buffers, paths};
use crate::state::gpu::devices;
use crate::state::nccl::{NCCL, NcclComm};
use crate::state::{process, sites, thread, world};
use crate::storage::frame::{self, CalledFrom, ExportFrame};
use crate::wrappers::lifecycle;
use group::{Group, GroupCall, Message, in_group};
use mpisee_in_process::guards::{cancellation, errno};
use mpisee_profile::nccl::{
    Comm, IN_PROGRESS, Make, Meaning, NcclCall, Pair, Peer, SUCCESS, Stream, UNKNOWN_DEVICE, Volume,
    interface,
};
use mpisee_profile::segment::key::PeerKey;
use mpisee_profile::segment::{NotSeen, SlotKey, awaited};
use mpisee_profile::{CommId, CommRank, Operation, Ticks};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// The interface of this library, see [`interface`].
#[unsafe(no_mangle)]
pub extern "C" fn mpisee_nccl_interface() -> u64 {
    interface()
}

/// Makes a call and counts it.
///
/// # Safety
/// The call is described as the program made it, and `make` is for this data.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mpisee_nccl_call(
    call: *const NcclCall,
    make: Make,
    data: *mut c_void,
) -> c_int {
    // SAFETY: it points to a description of the program's call.
    let call = unsafe { &*call };
    BETWEEN.get_or_init(|| objects::object_at(make as usize).map_or(0..0, |object| object.range));
    let make = || make(data);
    if call.meaning.creates() {
        let (_errno, _not_cancelled) = (errno::keep(), cancellation::hold());
        // A thread waits while another one begins the profile, so that what both make is counted.
        let place = place_in(&call.meaning);
        apart::with_stack(stack_room::OF_BEGIN, move || lifecycle::start_without_mpi(place));
    }
    if !process::is_tracking() {
        // The segment's memory is shared with a forked process.
        if process::is_forked() && Operation::from_index(u64::from(call.operation)).is_some() {
            world::not_seen(NotSeen::ForkedProcess);
        }
        let code = make();
        group::note_depth(&call.meaning, code);
        return code;
    }
    // NCCL's and MPI's own calls inside of one of the program's are not counted.
    if thread::is_inside_around(frame::pointer()) {
        if let Meaning::End { comm } = call.meaning {
            // Another one may get its handle.
            world::guarded(|| world::world().into_iter().for_each(|world| naming::free(world, key(comm))));
        }
        return make();
    }
    buffers::note(call.buffers);
    let operation = Operation::from_index(u64::from(call.operation));
    match (call.meaning, operation) {
        (Meaning::GroupStart, _) => group::start(make),
        (Meaning::Poll { comm, state }, _) => poll(comm, state, make),
        (Meaning::GroupSimulateEnd, _) => group::simulate_end(make),
        (Meaning::GroupEnd, Some(operation)) => group::end(call, operation, make),
        (Meaning::Communicate { comm, volume, with, stream }, Some(operation)) => {
            on_comm(call, operation, comm, Some(Moves { volume, with, stream }), make)
        }
        (Meaning::OnComm { comm }, Some(operation)) => on_comm(call, operation, comm, None, make),
        (Meaning::End { comm }, Some(operation)) => end(call, operation, comm, make),
        (meaning, Some(operation)) => creation::create(call, operation, &meaning, make),
        (_, None) => make(),
    }
}

/// Rank and size of the communicator that a call makes, where the process has one rank in it:
/// several are made in a group, or, by the program that was started, one in each thread.
fn place_in(meaning: &Meaning) -> Option<(u32, u32)> {
    let &Meaning::CreateFromIds { size, rank, .. } = meaning else { return None };
    let place =
        Some((u32::try_from(rank).ok()?, u32::try_from(size).ok()?)).filter(|(rank, size)| rank < size);
    place.filter(|_| group::is_outside())
}

/// Data that a call moves.
struct Moves {
    volume: Volume,
    with: Peer,
    /// The stream that does it.
    stream: Stream,
}

/// A call on a communicator, with what it moves.
fn on_comm(
    call: &NcclCall,
    operation: Operation,
    comm: Comm,
    moves: Option<Moves>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(recorded) = RecordedCall::if_recording().filter(|_| !comm.is_null()) else {
        in_group(Group::miss_call);
        return make();
    };
    let Some(mut known) = pending::known(&recorded, call, comm) else {
        // Its work may be in the stream of others in the group.
        in_group(Group::miss_call);
        world::not_seen(NotSeen::UnknownCommunicator);
        return recorded.make_uncounted(operation, make);
    };
    // In a group the work begins when that ends.
    let is_at_once = group::is_outside();
    let timing = moves.as_ref().filter(|_| is_at_once && known.id != CommId::NONE);
    let timing = timing.and_then(|moves| Timing::begin(call, comm, moves.stream));
    // Of a communicator that does not block NCCL says nothing while it is in the call.
    let is_message = moves.as_ref().is_some_and(|moves| moves.with != Peer::None);
    let device = if is_message && !NCCL.has_device(&known) {
        let _errno = errno::keep();
        (call.device)(comm)
    } else {
        UNKNOWN_DEVICE
    };
    let (code, ticks) = time(&recorded, operation, known.id, make);
    record(&recorded, |recorder| {
        if known.id == CommId::NONE {
            known = pending::finish(recorder.world, call, comm).unwrap_or(known);
        }
        if known.id == CommId::NONE {
            in_group(Group::miss_call);
            return world::not_seen(NotSeen::UnknownCommunicator);
        }
        let moves = moves.filter(|_| is_made(code));
        let (message, bytes) = bytes(&known, moves.as_ref());
        let counted = recorder.counted_call(known.id, operation, message, bytes, ticks);
        let path = path(recorder, known.id, operation);
        let with = moves.as_ref().map_or(Peer::None, |moves| moves.with);
        let ends = message_with(&known, with, bytes);
        if device >= 0 && NCCL.set_device(&known) {
            devices::note_nccl_rank(recorder.world, known.id, CommRank::new(known.rank), device);
        }
        let counted = GroupCall { counted, path, message: ends };
        let work = Work { comm: known.id, region: recorder.region(), operation, message, bytes };
        end_timing(recorder, timing, work, code);
        if is_at_once {
            return counted.count(recorder);
        }
        in_group(|group| {
            group.add(known.id);
            group.add_call(counted);
            if let Some(moves) = moves.filter(|_| gpu_time::is_on()) {
                group.add_work(comm, moves.stream, work);
            }
        });
    });
    code
}

/// A call that asks for the state of a communicator.
fn poll(comm: Comm, state: *const c_int, make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    // SAFETY: a call that succeeded has written the state.
    if code == SUCCESS && unsafe { *state } == SUCCESS {
        pending::polled(comm);
    }
    code
}

/// The path of the call, see [`paths::of_nccl_call`].
fn path(recorder: &Recorder, comm: CommId, operation: Operation) -> Option<SlotKey> {
    paths::of_nccl_call(recorder, comm, operation, recorder.export.as_ref()?)
}

/// Counts a call with its time alone, and its path, while recording is on.
fn count_time(recorder: &Recorder, comm: CommId, operation: Operation, ticks: Ticks) {
    if comm == CommId::NONE {
        world::not_seen(NotSeen::UnknownCommunicator);
    } else if process::is_recording() {
        let counted = recorder.counted_call(comm, operation, 0, 0, ticks);
        GroupCall { counted, path: path(recorder, comm, operation), message: None }.count(recorder);
    }
}

/// The bytes of the message of a call, and of what this process records of it.
fn bytes(comm: &NcclComm, moves: Option<&Moves>) -> (u64, u64) {
    // SAFETY: the program passes as many counts as the communicator has ranks.
    match moves.map(|moves| unsafe { moves.volume.bytes(comm.rank, comm.size) }) {
        Some(Some(bytes)) => bytes,
        Some(None) => {
            world::not_seen(NotSeen::UnknownSize);
            (0, 0)
        }
        None => (0, 0),
    }
}

/// Ends the measurement of a call that has returned.
fn end_timing(recorder: &Recorder, timing: Option<Timing>, work: Work, code: c_int) {
    if let Some(timing) = timing {
        // Of a communicator that does not block NCCL puts the work into the stream later.
        timing.end(recorder, work, code == SUCCESS);
    }
}

/// A message by its ends.
fn message_with(comm: &NcclComm, with: Peer, bytes: u64) -> Option<Message> {
    let (Peer::To(peer) | Peer::From(peer)) = with else { return None };
    let pair = u32::try_from(peer).ok().and_then(|peer| Pair { own: comm.rank, peer }.pack());
    let Some(peer) = pair else {
        world::not_seen(NotSeen::NoRoom);
        return None;
    };
    let key = PeerKey { communicator: comm.id, peer }.pack();
    Some(Message { key, bytes, is_sent: matches!(with, Peer::To(_)) })
}

/// A call that ends a communicator. Afterwards another thread may get its handle for a new one.
fn end(call: &NcclCall, operation: Operation, comm: Comm, make: impl FnOnce() -> c_int) -> c_int {
    let Some(recorded) = RecordedCall::if_tracking().filter(|_| !comm.is_null()) else { return make() };
    let Some(mut known) = pending::known(&recorded, call, comm) else {
        world::not_seen(NotSeen::UnknownCommunicator);
        return recorded.make_uncounted(operation, make);
    };
    if known.id == CommId::NONE {
        record(&recorded, |recorder| known = pending::finish(recorder.world, call, comm).unwrap_or(known));
    }
    recorded.record(|recorder| naming::free(recorder.world, key(comm)));
    let (code, ticks) = time(&recorded, operation, known.id, make);
    record(&recorded, |recorder| {
        count_time(recorder, known.id, operation, ticks);
        if gpu_time::is_on() {
            gpu_time::end_of_communicator(recorder, comm);
        }
    });
    code
}

/// Makes a call to NCCL, as [`RecordedCall::time`] one to MPI.
fn time(
    recorded: &RecordedCall,
    operation: Operation,
    comm: CommId,
    make: impl FnOnce() -> c_int,
) -> (c_int, Ticks) {
    // SAFETY: it is the frame pointer of this function, or of one into which it is inlined.
    let export = unsafe { sites::export_frame(frame::pointer()) }.and_then(|frame| in_program(&frame));
    let caller = export.map_or(0, |frame| frame.returns_to);
    let from = CalledFrom { frame: frame::pointer(), caller };
    recorded.time_from(from, operation, comm, awaited::UNKNOWN, make)
}

/// Runs the recording code, which counts the call at the place from which the program has called
/// NCCL.
fn record(call: &RecordedCall, note: impl FnOnce(&Recorder)) {
    // The driver and NCCL, which are asked for more, may set the one, and files, which are read,
    // are where a thread may be cancelled.
    let (_errno, _not_cancelled) = (errno::keep(), cancellation::hold());
    call.record(|&Recorder { thread, world, export }| {
        note(&Recorder { thread, world, export: export.and_then(|frame| in_program(&frame)) });
    });
}

/// The addresses of `libmpisee_nccl.so`, which calls this library; empty until it has.
static BETWEEN: OnceLock<Range<usize>> = OnceLock::new();

/// The frame of the function of `libmpisee_nccl.so` that the program has called, from that of the
/// function of this library; `None` where it is not known.
fn in_program(own: &ExportFrame) -> Option<ExportFrame> {
    let between = BETWEEN.get()?;
    if !between.contains(&(own.returns_to as usize)) {
        return None;
    }
    // SAFETY: the call returns to a function of `libmpisee_nccl.so`, whose frame pointer this is:
    // its build script refuses to build it without frame pointers, too, so that each of its frames
    // begins with that of its caller and the address to which it returns.
    unsafe { ExportFrame::leaving(own.outer, between) }
}

fn is_made(code: c_int) -> bool {
    [SUCCESS, IN_PROGRESS].contains(&code)
}

fn key(comm: Comm) -> u64 {
    comm.addr() as u64
}
