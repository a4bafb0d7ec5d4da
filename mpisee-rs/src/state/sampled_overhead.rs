//! The overhead of recording, measured while the program runs.
//!
//! Of about one call in a thousand a thread measures the time that it spends in the library and not
//! in MPI. So the overhead is that of the program's own calls, with caches as cold as the program
//! leaves them.
//!
//! Part of it no clock can show: what passes before recording reads one, and what overlaps with the
//! call to MPI. That part is cache lines and pages that have to come from memory. In its place
//! stands the time that as many others take, which were touched last when ours were, in the call
//! before: the [`stand_in`].

use super::gpu::memory_kind;
use super::switching;
use super::world::{self, World};
use crate::storage::sync::own_value;
use crate::storage::{clock, thread_words};
use mpisee_profile::Ticks;
use mpisee_profile::segment::active_call::{RETURNED, SAMPLING, SINCE, countdown};
use mpisee_profile::segment::layout::{Slot, overhead, sampled};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const _: () = assert!(sampled::stands_for(u64::MAX) * 3 / 2 <= countdown::MOST_STANDS_FOR);
/// Measured calls from one look for a GPU's driver to the next.
const SAMPLES_PER_LOOK: u64 = 4;
/// Ticks, 0.7 ms at 3 GHz: what takes longer was interrupted, as a rule by another process on the
/// same core.
const LONGEST: u64 = countdown::MOST_HIDDEN - 1;
/// Requests of an array up to which a call on it is sampled as others are. With more of them it
/// takes many times as long as most calls, and few samples in a thousand would have to stand for
/// all such calls.
const SHORT_ARRAY: usize = 32;
/// Ticks that the work on each request of a longer array takes at most, if it is not interrupted.
const LONGEST_PER_REQUEST: u64 = 2048;

/// The ticks that measuring adds to a call in a loop, and to the stand-in.
static OWN_TICKS: [AtomicI64; 2] = [const { AtomicI64::new(0) }; 2];

/// The ticks that one reading of the clock takes.
static READING: AtomicU64 = AtomicU64::new(0);

fn value(active_call: &Slot, which: usize) -> Ticks {
    Ticks::new(own_value(&active_call.values[which]))
}

fn set(active_call: &Slot, which: usize, value: u64) {
    active_call.values[which].store(value, Ordering::Relaxed);
}

#[inline(always)]
fn sampling(active_call: &Slot) -> u64 {
    own_value(&active_call.values[SAMPLING])
}

/// A call begins.
#[inline(always)]
pub fn call_begins(active_call: &Slot) {
    // The lowest bits count down, see `countdown`.
    let word = sampling(active_call).wrapping_sub(1);
    active_call.values[SAMPLING].store(word, Ordering::Relaxed);
    if countdown::left(word) <= 0 {
        begin_or_end(active_call, true);
    }
}

/// As [`call_begins`], of a poll that is not timed; returns whether it is measured.
#[inline(always)]
pub fn poll_begins(active_call: &Slot) -> bool {
    call_begins(active_call);
    countdown::left(sampling(active_call)) < 0
}

/// A poll that is measured calls MPI. The clock is read for the measure alone: what that takes is
/// no part of the poll.
#[cold]
#[inline(never)]
pub fn poll_calls(active_call: &Slot) {
    let now = clock::ticks().get();
    let since = now.saturating_sub(READING.load(Ordering::Relaxed));
    set(active_call, SINCE, since.max(thread_words::sampled_since().min(now)));
}

/// MPI has returned from such a poll.
#[cold]
#[inline(never)]
pub fn poll_returned(active_call: &Slot) {
    set(active_call, RETURNED, clock::ticks().get() + READING.load(Ordering::Relaxed));
}

/// Takes that back: the call is not in the thread's cache, and begins again by the way of such
/// calls.
#[cold]
pub fn call_begins_anew(active_call: &Slot) {
    set(active_call, SAMPLING, sampling(active_call).wrapping_add(1));
}

/// It ends.
#[inline(always)]
pub fn call_ends(active_call: &Slot) {
    if countdown::left(sampling(active_call)) < 0 {
        begin_or_end(active_call, false);
    }
}

/// Begins to measure a call, or ends it.
///
/// PERF: one function, so that the code which reads the clock at the end has been run at the begin.
#[cold]
#[inline(never)]
fn begin_or_end(active_call: &Slot, begins: bool) {
    let now = clock::ticks();
    if !begins {
        return end(active_call, now);
    }
    stand_in::touch();
    let word = sampling(active_call);
    if countdown::left(word) == 0 {
        return; // the next call is measured
    }
    // A call that is not in the thread's cache begins twice: the second time the lines were just
    // touched.
    let hidden = clock::since(now).get().min(countdown::MOST_HIDDEN).max(countdown::hidden(word));
    set(active_call, SAMPLING, countdown::pack(countdown::left(word), countdown::stands_for(word), hidden));
    set(active_call, RETURNED, 0);
    thread_words::set_sampled_since(clock::ticks().get());
}

