//! Named counters: adds the slots of a device to the counters of the file.

use crate::counting::estimates::Estimates;
use crate::counting::lines::Lines;
use crate::device::backend::Backend;
use crate::device::layout::{Counter, MOST_KERNELS, What};
use crate::memory::registry::Registry;
use crate::process::stacks::Stacks;
use crate::trace::trace;
use mpisee_profile::gpu::{Access, FileEntry, Values};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The most launching lines that a kernel has rows for; launches by further lines share one, so
/// that there is room for kernels.
const MOST_LAUNCHES_WITH_LINES: u32 = MOST_KERNELS / 2;

/// A kernel of a module.
pub struct Kernel {
    name: String,
    module: u64,
    lines: Arc<Lines>,
    /// Addresses of its code and that of the functions that it may call, as far as they were
    /// needed.
    code: Vec<(u64, u64, String)>,
    knows_all_functions: bool,
    /// Addresses of its own code; empty once they may be another's.
    own: Range<u64>,
}

impl Kernel {
    /// A kernel, and where its code is.
    pub fn new(name: &str, module: u64, code: Option<(u64, u64)>, lines: Arc<Lines>) -> Self {
        let own = code.map_or(0..0, |(pc, bytes)| pc..pc + bytes);
        let code = code.into_iter().map(|(pc, bytes)| (pc, bytes, name.to_owned())).collect();
        Kernel { name: name.to_owned(), module, lines, code, knows_all_functions: false, own }
    }

    /// `file:line` of an instruction, or `function+0x120`.
    fn source(&mut self, pc: u64, backend: &dyn Backend) -> String {
        if self.place(pc).is_none() && !self.knows_all_functions {
            self.knows_all_functions = true;
            let others = backend.functions(self.module);
            let names = self.lines.functions().chain(others.iter().map(String::as_str));
            let found = names.filter_map(|name| {
                let (pc, bytes) = backend.function(self.module, name)?;
                Some((pc, bytes, name.to_owned()))
            });
            self.code.extend(found);
        }
        let Some((function, offset)) = self.place(pc) else { return format!("?+{pc:#x}") };
        match self.lines.line(function, offset) {
            Some(line) => line.to_owned(),
            None => format!("{function}+{offset:#x}"),
        }
    }

    fn place(&self, pc: u64) -> Option<(&str, u64)> {
        let holds = |&&(begin, bytes, _): &&(u64, u64, String)| pc >= begin && pc - begin < bytes;
        self.code.iter().find(holds).map(|(begin, _, name)| (name.as_str(), pc - begin))
    }
}

/// Names of an instruction of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kernel.
    pub kernel: String,
    /// The instruction's line in the source.
    pub source: String,
    /// The line of Python that launched the kernel, or nothing.
    pub launched: String,
}

/// All counters.
pub struct Counts {
    kernels: Vec<Kernel>,
    /// Kernels and the lines that launched them, by the number that the device has for them.
    launches: Vec<(u32, String)>,
    launch_numbers: HashMap<(u32, String), u32>,
    /// By device, instruction and what it accesses.
    numbers: HashMap<(String, u64, u64), u32>,
    values: Vec<Values>,
    /// Estimates, which take the place of `values`' own where some intervals alone count.
    pub estimates: Estimates,
    /// The range of each.
    ranges: Vec<u32>,
    changed: HashSet<u32>,
    /// Records that wait to be written.
    pending: Vec<FileEntry>,
    lost: u64,
    notes: HashSet<String>,
    told_devices: HashSet<i32>,
    told_objects: HashSet<u32>,
    told_binaries: HashSet<String>,
    /// Ranges that were written, with their names then.
    told_ranges: HashMap<u32, String>,
}

impl Counts {
    /// No counts, of one warp in `sample`, and of one interval in `intervals`.
    pub fn new(sample: u32, intervals: u32) -> Self {
        let drawn = (intervals > 1).then_some(FileEntry::Intervals(intervals));
        Counts {
            kernels: Vec::new(),
            launches: Vec::new(),
            launch_numbers: HashMap::new(),
            numbers: HashMap::new(),
            values: Vec::new(),
            estimates: Estimates::new(intervals),
            ranges: Vec::new(),
            changed: HashSet::new(),
            pending: std::iter::once(FileEntry::Sampled(sample.max(1))).chain(drawn).collect(),
            lost: 0,
            notes: HashSet::new(),
            told_devices: HashSet::new(),
            told_objects: HashSet::new(),
            told_binaries: HashSet::new(),
            told_ranges: HashMap::new(),
        }
    }

    /// Numbers a kernel.
    pub fn kernel(&mut self, kernel: Kernel) -> u32 {
        self.kernels.push(kernel);
        self.kernels.len() as u32 - 1
    }

    /// The code of a module is gone, and other code may be at its addresses.
    pub fn code_gone(&mut self, module: u64) {
        self.kernels.iter_mut().filter(|it| it.module == module).for_each(|it| it.own = 0..0);
    }

