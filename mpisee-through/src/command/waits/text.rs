//! The sentences of `waits`: what stands out, and what is not known.

use crate::filter::CommFilter;
use crate::next_step;
use crate::sheet::{self, Head, LARGE_SHARE, Sheet, Value};
use crate::units::{count, count_of, large_count, time};
use crate::view::ProfileView;
use crate::waits::sentence::{Doubt, Sentence, cycle};
use crate::waits::{FEWEST, InPolls, LeftOut, Report, Waiting, WithoutTimes, largest};
use mpisee_profile::RankSet;
use mpisee_profile::segment::streams::MOST_STREAMS;
use std::collections::BTreeSet;

const FINDINGS: [Head; 7] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::fixed("finding", "FINDING"),
    sheet::fixed("ranks", "RANKS"),
    sheet::number("waiting_s", "Waiting"),
    sheet::number("caused_share", "% of waiting"),
    sheet::fixed("text", "TEXT"),
];

/// Above this part of the waiting by one rank, the reader asks why it does not stand out.
const HALF: f64 = 0.505;

/// The findings for a table; `is_part` says that some are left out, which are about other ranks.
pub fn lead(report: &Report, findings: &[Sentence], is_part: bool, limit: usize) -> String {
    if findings.is_empty() && is_part {
        return "None of the chosen ranks stands out, but other ranks do.\n".to_owned();
    }
    if findings.is_empty() {
        return nobody(report);
    }
    let share = named_share(report, findings);
    let mut lines = Vec::new();
    if share < LARGE_SHARE {
        lines.push(format!(
            "Most of the waiting has no single cause: the ranks below caused {:.1} % of all waiting.\n",
            100.0 * share
        ));
    }
    lines.extend(findings.iter().take(limit).map(|one| one.text.clone() + "\n"));
    let more = findings.len().saturating_sub(limit);
    if more > 0 {
        lines.push(format!("{} left out; --all shows all.\n", count(more as u64, "more finding")));
    }
    lines.concat()
}

/// Why no rank stands out.
fn nobody(report: &Report) -> String {
    let known = || report.operations.iter().filter(|one| one.waiting.is_some());
    let Some((rank, part)) = largest(known(), |member| member.caused) else {
        return "No rank stands out: no waiting is known.\n".to_owned();
    };
    let ranks: BTreeSet<u32> = known().flat_map(|one| &one.members).map(|member| member.rank).collect();
    let even = 1.0 / ranks.len() as f64;
    let [percent, even_percent] = [part, even].map(|share| format!("{:.1} %", 100.0 * share));
    match part {
        _ if part > HALF => {
            let doubt = Doubt::about(rank, report.operations.iter());
            let why = doubt.map_or_else(String::new, |doubt| doubt.sentence);
            format!("No rank stands out for certain. Rank {rank} caused {percent} of the waiting. {why}\n")
        }
        _ if known().all(|one| one.is_small) => {
            "No rank stands out: all waiting in each operation takes less than 1 % of the wall time.\n"
                .to_owned()
        }
        _ if part <= 2.0 * even => format!(
            "No rank stands out: rank {rank} caused the most, {percent} of the waiting. An even share is \
             {even_percent}.\n"
        ),
        _ => format!(
            "No rank stands out: rank {rank} caused the most, {percent} of the waiting. The samples leave \
             open whether this is chance, or waiting that the rank passes on.\n"
        ),
    }
}

/// The part of the MPI time in tests and probes from which on these are named.
const MUCH_POLLING: f64 = 0.2;

/// A line on the time in tests and probes, if it is much of the MPI time: samples do not show for
/// whom ranks wait there.
pub fn polling(report: &Report, view: &ProfileView, comms: &CommFilter) -> Option<String> {
    let InPolls { time_s, call, may_be_of_hang } = report.in_polls(|rank| comms.takes_rank(rank))?;
    let share = time_s / view.processes().chosen_mpi_s(comms).max(f64::MIN_POSITIVE);
    let why = match may_be_of_hang {
        true => "Ranks ended in or between such calls, so a hang may explain the time.",
        false => "Samples do not show for whom ranks wait there.",
    };
    (share >= MUCH_POLLING).then(|| {
        format!(
            "{:.1} % of the MPI time is in tests and probes, above all {call}. {why} mpisee-through sites {} \
             --call {call} shows where ranks poll.\n",
            100.0 * share,
            next_step::shell_name(view.profile())
        )
    })
}

/// The part of all waiting that these findings are about, as far as they name ranks.
fn named_share(report: &Report, findings: &[Sentence]) -> f64 {
    let all_s: f64 =
        report.operations.iter().filter_map(|one| one.waiting).map(|waiting| waiting.total).sum();
    // Several findings on one operation are about parts of it.
    let named_s: f64 = findings.iter().map(|one| one.share.unwrap_or(1.0) * one.waiting_s).sum();
    if all_s > 0.0 { (named_s / all_s).min(1.0) } else { 1.0 }
}

