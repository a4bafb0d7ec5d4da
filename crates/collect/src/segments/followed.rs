//! Following the counters of a running process: each reading costs little more than a look at each
//! counter in use.
//!
//! The file stays open and mapped, so that its last state can be read after the program has removed
//! it. A counter is read once, and not until two readings agree: a call that ends meanwhile may be
//! in one of its sums now and in the others at the next reading.

use super::live::Clock;
use super::{Mapped, Segment, identity, limits_of, open};
use anyhow::{Context, Result, bail};
use mpisee_profile::comm_name::derived;
use mpisee_profile::segment::active_call::{self, CurrentFunction};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::{
    CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, Header, LOG, SLOT_BYTES, Slot, call, state,
    variable,
};
use mpisee_profile::segment::log::Runs;
use mpisee_profile::segment::names::{names, names_can_be};
use mpisee_profile::segment::{SlotKey, Snapshot};
use mpisee_profile::{CommId, Operation, RegionId, Ticks};
use std::collections::HashMap;
use std::fs::File;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a process so far, of one operation on one communicator. Numbers wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSums {
    /// Calls that ended.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their ticks, and those of calls that go on.
    pub ticks: u64,
    /// Threads that are in such a call.
    pub inside: u32,
    /// The ticks so far of that one of these calls that goes on for longest.
    pub longest: u64,
}

/// The count of a variable of MPI's in a region so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableReading {
    /// The variable, as in [`mpisee_profile::segment::snapshot::Program::variables`].
    pub variable: u16,
    /// The region.
    pub region: RegionId,
    /// Its value at the last reading there.
    pub value: f64,
    /// By how much it grew there, if it is of a class that grows.
    pub delta: f64,
    /// Its value at the last reading there that was requested, if it is of any other class.
    pub requested_value: f64,
    /// The place of these readings among those of the process in all regions.
    pub last: variable::Last,
}

/// The segment of a process that is read again and again.
pub struct Followed {
    file: File,
    /// As much of it as there was when it was last looked at.
    words: Mapped,
    /// The log so far: communicators, call sites, the program.
    log: Snapshot,
    chunks: Vec<Chunk>,
    /// Where the chunks that are known end.
    chunks_end: u64,
    /// The families of communicators, by number.
    families: Vec<String>,
    /// The numbers of rows.
    numbers: HashMap<(CommId, Operation), u32>,
    rows: Vec<(CommId, Operation)>,
    /// By row, while they are read.
    sums: Vec<CallSums>,
    variables: Vec<VariableReading>,
    has_arrived: bool,
    is_off: bool,
    clock: Clock,
}

/// A chunk of counters or of the log.
struct Chunk {
    /// In bytes.
    at: usize,
    bytes: usize,
    kind: u64,
    /// Of the log, the words that are read.
    read: usize,
    /// Of counters, the row of each slot in use.
    places: Vec<SlotRow>,
}

/// The row of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotRow {
    /// It counts no calls.
    None,
    /// Its meaning is not known yet.
    Unknown,
    /// The call in progress.
    Active,
    /// A variable of MPI's in a region.
    Variable,
    Row(u32),
}

/// The words of a slot.
type SlotWords = [u64; SLOT_BYTES / 8];

/// Where the values begin in a slot's words.
const VALUES: usize = offset_of!(Slot, values) / 8;

/// Slots that a reading puts aside.
#[derive(Default)]
struct SetAside {
    active: Vec<SlotWords>,
    variables: Vec<SlotWords>,
    /// The chunk and the number of the slot in it.
    unknown: Vec<(usize, usize, SlotWords)>,
}

