//! The structures of `device/core.h`, which host and device share.

use crate::generated::core::{MP_BULK, MP_KERNEL_BITS, MP_WINDOW_SHIFT};
pub use crate::generated::core::{
    mp_counter as Counter, mp_launch as Launch, mp_range as Range, mp_record as Record,
    mp_records as Records, mp_table as Table, mp_window as Window,
};

impl Table {
    /// The begin of a table of N counters, N a power of two.
    pub fn new(slots: usize, mark: u64) -> Self {
        Table { slots: slots as u64, lost: 0, mark, spare: 0 }
    }

    /// Bytes of a table of N counters.
    pub fn bytes(slots: usize) -> usize {
        size_of::<Table>() + slots * size_of::<Counter>()
    }
}

impl Window {
    /// Two in which all of the ranges are, which are sorted: with the largest gap between ranges
    /// left out.
    pub fn around(ranges: &[Range]) -> [Window; 2] {
        let gap = |at: &usize| ranges[*at].begin - ranges[at - 1].end;
        let split = (1..ranges.len()).max_by_key(gap).unwrap_or(ranges.len());
        let (low, high) = ranges.split_at(split);
        [Window::from_ranges(low), Window::from_ranges(high)]
    }

    fn from_ranges(ranges: &[Range]) -> Window {
        let ([first, ..], [.., last]) = (ranges, ranges) else { return Window::default() };
        let number = |address: u64| address >> MP_WINDOW_SHIFT;
        let count = number(last.end - 1) - number(first.begin) + 1;
        Window { first: number(first.begin) as u32, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }
}

impl Records {
    /// Bytes of N records in each half.
    pub fn bytes(capacity: usize) -> usize {
        size_of::<Records>() + 2 * capacity * size_of::<Record>()
    }

    /// The offset of a record of a half.
    pub fn offset(capacity: usize, half: usize, at: usize) -> u64 {
        (size_of::<Records>() + (half * capacity + at) * size_of::<Record>()) as u64
    }
}

/// Kernels that have a number of their own.
pub const MOST_KERNELS: u32 = 1 << MP_KERNEL_BITS;

/// The threshold by which one warp in `n` is counted.
pub fn threshold(n: u32) -> u32 {
    if n <= 1 { 0 } else { ((1u64 << 32) / u64::from(n)) as u32 }
}

/// `mp_what`, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct What {
    /// The range.
    pub range: u32,
    /// The kernel.
    pub kernel: u32,
    /// Load, store or atomic: 0, 1, 2.
    pub kind: u32,
    /// Bytes of an access; 0 for bulk copies.
    pub width: u32,
}

impl From<u64> for What {
    fn from(word: u64) -> Self {
        let code = (word >> 56) as u32 & 7;
        What {
            range: word as u32,
            kernel: (word >> 32) as u32 & (MOST_KERNELS - 1),
            kind: (word >> 52) as u32 & 15,
            width: if code == MP_BULK { 0 } else { 1 << code },
        }
    }
}

/// The bytes of plain structures of integers.
pub fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: `Plain` has no padding, so that every byte is initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The same, to be written.
pub fn bytes_of_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: `Plain` has no padding, and any bytes are a value of it.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Types of integers alone, without padding.
///
/// # Safety
/// Every byte belongs to an integer.
pub unsafe trait Plain: Copy {}

// SAFETY: three u64.
unsafe impl Plain for Range {}
// SAFETY: four u64.
unsafe impl Plain for Counter {}
// SAFETY: four u64.
unsafe impl Plain for Table {}
// SAFETY: four u32, three u64, four u32 and a u64: 64 bytes without a gap, by core.h's offsets.
unsafe impl Plain for Launch {}
// SAFETY: u64, u64, u32, u32 and 32 u64, 280 bytes without a gap, by core.h's offsets.
unsafe impl Plain for Record {}
// SAFETY: six u64.
unsafe impl Plain for Records {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
