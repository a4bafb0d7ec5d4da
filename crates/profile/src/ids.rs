//! Identifiers: of communicators and regions in a process, of ranks in the world and in a
//! communicator. Each is a type of its own, so that a mix-up does not compile.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A communicator's number in one process: that of its row in the segment, in the order of the log,
/// or a temporary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CommId(u32);

impl CommId {
    /// The bits that a number takes in a [`SlotKey`](crate::segment::SlotKey).
    pub const BITS: u32 = 24;
    /// `MPI_COMM_WORLD`, the first in the log.
    pub const WORLD: CommId = CommId(0);
    /// `MPI_COMM_SELF`, the second in the log.
    pub const SELF: CommId = CommId(1);
    /// Numbers from here on are temporary: they identify live communicators and are in no segment.
    /// Calls on such a communicator count in the slots of its row.
    pub const FIRST_TEMPORARY: CommId = CommId(1 << (CommId::BITS - 1));
    /// In no log: the communicator is not known, or the segment had no room for it.
    pub const NONE: CommId = CommId(u32::MAX);

    /// The communicator with this number.
    #[inline]
    pub const fn new(number: u32) -> CommId {
        CommId(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The place of its row in tables that have one for each row.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns whether it is not the number of a row.
    #[inline]
    pub const fn is_temporary(self) -> bool {
        self.0 >= CommId::FIRST_TEMPORARY.0
    }

    /// The temporary number after this one; after the last comes the first.
    pub const fn next_temporary(self) -> CommId {
        if self.0 + 1 == 1 << CommId::BITS { CommId::FIRST_TEMPORARY } else { CommId(self.0 + 1) }
    }
}

/// A rank in `MPI_COMM_WORLD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct WorldRank(u32);

impl WorldRank {
    /// In a list of members: a process of another world.
    pub const OUTSIDE: WorldRank = WorldRank(u32::MAX);
    /// In a list of members: an elided process of this world, see
    /// [`Created::without_list`](crate::segment::log::Created::without_list).
    pub const ELIDED: WorldRank = WorldRank(u32::MAX - 1);

    /// The process of this rank.
    #[inline]
    pub const fn new(rank: u32) -> WorldRank {
        WorldRank(rank)
    }

    /// A rank as MPI translates it to the group of the world: negative for a process of another
    /// world.
    pub const fn translated(rank: i32) -> WorldRank {
        if rank < 0 { WorldRank::OUTSIDE } else { WorldRank(rank as u32) }
    }

    /// The rank as a number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The rank of the process in the communicator `MPI_COMM_WORLD`.
    pub const fn in_world(self) -> CommRank {
        CommRank(self.0)
    }

    /// Returns whether it is a rank, and neither [`WorldRank::OUTSIDE`] nor [`WorldRank::ELIDED`].
    pub const fn is_listed(self) -> bool {
        self.0 < WorldRank::ELIDED.0
    }
}

impl fmt::Display for WorldRank {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A rank in a communicator; of a peer in an intercommunicator, its rank in the other group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct CommRank(u32);

impl CommRank {
    /// The first process.
    pub const FIRST: CommRank = CommRank(0);

    /// The process of this rank.
    #[inline]
    pub const fn new(rank: u32) -> CommRank {
        CommRank(rank)
    }

    /// A rank as MPI reports it, or takes it from the program; `None` for what is no process, as
    /// `MPI_PROC_NULL`.
    #[inline]
    pub fn from_mpi(rank: i32) -> Option<CommRank> {
        u32::try_from(rank).ok().map(CommRank)
    }

    /// The rank as a number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The place of the process in arrays that have one for each process.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The rank as an argument of an MPI call.
    #[inline]
    pub const fn to_mpi(self) -> i32 {
        self.0 as i32
    }
}

/// The number of a named region in one process, in the order in which they first began, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct RegionId(u32);

impl RegionId {
    /// The bits that a number takes in a [`SlotKey`](crate::segment::SlotKey).
    pub const BITS: u32 = 12;
    /// Outside of any region.
    pub const OUTSIDE: RegionId = RegionId(0);
    /// The number of regions that one process can have.
    pub const MOST: u32 = (1 << RegionId::BITS) - 1;

    /// The region with this number.
    #[inline]
    pub const fn new(number: u32) -> RegionId {
        RegionId(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The place of the region in tables that begin with what is outside of any.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns whether a [`SlotKey`](crate::segment::SlotKey) has room for the number.
    pub const fn fits(self) -> bool {
        self.0 <= RegionId::MOST
    }
}
