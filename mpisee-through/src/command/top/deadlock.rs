//! Ranks that wait for each other, so that none of them can go on.
//!
//! A look at a rank shows one call. Ranks that are in the same calls at two looks, with the same
//! counts of messages, were there all the time between, together, if all were looked at in the same
//! time: what they wait for then is what holds. A receive waits for a rank from which nothing is on
//! its way; a send for one that has posted no receive; a collective that synchronises for the
//! members that are yet to come. Who waits, by way of any others, for himself alone can never go
//! on. That is certain where every link is; links of which the counts say too little, and ranks
//! whose other threads may act for them, only may be.
//!
//! Of ranks that ended there is one look, their last state ([`Job::from_ended`]). What one received
//! another had sent before it ended, so these states are a state that the run could have been in at
//! one moment, whenever each rank ended. A rank that was inside of MPI in a receive or a collective
//! waits in that state, as above. A rank in `MPI_Send` may have been about to return, as MPI may
//! buffer the message: that it waits is not certain then.

use super::graph::{Graph, Needs};
use super::job::{Comm, Job, Rank};
use super::roll::call_text;
use super::traffic::PeerKey;
use mpisee_collect::segments::{CurrentCall, First, Partner, Tag, With, is_collective};
use mpisee_profile::run::{BlockedRank, EndedDeadlock, MOST_OF_CYCLE, Wait as Certainty, cycle_sentence};
use mpisee_profile::segment::active_call::CurrentFunction;
use mpisee_profile::{Operation, RankSet, WorldRank};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ranks that wait for each other.
#[derive(Debug)]
pub struct Deadlock {
    /// Each rank with its call; it waits for the next, the last for the first.
    pub cycle: Vec<(WorldRank, CurrentCall)>,
    /// Ranks that wait for one of them, directly or by way of others.
    pub behind: RankSet,
    /// True if they do; else they may.
    pub is_certain: bool,
}

/// Links of receives from anybody, of which each has one to every member; ranks in further ones are
/// taken for ranks that go on.
const MOST_LINKS: usize = 1 << 22;

/// The deadlocks of a job: those that are certain, then those that may be, of ranks that are in
/// their calls for `hang_s` seconds or more. `still` are the ranks that did nothing between two
/// looks.
pub fn deadlocks(job: &Job, still: &BTreeSet<WorldRank>, hang_s: f64) -> Vec<Deadlock> {
    let mut found = Links { job, still, hang_s, demands: Demands::Certainty }.deadlocks();
    let known: BTreeSet<WorldRank> = found.iter().flat_map(Deadlock::ranks).collect();
    let possible = Links { job, still, hang_s, demands: Demands::Possibility }.deadlocks();
    found.extend(possible.into_iter().filter(|one| one.ranks().all(|rank| !known.contains(&rank))));
    found
}

/// The deadlocks of ranks that ended, from their last states: those that are certain.
pub fn last_deadlocks(job: &Job) -> Vec<EndedDeadlock> {
    let still = job.still_since(job);
    let found = Links { job, still: &still, hang_s: 0.0, demands: Demands::Certainty }.deadlocks();
    found.iter().map(Deadlock::to_ended).collect()
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
    /// The other rank sends or receives the message now if the tags match, and they are not known.
    ByTagAlone,
    No,
}

/// The message of a call and that of another: whether they belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    No,
    /// If their tags are equal, of which one is not known, as those of `MPI_Sendrecv` are not.
    ByTagAlone,
    Yes,
}

/// When the sender counts a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Where a call starts its request.
    AtItsStart,
    /// Where a call sends it.
    AfterTheCall,
}

struct Links<'j> {
    job: &'j Job,
    still: &'j BTreeSet<WorldRank>,
    hang_s: f64,
    demands: Demands,
}

/// A collective call: operation, communicator, number.
type CollectiveCall<'j> = (CurrentFunction, &'j str, Option<u64>);

