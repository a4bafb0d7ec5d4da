//! Counts a call that is in the thread's cache: what repeats is counted without looking up its slot.

use super::{Recorder, add_call, add_received, add_sent};
use crate::state::cached_call::CachedCall;
use crate::state::call_sample::CallSample;
use crate::state::{thread, world};
use crate::storage::counters::{add, update};
use crate::storage::hot::HOT;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::segment::layout::{Slot, call};
use mpisee_profile::segment::{Key, PeerKey};
use mpisee_profile::{CommId, CommRank, Ticks};
use std::ffi::c_int;

/// A cached call of the calling thread, to count on.
#[derive(Clone, Copy)]
pub struct CachedCounter(pub &'static CachedCall);

impl CachedCounter {
    /// The communicator's number.
    #[inline(always)]
    pub fn id(&self) -> CommId {
        self.0.id()
    }

    /// The key of a call with a message of `message` bytes.
    #[inline(always)]
    pub fn key(&self, message: u64) -> Key {
        self.0.key.get().with_region_and_size_class(HOT.region(), size_class(message))
    }

    /// Counts a call with a message of `message` bytes of which this process contributes `bytes`; returns it as it was
    /// counted.
    #[inline(always)]
    pub fn count(&self, message: u64, bytes: u64, ticks: Ticks) -> CallSample {
        let key = self.key(message);
        if key == self.0.key.get() {
            // SAFETY: no message has the size class of a new entry's key, so that `count_elsewhere` has stored this one after
            // its slot; slots are never unmapped.
            add_call(unsafe { &*self.0.slot.get() }, bytes, ticks);
        } else {
            self.count_elsewhere(key, bytes, ticks);
        }
        CallSample { key, bytes, ticks }
    }

    /// Counts a message to `rank`, a rank of the communicator; none to `MPI_PROC_NULL`.
    #[inline(always)]
    pub fn sent(&self, rank: c_int, bytes: u64) {
        if rank == self.0.peer.get() {
            // SAFETY: no rank is that of a new entry, so that `find_peer` has stored this one after its slot.
            add_sent(unsafe { &*self.0.peer_slot.get() }, 1, bytes);
        } else {
            self.sent_elsewhere(rank, bytes);
        }
    }

    /// Counts a message from `rank`.
    #[inline(always)]
    pub fn received(&self, rank: c_int, bytes: u64) {
        if rank == self.0.peer.get() {
            // SAFETY: as in `sent`.
            add_received(unsafe { &*self.0.peer_slot.get() }, bytes);
        } else {
            self.received_elsewhere(rank, bytes);
        }
    }

    /// Adds bytes to a call that was counted. False if another key was counted here since.
    #[inline(always)]
    pub fn add_bytes(&self, sample: &CallSample, bytes: u64) -> bool {
        let is_same = self.0.key.get() == sample.key;
        if is_same {
            // SAFETY: as in `count`; the key of a sample is that of a message.
            update(unsafe { &*self.0.slot.get() }, |values| add(&values[call::BYTES], bytes));
        }
        is_same
    }

    /// Counts a call under another key than the last one's.
    #[cold]
    #[inline(never)]
    fn count_elsewhere(&self, key: Key, bytes: u64, ticks: Ticks) {
        if let Some(slot) = find(key) {
            self.0.slot.set(slot);
            self.0.key.set(key);
            add_call(slot, bytes, ticks);
        }
    }

    /// Counts a message to another peer than the last one.
    #[cold]
    #[inline(never)]
    fn sent_elsewhere(&self, rank: c_int, bytes: u64) {
        if let Some(slot) = self.find_peer(rank) {
            add_sent(slot, 1, bytes);
        }
    }

    /// Counts a message from another peer than the last one.
    #[cold]
    #[inline(never)]
    fn received_elsewhere(&self, rank: c_int, bytes: u64) {
        if let Some(slot) = self.find_peer(rank) {
            add_received(slot, bytes);
        }
    }

    /// The slot of messages to and from `rank`; none for `MPI_PROC_NULL`.
    fn find_peer(&self, rank: c_int) -> Option<&'static Slot> {
        let peer = CommRank::from_mpi(rank)?;
        let slot = find(PeerKey { communicator: self.id(), peer }.pack())?;
        self.0.peer_slot.set(slot);
        self.0.peer.set(rank);
        Some(slot)
    }
}

/// The slot of a key, by the thread's index.
fn find(key: Key) -> Option<&'static Slot> {
    rarely(|recorder| recorder.slot(key))?
}

/// Runs recording code that is rare, and may panic.
#[cold]
pub fn rarely<R>(note: impl FnOnce(&Recorder) -> R) -> Option<R> {
    let (thread, world) = (thread::own()?, world::world()?);
    world::guarded(|| note(&Recorder { thread, world }))
}
