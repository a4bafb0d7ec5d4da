//! Polls that find nothing, again and again: what programs call most while they wait without a
//! blocking call.
//!
//! A run is a sequence of polls with equal identifiers. Most polls of a run are counted and not
//! timed if they follow each other within microseconds: reading the clock twice takes longer than
//! all else. The first poll is timed. A later poll is timed after a random gap of [`MEAN_UNTIMED`]
//! polls on average, and stands for the untimed polls before it. So the row has the exact number of
//! calls and an estimate of their time, with its error.
//!
//! A long time between two timed polls may be one long poll or the program's own work. It is
//! divided as the long times were that both began and ended with a timed poll.
//!
//! A poll that finds something ends the run. Its begin is known only if it was timed. So all polls
//! of some runs are timed, the first run and others at random: they show how long a successful poll
//! takes.

use super::cached_counter::rarely;
use super::{RecordedCall, returning};
use crate::mpi::abi::{Comm, bits};
use crate::state::cached_call::{CachedCall, Envelope};
use crate::state::order;
use crate::state::poll::{Poll, PollId, SHORT};
use crate::state::request::REQUESTS;
use crate::state::sampled_overhead;
use crate::state::sites;
use crate::state::thread::{self, Inside, Thread};
use crate::storage::clock;
use crate::storage::counters::{add, update};
use crate::storage::frame::{self, CalledFrom};
use crate::storage::sync::own_value;
use mpisee_profile::segment::layout::{Slot, call, poll_error};
use mpisee_profile::segment::{SlotKey, active_call};
use mpisee_profile::{Operation, Ticks};
use std::sync::atomic::Ordering;

/// Mean number of untimed polls between two timed ones.
const MEAN_UNTIMED: u16 = 64;
/// Mean number of runs between two runs of which all polls are timed.
const MEAN_RUNS: u16 = 32;
/// Most polls that are timed in such a run.
const MOST_TIMED: u16 = 250;
/// Polls that are timed after a long time of which it is not known what it was.
const TIMED_TO_KNOW: u16 = 16_000;

/// The poll for requests in that variable, by the export into which this is inlined, while calls
/// are counted. `asked` reads the request, or says how many there are in an array.
#[inline(always)]
pub fn poll_for_requests(
    operation: Operation,
    variable: usize,
    asked: impl FnOnce() -> u64,
) -> Option<PollId> {
    PollId::new(operation, variable as u64, frame::caller(), REQUESTS.started(), asked)
}

/// The poll for a message on that communicator, as [`poll_for_requests`].
#[inline(always)]
pub fn poll_for_message(operation: Operation, comm: Comm, ends: Envelope) -> Option<PollId> {
    PollId::new(operation, bits(comm), frame::caller(), 0, || ends.word())
}

/// A poll that repeats the last one at its place, and is not timed.
pub struct RepeatedPoll {
    inside: Inside,
    poll: &'static Poll,
    /// True if the time that recording takes is measured.
    is_measured: bool,
}

impl RepeatedPoll {
    /// `None` for a poll that is another one than the last, or is to be timed; `same` compares the
    /// requests of an array.
    #[inline(always)]
    pub fn begin(id: Option<PollId>, same: impl FnOnce(&Poll) -> bool) -> Option<RepeatedPoll> {
        let id = id?;
        let (inside, poll) = thread::repeated_poll(&id, same)?;
        let is_measured = sampled_overhead::poll_begins(inside.active_call());
        Some(RepeatedPoll { inside, poll, is_measured })
    }

    /// Returns whether MPI has to fill a status, though the program ignores it.
    #[inline(always)]
    pub fn needs_status(&self) -> bool {
        self.poll.needs_status.get()
    }

