//! The communicators that are alive, by handle.

use crate::mpi::abi::{self, Comm};
use crate::mpi::topology::TopologyKind;
use crate::storage::bucket::Entry;
use crate::storage::hot::HOT;
use crate::storage::table::Table;
use mpisee_profile::{CommId, CommRank};

/// A live communicator, with what recording a call on it needs.
#[derive(Clone, Copy)]
pub struct Communicator {
    /// [`CommId::NONE`] if the segment had no room for it: calls on it and on its descendants count
    /// as not seen.
    pub id: CommId,
    /// This process's rank in it.
    pub rank: CommRank,
    /// Its processes; of an intercommunicator, those of the own group.
    pub size: u32,
    /// The processes of an intercommunicator's other group; 0 for an intracommunicator.
    pub remote_size: u32,
    /// The handle.
    pub comm: Comm,
    /// Its topology, if it has one.
    pub topology: Option<TopologyKind>,
    /// For each out-neighbour of its topology whether it is a process, that is not `MPI_PROC_NULL`.
    out_neighbours: *const [bool],
}

// SAFETY: the handle is a name; the neighbours are read-only and live as long as the communicator.
unsafe impl Send for Communicator {}

impl Communicator {
    pub fn new(id: CommId, comm: Comm, rank: CommRank, size: u32) -> Self {
        let out_neighbours = std::ptr::slice_from_raw_parts(std::ptr::dangling(), 0);
        Communicator { id, rank, size, remote_size: 0, comm, topology: None, out_neighbours }
    }

    /// With the out-neighbours of a topology.
    pub fn with_neighbours(self, neighbours: Vec<bool>) -> Self {
        if neighbours.is_empty() {
            return self;
        }
        Communicator { out_neighbours: Box::into_raw(neighbours.into_boxed_slice()), ..self }
    }

    /// Releases its memory, after the program has freed the communicator.
    pub fn release(self) {
        if !self.out_neighbours().is_empty() {
            // SAFETY: `with_neighbours` made the box, and the table has no copy of the pointer any
            // more.
            drop(unsafe { Box::from_raw(self.out_neighbours.cast_mut()) });
        }
    }

    /// Returns whether it is in the segment's log.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.id != CommId::NONE
    }

    /// Returns whether it has two groups.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.remote_size > 0
    }

    /// For each out-neighbour whether it is a process.
    pub fn out_neighbours(&self) -> &[bool] {
        // SAFETY: empty and dangling, or a box that lives until `release`.
        unsafe { &*self.out_neighbours }
    }
}

/// The properties of a communicator on which the volume of a collective call may depend.
#[derive(Clone, Copy)]
pub struct CommShape {
    /// The communicator's handle.
    pub comm: Comm,
    /// As [`Communicator::rank`].
    pub rank: CommRank,
    /// As [`Communicator::size`].
    pub size: u32,
    /// As [`Communicator::remote_size`].
    pub remote_size: u32,
}

impl CommShape {
    /// Of a communicator.
    #[inline]
    pub fn from_communicator(
        &Communicator { comm, rank, size, remote_size, .. }: &Communicator,
    ) -> CommShape {
        CommShape { comm, rank, size, remote_size }
    }

    /// Returns whether it has two groups.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.remote_size > 0
    }
}

/// A reference to a communicator in the table, valid until the program frees it.
#[derive(Clone, Copy)]
pub struct CommRef(Entry<Communicator>);

impl CommRef {
    /// A copy of the entry.
    #[inline]
    pub fn get(&self) -> Communicator {
        self.0.value()
    }

    /// As [`Communicator::id`].
    #[inline]
    pub fn id(&self) -> CommId {
        self.get().id
    }

    /// As [`Communicator::is_logged`].
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.get().is_logged()
    }
}

/// The communicators that are alive.
pub static COMMUNICATORS: Communicators = Communicators::new();

/// The table of them.
pub struct Communicators {
    table: Table<Communicator>,
}

impl Communicators {
    pub const fn new() -> Self {
        Communicators { table: Table::new() }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.table.share();
    }

    /// The communicator with that handle.
    #[inline]
    pub fn get(&self, comm: Comm) -> Option<Communicator> {
        self.table.get(abi::bits(comm))
    }

    /// The place at which the communicator with that handle is kept.
    ///
    /// PERF: a copy that is made before the MPI call and used after it would be kept on the stack
    /// across it.
    #[inline]
    pub fn known(&self, comm: Comm) -> Option<CommRef> {
        self.table.entry(abi::bits(comm)).map(CommRef)
    }

    /// Adds or replaces a communicator.
    pub fn insert(&self, communicator: Communicator) {
        self.table.insert(abi::bits(communicator.comm), communicator);
        HOT.invalidate_handles();
    }

    /// Removes a communicator that the program frees.
    pub fn forget(&self, comm: Comm) {
        self.table.remove(abi::bits(comm));
        HOT.invalidate_handles();
    }
}
