//! Which modules are patched: those on whose device something remote can be accessed.
//!
//! Patches cost time also where they find nothing to count, so they come out again; but only when no kernel can be
//! running, and not if they would soon be wanted again.

use super::Tracer;
use std::collections::HashSet;
use std::thread::{self, ThreadId};

/// What was done with a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patched {
    /// Nothing.
    Never,
    /// It is patched.
    Now,
    /// It was.
    Before,
    /// It stays as it is, since to change it failed.
    Stays,
}

/// When the patches of a context's modules may come out.
#[derive(Debug, Default)]
pub struct Patience {
    /// Threads that launched kernels, and did not wait for the context since.
    launching: HashSet<ThreadId>,
    /// The registry's version when nothing remote was there for the first time, and how often the program has waited
    /// since then, all of it being so.
    idle: Option<(u64, u32)>,
    /// How often patches came out.
    times: u32,
}

impl Patience {
    /// This thread launches a kernel.
    pub fn launches(&mut self) {
        self.launching.insert(thread::current().id());
    }

    /// This thread has waited for the context. Whether nothing runs there: what a thread launched before it waited has
    /// come to its end, what another launches meanwhile may not.
    fn waited(&mut self) -> bool {
        self.launching.remove(&thread::current().id());
        self.launching.is_empty()
    }

    /// Whether there was nothing remote for long enough; `idle` is the registry's version if there is nothing now. Each
    /// time it takes twice as many waits, so that who allocates and frees without end is not patched without end.
    fn is_over(&mut self, idle: Option<u64>) -> bool {
        let Some(version) = idle else {
            self.idle = None;
            return false;
        };
        let waits = self.idle.filter(|(of, _)| *of == version).map_or(0, |(_, waits)| waits + 1);
        self.idle = Some((version, waits));
        waits >= 1 << self.times.min(20)
    }
}

impl Tracer {
    /// The program has graphs, which may keep kernels as they are now.
    pub fn graph_seen(&mut self) {
        self.has_graphs = true;
    }

    /// Patches the modules on whose device something remote can be accessed. Those of others stay as fast as they are.
    pub(super) fn patch(&mut self) {
        for (&context, known) in &mut self.contexts {
            let version = self.registry.version(known.device);
            if known.looked_at == Some(version) {
                continue;
            }
            known.looked_at = Some(version);
            if !self.registry.has_remote(known.device) {
                continue;
            }
            let modules = self.modules.iter_mut().filter(|(_, it)| it.context == context);
            let is_wanted = |it: Patched| matches!(it, Patched::Never | Patched::Before);
            for (&module, it) in modules.filter(|(_, it)| is_wanted(it.patched)) {
                let is_again = it.patched == Patched::Before;
                it.patched = Patched::Now;
                if !self.backend.patch(context, module, is_again) {
                    it.patched = Patched::Stays;
                    self.counts.note("a module could not be patched, and its kernels are not counted");
                }
            }
        }
    }

    /// Takes patches out, if the program has waited for a context where nothing remote has been for a while.
    pub(super) fn unpatch(&mut self, context: u64) {
        let Some(known) = self.contexts.get_mut(&context) else { return };
        let version = self.registry.version(known.device);
        let idle = (!self.registry.has_remote(known.device)).then_some(version);
        if !known.patience.waited() || !known.patience.is_over(idle) || self.has_graphs {
            return;
        }
        let mut is_done = false;
        for (&module, it) in self.modules.iter_mut().filter(|(_, it)| it.context == context) {
            if it.patched == Patched::Now {
                let is_out = self.backend.unpatch(module);
                it.patched = if is_out { Patched::Before } else { Patched::Stays };
                is_done |= is_out;
            }
        }
        known.patience.times += u32::from(is_done);
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
            patience.times += u32::from(over.is_some());
            over
        };
        assert_eq!(
            [waits_until(1, 9), waits_until(2, 9), waits_until(3, 9), waits_until(4, 8)]
                .map(|it| it.unwrap_or(0)),
            [2, 3, 5, 0]
        );
    }

    #[test]
    fn what_came_and_went_meanwhile_begins_anew() {
        let mut patience = Patience::default();
        assert!((0..100).all(|version| !patience.is_over(Some(version))));
        assert!(patience.is_over(Some(99)));
    }

    #[test]
    fn what_another_thread_launched_may_still_run() {
        let mut patience = Patience::default();
        assert!(patience.waited());
        patience.launches();
        thread::scope(|scope| {
            scope.spawn(|| patience.launches());
        });
        assert!(!patience.waited());
    }
}
