//! The frame of the function that makes a call: by it a reader outside of the process finds the
//! call's place in the program, and the library the address to which the call returns.
//!
//! The library is built with frame pointers: each of its frames has, at the address in the frame
//! pointer, that of its caller, and behind it the address to which it returns.

use std::ops::Range;

/// The frame pointer of the function into which this is inlined; 0 where none is known.
///
/// The library has frame pointers: its build script refuses to build without them.
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

/// The address to which the function returns into which this is inlined; 0 where that is not known.
#[inline(always)]
pub fn caller() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let returns_to;
        // SAFETY: the library is compiled with frame pointers (see `pointer`), so that the function
        // has a frame, and the word above the one to which its frame pointer points is its return
        // address, which does not change before it returns.
        unsafe {
            std::arch::asm!("mov {}, [rbp + 8]", out(reg) returns_to, options(pure, readonly, nostack, preserves_flags));
        }
        returns_to
    }
    #[cfg(target_arch = "aarch64")]
    {
        let returns_to;
        // SAFETY: the library is compiled with frame pointers, so that the word above the one to
        // which x29 points is the return address.
        unsafe {
            std::arch::asm!("ldr {}, [x29, #8]", out(reg) returns_to, options(pure, readonly, nostack, preserves_flags));
        }
        returns_to
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// The address at which the library is loaded.
#[inline(always)]
pub fn library() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let start;
        // SAFETY: computes an address that the linker defines.
        unsafe {
            std::arch::asm!("lea {}, [rip + __ehdr_start]", out(reg) start, options(pure, nomem, nostack, preserves_flags));
        }
        start
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        unsafe extern "C" {
            static __ehdr_start: u8;
        }
        (&raw const __ehdr_start).addr() as u64
    }
}

/// Frames of the library that a call goes through at most before it is recorded.
const MOST_OWN_FRAMES: usize = 16;

/// From where a call is made.
#[derive(Clone, Copy)]
pub struct CalledFrom {
    /// The frame of the library's function that makes it; 0 where that is not known.
    pub frame: u64,
    /// The address in the program to which it returns; 0 where that is not known.
    pub caller: u64,
}

/// The frame of the library's function that the program has called.
#[derive(Clone, Copy)]
pub struct ExportFrame {
    /// The address to which the call returns.
    pub returns_to: u64,
    /// The stack pointer there.
    pub stack: u64,
    /// The frame pointer there.
    pub outer: u64,
}

impl ExportFrame {
    /// From the frame pointer of a function of the library on, whose code is at the addresses
    /// `own`; `None` where that leads nowhere.
    ///
    /// # Safety
    /// `pointer` is 0, or the frame pointer of a function of this library that has not returned on
    /// the calling thread.
    #[inline]
    pub unsafe fn leaving(pointer: u64, own: &Range<usize>) -> Option<ExportFrame> {
        let mut frame = pointer as usize as *const [usize; 2];
        for _ in 0..MOST_OWN_FRAMES {
            if frame.is_null() || !frame.is_aligned() {
                return None;
            }
            // SAFETY: the caller's function has not returned, nor have those before it in the loop,
            // as they return into this library: each frame is on this thread's stack and begins
            // with these two words, since the library is built with frame pointers.
            let [outer, returns_to] = unsafe { frame.read() };
            if !own.contains(&returns_to) {
                let stack = frame.addr() + size_of::<[usize; 2]>();
                return Some(ExportFrame {
                    returns_to: returns_to as u64,
                    stack: stack as u64,
                    outer: outer as u64,
                });
            }
            let outer = outer as *const [usize; 2];
            // Outer frames are at higher addresses.
            if outer <= frame {
                return None;
            }
            frame = outer;
        }
        None
    }
}
