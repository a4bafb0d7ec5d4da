//! The fast path of recording: a call on a communicator, as most calls are.
//!
//! PERF: it is inlined from the export to the counters, and touches as few cache lines as it can:
//! those of [`HOT`], of [`CachedCounter`], and of the slots (docs/develop/calls.md). Rare work is
//! in functions of its own. On this way no index can be out of bounds, and nothing allocates or
//! unwraps, so that nothing can panic; what may is under [`world::guarded`].
//!
//! [`world::guarded`]: crate::state::world::guarded

use super::cached_counter::CachedCounter;
use super::streams::NumberedMessage;
use super::{RecordedCall, add_call, instances, polls, returning};
use crate::mpi::abi::{Comm, Raw, Request};
use crate::mpi::argument::HandlePtr;
use crate::state::cached_call::Envelope;
use crate::state::communicator::{COMMUNICATORS, CommShape};
use crate::state::counted_call::CountedCall;
use crate::state::poll::PollId;
use crate::state::process;
use crate::state::request::{REQUESTS, RequestKind, RequestOrigin};
use crate::state::sampled_overhead;
use crate::state::sites;
use crate::state::thread::{self, Inside, Thread};
use crate::storage::frame::{self, CalledFrom};
use crate::storage::hot::HOT;
use crate::storage::{clock, prefetch};
use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::{active_call, awaited};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::hint::black_box;
use std::mem;
use std::sync::atomic::Ordering;

/// A recorded call between its begin and its count; where it is dropped, the thread is in no call
/// any more.
pub struct CommCall {
    counter: CachedCounter,
    active_call: &'static Slot,
    /// The address to which the call returns; 0 if sites are not kept apart.
    caller: u64,
}

/// For calls that have no peer, see [`CommCall::begin`].
pub const NO_SPREAD: c_int = 0;

/// Spreads the messages of one operation on a communicator over the cache, by their ends.
#[inline(always)]
pub fn spread(ends: Envelope) -> c_int {
    // A program that numbers its messages by their tags would touch a place of its own for each.
    ends.peer().wrapping_add((ends.tag() & 7) << 4)
}

/// A call that is not counted, until it returns.
pub enum Uncounted {
    /// The MPI library itself makes it, or nothing is recorded.
    Passed,
    /// Its communicator is unknown. The thread is inside of it all the same.
    Unseen { _inside: Inside },
    /// Recording is off. Instances and messages are numbered all the same.
    Off(CommCall),
}

impl Uncounted {
    /// Finds out why [`CommCall::begin`] does not count a call.
    #[cold]
    #[inline(never)]
    pub fn begin(operation: Operation, comm: Raw<Comm>, spread: c_int) -> Uncounted {
        if !process::is_recording() {
            return CommCall::begin_while_off(operation, comm, spread)
                .map_or(Uncounted::Passed, Uncounted::Off);
        }
        // Of a nested call, or one of a thread without a state, `CommCall::begin` has said so.
        let call = if thread::is_outside() { RecordedCall::if_recording() } else { None };
        match call {
            Some(call) if call.communicator(comm).is_none() => {
                // Without a frame: the call is made after this function has returned.
                let from = CalledFrom { frame: 0, ..sites::called_from() };
                super::publish_uncounted(&call.inside, operation, from);
                Uncounted::Unseen { _inside: call.inside }
            }
            _ => Uncounted::Passed,
        }
    }

    /// Returns whether it is of the program's communication all the same: recording is off, or a
    /// callback makes it.
    pub fn is_tracked(&self) -> bool {
        match self {
            Uncounted::Passed => process::is_tracking(),
            Uncounted::Unseen { .. } => false,
            Uncounted::Off(_) => true,
        }
    }

    /// The call, while recording is off.
    pub fn off(&self) -> Option<&CommCall> {
        match self {
            Uncounted::Off(call) => Some(call),
            Uncounted::Passed | Uncounted::Unseen { .. } => None,
        }
    }
}

