//! Asks for memory before it is needed, so that it comes while MPI works.

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

/// The code that follows.
#[inline(always)]
pub fn code() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `data`.
    unsafe {
        std::arch::asm!(
            "prefetcht1 [rip + 64]",
            "prefetcht1 [rip + 128]",
            "prefetcht1 [rip + 192]",
            "prefetcht1 [rip + 256]",
            options(nostack, preserves_flags, readonly)
        );
    }
}
