//! The sizes of the messages between two ranks.
//!
//! A profile has the mean size by pair of ranks, and by rank the size classes of its calls. Where
//! both agree, and a rank sends to each of its peers messages of the same mean size, those to each
//! peer have the sizes of its calls, in their proportions.

use super::Sent;
use crate::pattern::LARGEST_MESSAGE;
use mpisee_profile::rows::{CallRow, PeerRow};
use std::collections::BTreeMap;

/// Calls that send one message.
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
/// Calls in the size class of the message that they send, whose bytes are those of both directions.
const BOTH_WAYS: [&str; 4] =
    ["MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Isendrecv", "MPI_Isendrecv_replace"];
/// The class of calls that send nothing: to `MPI_PROC_NULL`, or a message of no bytes.
const EMPTY: [u64; 2] = [0, 0];
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

    fn plus(self, other: Sum) -> Sum {
        Sum { messages: self.messages + other.messages, bytes: self.bytes + other.bytes }
    }
}

/// The calls of a size class.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    sends: Sum,
    /// Those of [`BOTH_WAYS`], with the bytes of both directions.
    both_ways: Sum,
}

impl Calls {
    /// The least and the most bytes that calls of both ways have sent, and half of all that they
    /// moved as far as that is between.
    fn sent_both_ways(&self, [size_min, size_max]: [u64; 2]) -> [u64; 3] {
        let Sum { messages, bytes } = self.both_ways;
        let most = messages.saturating_mul(size_max).min(bytes);
        let least = messages.saturating_mul(size_min).min(most);
        [least, most, (bytes / 2).clamp(least, most)]
    }
}

/// The messages that a rank sends on a communicator.
#[derive(Clone, Debug, Default)]
pub struct SentSizes {
    /// By size class.
    of_calls: BTreeMap<[u64; 2], Calls>,
    /// By pairs of ranks.
    of_pairs: Sum,
    peers: usize,
}

impl SentSizes {
    /// Adds calls, if they send.
    pub fn add_call(&mut self, row: &CallRow) {
        let is_both_ways = BOTH_WAYS.contains(&&*row.call);
        if !is_both_ways && !SENDS.contains(&&*row.call) {
            return;
        }
        let of_class = self.of_calls.entry([row.size_min, row.size_max]).or_default();
        let of_kind = if is_both_ways { &mut of_class.both_ways } else { &mut of_class.sends };
        *of_kind = of_kind.plus(Sum { messages: row.calls, bytes: row.bytes });
    }

    /// Adds the messages to a peer.
    pub fn add_peer(&mut self, row: &PeerRow) {
        self.of_pairs.messages += row.sent_messages;
        self.of_pairs.bytes += row.sent_bytes;
        self.peers += 1;
    }

    /// The messages that the calls have sent, by size class.
    fn classes(&self) -> Vec<Sum> {
        let sent = self.sent_both_ways();
        let mut classes: Vec<Sum> = self
            .of_calls
            .values()
            .zip(sent)
            .map(|(calls, bytes)| calls.sends.plus(Sum { bytes, ..calls.both_ways }))
            .collect();
        // Calls with MPI_PROC_NULL send no message.
        let messages: u64 = classes.iter().map(|it| it.messages).sum();
        let to_nobody = messages.saturating_sub(self.of_pairs.messages);
        if let Some((_, empty)) = self.of_calls.keys().zip(&mut classes).find(|(class, _)| **class == EMPTY) {
            empty.messages = empty.messages.saturating_sub(to_nobody);
        }
        classes
    }

    /// By size class, the bytes that calls of both ways have sent. Those of all classes together
    /// are known from the pairs of ranks, and those of each within its ends; what these leave open
    /// is divided as if as much was sent as received.
    fn sent_both_ways(&self) -> Vec<u64> {
        let ends: Vec<[u64; 3]> =
            self.of_calls.iter().map(|(&class, calls)| calls.sent_both_ways(class)).collect();
        let sum = |at: usize| ends.iter().map(|of| of[at]).fold(0, u64::saturating_add);
        let sends: u64 = self.of_calls.values().map(|calls| calls.sends.bytes).sum();
        let all = self.of_pairs.bytes.saturating_sub(sends);
        let [least, most, halves] = [0, 1, 2].map(sum);
        if all < least || most < all {
            // In profiles of before, the class was that of both directions together.
            return self.of_calls.values().map(|calls| calls.both_ways.bytes / 2).collect();
        }
        let nearer = |[low, high, half]: [u64; 3]| {
            let (end, ends) = if all < halves { (low, least) } else { (high, most) };
            let part = ratio(all.abs_diff(halves), ends.abs_diff(halves));
            (half as f64 + (end as f64 - half as f64) * part).round() as u64
        };
        ends.into_iter().map(nearer).collect()
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
        let classes = self.classes();
        let of_calls = classes.iter().copied().fold(Sum::default(), Sum::plus);
        let are_told = is_same(of_calls.messages as f64, self.of_pairs.messages as f64)
            && is_same(of_calls.bytes as f64, self.of_pairs.bytes as f64)
            && is_same(of_pair.mean(), self.of_pairs.mean())
            && self.peers <= MOST_PEERS;
        let part = |it: &Sum| ratio(it.messages, of_calls.messages).max(ratio(it.bytes, of_calls.bytes));
        let kept: Vec<&Sum> = classes.iter().filter(|it| part(it) >= LEAST_PART).collect();
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

fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= SAME * one.max(other)
}
