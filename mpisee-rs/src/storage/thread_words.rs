//! The calling thread's own words: where its state is, where it says in which call it is, and since
//! when a call is measured.
//!
//! PERF: a library finds a `thread_local!` by a call of the dynamic linker's, which is a tenth of
//! what an ordinary call costs, and may take the loader's lock. Rust has no other way yet (`-Z
//! tls-model=initial-exec`), so that the assembler says it: a place at a fixed distance from the
//! thread's own block, which the linker fills in when it loads the library.

#[cfg(target_arch = "x86_64")]
pub use of_linker::{both, get, locate, sampled_since, set, set_sampled_since};
#[cfg(not(target_arch = "x86_64"))]
pub use of_rust::{both, get, locate, sampled_since, set, set_sampled_since};

#[cfg(target_arch = "x86_64")]
mod of_linker {
    use crate::storage::hot::HOT;
    use mpisee_profile::segment::layout::Slot;
    use std::arch::{asm, global_asm};
    use std::sync::atomic::Ordering;

    global_asm!(
        ".pushsection .tbss.mpisee_current,\"awT\",@nobits",
        ".p2align 5",
        ".globl mpisee_current",
        ".hidden mpisee_current",
        ".type mpisee_current,@object",
        ".size mpisee_current,24",
        "mpisee_current:",
        ".zero 24",
        ".popsection",
    );

    /// The state; null until [`set`] is called.
    #[inline(always)]
    pub fn get<T>() -> *const T {
        let pointer;
        // SAFETY: reads the calling thread's own eight bytes, zero at first; the offset comes from
        // the linker.
        unsafe {
            asm!(
                "mov {pointer}, qword ptr [rip + mpisee_current@GOTTPOFF]",
                "mov {pointer}, qword ptr fs:[{pointer}]",
                pointer = out(reg) pointer,
                options(readonly, nostack, preserves_flags),
            );
        }
        pointer
    }

    /// The state, and the slot of the call in progress, which is null without one.
    ///
    /// PERF: the call has read the cache line that has the offset already; the linker's table would
    /// be one more.
    #[inline(always)]
    pub fn both<T>() -> (*const T, *const Slot) {
        let (thread, active_call);
        // SAFETY: reads the calling thread's own words at the offset that `locate` has stored;
        // while calls are counted, one has been stored.
        unsafe {
            asm!(
                "mov {thread}, qword ptr fs:[{offset}]",
                "mov {active_call}, qword ptr fs:[{offset} + 8]",
                offset = in(reg) HOT.thread_offset.load(Ordering::Relaxed),
                thread = out(reg) thread,
                active_call = lateout(reg) active_call,
                options(readonly, nostack, preserves_flags),
            );
        }
        (thread, active_call)
    }

    /// Stores both.
    pub fn set<T>(thread: *const T, active_call: *const Slot) {
        // SAFETY: writes the calling thread's own words; nobody else does.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + mpisee_current@GOTTPOFF]",
                "mov qword ptr fs:[{offset}], {thread}",
                "mov qword ptr fs:[{offset} + 8], {active_call}",
                offset = out(reg) _,
                thread = in(reg) thread,
                active_call = in(reg) active_call,
                options(nostack, preserves_flags),
            );
        }
    }

    /// When the library began to record the call that is measured, in ticks; 0 at first.
    #[inline(always)]
    pub fn sampled_since() -> u64 {
        let ticks;
        // SAFETY: reads the calling thread's own word at the offset that `locate` has stored before
        // any call is measured.
        unsafe {
            asm!(
                "mov {ticks}, qword ptr fs:[{offset} + 16]",
                offset = in(reg) HOT.thread_offset.load(Ordering::Relaxed),
                ticks = out(reg) ticks,
                options(readonly, nostack, preserves_flags),
            );
        }
        ticks
    }

    /// Stores it.
    ///
    /// PERF: on the cache line that `both` has read, so that measuring takes no further one.
    #[inline(always)]
    pub fn set_sampled_since(ticks: u64) {
        // SAFETY: the word is this thread's own, at the offset that was found for all threads;
        // nobody else writes it.
        unsafe {
            asm!(
                "mov qword ptr fs:[{offset} + 16], {ticks}",
                offset = in(reg) HOT.thread_offset.load(Ordering::Relaxed),
                ticks = in(reg) ticks,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Finds out where the words are.
    pub fn locate() {
        let offset: usize;
        // SAFETY: reads what the linker has filled in.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + mpisee_current@GOTTPOFF]",
                offset = out(reg) offset,
                options(readonly, nostack, preserves_flags),
            );
        }
        HOT.thread_offset.store(offset, Ordering::Relaxed);
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod of_rust {
    use mpisee_profile::segment::layout::Slot;
    use std::cell::Cell;
    use std::ptr;

    thread_local! {
        static CURRENT: Cell<(*const (), *const Slot)> = const { Cell::new((ptr::null(), ptr::null())) };
        static SAMPLED_SINCE: Cell<u64> = const { Cell::new(0) };
    }

    /// The state; null until [`set`] is called.
    #[inline]
    pub fn get<T>() -> *const T {
        both().0
    }

    /// The state, and the slot of the call in progress, which is null without one.
    #[inline]
    pub fn both<T>() -> (*const T, *const Slot) {
        let (thread, active_call) = CURRENT.get();
        (thread.cast(), active_call)
    }

    /// Stores both.
    pub fn set<T>(thread: *const T, active_call: *const Slot) {
        CURRENT.set((thread.cast(), active_call));
    }

    /// When the library began to record the call that is measured, in ticks; 0 at first.
    pub fn sampled_since() -> u64 {
        SAMPLED_SINCE.get()
    }

    /// Stores it.
    pub fn set_sampled_since(ticks: u64) {
        SAMPLED_SINCE.set(ticks);
    }

    /// There is nothing to find.
    pub fn locate() {}
}
