//! Prefetches.
//!
//! In a program that computes between its calls, our data and the entries of the page table are in
//! no cache, and most addresses are read from what was loaded before. Prefetching lets these misses
//! overlap.

/// Memory that will be read or written.
#[inline(always)]
pub fn data<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: asks for a line at any address whatever, and reads nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Where the calling thread keeps its own words, about.
#[inline(always)]
pub fn thread_local() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    // SAFETY: asks for a line, and reads nothing.
    unsafe {
        std::arch::asm!("prefetcht0 fs:[-64]", options(nostack, preserves_flags, readonly));
    }
}
