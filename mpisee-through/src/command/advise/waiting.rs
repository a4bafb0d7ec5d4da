//! The rules about waiting: in collective operations as measured by the arrivals of all members, in messages by both ends.

use super::at;
use super::facts::{Facts, FamilyFacts};
use super::finding::{Finding, percent};
use super::work::Beside;
use crate::units::time;
use crate::waits::messages::MESSAGES;
use crate::waits::sentence::{Sentence, sentences};
use crate::waits::{Estimate, FEWEST, Member, Waiting};
use mpisee_profile::{Operation, OperationKind};
use std::collections::{BTreeMap, BTreeSet};

/// Waiting below this share of the run is no finding.
const WAITING_OF_RUN: f64 = 0.02;
/// Ranks are not named if they waited for a core for this part of the time that others waited for them, or longer.
const OF_CORES: f64 = 0.5;
/// How many sentences a finding has.
const SENTENCES: usize = 3;

/// Time and waiting in those collectives of a family whose waits are known; of one operation if `call` is given.
pub fn of_family(facts: &Facts<'_>, family: &FamilyFacts<'_>, call: Option<&str>) -> Option<(f64, Estimate)> {
    let is_chosen = |operation: &Waiting| call.is_none_or(|call| operation.call == call);
    sum(facts, family, |operation| !operation.is_of_messages() && is_chosen(operation))
}

/// The same of their messages.
fn of_messages(facts: &Facts<'_>, family: &FamilyFacts<'_>) -> Option<(f64, Estimate)> {
    sum(facts, family, Waiting::is_of_messages)
}

/// The time in their blocking sends, and of that waiting for receivers.
pub fn of_sends(facts: &Facts<'_>, family: &FamilyFacts<'_>) -> Option<(f64, Estimate)> {
    let known = operations_on(facts, family)?.filter_map(|operation| operation.sends);
    known.reduce(|(time_s, all), (own_s, own)| (time_s + own_s, all.plus(own)))
}

fn sum(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    takes: impl Fn(&Waiting) -> bool,
) -> Option<(f64, Estimate)> {
    let known = operations_on(facts, family)?
        .filter(|operation| takes(operation))
        .filter_map(|operation| of_chosen(facts, operation));
    let (time_s, waiting) =
        known.fold((0.0, Estimate::default()), |(time_s, all), (own_s, own)| (time_s + own_s, all.plus(own)));
    (time_s > 0.0).then_some((time_s, waiting))
}

/// The time of the chosen ranks in an operation, and of that waiting.
fn of_chosen(facts: &Facts<'_>, operation: &Waiting) -> Option<(f64, Estimate)> {
    if !facts.names_ranks() {
        return Some((operation.time_s, operation.waiting?));
    }
    let chosen = operation.members.iter().filter(|member| facts.takes_rank(member.rank));
    let each = chosen.filter_map(|member| Some((member.time_s, member.suffered?)));
    each.reduce(|(time_s, one), (more_s, other)| (time_s + more_s, one.plus(other)))
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

/// Ranks, nodes and roots for which others wait in collectives.
pub fn late(facts: &Facts<'_>) -> Vec<Finding> {
    by_family(facts, |sentence| sentence.call != MESSAGES)
        .into_iter()
        .filter_map(|found| found.late(facts))
        .collect()
}

/// Ranks for which others wait in messages, by the end at which they are late.
pub fn late_ends(facts: &Facts<'_>) -> Vec<Finding> {
    END_RULES
        .iter()
        .flat_map(|rule| {
            let found = by_family(facts, |one| one.call == MESSAGES && rule.kinds.contains(&one.kind));
            found.into_iter().filter_map(|found| found.late_end(rule, facts))
        })
        .collect()
}

/// Returns whether a rule of this module is about messages, and not about collectives; none of a rule of another one.
pub fn is_about_messages(rule: &str) -> Option<bool> {
    let is_end = END_RULES.iter().any(|of| of.name == rule);
    match is_end || rule == UNEVEN_MESSAGES {
        true => Some(true),
        false => ["late", "uneven"].contains(&rule).then_some(false),
    }
}

/// The rule of waits in messages for which no rank is named.
const UNEVEN_MESSAGES: &str = "uneven-messages";

/// The findings on like communicators.
struct Found<'f> {
    name: &'f str,
    title: &'f str,
    sentences: Vec<Sentence>,
}

