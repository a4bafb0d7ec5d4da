//! The rule about waiting: in collective operations as measured by the arrivals of all members, in
//! messages by both ends.
//!
//! Whether a rank stands out from the noise may differ from run to run. That does not change the
//! rule, only its sentence.

use super::at;
use super::cause::{CIRCLE, Caused, WAITING};
use super::facts::{Facts, FamilyFacts};
use super::finding::{Finding, percent};
use super::work::{self, Beside};
use crate::units::{count, time};
use crate::waits::messages::{Class, MESSAGES};
use crate::waits::sentence::{Doubt, Sentence, sentences};
use crate::waits::{Estimate, FEWEST, Waiting, most_of_one};
use mpisee_profile::{Operation, OperationKind, RankSet};
use std::collections::BTreeSet;

/// Waiting on like communicators below this share of the run is no finding.
const OF_RUN: f64 = 0.02;
/// Ranks are named if they caused this part of the waiting together.
const NAMED: f64 = 0.5;
/// Lack of cores explains the waiting if the ranks waited for a core for this part of it, or
/// longer.
const OF_CORES: f64 = 0.5;
/// How many sentences a finding has.
const SENTENCES: usize = 3;

/// Time and waiting in those collectives of a family whose waits are known; of one operation if
/// `call` is given.
pub fn of_family(facts: &Facts<'_>, family: &FamilyFacts<'_>, call: Option<&str>) -> Option<(f64, Estimate)> {
    let is_chosen = |operation: &Waiting| call.is_none_or(|call| operation.call == call);
    sum(facts, family, |operation| !operation.is_of_messages() && is_chosen(operation))
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

/// `61 % (57 to 66 %)`, the part of a time that is waiting for others.
pub fn share((time_s, waiting): (f64, Estimate)) -> String {
    let of = |part_s: f64| 100.0 * (part_s / time_s).clamp(0.0, 1.0);
    let range = match waiting.high - waiting.low > 0.005 * time_s {
        true => format!(" ({:.0} to {:.0} %)", of(waiting.low), of(waiting.high)),
        false => String::new(),
    };
    format!("{:.0} %{range}", of(waiting.total))
}

/// `1.20 s of it (1.10 to 1.30 s) waiting for others`, for sentences with shares of another whole.
pub fn in_seconds((_, waiting): (f64, Estimate)) -> String {
    let range = match waiting.high - waiting.low > 0.005 * waiting.total {
        true => format!(" ({} to {})", time(waiting.low), time(waiting.high)),
        false => String::new(),
    };
    format!("{} of it{range} waiting for others", time(waiting.total))
}

/// What is said of ranks that are late at one end of messages.
struct EndText {
    /// The sentences that it is about.
    kinds: &'static [&'static str],
    /// The others' actions while they wait.
    wait: &'static str,
    advice: &'static str,
}

const SENDERS: EndText = EndText {
    kinds: &["late sender", "late senders", "late rank", "late ranks", "late node"],
    wait: "to send",
    advice: "The cause of the delay is not measured. Compare the work before the send with the work of other \
             ranks. Or let late ranks send earlier. Receivers with other work can do that work between \
             MPI_Irecv and MPI_Wait.",
};

const RECEIVERS: EndText = EndText {
    kinds: &["late receiver", "late receivers"],
    wait: "to receive",
    advice: "Post receives earlier, with MPI_Irecv before other work. Or send with MPI_Isend and complete \
             the send later. Either way, senders go on meanwhile.",
};

const PARTNERS: EndText = EndText {
    kinds: &["late partner", "late partners"],
    wait: "to send and to receive",
    advice: "The cause of the delay is not measured. Compare the work before these messages with the work of \
             other ranks. Waiting ranks with other work can do that work between MPI_Irecv, MPI_Isend and \
             MPI_Waitall.",
};

const HOT_RECEIVERS: EndText = EndText {
    kinds: &["hot receiver", "hot receivers"],
    wait: "to receive",
    advice: "Post all receives before completing the first, or let fewer ranks send at once. Or use \
             MPI_Gather or MPI_Reduce: many libraries run these operations along a tree.",
};

const END_TEXTS: [EndText; 4] = [SENDERS, RECEIVERS, PARTNERS, HOT_RECEIVERS];

