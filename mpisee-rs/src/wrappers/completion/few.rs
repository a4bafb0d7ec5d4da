//! Completions of up to 32 simple requests of one communicator, where threads call MPI one at a
//! time: most completions. [`Requests::find_simple`](crate::state::request::Requests::find_simple)
//! defines which are simple.
//!
//! PERF: their requests are found before the call and let go after it, in one pass each, with
//! nothing kept but on the stack. Everything else takes the general path of [`super::array`] and
//! [`super`].

use super::settling::settle;
use crate::mpi::abi::{Request, STATUS_IGNORE, Status, read_status, received_bytes};
use crate::mpi::argument::HandlePtr;
use crate::recording::cached_counter::{CachedCounter, rarely};
use crate::state::cached_call::CachedCall;
use crate::state::process;
use crate::state::request::{REQUESTS, RequestKind, RequestRef, RequestState};
use crate::state::scratch::Scratch;
use crate::state::thread::Thread;
use mpisee_profile::segment::awaited;
use mpisee_profile::{CommId, Operation, Ticks};
use std::mem::MaybeUninit;

/// The longest array that is looked up here.
pub const MOST: usize = 32;

/// The requests.
pub struct Few {
    /// The requests of the array, as far as there are any.
    found: [MaybeUninit<RequestRef>; MOST],
    count: usize,
    /// The communicator of all.
    pub communicator: CommId,
    /// The number of active requests, and what the first one is, see [`RequestKind::awaited`].
    active: usize,
    first: u64,
    needs_status: bool,
    statuses: [MaybeUninit<Status>; MOST],
}

impl Few {
    /// None yet.
    #[inline(always)]
    pub fn new() -> Few {
        Few {
            found: [const { MaybeUninit::uninit() }; MOST],
            count: 0,
            communicator: CommId::NONE,
            active: 0,
            first: 0,
            needs_status: false,
            statuses: [const { MaybeUninit::uninit() }; MOST],
        }
    }

    /// Looks the requests of an array up; false if not all of them are simple.
    ///
    /// # Safety
    /// The array has `count` requests.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot")]
    pub unsafe fn look_up(&mut self, null: Request, count: usize, requests: HandlePtr<Request>) -> bool {
        if count > MOST {
            return false;
        }
        for (at, slot) in self.found[..count].iter_mut().enumerate() {
            // SAFETY: the array has `count` requests.
            let request = unsafe { requests.at(at).handle() };
            if request == null {
                slot.write(RequestRef::Nothing);
                continue;
            }
            // SAFETY: `at` is below `count`, and the array has as many requests.
            let Some((found, communicator, first)) = (unsafe { REQUESTS.find_simple(requests.at(at)) })
            else {
                return false;
            };
            if self.communicator != communicator && self.communicator != CommId::NONE {
                return false;
            }
            if self.active == 0 {
                self.first = first;
            }
            self.active += 1;
            self.communicator = communicator;
            self.needs_status |= found.needs_status();
            slot.write(found);
        }
        self.count = count;
        self.communicator != CommId::NONE
    }

    /// The word for the segment of what the call waits for.
    #[inline(always)]
    pub fn awaited(&self) -> u64 {
        awaited::requests(self.active, self.first)
    }

    /// The statuses for the call: those of the application, or ours if it ignores them and one is
    /// needed.
    #[inline(always)]
    pub fn statuses(&mut self, statuses: *mut Status) -> *mut Status {
        if statuses == STATUS_IGNORE && self.needs_status {
            self.statuses.as_mut_ptr().cast()
        } else {
            statuses
        }
    }

    /// Records that all of them completed.
    ///
    /// # Safety
    /// The call has succeeded, and filled the statuses.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot")]
    pub unsafe fn completed(
        &self,
        thread: &'static Thread,
        operation: Operation,
        statuses: *const Status,
        ticks: Ticks,
        caller: u64,
    ) {
        for (at, found) in self.found().iter().enumerate() {
            // SAFETY: the call has succeeded, and filled the statuses.
            unsafe { complete(thread, found, statuses.wrapping_add(at)) };
        }
        self.charge(thread, operation, ticks, caller);
    }

    /// Records that the one at `index` completed.
    ///
    /// # Safety
    /// The call has succeeded, and filled the status.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot")]
    pub unsafe fn completed_one(
        &self,
        thread: &'static Thread,
        operation: Operation,
        index: usize,
        status: *const Status,
        ticks: Ticks,
        caller: u64,
    ) {
        if let Some(found) = self.found().get(index) {
            // SAFETY: the call has succeeded, and filled the status.
            unsafe { complete(thread, found, status) };
        }
        self.charge(thread, operation, ticks, caller);
    }

