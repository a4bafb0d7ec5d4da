//! The modules of the library in which threads, or processes, meet without a lock, as they are, under loom: it
//! runs each test in every order in which the steps of its threads may come and be seen, up to a number of
//! switches between them, and finds uses of a cell at the same time.

#![cfg(test)]

#[path = "../../../mpisee-rs/src/slot.rs"]
mod slot;
#[allow(dead_code)] // The tests use a part of it.
#[path = "../../../mpisee-rs/src/table.rs"]
mod table;

mod slots;
mod tables;

/// In place of `mpisee-rs/src/sync.rs`.
mod sync {
    pub use loom::cell::UnsafeCell;
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    pub fn own_value(value: &AtomicU64) -> u64 {
        // SAFETY: the caller alone writes it, or loom finds out.
        unsafe { value.unsync_load() }
    }
}

/// Runs `test` in all orders with at most `switches` switches from a thread that could go on.
fn try_all(switches: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(test);
}
