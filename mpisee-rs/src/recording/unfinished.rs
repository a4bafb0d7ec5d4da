//! Samples of operations that were started and are not complete yet: their requests refer to them.

use super::samples;
use crate::mpi::abi::Request;
use crate::state::request::{Kind, Operations, REQUESTS, RequestState};
use crate::state::world::World;
use crate::storage::sync::own_value;
use mpisee_profile::Ticks;
use mpisee_profile::segment::Key;
use mpisee_profile::segment::active_call;
use mpisee_profile::segment::instances::Sample;
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::Slot;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Operations at a time; those that are started while there are as many are not kept.
const MOST: usize = 1 << 16;

/// The operations, by their numbers from 1.
static UNFINISHED: Mutex<Table> = Mutex::new(Table { all: Vec::new(), free: Vec::new() });

struct Table {
    all: Vec<Unfinished>,
    /// The numbers of those that are complete.
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Unfinished {
    slot: NonNull<Slot>,
    sample: Sample,
}

// SAFETY: a slot is shared between threads, and never unmapped.
unsafe impl Send for Unfinished {}

/// The calls that completed an operation, and what was known then.
#[derive(Clone, Copy)]
pub struct Completed {
    pub arrival: Ticks,
    pub departure: Ticks,
    /// The operations that the call completed.
    pub together: Operations,
    /// The length of a message that was received.
    pub bytes: Option<u64>,
}

/// The operation that the call in progress has started is to be kept when `request` is complete. Of a message to send, `bytes` is
/// the length; its `detail` comes later.
pub fn begin(
    world: &World,
    slot: &Slot,
    active_call: &Slot,
    request: Request,
    number: u64,
    detail: Option<u32>,
    bytes: u64,
) {
    let [start, end] =
        [active_call::SINCE, active_call::RETURNED].map(|at| Ticks::new(own_value(&active_call.values[at])));
    let sample = Sample { number, detail, start, bytes, ..Sample::default() };
    let unfinished = Unfinished { slot: NonNull::from(slot), sample };
    // What shares its handle with others was complete when it started.
    if REQUESTS.is_aliased(request) {
        unfinished.keep(
            world,
            &Completed { arrival: end, departure: end, together: Operations::ONE_OF_EACH, bytes: None },
        );
        return;
    }
    let Some(added) = add(unfinished) else { return };
    if !REQUESTS.set_unfinished(request, added) {
        take(added);
    }
}

/// A persistent request was started at `start`, and its operation counted in `slot`: returns the number of its sample; 0 if none is
/// kept.
pub fn begin_again(slot: &Slot, number: u64, started: &RequestState, start: Ticks) -> u32 {
    if !samples::is_due(slot, number) || !samples::is_chosen(slot, number) {
        return 0;
    }
    let bytes = if started.kind == Kind::Send { started.message } else { 0 };
    let sample = Sample { number, start, bytes, ..Sample::default() };
    add(Unfinished { slot: NonNull::from(slot), sample }).unwrap_or(0)
}

/// Keeps the operation of that number, which is complete.
pub fn finish(world: &World, number: u32, completed: &Completed) {
    if let Some(unfinished) = take(number) {
        unfinished.keep(world, completed);
    }
}

/// Keeps what is known of an operation whose completion nobody will see: of a message that is sent, when that began.
pub fn abandon(world: &World, started: &RequestState) {
    if let Some(Unfinished { slot, sample }) = take(started.unfinished)
        && started.kind == Kind::Send
    {
        // SAFETY: slots are never unmapped.
        samples::keep(world, unsafe { slot.as_ref() }, &sample);
    }
}

/// Forgets the operation of that number, which has failed.
pub fn forget(number: u32) {
    take(number);
}

fn is_message(slot: NonNull<Slot>) -> bool {
    // SAFETY: slots are never unmapped.
    let key = Key(own_value(&unsafe { slot.as_ref() }.key));
    matches!(key.meaning(), Some(Meaning::Stream(_)))
}

impl Unfinished {
    fn keep(self, world: &World, &Completed { arrival, departure, together, bytes }: &Completed) {
        let (detail, bytes) = match is_message(self.slot) {
            true => (Some(together.messages()), bytes.unwrap_or(self.sample.bytes)),
            false => (self.sample.detail, together.collectives().into()),
        };
        let sample = Sample { arrival, departure, detail, bytes, ..self.sample };
        // SAFETY: slots are never unmapped.
        samples::keep(world, unsafe { self.slot.as_ref() }, &sample);
    }
}

fn add(unfinished: Unfinished) -> Option<u32> {
    let mut table = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let Table { all, free } = &mut *table;
    if let Some(number) = free.pop() {
        all[number as usize - 1] = unfinished;
        return Some(number);
    }
    // Room for each in the list of free ones, so that none is lost when it is complete.
    if all.len() >= MOST || all.try_reserve(1).is_err() || free.try_reserve(all.len() + 1).is_err() {
        return None;
    }
    all.push(unfinished);
    Some(all.len() as u32)
}

fn take(number: u32) -> Option<Unfinished> {
    let mut table = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = table.all.get((number as usize).checked_sub(1)?).copied()?;
    table.free.push(number);
    Some(taken)
}
