//! The modules of the library in which threads, or processes, meet without a lock, as they are,
//! under loom: it runs each test in every order in which the steps of its threads may come and be
//! seen, up to a number of switches between them, and finds uses of a cell at the same time.

#![cfg(test)]

mod slots;
mod storage;
mod tables;

/// Runs `test` in all orders with at most `switches` switches from a thread that could go on.
fn try_all(switches: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(test);
}
