//! The program's floating-point environment: which exceptions trap, which were raised, how results
//! are rounded, and whether the smallest numbers are taken for 0.
//!
//! A program may trap inexact results, as debuggers of numerical programs do, and looks at the
//! exceptions that its own arithmetic raised. The arithmetic of a library between changes both.
//! Ordinary calls have none; what has some holds the environment.

/// While it lives, arithmetic of the thread traps nothing and rounds to the nearest number;
/// afterwards the environment is what it was.
pub struct Held {
    before: environment::Environment,
}

/// Holds the environment of the calling thread. Threads that are made meanwhile begin without
/// traps, too.
#[must_use]
pub fn hold() -> Held {
    Held { before: environment::set_default() }
}

impl Drop for Held {
    fn drop(&mut self) {
        environment::restore(&self.before);
    }
}

#[cfg(target_arch = "x86_64")]
mod environment {
    use std::arch::asm;
    use std::mem::MaybeUninit;

    /// The environments of the two units.
    #[repr(C)]
    pub struct Environment {
        /// As `fnstenv` stores it.
        x87: [u32; 7],
        /// Control and status of SSE.
        mxcsr: u32,
    }

    /// Nothing traps, nothing was raised, numbers are rounded to the nearest.
    static DEFAULT_MXCSR: u32 = 0x1f80;

    pub fn set_default() -> Environment {
        let mut before = MaybeUninit::<Environment>::uninit();
        // SAFETY: there is room for what is stored, and the instructions change nothing but the
        // environment. No function keeps a number on the stack of the x87 while it calls another
        // one.
        unsafe {
            asm!(
                "fnstenv [{before}]",
                "fninit",
                "stmxcsr [{before} + 28]",
                "ldmxcsr [{default}]",
                before = in(reg) before.as_mut_ptr(),
                default = in(reg) &raw const DEFAULT_MXCSR,
                options(nostack),
            );
            before.assume_init()
        }
    }

    pub fn restore(before: &Environment) {
        // SAFETY: it is an environment that was stored.
        unsafe {
            asm!(
                "fldenv [{before}]",
                "ldmxcsr [{before} + 28]",
                before = in(reg) before,
                options(nostack),
            );
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod environment {
    use std::arch::asm;

    /// The registers of control and status.
    pub struct Environment {
        fpcr: u64,
        fpsr: u64,
    }

    pub fn set_default() -> Environment {
        let (fpcr, fpsr): (u64, u64);
        // SAFETY: the instructions change nothing but the environment.
        unsafe {
            asm!(
                "mrs {fpcr}, fpcr",
                "mrs {fpsr}, fpsr",
                "msr fpcr, xzr",
                "msr fpsr, xzr",
                fpcr = out(reg) fpcr,
                fpsr = out(reg) fpsr,
                options(nostack),
            );
        }
        Environment { fpcr, fpsr }
    }

    pub fn restore(before: &Environment) {
        // SAFETY: these are values that the registers had.
        unsafe {
            asm!(
                "msr fpcr, {fpcr}",
                "msr fpsr, {fpsr}",
                fpcr = in(reg) before.fpcr,
                fpsr = in(reg) before.fpsr,
                options(nostack),
            );
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod environment {
    /// Nothing is known of other processors.
    pub struct Environment;

    pub fn set_default() -> Environment {
        Environment
    }

    pub fn restore(_before: &Environment) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::ffi::c_int;
    use std::hint::black_box;

    #[link(name = "m")]
    unsafe extern "C" {
        fn fesetround(round: c_int) -> c_int;
        fn fegetround() -> c_int;
        fn fetestexcept(exceptions: c_int) -> c_int;
        fn feclearexcept(exceptions: c_int) -> c_int;
        fn feraiseexcept(exceptions: c_int) -> c_int;
        fn feenableexcept(exceptions: c_int) -> c_int;
        fn fegetexcept() -> c_int;
    }

    /// `FE_UPWARD`, `FE_DIVBYZERO` and `FE_INEXACT` of glibc.
    const CONSTANTS: [c_int; 3] =
        if cfg!(target_arch = "x86_64") { [0x800, 0x04, 0x20] } else { [0x40_0000, 0x02, 0x10] };
    const UPWARD: c_int = CONSTANTS[0];
    const DIVIDED_BY_ZERO: c_int = CONSTANTS[1];
    const INEXACT: c_int = CONSTANTS[2];

    fn third() -> f64 {
        black_box(1.0) / black_box(3.0)
    }

    #[test]
    fn arithmetic_meanwhile_neither_traps_nor_shows() {
        let nearest = third();
        // SAFETY: the functions change the environment of this thread alone, which ends after the
        // test.
        unsafe {
            feclearexcept(INEXACT);
            feraiseexcept(DIVIDED_BY_ZERO);
            fesetround(UPWARD);
            // Processors without traps refuse this.
            feenableexcept(INEXACT);
            let traps = fegetexcept();
            {
                let _held = hold();
                assert_eq!((fegetround(), fegetexcept()), (0, 0));
                assert_eq!(third().to_bits(), nearest.to_bits());
                assert_eq!(fetestexcept(INEXACT | DIVIDED_BY_ZERO), INEXACT);
            }
            assert_eq!((fegetround(), fegetexcept()), (UPWARD, traps));
            assert_eq!(fetestexcept(INEXACT | DIVIDED_BY_ZERO), DIVIDED_BY_ZERO);
        }
    }
}
