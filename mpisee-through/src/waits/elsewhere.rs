//! Late ranks that waited for others themselves, in other operations: they may be late because of
//! that, and the cause is with those for whom they waited.
//!
//! Some waits are measured. Of other calls the time alone is known: where a late rank spent more in
//! them than those that wait for it, it may have waited there.

use super::messages::Class;
use super::{Report, Waiting, is_poll, rank_list};
use crate::units::time;
use mpisee_profile::{Operation, OperationKind};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A rank may be late because it waited elsewhere for this part of the time by which it is late, or
/// longer.
const MAY_EXPLAIN: f64 = 0.5;
/// The part of the time in other calls from which on tests and probes are named for all.
const NEARLY_ALL: f64 = 0.95;

/// A communicator and an operation, by their numbers.
type Place = [u32; 2];

/// The time of ranks in MPI by communicator and operation, exact sums.
#[derive(Default)]
pub struct MpiTimes {
    pub comms: Vec<String>,
    pub calls: Vec<String>,
    /// By rank; in seconds.
    pub each_s: HashMap<u32, Vec<(Place, f64)>>,
    /// Tests and probes in which ranks ended, or between which they may have ended: nobody is late
    /// because of these.
    pub of_hang: HashSet<Place>,
}

/// The time of ranks in calls that test or probe for messages.
pub struct InPolls<'r> {
    /// In seconds.
    pub time_s: f64,
    /// The operation with most of it.
    pub call: &'r str,
    /// True if a hang may explain some of that operation's time.
    pub may_be_of_hang: bool,
}

impl MpiTimes {
    /// That of the ranks which `takes` takes; none if they made no such call.
    pub fn in_polls(&self, takes: impl Fn(u32) -> bool) -> Option<InPolls<'_>> {
        let mut by_call: BTreeMap<u32, f64> = BTreeMap::new();
        for ([_, call], time_s) in self.each_s.iter().filter(|(rank, _)| takes(**rank)).flat_map(|(_, it)| it)
        {
            *by_call.entry(*call).or_default() += time_s;
        }
        by_call.retain(|&call, _| Operation::from_name(&self.calls[call as usize]).is_some_and(is_poll));
        let (&most, _) = by_call.iter().max_by(|(_, one_s), (_, other_s)| one_s.total_cmp(other_s))?;
        Some(InPolls {
            time_s: by_call.values().sum(),
            call: &self.calls[most as usize],
            may_be_of_hang: self.of_hang.iter().any(|[_, call]| *call == most),
        })
    }
}

/// Late ranks that waited themselves, or may have.
pub struct Elsewhere {
    pub ranks: Vec<u32>,
    /// Their waits, as far as these are measured.
    pub waits: Option<MeasuredWaits>,
    /// A sentence on those who were longer in calls of which the time alone is known.
    pub longer: Option<String>,
}

/// Measured waits of late ranks in other operations.
pub struct MeasuredWaits {
    ranks: Vec<u32>,
    all_s: f64,
    /// The communicator and the operation in which they waited longest.
    pub comm: String,
    pub call: String,
}

impl MeasuredWaits {
    /// `Rank 2 itself waited 1.01 s for others, above all in messages on W, and may be late because
    /// of this wait.`
    pub fn sentence(&self) -> String {
        let itself = if self.ranks.len() == 1 { "itself" } else { "themselves" };
        let MeasuredWaits { ranks, all_s, comm, call } = self;
        format!(
            "{} {itself} waited {} for others, above all in {call} on {comm}, and may be late because of this wait.",
            subject(ranks),
            time(*all_s)
        )
    }

    /// A sentence on two waits, each of which may be the reason for the other.
    pub fn circle(&self, other: &MeasuredWaits) -> String {
        let wait = |MeasuredWaits { ranks, all_s, comm, call }: &MeasuredWaits| {
            let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
            format!("{noun} {} waited {}, above all in {call} on {comm}", rank_list(ranks), time(*all_s))
        };
        format!("These ranks may be late because of each other: {}; {}.", wait(self), wait(other))
    }
}

/// How long a rank waited for others outside of the operation in which it is late, as far as
/// measured.
struct Waited<'r> {
    all_s: f64,
    /// The operation with most of that, and how much.
    most: Option<(&'r Waiting, f64)>,
}

