//! Asks for memory before it is needed.
//!
//! In a program that computes between its calls, code and data of the profiler come from memory anew at each call, one cache line
//! after the other: a processor that waits for an instruction does not know which data the next ones want. Lines that are
//! asked for at once come together.

/// What will be read or written.
#[inline(always)]
pub fn data<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: asks for a line at any address whatever, and reads nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
}

/// Where the calling thread keeps its own words, about.
#[inline(always)]
pub fn thread_local() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    // SAFETY: as in `data`.
    unsafe {
        std::arch::asm!("prefetcht0 fs:[-64]", options(nostack, preserves_flags, readonly));
    }
}

/// The next `LINES` cache lines of code, 8 at most.
#[inline(always)]
pub fn code_ahead<const LINES: usize>() {
    const { assert!(LINES <= 8) };
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! line {
            ($($number:literal)*) => {$(
                if $number <= LINES {
                    // SAFETY: as in `data`.
                    unsafe {
                        std::arch::asm!(
                            "prefetcht1 [rip + {}]",
                            const 64 * $number,
                            options(nostack, preserves_flags, readonly)
                        );
                    }
                }
            )*};
        }
        line!(1 2 3 4 5 6 7 8);
    }
}

/// The first `LINES` cache lines of the code of a function.
#[inline(always)]
pub fn function<const LINES: usize>(function: *const ()) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..LINES {
        // SAFETY: as in `data`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(function.cast::<i8>().wrapping_add(64 * line));
        }
    }
}
