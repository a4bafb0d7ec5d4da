//! Names of communicators, equal on all members without a message between them.
//!
//! A name is `<parent's name>_<letter><n>[.<r>]`, after section III-A of the mpisee paper. All
//! members of a communicator make the same collective calls on it in the same order, so each counts
//! them, whether they succeed or not, and while recording is off, too: `n` is the ordinal of the
//! creating call on its parent. (The paper agrees on a number by an Allreduce, but a collective
//! that a rank enters on its own can hang a correct program.) `r`, the smallest parent rank of the
//! members, distinguishes communicators that one call made; it is known from the groups.
//!
//! `MPI_Comm_create_group`, `MPI_Comm_create_from_group`, `MPI_Intercomm_create` and connections
//! within one world are not collective over one parent. All members know their groups and, but for
//! connections, the tag: the name ends in a digest of these, `W_g1.0-5e1c09tz`, and `n` is the
//! ordinal of that very creation. Intercommunicators are below `W`, whatever their groups were made
//! of; `comms.csv` lists both.
//!
//! A member whose call bypasses the profiler does not count it, and its later names differ from the
//! other members'. A hash of the members is kept with each name, so that readers notice
//! ([`membership_sum`]).
//!
//! A program may create and free communicators without end, so the number of rows is bounded.
//! Communicators are alike if parent, creating call, tag and members in their order are the same:
//! then each member has been part of all of them. The first `MPISEE_ALIKE` have a row each. The
//! next one makes a row that all further ones share, `W_s1001+.0`. Threads may use communicators of
//! one row in any order, so ordinals below it mean nothing: their children have one row per letter,
//! `W_s1001+.0_d+`. Where members change with each call, or each communicator is made of the last
//! one, there is no bound on kinds, and new kinds share a row per parent and letter, `W_s+`, too.
//! The members of such a row differ, so its communicators have temporary numbers:
//! [`crate::storage::counters`] resolves each number, when a thread first sees it, to the slot of
//! the row, in which peers are world ranks.
//!
//! [`membership_sum`]: mpisee_profile::segment::membership::membership_sum

use crate::mpi::abi::Comm;
use crate::mpi::query;
use crate::mpi::topology;
use crate::state::communicator::COMMUNICATORS;
use crate::state::communicator::Communicator;
use crate::state::world::World;
use crate::storage::memory;
use mpisee_profile::comm_name::is_one_per_process;
use mpisee_profile::segment::hash::hash;
use mpisee_profile::segment::log::{Created, NONE, Runs};
use mpisee_profile::{CommId, CommRank, Operation};
use std::sync::Arc;

mod creation_kind;
mod duplication;
mod elided;
mod members;
mod membership;
pub mod nccl;
mod overhead;
mod row_sharing;

pub use creation_kind::CreationKind;
use creation_kind::TopologyFrom;
pub use duplication::{abandon_duplication, duplicated, start_duplication};
pub use membership::Groups;
use membership::smallest_rank_in;
use overhead::Naming;
use row_sharing::NewCommunicator;
pub use row_sharing::{ROWS, RowChoice};

/// Bytes that describing a communicator takes at most, beside those for its members.
const LEAST_BYTES: usize = 1 << 12;
/// Bytes that each member needs: the lists while they grow, and the record.
const BYTES_PER_MEMBER: usize = 32;

/// Ordinals of a creating call on its parent, from 1.
#[derive(Clone, Copy, Default)]
pub struct Ordinals {
    /// Among all creating calls.
    pub n: u32,
    /// Among those with the same letter.
    pub of_letter: u32,
}

/// A creating call that is numbered, and made next.
#[derive(Default)]
pub struct NumberedCreation {
    pub number: Ordinals,
    /// The parent's row and members, if it is in the log.
    parent: Option<(CommId, Arc<Groups>)>,
}

/// Numbers a creating call on `parent`, before it is made.
pub fn number(parent: &Communicator, kind: CreationKind) -> NumberedCreation {
    ROWS.number(parent.id, kind.letter)
}

/// Enters a communicator that a collective call on `parent` created.
pub fn enter(
    world: &World,
    comm: Comm,
    parent: &Communicator,
    kind: CreationKind,
    numbered: NumberedCreation,
) -> CommId {
    let _overhead = Naming::begin(world);
    match describe(world, comm, Some(parent), kind, numbered) {
        Some(described) => described.enter(world, None),
        None => enter_unseen(comm),
    }
}

