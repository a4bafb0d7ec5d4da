//! A recorded call on a communicator, as most calls are.
//!
//! PERF: what such a call runs is in one piece, from the export to the counters, and reads as few cache lines as it can:
//! those of [`HOT`], of [`CachedCounter`], and of the slots (docs/design/calls.md). What is rare is in functions of its own. In
//! that piece no index can be out of bounds, and nothing allocates or unwraps, so that nothing can panic; what may is under [`world::guarded`].
//!
//! [`world::guarded`]: crate::state::world::guarded

use super::cached_counter::CachedCounter;
use super::{Call, add_call, instances, returning};
use crate::mpi::abi::{Comm, Raw, Request, STATUS_IGNORE, Status};
use crate::mpi::argument::HandlePtr;
use crate::state::call_sample::CallSample;
use crate::state::communicator::Members;
use crate::state::process;
use crate::state::request::{Kind, REQUESTS, Started};
use crate::state::sampled_overhead;
use crate::state::thread::{self, Inside};
use crate::storage::hot::HOT;
use crate::storage::{clock, prefetch};
use mpisee_profile::segment::active_call;
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::hint::black_box;
use std::mem::{self, MaybeUninit};
use std::sync::atomic::Ordering;

/// The call.
pub struct CommCall {
    counter: CachedCounter,
    active_call: &'static Slot,
}

/// For calls that have no peer, see [`CommCall::begin`].
pub const NO_SPREAD: c_int = 0;

/// A call that is not counted.
pub enum Uncounted {
    /// Recording is off, or the MPI library itself makes the call.
    Passed,
    /// Its communicator is unknown. The thread is inside of it all the same.
    Unseen { _inside: Inside },
}

impl Uncounted {
    /// Makes the call.
    #[inline(always)]
    pub fn make<R>(self, make: impl FnOnce() -> R) -> R {
        let result = make();
        drop(self);
        result
    }
}

impl CommCall {
    /// Begins to record a call; `spread` spreads the calls of one operation on a communicator over the cache, by their peer.
    #[inline(always)]
    pub fn begin(operation: Operation, comm: Raw<Comm>, spread: c_int) -> Result<CommCall, Uncounted> {
        let comm = comm.get();
        match thread::cached_call(operation, comm, spread) {
            Some((cached, active_call)) => Ok(CommCall { counter: CachedCounter(cached), active_call }),
            None => CommCall::begin_anew(operation, comm, spread),
        }
    }

    /// Begins to record a call that is not in the thread's cache.
    #[cold]
    #[inline(never)]
    fn begin_anew(operation: Operation, comm: Comm, spread: c_int) -> Result<CommCall, Uncounted> {
        // Before the handle is looked up: what changes afterwards invalidates the cached call.
        let Some(generation) = HOT.generation() else { return Err(Uncounted::Passed) };
        let Some(call) = Call::if_recording() else { return Err(Uncounted::Passed) };
        let Some(known) = call.communicator(Raw::new(comm)) else {
            super::publish_uncounted(&call.inside, operation);
            return Err(Uncounted::Unseen { _inside: call.inside });
        };
        let thread = call.inside.thread;
        // The thread stays inside; `CommCall` ends that.
        mem::forget(call);
        let cached = thread.cache(generation, operation, &known.get(), spread);
        Ok(CommCall { counter: CachedCounter(cached), active_call: thread.active_call })
    }

    /// Begins a call on a known communicator while recording is off. `None` while it is on: the MPI library itself makes the call.
    pub fn begin_while_off(operation: Operation, comm: Raw<Comm>) -> Option<CommCall> {
        if process::is_recording() || !process::is_tracking() {
            return None;
        }
        let comm = comm.get();
        if let Some((cached, active_call)) = thread::cached_call_while_off(operation, comm) {
            active_call.values[active_call::PLACE].store(active_call::ABOUT_TO_SAY, Ordering::Relaxed);
            return Some(CommCall { counter: CachedCounter(cached), active_call });
        }
        let generation = HOT.generation_while_off();
        let call = Call::if_tracking()?;
        let known = call.find(comm)?;
        let thread = call.inside.thread;
        mem::forget(call);
        let cached = thread.cache(generation, operation, &known.get(), NO_SPREAD);
        Some(CommCall { counter: CachedCounter(cached), active_call: thread.active_call })
    }

