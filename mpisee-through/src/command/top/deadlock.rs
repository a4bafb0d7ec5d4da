//! Ranks that wait for each other, so that none of them can go on.
//!
//! A look at a rank shows one call. Ranks that are in the same calls at two looks, with the same counts of messages, were there all the
//! time between, together, if all were looked at in the same time: what they wait for then is what holds. A receive waits for a rank from which nothing is on its way; a send for
//! one that has posted no receive; a collective that synchronises for the members that are yet to come. Who waits, by way of any
//! others, for himself alone can never go on. That is certain where every link is; links of which the counts say too little, and ranks
//! whose other threads may act for them, only may be.

use super::graph::{Graph, Needs};
use super::job::{Comm, Job, Rank};
use super::roll::call_text;
use super::traffic::PeerKey;
use mpisee_collect::segments::{CurrentCall, First, Partner, Tag, With, is_collective};
use mpisee_profile::segment::active_call::Call;
use mpisee_profile::{Operation, RankSet, WorldRank};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ranks that wait for each other.
#[derive(Debug)]
pub struct Deadlock {
    /// Each rank with its call; it waits for the next, the last for the first.
    pub circle: Vec<(WorldRank, CurrentCall)>,
    /// Ranks that wait for one of them, directly or by way of others.
    pub behind: RankSet,
    /// True if they do; else they may.
    pub is_certain: bool,
}

/// Links of receives from anybody, of which each has one to every member; ranks in further ones are taken for ranks that go on.
const MOST_LINKS: usize = 1 << 22;

/// Links of a sentence that are shown.
const MOST_SHOWN: usize = 8;

/// The deadlocks of a job: those that are certain, then those that may be, of ranks that are in their calls for `hang_s` seconds or
/// more. `still` are the ranks that did nothing between two looks.
pub fn deadlocks(job: &Job, still: &BTreeSet<WorldRank>, hang_s: f64) -> Vec<Deadlock> {
    let mut found = Links { job, still, hang_s, demands: Demands::Certainty }.deadlocks();
    let known: BTreeSet<WorldRank> = found.iter().flat_map(Deadlock::ranks).collect();
    let possible = Links { job, still, hang_s, demands: Demands::Possibility }.deadlocks();
    found.extend(possible.into_iter().filter(|one| one.ranks().all(|rank| !known.contains(&rank))));
    found
}

/// The evidence that makes a link one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demands {
    Certainty,
    Possibility,
}

/// True if a rank waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Certain,
    Possible,
    No,
}

struct Links<'j> {
    job: &'j Job,
    still: &'j BTreeSet<WorldRank>,
    hang_s: f64,
    demands: Demands,
}

/// A collective call: operation, communicator, number.
type CollectiveCall<'j> = (Call, &'j str, Option<u64>);

