//! Time on a process's clock.

/// A moment on a process's clock, or the time between two: in ticks of the time-stamp counter, or
/// in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Ticks(u64);

impl Ticks {
    /// No time.
    pub const ZERO: Ticks = Ticks(0);

    /// So many ticks.
    #[inline]
    pub const fn new(ticks: u64) -> Ticks {
        Ticks(ticks)
    }

    /// Their number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, modulo 2^64: sums of forged segments may be of any size.
    #[inline]
    pub const fn wrapping_add(self, other: Ticks) -> Ticks {
        Ticks(self.0.wrapping_add(other.0))
    }

    /// The sum, or the latest moment there is.
    pub const fn saturating_add(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_add(other.0))
    }

    /// The difference, or none if `other` is more.
    pub const fn saturating_sub(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(other.0))
    }

    /// The time since an earlier moment; negative if that was later, as it may be on another core.
    #[inline]
    pub const fn signed_since(self, earlier: Ticks) -> i64 {
        self.0.wrapping_sub(earlier.0) as i64
    }
}