    /// The kernel of an instruction in a launch of `kernel`. Kernels of a graph may have what
    /// another of the same graph got, but only a kernel itself runs its code.
    fn kernel_at(&self, kernel: u32, pc: u64) -> usize {
        let launched = kernel as usize;
        let has = |at: usize| self.kernels.get(at).is_some_and(|it| it.own.contains(&pc));
        if has(launched) { launched } else { (0..self.kernels.len()).find(|&it| has(it)).unwrap_or(launched) }
    }

    /// Numbers a kernel that is launched by a line of Python, or not by one.
    pub fn launch(&mut self, kernel: u32, line: String) -> u32 {
        let key = (kernel, line);
        if let Some(&number) = self.launch_numbers.get(&key) {
            return number;
        }
        let number = self.launches.len() as u32;
        if number >= MOST_LAUNCHES_WITH_LINES && !key.1.is_empty() {
            self.note("there were more lines of Python that launched kernels than can be counted separately");
            return self.launch(kernel, String::new());
        }
        // Those beyond have no name.
        if number == MOST_KERNELS - 1 {
            return number;
        }
        self.launches.push(key.clone());
        self.launch_numbers.insert(key, number);
        number
    }

    /// Adds what a slot of a device counted since it was as `before`.
    pub fn add(&mut self, device: &str, now: &Counter, before: &Counter, backend: &dyn Backend) {
        // A slot that is being taken has no counts yet.
        // The bytes of a copy come after it, if the device is read in between.
        if now.what == 0 || (now.accesses, now.extra) == (before.accesses, before.extra) {
            return;
        }
        let key = (device.to_owned(), now.pc, now.what);
        let number = match self.numbers.get(&key) {
            Some(&number) => number,
            None => {
                let number = self.values.len() as u32;
                self.describe(number, device, now, backend);
                self.values.push(Values::default());
                self.ranges.push(What::from(now.what).range);
                self.numbers.insert(key, number);
                number
            }
        };
        let accesses = now.accesses.wrapping_sub(before.accesses);
        let extra = now.extra.wrapping_sub(before.extra);
        if self.estimates.is_on() {
            self.estimates.add(number, accesses, extra);
            return;
        }
        let values = &mut self.values[number as usize];
        values.accesses += accesses;
        values.extra += extra;
        self.changed.insert(number);
    }

    /// Takes the estimates, as they are after the interval that ended last.
    pub fn take_estimates(&mut self) {
        for (counter, values) in self.estimates.take_changed() {
            self.values[counter as usize] = values;
            self.changed.insert(counter);
        }
    }

    fn describe(&mut self, id: u32, device: &str, counter: &Counter, backend: &dyn Backend) {
        let What { range, kernel, kind, width } = What::from(counter.what);
        if let Some(&(of, _)) = self.launches.get(kernel as usize) {
            let of = &self.kernels[of as usize];
            self.estimates.counter(id, of.module, &of.name);
        }
        let Origin { kernel, source, launched } = self.origin(kernel, counter.pc & !1, backend);
        trace!(
            "counter {id} pc={:#x} kernel={kernel} source={source} range={range} kind={kind} width={width}",
            counter.pc
        );
        let access = match kind {
            0 => Access::Load,
            1 => Access::Store,
            _ => Access::Atomic,
        };
        let device = device.to_owned();
        self.pending.push(FileEntry::Counter { id, device, kernel, source, launched, range, access, width });
    }

    /// Names of an instruction; `launch` is the device's number of the launch.
    pub fn origin(&mut self, launch: u32, pc: u64, backend: &dyn Backend) -> Origin {
        let launch = self.launches.get(launch as usize);
        let kernel = launch.map(|&(kernel, _)| self.kernel_at(kernel, pc));
        let kernel = kernel.and_then(|it| self.kernels.get_mut(it));
        Origin {
            launched: launch.map_or_else(String::new, |(_, line)| line.clone()),
            kernel: kernel.as_ref().map_or_else(|| "?".to_owned(), |it| it.name.clone()),
            source: kernel.map_or_else(|| format!("?+{pc:#x}"), |it| it.source(pc, backend)),
        }
    }

    /// Kernels are launched on a device.
    pub fn device(&mut self, device: i32, name: impl FnOnce() -> String) {
        if self.told_devices.insert(device) {
            self.pending.push(FileEntry::Device(name()));
        }
    }

    /// Accesses for which a device had no counter.
    pub fn lost(&mut self, accesses: u64) {
        if accesses > 0 {
            self.lost += accesses;
            let why = "there were more instructions and allocations than counters".to_owned();
            self.pending.push(FileEntry::Lost { accesses: self.lost, why });
        }
    }

    /// A sentence for the profile, once.
    pub fn note(&mut self, sentence: &str) {
        if self.notes.insert(sentence.to_owned()) {
            self.pending.push(FileEntry::Note(sentence.to_owned()));
        }
    }

