//! Recording: turns an MPI call into counter updates.
//!
//! There are two ways, which count into the same slots: [`comm_call`] and [`cached_counter`] for
//! what programs call most, blocking and nonblocking communication, and the general one,
//! [`RecordedCall`] and [`Recorder`], for everything else.

pub mod buffers;
pub mod cached_counter;
pub mod comm_call;
pub mod gpu_time;
pub mod instances;
pub mod overhead;
pub mod paths;
pub mod polls;
pub mod samples;
pub mod streams;
pub mod unfinished;
pub mod volume;

use crate::mpi::abi::{Comm, Raw, Request, STATUS_IGNORE, Status, constant, from_bits};
use crate::mpi::argument::HandlePtr;
use crate::naming::{self, CreationKind, NumberedCreation, ROWS};
use crate::state::communicator::COMMUNICATORS;
use crate::state::communicator::{CommRef, Communicator};
use crate::state::counted_call::CountedCall;
use crate::state::gpu::memory_kind;
use crate::state::order;
use crate::state::process;
use crate::state::region::REGIONS;
use crate::state::request::{REQUESTS, RequestKind, RequestOrigin};
use crate::state::sites::{self, SITES};
use crate::state::thread::{Borrowed, Inside, Thread};
use crate::state::world::{self, World};
use crate::storage::clock;
use crate::storage::counters::{add, update};
use crate::storage::frame::{self, CalledFrom, ExportFrame};
use crate::storage::hot::HOT;
use mpisee_profile::rows::Access;
use mpisee_profile::segment::layout::{Slot, call, peer, target};
use mpisee_profile::segment::order::{NO_TAG, StepKind};
use mpisee_profile::segment::{
    NotSeen, OneSidedKind, OperationAtSite, PeerKey, SlotKey, TargetKey, active_call, awaited,
};
use mpisee_profile::{CommId, CommRank, Operation, RegionId, Ticks};
use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicU64, Ordering};

/// A call of the application while it is recorded.
pub struct RecordedCall {
    inside: Inside,
}

impl RecordedCall {
    /// Begins to record a call; `None` while recording is off, or if the MPI library itself makes
    /// the call.
    #[inline]
    pub fn if_recording() -> Option<RecordedCall> {
        if process::is_recording() { RecordedCall::new() } else { None }
    }

    /// As [`RecordedCall::if_recording`], also while recording is off: for calls that must be
    /// tracked.
    #[inline]
    pub fn if_tracking() -> Option<RecordedCall> {
        if process::is_tracking() { RecordedCall::new() } else { None }
    }

    /// As [`RecordedCall::if_recording`] for a call that completes requests: also while recording
    /// is off, if requests are open.
    #[inline]
    pub fn if_completing() -> Option<RecordedCall> {
        if process::is_recording() || process::is_tracking() && !REQUESTS.is_empty() {
            RecordedCall::new()
        } else {
            None
        }
    }

    #[inline]
    fn new() -> Option<RecordedCall> {
        Some(RecordedCall { inside: Inside::enter()? })
    }

    /// The communicator with this handle; an unknown one is counted as not seen.
    #[inline]
    pub fn communicator(&self, comm: Raw<Comm>) -> Option<CommRef> {
        let found = self.find(comm.get());
        if found.is_none() {
            world::not_seen(NotSeen::UnknownCommunicator);
        }
        found
    }

    /// Its number, as [`RecordedCall::communicator`].
    #[inline]
    pub fn id_of(&self, comm: Raw<Comm>) -> Option<CommId> {
        self.communicator(comm).map(|known| known.id())
    }

    /// The communicator with this handle, if it is known.
    #[inline]
    pub fn find(&self, comm: Comm) -> Option<CommRef> {
        COMMUNICATORS.known(comm).filter(CommRef::is_logged)
    }

    /// The ordinal of a creating call on its parent.
    pub fn number(&self, parent: Option<&Communicator>, kind: CreationKind) -> NumberedCreation {
        let mut numbered = NumberedCreation::default();
        self.record(|_| {
            if let Some(parent) = parent {
                numbered = naming::number(parent, kind);
            }
        });
        numbered
    }

