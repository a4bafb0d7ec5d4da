//! The key of a slot: what it counts, packed into one word.

use crate::rows::Memory;
use crate::{CommId, CommRank, Operation, RegionId};

const CALL: u64 = 1;
const PEER: u64 = 2;
const REGION: u64 = 3;
/// With the tag of a region: the key counts communicators of one row.
const SHARED_ROW: u64 = 1 << 32;
/// With the tag of a region: the key counts instances of a collective operation.
const INSTANCES: u64 = 1 << 61;
/// With the tag of a region: the key counts the messages of a stream.
const STREAM: u64 = 1 << 60;
/// With the tag of a region: the key counts calls of a call path.
const PATH: u64 = 1 << 59;
/// With the tag of a region: the key has the values of one of MPI's variables in a region.
const VARIABLE: u64 = 1 << 58;
/// With the tag of a region: the key counts the recorded messages of a stream, where recording was
/// switched.
const RECORDED: u64 = 1 << 57;
/// With the tag of a region: the key has the time that calls of NCCL took on the GPU.
const GPU_TIME: u64 = 1 << 56;
/// With the tag of a region: the key has the error of the time of polls.
const POLL_ERROR: u64 = 1 << 55;
const POLL_ERROR_REGION_SHIFT: u32 = OperationAtSite::BITS;
const POLL_ERROR_COMM_SHIFT: u32 = POLL_ERROR_REGION_SHIFT + RegionId::BITS;
const VARIABLE_SHIFT: u32 = 16;
const PATH_SHIFT: u32 = CommId::BITS + OPERATION_BITS;
const GPU_TIME_REGION_SHIFT: u32 = SIZE_CLASS_BITS;
const GPU_TIME_COMM_SHIFT: u32 = GPU_TIME_REGION_SHIFT + RegionId::BITS;
const GPU_TIME_OPERATION_SHIFT: u32 = GPU_TIME_COMM_SHIFT + CommId::BITS;
const REQUEST_SHIFT: u32 = 38;
const REQUEST_BITS: u32 = 22;
const ONE_SIDED_SHIFT: u32 = 32 + CommId::BITS;
const TAG_SHIFT: u32 = 62;
const COMMUNICATOR_SHIFT: u32 = REGION_SHIFT + RegionId::BITS;
const REGION_SHIFT: u32 = AT_SITE_SHIFT + OperationAtSite::BITS;
const AT_SITE_SHIFT: u32 = SIZE_CLASS_SHIFT + SIZE_CLASS_BITS;
const OPERATION_BITS: u32 = 10;
const SIZE_CLASS_SHIFT: u32 = 2;
const SIZE_CLASS_BITS: u32 = 7;
const MEMORY_MASK: u64 = (1 << SIZE_CLASS_SHIFT) - 1;
const SIZE_CLASS_MASK: u64 = ((1 << SIZE_CLASS_BITS) - 1) << SIZE_CLASS_SHIFT;
const AT_SITE_MASK: u64 = ((1 << OperationAtSite::BITS) - 1) << AT_SITE_SHIFT;
const REGION_MASK: u64 = ((1 << RegionId::BITS) - 1) << REGION_SHIFT;

/// The key of a slot; 0 is a slot not yet in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey(pub u64);

/// The meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Calls of one operation.
    Call(CallKey),
    /// Messages to and from one peer.
    Peer(PeerKey),
    /// One-sided operations on the memory of one target.
    Target(TargetKey),
    /// Entries into a region.
    Region(RegionId),
    /// Communicators in one row, by the row.
    SharedRow(CommId),
    /// Instances of a collective operation.
    Instances(InstancesKey),
    /// Messages of one of the process's streams, by its number; see [`super::streams`].
    Stream(u32),
    /// The recorded messages of a stream, by its number, where recording was switched; see
    /// [`super::streams::recorded`].
    Recorded(u32),
    /// Calls of a call path.
    Path(PathKey),
    /// Values of one of MPI's variables, by its number in the log, in a region.
    Variable(u16, RegionId),
    /// Calls of NCCL, by how long the GPU worked on them.
    GpuTime(GpuTimeKey),
    /// The error of the time of polls.
    PollError(PollErrorKey),
}

/// An operation, and where the program calls it: either the operation alone, or the number of a
/// call site, of which the log has the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationAtSite(u32);

impl OperationAtSite {
    /// The bits that it takes in a [`SlotKey`].
    pub const BITS: u32 = 17;
    /// Call sites that can be told apart.
    pub const MOST_SITES: u32 = (1 << OperationAtSite::BITS) - OperationAtSite::FIRST_SITE;
    const FIRST_SITE: u32 = 1 << OPERATION_BITS;