    /// The poll.
    pub fn poll(&self) -> &'static Poll {
        self.poll
    }

    /// Makes the call. Meanwhile the segment says where the thread is; since when it has of the
    /// last call that was timed.
    #[inline(always)]
    pub fn make<R>(&self, call: impl FnOnce() -> R) -> R {
        if self.is_measured {
            sampled_overhead::poll_calls(self.inside.active_call());
        }
        let poll = self.poll;
        let from = CalledFrom { frame: frame::pointer(), caller: frame::caller() };
        self.inside.publish_untimed(poll.call.get(), poll.ends.get(), from);
        let result = returning(call);
        if self.is_measured {
            sampled_overhead::poll_returned(self.inside.active_call());
        }
        result
    }

    /// Counts a poll that found nothing.
    #[inline(always)]
    pub fn found_nothing(self) {
        // Time comes with the next timed poll; a reader that looks in between misses the time of a
        // few calls.
        add(&self.row().values[call::CALLS], 1);
    }

    /// Ends the run: this poll has found something, or failed. Counts it, and returns the call,
    /// whose completions are left to record.
    #[cold]
    #[inline(never)]
    pub fn end_run(self) -> RecordedCall {
        let end = self.inside.returned();
        let poll = self.poll;
        let untimed = poll.untimed().saturating_sub(1);
        let elapsed = clock::between(poll.ended.get(), end);
        let before = times(poll.period.get(), untimed).min(elapsed);
        let own = elapsed.saturating_sub(before);
        let usual = if own <= SHORT { own } else { poll.successful.get().min(own) };
        let usual = usual.max(poll.took.get()).min(elapsed);
        let (more, doubt) = long_part(poll, own.saturating_sub(usual));
        let took = usual.saturating_add(more);
        let others = times(poll.took.get(), untimed).min(before);
        let error = half(usual).saturating_add(half(others));
        add_estimate(poll, untimed + 1, Estimate { sum: others.saturating_add(took), error, doubt });
        // Its time is no measured one, so that the shortest and the longest stay.
        add(&self.row().values[call::CALLS], 1);
        if doubt > Ticks::ZERO {
            poll.runs_until_timed.set(0);
        }
        poll.end();
        self.inside.set_since(end.saturating_sub(took));
        RecordedCall { inside: self.inside }
    }

    /// The slot of its row.
    #[inline(always)]
    fn row(&self) -> &'static Slot {
        // SAFETY: a poll with an identifier has the slot that `note_timed_array` has stored in the
        // same call; slots are never unmapped.
        unsafe { &*self.poll.slot.get() }
    }
}

/// Notes a poll that found nothing and was timed, as the call of the thread that has just returned;
/// `cached` has its row. Those that repeat it need not be timed.
#[inline(never)]
pub fn note_timed(id: &PollId, thread: &Thread, cached: &CachedCall, ends: u64, needs_status: bool) {
    note_timed_array(id, thread, cached, ends, needs_status, 0, |_| 0);
}

/// As [`note_timed`], of an array of `count` requests, of which `handle` reads the handles.
#[inline(always)]
pub fn note_timed_array(
    id: &PollId,
    thread: &Thread,
    cached: &CachedCall,
    ends: u64,
    needs_status: bool,
    count: usize,
    handle: impl Fn(usize) -> u64,
) {
    let poll = thread.poll(id);
    let [start, end] = [active_call::SINCE, active_call::RETURNED]
        .map(|which| Ticks::new(own_value(&thread.active_call.values[which])));
    let took = clock::between(start, end);
    if poll.is(id) && poll.has_requests(count, &handle) {
        repeat_timed(poll, start, took);
    } else {
        release(poll);
        poll.set(id);
        poll.set_requests(count, handle);
        poll.slot.set(cached.slot.get());
        poll.call.set(cached.active_call.get());
        poll.ends.set(ends);
        poll.needs_status.set(needs_status);
        let runs = poll.runs_until_timed.get();
        poll.all_timed.set(if runs == 0 { MOST_TIMED } else { 0 });
        poll.runs_until_timed.set(if runs == 0 { at_random(MEAN_RUNS, end) } else { runs - 1 });
    }
    poll.ended.set(end);
    poll.took.set(took);
    if poll.all_timed.get() > 0 {
        poll.all_timed.set(poll.all_timed.get() - 1);
    } else if poll.mean_untimed.get() > 0 {
        poll.time_after(at_random(poll.mean_untimed.get(), end));
    }
}

/// Notes a test of these requests that found something and was timed, as the call of the thread
/// that has just returned.
#[inline(always)]
pub fn note_timed_success(operation: Operation, variable: usize, thread: &Thread, ticks: Ticks) {
    if let Some(id) = PollId::new(operation, variable as u64, frame::caller(), 0, || 0) {
        note_success(&id, thread, ticks);
    }
}

/// Notes a timed poll at the place of `id` that found something.
#[inline(never)]
pub fn note_success(id: &PollId, thread: &Thread, ticks: Ticks) {
    let poll = thread.poll(id);
    if poll.is_at(id) {
        release(poll);
        poll.end();
        poll.successful.set(ticks);
    }
}

/// Returns whether the export into which this is inlined is called by the program itself, so that
/// its caller shows the place.
#[inline(always)]
pub fn is_called_by_program() -> bool {
    sites::is_of_program(frame::caller())
}

/// Estimates the time of the polls since the last one that was timed, before one that began at
/// `start`.
#[inline(always)]
fn repeat_timed(poll: &Poll, start: Ticks, took: Ticks) {
    let elapsed = clock::between(poll.ended.get(), start);
    let mut period = elapsed.saturating_add(took);
    if poll.planned.get() > 0 {
        period = estimate_between(poll, elapsed, took);
    } else if period > SHORT {
        note_long(poll, elapsed, took);
    }
    poll.period.set(period);
    let mean = if period > SHORT || order::is_on() {
        0
    } else {
        (2 * poll.mean_untimed.get()).clamp(1, MEAN_UNTIMED)
    };
    poll.mean_untimed.set(mean);
}

