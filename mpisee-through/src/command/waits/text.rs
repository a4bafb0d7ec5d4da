//! The sentences of `waits`: what stands out, and what is not known.

use crate::sheet::{self, Head, Sheet, Value};
use crate::units::{count, count_of, time};
use crate::waits::{Estimate, FEWEST, Finding, LeftOut, Report, Waiting};
use mpisee_profile::RankSet;

const FINDINGS: [Head; 7] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::fixed("finding", "FINDING"),
    sheet::fixed("ranks", "RANKS"),
    sheet::number("waiting_s", "Waiting"),
    sheet::number("caused_share", "% of waiting"),
    sheet::fixed("text", "TEXT"),
];

/// Something that stands out.
pub struct Sentence {
    comm: String,
    call: String,
    kind: &'static str,
    /// The ranks that are late, in the order in which they are named.
    ranks: Vec<u32>,
    waiting_s: f64,
    /// What they caused of the waiting.
    share: Option<f64>,
    text: String,
}

/// What stands out, most waiting first.
pub fn findings(report: &Report, takes: impl Fn(u32) -> bool) -> Vec<Sentence> {
    let mut all: Vec<Sentence> = Vec::new();
    for operation in &report.operations {
        let Some(waiting) = operation.waiting else { continue };
        all.extend(operation.findings.iter().map(|finding| sentence(report, operation, waiting, finding)));
    }
    all.retain(|one| one.ranks.is_empty() || one.ranks.iter().any(|&rank| takes(rank)));
    all.sort_by(|one, other| other.waiting_s.total_cmp(&one.waiting_s));
    all
}

fn sentence(report: &Report, operation: &Waiting, waiting: Estimate, finding: &Finding) -> Sentence {
    let Waiting { comm, call, instances, sampled, members, .. } = operation;
    let positions: Vec<usize> = match finding {
        Finding::Late(members) | Finding::Alternating(members) => members.clone(),
        Finding::LateRoot(member) => vec![*member],
        Finding::LateHost(host) => {
            let here = members.iter().enumerate().filter(|(_, member)| member.host == *host);
            here.map(|(position, _)| position).collect()
        }
        Finding::Growing(_) => Vec::new(),
    };
    let mut distinct = positions.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let caused = distinct.iter().filter_map(|&position| members[position].caused);
    let caused = caused.fold(Estimate::default(), Estimate::plus).clamped(0.0, waiting.total);
    let share = (!positions.is_empty()).then(|| caused.total / waiting.total);
    let ranks: Vec<u32> = positions.iter().map(|&position| members[position].rank).collect();
    let whole = time(waiting.total);
    let of = format!(
        "of {whole} of waiting in {call} on {comm} ({sampled} of {} sampled)",
        count(*instances, "call")
    );
    let part = match caused.high - caused.low > 1e-9 * waiting.total {
        true => format!(
            "{} % ({} to {} %)",
            per_cent(caused.total, waiting),
            per_cent(caused.low, waiting),
            per_cent(caused.high, waiting)
        ),
        false => format!("{} %", per_cent(caused.total, waiting)),
    };
    let (kind, text) = match finding {
        Finding::Late(late) if late.len() == 1 => {
            ("late rank", format!("Rank {} is late: it caused {part} {of}.", ranks[0]))
        }
        Finding::Late(_) => {
            ("late ranks", format!("Ranks {} are late: they caused {part} {of}.", named(&ranks)))
        }
        Finding::LateHost(host) => (
            "late node",
            format!(
                "Node {} (ranks {}) is late: its ranks caused {part} {of}.",
                report.hosts[*host],
                named(&ranks)
            ),
        ),
        Finding::LateRoot(_) => {
            ("late root", format!("The root, rank {}, is late: it caused {part} {of}.", ranks[0]))
        }
        Finding::Alternating(_) => (
            "alternating",
            format!("Ranks {} are last in turn, call by call: they caused {part} {of}.", cycle(&ranks)),
        ),
        Finding::Growing(factor) => (
            "growing",
            format!(
                "Waiting in {call} on {comm} grows: calls of the last third of the run wait {factor:.1} times as long as those of \
                 the first ({sampled} of {} sampled).",
                count(*instances, "call")
            ),
        ),
    };
    Sentence { comm: comm.clone(), call: call.clone(), kind, ranks, waiting_s: waiting.total, share, text }
}

fn per_cent(time_s: f64, of: Estimate) -> String {
    format!("{:.1}", 100.0 * (time_s / of.total).min(1.0))
}

fn named(ranks: &[u32]) -> String {
    ranks.iter().copied().collect::<RankSet>().to_string().replace(',', ", ")
}

/// The ranks in their turn.
fn cycle(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The findings for a table.
pub fn lead(findings: &[Sentence], limit: usize) -> String {
    if findings.is_empty() {
        return "No rank stands out: nobody causes much more of the waiting than others, by more than chance explains, where it \
                is 1 % of the wall time or more.\n"
            .to_owned();
    }
    let mut lines: Vec<String> = findings.iter().take(limit).map(|one| one.text.clone() + "\n").collect();
    let more = findings.len().saturating_sub(limit);
    if more > 0 {
        lines.push(format!("{} left out; --all shows all.\n", count(more as u64, "more finding")));
    }
    lines.concat()
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

/// What is not known, one sentence each.
pub fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> =
        report.left_out.iter().map(|(reason, operations)| left_out(*reason, operations)).collect();
    let small = report.operations.iter().filter(|operation| operation.waiting.is_none()).count();
    if small > 0 {
        notes.push(format!(
            "{} with fewer than {FEWEST} sampled calls of more: too few to tell who waits.",
            operations(small)
        ));
    }
    if report.partial > 0 {
        notes.push(format!(
            "{} left out, which not all members have.",
            count_of(report.partial, "sampled call is", "sampled calls are")
        ));
    }
    let most_s = report.uncertainty_s.iter().copied().fold(0.0, f64::max);
    if most_s > 0.0 {
        notes.push(format!(
            "Clocks of nodes are compared by the program's own calls and certain within {}; shorter waits across nodes count as \
             transfer.",
            time(most_s)
        ));
    }
    notes
}

fn operations(number: usize) -> String {
    count(number as u64, "operation")
}

fn left_out(reason: LeftOut, left_out: &[(String, String)]) -> String {
    let why = match reason {
        LeftOut::Neighbours => "ranks depend on neighbours, which the profile does not have",
        LeftOut::Intercommunicator => "it is between the two groups of an intercommunicator",
        LeftOut::Members => "the profile does not list the members of a single communicator",
        LeftOut::Order => {
            "ranks depend on those of lower rank, and their order in the communicator is unknown"
        }
        LeftOut::Clocks => {
            "no call in which all ranks wait for all joins the nodes, so that their clocks cannot be compared"
        }
        LeftOut::Partial => "no sampled call is there of all members",
        LeftOut::Calls => "calls.csv has no calls of some member",
    };
    let (comm, call) = &left_out[0];
    format!("{} left out, as {call} on {comm}: {why}.", operations(left_out.len()))
}
