//! The rule about messages that nearly all begin or end at one rank.

use super::cause::{Caused, THROUGH_ONE_RANK};
use super::facts::{Facts, FamilyFacts};
use super::finding::{Finding, percent};
use super::messages::{Messages, Sent};
use crate::units::{count, human_bytes, time};
use std::collections::{BTreeMap, BTreeSet};

/// The part of the messages of which one rank is an end, and with how many others it has them at
/// least.
const OF_MESSAGES: f64 = 0.9;
const PEERS: usize = 3;
/// The least time of the other ranks in messages there, of the run.
const OF_RUN: f64 = 0.05;
/// The mean time of the others in messages by that of the rank itself, at least: a rank that waits
/// longer for them than they do in messages is not what holds them up.
const BY_OWN: f64 = 0.5;
/// The part of its messages that go one way, where they are one-way.
const ONE_WAY: f64 = 0.9;
/// Peers are alike if the one with most bytes has no more than this many times as much as the one
/// with least.
const ALIKE: f64 = 1.25;

/// The rank of a communicator that is an end of most messages.
struct Hub<'f> {
    comm: &'f str,
    rank: u32,
    /// True if every other member is among its peers.
    is_of_all: bool,
    all: Sent,
    received: Sent,
    sent: Sent,
    /// Bytes by peer.
    peers: BTreeMap<u32, u64>,
    others_s: f64,
    own_s: f64,
}

impl Hub<'_> {
    /// The mean time of the others in messages, in seconds.
    fn mean_s(&self) -> f64 {
        self.others_s / self.peers.len().max(1) as f64
    }
}

/// The finding about like communicators, if there is one.
pub fn finding(facts: &Facts<'_>, family: &FamilyFacts<'_>, messages: &Messages) -> Option<Caused> {
    let with_messages = family.comms.iter().filter(|comm| messages.pairs.contains_key(&comm.name));
    let hubs: Vec<Hub<'_>> =
        with_messages.map(|comm| hub(&comm.name, comm.size(), messages)).collect::<Option<_>>()?;
    let cost_s: f64 = hubs.iter().map(|hub| hub.others_s).sum();
    let whole = hubs.iter().fold(0, |sum: u64, hub| sum.saturating_add(hub.all.messages));
    let through: u64 = hubs.iter().map(|hub| hub.sent.messages + hub.received.messages).sum();
    let largest = hubs.iter().max_by(|one, other| one.others_s.total_cmp(&other.others_s))?;
    let share = through as f64 / whole.max(1) as f64;
    let waits_itself =
        hubs.iter().map(Hub::mean_s).sum::<f64>() < BY_OWN * hubs.iter().map(|hub| hub.own_s).sum::<f64>();
    if facts.share_of_run(cost_s) < OF_RUN || share < OF_MESSAGES || waits_itself {
        return None;
    }
    let rank = largest.rank;
    let on_comm = if family.comms.len() > 1 { format!(" on {}", largest.comm) } else { String::new() };
    let finding = Finding {
        rule: THROUGH_ONE_RANK,
        about: family.name.to_owned(),
        cost_s,
        what: match family.comms.len() {
            1 => format!("Nearly all messages on {} are from or to rank {}.", family.title, largest.rank),
            _ => format!("Nearly all messages on each of {} are from or to one rank.", family.title),
        },
        evidence: format!(
            "Measured: rank {rank} is an end of {} of {} ({}){on_comm}, with {}. Rank {rank} receives {} of \
             these messages and sends {}. The other ranks are in messages for {}, rank {rank} for {}. \
             mpisee-through waits PROFILE has the waiting part of this time, as far as messages were \
             sampled.",
            percent(share),
            count(largest.all.messages, "message"),
            human_bytes(largest.all.bytes),
            count(largest.peers.len() as u64, "rank"),
            largest.received.messages,
            largest.sent.messages,
            time(largest.others_s),
            time(largest.own_s),
        ),
        threshold: format!(
            "{} of the messages, with {PEERS} ranks or more. The others are in messages for {} of the run, \
             on average for {} of the rank's own time in messages or more",
            percent(OF_MESSAGES),
            percent(OF_RUN),
            percent(BY_OWN)
        ),
        advice: advice(largest),
    };
    let ranks: BTreeSet<u32> = hubs.iter().map(|hub| hub.rank).collect();
    Some(Caused { finding, ranks, parts_s: [0.0, cost_s], sources: BTreeSet::new() })
}

/// None if no rank has enough peers, as where there are few ranks.
fn hub<'f>(comm: &'f str, size: u32, messages: &Messages) -> Option<Hub<'f>> {
    let pairs = messages.pairs.get(comm)?;
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    let mut all = Sent::default();
    for (&(from, to), sent) in pairs.iter().filter(|((from, to), _)| from != to) {
        all.add(*sent);
        for rank in [from, to] {
            *ends.entry(rank).or_default() += sent.messages;
        }
    }
    let (&rank, _) = ends.iter().max_by_key(|&(rank, messages)| (messages, std::cmp::Reverse(rank)))?;
    let (mut received, mut sent) = (Sent::default(), Sent::default());
    let mut peers: BTreeMap<u32, u64> = BTreeMap::new();
    for (&(from, to), &pair) in pairs.iter().filter(|((from, to), _)| from != to) {
        if to == rank {
            received.add(pair);
            *peers.entry(from).or_default() += pair.bytes;
        } else if from == rank {
            sent.add(pair);
            *peers.entry(to).or_default() += pair.bytes;
        }
    }
    let times = messages.time_s.get(comm)?;
    let own_s = times.get(&rank).copied().unwrap_or(0.0);
    (peers.len() >= PEERS).then(|| Hub {
        comm,
        rank,
        is_of_all: peers.len() as u64 + 1 == u64::from(size),
        all,
        received,
        sent,
        peers,
        others_s: times.values().sum::<f64>() - own_s,
        own_s,
    })
}

/// A collective is proposed where each member sends to one, or gets from one, and about as much as
/// the others.
fn advice(hub: &Hub<'_>) -> String {
    let through = (hub.sent.messages + hub.received.messages) as f64;
    let (least, most) = (hub.peers.values().min().copied(), hub.peers.values().max().copied());
    let are_alike = most.unwrap_or(0) as f64 <= ALIKE * least.unwrap_or(0) as f64;
    let is_one_way = |part: Sent| part.messages as f64 >= ONE_WAY * through;
    let fits = hub.is_of_all && are_alike;
    if is_one_way(hub.received) && fits {
        "Use MPI_Gather, MPI_Gatherv or MPI_Reduce, because every other member sends about as much to this \
         rank. These collectives need not pass everything through one rank's receives in turn. Or let each \
         rank write its own part of a file (MPI-IO)."
            .to_owned()
    } else if is_one_way(hub.sent) && fits {
        "Use MPI_Bcast, MPI_Scatter or MPI_Scatterv, because every other member gets about as much from this \
         rank."
            .to_owned()
    } else if is_one_way(hub.received) || is_one_way(hub.sent) {
        "No collective fits as it is: the others have unequal parts, or are not all members. Divide the part \
         of this rank among several ranks, such as one on each node. Or let ranks exchange directly."
            .to_owned()
    } else {
        "Messages go both ways, as when one rank hands out work. Larger pieces of work need fewer messages. \
         If several ranks hand out work, or work is divided in advance, ranks need not wait for one rank."
            .to_owned()
    }
}
