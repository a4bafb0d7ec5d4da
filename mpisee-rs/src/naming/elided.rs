//! Member lists that do not compress into rank ranges.
//!
//! No process keeps such a list: it holds MPI's group, which has no further copy as long as the communicator lives, and
//! translates the rank of a peer when a thread first sees it. From then on the world rank is in the slot.

use super::{free_group, group_of, is_inter, world_rank_in};
use crate::abi::{Comm, Group};
use crate::meaning;
use crate::process::{Process, REQUESTS};
use mpisee_profile::segment::log::OUTSIDE;
use std::collections::HashMap;

/// The groups with whose processes those of each communicator communicate, by the number under which it is counted.
#[derive(Default)]
pub struct Elided {
    held: HashMap<u32, Held>,
}

struct Held {
    peers: Group,
    /// Communicators that the program has not freed. Those of one row have the same members.
    alive: u32,
}

// SAFETY: handles of MPI are names of the library's objects, never dereferenced here.
unsafe impl Send for Elided {}

impl Elided {
    /// A communicator came to be.
    pub fn enter(&mut self, number: u32, comm: Comm) {
        let held = self.held.entry(number);
        held.or_insert_with(|| Held { peers: group_of(comm, is_inter(comm)), alive: 0 }).alive += 1;
    }

    /// The program freed one. What it left open may still bring peers that were not met; where nothing is open, the groups
    /// of what was freed are let go.
    pub fn free(&mut self, number: u32) {
        if self.held.is_empty() {
            return;
        }
        // Another thread may have taken a request out and not counted it yet: then the next time is early enough.
        let is_shared = REQUESTS.is_shared();
        if is_shared {
            self.let_go();
        }
        if let Some(held) = self.held.get_mut(&number) {
            held.alive = held.alive.saturating_sub(1);
        }
        if !is_shared {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        let is_open = || !REQUESTS.is_empty() || meaning::may_bring_peers();
        if self.held.values().all(|held| held.alive > 0) || is_open() {
            return;
        }
        self.held.retain(|_, held| {
            if held.alive == 0 {
                free_group(held.peers);
            }
            held.alive > 0
        });
    }

    /// The rank in the world of a peer, or [`OUTSIDE`].
    pub fn world_rank(&self, process: &Process, number: u32, peer: u32) -> Option<u32> {
        let held = self.held.get(&number)?;
        let rank = world_rank_in(process, held.peers, i32::try_from(peer).ok()?);
        Some(u32::try_from(rank).unwrap_or(OUTSIDE))
    }
}
