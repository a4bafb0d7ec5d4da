//! The part that both backends share: turns events into counts.
//!
//! A backend reports contexts, modules, memory and launches in the order in which they happen, each
//! before the program continues. At a launch, the tracer chooses the parameters of its patches.
//! These do not change while the launch may run: new ranges get new memory, written in the order of
//! the launch's stream, so that the program never waits.

mod patching;
mod sharing;

use crate::counting::context::Context;
use crate::counting::counts::{Counts, Kernel};
use crate::counting::file::Output;
use crate::counting::lines::Lines;
use crate::counting::records::{self, Known, Recorder};
use crate::device::backend::{Backend, Queue};
use crate::device::layout::{Counter, Table, bytes_of_mut};
use crate::memory::registry::{Registry, Where};
use crate::memory::sharing::Sharing;
use crate::process::nvshmem::{self, Asked, Symmetric};
use crate::process::python;
use crate::process::stacks::Stacks;
use crate::trace::trace;
use mpisee_profile::glob::Glob;
use mpisee_profile::gpu::FileEntry;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Counts are taken from a device not more often than this, unless they would be lost.
const BETWEEN_COLLECTIONS: Duration = Duration::from_millis(20);

const BEFORE_COUNTERS: &str = "kernels were not counted that were launched before the device had its counters, which waited for \
                              kernels of another stream";

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The mangled names of the kernels that count.
    pub kernels: Glob,
    /// N, where one warp in N is counted.
    pub sample: u32,
    /// N, where of the intervals between waits of the program one in N is counted.
    pub intervals: u32,
    /// Counters of a context; a power of two.
    pub slots: usize,
    /// The folder for records of every access, if they are wanted.
    pub records: Option<PathBuf>,
    /// Nothing is counted, but kernels are patched: tools/overhead/gpu_cost.cu measures the
    /// backend's own share of the cost.
    pub is_empty: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            kernels: Glob::new("*"),
            sample: 1,
            intervals: 1,
            slots: 1 << 15,
            records: None,
            is_empty: false,
        }
    }
}

/// A function that makes the file for counts, when there is something to count.
pub type MakeOutput = Box<dyn FnMut() -> Option<Output> + Send>;

/// The state of the process.
pub struct Tracer {
    backend: Box<dyn Backend>,
    settings: Settings,
    registry: Registry,
    stacks: Stacks,
    contexts: HashMap<u64, Context>,
    modules: HashMap<u64, Module>,
    /// By module and name.
    kernels: HashMap<(u64, String), u32>,
    counts: Counts,
    make_output: MakeOutput,
    output: Option<Output>,
    recorder: Option<Recorder>,
    sharing: Sharing,
    /// True if NVSHMEM must be queried for the PE of this process.
    asks_for_pe: bool,
    asked_for_pe: Option<Instant>,
    /// PE that NVSHMEM reported last.
    pe: Option<u32>,
    has_graphs: bool,
}

struct Module {
    context: u64,
    lines: Arc<Lines>,
    patched: Patched,
}

/// State of a module's patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patched {
    /// Nothing, or it was undone.
    Never,
    /// It is patched.
    Now,
    /// It stays as it is, since it could not be patched.
    Stays,
}

impl Tracer {
    /// A tracer without contexts and memory.
    pub fn new(backend: Box<dyn Backend>, settings: Settings, make_output: MakeOutput) -> Self {
        Tracer {
            backend,
            registry: Registry::default(),
            stacks: Stacks::default(),
            contexts: HashMap::new(),
            modules: HashMap::new(),
            kernels: HashMap::new(),
            counts: Counts::new(settings.sample, settings.intervals),
            settings,
            make_output,
            output: None,
            recorder: None,
            sharing: Sharing::default(),
            asks_for_pe: false,
            asked_for_pe: None,
            pe: None,
            has_graphs: false,
        }
    }

