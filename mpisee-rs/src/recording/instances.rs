//! When this process entered and left a sample of the instances of each collective operation: with
//! those of the other members it shows who waited for whom.

use super::Recorder;
use super::cached_counter::rarely;
use super::samples::{self, NOT_KEPT};
use super::unfinished;
use crate::mpi::abi::Request;
use crate::naming::ROWS;
use crate::state::cached_call::CachedCall;
use crate::state::communicator::CommShape;
use crate::state::order;
use crate::state::world::{self, World};
use crate::storage::sync::own_value;
use mpisee_profile::segment::instances::{ARRIVALS, ARRIVALS_CARRIED, Sample, Subject};
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::{InstancesKey, active_call};
use mpisee_profile::{CommId, Operation, Ticks};
use rustc_hash::FxHashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Members of a communicator up to which there is the room that the option says; with more there is
/// less for each, but never less than for `LEAST` samples.
const LARGE: usize = 256;
const LEAST: usize = 32;

/// Requests of each persistent operation on each communicator.
static REQUESTS: LazyLock<Mutex<FxHashMap<(CommId, u16), u32>>> = LazyLock::new(Mutex::default);

/// A collective call begins: counts the instance.
#[inline(always)]
pub fn begin(cached: &CachedCall) {
    let mut slot = cached.instances().get();
    if slot.is_null() {
        slot = find(cached);
    }
    // SAFETY: `find` returns a slot, if only `NOT_KEPT`; slots are never unmapped.
    samples::count(unsafe { &*slot });
}

/// The call that began last has returned. Returns the instance if it is to be kept.
#[inline(always)]
fn returned<'c>(cached: &'c CachedCall, active_call: &Slot) -> Option<(&'c Slot, u64)> {
    // SAFETY: `begin` has set it, and nothing else does meanwhile; slots are never unmapped.
    let slot = unsafe { &*cached.instances().get() };
    let values = &slot.values;
    let arrival = own_value(&active_call.values[active_call::SINCE]);
    let (sum, is_carried) = own_value(&values[ARRIVALS]).overflowing_add(arrival);
    values[ARRIVALS].store(sum, Ordering::Relaxed);
    if is_carried {
        carry(&values[ARRIVALS_CARRIED]);
    }
    let instance = samples::last(slot);
    samples::is_due(slot, instance).then_some((slot, instance))
}

/// The blocking call that began last has returned; `may_be_kept` says whether it may be in the
/// sample.
#[inline(always)]
pub fn end(cached: &CachedCall, active_call: &Slot, may_be_kept: bool, root: Option<u32>) {
    if let Some((slot, instance)) = returned(cached, active_call) {
        due(slot, instance, active_call, may_be_kept, root);
    }
}

/// The call that started a nonblocking operation has returned.
#[inline(always)]
pub fn started(
    cached: &CachedCall,
    active_call: &Slot,
    request: impl FnOnce() -> Option<Request>,
    root: Option<u32>,
) {
    if let Some((slot, instance)) = returned(cached, active_call) {
        due_later(slot, instance, active_call, request(), root);
    }
}

/// Keeps an instance if it is to be kept.
#[cold]
#[inline(never)]
fn due(slot: &Slot, number: u64, active_call: &Slot, may_be_kept: bool, root: Option<u32>) {
    let [arrival, departure] =
        [active_call::SINCE, active_call::RETURNED].map(|at| Ticks::new(own_value(&active_call.values[at])));
    note_root(active_call, root);
    if chosen(slot, number)
        && may_be_kept
        && let Some(world) = world::world()
    {
        let subject = Subject::Instance { root, completed: 0 };
        let sample = Sample { number, start: arrival, arrival, departure, subject };
        world::guarded(|| samples::keep(world, slot, &sample));
    }
}