impl CommCall {
    /// Begins to record a call; `spread` spreads the calls of one operation on a communicator over
    /// the cache, by their peer. `None` if it is not counted, see [`Uncounted`].
    #[inline(always)]
    pub fn begin(operation: Operation, comm: Raw<Comm>, spread: c_int) -> Option<CommCall> {
        CommCall::begin_at(operation, comm, spread, sites::caller_of_export())
    }

    /// As [`CommCall::begin`], for a call that returns to `caller`; 0 if sites are not kept apart.
    #[inline(always)]
    pub fn begin_at(operation: Operation, comm: Raw<Comm>, spread: c_int, caller: u64) -> Option<CommCall> {
        let comm = comm.get();
        // Two sites that call one operation on one communicator have an entry each: the entry keeps
        // the slot of the last call's site.
        let spread = spread.wrapping_add(caller as c_int);
        match thread::cached_call(operation, comm, spread) {
            Some((cached, active_call)) => {
                Some(CommCall { counter: CachedCounter(cached), active_call, caller })
            }
            None => CommCall::begin_anew(operation, comm, spread, caller),
        }
    }

    /// Begins to record a call that is not in the thread's cache.
    #[cold]
    #[inline(never)]
    fn begin_anew(operation: Operation, comm: Comm, spread: c_int, caller: u64) -> Option<CommCall> {
        thread::look_if_asked();
        // Before the handle is looked up: what changes afterwards invalidates the cached call.
        let generation = HOT.generation()?;
        CommCall::from_call(RecordedCall::if_recording()?, generation, operation, comm, spread, caller)
    }

    /// Begins a call on a known communicator while recording is off.
    fn begin_while_off(operation: Operation, comm: Raw<Comm>, spread: c_int) -> Option<CommCall> {
        if !process::is_tracking() {
            return None;
        }
        let comm = comm.get();
        if let Some((cached, active_call)) = thread::cached_call_while_off(operation, comm, spread) {
            active_call.values[active_call::CALL].store(active_call::ENTERING, Ordering::Relaxed);
            return Some(CommCall { counter: CachedCounter(cached), active_call, caller: 0 });
        }
        let generation = HOT.generation_while_off();
        CommCall::from_call(RecordedCall::if_tracking()?, generation, operation, comm, spread, 0)
    }

    fn from_call(
        call: RecordedCall,
        generation: u64,
        operation: Operation,
        comm: Comm,
        spread: c_int,
        caller: u64,
    ) -> Option<CommCall> {
        let known = call.find(comm)?;
        let thread = call.inside.thread;
        // The thread stays inside; `CommCall` ends that.
        mem::forget(call);
        let cached = thread.cache(generation, operation, &known.get(), spread);
        Some(CommCall { counter: CachedCounter(cached), active_call: thread.active_call, caller })
    }

    /// The communicator's number.
    #[inline(always)]
    pub fn id(&self) -> CommId {
        self.counter.id()
    }

    /// The communicator's members. Only of an operation without a peer: after
    /// [`CachedCall::set_ends`] a stream's slot is in their place.
    ///
    /// [`CachedCall::set_ends`]: crate::state::cached_call::CachedCall::set_ends
    #[inline(always)]
    pub fn members(&self) -> CommShape {
        self.counter.0.members()
    }

    /// As [`CommCall::time`] for a message, of which the segment says the peer and the tag.
    #[inline(always)]
    pub fn time_message<R>(&self, ends: Envelope, make: impl FnOnce() -> R) -> (R, Ticks) {
        self.set_ends(ends.word());
        self.time(make)
    }

    /// As [`CommCall::time`] for a send and a receive in one.
    #[inline(always)]
    pub fn time_both<R>(&self, to: Envelope, from: c_int, make: impl FnOnce() -> R) -> (R, Ticks) {
        self.set_ends(awaited::both(to.peer(), from));
        self.time(make)
    }

    /// Stores with whom the call communicates, see [`awaited`]. Until the call is published, no
    /// reader looks at it.
    #[inline(always)]
    fn set_ends(&self, ends: u64) {
        self.active_call.values[active_call::ENDS].store(ends, Ordering::Relaxed);
    }