/// The late members of an operation, by position, that waited elsewhere or may have; none if none
/// did.
pub fn find(report: &Report, operation: &Waiting, late: &[usize]) -> Option<Elsewhere> {
    let more = MoreInMpi::new(report, operation);
    let (mut waited_there, mut longer) = (Vec::new(), Vec::new());
    for &position in late {
        let (rank, late_s) = (operation.members[position].rank, late_by_s(operation, position));
        let (waited_s, polls_s) = (waited(report, operation, rank).all_s, more.in_polls_s(rank));
        let more_s = more.all_s(rank);
        if late_s <= 0.0 || (waited_s + polls_s).max(more_s) < MAY_EXPLAIN * late_s {
            continue;
        }
        let is_measured = waited_s > 0.0 && waited_s >= polls_s.max(MAY_EXPLAIN * more_s);
        if is_measured { &mut waited_there } else { &mut longer }.push(rank);
    }
    let (waits, sentence) = (measured_waits(report, operation, &waited_there), more.sentence(&longer));
    let ranks = [waited_there, longer].concat();
    (!ranks.is_empty()).then_some(Elsewhere { ranks, waits, longer: sentence })
}

/// By how much the member is late in all calls together, in seconds: the time that it caused, by
/// the number of those who waited.
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
    let mut waited = Waited { all_s: 0.0, most: None };
    for one in report.operations.iter().filter(is_other) {
        let member = one.members.iter().find(|member| member.rank == rank);
        let suffered_s = member.and_then(|member| member.suffered).map_or(0.0, |suffered| suffered.total);
        waited.all_s += suffered_s;
        if suffered_s > waited.most.map_or(0.0, |(_, most_s)| most_s) {
            waited.most = Some((one, suffered_s));
        }
    }
    waited
}

fn measured_waits(report: &Report, operation: &Waiting, ranks: &[u32]) -> Option<MeasuredWaits> {
    let each: Vec<Waited<'_>> = ranks.iter().map(|&rank| waited(report, operation, rank)).collect();
    let most = each.iter().filter_map(|one| one.most);
    let (one, _) = most.max_by(|(_, one_s), (_, other_s)| one_s.total_cmp(other_s))?;
    Some(MeasuredWaits {
        ranks: ranks.to_vec(),
        all_s: each.iter().map(|one| one.all_s).sum(),
        comm: one.comm.clone(),
        call: one.call.clone(),
    })
}

/// The time of members in other calls of MPI beside that of those who wait in the operation.
struct MoreInMpi<'r> {
    times: &'r MpiTimes,
    /// By the number of an operation: true if, on the communicator, it is the operation's own.
    own_calls: Vec<bool>,
    /// The same for calls that test or probe for messages.
    polls: Vec<bool>,
    /// By the number of a communicator: true if its waits are in the operation.
    own_comms: Vec<bool>,
    /// The mean of those who wait, each by how long it does, in seconds.
    of_waiting_s: BTreeMap<Place, f64>,
}

impl<'r> MoreInMpi<'r> {
    fn new(report: &'r Report, operation: &Waiting) -> Self {
        let times = &report.mpi;
        let is_own_comm = |comm: &String| operation.others > 0 || *comm == operation.comm;
        let mut more = MoreInMpi {
            times,
            own_calls: times.calls.iter().map(|call| is_own(operation, call)).collect(),
            polls: times.calls.iter().map(|call| Operation::from_name(call).is_some_and(is_poll)).collect(),
            own_comms: times.comms.iter().map(is_own_comm).collect(),
            of_waiting_s: BTreeMap::new(),
        };
        let suffered = operation.members.iter().filter_map(|one| Some((one.rank, one.suffered?.total)));
        let all_s: f64 = suffered.clone().map(|(_, suffered_s)| suffered_s).sum();
        let mut means_s: BTreeMap<Place, f64> = BTreeMap::new();
        for (rank, suffered_s) in suffered.filter(|_| all_s > 0.0) {
            for (place, time_s) in more.places(rank) {
                *means_s.entry(place).or_default() += time_s * suffered_s / all_s;
            }
        }
        more.of_waiting_s = means_s;
        more
    }

