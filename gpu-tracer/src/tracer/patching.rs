//! Which modules are patched: those that are launched where something remote can be accessed.
//!
//! A module is patched when it is loaded, or else at a launch, when the thread has the module's context: NVIDIA's own
//! samples do the one, AccelProf does the other. Nobody is known to do it when memory is allocated. Kernels of graphs are
//! in them as they were when the graph was made ready, so that is a moment, too.
//!
//! Patches cost time also where they find nothing to count, so they come out again; but only when no kernel can be
//! running, and not if they would soon be wanted again.

use super::{Module, Tracer};
use crate::trace::trace;
use std::collections::HashSet;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// What was done with a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patched {
    /// Nothing, or it was undone.
    Never,
    /// It is patched.
    Now,
    /// It stays as it is, since it could not be patched.
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

    /// A graph is made ready to be launched.
    pub fn graph_creating(&mut self) {
        let modules: Vec<(u64, u64)> =
            self.modules.iter().map(|(&module, it)| (it.context, module)).collect();
        for (context, module) in modules {
            if self.has_remote(context) {
                self.patch(module);
            }
        }
    }

    /// Whether the launch of a kernel is of a module that is patched; it is from now on if there is something to count.
    pub fn is_patched_for(&mut self, context: u64, module: u64, kernel: &str) -> bool {
        if !self.knows_module(module) {
            // Of its loading nobody told.
            self.modules.insert(module, Module { context, lines: Arc::default(), patched: Patched::Never });
        }
        if self.wants(context, kernel) {
            self.patch(module);
        }
        self.modules.get(&module).is_some_and(|it| it.patched == Patched::Now)
    }

    /// Patches a module, unless that was done, or could not be.
    pub(super) fn patch(&mut self, module: u64) {
        let Some(it) = self.modules.get_mut(&module).filter(|it| it.patched == Patched::Never) else {
            return;
        };
        it.patched = Patched::Now;
        if !self.backend.patch(it.context, module) {
            it.patched = Patched::Stays;
            self.counts.note("a module could not be patched, and its kernels are not counted");
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
                // What cannot be taken out goes on counting.
                if self.backend.unpatch(module) {
                    trace!("patches are out module={module:#x}");
                    it.patched = Patched::Never;
                    is_done = true;
                }
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
