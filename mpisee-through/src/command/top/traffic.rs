//! The messages between a rank and its peers, as far as they show that one is on its way.

use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::instances::INSTANCES;
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::{call, peer};
use mpisee_profile::segment::streams::{COMMUNICATOR, IS_UNORDERED, PEER_AND_TAG, Stream};
use mpisee_profile::{Operation, WorldRank};
use std::collections::HashMap;
use std::sync::Arc;

/// A peer on a communicator.
pub type PeerKey = (Arc<str>, WorldRank);

/// Messages of a rank so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that it has begun to send to a peer, and messages from the peer that it has
    /// received to the end.
    pub peers: HashMap<PeerKey, [u64; 2]>,
    /// Messages that it has begun to send with a tag (`true`), or for which it has posted a
    /// receive; `None` where their order is not known.
    pub streams: HashMap<(PeerKey, bool, i32), Option<u64>>,
    /// By communicator, receives that were posted; `None` where they cannot be counted, as of
    /// persistent requests.
    pub posted: HashMap<Arc<str>, Option<u64>>,
}

impl Traffic {
    /// From the segment of a process; `names` are those of its communicators.
    pub fn from_snapshot(snapshot: &Snapshot, names: &[String]) -> Traffic {
        let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(name.as_str())).collect();
        let mut traffic = Traffic::default();
        for (key, values) in &snapshot.counters {
            match key.meaning() {
                Some(Meaning::Peer(key)) => {
                    let world_rank = snapshot.world_rank_of(key.communicator, key.peer);
                    if let (Some(name), Some(rank)) = (names.get(key.communicator.index()), world_rank) {
                        let [sent, received] = traffic.peers.entry((Arc::clone(name), rank)).or_default();
                        *sent = sent.wrapping_add(values[peer::SENT_MESSAGES]);
                        *received = received.wrapping_add(values[peer::RECEIVED_MESSAGES]);
                    }
                }
                Some(Meaning::Stream(_)) => {
                    let stream = Stream::from_words([values[COMMUNICATOR], values[PEER_AND_TAG]]);
                    let world_rank = snapshot.world_rank_of(stream.communicator, stream.peer);
                    if let (Some(name), Some(rank)) = (names.get(stream.communicator.index()), world_rank) {
                        let is_ordered = values[COMMUNICATOR] & IS_UNORDERED == 0;
                        let key = ((Arc::clone(name), rank), stream.end == MessageEnd::Sent, stream.tag);
                        traffic.streams.insert(key, is_ordered.then_some(values[INSTANCES]));
                    }
                }
                Some(Meaning::Call(key)) => {
                    let operation = snapshot.operation_at(key.operation).map(|(operation, _)| operation);
                    let posts = operation.and_then(posts);
                    if let (Some(name), Some(posts)) = (names.get(key.communicator.index()), posts) {
                        let posted = traffic.posted.entry(Arc::clone(name)).or_insert(Some(0));
                        let calls = values[call::CALLS];
                        *posted = match posts {
                            Posts::One => posted.map(|posted| posted.wrapping_add(calls)),
                            Posts::Unknown if calls == 0 => *posted,
                            Posts::Unknown => None,
                        };
                    }
                }
                _ => {}
            }
        }
        traffic
    }

    /// Messages that it has begun to send to a peer.
    pub fn sent(&self, key: &PeerKey) -> u64 {
        self.peers.get(key).map_or(0, |[sent, _]| *sent)
    }

    /// Messages from a peer that it has received to the end.
    pub fn received(&self, key: &PeerKey) -> u64 {
        self.peers.get(key).map_or(0, |[_, received]| *received)
    }

    /// Messages of a stream, where both they and their order are known.
    pub fn of_tag(&self, key: &PeerKey, is_sent: bool, tag: i32) -> Option<u64> {
        *self.streams.get(&(key.clone(), is_sent, tag))?
    }

    /// Tags with which receives were posted for a peer, and how many; `None` where their order is
    /// not known.
    pub fn posted_for<'t>(&'t self, key: &'t PeerKey) -> impl Iterator<Item = (i32, Option<u64>)> + 't {
        let of_peer = self.streams.iter().filter(move |((other, is_sent, _), _)| other == key && !is_sent);
        of_peer.map(|((_, _, tag), posted)| (*tag, *posted))
    }

    /// Returns whether no receive is open on a communicator but one in a call in progress: as many
    /// messages came as receives were posted.
    pub fn has_no_open_receive(&self, comm: &str) -> bool {
        let of_comm = self.peers.iter().filter(|((name, _), _)| &**name == comm);
        let received = of_comm.fold(0u64, |sum, (_, [_, received])| sum.wrapping_add(*received));
        match self.posted.get(comm) {
            None => received == 0,
            Some(posted) => *posted == Some(received),
        }
    }
}

/// How many receives a call posts.
enum Posts {
    One,
    Unknown,
}

fn posts(operation: Operation) -> Option<Posts> {
    use Operation as Op;
    match operation {
        // A matched message belongs to its receive from then on.
        Op::Recv | Op::Irecv | Op::Mprobe => Some(Posts::One),
        Op::Sendrecv | Op::SendrecvReplace | Op::Isendrecv | Op::IsendrecvReplace => Some(Posts::One),
        Op::Start | Op::Startall | Op::Improbe => Some(Posts::Unknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Memory;
    use mpisee_profile::segment::key::CallKey;
    use mpisee_profile::segment::log::{Created, Record, Runs};
    use mpisee_profile::segment::words::{Owner, Words};
    use mpisee_profile::segment::{self, OperationAtSite, SlotKey};
    use mpisee_profile::{CommId, CommRank, RegionId};

    fn traffic(slots: &[(SlotKey, [u64; 6])]) -> Traffic {
        let world = Record::Created(Created::with_world(CommId::WORLD, CommRank::FIRST, Runs::first(4)));
        let owner = Owner { pid: 1, host: "n1", world_rank: 0, world_size: 4 };
        let words = Words::new(owner).log(&[world]).counters(slots);
        Traffic::from_snapshot(&Snapshot::read(words.words()).unwrap(), &["W".to_owned()])
    }

    fn calls(operation: Operation, calls: u64) -> (SlotKey, [u64; 6]) {
        let operation = OperationAtSite::from_operation(operation);
        let region = RegionId::OUTSIDE;
        let key =
            CallKey { communicator: CommId::WORLD, region, operation, size_class: 0, memory: Memory::Host };
        (key.pack(), [calls, 0, 0, 0, 0, 0])
    }

    fn peer(rank: u32, sent: u64, received: u64) -> (SlotKey, [u64; 6]) {
        let key = segment::PeerKey { communicator: CommId::WORLD, peer: CommRank::new(rank) };
        (key.pack(), [sent, 0, received, 0, 0, 0])
    }

    #[test]
    fn open_receives_show_in_the_counts() {
        let none = |slots: &[(SlotKey, [u64; 6])]| traffic(slots).has_no_open_receive("W");
        assert!(none(&[]));
        assert!(none(&[calls(Operation::Irecv, 3), calls(Operation::Recv, 2), peer(1, 9, 4), peer(2, 0, 1)]));
        assert!(!none(&[calls(Operation::Irecv, 3), peer(1, 9, 2)]));
        assert!(!none(&[calls(Operation::Startall, 1), peer(1, 0, 0)]));
        let key = (Arc::from("W"), WorldRank::new(1));
        let traffic = traffic(&[peer(1, 9, 4)]);
        assert_eq!((traffic.sent(&key), traffic.received(&key)), (9, 4));
    }
}