/// Begins to keep an instance if it is to be kept; not without a `request`.
#[cold]
#[inline(never)]
fn due_later(slot: &Slot, number: u64, active_call: &Slot, request: Option<Request>, root: Option<u32>) {
    note_root(active_call, root);
    if chosen(slot, number)
        && let (Some(request), Some(world)) = (request, world::world())
    {
        world::guarded(|| {
            unfinished::begin(
                world,
                slot,
                active_call,
                request,
                number,
                Subject::Instance { root, completed: 0 },
            )
        });
    }
}

/// Returns whether the instance is to be kept.
fn chosen(slot: &Slot, number: u64) -> bool {
    !ptr::eq(slot, &NOT_KEPT) && samples::choose(slot, number)
}

/// Notes the root of the call, where the order is kept: each instance is due then.
fn note_root(active_call: &Slot, root: Option<u32>) {
    if order::is_on()
        && let Some(root) = root
    {
        let communicator = active_call::communicator_of(own_value(&active_call.values[active_call::CALL]));
        rarely(|recorder| order::note_root(&recorder.thread.order, communicator, root));
    }
}

#[cold]
fn carry(carried: &AtomicU64) {
    carried.fetch_add(1, Ordering::Relaxed);
}

/// Finds the slot for a cached call, and notes it there.
#[cold]
#[inline(never)]
fn find(cached: &CachedCall) -> *const Slot {
    let found = rarely(|recorder| {
        let Some(active_call::CurrentFunction::Operation(operation)) =
            active_call::call_of(cached.active_call.get())
        else {
            return None;
        };
        find_slot(recorder, operation, cached.id(), &cached.members(), 0)
    });
    let slot = found.flatten().unwrap_or(&NOT_KEPT);
    cached.instances().set(slot);
    slot
}

/// The slot of an operation on a communicator; `None` if none of its instances is kept. All threads
/// use it: the program orders the collective calls on a communicator. `request` is as in
/// [`InstancesKey`].
pub fn find_slot(
    recorder: &Recorder,
    operation: Operation,
    communicator: CommId,
    members: &CommShape,
    request: u32,
) -> Option<&'static Slot> {
    let most = most_samples(recorder.world, members);
    if most == 0 || is_of_neighbours(operation) || !ROWS.has_own_row(communicator) {
        return None;
    }
    let key = InstancesKey { communicator, operation: operation as u16, request }.pack();
    samples::slot(recorder, key, most)
}

/// A persistent operation is created: the number of the slot that counts its starts, see
/// [`samples::number`]. Members create theirs in the same order (MPI 4.1, 6.13), but start them in
/// any.
pub fn number_of_request(
    recorder: &Recorder,
    operation: Operation,
    communicator: CommId,
    members: &CommShape,
) -> u32 {
    let mut requests = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner);
    if requests.try_reserve(1).is_err() {
        return 0;
    }
    let request = requests.entry((communicator, operation as u16)).or_insert(0);
    *request += 1;
    // A program may create and free them without end.
    if *request >= InstancesKey::MOST_REQUESTS || !samples::has_numbers() {
        return 0;
    }
    find_slot(recorder, operation, communicator, members, *request).map_or(0, samples::number)
}

/// The most samples of an operation on a communicator: fewer on a large one, so that the profile
/// grows less than its members; none where nobody can wait for another, or members are of two
/// groups.
fn most_samples(world: &World, members: &CommShape) -> usize {
    let wanted = usize::try_from(world.options.instances).unwrap_or(usize::MAX);
    match members.size as usize {
        _ if members.is_inter() => 0,
        0 | 1 => 0,
        _ if wanted == usize::MAX => wanted,
        size => wanted.min((wanted * LARGE).div_ceil(size).max(LEAST)),
    }
}

/// Neighbourhood collectives depend on few members, which are not looked at.
fn is_of_neighbours(operation: Operation) -> bool {
    let name = operation.name();
    name.starts_with("MPI_Neighbor_") || name.starts_with("MPI_Ineighbor_")
}
