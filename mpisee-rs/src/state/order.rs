//! The order of what each thread counts, compressed while the program runs; see
//! [`mpisee_profile::segment::order`].
//!
//! Off by default. Where it is on, each call takes the way of a slow call, which is a branch that
//! is there anyway ([`Hot::is_slow`]), and messages and requests take their general ways.
//!
//! [`Hot::is_slow`]: crate::storage::hot::Hot::is_slow

mod thread_order;

use super::thread::Thread;
use super::world::{self, World};
use crate::storage::hot::HOT;
use crate::storage::patience::try_lock_anyway;
use crate::storage::sync::own_value;
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::order::{MOST_THREADS, NO_TAG, Step, StepKind};
use mpisee_profile::segment::{PeerKey, SlotKey, active_call};
use mpisee_profile::{CommId, CommRank, Operation, Ticks};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use thread_order::{ClassOfTicks, ThreadOrder};

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The least ticks of a slow call, which [`HOT`] does not have while the order is kept.
static SLOW: AtomicU64 = AtomicU64::new(u64::MAX);
/// The orders of all threads.
static ORDERS: Mutex<Vec<&'static Mutex<ThreadOrder>>> = Mutex::new(Vec::new());
static THREADS: AtomicU32 = AtomicU32::new(0);
/// Steps that could not be noted, and that no order says it has lost.
static LOST: AtomicU64 = AtomicU64::new(0);

/// A thread's order, once the thread has a step.
pub type OwnOrder = OnceLock<Option<&'static Mutex<ThreadOrder>>>;

/// Returns whether the order is kept.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Keeps the order from now on.
pub fn begin() {
    IS_ON.store(true, Ordering::Relaxed);
    // Each call is slow.
    HOT.set_slow(0);
}

/// Sets the least ticks of a slow call.
pub fn set_slow(ticks: u64) {
    SLOW.store(ticks, Ordering::Relaxed);
    if !is_on() {
        HOT.set_slow(ticks);
    }
}

/// Returns whether a call that took the way of a slow one is slow.
pub fn is_slow(ticks: Ticks) -> bool {
    !is_on() || ticks.get() >= SLOW.load(Ordering::Relaxed)
}

/// Notes a call that was counted in that slot.
#[cold]
pub fn note_call(thread: &'static Thread, slot: &Slot, bytes: u64, ticks: Ticks) {
    let values = &thread.active_call.values;
    let since = Ticks::new(own_value(&values[active_call::SINCE]));
    let operation = match active_call::call_of(own_value(&values[active_call::CALL])) {
        Some(active_call::CurrentFunction::Operation(operation)) => Some(operation),
        _ => None,
    };
    let step = Step { kind: StepKind::Call, tag: NO_TAG, key: key_of(slot), bytes };
    with_own(thread, |order| order.call(step, since, ticks, operation.is_some_and(may_find_nothing)));
}

/// Notes another change of a slot.
#[cold]
pub fn note(thread: &'static Thread, kind: StepKind, slot: &Slot, bytes: u64, tag: i32) {
    with_own(thread, |order| order.take(Step { kind, tag, key: key_of(slot), bytes }));
}

/// Notes that the call in progress has completed a request, which a call under that key started.
#[cold]
pub fn note_completion(thread: &'static Thread, started: SlotKey) {
    with_own(thread, |order| order.complete(started));
}

/// Notes the root of the call that was noted last.
#[cold]
pub fn note_root(thread: &'static Thread, communicator: CommId, root: u32) {
    let key = PeerKey { communicator, peer: CommRank::new(root) }.pack();
    with_own(thread, |order| order.take(Step { kind: StepKind::Root, tag: NO_TAG, key, bytes: 0 }));
}

/// Notes that recording is on again.
pub fn note_switch(on: bool) {
    if on && is_on() {
        let orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        orders.iter().filter_map(|order| try_lock_anyway(order)).for_each(|mut order| order.switched_on());
    }
}

/// Compresses what there is of all threads, for readers of the segment.
pub fn publish() {
    if is_on() {
        let orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        orders.iter().filter_map(|order| try_lock_anyway(order)).for_each(|mut order| order.publish());
    }
}

/// The key under which readers find the slot.
fn key_of(slot: &Slot) -> SlotKey {
    SlotKey(own_value(&slot.key))
}

/// Calls that programs repeat until something is there.
fn may_find_nothing(operation: Operation) -> bool {
    use Operation::{Improbe, Iprobe, Parrived, RequestGetStatus, Test, Testall, Testany, Testsome};
    matches!(operation, Improbe | Iprobe | Parrived | RequestGetStatus | Test | Testall | Testany | Testsome)
}

/// Uses the thread's own order. Where another thread has it now, as the one that ends MPI, or a
/// handler was left that had it, the step counts as lost.
fn with_own(thread: &'static Thread, use_it: impl FnOnce(&mut ThreadOrder)) {
    let Some(world) = world::world() else { return };
    let Some(order) = thread.order.get_or_init(|| make(world)) else { return };
    match try_lock_anyway(order) {
        Some(mut order) => {
            use_it(&mut order);
            if LOST.load(Ordering::Relaxed) > 0 {
                order.lose(LOST.swap(0, Ordering::Relaxed));
            }
        }
        None => {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cold]
fn make(world: &'static World) -> Option<&'static Mutex<ThreadOrder>> {
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    let made = (number < MOST_THREADS)
        .then(|| ThreadOrder::new(&world.segment, number, ClassOfTicks::from_header(world.segment.header())));
    let order: &'static _ = Box::leak(Box::new(Mutex::new(made??)));
    ORDERS.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    Some(order)
}
