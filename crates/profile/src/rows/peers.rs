//! Tables of who communicates with whom.

use super::{OffsetRow, OutsideTotalRow, Row};
use crate::{CommRank, Operation};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// The numbers in a row with a peer; the fields are those of [`PeerRow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are described where the columns are")]
pub struct PeerCounts {
    pub sent_messages: u64,
    pub sent_bytes: u64,
    pub received_messages: u64,
    pub received_bytes: u64,
    pub puts: u64,
    pub put_bytes: u64,
    pub gets: u64,
    pub get_bytes: u64,
    pub accumulates: u64,
    pub accumulate_bytes: u64,
}

impl PeerCounts {
    /// Adds those of another row.
    pub fn add(&mut self, other: PeerCounts) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.sent_messages, other.sent_messages);
        add(&mut self.sent_bytes, other.sent_bytes);
        add(&mut self.received_messages, other.received_messages);
        add(&mut self.received_bytes, other.received_bytes);
        add(&mut self.puts, other.puts);
        add(&mut self.put_bytes, other.put_bytes);
        add(&mut self.gets, other.gets);
        add(&mut self.get_bytes, other.get_bytes);
        add(&mut self.accumulates, other.accumulates);
        add(&mut self.accumulate_bytes, other.accumulate_bytes);
    }

    /// Bytes of one-sided operations that went to the peer.
    pub fn one_sided_bytes_to_peer(&self) -> u64 {
        self.put_bytes.saturating_add(self.accumulate_bytes)
    }
}

/// How a one-sided operation accesses the memory of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It writes: `MPI_Put`, `MPI_Rput`.
    Put,
    /// It reads: `MPI_Get`, `MPI_Rget`.
    Get,
    /// It combines: `MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op`,
    /// `MPI_Compare_and_swap`, `MPI_Raccumulate`, `MPI_Rget_accumulate`.
    Accumulate,
}

impl Access {
    /// The access of an operation of MPI that has a target.
    pub fn from_operation(operation: Operation) -> Option<Access> {
        match operation {
            Operation::Put | Operation::Rput => Some(Access::Put),
            Operation::Get | Operation::Rget => Some(Access::Get),
            Operation::Accumulate
            | Operation::GetAccumulate
            | Operation::FetchAndOp
            | Operation::CompareAndSwap
            | Operation::Raccumulate
            | Operation::RgetAccumulate => Some(Access::Accumulate),
            _ => None,
        }
    }
}

/// Columns that older profiles lack.
pub const ONE_SIDED: &[&str] = &["puts", "put_bytes", "gets", "get_bytes", "accumulates", "accumulate_bytes"];

/// `peers.csv`: one row per communicator, rank and peer, with messages and one-sided operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct PeerRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The other process.
    pub peer: u32,
    /// Messages that `rank` sent to `peer`.
    pub sent_messages: u64,
    /// Bytes of `sent_messages`.
    pub sent_bytes: u64,
    /// Messages that `rank` received from `peer`.
    pub received_messages: u64,
    /// Bytes of `received_messages`.
    pub received_bytes: u64,
    /// Puts of `rank` to the memory of `peer`: `MPI_Put` and `MPI_Rput`.
    #[serde(default)]
    pub puts: u64,
    /// Bytes of `puts`.
    #[serde(default)]
    pub put_bytes: u64,
    /// Gets of `rank` from the memory of `peer`: `MPI_Get` and `MPI_Rget`.
    #[serde(default)]
    pub gets: u64,
    /// Bytes of `gets`.
    #[serde(default)]
    pub get_bytes: u64,
    /// Accumulations of `rank` in the memory of `peer`: `MPI_Accumulate`, `MPI_Get_accumulate`,
    /// `MPI_Fetch_and_op`, `MPI_Compare_and_swap`, and their variants with a request.
    #[serde(default)]
    pub accumulates: u64,
    /// Bytes of `accumulates`.
    #[serde(default)]
    pub accumulate_bytes: u64,
}

impl Row for PeerRow {
    const FILE: &'static str = "peers.csv";
    const OPTIONAL: &'static [&'static str] = ONE_SIDED;
}

/// `outside.csv`: one row per communicator, rank and process of another world, with messages and
/// one-sided operations. A profile without such rows has no such file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct OutsideRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The other process, which has no rank in this `MPI_COMM_WORLD`: its rank in the communicator,
    /// of an intercommunicator in the other group.
    pub peer_in_comm: CommRank,
    /// Messages that `rank` sent to the other process.
    pub sent_messages: u64,
    /// Bytes of `sent_messages`.
    pub sent_bytes: u64,
    /// Messages that `rank` received from the other process.
    pub received_messages: u64,
    /// Bytes of `received_messages`.
    pub received_bytes: u64,
    /// Puts of `rank` to the memory of the other process: `MPI_Put` and `MPI_Rput`.
    #[serde(default)]
    pub puts: u64,
    /// Bytes of `puts`.
    #[serde(default)]
    pub put_bytes: u64,
    /// Gets of `rank` from the memory of the other process: `MPI_Get` and `MPI_Rget`.
    #[serde(default)]
    pub gets: u64,
    /// Bytes of `gets`.
    #[serde(default)]
    pub get_bytes: u64,
    /// Accumulations of `rank` in the memory of the other process: `MPI_Accumulate`,
    /// `MPI_Get_accumulate`, `MPI_Fetch_and_op`, `MPI_Compare_and_swap`, and their variants with a
    /// request.
    #[serde(default)]
    pub accumulates: u64,
    /// Bytes of `accumulates`.
    #[serde(default)]
    pub accumulate_bytes: u64,
}

impl Row for OutsideRow {
    const FILE: &'static str = "outside.csv";
    const OPTIONAL: &'static [&'static str] = ONE_SIDED;
}

/// `nccl-peers.csv`: one row per communicator of NCCL, process, its rank there and the rank of a
/// peer, of `ncclSend` and `ncclRecv`. The process of the peer is the one that has a row with
/// `peer_in_comm` as its own rank. A profile without such messages has no such file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct NcclPeerRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// Its rank in the communicator, of which it has one for each of its GPUs.
    pub rank_in_comm: CommRank,
    /// The peer's rank in the communicator.
    pub peer_in_comm: CommRank,
    /// The GPU of `rank_in_comm`, by its UUID, as NCCL reports it; empty if it is not known.
    #[serde(default)]
    pub device: String,
    /// Messages that the process sent to the peer from that rank.
    pub sent_messages: u64,
    /// Bytes of `sent_messages`.
    pub sent_bytes: u64,
    /// Messages that it received there from the peer.
    pub received_messages: u64,
    /// Bytes of `received_messages`.
    pub received_bytes: u64,
}

impl Row for NcclPeerRow {
    const FILE: &'static str = "nccl-peers.csv";
    const OPTIONAL: &'static [&'static str] = &["device"];
}

macro_rules! with_counts {
    ($($row:ty),+) => {$(
        impl $row {
            /// Its numbers.
            pub fn counts(&self) -> PeerCounts {
                PeerCounts {
                    sent_messages: self.sent_messages,
                    sent_bytes: self.sent_bytes,
                    received_messages: self.received_messages,
                    received_bytes: self.received_bytes,
                    puts: self.puts,
                    put_bytes: self.put_bytes,
                    gets: self.gets,
                    get_bytes: self.get_bytes,
                    accumulates: self.accumulates,
                    accumulate_bytes: self.accumulate_bytes,
                }
            }
        }
    )+};
}

with_counts!(PeerRow, OutsideRow, OffsetRow, OutsideTotalRow);
