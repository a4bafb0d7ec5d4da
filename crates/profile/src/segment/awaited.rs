//! With whom the call in progress communicates, as one word of its slot: peer and tag, two peers,
//! or requests.
//!
//! The word is valid only for operations that set it; for others it is left from an earlier call.
//! Ranks and tags are stored as the program passed them; the header has this MPI's values of
//! `MPI_ANY_SOURCE`, `MPI_ANY_TAG` and `MPI_PROC_NULL` ([`Wildcards`]).

use crate::rows::MessageEnd;
use crate::{CommRank, Operation, OperationKind};

/// A call of which nothing is known.
pub const UNKNOWN: u64 = ends(i32::MIN, 0);

/// The word of a message: peer 32 bits, tag 32 bits, from the highest.
#[inline(always)]
pub const fn ends(peer: i32, tag: i32) -> u64 {
    (peer.cast_unsigned() as u64) << 32 | tag.cast_unsigned() as u64
}

/// The word of a send and a receive in one: destination 32 bits, source 32 bits, from the highest.
#[inline(always)]
pub const fn both(dest: i32, source: i32) -> u64 {
    ends(dest, source)
}

/// Bits of the number of requests.
const COUNT_BITS: u32 = 28;

/// The kind of a call's first request, in the word of [`requests`]; other numbers are those of
/// something else.
pub mod first {
    /// A send.
    pub const SEND: u64 = 1;
    /// A receive.
    pub const RECEIVE: u64 = 2;
    /// A collective operation.
    pub const COLLECTIVE: u64 = 3;
}

/// The kind of a call's first active request, see [`first`], and its peer.
#[inline(always)]
pub const fn first_request(first: u64, peer: i32) -> u64 {
    (peer.cast_unsigned() as u64) << 32 | first << COUNT_BITS
}

/// The word of a completion: peer of the first active request 32 bits, what that is 4 bits (see
/// [`first_request`]), active requests 28 bits, from the highest.
#[inline(always)]
pub const fn requests(count: usize, first_request: u64) -> u64 {
    const MOST: usize = (1 << COUNT_BITS) - 1;
    first_request | if count < MOST { count } else { MOST } as u64
}

/// Values that stand for no rank or no tag in the MPI of a process; `None` if it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wildcards {
    values: Option<[i32; 3]>,
}

impl Wildcards {
    /// Distinguishes 0 from a word that nobody wrote.
    const IS_KNOWN: u64 = 1 << 32;

    /// The words of the header for `MPI_ANY_SOURCE`, `MPI_ANY_TAG` and `MPI_PROC_NULL`.
    pub fn words(any_source: i32, any_tag: i32, proc_null: i32) -> [u64; 3] {
        [any_source, any_tag, proc_null].map(|value| Wildcards::IS_KNOWN | u64::from(value.cast_unsigned()))
    }

    /// From the words of a header.
    pub fn from_words(words: [u64; 3]) -> Wildcards {
        let is_known = words.iter().all(|word| word & Wildcards::IS_KNOWN != 0);
        Wildcards { values: is_known.then(|| words.map(|word| (word as u32).cast_signed())) }
    }
}

/// The other end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// A process, by its rank in the communicator; in an intercommunicator, in the other group.
    Rank(CommRank),
    /// `MPI_ANY_SOURCE`.
    Any,
    /// `MPI_PROC_NULL`.
    Nobody,
}

/// A request that a call waits for or tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaits {
    /// A message: which end of it this process is, and who is at the other.
    Message(MessageEnd, Peer),
    /// A collective operation.
    Collective,
    /// Something else, or unknown.
    Other,
}

/// With whom a call communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaited {
    /// One message: which end of it this process is, who is at the other, and the tag; `None` for
    /// any.
    Message(MessageEnd, Peer, Option<i32>),
    /// A send and a receive in one.
    Exchange {
        /// The destination.
        to: Peer,
        /// The source.
        from: Peer,
    },
    /// Requests.
    Requests {
        /// The number of those that are active; one of 2²⁸-1 or more is shown as that.
        count: u32,
        /// The first of them.
        first: Awaits,
    },
}

/// The subject of an operation's word.
enum Form {
    Message(MessageEnd),
    Exchange,
    Requests,
}