/// The findings for programs.
pub fn sheet(findings: Vec<Sentence>) -> Sheet {
    let row = |one: Sentence| {
        vec![
            Value::Text(one.comm),
            Value::Text(one.call),
            one.kind.into(),
            Value::Text(cycle(&one.ranks)),
            Value::Seconds(one.waiting_s),
            one.share.map_or(Value::Nothing, Value::Share),
            Value::Text(one.text),
        ]
    };
    Sheet { name: "findings", heads: FINDINGS.to_vec(), rows: findings.into_iter().map(row).collect() }
}

/// The gaps in what is known, one sentence each.
pub fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> =
        report.left_out.iter().map(|(reason, operations)| left_out(*reason, operations)).collect();
    let small = report.operations.iter().filter(|operation| operation.waiting.is_none());
    let (messages, calls): (Vec<&Waiting>, Vec<&Waiting>) =
        small.partition(|operation| operation.is_of_messages());
    if !calls.is_empty() {
        notes.push(format!(
            "{} too few samples to show who waits (under {FEWEST}).",
            count_of(calls.len() as u64, "operation has", "operations have")
        ));
    }
    if !messages.is_empty() {
        notes.push(format!(
            "Messages on {} have too few samples to show who waits (under {FEWEST}).",
            count(messages.len() as u64, "communicator")
        ));
    }
    if report.partial > 0 {
        notes.push(format!(
            "{} left out: not all members have the sample.",
            count_of(report.partial, "sampled call is", "sampled calls are")
        ));
    }
    let away = report.operations.iter().filter(|operation| operation.may_lack_progress);
    let away: Vec<(String, String)> = away.map(|one| (one.comm.clone(), one.call.clone())).collect();
    if let [(comm, call), ..] = &away[..] {
        notes.push(format!(
            "No rank is named for {} ({}{call} on {comm}). What all ranks had started was complete only \
             after a rank came back to MPI. The late return to MPI, or the transfer itself, may explain the \
             waiting.",
            operations(away.len()),
            such_as(away.len())
        ));
    }
    notes.extend(without_times(report));
    let most_s = report.uncertainty_s.iter().copied().fold(0.0, f64::max);
    if most_s > 0.0 {
        notes.push(format!(
            "Clocks of nodes are certain within {}, by the program's own calls. Shorter waits across nodes \
             count as transfer.",
            time(most_s)
        ));
    }
    notes
}

/// The notes on messages without times.
pub fn without_times(report: &Report) -> impl Iterator<Item = String> {
    report.without_times.iter().map(|(reason, (left_out, ranks))| {
        let messages = count(report.messages.max(*left_out), "message");
        let whose = most_ranks(ranks);
        let why = match reason {
            WithoutTimes::Full => format!(
                "were not sampled, because {whose} already had {MOST_STREAMS} streams, the most that are \
                 kept. A stream is the messages with one tag to or from one rank"
            ),
            WithoutTimes::Unordered => format!(
                "are left out, because their order at {whose} is unknown. The order gets lost after \
                 nonblocking receives from any source or with any tag, after cancelled or truncated \
                 receives, and with several threads. Receives that name source and tag avoid this"
            ),
            WithoutTimes::Unequal => {
                format!("are left out, because their two ends differ; {whose} sent them")
            }
        };
        format!("{} of {messages} {why}.", large_count(*left_out))
    })
}

/// The ranks in words, cut where they are many.
fn most_ranks(ranks: &BTreeSet<u32>) -> String {
    const MOST_CHARACTERS: usize = 60;
    let set: RankSet = ranks.iter().copied().collect();
    let text = set.to_string().replace(',', ", ");
    match (ranks.len(), text.len() > MOST_CHARACTERS) {
        (1, _) => format!("rank {text}"),
        (_, false) => format!("ranks {text}"),
        (number, true) => count(number as u64, "rank"),
    }
}

fn operations(number: usize) -> String {
    count(number as u64, "operation")
}

/// The words before the first of several operations.
fn such_as(number: usize) -> &'static str {
    if number == 1 { "" } else { "such as " }
}

fn left_out(reason: LeftOut, left_out: &[(String, String)]) -> String {
    let why = match reason {
        LeftOut::Neighbours => "ranks depend on neighbours, and the profile does not have the neighbours",
        LeftOut::Intercommunicator => "the operation is between the two groups of an intercommunicator",
        LeftOut::Members => "the profile does not list the members of a single communicator",
        LeftOut::Order => {
            "ranks depend on those of lower rank, and their order in the communicator is unknown"
        }
        LeftOut::Clocks => {
            "clocks of the nodes cannot be compared without calls in which all ranks wait for all, or \
             messages in both directions"
        }
        LeftOut::Partial => {
            "no sampled call has all members; for example, counts of zero leave open who waits for whom"
        }
        LeftOut::Calls => "calls.csv has no calls of some member",
        LeftOut::Off => {
            "recording was switched off for part of the run, and call numbers count unrecorded calls"
        }
        LeftOut::Requests => {
            "several persistent requests were started in unlike numbers, and the sample does not have all \
             starts (--instances all keeps all starts)"
        }
    };
    let (comm, call) = &left_out[0];
    let such = such_as(left_out.len());
    format!("{} left out ({such}{call} on {comm}): {why}.", operations(left_out.len()))
}