/// Waiting on like communicators, in collectives and in messages.
pub fn rule(facts: &Facts<'_>) -> Vec<Caused> {
    let families: Vec<FamilyFacts<'_>> = facts.families().collect();
    families.iter().filter_map(|family| FamilyWaits::gather(facts, family)?.to_caused()).collect()
}

/// Waiting on like communicators that lack of cores may explain, so that [`rule`] leaves it out.
pub struct CoreWaits {
    /// The name of the communicators.
    pub about: String,
    /// The ranks that stand out.
    pub ranks: BTreeSet<u32>,
    /// The waiting in calls of collectives, and in calls for messages and for requests, in seconds.
    pub parts_s: [f64; 2],
}

/// The waiting that is left to the finding about cores.
pub fn left_to_cores(facts: &Facts<'_>) -> Vec<CoreWaits> {
    let families: Vec<FamilyFacts<'_>> = facts.families().collect();
    let of_family = |family| FamilyWaits::gather(facts, family).filter(FamilyWaits::is_of_cores);
    let core_waits = |waits: FamilyWaits<'_, '_>| CoreWaits {
        about: waits.family.name.to_owned(),
        ranks: waits.late_ranks(),
        parts_s: waits.by_calls_s(),
    };
    families.iter().filter_map(of_family).map(core_waits).collect()
}

/// The waiting on like communicators.
struct FamilyWaits<'w, 'f> {
    facts: &'w Facts<'f>,
    family: &'w FamilyFacts<'w>,
    /// Time and waiting of the chosen ranks in collectives, and in messages.
    parts: [Option<(f64, Estimate)>; 2],
    /// Those that name ranks, in each of the two.
    sentences: [Vec<Sentence>; 2],
}

/// Of few collective calls it cannot be said that nobody stands out.
fn is_enough(operation: &Waiting) -> bool {
    operation.is_of_messages() || operation.sampled >= FEWEST as u64 || !operation.findings.is_empty()
}

impl<'w, 'f> FamilyWaits<'w, 'f> {
    /// `None` if it is too little of the run.
    fn gather(facts: &'w Facts<'f>, family: &'w FamilyFacts<'w>) -> Option<Self> {
        let report = facts.waits.as_ref()?;
        let part = |in_messages: bool| {
            sum(facts, family, |one| one.is_of_messages() == in_messages && is_enough(one))
        };
        let is_here =
            |one: &Sentence| one.share.is_some() && family.comms.iter().any(|comm| comm.name == one.comm);
        let all = sentences(report, |rank| facts.takes_rank(rank)).into_iter().filter(is_here);
        let (messages, collectives) = all.partition(|one| one.call == MESSAGES);
        let waits = FamilyWaits {
            facts,
            family,
            parts: [part(false), part(true)],
            sentences: [collectives, messages],
        };
        (facts.share_of_run(waits.cost_s()) >= OF_RUN).then_some(waits)
    }

    /// The waiting in collectives, and in messages, in seconds: of the chosen ranks, or for them.
    fn parts_s(&self) -> [f64; 2] {
        self.split_s(|call| call == MESSAGES)
    }

    /// The waiting in calls of collectives, and in calls for messages and for requests, in seconds:
    /// that of a nonblocking collective is in the call that completes it.
    fn by_calls_s(&self) -> [f64; 2] {
        self.split_s(|call| {
            call == MESSAGES || Operation::from_name(call).is_some_and(Operation::starts_request)
        })
    }

    /// The waiting in operations that are not chosen, and in those that are.
    fn split_s(&self, is_chosen: impl Fn(&str) -> bool) -> [f64; 2] {
        [false, true].map(|chosen| {
            let takes = |one: &Waiting| is_enough(one) && is_chosen(&one.call) == chosen;
            let suffered_s = sum(self.facts, self.family, takes).map_or(0.0, |(_, waiting)| waiting.total);
            let named = self.all_sentences().filter(|one| is_chosen(&one.call) == chosen);
            match self.facts.names_ranks() {
                true => suffered_s.max(named_waiting_s(named)),
                false => suffered_s,
            }
        })
    }

    fn cost_s(&self) -> f64 {
        self.parts_s().iter().sum()
    }

    fn all_sentences(&self) -> impl Iterator<Item = &Sentence> {
        self.sentences.iter().flatten()
    }