/// For whom a rank waits.
enum Wait<'j> {
    /// For a rank.
    Rank(WorldRank),
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
        let deadlock = |cycle: super::graph::Cycle| {
            let call = |node: usize| Some((ranks[node], waits.get(&ranks[node])?.1.clone()));
            Deadlock {
                cycle: cycle.nodes.into_iter().filter(is_rank).filter_map(call).collect(),
                behind: cycle.behind.into_iter().filter(is_rank).map(|node| ranks[node]).collect(),
                is_certain: self.demands == Demands::Certainty,
            }
        };
        graph.cycles(&graph.stuck()).into_iter().map(deadlock).filter(|one| !one.cycle.is_empty()).collect()
    }

    /// Ranks are the first nodes, in their order; others are the members that a collective call
    /// waits for.
    fn graph(&self, ranks: &[WorldRank], waits: &BTreeMap<WorldRank, (Wait, &CurrentCall)>) -> Graph {
        let node = |rank: &WorldRank| ranks.binary_search(rank).ok();
        let nodes = |of: &[WorldRank]| of.iter().filter_map(node).collect::<Vec<_>>();
        let mut graph = Graph::with_nodes(ranks.len());
        let mut collectives: BTreeMap<CollectiveCall, usize> = BTreeMap::new();
        let mut links = 0;
        for (rank, (wait, _)) in waits {
            let Some(waiting) = node(rank) else { continue };
            match wait {
                Wait::Rank(other) => graph.set(waiting, Needs::All, nodes(&[*other])),
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

    /// A link by a message that the MPI library may buffer: of a rank that ended nobody saw that it
    /// stayed in the call.
    fn unless_buffered(&self, link: Link) -> Link {
        if self.job.is_last && link == Link::Certain { Link::Possible } else { link }
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

    /// For whom a rank waits in a call; `None` where the call does not wait, or nobody knows for
    /// whom.
    fn wait<'s>(&self, rank: WorldRank, current: &'s CurrentCall) -> Option<Wait<'s>> {
        let (_, name) = current.comm.as_ref()?;
        if is_collective(current.call) {
            let is_certain = synchronises(current.call)
                && !runs_callbacks(current.call)
                && (current.number.is_some() || current.call == CurrentFunction::Finalize)
                // Between two groups a member may wait for the other group alone.
                && self.comm(name).is_some_and(|comm| !comm.is_inter);
            let link = if is_certain { Link::Certain } else { Link::Possible };
            let number = current.number.filter(|_| !self.job.recording_was_off);
            let call = (current.call, name.as_str(), number);
            return self.suffices(link).then_some(Wait::Collective(call));
        }
        let CurrentFunction::Operation(operation) = current.call else { return None };
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
                let link = self.send(rank, to, name, tag, Counted::AfterTheCall);
                let link = if operation == Op::Ssend { link } else { self.unless_buffered(link) };
                self.suffices(link).then_some(Wait::Rank(to))
            }
            (With::Both { to, from }, Op::Sendrecv | Op::SendrecvReplace) => self
                .exchange(rank, to, from, name)
                .filter(|(_, link)| self.suffices(*link))
                .map(|(other, _)| Wait::Rank(other)),
            (With::Requests { count, first }, Op::Wait | Op::Waitall | Op::Waitany | Op::Waitsome) => {
                let waits_for_first = count == 1 || matches!(operation, Op::Wait | Op::Waitall);
                self.first_request(rank, name, count, first).filter(|_| waits_for_first).map(Wait::Rank)
            }
            _ => None,
        }
    }

    /// For whom a rank waits that sends and receives in one call. The message that it sends may
    /// have left long since, as one that MPI buffers does: that it waits for the receiver can only
    /// be where the message which it receives is on its way, and is never certain. Where both may
    /// be on their way, but for tags that do not match, it may wait for the sender.
    fn exchange(&self, rank: WorldRank, to: Partner, from: Partner, comm: &str) -> Option<(WorldRank, Link)> {
        let receives = match from {
            Partner::Nobody => None,
            // It may come from anybody.
            Partner::Any => return None,
            Partner::Rank { .. } => Some(from.in_world()?),
        };
        let received = receives.map(|from| (from, self.receive(rank, from, comm, None)));
        if let Some((from, link @ (Link::Certain | Link::Possible))) = received {
            return Some((from, link));
        }
        let sent = to.in_world().map(|to| match self.send(rank, to, comm, None, Counted::AfterTheCall) {
            Link::Certain if receives.is_some() => (to, Link::Possible),
            link => (to, self.unless_buffered(link)),
        });
        let by_tag_alone = received.filter(|(_, link)| *link == Link::ByTagAlone);
        match sent {
            Some((_, Link::ByTagAlone | Link::No)) | None => by_tag_alone.or(sent),
            sent => sent,
        }
    }

    fn first_request(&self, rank: WorldRank, comm: &str, count: u32, first: First) -> Option<WorldRank> {
        let (other, link) = match first {
            First::ReceiveFrom(from) => {
                let from = from.in_world()?;
                let link = match self.receive(rank, from, comm, None) {
                    Link::Possible | Link::ByTagAlone if self.all_were_sent(rank, from, comm) => Link::No,
                    link => link,
                };
                (from, link)
            }
            First::SendTo(to) => {
                let to = to.in_world()?;
                let link = match self.send(rank, to, comm, None, Counted::AtItsStart) {
                    // One that is complete does not keep the call from returning.
                    Link::Certain if count > 1 => Link::Possible,
                    link => self.unless_buffered(link),
                };
                (to, link)
            }
            First::Collective | First::Other => return None,
        };
        self.suffices(link).then_some(other)
    }

    /// Returns whether a receive of `rank` waits for `from`: whether no message that it could get
    /// is on its way. Without a tag it is one that was posted before, or whose tag is not known.
    fn receive(&self, rank: WorldRank, from: WorldRank, comm: &str, tag: Option<Tag>) -> Link {
        let (Some(receiver), Some(sender)) = (self.job.ranks.get(&rank), self.job.ranks.get(&from)) else {
            return Link::No;
        };
        match sender.calls.iter().map(|call| sends_to(call, rank, comm, tag)).max() {
            Some(Match::Yes) => return Link::No,
            Some(Match::ByTagAlone) => return Link::ByTagAlone,
            Some(Match::No) | None => {}
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

    /// Returns whether `from` has begun to send a message for each receive that `rank` has posted
    /// for it, by tag.
    fn all_were_sent(&self, rank: WorldRank, from: WorldRank, comm: &str) -> bool {
        let (Some(receiver), Some(sender)) = (self.job.ranks.get(&rank), self.job.ranks.get(&from)) else {
            return false;
        };
        let [own, other] = [key(comm, rank), key(comm, from)];
        let mut posted = receiver.traffic.posted_for(&other).peekable();
        let was_sent = |(tag, posted): (i32, Option<u64>)| {
            posted.zip(sender.traffic.of_tag(&own, true, tag)).is_some_and(|(posted, sent)| sent >= posted)
        };
        self.comm(comm).is_some() && posted.peek().is_some() && posted.all(was_sent)
    }

    /// Returns whether a send of `rank` waits for `to`: whether that has posted no receive which
    /// could get the message.
    fn send(
        &self,
        rank: WorldRank,
        to: WorldRank,
        comm: &str,
        tag: Option<i32>,
        is_counted: Counted,
    ) -> Link {
        let (Some(sender), Some(receiver)) = (self.job.ranks.get(&rank), self.job.ranks.get(&to)) else {
            return Link::No;
        };
        match receiver.calls.iter().map(|call| receives_from(call, rank, comm, tag)).max() {
            Some(Match::Yes) => return Link::No,
            Some(Match::ByTagAlone) => return Link::ByTagAlone,
            Some(Match::No) | None => {}
        }
        if self.comm(comm).is_none() && to != rank {
            return Link::Possible;
        }
        let [own, other] = [key(comm, rank), key(comm, to)];
        let sent_and_posted = tag.and_then(|tag| {
            let sent = sender.traffic.of_tag(&other, true, tag)?;
            Some((sent, receiver.traffic.of_tag(&own, false, tag)?))
        });
        // The message may have been received to the end, and the sender not have come back from its
        // call yet.
        let has_receive = sent_and_posted.is_some_and(|(sent, posted)| posted > sent);
        let in_call = u64::from(is_counted == Counted::AfterTheCall);
        if has_receive || receiver.traffic.received(&own) >= sender.traffic.sent(&other) + in_call {
            return Link::No;
        }
        if receiver.traffic.has_no_open_receive(comm) { Link::Certain } else { Link::Possible }
    }

    /// Returns whether no message is on its way to a rank on a communicator, and no member is in a
    /// call that sends it one.
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
            (CurrentFunction::Operation(operation), Some(number)) => {
                state.has_completed(name, operation, number)
            }
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

/// Returns whether a call sends a message to `rank` on that communicator that a receive with this
/// tag could get.
fn sends_to(call: &CurrentCall, rank: WorldRank, comm: &str, tag: Option<Tag>) -> Match {
    if call.comm.as_ref().is_none_or(|(_, name)| name != comm) {
        return Match::No;
    }
    match call.with {
        Some(With::To(to, own)) if may_be(to, rank) => match (own, tag) {
            (Some(own), Some(Tag::Is(tag))) if own != tag => Match::No,
            _ => Match::Yes,
        },
        Some(With::Both { to, .. }) if may_be(to, rank) => Match::ByTagAlone,
        _ => Match::No,
    }
}

/// Returns whether a partner is that rank, as far as is known.
fn may_be(partner: Partner, rank: WorldRank) -> bool {
    partner != Partner::Nobody && partner.in_world().is_none_or(|partner| partner == rank)
}

/// Returns whether a call receives a message from `rank` on that communicator with this tag, or
/// may.
fn receives_from(call: &CurrentCall, rank: WorldRank, comm: &str, tag: Option<i32>) -> Match {
    if call.comm.as_ref().is_none_or(|(_, name)| name != comm) {
        return Match::No;
    }
    match call.with {
        Some(With::From(from, own)) if may_be(from, rank) => match (own, tag) {
            (Tag::Is(own), Some(tag)) if own != tag => Match::No,
            _ => Match::Yes,
        },
        Some(With::Both { from, .. }) if may_be(from, rank) => Match::ByTagAlone,
        _ => Match::No,
    }
}

/// Returns whether the call runs copy or delete functions of the program, in which that may
/// communicate.
fn runs_callbacks(call: CurrentFunction) -> bool {
    matches!(
        call,
        CurrentFunction::Finalize
            | CurrentFunction::Operation(Operation::CommDup | Operation::CommDupWithInfo)
    )
}

/// Returns whether no member that does not return at once, as with counts of zero, leaves the
/// collective before all have come.
fn synchronises(call: CurrentFunction) -> bool {
    use Operation as Op;
    match call {
        CurrentFunction::Finalize => true,
        CurrentFunction::Abort => false,
        CurrentFunction::Operation(operation) => matches!(
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
        let cycle = self.cycle.iter().map(|(rank, _)| *rank);
        cycle.chain(self.behind.iter().map(WorldRank::new))
    }

    /// One sentence.
    pub fn sentence(&self) -> String {
        let shown = self.cycle.iter().take(MOST_OF_CYCLE);
        let shown: Vec<_> = shown.map(|(rank, call)| (rank.get(), call_text(call))).collect();
        let wait = if self.is_certain { Certainty::Now } else { Certainty::Maybe };
        cycle_sentence(&shown, self.cycle.len(), &self.behind, wait)
    }

    fn to_ended(&self) -> EndedDeadlock {
        let blocked = |(rank, call): &(WorldRank, CurrentCall)| BlockedRank {
            rank: rank.get(),
            call: call.call.name().to_owned(),
            comm: call.comm.as_ref().map(|(_, name)| name.clone()),
            number: call.number.filter(|_| is_collective(call.call)),
            with: call.with_text(),
            site: call.place.site,
        };
        EndedDeadlock { cycle: self.cycle.iter().map(blocked).collect(), behind: self.behind.to_string() }
    }
}

#[cfg(test)]
mod tests;
