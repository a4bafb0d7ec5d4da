//! The time-stamp counter, by which the library measures time; readers of a live segment on this
//! machine use it, too.

/// Returns whether the counter runs at one rate, the same on all cores.
pub fn is_reliable() -> bool {
    machine::is_reliable()
}

/// The counter.
#[inline]
pub fn read() -> u64 {
    machine::read()
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    #[inline]
    pub fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and Linux leaves it to user programs
        // unless a process asks otherwise with prctl(PR_SET_TSC).
        unsafe { _rdtsc() }
    }

    /// The processor says that the counter runs at one rate in all its states (Intel SDM volume 3,
    /// 18.17.1: CPUID.80000007H, bit 8 of EDX), and the kernel, which compares the cores' counters,
    /// has not withdrawn it.
    pub fn is_reliable() -> bool {
        let most = __cpuid(0x8000_0000).eax;
        let invariant = most >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
        let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
        let trusted = std::fs::read_to_string(sources)
            .is_ok_and(|names| names.split_whitespace().any(|name| name == "tsc"));
        invariant && trusted
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use std::arch::asm;

    #[inline]
    pub fn read() -> u64 {
        let count: u64;
        // SAFETY: reads the virtual counter, to which Linux gives user programs access; no side
        // effect.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
        count
    }

    /// The generic timer runs at a fixed rate by definition (Arm ARM, D12.1).
    pub fn is_reliable() -> bool {
        true
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    pub fn read() -> u64 {
        0
    }

    pub fn is_reliable() -> bool {
        false
    }
}
