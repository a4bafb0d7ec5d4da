//! The communicators of NCCL that are alive, by handle.

use crate::storage::table::Table;
use mpisee_profile::{CommId, Operation};
use rustc_hash::FxHashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A communicator of NCCL, with what recording a call on it needs.
#[derive(Clone, Copy)]
pub struct NcclComm {
    /// [`CommId::NONE`] if it is in no row.
    pub id: CommId,
    /// The rank that has this handle.
    pub rank: u32,
    /// Its ranks, of which a process may have several.
    pub size: u32,
}

/// The making of a communicator, as its name has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Creation {
    /// The row of the parent, if it has one.
    pub parent: Option<CommId>,
    /// The creating call, in the name.
    pub letter: u8,
    /// The ordinal of the creating call.
    pub n: u32,
    /// The part, where the call makes several.
    pub part: Option<u32>,
    /// The digest; 0 for none.
    pub code: u64,
    /// The creating call.
    pub operation: Operation,
}

/// The communicators of NCCL that are alive.
pub static NCCL: LazyLock<NcclComms> = LazyLock::new(NcclComms::new);

/// The table of them.
pub struct NcclComms {
    table: Table<NcclComm>,
    creations: Mutex<Creations>,
}

#[derive(Default)]
struct Creations {
    /// Creating calls by the parent's handle, letter and digest.
    calls: FxHashMap<(u64, u8, u64), u32>,
    rows: FxHashMap<Creation, CommId>,
    /// Handles by row.
    alive: FxHashMap<CommId, u32>,
    /// The creations whose size NCCL had not yet, by handle.
    unfinished: FxHashMap<u64, Creation>,
}

impl NcclComms {
    fn new() -> NcclComms {
        let table = Table::new();
        // A program with a GPU for each thread has no need of MPI_THREAD_MULTIPLE.
        table.share();
        NcclComms { table, creations: Mutex::default() }
    }

    fn creations(&self) -> MutexGuard<'_, Creations> {
        self.creations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The communicator with this handle.
    pub fn get(&self, handle: u64) -> Option<NcclComm> {
        self.table.get(handle)
    }

    /// The ordinal of a creating call on the communicator with this handle; of `ncclCommInitAll` on none, 0.
    pub fn number(&self, handle: u64, letter: u8, code: u64) -> u32 {
        let mut creations = self.creations();
        let calls = creations.calls.entry((handle, letter, code)).or_default();
        *calls += 1;
        *calls
    }

    /// The row of a communicator, which `enter` makes for the first of this process's ranks in it.
    pub fn row_of(&self, creation: Creation, enter: impl FnOnce() -> CommId) -> CommId {
        *self.creations().rows.entry(creation).or_insert_with(enter)
    }

    /// Adds a communicator.
    pub fn insert(&self, handle: u64, id: CommId, rank: u32, size: u32) {
        *self.creations().alive.entry(id).or_default() += 1;
        self.table.insert(handle, NcclComm { id, rank, size });
    }

    /// Notes how a communicator is made, the size of which is unknown yet.
    pub fn postpone(&self, handle: u64, creation: Creation) {
        self.creations().unfinished.insert(handle, creation);
        self.table.insert(handle, NcclComm { id: CommId::NONE, rank: 0, size: 0 });
    }

    /// The making of the communicator, if its size was unknown until now.
    pub fn take_postponed(&self, handle: u64) -> Option<Creation> {
        self.creations().unfinished.remove(&handle)
    }

    /// Returns whether no communicator is alive.
    pub fn is_empty(&self) -> bool {
        self.creations().alive.values().all(|&handles| handles == 0)
    }

    /// Removes a communicator that the program ends; returns its row, if it is the last of this process's ranks in it.
    pub fn remove(&self, handle: u64) -> Option<CommId> {
        let removed = self.table.remove(handle)?;
        let mut creations = self.creations();
        creations.calls.retain(|&(of, ..), _| of != handle);
        creations.unfinished.remove(&handle);
        let alive = creations.alive.get_mut(&removed.id)?;
        *alive = alive.saturating_sub(1);
        (*alive == 0 && removed.id != CommId::NONE).then_some(removed.id)
    }
}
