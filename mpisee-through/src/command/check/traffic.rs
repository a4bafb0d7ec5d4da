//! Checks point-to-point messages: what a rank sent to another is what the other received from it.

use super::findings::{Check, Findings};
use crate::units::{count, natural_order};
use mpisee_profile::rows::{NcclPeerRow, PeerRow};
use std::collections::HashMap;

/// Sent minus received. Sums of 64-bit numbers over any number of rows fit into 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    messages: i128,
    bytes: i128,
}

impl Balance {
    fn new(messages: u64, bytes: u64) -> Self {
        Balance { messages: i128::from(messages), bytes: i128::from(bytes) }
    }

    /// Returns whether all that was sent was received.
    pub fn is_even(self) -> bool {
        self == Balance::default()
    }

    /// Adds what was sent.
    pub fn add(&mut self, messages: u64, bytes: u64) {
        self.messages += i128::from(messages);
        self.bytes += i128::from(bytes);
    }

    /// Takes away what was received.
    pub fn take(&mut self, messages: u64, bytes: u64) {
        self.messages -= i128::from(messages);
        self.bytes -= i128::from(bytes);
    }
}

/// The sums of a communicator.
#[derive(Debug, Default)]
struct Totals {
    sent: Balance,
    received: Balance,
}

/// Adds up `peers.csv`, to be compared at its end.
#[derive(Debug, Default)]
pub struct TrafficCheck {
    comms: Vec<(String, Totals)>,
    numbers: HashMap<String, u32>,
    /// By communicator, sender and receiver.
    ///
    /// PERF: a pair whose two halves have met is removed, so that what is held is what is open.
    open: HashMap<(u32, u32, u32), Balance>,
}

impl TrafficCheck {
    /// Adds a row.
    pub fn row(&mut self, row: &PeerRow) {
        let comm = self.number(&row.comm);
        let sent = Balance::new(row.sent_messages, row.sent_bytes);
        let received = Balance::new(row.received_messages, row.received_bytes);
        let (_, totals) = &mut self.comms[comm as usize];
        totals.sent.messages += sent.messages;
        totals.sent.bytes += sent.bytes;
        totals.received.messages += received.messages;
        totals.received.bytes += received.bytes;
        self.add((comm, row.rank, row.peer), sent.messages, sent.bytes);
        self.add((comm, row.peer, row.rank), -received.messages, -received.bytes);
    }

    /// Adds a row of NCCL's messages, by the ranks in their communicator.
    pub fn nccl_row(&mut self, row: NcclPeerRow) {
        self.row(&PeerRow {
            comm: row.comm,
            rank: row.rank_in_comm.get(),
            peer: row.peer_in_comm.get(),
            sent_messages: row.sent_messages,
            sent_bytes: row.sent_bytes,
            received_messages: row.received_messages,
            received_bytes: row.received_bytes,
            ..PeerRow::default()
        });
    }

    fn number(&mut self, comm: &str) -> u32 {
        if let Some(&number) = self.numbers.get(comm) {
            return number;
        }
        let number = self.comms.len() as u32;
        self.numbers.insert(comm.to_owned(), number);
        self.comms.push((comm.to_owned(), Totals::default()));
        number
    }

    fn add(&mut self, pair: (u32, u32, u32), messages: i128, bytes: i128) {
        let balance = self.open.entry(pair).or_default();
        balance.messages += messages;
        balance.bytes += bytes;
        if balance.is_even() {
            self.open.remove(&pair);
        }
    }

    /// Reports what is open, communicators first, when all rows are added.
    pub fn finish(self, explained_by: Option<&'static str>, findings: &mut Findings) {
        let TrafficCheck { comms, open, .. } = self;
        let mut uneven: Vec<&(String, Totals)> =
            comms.iter().filter(|(_, totals)| totals.sent != totals.received).collect();
        uneven.sort_by(|(left, _), (right, _)| natural_order(left, right));
        for (comm, Totals { sent, received }) in uneven {
            findings.differs_unless(explained_by, Check::Traffic, || {
                format!("on {comm}, {} were sent and {} received", amount(*sent), amount(*received))
            });
        }
        let mut open: Vec<((u32, u32, u32), Balance)> = open.into_iter().collect();
        open.sort_by(|(left, _), (right, _)| {
            natural_order(&comms[left.0 as usize].0, &comms[right.0 as usize].0).then_with(|| left.cmp(right))
        });
        for ((comm, from, to), balance) in open {
            let comm = &comms[comm as usize].0;
            findings.differs_unless(explained_by, Check::Traffic, || {
                format!(
                    "on {comm}, rank {from} sent to rank {to} {} than rank {to} received from it",
                    difference(balance)
                )
            });
        }
    }
}

/// `2 messages (101 bytes)`.
fn amount(Balance { messages, bytes }: Balance) -> String {
    let short = |number: i128| u64::try_from(number).unwrap_or(u64::MAX);
    format!("{} ({})", count(short(messages), "message"), count(short(bytes), "byte"))
}

/// `1 message and 101 bytes more`, `1 message more and 2 bytes fewer`.
pub fn difference(Balance { messages, bytes }: Balance) -> String {
    let size = |number: i128, noun| count(u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX), noun);
    let direction = |number: i128| if number > 0 { "more" } else { "fewer" };
    match (messages, bytes) {
        (_, 0) => format!("{} {}", size(messages, "message"), direction(messages)),
        (0, _) => format!("{} {}", size(bytes, "byte"), direction(bytes)),
        _ if direction(messages) == direction(bytes) => {
            format!("{} and {} {}", size(messages, "message"), size(bytes, "byte"), direction(bytes))
        }
        _ => format!(
            "{} {} and {} {}",
            size(messages, "message"),
            direction(messages),
            size(bytes, "byte"),
            direction(bytes)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_met_are_not_held() {
        let row = |rank, peer, sent, received| PeerRow {
            comm: "W".to_owned(),
            rank,
            peer,
            sent_messages: sent,
            sent_bytes: 101 * sent,
            received_messages: received,
            received_bytes: 101 * received,
            ..PeerRow::default()
        };
        let mut traffic = TrafficCheck::default();
        traffic.row(&row(0, 1, 2, 0));
        assert_eq!(traffic.open.len(), 1);
        traffic.row(&row(1, 0, 0, 1));
        assert_eq!(traffic.open[&(0, 0, 1)], Balance { messages: 1, bytes: 101 });
        traffic.row(&row(1, 0, 0, 1));
        assert!(traffic.open.is_empty());
        traffic.row(&row(3, 3, 5, 5));
        assert!(traffic.open.is_empty(), "a message to oneself meets itself");
    }

    #[test]
    fn differences_are_told_with_their_sign() {
        assert_eq!(difference(Balance { messages: 1, bytes: -2 }), "1 message more and 2 bytes fewer");
        assert_eq!(difference(Balance { messages: -1, bytes: -2 }), "1 message and 2 bytes fewer");
        assert_eq!(difference(Balance { messages: 2, bytes: 0 }), "2 messages more");
        assert_eq!(difference(Balance { messages: 0, bytes: 1 }), "1 byte more");
    }
}
