//! Findings in the waits, as sentences.

use super::elsewhere::MeasuredWaits;
use super::messages::LateEnd;
use super::{Estimate, Finding, Report, Waiting, elsewhere, rank_list};
use crate::sheet::LARGE_SHARE;
use crate::units::{count, large_count, time};

/// Something that stands out.
pub struct Sentence {
    pub comm: String,
    pub call: String,
    /// In a word or two.
    pub kind: &'static str,
    /// The ranks that are late, in the order in which they are named.
    pub ranks: Vec<u32>,
    /// The ranks in words: `rank 3`, `ranks 1-2`, `node n7`, `ranks 1, 2 in turn`; empty without
    /// ranks.
    pub whom: String,
    /// The ranks among them that waited for others elsewhere, so that they may be late because of
    /// that.
    pub waited: Vec<u32>,
    /// The waits of these, as far as they are measured.
    pub waits: Option<MeasuredWaits>,
    /// A sentence on longer calls of which the time alone is known, until it is in the text.
    longer: Option<String>,
    /// True if these and the ranks of another sentence may be late because of each other.
    pub is_circle: bool,
    /// All waiting in the operation on the communicator, in seconds.
    pub waiting_s: f64,
    /// The part of the waiting that they caused.
    pub share: Option<f64>,
    pub text: String,
}

/// Why a rank that caused most of the waiting does not stand out.
pub struct Doubt {
    /// The reason, as a sentence about the operation in which the rank caused most.
    pub sentence: String,
    /// True if the estimate is uncertain, which more sampled calls could change.
    pub is_of_estimate: bool,
}

impl Doubt {
    /// The reason for a rank that caused something in one of these operations.
    pub fn about<'w>(rank: u32, operations: impl Iterator<Item = &'w Waiting>) -> Option<Doubt> {
        let part = |operation: &'w Waiting| {
            let member = operation.members.iter().find(|member| member.rank == rank)?;
            Some((operation, member.caused?, operation.waiting?))
        };
        let (operation, caused, waiting) = operations
            .filter_map(part)
            .max_by(|(_, one, _), (_, other, _)| one.total.total_cmp(&other.total))?;
        let name = if operation.is_of_messages() { "messages" } else { &operation.call };
        let place = format!("in {name} on {}", operation.comm);
        let [low, high] = [caused.low, caused.high].map(|end| 100.0 * (end / waiting.total).clamp(0.0, 1.0));
        let is_of_estimate = !operation.is_small && low < 50.0;
        let sentence = match is_of_estimate {
            true => format!("The part of rank {rank} {place} is uncertain: {low:.0} to {high:.0} %."),
            false if operation.is_small => {
                format!("All waiting {place} takes less than 1 % of the wall time.")
            }
            false => format!("A few long waits {place} make up most of the waiting for rank {rank}."),
        };
        Some(Doubt { sentence, is_of_estimate })
    }
}

/// The findings, most waiting first. Ranks that cause a small part of the waiting together are
/// none, however certain that is: among many ranks, a part far above an even one may be small.
pub fn sentences(report: &Report, takes: impl Fn(u32) -> bool) -> Vec<Sentence> {
    let mut all: Vec<Sentence> = Vec::new();
    for operation in report.operations.iter().chain(&report.together) {
        let Some(waiting) = operation.waiting else { continue };
        all.extend(operation.findings.iter().map(|finding| sentence(report, operation, waiting, finding)));
    }
    all.retain(|one| one.share.is_none_or(|share| share >= LARGE_SHARE));
    all.retain(|one| one.ranks.is_empty() || one.ranks.iter().any(|&rank| takes(rank)));
    all.sort_by(|one, other| other.waiting_s.total_cmp(&one.waiting_s));
    add_waits(&mut all);
    all
}

/// Adds to each text where its late ranks waited themselves. Two that may be late because of each
/// other are said once.
fn add_waits(all: &mut [Sentence]) {
    let is_where = |one: &Sentence, other: &Sentence| {
        let waits = one.waits.as_ref();
        waits.is_some_and(|waits| (&waits.comm, &waits.call) == (&other.comm, &other.call))
    };
    let is_mutual = |one: usize, other: usize| {
        let (one, other) = (&all[one], &all[other]);
        is_where(one, other) && is_where(other, one) && one.ranks != other.ranks
    };
    let partners: Vec<Option<usize>> =
        (0..all.len()).map(|at| (0..all.len()).find(|&other| is_mutual(at, other))).collect();
    for (at, &partner) in partners.iter().enumerate() {
        let waits = all[at].waits.as_ref();
        // Of several that name the same other one, the first is in a circle with it.
        let partner = partner.filter(|&other| partners[other] == Some(at));
        let said = match partner {
            None => waits.map(MeasuredWaits::sentence),
            Some(other) if at < other => waits.zip(all[other].waits.as_ref()).map(|(one, it)| one.circle(it)),
            Some(_) => None,
        };
        let one = &mut all[at];
        one.is_circle = partner.is_some();
        one.text.extend(said.into_iter().chain(one.longer.take()).map(|sentence| format!(" {sentence}")));
    }
}

