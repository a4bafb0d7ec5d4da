//! Time in ticks: of the time-stamp counter where it is reliable, else nanoseconds of the monotonic clock. The length
//! of a tick is computed at the end, from readings of both clocks at the start and at the end.

use crate::storage::hot::HOT;
use mpisee_profile::options::ClockChoice;
use mpisee_profile::segment::Moment;
use mpisee_profile::{Ticks, tsc};
use std::sync::atomic::{AtomicU64, Ordering};

/// Chooses the clock, before anything is timed.
pub fn choose(choice: ClockChoice) {
    HOT.use_counter.store(choice == ClockChoice::Auto && tsc::is_reliable(), Ordering::Relaxed);
}

/// Returns whether it is the time-stamp counter.
pub fn is_tsc() -> bool {
    HOT.use_counter.load(Ordering::Relaxed)
}

/// Now.
///
/// PERF: the counter is read without a fence. The call that is timed is an opaque function call of tens of
/// nanoseconds at least, into which a reading can slip by a few instructions at most.
#[inline(always)]
pub fn ticks() -> Ticks {
    Ticks::new(if HOT.use_counter.load(Ordering::Relaxed) { tsc::read() } else { monotonic_ns() })
}

/// Reads both clocks.
pub fn moment() -> Moment {
    Moment::now(4, ticks, monotonic_ns)
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[cold]
#[inline(never)]
pub fn monotonic_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds for which the calling thread has had a core.
pub fn core_ns() -> u64 {
    nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds since 1970, UTC.
pub fn realtime_ns() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; the clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ticks since `start`; 0 if the clock went back, as it may where the counters of two cores differ slightly.
#[inline(always)]
pub fn since(start: Ticks) -> Ticks {
    between(start, ticks())
}

/// Ticks from `start` to `end`, as [`since`].
#[inline(always)]
pub fn between(start: Ticks, end: Ticks) -> Ticks {
    let elapsed = end.signed_since(start);
    if elapsed < 0 { went_back(elapsed.unsigned_abs()) } else { Ticks::new(elapsed as u64) }
}

/// Backward steps that are larger than a difference between cores.
static STEPS_BACK: AtomicU64 = AtomicU64::new(0);
/// Ticks by which two cores may differ, some microseconds.
const LITTLE: u64 = 1 << 14;

#[cold]
#[inline(never)]
fn went_back(ticks: u64) -> Ticks {
    if ticks > LITTLE {
        STEPS_BACK.fetch_add(1, Ordering::Relaxed);
    }
    Ticks::ZERO
}

/// Returns whether the clock was steady from `start` to `end`: no large backward step, and its rate from `end` until
/// now is the mean rate of the run.
pub fn is_steady(start: Moment, end: Moment) -> bool {
    let now = moment();
    STEPS_BACK.load(Ordering::Relaxed) == 0 && keep_pace(start, end, now)
}

fn keep_pace(start: Moment, end: Moment, now: Moment) -> bool {
    const SHORTEST_NS: u64 = 50_000; // to see a hundredth with readings some 50 ns apart
    const MOST: f64 = 0.01;
    let between = |from: Moment, to: Moment| {
        let ns = to.monotonic_ns.saturating_sub(from.monotonic_ns);
        (ns > SHORTEST_NS).then(|| to.ticks.signed_since(from.ticks) as f64 / ns as f64)
    };
    let (Some(run), Some(after)) = (between(start, end), between(end, now)) else { return true };
    (run / after - 1.0).abs() < MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ns: u64, ticks: u64) -> Moment {
        Moment { monotonic_ns, ticks: Ticks::new(ticks) }
    }

    #[test]
    fn a_counter_that_jumped_is_noticed() {
        let (start, end) = (at(0, 500), at(1_000_000_000, 3_000_000_500));
        assert!(keep_pace(start, end, at(1_000_100_000, 3_000_300_500)));
        // On by a second, back by one, and twice as fast at the end.
        assert!(!keep_pace(start, at(1_000_000_000, 6_000_000_500), at(1_000_100_000, 6_000_300_500)));
        assert!(!keep_pace(at(0, 4_000_000_000), end, at(1_000_100_000, 3_000_300_500)));
        assert!(!keep_pace(start, end, at(1_000_100_000, 3_000_600_500)));
        // Too soon to tell.
        assert!(keep_pace(start, end, at(1_000_000_100, 3_000_000_500)));
    }
}