    /// Makes the call to MPI; returns its result and how long it took. Meanwhile the segment says
    /// that the thread is in `operation` on that communicator.
    #[inline]
    pub fn time<R>(
        &self,
        operation: Operation,
        communicator: CommId,
        call: impl FnOnce() -> R,
    ) -> (R, Ticks) {
        self.time_with(operation, communicator, awaited::UNKNOWN, call)
    }

    /// As [`RecordedCall::time`]; the segment also says with whom the call communicates, by `ends`,
    /// see [`awaited`].
    #[inline(always)]
    pub fn time_with<R>(
        &self,
        operation: Operation,
        communicator: CommId,
        ends: u64,
        call: impl FnOnce() -> R,
    ) -> (R, Ticks) {
        self.time_from(sites::called_from(), operation, communicator, ends, call)
    }

    /// As [`RecordedCall::time_with`], for a call from there.
    #[inline(always)]
    pub fn time_from<R>(
        &self,
        from: CalledFrom,
        operation: Operation,
        communicator: CommId,
        ends: u64,
        call: impl FnOnce() -> R,
    ) -> (R, Ticks) {
        let start = clock::ticks();
        let operation = active_call::CurrentFunction::Operation(operation);
        self.inside.publish(operation, communicator, start, from, ends);
        let result = returning(call);
        let end = self.inside.returned();
        (result, clock::between(start, end))
    }

    /// Makes a call that cannot be recorded. The segment still shows the call that the thread is
    /// in.
    #[inline(always)]
    pub fn make_uncounted<R>(&self, operation: Operation, call: impl FnOnce() -> R) -> R {
        publish_uncounted(&self.inside, operation, sites::called_from());
        call()
    }

    /// `MPI_REQUEST_NULL`.
    #[inline]
    pub fn request_null(&self) -> Request {
        from_bits(HOT.request_null.load(Ordering::Relaxed))
    }

    /// The calling thread's state.
    #[inline]
    pub fn thread(&self) -> &'static Thread {
        self.inside.thread
    }

    /// The thread's scratch buffers.
    pub fn scratch(&self) -> Borrowed {
        self.inside.thread.scratch()
    }

    /// Runs the recording code. A panic in it is counted as not seen, and the application goes on.
    #[inline]
    pub fn record(&self, note: impl FnOnce(&Recorder)) {
        if let Some(world) = world::world() {
            // SAFETY: it is the frame pointer of this function, or of one into which it is inlined.
            let export = unsafe { sites::export_frame(frame::pointer()) };
            world::guarded(|| note(&Recorder { thread: self.inside.thread, world, export }));
        }
    }
}

/// Makes a call. If a C++ exception leaves it, as an error handler may throw one, it is counted as
/// not seen.
#[inline(always)]
fn returning<R>(call: impl FnOnce() -> R) -> R {
    struct Thrown;
    impl Drop for Thrown {
        #[cold]
        fn drop(&mut self) {
            if process::is_recording() {
                world::not_seen(NotSeen::CallLeft);
            }
        }
    }
    let thrown = Thrown;
    let result = call();
    mem::forget(thrown);
    result
}

/// A call that has returned: operation, communicator, return code and time.
pub struct ReturnedCall {
    pub operation: Operation,
    /// Its communicator.
    pub communicator: CommId,
    pub code: c_int,
    pub ticks: Ticks,
}

impl ReturnedCall {
    /// Returns whether it returned `MPI_SUCCESS`.
    #[inline]
    pub fn succeeded(&self) -> bool {
        self.code == constant::SUCCESS
    }

    /// Counts it, as [`Recorder::count`].
    #[inline]
    pub fn count(&self, recorder: &Recorder, message: u64, bytes: u64) -> CountedCall {
        recorder.count(self.communicator, self.operation, message, bytes, self.ticks)
    }

    /// Counts it with its time alone, while recording is on.
    #[inline]
    pub fn count_time(&self, recorder: &Recorder) {
        recorder.count_time(self.communicator, self.operation, self.ticks);
    }

