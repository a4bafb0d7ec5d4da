//! Membership: which process reports a communicator, and a sum over all ranks that shows whether
//! each name stands for the same members everywhere.

use super::hash::hash;
use super::log::{Created, Runs};
use super::names::names;
use super::snapshot::{SharedRow, Snapshot};
use crate::comm_name::is_nccl;
use crate::{CommId, RankSet, WorldRank};

/// One process's share of a sum over all ranks that is 0, modulo 2^64, if every name stands for the
/// same communicator on all of them: each member adds a hash of name and members, and the member
/// that reports the communicator subtracts it once per member. Any other sum shows that names do
/// not belong together; 0 in spite of that is as likely as two equal hashes of 64 bits.
pub fn membership_sum(snapshot: &Snapshot) -> u64 {
    let names = names(snapshot);
    let all = snapshot.communicators.iter().zip(&names);
    // Names of NCCL's begin with a digest of their ids, and no process knows the others in them.
    let one_name = all.filter(|(communicator, name)| {
        communicator.created.letter != 0
            && communicator.shared_row != Some(SharedRow::Changing)
            && !is_nccl(name)
    });
    let terms = one_name.map(|(communicator, name)| {
        let created = &communicator.created;
        let term = hash(name.as_bytes(), created.members);
        let members = std::iter::once(&created.group).chain(&created.remote).map(insiders).sum();
        let counted = if reports(created, &RankSet::default()) { members } else { 0 };
        let made_of = if communicator.shared_row.is_none() { made_of_sum(created, name, &names) } else { 0 };
        term.wrapping_sub(term.wrapping_mul(counted)).wrapping_add(made_of)
    });
    terms.fold(0, u64::wrapping_add)
}

/// The share of an intercommunicator in [`membership_sum`] by what it was made of. Threads can make
/// several of the same groups and tag at a time; which is which shows by the local communicator,
/// the same on all of a group, and the peer communicator, the same at both leaders (MPI 4.1,
/// 7.6.2).
fn made_of_sum(created: &Created, name: &str, names: &[String]) -> u64 {
    let term = |id: Option<CommId>, role: &[u8]| {
        id.and_then(|id| names.get(id.index()))
            .map_or(0, |made_of| hash(made_of.as_bytes(), hash(role, hash(name.as_bytes(), 0))))
    };
    let local = term(created.local, b"local");
    let counted = if reports_side(created, &RankSet::default()) { insiders(&created.group) } else { 0 };
    // The leaders may be of several worlds.
    let groups = std::iter::once(&created.group).chain(&created.remote);
    let is_of_one_world = groups.map(Runs::outsiders).all(|outsiders| outsiders == 0);
    let peer = if is_of_one_world { term(created.peer, b"peer") } else { 0 };
    let is_lower = created.remote.as_ref().is_none_or(|remote| created.group.comes_before(remote));
    local.wrapping_sub(local.wrapping_mul(counted)).wrapping_add(if is_lower {
        peer
    } else {
        peer.wrapping_neg()
    })
}

/// The members of a group that are of this world.
fn insiders(group: &Runs) -> u64 {
    group.len() - u64::from(group.outsiders())
}

/// Returns whether this process reports the communicator: the first of this world does that is not
/// absent, on intercommunicators that of the group with the smallest world rank.
pub fn reports(created: &Created, absent: &RankSet) -> bool {
    let Created { group, remote, rank, .. } = created;
    // If members are elided, all of them report it, and this decides only which one counts what is
    // counted once.
    if absent.is_empty() || has_elided_members(created) {
        return group.first_insider() == Some(*rank)
            && remote.as_ref().is_none_or(|remote| group.comes_before(remote));
    }
    let is_there = |rank: &WorldRank| *rank != WorldRank::OUTSIDE && !absent.contains(rank.get());
    let there = |runs: &Runs| runs.iter().filter(is_there).collect::<Runs>();
    group.iter().position(|rank| is_there(&rank)) == Some(rank.index())
        && remote.as_ref().is_none_or(|remote| there(group).comes_before(&there(remote)))
}

/// Returns whether this process reports its side of an intercommunicator made of two communicators.
pub fn reports_side(created: &Created, absent: &RankSet) -> bool {
    created.local.is_some() && reports(&Created { remote: None, ..created.clone() }, absent)
}

/// Returns whether its members are elided.
pub fn has_elided_members(created: &Created) -> bool {
    std::iter::once(&created.group).chain(&created.remote).any(|group| group.elided() > 0)
}
