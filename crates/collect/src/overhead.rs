//! The time that recording took from a rank.

use crate::ticks::seconds_per_tick;
use mpisee_profile::Ticks;
use mpisee_profile::rows::Seconds;
use mpisee_profile::segment::key::{Meaning, OneSidedKind, TargetKey};
use mpisee_profile::segment::layout::{call, overhead, peer, sampled, target};
use mpisee_profile::segment::{Moment, Snapshot};

/// The fewest measured calls whose mean is stated.
const ENOUGH: u64 = 8;
/// Half of the 95 % confidence interval of a mean, in standard errors.
const ERRORS: f64 = 1.96;

/// The part of what may be hidden that was, in pairs of runs whose calls came after walks through
/// nothing to 64 MiB (docs/explanation/cost.md).
const HIDDEN_PART: f64 = 0.25;
/// Processors work on several instructions at once, so that two readings of the clock show more or
/// less than what lies between them takes: in pairs of runs of loops of calls, so much at most.
const OVERLAP: f64 = 0.2;
/// Of what a call takes longer than one in a loop, the part that may pass while misses of the
/// program's own do: a reading of the clock waits for ours, and without it the processor does not.
/// So much at most in those pairs, on a machine whose caches hold what the program walked through.
const BESIDE_THE_PROGRAM: f64 = 2.0 / 3.0;

/// The time that recording took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// The best estimate.
    pub estimate_s: Seconds,
    /// Lower bound.
    pub low_s: Seconds,
    /// Upper bound.
    pub high_s: Seconds,
    /// Calls that were measured in the run. If there were too few of them, 0: it is what the calls
    /// take in a loop at the begin, and there is no range.
    pub samples: u64,
}

impl Overhead {
    /// The same, of a rank that ran so long: recording took no longer.
    pub fn within(self, wall_s: Seconds) -> Overhead {
        let capped = |of_it: Seconds| Seconds(of_it.0.min(wall_s.0));
        let [estimate_s, low_s, high_s] = [self.estimate_s, self.low_s, self.high_s].map(capped);
        Overhead { estimate_s, low_s, high_s, ..self }
    }

    /// Of the calls in a snapshot.
    pub fn from_snapshot(snapshot: &Snapshot, seconds: impl Fn(Ticks) -> Seconds) -> Overhead {
        let samples = snapshot.sampled[sampled::SAMPLES];
        let stand_for = snapshot.sampled[sampled::CALLS] as f64;
        if samples < ENOUGH || stand_for <= 0.0 {
            let all_s = seconds(calibrated(snapshot));
            return Overhead { estimate_s: all_s, low_s: all_s, high_s: all_s, samples: 0 };
        }
        let signed = |which: usize| snapshot.sampled[which].cast_signed() as f64;
        let mean = signed(sampled::TICKS) / stand_for;
        let hidden = (signed(sampled::HIDDEN_TICKS) / stand_for).max(0.0);
        let samples_of_one_weight = of_one_weight(samples);
        // Their squares are not kept: misses of caches vary by as much as they take on average.
        let hidden_at_most = hidden * (1.0 + ERRORS / samples_of_one_weight.sqrt());
        let variance = snapshot.sampled[sampled::SQUARES] as f64 / stand_for - mean * mean;
        let error = ERRORS * (variance.max(0.0) / samples_of_one_weight).sqrt();
        let in_loop = snapshot.overhead[overhead::THOUSAND_CALLS] as f64 / 1e3;
        let beside = BESIDE_THE_PROGRAM * (mean - error - in_loop).max(0.0);
        // Not those of the rows, which count a call on requests of several communicators on each.
        let calls = snapshot.sampled[sampled::ALL_CALLS].saturating_add(snapshot.calls_since_sample) as f64;
        let rare = Ticks::new(snapshot.overhead[overhead::RARE]);
        let all = |of_one: f64| seconds(Ticks::new((of_one.max(0.0) * calls) as u64).saturating_add(rare));
        Overhead {
            estimate_s: all(mean + HIDDEN_PART * hidden),
            low_s: all((1.0 - OVERLAP) * (mean - error - beside)),
            high_s: all((1.0 + OVERLAP) * (mean + error) + hidden_at_most),
            samples,
        }
    }
}

/// The number of measured calls of equal weight whose mean has the same error: the first stand for
/// fewer calls than later ones.
fn of_one_weight(samples: u64) -> f64 {
    let different = (sampled::MEASURED_PER_DOUBLING * sampled::DOUBLINGS).min(samples);
    let weights = (0..different).map(|before| sampled::stands_for(before) as f64);
    let (sum, squares) =
        weights.fold((0.0, 0.0), |(sum, squares), weight| (sum + weight, squares + weight * weight));
    let (others, weight) = ((samples - different) as f64, sampled::stands_for(different) as f64);
    (sum + others * weight).powi(2) / (squares + others * weight * weight)
}

/// Nanoseconds that a recorded call of the simplest kind costs beyond the call itself, in a loop.
pub fn call_ns(snapshot: &Snapshot, end: Moment) -> f64 {
    seconds_per_tick(snapshot, end)(Ticks::new(snapshot.overhead[overhead::THOUSAND_CALLS])).0 * 1e6
}

fn calls(snapshot: &Snapshot) -> u64 {
    let counts = snapshot.counters.iter().filter_map(|(key, values)| match key.meaning() {
        Some(Meaning::Call(_)) => Some(values[call::CALLS]),
        _ => None,
    });
    counts.fold(0, u64::wrapping_add)
}

/// By what calls, messages and requests cost in a loop.
fn calibrated(snapshot: &Snapshot) -> Ticks {
    let (mut messages, mut requests) = (0u64, 0u64);
    for (key, values) in &snapshot.counters {
        match key.meaning() {
            Some(Meaning::Call(key)) => {
                let operation = snapshot.operation_at(key.operation);
                if operation.is_some_and(|(operation, _)| operation.starts_request()) {
                    requests = requests.wrapping_add(values[call::CALLS]);
                }
            }
            Some(Meaning::Peer(_)) => {
                messages = messages.wrapping_add(values[peer::SENT_MESSAGES]);
                messages = messages.wrapping_add(values[peer::RECEIVED_MESSAGES]);
            }
            // The slot of a target is changed as that of a peer.
            Some(Meaning::Target(TargetKey { kind: OneSidedKind::PutsAndGets, .. })) => {
                messages = messages.wrapping_add(values[target::PUTS]);
                messages = messages.wrapping_add(values[target::GETS]);
            }
            Some(Meaning::Target(TargetKey { kind: OneSidedKind::Accumulates, .. })) => {
                messages = messages.wrapping_add(values[target::ACCUMULATES]);
            }
            _ => {}
        }
    }
    let of = |count: u64, which: usize| u128::from(count) * u128::from(snapshot.overhead[which]) / 1000;
    let counted = of(calls(snapshot), overhead::THOUSAND_CALLS)
        + of(messages, overhead::THOUSAND_MESSAGES)
        + of(requests, overhead::THOUSAND_REQUESTS);
    let counted = Ticks::new(u64::try_from(counted).unwrap_or(u64::MAX));
    let exact = [overhead::NAMING, overhead::RARE].map(|which| Ticks::new(snapshot.overhead[which]));
    exact.into_iter().fold(counted, Ticks::saturating_add)
}
