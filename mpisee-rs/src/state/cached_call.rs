//! Calls as their thread counted them last.
//!
//! Programs repeat their calls: the same operation on the same communicator, often with the same peer and messages of the
//! same size. So each thread keeps what it needed for the last ones, in a cache line each: who finds it need not look up the
//! communicator nor the slot.

use crate::mpi::abi::{self, Comm};
use crate::state::communicator::{Communicator, Members};
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::{Key, active_call};
use mpisee_profile::{CommId, Operation};
use std::cell::Cell;
use std::ptr;

/// Calls that a thread keeps; one that falls on the place of another takes it.
pub const KEPT: usize = 256;

/// A call of an operation on a communicator. Those of sends and receives are spread over the cache by their peers, so that
/// each peer has its own as a rule. Zeros are no call's.
#[repr(C, align(64))]
pub struct CachedCall {
    /// See [`crate::storage::hot::Hot::generation`], with the operation.
    generation: Cell<u64>,
    /// The communicator's handle.
    comm: Cell<u64>,
    /// The place that [`active_call`] gets, which has the communicator's number.
    pub place: Cell<u64>,
    rank: Cell<u32>,
    size: Cell<u32>,
    remote_size: Cell<u32>,
    /// The peer of `peer_slot`.
    pub peer: Cell<i32>,
    /// The key of the last call, of which size class and region may change.
    pub key: Cell<Key>,
    /// The slot of that key.
    pub slot: Cell<*const Slot>,
    /// The slot of messages to and from the last peer; of a collective operation, see [`CachedCall::instances`].
    pub peer_slot: Cell<*const Slot>,
}

const _: () = assert!(size_of::<CachedCall>() == 64);

/// Neither a rank nor one of MPI's constants in place of one, as `MPI_PROC_NULL`.
const NO_PEER: i32 = i32::MIN;

/// The index for an operation.
#[inline(always)]
fn index(operation: Operation, communicator: u32) -> usize {
    const { assert!(KEPT == 256) };
    let mixed = communicator.wrapping_mul(0x9e37_79b1) >> 24;
    mixed as usize ^ (operation as usize % KEPT)
}

impl CachedCall {
    /// Where a call is kept.
    #[inline(always)]
    pub fn index(operation: Operation, comm: Comm, spread: i32) -> usize {
        index(operation, (abi::bits(comm) as u32).wrapping_add(spread as u32))
    }

    /// Where a call is kept that is known by the communicator's number.
    #[inline(always)]
    pub fn index_by_id(operation: Operation, communicator: CommId) -> usize {
        index(operation, communicator.get())
    }

    /// Whether it is of this operation on the communicator that the handle stands for now.
    #[inline(always)]
    pub fn is_of(&self, generation: u64, operation: Operation, comm: Comm) -> bool {
        self.comm.get() == abi::bits(comm) && self.generation.get() == generation | operation as u64
    }

    /// Whether it is of the call at this place.
    #[inline(always)]
    pub fn is_at(&self, place: u64) -> bool {
        self.place.get() == place
    }

    /// Makes it that of an operation on a communicator.
    pub fn set(&self, generation: u64, operation: Operation, communicator: &Communicator) {
        self.set_by_id(operation, communicator.id);
        self.generation.set(generation | operation as u64);
        self.comm.set(abi::bits(communicator.comm));
        self.rank.set(communicator.rank.get());
        self.size.set(communicator.size);
        self.remote_size.set(communicator.remote_size);
    }

    /// Makes it that of an operation on the communicator of this number, to be found by it alone.
    pub fn set_by_id(&self, operation: Operation, communicator: CommId) {
        self.generation.set(0);
        self.place.set(active_call::pack(active_call::Call::Counted(operation), communicator));
        self.peer.set(NO_PEER);
        self.key.set(Key::of_no_size(communicator, operation as u16));
        self.slot.set(ptr::null());
        self.peer_slot.set(ptr::null());
    }

    /// The communicator's number.
    #[inline(always)]
    pub fn id(&self) -> CommId {
        CommId::new(self.place.get() as u32)
    }

    /// The slot that counts the instances of a collective operation, which has no peer; null until it is found.
    #[inline(always)]
    pub fn instances(&self) -> &Cell<*const Slot> {
        &self.peer_slot
    }

    /// The communicator's members.
    #[inline(always)]
    pub fn members(&self) -> Members {
        let rank = mpisee_profile::CommRank::new(self.rank.get());
        let comm = abi::from_bits(self.comm.get());
        Members { comm, rank, size: self.size.get(), remote_size: self.remote_size.get() }
    }
}
