//! Who is in a collective call, and who is missing from it.
//!
//! All members of a communicator make the same collective calls on it in the same order (MPI 4.1,
//! 6.1), so that the k-th of an operation is the same call on each. A member that has completed
//! more than k-1 of them has left it, as a root may; one that has not is yet to come.

use super::groups::{RankGroup, groups};
use super::job::{Job, Rank};
use crate::units::count;
use mpisee_collect::segments::{CurrentCall, is_collective, short_seconds};
use mpisee_profile::segment::active_call::CurrentFunction;
use mpisee_profile::{RankSet, WorldRank};
use std::collections::BTreeMap;

/// A collective call in which some ranks wait, and others are missing.
#[derive(Debug)]
pub struct Hang {
    /// The call, with the longest stay.
    pub longest: CurrentCall,
    /// The name of its communicator.
    pub comm: String,
    /// Who is in it.
    pub inside: RankSet,
    /// Who has left it already.
    pub left: RankSet,
    /// Who is yet to come, and where they are.
    pub missing: Vec<RankGroup>,
    /// Members without a segment on this node.
    pub elsewhere: RankSet,
    /// Members of which not even the rank is known here.
    pub elided: u64,
    /// Members of another world, whose ranks are not known.
    pub foreign: u64,
    /// Where that is, for a sentence.
    where_from: &'static str,
}

/// The calls in which somebody has been for `threshold_s` seconds or more while others are missing;
/// the longest first. The look before was `interval_s` seconds ago.
pub fn hangs(job: &Job, threshold_s: f64, interval_s: f64) -> Vec<Hang> {
    type Key<'j> = (CurrentFunction, &'j str, Option<u64>);
    let mut groups: BTreeMap<Key, (Vec<WorldRank>, &CurrentCall)> = BTreeMap::new();
    for (&rank, state) in &job.ranks {
        for current in state.calls.iter().filter(|current| is_collective(current.call)) {
            let Some((_, name)) = &current.comm else { continue };
            let number = current.number.filter(|_| !job.recording_was_off);
            let (ranks, longest) =
                groups.entry((current.call, name, number)).or_insert_with(|| (Vec::new(), current));
            ranks.push(rank);
            if current.for_s > longest.for_s {
                *longest = current;
            }
        }
    }
    let long = groups.into_iter().filter(|(_, (_, longest))| longest.for_s >= threshold_s);
    let mut found: Vec<Hang> = long
        .filter_map(|((call, comm, number), (ranks, longest))| {
            let longest = CurrentCall { number, ..longest.clone() };
            hang(job, call, comm, longest, ranks.into_iter().collect(), interval_s)
        })
        .collect();
    found.sort_by(|left, right| right.longest.for_s.total_cmp(&left.longest.for_s));
    found
}

