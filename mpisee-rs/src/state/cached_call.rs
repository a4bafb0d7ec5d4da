//! Calls as their thread counted them last.
//!
//! Programs repeat their calls: the same operation on the same communicator, often with the same
//! peer and messages of the same size. So each thread keeps what it needed for the last ones, in a
//! cache line each: who finds it need not look up the communicator nor the slot.

use crate::mpi::abi::{self, Comm, constant};
use crate::state::communicator::{CommShape, Communicator};
use crate::storage::hot::HOT;
use crate::storage::sync::own_value;
use mpisee_profile::rows::Memory;
use mpisee_profile::segment::layout::{Slot, call};
use mpisee_profile::segment::{SlotKey, active_call, awaited};
use mpisee_profile::{CommId, Operation};
use std::cell::Cell;
use std::ptr;

/// Calls that a thread keeps; one that falls on the place of another takes it.
pub const KEPT: usize = 256;

/// A call of an operation on a communicator. They are spread over the cache by their sites, and
/// those of sends and receives by their peers, so that each site and peer has its own as a rule.
/// Zeros are no call's.
#[repr(C, align(64))]
pub struct CachedCall {
    /// See [`crate::storage::hot::Hot::generation`], with the operation.
    generation: Cell<u64>,
    /// The communicator's handle.
    comm: Cell<u64>,
    /// The word that [`active_call`] gets, which has the communicator's number.
    pub active_call: Cell<u64>,
    /// The communicator's size and rank, as an address; of a call with a peer, the slot of the
    /// stream, see [`CachedCall::set_ends`].
    members: Cell<*const Slot>,
    /// The peer and the tag of the last message; without a peer, the size of the other group in
    /// place of the tag.
    ends: Cell<Envelope>,
    /// The key of the last call, of which size class and region may change.
    pub key: Cell<SlotKey>,
    /// The slot of that key.
    pub slot: Cell<*const Slot>,
    /// The slot of messages to and from the last peer; of a collective operation, see
    /// [`CachedCall::instances`].
    peer_slot: Cell<*const Slot>,
}

/// The other end of a message, and its tag: 32 bits each, so that one comparison is enough.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Envelope(u64);

impl Envelope {
    #[inline(always)]
    pub fn new(peer: i32, tag: i32) -> Envelope {
        Envelope(awaited::ends(peer, tag))
    }

    /// From any source, with any tag.
    pub fn any() -> Envelope {
        Envelope::new(constant::ANY_SOURCE, constant::ANY_TAG)
    }

    /// As the segment has it, see [`awaited`].
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub fn peer(self) -> i32 {
        (self.0 >> 32) as i32
    }

    #[inline(always)]
    pub fn tag(self) -> i32 {
        self.0 as i32
    }
}

const _: () = assert!(size_of::<CachedCall>() == 64);

/// Neither a rank or tag nor one of MPI's constants in place of one, as `MPI_PROC_NULL`.
const NONE: i32 = i32::MIN;

/// The index for an operation.
#[inline(always)]
fn index(operation: Operation, communicator: u32) -> usize {
    const { assert!(KEPT == 256) };
    let mixed = communicator.wrapping_mul(0x9e37_79b1) >> 24;
    mixed as usize ^ (operation as usize % KEPT)
}

impl CachedCall {
    /// Where a call is kept; `spread` sets apart those of one operation on a communicator.
    #[inline(always)]
    pub fn index(operation: Operation, comm: Comm, spread: i32) -> usize {
        index(operation, (abi::bits(comm) as u32).wrapping_add(spread as u32))
    }

    /// Where a call is kept that is known by the communicator's number.
    #[inline(always)]
    pub fn index_by_id(operation: Operation, communicator: CommId, spread: i32) -> usize {
        index(operation, communicator.get().wrapping_add(spread as u32))
    }

    /// Returns whether it is of this operation on the communicator that the handle stands for now.
    #[inline(always)]
    pub fn is_of(&self, generation: u64, operation: Operation, comm: Comm) -> bool {
        self.comm.get() == abi::bits(comm) && self.generation.get() == generation | operation as u64
    }