    /// A context was made.
    pub fn context_created(&mut self, context: u64, device: i32) {
        if self.output.is_none() {
            self.output = (self.make_output)();
            self.make_recorder();
        }
        self.look_for_python();
        self.contexts.insert(context, Context::new(device));
    }

    fn look_for_python(&mut self) {
        if let Some(sentence) = python::look() {
            self.counts.note(&sentence);
        }
    }

    fn make_recorder(&mut self) {
        let Some(folder) = &self.settings.records else { return };
        match Recorder::create(folder, self.settings.sample) {
            Ok(recorder) => self.recorder = Some(recorder),
            Err(error) => self
                .counts
                .note(&format!("there are no records of accesses: '{}': {error}", folder.display())),
        }
        self.settings.records = None;
    }

    /// A context is about to go, and its memory with it.
    pub fn context_destroyed(&mut self, context: u64) {
        self.settle(context);
        self.collect(context, 0, true);
        self.end_interval(context);
        self.backend.context_gone(context);
        self.contexts.remove(&context);
        let modules = self.modules.extract_if(|_, module| module.context == context);
        modules.for_each(|(module, _)| self.counts.code_gone(module));
    }

    /// Code was loaded.
    pub fn module_loaded(&mut self, context: u64, module: u64, image: &[u8]) {
        // It may have come after the first context.
        self.look_for_python();
        let lines = Arc::new(Lines::read(image));
        self.modules.insert(module, Module { context, lines, patched: Patched::Never });
        if self.has_remote(context) {
            self.patch(module);
        }
    }

    /// Code is about to go. Its kernels may be counted for a while yet; another module at its place
    /// has other kernels.
    pub fn module_unloading(&mut self, module: u64) {
        let Some(known) = self.modules.get(&module) else { return };
        self.collect(known.context, 0, true);
        self.modules.remove(&module);
        self.counts.code_gone(module);
        self.kernels.retain(|(of, _), _| *of != module);
        self.counts.estimates.module_gone(module);
    }

    /// Returns whether the context was reported.
    pub fn knows_context(&self, context: u64) -> bool {
        self.contexts.contains_key(&context)
    }

    /// A stream is about to go; what was launched there may still run.
    pub fn stream_gone(&mut self, context: u64, stream: u64) {
        if let Some(known) = self.contexts.get_mut(&context) {
            known.forget_stream(&*self.backend, Queue { context, stream });
        }
    }

    /// Returns whether the module was reported.
    pub fn knows_module(&self, module: u64) -> bool {
        self.modules.contains_key(&module)
    }

    /// Memory was allocated or mapped, by the calling thread.
    pub fn allocated(&mut self, begin: u64, bytes: u64, place: Where) {
        let object = self.stacks.here();
        trace!("allocated {begin:#x} bytes={bytes} {place:?} object={object}");
        self.registry.insert(begin, bytes, place, object);
    }

    /// The allocation at `base` was freed.
    pub fn freed(&mut self, base: u64) {
        trace!("freed {base:#x}");
        self.sharing.freed(&self.registry, base);
        self.registry.remove(base);
    }

    /// Addresses were unmapped.
    pub fn unmapped(&mut self, begin: u64, bytes: u64) {
        trace!("unmapped {begin:#x} bytes={bytes}");
        self.sharing.unmapped(begin, bytes);
        self.registry.remove_range(begin, bytes);
    }

    /// Returns whether NVSHMEM allocated the memory at an address.
    pub fn is_of_nvshmem(&self, address: u64) -> bool {
        self.registry.at(address).is_some_and(|(_, it)| self.stacks.passes(it.object, nvshmem::NAME))
    }

    /// The program's name for memory.
    ///
    /// Memory of other PEs at the same place of the symmetric heap gets the same name.
    pub fn name_memory(&mut self, begin: u64, bytes: u64, name: &str, symmetric: Option<&Symmetric>) {
        self.registry.name(begin, bytes, name);
        if let Some(symmetric) = symmetric {
            self.tell_pe(symmetric.own);
            let peers = symmetric.peers.iter();
            peers.for_each(|it| self.registry.name_of_pe(it.pe, it.address, bytes, name));
        }
        self.tell_exports(begin, begin.saturating_add(bytes));
    }

