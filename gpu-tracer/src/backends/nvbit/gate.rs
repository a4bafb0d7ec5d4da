//! One launch at a time, from before the driver's call until after it: what the calls of a launch
//! get is set for the kernel, not for the launch, and another thread that launches the same kernel
//! must not set it in between.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// A launch waits no longer than this for another's: that one may wait in the driver for a place in
/// its stream, and what makes place may be what waits here.
const MOST: Duration = Duration::from_secs(2);

/// The launch in progress, and the launches that wait for it.
#[derive(Debug, Default)]
pub struct Gate {
    /// The first is inside; the others came in this order.
    threads: Mutex<VecDeque<ThreadId>>,
    left: Condvar,
}

impl Gate {
    /// Enters; false if another did not leave in time.
    pub fn enter(&self) -> bool {
        self.enter_within(MOST)
    }

    fn enter_within(&self, most: Duration) -> bool {
        let own = thread::current().id();
        let end = Instant::now() + most;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if !threads.contains(&own) {
            threads.push_back(own);
        }
        while threads.front() != Some(&own) {
            let Some(rest) = end.checked_duration_since(Instant::now()) else {
                threads.retain(|it| *it != own);
                return false;
            };
            (threads, _) = self.left.wait_timeout(threads, rest).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Leaves, if this thread is in.
    pub fn leave(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.front() == Some(&thread::current().id()) {
            threads.pop_front();
            self.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_thread_is_in_at_a_time() {
        let (gate, inside) = (Gate::default(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert!(gate.enter_within(Duration::from_secs(600)));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave();
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_waits_for_ever() {
        let gate = Gate::default();
        assert!(gate.enter() && gate.enter(), "a thread does not wait for itself");
        let of_other = thread::scope(|scope| {
            let other = scope.spawn(|| {
                gate.leave(); // is not its to leave
                gate.enter_within(Duration::from_millis(20))
            });
            other.join().unwrap()
        });
        assert!(!of_other);
        gate.leave();
        assert!(thread::scope(|scope| scope.spawn(|| gate.enter()).join().unwrap()));
    }
}
