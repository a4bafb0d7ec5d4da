//! Device memory of a context: counters, ranges and the parameters of launches.
//!
//! The parameters of a launch do not change while it may run; memory is reused once no launch can
//! need it.

use crate::counting::arrival::{Arrival, GONE};
use crate::counting::patience::Patience;
use crate::counting::records::Buffer;
use crate::device::backend::{Backend, Queue};
use crate::device::layout::{Counter, Launch, Range, Table, Window, bytes_of, bytes_of_mut, threshold};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

/// Launches that get their memory together.
const LAUNCHES_PER_BLOCK: usize = 64;
const LAUNCH_BYTES: usize = size_of::<Launch>();
/// Pieces of memory of a stream that wait until nobody can use them. A program that never waits for
/// its stream is made to at so many.
const MOST_RETIRED: usize = 512;
/// The smallest piece of device memory that is allocated.
const LEAST_BYTES: usize = LAUNCHES_PER_BLOCK * LAUNCH_BYTES;

/// A context and what it has on its device.
pub struct Context {
    /// The driver's number of its device.
    pub device: i32,
    /// True if kernels were launched.
    pub has_launched: bool,
    /// True if kernels were launched in other streams than the NULL stream.
    pub has_own_streams: bool,
    /// Records on the device, if they are wanted.
    pub records: Buffer,
    /// Address of the counters on the device; 0 if there are none.
    table: u64,
    /// The mark of the table.
    mark: u64,
    /// The table and the records, until they are there; none if none were made.
    arrival: Option<Arrival>,
    /// Values of the counters when they were last read.
    pub before: Vec<Counter>,
    /// Accesses that had no counter, as last seen.
    pub lost_before: u64,
    /// True if the device had no memory for counters.
    pub has_failed: bool,
    pub streams: HashMap<u64, Stream>,
    /// Device memory that nobody uses, by its size.
    pub free: HashMap<usize, Vec<u64>>,
    /// When counters were last taken.
    pub collected: Option<Instant>,
    /// True if anything remote can be accessed, with the registry's version at that time.
    pub remote: Option<(u64, bool)>,
    /// When patches come out again.
    pub patience: Patience,
}

/// State that the launches of a stream share.
#[derive(Default)]
pub struct Stream {
    /// The version of the ranges, once there are some.
    pub version: Option<u64>,
    /// The launch, but for the kernel.
    pub template: Launch,
    /// Addresses of the parameters of launches, by kernel.
    pub launches: HashMap<u32, u64>,
    /// Memory in use, with its size; the last block has room from `used` on.
    pub blocks: Vec<(u64, usize)>,
    /// Launches in the last block.
    pub used: usize,
    /// Memory that running kernels may still use, and such that was there before the stream was
    /// last waited for.
    pub retired: Vec<(u64, usize)>,
    /// See `retired`.
    pub older: Vec<(u64, usize)>,
    /// True if a kernel that counts may run, or may have counted what was not taken yet.
    pub is_open: bool,
    /// True if something was put into the stream since it was last waited for.
    pub is_busy: bool,
}

impl Context {
    /// One that has nothing yet.
    pub fn new(device: i32) -> Self {
        Context {
            device,
            has_launched: false,
            has_own_streams: false,
            records: Buffer::default(),
            table: 0,
            mark: new_mark(),
            arrival: None,
            before: Vec::new(),
            lost_before: 0,
            has_failed: false,
            streams: HashMap::new(),
            free: HashMap::new(),
            collected: None,
            remote: None,
            patience: Patience::default(),
        }
    }

    /// Makes the counters, once, and before them room for records. False if the device has no
    /// memory for counters.
    pub fn make_table(&mut self, backend: &dyn Backend, queue: Queue, slots: usize, records: usize) -> bool {
        if self.table != 0 || self.has_failed {
            return !self.has_failed;
        }
        self.has_failed = true;
        if records > 0 {
            self.records = Buffer::make(backend, queue, records).unwrap_or_default();
        }
        let Some(table) = backend.allocate(queue.context, Table::bytes(slots)) else { return false };
        // What is written last is there last. The stream may still write to a table that fails, so
        // that is not freed.
        self.has_failed = !backend.clear(queue, table, Table::bytes(slots))
            || !backend.write(queue, table, bytes_of(&[Table::new(slots, self.mark)]));
        if !self.has_failed {
            self.table = table;
            self.before = vec![Counter::default(); slots];
            self.arrival = Some(Arrival::in_order_of(queue.stream));
        }
        !self.has_failed
    }

    /// The address of the counters, if the device has them by now.
    pub fn counters(&mut self, backend: &dyn Backend, queue: Queue) -> Option<u64> {
        let (table, mark) = (self.table, self.mark);
        self.arrival.as_mut()?.is_there(|| has_table(backend, queue, table, mark)).then_some(table)
    }

    /// Returns whether a kernel that is put into the stream now finds the counters.
    pub fn finds_counters(&mut self, backend: &dyn Backend, queue: Queue) -> bool {
        let (table, mark) = (self.table, self.mark);
        let look = || has_table(backend, queue, table, mark);
        self.arrival.as_mut().is_some_and(|it| it.is_for(queue.stream, look))
    }

