//! The operation that a request stands for, and what its completion has to record.

use crate::mpi::abi::constant;
use mpisee_profile::segment::awaited::{self, first};

/// The operation of a request. The first ones have the numbers of [`awaited::first`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestKind {
    /// A send; its bytes were counted when it started.
    Send = first::SEND as u8,
    /// A receive; its bytes are known when it completes.
    Receive = first::RECEIVE as u8,
    /// A collective operation.
    Collective = first::COLLECTIVE as u8,
    /// A send and a receive in one.
    SendReceive,
    /// An access to a window; its bytes were counted when it started.
    Access,
    /// A read or write of a file; its bytes are known when it completes.
    Transfer,
    /// An `MPI_Comm_idup`.
    Duplication,
    /// A generalized request, or a flush of a buffer: no other process takes part.
    Local,
}

impl RequestKind {
    /// As the segment has the first request of a completion, with its peer.
    #[inline(always)]
    pub fn awaited(self, peer: i32) -> u64 {
        awaited::first_request(self as u64, peer)
    }

    /// Returns whether the completion has more to record than its own time.
    #[inline]
    pub fn has_more_to_record(self) -> bool {
        !matches!(
            self,
            RequestKind::Send | RequestKind::Collective | RequestKind::Access | RequestKind::Local
        )
    }

    /// The sends, receives and collective operations that it is; a message to or from `peer`.
    pub fn operations(self, peer: i32) -> u32 {
        match self {
            RequestKind::Send | RequestKind::Receive if peer == constant::PROC_NULL => 0,
            RequestKind::Send | RequestKind::Receive | RequestKind::Collective => 1,
            RequestKind::SendReceive => 2,
            RequestKind::Access | RequestKind::Transfer | RequestKind::Duplication | RequestKind::Local => 0,
        }
    }

    /// Returns whether a message comes with it.
    pub fn is_receive(self) -> bool {
        matches!(self, RequestKind::Receive | RequestKind::SendReceive)
    }

    /// Returns whether the byte count is known only from the status of the completion.
    #[inline]
    pub fn bytes_come_from_status(self) -> bool {
        matches!(self, RequestKind::Receive | RequestKind::SendReceive | RequestKind::Transfer)
    }
}
