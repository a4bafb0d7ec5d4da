//! Names of NCCL's communicators, equal on all members without a message between them.
//!
//! A communicator that is made from unique ids is `N1-5e1c09tz`, by a digest of the ids, which all
//! members have. One of `ncclCommInitAll` is of this process alone, and its digest is of the
//! process and of how many it has made. All members call `ncclCommSplit` in the same order, so each
//! counts: `N1-5e1c09tz_s2.1` is the part of color 1 of the second split. (NCCL does not report the
//! members of a part, so that the smallest of them is unknown.) A call of `ncclCommShrink` is made
//! by those alone that stay, and named by who does not: `N1-5e1c09tz_k1-0123456z`.
//!
//! NCCL does not report who its ranks are in MPI either. Each process logs itself as a member, and
//! where profiles are collected the members are those that did.

use super::ROWS;
use super::overhead::Naming;
use crate::state::nccl::{Creation, NCCL};
use crate::state::world::World;
use mpisee_profile::segment::hash::hash;
use mpisee_profile::segment::log::{Created, Run, Runs};
use mpisee_profile::{CommId, CommRank, Operation};

/// Enters a communicator of `size` ranks, `rank` of which has this `handle` for it; returns its
/// number. The ranks of one process share it.
pub fn enter(world: &World, handle: u64, creation: Creation, rank: u32, size: u32) -> CommId {
    let _overhead = Naming::begin(world);
    let id = NCCL.row_of(creation, || ROWS.enter_foreign(world, created(world, creation, rank, size)));
    NCCL.insert(handle, id, rank, size);
    id
}

/// Ends the communicator with this handle; the last one of the process ends its row.
pub fn free(world: &World, handle: u64) {
    if let Some(id) = NCCL.remove(handle) {
        ROWS.free(&world.segment, id);
    }
}

fn created(world: &World, creation: Creation, rank: u32, size: u32) -> Created {
    let Creation { parent, letter, n, part, code, operation } = creation;
    let members = hash(&size.to_ne_bytes(), code);
    Created {
        parent,
        letter,
        n,
        r: part.map(CommRank::new),
        code,
        members,
        operation: operation as u32,
        group: Runs::from_runs([Run { first: world.rank.get(), count: size.max(1), stride: 0 }]),
        ..Created::with_world(CommId::WORLD, CommRank::new(rank), Runs::default())
    }
}

/// The creation of a communicator from unique ids.
pub fn from_ids(operation: Operation, ids: &[u8]) -> Creation {
    // 0 stands for none.
    let code = hash(ids, 0).max(1);
    Creation { parent: None, letter: b'u', n: 1, part: None, code, operation }
}

/// The creation of the `n`th that a process makes of its own devices.
pub fn from_devices(operation: Operation, world: &World, n: u32) -> Creation {
    let mut own = *b"ncclCommInitAll--------";
    own[15..19].copy_from_slice(&world.rank.get().to_le_bytes());
    own[19..].copy_from_slice(&n.to_le_bytes());
    from_ids(operation, &own)
}

/// The digest of the ranks that a call of `ncclCommShrink` leaves out.
pub fn of_excluded(ranks: &[i32]) -> u64 {
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    let bytes: Vec<u8> = ranks.iter().flat_map(|rank| rank.to_le_bytes()).collect();
    hash(&bytes, 0).max(1)
}
