//! What every recorded call reads of the process, in one cache line: in a program that computes between its calls each
//! line comes from memory.

use mpisee_profile::RegionId;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The line. Each field has its meaning where it is set.
#[repr(C, align(64))]
pub struct Hot {
    /// See [`Hot::stamp`].
    stamp: AtomicU64,
    /// Where a thread's own words are, from its thread pointer; see `state::thread`.
    pub thread_offset: AtomicUsize,
    /// The region in which the program is.
    region: AtomicU32,
    /// See `state::process`.
    pub mode: AtomicU8,
    /// See `storage::clock`.
    pub use_counter: AtomicBool,
    /// `MPI_REQUEST_NULL`.
    pub request_null: AtomicU64,
    /// Sizes of the datatypes that were used first; see `state::datatype`.
    pub datatypes: [AtomicU64; DATATYPES],
}

/// So many datatypes have their size in the line.
pub const DATATYPES: usize = 4;

/// Set in a stamp while calls are not counted.
const OFF: u64 = 1 << 63;
/// The lower bits are free for the operation.
const ONE_LATER: u64 = 1 << 16;

const _: () = assert!(size_of::<Hot>() == 64);

/// The only one.
#[unsafe(link_section = ".data.hot")]
pub static HOT: Hot = Hot {
    stamp: AtomicU64::new(OFF | ONE_LATER),
    thread_offset: AtomicUsize::new(0),
    region: AtomicU32::new(0),
    mode: AtomicU8::new(0),
    use_counter: AtomicBool::new(false),
    request_null: AtomicU64::new(0),
    datatypes: [const { AtomicU64::new(0) }; DATATYPES],
};

impl Hot {
    /// A number, never 0, that is another one whenever a handle may stand for another communicator than before, shifted past the
    /// bits of an operation. `None` while calls are not counted.
    #[inline(always)]
    pub fn stamp(&self) -> Option<u64> {
        let stamp = self.stamp.load(Ordering::Relaxed);
        (stamp < OFF).then_some(stamp)
    }

    /// What is remembered of communicators by their handles holds no longer.
    pub fn renew(&self) {
        self.stamp.fetch_add(ONE_LATER, Ordering::Relaxed);
    }

    /// Whether calls are counted.
    pub fn set_counted(&self, counted: bool) {
        if counted {
            self.stamp.fetch_and(!OFF, Ordering::Relaxed);
        } else {
            self.stamp.fetch_or(OFF, Ordering::Relaxed);
        }
    }

    /// The region in which the program is.
    #[inline(always)]
    pub fn region(&self) -> RegionId {
        RegionId::new(self.region.load(Ordering::Relaxed))
    }

    /// The program is in another region.
    pub fn set_region(&self, region: RegionId) {
        self.region.store(region.get(), Ordering::Relaxed);
    }
}