    /// The communicator's number.
    #[inline(always)]
    pub fn id(&self) -> CommId {
        self.counter.id()
    }

    /// The communicator's members.
    #[inline(always)]
    pub fn members(&self) -> Members {
        self.counter.0.members()
    }

    /// Makes the call to MPI; returns its result and how long it took. Meanwhile the segment says where the thread is.
    #[inline(always)]
    pub fn time<R>(&self, make: impl FnOnce() -> R) -> (R, Ticks) {
        let start = clock::ticks();
        // A reader that sees the place sees its tick; see `Inside::publish`.
        let values = &self.active_call.values;
        values[active_call::SINCE].store(start.get(), Ordering::Release);
        values[active_call::PLACE].store(self.counter.0.place.get(), Ordering::Release);
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
    pub fn end_instance(&self, has_succeeded: bool, root: Option<u32>) {
        instances::end(self.counter.0, self.active_call, has_succeeded, root);
    }

    /// Counts the call, as [`CachedCounter::count`].
    #[inline(always)]
    pub fn count(&self, message: u64, bytes: u64, ticks: Ticks) -> CallSample {
        self.counter.count(message, bytes, ticks)
    }

    /// As [`CommCall::count`], in a slot that is in no table.
    pub fn calibrate(&self, slot: &Slot, bytes: u64, ticks: Ticks) {
        black_box(self.counter.key(bytes));
        add_call(slot, bytes, ticks);
    }

    /// Counts a message to `rank`, a rank of the communicator.
    #[inline(always)]
    pub fn sent(&self, rank: c_int, bytes: u64) {
        self.counter.sent(rank, bytes);
    }

    /// Counts a message from `rank`.
    #[inline(always)]
    pub fn received(&self, rank: c_int, bytes: u64) {
        self.counter.received(rank, bytes);
    }

    /// Adds the request that the call has started to the table.
    ///
    /// # Safety
    /// The call has stored its request there.
    #[inline(always)]
    pub unsafe fn add_request(
        &self,
        request: HandlePtr<Request>,
        kind: Kind,
        peer: c_int,
        sample: CallSample,
        message: u64,
    ) {
        let started = Started { kind, peer, cached: thread::cached_number(self.counter.0) };
        // SAFETY: the caller's promise.
        unsafe { REQUESTS.add(request, started, sample, message) };
    }
}

impl Drop for CommCall {
    /// Also runs when a C++ exception unwinds through the call.
    #[inline(always)]
    fn drop(&mut self) {
        self.active_call.values[active_call::PLACE].store(active_call::NOWHERE, Ordering::Release);
        sampled_overhead::call_ends(self.active_call);
    }
}

/// Makes the application's call on a communicator, and passes its result and time to `note` if it is recorded.
#[inline(always)]
pub fn record_on(
    operation: Operation,
    comm: Raw<Comm>,
    spread: c_int,
    make: impl FnOnce() -> c_int,
    note: impl FnOnce(&CommCall, c_int, Ticks),
) -> c_int {
    match CommCall::begin(operation, comm, spread) {
        Ok(call) => {
            let (code, ticks) = call.time(make);
            note(&call, code, ticks);
            code
        }
        Err(uncounted) => uncounted.make(make),
    }
}

/// As [`record_on`] for a call whose status shows what arrived. If the application ignores the status, MPI gets one of
/// ours. `note` gets the status, which is filled if the call succeeded.
///
/// # Safety
/// A call that succeeds fills the status that `make` gives it.
#[inline(always)]
pub unsafe fn record_on_with_status(
    operation: Operation,
    comm: Raw<Comm>,
    spread: c_int,
    status: *mut Status,
    make: impl FnOnce(*mut Status) -> c_int,
    note: impl FnOnce(&CommCall, c_int, Ticks, *const Status),
) -> c_int {
    match CommCall::begin(operation, comm, spread) {
        Ok(call) => {
            let mut own = MaybeUninit::<Status>::uninit();
            let status = if status == STATUS_IGNORE { own.as_mut_ptr() } else { status };
            let (code, ticks) = call.time(|| make(status));
            note(&call, code, ticks, status);
            code
        }
        Err(uncounted) => uncounted.make(|| make(status)),
    }
}
