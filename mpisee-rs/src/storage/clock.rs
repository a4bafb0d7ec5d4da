//! Time in ticks: of the time-stamp counter where it is reliable, else nanoseconds of the monotonic clock. The length
//! of a tick is computed at the end, from readings of both clocks at the start and at the end.

use crate::storage::hot::HOT;
use mpisee_profile::options::ClockChoice;
use mpisee_profile::segment::Moment;
use mpisee_profile::{Ticks, tsc};
use std::sync::Mutex;
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

/// Ticks of the largest backward step that is larger than a difference between cores.
static STEP_BACK: AtomicU64 = AtomicU64::new(0);
/// Ticks by which two cores may differ, some microseconds.
const LITTLE: u64 = 1 << 14;

#[cold]
#[inline(never)]
fn went_back(ticks: u64) -> Ticks {
    if ticks > LITTLE {
        STEP_BACK.fetch_max(ticks, Ordering::Relaxed);
    }
    Ticks::ZERO
}

/// The state of the comparison of both clocks. A thread that finds it in use leaves the comparison to the next one.
static COMPARISON: Mutex<Option<Comparison>> = Mutex::new(None);

/// Begins to compare the clocks. The length of a tick is that between two moments around `MPI_Init`.
pub fn begin_comparison(before: Moment, start: Moment) {
    if let Ok(mut comparison) = COMPARISON.try_lock() {
        *comparison = Comparison::begin(before, start);
    }
}

/// Compares the clocks since the last comparison; `apart_ns` becomes the most by which they disagreed so far.
pub fn compare(apart_ns: &AtomicU64) {
    let Ok(mut comparison) = COMPARISON.try_lock() else { return };
    let Some(comparison) = &mut *comparison else { return };
    let apart = comparison.advance(Reading::now());
    let back = STEP_BACK.load(Ordering::Relaxed) as f64 * comparison.ns_per_tick;
    apart_ns.fetch_max(apart.max(back) as u64, Ordering::Relaxed);
}

/// A reading of both clocks: the monotonic clock showed the nanoseconds at some moment between the two ticks.
#[derive(Clone, Copy)]
struct Reading {
    before: Ticks,
    monotonic_ns: u64,
    after: Ticks,
}

impl Reading {
    fn now() -> Reading {
        let before = ticks();
        let monotonic_ns = monotonic_ns();
        Reading { before, monotonic_ns, after: ticks() }
    }
}

/// A comparison of the clocks from one reading to the next.
struct Comparison {
    ns_per_tick: f64,
    last: Reading,
}

impl Comparison {
    /// `None` where the two moments are too close to tell the length of a tick.
    fn begin(before: Moment, start: Moment) -> Option<Comparison> {
        const SHORTEST_NS: u64 = 50_000; // to see a hundredth with readings some 50 ns apart
        let ns = start.monotonic_ns.checked_sub(before.monotonic_ns).filter(|&ns| ns >= SHORTEST_NS)?;
        let ticks = start.ticks.signed_since(before.ticks);
        let last = Reading { before: start.ticks, monotonic_ns: start.monotonic_ns, after: start.ticks };
        (ticks > 0).then(|| Comparison { ns_per_tick: ns as f64 / ticks as f64, last })
    }

    /// Nanoseconds by which the clocks disagree since the last reading; 0 for what readings, a core's counter, or an
    /// adjustment of the clock's rate may explain.
    fn advance(&mut self, next: Reading) -> f64 {
        const EXPLAINED: f64 = 0.01;
        const EXPLAINED_NS: f64 = 20_000.0;
        let last = std::mem::replace(&mut self.last, next);
        let ns = |from: Ticks, to: Ticks| to.signed_since(from) as f64 * self.ns_per_tick;
        let (shortest, longest) = (ns(last.after, next.before), ns(last.before, next.after));
        let passed = next.monotonic_ns.wrapping_sub(last.monotonic_ns) as i64 as f64;
        let apart = (passed - longest).max(shortest - passed).max(-passed).max(-longest);
        let explained = EXPLAINED_NS + EXPLAINED * longest.min(passed).max(0.0);
        if apart > explained { apart } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(monotonic_ns: u64, ticks: u64) -> Moment {
        Moment { monotonic_ns, ticks: Ticks::new(ticks) }
    }

    fn reading(monotonic_ns: u64, ticks: u64, took: u64) -> Reading {
        Reading { before: Ticks::new(ticks), monotonic_ns, after: Ticks::new(ticks + took) }
    }

    /// A comparison of clocks with three ticks a nanosecond, which starts after a hundred seconds.
    fn started() -> Comparison {
        Comparison::begin(at(99 * SECOND, 297 * SECOND), at(100 * SECOND, 300 * SECOND)).unwrap()
    }

    #[test]
    fn clocks_that_agree_are_not_apart() {
        let mut clocks = started();
        assert_eq!(clocks.advance(reading(101 * SECOND, 303 * SECOND, 100)), 0.0);
        // The rate of the monotonic clock is adjusted, and a thread loses its core while it reads.
        assert_eq!(clocks.advance(reading(111 * SECOND, 333 * SECOND + SECOND / 8, 100)), 0.0);
        assert_eq!(clocks.advance(reading(112 * SECOND, 335 * SECOND, 2 * SECOND)), 0.0);
        assert_eq!(clocks.advance(reading(113 * SECOND, 339 * SECOND, 100)), 0.0);
    }

    #[test]
    fn a_jump_of_either_clock_is_measured_once() {
        for (next, apart_s) in [
            (reading(131 * SECOND, 303 * SECOND, 100), 30.0),
            (reading(71 * SECOND, 303 * SECOND, 100), 30.0),
            (reading(101 * SECOND, 393 * SECOND, 100), 30.0),
            (reading(101 * SECOND, 213 * SECOND, 100), 30.0),
        ] {
            let mut clocks = started();
            let apart = clocks.advance(next);
            assert!((apart * 1e-9 - apart_s).abs() < 0.001, "{apart} for {apart_s} s");
            let after = Reading {
                before: Ticks::new(next.before.get() + 3 * SECOND),
                monotonic_ns: next.monotonic_ns + SECOND,
                after: Ticks::new(next.after.get() + 3 * SECOND),
            };
            assert_eq!(clocks.advance(after), 0.0);
        }
    }

    #[test]
    fn one_clock_alone_is_seen_to_go_back() {
        let mut clock =
            Comparison::begin(at(99 * SECOND, 99 * SECOND), at(100 * SECOND, 100 * SECOND)).unwrap();
        assert_eq!(clock.advance(reading(101 * SECOND, 101 * SECOND, 0)), 0.0);
        assert_eq!(clock.advance(reading(71 * SECOND, 71 * SECOND, 0)), 30e9);
    }

    #[test]
    fn a_tick_whose_length_is_unknown_is_not_compared() {
        assert!(Comparison::begin(at(100, 300), at(40_100, 120_300)).is_none());
        assert!(Comparison::begin(at(SECOND, SECOND), at(2 * SECOND, SECOND - 1)).is_none());
    }
}
