//! From ticks of a rank's clock to seconds.

use mpisee_profile::Ticks;
use mpisee_profile::rows::Seconds;
use mpisee_profile::segment::{Moment, Snapshot};

/// How long a tick took between the begin of recording and `end`.
pub(crate) fn seconds_per_tick(snapshot: &Snapshot, end: Moment) -> impl Fn(Ticks) -> Seconds + use<> {
    let ticks = end.ticks.saturating_sub(snapshot.start_ticks).get();
    let elapsed_ns = end.monotonic_ns.saturating_sub(snapshot.start_monotonic_ns);
    let ns_per_tick =
        if snapshot.ticks_are_tsc && ticks > 0 { elapsed_ns as f64 / ticks as f64 } else { 1.0 };
    move |ticks: Ticks| Seconds(ticks.get() as f64 * ns_per_tick * 1e-9)
}