/// For whom a rank waits.
enum Wait<'j> {
    /// For a rank.
    Rank(WorldRank),
    /// For all of these.
    All(Vec<WorldRank>),
    /// For any member of a communicator.
    AnyOf(&'j str),
    /// For the others of a collective call.
    Collective(CollectiveCall<'j>),
}

impl Links<'_> {
    fn deadlocks(&self) -> Vec<Deadlock> {
        let waits: BTreeMap<WorldRank, (Wait, &CurrentCall)> = self
            .job
            .ranks
            .iter()
            .filter_map(|(&rank, state)| {
                let current = self.blocked(rank, state)?;
                Some((rank, (self.wait(rank, current)?, current)))
            })
            .collect();
        if waits.is_empty() {
            return Vec::new();
        }
        let ranks: Vec<WorldRank> = self.job.ranks.keys().copied().collect();
        let graph = self.graph(&ranks, &waits);
        let is_rank = |node: &usize| *node < ranks.len();
        let deadlock = |circle: super::graph::Circle| {
            let call = |node: usize| Some((ranks[node], waits.get(&ranks[node])?.1.clone()));
            Deadlock {
                circle: circle.nodes.into_iter().filter(is_rank).filter_map(call).collect(),
                behind: circle.behind.into_iter().filter(is_rank).map(|node| ranks[node]).collect(),
                is_certain: self.demands == Demands::Certainty,
            }
        };
        graph.circles(&graph.stuck()).into_iter().map(deadlock).filter(|one| !one.circle.is_empty()).collect()
    }

    /// Ranks are the first nodes, in their order; others are the members that a collective call waits for.
    fn graph(&self, ranks: &[WorldRank], waits: &BTreeMap<WorldRank, (Wait, &CurrentCall)>) -> Graph {
        let node = |rank: &WorldRank| ranks.binary_search(rank).ok();
        let nodes = |of: &[WorldRank]| of.iter().filter_map(node).collect::<Vec<_>>();
        let mut graph = Graph::of(ranks.len());
        let mut collectives: BTreeMap<CollectiveCall, usize> = BTreeMap::new();
        let mut links = 0;
        for (rank, (wait, _)) in waits {
            let Some(waiting) = node(rank) else { continue };
            match wait {
                Wait::Rank(other) => graph.set(waiting, Needs::All, nodes(&[*other])),
                Wait::All(others) => graph.set(waiting, Needs::All, nodes(others)),
                Wait::AnyOf(comm) => {
                    let members = self.all_members(comm).unwrap_or_default();
                    links += members.len();
                    if links > MOST_LINKS {
                        continue;
                    }
                    let others = members.iter().filter(|&member| member != rank || members.len() == 1);
                    graph.set(waiting, Needs::Any, others.filter_map(node).collect());
                }
                Wait::Collective(call) => {
                    let missing = *collectives.entry(*call).or_insert_with(|| {
                        let missing = self.missing(call);
                        let needs = if synchronises(call.0) { Needs::All } else { Needs::Any };
                        graph.add(needs, nodes(&missing))
                    });
                    graph.set(waiting, Needs::All, vec![missing]);
                }
            }
        }
        graph
    }

    /// The call of a rank that does nothing else meanwhile.
    fn blocked<'s>(&self, rank: WorldRank, state: &'s Rank) -> Option<&'s CurrentCall> {
        let current = state.calls.first().filter(|_| !state.ended && self.still.contains(&rank))?;
        let is_blocked = match self.demands {
            Demands::Certainty => {
                let is_seen = state.calls.len() == 1 && !state.may_act_unseen;
                is_seen && !self.job.recording_was_off && !self.job.is_pieced_together
            }
            Demands::Possibility => current.for_s >= self.hang_s,
        };
        is_blocked.then_some(current)
    }

    fn suffices(&self, link: Link) -> bool {
        match self.demands {
            Demands::Certainty => link == Link::Certain,
            Demands::Possibility => link != Link::No,
        }
    }

    /// A communicator whose name is that of one alone.
    fn comm(&self, name: &str) -> Option<&Comm> {
        self.job.comms.get(name).filter(|comm| !comm.ambiguous)
    }

    /// The members of a communicator; `None` unless all of them are seen.
    fn all_members(&self, name: &str) -> Option<Vec<WorldRank>> {
        let comm = self.comm(name)?;
        let members: Vec<WorldRank> = comm.members.iter().map(WorldRank::new).collect();
        let are_seen = members.iter().all(|rank| self.job.ranks.contains_key(rank));
        (are_seen && members.len() as u64 == comm.size).then_some(members)
    }

    /// For whom a rank waits in a call; `None` where the call does not wait, or nobody knows for whom.
    fn wait<'s>(&self, rank: WorldRank, current: &'s CurrentCall) -> Option<Wait<'s>> {
        let (_, name) = current.comm.as_ref()?;
        if is_collective(current.call) {
            let is_certain = synchronises(current.call)
                && !runs_callbacks(current.call)
                && (current.number.is_some() || current.call == Call::Finalize)
                && self.comm(name).is_some();
            let link = if is_certain { Link::Certain } else { Link::Possible };
            let number = current.number.filter(|_| !self.job.recording_was_off);
            let call = (current.call, name.as_str(), number);
            return self.suffices(link).then_some(Wait::Collective(call));
        }
        let Call::Counted(operation) = current.call else { return None };
        use Operation as Op;
        match (current.with?, operation) {
            (With::From(Partner::Any, _), Op::Recv | Op::Probe | Op::Mprobe) => {
                let is_certain = self.nothing_comes(rank, name);
                let link = if is_certain { Link::Certain } else { Link::Possible };
                self.suffices(link).then_some(Wait::AnyOf(name))
            }
            (With::From(from, tag), Op::Recv | Op::Probe | Op::Mprobe) => {
                let from = from.in_world()?;
                self.suffices(self.receive(rank, from, name, Some(tag))).then_some(Wait::Rank(from))
            }
            (With::To(to, tag), Op::Send | Op::Ssend | Op::Rsend) => {
                let to = to.in_world()?;
                self.suffices(self.send(rank, to, name, tag)).then_some(Wait::Rank(to))
            }
            (With::Both { to, from }, Op::Sendrecv | Op::SendrecvReplace) => {
                let from =
                    from.in_world().filter(|&from| self.suffices(self.receive(rank, from, name, None)));
                let to = to.in_world().filter(|&to| self.suffices(self.send(rank, to, name, None)));
                let awaited: Vec<WorldRank> = from.into_iter().chain(to).collect();
                (!awaited.is_empty()).then_some(Wait::All(awaited))
            }
            (With::Requests { count, first }, Op::Wait | Op::Waitall | Op::Waitany | Op::Waitsome) => {
                let waits_for_first = count == 1 || matches!(operation, Op::Wait | Op::Waitall);
                self.first_request(rank, name, count, first).filter(|_| waits_for_first).map(Wait::Rank)
            }
            _ => None,
        }
    }

    fn first_request(&self, rank: WorldRank, comm: &str, count: u32, first: First) -> Option<WorldRank> {
        let (other, link) = match first {
            First::ReceiveFrom(from) => {
                let from = from.in_world()?;
                (from, self.receive(rank, from, comm, None))
            }
            First::SendTo(to) => {
                let to = to.in_world()?;
                let link = match self.send(rank, to, comm, None) {
                    // One that is complete does not keep the call from returning.
                    Link::Certain if count > 1 => Link::Possible,
                    link => link,
                };
                (to, link)
            }
            First::Collective | First::Other => return None,
        };
        self.suffices(link).then_some(other)
    }

    /// Returns whether a receive of `rank` waits for `from`: whether no message that it could get is on its way. Without a tag it is one that
    /// was posted before, or whose tag is not known.
    fn receive(&self, rank: WorldRank, from: WorldRank, comm: &str, tag: Option<Tag>) -> Link {
        let (Some(receiver), Some(sender)) = (self.job.ranks.get(&rank), self.job.ranks.get(&from)) else {
            return Link::No;
        };
        if sender.calls.iter().any(|call| sends_to(call, rank, comm, tag)) {
            return Link::No;
        }
        if self.comm(comm).is_none() && from != rank {
            return Link::Possible;
        }
        let [own, other] = [key(comm, rank), key(comm, from)];
        if sender.traffic.sent(&own) == receiver.traffic.received(&other) {
            return Link::Certain;
        }
        let Some(Tag::Is(tag)) = tag else { return Link::Possible };
        match (sender.traffic.of_tag(&own, true, tag), receiver.traffic.of_tag(&other, false, tag)) {
            (Some(sent), Some(posted)) if sent <= posted => Link::Certain,
            (Some(_), Some(_)) => Link::No,
            _ => Link::Possible,
        }
    }

    /// Returns whether a send of `rank` waits for `to`: whether that has posted no receive which could get the message.
    fn send(&self, rank: WorldRank, to: WorldRank, comm: &str, tag: Option<i32>) -> Link {
        let (Some(sender), Some(receiver)) = (self.job.ranks.get(&rank), self.job.ranks.get(&to)) else {
            return Link::No;
        };
        if receiver.calls.iter().any(|call| receives_from(call, rank, comm, tag)) {
            return Link::No;
        }
        if self.comm(comm).is_none() && to != rank {
            return Link::Possible;
        }
        if receiver.traffic.has_no_open_receive(comm) {
            return Link::Certain;
        }
        let [own, other] = [key(comm, rank), key(comm, to)];
        let sent_and_posted = tag.and_then(|tag| {
            let sent = sender.traffic.of_tag(&other, true, tag)?;
            Some((sent, receiver.traffic.of_tag(&own, false, tag)?))
        });
        match sent_and_posted {
            Some((sent, posted)) if posted > sent => Link::No,
            _ => Link::Possible,
        }
    }

    /// Returns whether no message is on its way to a rank on a communicator, and no member is in a call that sends it one.
    fn nothing_comes(&self, rank: WorldRank, comm: &str) -> bool {
        let Some(members) = self.all_members(comm) else { return false };
        members
            .iter()
            .filter(|&&member| member != rank)
            .all(|&member| self.receive(rank, member, comm, None) == Link::Certain)
    }

    /// The members that are yet to come to a collective call.
    fn missing(&self, &(call, name, number): &CollectiveCall) -> Vec<WorldRank> {
        let Some(comm) = self.comm(name) else { return Vec::new() };
        let is_inside = |current: &CurrentCall| {
            let is_on = current.comm.as_ref().is_some_and(|(_, other)| other == name);
            current.call == call && is_on && (number.is_none() || current.number == number)
        };
        let has_left = |state: &Rank| match (call, number) {
            (Call::Counted(operation), Some(number)) => state.has_completed(name, operation, number),
            _ => false,
        };
        let members = comm.members.iter().map(WorldRank::new);
        let is_missing = |rank: &WorldRank| {
            let state = self.job.ranks.get(rank);
            state.is_some_and(|state| !state.calls.iter().any(is_inside) && !has_left(state))
        };
        members.filter(is_missing).collect()
    }
}

