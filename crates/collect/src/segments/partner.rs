//! With whom a call communicates, by ranks of the communicator and of the world.

use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::awaited::{Awaited, Awaits, Peer};
use mpisee_profile::{CommId, WorldRank};
use serde::{Deserialize, Serialize};

/// The other end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Partner {
    /// A process.
    Rank {
        /// Its rank in the communicator; in an intercommunicator, in the other group.
        rank: u32,
        /// Its rank in `MPI_COMM_WORLD`, where that is known.
        in_world: Option<u32>,
    },
    /// `MPI_ANY_SOURCE`.
    Any,
    /// `MPI_PROC_NULL`.
    Nobody,
}

/// With whom a call communicates, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum With {
    /// It sends a message, or waits until it is sent; the tag, where it is known.
    To(Partner, Option<i32>),
    /// It receives a message, or waits for it.
    From(Partner, Tag),
    /// It sends one and receives one.
    Both {
        /// The destination.
        to: Partner,
        /// The source.
        from: Partner,
    },
    /// It completes or tests requests.
    Requests {
        /// The number of active requests.
        count: u32,
        /// The first of them.
        first: First,
    },
    /// Ranks that were put together communicate with different ones.
    Different {
        /// The number of different partners, tags and the like.
        count: u32,
    },
}

/// The tag of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tag {
    /// This one.
    Is(i32),
    /// `MPI_ANY_TAG`.
    Any,
}

/// The first request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum First {
    /// A send.
    SendTo(Partner),
    /// A receive.
    ReceiveFrom(Partner),
    /// A collective operation.
    Collective,
    /// Something else, or unknown.
    Other,
}

impl Partner {
    fn from_peer(snapshot: &Snapshot, communicator: Option<CommId>, peer: Peer) -> Partner {
        match peer {
            Peer::Any => Partner::Any,
            Peer::Nobody => Partner::Nobody,
            Peer::Rank(rank) => {
                let in_world = communicator.and_then(|id| snapshot.world_rank_of(id, rank));
                Partner::Rank { rank: rank.get(), in_world: in_world.map(WorldRank::get) }
            }
        }
    }

    /// The rank in `MPI_COMM_WORLD`, of one process that is known.
    pub fn in_world(self) -> Option<WorldRank> {
        match self {
            Partner::Rank { in_world, .. } => in_world.map(WorldRank::new),
            Partner::Any | Partner::Nobody => None,
        }
    }

    /// `12`, on another communicator than the world `3 (rank 12 of W)`.
    fn text(self, is_world: bool) -> String {
        match self {
            Partner::Rank { rank, in_world: Some(in_world) } if !is_world => {
                format!("{rank} (rank {in_world} of W)")
            }
            Partner::Rank { rank, .. } => rank.to_string(),
            Partner::Any => "any rank".to_owned(),
            Partner::Nobody => "MPI_PROC_NULL".to_owned(),
        }
    }
}

impl With {
    /// From the segment of a process.
    pub fn from_awaited(snapshot: &Snapshot, communicator: Option<CommId>, awaited: Awaited) -> With {
        let partner = |peer| Partner::from_peer(snapshot, communicator, peer);
        match awaited {
            Awaited::Message(MessageEnd::Sent, peer, tag) => With::To(partner(peer), tag),
            Awaited::Message(MessageEnd::Received, peer, tag) => {
                With::From(partner(peer), tag.map_or(Tag::Any, Tag::Is))
            }
            Awaited::Exchange { to, from } => With::Both { to: partner(to), from: partner(from) },
            Awaited::Requests { count, first } => {
                let first = match first {
                    Awaits::Message(MessageEnd::Sent, peer) => First::SendTo(partner(peer)),
                    Awaits::Message(MessageEnd::Received, peer) => First::ReceiveFrom(partner(peer)),
                    Awaits::Collective => First::Collective,
                    Awaits::Other => First::Other,
                };
                With::Requests { count, first }
            }
        }
    }

