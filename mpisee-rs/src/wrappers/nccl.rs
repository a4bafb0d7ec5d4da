//! The calls of NCCL's functions, as `libmpisee_nccl.so` hands them over.
//!
//! A call returns when its work is in the stream, so that its time is the host's alone. Calls in a group are handed to the GPU
//! when the outermost one ends: its time is split equally among the communicators of the calls in it, and communicators that
//! were made in it exist from then on.

use crate::binaries::objects;
use crate::naming::nccl as naming;
use crate::recording::gpu_time::{self, Timing, Work};
use crate::recording::{RecordedCall, Recorder, buffers};
use crate::state::buffers::look_for_driver;
use crate::state::nccl::{Creation, NCCL, NcclComm};
use crate::state::sites;
use crate::state::world::{self, World};
use crate::state::{devices, process, thread};
use crate::storage::frame::{self, CalledFrom, ExportFrame};
use crate::wrappers::lifecycle;
use mpisee_profile::nccl::{
    Comm, IN_PROGRESS, Make, Meaning, NcclCall, Pair, Peer, SUCCESS, Stream, Volume, interface,
};
use mpisee_profile::segment::key::PeerKey;
use mpisee_profile::segment::{NotSeen, awaited};
use mpisee_profile::{CommId, Operation, Ticks};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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
        // A thread waits while another one begins the profile, so that what both make is counted.
        lifecycle::start_without_mpi(place_in(&call.meaning));
    }
    if !process::is_tracking() {
        let code = make();
        note_depth(&call.meaning, code);
        return code;
    }
    // NCCL's and MPI's own calls inside of one of the program's are not counted.
    if thread::is_inside() {
        return make();
    }
    buffers::note(call.buffers);
    let operation = Operation::from_index(u64::from(call.operation));
    match (call.meaning, operation) {
        (Meaning::GroupStart, _) => group_start(make),
        (Meaning::GroupEnd, Some(operation)) => group_end(call, operation, make),
        (Meaning::Communicate { comm, volume, with, stream }, Some(operation)) => {
            on_comm(call, operation, comm, Some(Moves { volume, with, stream }), make)
        }
        (Meaning::OnComm { comm }, Some(operation)) => on_comm(call, operation, comm, None, make),
        (Meaning::End { comm }, Some(operation)) => end(operation, comm, make),
        (meaning, Some(operation)) => create(call, operation, &meaning, make),
        (_, None) => make(),
    }
}

/// Rank and size of the communicator that a call makes, where the process has one rank in it: several are made in a group, or, by the
/// program that was started, one in each thread.
fn place_in(meaning: &Meaning) -> Option<(u32, u32)> {
    let &Meaning::CreateFromIds { size, rank, .. } = meaning else { return None };
    let place =
        Some((u32::try_from(rank).ok()?, u32::try_from(size).ok()?)).filter(|(rank, size)| rank < size);
    place.filter(|_| in_group(|group| group.depth) == Some(0))
}

/// Data that a call moves.
struct Moves {
    volume: Volume,
    with: Peer,
    /// The stream that does it.
    stream: Stream,
}

/// Communicators of the calls in the thread's group, and those that it makes.
#[derive(Default)]
struct Group {
    depth: u32,
    comms: Vec<CommId>,
    pending: Vec<Pending>,
    /// The work of each communicator in it, where the GPU's time is measured.
    work: Vec<GroupWork>,
}

/// The calls of a group on a communicator, all of which are done at once. NCCL has their streams wait for each other, so that one
/// of them has the time of all.
struct GroupWork {
    comm: Comm,
    stream: Stream,
    work: Work,
    calls: u32,
}

impl GroupWork {
    /// A single call is counted as what it is.
    fn whole(&self, group_end: Operation) -> Work {
        match self.calls {
            1 => self.work,
            _ => Work { operation: group_end, message: self.work.bytes, ..self.work },
        }
    }
}

impl Group {
    fn add(&mut self, comm: CommId) {
        if self.depth > 0 && comm != CommId::NONE && !self.comms.contains(&comm) {
            self.comms.push(comm);
        }
    }