/// `None` if nobody is missing, or nobody can know.
fn hang(
    job: &Job,
    call: CurrentFunction,
    name: &str,
    longest: CurrentCall,
    inside: RankSet,
    interval_s: f64,
) -> Option<Hang> {
    let comm = job.comms.get(name).filter(|comm| !comm.ambiguous)?;
    let has_left = |state: &Rank| match (call, longest.number) {
        (CurrentFunction::Operation(operation), Some(number)) => state.has_completed(name, operation, number),
        _ => false,
    };
    let (mut left, mut missing, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for rank in comm.members.iter().filter(|&rank| !inside.contains(rank)).map(WorldRank::new) {
        match job.ranks.get(&rank) {
            None => elsewhere.push(rank),
            Some(state) if has_left(state) => left.push(rank),
            Some(state) => missing.push((rank, state.ended, state.calls.get(..1).unwrap_or_default())),
        }
    }
    // A rank that is through with MPI_Finalize leaves nothing here.
    let foreign = comm.foreign();
    let is_elsewhere = !elsewhere.is_empty() || comm.elided > 0 || foreign > 0;
    let known_missing = !missing.is_empty() || is_elsewhere && call != CurrentFunction::Finalize;
    known_missing.then(|| Hang {
        longest,
        comm: name.to_owned(),
        inside,
        left: left.into_iter().collect(),
        missing: groups(job, missing, interval_s),
        elsewhere: elsewhere.into_iter().collect(),
        elided: comm.elided,
        foreign,
        where_from: if job.is_joined { "not seen" } else { "not on this node" },
    })
}

impl Hang {
    /// One sentence.
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "{}, for {}: in it {}",
            self.longest.name(),
            short_seconds(self.longest.for_s),
            self.inside
        );
        if !self.left.is_empty() {
            text += &format!("; through it {}", self.left);
        }
        let missing: Vec<String> =
            self.missing.iter().map(|one| format!("{} ({})", one.at.ranks, missing_text(one))).collect();
        if !missing.is_empty() {
            text += &format!("; missing {}", missing.join(", "));
        }
        text += &match (self.elsewhere.is_empty(), self.elided) {
            (true, 0) => String::new(),
            (false, 0) => format!("; {} {}", self.where_from, self.elsewhere),
            (true, more) => format!("; {} {more} that are not listed", self.where_from),
            (false, more) => {
                format!("; {} {} and {more} that are not listed", self.where_from, self.elsewhere)
            }
        };
        if self.foreign > 0 {
            let members = count(self.foreign, "member");
            text += &format!("; {members} of another world, of which nothing is known here");
        }
        text
    }
}

/// `in MPI_Recv on W for 12 s`, `in no MPI call`, `ended in MPI_Recv on W`.
fn whereabouts(group: &RankGroup) -> String {
    match (&group.at.call, group.at.ended) {
        (Some(call), false) => format!("in {} for {}", call.name(), short_seconds(call.for_s)),
        (None, false) => format!("in no MPI call{}", group.idle_text()),
        (Some(call), true) => format!("ended in {}", call.name()),
        (None, true) => "ended, in no MPI call".to_owned(),
    }
}

/// The same, with what the ranks called since the look before.
fn missing_text(group: &RankGroup) -> String {
    match group.most_called_text() {
        Some(text) => format!("{}; {text}", whereabouts(group)),
        None => whereabouts(group),
    }
}

/// `ranks 0-2 in MPI_Allreduce on W (call 18) for 12 s`.
pub fn line(group: &RankGroup) -> String {
    format!("{} {}", group.at.ranks.named(), whereabouts(group))
}

#[cfg(test)]
mod tests {
    use super::super::job::Comm;
    use super::*;
    use mpisee_collect::segments::CallLocation;
    use mpisee_profile::{CommId, Operation, Ticks};

    fn call(operation: Operation, comm: &str, number: u64, for_s: f64) -> Vec<CurrentCall> {
        let comm = Some((CommId::WORLD, comm.to_owned()));
        vec![CurrentCall {
            call: CurrentFunction::Operation(operation),
            comm,
            number: Some(number),
            with: None,
            since: Ticks::ZERO,
            for_s,
            place: CallLocation::default(),
        }]
    }

    /// A rank that completed so many calls of `MPI_Allreduce` and `MPI_Bcast` on `W_s2.0`.
    fn rank(completed: u64, calls: Vec<CurrentCall>) -> Rank {
        let count = |operation| (("W_s2.0".to_owned(), operation), completed);
        let completed = [count(Operation::Allreduce), count(Operation::Bcast)].into_iter().collect();
        Rank { calls, completed, ..Rank::default() }
    }

    fn job(ranks: Vec<Rank>) -> Job {
        let comm = Comm { members: RankSet::first(5), size: 5, ..Comm::default() };
        Job {
            size: 8,
            ranks: (0..).map(WorldRank::new).zip(ranks).collect(),
            comms: [("W_s2.0".to_owned(), comm)].into(),
            ..Job::default()
        }
    }

    fn sentences(job: &Job, threshold_s: f64) -> Vec<String> {
        hangs(job, threshold_s, 1.0).iter().map(Hang::sentence).collect()
    }