impl Chunk {
    /// How much of it is in use, and its words.
    fn content<'w>(&self, words: &'w [AtomicU64]) -> Result<(u64, &'w [AtomicU64])> {
        let chunk = words.get(self.at / 8..(self.at + self.bytes) / 8).context("it has become smaller")?;
        let used = now(&chunk[offset_of!(ChunkHeader, used) / 8]);
        Ok((used, &chunk[CHUNK_HEADER_BYTES / 8..]))
    }

    /// Adds the slots of this chunk, which has that number. Slots without a row are put aside.
    fn add_counters(
        &mut self,
        index: usize,
        words: &[AtomicU64],
        sums: &mut [CallSums],
        found: &mut SetAside,
    ) -> Result<()> {
        let (used, body) = self.content(words)?;
        let (slots, _) = body.as_chunks::<{ SLOT_BYTES / 8 }>();
        let used = usize::try_from(used).unwrap_or(usize::MAX).min(slots.len());
        if used > self.places.len() {
            self.places.resize(used, SlotRow::Unknown);
        }
        for (at, (slot, place)) in slots.iter().zip(&self.places).enumerate() {
            match place {
                // PERF: three words of each, in the line that comes from memory anyway.
                SlotRow::Row(row) => {
                    let sums = &mut sums[*row as usize];
                    sums.calls = sums.calls.wrapping_add(now(&slot[VALUES + call::CALLS]));
                    sums.bytes = sums.bytes.wrapping_add(now(&slot[VALUES + call::BYTES]));
                    sums.ticks = sums.ticks.wrapping_add(now(&slot[VALUES + call::TICKS]));
                }
                SlotRow::None => {}
                SlotRow::Active => found.active.push(slot.each_ref().map(now)),
                SlotRow::Variable => found.variables.push(slot.each_ref().map(now)),
                SlotRow::Unknown => found.unknown.push((index, at, slot.each_ref().map(now))),
            }
        }
        Ok(())
    }
}