    /// Makes the call to MPI; returns its result and how long it took. Meanwhile the segment says
    /// where the thread is.
    #[inline(always)]
    pub fn time<R>(&self, make: impl FnOnce() -> R) -> (R, Ticks) {
        let start = clock::ticks();
        // A reader that sees the call sees its tick; see `Inside::publish`.
        let values = &self.active_call.values;
        values[active_call::SINCE].store(start.get(), Ordering::Release);
        values[active_call::RETURNED].store(active_call::frame(frame::pointer()), Ordering::Relaxed);
        values[active_call::RETURNS_TO].store(self.caller, Ordering::Relaxed);
        values[active_call::CALL].store(self.counter.0.active_call.get(), Ordering::Release);
        prefetch::data(self.counter.0.slot.get());
        let result = returning(make);
        let end = clock::ticks();
        values[active_call::RETURNED].store(end.get(), Ordering::Relaxed);
        (result, clock::between(start, end))
    }

    /// Counts the instance of a collective operation that this call is, before it is made.
    #[inline(always)]
    pub fn begin_instance(&self) {
        instances::begin(self.counter.0);
    }

    /// Notes when that instance began and ended.
    #[inline(always)]
    pub fn end_instance(&self, may_be_kept: bool, root: Option<u32>) {
        instances::end(self.counter.0, self.active_call, may_be_kept, root);
    }

    /// Counts the call, as [`CachedCounter::count`].
    #[inline(always)]
    pub fn count(&self, message: u64, bytes: u64, ticks: Ticks) -> CountedCall {
        self.counter.count(message, bytes, ticks, self.caller)
    }

    /// Notes whether the call, a probe that was counted, has found a message: see [`polls`].
    #[inline(always)]
    pub fn note_poll(&self, id: Option<PollId>, ends: Envelope, found_none: bool, ticks: Ticks) {
        let Some((id, thread)) = id.zip(thread::own()) else { return };
        if !found_none {
            polls::note_success(&id, thread, ticks);
        } else if self.counter.0.counts(self.caller) {
            polls::note_timed(&id, thread, self.counter.0, ends.word(), false);
        }
    }

    /// As [`CommCall::count`], in a slot that is in no table.
    pub fn calibrate(&self, slot: &Slot, bytes: u64, ticks: Ticks) {
        black_box(self.counter.key(bytes, bytes));
        add_call(slot, bytes, ticks);
    }

    /// Notes when the instance began of the nonblocking operation that this call has started;
    /// without a request it has failed.
    #[inline(always)]
    pub fn start_instance(&self, request: impl FnOnce() -> Option<Request>, root: Option<u32>) {
        instances::started(self.counter.0, self.active_call, request, root);
    }

    /// Counts a message that the call sent, of `together` sends and receives.
    #[inline(always)]
    pub fn sent(&self, to: Envelope, bytes: u64, together: u32) {
        if let Some(message) = self.counter.sent(to, bytes) {
            message.keep(self.active_call, bytes, together);
        }
    }

    /// Counts a message that the call received, of `together` sends and receives. `asked` is the
    /// rank from which it was asked for, or `MPI_ANY_SOURCE`.
    #[inline(always)]
    pub fn received(&self, asked: c_int, from: Envelope, bytes: u64, together: u32) {
        let counter = if asked == from.peer() { Some(self.counter) } else { self.receiving(from) };
        if let Some(message) = counter.and_then(|counter| counter.received(from, bytes)) {
            message.keep(self.active_call, bytes, together);
        }
    }

    /// As [`CommCall::received`], of a call that also sends.
    #[inline(always)]
    pub fn received_beside(&self, from: Envelope, bytes: u64, together: u32) {
        let counter = self.receiving(from);
        if let Some(message) = counter.and_then(|counter| counter.received(from, bytes)) {
            message.keep(self.active_call, bytes, together);
        }
    }

    /// As [`CommCall::pass`] of a message to receive, where the call has another peer, too, or may
    /// have.
    pub fn pass_received(&self, from: Envelope) {
        if let Some(counter) = self.receiving(from) {
            let _ = counter.posted(from, MessageEnd::Received);
        }
    }

