//! The communicators of NCCL that are alive, by handle.

use crate::binaries::mapping::read_memory;
use crate::storage::table::Table;
use mpisee_profile::{CommId, Operation};
use rustc_hash::{FxHashMap, FxHashSet};
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

/// The calls among which one is numbered: those of a kind on a communicator; of `ncclCommInitAll`
/// those on none, 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrdinalKey {
    /// The handle of the communicator.
    pub handle: u64,
    /// The call, in the name.
    pub letter: u8,
    /// The digest; 0 for none.
    pub code: u64,
}

/// A communicator as the creating call describes it, until it is entered under its handle.
pub struct Announced {
    /// The handle of its parent; 0 if it has none.
    pub parent: u64,
    /// The address at which NCCL stores its handle.
    pub place: usize,
    /// The making.
    pub creation: Creation,
    /// Rank and size, where the call says them.
    pub known: Option<(u32, u32)>,
    /// The name that the program gives it.
    pub label: Option<String>,
}

/// A communicator of which NCCL stores the handle later than its call returns.
struct Unstored {
    announced: Announced,
    /// The word that was at the place when that was last known to be the program's for this; 0
    /// before. Only once the program passes it itself it is a handle for sure.
    seen: u64,
}

/// The word at a place that may be gone by now, or be another variable's; 0 where there is none.
fn word_at(place: usize) -> u64 {
    let mut word = [0; size_of::<u64>()];
    let is_read = read_memory(place, &mut word) == word.len();
    if is_read { u64::from_ne_bytes(word) } else { 0 }
}

/// Communicators whose handle is awaited at most.
const MOST_UNSTORED: usize = 32;

/// The communicators of NCCL that are alive.
pub static NCCL: LazyLock<NcclComms> = LazyLock::new(NcclComms::new);

/// The table of them.
pub struct NcclComms {
    table: Table<NcclComm>,
    creations: Mutex<Creations>,
}

#[derive(Default)]
struct Creations {
    /// Creating calls so far.
    calls: FxHashMap<OrdinalKey, u32>,
    rows: FxHashMap<Creation, CommId>,
    /// Handles by row.
    alive: FxHashMap<CommId, u32>,
    /// Those whose size NCCL had not yet, by handle.
    unfinished: FxHashMap<u64, Announced>,
    unstored: Vec<Unstored>,
    /// The ranks of this process, by row, whose device is noted.
    with_device: FxHashSet<(CommId, u32)>,
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

    /// The ordinal of a creating call.
    pub fn number(&self, numbered: OrdinalKey) -> u32 {
        let mut creations = self.creations();
        let calls = creations.calls.entry(numbered).or_default();
        *calls += 1;
        *calls
    }

    /// Takes back the number of a call that failed: it may be made again, and on other ranks may
    /// not have failed.
    pub fn take_back(&self, numbered: OrdinalKey) {
        if let Some(calls) = self.creations().calls.get_mut(&numbered) {
            *calls = calls.saturating_sub(1);
        }
    }

    /// Notes a communicator whose handle NCCL will store.
    pub fn await_handle(&self, announced: Announced) {
        let mut creations = self.creations();
        // What was to be there before has been overwritten, unless it was seen.
        creations.unstored.retain(|known| known.announced.place != announced.place || known.seen != 0);
        if creations.unstored.len() >= MOST_UNSTORED {
            creations.unstored.remove(0);
        }
        creations.unstored.push(Unstored { announced, seen: 0 });
    }

    /// Notes what is at the places of those that the parent with this handle has made.
    pub fn see_unstored_of(&self, parent: u64) {
        let unstored = &mut self.creations().unstored;
        for one in unstored.iter_mut().filter(|one| one.announced.parent == parent && one.seen == 0) {
            one.seen = word_at(one.announced.place);
        }
    }

    /// The one whose handle this is; none if that may be so of several, as the places of some are
    /// others' by now.
    pub fn take_unstored(&self, handle: u64) -> Option<Announced> {
        let unstored = &mut self.creations().unstored;
        let is_it = |one: &Unstored| match one.seen {
            0 => word_at(one.announced.place) == handle,
            seen => seen == handle,
        };
        let mut found = (0..unstored.len()).filter(|&at| is_it(&unstored[at]));
        let at = found.next()?;
        found.next().is_none().then(|| unstored.swap_remove(at).announced)
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

    /// Keeps a communicator, the size of which is unknown yet.
    pub fn postpone(&self, handle: u64, announced: Announced) {
        self.creations().unfinished.insert(handle, announced);
        self.table.insert(handle, NcclComm { id: CommId::NONE, rank: 0, size: 0 });
    }

    /// The communicator with this handle, if its size was unknown until now.
    pub fn take_postponed(&self, handle: u64) -> Option<Announced> {
        self.creations().unfinished.remove(&handle)
    }

    /// Returns whether the device is noted of a rank of this process that sends or receives.
    pub fn has_device(&self, comm: &NcclComm) -> bool {
        self.creations().with_device.contains(&(comm.id, comm.rank))
    }

    /// Notes that the device is noted; false if it was already.
    pub fn set_device(&self, comm: &NcclComm) -> bool {
        self.creations().with_device.insert((comm.id, comm.rank))
    }

    /// Removes a communicator that the program ends; returns its row, if it is the last of this
    /// process's ranks in it. Parts of it that are not stored by now end with it.
    pub fn remove(&self, handle: u64) -> Option<CommId> {
        self.see_unstored_of(handle);
        let removed = self.table.remove(handle)?;
        let mut creations = self.creations();
        creations.unstored.retain(|one| one.announced.parent != handle || one.seen != 0);
        creations.calls.retain(|numbered, _| numbered.handle != handle);
        creations.unfinished.remove(&handle);
        let alive = creations.alive.get_mut(&removed.id)?;
        *alive = alive.saturating_sub(1);
        if *alive > 0 {
            return None;
        }
        creations.alive.remove(&removed.id);
        creations.rows.retain(|_, id| *id != removed.id);
        (removed.id != CommId::NONE).then_some(removed.id)
    }
}
