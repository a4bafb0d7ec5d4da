//! Messages between ranks while they collect a profile: in the format of postcard, after the
//! version of the sender.

pub mod pieces;
mod rank_summary;

pub use rank_summary::RankSummary;

use crate::aggregate::Aggregate;
use mpisee_profile::{Operation, ProfileError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Increment on any change of a message.
const VERSION: u8 = 6;

/// Ranks of the communicator over which the profile is collected, that follow each other.
pub type Ranks = Range<u32>;

/// A message to another rank.
pub trait Message: Serialize + DeserializeOwned {
    /// The message, if what it says is possible: another rank's bytes may have any values.
    fn checked(self) -> Result<Self, ProfileError> {
        Ok(self)
    }

    /// As bytes.
    fn encode(&self) -> Vec<u8> {
        let mut head = Vec::from([VERSION]);
        head.extend(Operation::fingerprint().to_le_bytes());
        // Nothing of a message is without a form in bytes, and memory ends the program where it is
        // not to be had.
        postcard::to_extend(self, head).unwrap_or_default()
    }

    /// From what [`Message::encode`] made.
    fn decode(bytes: &[u8]) -> Result<Self, ProfileError> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| wrong("it is cut off"))?;
        if head[0] != VERSION || head[1..] != Operation::fingerprint().to_le_bytes() {
            return Err(wrong("another version of mpisee sent it"));
        }
        let (message, rest): (Self, &[u8]) =
            postcard::take_from_bytes(rest).map_err(|error| wrong(&error.to_string()))?;
        if rest.is_empty() { message.checked() } else { Err(wrong("something follows it")) }
    }
}

/// Version, and fingerprint of the operations.
const HEAD_BYTES: usize = 9;

fn wrong(why: &str) -> ProfileError {
    ProfileError::Message { why: why.to_owned() }
}

/// A command of rank 0 to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootCommand {
    /// Bring the rows through the tree.
    Bring,
    /// Bring sums over ranks.
    BringSums,
    /// The profile is written.
    Written,
    /// The profile cannot be written: keep the segments.
    Keep,
}

impl Message for RootCommand {}

impl Message for Aggregate {
    fn checked(self) -> Result<Self, ProfileError> {
        Aggregate::checked(self)
    }
}

impl Message for RankSummary {}

/// Sums over some ranks, and the ranks that are missing from them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    /// The sums.
    pub aggregate: Aggregate,
    /// The missing ranks.
    pub lost: Vec<Ranks>,
}

impl Sums {
    /// Adds those of other ranks, or says that they are lost.
    pub fn add(&mut self, other: Result<Sums, Ranks>) {
        match other {
            Ok(other) => {
                self.aggregate.merge(other.aggregate);
                self.lost.extend(other.lost);
            }
            Err(ranks) => self.lost.push(ranks),
        }
    }
}

impl Message for Sums {
    fn checked(self) -> Result<Self, ProfileError> {
        Ok(Sums { aggregate: self.aggregate.checked()?, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_whole_or_not_at_all() {
        let sums = Sums { aggregate: Aggregate::default(), lost: vec![4..8, 9..10] };
        let mut bytes = sums.encode();
        assert_eq!(Sums::decode(&bytes).unwrap().lost, sums.lost);
        for length in 0..bytes.len() {
            assert!(Sums::decode(&bytes[..length]).is_err(), "{length}");
        }
        bytes.push(0);
        assert!(Sums::decode(&bytes).is_err());
        bytes[0] += 1;
        assert!(Sums::decode(&bytes).unwrap_err().to_string().contains("another version"));
        let command = RootCommand::Written;
        assert_eq!(RootCommand::decode(&command.encode()).unwrap(), command);
    }
}