    /// The program has waited for a stream, or, without one, for all of the context.
    pub fn waited(&mut self, stream: Option<u64>) {
        if let Some(arrival) = &mut self.arrival {
            arrival.waited(stream);
        }
    }

    /// Puts ranges into memory of their own; what the stream had before is retired.
    pub fn upload(
        &mut self,
        backend: &dyn Backend,
        queue: Queue,
        ranges: &[Range],
        sample: u32,
    ) -> Option<Launch> {
        let address = match ranges.len() {
            0 => 0,
            _ => self.take(backend, queue.context, size_of_val(ranges))?,
        };
        let size = class(size_of_val(ranges));
        self.make_place(backend, queue);
        let of_stream = self.streams.entry(queue.stream).or_default();
        of_stream.is_busy = true;
        of_stream.retired.append(&mut of_stream.blocks);
        of_stream.launches.clear();
        of_stream.used = LAUNCHES_PER_BLOCK;
        if address != 0 {
            of_stream.blocks.push((address, size));
        }
        if address != 0 && !backend.write(queue, address, bytes_of(ranges)) {
            return None;
        }
        Some(Launch {
            table: self.table,
            ranges: address,
            range_count: u32::try_from(ranges.len()).ok()?,
            windows: Window::around(ranges),
            threshold: threshold(sample),
            records: self.records.address,
            ..Launch::default()
        })
    }

    /// Waits for a stream for which the program has not waited for long, so that its blocks can be
    /// used again.
    fn make_place(&mut self, backend: &dyn Backend, queue: Queue) {
        let of_stream = self.streams.entry(queue.stream).or_default();
        if of_stream.retired.len() > MOST_RETIRED && backend.wait(queue) {
            let done = of_stream.retired.drain(..).chain(of_stream.older.drain(..));
            done.for_each(|(address, bytes)| self.free.entry(bytes).or_default().push(address));
        }
    }

    /// The address of the parameters of a kernel's launch on a stream.
    pub fn launch(&mut self, backend: &dyn Backend, queue: Queue, kernel: u32, launch: u32) -> Option<u64> {
        let Queue { context, stream } = queue;
        let is_recorded = self.records.address != 0;
        if !is_recorded && let Some(&address) = self.streams.get(&stream)?.launches.get(&kernel) {
            return Some(address);
        }
        if self.streams.get(&stream)?.used == LAUNCHES_PER_BLOCK {
            self.make_place(backend, queue);
            let block = self.take(backend, context, LEAST_BYTES)?;
            let of_stream = self.streams.get_mut(&stream)?;
            // Where each launch has its own, nobody needs a block again that is full. The first has
            // the ranges.
            if is_recorded {
                let full = of_stream.blocks.drain(1..);
                of_stream.retired.extend(full);
            }
            of_stream.blocks.push((block, class(LEAST_BYTES)));
            of_stream.used = 0;
        }
        let of_stream = self.streams.get_mut(&stream)?;
        let (block, _) = *of_stream.blocks.last()?;
        let address = block + (of_stream.used * LAUNCH_BYTES) as u64;
        let launch = Launch { kernel, number: launch, ..of_stream.template };
        if !backend.write(queue, address, bytes_of(&[launch])) {
            return None;
        }
        of_stream.used += 1;
        if !is_recorded {
            of_stream.launches.insert(kernel, address);
        }
        Some(address)
    }

    /// A stream is about to go, and another may get its handle, in which nothing waits for what is
    /// still in this one. So what it has is not for that one; it can be used again after a wait for
    /// the whole context.
    pub fn forget_stream(&mut self, backend: &dyn Backend, queue: Queue) {
        if let Some(arrival) = &mut self.arrival {
            arrival.stream_gone(queue.stream);
        }
        let Some(old) = self.streams.remove(&queue.stream) else { return };
        let memory = old.blocks.into_iter().chain(old.retired).chain(old.older);
        let waiting = self.streams.get(&GONE).map_or(0, |it| it.retired.len());
        if old.is_busy && !(waiting > MOST_RETIRED && backend.wait(queue)) {
            self.streams.entry(GONE).or_default().retired.extend(memory);
        } else {
            memory.for_each(|(address, bytes)| self.free.entry(bytes).or_default().push(address));
        }
        if old.is_open {
            self.streams.entry(GONE).or_default().is_open = true;
        }
    }

    /// Device memory: what was freed, or more.
    fn take(&mut self, backend: &dyn Backend, context: u64, bytes: usize) -> Option<u64> {
        let size = class(bytes);
        self.free.get_mut(&size).and_then(Vec::pop).or_else(|| backend.allocate(context, size))
    }
}

/// Returns whether the device has the table; also if it cannot be read, which who reads the
/// counters finds out.
fn has_table(backend: &dyn Backend, queue: Queue, table: u64, mark: u64) -> bool {
    let mut seen = [Table::default()];
    !backend.read(queue, table, bytes_of_mut(&mut seen)) || seen[0].mark == mark
}

/// A mark that no table had: memory may still have that of a context that is gone, or another
/// process's.
fn new_mark() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

/// Sizes are few, so that what was freed can be used again.
fn class(bytes: usize) -> usize {
    bytes.max(LEAST_BYTES).next_power_of_two()
}
