//! The order of what each thread counts, compressed while the program runs; see
//! [`mpisee_profile::segment::order`].
//!
//! Off by default. Where it is on, each call takes the way of a slow call, which is a branch that
//! is there anyway ([`Hot::is_slow`]), and messages and requests take their general ways.
//!
//! [`Hot::is_slow`]: crate::storage::hot::Hot::is_slow

mod thread_order;

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
static ORDERS: Mutex<Vec<&'static SharedOrder>> = Mutex::new(Vec::new());
static THREADS: AtomicU32 = AtomicU32::new(0);
/// Steps of threads that have no order, which no order says it has lost.
static WITHOUT_ORDER: AtomicU64 = AtomicU64::new(0);
/// How often recording was switched on.
static SWITCHED: AtomicU64 = AtomicU64::new(0);

/// A thread's order, once the thread has a step; `None` if there was no room for it.
pub type OwnOrder = OnceLock<Option<&'static SharedOrder>>;

/// An order, which its thread changes, and the one that ends MPI.
pub struct SharedOrder {
    order: Mutex<ThreadOrder>,
    /// The number of its steps that are missing.
    lost: &'static AtomicU64,
    /// True if a step came while it was in use: the next one does not follow on the last.
    has_missed: AtomicBool,
}

impl SharedOrder {
    /// Uses it; `None` while another thread has it, or a handler was left that had it.
    fn with(&self, use_it: impl FnOnce(&mut ThreadOrder)) -> Option<()> {
        let mut order = try_lock_anyway(&self.order)?;
        if self.has_missed.load(Ordering::Relaxed) {
            order.end();
        }
        use_it(&mut order);
        Some(())
    }

    /// A step was missed.
    fn miss(&self) {
        self.has_missed.store(true, Ordering::Relaxed);
        thread_order::count(self.lost, 1);
    }
}

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
pub fn note_call(own: &'static OwnOrder, active_call: &Slot, slot: &Slot, bytes: u64, ticks: Ticks) {
    let values = &active_call.values;
    let since = Ticks::new(own_value(&values[active_call::SINCE]));
    let operation = match active_call::call_of(own_value(&values[active_call::CALL])) {
        Some(active_call::CurrentFunction::Operation(operation)) => Some(operation),
        _ => None,
    };
    let step = Step { kind: StepKind::Call, tag: NO_TAG, key: key_of(slot), bytes };
    with_own(own, |order| order.call(step, since, ticks, operation.is_some_and(may_find_nothing)));
}

/// Notes another change of a slot.
#[cold]
pub fn note(own: &'static OwnOrder, kind: StepKind, slot: &Slot, bytes: u64, tag: i32) {
    with_own(own, |order| order.take(Step { kind, tag, key: key_of(slot), bytes }));
}

/// Notes that the call in progress has completed a request, which a call under that key started.
#[cold]
pub fn note_completion(own: &'static OwnOrder, started: SlotKey) {
    with_own(own, |order| order.complete(started));
}

/// Notes the root of the call that was noted last.
#[cold]
pub fn note_root(own: &'static OwnOrder, communicator: CommId, root: u32) {
    let key = PeerKey { communicator, peer: CommRank::new(root) }.pack();
    with_own(own, |order| order.take(Step { kind: StepKind::Root, tag: NO_TAG, key, bytes: 0 }));
}

/// The call in progress of the thread, which may find nothing, has found something.
pub fn note_found(own: &'static OwnOrder) {
    if is_on() {
        with_own(own, ThreadOrder::find);
    }
}

/// Notes that recording is on again, for the next step of each thread.
pub fn note_switch(on: bool) {
    if on {
        SWITCHED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Compresses what there is of all threads, for readers of the segment.
pub fn publish() {
    if is_on() {
        let orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        orders.iter().for_each(|order| _ = order.with(ThreadOrder::publish));
    }
}

/// The key under which readers find the slot.
fn key_of(slot: &Slot) -> SlotKey {
    SlotKey(own_value(&slot.key))
}

/// Calls that programs repeat until something is there.
fn may_find_nothing(operation: Operation) -> bool {
    use Operation::{Improbe, Iprobe, RequestGetStatus, Test, Testall, Testany, Testsome};
    matches!(operation, Improbe | Iprobe | RequestGetStatus | Test | Testall | Testany | Testsome)
}

/// Uses the thread's own order. A step that finds none, or finds it in use, counts as lost.
fn with_own(own: &'static OwnOrder, use_it: impl FnOnce(&mut ThreadOrder)) {
    let Some(world) = world::world() else { return };
    let Some(order) = own.get_or_init(|| make(world)) else {
        WITHOUT_ORDER.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let used = order.with(|order| {
        order.note_switches(SWITCHED.load(Ordering::Relaxed));
        use_it(order);
    });
    match used {
        None => order.miss(),
        Some(()) if WITHOUT_ORDER.load(Ordering::Relaxed) > 0 => {
            thread_order::count(order.lost, WITHOUT_ORDER.swap(0, Ordering::Relaxed));
        }
        Some(()) => {}
    }
}

#[cold]
fn make(world: &'static World) -> Option<&'static SharedOrder> {
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    let class_of = ClassOfTicks::from_header(world.segment.header());
    let switched = SWITCHED.load(Ordering::Relaxed);
    let made = (number < MOST_THREADS)
        .then(|| ThreadOrder::new(&world.segment, number, class_of, switched))
        .flatten()?;
    let lost = made.lost;
    let order = SharedOrder { order: Mutex::new(made), lost, has_missed: AtomicBool::new(false) };
    let order: &'static _ = Box::leak(Box::new(order));
    ORDERS.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    Some(order)
}