fn form(operation: Operation) -> Option<Form> {
    use Operation as Op;
    match operation {
        Op::Bsend | Op::Ibsend | Op::Irsend | Op::Isend | Op::Issend | Op::Rsend | Op::Send | Op::Ssend => {
            Some(Form::Message(MessageEnd::Sent))
        }
        Op::Improbe | Op::Iprobe | Op::Irecv | Op::Mprobe | Op::Probe | Op::Recv => {
            Some(Form::Message(MessageEnd::Received))
        }
        Op::Isendrecv | Op::IsendrecvReplace | Op::Sendrecv | Op::SendrecvReplace => Some(Form::Exchange),
        _ if operation.kind() == OperationKind::Completion => Some(Form::Requests),
        _ => None,
    }
}

impl Awaited {
    /// From the word of a call of this operation.
    pub fn from_word(operation: Operation, word: u64, wildcards: &Wildcards) -> Option<Awaited> {
        let [any_source, any_tag, proc_null] = wildcards.values?;
        let peer = |rank: i32| match rank {
            _ if rank == any_source => Some(Peer::Any),
            _ if rank == proc_null => Some(Peer::Nobody),
            _ => CommRank::from_mpi(rank).map(Peer::Rank),
        };
        let [high, low] = [(word >> 32) as u32, word as u32].map(u32::cast_signed);
        match form(operation)? {
            Form::Message(end) => match low {
                _ if low == any_tag => Some(Awaited::Message(end, peer(high)?, None)),
                0.. => Some(Awaited::Message(end, peer(high)?, Some(low))),
                _ => None,
            },
            Form::Exchange => Some(Awaited::Exchange { to: peer(high)?, from: peer(low)? }),
            Form::Requests => {
                let count = word as u32 & ((1 << COUNT_BITS) - 1);
                let message = |end| match peer(high) {
                    None | Some(Peer::Nobody) => Awaits::Other,
                    Some(peer) => Awaits::Message(end, peer),
                };
                let first = match word >> COUNT_BITS & 0xf {
                    first::SEND => message(MessageEnd::Sent),
                    first::RECEIVE => message(MessageEnd::Received),
                    first::COLLECTIVE => Awaits::Collective,
                    _ => Awaits::Other,
                };
                (count > 0).then_some(Awaited::Requests { count, first })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Open MPI has them.
    fn wildcards() -> Wildcards {
        Wildcards::from_words(Wildcards::words(-1, -1, -2))
    }

    fn read(operation: Operation, word: u64) -> Option<Awaited> {
        Awaited::from_word(operation, word, &wildcards())
    }

    #[test]
    fn messages_have_peer_and_tag() {
        let rank = |rank| Peer::Rank(CommRank::new(rank));
        let of = |end, peer, tag| Some(Awaited::Message(end, peer, tag));
        assert_eq!(read(Operation::Recv, ends(12, 5)), of(MessageEnd::Received, rank(12), Some(5)));
        assert_eq!(read(Operation::Ssend, ends(0, i32::MAX)), of(MessageEnd::Sent, rank(0), Some(i32::MAX)));
        assert_eq!(read(Operation::Probe, ends(-1, -1)), of(MessageEnd::Received, Peer::Any, None));
        assert_eq!(read(Operation::Isend, ends(-2, 0)), of(MessageEnd::Sent, Peer::Nobody, Some(0)));
        let both = |to, from| Some(Awaited::Exchange { to, from });
        assert_eq!(read(Operation::Sendrecv, super::both(3, -1)), both(rank(3), Peer::Any));
    }

    #[test]
    fn completions_have_their_requests() {
        let of = |count, first| Some(Awaited::Requests { count, first });
        let receive = Awaits::Message(MessageEnd::Received, Peer::Rank(CommRank::new(7)));
        assert_eq!(read(Operation::Waitall, requests(3, first_request(first::RECEIVE, 7))), of(3, receive));
        assert_eq!(
            read(Operation::Wait, requests(1, first_request(first::COLLECTIVE, 7))),
            of(1, Awaits::Collective)
        );
        assert_eq!(
            read(Operation::Testany, requests(2, first_request(first::SEND, -7))),
            of(2, Awaits::Other)
        );
        let most = (1 << COUNT_BITS) - 1;
        assert_eq!(read(Operation::Waitall, requests(usize::MAX, 0)), of(most, Awaits::Other));
    }

    #[test]
    fn of_what_is_not_written_nothing_is_known() {
        for operation in [Operation::Recv, Operation::Sendrecv, Operation::Waitall] {
            assert_eq!(read(operation, UNKNOWN), None);
        }
        assert_eq!(read(Operation::Recv, ends(0, -7)), None, "no tag");
        assert_eq!(read(Operation::Allreduce, ends(12, 5)), None, "left from an earlier call");
        assert_eq!(Awaited::from_word(Operation::Recv, ends(12, 5), &Wildcards::from_words([0; 3])), None);
    }
}