/// Estimates the time of the polls between the last one that was timed and the one that `took` so
/// long; returns the time from one to the next.
#[inline(never)]
fn estimate_between(poll: &Poll, elapsed: Ticks, took: Ticks) -> Ticks {
    let (untimed, last) = (poll.untimed(), poll.took.get());
    let mean = half(last).saturating_add(half(took));
    // They took no longer than what has passed.
    let sum = times(mean, untimed).min(elapsed);
    let usual = sum.max(times(poll.period.get(), untimed));
    let (more, doubt) = long_part(poll, elapsed.saturating_sub(usual));
    // A timed poll is at the end of one interval and of the next: the variance of their sum is
    // twice that of independent ones.
    let apart = Ticks::new(last.get().abs_diff(took.get()) * 181 / 256);
    let error = times(apart, untimed).min(elapsed);
    add_estimate(poll, untimed, Estimate { sum: sum.saturating_add(more), error, doubt });
    if doubt > Ticks::ZERO && !poll.long.get().is_known(elapsed) {
        poll.all_timed.set(TIMED_TO_KNOW);
    }
    poll.time_after(0);
    Ticks::new(elapsed.saturating_add(took).get() / (untimed + 1))
}

/// Notes a long time from the end of a timed poll to that of the next, which took `took` after
/// `elapsed`.
#[cold]
#[inline(never)]
fn note_long(poll: &Poll, elapsed: Ticks, took: Ticks) {
    for (time, is_inside) in [(elapsed, false), (took, true)] {
        if time > SHORT {
            let mut long = poll.long.get();
            long.note(time, is_inside);
            poll.long.set(long);
        }
    }
}

/// The part of a time between timed polls that was in polls beyond their usual time, and by how
/// much it may be wrong.
fn long_part(poll: &Poll, more: Ticks) -> (Ticks, Ticks) {
    if more > SHORT { poll.long.get().part_of(more) } else { (Ticks::ZERO, Ticks::ZERO) }
}

/// Estimates the time of polls since the last one that was timed, of a thread that makes others
/// now.
fn release(poll: &Poll) {
    if poll.is_used() {
        let sum = times(poll.took.get(), poll.untimed());
        add_estimate(poll, poll.untimed(), Estimate { sum, error: half(sum), doubt: Ticks::ZERO });
    }
}

/// Estimates the time of all polls of the calling thread that were not timed, before the profile is
/// written.
pub fn release_own() {
    for poll in thread::own().into_iter().flat_map(Thread::polls) {
        release(poll);
        poll.end();
    }
}

fn times(ticks: Ticks, count: u64) -> Ticks {
    Ticks::new(ticks.get().saturating_mul(count))
}

fn half(ticks: Ticks) -> Ticks {
    Ticks::new(ticks.get() / 2)
}

/// A number that is `mean` on average, from half of that to one and a half: a program may do the
/// same in turns.
fn at_random(mean: u16, now: Ticks) -> u16 {
    let chance = (now.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u16;
    mean - mean / 2 + chance % (mean / 2 * 2 + 1)
}

/// The time of polls that were counted and not timed.
struct Estimate {
    sum: Ticks,
    /// By how much it may be wrong, in either direction, independently of others.
    error: Ticks,
    /// By how much it may be wrong, and others with it.
    doubt: Ticks,
}

/// Adds the time of polls that were counted and not timed, and its error.
fn add_estimate(poll: &Poll, untimed: u64, Estimate { sum, error, doubt }: Estimate) {
    if untimed == 0 && error == Ticks::ZERO && doubt == Ticks::ZERO {
        return;
    }
    // SAFETY: as in `RepeatedPoll::row`.
    let slot = unsafe { &*poll.slot.get() };
    update(slot, |values| add(&values[call::TICKS], sum.get()));
    if poll.error.get().is_null() {
        let key = SlotKey(slot.key.load(Ordering::Relaxed));
        let found = key.error_of_polls().and_then(|key| rarely(|recorder| recorder.slot(key))?);
        poll.error.set(found.map_or(std::ptr::null(), std::ptr::from_ref));
    }
    // SAFETY: slots are never unmapped.
    if let Some(slot) = unsafe { poll.error.get().as_ref() } {
        update(slot, |values| {
            add(&values[poll_error::UNTIMED], untimed);
            let square = error.get().saturating_pow(2);
            let variance = own_value(&values[poll_error::VARIANCE]).saturating_add(square);
            values[poll_error::VARIANCE].store(variance, Ordering::Relaxed);
            add(&values[poll_error::DOUBT], doubt.get());
        });
    }
}
