//! State that all threads of the process share: the tracer, with one thread at a time in an event.

use crate::process;
use crate::tracer::Tracer;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// True if the process is ending: the driver is shutting down, and NVIDIA does not say that it may
/// be used meanwhile.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// Events that were given up.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Sentence about events that were given up, if there were any.
pub fn missed() -> Option<String> {
    let missed = MISSED.load(Ordering::Relaxed);
    (missed > 0).then(|| {
        format!("{missed} events of the CUDA driver were not seen, so that gpu.csv may lack accesses")
    })
}

/// The process is ending. No event is looked at any more.
pub fn end() {
    HAS_ENDED.store(true, Ordering::Relaxed);
}

thread_local! {
    /// True if this thread is in an event: our own calls of the driver there are not the program's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// State of either backend.
pub struct State {
    /// The tracer of the process.
    pub tracer: Tracer,
}

/// The state of the process, which lives as long as that.
pub struct Shared {
    state: Mutex<State>,
}

impl Shared {
    /// The state, which stays until the process ends.
    pub fn new(tracer: Tracer) -> &'static Shared {
        let state = State { tracer };
        Box::leak(Box::new(Shared { state: Mutex::new(state) }))
    }

    /// The state, outside of events. Events that the driver reports in this thread meanwhile are
    /// our own doing.
    pub fn act<R>(&self, act: impl FnOnce(&mut State) -> R) -> Option<R> {
        let before = INSIDE.replace(true);
        let _hidden = process::hide();
        let done = self.lock().map(|mut state| act(&mut state));
        INSIDE.set(before);
        done
    }

    /// The state. Another thread has it for moments; should it be held for long, which can only be
    /// because the driver waits for this thread, the event is given up.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        const MOST: Duration = Duration::from_secs(2);
        let begin = Instant::now();
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if begin.elapsed() > MOST => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(20)),
            }
        }
    }

    /// An event, but for those that we cause ourselves. One that cannot be had, or is an error of
    /// ours, is missed; no panic unwinds into the driver.
    pub fn event(&self, act: impl FnOnce(&mut State)) {
        if HAS_ENDED.load(Ordering::Relaxed) || INSIDE.replace(true) {
            return;
        }
        let _hidden = process::hide();
        let seen = catch_unwind(AssertUnwindSafe(|| self.lock().map(|mut state| act(&mut state))));
        if !matches!(seen, Ok(Some(()))) {
            MISSED.fetch_add(1, Ordering::Relaxed);
        }
        INSIDE.set(false);
    }
}