    fn add_work(&mut self, comm: Comm, stream: Stream, work: Work) {
        match self.work.iter_mut().find(|known| known.comm == comm) {
            Some(known) => {
                known.calls += 1;
                known.work.bytes = known.work.bytes.saturating_add(work.bytes);
            }
            None => self.work.push(GroupWork { comm, stream, work, calls: 1 }),
        }
    }
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Changes the thread's group; `None` at the end of a thread, whose group is gone.
fn in_group<R>(change: impl FnOnce(&mut Group) -> R) -> Option<R> {
    GROUP.try_with(|group| group.try_borrow_mut().ok().map(|mut group| change(&mut group))).ok().flatten()
}

/// A creating call, whose communicator may come to exist later.
struct Pending {
    new: *const Comm,
    creation: Creation,
    /// Rank and size, where the call says them.
    known: Option<(u32, u32)>,
    /// The call, if it is to be counted on what it made, and its frame.
    made: Option<(Operation, Ticks, Option<ExportFrame>)>,
}

/// Follows groups while nothing is recorded: what a call in one makes is there when the group ends, if recording begins with that call.
fn note_depth(meaning: &Meaning, code: c_int) {
    match meaning {
        Meaning::GroupStart if code == SUCCESS => {
            in_group(|group| group.depth += 1);
        }
        Meaning::GroupEnd => {
            in_group(|group| group.depth = group.depth.saturating_sub(1));
        }
        _ => {}
    }
}

fn group_start(make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    if code == SUCCESS {
        in_group(|group| group.depth += 1);
    }
    code
}

fn group_end(call: &NcclCall, operation: Operation, make: impl FnOnce() -> c_int) -> c_int {
    let ended = in_group(|group| {
        group.depth = group.depth.saturating_sub(1);
        (group.depth == 0).then(|| std::mem::take(group))
    });
    let Some(Group { mut comms, pending, work, .. }) = ended.flatten() else { return make() };
    let Some(recorded) = RecordedCall::if_tracking() else { return make() };
    let shown = comms.first().copied().unwrap_or(CommId::NONE);
    let timings: Vec<_> = work.iter().map(|it| Timing::begin(call, it.comm, it.stream)).collect();
    let (code, ticks) = time(&recorded, operation, shown, make);
    record(&recorded, |recorder| {
        for (timing, it) in timings.into_iter().zip(&work) {
            end_timing(recorder, timing, it.whole(operation), code);
        }
        for pending in pending.into_iter().filter(|_| is_made(code)) {
            let made = enter(recorder, call, &pending);
            if pending.known.is_some() && made != CommId::NONE && !comms.contains(&made) {
                comms.push(made);
            }
        }
        let count = comms.len() as u64;
        for (at, &comm) in comms.iter().enumerate() {
            // The parts add up to the time.
            let part = ticks.get() / count + u64::from((at as u64) < ticks.get() % count);
            recorder.count_time(comm, operation, Ticks::new(part));
        }
    });
    code
}

/// A call on a communicator, with what it moves.
fn on_comm(
    call: &NcclCall,
    operation: Operation,
    comm: Comm,
    moves: Option<Moves>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(recorded) = RecordedCall::if_recording().filter(|_| !comm.is_null()) else { return make() };
    let Some(mut known) = NCCL.get(key(comm)) else {
        world::not_seen(NotSeen::UnknownCommunicator);
        return recorded.make_uncounted(operation, make);
    };
    // In a group the work begins when that ends.
    let is_at_once = in_group(|group| group.depth) == Some(0);
    let timing = moves.as_ref().filter(|_| is_at_once && known.id != CommId::NONE);
    let timing = timing.and_then(|moves| Timing::begin(call, comm, moves.stream));
    let (code, ticks) = time(&recorded, operation, known.id, make);
    record(&recorded, |recorder| {
        if known.id == CommId::NONE {
            known = finish(recorder.world, call, comm).unwrap_or(known);
        }
        let moves = moves.filter(|_| is_made(code));
        let volume = moves.as_ref().map(|moves| moves.volume.bytes(known.rank, known.size));
        let (message, bytes) = match volume {
            Some(Some(bytes)) => bytes,
            Some(None) => {
                world::not_seen(NotSeen::UnknownSize);
                (0, 0)
            }
            None => (0, 0),
        };
        if known.id == CommId::NONE {
            return world::not_seen(NotSeen::UnknownCommunicator);
        }
        recorder.count(known.id, operation, message, bytes, ticks);
        count_message(recorder, &known, moves.as_ref().map_or(Peer::None, |moves| moves.with), bytes);
        let work = Work { comm: known.id, operation, message, bytes };
        end_timing(recorder, timing, work, code);
        in_group(|group| {
            group.add(known.id);
            if let Some(moves) = moves.filter(|_| group.depth > 0 && gpu_time::is_on()) {
                group.add_work(comm, moves.stream, work);
            }
        });
    });
    code
}

/// Ends the measurement of a call that has returned, and looks which earlier ones the GPU has done.
fn end_timing(recorder: &Recorder, timing: Option<Timing>, work: Work, code: c_int) {
    if let Some(timing) = timing {
        // Of a communicator that does not block NCCL puts the work into the stream later.
        timing.end(recorder, work, code == SUCCESS);
        gpu_time::take_some(recorder);
    }
}

/// Counts a message by its ends.
fn count_message(recorder: &Recorder, comm: &NcclComm, with: Peer, bytes: u64) {
    let (Peer::To(peer) | Peer::From(peer)) = with else { return };
    let pair = u32::try_from(peer).ok().and_then(|peer| Pair { own: comm.rank, peer }.pack());
    let Some(pair) = pair else { return world::not_seen(NotSeen::NoRoom) };
    let key = PeerKey { communicator: comm.id, peer: pair }.pack();
    match with {
        Peer::To(_) => recorder.count_sent(key, 1, bytes),
        _ => recorder.count_received(key, bytes),
    }
}

/// A call that ends a communicator. Afterwards another thread may get its handle for a new one.
fn end(operation: Operation, comm: Comm, make: impl FnOnce() -> c_int) -> c_int {
    let Some(recorded) = RecordedCall::if_tracking().filter(|_| !comm.is_null()) else { return make() };
    let Some(known) = NCCL.get(key(comm)) else {
        world::not_seen(NotSeen::UnknownCommunicator);
        return recorded.make_uncounted(operation, make);
    };
    recorded.record(|recorder| naming::free(recorder.world, key(comm)));
    let (code, ticks) = time(&recorded, operation, known.id, make);
    record(&recorded, |recorder| {
        recorder.count_time(known.id, operation, ticks);
        if gpu_time::is_on() {
            // All that was asked of this communicator is done.
            gpu_time::take_all(recorder);
            if NCCL.is_empty() {
                gpu_time::end(recorder);
            }
        }
    });
    code
}

/// Communicators at whose making the devices are looked at: by then the process has chosen its own.
const MOST_NOTED: u32 = 8;
static NOTED: AtomicU32 = AtomicU32::new(0);

/// A call that makes communicators.
fn create(call: &NcclCall, operation: Operation, meaning: &Meaning, make: impl FnOnce() -> c_int) -> c_int {
    let Some(recorded) = RecordedCall::if_tracking() else { return make() };
    let mut begun = None;
    recorded.record(|recorder| begun = describe(recorder.world, operation, meaning));
    let Some(Begun { on, pending }) = begun else {
        world::not_seen(NotSeen::UnknownCommunicator);
        return recorded.make_uncounted(operation, make);
    };
    let (code, ticks) = time(&recorded, operation, on.unwrap_or(CommId::NONE), make);
    // NCCL has the driver, and the buffers that follow are likely in a GPU's memory.
    look_for_driver();
    record(&recorded, |recorder| {
        if process::is_without_mpi() && NOTED.fetch_add(1, Ordering::Relaxed) < MOST_NOTED {
            // MPI's end, at which this is done else, does not come.
            devices::note(recorder.world);
        }
        if let Some(parent) = on {
            recorder.count_time(parent, operation, ticks);
        }
        // Of a call that failed NCCL may not have stored anything.
        let mut pending = if is_made(code) { pending } else { Vec::new() };
        if on.is_none()
            && let Some(first) = pending.first_mut()
        {
            first.made = Some((operation, ticks, recorder.export));
        }
        in_group(|group| {
            if group.depth > 0 {
                if let Some(parent) = on {
                    group.add(parent);
                }
                group.pending.append(&mut pending);
            }
        });
        for pending in &pending {
            enter(recorder, call, pending);
        }
    });
    code
}

/// A creating call before it is made.
struct Begun {
    /// The parent; `None` if it has none.
    on: Option<CommId>,
    pending: Vec<Pending>,
}

/// Describes a creating call, and numbers it; `None` if its parent is unknown.
fn describe(world: &World, operation: Operation, meaning: &Meaning) -> Option<Begun> {
    let number = |count: c_int| u32::try_from(count).unwrap_or(0);
    let alone = |new, creation, known| Pending { new, creation, known, made: None };
    Some(match *meaning {
        Meaning::CreateFromIds { new, ids, count, size, rank } => {
            let bytes = mpisee_profile::nccl::ID_BYTES * number(count) as usize;
            // SAFETY: the program passes as many ids as it says.
            let ids = if ids.is_null() { &[] } else { unsafe { slice::from_raw_parts(ids, bytes) } };
            let creation = naming::from_ids(operation, ids);
            Begun { on: None, pending: vec![alone(new, creation, Some((number(rank), number(size))))] }
        }
        Meaning::CreateAll { new, size } => {
            let size = number(size);
            let creation = naming::from_devices(operation, world, NCCL.number(0, b'u', 0));
            let each =
                (0..size).map(|rank| alone(new.wrapping_add(rank as usize), creation, Some((rank, size))));
            Begun { on: None, pending: each.collect() }
        }
        Meaning::Split { comm, color, new } => {
            let parent = NCCL.get(key(comm)).filter(|parent| parent.id != CommId::NONE)?;
            let n = NCCL.number(key(comm), b's', 0);
            let part = u32::try_from(color).ok();
            let creation = Creation { parent: Some(parent.id), letter: b's', n, part, code: 0, operation };
            let made = part.map(|_| alone(new, creation, None));
            Begun { on: Some(parent.id), pending: made.into_iter().collect() }
        }
        Meaning::Shrink { comm, excluded, count, new } => {
            let parent = NCCL.get(key(comm)).filter(|parent| parent.id != CommId::NONE)?;
            let is_none = excluded.is_null() || count <= 0;
            let ranks = match is_none {
                true => &[],
                // SAFETY: the program passes as many ranks as it says.
                false => unsafe { slice::from_raw_parts(excluded, count as usize) },
            };
            let code = naming::of_excluded(ranks);
            let n = NCCL.number(key(comm), b'k', code);
            let creation = Creation { parent: Some(parent.id), letter: b'k', n, part: None, code, operation };
            Begun { on: Some(parent.id), pending: vec![alone(new, creation, None)] }
        }
        _ => return None,
    })
}

/// Enters a communicator that a call has made; returns its number.
fn enter(recorder: &Recorder, call: &NcclCall, pending: &Pending) -> CommId {
    if pending.new.is_null() {
        return CommId::NONE;
    }
    // SAFETY: the creating call has returned, and its group has ended, so that NCCL has stored the communicator.
    let comm = unsafe { *pending.new };
    if comm.is_null() {
        return CommId::NONE;
    }
    let Some((rank, size)) = pending.known.or_else(|| query(call, comm)) else {
        NCCL.postpone(key(comm), pending.creation);
        return CommId::NONE;
    };
    let id = naming::enter(recorder.world, key(comm), pending.creation, rank, size);
    if let Some((operation, ticks, export)) = pending.made {
        Recorder { export, ..*recorder }.count_time(id, operation, ticks);
    }
    id
}

/// Enters a communicator whose size NCCL did not have at first.
fn finish(world: &World, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let (rank, size) = query(call, comm)?;
    let creation = NCCL.take_postponed(key(comm))?;
    naming::enter(world, key(comm), creation, rank, size);
    NCCL.get(key(comm))
}

/// Rank and size of a communicator, if NCCL has them already.
fn query(call: &NcclCall, comm: Comm) -> Option<(u32, u32)> {
    let (mut size, mut rank) = (-1, -1);
    let code = (call.query)(comm, &raw mut size, &raw mut rank);
    Some((u32::try_from(rank).ok()?, u32::try_from(size).ok()?)).filter(|_| code == SUCCESS)
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

/// Runs the recording code, which counts the call at the place from which the program has called NCCL.
fn record(call: &RecordedCall, note: impl FnOnce(&Recorder)) {
    call.record(|&Recorder { thread, world, export }| {
        note(&Recorder { thread, world, export: export.and_then(|frame| in_program(&frame)) });
    });
}

/// The addresses of `libmpisee_nccl.so`, which calls this library; empty until it has.
static BETWEEN: OnceLock<Range<usize>> = OnceLock::new();

/// The frame of the function of `libmpisee_nccl.so` that the program has called, from that of the function of this library; `None` where it
/// is not known.
fn in_program(own: &ExportFrame) -> Option<ExportFrame> {
    let between = BETWEEN.get()?;
    if !between.contains(&(own.returns_to as usize)) {
        return None;
    }
    // SAFETY: the call returns to a function of `libmpisee_nccl.so`, whose frame pointer this is: its build script refuses to build it without
    // frame pointers, too, so that each of its frames begins with that of its caller and the address to which it returns.
    unsafe { ExportFrame::leaving(own.outer, between) }
}

fn is_made(code: c_int) -> bool {
    [SUCCESS, IN_PROGRESS].contains(&code)
}

fn key(comm: Comm) -> u64 {
    comm.addr() as u64
}
