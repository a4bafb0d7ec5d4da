//! The operation that a request stands for, and what its completion has to record.

use crate::mpi::abi::constant;
use std::ops::AddAssign;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A send; its bytes were counted when it started.
    Send,
    /// A receive; its bytes are known when it completes.
    Receive,
    /// A send and a receive in one.
    SendReceive,
    /// A collective operation.
    Collective,
    /// An access to a window; its bytes were counted when it started.
    Access,
    /// A read or write of a file; its bytes are known when it completes.
    Transfer,
    /// An `MPI_Comm_idup`.
    Duplication,
}

/// Numbers of sends and receives, and of collective operations.
///
/// PERF: in one word, since every completion adds to it.
#[derive(Clone, Copy, Default)]
pub struct Operations(u64);

impl Operations {
    const MESSAGE: u64 = 1;
    const COLLECTIVE: u64 = 1 << 32;

    /// One of either: of a request, that which it is.
    pub const ONE: Operations = Operations(Self::MESSAGE + Self::COLLECTIVE);

    /// The sends and receives.
    pub fn messages(self) -> u32 {
        self.0 as u32
    }

    /// The collective operations.
    pub fn collectives(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl AddAssign for Operations {
    #[inline]
    fn add_assign(&mut self, other: Operations) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl Kind {
    /// Whether the completion has more to record than its own time.
    #[inline]
    pub fn has_more_to_record(self) -> bool {
        !matches!(self, Kind::Send | Kind::Collective | Kind::Access)
    }

    /// The operations that it is, with a message to or from `peer`.
    pub fn operations(self, peer: i32) -> Operations {
        match self {
            Kind::Send | Kind::Receive if peer == constant::PROC_NULL => Operations(0),
            Kind::Send | Kind::Receive => Operations(Operations::MESSAGE),
            Kind::SendReceive => Operations(2 * Operations::MESSAGE),
            Kind::Collective => Operations(Operations::COLLECTIVE),
            Kind::Access | Kind::Transfer | Kind::Duplication => Operations(0),
        }
    }

    /// Whether a message comes with it.
    pub fn is_receive(self) -> bool {
        matches!(self, Kind::Receive | Kind::SendReceive)
    }

    /// Whether the byte count is known only from the status of the completion.
    #[inline]
    pub fn bytes_come_from_status(self) -> bool {
        matches!(self, Kind::Receive | Kind::SendReceive | Kind::Transfer)
    }
}
