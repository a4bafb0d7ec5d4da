//! The tables of sampled messages: when both ends of the same message began and ended their parts.
//!
//! A *stream* is the messages with one tag from one process to another on a communicator. MPI keeps
//! their order (MPI 4.1, 3.5), so both ends number them alike: message `k` at the sender is message
//! `k` at the receiver.

use super::{Row, Seconds};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// Which end of a message a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageEnd {
    /// `rank` sent it to `peer`.
    Sent,
    /// `rank` received it from `peer`.
    Received,
}

/// `messages.csv`: one row per communicator, rank, peer, end, tag and sampled message.
///
/// Times are on the clock of `arrivals.csv`. Either end may lack messages that the other has; what
/// both have is a random sample of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct MessageRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The process at the other end.
    pub peer: u32,
    /// The end that `rank` is: `sent` or `received`.
    pub end: MessageEnd,
    /// The message's tag.
    pub tag: i32,
    /// The number of messages of the stream that came before this one: the same at both ends.
    pub message: u64,
    /// The length of the message.
    pub bytes: u64,
    /// When `rank` entered the call that started the send, or posted the receive: of a blocking
    /// one, that call itself.
    pub started_s: Seconds,
    /// When `rank` entered the call that completed its part; empty if none was seen to.
    pub arrival_s: Option<Seconds>,
    /// When `rank` left the call of `arrival_s`. A call that only tests for completion waits for
    /// nothing: it has the same time twice.
    pub departure_s: Option<Seconds>,
    /// The standard's name of the call that completed its part; empty if none was seen to.
    pub call: String,
    /// The sends, receives and collective operations that `call` completed, sampled or not: 1 for
    /// `MPI_Recv`, 2 for `MPI_Sendrecv`. Those that were complete when they started do not count,
    /// nor does what is for `MPI_PROC_NULL`.
    pub completed: u32,
}

impl Row for MessageRow {
    const FILE: &'static str = "messages.csv";
}

/// `streams.csv`: one row per stream and end.
///
/// A rank has at most 1024 rows. Messages in streams that came later are in `peers.csv` alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct StreamRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The process at the other end.
    pub peer: u32,
    /// The end that `rank` is: `sent` or `received`.
    pub end: MessageEnd,
    /// The tag of the messages.
    pub tag: i32,
    /// Messages of the stream, including those while recording was off.
    pub messages: u64,
    /// Of `messages`, the number that have a row in `messages.csv`.
    pub sampled: u64,
    /// Of `messages`, those while recording was on, of which `sampled` is a sample; empty in
    /// profiles of older versions.
    pub recorded: Option<u64>,
    /// 1 if the order of the messages is known; 0 if a nonblocking receive from any source or with
    /// any tag, a cancelled or truncated receive, a call in a callback or several threads made it
    /// unknown: the stream has no rows in `messages.csv` then.
    pub ordered: u8,
}

impl Row for StreamRow {
    const FILE: &'static str = "streams.csv";
    const OPTIONAL: &'static [&'static str] = &["recorded"];
}
