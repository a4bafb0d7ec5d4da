//! Groups of calls: NCCL begins what is in one when the outermost one ends. Its calls are counted
//! then, since all of them fail with it, and none is made where the program only asks how long it
//! would take.

use super::pending::{self, Pending};
use super::{count_time, end_timing, is_made, record, time};
use crate::recording::gpu_time::{Timing, Work};
use crate::recording::{RecordedCall, Recorder, paths};
use crate::state::counted_call::CountedCall;
use crate::state::world;
use mpisee_profile::nccl::{Comm, Meaning, NcclCall, SUCCESS, Stream};
use mpisee_profile::segment::order::{NO_TAG, StepKind};
use mpisee_profile::segment::{NotSeen, SlotKey};
use mpisee_profile::{CommId, Operation, RegionId, Ticks};
use std::cell::RefCell;
use std::ffi::c_int;
use std::mem::{self, ManuallyDrop};

/// The group in which a thread is.
pub struct Group {
    depth: u32,
    /// True if not all calls in it are known.
    is_partial: bool,
    /// Communicators of the calls in it.
    comms: Vec<CommId>,
    calls: Vec<GroupCall>,
    /// Communicators that calls in it make.
    pending: Vec<Pending>,
    /// The work of each communicator, where the GPU's time is measured.
    work: Vec<GroupWork>,
}

/// A call in a group.
#[derive(Clone, Copy)]
pub struct GroupCall {
    pub counted: CountedCall,
    /// The path by which it came.
    pub path: Option<SlotKey>,
    pub message: Option<Message>,
}

/// A message, as it is counted for its ends.
#[derive(Clone, Copy)]
pub struct Message {
    pub key: SlotKey,
    pub bytes: u64,
    pub is_sent: bool,
}

impl GroupCall {
    pub fn count(&self, recorder: &Recorder) {
        if let Some(slot) = recorder.count_call(&self.counted) {
            recorder.note_call(slot, &self.counted);
            if let Some(path) = self.path {
                paths::count(recorder, path, self.counted.ticks);
            }
        }
        match self.message {
            Some(Message { key, bytes, is_sent: true }) => recorder.count_sent(key, 1, bytes),
            Some(Message { key, bytes, is_sent: false }) => {
                if let Some(slot) = recorder.count_received(key, bytes) {
                    recorder.note(StepKind::Received, slot, bytes, NO_TAG);
                }
            }
            None => {}
        }
    }

    /// The call, if it has moved nothing.
    fn without_data(self) -> GroupCall {
        let counted = CountedCall { key: self.counted.key.with_size_class(0), bytes: 0, ..self.counted };
        GroupCall { counted, message: None, ..self }
    }
}

/// The calls of a group on a communicator, all of which are done at once. NCCL has their streams
/// wait for each other, so that one of them has the time of all.
struct GroupWork {
    comm: Comm,
    stream: Stream,
    work: Work,
    calls: u32,
}

impl GroupWork {
    /// A single call is counted as what it is, where the program makes it.
    fn whole(&self, group_end: Operation, region: RegionId) -> Work {
        match self.calls {
            1 => self.work,
            _ => Work { region, operation: group_end, message: self.work.bytes, ..self.work },
        }
    }
}

impl Group {
    const NONE: Group = Group {
        depth: 0,
        is_partial: false,
        comms: Vec::new(),
        calls: Vec::new(),
        pending: Vec::new(),
        work: Vec::new(),
    };

    pub fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// Notes a call that is not recorded.
    pub fn miss_call(&mut self) {
        self.is_partial |= self.is_open();
    }

    /// Adds a communicator on which the time of the group counts.
    pub fn add(&mut self, comm: CommId) {
        if self.is_open() && comm != CommId::NONE && !self.comms.contains(&comm) {
            self.comms.push(comm);
        }
    }

    /// Adds a call.
    pub fn add_call(&mut self, call: GroupCall) {
        self.calls.push(call);
    }

    /// Adds communicators that are there when the group has ended.
    pub fn add_pending(&mut self, mut pending: Vec<Pending>) {
        self.pending.append(&mut pending);
    }

