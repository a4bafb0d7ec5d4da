//! The volume of a collective call: the lower bound of mpisee's appendix, of which each process
//! records its part, so that the parts add up to the bound (the table is in
//! docs/explanation/bytes-and-times.md).

use crate::mpi::abi::{Datatype, IN_PLACE, Raw, constant};
use crate::mpi::argument::HandlePtr;
use crate::state::communicator::{COMMUNICATORS, CommShape};
use crate::state::datatype;
use mpisee_profile::CommRank;
use std::ffi::{c_int, c_void};

/// Bytes of a collective call.
#[derive(Clone, Copy)]
pub struct Volume {
    /// Size of the message, which determines the size class.
    pub message: u64,
    /// The bytes that this process contributes to the bound.
    pub bytes: u64,
    /// The rank of the root, where there is one in the communicator.
    pub root: Option<u32>,
    /// True if this process sends nothing to another one, or gets nothing from it, in a call in
    /// which others exchange something: on whom it depends is not known, so that the call says
    /// nothing about waits.
    pub is_sparse: bool,
}

impl Volume {
    /// Nothing is communicated.
    pub const NOTHING: Volume = Volume { message: 0, bytes: 0, root: None, is_sparse: false };

    fn rooted(self, root: c_int) -> Volume {
        Volume { root: u32::try_from(root).ok(), ..self }
    }
}

/// The same number for both.
fn plain(bytes: u64) -> Volume {
    Volume { message: bytes, bytes, ..Volume::NOTHING }
}

/// A message of which this process contributes nothing.
fn contributes_nothing(message: u64) -> Volume {
    Volume { message, ..Volume::NOTHING }
}

/// A count: `int`, or `MPI_Count` in the large-count variants.
pub trait CountArgument: Copy {
    /// The count; an invalid negative one is none.
    fn number(self) -> u64;
}

impl CountArgument for c_int {
    #[inline]
    fn number(self) -> u64 {
        u64::try_from(self).unwrap_or(0)
    }
}

impl CountArgument for i64 {
    #[inline]
    fn number(self) -> u64 {
        u64::try_from(self).unwrap_or(0)
    }
}

/// The blocks that one side of a call sends or receives.
pub trait Part {
    /// The block at place `at` of the arrays: that of the process of this rank, or of a neighbour.
    ///
    /// # Safety
    /// The arrays of the call have an element for each process of the group.
    unsafe fn block(&self, at: u32) -> u64;

    /// The blocks of `count` processes together.
    ///
    /// # Safety
    /// As for [`Part::block`].
    unsafe fn sum(&self, count: u32) -> u64 {
        // SAFETY: the arrays have an element for each of the `count` processes.
        (0..count).map(|at| unsafe { self.block(at) }).sum()
    }

    /// Returns whether some block of `count` processes, other than that of `own`, is of nothing.
    ///
    /// # Safety
    /// As for [`Part::block`].
    unsafe fn has_empty(&self, _count: u32, _own: u32) -> bool {
        false
    }
}

/// Returns whether some of `count` counts, other than that at `own`, is zero.
///
/// # Safety
/// There are as many.
unsafe fn has_zero<C: CountArgument>(counts: *const C, count: u32, own: u32) -> bool {
    // SAFETY: there are as many counts.
    (0..count).any(|at| at != own && unsafe { *counts.add(at as usize) }.number() == 0)
}

/// `count * datatype`: the same for every process.
#[derive(Clone, Copy)]
pub struct Block<C>(pub C, pub Raw<Datatype>);

impl<C: CountArgument> Block<C> {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        datatype::bytes(self.0.number(), self.1)
    }
}

impl<C: CountArgument> Part for Block<C> {
    unsafe fn block(&self, _at: u32) -> u64 {
        self.bytes()
    }

    unsafe fn sum(&self, count: u32) -> u64 {
        self.bytes().wrapping_mul(u64::from(count))
    }
}

/// `counts * datatype`: a count for each process.
#[derive(Clone, Copy)]
pub struct Blocks<C>(pub *const C, pub Raw<Datatype>);

impl<C: CountArgument> Part for Blocks<C> {
    unsafe fn block(&self, at: u32) -> u64 {
        // SAFETY: the counts have an element for each process, of which `at` is one.
        let count = unsafe { *self.0.add(at as usize) };
        datatype::bytes(count.number(), self.1)
    }

    unsafe fn has_empty(&self, count: u32, own: u32) -> bool {
        // SAFETY: the counts have an element for each process.
        unsafe { has_zero(self.0, count, own) }
    }
}

/// `counts * datatypes`: a count and a datatype for each process.
#[derive(Clone, Copy)]
pub struct TypedBlocks<C>(pub *const C, pub HandlePtr<Datatype>);

impl<C: CountArgument> Part for TypedBlocks<C> {
    unsafe fn block(&self, at: u32) -> u64 {
        // SAFETY: both arrays have an element for each process, of which `at` is one.
        let (count, datatype) = unsafe { (*self.0.add(at as usize), self.1.at(at as usize).handle()) };
        datatype::bytes(count.number(), Raw::new(datatype))
    }

