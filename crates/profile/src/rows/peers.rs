//! Tables of who communicates with whom.

use super::{OffsetRow, OutsideTotalRow, Row};
use crate::CommRank;
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// Messages and bytes sent, messages and bytes received, then puts, gets and accumulations, each
/// with its bytes.
pub type PeerCounts = [u64; 10];

/// Columns that profiles before 0.9 lack.
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
    /// `MPI_Fetch_and_op`, `MPI_Compare_and_swap` and those with a request.
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

/// `outside.csv`: one row per communicator, rank and process of another world, as in `peers.csv`. A
/// profile without such messages and one-sided operations has no such file.
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
    /// `MPI_Get_accumulate`, `MPI_Fetch_and_op`, `MPI_Compare_and_swap` and those with a request.
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
            /// Its numbers, in the order of the columns.
            pub fn counts(&self) -> PeerCounts {
                [
                    self.sent_messages,
                    self.sent_bytes,
                    self.received_messages,
                    self.received_bytes,
                    self.puts,
                    self.put_bytes,
                    self.gets,
                    self.get_bytes,
                    self.accumulates,
                    self.accumulate_bytes,
                ]
            }
        }
    )+};
}

with_counts!(PeerRow, OutsideRow, OffsetRow, OutsideTotalRow);