    /// Adds the request that the call has started to the table, if it succeeded.
    ///
    /// # Safety
    /// A call that succeeded has stored its request there.
    #[inline]
    pub unsafe fn add_request(
        &self,
        request: HandlePtr<Request>,
        kind: RequestKind,
        counted: CountedCall,
        message: u64,
    ) {
        // SAFETY: a call that succeeded has stored its request there.
        unsafe { self.add_send(request, kind, counted, message, constant::PROC_NULL) };
    }

    /// As [`ReturnedCall::add_request`], with the destination of a send.
    ///
    /// # Safety
    /// See [`ReturnedCall::add_request`].
    #[inline]
    pub unsafe fn add_send(
        &self,
        request: HandlePtr<Request>,
        kind: RequestKind,
        counted: CountedCall,
        message: u64,
        peer: c_int,
    ) {
        if self.succeeded() {
            // SAFETY: a call that succeeded has stored its request there.
            unsafe { REQUESTS.add(request, RequestOrigin::new(kind, peer), counted, message) };
        }
    }
}

/// Makes the application's call, and passes it to `note` if it is recorded and `find` returns its
/// communicator.
#[inline(always)]
pub fn record_call(
    call: Option<RecordedCall>,
    operation: Operation,
    find: impl FnOnce(&RecordedCall) -> Option<CommId>,
    make: impl FnOnce() -> c_int,
    note: impl FnOnce(&Recorder, &ReturnedCall),
) -> c_int {
    let Some(call) = call else { return make() };
    let Some(communicator) = find(&call) else { return call.make_uncounted(operation, make) };
    let (code, ticks) = call.time(operation, communicator, make);
    call.record(|recorder| note(recorder, &ReturnedCall { operation, communicator, code, ticks }));
    code
}

/// As [`record_call`] for a call whose status shows what arrived. If the application ignores the
/// status, MPI gets one of ours. `note` gets the status, which is filled if the call succeeded.
///
/// # Safety
/// A call that succeeds fills the status that `make` gives it.
#[inline(always)]
pub unsafe fn record_call_with_status(
    operation: Operation,
    find: impl FnOnce(&RecordedCall) -> Option<CommId>,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
    note: impl FnOnce(&Recorder, &ReturnedCall, *const Status),
) -> c_int {
    let Some(call) = RecordedCall::if_recording() else { return make(status) };
    let Some(communicator) = find(&call) else { return call.make_uncounted(operation, || make(status)) };
    let mut own = MaybeUninit::<Status>::uninit();
    let status = if status == STATUS_IGNORE { own.as_mut_ptr() } else { status };
    let (code, ticks) = call.time(operation, communicator, || make(status));
    call.record(|recorder| {
        let made = ReturnedCall { operation, communicator, code, ticks };
        note(recorder, &made, status);
    });
    code
}

#[cold]
#[inline(never)]
fn publish_uncounted(inside: &Inside, operation: Operation, from: CalledFrom) {
    let operation = active_call::CurrentFunction::Operation(operation);
    inside.publish(operation, CommId::NONE, clock::ticks(), from, awaited::UNKNOWN);
}

/// Updates the counters of the calling thread.
pub struct Recorder {
    pub thread: &'static Thread,
    pub world: &'static World,
    /// The frame of the export that the program called; `None` if that is not known, or no call is
    /// counted.
    pub export: Option<ExportFrame>,
}

impl Recorder {
    /// The region in which the program is.
    #[inline]
    pub fn region(&self) -> RegionId {
        REGIONS.current()
    }

    /// Counts a call in the current region, on that communicator, with a message of `message`
    /// bytes of which this process contributes `bytes`; returns it as it was counted.
    #[inline]
    pub fn count(
        &self,
        communicator: CommId,
        operation: Operation,
        message: u64,
        bytes: u64,
        ticks: Ticks,
    ) -> CountedCall {
        let counted = self.counted_call(communicator, operation, message, bytes, ticks);
        // Without room for its row a call is on no path either.
        if let Some(slot) = self.count_call(&counted)
            && HOT.is_slow(ticks)
        {
            self.slow(slot, &counted, communicator, operation);
        }
        counted
    }