    /// The time of a rank by places that are none of the operation's own, and no hang may explain.
    fn places(&self, rank: u32) -> impl Iterator<Item = (Place, f64)> + '_ {
        let all = self.times.each_s.get(&rank).into_iter().flatten().copied();
        let all = all.filter(|(place, _)| !self.times.of_hang.contains(place));
        all.filter(|&([comm, call], _)| !(self.own_calls[call as usize] && self.own_comms[comm as usize]))
    }

    fn is_poll_at(&self, [_, call]: Place) -> bool {
        self.polls[call as usize]
    }

    /// How much longer a rank was at places that are chosen, in seconds; negative where it was
    /// there less.
    fn more_s(&self, rank: u32, takes: impl Fn(Place) -> bool) -> f64 {
        let own_s: f64 = self.places(rank).filter(|(place, _)| takes(*place)).map(|(_, s)| s).sum();
        let mean_s = self.of_waiting_s.iter().filter(|(place, _)| takes(**place)).map(|(_, s)| s);
        own_s - mean_s.sum::<f64>()
    }

    /// How much longer a rank was in calls that test or probe for messages, in seconds.
    fn in_polls_s(&self, rank: u32) -> f64 {
        self.more_s(rank, |place| self.is_poll_at(place)).max(0.0)
    }

    fn all_s(&self, rank: u32) -> f64 {
        self.more_s(rank, |_| true)
    }

    /// `Rank 2 was 1.50 s longer in other MPI calls than the ranks that wait for it, above all in
    /// MPI_Barrier on W_i1. Waiting in these calls may be the reason for the delay.` Tests and
    /// probes alone are named where they are nearly all, or the ranks were less long in the rest.
    fn sentence(&self, ranks: &[u32]) -> Option<String> {
        let sum = |of: &dyn Fn(u32) -> f64| ranks.iter().map(|&rank| of(rank)).sum::<f64>();
        let [all_s, polls_s] = [sum(&|rank| self.all_s(rank)), sum(&|rank| self.in_polls_s(rank))];
        let of_polls = polls_s >= NEARLY_ALL * all_s;
        let mut more_s: BTreeMap<Place, f64> = BTreeMap::new();
        for (place, time_s) in ranks.iter().flat_map(|&rank| self.places(rank)) {
            *more_s.entry(place).or_default() += time_s;
        }
        more_s.retain(|place, _| !of_polls || self.is_poll_at(*place));
        let mean_s = |place: &Place| self.of_waiting_s.get(place).copied().unwrap_or(0.0);
        let count = ranks.len() as f64;
        let most = more_s.iter().map(|(place, time_s)| (place, time_s - count * mean_s(place)));
        let ([comm, call], _) = most.max_by(|(_, one_s), (_, other_s)| one_s.total_cmp(other_s))?;
        let (was, it) = if ranks.len() == 1 { ("was", "it") } else { ("were each", "them") };
        Some(format!(
            "{} {was} {} longer in {} than the ranks that wait for {it}, above all in {} on {}. \
             Waiting in these calls may be the reason for the delay.",
            subject(ranks),
            time(if of_polls { polls_s } else { all_s } / count),
            if of_polls { "tests and probes" } else { "other MPI calls" },
            self.times.calls[*call as usize],
            self.times.comms[*comm as usize]
        ))
    }
}

/// Returns whether calls of that name, on its communicators, are those of the operation.
fn is_own(operation: &Waiting, call: &str) -> bool {
    let kind = Operation::from_name(call).filter(|one| !is_poll(*one)).map(Operation::kind);
    let completes = Class::from_call(call).is_some() || kind == Some(OperationKind::Completion);
    match operation.is_of_messages() {
        true => completes || kind == Some(OperationKind::PointToPoint),
        false => call == operation.call || operation.is_nonblocking && completes,
    }
}

