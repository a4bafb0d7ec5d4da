//! Member lists that do not compress into rank ranges.
//!
//! No process keeps such a list. It holds MPI's group, which costs no further copy while the
//! communicator lives, and translates the rank of a peer when a thread first sees it. From then on
//! the world rank is in the slot.

use crate::mpi::abi::{Comm, Group};
use crate::mpi::query::{free_group, group_of, is_inter, rank_in_world};
use crate::state::handles;
use crate::state::request::REQUESTS;
use crate::state::world::World;
use crate::storage::memory;
use mpisee_profile::{CommId, CommRank, WorldRank};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The peer group of each communicator with elided members.
#[derive(Default)]
pub struct Elided {
    held: FxHashMap<CommId, Held>,
}

struct Held {
    peers: Arc<Peers>,
    /// Communicators that the program has not freed. Those of one row have the same members.
    alive: u32,
}

/// The peer group of a communicator: the remote group of an intercommunicator, else its own.
pub struct Peers(Group);

// SAFETY: handles of MPI are names of the library's objects, never dereferenced here.
unsafe impl Send for Peers {}
// SAFETY: several threads may have MPI translate ranks of one group at once, and it is freed by the
// last that has it.
unsafe impl Sync for Peers {}

impl Peers {
    /// The peers on a communicator.
    pub fn from_communicator(comm: Comm) -> Arc<Peers> {
        Arc::new(Peers(group_of(comm, is_inter(comm))))
    }

    /// The rank in the world of a peer.
    pub fn world_rank(&self, world: &World, peer: CommRank) -> WorldRank {
        rank_in_world(self.0, peer, world.group)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        free_group(self.0);
    }
}

impl Elided {
    /// Returns whether there is memory for a further communicator.
    pub fn has_room(&mut self) -> bool {
        self.held.try_reserve(1).is_ok()
    }

    /// Adds a communicator. Returns `peers` if a group is already held for its row.
    pub fn enter(&mut self, id: CommId, peers: Arc<Peers>) -> Option<Arc<Peers>> {
        match self.held.entry(id) {
            Entry::Occupied(mut held) => {
                held.get_mut().alive += 1;
                Some(peers)
            }
            Entry::Vacant(place) => {
                place.insert(Held { peers, alive: 1 });
                None
            }
        }
    }

    /// Marks a communicator as freed. Operations that are still open may bring new peers; once none
    /// is, the groups of freed communicators are removed and returned.
    pub fn free(&mut self, id: CommId) -> Vec<Arc<Peers>> {
        if self.held.is_empty() {
            return Vec::new();
        }
        // Another thread may have removed a request and not counted it yet: then the groups are
        // freed the next time.
        let is_shared = REQUESTS.is_shared();
        let before = if is_shared { self.let_go() } else { Vec::new() };
        if let Some(held) = self.held.get_mut(&id) {
            held.alive = held.alive.saturating_sub(1);
        }
        if is_shared { before } else { self.let_go() }
    }

    fn let_go(&mut self) -> Vec<Arc<Peers>> {
        let is_open = || !REQUESTS.is_empty() || handles::may_bring_peers();
        let bytes = self.held.len() * size_of::<Arc<Peers>>();
        if self.held.values().all(|held| held.alive > 0) || is_open() || !memory::is_left(bytes) {
            return Vec::new();
        }
        self.held.extract_if(|_, held| held.alive == 0).map(|(_, held)| held.peers).collect()
    }

    /// The peers of a communicator.
    pub fn peers(&self, id: CommId) -> Option<Arc<Peers>> {
        self.held.get(&id).map(|held| held.peers.clone())
    }
}
