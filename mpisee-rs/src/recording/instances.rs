//! When this process entered and left a sample of the instances of each collective operation: with those of the other members
//! it shows who waited for whom. [`mpisee_profile::segment::instances`] says how all members keep the same ones without a message.

use super::Recorder;
use super::cached_counter::rarely;
use crate::naming::ROWS;
use crate::state::cached_call::CachedCall;
use crate::state::communicator::Members;
use crate::state::world::{self, World};
use crate::storage::segment::Words;
use crate::storage::sync::own_value;
use mpisee_profile::segment::instances::{
    ARRIVALS, ARRIVALS_CARRIED, DUE, INSTANCES, MASK, SAMPLE_WORDS, Sample, is_kept, narrower,
};
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::{InstancesKey, Key, active_call};
use mpisee_profile::{CommId, Operation, Ticks};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Samples for which there is room at first; it grows by this factor, up to `MPISEE_INSTANCES`.
const FIRST_ROOM: usize = 5;
const GROWTH: usize = 4;
/// Members of a communicator up to which there is the room that the option says; with more there is less for each, but never less than
/// for `LEAST` samples.
const LARGE: usize = 256;
const LEAST: usize = 32;
/// Limit on the samples of a process, 24 MiB: operations that come later have none.
const MOST_SAMPLES: usize = 1 << 20;

/// Stands for all operations of which no instance is kept.
static NOT_KEPT: Slot = Slot {
    key: AtomicU64::new(0),
    sequence: AtomicU64::new(0),
    values: {
        let mut values = [const { AtomicU64::new(0) }; 6];
        values[DUE] = AtomicU64::new(u64::MAX);
        values
    },
};

/// The operations of this process, by their keys.
static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(|| Mutex::new(Kept::new()));

struct Kept {
    operations: FxHashMap<Key, Instances>,
    samples: usize,
    /// There was no memory to note an operation, whose number is lost.
    has_failed: bool,
}

/// An operation on a communicator.
struct Instances {
    slot: &'static Slot,
    /// Where its samples are.
    words: Option<Words>,
    used: usize,
    /// The most samples of it.
    most: usize,
}

/// A collective call begins: counts the instance.
#[inline(always)]
pub fn begin(cached: &CachedCall) {
    let mut slot = cached.instances().get();
    if slot.is_null() {
        slot = find(cached);
    }
    // SAFETY: slots are never unmapped.
    let count = unsafe { &(&(*slot).values)[INSTANCES] };
    count.store(own_value(count).wrapping_add(1), Ordering::Relaxed);
}

/// The call that began last has returned.
#[inline(always)]
pub fn end(cached: &CachedCall, active_call: &Slot, has_succeeded: bool, root: Option<u32>) {
    // SAFETY: `begin` has set it, and nothing else does meanwhile; slots are never unmapped.
    let slot = unsafe { &*cached.instances().get() };
    let values = &slot.values;
    let instance = own_value(&values[INSTANCES]).wrapping_sub(1);
    let arrival = own_value(&active_call.values[active_call::SINCE]);
    let (sum, is_carried) = own_value(&values[ARRIVALS]).overflowing_add(arrival);
    values[ARRIVALS].store(sum, Ordering::Relaxed);
    if is_carried {
        carry(&values[ARRIVALS_CARRIED]);
    }
    if instance >= own_value(&values[DUE]) {
        let departure = Ticks::new(own_value(&active_call.values[active_call::RETURNED]));
        due(slot, Sample { instance, root, arrival: Ticks::new(arrival), departure }, has_succeeded);
    }
}

/// Keeps an instance if it is to be kept, and looks for the next one.
#[cold]
#[inline(never)]
fn due(slot: &'static Slot, sample: Sample, has_succeeded: bool) {
    /// A limit on the look, so that no call takes long.
    const MOST: u64 = 64;
    let is_kept_now = |instance| is_kept(instance, own_value(&slot.values[MASK]));
    if has_succeeded
        && is_kept_now(sample.instance)
        && let Some(world) = world::world()
    {
        world::guarded(|| kept().keep(world, slot, &sample));
    }
    let next = sample.instance + 1;
    let due = (next..next + MOST).find(|&instance| is_kept_now(instance)).unwrap_or(next + MOST);
    slot.values[DUE].store(due, Ordering::Relaxed);
}

