//! Families of communicators that are alike, and may share a row.

use crate::mpi::abi::Comm;
use crate::mpi::topology::{Topology, TopologyKind};
use crate::naming::creation_kind::TopologyFrom;
use crate::naming::membership::Groups;
use crate::naming::{CreationKind, Ordinals};
use mpisee_profile::segment::log::Created;
use mpisee_profile::{CommId, CommRank};
use std::sync::Arc;

/// A communicator about to be entered.
pub struct NewCommunicator {
    /// Its handle; while the choice comes before it, as with `MPI_Comm_idup`, that of the parent.
    pub comm: Comm,
    pub kind: CreationKind,
    pub number: Ordinals,
    /// The log record, but for its number.
    pub created: Created,
    pub members: Arc<Groups>,
    pub topology: Option<Topology>,
}

impl NewCommunicator {
    /// Forgets a list of members that takes more than `most` runs.
    pub fn elide(&mut self, most: usize) {
        if self.members.is_elided() {
            return;
        }
        if let Some(elided) = self.created.without_list(most) {
            self.members = Arc::new(self.members.without_list(&elided));
            self.created = elided;
        }
    }

    /// The topology, as the column of `comms.csv` has it.
    pub fn topology(&self) -> Option<&str> {
        self.topology.as_ref().map(|topology| topology.text.as_str())
    }
}

/// Properties of communicators that are alike. Every member of one was part of all the others.
#[derive(PartialEq, Eq, Hash)]
pub struct SiblingCount {
    /// The row of the parent.
    parent: Option<CommId>,
    operation: u32,
    r: Option<CommRank>,
    reorder: u32,
    /// Of topologies that are the same for all members.
    topology: Option<String>,
    /// As [`Groups::hash`]; collisions are not expected.
    members: u64,
    /// As [`Created::code`].
    code: u64,
}

#[derive(Default)]
pub struct Family {
    /// Communicators so far.
    pub created: u32,
    /// Communicators with rows of their own.
    pub single: u32,
    /// The row of all others.
    pub row: Option<CommId>,
}

impl SiblingCount {
    pub fn from_communicator(new: &NewCommunicator) -> SiblingCount {
        let Created { parent, operation, r, reorder, code, .. } = new.created;
        // Of a distributed graph each process has its own degrees.
        let is_known_to_all =
            matches!(new.kind.topology, TopologyFrom::Call(TopologyKind::Cart | TopologyKind::Graph));
        SiblingCount {
            parent,
            operation,
            r,
            reorder,
            topology: new.topology().filter(|_| is_known_to_all).map(str::to_owned),
            members: new.members.hash,
            code,
        }
    }
}
