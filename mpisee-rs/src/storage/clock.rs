//! Time in ticks: of the time-stamp counter where it is reliable, else nanoseconds of the monotonic
//! clock. The length of a tick is computed at the end, from readings of both clocks at the start
//! and at the end.

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
/// PERF: the counter is read without a fence. The call that is timed is an opaque function call of
/// tens of nanoseconds at least, into which a reading can slip by a few instructions at most.
#[inline(always)]
pub fn ticks() -> Ticks {
    Ticks::new(if HOT.use_counter.load(Ordering::Relaxed) { tsc::read() } else { monotonic_ns() })
}

/// Reads both clocks.
pub fn moment() -> Moment {
    Moment::now(4, ticks, monotonic_ns)
}

/// Reads the ticks and the kernel's clock. A library like `libfaketime` scales `clock_gettime` and
/// not the kernel's clock.
pub fn kernel_moment() -> Moment {
    // The monotonic clock alone has nothing to be compared with.
    Moment::now(4, ticks, if is_tsc() { kernel_ns } else { monotonic_ns })
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[cold]
#[inline(never)]
pub fn monotonic_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_MONOTONIC` by a system call.
fn kernel_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    match unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => monotonic_ns(), // where the system call is forbidden
    }
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

/// Ticks since `start`; 0 if the clock went back, as it may where the counters of two cores differ
/// slightly.
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

/// The state of the comparison of both clocks. A thread that finds it in use leaves the comparison
/// to the next one.
static COMPARISON: Mutex<Option<Comparison>> = Mutex::new(None);

/// Begins to compare the clocks. The length of a tick is that between two moments around
/// `MPI_Init`, by the kernel's clock.
pub fn begin_comparison(before: Moment, start: Moment) {
    if let Ok(mut comparison) = COMPARISON.try_lock() {
        *comparison = Comparison::begin(before, start, Reading::now());
    }
}

/// Compares the clocks since the last comparison; `apart_ns` becomes the most by which they
/// disagreed so far.
pub fn compare(apart_ns: &AtomicU64) {
    let Ok(mut comparison) = COMPARISON.try_lock() else { return };
    let Some(comparison) = &mut *comparison else { return };
    let apart = comparison.advance(Reading::now());
    let back = STEP_BACK.load(Ordering::Relaxed) as f64 * comparison.ns_per_tick;
    apart_ns.fetch_max(apart.max(back) as u64, Ordering::Relaxed);
}

/// A reading of both clocks: the monotonic clock showed the nanoseconds at some moment between the
/// two ticks.
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

/// A comparison of the clocks, from one reading to the next and since the first.
struct Comparison {
    ns_per_tick: f64,
    /// The part by which the length of a tick may be wrong, or be adjusted later.
    explained: f64,
    first: Reading,
    last: Reading,
}

impl Comparison {
    /// `None` where the two moments are too close to tell the length of a tick.
    fn begin(before: Moment, start: Moment, first: Reading) -> Option<Comparison> {
        const SHORTEST_NS: u64 = 50_000; // to see some hundredths
        const ADJUSTED: f64 = 0.005; // ten times as much as NTP does
        const READING_NS: f64 = 1000.0; // of both moments, where a reading is a system call
        let ns = start.monotonic_ns.checked_sub(before.monotonic_ns).filter(|&ns| ns >= SHORTEST_NS)?;
        let ticks = start.ticks.signed_since(before.ticks);
        let explained = ADJUSTED + READING_NS / ns as f64;
        let ns_per_tick = ns as f64 / ticks as f64;
        (ticks > 0).then_some(Comparison { ns_per_tick, explained, first, last: first })
    }

    /// Nanoseconds by which the clocks disagree since the last reading, or since the first: regions
    /// may be too short to see a clock that is a little fast.
    fn advance(&mut self, next: Reading) -> f64 {
        let last = std::mem::replace(&mut self.last, next);
        self.apart(last, next).max(self.apart(self.first, next))
    }

    /// Nanoseconds by which the clocks disagree between two readings; 0 for what readings, a core's
    /// counter, or an adjustment of the clock's rate may explain.
    fn apart(&self, from: Reading, to: Reading) -> f64 {
        const EXPLAINED_NS: f64 = 20_000.0;
        let ns = |from: Ticks, to: Ticks| to.signed_since(from) as f64 * self.ns_per_tick;
        let (shortest, longest) = (ns(from.after, to.before), ns(from.before, to.after));
        let passed = to.monotonic_ns.wrapping_sub(from.monotonic_ns) as i64 as f64;
        let apart = (passed - longest).max(shortest - passed).max(-passed).max(-longest);
        let explained = EXPLAINED_NS + self.explained * longest.min(passed).max(0.0);
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
        let (before, start) = (at(99 * SECOND, 297 * SECOND), at(100 * SECOND, 300 * SECOND));
        Comparison::begin(before, start, reading(100 * SECOND, 300 * SECOND, 0)).unwrap()
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
    fn a_jump_of_either_clock_is_measured() {
        for (next, apart_s) in [
            (reading(131 * SECOND, 303 * SECOND, 100), 30.0),
            (reading(71 * SECOND, 303 * SECOND, 100), 30.0),
            (reading(101 * SECOND, 393 * SECOND, 100), 30.0),
            (reading(101 * SECOND, 213 * SECOND, 100), 30.0),
        ] {
            let mut clocks = started();
            let apart = clocks.advance(next);
            assert!((apart * 1e-9 - apart_s).abs() < 0.001, "{apart} for {apart_s} s");
        }
    }

    #[test]
    fn a_clock_that_jumps_back_agrees_again() {
        let mut clocks = started();
        assert_eq!(clocks.advance(reading(131 * SECOND, 303 * SECOND, 0)).round(), 30e9);
        assert_eq!(clocks.advance(reading(102 * SECOND, 306 * SECOND, 0)).round(), 30e9);
        assert_eq!(clocks.advance(reading(103 * SECOND, 309 * SECOND, 0)), 0.0);
    }

    #[test]
    fn a_clock_one_percent_fast_is_apart_more_and_more() {
        const MILLISECOND: u64 = SECOND / 1000;
        for (ns_per_ms, apart_ns) in [(1_010_000, 10_000.0), (990_000, 10_000.0)] {
            let mut clocks = started();
            let at = |ms: u64| reading(100 * SECOND + ms * ns_per_ms, 300 * SECOND + ms * 3 * MILLISECOND, 0);
            assert_eq!(clocks.advance(at(1)), 0.0, "what readings explain");
            let apart: Vec<f64> = (2..=1000).map(|ms| clocks.advance(at(ms))).collect();
            assert!((apart[998] - 1000.0 * apart_ns).abs() < 100.0, "{ns_per_ms}: {}", apart[998]);
            assert_eq!(clocks.apart(at(999), at(1000)), 0.0, "each region is too short");
        }
    }

    #[test]
    fn one_clock_alone_is_seen_to_go_back() {
        let (before, start) = (at(99 * SECOND, 99 * SECOND), at(100 * SECOND, 100 * SECOND));
        let mut clock = Comparison::begin(before, start, reading(100 * SECOND, 100 * SECOND, 0)).unwrap();
        assert_eq!(clock.advance(reading(101 * SECOND, 101 * SECOND, 0)), 0.0);
        assert_eq!(clock.advance(reading(71 * SECOND, 71 * SECOND, 0)), 30e9);
    }

    #[test]
    fn a_tick_whose_length_is_unknown_is_not_compared() {
        let first = reading(SECOND, SECOND, 0);
        assert!(Comparison::begin(at(100, 300), at(40_100, 120_300), first).is_none());
        assert!(Comparison::begin(at(SECOND, SECOND), at(2 * SECOND, SECOND - 1), first).is_none());
    }
}