    #[test]
    fn it_is_said_who_is_in_and_who_is_missing() {
        let inside = |for_s| rank(17, call(Operation::Allreduce, "W_s2.0", 18, for_s));
        let elsewhere = rank(17, call(Operation::Recv, "W", 4, 12.2));
        let job = job(vec![inside(12.0), inside(11.0), inside(12.4), elsewhere]);
        let expected = "MPI_Allreduce on W_s2.0 (call 18), for 12 s: in it 0-2; missing 3 (in MPI_Recv on W for 12 s); \
                        not on this node 4";
        assert_eq!(sentences(&job, 5.0), [expected]);
        assert_eq!(sentences(&job, 13.0), [""; 0]);
    }

    #[test]
    fn who_has_left_is_not_missing() {
        let root = rank(18, Vec::new());
        let inside = || rank(17, call(Operation::Bcast, "W_s2.0", 18, 9.0));
        let behind = rank(16, call(Operation::Bcast, "W_s2.0", 17, 1.0));
        let mut job = job(vec![root, inside(), inside(), rank(17, Vec::new()), behind]);
        let expected = "MPI_Bcast on W_s2.0 (call 18), for 9.0 s: in it 1-2; through it 0; missing 4 (in MPI_Bcast on \
                        W_s2.0 (call 17) for 1.0 s), 3 (in no MPI call)";
        assert_eq!(sentences(&job, 5.0), [expected]);
        job.ranks.get_mut(&WorldRank::new(3)).unwrap().ended = true;
        assert!(sentences(&job, 5.0)[0].ends_with("3 (ended, in no MPI call)"));
        // Where calls were not counted all along, numbers mean nothing: whoever is in the operation
        // is in it.
        job.recording_was_off = true;
        let expected = "MPI_Bcast on W_s2.0, for 9.0 s: in it 1-2,4; missing 0 (in no MPI call), 3 (ended, in no MPI \
                        call)";
        assert_eq!(sentences(&job, 5.0), [expected]);
    }

    #[test]
    fn members_that_nobody_here_knows_are_counted() {
        let inside = || rank(17, call(Operation::Allreduce, "W_s2.0", 18, 12.0));
        let mut job = job((0..5).map(|_| inside()).collect());
        job.comms.get_mut("W_s2.0").unwrap().elided = 3;
        let expected =
            "MPI_Allreduce on W_s2.0 (call 18), for 12 s: in it 0-4; not on this node 3 that are not listed";
        assert_eq!(sentences(&job, 5.0), [expected]);
        job.comms.get_mut("W_s2.0").unwrap().members = RankSet::first(6);
        assert!(sentences(&job, 5.0)[0].ends_with("; not on this node 5 and 3 that are not listed"));
    }

    #[test]
    fn members_of_another_world_are_counted() {
        let inside = || rank(17, call(Operation::Allreduce, "W_s2.0", 18, 12.0));
        let mut job = job((0..5).map(|_| inside()).collect());
        job.comms.get_mut("W_s2.0").unwrap().size = 7;
        let expected = "MPI_Allreduce on W_s2.0 (call 18), for 12 s: in it 0-4; 2 members of another world, of which nothing \
                        is known here";
        assert_eq!(sentences(&job, 5.0), [expected]);
    }

    #[test]
    fn where_all_are_in_it_nobody_is_missing() {
        let inside = || rank(17, call(Operation::Allreduce, "W_s2.0", 18, 12.0));
        assert_eq!(sentences(&job((0..5).map(|_| inside()).collect()), 5.0), [""; 0]);
    }

    #[test]
    fn of_names_that_several_communicators_have_nothing_is_said() {
        let mut job = job(vec![rank(17, call(Operation::Allreduce, "W_s2.0", 18, 12.0))]);
        assert_eq!(sentences(&job, 5.0).len(), 1);
        job.comms.get_mut("W_s2.0").unwrap().ambiguous = true;
        assert_eq!(sentences(&job, 5.0), [""; 0]);
    }
}
