//! From ticks of a rank's clock to seconds, and the clocks of this process.

use mpisee_profile::rows::Seconds;
use mpisee_profile::segment::{Moment, Snapshot};
use mpisee_profile::{Ticks, tsc};

/// How long a tick took between the begin of recording and `end`.
pub(crate) fn seconds_per_tick(snapshot: &Snapshot, end: Moment) -> impl Fn(Ticks) -> Seconds + use<> {
    let ticks = end.ticks.saturating_sub(snapshot.start_ticks).get();
    let elapsed_ns = end.monotonic_ns.saturating_sub(snapshot.start_monotonic_ns);
    let ns_per_tick =
        if snapshot.ticks_are_tsc && ticks > 0 { elapsed_ns as f64 / ticks as f64 } else { 1.0 };
    move |ticks: Ticks| Seconds(ticks.get() as f64 * ns_per_tick * 1e-9)
}

/// Now, on the clocks of this process, which are those of a process of the same system.
pub(crate) fn moment() -> Moment {
    Moment::now(8, || Ticks::new(tsc::read()), monotonic_ns)
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