    /// The operation at no known site.
    #[inline]
    pub const fn from_operation(operation: Operation) -> OperationAtSite {
        OperationAtSite(operation as u32)
    }

    /// The site with this number, which is less than [`OperationAtSite::MOST_SITES`].
    #[inline]
    pub const fn site(number: u32) -> OperationAtSite {
        OperationAtSite(OperationAtSite::FIRST_SITE + number)
    }

    /// The number of the site; `None` for an operation at no known one.
    pub fn site_number(self) -> Option<u32> {
        self.0.checked_sub(OperationAtSite::FIRST_SITE)
    }

    /// The operation at no known site; `None` for a site, or for a number that no operation has.
    pub fn operation(self) -> Option<Operation> {
        Operation::from_index(u64::from(self.0)).filter(|_| self.site_number().is_none())
    }
}

/// One cell of the table of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// The communicator.
    pub communicator: CommId,
    /// The region.
    pub region: RegionId,
    /// The operation, and where it is called.
    pub operation: OperationAtSite,
    /// See [`size_class`].
    pub size_class: u8,
    /// The kind of memory that has the buffer.
    pub memory: Memory,
}

/// One cell of the table of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerKey {
    /// The communicator.
    pub communicator: CommId,
    /// The peer; in a row of changing members, its rank in `MPI_COMM_WORLD`.
    pub peer: CommRank,
}

/// The one-sided operations that share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSidedKind {
    /// See [`crate::rows::Access::Put`] and [`crate::rows::Access::Get`].
    PutsAndGets = 1,
    /// See [`crate::rows::Access::Accumulate`].
    Accumulates = 2,
}

/// One-sided operations on the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetKey {
    /// The target.
    pub peer: PeerKey,
    /// The operations.
    pub kind: OneSidedKind,
}

/// A collective operation on a communicator, of which each process counts the instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstancesKey {
    /// The communicator.
    pub communicator: CommId,
    /// `Operation as u16`.
    pub operation: u16,
    /// Of a persistent operation, the number of its request among those of the operation on the
    /// communicator; else 0.
    pub request: u32,
}

/// Calls of an operation on a communicator that came by one call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey {
    /// The number of the path in the log.
    pub path: u16,
    /// The communicator.
    pub communicator: CommId,
    /// `Operation as u16`.
    pub operation: u16,
}

/// Calls of an operation of NCCL that the GPU worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GpuTimeKey {
    /// The communicator.
    pub communicator: CommId,
    /// The region in which the call was made.
    pub region: RegionId,
    /// `Operation as u16`.
    pub operation: u16,
    /// See [`size_class`].
    pub size_class: u8,
}

/// Polls of one operation that found nothing: calls without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PollErrorKey {
    /// The communicator.
    pub communicator: CommId,
    /// The region.
    pub region: RegionId,
    /// The operation, and where it is called.
    pub operation: OperationAtSite,
}

impl PollErrorKey {
    /// The word: tag 2, six bits 0, one bit 1, 2 free bits, communicator 24, region 12, place 17.
    pub fn pack(self) -> SlotKey {
        let communicator = u64::from(self.communicator.get()) << POLL_ERROR_COMM_SHIFT;
        let region = u64::from(self.region.get()) << POLL_ERROR_REGION_SHIFT;
        SlotKey(REGION << TAG_SHIFT | POLL_ERROR | communicator | region | u64::from(self.operation.0))
    }
}

impl GpuTimeKey {
    /// The word: tag 2, five bits 0, one bit 1, 3 free bits, operation 10 bits, communicator 24,
    /// region 12, size class 7.
    pub fn pack(self) -> SlotKey {
        let operation = u64::from(self.operation) << GPU_TIME_OPERATION_SHIFT;
        let communicator = u64::from(self.communicator.get()) << GPU_TIME_COMM_SHIFT;
        let region = u64::from(self.region.get()) << GPU_TIME_REGION_SHIFT;
        let word = operation | communicator | region | u64::from(self.size_class);
        SlotKey(REGION << TAG_SHIFT | GPU_TIME | word)
    }
}

impl PathKey {
    /// The word: tag 2, two bits 0, one bit 1, path 16, communicator 24, operation 10 bits.
    pub fn pack(self) -> SlotKey {
        let operation = u64::from(self.communicator.get()) << OPERATION_BITS | u64::from(self.operation);
        SlotKey(REGION << TAG_SHIFT | PATH | u64::from(self.path) << PATH_SHIFT | operation)
    }
}