    unsafe fn has_empty(&self, count: u32, own: u32) -> bool {
        // SAFETY: the counts have an element for each process.
        unsafe { has_zero(self.0, count, own) }
    }
}

/// Returns whether this process is the root, or another process of the root's group, in a rooted
/// operation on an intercommunicator (MPI 4.1, 6.2.3).
fn is_root_or_bystander(comm: &CommShape, root: c_int) -> bool {
    comm.is_inter() && (root == constant::ROOT || root == constant::PROC_NULL)
}

/// Nothing is communicated: a barrier.
///
/// # Safety
/// None is needed; the shims call all rules alike.
pub unsafe fn nothing(_comm: &CommShape) -> Volume {
    Volume::NOTHING
}

/// Bcast: every process but the root gets `block`.
///
/// # Safety
/// The arguments are those of a call that succeeded; so for every rule below.
pub unsafe fn broadcast<C: CountArgument>(comm: &CommShape, block: Block<C>, root: c_int) -> Volume {
    let gives = if comm.is_inter() { root == constant::ROOT } else { root == comm.rank.to_mpi() };
    let volume = match root {
        constant::PROC_NULL if comm.is_inter() => Volume::NOTHING,
        _ if gives => contributes_nothing(block.bytes()),
        _ => plain(block.bytes()),
    };
    volume.rooted(root)
}

/// Gather and Gatherv: what this process contributes.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn gather(
    comm: &CommShape,
    sendbuf: *const c_void,
    send: impl Part,
    recv: impl Part,
    root: c_int,
) -> Volume {
    if is_root_or_bystander(comm, root) {
        return Volume::NOTHING;
    }
    // SAFETY: the receive side is significant at the root, which is where IN_PLACE may stand.
    unsafe { allgather(comm, sendbuf, send, recv) }.rooted(root)
}

/// Allgather and Allgatherv: what this process contributes.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn allgather(
    comm: &CommShape,
    sendbuf: *const c_void,
    send: impl Part,
    recv: impl Part,
) -> Volume {
    // SAFETY: a call that succeeded has a block for each process.
    plain(unsafe {
        if sendbuf == IN_PLACE { recv.block(comm.rank.get()) } else { send.block(comm.rank.get()) }
    })
}

/// Scatter and Scatterv: the block that this process gets.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn scatter(
    comm: &CommShape,
    recvbuf: *const c_void,
    send: impl Part,
    recv: impl Part,
    root: c_int,
) -> Volume {
    if is_root_or_bystander(comm, root) {
        return Volume::NOTHING;
    }
    // SAFETY: the send side is significant at the root, which is where IN_PLACE may stand.
    let own = unsafe {
        if recvbuf == IN_PLACE { send.block(comm.rank.get()) } else { recv.block(comm.rank.get()) }
    };
    plain(own).rooted(root)
}

/// Alltoall, Alltoallv and Alltoallw: what this process sends to all.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn alltoall(comm: &CommShape, sendbuf: *const c_void, send: impl Part, recv: impl Part) -> Volume {
    let partners = if comm.is_inter() { comm.remote_size } else { comm.size };
    let own = if comm.is_inter() { partners } else { comm.rank.get() };
    // SAFETY: a call that succeeded has a block for each process; with `IN_PLACE` the send side is
    // not read.
    let (bytes, is_sparse) = unsafe {
        match sendbuf == IN_PLACE {
            true => (recv.sum(partners), recv.has_empty(partners, own)),
            false => (send.sum(partners), send.has_empty(partners, own) || recv.has_empty(partners, own)),
        }
    };
    Volume { is_sparse, ..plain(bytes) }
}

/// Reduce: what this process contributes.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn reduce<C: CountArgument>(comm: &CommShape, block: Block<C>, root: c_int) -> Volume {
    if is_root_or_bystander(comm, root) { Volume::NOTHING } else { plain(block.bytes()).rooted(root) }
}

/// Allreduce, Reduce_scatter_block: `block` on every process.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn every_process<C: CountArgument>(_comm: &CommShape, block: Block<C>) -> Volume {
    plain(block.bytes())
}

/// Reduce_scatter: the block that this process gets.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn own_block(comm: &CommShape, blocks: impl Part) -> Volume {
    // SAFETY: a call that succeeded has a block for each process.
    plain(unsafe { blocks.block(comm.rank.get()) })
}

/// Scan and Exscan: `block` on every process but the first.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn scan<C: CountArgument>(comm: &CommShape, block: Block<C>) -> Volume {
    if comm.rank == CommRank::FIRST { contributes_nothing(block.bytes()) } else { plain(block.bytes()) }
}

/// Neighbourhood collectives: what goes to the out-neighbours that are processes.
///
/// # Safety
/// See [`broadcast`].
pub unsafe fn neighbours(comm: &CommShape, send: impl Part) -> Volume {
    let Some(communicator) = COMMUNICATORS.get(comm.comm) else { return plain(0) };
    let neighbours = communicator.out_neighbours().iter().zip(0..);
    // SAFETY: a call that succeeded has a block for each neighbour, `MPI_PROC_NULL` among them.
    plain(neighbours.filter(|(exists, _)| **exists).map(|(_, at)| unsafe { send.block(at) }).sum())
}