    /// Where a plain receive from that rank is kept: for calls that have another peer, too, or none
    /// that is known in advance.
    #[inline(always)]
    fn receiving(&self, from: Envelope) -> Option<CachedCounter> {
        let (thread, generation, comm) = (thread::own()?, HOT.generation_while_off(), self.counter.0.comm());
        let spread = spread(from);
        match thread.cached_by_handle(generation, Operation::Recv, comm, spread) {
            Some(cached) => Some(CachedCounter(cached)),
            None => receiving_anew(thread, generation, comm, spread),
        }
    }

    /// Counts the message that the call has started to send; `request` is the one that it stored.
    #[inline(always)]
    pub fn starts_to_send(&self, to: Envelope, bytes: u64) -> Option<NumberedMessage> {
        self.counter.sent(to, bytes)
    }

    /// Counts a message of a receive that the call has posted.
    #[inline(always)]
    pub fn posted(&self, from: Envelope) -> Option<NumberedMessage> {
        self.counter.posted(from, MessageEnd::Received)
    }

    /// Counts a message in its stream alone: it is sent or received while recording is off.
    pub fn pass(&self, ends: Envelope, end: MessageEnd) {
        // The next one that is to be kept is looked for again when recording is on.
        let _ = self.counter.posted(ends, end);
    }

    /// Keeps the message that the call has started to send or receive, when its request is
    /// complete.
    ///
    /// # Safety
    /// The call has stored its request there.
    #[cold]
    #[inline(never)]
    pub unsafe fn keep_later(&self, message: NumberedMessage, request: HandlePtr<Request>, bytes: u64) {
        // SAFETY: the call has stored its request there.
        message.keep_later(self.active_call, unsafe { request.handle() }, bytes);
    }

    /// Adds the request that the call has started to the table.
    ///
    /// # Safety
    /// The call has stored its request there.
    #[inline(always)]
    pub unsafe fn add_request(
        &self,
        request: HandlePtr<Request>,
        kind: RequestKind,
        peer: c_int,
        counted: CountedCall,
        message: u64,
    ) {
        let started = RequestOrigin { kind, peer, cached: thread::cached_number(self.counter.0) };
        // SAFETY: the call has stored its request there.
        unsafe { REQUESTS.add(request, started, counted, message) };
    }
}

#[cold]
#[inline(never)]
fn receiving_anew(
    thread: &'static Thread,
    generation: u64,
    comm: Comm,
    spread: c_int,
) -> Option<CachedCounter> {
    let communicator = COMMUNICATORS.get(comm)?;
    Some(CachedCounter(thread.cache(generation, Operation::Recv, &communicator, spread)))
}

impl Drop for CommCall {
    /// Also runs when a C++ exception unwinds through the call.
    #[inline(always)]
    fn drop(&mut self) {
        self.active_call.values[active_call::CALL].store(active_call::NOWHERE, Ordering::Release);
        sampled_overhead::call_ends(self.active_call);
    }
}

/// Makes a call that is not counted.
///
/// PERF: callers pass a copy, which alone has to be in memory: with the address of the original
/// every call would store its arguments.
#[cold]
#[inline(never)]
pub fn call_uncounted(
    operation: Operation,
    comm: Raw<Comm>,
    spread: c_int,
    make: &impl Fn() -> c_int,
) -> c_int {
    let _uncounted = Uncounted::begin(operation, comm, spread);
    make()
}

/// Makes the application's call on a communicator, and passes its result and time to `note` if it
/// is recorded.
#[inline(always)]
pub fn record_on(
    operation: Operation,
    comm: Raw<Comm>,
    spread: c_int,
    make: impl Fn() -> c_int + Copy,
    note: impl FnOnce(&CommCall, c_int, Ticks),
) -> c_int {
    let Some(call) = CommCall::begin(operation, comm, spread) else {
        let copied = make;
        return call_uncounted(operation, comm, spread, &copied);
    };
    let (code, ticks) = call.time(make);
    note(&call, code, ticks);
    code
}