    /// Adds the work of a call whose time is measured.
    pub fn add_work(&mut self, comm: Comm, stream: Stream, work: Work) {
        match self.work.iter_mut().find(|known| known.comm == comm) {
            Some(known) => {
                known.calls += 1;
                known.work.bytes = known.work.bytes.saturating_add(work.bytes);
            }
            None => self.work.push(GroupWork { comm, stream, work, calls: 1 }),
        }
    }

    /// Begins to measure the work of a communicator. That of two in one stream cannot be separated,
    /// nor that of calls which are not recorded.
    fn timing(&self, call: &NcclCall, it: &GroupWork) -> Option<Timing> {
        let in_stream = self.work.iter().filter(|other| other.stream == it.stream).count();
        if self.is_partial || in_stream > 1 {
            return Timing::none();
        }
        Timing::begin(call, it.comm, it.stream)
    }

    /// Leaves a group; all of it, if that was the outermost one.
    fn leave(&mut self) -> Option<Group> {
        self.depth = self.depth.saturating_sub(1);
        (self.depth == 0).then(|| std::mem::replace(self, Group::NONE))
    }
}

thread_local! {
    /// Without a destructor: destructors of the program may call NCCL after any of ours. Mostly it
    /// is empty at the end.
    static GROUP: ManuallyDrop<RefCell<Group>> = const { ManuallyDrop::new(RefCell::new(Group::NONE)) };
}

/// Changes the thread's group.
pub fn in_group<R>(change: impl FnOnce(&mut Group) -> R) -> Option<R> {
    GROUP.with(|group| group.try_borrow_mut().ok().map(|mut group| change(&mut group)))
}

/// Returns whether the thread is in no group.
pub fn is_outside() -> bool {
    in_group(|group| !group.is_open()) != Some(false)
}

/// The number of calls of a group that ends; they count as lost if the thread does not come back.
struct LostUnlessEnded(usize);

impl Drop for LostUnlessEnded {
    fn drop(&mut self) {
        (0..self.0).for_each(|_| world::not_seen(NotSeen::CallLeft));
    }
}

/// Follows groups while nothing is recorded: what a call in one makes is there when the group ends,
/// if recording begins with that call.
pub fn note_depth(meaning: &Meaning, code: c_int) {
    match meaning {
        Meaning::GroupStart if code == SUCCESS => {
            in_group(|group| group.depth += 1);
        }
        Meaning::GroupEnd | Meaning::GroupSimulateEnd => {
            in_group(Group::leave);
        }
        _ => {}
    }
}

pub fn start(make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    note_depth(&Meaning::GroupStart, code);
    code
}

/// A call that ends a group without beginning what is in it.
pub fn simulate_end(make: impl FnOnce() -> c_int) -> c_int {
    in_group(Group::leave);
    make()
}

pub fn end(call: &NcclCall, operation: Operation, make: impl FnOnce() -> c_int) -> c_int {
    let Some(group) = in_group(Group::leave).flatten() else { return make() };
    let Some(recorded) = RecordedCall::if_tracking() else { return make() };
    let shown = group.comms.first().copied().unwrap_or(CommId::NONE);
    let timings: Vec<_> = group.work.iter().map(|it| group.timing(call, it)).collect();
    let lost_unless_ended = LostUnlessEnded(group.calls.len());
    let (code, ticks) = time(&recorded, operation, shown, make);
    mem::forget(lost_unless_ended);
    record(&recorded, |recorder| {
        for (timing, it) in timings.into_iter().zip(&group.work) {
            end_timing(recorder, timing, it.whole(operation, recorder.region()), code);
        }
        for call in &group.calls {
            let is_moved = is_made(code);
            (if is_moved { *call } else { call.without_data() }).count(recorder);
        }
        let mut comms = group.comms;
        for new in group.pending.into_iter().filter(|_| is_made(code)) {
            let is_of_ids = new.announced.known.is_some();
            let made = pending::enter(recorder, call, new, code);
            if is_of_ids && made != CommId::NONE && !comms.contains(&made) {
                comms.push(made);
            }
        }
        let count = comms.len() as u64;
        for (at, &comm) in comms.iter().enumerate() {
            // The parts add up to the time.
            let part = ticks.get() / count + u64::from((at as u64) < ticks.get() % count);
            count_time(recorder, comm, operation, Ticks::new(part));
        }
    });
    code
}
