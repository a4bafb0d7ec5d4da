//! The rule about collectives whose transfers take far longer than this run has shown that they
//! can.

use super::facts::{Facts, FamilyFacts, OfSize, Used};
use super::finding::{Finding, percent};
use super::waiting;
use crate::units::{count, time};

/// Operations in which every member has the same part, so that the shortest call of any of them is
/// a measure for all.
const CALLS: [&str; 4] = ["MPI_Allgather", "MPI_Allreduce", "MPI_Alltoall", "MPI_Reduce_scatter_block"];
/// How many times as long as the shortest calls transfers take at least.
const TIMES: f64 = 10.0;
/// The least time beyond the shortest calls, of the run.
const OF_RUN: f64 = 0.05;
/// The least part of the time in an operation of which it is known whether it is waiting.
const KNOWN: f64 = 0.99;

/// Transfers on like communicators that are slow. Where ranks had no core, nothing is slow by
/// itself.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.lack.is_some() {
        return Vec::new();
    }
    let on_family = |family: FamilyFacts<'_>| -> Vec<Finding> {
        let used = family.used.iter().filter(|used| CALLS.contains(&used.call.as_str()));
        used.filter_map(|used| finding(facts, &family, used)).collect()
    };
    facts.families().flat_map(on_family).collect()
}

fn finding(facts: &Facts<'_>, family: &FamilyFacts<'_>, used: &Used) -> Option<Finding> {
    let (known_s, waiting) = waiting::of_family(facts, family, Some(&used.call))?;
    let transfer = waiting.rest_of(known_s).clamped(0.0, known_s);
    let shortest_s: f64 = used.sizes.iter().map(OfSize::least_s).sum();
    let beyond_s = transfer.low - shortest_s;
    let is_slow = shortest_s > 0.0 && transfer.low >= TIMES * shortest_s;
    if !is_slow || facts.share_of_run(beyond_s) < OF_RUN || known_s < KNOWN * used.time_s {
        return None;
    }
    let calls = used.calls.max(1) as f64;
    let range = match transfer.high - transfer.low > 0.005 * known_s {
        true => format!(" ({} to {})", time(transfer.low), time(transfer.high)),
        false => String::new(),
    };
    Some(Finding {
        rule: "slow-transfer",
        about: family.name.to_owned(),
        cost_s: transfer.total - shortest_s,
        what: format!(
            "Transfers of {} on {} take far longer than the shortest ones of this run.",
            used.call, family.title
        ),
        evidence: format!(
            "Measured by the arrivals of all members: {} take {}{range} without waiting, {} each on average. \
             If each call took as long as the shortest of its size, the sum would be {}, {} each.",
            count(used.calls, "call"),
            time(transfer.total),
            time(transfer.total / calls),
            time(shortest_s),
            time(shortest_s / calls),
        ),
        threshold: format!(
            "{TIMES} times as long as the shortest calls of the same sizes, and {} of the run beyond the \
             shortest calls, at the low end of the interval",
            percent(OF_RUN)
        ),
        advice: format!(
            "The cause is not measured. Possible causes are other traffic on the network, data outside of \
             the caches, and interruptions by the system{}. Compare runs on fewer nodes or ranks. Compare \
             the algorithms that the MPI library has for {}.",
            if facts.knows_waits { " (no rank lacked a core)" } else { ", or ranks that wait for a core" },
            used.call
        ),
    })
}