impl InstancesKey {
    /// Requests of a persistent operation on a communicator that can be told apart.
    pub const MOST_REQUESTS: u32 = 1 << REQUEST_BITS;

    /// The word: tag 2, one bit 1, one bit 0, request 22 bits, communicator 24, operation 10 bits.
    pub fn pack(self) -> SlotKey {
        let operation = u64::from(self.communicator.get()) << OPERATION_BITS | u64::from(self.operation);
        let request = u64::from(self.request & (InstancesKey::MOST_REQUESTS - 1)) << REQUEST_SHIFT;
        SlotKey(REGION << TAG_SHIFT | INSTANCES | request | operation)
    }
}

impl CallKey {
    /// The word: tag 2, communicator 24, region 12, place 17, size class 7, memory 2 bits.
    #[inline]
    pub fn pack(self) -> SlotKey {
        SlotKey(
            CALL << TAG_SHIFT
                | u64::from(self.communicator.get()) << COMMUNICATOR_SHIFT
                | u64::from(self.region.get()) << REGION_SHIFT
                | u64::from(self.operation.0) << AT_SITE_SHIFT
                | u64::from(self.size_class) << SIZE_CLASS_SHIFT
                | self.memory as u64,
        )
    }
}

impl PeerKey {
    /// The word: tag 2, communicator 24, peer 32 bits.
    #[inline]
    pub fn pack(self) -> SlotKey {
        SlotKey(PEER << TAG_SHIFT | u64::from(self.communicator.get()) << 32 | u64::from(self.peer.get()))
    }
}

impl TargetKey {
    /// The word: tag 2, 4 bits 0, kind 2, communicator 24, peer 32 bits.
    #[inline]
    pub fn pack(self) -> SlotKey {
        SlotKey(self.peer.pack().0 | (self.kind as u64) << ONE_SIDED_SHIFT)
    }
}

impl SlotKey {
    /// The key of the slot that says where its thread is, see [`super::active_call`].
    pub const ACTIVE_CALL: SlotKey = SlotKey(3);

    /// The key of the slot that says how long threads had the state of its writer, see
    /// [`super::layout::lives`].
    pub const LIVES: SlotKey = SlotKey(4);

    /// The key of a region's entries and time.
    pub fn region(region: RegionId) -> SlotKey {
        SlotKey(REGION << TAG_SHIFT | u64::from(region.get()))
    }

    /// The key of the count of communicators that one row stands for.
    pub fn shared_row(row: CommId) -> SlotKey {
        SlotKey(REGION << TAG_SHIFT | SHARED_ROW | u64::from(row.get()))
    }

    /// The key of a stream of messages.
    pub fn stream(number: u32) -> SlotKey {
        SlotKey(REGION << TAG_SHIFT | STREAM | u64::from(number))
    }

    /// The key of a stream's recorded messages.
    pub fn recorded(stream: u32) -> SlotKey {
        SlotKey(REGION << TAG_SHIFT | RECORDED | u64::from(stream))
    }

    /// The key of a variable of MPI's in a region.
    pub fn variable(number: u16, region: RegionId) -> SlotKey {
        SlotKey(
            REGION << TAG_SHIFT | VARIABLE | u64::from(number) << VARIABLE_SHIFT | u64::from(region.get()),
        )
    }

    /// The communicator, of the key of a call.
    #[inline]
    pub fn communicator_of_call(self) -> CommId {
        CommId::new((self.0 >> COMMUNICATOR_SHIFT) as u32 & ((1 << CommId::BITS) - 1))
    }

    /// The key of the error of the time of polls, of the key of their calls; `None` of another key.
    pub fn error_of_polls(self) -> Option<SlotKey> {
        match self.meaning()? {
            Meaning::Call(CallKey { communicator, region, operation, .. }) => {
                Some(PollErrorKey { communicator, region, operation }.pack())
            }
            _ => None,
        }
    }

    /// The key of a call with buffers in another kind of memory.
    #[inline]
    pub fn in_memory(self, memory: Memory) -> SlotKey {
        SlotKey(self.0 & !MEMORY_MASK | memory as u64)
    }

    /// The kind of memory that has the buffers, of the key of a call.
    pub fn memory_of_call(self) -> Memory {
        Memory::from_number(self.0 & MEMORY_MASK).unwrap_or(Memory::Host)
    }

    /// The key of a call with another size class.
    #[inline]
    pub fn with_size_class(self, size_class: u8) -> SlotKey {
        SlotKey(self.0 & !SIZE_CLASS_MASK | u64::from(size_class) << SIZE_CLASS_SHIFT)
    }