fn sentence(report: &Report, operation: &Waiting, waiting: Estimate, finding: &Finding) -> Sentence {
    let members = &operation.members;
    let positions = positions_of(finding, operation);
    let mut distinct = positions.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let caused = distinct.iter().filter_map(|&position| members[position].caused);
    // All together caused all of it.
    let caused = match distinct.len() == members.len() {
        true => Estimate::exact(waiting.total),
        false => caused.fold(Estimate::default(), Estimate::plus).clamped(0.0, waiting.total),
    };
    let share = (!positions.is_empty()).then(|| caused.total / waiting.total);
    let ranks: Vec<u32> = positions.iter().map(|&position| members[position].rank).collect();
    let caused = format!("{} {}", part_of(caused, waiting), of_waiting(operation, waiting));
    let (kind, text) = kind_and_text(report, operation, finding, &ranks, &caused);
    let elsewhere = elsewhere::find(report, operation, &distinct);
    let (waited, waits, longer) =
        elsewhere.map_or_else(Default::default, |found| (found.ranks, found.waits, found.longer));
    Sentence {
        comm: operation.comm.clone(),
        call: operation.call.clone(),
        kind,
        whom: whom(report, finding, &ranks),
        ranks,
        waited,
        waits,
        longer,
        is_circle: false,
        waiting_s: waiting.total,
        share,
        text,
    }
}

/// The positions of the late members, in the order in which they are named.
fn positions_of(finding: &Finding, operation: &Waiting) -> Vec<usize> {
    match finding {
        Finding::Late(members) | Finding::Alternating(members) | Finding::LateEnd(_, members) => {
            members.clone()
        }
        Finding::LateRoot(member) => vec![*member],
        Finding::LateHost(host) => {
            let here = operation.members.iter().enumerate().filter(|(_, member)| member.host == *host);
            here.map(|(position, _)| position).collect()
        }
        Finding::Growing(_) => Vec::new(),
    }
}

/// The part of the waiting that somebody caused, with its interval if there is one.
fn part_of(caused: Estimate, waiting: Estimate) -> String {
    match caused.high - caused.low > 1e-9 * waiting.total {
        true => format!(
            "{} % ({} to {} %)",
            per_cent(caused.total, waiting),
            per_cent(caused.low, waiting),
            per_cent(caused.high, waiting)
        ),
        false => format!("{} %", per_cent(caused.total, waiting)),
    }
}

/// All waiting in the operation, and how much of it was sampled.
fn of_waiting(operation: &Waiting, waiting: Estimate) -> String {
    let Waiting { comm, call, others, instances, sampled, .. } = operation;
    let place = match others {
        0 => comm.clone(),
        _ => format!("{comm} and {} of the same ranks", count(*others, "other communicator")),
    };
    format!(
        "of {} of waiting in {call} on {place} ({} of {} sampled)",
        time(waiting.total),
        large_count(*sampled),
        count(*instances, if operation.is_of_messages() { "message" } else { "call" })
    )
}

/// The kind of a finding in a word or two, and its sentence; `caused` is what these ranks caused of
/// what.
fn kind_and_text(
    report: &Report,
    operation: &Waiting,
    finding: &Finding,
    ranks: &[u32],
    caused: &str,
) -> (&'static str, String) {
    let Waiting { comm, call, instances, sampled, members, .. } = operation;
    match finding {
        Finding::Late(late) if late.len() == 1 => {
            ("late rank", format!("Rank {} is late: it caused {caused}.", ranks[0]))
        }
        Finding::Late(_) => {
            ("late ranks", format!("Ranks {} are late: they caused {caused}.", rank_list(ranks)))
        }
        Finding::LateHost(host) => (
            "late node",
            format!(
                "Node {} (ranks {}) is late: its ranks caused {caused}.",
                report.hosts[*host],
                rank_list(ranks)
            ),
        ),
        Finding::LateRoot(_) => {
            ("late root", format!("The root, rank {}, is late: it caused {caused}.", ranks[0]))
        }
        Finding::LateEnd(end, _) => late_end(*end, ranks, caused, members.len()),
        Finding::Alternating(_) => (
            "alternating",
            format!("Ranks {} are last in turn, call by call: they caused {caused}.", cycle(ranks)),
        ),
        Finding::Growing(factor) => (
            "growing",
            format!(
                "Waiting in {call} on {comm} grows: calls wait {factor:.1} times as long in the last third \
                 of the run as in the first ({sampled} of {} sampled).",
                count(*instances, "call")
            ),
        ),
    }
}