/// The sentences that are about ranks, by family.
fn by_family<'f>(facts: &'f Facts<'_>, takes: impl Fn(&Sentence) -> bool) -> Vec<Found<'f>> {
    let Some(report) = &facts.waits else { return Vec::new() };
    let mut by_family: BTreeMap<(&str, &str), Vec<Sentence>> = BTreeMap::new();
    for sentence in sentences(report, |rank| facts.takes_rank(rank)) {
        if sentence.share.is_some() && takes(&sentence) {
            by_family.entry(family_of(facts, &sentence)).or_default().push(sentence);
        }
    }
    by_family.into_iter().map(|((name, title), sentences)| Found { name, title, sentences }).collect()
}

/// Name and title of the family of its communicator; owned by the facts.
fn family_of<'f>(facts: &'f Facts<'_>, sentence: &Sentence) -> (&'f str, &'f str) {
    let known = facts.comms.get_key_value(&sentence.comm);
    known.map_or(("", ""), |(comm, _)| facts.family_of(comm))
}

/// A rule about one end of messages.
struct EndRule {
    name: &'static str,
    /// The sentences that it is about.
    kinds: &'static [&'static str],
    /// The others' actions while they wait.
    wait: &'static str,
    advice: &'static str,
}

const SENDERS: EndRule = EndRule {
    name: "late-sender",
    kinds: &["late sender", "late senders", "late rank", "late ranks", "late node"],
    wait: "to send",
    advice: "Why they come later is not measured: compare their work before the send with the others', or let them send earlier; \
             receivers that have other work can do it between MPI_Irecv and MPI_Wait.",
};

const RECEIVERS: EndRule = EndRule {
    name: "late-receiver",
    kinds: &["late receiver", "late receivers"],
    wait: "to receive",
    advice: "Post receives earlier, with MPI_Irecv before other work, or send with MPI_Isend and complete it later, so that \
             senders go on meanwhile.",
};

const PARTNERS: EndRule = EndRule {
    name: "late-partner",
    kinds: &["late partner", "late partners"],
    wait: "to send and to receive",
    advice: "Why they come later is not measured: compare their work before these messages with the others'; others that have other \
             work can do it between MPI_Irecv, MPI_Isend and MPI_Waitall.",
};

const HOT_RECEIVERS: EndRule = EndRule {
    name: "hot-receiver",
    kinds: &["hot receiver", "hot receivers"],
    wait: "to receive",
    advice: "Post all receives before the first is completed, let fewer ranks send at once, or use MPI_Gather or MPI_Reduce, \
             which many libraries do along a tree.",
};

const END_RULES: [EndRule; 4] = [SENDERS, RECEIVERS, PARTNERS, HOT_RECEIVERS];

