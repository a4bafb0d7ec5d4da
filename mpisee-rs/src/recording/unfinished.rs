//! Samples of operations that were started and are not complete yet: their requests refer to them.

use super::samples;
use crate::mpi::abi::Request;
use crate::state::request::{REQUESTS, RequestKind, RequestState};
use crate::state::world::World;
use crate::storage::sync::own_value;
use mpisee_profile::segment::active_call;
use mpisee_profile::segment::instances::{Sample, Subject};
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::{Operation, Ticks};
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

/// A call that completed operations.
#[derive(Clone, Copy)]
pub struct CompletingCall {
    pub operation: Operation,
    pub arrival: Ticks,
    pub departure: Ticks,
    /// The sends, receives and collective operations that it completed.
    pub completed: u32,
}

/// The operation that the call in progress has started is to be kept when `request` is complete;
/// the number of its sample and `subject` are known so far.
pub fn begin(
    world: &World,
    slot: &Slot,
    active_call: &Slot,
    request: Request,
    number: u64,
    subject: Subject,
) {
    let [start, end] =
        [active_call::SINCE, active_call::RETURNED].map(|at| Ticks::new(own_value(&active_call.values[at])));
    let unfinished = Unfinished::new(slot, number, start, subject);
    // What shares its handle with others was complete when it started.
    if REQUESTS.is_aliased(request) {
        if let Some(operation) = samples::active_operation(active_call) {
            let call = CompletingCall { operation, arrival: end, departure: end, completed: 1 };
            unfinished.keep(world, &call, None);
        }
        return;
    }
    let Some(added) = add(unfinished) else { return };
    if !REQUESTS.set_unfinished(request, added) {
        take(added);
    }
}

/// A persistent request was started at `start`, and its operation counted in `slot`: returns the
/// number of its sample; 0 if none is kept.
pub fn begin_again(slot: &Slot, number: u64, started: &RequestState, start: Ticks) -> u32 {
    if !samples::is_due(slot, number) || !samples::choose(slot, number) {
        return 0;
    }
    let subject = match started.kind {
        RequestKind::Collective => Subject::Instance { root: u32::try_from(started.peer).ok(), completed: 0 },
        RequestKind::Send => Subject::Message { bytes: started.message, completion: None },
        _ => Subject::Message { bytes: 0, completion: None },
    };
    add(Unfinished::new(slot, number, start, subject)).unwrap_or(0)
}

/// Keeps the operation of that number, which `call` has completed; `bytes` is the length of a
/// message that was received.
pub fn finish(world: &World, number: u32, call: &CompletingCall, bytes: Option<u64>) {
    if let Some(unfinished) = take(number) {
        unfinished.keep(world, call, bytes);
    }
}

/// Keeps what is known of an operation whose completion nobody will see: of a message that is sent,
/// when that began.
pub fn abandon(world: &World, started: &RequestState) {
    if let Some(Unfinished { slot, sample }) = take(started.unfinished)
        && started.kind == RequestKind::Send
    {
        // SAFETY: slots are never unmapped.
        samples::keep(world, unsafe { slot.as_ref() }, &sample);
    }
}

/// Forgets the operation of that number, which has failed.
pub fn forget(number: u32) {
    take(number);
}

impl Unfinished {
    /// One whose end is unknown so far.
    fn new(slot: &Slot, number: u64, start: Ticks, subject: Subject) -> Self {
        let sample = Sample { number, start, arrival: Ticks::ZERO, departure: Ticks::ZERO, subject };
        Unfinished { slot: NonNull::from(slot), sample }
    }

    fn keep(self, world: &World, call: &CompletingCall, received: Option<u64>) {
        let &CompletingCall { operation, arrival, departure, completed } = call;
        let subject = match self.sample.subject {
            Subject::Instance { root, .. } => Subject::Instance { root, completed: completed.max(1) },
            Subject::Message { bytes, .. } => Subject::Message {
                bytes: received.unwrap_or(bytes),
                completion: Some((operation, completed)),
            },
        };
        let sample = Sample { arrival, departure, subject, ..self.sample };
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