    /// A call was slow, or the order is kept.
    #[cold]
    #[inline(never)]
    fn slow(&self, slot: &Slot, counted: &CountedCall, communicator: CommId, operation: Operation) {
        self.note_call(slot, counted);
        if let Some(export) = &self.export {
            paths::slow_call(self, communicator, operation, counted.ticks, export);
        }
    }

    /// Notes a call that was counted in that slot, where the order is kept.
    pub fn note_call(&self, slot: &Slot, counted: &CountedCall) {
        if order::is_on() {
            order::note_call(&self.thread.order, self.thread.active_call, slot, counted.bytes, counted.ticks);
        }
    }

    /// Counts a call with its time alone, while recording is on.
    pub fn count_time(&self, communicator: CommId, operation: Operation, ticks: Ticks) {
        if communicator == CommId::NONE {
            world::not_seen(NotSeen::UnknownCommunicator);
        } else if process::is_recording() {
            self.count(communicator, operation, 0, 0, ticks);
        }
    }

    /// A call in the current region, as it is counted.
    #[inline]
    pub fn counted_call(
        &self,
        communicator: CommId,
        operation: Operation,
        message: u64,
        bytes: u64,
        ticks: Ticks,
    ) -> CountedCall {
        let call = || active_call::pack(active_call::CurrentFunction::Operation(operation), communicator);
        let memory = memory_kind::take_memory(call, message, bytes);
        let (region, operation) = (self.region(), self.at_site(operation));
        let counted = CountedCall::new(communicator, region, operation, message, bytes, ticks);
        counted.in_memory(memory)
    }

    /// The operation where the program calls it.
    #[inline]
    pub fn at_site(&self, operation: Operation) -> OperationAtSite {
        SITES.at_site(self.world, operation, self.export.map_or(0, |frame| sites::caller_of(&frame)))
    }

