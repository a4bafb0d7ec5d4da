//! Samples of what this process counts: of the instances of each collective operation
//! ([`super::instances`]) and of the messages of each stream ([`super::streams`]).
//! [`mpisee_profile::segment::instances`] says how several processes keep the same ones without a
//! message.

use super::Recorder;
use crate::state::order;
use crate::state::world::World;
use crate::storage::segment::Words;
use crate::storage::sync::own_value;
use mpisee_profile::Operation;
use mpisee_profile::segment::instances::{
    DUE, INSTANCES, MASK, SAMPLE_WORDS, Sample, is_kept, narrower, number_of,
};
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::{SlotKey, active_call};
use rustc_hash::FxHashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Samples for which there is room at first; it grows by this factor, up to what the options say.
const FIRST_ROOM: usize = 5;
const GROWTH: usize = 4;
/// Limit on the samples of a process, 20 MiB: what is counted later has none.
const MOST_SAMPLES: usize = 1 << 19;
/// Slots that have a number.
const MOST_NUMBERED: usize = 2048;

/// Stands for all of which no sample is kept.
pub static NOT_KEPT: Slot = Slot {
    key: AtomicU64::new(0),
    sequence: AtomicU64::new(0),
    values: {
        let mut values = [const { AtomicU64::new(0) }; 6];
        values[DUE] = AtomicU64::new(u64::MAX);
        values
    },
};

/// All that is counted, by its key.
static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(|| Mutex::new(Kept::default()));

/// Slots by their numbers, from 1: what a request refers to.
static NUMBERED: [AtomicPtr<Slot>; MOST_NUMBERED] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_NUMBERED];

#[derive(Default)]
struct Kept {
    counted: FxHashMap<SlotKey, Samples>,
    samples: usize,
    /// There was no memory to note what is counted, whose number is lost.
    has_failed: bool,
}

/// The samples of one slot.
struct Samples {
    slot: &'static Slot,
    /// Where they are.
    words: Option<Words>,
    used: usize,
    /// The most of them.
    most: usize,
}

/// The call that the thread is in, if it is counted.
pub fn active_operation(active_call: &Slot) -> Option<Operation> {
    match active_call::call_of(own_value(&active_call.values[active_call::CALL])) {
        Some(active_call::CurrentFunction::Operation(operation)) => Some(operation),
        _ => None,
    }
}

/// Counts one more; returns its number from 0.
#[inline(always)]
pub fn count(slot: &Slot) -> u64 {
    let count = &slot.values[INSTANCES];
    let number = own_value(count);
    count.store(number.wrapping_add(1), Ordering::Relaxed);
    number
}

/// The number of the one that was counted last.
#[inline(always)]
pub fn last(slot: &Slot) -> u64 {
    own_value(&slot.values[INSTANCES]).wrapping_sub(1)
}

/// Returns whether this number may have to be kept.
#[inline(always)]
pub fn is_due(slot: &Slot, number: u64) -> bool {
    number >= own_value(&slot.values[DUE])
}

/// Returns whether one is to be kept; looks for the next one.
pub fn choose(slot: &Slot, number: u64) -> bool {
    /// A limit on the look, so that no call takes long.
    const MOST: u64 = 64;
    let is_kept_now = |number| is_kept(number, own_value(&slot.values[MASK]));
    let next = number + 1;
    let due = (next..next + MOST).find(|&number| is_kept_now(number)).unwrap_or(next + MOST);
    let due = if order::is_on() { next } else { due };
    slot.values[DUE].store(due, Ordering::Relaxed);
    is_kept_now(number)
}

/// From now on each one is to be looked at, also where none is kept.
pub fn look_at_each() {
    NOT_KEPT.values[DUE].store(0, Ordering::Relaxed);
}

/// The slot with this key, of which at most `most` samples are kept. `None` if there is no room for
/// it.
pub fn slot(recorder: &Recorder, key: SlotKey, most: usize) -> Option<&'static Slot> {
    kept().slot(recorder, key, most)
}