impl Found<'_> {
    /// The time that others waited, if it is much and lack of cores does not explain most of it: that is a finding of its own.
    fn cost_s(&self, facts: &Facts<'_>) -> Option<f64> {
        let cost_s = self.sentences.iter().map(|one| one.waiting_s * one.share.unwrap_or(0.0)).sum();
        let is_of_cores = facts.lack.is_some() && self.core_wait_s(facts) >= OF_CORES * cost_s;
        (!is_of_cores && facts.share_of_run(cost_s) >= WAITING_OF_RUN).then_some(cost_s)
    }

    /// How long these ranks were ready to run and had no core, in seconds.
    fn core_wait_s(&self, facts: &Facts<'_>) -> f64 {
        let is_named = |rank: u32| self.sentences.iter().any(|one| one.ranks.contains(&rank));
        let rows = facts.processes.ranks().iter().filter(|row| is_named(row.rank));
        rows.filter_map(|row| row.cpu_wait_s).map(|wait_s| wait_s.0).sum()
    }

    fn said(&self) -> String {
        let texts = self.sentences.iter().take(SENTENCES).map(|one| one.text.clone());
        let more = self.sentences.len().saturating_sub(SENTENCES);
        let more = (more > 0).then(|| format!("And so on in {more} more."));
        texts.chain(more).collect::<Vec<_>>().join(" ")
    }

    /// Where in the program the collectives are called, if most calls are made at one place.
    fn made_at(&self, facts: &Facts<'_>) -> String {
        let calls: BTreeSet<&str> = self.sentences.iter().map(|one| one.call.as_str()).collect();
        let nouns = match calls.first() {
            Some(only) if calls.len() == 1 => format!("calls of {only}"),
            _ => "collective calls".to_owned(),
        };
        let family = facts.families().find(|family| family.name == self.name);
        family.map_or_else(String::new, |family| {
            at::of_calls(facts, &family, &nouns, |call| calls.contains(call))
        })
    }

    fn is_one_rank(&self) -> bool {
        self.sentences.len() == 1 && self.sentences[0].ranks.len() == 1
    }

    /// Returns whether all of these ranks waited for others elsewhere, so that the cause may be with those.
    fn may_only_pass_it_on(&self) -> bool {
        self.sentences.iter().all(|one| one.ranks.iter().all(|rank| one.waited.contains(rank)))
    }

    /// The ranks, if they are of one sentence.
    fn whose(&self) -> String {
        match &self.sentences[..] {
            [only] => only.whom.clone(),
            _ => "these ranks".to_owned(),
        }
    }

    /// The evidence, with the ranks' time outside of MPI, and advice: where that explains the waiting, it is about their work.
    fn with_work(
        &self,
        facts: &Facts<'_>,
        cost_s: f64,
        evidence: String,
        otherwise: &str,
    ) -> (String, String) {
        let ranks = self.sentences.iter().flat_map(|one| one.ranks.iter().copied()).collect();
        let is_here = |one: &&Waiting| self.sentences.iter().any(|sentence| sentence.comm == one.comm);
        let operations = facts.waits.iter().flat_map(|report| &report.operations).filter(is_here);
        let among = operations.flat_map(|one| &one.members).map(|member| member.rank).collect();
        let Some(beside) = Beside::of(facts, ranks, &among) else { return (evidence, otherwise.to_owned()) };
        let advice = match beside.explains(cost_s) {
            true => format!(
                "What {} outside of MPI takes longer than with the others, by enough to explain half of the waiting or more: see \
                 whether the work can be divided anew, or what is slow there, as input, output or the node.",
                if self.is_one_rank() { "it does" } else { "they do" }
            ),
            false if self.may_only_pass_it_on() => format!(
                "Look first for whom {} there: the cause may be with those, who have a finding of their own if they stand out.",
                if self.is_one_rank() { "it waited" } else { "they waited" }
            ),
            false => otherwise.to_owned(),
        };
        (format!("{evidence} {}", beside.sentence()), advice)
    }

    fn late_end(&self, rule: &EndRule, facts: &Facts<'_>) -> Option<Finding> {
        let cost_s = self.cost_s(facts)?;
        let evidence = format!("Measured by both ends of messages: {}", self.said());
        let (evidence, advice) = self.with_work(facts, cost_s, evidence, rule.advice);
        Some(Finding {
            rule: rule.name,
            about: self.name.to_owned(),
            cost_s,
            what: format!("On {} others wait for {} {}.", self.title, self.whose(), rule.wait),
            evidence,
            threshold: format!(
                "waiting for them of {} of the run, and they stand out as mpisee-through waits has it",
                percent(WAITING_OF_RUN)
            ),
            advice,
        })
    }

    fn late(&self, facts: &Facts<'_>) -> Option<Finding> {
        let cost_s = self.cost_s(facts)?;
        let evidence =
            format!("Measured by the arrivals of all members: {}{}", self.said(), self.made_at(facts));
        let otherwise = format!(
            "Why {} later is not measured: compare the work, input and output before that call, and the node, with the others'.",
            if self.is_one_rank() { "it comes" } else { "they come" }
        );
        let (evidence, advice) = self.with_work(facts, cost_s, evidence, &otherwise);
        Some(Finding {
            rule: "late",
            about: self.name.to_owned(),
            cost_s,
            what: format!("On {} others wait for {}.", self.title, self.whose()),
            evidence,
            threshold: format!(
                "waiting for them of {} of the run, and they stand out as mpisee-through waits has it",
                percent(WAITING_OF_RUN)
            ),
            advice,
        })
    }
}

/// The least share of the run that is waiting while no rank stands out.
const UNEVEN_OF_RUN: f64 = 0.05;
/// A rank that caused, or suffered, more than this part of it is mentioned all the same.
const MOST_BY_ONE: f64 = 0.75;

