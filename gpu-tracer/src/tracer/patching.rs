//! The choice of modules to patch: those that are launched where something remote can be accessed.
//!
//! A module is patched when it is loaded, or else at a launch, when the thread has the module's
//! context: NVIDIA's own samples do the one, AccelProf does the other. Nobody is known to do it
//! when memory is allocated. Kernels of graphs are in them as they were when the graph was made
//! ready, so that is a moment, too.
//!
//! The launch of a kernel in a stream of the program's own is no such moment: on an H100 with
//! driver 580 and CUDA 13.0 the Sanitizer never returned from patching there, nor from taking
//! patches out.
//!
//! Patches cost time also where they find nothing to count, so they come out again; but only when
//! no kernel can be running, not if they would soon be wanted again, and not where they could not
//! be put in again.

use super::{Module, Patched, Tracer};
use crate::trace::trace;
use std::sync::Arc;

const TOO_LATE: &str = "kernels were not counted that were launched in streams of the program's own, of modules that were loaded before there \
                        was memory that they could access remotely";

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

    /// Returns whether the launch of a kernel is of a module that is patched; it is from now on if
    /// there is something to count. `in_own_stream`: the stream is one that the program has made,
    /// or a thread's, and not the NULL stream.
    pub fn is_patched_for(&mut self, context: u64, module: u64, kernel: &str, in_own_stream: bool) -> bool {
        if !self.knows_module(module) {
            // Its loading was not reported.
            self.modules.insert(module, Module { context, lines: Arc::default(), patched: Patched::Never });
        }
        if in_own_stream {
            self.contexts.entry(context).and_modify(|it| it.has_own_streams = true);
        }
        let state = |tracer: &Self| tracer.modules.get(&module).map(|it| it.patched);
        if self.launching(context, module, kernel) && state(self) == Some(Patched::Never) {
            if in_own_stream {
                self.counts.note(TOO_LATE);
            } else {
                self.patch(module);
            }
        }
        state(self) == Some(Patched::Now)
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

    /// Takes patches out, if nothing runs in a context where nothing remote has been for a while.
    pub(super) fn unpatch(&mut self, context: u64, is_idle: bool) {
        let Some(known) = self.contexts.get_mut(&context) else { return };
        let version = self.registry.version(known.device);
        let nothing = (!self.registry.has_remote(known.device)).then_some(version);
        if is_idle && known.patience.is_over(nothing) && self.take_patches_out(context) {
            self.contexts.entry(context).and_modify(|it| it.patience.came_out());
        }
    }

    /// Takes the patches of a context out, in which nothing runs. Returns whether there were any.
    pub(super) fn take_patches_out(&mut self, context: u64) -> bool {
        let mut is_done = false;
        if self.has_graphs || self.contexts.get(&context).is_some_and(|it| it.has_own_streams) {
            return is_done;
        }
        for (&module, it) in self.modules.iter_mut().filter(|(_, it)| it.context == context) {
            if it.patched == Patched::Now {
                // Patches that cannot be taken out go on counting.
                if self.backend.unpatch(module) {
                    trace!("patches are out module={module:#x}");
                    it.patched = Patched::Never;
                    is_done = true;
                }
            }
        }
        is_done
    }
}