/// `Rank 2`, `Ranks 2-3, 7`.
fn subject(ranks: &[u32]) -> String {
    let noun = if ranks.len() == 1 { "Rank" } else { "Ranks" };
    format!("{noun} {}", rank_list(ranks))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{operation, report};
    use super::super::messages::MESSAGES;
    use super::*;

    /// Ranks 2 and 3 are late by 0.4 s, for which 0 and 1 wait.
    fn on_world() -> Waiting {
        operation("W", "MPI_Allreduce", &[(0, 0.0, 0.8), (1, 0.0, 0.8), (2, 0.8, 0.0), (3, 0.8, 0.0)])
    }

    #[test]
    fn who_waited_in_another_operation_may_be_late_because_of_that() {
        let pair = operation("W_s1.2", "MPI_Allreduce", &[(2, 0.0, 0.7), (3, 0.7, 0.1)]);
        let report = report(vec![on_world(), pair], &[]);
        let found = find(&report, &report.operations[0], &[2, 3]).unwrap();
        assert_eq!(found.ranks, [2]);
        let expected = "Rank 2 itself waited 700 ms for others, above all in MPI_Allreduce on W_s1.2, and \
                        may be late because of this wait.";
        assert_eq!(found.waits.unwrap().sentence(), expected);
    }

    #[test]
    fn waits_that_are_short_beside_the_lateness_do_not_explain_it() {
        let pair = operation("W_s1.2", "MPI_Allreduce", &[(2, 0.0, 0.19), (3, 0.19, 0.0)]);
        let report = report(vec![on_world(), pair], &[(3, "W", "MPI_Iprobe", 0.1)]);
        assert!(find(&report, &report.operations[0], &[2, 3]).is_none());
    }

    #[test]
    fn waits_may_be_in_calls_of_which_the_time_alone_is_known() {
        let times = [
            (0, "W", "MPI_Allgather", 2.0),
            (1, "W", "MPI_Allgather", 2.0),
            (2, "W", "MPI_Allgather", 2.0),
            (2, "W", "MPI_Iprobe", 0.9),
            // Its own calls of the operation, and no more elsewhere than those that wait.
            (3, "W", "MPI_Allreduce", 3.0),
            (3, "W", "MPI_Allgather", 2.1),
        ];
        let report = report(vec![on_world()], &times);
        let found = find(&report, &report.operations[0], &[2, 3]).unwrap();
        let expected = "Rank 2 was 900 ms longer in tests and probes than the ranks that wait for it, above \
                        all in MPI_Iprobe on W. Waiting in these calls may be the reason for the delay.";
        assert_eq!((found.ranks, found.longer.as_deref()), (vec![2], Some(expected)));
    }

    #[test]
    fn polls_are_named_alone_where_the_rank_was_less_long_in_other_calls() {
        let times = [
            (0, "W", "MPI_Allgather", 2.0),
            (1, "W", "MPI_Allgather", 2.0),
            (2, "W", "MPI_Allgather", 0.5),
            (2, "W", "MPI_Bcast", 0.1),
            (2, "W", "MPI_Iprobe", 0.9),
        ];
        let report = report(vec![on_world()], &times);
        let found = find(&report, &report.operations[0], &[2, 3]).unwrap();
        let expected = "Rank 2 was 900 ms longer in tests and probes than the ranks that wait for it, above \
                        all in MPI_Iprobe on W. Waiting in these calls may be the reason for the delay.";
        assert_eq!((found.ranks, found.longer.as_deref()), (vec![2], Some(expected)));
    }

    #[test]
    fn calls_about_messages_on_the_communicator_are_their_own() {
        let messages = operation("W", MESSAGES, &[(0, 0.0, 0.8), (1, 0.0, 0.8), (2, 1.6, 0.0)]);
        let own = report(vec![messages.clone()], &[(2, "W", "MPI_Waitall", 0.9), (2, "W", "MPI_Send", 0.5)]);
        assert!(find(&own, &own.operations[0], &[2]).is_none());
        for place in [("W_d1", "MPI_Waitall"), ("W", "MPI_Test"), ("W", "MPI_Bcast")] {
            let other = report(vec![messages.clone()], &[(2, place.0, place.1, 0.9)]);
            let found = find(&other, &other.operations[0], &[2]).unwrap();
            let said = found.longer.unwrap();
            assert!(said.contains(&format!("{} on {}", place.1, place.0)), "{said}");
        }
    }
}
