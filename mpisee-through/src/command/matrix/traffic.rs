//! Traffic between the fields of the matrix, summed up from `peers.csv`.

use crate::axis::Axis;
use crate::scan::{BadField, Fold, Peer};
use crate::units::{count, human_bytes};
use clap::ValueEnum;
use hashbrown::HashMap;

/// Quantity for the order of rows, shades and shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Of {
    Bytes,
    Messages,
}

impl Of {
    /// The unit, in the plural.
    pub fn unit(self) -> &'static str {
        match self {
            Of::Bytes => "bytes",
            Of::Messages => "messages",
        }
    }

    /// The heading of shares.
    pub fn share(self) -> &'static str {
        match self {
            Of::Bytes => "% of bytes",
            Of::Messages => "% of messages",
        }
    }

    /// An amount with its unit, for people.
    pub fn amount(self, amount: u64) -> String {
        match self {
            Of::Bytes => human_bytes(amount),
            Of::Messages => count(amount, "message"),
        }
    }
}

/// Traffic from one to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Point-to-point messages.
    pub messages: u64,
    /// Bytes of messages, one-sided operations and collectives.
    pub bytes: u64,
    /// The part of one-sided operations in the bytes.
    pub one_sided_bytes: u64,
    /// The part of collectives in the bytes.
    pub collective_bytes: u64,
}

impl Traffic {
    /// Messages with their bytes.
    pub fn from_messages(messages: u64, bytes: u64) -> Self {
        Traffic { messages, bytes, ..Traffic::default() }
    }

    /// Bytes of one-sided operations.
    pub fn from_one_sided(bytes: u64) -> Self {
        Traffic { bytes, one_sided_bytes: bytes, ..Traffic::default() }
    }

    /// Bytes of collectives.
    pub fn from_collectives(bytes: u64) -> Self {
        Traffic { bytes, collective_bytes: bytes, ..Traffic::default() }
    }

    /// Bytes of messages alone.
    pub fn message_bytes(self) -> u64 {
        self.bytes.saturating_sub(self.one_sided_bytes).saturating_sub(self.collective_bytes)
    }

    /// Adds other traffic between the same.
    pub fn add(&mut self, other: Traffic) {
        self.messages = self.messages.saturating_add(other.messages);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.one_sided_bytes = self.one_sided_bytes.saturating_add(other.one_sided_bytes);
        self.collective_bytes = self.collective_bytes.saturating_add(other.collective_bytes);
    }

    /// How much it is.
    pub fn amount(self, what: Of) -> u64 {
        match what {
            Of::Bytes => self.bytes,
            Of::Messages => self.messages,
        }
    }
}

/// Traffic between fields of the axis: sender, receiver.
pub type Pairs = HashMap<(u32, u32), Traffic>;

/// Adds up messages and one-sided operations from `peers.csv`.
pub struct Collector<'a> {
    axis: &'a Axis,
    takes: &'a (dyn Fn(&str) -> bool + Sync),
    /// The decision about each communicator.
    comms: HashMap<Vec<u8>, bool>,
    pub pairs: Pairs,
}

impl<'a> Collector<'a> {
    /// Of traffic between ranks of the axis, on the communicators that `takes` chooses.
    pub fn new(axis: &'a Axis, takes: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        Collector { axis, takes, comms: HashMap::new(), pairs: Pairs::new() }
    }
}

impl Fold<Peer<'static>> for Collector<'_> {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        let taken = match self.comms.get(row.comm) {
            Some(&taken) => taken,
            None => {
                let name = std::str::from_utf8(row.comm)
                    .map_err(|_| BadField { column: "comm", why: "the text is not UTF-8".to_owned() })?;
                let taken = (self.takes)(name);
                self.comms.insert(row.comm.to_vec(), taken);
                taken
            }
        };
        let ends = (self.axis.field(row.rank), self.axis.field(row.peer));
        let [there, back] = row.one_sided_bytes;
        let (true, (Some(from), Some(to))) = (taken, ends) else { return Ok(()) };
        let mut add = |ends, traffic| self.pairs.entry(ends).or_default().add(traffic);
        if row.sent_messages > 0 {
            add((from, to), Traffic::from_messages(row.sent_messages, row.sent_bytes));
        }
        if there > 0 {
            add((from, to), Traffic::from_one_sided(there));
        }
        if back > 0 {
            add((to, from), Traffic::from_one_sided(back));
        }
        Ok(())
    }
}
