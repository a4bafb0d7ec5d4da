//! When patches of a context come out: no kernel may be running, and nothing remote has been there
//! for a while.

use std::collections::HashSet;
use std::thread::{self, ThreadId};

/// When the patches of a context's modules may come out.
#[derive(Debug, Default)]
pub struct Patience {
    /// Threads that launched kernels in a stream, and did not wait for it since.
    launching: HashSet<(ThreadId, u64)>,
    /// The registry's version when nothing remote was there for the first time, and how often the
    /// program has waited since then, all of it being so.
    idle: Option<(u64, u32)>,
    /// The number of times that patches came out.
    times: u32,
}

impl Patience {
    /// This thread launches a kernel in a stream.
    pub fn launches(&mut self, stream: u64) {
        self.launching.insert((thread::current().id(), stream));
    }

    /// This thread has waited for a stream, or, without one, for the context. Returns whether
    /// nothing runs there: what a thread launched before it waited has come to its end, what
    /// another launches meanwhile may not.
    pub fn waited(&mut self, stream: Option<u64>) -> bool {
        let own = thread::current().id();
        self.launching.retain(|&(thread, of)| thread != own || stream.is_some_and(|stream| stream != of));
        self.launching.is_empty()
    }

    /// Returns whether there was nothing remote for long enough; `idle` is the registry's version
    /// if there is nothing now. Each time it takes twice as many waits, so that who allocates and
    /// frees without end is not patched without end.
    pub fn is_over(&mut self, idle: Option<u64>) -> bool {
        let Some(version) = idle else {
            self.idle = None;
            return false;
        };
        let waits = self.idle.filter(|(of, _)| *of == version).map_or(0, |(_, waits)| waits + 1);
        self.idle = Some((version, waits));
        waits >= 1 << self.times.min(20)
    }

    /// Patches came out.
    pub fn came_out(&mut self) {
        self.times += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_it_takes_twice_as_long() {
        let mut patience = Patience::default();
        let mut waits_until = |version: u64, most: u32| {
            assert!(!patience.is_over(None));
            let over = (1..=most).find(|_| patience.is_over(Some(version)));
            if over.is_some() {
                patience.came_out();
            }
            over
        };
        assert_eq!(
            [waits_until(1, 9), waits_until(2, 9), waits_until(3, 9), waits_until(4, 8)]
                .map(|it| it.unwrap_or(0)),
            [2, 3, 5, 0]
        );
    }

    #[test]
    fn changed_registry_restarts_the_wait() {
        let mut patience = Patience::default();
        assert!((0..100).all(|version| !patience.is_over(Some(version))));
        assert!(patience.is_over(Some(99)));
    }

    #[test]
    fn launch_by_another_thread_keeps_the_context_busy() {
        let mut patience = Patience::default();
        assert!(patience.waited(None));
        patience.launches(1);
        thread::scope(|scope| {
            scope.spawn(|| patience.launches(1));
        });
        assert!(!patience.waited(None));
    }

    #[test]
    fn streams_are_waited_for_one_by_one() {
        let mut patience = Patience::default();
        patience.launches(1);
        patience.launches(2);
        assert!(!patience.waited(Some(2)) && !patience.waited(Some(3)) && patience.waited(Some(1)));
        patience.launches(1);
        assert!(patience.waited(None));
    }
}
