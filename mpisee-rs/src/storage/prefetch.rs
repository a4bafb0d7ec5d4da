//! Asks for memory before it is needed.
//!
//! In a program that computes between its calls, what a call reads comes from memory, and the entries of the page table first. The
//! address of one thing is mostly read from another, so that they come one after the other; what is asked for at once comes
//! together.

/// Memory that will be read or written.
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