    /// The entries of a call stack and of the files in it, if they were not written yet.
    pub fn object(&mut self, id: u32, stacks: &Stacks) -> Vec<FileEntry> {
        if !self.told_objects.insert(id) {
            return Vec::new();
        }
        let mut entries = vec![FileEntry::Object { id, stack: stacks.text(id) }];
        for (file, build_id) in stacks.binaries(id) {
            if self.told_binaries.insert(file.clone()) {
                entries.push(FileEntry::Binary { file, build_id });
            }
        }
        entries
    }

    /// Records to be written, with the ranges of counters.
    pub fn entries(
        &mut self,
        registry: &Registry,
        stacks: &Stacks,
        device: impl Fn(i32) -> String,
    ) -> Vec<FileEntry> {
        let ranges: HashSet<u32> = self.changed.iter().map(|&it| self.ranges[it as usize]).collect();
        let mut entries = Vec::new();
        for id in ranges {
            let Some(range) = registry.get(id) else { continue };
            if self.told_ranges.get(&id) == Some(&range.name) {
                continue;
            }
            self.told_ranges.insert(id, range.name.clone());
            entries.extend(self.object(range.object, stacks));
            let place = range.place.place(&device);
            entries.push(FileEntry::Range { id, place, object: range.object, name: range.name.clone() });
        }
        entries.append(&mut self.pending);
        entries
    }

    /// Returns whether values changed since they were last taken.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The values that changed since they were last taken, by counter.
    pub fn take_changed(&mut self) -> Vec<(u32, Values)> {
        let mut changed: Vec<u32> = self.changed.drain().collect();
        changed.sort_unstable();
        changed.into_iter().map(|it| (it, self.values[it as usize])).collect()
    }

    /// The allocations that were accessed.
    pub fn ranges(&self) -> HashSet<u32> {
        self.ranges.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::backend::Queue;

    struct Nothing;
    impl Backend for Nothing {
        fn allocate(&self, _: u64, _: usize) -> Option<u64> {
            None
        }
        fn write(&self, _: Queue, _: u64, _: &[u8]) -> bool {
            false
        }
        fn clear(&self, _: Queue, _: u64, _: usize) -> bool {
            false
        }
        fn read(&self, _: Queue, _: u64, _: &mut [u8]) -> bool {
            false
        }
        fn wait(&self, _: Queue) -> bool {
            false
        }
        fn function(&self, _: u64, _: &str) -> Option<(u64, u64)> {
            None
        }
        fn patch(&self, _: u64, _: u64) -> bool {
            false
        }
        fn context_gone(&self, _: u64) {}
        fn device_name(&self, _: i32) -> String {
            String::new()
        }
    }

    #[test]
    fn copy_read_before_its_bytes_is_counted_whole() {
        let mut counts = Counts::new(1, 1);
        let [none, begun, whole] = [(0, 0), (1, 0), (1, 512)].map(|(accesses, extra)| Counter {
            pc: 17,
            what: 7 << 56 | 1,
            accesses,
            extra,
        });
        counts.add("GPU-a", &begun, &none, &Nothing);
        counts.add("GPU-a", &whole, &begun, &Nothing);
        assert_eq!(counts.take_changed(), [(0, Values { accesses: 1, extra: 512, variance: 0 })]);
    }

    #[test]
    fn an_instruction_is_of_the_kernel_that_has_it() {
        let mut counts = Counts::new(1, 1);
        let kernel = |name: &str, code| Kernel::new(name, 3, code, Arc::default());
        let first = counts.kernel(kernel("first", Some((0x100, 0x40))));
        let second = counts.kernel(kernel("second", Some((0x200, 0x40))));
        let launches = [first, second].map(|it| counts.launch(it, String::new()));
        let names = |counts: &mut Counts, pc| launches.map(|it| counts.origin(it, pc, &Nothing).kernel);
        assert_eq!(names(&mut counts, 0x110), ["first", "first"]);
        assert_eq!(names(&mut counts, 0x200), ["second", "second"]);
        // A function that both may call.
        assert_eq!(names(&mut counts, 0x340), ["first", "second"]);
        counts.code_gone(3);
        assert_eq!(names(&mut counts, 0x110), ["first", "second"]);
    }

    #[test]
    fn a_kernel_is_another_by_each_line_until_there_are_too_many() {
        let mut counts = Counts::new(1, 1);
        let mut launch = |kernel, line: &str| counts.launch(kernel, line.to_owned());
        assert_eq!(
            [launch(0, ""), launch(0, "a.py:1"), launch(1, "a.py:1"), launch(0, "a.py:1")],
            [0, 1, 2, 1]
        );
        for line in 3..MOST_LAUNCHES_WITH_LINES {
            assert_eq!(launch(2, &format!("b.py:{line}")), line);
        }
        let first = launch(2, "b.py:x");
        assert_eq!(
            [first, launch(2, "b.py:y"), launch(2, ""), launch(0, "a.py:1")],
            [first, first, first, 1]
        );
        assert_eq!(counts.notes.len(), 1);
    }
}