    /// Returns whether the user selected a kernel.
    pub fn is_chosen(&self, kernel: &str) -> bool {
        self.settings.kernels.matches(kernel)
    }

    /// Returns whether a launch of a kernel would count anything: kernels are left alone until
    /// then.
    pub fn wants(&mut self, context: u64, module: u64, kernel: &str) -> bool {
        self.is_counted(context, kernel) && self.counts.estimates.would_count(context, module, kernel)
    }

    /// A kernel is about to be launched. Returns whether it would count anything.
    pub fn launching(&mut self, context: u64, module: u64, kernel: &str) -> bool {
        self.is_counted(context, kernel) && self.counts.estimates.launching(context, module, kernel)
    }

    /// Returns whether there is something to count of a kernel.
    fn is_counted(&mut self, context: u64, kernel: &str) -> bool {
        if let Some(known) = self.contexts.get_mut(&context) {
            known.has_launched = true;
        }
        self.is_chosen(kernel) && self.has_remote(context)
    }

    /// Returns whether kernels of a context can access anything that is not of its device's own
    /// memory.
    fn has_remote(&mut self, context: u64) -> bool {
        let Some(known) = self.contexts.get_mut(&context) else { return false };
        let version = self.registry.version(known.device);
        match known.remote {
            Some((of, is_any)) if of == version => is_any,
            _ => {
                let is_any = self.registry.has_remote(known.device);
                known.remote = Some((version, is_any));
                is_any
            }
        }
    }

    /// A kernel is about to be launched. Returns what its patches get: an address on the device;
    /// none, or 0, with which they do nothing.
    pub fn launch(&mut self, context: u64, stream: u64, module: u64, kernel: &str) -> Option<u64> {
        let known = self.contexts.get_mut(&context)?;
        known.has_launched = true;
        known.patience.launches(stream);
        let device = known.device;
        if !self.is_chosen(kernel) || !self.counts.estimates.counts(context) {
            return None;
        }
        let version = self.registry.version(device);
        let is_current =
            self.contexts[&context].streams.get(&stream).and_then(|it| it.version) == Some(version);
        if !is_current && !self.new_ranges(context, stream, version)? {
            return None;
        }
        if self.contexts.get(&context)?.streams.get(&stream)?.template.range_count == 0 {
            return None;
        }
        if self.settings.is_empty {
            return Some(0);
        }
        let queue = Queue { context, stream };
        if !self.contexts.get_mut(&context)?.finds_counters(&*self.backend, queue) {
            self.counts.note(BEFORE_COUNTERS);
            return None;
        }
        let number = self.kernel(module, kernel);
        let number = self.counts.launch(number, python::line());
        let known = self.contexts.get_mut(&context)?;
        let of_stream = known.streams.get_mut(&stream)?;
        (of_stream.is_open, of_stream.is_busy) = (true, true);
        let launch = self.recorder.as_mut().map_or(0, Recorder::launch);
        let address = known.launch(&*self.backend, queue, number, launch)?;
        self.counts.estimates.launched(module, kernel);
        Some(address)
    }

    /// Gives a stream the ranges that there are now. False if that cannot be done.
    fn new_ranges(&mut self, context: u64, stream: u64, version: u64) -> Option<bool> {
        let queue = Queue { context, stream };
        let known = self.contexts.get_mut(&context)?;
        let ranges = self.registry.table(known.device);
        let room = if self.recorder.is_some() { records::CAPACITY } else { 0 };
        if !ranges.is_empty() && !known.make_table(&*self.backend, queue, self.settings.slots, room) {
            self.counts.note("the device had no memory for counters");
            return Some(false);
        }
        if !ranges.is_empty() && self.recorder.is_some() && known.records.address == 0 {
            self.counts.note("the device had no memory for records of accesses");
            self.recorder = None;
        }
        trace!(
            "ranges context={context:#x} stream={stream:#x} count={} of [{:#x}, {:#x})",
            ranges.len(),
            ranges.first().map_or(0, |it| it.begin),
            ranges.last().map_or(0, |it| it.end)
        );
        let template = known.upload(&*self.backend, queue, &ranges, self.settings.sample)?;
        let of_stream = known.streams.entry(stream).or_default();
        of_stream.version = Some(version);
        of_stream.template = template;
        Some(true)
    }