fn key(comm: &str, rank: WorldRank) -> PeerKey {
    (Arc::from(comm), rank)
}

/// Returns whether a call sends a message to `rank` on that communicator that a receive with this tag could get.
fn sends_to(call: &CurrentCall, rank: WorldRank, comm: &str, tag: Option<Tag>) -> bool {
    if call.comm.as_ref().is_none_or(|(_, name)| name != comm) {
        return false;
    }
    match call.with {
        Some(With::To(to, own)) => {
            let may_match = match (own, tag) {
                (Some(own), Some(Tag::Is(tag))) => own == tag,
                _ => true,
            };
            may_match && to.in_world().is_none_or(|to| to == rank)
        }
        Some(With::Both { to, .. }) => to.in_world().is_none_or(|to| to == rank),
        _ => false,
    }
}

/// Returns whether a call receives a message from `rank` on that communicator with this tag, or may.
fn receives_from(call: &CurrentCall, rank: WorldRank, comm: &str, tag: Option<i32>) -> bool {
    if call.comm.as_ref().is_none_or(|(_, name)| name != comm) {
        return false;
    }
    let is_from = |from: Partner| from.in_world().is_none_or(|from| from == rank);
    match call.with {
        Some(With::From(from, Tag::Is(own))) => is_from(from) && tag.is_none_or(|tag| tag == own),
        Some(With::From(from, Tag::Any)) => is_from(from),
        Some(With::Both { from, .. }) => is_from(from),
        _ => false,
    }
}

