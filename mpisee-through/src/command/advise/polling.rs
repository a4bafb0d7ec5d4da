//! The rule about polling: tests and probes that are made far more often than requests or messages
//! are there to find.

use super::at;
use super::facts::{Facts, FamilyFacts, Used};
use super::finding::{Finding, percent};
use crate::polls::{PROBING, TESTING};
use crate::units::{count, count_of};
use mpisee_profile::Operation;

/// The least number of polls per process, and per operation or message that they may find; and
/// their share of the run.
const POLLS_PER_PROCESS: u64 = 1000;
const POLLS_PER_FOUND: u64 = 10;
const POLLING_OF_RUN: f64 = 0.02;

/// One way of polling, and what it looks for.
struct Polling {
    noun: &'static str,
    /// The calls' action, as it follows their number in a sentence.
    what: &'static str,
    calls: &'static [&'static str],
    is_found: fn(&str) -> bool,
    /// The operations that `is_found` takes, with the preposition that relates them to the polls.
    found: [&'static str; 2],
    advice: &'static str,
}

const TESTS: Polling = Polling {
    noun: "test",
    what: "for completion",
    calls: &TESTING,
    is_found: starts_request,
    found: ["for", "nonblocking operation"],
    advice: "Wait (MPI_Waitany, MPI_Waitsome) if there is nothing else to do. Otherwise do more work between \
             two tests. Time in tests is lost only if there was other work.",
};

const PROBES: Polling = Polling {
    noun: "probe",
    what: "that do not wait",
    calls: &PROBING,
    is_found: is_receive,
    found: ["beside", "receive"],
    advice: "Wait (MPI_Probe, MPI_Mprobe, or a receive from MPI_ANY_SOURCE) if there is nothing else to do. \
             Otherwise do more work between two probes. Time in probes is lost only if there was other work.",
};

/// Very many tests for completion, or probes that do not wait.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let on_family =
        |family: FamilyFacts<'_>| [TESTS, PROBES].map(|polling| finding(&polling, &family, facts));
    facts.families().flat_map(on_family).flatten().collect()
}

fn finding(polling: &Polling, family: &FamilyFacts<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let polls = || family.used.iter().filter(|used| polling.calls.contains(&used.call.as_str()));
    let number: u64 = polls().map(|used| used.calls).sum();
    let cost_s: f64 = polls().map(|used| used.time_s).sum();
    let found = family.used.iter().filter(|used| (polling.is_found)(&used.call));
    let found: u64 = found.map(|used| used.calls).sum();
    let most = polls().max_by_key(|used| used.calls)?;
    let per_process = number / facts.processes_of(family);
    let is_much = per_process >= POLLS_PER_PROCESS
        && number >= POLLS_PER_FOUND.saturating_mul(found)
        && facts.share_of_run(cost_s) >= POLLING_OF_RUN;
    let on_each = |used: &Used| family.comms.len() > 1 && facts.is_counted_on_each(&used.call);
    let at_most = if polls().any(on_each) { "at most " } else { "" };
    let Polling { noun, what, found: [relation, noun_of_found], advice, .. } = polling;
    is_much.then(|| Finding {
        rule: "polling",
        about: family.name.to_owned(),
        cost_s,
        what: format!("{at_most}{per_process} {noun}s {what} per process on {}.", family.title),
        evidence: format!(
            "{at_most}{}, mostly {}, {relation} {} on {}.{}",
            count(number, noun),
            most.call,
            count_of(found, noun_of_found, &format!("{noun_of_found}s")),
            family.title,
            at::of_calls(facts, family, &format!("{noun}s"), |call| polling.calls.contains(&call)),
        ),
        threshold: format!(
            "{POLLS_PER_PROCESS} {noun}s per process, {POLLS_PER_FOUND} per {noun_of_found}, {} of the run",
            percent(POLLING_OF_RUN)
        ),
        advice: (*advice).to_owned(),
    })
}

/// Returns whether a call starts what a test may complete. A blocking receive does not.
fn starts_request(call: &str) -> bool {
    Operation::from_name(call).is_some_and(Operation::starts_request)
}

/// Returns whether a call receives a message, which a probe may have found before.
fn is_receive(call: &str) -> bool {
    ["MPI_Imrecv", "MPI_Irecv", "MPI_Mrecv", "MPI_Recv"].contains(&call)
}

#[cfg(test)]
mod tests {
    use super::{is_receive, starts_request};

    #[test]
    fn calls_that_start_requests_are_told_from_blocking_ones() {
        for call in ["MPI_Irecv", "MPI_Iallreduce", "MPI_Start", "MPI_Imrecv", "MPI_Rput"] {
            assert!(starts_request(call), "{call}");
        }
        for call in ["MPI_Iprobe", "MPI_Intercomm_merge", "MPI_Test", "MPI_Send", "MPI_Recv", "MPI_Mrecv"] {
            assert!(!starts_request(call), "{call}");
        }
    }

    #[test]
    fn probes_find_receives_of_all_kinds() {
        assert!(["MPI_Recv", "MPI_Irecv", "MPI_Mrecv", "MPI_Imrecv"].into_iter().all(is_receive));
        assert!(!["MPI_Iprobe", "MPI_Sendrecv", "MPI_Isend"].into_iter().any(is_receive));
    }
}