    /// Returns whether it is of this operation on this communicator, as a word of [`active_call`].
    #[inline(always)]
    pub fn is_call(&self, word: u64) -> bool {
        self.active_call.get() == word
    }

    /// Makes it that of an operation on a communicator.
    pub fn set(&self, generation: u64, operation: Operation, communicator: &Communicator) {
        self.set_by_id(operation, communicator.id);
        self.generation.set(generation | operation as u64);
        self.comm.set(abi::bits(communicator.comm));
        let members = u64::from(communicator.size) << 32 | u64::from(communicator.rank.get());
        self.members.set(ptr::without_provenance(members as usize));
        self.ends.set(Envelope::new(NONE, communicator.remote_size.cast_signed()));
    }

    /// Makes it that of an operation on the communicator of this number, to be found by it alone.
    pub fn set_by_id(&self, operation: Operation, communicator: CommId) {
        self.generation.set(0);
        self.active_call
            .set(active_call::pack(active_call::CurrentFunction::Operation(operation), communicator));
        self.ends.set(Envelope::new(NONE, NONE));
        self.key.set(SlotKey::of_no_size(communicator, operation));
        self.slot.set(ptr::null());
        self.peer_slot.set(ptr::null());
    }

    /// The communicator's number.
    #[inline(always)]
    pub fn id(&self) -> CommId {
        CommId::new(self.active_call.get() as u32)
    }

    /// The slot that counts the instances of a collective operation, which has no peer; null until
    /// it is found.
    #[inline(always)]
    pub fn instances(&self) -> &Cell<*const Slot> {
        &self.peer_slot
    }

    /// Returns whether its slot is that of a call without a message and buffers, in the current
    /// region, which returns to `caller`.
    pub fn counts(&self, caller: u64) -> bool {
        let key = self.key.get();
        // SAFETY: slots are never unmapped.
        let slot = unsafe { self.slot.get().as_ref() };
        key == key.of_next_call(HOT.region(), 0, Memory::Host)
            && slot.is_some_and(|slot| own_value(&slot.values[call::RETURNS_TO]) == caller)
    }

    /// The communicator's handle.
    #[inline(always)]
    pub fn comm(&self) -> Comm {
        abi::from_bits(self.comm.get())
    }

    /// The communicator's members, of a call without a peer.
    #[inline(always)]
    pub fn members(&self) -> CommShape {
        let members = self.members.get().addr() as u64;
        let rank = mpisee_profile::CommRank::new(members as u32);
        let remote_size = self.ends.get().tag().cast_unsigned();
        CommShape { comm: self.comm(), rank, size: (members >> 32) as u32, remote_size }
    }

    /// Returns whether `peer` is that of the last message.
    #[inline(always)]
    pub fn has_peer(&self, peer: i32) -> bool {
        self.ends.get().peer() == peer
    }

    /// Returns whether the last message had these ends.
    #[inline(always)]
    pub fn has_ends(&self, ends: Envelope) -> bool {
        self.ends.get() == ends
    }

    /// The slot of messages to and from the last peer.
    ///
    /// # Safety
    /// There is one: [`CachedCall::has_peer`] or [`CachedCall::has_ends`] is true.
    #[inline(always)]
    pub unsafe fn peer_slot(&self) -> &'static Slot {
        // SAFETY: `set_ends` and `set_peer` store the ends after the slot, and slots are never
        // unmapped.
        unsafe { &*self.peer_slot.get() }
    }

    /// The slot of the stream of the last message.
    ///
    /// # Safety
    /// There is one: [`CachedCall::has_ends`] is true.
    #[inline(always)]
    pub unsafe fn stream(&self) -> &'static Slot {
        // SAFETY: as for the peer; no message has the ends of a call without a stream.
        unsafe { &*self.members.get() }
    }

    /// Makes these the ends of the last message.
    pub fn set_ends(&self, ends: Envelope, peer: &'static Slot, stream: &'static Slot) {
        self.peer_slot.set(peer);
        self.members.set(stream);
        self.ends.set(ends);
    }

    /// Makes this the peer of the last message, of which no stream is known.
    pub fn set_peer(&self, peer: i32, slot: &'static Slot) {
        self.peer_slot.set(slot);
        self.ends.set(Envelope::new(peer, NONE));
    }
}
