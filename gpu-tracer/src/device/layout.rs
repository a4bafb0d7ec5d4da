//! The structures of `device/core.h`, once more; a test compares the two.

/// `mp_range`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub begin: u64,
    /// One after the last.
    pub end: u64,
    /// From 1.
    pub id: u64,
}

/// `mp_counter`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The instruction's address, with bit 0 set.
    pub pc: u64,
    /// See [`What`].
    pub what: u64,
    /// Accesses, or bulk copies.
    pub accesses: u64,
    /// Bytes of bulk copies; else a sum of squares.
    pub extra: u64,
}

/// `mp_table`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Table {
    /// Counters that follow; a power of two.
    pub slots: u64,
    /// Accesses for which there was none.
    pub lost: u64,
    /// Tells the table from what was in its memory before.
    pub mark: u64,
    spare: u64,
}

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

/// `mp_window`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The number of the first MiB; its low 32 bits.
    pub first: u32,
    /// The number of MiB.
    pub count: u32,
}

impl Window {
    /// A MiB
    const SHIFT: u32 = 20;

    /// Two in which all of the ranges are, which are sorted: with the largest gap between ranges left out.
    pub fn around(ranges: &[Range]) -> [Window; 2] {
        let gap = |at: &usize| ranges[*at].begin - ranges[at - 1].end;
        let split = (1..ranges.len()).max_by_key(gap).unwrap_or(ranges.len());
        let (low, high) = ranges.split_at(split);
        [Window::of(low), Window::of(high)]
    }

    fn of(ranges: &[Range]) -> Window {
        let ([first, ..], [.., last]) = (ranges, ranges) else { return Window::default() };
        let number = |address: u64| address >> Window::SHIFT;
        let count = number(last.end - 1) - number(first.begin) + 1;
        Window { first: number(first.begin) as u32, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }
}

/// `mp_launch`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Launch {
    /// The addresses between which ranges may be.
    pub windows: [Window; 2],
    /// The address of the table.
    pub table: u64,
    /// The address of the ranges.
    pub ranges: u64,
    /// The address of the records; 0 if accesses are counted alone.
    pub records: u64,
    /// The number of ranges.
    pub range_count: u32,
    /// The kernel's number.
    pub kernel: u32,
    /// A warp is counted if its draw is below; 0: every warp.
    pub threshold: u32,
    /// The number of the launch, if accesses are recorded.
    pub number: u32,
    /// Zero.
    pub spare: u64,
}

/// `mp_record`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// As in [`Counter`]; 0 until the record is whole.
    pub pc: u64,
    /// See [`What`].
    pub what: u64,
    /// A mask.
    pub lanes: u32,
    /// The number of the launch.
    pub launch: u32,
    /// Of the lanes; of a bulk copy its address and bytes.
    pub address: [u64; 32],
}

/// `mp_records`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Records {
    /// Records of a half.
    pub capacity: u64,
    /// Records for which there was no room.
    pub dropped: u64,
    /// Records of each half that were begun.
    pub reserved: [u64; 2],
    /// How often each half was emptied.
    pub emptied: [u64; 2],
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
pub const MOST_KERNELS: u32 = 1 << 20;
/// The code of the width of bulk copies.
const BULK: u64 = 7;

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
        let code = word >> 56 & 7;
        What {
            range: word as u32,
            kernel: (word >> 32) as u32 & (MOST_KERNELS - 1),
            kind: (word >> 52) as u32 & 15,
            width: if code == BULK { 0 } else { 1 << code },
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
// SAFETY: four u32, three u64, four u32 and a u64: 64 bytes without a gap, see below.
unsafe impl Plain for Launch {}
// SAFETY: u64, u64, u32, u32 and 32 u64, without a gap, see below.
unsafe impl Plain for Record {}
// SAFETY: six u64.
unsafe impl Plain for Records {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}

const _: () = assert!(size_of::<Launch>() == 64 && size_of::<Record>() == 280);
