//! Findings beside a replay (`network.json`): transfers that communicators in each other's way, or
//! the network itself, make long.

use super::facts::Facts;
use super::finding::{Finding, percent};
use super::registry::TimeIn;
use crate::beside_network::{Compared, Comparison};
use crate::units::time;
use crate::waits::Estimate;
use mpisee_profile::network::MESSAGES;

/// The least part of the run that is a finding.
const OF_RUN: f64 = 0.05;

/// The rules of findings here.
pub const RULES: [&str; 2] = ["shared-network", "network"];

/// Operations that are slowed down by their siblings, or that take long with the network to
/// themselves. Where ranks had no core, nobody knows what the network takes. Each finding has the
/// kind of its operation, which alone it explains the time of.
pub fn rule(facts: &Facts<'_>) -> Vec<(TimeIn, Finding)> {
    if facts.lack.is_some() {
        return Vec::new();
    }
    let Some(comparison) = &facts.network else { return Vec::new() };
    let is_chosen = |it: &&Compared| it.replay.comms.iter().any(|comm| facts.is_chosen_name(comm));
    let findings = |it: &Compared| {
        let time_in = if it.replay.call == MESSAGES { TimeIn::Messages } else { TimeIn::Collectives };
        [siblings(facts, it), network(facts, it)].map(|one| one.map(|finding| (time_in, finding)))
    };
    comparison.operations.iter().filter(is_chosen).flat_map(findings).flatten().collect()
}

/// A sentence beside a replay without findings: the network takes little, or how much is not known.
pub fn without_findings(comparison: &Comparison) -> String {
    const MORE: &str = "mpisee-through compare-network has the parts of each operation.";
    let all = comparison.operations.len();
    let unknown = comparison.operations.iter().filter(|it| it.doubt.is_some()).count();
    if unknown == all {
        return format!(
            "The replay (network.json) does not show the part of the network: it is unknown for each of {all} \
             operations. mpisee-through compare-network says why."
        );
    }
    let but =
        if unknown > 0 { format!(" The parts are unknown for {unknown} of {all}.") } else { String::new() };
    format!(
        "By the replay (network.json), no operation is known in which the network or siblings take 5 % of the \
         run.{but} {MORE}"
    )
}

fn siblings(facts: &Facts<'_>, it: &Compared) -> Option<Finding> {
    let part = it.parts.siblings;
    (facts.share_of_run(part.low) >= OF_RUN).then(|| Finding {
        rule: "shared-network",
        advice:
            "Let siblings communicate at different times. Or place the members of each sibling near each \
             other, so that less data crosses what siblings share (Open MPI: mpirun --map-by or --rank-by; \
             Slurm: --distribution; MPICH: -map-by). mpisee-through locality PROFILE has the traffic across \
             nodes."
                .to_owned(),
        ..finding(it, part.total, "as the part of siblings")
    })
}

fn network(facts: &Facts<'_>, it: &Compared) -> Option<Finding> {
    let part = it.parts.network;
    let is_messages = it.replay.call == MESSAGES;
    (facts.share_of_run(part.low) >= OF_RUN).then(|| Finding {
        rule: "network",
        advice: match is_messages {
            true => "The network takes this time for these messages. mpisee-bench network measures the rate \
                     of the network by size. Fewer and longer messages, nearer ranks, or computing meanwhile \
                     save time."
                .to_owned(),
            false => format!(
                "The call takes this time without the program, too. mpisee-bench tune PROFILE -- mpirun -n \
                 {} measures the MPI's other algorithms. Otherwise move fewer bytes, make fewer calls, or \
                 compute meanwhile.",
                facts.view.run().ranks
            ),
        },
        ..finding(it, part.total, "as the part of the network")
    })
}

/// A finding with the sentence on the operation, without advice.
fn finding(it: &Compared, cost_s: f64, which: &str) -> Finding {
    let parts = it.parts;
    let of = |part: Estimate| match [part.total, part.low, part.high].map(time) {
        [total, low, high] if low == high => total,
        [total, low, high] => format!("{total} ({low} to {high})"),
    };
    let waiting = parts.waiting.map_or("not measured".to_owned(), of);
    Finding {
        rule: "",
        about: it.replay.family.clone(),
        cost_s,
        what: it.verdict(),
        evidence: format!(
            "The time of all ranks is {}: waiting {waiting}, the network {}, siblings {}, not explained {}. \
             The parts come from a replay with mpisee-bench --like (mpisee-through compare-network).",
            time(parts.time_s),
            of(parts.network),
            of(parts.siblings),
            time(parts.rest_s)
        ),
        threshold: format!("{} of the run {which}, at the low end of its interval", percent(OF_RUN)),
        advice: String::new(),
    }
}
