//! Kinds of creation: how the creating call shows in the name and the row of a communicator.

use crate::mpi::topology::TopologyKind;
use crate::state::communicator::Communicator;
use mpisee_profile::Operation;

/// A kind of creation.
#[derive(Clone, Copy)]
pub struct CreationKind {
    /// The creating call, in the name.
    pub letter: u8,
    /// The creating call; `None` for what comes with the world.
    pub operation: Option<Operation>,
    /// True if one call can create several communicators, which `r` distinguishes.
    pub several: bool,
    /// The `reorder` argument of the application, if the call has one.
    pub reorder: Option<bool>,
    pub topology: TopologyFrom,
}

/// The source of a communicator's topology. Only one that the standard gives it is queried: Open
/// MPI 4.1 lets communicators that should have none inherit a damaged one, and divides by zero when
/// it is queried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TopologyFrom {
    /// It has none.
    Nothing,
    /// A duplicate has that of its parent.
    Parent,
    /// The creating call makes one of this kind.
    Call(TopologyKind),
}

impl CreationKind {
    /// Communicators that no call creates.
    pub const WITH_WORLD: CreationKind = CreationKind {
        letter: 0,
        operation: None,
        several: false,
        reorder: None,
        topology: TopologyFrom::Nothing,
    };

    /// Creation by `operation`.
    pub const fn by(operation: Operation) -> CreationKind {
        let (letter, several, topology) = match operation {
            Operation::CommDup | Operation::CommDupWithInfo => (b'd', false, TopologyFrom::Parent),
            Operation::CommIdup | Operation::CommIdupWithInfo => (b'i', false, TopologyFrom::Parent),
            Operation::CommSplit => (b's', true, TopologyFrom::Nothing),
            Operation::CommSplitType => (b't', true, TopologyFrom::Nothing),
            Operation::CommCreate => (b'c', true, TopologyFrom::Nothing),
            Operation::CommCreateGroup => (b'g', true, TopologyFrom::Nothing),
            Operation::CommShrink => (b'k', false, TopologyFrom::Nothing),
            Operation::CartCreate => (b'a', false, TopologyFrom::Call(TopologyKind::Cart)),
            Operation::CartSub => (b'b', true, TopologyFrom::Call(TopologyKind::Cart)),
            Operation::GraphCreate => (b'r', false, TopologyFrom::Call(TopologyKind::Graph)),
            Operation::DistGraphCreate => (b'n', false, TopologyFrom::Call(TopologyKind::DistGraph)),
            Operation::DistGraphCreateAdjacent => (b'j', false, TopologyFrom::Call(TopologyKind::DistGraph)),
            Operation::IntercommCreate => (b'x', true, TopologyFrom::Nothing),
            Operation::IntercommMerge => (b'm', false, TopologyFrom::Nothing),
            Operation::CommSpawn
            | Operation::CommSpawnMultiple
            | Operation::CommAccept
            | Operation::CommConnect
            | Operation::CommJoin => (Self::MET, false, TopologyFrom::Nothing),
            Operation::CommCreateFromGroup | Operation::IntercommCreateFromGroups => {
                (b'f', true, TopologyFrom::Nothing)
            }
            // No other call creates one.
            _ => (b'?', false, TopologyFrom::Nothing),
        };
        CreationKind { letter, operation: Some(operation), several, reorder: None, topology }
    }

    /// The letter of communicators with processes that were spawned or connected to.
    pub const MET: u8 = b'p';

    /// Returns whether what it creates has two groups.
    pub fn is_inter(&self, parent: Option<&Communicator>) -> bool {
        match self.operation {
            Some(Operation::IntercommCreate | Operation::IntercommCreateFromGroups) => true,
            Some(Operation::IntercommMerge) => false,
            _ => self.letter == Self::MET || parent.is_some_and(Communicator::is_inter),
        }
    }

    /// With the program's choice whether MPI may reorder ranks.
    pub const fn reordering(self, reorder: bool) -> CreationKind {
        CreationKind { reorder: Some(reorder), ..self }
    }
}
