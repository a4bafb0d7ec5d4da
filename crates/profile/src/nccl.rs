//! The interface between `libmpisee_nccl.so`, which interposes the functions of NCCL, and
//! `libmpisee.so`, which counts them. Both are of one installation; [`interface`] shows whether
//! they are.

use crate::CommRank;
use crate::operation::Operation;
use std::ffi::{c_char, c_int, c_void};
use std::{ptr, slice};

/// `ncclComm_t`, a handle.
pub type Comm = *mut c_void;

/// `cudaStream_t`, a handle; null for the default one.
pub type Stream = *mut c_void;

/// `ncclSuccess`.
pub const SUCCESS: c_int = 0;
/// `ncclInvalidUsage`, which a function returns that the program's NCCL does not have.
pub const INVALID_USAGE: c_int = 5;
/// `ncclInProgress`: the call goes on, of a communicator that does not block.
pub const IN_PROGRESS: c_int = 7;
/// `NCCL_UNIQUE_ID_BYTES`.
pub const ID_BYTES: usize = 128;

/// A call of a function of NCCL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NcclCall {
    /// `Operation as u32`; [`NO_OPERATION`] for a call that counts as none.
    pub operation: u32,
    /// Its meaning.
    pub meaning: Meaning,
    /// Its buffers; null where it has fewer.
    pub buffers: [*const c_void; 2],
    /// Queries size and rank of a communicator from NCCL.
    pub query: Query,
    /// Queries its device.
    pub device: QueryDevice,
    /// The configuration of the communicator that it makes; null where it has none.
    pub config: *const Config,
}

/// The begin of a `ncclConfig_t`, as it is since NCCL 2.27.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    numbers: [c_int; 4],
    network: *const c_char,
    more_numbers: [c_int; 2],
    name: *const c_char,
}

impl Config {
    /// `NCCL_API_MAGIC`.
    const MAGIC: u32 = 0xcafe_beef;

    /// `commName`; `None` where it is not set, or the program was compiled for a version that has
    /// none.
    ///
    /// # Safety
    /// The pointer is null, or that of a configuration.
    pub unsafe fn name(config: *const Config) -> Option<*const c_char> {
        // SAFETY: all versions have at least what is read first.
        unsafe {
            if config.is_null() || (*config).magic != Config::MAGIC || (*config).size < size_of::<Config>() {
                return None;
            }
            Some((*config).name).filter(|name| !name.is_null())
        }
    }
}

/// The operation of a call that is not counted by itself.
pub const NO_OPERATION: u32 = u32::MAX;

/// Writes the size of a communicator and the caller's rank in it; returns what NCCL returns.
pub type Query = extern "C" fn(comm: Comm, size: *mut c_int, rank: *mut c_int) -> c_int;

/// The ordinal of a device that NCCL does not report.
pub const UNKNOWN_DEVICE: c_int = -1;

/// The ordinal of the device that a communicator uses in this process, or [`UNKNOWN_DEVICE`].
pub type QueryDevice = extern "C" fn(comm: Comm) -> c_int;

/// Makes the program's call, with the data that belongs to it.
pub type Make = extern "C-unwind" fn(data: *mut c_void) -> c_int;

/// `mpisee_nccl_call` of `libmpisee.so`: makes a call once and counts it; returns what it returns.
pub type NcclHook =
    unsafe extern "C-unwind" fn(call: *const NcclCall, make: Make, data: *mut c_void) -> c_int;

/// The meaning of a call.
#[repr(C, u32)]
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// It communicates.
    Communicate {
        /// The communicator.
        comm: Comm,
        /// The bytes that count.
        volume: Volume,
        /// The rank that it is with, of a message.
        with: Peer,
        /// The stream of the GPU that does the work.
        stream: Stream,
    },
    /// It makes a communicator from unique ids.
    CreateFromIds {
        /// Gets the communicator.
        new: *const Comm,
        /// The ids.
        ids: *const u8,
        /// Their number.
        count: c_int,
        /// Ranks in it.
        size: c_int,
        /// The caller's.
        rank: c_int,
    },
    /// It makes one communicator of this process alone, with a rank for each device.
    CreateAll {
        /// Gets a handle for each rank.
        new: *const Comm,
        /// Ranks in it.
        size: c_int,
    },
    /// It splits a communicator.
    Split {
        /// The communicator.
        comm: Comm,
        /// Ranks of one color are in one part.
        color: c_int,
        /// Gets the part.
        new: *const Comm,
    },
    /// It makes a communicator without some ranks.
    Shrink {
        /// The communicator.
        comm: Comm,
        /// The ranks that are left out.
        excluded: *const c_int,
        /// Their number.
        count: c_int,
        /// Gets the new one.
        new: *const Comm,
    },
    /// It makes a communicator with further ranks.
    Grow {
        /// The communicator; null on the ranks that are new.
        comm: Comm,
        /// The unique id, which new ranks have.
        id: *const u8,
        /// Ranks in the new one.
        size: c_int,
        /// The caller's rank there, of a new one.
        rank: c_int,
        /// Gets the new one.
        new: *const Comm,
    },
    /// It asks for the state of a communicator, which is [`SUCCESS`] once that has made others.
    Poll {
        /// The communicator.
        comm: Comm,
        /// Gets the state.
        state: *const c_int,
    },
    /// It ends a communicator.
    End {
        /// The communicator.
        comm: Comm,
    },
    /// It is about a communicator.
    OnComm {
        /// The communicator.
        comm: Comm,
    },
    /// A group of calls begins.
    GroupStart,
    /// A group of calls ends; that of the outermost group starts them all.
    GroupEnd,
    /// A group ends without that its calls are made: the program asks how long they would take.
    GroupSimulateEnd,
}