    /// The number of a kernel.
    fn kernel(&mut self, module: u64, name: &str) -> u32 {
        if let Some(&number) = self.kernels.get(&(module, name.to_owned())) {
            return number;
        }
        let lines = self.modules.get(&module).map(|it| Arc::clone(&it.lines)).unwrap_or_default();
        let code = self.backend.function(module, name);
        let number = self.counts.kernel(Kernel::new(name, module, code, lines));
        self.kernels.insert((module, name.to_owned()), number);
        number
    }

    /// The program has waited for a stream, or, without one, for all of a context.
    pub fn synchronized(&mut self, context: u64, stream: Option<u64>) {
        self.ask_for_pe();
        let mut is_idle = false;
        if let Some(known) = self.contexts.get_mut(&context) {
            known.waited(stream);
            is_idle = known.patience.waited(stream);
        }
        let ends_interval = is_idle && stream.is_none() && self.counts.estimates.is_on();
        let is_collected = self.collect(context, stream.unwrap_or(0), ends_interval);
        if ends_interval && is_collected && self.end_interval(context) {
            if let Some(known) = self.contexts.get_mut(&context) {
                known.streams.values_mut().for_each(|it| it.is_open = false);
            }
            self.take_patches_out(context);
        }
        let Some(known) = self.contexts.get_mut(&context) else { return };
        let free = &mut known.free;
        let waited = known.streams.iter_mut().filter(|(it, _)| stream.is_none_or(|stream| stream == **it));
        for (_, of_stream) in waited {
            of_stream.is_open &= !is_collected;
            of_stream.is_busy = false;
            let done = std::mem::replace(&mut of_stream.older, std::mem::take(&mut of_stream.retired));
            done.into_iter().for_each(|(address, bytes)| free.entry(bytes).or_default().push(address));
        }
        if self.contexts.values().all(|it| it.streams.values().all(|it| !it.is_open)) {
            self.registry.forget_freed(&self.counts.ranges());
        }
        if stream.is_none() {
            self.unpatch(context, is_idle);
        }
    }

    /// Nothing runs in a context, and what its kernels counted was taken: launches count from now
    /// on, or do not any more, as it is drawn. Returns whether they did until now.
    fn end_interval(&mut self, context: u64) -> bool {
        let has_counted = self.counts.estimates.end(context);
        if has_counted {
            self.counts.take_estimates();
            self.flush();
        }
        has_counted
    }

    /// Queries NVSHMEM for this process's PE, if it may have become one.
    fn ask_for_pe(&mut self) {
        let is_early = self.asked_for_pe.is_some_and(|last| last.elapsed() < BETWEEN_COLLECTIONS);
        if !self.asks_for_pe || is_early {
            return;
        }
        self.asked_for_pe = Some(Instant::now());
        match nvshmem::own_pe() {
            Asked::Pe(pe) => self.tell_pe(pe),
            // Who imports memory next may be NVSHMEM.
            Asked::NotThere => self.asks_for_pe = false,
            Asked::NotYet => {}
        }
    }

    /// Writes down which PE of NVSHMEM this process is.
    fn tell_pe(&mut self, pe: u32) {
        self.asks_for_pe = false;
        if self.pe.replace(pe) != Some(pe) {
            self.write(vec![FileEntry::Pe(pe)]);
        }
    }