fn end(active_call: &Slot, now: Ticks) {
    let word = sampling(active_call);
    let (hidden, stands_for) = (countdown::hidden(word), countdown::stands_for(word));
    let began = Ticks::new(thread_words::sampled_since());
    let [since, returned] = [SINCE, RETURNED].map(|which| value(active_call, which));
    // `poll_returned` adds a reading, which may take longer than what came behind it.
    let returned = returned.min(now);
    // No call to MPI was made, or a callback left it.
    let is_whole = began <= since && since <= returned && returned <= now;
    let Some(world) = world::world() else { return };
    let sums = &world.segment.header().sampled;
    // Not while calls are measured that stand for themselves alone.
    if stands_for > 1 && sums[sampled::SAMPLES].load(Ordering::Relaxed).is_multiple_of(SAMPLES_PER_LOOK) {
        memory_kind::look_for_driver();
    }
    sums[sampled::ALL_CALLS].fetch_add(stands_for, Ordering::Relaxed);
    if is_whole {
        let outside = clock::between(began, since).saturating_add(clock::between(returned, now)).get();
        if outside.max(hidden) <= LONGEST {
            add_sample(sums, stands_for, [outside, hidden]);
        }
    }
    let mean = sampled::stands_for(sums[sampled::SAMPLES].load(Ordering::Relaxed));
    // Programs repeat sequences of calls: without chance it could be the same one each time.
    let chance = (now.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % mean;
    count_down(active_call, mean / 2 + chance);
    // The lines that stand in are touched twice. What took too long was interrupted.
    let measuring = Ticks::new((2 * hidden).saturating_add(clock::since(now).get().min(LONGEST)));
    add_rare(world, measuring);
    // The thread is in no call any more.
    switching::follow();
}

/// Work that is rare, while it is done, see [`note_rare`].
pub struct Rare<'w> {
    world: &'w World,
    since: Ticks,
}

impl<'w> Rare<'w> {
    /// It begins.
    pub fn begin(world: &'w World) -> Rare<'w> {
        Rare { world, since: clock::ticks() }
    }
}

impl Drop for Rare<'_> {
    fn drop(&mut self) {
        note_rare(self.world, clock::since(self.since));
    }
}

/// Adds what rare work took. It is in a sum of its own, so that the call in progress is no sample
/// of what others cost.
pub fn note_rare(world: &World, ticks: Ticks) {
    note_rare_within(world, ticks, LONGEST);
}

/// As [`note_rare`], of work that takes `longest` ticks at most if it is not interrupted.
fn note_rare_within(world: &World, ticks: Ticks, longest: u64) {
    add_rare(world, Ticks::new(ticks.get().min(longest)));
    thread_words::set_sampled_since(u64::MAX);
}

/// The work on a long array of requests, which is measured in each call: before the call to MPI,
/// and after it.
pub struct LongArray {
    requests: usize,
    passed: u64,
    /// While it is done.
    since: Option<Ticks>,
}

impl LongArray {
    /// It begins; `None` for a short array.
    #[inline]
    pub fn begin(requests: usize) -> Option<LongArray> {
        (requests > SHORT_ARRAY).then(|| LongArray { requests, passed: 0, since: Some(clock::ticks()) })
    }

    /// MPI is called next.
    pub fn pause(&mut self) {
        self.passed += self.since.take().map_or(0, |since| clock::since(since).get());
    }

    /// MPI has returned.
    pub fn go_on(&mut self) {
        self.since = Some(clock::ticks());
    }
}

impl Drop for LongArray {
    fn drop(&mut self) {
        self.pause();
        if let Some(world) = world::world() {
            let longest = LONGEST.saturating_add(LONGEST_PER_REQUEST.saturating_mul(self.requests as u64));
            note_rare_within(world, Ticks::new(self.passed), longest);
        }
    }
}

fn add_rare(world: &World, ticks: Ticks) {
    world.segment.header().overhead[overhead::RARE].fetch_add(ticks.get(), Ordering::Relaxed);
}

/// The next call that is measured is the last of so many, for all of which it stands.
fn count_down(active_call: &Slot, calls: u64) {
    set(active_call, SAMPLING, countdown::pack(calls as i32 - 1, calls, 0));
}