/// The other end of a message, by its rank in the communicator.
#[repr(C, u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The call is no message.
    None,
    /// It is sent to that rank.
    To(c_int),
    /// It is received from that rank.
    From(c_int),
}

/// The ranks of a process and of its peer in a communicator of NCCL. A process has a rank for each
/// of its GPUs, so that the key of a peer has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The process's own rank.
    pub own: u32,
    /// The peer's.
    pub peer: u32,
}

impl Pair {
    /// Ranks that fit into a key.
    const MOST: u32 = 1 << 16;

    /// Both in a number, in place of a peer's rank; `None` if they do not fit.
    pub fn pack(self) -> Option<CommRank> {
        let fits = self.own.max(self.peer) < Pair::MOST;
        fits.then(|| CommRank::new(self.own * Pair::MOST + self.peer))
    }

    /// The ranks in a number.
    pub fn unpack(number: CommRank) -> Pair {
        Pair { own: number.get() / Pair::MOST, peer: number.get() % Pair::MOST }
    }
}

impl Meaning {
    /// Returns whether the call makes a communicator that has no parent.
    pub fn creates(&self) -> bool {
        match self {
            Meaning::CreateFromIds { .. } | Meaning::CreateAll { .. } => true,
            Meaning::Grow { comm, .. } => comm.is_null(),
            _ => false,
        }
    }
}

/// The bytes of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    /// The part of the bound that the caller records.
    pub rule: Rule,
    /// Elements of a block.
    pub count: usize,
    /// Elements of the block for each rank, where these differ; else null.
    pub counts: *const usize,
    /// Their type.
    pub datatype: c_int,
    /// The root, where there is one.
    pub root: c_int,
}

/// A volume rule, see docs/explanation/bytes-and-times.md.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each rank records a block.
    EveryProcess,
    /// Each rank but the root does.
    AllButRoot,
    /// Each rank records a block for each.
    ToEach,
    /// The same with blocks of different lengths.
    ToEachListed,
}

impl Volume {
    /// No data.
    pub const NONE: Volume =
        Volume { rule: Rule::EveryProcess, count: 0, counts: ptr::null(), datatype: 0, root: -1 };

    /// The bytes of the message, and of what a rank of a communicator of `size` ranks records of
    /// it; `None` if the type is unknown.
    ///
    /// # Safety
    /// There are `size` counts, or none.
    pub unsafe fn bytes(&self, rank: u32, size: u32) -> Option<(u64, u64)> {
        let element = bytes_of(self.datatype)?;
        let block = (self.count as u64).saturating_mul(element);
        Some(match self.rule {
            Rule::EveryProcess => (block, block),
            Rule::AllButRoot if i64::from(self.root) == i64::from(rank) => (block, 0),
            Rule::AllButRoot => (block, block),
            Rule::ToEach => {
                let all = block.saturating_mul(u64::from(size));
                (all, all)
            }
            Rule::ToEachListed => {
                let counts = match self.counts.is_null() {
                    true => &[],
                    // SAFETY: NCCL reads as many counts as the communicator has ranks.
                    false => unsafe { slice::from_raw_parts(self.counts, size as usize) },
                };
                let elements = counts.iter().fold(0u64, |sum, &count| sum.saturating_add(count as u64));
                let all = elements.saturating_mul(element);
                (all, all)
            }
        })
    }
}

/// The bytes of an element of a `ncclDataType_t`.
pub fn bytes_of(datatype: c_int) -> Option<u64> {
    // By nccl.h: 8-bit, 32-bit and 64-bit integers, the floats of 16, 32 and 64 bits, bfloat16, two
    // of 8 bits.
    const BYTES: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    BYTES.get(usize::try_from(datatype).ok()?).copied()
}

/// Increment it with any change of the layout of a call.
const VERSION: u64 = 3;

/// A number that changes with the operations and with the layout of a call.
pub const fn interface() -> u64 {
    Operation::fingerprint().wrapping_mul(31).wrapping_add(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_in_a_number_as_far_as_it_fits() {
        let pair = |own, peer| Pair { own, peer };
        for it in [pair(0, 0), pair(3, 7), pair(0xffff, 0xffff)] {
            assert_eq!(it.pack().map(Pair::unpack), Some(it));
        }
        assert_eq!([pair(0x10000, 0).pack(), pair(0, 0x10000).pack()], [None, None]);
    }

    #[test]
    fn a_rank_records_its_part_of_the_bound() {
        let counts = [3usize, 5, 0, 9];
        let volume = |rule| Volume { rule, count: 10, counts: counts.as_ptr(), datatype: 7, root: 1 };
        // SAFETY: there are four counts.
        let of = |volume: Volume, rank| unsafe { volume.bytes(rank, 4) };
        assert_eq!(of(volume(Rule::EveryProcess), 1), Some((40, 40)));
        assert_eq!(of(volume(Rule::AllButRoot), 1), Some((40, 0)));
        assert_eq!(of(volume(Rule::AllButRoot), 0), Some((40, 40)));
        assert_eq!(of(volume(Rule::ToEach), 1), Some((160, 160)));
        assert_eq!(of(volume(Rule::ToEachListed), 1), Some((68, 68)));
        assert_eq!(of(Volume::NONE, 1), Some((0, 0)));
        assert_eq!(of(Volume { datatype: 12, ..volume(Rule::ToEach) }, 1), None);
        assert_eq!(of(Volume { datatype: -1, ..volume(Rule::ToEach) }, 1), None);
    }
}