    /// Some work of a context has ended, but no stream need be empty.
    pub fn progressed(&mut self, context: u64) {
        self.collect(context, 0, false);
    }

    /// Kernels that still run may come to their end, if that is soon.
    fn settle(&self, context: u64) {
        let is_open = |known: &Context| known.streams.values().any(|it| it.is_open);
        if self.contexts.get(&context).is_some_and(is_open) {
            self.backend.settle(context);
        }
    }

    /// Takes all counts that there are.
    pub fn collect_all(&mut self) {
        self.asked_for_pe = None;
        self.ask_for_pe();
        let contexts: Vec<u64> = self.contexts.keys().copied().collect();
        for context in contexts {
            self.settle(context);
            self.collect(context, 0, true);
            self.end_interval(context);
        }
        self.counts.take_estimates();
        self.flush();
    }

    /// Takes what was recorded in a context.
    fn drain(&mut self, context: u64, stream: u64) {
        let (Some(recorder), Some(known)) = (&mut self.recorder, self.contexts.get_mut(&context)) else {
            return;
        };
        let queue = Queue { context, stream };
        if known.records.address == 0
            || known.streams.values().all(|it| !it.is_open)
            || known.counters(&*self.backend, queue).is_none()
        {
            return;
        }
        let Some(taken) = known.records.take(&*self.backend, queue) else {
            self.counts.note("records of accesses could not be read from the device");
            return;
        };
        let (counts, registry, stacks) = (&mut self.counts, &self.registry, &self.stacks);
        let device = known.device;
        recorder.write(device, &taken, &mut Known { counts, registry, stacks, backend: &*self.backend });
        if let Some(why) = recorder.failure() {
            let sentence = format!("records of accesses end early, '{}': {why}", recorder.path().display());
            self.counts.note(&sentence);
        }
    }

    /// Takes the counts of a context, if there can be new ones; false if that is put off.
    fn collect(&mut self, context: u64, stream: u64, at_once: bool) -> bool {
        self.drain(context, stream);
        let Some(known) = self.contexts.get_mut(&context) else { return true };
        if known.has_launched {
            self.counts.device(known.device, || self.backend.device_name(known.device));
        }
        if known.streams.values().all(|it| !it.is_open) {
            self.flush();
            return true;
        }
        let queue = Queue { context, stream };
        let Some(table) = known.counters(&*self.backend, queue) else { return false };
        if !at_once && known.collected.is_some_and(|last| last.elapsed() < BETWEEN_COLLECTIONS) {
            return false;
        }
        let mut header = [Table::default()];
        let mut now = vec![Counter::default(); known.before.len()];
        let first = table + size_of::<Table>() as u64;
        if !self.backend.read(queue, table, bytes_of_mut(&mut header))
            || !self.backend.read(queue, first, bytes_of_mut(&mut now))
        {
            self.note("counters could not be read from the device");
            return false;
        }
        let device = self.backend.device_name(known.device);
        let changed = now.iter().zip(&known.before).filter(|(now, before)| now != before);
        for (now, before) in changed {
            self.counts.add(&device, now, before, &*self.backend);
        }
        self.counts.lost(header[0].lost.saturating_sub(known.lost_before));
        known.lost_before = header[0].lost;
        known.before = now;
        known.collected = Some(Instant::now());
        self.flush();
        true
    }

    /// Writes what is new.
    fn flush(&mut self) {
        let entries = self.counts.entries(&self.registry, &self.stacks, |it| self.backend.device_name(it));
        if !entries.is_empty() || self.counts.has_changed() {
            self.write(entries);
        }
    }

    fn write(&mut self, entries: Vec<FileEntry>) {
        let values = self.counts.take_changed();
        if let Some(output) = &mut self.output {
            output.write(&entries, &values);
        }
    }

    /// A sentence for the profile.
    pub fn note(&mut self, sentence: &str) {
        self.counts.note(sentence);
        self.flush();
    }

    /// The file of the counts, with the error that ended it, if there was one.
    pub fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }
}