/// Enters a communicator of which there is no memory to keep more.
fn enter_unseen(comm: Comm) -> CommId {
    COMMUNICATORS.insert(Communicator::new(CommId::NONE, comm, CommRank::FIRST, 0));
    CommId::NONE
}

/// Enters a communicator that is named by its members and a `tag`, which all of them know; it is
/// below `parent`, or has none.
pub fn enter_by_members(
    world: &World,
    comm: Comm,
    parent: Option<&Communicator>,
    kind: CreationKind,
    tag: &[u8],
) -> CommId {
    let _overhead = Naming::begin(world);
    match describe(world, comm, parent, kind, unnumbered(parent)) {
        Some(described) => described.named_by_members(tag).enter(world, None),
        None => enter_unseen(comm),
    }
}

/// Enters an intercommunicator made of `local` and, as the leaders know, over `peer`. It is below
/// `W`, named by the members of both groups and the `tag`.
pub fn enter_between(
    world: &World,
    comm: Comm,
    local: &Communicator,
    peer: Option<&Communicator>,
    tag: &[u8],
) -> CommId {
    let _overhead = Naming::begin(world);
    let kind = CreationKind::by(Operation::IntercommCreate);
    let Some(described) = describe(world, comm, Some(local), kind, unnumbered(Some(local))) else {
        return enter_unseen(comm);
    };
    let mut described = described.named_by_members(tag);
    described.new.created.peer = peer.and_then(|peer| ROWS.row_of(peer.id));
    described.enter(world, None)
}

/// A new communicator and its log record.
struct Described {
    communicator: Communicator,
    new: NewCommunicator,
    /// True if all of its ancestors are in the log.
    is_seen: bool,
}

impl Described {
    fn named_by_members(mut self, tag: &[u8]) -> Described {
        let NewCommunicator { created, members, .. } = &mut self.new;
        let has_parent = created.parent.is_some();
        if members.remote.is_some() {
            created.r = members.smallest();
            if has_parent {
                created.local = created.parent.replace(CommId::WORLD);
            }
        } else if !has_parent {
            created.r = members.smallest();
        }
        // 0 stands for none.
        created.code = hash(tag, members.hash).max(1);
        self
    }

    fn choose(&self, world: &World) -> RowChoice {
        if self.is_seen { ROWS.choose(world, &self.new) } else { RowChoice::Unseen }
    }

    /// Enters it into its row, which may be chosen already, and into the table.
    fn enter(self, world: &World, choice: Option<RowChoice>) -> CommId {
        let Described { mut communicator, mut new, is_seen } = self;
        if let Some(topology) = &mut new.topology {
            communicator = communicator.with_neighbours(std::mem::take(&mut topology.out_neighbours));
        }
        let choice = if is_seen { choice } else { Some(RowChoice::Unseen) };
        communicator.id = ROWS.enter(world, choice, new);
        COMMUNICATORS.insert(communicator);
        communicator.id
    }
}

/// A creation below `parent` that has no number.
fn unnumbered(parent: Option<&Communicator>) -> NumberedCreation {
    let parent = parent.and_then(|parent| ROWS.known(parent.id));
    NumberedCreation { number: Ordinals::default(), parent }
}