/// Adds a call that was measured.
fn add_sample(sums: &[AtomicU64; 6], stands_for: u64, ticks: [u64; 2]) {
    let relaxed = Ordering::Relaxed;
    let own = |which: usize| OWN_TICKS[which].load(relaxed);
    let [outside, hidden] = [0, 1].map(|which| ticks[which].cast_signed().saturating_sub(own(which)));
    let weighted = |ticks: i64| (stands_for.cast_signed().wrapping_mul(ticks)).cast_unsigned();
    sums[sampled::SAMPLES].fetch_add(1, relaxed);
    sums[sampled::CALLS].fetch_add(stands_for, relaxed);
    sums[sampled::TICKS].fetch_add(weighted(outside), relaxed);
    sums[sampled::HIDDEN_TICKS].fetch_add(weighted(hidden), relaxed);
    // The program may trap inexact results of floating-point arithmetic.
    let square = outside.unsigned_abs().saturating_pow(2).saturating_mul(stands_for);
    // Never refused.
    let _ = sums[sampled::SQUARES].fetch_update(relaxed, relaxed, |sum| Some(sum.saturating_add(square)));
}

/// Begins to count down, in a thread that begins.
pub fn start(active_call: &Slot) {
    count_down(active_call, sampled::FIRST_STANDS_FOR);
}

/// Measures nothing until [`calibrate`] is called.
pub fn rest(active_call: &Slot) {
    set(active_call, SAMPLING, countdown::pack(i32::MAX, 0, 0));
}

/// Finds out what measuring itself takes, by a loop of calls that are all measured, where one takes
/// `ticks` otherwise.
pub fn calibrate(active_call: &Slot, ticks: u64, mut call: impl FnMut()) {
    const TRIES: usize = 65;
    let relaxed = Ordering::Relaxed;
    let Some(world) = world::world() else { return };
    stand_in::prepare();
    let sums = &world.segment.header().sampled;
    let clear = || sums.iter().for_each(|sum| sum.store(0, relaxed));
    let mut tries = [[0; 2]; TRIES];
    for measured in &mut tries {
        for left in [1, 0] {
            set(active_call, SAMPLING, countdown::pack(left, 1, 0));
            clear();
            call();
        }
        *measured =
            [sampled::TICKS, sampled::HIDDEN_TICKS].map(|which| sums[which].load(relaxed).cast_signed());
    }
    let median = |which: usize| {
        let mut all = tries.map(|measured| measured[which]);
        all.sort_unstable();
        all[TRIES / 2]
    };
    let (begun, readings) = (clock::ticks(), 16);
    let last = (0..readings).fold(begun, |_, _| clock::ticks());
    READING.store(clock::between(begun, last).get() / readings, relaxed);
    OWN_TICKS[0].store(median(0) - ticks.cast_signed(), relaxed);
    OWN_TICKS[1].store(median(1), relaxed);
    clear();
    start(active_call);
}

/// Memory in place of that which a call touches where no clock sees it: ten cache lines on four
/// pages. Of the lines of a common call ten at most are touched before the first reading or after
/// the one with which the call to MPI begins (docs/explanation/cost.md).
///
/// The code, the thread's words, its cached calls and the segment lie far from each other, so that
/// each page has an entry of the page table that shares no cache line with another one's. So have
/// the pages here.
mod stand_in {
    use std::sync::atomic::{AtomicUsize, Ordering};

    const PAGES: usize = 4;
    const LINES: usize = 10;
    /// Bytes from one page to the next: a line of the page table has the entries of half as many,
    /// and what lies between is never touched.
    const SPREAD: usize = 16 * 4096;
    const LINE: usize = 64;
    const WORDS: usize = PAGES * SPREAD / size_of::<usize>();

    #[repr(align(4096))]
    struct Memory([AtomicUsize; WORDS]);

    /// The first word of each line that is touched has the place of the next one, so that the
    /// processor cannot ask for them all at once.
    static MEMORY: Memory = Memory([const { AtomicUsize::new(0) }; WORDS]);

    /// Lines follow one another on different pages, and no line is behind another's: processors
    /// fetch ahead.
    const fn place(line: usize) -> usize {
        (line % PAGES * SPREAD + line * 5 * LINE) / size_of::<usize>()
    }

    /// Links the lines.
    pub fn prepare() {
        for line in 0..LINES - 1 {
            MEMORY.0[place(line)].store(place(line + 1), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub fn touch() {
        let mut at = place(0);
        for _ in 0..LINES {
            at = MEMORY.0[at % WORDS].load(Ordering::Relaxed);
        }
        std::hint::black_box(at);
        wait();
    }

    /// Waits for the lines. A reading of the clock does not, where the next level of the cache has
    /// them.
    #[inline(always)]
    fn wait() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: all processors of this architecture have the instruction.
        unsafe {
            std::arch::x86_64::_mm_lfence();
        }
    }
}
