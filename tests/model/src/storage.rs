//! The modules of the library, and what loom has in place of the one that they share.

#[path = "../../../mpisee-rs/src/storage/bucket.rs"]
pub mod bucket;
#[allow(dead_code)] // The tests use a part of it.
#[path = "../../../mpisee-rs/src/storage/memory.rs"]
pub mod memory;
#[path = "../../../mpisee-rs/src/storage/once.rs"]
pub mod once;
#[path = "../../../mpisee-rs/src/storage/overflow.rs"]
pub mod overflow;
#[path = "../../../mpisee-rs/src/storage/seqlock.rs"]
pub mod seqlock;
#[allow(dead_code)] // The tests use a part of it.
#[path = "../../../mpisee-rs/src/storage/table.rs"]
pub mod table;

/// In place of `mpisee-rs/src/storage/sync.rs`.
pub mod sync {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    pub fn wait_turn(_turn: u32) {
        loom::hint::spin_loop();
    }

    pub fn own_value(value: &AtomicU64) -> u64 {
        // SAFETY: the caller alone writes it, or loom finds out.
        unsafe { value.unsync_load() }
    }
}