    /// The ranks that stand out.
    fn late_ranks(&self) -> BTreeSet<u32> {
        self.all_sentences().flat_map(|one| one.ranks.iter().copied()).collect()
    }

    /// The waiting that ranks which stand out caused, in seconds.
    fn named_s(&self) -> f64 {
        named_waiting_s(self.all_sentences())
    }

    /// Returns whether ranks that stand out caused most of it.
    fn names_ranks(&self) -> bool {
        self.named_s() >= NAMED * self.cost_s()
    }

    fn operations(&self) -> impl Iterator<Item = &'w Waiting> {
        operations_on(self.facts, self.family).into_iter().flatten().filter(|one| is_enough(one))
    }

    /// The rank that caused most of it, with its part, also where it does not stand out from the
    /// noise.
    fn largest(&self) -> Option<(u32, f64)> {
        most_of_one(self.operations(), |member| member.caused)
    }

    /// Returns whether the ranks that stand out, or all members where none does, waited for cores
    /// so long that this may explain it.
    fn is_of_cores(&self) -> bool {
        if self.facts.lack.is_none() {
            return false;
        }
        let (ranks, cost_s) = match self.names_ranks() {
            true => (self.late_ranks(), self.named_s()),
            false => (self.members(), self.cost_s()),
        };
        let rows = self.facts.processes.ranks().iter().filter(|row| ranks.contains(&row.rank));
        let core_wait_s: f64 = rows.filter_map(|row| row.cpu_wait_s).map(|wait_s| wait_s.0).sum();
        core_wait_s >= OF_CORES * cost_s
    }

    fn members(&self) -> BTreeSet<u32> {
        self.operations().flat_map(|one| &one.members).map(|member| member.rank).collect()
    }

    fn to_caused(&self) -> Option<Caused> {
        if self.is_of_cores() {
            return None;
        }
        let (what, advice, more, ranks) = match self.names_ranks() {
            true => self.describe_named(),
            false => self.describe_unnamed(),
        };
        let finding = Finding {
            rule: WAITING,
            about: self.family.name.to_owned(),
            cost_s: self.cost_s(),
            what,
            evidence: format!("{}{more}", self.measured().join(" ")),
            threshold: format!(
                "waiting of {} of the run. Named ranks cause half of the waiting or more, and stand out by \
                 the rules of mpisee-through waits",
                percent(OF_RUN)
            ),
            advice,
        };
        let sources = self.all_sentences().filter_map(|one| one.waits.as_ref());
        let passed_on = self.names_ranks() && self.may_only_pass_it_on() && !self.explains_by_work();
        let sources = sources.filter(|_| passed_on);
        let sources = sources.map(|waits| self.facts.family_of(&waits.comm).0.to_owned());
        Some(Caused { finding, ranks, parts_s: self.by_calls_s(), sources: sources.collect() })
    }

    /// The measured parts, and the sentences about ranks that stand out.
    fn measured(&self) -> Vec<String> {
        let [collectives, messages] = &self.sentences;
        let mut parts = Vec::new();
        if let Some((time_s, waiting)) = self.parts[0].filter(|(_, waiting)| waiting.total > 0.0) {
            let calls: BTreeSet<&str> =
                self.operations().filter(|one| !one.is_of_messages()).map(|one| one.call.as_str()).collect();
            parts.push(format!(
                "Waiting for others takes {} of {} in collectives, measured by the arrivals of all \
                 members.{}",
                share((time_s, waiting)),
                time(time_s),
                at::of_time(self.facts, self.family, "the time in collectives", |call| calls.contains(call))
            ));
            parts.extend(first_texts(collectives));
        }
        if let Some((time_s, waiting)) = self.parts[1].filter(|(_, waiting)| waiting.total > 0.0) {
            let [for_senders_s, for_receivers_s] = self.by_end_s();
            parts.push(format!(
                "Waiting for others takes {} of {} in messages, measured by both ends. Ranks wait {} for \
                 senders and {} for receivers.{}",
                share((time_s, waiting)),
                time(time_s),
                time(for_senders_s),
                time(for_receivers_s),
                at::of_time(self.facts, self.family, "the time in messages", is_call_of_messages)
            ));
            parts.extend(first_texts(messages));
        }
        parts
    }

    /// The waiting for senders, and for receivers, in seconds.
    fn by_end_s(&self) -> [f64; 2] {
        let members = self.operations().filter(|one| one.is_of_messages()).flat_map(|one| &one.members);
        members.fold([0.0; 2], |[senders_s, receivers_s], member| {
            let [for_senders_s, for_receivers_s] = member.directions.unwrap_or_default().suffered_s;
            [senders_s + for_senders_s, receivers_s + for_receivers_s]
        })
    }

    /// Finding, advice and the rest of the evidence where ranks stand out, with these ranks.
    fn describe_named(&self) -> (String, String, String, BTreeSet<u32>) {
        let beside = self.beside();
        let explaining =
            beside.as_ref().map_or_else(BTreeSet::new, |beside| beside.explaining(self.named_s()));
        let ranks = self.causes(&explaining);
        let whom = self.whom(&ranks);
        let kinds: BTreeSet<&str> = self.all_sentences().map(|one| one.kind).collect();
        let in_messages = self.sentences[0].is_empty();
        let is_of = |end: &&EndText| in_messages && kinds.iter().all(|kind| end.kinds.contains(kind));
        let end = END_TEXTS.iter().find(is_of);
        let what = match end {
            Some(end) => format!("Other ranks wait for {whom} {} on {}.", end.wait, self.family.title),
            None => format!("Other ranks wait for {whom} on {}.", self.family.title),
        };
        let [these_spend, these_waited] = match ranks.len() {
            1 => ["This rank spends", "this rank waited"],
            _ => ["These ranks spend", "these ranks waited"],
        };
        let otherwise = end.map_or(
            "The cause of the delay is not measured. Compare the work, input and output before these calls, \
             and the node, with those of other ranks.",
            |end| end.advice,
        );
        let advice = match &beside {
            Some(_) if !explaining.is_empty() => format!(
                "{these_spend} longer outside of MPI than the others, enough to explain half of the waiting \
                 or more. Check whether the work can be divided anew. Or find what is slow outside of MPI, \
                 such as input, output or the node."
            ),
            Some(_) if self.may_only_pass_it_on() && self.all_sentences().any(|one| one.is_circle) => {
                format!("{CIRCLE}{}", self.most_work())
            }
            Some(_) if self.may_only_pass_it_on() => format!(
                "Look first at the ranks for which {these_waited}: the cause may be with them. Ranks that \
                 stand out have a finding of their own.{}",
                self.most_work()
            ),
            _ => otherwise.to_owned(),
        };
        (what, advice, beside.map_or_else(String::new, |beside| format!(" {}", beside.sentence())), ranks)
    }

    /// The time outside of MPI of the ranks that stand out, beside that of the others.
    fn beside(&self) -> Option<Beside> {
        Beside::compare(self.facts, &self.late_ranks(), &self.members())
    }

    fn explains_by_work(&self) -> bool {
        self.beside().is_some_and(|beside| !beside.explaining(self.named_s()).is_empty())
    }

    /// The ranks that stand out, without those that only pass on what `explaining` ones have to do.
    fn causes(&self, explaining: &BTreeSet<u32>) -> BTreeSet<u32> {
        let late = self.late_ranks();
        let waited: BTreeSet<u32> = self.all_sentences().flat_map(|one| one.waited.iter().copied()).collect();
        match !explaining.is_empty() && late.difference(explaining).all(|rank| waited.contains(rank)) {
            true => explaining.clone(),
            false => late,
        }
    }

    /// These ranks in words.
    fn whom(&self, ranks: &BTreeSet<u32>) -> String {
        let names: BTreeSet<&str> = self.all_sentences().map(|one| one.whom.as_str()).collect();
        match names.first() {
            Some(&only) if names.len() == 1 && *ranks == self.late_ranks() => only.to_owned(),
            _ if ranks.len() == 1 => format!("rank {}", ranks.iter().copied().collect::<RankSet>()),
            _ => "several ranks".to_owned(),
        }
    }

    /// The member that is outside of MPI longest, if its time explains the waiting, in a sentence
    /// after others.
    fn most_work(&self) -> String {
        let members = self.members();
        let rows = self.facts.processes.ranks().iter().filter(|row| members.contains(&row.rank));
        let most = rows.max_by(|one, other| work::outside(one)[1].total_cmp(&work::outside(other)[1]));
        let beside = most.and_then(|most| Beside::compare(self.facts, &[most.rank].into(), &members));
        let beside = beside.filter(|beside| !beside.explaining(self.named_s()).is_empty());
        beside.map_or_else(String::new, |beside| format!(" {}", beside.sentence()))
    }

    /// Returns whether all of these ranks waited for others elsewhere, so that the cause may be
    /// with those.
    fn may_only_pass_it_on(&self) -> bool {
        self.all_sentences().all(|one| one.ranks.iter().all(|rank| one.waited.contains(rank)))
    }

    /// The same where no ranks stand out that caused most of it; with the rank that caused most, if
    /// there is one.
    fn describe_unnamed(&self) -> (String, String, String, BTreeSet<u32>) {
        let title = &self.family.title;
        if let Some((rank, part)) = self.largest() {
            let what = format!(
                "Other ranks wait for rank {rank} on {title}: {} of the waiting (not certain).",
                percent(part)
            );
            let doubt = Doubt::about(rank, self.operations());
            let advice = match &doubt {
                Some(Doubt { is_of_estimate: true, .. }) => {
                    "Check whether another run names the same rank. mpisee --instances all keeps every call."
                        .to_owned()
                }
                _ => format!(
                    "Find what rank {rank} does now and then that others do not, such as output or a \
                     checkpoint. Check whether another run names the same rank."
                ),
            };
            let why = doubt.map_or_else(String::new, |doubt| format!(" {}", doubt.sentence));
            return (what, advice, why, BTreeSet::from([rank]));
        }
        let [collectives_s, messages_s] = self.parts_s();
        let in_messages = if messages_s > collectives_s { " in messages" } else { "" };
        let mut what = format!(
            "Members of {title} wait for each other{in_messages}; no single rank causes most of the waiting."
        );
        let otherwise = self.advice_on_nobody(messages_s > collectives_s);
        let mut advice = otherwise.to_owned();
        if let Some((rank, part)) = most_of_one(self.operations(), |member| member.suffered) {
            what = format!(
                "Rank {rank} suffers {} of all waiting{in_messages} on {title}; no single rank causes most \
                 of it.",
                percent(part)
            );
            advice = format!(
                "The ranks for which rank {rank} waits have more to do before these calls. Give rank {rank} \
                 more of the work, or divide the part of the others among more ranks. {otherwise}"
            );
        }
        let lacks_progress = self.operations().any(|one| one.may_lack_progress);
        let more = match lacks_progress {
            true => {
                " No rank can be named for a part of the waiting. What all ranks had started was complete \
                 only after a rank came back to MPI."
            }
            false => "",
        };
        (what, advice, more.to_owned(), BTreeSet::new())
    }

    fn advice_on_nobody(&self, in_messages: bool) -> &'static str {
        let [for_senders_s, for_receivers_s] = self.by_end_s();
        match in_messages {
            false => {
                "Ranks have more work in turn, or others use their cores. mpisee-through ranks PROFILE shows \
                 whether ranks had cores. Fewer or nonblocking collectives let these delays even out."
            }
            true if for_receivers_s > for_senders_s => {
                "Let receivers post MPI_Irecv before other work. Or send with MPI_Isend and complete the \
                 send later. Either way, senders go on meanwhile."
            }
            true => {
                "Let receivers do other work between MPI_Irecv and MPI_Wait. Or let ranks send before work \
                 for which no other rank waits."
            }
        }
    }
}

/// The waiting that the named ranks caused, in seconds.
fn named_waiting_s<'s>(sentences: impl Iterator<Item = &'s Sentence>) -> f64 {
    sentences.map(|one| one.waiting_s * one.share.unwrap_or(0.0)).sum()
}

/// The first sentences.
fn first_texts(sentences: &[Sentence]) -> Vec<String> {
    let texts = sentences.iter().take(SENTENCES).map(|one| one.text.clone());
    let more = sentences.len().saturating_sub(SENTENCES);
    let others = || format!("mpisee-through waits PROFILE has {}.", count(more as u64, "more sentence"));
    texts.chain((more > 0).then(others)).collect()
}

/// Returns whether the time in the call is in that of messages: not if it probes for a message that
/// another call receives.
fn is_call_of_messages(call: &str) -> bool {
    let kind = Operation::from_name(call).map(Operation::kind);
    Class::from_call(call).is_some()
        || matches!(kind, Some(OperationKind::PointToPoint | OperationKind::Completion))
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