/// The late ranks in words.
fn whom(report: &Report, finding: &Finding, ranks: &[u32]) -> String {
    match (finding, ranks) {
        (Finding::LateHost(host), _) => format!("node {}", report.hosts[*host]),
        (Finding::Alternating(_), _) => format!("ranks {} in turn", cycle(ranks)),
        (_, []) => String::new(),
        (_, [rank]) => format!("rank {rank}"),
        _ => format!("ranks {}", rank_list(ranks)),
    }
}

/// The kind and the text of a finding in messages.
fn late_end(end: LateEnd, ranks: &[u32], caused: &str, members: usize) -> (&'static str, String) {
    let named = rank_list(ranks);
    match (end, ranks.len()) {
        (LateEnd::Sender, 1) => ("late sender", format!("Rank {named} sends late: it caused {caused}.")),
        (LateEnd::Sender, _) => ("late senders", format!("Ranks {named} send late: they caused {caused}.")),
        (LateEnd::Receiver, 1) => {
            ("late receiver", format!("Rank {named} receives late: it caused {caused}."))
        }
        (LateEnd::Receiver, _) => {
            ("late receivers", format!("Ranks {named} receive late: they caused {caused}."))
        }
        (LateEnd::Both, 1) => {
            ("late partner", format!("Rank {named} sends and receives late: it caused {caused}."))
        }
        (LateEnd::Both, _) => {
            ("late partners", format!("Ranks {named} send and receive late: they caused {caused}."))
        }
        (LateEnd::HotReceiver, 1) => (
            "hot receiver",
            format!("Most of {members} ranks wait for rank {named} to receive: it caused {caused}."),
        ),
        (LateEnd::HotReceiver, _) => (
            "hot receivers",
            format!("Most of {members} ranks wait for ranks {named} to receive: they caused {caused}."),
        ),
    }
}

fn per_cent(time_s: f64, of: Estimate) -> String {
    format!("{:.1}", 100.0 * (time_s / of.total).min(1.0))
}

/// The ranks in their turn.
pub fn cycle(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::Estimate;
    use crate::waits::fixtures::{operation, report};

    /// The sentences where one of 100 ranks is found to have caused this part of the waiting.
    fn number_of_sentences(share: f64) -> usize {
        let caused_s = |rank: u32| if rank == 7 { share } else { (1.0 - share) / 99.0 };
        let members: Vec<(u32, f64, f64)> = (0..100).map(|rank| (rank, caused_s(rank), 0.01)).collect();
        let operation = Waiting {
            time_s: 100.0,
            waiting: Some(Estimate::exact(1.0)),
            findings: vec![Finding::Late(vec![7])],
            ..operation("W", "MPI_Allreduce", &members)
        };
        sentences(&report(vec![operation], &[]), |_| true).len()
    }

    #[test]
    fn a_doubt_has_one_reason() {
        let doubt = |is_small: bool, low: f64| {
            let mut operation = operation("W", "MPI_Bcast", &[(0, 0.1, 0.9), (1, 0.9, 0.1)]);
            (operation.waiting, operation.is_small) = (Some(Estimate::exact(1.0)), is_small);
            operation.members[1].caused = Some(Estimate { low, high: 0.95, ..Estimate::exact(0.9) });
            Doubt::about(1, [operation].iter()).unwrap().sentence
        };
        assert_eq!(doubt(true, 0.2), "All waiting in MPI_Bcast on W takes less than 1 % of the wall time.");
        assert_eq!(doubt(false, 0.2), "The part of rank 1 in MPI_Bcast on W is uncertain: 20 to 95 %.");
        assert_eq!(
            doubt(false, 0.8),
            "A few long waits in MPI_Bcast on W make up most of the waiting for rank 1."
        );
    }

    #[test]
    fn a_rank_with_a_small_part_of_the_waiting_is_not_named() {
        assert_eq!(number_of_sentences(0.03), 0, "three times an even share, and little");
        assert_eq!(number_of_sentences(0.25), 1);
    }
}