/// Returns whether the call runs copy or delete functions of the program, in which that may communicate.
fn runs_callbacks(call: Call) -> bool {
    matches!(call, Call::Finalize | Call::Counted(Operation::CommDup | Operation::CommDupWithInfo))
}

/// Returns whether no member leaves the collective before all have come, whatever its arguments.
fn synchronises(call: Call) -> bool {
    use Operation as Op;
    match call {
        Call::Finalize => true,
        Call::Abort => false,
        Call::Counted(operation) => matches!(
            operation,
            Op::Allgather
                | Op::Allreduce
                | Op::Alltoall
                | Op::Barrier
                | Op::CommCreate
                | Op::CommDup
                | Op::CommDupWithInfo
                | Op::CommSplit
                | Op::ReduceScatterBlock
                | Op::WinCreate
        ),
    }
}

impl Deadlock {
    /// All who cannot go on.
    fn ranks(&self) -> impl Iterator<Item = WorldRank> + '_ {
        let circle = self.circle.iter().map(|(rank, _)| *rank);
        circle.chain(self.behind.iter().map(WorldRank::new))
    }

    /// One sentence.
    pub fn sentence(&self) -> String {
        let shown = self.circle.iter().take(MOST_SHOWN);
        let more = self.circle.len().saturating_sub(MOST_SHOWN);
        let mut way: Vec<String> = shown.clone().map(|(rank, _)| rank.to_string()).collect();
        way.extend((more > 0).then(|| format!("({more} more)")));
        way.extend(self.circle.first().map(|(rank, _)| rank.to_string()));
        let mut text = match (self.circle.len(), self.is_certain) {
            (1, true) => format!("rank {} waits for itself: ", way[0]),
            (1, false) => format!("rank {} may wait for itself: ", way[0]),
            (_, true) => format!("ranks {} wait for each other: ", way.join(" -> ")),
            (_, false) => format!("ranks {} may wait for each other: ", way.join(" -> ")),
        };
        let calls: Vec<String> =
            shown.map(|(rank, call)| format!("rank {rank} in {}", call_text(call))).collect();
        text += &calls.join("; ");
        if more > 0 {
            text += &format!("; and {more} more");
        }
        if !self.behind.is_empty() {
            let waits = if self.behind.len() == 1 { "waits" } else { "wait" };
            text += &format!("; {} {waits} for them", self.behind.named());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::{CommId, Ticks};

    const W: &str = "W";

    fn partner(rank: u32) -> Partner {
        Partner::Rank { rank, in_world: Some(rank) }
    }

    fn from(rank: u32) -> Option<With> {
        Some(With::From(partner(rank), Tag::Is(5)))
    }

    fn to(rank: u32) -> Option<With> {
        Some(With::To(partner(rank), Some(5)))
    }

    /// A rank in a call on the world for 2 s; of a collective it is the first one.
    fn rank(operation: Operation, with: Option<With>) -> Rank {
        let number = with.is_none().then_some(1);
        let comm = Some((CommId::WORLD, W.to_owned()));
        let (call, since, stack) = (Call::Counted(operation), Ticks::ZERO, String::new());
        let call = CurrentCall { call, comm, number, with, since, for_s: 2.0, stack };
        Rank { calls: vec![call], is_still: true, ..Rank::default() }
    }

    fn computing() -> Rank {
        Rank::default()
    }

    fn job(ranks: Vec<Rank>) -> Job {
        let size = ranks.len() as u32;
        let comm = Comm { members: RankSet::first(size), size: size.into(), ..Comm::default() };
        let ranks = (0..).map(WorldRank::new).zip(ranks).collect();
        Job { size, ranks, comms: [(W.to_owned(), comm)].into(), ..Job::default() }
    }

    /// Circle, those behind, and whether it is certain.
    fn found(job: &Job) -> Vec<(Vec<u32>, String, bool)> {
        let all = deadlocks(job, &job.still_since(job), 1.0).into_iter();
        let ranks = |one: &Deadlock| one.circle.iter().map(|(rank, _)| rank.get()).collect();
        all.map(|one| (ranks(&one), one.behind.to_string(), one.is_certain)).collect()
    }

    fn certain(circle: &[u32], behind: &str) -> Vec<(Vec<u32>, String, bool)> {
        vec![(circle.to_vec(), behind.to_owned(), true)]
    }

    fn possible(circle: &[u32], behind: &str) -> Vec<(Vec<u32>, String, bool)> {
        vec![(circle.to_vec(), behind.to_owned(), false)]
    }

    /// Counts messages that `rank` sent to and received from `peer`.
    fn count(job: &mut Job, rank: u32, peer: u32, messages: [u64; 2]) {
        let state = job.ranks.get_mut(&WorldRank::new(rank)).unwrap();
        state.traffic.peers.insert(key(W, WorldRank::new(peer)), messages);
        let received = state.traffic.peers.values().map(|[_, received]| received).sum();
        state.traffic.posted.insert(Arc::from(W), Some(received));
    }

    use Operation::{Allreduce, Barrier, Bcast, Recv, Send, Sendrecv, Waitall};

    #[test]
    fn receives_in_a_ring_are_one() {
        let ring = |size: u32| job((0..size).map(|one| rank(Recv, from((one + 1) % size))).collect());
        assert_eq!(found(&ring(2)), certain(&[0, 1], ""));
        assert_eq!(found(&ring(5)), certain(&[0, 1, 2, 3, 4], ""));
        assert_eq!(found(&ring(1)), certain(&[0], ""));
        let sentence = |job: &Job| deadlocks(job, &job.still_since(job), 1.0)[0].sentence();
        let expected = "ranks 0 -> 1 -> 0 wait for each other: rank 0 in MPI_Recv from 1 tag 5 on W; rank 1 in MPI_Recv \
                        from 0 tag 5 on W";
        assert_eq!(sentence(&ring(2)), expected);
        assert_eq!(sentence(&ring(1)), "rank 0 waits for itself: rank 0 in MPI_Recv from 0 tag 5 on W");
        let long = sentence(&ring(50));
        assert!(
            long.starts_with("ranks 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> (42 more) -> 0 wait for"),
            "{long}"
        );
        assert!(long.ends_with("; and 42 more"), "{long}");
    }

    #[test]
    fn who_moved_since_or_computes_is_in_none() {
        let mut ring = job((0..3).map(|one| rank(Recv, from((one + 1) % 3))).collect());
        ring.ranks.get_mut(&WorldRank::new(1)).unwrap().is_still = false;
        assert_eq!(found(&ring), []);
        assert_eq!(found(&job(vec![rank(Recv, from(1)), rank(Recv, from(2)), computing()])), []);
        let mut dead = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
        dead.ranks.get_mut(&WorldRank::new(1)).unwrap().ended = true;
        assert_eq!(found(&dead), []);
    }

    #[test]
    fn a_message_on_its_way_ends_the_wait() {
        let mut ring = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
        count(&mut ring, 0, 1, [7, 3]);
        count(&mut ring, 1, 0, [3, 7]);
        assert_eq!(found(&ring), certain(&[0, 1], ""), "all have arrived");
        count(&mut ring, 1, 0, [4, 7]);
        assert_eq!(found(&ring), possible(&[0, 1], ""), "its tag is not known");
        let mut tagged = |rank: u32, peer: u32, is_sent: bool, messages: u64| {
            let state = ring.ranks.get_mut(&WorldRank::new(rank)).unwrap();
            state.traffic.streams.insert((key(W, WorldRank::new(peer)), is_sent, 5), Some(messages));
        };
        tagged(1, 0, true, 3);
        tagged(0, 1, false, 3);
        assert_eq!(found(&ring), certain(&[0, 1], ""), "it has another tag");
        let state = ring.ranks.get_mut(&WorldRank::new(1)).unwrap();
        state.traffic.streams.insert((key(W, WorldRank::new(0)), true, 5), Some(4));
        assert_eq!(found(&ring), [], "it is the one");
    }

    #[test]
    fn sends_wait_for_who_has_no_receive() {
        let sends = || job(vec![rank(Send, to(1)), rank(Send, to(0))]);
        assert_eq!(found(&sends()), certain(&[0, 1], ""));
        // Both have posted a receive, as for an exchange that takes long.
        let mut open = sends();
        for rank in [0, 1] {
            let state = open.ranks.get_mut(&WorldRank::new(rank)).unwrap();
            state.traffic.posted.insert(Arc::from(W), Some(1));
        }
        assert_eq!(found(&open), possible(&[0, 1], ""));
        assert_eq!(found(&job(vec![rank(Send, to(1)), rank(Recv, from(0))])), [], "they meet");
        let other_tag = Some(With::From(partner(0), Tag::Is(6)));
        assert_eq!(found(&job(vec![rank(Send, to(1)), rank(Recv, other_tag)])), certain(&[0, 1], ""));
        let both = |to, from| Some(With::Both { to: partner(to), from: partner(from) });
        assert_eq!(found(&job(vec![rank(Sendrecv, both(1, 1)), rank(Sendrecv, both(0, 0))])), []);
        let ring = (0..3).map(|one| rank(Sendrecv, both((one + 1) % 3, (one + 1) % 3))).collect();
        assert_eq!(found(&job(ring)), certain(&[0, 1, 2], ""));
    }

    #[test]
    fn who_sends_to_himself_does_not_wait() {
        let to_oneself = || rank(Sendrecv, Some(With::Both { to: partner(0), from: partner(0) }));
        assert_eq!(found(&job(vec![to_oneself()])), []);
        assert_eq!(found(&job(vec![to_oneself(), rank(Recv, from(0))])), []);
    }

    #[test]
    fn only_who_is_looked_at_in_the_same_time_waits_for_certain() {
        let mut apart = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
        apart.is_pieced_together = true;
        assert_eq!(found(&apart), possible(&[0, 1], ""));
    }

    #[test]
    fn functions_of_the_program_in_a_call_may_communicate() {
        use mpisee_profile::Operation::CommDup;
        assert_eq!(found(&job(vec![rank(CommDup, None), rank(Recv, from(0))])), possible(&[0, 1], ""));
    }

    #[test]
    fn collectives_wait_for_who_is_yet_to_come() {
        let job_of = |operation| job(vec![rank(Recv, from(1)), rank(operation, None), rank(operation, None)]);
        assert_eq!(found(&job_of(Barrier)), certain(&[0, 1], "2"));
        assert_eq!(found(&job_of(Allreduce)), certain(&[0, 1], "2"));
        assert_eq!(found(&job_of(Bcast)), possible(&[0, 1], "2"), "it may not need rank 0");
        let mut left = job_of(Barrier);
        let completed = ((W.to_owned(), Barrier), 1);
        left.ranks.get_mut(&WorldRank::new(0)).unwrap().completed.extend([completed]);
        assert_eq!(found(&left), [], "nobody is yet to come");
        let mut two = job(vec![rank(Barrier, None), rank(Allreduce, None)]);
        assert_eq!(found(&two), certain(&[0, 1], ""));
        two.recording_was_off = true;
        assert_eq!(found(&two), possible(&[0, 1], ""));
    }

    #[test]
    fn a_receive_from_anybody_waits_for_all() {
        let any = || rank(Recv, Some(With::From(Partner::Any, Tag::Any)));
        assert_eq!(found(&job(vec![any(), rank(Recv, from(0)), rank(Recv, from(0))])), certain(&[0, 1], "2"));
        assert_eq!(found(&job(vec![any(), any(), any()])), certain(&[0, 1], "2"));
        assert_eq!(found(&job(vec![any(), rank(Recv, from(0)), computing()])), []);
        let mut unseen = job(vec![any(), rank(Recv, from(0)), rank(Recv, from(0))]);
        unseen.ranks.remove(&WorldRank::new(2));
        assert_eq!(found(&unseen), [], "who is not seen may send");
    }

    #[test]
    fn threads_and_requests_may_be_one() {
        let mut threads = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
        threads.ranks.get_mut(&WorldRank::new(0)).unwrap().may_act_unseen = true;
        assert_eq!(found(&threads), possible(&[0, 1], ""));
        threads.ranks.get_mut(&WorldRank::new(0)).unwrap().calls[0].for_s = 0.5;
        assert_eq!(found(&threads), [], "not for long");
        let requests = |count, first| Some(With::Requests { count, first });
        let receives = |from| rank(Waitall, requests(4, First::ReceiveFrom(partner(from))));
        assert_eq!(found(&job(vec![receives(1), receives(0)])), certain(&[0, 1], ""));
        let sends = |count, to| rank(Waitall, requests(count, First::SendTo(partner(to))));
        assert_eq!(found(&job(vec![sends(4, 1), sends(4, 0)])), possible(&[0, 1], ""));
        assert_eq!(found(&job(vec![sends(1, 1), sends(1, 0)])), certain(&[0, 1], ""));
        let collective = || rank(Waitall, requests(1, First::Collective));
        assert_eq!(found(&job(vec![collective(), collective()])), []);
    }
}
