//! Members of a communicator: their world ranks, in its order.

use super::members::{self, Listed};
use crate::mpi::abi::{Comm, Group};
use crate::mpi::query::{free_group, group_of, size_of_group, translate};
use crate::state::communicator::Communicator;
use crate::state::world::World;
use mpisee_profile::segment::hash::Hash;
use mpisee_profile::segment::log::{Created, Runs};
use mpisee_profile::{CommRank, WorldRank};

/// The members of a communicator.
#[derive(Debug)]
pub struct Groups {
    /// The own group, in its order.
    pub own: Runs,
    /// The other group of an intercommunicator.
    pub remote: Option<Runs>,
    /// Hash of both groups, equal on all members of this world.
    pub hash: u64,
    /// True if the hash is that of all members in their order.
    pub is_exact: bool,
}

/// Comparisons that translating a list without order may take, in MPI libraries that compare each
/// member with each process of the world: some milliseconds.
const MOST_COMPARISONS: u64 = 1 << 22;

impl Groups {
    /// Of groups in their order.
    pub fn new(own: Runs, remote: Option<Runs>) -> Groups {
        let mut members = Groups { own, remote, hash: 0, is_exact: true };
        members.hash = members.hashed();
        members.is_exact = !members.is_elided();
        members
    }

    /// The same members in elided form, as they are logged.
    pub fn without_list(&self, logged: &Created) -> Groups {
        Groups { own: logged.group.clone(), remote: logged.remote.clone(), ..*self }
    }

    /// Of a communicator of this process alone.
    pub fn single(world: &World) -> Groups {
        Groups::new([world.rank].into_iter().collect(), None)
    }

    /// Of a communicator, by MPI's groups, without communication.
    pub fn from_communicator(world: &World, comm: Comm, is_inter: bool) -> Groups {
        let world_ranks = |remote: bool| {
            let group = group_of(comm, remote);
            let itself = (!remote).then_some(world.rank);
            let list = list(world, group, itself);
            free_group(group);
            list
        };
        Groups::new(world_ranks(false), is_inter.then(|| world_ranks(true)))
    }

    fn hashed(&self) -> u64 {
        let (first, second) = match &self.remote {
            Some(remote) if !self.own_comes_first() => (remote, Some(&self.own)),
            remote => (&self.own, remote.as_ref()),
        };
        let mut hash = Hash::new(0);
        add_group(&mut hash, first);
        second.into_iter().for_each(|second| add_group(&mut hash, second));
        hash.end()
    }

    fn groups(&self) -> impl Iterator<Item = &Runs> {
        std::iter::once(&self.own).chain(&self.remote)
    }

    /// Returns whether it is this process alone.
    pub fn is_single(&self) -> bool {
        self.remote.is_none() && self.own.len() == 1
    }

    /// Returns whether there are processes of other worlds.
    pub fn has_outsiders(&self) -> bool {
        self.groups().any(|group| group.outsiders() > 0)
    }

    /// Returns whether this process keeps no list of who is in it.
    pub fn is_elided(&self) -> bool {
        self.groups().any(|group| group.elided() > 0)
    }

    /// Returns whether the own group is the one with the smallest world rank; one of another world
    /// has none.
    pub fn own_comes_first(&self) -> bool {
        self.remote.as_ref().is_none_or(|remote| self.own.comes_before(remote))
    }

    /// The smallest rank of this world, as one in `MPI_COMM_WORLD`.
    pub fn smallest(&self) -> Option<CommRank> {
        self.groups().filter_map(Runs::min).min().map(WorldRank::in_world)
    }

    /// The group with the smallest world rank.
    fn first_group(&self) -> (&Runs, bool) {
        match &self.remote {
            Some(remote) if !self.own_comes_first() => (remote, true),
            _ => (&self.own, false),
        }
    }
}

/// Adds a group to the hash: its size, and its members in their order. Of elided members only the
/// first is added, the one rank that all members have.
fn add_group(hash: &mut Hash, group: &Runs) {
    hash.add(&group.len().to_le_bytes());
    if group.elided() > 0 {
        return hash.add(&group.get(CommRank::FIRST).unwrap_or(WorldRank::OUTSIDE).get().to_le_bytes());
    }
    group.words().for_each(|word| hash.add(&word.to_le_bytes()));
}

/// The world ranks of a group, of which `itself` may be one.
fn list(world: &World, group: Group, itself: Option<WorldRank>) -> Runs {
    let (size, world_size) = (size_of_group(group), world.size);
    let most_runs = world.options.listed as usize;
    match members::list(group, size, world.group, world_size, most_runs) {
        Listed::Runs(runs) => runs,
        Listed::Elided { size, first }
            if first != WorldRank::OUTSIDE && u64::from(size) * u64::from(world_size) > MOST_COMPARISONS =>
        {
            Runs::of_elided(size, first, itself)
        }
        Listed::Elided { .. } => {
            let mut members = Runs::default();
            translate(group, size, world.group, |rank| members.push(WorldRank::translated(rank)));
            members
        }
    }
}

/// The smallest rank, in the parent, of a communicator's members, equal on all of them. Below an
/// intercommunicator those members count that are in its group with the smallest world rank. Where
/// either list is elided and too long to be translated it is the rank of the first member.
pub fn smallest_rank_in(
    parent: &Communicator,
    parent_members: &Groups,
    comm: Comm,
    members: &Groups,
) -> Option<CommRank> {
    let (of_parent, is_remote) = parent_members.first_group();
    // The members of an intercommunicator's child that were in that group of the parent.
    let of_child = match &members.remote {
        Some(remote) if is_remote => remote,
        _ => &members.own,
    };
    if members.is_elided()
        || parent_members.is_elided()
        || members.has_outsiders()
        || parent_members.has_outsiders()
    {
        let is_elided = members.is_elided() || parent_members.is_elided();
        let child_remote = is_remote && members.remote.is_some();
        return smallest_translated(parent, comm, is_remote, child_remote, is_elided);
    }
    if of_parent.is_ascending() {
        let first = of_child.min();
        // Of a merged intercommunicator, only a part is in that group.
        if let Some(at) = first.and_then(|first| of_parent.position(first)) {
            return Some(at);
        }
    }
    let set = of_child.to_set();
    of_parent.iter().position(|rank| set.contains(rank.get())).map(|at| CommRank::new(at as u32))
}

/// The same by MPI's groups: of all members, or of the first alone.
fn smallest_translated(
    parent: &Communicator,
    comm: Comm,
    parent_remote: bool,
    child_remote: bool,
    first_alone: bool,
) -> Option<CommRank> {
    let group = group_of(comm, child_remote);
    let parent_group = group_of(parent.comm, parent_remote && parent.is_inter());
    let comparisons = u64::from(size_of_group(group)) * u64::from(size_of_group(parent_group));
    let size = if first_alone && comparisons > MOST_COMPARISONS { 1 } else { size_of_group(group) };
    let mut least: Option<CommRank> = None;
    translate(group, size, parent_group, |rank| {
        least = least.into_iter().chain(CommRank::from_mpi(rank)).min();
    });
    free_group(parent_group);
    free_group(group);
    least
}