    /// The other end, where there is one: of a message, or of the only request.
    pub fn peer(&self) -> Option<Partner> {
        match *self {
            With::To(peer, _)
            | With::From(peer, _)
            | With::Requests { count: 1, first: First::SendTo(peer) | First::ReceiveFrom(peer) } => {
                Some(peer)
            }
            With::Both { .. } | With::Requests { .. } | With::Different { .. } => None,
        }
    }

    /// The tag of a message, unless it is any.
    pub fn tag(&self) -> Option<i32> {
        match *self {
            With::To(_, tag) => tag,
            With::From(_, Tag::Is(tag)) => Some(tag),
            With::From(_, Tag::Any) | With::Both { .. } | With::Requests { .. } | With::Different { .. } => {
                None
            }
        }
    }

    /// Behind the name of a call: `from 12 tag 5`. `is_world` says that it is on `MPI_COMM_WORLD`.
    pub fn text(&self, is_world: bool) -> String {
        match *self {
            With::To(to, Some(tag)) => format!("to {} tag {tag}", to.text(is_world)),
            With::To(to, None) => format!("to {}", to.text(is_world)),
            With::From(from, Tag::Is(tag)) => format!("from {} tag {tag}", from.text(is_world)),
            With::From(from, Tag::Any) => format!("from {}, any tag", from.text(is_world)),
            With::Both { to, from } => format!("to {}, from {}", to.text(is_world), from.text(is_world)),
            With::Requests { count: 1, first } => format!("({})", first.text(is_world)),
            With::Requests { count, first: First::Other } => format!("({count} requests)"),
            With::Requests { count, first } => {
                format!("({count} requests, first a {})", first.text(is_world))
            }
            With::Different { count } => format!("({count} different peers or tags)"),
        }
    }
}

impl First {
    fn text(self, is_world: bool) -> String {
        match self {
            First::SendTo(to) => format!("send to {}", to.text(is_world)),
            First::ReceiveFrom(from) => format!("receive from {}", from.text(is_world)),
            First::Collective => "collective".to_owned(),
            First::Other => "1 request".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_with_whom() {
        let rank = |rank, in_world| Partner::Rank { rank, in_world };
        let twelve = rank(12, Some(12));
        let texts = [
            (With::From(twelve, Tag::Is(5)).text(true), "from 12 tag 5"),
            (With::From(rank(3, Some(12)), Tag::Is(5)).text(false), "from 3 (rank 12 of W) tag 5"),
            (With::From(rank(3, None), Tag::Any).text(false), "from 3, any tag"),
            (With::From(Partner::Any, Tag::Any).text(true), "from any rank, any tag"),
            (With::To(Partner::Nobody, Some(0)).text(true), "to MPI_PROC_NULL tag 0"),
            (With::Both { to: twelve, from: rank(3, Some(3)) }.text(true), "to 12, from 3"),
        ];
        let requests = |count, first| With::Requests { count, first }.text(true);
        let of_requests = [
            (requests(1, First::ReceiveFrom(twelve)), "(receive from 12)"),
            (requests(6, First::SendTo(twelve)), "(6 requests, first a send to 12)"),
            (requests(1, First::Collective), "(collective)"),
            (requests(1, First::Other), "(1 request)"),
            (requests(2, First::Other), "(2 requests)"),
        ];
        for (text, expected) in texts.into_iter().chain(of_requests) {
            assert_eq!(text, expected);
        }
        let of = |with: With| (with.peer().and_then(Partner::in_world).map(WorldRank::get), with.tag());
        assert_eq!(of(With::From(rank(3, Some(12)), Tag::Is(5))), (Some(12), Some(5)));
        assert_eq!(of(With::From(Partner::Any, Tag::Any)), (None, None));
        assert_eq!(of(With::To(twelve, None)), (Some(12), None));
        assert_eq!(of(With::Both { to: twelve, from: twelve }), (None, None));
        let only = With::Requests { count: 1, first: First::ReceiveFrom(twelve) };
        assert_eq!(of(only), (Some(12), None));
        assert_eq!(of(With::Requests { count: 2, first: First::ReceiveFrom(twelve) }), (None, None));
    }
}
