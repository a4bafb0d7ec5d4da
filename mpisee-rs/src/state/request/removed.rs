//! Requests that the application frees.

use super::{Owner, RequestKind, RequestState};
use crate::mpi::abi::constant;

/// A request that was removed; see [`Requests::remove`](super::Requests::remove).
pub enum Removed {
    /// An entry of the table, by its key.
    Entry(u64, RequestState),
    /// One with an aliased handle, by its key and the address of the program's variable.
    Aliased(u64, usize, Owner),
}

impl Removed {
    /// Whose it was.
    pub fn owner(&self) -> Owner {
        match self {
            Removed::Entry(_, started) => started.owner(),
            Removed::Aliased(.., owner) => *owner,
        }
    }

    /// Returns whether it was a receive from `MPI_PROC_NULL`. A matched receive has no peer,
    /// either, but room.
    pub fn is_from_nobody(&self) -> bool {
        let room = if let Removed::Entry(_, started) = self { started.message } else { 0 };
        let Owner { kind, peer, .. } = self.owner();
        kind == RequestKind::Receive && peer == constant::PROC_NULL && room == 0
    }
}