/// Waiting for which no rank stands out: each is late now and then.
pub fn uneven(facts: &Facts<'_>) -> Vec<Finding> {
    let in_collectives = facts.families().filter_map(|family| uneven_collectives(facts, &family));
    let in_messages = facts.families().filter_map(|family| uneven_messages(facts, &family));
    in_collectives.chain(in_messages).collect()
}

/// The waiting on a family, in seconds, in collectives or in messages, for which no rank stands out, if it is much.
fn left(facts: &Facts<'_>, family: &FamilyFacts<'_>, waiting: Estimate, in_messages: bool) -> Option<f64> {
    let report = facts.waits.as_ref()?;
    let is_here = |call: &str, comm: &str| {
        (call == MESSAGES) == in_messages && family.comms.iter().any(|of| of.name == comm)
    };
    let named = sentences(report, |_| true).into_iter().filter(|one| is_here(&one.call, &one.comm));
    let named_s: f64 = named.map(|one| one.waiting_s * one.share.unwrap_or(0.0)).sum();
    let all = report.operations.iter().filter(|one| is_here(&one.call, &one.comm));
    let all_s: f64 = all.filter_map(|one| one.waiting).map(|waiting| waiting.total).sum();
    let unnamed = if all_s > 0.0 { (1.0 - named_s / all_s).max(0.0) } else { 0.0 };
    let cost_s = unnamed * waiting.total;
    let is_much = facts.share_of_run(cost_s) >= UNEVEN_OF_RUN && cost_s >= waiting.total / 2.0;
    is_much.then_some(cost_s)
}

fn uneven_threshold() -> String {
    format!("{} of the run, and at least half of it by no rank that stands out", percent(UNEVEN_OF_RUN))
}

fn uneven_collectives(facts: &Facts<'_>, family: &FamilyFacts<'_>) -> Option<Finding> {
    // Of few calls it cannot be said that nobody stands out.
    let takes = |operation: &Waiting| !operation.is_of_messages() && operation.sampled >= FEWEST as u64;
    let (time_s, waiting) = sum(facts, family, takes)?;
    let measured = operations_on(facts, family)?.filter(|operation| takes(operation));
    let calls: BTreeSet<&str> = measured.map(|operation| operation.call.as_str()).collect();
    let (more, advice) = unnamed(
        facts,
        family,
        takes,
        "Ranks have more work in turn, or are held up by others on their cores; mpisee-through ranks PROFILE shows whether they \
         had cores. Fewer or nonblocking collectives let such delays even out.",
    );
    Some(Finding {
        rule: "uneven",
        about: family.name.to_owned(),
        cost_s: left(facts, family, waiting, false)?,
        what: format!(
            "Members of {} wait for each other, and for most of that no rank is named.",
            family.title
        ),
        evidence: format!(
            "Measured by the arrivals of all members: of {} in collectives {}.{}{more}",
            time(time_s),
            share((time_s, waiting)),
            at::of_time(facts, family, |call| calls.contains(call))
        ),
        threshold: uneven_threshold(),
        advice,
    })
}

fn uneven_messages(facts: &Facts<'_>, family: &FamilyFacts<'_>) -> Option<Finding> {
    let (time_s, waiting) = of_messages(facts, family)?;
    let cost_s = left(facts, family, waiting, true)?;
    let mut by_end_s = [0.0; 2];
    for member in
        operations_on(facts, family)?.filter(|one| one.is_of_messages()).flat_map(|one| &one.members)
    {
        let suffered_s = member.directions.unwrap_or_default().suffered_s;
        by_end_s.iter_mut().zip(suffered_s).for_each(|(sum, more)| *sum += more);
    }
    let [for_senders_s, for_receivers_s] = by_end_s;
    let otherwise = match for_receivers_s > for_senders_s {
        true => {
            "Let receivers post MPI_Irecv before other work, or send with MPI_Isend and complete it later, so that senders go on \
             meanwhile."
        }
        false => {
            "Let receivers do other work between MPI_Irecv and MPI_Wait, or ranks send before work that others do not wait for."
        }
    };
    let one = most_of_one(facts, family, Waiting::is_of_messages, |member| member.suffered);
    let of_one = one.map(|(rank, _)| {
        format!(
            "Those for whom rank {rank} waits have more to do before their messages than it has: give it more of the work, or more ranks \
             to the others' part of it. {otherwise}"
        )
    });
    let (more, advice) =
        unnamed(facts, family, Waiting::is_of_messages, of_one.as_deref().unwrap_or(otherwise));
    Some(Finding {
        rule: UNEVEN_MESSAGES,
        about: family.name.to_owned(),
        cost_s,
        what: match one {
            Some((rank, share)) => format!(
                "On {} rank {rank} waits for others in messages, {} of all waiting in them, and for most of that no rank is named.",
                family.title,
                percent(share)
            ),
            None => format!(
                "Members of {} wait for each other in messages, and for most of that no rank is named.",
                family.title
            ),
        },
        evidence: format!(
            "Measured by both ends of messages: of {} in messages {}, {} for senders and {} for receivers.{}{more}",
            time(time_s),
            share((time_s, waiting)),
            time(for_senders_s),
            time(for_receivers_s),
            at::of_time(facts, family, is_call_of_messages)
        ),
        threshold: uneven_threshold(),
        advice,
    })
}