#[cold]
fn carry(carried: &AtomicU64) {
    carried.fetch_add(1, Ordering::Relaxed);
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the slot for a cached call, and notes it there.
#[cold]
#[inline(never)]
fn find(cached: &CachedCall) -> *const Slot {
    let found = rarely(|recorder| {
        let Some(active_call::Call::Counted(operation)) = active_call::call_of(cached.place.get()) else {
            return None;
        };
        kept().slot(recorder, operation, cached.id(), &cached.members())
    });
    let slot = found.flatten().unwrap_or(&NOT_KEPT);
    cached.instances().set(slot);
    slot
}

impl Kept {
    fn new() -> Kept {
        Kept { operations: FxHashMap::default(), samples: 0, has_failed: false }
    }

    /// The slot of an operation; `None` if none of its instances is kept. All threads use it: the program orders the collective calls
    /// on a communicator.
    fn slot(
        &mut self,
        recorder: &Recorder,
        operation: Operation,
        communicator: CommId,
        members: &Members,
    ) -> Option<&'static Slot> {
        let room = most_samples(recorder.world, members);
        if room == 0 || is_of_neighbours(operation) || !ROWS.has_own_row(communicator) {
            return None;
        }
        let key = InstancesKey { communicator, operation: operation as u16 }.pack();
        if let Some(known) = self.operations.get(&key) {
            return Some(known.slot);
        }
        if self.has_failed || self.samples >= MOST_SAMPLES {
            return None;
        }
        let has_room = self.operations.try_reserve(1).is_ok();
        // PERF: beside the counters of the thread that has found it.
        let new_slot = || recorder.thread.counters.new_slot(&recorder.world.segment, key);
        let slot = if has_room { new_slot() } else { None };
        let Some(slot) = slot else {
            self.has_failed = true;
            return None;
        };
        self.operations.insert(key, Instances { slot, words: None, used: 0, most: room });
        Some(slot)
    }

    fn keep(&mut self, world: &World, slot: &'static Slot, sample: &Sample) {
        let Some(operation) = self.operations.get_mut(&Key(slot.key.load(Ordering::Relaxed))) else { return };
        if operation.is_full() {
            let before = operation.room();
            if !operation.grow(world) {
                operation.narrow();
            }
            self.samples += operation.room() - before;
        }
        if is_kept(sample.instance, own_value(&slot.values[MASK])) {
            operation.push(sample);
        }
    }
}

/// The most samples of an operation on a communicator: fewer on a large one, so that the profile grows less than its members; none where nobody can wait for another, or members are of two groups.
fn most_samples(world: &World, members: &Members) -> usize {
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
    operation.name().starts_with("MPI_Neighbor_")
}

impl Instances {
    fn room(&self) -> usize {
        self.words.map_or(0, |words| words.body().len() / SAMPLE_WORDS)
    }

    fn is_full(&self) -> bool {
        self.used >= self.room()
    }

    /// Moves the samples to a larger room; false if there is none.
    fn grow(&mut self, world: &World) -> bool {
        let room = (self.room() * GROWTH).max(FIRST_ROOM).min(self.most);
        if room <= self.room() {
            return false;
        }
        let Some(larger) =
            world.segment.samples(Key(self.slot.key.load(Ordering::Relaxed)), room * SAMPLE_WORDS)
        else {
            return false;
        };
        if let Some(words) = self.words {
            let copied = self.used * SAMPLE_WORDS;
            for (to, from) in larger.body().iter().zip(&words.body()[..copied]) {
                to.store(own_value(from), Ordering::Relaxed);
            }
            words.used().store(0, Ordering::Relaxed);
        }
        larger.used().store(self.used as u64, Ordering::Release);
        self.words = Some(larger);
        true
    }

    /// Keeps half of the instances from now on, and drops the others.
    fn narrow(&mut self) {
        let mask = narrower(own_value(&self.slot.values[MASK]));
        self.slot.values[MASK].store(mask, Ordering::Relaxed);
        let Some(words) = self.words else { return };
        // A rank that is killed meanwhile has no samples of the operation.
        words.used().store(0, Ordering::Release);
        let samples = self.used;
        self.used = 0;
        for at in 0..samples {
            let from = &words.body()[at * SAMPLE_WORDS..][..SAMPLE_WORDS];
            let sample = Sample::from_words(std::array::from_fn(|word| own_value(&from[word])));
            if is_kept(sample.instance, mask) {
                self.write(words, &sample);
            }
        }
        words.used().store(self.used as u64, Ordering::Release);
    }

    fn push(&mut self, sample: &Sample) {
        let Some(words) = self.words.filter(|_| !self.is_full()) else { return };
        self.write(words, sample);
        words.used().store(self.used as u64, Ordering::Release);
    }

    fn write(&mut self, words: Words, sample: &Sample) {
        let to = &words.body()[self.used * SAMPLE_WORDS..][..SAMPLE_WORDS];
        to.iter().zip(sample.words()).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        self.used += 1;
    }
}
