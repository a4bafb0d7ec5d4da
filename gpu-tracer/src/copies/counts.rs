//! Counters of calls and of copies for messages, and their file.

use super::memory::{Device, LocatedMemory};
use crate::counting::file::Output;
use mpisee_profile::gpu::{CopyEnd, CopyValues, DriverCalls, FileEntry};
use mpisee_profile::rows::Memory;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Counters are written to the file not more often than this, but for the first ones of a kind:
/// what a killed process loses.
const BETWEEN_WRITES: Duration = Duration::from_millis(20);
/// Lines of Python that have rows of their own.
const MOST_LINES: usize = 4096;

/// The key of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CounterKey {
    /// Calls of the driver.
    Calls {
        /// The function.
        call: &'static str,
        /// True if it puts work into a stream.
        is_async: bool,
        /// The current device.
        device: Device,
        /// The memory that was read.
        from: Option<LocatedMemory>,
        /// The memory that was written.
        to: Option<LocatedMemory>,
        /// The number of the line.
        line: u32,
    },
    /// Copies for messages.
    Staged {
        /// The communicator's number.
        communicator: u32,
        /// True if they were before a send.
        is_sent: bool,
        /// The host's end.
        memory: Memory,
        /// True if they were put into a stream.
        is_async: bool,
    },
}

/// A counter.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    values: CopyValues,
    is_changed: bool,
}

/// All counters.
pub struct Counts {
    numbers: HashMap<CounterKey, usize>,
    counters: Vec<Counter>,
    /// Lines of Python; the first is none.
    lines: HashMap<String, u32>,
    texts: Vec<String>,
    /// Records that are not written yet.
    pending: Vec<FileEntry>,
    has_more_lines: bool,
    written: Instant,
    output: Output<CopyValues>,
}

impl Counts {
    /// No counts; they go into the file.
    pub fn new(output: Output<CopyValues>) -> Self {
        Counts {
            numbers: HashMap::new(),
            counters: Vec::new(),
            lines: HashMap::from([(String::new(), 0)]),
            texts: vec![String::new()],
            pending: Vec::new(),
            has_more_lines: false,
            written: Instant::now(),
            output,
        }
    }

    /// The number of a line of Python.
    pub fn line(&mut self, line: &str) -> u32 {
        if let Some(&number) = self.lines.get(line) {
            return number;
        }
        if self.texts.len() > MOST_LINES {
            if !std::mem::replace(&mut self.has_more_lines, true) {
                self.note("there were more lines of Python with copies than can be counted separately");
            }
            return 0;
        }
        let number = self.texts.len() as u32;
        self.texts.push(line.to_owned());
        self.lines.insert(line.to_owned(), number);
        number
    }

    /// Adds a call of the driver, or what it copied for a message. Returns whether its counter is
    /// new.
    pub fn add(&mut self, key: CounterKey, bytes: u64, nanoseconds: u64) -> bool {
        let is_new = self.add_unwritten(key, bytes, nanoseconds);
        if is_new || self.written.elapsed() > BETWEEN_WRITES {
            self.write();
        }
        is_new
    }

    /// Adds what was copied for a message, to be written with the next call of the driver: this one
    /// is of MPI, of which a signal's handler may make calls. Returns whether its counter is new.
    pub fn add_unwritten(&mut self, key: CounterKey, bytes: u64, nanoseconds: u64) -> bool {
        let known = self.numbers.get(&key).copied();
        let number = known.unwrap_or_else(|| self.describe(key));
        if let Some(Counter { values, is_changed }) = self.counters.get_mut(number) {
            values.count += 1;
            values.bytes = values.bytes.saturating_add(bytes);
            values.nanoseconds = values.nanoseconds.saturating_add(nanoseconds);
            *is_changed = true;
        }
        known.is_none()
    }

    fn describe(&mut self, key: CounterKey) -> usize {
        let number = self.counters.len();
        let id = number as u32;
        let record = match key {
            CounterKey::Calls { call, is_async, device, from, to, line } => {
                let kind = DriverCalls {
                    call: call.to_owned(),
                    is_async,
                    device: device.name().to_owned(),
                    from: from.map(end),
                    to: to.map(end),
                    line: self.texts.get(line as usize).cloned().unwrap_or_default(),
                };
                // The rank's row has the devices on which kernels are launched.
                if from.is_none() && to.is_none() && !kind.device.is_empty() {
                    self.pending.push(FileEntry::Device(kind.device.clone()));
                }
                FileEntry::Calls { id, kind }
            }
            CounterKey::Staged { communicator, is_sent, memory, is_async } => {
                FileEntry::Staged { id, comm: communicator, is_sent, memory, is_async }
            }
        };
        self.pending.push(record);
        self.numbers.insert(key, number);
        self.counters.push(Counter::default());
        number
    }

    /// A sentence for the profile.
    pub fn note(&mut self, sentence: &str) {
        self.pending.push(FileEntry::Note(sentence.to_owned()));
    }

    /// Writes what changed.
    pub fn write(&mut self) {
        let changed = (0..).zip(&mut self.counters).filter_map(|(id, counter)| {
            std::mem::take(&mut counter.is_changed).then_some((id, counter.values))
        });
        let values: Vec<(u32, CopyValues)> = changed.collect();
        self.output.write(&std::mem::take(&mut self.pending), &values);
        self.written = Instant::now();
    }

    /// Why nothing is written any more, if so.
    pub fn failure(&self) -> Option<&str> {
        self.output.failure()
    }
}

fn end((memory, device): LocatedMemory) -> CopyEnd {
    CopyEnd { memory, device: device.name().to_owned() }
}
