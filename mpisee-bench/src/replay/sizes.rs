//! The sizes of the messages between two ranks.
//!
//! A profile has the mean size by pair of ranks, and by rank the size classes of its calls. Where both agree, and a rank sends to each of its
//! peers messages of the same mean size, those to each peer have the sizes of its calls, in their proportions.

use super::Sent;
use crate::pattern::LARGEST_MESSAGE;
use mpisee_profile::rows::{CallRow, PeerRow};
use std::collections::BTreeMap;

/// Calls that send one message, and calls whose bytes are those of a message each way.
const SENDS: [&str; 8] = [
    "MPI_Send",
    "MPI_Bsend",
    "MPI_Ssend",
    "MPI_Rsend",
    "MPI_Isend",
    "MPI_Ibsend",
    "MPI_Issend",
    "MPI_Irsend",
];
/// See [`SENDS`].
const BOTH_WAYS: [&str; 4] =
    ["MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Isendrecv", "MPI_Isendrecv_replace"];
/// How far calls and messages, or the means of pairs, may differ and be called the same.
const SAME: f64 = 0.05;
/// Size classes with a smaller part of both messages and bytes are left out.
const LEAST_PART: f64 = 0.01;
/// Peers of a rank at the most: a step has a message for each size and peer.
const MOST_PEERS: usize = 64;

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    messages: u64,
    bytes: u64,
}

impl Sum {
    fn mean(self) -> f64 {
        self.bytes as f64 / self.messages.max(1) as f64
    }
}

/// The messages that a rank sends on a communicator.
#[derive(Clone, Debug, Default)]
pub struct SentSizes {
    /// By the calls, for each size class.
    of_calls: BTreeMap<[u64; 2], Sum>,
    /// By pairs of ranks.
    of_pairs: Sum,
    peers: usize,
}

impl SentSizes {
    /// Adds calls, if they send.
    pub fn add_call(&mut self, row: &CallRow) {
        let directions = match &*row.call {
            call if SENDS.contains(&call) => 1,
            call if BOTH_WAYS.contains(&call) => 2,
            _ => return,
        };
        let of_class = self.of_calls.entry([row.size_min, row.size_max]).or_default();
        of_class.messages += row.calls;
        of_class.bytes += row.bytes / directions;
    }

    /// Adds the messages to a peer.
    pub fn add_peer(&mut self, row: &PeerRow) {
        self.of_pairs.messages += row.sent_messages;
        self.of_pairs.bytes += row.sent_bytes;
        self.peers += 1;
    }

    /// The messages to a peer, by size; all of their mean size where the calls do not tell more.
    pub fn sent(&self, row: &PeerRow) -> Vec<Sent> {
        let of_pair = Sum { messages: row.sent_messages, bytes: row.sent_bytes };
        let sent = |bytes: f64, count: u64| Sent {
            source: row.rank,
            destination: row.peer,
            bytes: (bytes.round() as u64).min(LARGEST_MESSAGE),
            count,
        };
        let of_calls = self.of_calls.values().fold(Sum::default(), |sum, it| Sum {
            messages: sum.messages + it.messages,
            bytes: sum.bytes + it.bytes,
        });
        let are_told = is_same(of_calls.messages as f64, self.of_pairs.messages as f64)
            && is_same(of_calls.bytes as f64, self.of_pairs.bytes as f64)
            && is_same(of_pair.mean(), self.of_pairs.mean())
            && self.peers <= MOST_PEERS;
        let part = |it: &Sum| {
            let of = |own: u64, all: u64| own as f64 / all.max(1) as f64;
            of(it.messages, of_calls.messages).max(of(it.bytes, of_calls.bytes))
        };
        let kept: Vec<&Sum> = self.of_calls.values().filter(|it| part(it) >= LEAST_PART).collect();
        if !are_told || kept.len() < 2 {
            return vec![sent(of_pair.mean(), of_pair.messages)];
        }
        let messages: u64 = kept.iter().map(|it| it.messages).sum();
        let bytes: u64 = kept.iter().map(|it| it.bytes).sum();
        let larger = of_pair.mean() / (bytes as f64 / messages as f64);
        let count =
            |it: &Sum| (of_pair.messages as f64 * it.messages as f64 / messages as f64).round() as u64;
        kept.into_iter().map(|it| sent(it.mean() * larger, count(it).max(1))).collect()
    }
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= SAME * one.max(other)
}
