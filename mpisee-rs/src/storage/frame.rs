//! The frame of the function that makes a call, by which a reader outside of the process finds the call's place in the program.

/// The frame pointer of the function into which this is inlined; 0 where none is known.
///
/// The library is built with frame pointers. In one that is not this is any number: whoever follows it checks each step.
#[inline(always)]
pub fn pointer() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("mov {}, rbp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        }
        pointer
    }
    #[cfg(target_arch = "aarch64")]
    {
        let pointer;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("mov {}, x29", out(reg) pointer, options(nomem, nostack, preserves_flags));
        }
        pointer
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}