    /// Records that the one at `index` completed, of a call that is counted already.
    ///
    /// # Safety
    /// The call has succeeded, and filled the status.
    #[cold]
    pub unsafe fn complete_at(&self, thread: &'static Thread, index: usize, status: *const Status) {
        if let Some(found) = self.found().get(index) {
            // SAFETY: the call has succeeded, and filled the status.
            unsafe { complete(thread, found, status) };
        }
    }

    /// Charges the call to the communicator; as [`charge`].
    #[inline(always)]
    pub fn charge(
        &self,
        thread: &'static Thread,
        operation: Operation,
        ticks: Ticks,
        caller: u64,
    ) -> Option<&'static CachedCall> {
        charge(thread, operation, self.communicator, ticks, caller)
    }

    /// Returns whether the array has a request that shares its handle with others.
    pub fn has_aliased(&self) -> bool {
        self.found().iter().any(RequestRef::is_aliased)
    }

    /// Returns whether a call has to fill the statuses.
    pub fn needs_status(&self) -> bool {
        self.needs_status
    }

    /// Hands them to the general path; false if there is no memory for it.
    #[cold]
    pub fn pass_on(&self, scratch: &mut Scratch) -> bool {
        let has_room = scratch.reset(self.count);
        if has_room {
            scratch.given.extend_from_slice(self.found());
        }
        has_room
    }

    #[inline(always)]
    fn found(&self) -> &[RequestRef] {
        // SAFETY: `count` is 0, or set by `look_up` after it has written as many.
        unsafe { std::slice::from_raw_parts(self.found.as_ptr().cast(), self.count) }
    }
}

/// Charges a call on simple requests to their communicator, unless recording is off; returns where
/// it is counted. `caller` is the address to which it returns.
#[inline(always)]
pub fn charge(
    thread: &'static Thread,
    operation: Operation,
    communicator: CommId,
    ticks: Ticks,
    caller: u64,
) -> Option<&'static CachedCall> {
    if !process::is_recording() {
        return None;
    }
    let cached = thread.cached_by_id(operation, communicator, caller as i32);
    CachedCounter(cached).count(0, 0, ticks, caller);
    Some(cached)
}

/// Records that a simple request completed.
///
/// # Safety
/// The call has succeeded, and filled the status if the request needs one.
#[inline(always)]
pub unsafe fn complete(thread: &'static Thread, found: &RequestRef, status: *const Status) {
    let known = match found {
        RequestRef::Known(known) => known,
        // Of one that was complete when it started, nothing is left to count.
        RequestRef::Aliased(key, variable) => return REQUESTS.complete_by_variable(*key, *variable),
        RequestRef::Nothing | RequestRef::Unknown => return,
    };
    // SAFETY: the call has succeeded, and filled the status if the request needs one.
    REQUESTS.complete(known, None, |started| unsafe { record(thread, started, status) });
}

/// Records what is known of a simple request only when it is complete.
///
/// # Safety
/// See [`complete`].
#[inline(never)]
#[unsafe(link_section = ".text.hot")]
unsafe fn record(thread: &'static Thread, started: &RequestState, status: *const Status) {
    if started.kind == RequestKind::Receive {
        // SAFETY: the call has succeeded, and filled the status if the request needs one, as a
        // receive does.
        let filled = unsafe { read_status(status) };
        if !received(thread, started, filled.MPI_SOURCE, received_bytes(&filled)) {
            settle_rarely(started, status);
        }
    } else if started.kind.has_more_to_record() {
        settle_rarely(started, status);
    }
}

/// Counts what a receive got where the call that started it was counted. False if that is another
/// call's by now, or the message is of another size class than the buffer.
#[inline(always)]
fn received(thread: &'static Thread, started: &RequestState, source: i32, bytes: u64) -> bool {
    let counter = CachedCounter(thread.cached_by_number(started.cached));
    let is_simple = started.counted.reclassed(bytes).is_none() && counter.add_bytes(&started.counted, bytes);
    if is_simple {
        counter.arrived(source, bytes);
    }
    is_simple
}

#[cold]
#[inline(never)]
fn settle_rarely(started: &RequestState, status: *const Status) {
    let status = started.needs_status().then_some(status);
    rarely(|recorder| settle(recorder, started, status));
}
