//! Late ranks that waited for others themselves, in other operations: they may be late because of that, and the
//! cause is with those for whom they waited.

use super::{Report, Waiting};
use crate::units::time;
use mpisee_profile::RankSet;

/// A rank may be late because it waited elsewhere for this part of the time by which it is late, or longer.
const MAY_EXPLAIN: f64 = 0.5;

/// Late ranks that waited themselves.
pub struct Elsewhere {
    pub ranks: Vec<u32>,
    /// The communicator on which they waited longest, if that is known.
    pub comm: Option<String>,
    /// A sentence.
    pub text: String,
}

/// How long a rank waited outside of the operation in which it is late, in seconds.
struct Waited<'r> {
    for_others_s: f64,
    /// The operation with most of that, and how much.
    most: Option<(&'r Waiting, f64)>,
    /// In calls that test or probe, where for whom is not seen.
    in_polls_s: f64,
}

/// The late members of an operation, by position, that waited elsewhere; none if none did.
pub fn of(report: &Report, operation: &Waiting, late: &[usize]) -> Option<Elsewhere> {
    let may_be_explained = |&&position: &&usize| {
        let rank = operation.members[position].rank;
        let late_s = late_by_s(operation, position);
        let Waited { for_others_s, in_polls_s, .. } = waited(report, operation, rank);
        late_s > 0.0 && for_others_s + in_polls_s >= MAY_EXPLAIN * late_s
    };
    let ranks: Vec<u32> =
        late.iter().filter(may_be_explained).map(|&position| operation.members[position].rank).collect();
    let (text, comm) = sentence(report, operation, &ranks)?;
    Some(Elsewhere { ranks, comm, text })
}

/// By how much the member is late in all calls together, in seconds: the time that it caused, by the number of those who waited.
fn late_by_s(operation: &Waiting, position: usize) -> f64 {
    let others = operation.members.iter().enumerate().filter(|(other, _)| *other != position);
    let suffered = others.map(|(_, member)| member.suffered.map_or(0.0, |suffered| suffered.total));
    let (sum_s, squares) = suffered.fold((0.0, 0.0), |(sum, squares), one| (sum + one, squares + one * one));
    let caused_s = operation.members[position].caused.map_or(0.0, |caused| caused.total);
    // As many as would make up the sum if all waited alike.
    if sum_s > 0.0 { caused_s * squares / (sum_s * sum_s) } else { 0.0 }
}

fn waited<'r>(report: &'r Report, operation: &Waiting, rank: u32) -> Waited<'r> {
    // Of several communicators together, none of theirs is another one.
    let is_other =
        |one: &&Waiting| one.call != operation.call || operation.others == 0 && one.comm != operation.comm;
    let mut waited = Waited {
        for_others_s: 0.0,
        most: None,
        in_polls_s: report.polls_s.get(&rank).copied().unwrap_or(0.0),
    };
    for one in report.operations.iter().filter(is_other) {
        let member = one.members.iter().find(|member| member.rank == rank);
        let suffered_s = member.and_then(|member| member.suffered).map_or(0.0, |suffered| suffered.total);
        waited.for_others_s += suffered_s;
        if suffered_s > waited.most.map_or(0.0, |(_, most_s)| most_s) {
            waited.most = Some((one, suffered_s));
        }
    }
    waited
}

/// `Rank 2 itself waited 1.01 s for others, most of it in messages on W, and may be late because of
/// that.`, and the communicator.
fn sentence(report: &Report, operation: &Waiting, ranks: &[u32]) -> Option<(String, Option<String>)> {
    let each: Vec<Waited<'_>> = ranks.iter().map(|&rank| waited(report, operation, rank)).collect();
    let for_others_s: f64 = each.iter().map(|one| one.for_others_s).sum();
    let in_polls_s: f64 = each.iter().map(|one| one.in_polls_s).sum();
    let most =
        each.iter().filter_map(|one| one.most).max_by(|(_, one_s), (_, other_s)| one_s.total_cmp(other_s));
    let set: RankSet = ranks.iter().copied().collect();
    let who = set.to_string().replace(',', ", ");
    let (who, itself) = match ranks {
        [] => return None,
        [_] => (format!("Rank {who}"), "itself"),
        _ => (format!("Ranks {who}"), "themselves"),
    };
    Some(match most.filter(|_| for_others_s >= in_polls_s) {
        Some((one, _)) => {
            let text = format!(
                "{who} {itself} waited {} for others, most of it in {} on {}, and may be late because of that.",
                time(for_others_s),
                one.call,
                one.comm
            );
            (text, Some(one.comm.clone()))
        }
        None => {
            let text = format!(
                "{who} spent {} in calls that test or probe for messages, and may be late because of waiting there.",
                time(in_polls_s)
            );
            (text, None)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{operation, report};
    use super::*;

    /// Ranks 2 and 3 are late by 0.4 s, for which 0 and 1 wait.
    fn on_world() -> Waiting {
        operation("W", "MPI_Allreduce", &[(0, 0.0, 0.8), (1, 0.0, 0.8), (2, 0.8, 0.0), (3, 0.8, 0.0)])
    }

    #[test]
    fn who_waited_in_another_operation_may_be_late_because_of_that() {
        let pair = operation("W_s1.2", "MPI_Allreduce", &[(2, 0.0, 0.7), (3, 0.7, 0.1)]);
        let report = report(vec![on_world(), pair], &[]);
        let found = of(&report, &report.operations[0], &[2, 3]).unwrap();
        assert_eq!(found.ranks, [2]);
        let expected = "Rank 2 itself waited 700 ms for others, most of it in MPI_Allreduce on W_s1.2, and may be late because of \
                        that.";
        assert_eq!(found.text, expected);
    }

    #[test]
    fn waits_that_are_short_beside_the_lateness_do_not_explain_it() {
        let pair = operation("W_s1.2", "MPI_Allreduce", &[(2, 0.0, 0.19), (3, 0.19, 0.0)]);
        let report = report(vec![on_world(), pair], &[(3, 0.1)]);
        assert!(of(&report, &report.operations[0], &[2, 3]).is_none());
    }

    #[test]
    fn waits_may_be_in_calls_that_ask_for_messages() {
        let report = report(vec![on_world()], &[(2, 0.9), (3, 0.6)]);
        let found = of(&report, &report.operations[0], &[2, 3]).unwrap();
        let expected = "Ranks 2-3 spent 1.50 s in calls that test or probe for messages, and may be late because of waiting there.";
        assert_eq!((found.ranks, found.text.as_str()), (vec![2, 3], expected));
    }
}