    /// Counts a call, in the slot that it returns; `None` if there is no room for its row.
    #[inline]
    pub fn count_call(&self, counted: &CountedCall) -> Option<&'static Slot> {
        self.slot(counted.key).inspect(|slot| add_call(slot, counted.bytes, counted.ticks))
    }

    /// Counts a call that was subtracted in another size class.
    pub fn count_anew(&self, counted: &CountedCall) {
        if let Some(slot) = self.count_call(counted) {
            self.note(StepKind::CountedAnew, slot, counted.bytes, NO_TAG);
        }
    }

    /// Subtracts a call that was counted before its message was known. The shortest and longest
    /// times stay.
    pub fn uncount(&self, counted: &CountedCall) {
        self.change(counted.key, |values| {
            add(&values[call::CALLS], 1u64.wrapping_neg());
            add(&values[call::BYTES], counted.bytes.wrapping_neg());
            add(&values[call::TICKS], counted.ticks.get().wrapping_neg());
        })
        .inspect(|slot| self.note(StepKind::TakenBack, slot, counted.bytes, NO_TAG));
    }

    /// Adds bytes to a call that was counted; negative ones take away. Returns its slot.
    pub fn add_bytes(&self, counted: &CountedCall, bytes: u64) -> Option<&'static Slot> {
        self.change(counted.key, |values| add(&values[call::BYTES], bytes))
    }

    /// Counts messages to `rank`, a rank of the communicator.
    #[inline]
    pub fn sent(&self, communicator: CommId, rank: i32, messages: u64, bytes: u64) {
        let Some(peer) = CommRank::from_mpi(rank) else { return };
        self.count_sent(PeerKey { communicator, peer }.pack(), messages, bytes);
    }

    /// The same, by its slot's key.
    #[inline]
    pub fn count_sent(&self, key: SlotKey, messages: u64, bytes: u64) {
        if let Some(slot) = self.slot(key) {
            add_sent(slot, messages, bytes);
            match messages {
                1 => self.note(StepKind::Sent, slot, bytes, NO_TAG),
                _ => self.note(StepKind::Unsent, slot, bytes.wrapping_neg(), NO_TAG),
            }
        }
    }

    /// Counts a message from `rank`, a rank of the communicator, in the slot that it returns.
    #[inline]
    pub fn received(&self, communicator: CommId, rank: i32, bytes: u64) -> Option<&'static Slot> {
        let peer = CommRank::from_mpi(rank)?;
        self.count_received(PeerKey { communicator, peer }.pack(), bytes)
    }

    /// The same, by its slot's key.
    #[inline]
    pub fn count_received(&self, key: SlotKey, bytes: u64) -> Option<&'static Slot> {
        self.slot(key).inspect(|slot| add_received(slot, bytes))
    }

    /// Counts a one-sided operation on the memory of `rank`, a rank of the communicator.
    pub fn count_access(&self, communicator: CommId, access: Access, rank: i32, bytes: u64) {
        let Some(peer) = CommRank::from_mpi(rank) else { return };
        let (kind, step, [number, sum]) = match access {
            Access::Put => (OneSidedKind::PutsAndGets, StepKind::Put, [target::PUTS, target::PUT_BYTES]),
            Access::Get => (OneSidedKind::PutsAndGets, StepKind::Get, [target::GETS, target::GET_BYTES]),
            Access::Accumulate => (
                OneSidedKind::Accumulates,
                StepKind::Accumulate,
                [target::ACCUMULATES, target::ACCUMULATE_BYTES],
            ),
        };
        let key = TargetKey { peer: PeerKey { communicator, peer }, kind };
        self.change(key.pack(), |values| {
            add(&values[number], 1);
            add(&values[sum], bytes);
        })
        .inspect(|slot| self.note(step, slot, bytes, NO_TAG));
    }

    /// Changes the slot with that key, and returns it.
    #[inline]
    fn change(&self, key: SlotKey, change: impl FnOnce(&[AtomicU64; 6])) -> Option<&'static Slot> {
        let slot = self.slot(key)?;
        update(slot, change);
        Some(slot)
    }

    /// Notes a change of a slot, where the order is kept.
    #[inline]
    pub fn note(&self, kind: StepKind, slot: &Slot, bytes: u64, tag: i32) {
        if order::is_on() {
            order::note(&self.thread.order, kind, slot, bytes, tag);
        }
    }

    /// The slot with that key. One for which there is no room is counted as not seen.
    #[inline]
    pub fn slot(&self, key: SlotKey) -> Option<&'static Slot> {
        let slot = self.thread.counters.slot_or(key, || first_seen(self.thread, self.world, key));
        if slot.is_none() {
            world::not_seen(NotSeen::NoRoom);
        }
        slot
    }
}

/// Adds a call to its slot.
#[inline(always)]
fn add_call(slot: &Slot, bytes: u64, ticks: Ticks) {
    update(slot, |values| {
        let (relaxed, ticks) = (Ordering::Relaxed, ticks.get());
        add(&values[call::CALLS], 1);
        add(&values[call::BYTES], bytes);
        add(&values[call::TICKS], ticks);
        let shortest = values[call::SHORTEST_PLUS_1].load(relaxed);
        if ticks < shortest.wrapping_sub(1) {
            values[call::SHORTEST_PLUS_1].store(ticks.wrapping_add(1), relaxed);
        }
        if ticks > values[call::LONGEST].load(relaxed) {
            values[call::LONGEST].store(ticks, relaxed);
        }
    });
}

/// Adds messages to a peer.
#[inline(always)]
fn add_sent(slot: &Slot, messages: u64, bytes: u64) {
    update(slot, |values| {
        add(&values[peer::SENT_MESSAGES], messages);
        add(&values[peer::SENT_BYTES], bytes);
    });
}

/// Adds a message from a peer.
#[inline(always)]
fn add_received(slot: &Slot, bytes: u64) {
    update(slot, |values| {
        add(&values[peer::RECEIVED_MESSAGES], 1);
        add(&values[peer::RECEIVED_BYTES], bytes);
    });
}

/// Makes the slot for a key that a thread counts under for the first time.
#[cold]
#[inline(never)]
fn first_seen(thread: &Thread, world: &World, key: SlotKey) -> Option<&'static Slot> {
    thread.counters.insert(&world.segment, key, ROWS.lasting(world, key)?)
}