    /// The key of a call in another region, with another size class, its buffers in another kind of
    /// memory.
    #[inline]
    pub fn of_next_call(self, region: RegionId, size_class: u8, memory: Memory) -> SlotKey {
        let moved = u64::from(region.get()) << REGION_SHIFT | u64::from(size_class) << SIZE_CLASS_SHIFT;
        SlotKey(self.0 & !(REGION_MASK | SIZE_CLASS_MASK | MEMORY_MASK) | moved | memory as u64)
    }

    /// The key of an operation on a communicator with a size class that no message has.
    pub fn of_no_size(communicator: CommId, operation: Operation) -> SlotKey {
        let size_class = (1 << SIZE_CLASS_BITS) - 1;
        let (region, operation) = (RegionId::OUTSIDE, OperationAtSite::from_operation(operation));
        CallKey { communicator, region, operation, size_class, memory: Memory::Host }.pack()
    }

    /// The key of another operation, or of the same one at another call site.
    pub fn with_operation(self, operation: OperationAtSite) -> SlotKey {
        SlotKey(self.0 & !AT_SITE_MASK | u64::from(operation.0) << AT_SITE_SHIFT)
    }

    /// A key that stands for nothing: what is counted under it is in no table.
    pub fn nothing(number: u32) -> SlotKey {
        SlotKey(number.into())
    }

    /// The meaning; `None` for a word that no writer makes.
    pub fn meaning(self) -> Option<Meaning> {
        let bits = |from: u32, count: u32| (self.0 >> from) & ((1 << count) - 1);
        match self.0 >> TAG_SHIFT {
            CALL => Some(Meaning::Call(CallKey {
                communicator: self.communicator_of_call(),
                region: RegionId::new(bits(REGION_SHIFT, RegionId::BITS) as u32),
                operation: OperationAtSite(bits(AT_SITE_SHIFT, OperationAtSite::BITS) as u32),
                size_class: bits(SIZE_CLASS_SHIFT, SIZE_CLASS_BITS) as u8,
                memory: Memory::from_number(bits(0, 2))?,
            })),
            PEER => {
                let peer = PeerKey {
                    communicator: CommId::new(bits(32, CommId::BITS) as u32),
                    peer: CommRank::new(bits(0, 32) as u32),
                };
                let target = |kind| Some(Meaning::Target(TargetKey { peer, kind }));
                match bits(ONE_SIDED_SHIFT, TAG_SHIFT - ONE_SIDED_SHIFT) {
                    0 => Some(Meaning::Peer(peer)),
                    1 => target(OneSidedKind::PutsAndGets),
                    2 => target(OneSidedKind::Accumulates),
                    _ => None,
                }
            }
            REGION if self.0 & INSTANCES != 0 => Some(Meaning::Instances(InstancesKey {
                communicator: CommId::new(bits(OPERATION_BITS, CommId::BITS) as u32),
                operation: bits(0, OPERATION_BITS) as u16,
                request: bits(REQUEST_SHIFT, REQUEST_BITS) as u32,
            })),
            REGION if self.0 & PATH != 0 => Some(Meaning::Path(PathKey {
                path: bits(PATH_SHIFT, u16::BITS) as u16,
                communicator: CommId::new(bits(OPERATION_BITS, CommId::BITS) as u32),
                operation: bits(0, OPERATION_BITS) as u16,
            })),
            REGION if self.0 & STREAM != 0 => Some(Meaning::Stream(bits(0, 32) as u32)),
            REGION if self.0 & RECORDED != 0 => Some(Meaning::Recorded(bits(0, 32) as u32)),
            REGION if self.0 & VARIABLE != 0 => Some(Meaning::Variable(
                bits(VARIABLE_SHIFT, u16::BITS) as u16,
                RegionId::new(bits(0, RegionId::BITS) as u32),
            )),
            REGION if self.0 & GPU_TIME != 0 => Some(Meaning::GpuTime(GpuTimeKey {
                communicator: CommId::new(bits(GPU_TIME_COMM_SHIFT, CommId::BITS) as u32),
                region: RegionId::new(bits(GPU_TIME_REGION_SHIFT, RegionId::BITS) as u32),
                operation: bits(GPU_TIME_OPERATION_SHIFT, OPERATION_BITS) as u16,
                size_class: bits(0, SIZE_CLASS_BITS) as u8,
            })),
            REGION if self.0 & POLL_ERROR != 0 => Some(Meaning::PollError(PollErrorKey {
                communicator: CommId::new(bits(POLL_ERROR_COMM_SHIFT, CommId::BITS) as u32),
                region: RegionId::new(bits(POLL_ERROR_REGION_SHIFT, RegionId::BITS) as u32),
                operation: OperationAtSite(bits(0, OperationAtSite::BITS) as u32),
            })),
            REGION if self.0 & SHARED_ROW != 0 => Some(Meaning::SharedRow(CommId::new(bits(0, 32) as u32))),
            REGION => Some(Meaning::Region(RegionId::new(bits(0, 32) as u32))),
            _ => None,
        }
    }
}