/// A word as it is now; what is read after it is no older.
fn now(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

impl Followed {
    /// Opens the segment of a running process. Nothing is counted before the first
    /// [`Followed::update`].
    pub fn new(segment: &Segment) -> Result<Followed> {
        let (file, metadata) = open(&segment.path, segment.user)?;
        if identity(&metadata) != segment.identity {
            bail!("another file took its name");
        }
        let words = Mapped::new(&file, HEADER_BYTES, false)?;
        let header: Vec<u64> = words.words()[..HEADER_BYTES / 8].iter().map(now).collect();
        let (log, _) = Snapshot::read_header(header.as_slice())?;
        let clock = Clock::from_process(&log);
        Ok(Followed {
            file,
            words,
            log,
            chunks: Vec::new(),
            chunks_end: HEADER_BYTES as u64,
            families: Vec::new(),
            numbers: HashMap::new(),
            rows: Vec::new(),
            sums: Vec::new(),
            variables: Vec::new(),
            has_arrived: false,
            is_off: false,
            clock,
        })
    }

    /// The process and its program, as far as header and log have said.
    pub fn process(&self) -> &Snapshot {
        &self.log
    }

    /// Communicator and operation of each row.
    pub fn rows(&self) -> &[(CommId, Operation)] {
        &self.rows
    }

    /// The counts of MPI's variables at the last reading; with `--mpi-t`.
    pub fn variables(&self) -> &[VariableReading] {
        &self.variables
    }

    /// The family over ranks of a communicator that has a row: `W_s1.*@64`.
    pub fn family(&self, comm: CommId) -> &str {
        self.families.get(comm.index()).map_or("", String::as_str)
    }

    /// The clock of the process at the last reading.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns whether the process has come to the end of MPI.
    pub fn has_arrived(&self) -> bool {
        self.has_arrived
    }

    /// Returns whether recording was off at the last reading.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Where in the file the slots of the threads' calls in progress are, as far as the last
    /// reading has found them.
    pub fn active_calls(&self) -> Vec<usize> {
        let slots = self.chunks.iter().flat_map(|chunk| {
            let places = chunk.places.iter().enumerate().filter(|(_, place)| **place == SlotRow::Active);
            places.map(|(slot, _)| chunk.at + CHUNK_HEADER_BYTES + slot * SLOT_BYTES)
        });
        slots.collect()
    }

    /// Reads the counters: the sums of each row into `sums`. Of a process that `has_ended` no call
    /// goes on.
    ///
    /// PERF: who reads many processes gives the same vector to each, which then stays in the cache.
    pub fn update(&mut self, has_ended: bool, sums: &mut Vec<CallSums>) -> Result<()> {
        self.sums = std::mem::take(sums);
        let read = self.read(has_ended);
        *sums = std::mem::take(&mut self.sums);
        read
    }

    fn read(&mut self, has_ended: bool) -> Result<()> {
        self.sums.clear();
        self.sums.resize(self.rows.len(), CallSums::default());
        self.words.check(&self.file)?;
        let header = |offset: usize| self.words.word(offset).map_or(0, now);
        self.has_arrived = header(offset_of!(Header, state)) == state::ARRIVED;
        self.is_off = !header(offset_of!(Header, switches)).is_multiple_of(2);
        let end_ticks = Ticks::new(header(offset_of!(Header, end_ticks)));
        let end = header(offset_of!(Header, used)).min(header(offset_of!(Header, shared)));
        self.clock = if self.has_arrived { self.clock.at(end_ticks) } else { Clock::from_process(&self.log) };
        self.find_chunks(end)?;
        let mut found = SetAside::default();
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            if chunk.kind == COUNTERS {
                chunk.add_counters(index, self.words.words(), &mut self.sums, &mut found)?;
            }
        }
        // The log has what is new before any counter does, and so is read after the counters.
        self.read_log()?;
        for (chunk, slot, words) in found.unknown {
            let place = self.place(SlotKey(words[offset_of!(Slot, key) / 8]));
            self.chunks[chunk].places[slot] = place;
            match place {
                SlotRow::Row(row) => self.sums[row as usize].add(&words),
                SlotRow::Active => found.active.push(words),
                SlotRow::Variable => found.variables.push(words),
                SlotRow::None | SlotRow::Unknown => {}
            }
        }
        self.check()?;
        self.variables.clear();
        self.variables.extend(found.variables.iter().filter_map(VariableReading::from_words));
        if !has_ended && !self.has_arrived {
            found.active.iter().for_each(|words| self.add_active(&words[VALUES..]));
        }
        Ok(())
    }

    /// Checks that the process can have counted what was read.
    fn check(&self) -> Result<()> {
        let threads = self.chunks.iter().flat_map(|chunk| &chunk.places);
        let threads = threads.filter(|&&place| place == SlotRow::Active).count();
        let limits = limits_of(&self.log, threads).while_it_counts();
        for sums in &self.sums {
            limits.check_count("calls", sums.calls)?;
            limits.check_count("bytes", sums.bytes)?;
            limits.check_ticks("calls", Ticks::new(sums.ticks))?;
        }
        Ok(())
    }

    /// Learns of chunks up to `end`, and maps what the file has grown by.
    fn find_chunks(&mut self, end: u64) -> Result<()> {
        while self.chunks_end + CHUNK_HEADER_BYTES as u64 <= end {
            let least = usize::try_from(end)?;
            if least > size_of_val(self.words.words()) {
                self.words = Mapped::new(&self.file, least, false)?;
            }
            let at = self.chunks_end;
            let field = |offset: usize| self.words.word(at as usize + offset).map_or(0, now);
            let kind = field(offset_of!(ChunkHeader, kind));
            let bytes = field(offset_of!(ChunkHeader, bytes));
            if bytes < CHUNK_HEADER_BYTES as u64 || !bytes.is_multiple_of(8) || bytes > end - at {
                bail!("the chunk at byte {at} says that it has {bytes} bytes");
            }
            if kind == COUNTERS || kind == LOG {
                let (at, bytes) = (at as usize, bytes as usize);
                self.chunks.push(Chunk { at, bytes, kind, read: 0, places: Vec::new() });
            }
            self.chunks_end += bytes;
        }
        Ok(())
    }

    /// Reads what is new in the log.
    fn read_log(&mut self) -> Result<()> {
        let mut has_grown = false;
        // All but the last that is begun are full.
        let begun = self.chunks.iter().rposition(|chunk| chunk.kind == LOG && chunk.read > 0).unwrap_or(0);
        for chunk in self.chunks[begun..].iter_mut().filter(|chunk| chunk.kind == LOG) {
            let (used, body) = chunk.content(self.words.words())?;
            let used = usize::try_from(used / 8).unwrap_or(usize::MAX).min(body.len());
            if used > chunk.read {
                let more: Vec<u64> = body[chunk.read..used].iter().map(now).collect();
                self.log.replay(&more)?;
                chunk.read = used;
                has_grown = true;
            }
        }
        if has_grown {
            names_can_be(&self.log)?;
            let names = names(&self.log);
            let known = self.families.len().min(names.len());
            for (communicator, name) in self.log.communicators.iter().zip(names).skip(known) {
                let created = &communicator.created;
                let size = created.group.len() + created.remote.as_ref().map_or(0, Runs::len);
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                self.families.push(derived(&name, |name| name.family(size)));
            }
        }
        Ok(())
    }

    fn place(&mut self, key: SlotKey) -> SlotRow {
        if key == SlotKey::ACTIVE_CALL {
            return SlotRow::Active;
        }
        let call = match key.meaning() {
            Some(Meaning::Call(call)) => call,
            Some(Meaning::Variable(..)) => return SlotRow::Variable,
            _ => return SlotRow::None,
        };
        if call.communicator.index() >= self.families.len() {
            return SlotRow::Unknown;
        }
        match self.log.operation_at(call.operation) {
            Some((operation, _)) => SlotRow::Row(self.row(call.communicator, operation)),
            None => SlotRow::Unknown,
        }
    }

    fn row(&mut self, comm: CommId, operation: Operation) -> u32 {
        let next = self.rows.len() as u32;
        let row = *self.numbers.entry((comm, operation)).or_insert(next);
        if row == next {
            self.rows.push((comm, operation));
            self.sums.push(CallSums::default());
        }
        row
    }

    /// Adds the time so far of a call that goes on.
    fn add_active(&mut self, values: &[u64]) {
        let word = values[active_call::CALL];
        let Some(CurrentFunction::Operation(operation)) = active_call::call_of(word) else { return };
        let comm = CommId::new(word as u32);
        if comm.index() >= self.families.len() {
            return;
        }
        let row = self.row(comm, operation) as usize;
        let since = self.clock.ticks.saturating_sub(Ticks::new(values[active_call::SINCE]));
        self.sums[row].ticks = self.sums[row].ticks.wrapping_add(since.get());
        self.sums[row].inside += 1;
        self.sums[row].longest = self.sums[row].longest.max(since.get());
    }
}

impl VariableReading {
    fn from_words(words: &SlotWords) -> Option<VariableReading> {
        let Some(Meaning::Variable(variable, region)) = SlotKey(words[offset_of!(Slot, key) / 8]).meaning()
        else {
            return None;
        };
        let values = &words[VALUES..];
        let real = |which: usize| Some(f64::from_bits(values[which])).filter(|number| number.is_finite());
        Some(VariableReading {
            variable,
            region,
            value: real(variable::VALUE)?,
            delta: real(variable::DELTA)?,
            requested_value: real(variable::REQUESTED_VALUE)?,
            last: variable::Last::from_bits(values[variable::LAST]),
        })
    }
}

impl CallSums {
    fn add(&mut self, slot: &SlotWords) {
        self.calls = self.calls.wrapping_add(slot[VALUES + call::CALLS]);
        self.bytes = self.bytes.wrapping_add(slot[VALUES + call::BYTES]);
        self.ticks = self.ticks.wrapping_add(slot[VALUES + call::TICKS]);
    }
}
