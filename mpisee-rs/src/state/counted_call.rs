//! One call's contribution to the counters.

use mpisee_profile::rows::Memory;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::segment::{CallKey, OperationAtSite, SlotKey};
use mpisee_profile::{CommId, RegionId, Ticks};

/// One call as it goes into its slot.
#[derive(Clone, Copy)]
pub struct CountedCall {
    /// Key of the slot: communicator, region, operation and site, size class, kind of memory.
    pub key: SlotKey,
    /// Bytes that this process contributes.
    pub bytes: u64,
    pub ticks: Ticks,
}

impl CountedCall {
    /// A call on a communicator in a region, without buffers elsewhere than in memory of the host.
    #[inline]
    pub fn new(
        communicator: CommId,
        region: RegionId,
        operation: OperationAtSite,
        message: u64,
        bytes: u64,
        ticks: Ticks,
    ) -> Self {
        let size_class = size_class(message);
        let key = CallKey { communicator, region, operation, size_class, memory: Memory::Host }.pack();
        CountedCall { key, bytes, ticks }
    }

    /// The same call with buffers in that kind of memory.
    #[inline]
    pub fn in_memory(self, memory: Memory) -> Self {
        CountedCall { key: self.key.in_memory(memory), ..self }
    }

    /// Its communicator.
    #[inline]
    pub fn communicator(&self) -> CommId {
        self.key.communicator_of_call()
    }

    /// The same call in the size class of a message of `message` bytes, all contributed by this
    /// process; `None` if the class does not change.
    #[inline]
    pub fn reclassed(&self, message: u64) -> Option<CountedCall> {
        let key = self.key.with_size_class(size_class(message));
        (key != self.key).then_some(CountedCall { key, bytes: message, ..*self })
    }
}