/// Keeps a sample, if the mask of its slot still has it.
pub fn keep(world: &World, slot: &Slot, sample: &Sample) {
    kept().keep(world, slot, sample);
}

/// Gives a slot a number; 0 if there is none left. Numbers are given in the order of calls, by one
/// thread at a time.
pub fn number(slot: &'static Slot) -> u32 {
    let _kept = kept();
    let place = NUMBERED.iter().position(|place| {
        let known = place.load(Ordering::Relaxed);
        known.is_null() || ptr::eq(known, slot)
    });
    let Some(place) = place else { return 0 };
    NUMBERED[place].store(ptr::from_ref(slot).cast_mut(), Ordering::Release);
    place as u32 + 1
}

/// Returns whether there is a number for a further slot.
pub fn has_numbers() -> bool {
    NUMBERED[MOST_NUMBERED - 1].load(Ordering::Relaxed).is_null()
}

/// The slot with that number; for 0 that of which nothing is kept.
#[inline]
pub fn numbered(number: u32) -> &'static Slot {
    let place = (number as usize).checked_sub(1).and_then(|place| NUMBERED.get(place));
    let known = place.map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
    if known.is_null() {
        return &NOT_KEPT;
    }
    // SAFETY: `number` has stored a slot there, and slots are never unmapped.
    unsafe { &*known }
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn slot(&mut self, recorder: &Recorder, key: SlotKey, most: usize) -> Option<&'static Slot> {
        if let Some(known) = self.counted.get(&key) {
            return Some(known.slot);
        }
        if self.has_failed || self.samples >= MOST_SAMPLES {
            return None;
        }
        let has_room = self.counted.try_reserve(1).is_ok();
        // PERF: beside the counters of the thread that has found it.
        let new_slot = || recorder.thread.counters.new_slot(&recorder.world.segment, key);
        let slot = if has_room { new_slot() } else { None };
        let Some(slot) = slot else {
            self.has_failed = true;
            return None;
        };
        self.counted.insert(key, Samples { slot, words: None, used: 0, most });
        Some(slot)
    }

    fn keep(&mut self, world: &World, slot: &Slot, sample: &Sample) {
        let Some(samples) = self.counted.get_mut(&SlotKey(slot.key.load(Ordering::Relaxed))) else { return };
        if samples.is_full() {
            let before = samples.room();
            if !samples.grow(world) {
                samples.narrow();
            }
            self.samples += samples.room() - before;
        }
        if is_kept(sample.number, own_value(&slot.values[MASK])) {
            samples.push(sample);
        }
    }
}

impl Samples {
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
            world.segment.samples(SlotKey(self.slot.key.load(Ordering::Relaxed)), room * SAMPLE_WORDS)
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

    /// Keeps half of what is counted from now on, and drops the others.
    fn narrow(&mut self) {
        let mask = narrower(own_value(&self.slot.values[MASK]));
        self.slot.values[MASK].store(mask, Ordering::Relaxed);
        let Some(words) = self.words else { return };
        // A rank that is killed meanwhile has no samples of it.
        words.used().store(0, Ordering::Release);
        let samples = self.used;
        self.used = 0;
        for at in 0..samples {
            let from = &words.body()[at * SAMPLE_WORDS..][..SAMPLE_WORDS];
            let sample = std::array::from_fn(|word| own_value(&from[word]));
            if is_kept(number_of(sample[0]), mask) {
                self.write(words, sample);
            }
        }
        words.used().store(self.used as u64, Ordering::Release);
    }

    fn push(&mut self, sample: &Sample) {
        let Some(words) = self.words.filter(|_| !self.is_full()) else { return };
        self.write(words, sample.words());
        words.used().store(self.used as u64, Ordering::Release);
    }

    fn write(&mut self, words: Words, sample: [u64; SAMPLE_WORDS]) {
        let to = &words.body()[self.used * SAMPLE_WORDS..][..SAMPLE_WORDS];
        to.iter().zip(sample).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        self.used += 1;
    }
}
