//! Streams: the messages with one tag from one process to another on a communicator.
//!
//! MPI keeps the order of messages that one receive could match (MPI 4.1, 3.5). So where each
//! receive names its source and tag, or nothing else is posted while it is not known, the k-th
//! message at the sender is the k-th at the receiver: both ends number them alike without a
//! message. A stream's slot has the values of [`super::instances`] that count and choose samples,
//! and in the others whose stream it is.

use crate::rows::MessageEnd;
use crate::{CommId, CommRank};

/// Streams of a process; the messages of later ones are left out.
pub const MOST_STREAMS: usize = 1024;

/// In a slot's values: communicator, end, and whether the order of the messages is unknown; see
/// [`Stream::words`].
pub const COMMUNICATOR: usize = 2;
/// In a slot's values: peer and tag.
pub const PEER_AND_TAG: usize = 3;
/// In a slot's values: the thread that counts the messages; the recorder's own word.
pub const THREAD: usize = 5;

/// Set in [`COMMUNICATOR`] where the order of the messages is unknown.
pub const IS_UNORDERED: u64 = 1 << 33;
const IS_RECEIVED: u64 = 1 << 32;

/// A stream, as one end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The communicator.
    pub communicator: CommId,
    /// The process at the other end, by its rank in the communicator.
    pub peer: CommRank,
    /// The end that this process is.
    pub end: MessageEnd,
    /// The tag.
    pub tag: i32,
}

impl Stream {
    /// The words of [`COMMUNICATOR`] and of [`PEER_AND_TAG`]: communicator 32 bits, end 1 bit from
    /// the lowest; tag 32, peer 32 bits.
    pub fn words(&self) -> [u64; 2] {
        let end = if self.end == MessageEnd::Received { IS_RECEIVED } else { 0 };
        let ends = u64::from(self.peer.get()) << 32 | u64::from(self.tag.cast_unsigned());
        [u64::from(self.communicator.get()) | end, ends]
    }

    /// From words.
    pub fn from_words([communicator, ends]: [u64; 2]) -> Stream {
        Stream {
            communicator: CommId::new(communicator as u32),
            peer: CommRank::new((ends >> 32) as u32),
            end: if communicator & IS_RECEIVED != 0 { MessageEnd::Received } else { MessageEnd::Sent },
            tag: (ends as u32).cast_signed(),
        }
    }
}

/// The recorded messages of a stream in a process that switches recording, in a slot of their own,
/// with the key [`super::SlotKey::recorded`]. A stream without such a slot was recorded from its
/// begin on.
pub mod recorded {
    /// In the slot's values: the messages while recording was on, until it was switched on for the
    /// last time.
    pub const BEFORE: usize = 0;
    /// In the slot's values: the messages of the stream at that moment, plus 1; 0 while recording
    /// is off.
    pub const SINCE_PLUS_1: usize = 1;

    /// The recorded messages of a stream that has had so many, from the values of the slot.
    pub fn messages(values: &[u64; 6], all: u64) -> u64 {
        let since = values[SINCE_PLUS_1].checked_sub(1).map_or(0, |since| all.saturating_sub(since));
        values[BEFORE].saturating_add(since).min(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_count_while_recording_is_on() {
        assert_eq!(recorded::messages(&[7, 0, 0, 0, 0, 0], 50), 7, "it is off");
        assert_eq!(recorded::messages(&[7, 41, 0, 0, 0, 0], 50), 17, "it is on since the 40th");
        assert_eq!(recorded::messages(&[0, 1, 0, 0, 0, 0], 50), 50);
        assert_eq!(recorded::messages(&[99, 60, 0, 0, 0, 0], 50), 50, "words that no writer makes");
    }

    proptest! {
        #[test]
        fn words_lead_back(communicator in 0u32..1 << CommId::BITS, peer: u32, is_received: bool, tag: i32) {
            let end = if is_received { MessageEnd::Received } else { MessageEnd::Sent };
            let stream = Stream { communicator: CommId::new(communicator), peer: CommRank::new(peer), end, tag };
            let [first, second] = stream.words();
            prop_assert_eq!(Stream::from_words([first | IS_UNORDERED, second]), stream);
        }
    }
}
