//! Counts a call that is in the thread's cache: what repeats is counted without looking up its
//! slot.

use super::paths;
use super::streams::{self, NumberedMessage};
use super::{Recorder, add_call, add_received, add_sent};
use crate::mpi::abi::constant;
use crate::state::cached_call::{CachedCall, Envelope};
use crate::state::communicator::COMMUNICATORS;
use crate::state::counted_call::CountedCall;
use crate::state::gpu::memory_kind;
use crate::state::order;
use crate::state::sites::{self, SITES};
use crate::state::{thread, world};
use crate::storage::counters::{add, update};
use crate::storage::frame;
use crate::storage::hot::HOT;
use crate::storage::sync::own_value;
use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::segment::layout::{Slot, call};
use mpisee_profile::segment::order::StepKind;
use mpisee_profile::segment::{PeerKey, SlotKey, active_call};
use mpisee_profile::{CommId, CommRank, Ticks};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

/// A cached call of the calling thread, to count on.
#[derive(Clone, Copy)]
pub struct CachedCounter(pub &'static CachedCall);

impl CachedCounter {
    /// The communicator's number.
    #[inline(always)]
    pub fn id(self) -> CommId {
        self.0.id()
    }

    /// The key of the call in progress, with a message of `message` bytes of which it counts
    /// `bytes`. To be taken once a call, as its memory is ([`memory_kind::take_memory`]).
    #[inline(always)]
    pub fn key(self, message: u64, bytes: u64) -> SlotKey {
        let memory = memory_kind::take_memory(|| self.0.active_call.get(), message, bytes);
        self.0.key.get().of_next_call(HOT.region(), size_class(message), memory)
    }

    /// Counts a call with a message of `message` bytes of which this process contributes `bytes`,
    /// which returns to `caller`; returns it as it was counted.
    #[inline(always)]
    pub fn count(self, message: u64, bytes: u64, ticks: Ticks, caller: u64) -> CountedCall {
        let key = self.key(message, bytes);
        if key == self.0.key.get() {
            // SAFETY: no message has the size class of a new entry's key, so that `count_elsewhere`
            // has stored this one after its slot; slots are never unmapped.
            let slot = unsafe { &*self.0.slot.get() };
            if own_value(&slot.values[call::RETURNS_TO]) == caller {
                add_call(slot, bytes, ticks);
                if HOT.is_slow(ticks) {
                    self.slow(bytes, ticks, frame::pointer());
                }
                return CountedCall { key, bytes, ticks };
            }
        }
        CountedCall { key: self.count_elsewhere(key, bytes, ticks, caller, frame::pointer()), bytes, ticks }
    }

    /// Counts a message to a rank of the communicator; none to `MPI_PROC_NULL`. Returns it if it
    /// may be one to keep.
    #[inline(always)]
    pub fn sent(self, to: Envelope, bytes: u64) -> Option<NumberedMessage> {
        let (peer, stream) = self.slots(to, MessageEnd::Sent, Some(bytes))?;
        add_sent(peer, 1, bytes);
        NumberedMessage::count(stream)
    }

    /// Counts a message that a blocking receive got.
    #[inline(always)]
    pub fn received(self, from: Envelope, bytes: u64) -> Option<NumberedMessage> {
        let (peer, stream) = self.slots(from, MessageEnd::Received, Some(bytes))?;
        add_received(peer, bytes);
        NumberedMessage::count(stream)
    }

    /// Counts a message in its stream alone: one that is to be received, or that is not recorded.
    #[inline(always)]
    pub fn posted(self, ends: Envelope, end: MessageEnd) -> Option<NumberedMessage> {
        let (_, stream) = self.slots(ends, end, None)?;
        NumberedMessage::count(stream)
    }

    /// Counts the message of a receive that was posted before.
    #[inline(always)]
    pub fn arrived(self, source: c_int, bytes: u64) {
        if self.0.has_peer(source) {
            // SAFETY: `has_peer` is true, and `set_ends` and `set_peer` store the slot before the
            // peer.
            add_received(unsafe { self.0.peer_slot() }, bytes);
        } else {
            self.arrived_from_another(source, bytes);
        }
    }

    /// The slots of the peer and of the stream of a message, which counts with these bytes;
    /// `None` of one that was only posted.
    #[inline(always)]
    fn slots(
        self,
        ends: Envelope,
        end: MessageEnd,
        bytes: Option<u64>,
    ) -> Option<(&'static Slot, &'static Slot)> {
        if self.0.has_ends(ends) {
            // SAFETY: `set_ends` has stored both slots before it has the ends.
            return Some(unsafe { (self.0.peer_slot(), self.0.stream()) });
        }
        self.find_ends(ends, end, bytes)
    }

    /// Adds bytes to a call that was counted. False if another key was counted here since.
    #[inline(always)]
    pub fn add_bytes(self, counted: &CountedCall, bytes: u64) -> bool {
        let is_same = self.0.key.get() == counted.key;
        if is_same {
            // SAFETY: as in `count`: the key of a counted call has a size class, which that of a
            // new entry has not, so that `count_elsewhere` has stored the slot of this key.
            update(unsafe { &*self.0.slot.get() }, |values| add(&values[call::BYTES], bytes));
        }
        is_same
    }

    /// Counts a call under another key than the last one's, or at another site, and returns its
    /// key.
    #[cold]
    #[inline(never)]
    fn count_elsewhere(self, key: SlotKey, bytes: u64, ticks: Ticks, caller: u64, pointer: u64) -> SlotKey {
        let found = rarely(|recorder| {
            let Some(active_call::CurrentFunction::Operation(operation)) =
                active_call::call_of(self.0.active_call.get())
            else {
                return (key, None);
            };
            let key = key.with_operation(SITES.at_site(recorder.world, operation, caller));
            (key, recorder.slot(key))
        });
        let (key, slot) = found.unwrap_or((key, None));
        if let Some(slot) = slot {
            slot.values[call::RETURNS_TO].store(caller, Ordering::Relaxed);
            self.0.slot.set(slot);
            self.0.key.set(key);
            add_call(slot, bytes, ticks);
            if HOT.is_slow(ticks) {
                self.slow(bytes, ticks, pointer);
            }
        }
        key
    }

    /// Takes the path of a call that was slow, and notes each where the order is kept; `pointer` is
    /// the frame pointer of a function of the library that the call went through.
    #[cold]
    #[inline(never)]
    fn slow(self, bytes: u64, ticks: Ticks, pointer: u64) {
        if order::is_on() {
            // SAFETY: a call was counted in it, and slots are never unmapped.
            let slot = unsafe { &*self.0.slot.get() };
            rarely(|recorder| {
                order::note_call(&recorder.thread.order, recorder.thread.active_call, slot, bytes, ticks)
            });
        }
        if order::is_slow(ticks) {
            self.keep_path(ticks, pointer);
        }
    }

    fn keep_path(self, ticks: Ticks, pointer: u64) {
        let Some(active_call::CurrentFunction::Operation(operation)) =
            active_call::call_of(self.0.active_call.get())
        else {
            return;
        };
        // SAFETY: the export reads its frame pointer, and returns after this function.
        if let Some(export) = unsafe { sites::export_frame(pointer) } {
            rarely(|recorder| paths::slow_call(recorder, self.id(), operation, ticks, &export));
        }
    }

    /// Counts a message from another peer than the last one.
    #[cold]
    #[inline(never)]
    fn arrived_from_another(self, source: c_int, bytes: u64) {
        let Some(peer) = CommRank::from_mpi(source) else { return };
        if let Some(slot) = find(PeerKey { communicator: self.id(), peer }.pack()) {
            self.0.set_peer(source, slot);
            add_received(slot, bytes);
        }
    }

    /// The slots of the peer and of the stream of a message whose ends are not those of the last
    /// one; none for `MPI_PROC_NULL`.
    #[cold]
    #[inline(never)]
    fn find_ends(
        self,
        ends: Envelope,
        end: MessageEnd,
        bytes: Option<u64>,
    ) -> Option<(&'static Slot, &'static Slot)> {
        if ends.peer() == constant::PROC_NULL {
            return None;
        }
        if end == MessageEnd::Received && streams::is_wildcard(ends) {
            self.unorder(ends);
            return None;
        }
        let peer = CommRank::from_mpi(ends.peer())?;
        let slots = rarely(|recorder| {
            let peer_slot = recorder.slot(PeerKey { communicator: self.id(), peer }.pack())?;
            let communicator = COMMUNICATORS.get(self.0.comm());
            let stream = communicator.map_or(&streams::NOT_KEPT, |communicator| {
                streams::find(recorder, &communicator, end, peer, ends.tag())
            });
            Some((peer_slot, stream))
        });
        let (peer_slot, stream) = slots.flatten()?;
        if !order::is_on() {
            self.0.set_ends(ends, peer_slot, stream);
        } else if let Some(bytes) = bytes {
            // The next one comes here, too.
            let kind = if end == MessageEnd::Sent { StepKind::Sent } else { StepKind::Received };
            rarely(|recorder| order::note(&recorder.thread.order, kind, peer_slot, bytes, ends.tag()));
        }
        Some((peer_slot, stream))
    }

    /// A receive that was posted may take messages of several streams.
    fn unorder(self, ends: Envelope) {
        let peer = CommRank::from_mpi(ends.peer());
        rarely(|_| streams::unorder(self.id(), MessageEnd::Received, ends));
        let peer_slot = match peer {
            Some(peer) => find(PeerKey { communicator: self.id(), peer }.pack()),
            // No message comes from there.
            None => Some(&streams::NOT_KEPT),
        };
        if let Some(peer_slot) = peer_slot {
            // PERF: the next such one need not come here.
            self.0.set_ends(ends, peer_slot, &streams::NOT_KEPT);
        }
    }
}

/// The slot of a key, by the thread's index.
fn find(key: SlotKey) -> Option<&'static Slot> {
    rarely(|recorder| recorder.slot(key))?
}

/// Runs recording code that is rare, and may panic.
#[cold]
pub fn rarely<R>(note: impl FnOnce(&Recorder) -> R) -> Option<R> {
    let (thread, world) = (thread::own()?, world::world()?);
    world::guarded(|| note(&Recorder { thread, world, export: None }))
}