fn is_call_of_messages(call: &str) -> bool {
    let kind = Operation::from_name(call).map(Operation::kind);
    matches!(kind, Some(OperationKind::PointToPoint | OperationKind::Completion | OperationKind::Probe))
}

/// The operations on the communicators of a family whose waits were looked for.
fn operations_on<'f>(
    facts: &'f Facts<'_>,
    family: &FamilyFacts<'f>,
) -> Option<impl Iterator<Item = &'f Waiting> + use<'f>> {
    let comms: BTreeSet<&str> = family.comms.iter().map(|comm| comm.name.as_str()).collect();
    let operations = facts.waits.as_ref()?.operations.iter();
    Some(operations.filter(move |operation| comms.contains(operation.comm.as_str())))
}

/// A sentence on operations in which nobody could be named, if there are any.
fn progress(facts: &Facts<'_>, family: &FamilyFacts<'_>, takes: impl Fn(&Waiting) -> bool) -> Option<String> {
    let mut of_family = operations_on(facts, family)?.filter(|one| takes(one));
    of_family.any(|one| one.may_lack_progress).then(|| {
        " In some of it nobody can be named: what all had started was complete only after a rank came back to MPI.".to_owned()
    })
}

/// The rank that has most of what is asked `of` members of these communicators, if there is one, and its part. It is no finding, since in
/// few calls or with a wide interval, so that another run may have another one.
fn most_of_one(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    takes: impl Fn(&Waiting) -> bool,
    of: impl Fn(&Member) -> Option<Estimate>,
) -> Option<(u32, f64)> {
    let members = operations_on(facts, family)?.filter(|one| takes(one)).flat_map(|one| &one.members);
    let mut sums_s: BTreeMap<u32, f64> = BTreeMap::new();
    for member in members {
        *sums_s.entry(member.rank).or_default() += of(member).map_or(0.0, |part| part.total);
    }
    let all_s: f64 = sums_s.values().sum();
    let (rank, most_s) = sums_s.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    (most_s > MOST_BY_ONE * all_s).then(|| (rank, most_s / all_s))
}

/// The rest of the evidence, and the advice, of waiting for which no rank is named.
fn unnamed(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    takes: impl Fn(&Waiting) -> bool,
    otherwise: &str,
) -> (String, String) {
    if let Some(sentence) = progress(facts, family, &takes) {
        return (sentence, otherwise.to_owned());
    }
    let Some((rank, share)) = most_of_one(facts, family, takes, |member| member.caused) else {
        return (String::new(), otherwise.to_owned());
    };
    let sentence = format!(
        " Rank {rank} caused {} of that, but in few long waits or as an uncertain estimate: another run may have another one.",
        percent(share)
    );
    let advice = format!(
        "See what rank {rank} does now and then that others do not, as output or a checkpoint, and whether it is the same rank in \
         another run."
    );
    (sentence, advice)
}

/// Ranks for which others wait, but which lacked a core for so long that [`late`] and the like leave them out.
pub fn left_to_cores(facts: &Facts<'_>) -> BTreeSet<u32> {
    let is_left = |found: &Found<'_>| {
        let cost_s: f64 = found.sentences.iter().map(|one| one.waiting_s * one.share.unwrap_or(0.0)).sum();
        facts.share_of_run(cost_s) >= WAITING_OF_RUN && found.cost_s(facts).is_none()
    };
    let left = by_family(facts, |_| true).into_iter().filter(is_left);
    left.flat_map(|found| found.sentences).flat_map(|one| one.ranks).collect()
}
