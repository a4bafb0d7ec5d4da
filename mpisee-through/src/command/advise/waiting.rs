//! The rules about waiting in collective operations, as measured by the arrivals of all members.

use super::facts::{Facts, Family};
use super::finding::{Finding, percent};
use crate::units::time;
use crate::waits::sentence::{Sentence, sentences};
use crate::waits::{Estimate, FEWEST, Waiting};
use std::collections::BTreeMap;

/// Waiting below this share of the run is no finding.
const WAITING_OF_RUN: f64 = 0.02;
/// How many sentences a finding has.
const SENTENCES: usize = 3;

/// The time in the operations of like communicators whose waits are known, and of that waiting; in an operation, if one is given.
pub fn of_family(facts: &Facts<'_>, family: &Family<'_>, call: Option<&str>) -> Option<(f64, Estimate)> {
    sum(facts, family, |operation| call.is_none_or(|call| operation.call == call))
}

fn sum(facts: &Facts<'_>, family: &Family<'_>, takes: impl Fn(&Waiting) -> bool) -> Option<(f64, Estimate)> {
    let is_here = |comm: &str| family.comms.iter().any(|known| known.name == comm);
    let operations = facts.waits.as_ref()?.operations.iter();
    let known = operations
        .filter(|operation| is_here(&operation.comm) && takes(operation))
        .filter_map(|operation| Some((operation.time_s, operation.waiting?)));
    let (time_s, waiting) =
        known.fold((0.0, Estimate::default()), |(time_s, all), (own_s, own)| (time_s + own_s, all.plus(own)));
    (time_s > 0.0).then_some((time_s, waiting))
}

/// `61 % (57 to 66 %) is waiting for others`.
pub fn share((time_s, waiting): (f64, Estimate)) -> String {
    let of = |part_s: f64| 100.0 * (part_s / time_s).clamp(0.0, 1.0);
    let range = match waiting.high - waiting.low > 0.005 * time_s {
        true => format!(" ({:.0} to {:.0} %)", of(waiting.low), of(waiting.high)),
        false => String::new(),
    };
    format!("{:.0} %{range} is waiting for others", of(waiting.total))
}

/// Ranks, nodes and roots for which others wait.
pub fn late(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(report) = &facts.waits else { return Vec::new() };
    let mut by_family: BTreeMap<(&str, &str), Vec<Sentence>> = BTreeMap::new();
    for sentence in sentences(report, |rank| facts.takes_rank(rank)) {
        if sentence.share.is_some() {
            by_family.entry(family_of(facts, &sentence)).or_default().push(sentence);
        }
    }
    let finding = |((name, title), sentences): ((&str, &str), Vec<Sentence>)| {
        let cost_s: f64 = sentences.iter().map(|one| one.waiting_s * one.share.unwrap_or(0.0)).sum();
        (facts.share_of_run(cost_s) >= WAITING_OF_RUN).then(|| late_finding(name, title, &sentences, cost_s))
    };
    by_family.into_iter().filter_map(finding).collect()
}

/// Name and title of the family of its communicator; owned by the facts.
fn family_of<'f>(facts: &'f Facts<'_>, sentence: &Sentence) -> (&'f str, &'f str) {
    let known = facts.comms.get_key_value(&sentence.comm);
    known.map_or(("", ""), |(comm, _)| facts.family_of(comm))
}

fn late_finding(name: &str, title: &str, sentences: &[Sentence], cost_s: f64) -> Finding {
    let mut said: Vec<&str> = sentences.iter().take(SENTENCES).map(|one| one.text.as_str()).collect();
    let more = format!("And so on in {} more.", sentences.len().saturating_sub(SENTENCES));
    if sentences.len() > SENTENCES {
        said.push(&more);
    }
    let whose = match sentences {
        [only] => format!(
            "{} {}",
            if only.ranks.len() == 1 { "rank" } else { "ranks" },
            only.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        ),
        _ => "these ranks".to_owned(),
    };
    Finding {
        rule: "late",
        about: name.to_owned(),
        cost_s,
        what: format!("On {title} others wait for {whose}."),
        evidence: format!("Measured by the arrivals of all members: {}", said.join(" ")),
        threshold: format!(
            "waiting for them of {} of the run, and they stand out as mpisee-through waits has it",
            percent(WAITING_OF_RUN)
        ),
        advice: format!(
            "Why {} later is not measured: compare the work, input and output before that call, and the node, with the others'.",
            if sentences.len() == 1 && sentences[0].ranks.len() == 1 { "it comes" } else { "they come" }
        ),
    }
}

/// The least share of the run that is waiting while no rank stands out.
const UNEVEN_OF_RUN: f64 = 0.05;

/// Waiting for which no rank stands out: each is late now and then.
pub fn uneven(facts: &Facts<'_>, others: &[Finding]) -> Vec<Finding> {
    let finding = |family: Family<'_>| {
        // Of few calls it cannot be said that nobody stands out.
        let (time_s, waiting) = sum(facts, &family, |operation| operation.sampled >= FEWEST as u64)?;
        let explained_s: f64 = others
            .iter()
            .filter(|other| other.rule == "late" && other.about == family.name)
            .map(|other| other.cost_s)
            .sum();
        let cost_s = waiting.total - explained_s;
        let is_much = facts.share_of_run(cost_s) >= UNEVEN_OF_RUN && cost_s >= waiting.total / 2.0;
        is_much.then(|| Finding {
            rule: "uneven",
            about: family.name.to_owned(),
            cost_s,
            what: format!("Members of {} wait for each other, and none of them stands out.", family.title),
            evidence: format!(
                "Measured by the arrivals of all members: of {} in collectives {}.",
                time(time_s),
                share((time_s, waiting))
            ),
            threshold: format!("{} of the run, and at least half of it by no rank that stands out", percent(UNEVEN_OF_RUN)),
            advice: "Ranks have more work in turn, or are held up by others on their cores; mpisee-through ranks PROFILE shows \
                     whether they had cores. Fewer or nonblocking collectives let such delays even out."
                .to_owned(),
        })
    };
    facts.families().filter_map(finding).collect()
}
