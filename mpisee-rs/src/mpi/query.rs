//! Queries to MPI about communicators and groups, and about itself, without communication.

use super::abi::{Comm, Group, Raw, constant};
use crate::generated::pmpi;
use mpisee_profile::{CommRank, WorldRank};
use std::ffi::{CStr, c_int};

/// The text of `MPI_Get_library_version`, which may have several lines.
pub fn library_text() -> String {
    // The longest MPI_MAX_LIBRARY_VERSION_STRING of all: the MPI that runs need not be the
    // flavour's.
    let mut text = vec![0u8; 8192 + 1];
    let mut length = 0;
    // SAFETY: the buffer is as long as any MPI needs.
    unsafe { pmpi::MPI_Get_library_version.get()(text.as_mut_ptr().cast(), &raw mut length) };
    CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
}

/// The rank in a communicator.
pub fn rank(comm: Comm) -> CommRank {
    let mut rank = 0;
    // SAFETY: the communicator is valid, `rank` is written by the call.
    unsafe { pmpi::MPI_Comm_rank.get()(Raw::new(comm), &raw mut rank) };
    CommRank::new(rank as u32)
}

/// The size of a communicator, or of the local group of an intercommunicator.
pub fn size(comm: Comm) -> u32 {
    let mut size = 0;
    // SAFETY: the communicator is valid, `size` is written by the call.
    unsafe { pmpi::MPI_Comm_size.get()(Raw::new(comm), &raw mut size) };
    size as u32
}

/// Returns whether a communicator has two groups.
pub fn is_inter(comm: Comm) -> bool {
    let mut flag = 0;
    // SAFETY: the communicator is valid, the flag is written.
    unsafe { pmpi::MPI_Comm_test_inter.get()(Raw::new(comm), &raw mut flag) };
    flag != 0
}

/// The group of a communicator, or the other one of an intercommunicator.
pub fn group_of(comm: Comm, remote: bool) -> Group {
    let mut group = std::mem::MaybeUninit::<Group>::uninit();
    let ask = if remote { pmpi::MPI_Comm_remote_group.get() } else { pmpi::MPI_Comm_group.get() };
    // SAFETY: the communicator is valid, and has a remote group if that is wanted; the call writes
    // the handle.
    unsafe {
        ask(Raw::new(comm), group.as_mut_ptr());
        group.assume_init()
    }
}

/// Gives a group back to MPI.
pub fn free_group(mut group: Group) {
    // SAFETY: the group is ours.
    unsafe { pmpi::MPI_Group_free.get()(&raw mut group) };
}

/// Ranks translated at a time.
const BLOCK: usize = 256;

/// Calls `take` with each rank of `group`, translated to `target`; negative where it is no member.
pub fn translate(group: Group, size: u32, target: Group, mut take: impl FnMut(c_int)) {
    let mut from = [0; BLOCK];
    let mut to = [0; BLOCK];
    for first in (0..size).step_by(BLOCK) {
        let count = BLOCK.min((size - first) as usize);
        from[..count].iter_mut().zip(first..).for_each(|(place, rank)| *place = rank as c_int);
        let (ranks, translated) = (from.as_ptr(), to.as_mut_ptr());
        // SAFETY: `count` ranks of the group are read, as many written.
        let code = unsafe {
            pmpi::MPI_Group_translate_ranks.get()(
                Raw::new(group),
                count as c_int,
                ranks,
                Raw::new(target),
                translated,
            )
        };
        if code != constant::SUCCESS {
            to.fill(constant::UNDEFINED);
        }
        to[..count].iter().for_each(|&rank| take(rank));
    }
}

/// The number of processes of a group.
pub fn size_of_group(group: Group) -> u32 {
    let mut size = 0;
    // SAFETY: the group is valid, the size is written.
    unsafe { pmpi::MPI_Group_size.get()(Raw::new(group), &raw mut size) };
    size as u32
}

/// The rank in the group `world` of a member of `group`.
pub fn rank_in_world(group: Group, member: CommRank, world: Group) -> WorldRank {
    let (rank, mut translated) = (member.to_mpi(), constant::UNDEFINED);
    let (from, to) = (&raw const rank, &raw mut translated);
    // SAFETY: one rank of the group is read, one is written; both groups are valid.
    unsafe {
        let translate = pmpi::MPI_Group_translate_ranks.get();
        translate(Raw::new(group), 1, from, Raw::new(world), to)
    };
    WorldRank::translated(translated)
}

/// The own rank in a group, and its size.
pub fn rank_in(group: Group) -> (u32, u32) {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: the group is valid; both numbers are written.
    unsafe {
        pmpi::MPI_Group_rank.get()(Raw::new(group), &raw mut rank);
        pmpi::MPI_Group_size.get()(Raw::new(group), &raw mut size);
    }
    (rank as u32, size as u32)
}
