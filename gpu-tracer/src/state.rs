//! What all threads of the process share: the tracer, and one thread at a time in an event.

use crate::tracer::Tracer;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Whether the process is ending: the driver takes down what there is, and nobody says that it may be used meanwhile.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// Events that were given up.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// What to say of events that were given up, if there were any.
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
    /// Whether this thread is in an event: what we ask of the driver there is none of the program's doing.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What both back ends keep.
pub struct State {
    /// What counts.
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

    /// The state, for what is no event. What the driver tells of meanwhile, in this thread, is our doing.
    pub fn act<R>(&self, act: impl FnOnce(&mut State) -> R) -> Option<R> {
        let before = INSIDE.replace(true);
        let done = self.lock().map(|mut state| act(&mut state));
        INSIDE.set(before);
        done
    }

    /// The state. Another thread has it for moments; should it be held for long, which can only be because the driver
    /// waits for this thread, the event is given up.
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

    /// An event, but for those that we cause ourselves. One that cannot be had, or is an error of ours, is missed; no
    /// panic unwinds into the driver.
    pub fn event(&self, act: impl FnOnce(&mut State)) {
        if HAS_ENDED.load(Ordering::Relaxed) || INSIDE.replace(true) {
            return;
        }
        let seen = catch_unwind(AssertUnwindSafe(|| self.lock().map(|mut state| act(&mut state))));
        if !matches!(seen, Ok(Some(()))) {
            MISSED.fetch_add(1, Ordering::Relaxed);
        }
        INSIDE.set(false);
    }
}