/// Describes a new communicator; `None` if there is no memory for that.
fn describe(
    world: &World,
    comm: Comm,
    parent: Option<&Communicator>,
    kind: CreationKind,
    numbered: NumberedCreation,
) -> Option<Described> {
    let members = if kind.is_inter(parent) { world.size } else { query::size(comm) };
    if !memory::is_left(LEAST_BYTES + BYTES_PER_MEMBER * members as usize) {
        return None;
    }
    let NumberedCreation { number, parent: parent_row } = numbered;
    let (parent_row, parent_members) = parent_row.unzip();
    let (members, rank) = match (parent, &parent_members, kind.topology) {
        // A duplicate has its parent's members in their order.
        (Some(parent), Some(members), TopologyFrom::Parent) => (members.clone(), parent.rank),
        _ => {
            let members = members_of(world, comm, kind.is_inter(parent), parent_members.as_ref());
            let rank = if members.is_single() { CommRank::FIRST } else { query::rank(comm) };
            (members, rank)
        }
    };
    let mut communicator = Communicator::new(CommId::NONE, comm, rank, members.own.len() as u32);
    communicator.remote_size = members.remote.as_ref().map_or(0, Runs::len) as u32;
    let topology_kind = match (kind.topology, parent) {
        (TopologyFrom::Call(kind), _) => Some(kind),
        (TopologyFrom::Parent, Some(parent)) => parent.topology,
        _ => None,
    };
    let topology = topology_kind.and_then(|kind| topology::read(comm, rank, kind));
    communicator.topology = topology_kind.filter(|_| topology.is_some());
    let r = match (parent, &parent_members) {
        // Of all members of the parent, in their order.
        (_, Some(parent_members)) if kind.several && Arc::ptr_eq(parent_members, &members) => {
            Some(CommRank::FIRST)
        }
        (Some(parent), Some(parent_members)) if kind.several => {
            smallest_rank_in(parent, parent_members, comm, &members)
        }
        _ => None,
    };
    let created = Created {
        parent: parent_row,
        letter: kind.letter,
        n: number.n,
        r,
        members: members.hash,
        operation: kind.operation.map_or(NONE, |operation| operation as u32),
        reorder: kind.reorder.map_or(NONE, u32::from),
        group: members.own.clone(),
        remote: members.remote.clone(),
        ..Created::with_world(CommId::WORLD, rank, Runs::default())
    };
    let is_seen = parent.is_none_or(Communicator::is_logged);
    let mut new = NewCommunicator { comm, kind, number, created, members, topology };
    new.elide(world.options.listed as usize);
    Some(Described { communicator, new, is_seen })
}

/// The members of a communicator.
///
/// PERF: all communicators of this process alone share one list, since a program may split off such
/// ones in a loop.
fn members_of(world: &World, comm: Comm, is_inter: bool, of_parent: Option<&Arc<Groups>>) -> Arc<Groups> {
    if is_inter || query::size(comm) != 1 {
        return Arc::new(Groups::from_communicator(world, comm, is_inter));
    }
    if let Some(members) = of_parent.filter(|members| members.is_single()) {
        return members.clone();
    }
    match ROWS.known(CommId::SELF) {
        Some((_, members)) if members.is_single() => members,
        _ => Arc::new(Groups::single(world)),
    }
}

/// Enters an intercommunicator that a collective call on `parent`, its own group, made with
/// processes that were spawned or connected to. Those of another world have a name of their own for
/// it; where both groups are of this world they have one.
pub fn enter_connection(
    world: &World,
    comm: Comm,
    parent: &Communicator,
    kind: CreationKind,
    numbered: NumberedCreation,
) -> CommId {
    let _overhead = Naming::begin(world);
    let Some(mut described) = describe(world, comm, Some(parent), kind, numbered) else {
        return enter_unseen(comm);
    };
    if !described.new.members.has_outsiders() {
        described.new.number = Ordinals::default();
        return described.named_by_members(&[]).enter(world, None);
    }
    // Each process has a communicator of the parent's name.
    let row = ROWS.row_of(parent.id).unwrap_or(CommId::WORLD);
    if is_one_per_process(&ROWS.name(&world.segment, row)) {
        described.new.created.r = described.new.members.smallest();
    }
    described.enter(world, None)
}

/// The intercommunicator with the processes that spawned this world, which comes with it. Its name
/// is `P`: the other side has one below the communicator that spawned, and cannot be queried for
/// it.
pub fn enter_parent(world: &World, comm: Comm) {
    let kind = CreationKind { letter: CreationKind::MET, ..CreationKind::WITH_WORLD };
    match describe(world, comm, None, kind, NumberedCreation::default()) {
        Some(described) => described.enter(world, None),
        None => enter_unseen(comm),
    };
}

/// Writes `MPI_COMM_WORLD` or `MPI_COMM_SELF` to the log.
pub fn log_predefined(world: &World, rank: CommRank, members: Runs) {
    let created = Created::with_world(CommId::WORLD, rank, members.clone());
    ROWS.enter_predefined(world, created, Groups::new(members, None));
}

#[cfg(test)]
mod tests;
