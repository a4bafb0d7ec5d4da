//! The state of the process that every recorded call reads, in one cache line: in a program that
//! computes between its calls each cache line comes from memory.

use mpisee_profile::{RegionId, Ticks};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The state; each field belongs to the module that sets it.
#[repr(C, align(64))]
pub struct Hot {
    /// See [`Hot::generation`].
    generation: AtomicU64,
    /// Where a thread's own words are, from its thread pointer; see `state::thread`.
    pub thread_offset: AtomicUsize,
    /// The region in which the program is, and [`ASKS_DRIVER`].
    region: AtomicU32,
    /// See `state::process`.
    pub mode: AtomicU8,
    /// See `storage::clock`.
    pub use_counter: AtomicBool,
    /// How calls are kept apart by their sites: a [`SiteMode`].
    sites: AtomicU8,
    /// See [`Hot::is_slow`].
    slow_bits: AtomicU8,
    /// `MPI_REQUEST_NULL`.
    pub request_null: AtomicU64,
    /// Sizes of the datatypes that were used first; see `state::datatype`.
    pub datatypes: [AtomicU64; DATATYPES],
}

/// Datatypes whose sizes are in it.
pub const DATATYPES: usize = 4;

/// How calls are kept apart by the places that make them.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum SiteMode {
    /// All sites are counted together.
    Together,
    /// By the address to which a call returns, which is the program's.
    OfProgram,
    /// By the first address outside of this library, and of MPI's own Fortran bindings if there are
    /// any: found from frame to frame.
    ByFrames,
}

/// Set beside the region if buffers may lie in a GPU's memory: where a call reads the region, it
/// reads this.
const ASKS_DRIVER: u32 = 1 << 31;

/// Bits of a time that no call takes.
const NEVER_SLOW: u8 = 63;

/// Set in the generation while calls are not counted: one load is enough for both.
const OFF: u64 = 1 << 63;
/// The lower bits are free for the operation.
const ONE_LATER: u64 = 1 << 16;

const _: () = assert!(size_of::<Hot>() == 64);

/// The only one.
#[unsafe(link_section = ".data.hot")]
pub static HOT: Hot = Hot {
    generation: AtomicU64::new(OFF | ONE_LATER),
    thread_offset: AtomicUsize::new(0),
    region: AtomicU32::new(0),
    mode: AtomicU8::new(0),
    use_counter: AtomicBool::new(false),
    sites: AtomicU8::new(SiteMode::Together as u8),
    slow_bits: AtomicU8::new(NEVER_SLOW),
    request_null: AtomicU64::new(0),
    datatypes: [const { AtomicU64::new(0) }; DATATYPES],
};

impl Hot {
    /// A number, never 0, that is another one whenever a handle may stand for another communicator
    /// than before, shifted past the bits of an operation. `None` while calls are not counted.
    #[inline(always)]
    pub fn generation(&self) -> Option<u64> {
        let generation = self.generation.load(Ordering::Relaxed);
        (generation < OFF).then_some(generation)
    }

    /// The same number while calls are not counted.
    pub fn generation_while_off(&self) -> u64 {
        self.generation.load(Ordering::Relaxed) & !OFF
    }

    /// Invalidates all cached calls: a handle may stand for another communicator from now on.
    pub fn invalidate_handles(&self) {
        self.generation.fetch_add(ONE_LATER, Ordering::Relaxed);
    }

    /// Has calls counted, or not.
    pub fn set_counted(&self, counted: bool) {
        if counted {
            // Cached calls and polls are stale: requests may have changed meanwhile.
            self.invalidate_handles();
            self.generation.fetch_and(!OFF, Ordering::Relaxed);
        } else {
            self.generation.fetch_or(OFF, Ordering::Relaxed);
        }
    }

    /// Returns whether calls are counted by their sites.
    #[inline(always)]
    pub fn keeps_sites(&self) -> bool {
        self.sites.load(Ordering::Relaxed) != SiteMode::Together as u8
    }

    /// Returns whether calls are counted by their sites, and come from the program itself.
    #[inline(always)]
    pub fn is_called_by_program(&self) -> bool {
        self.sites.load(Ordering::Relaxed) == SiteMode::OfProgram as u8
    }

    /// Returns whether the site of a call is found from frame to frame.
    #[inline(always)]
    pub fn looks_at_frames(&self) -> bool {
        self.sites.load(Ordering::Relaxed) == SiteMode::ByFrames as u8
    }

    /// From now on calls are kept apart like this.
    pub fn set_sites(&self, mode: SiteMode) {
        self.sites.store(mode as u8, Ordering::Relaxed);
    }

    /// Returns whether a call took so long that its call path is taken.
    #[inline(always)]
    pub fn is_slow(&self, ticks: Ticks) -> bool {
        ticks.get() >> (self.slow_bits.load(Ordering::Relaxed) & NEVER_SLOW) != 0
    }

    /// Sets the least ticks of a slow call, rounded up to a power of two.
    pub fn set_slow(&self, ticks: u64) {
        let bits = u64::BITS - ticks.saturating_sub(1).leading_zeros();
        self.slow_bits.store((bits as u8).min(NEVER_SLOW), Ordering::Relaxed);
    }

    /// The region in which the program is.
    #[inline(always)]
    pub fn region(&self) -> RegionId {
        RegionId::new(self.region.load(Ordering::Relaxed) & !ASKS_DRIVER)
    }

    /// The same, and whether a GPU's driver is asked: what a call's row depends on beside the call.
    #[inline(always)]
    pub fn region_word(&self) -> u32 {
        self.region.load(Ordering::Relaxed)
    }

    /// The program is in another region.
    pub fn set_region(&self, region: RegionId) {
        let replaced = |word: u32| Some(word & ASKS_DRIVER | region.get());
        // It never fails.
        let _ = self.region.fetch_update(Ordering::Relaxed, Ordering::Relaxed, replaced);
    }

    /// Returns whether a GPU's driver is asked about the buffers of calls.
    #[inline(always)]
    pub fn asks_driver(&self) -> bool {
        self.region.load(Ordering::Relaxed) & ASKS_DRIVER != 0
    }

    /// A GPU's driver is to be asked about the buffers of calls from now on.
    pub fn ask_driver(&self) {
        self.region.fetch_or(ASKS_DRIVER, Ordering::Relaxed);
    }
}