/// The class of a message of `bytes` bytes: 0 for none, else 1 + the position of its highest bit,
/// so that class c > 0 holds 2^(c-1) to 2^c - 1.
#[inline]
pub fn size_class(bytes: u64) -> u8 {
    (u64::BITS - bytes.leading_zeros()) as u8
}

/// The smallest and the largest message of a class.
pub fn class_bounds(class: u8) -> (u64, u64) {
    match class {
        0 => (0, 0),
        1..=63 => (1 << (class - 1), (1 << class) - 1),
        _ => (1 << 63, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_leads_back(
            communicator in (0u32..1 << CommId::BITS).prop_map(CommId::new),
            region in (0u32..1 << RegionId::BITS).prop_map(RegionId::new), operation in 0u16..1024, size_class in 0u8..=64, peer: u32,
            request in 0..InstancesKey::MOST_REQUESTS, site in 0..OperationAtSite::MOST_SITES, path: u16,
        ) {
            let at_site = OperationAtSite::site(site);
            prop_assert_eq!((at_site.site_number(), at_site.operation()), (Some(site), None));
            let call = CallKey { communicator, region, operation: at_site, size_class, memory: Memory::Managed };
            prop_assert_eq!(call.pack().meaning(), Some(Meaning::Call(call)));
            prop_assert_eq!(call.pack().communicator_of_call(), communicator);
            let error = PollErrorKey { communicator, region, operation: at_site };
            prop_assert_eq!(error.pack().meaning(), Some(Meaning::PollError(error)));
            prop_assert_eq!(call.pack().error_of_polls(), Some(error.pack()));
            let other = CallKey { size_class: 64 - size_class, ..call };
            prop_assert_eq!(call.pack().with_size_class(64 - size_class), other.pack());
            let key = SlotKey::of_no_size(communicator, Operation::Send).of_next_call(region, size_class, Memory::Managed);
            prop_assert_eq!(key.with_operation(at_site), call.pack());
            prop_assert_eq!(key.memory_of_call(), Memory::Managed);
            let path = PathKey { path, communicator, operation };
            prop_assert_eq!(path.pack().meaning(), Some(Meaning::Path(path)));
            let time = GpuTimeKey { communicator, region, operation, size_class };
            prop_assert_eq!(time.pack().meaning(), Some(Meaning::GpuTime(time)));
            let peer = PeerKey { communicator, peer: CommRank::new(peer) };
            prop_assert_eq!(peer.pack().meaning(), Some(Meaning::Peer(peer)));
            for kind in [OneSidedKind::PutsAndGets, OneSidedKind::Accumulates] {
                let target = TargetKey { peer, kind };
                prop_assert_eq!(target.pack().meaning(), Some(Meaning::Target(target)));
            }
            prop_assert_eq!(SlotKey::variable(path.path, region).meaning(), Some(Meaning::Variable(path.path, region)));
            prop_assert_eq!(SlotKey::region(region).meaning(), Some(Meaning::Region(region)));
            let instances = InstancesKey { communicator, operation, request };
            prop_assert_eq!(instances.pack().meaning(), Some(Meaning::Instances(instances)));
            prop_assert_eq!(SlotKey::stream(peer.peer.get()).meaning(), Some(Meaning::Stream(peer.peer.get())));
            prop_assert_eq!(SlotKey::recorded(peer.peer.get()).meaning(), Some(Meaning::Recorded(peer.peer.get())));
            prop_assert_eq!(SlotKey::shared_row(communicator).meaning(), Some(Meaning::SharedRow(communicator)));
        }

        #[test]
        fn a_message_lies_in_its_class(bytes: u64) {
            let (least, most) = class_bounds(size_class(bytes));
            prop_assert!((least..=most).contains(&bytes));
        }
    }

    #[test]
    fn a_place_without_a_site_is_its_operation() {
        for operation in Operation::all() {
            let at_no_site = OperationAtSite::from_operation(operation);
            assert_eq!((at_no_site.operation(), at_no_site.site_number()), (Some(operation), None));
        }
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [(0, (0, 0)), (1, (1, 1)), (2, (2, 3)), (127, (64, 127)), (128, (128, 255))];
        for (bytes, bounds) in classes {
            assert_eq!(class_bounds(size_class(bytes)), bounds);
        }
    }
}
