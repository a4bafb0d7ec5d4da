//! Following the counters of a running process: each reading costs little more than a copy of the counters in use.
//!
//! The file stays open, so that its last state can be read after the program has removed it. It is not mapped, since truncating a
//! mapped file would kill the reader. A counter is read once, and not until two readings agree: a call that ends meanwhile may be in one
//! of its sums now and in the others at the next reading.

use super::live::Clock;
use super::{Segment, identity, open, words_of};
use anyhow::{Context, Result, bail};
use mpisee_profile::comm_name::derived;
use mpisee_profile::segment::active_call::{self, Call};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::{
    CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, Header, LOG, SLOT_BYTES, Slot, call, state,
};
use mpisee_profile::segment::log::Runs;
use mpisee_profile::segment::names::{names, names_can_be};
use mpisee_profile::segment::{Key, Snapshot};
use mpisee_profile::{CommId, Operation, Ticks};
use std::collections::HashMap;
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

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

/// The segment of a process that is read again and again.
pub struct Followed {
    file: File,
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
    sums: Vec<CallSums>,
    has_arrived: bool,
    clock: Clock,
    bytes: Vec<u8>,
}

/// A chunk of counters or of the log.
struct Chunk {
    at: u64,
    bytes: u64,
    kind: u64,
    /// Of the log, the bytes that are read; it begins after them.
    read: u64,
    /// Of counters, the row of each slot in use.
    places: Vec<Place>,
}

/// The row of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It counts no calls.
    None,
    /// Its meaning is not known yet.
    Unknown,
    /// The call in progress.
    Active,
    Row(u32),
}

impl Followed {
    /// Opens the segment of a running process. Nothing is counted before the first [`Followed::update`].
    pub fn new(segment: &Segment) -> Result<Followed> {
        let (file, metadata) = open(&segment.path, segment.user)?;
        if identity(&metadata) != segment.identity {
            bail!("another file took its name");
        }
        let mut header = vec![0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).context("cannot read it")?;
        let (log, _) = Snapshot::read_header(words_of(&header).as_slice())?;
        let clock = Clock::of(&log);
        Ok(Followed {
            file,
            log,
            chunks: Vec::new(),
            chunks_end: HEADER_BYTES as u64,
            families: Vec::new(),
            numbers: HashMap::new(),
            rows: Vec::new(),
            sums: Vec::new(),
            has_arrived: false,
            clock,
            bytes: header,
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

    /// The sums of each row, at the last reading.
    pub fn sums(&self) -> &[CallSums] {
        &self.sums
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

    /// Where in the file the slots of the threads' calls in progress are, as far as the last reading has found them.
    pub fn active_calls(&self) -> Vec<usize> {
        let slots = self.chunks.iter().flat_map(|chunk| {
            let places = chunk.places.iter().enumerate().filter(|(_, place)| **place == Place::Active);
            places.map(|(slot, _)| chunk.at as usize + CHUNK_HEADER_BYTES + slot * SLOT_BYTES)
        });
        slots.collect()
    }

    /// Reads the counters. Of a process that `has_ended` no call goes on.
    pub fn update(&mut self, has_ended: bool) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0).context("cannot read it")?;
        let field = |offset: usize| word(&header, offset / 8);
        self.has_arrived = field(offset_of!(Header, state)) == state::ARRIVED;
        self.clock = match self.has_arrived {
            true => self.clock.at(Ticks::new(field(offset_of!(Header, end_ticks)))),
            false => Clock::of(&self.log),
        };
        let end = field(offset_of!(Header, used)).min(field(offset_of!(Header, shared)));
        self.find_chunks(end)?;
        self.sums.fill(CallSums::default());
        let mut active = Vec::new();
        let mut unknown = Vec::new();
        let mut bytes = std::mem::take(&mut self.bytes);
        for index in 0..self.chunks.len() {
            if self.chunks[index].kind == COUNTERS {
                self.read_counters(index, &mut bytes, &mut active, &mut unknown)?;
            }
        }
        // The log has what is new before any counter does, and so is read after the counters.
        self.read_log(&mut bytes)?;
        self.bytes = bytes;
        for (chunk, slot, words) in unknown {
            let place = self.place(Key(words[offset_of!(Slot, key) / 8]));
            self.chunks[chunk].places[slot] = place;
            match place {
                Place::Row(row) => self.sums[row as usize].add(&words),
                Place::Active => active.push(words),
                Place::None | Place::Unknown => {}
            }
        }
        if !has_ended && !self.has_arrived {
            active.iter().for_each(|words| self.add_active(&words[offset_of!(Slot, values) / 8..]));
        }
        Ok(())
    }

    /// Learns of chunks up to `end`.
    fn find_chunks(&mut self, end: u64) -> Result<()> {
        while self.chunks_end + CHUNK_HEADER_BYTES as u64 <= end {
            let at = self.chunks_end;
            let mut header = [0; CHUNK_HEADER_BYTES];
            self.file.read_exact_at(&mut header, at).context("cannot read it")?;
            let kind = word(&header, offset_of!(ChunkHeader, kind) / 8);
            let bytes = word(&header, offset_of!(ChunkHeader, bytes) / 8);
            if bytes < CHUNK_HEADER_BYTES as u64 || !bytes.is_multiple_of(8) || bytes > end - at {
                bail!("the chunk at byte {at} says that it has {bytes} bytes");
            }
            if kind == COUNTERS || kind == LOG {
                self.chunks.push(Chunk { at, bytes, kind, read: 0, places: Vec::new() });
            }
            self.chunks_end += bytes;
        }
        Ok(())
    }

    /// Adds the slots of a chunk. Slots without a known place are put aside.
    fn read_counters(
        &mut self,
        index: usize,
        bytes: &mut Vec<u8>,
        active: &mut Vec<[u64; SLOT_BYTES / 8]>,
        unknown: &mut Vec<(usize, usize, [u64; SLOT_BYTES / 8])>,
    ) -> Result<()> {
        let chunk = &mut self.chunks[index];
        let most = (chunk.bytes as usize - CHUNK_HEADER_BYTES) / SLOT_BYTES;
        let known = chunk.places.len();
        bytes.resize(CHUNK_HEADER_BYTES + known * SLOT_BYTES, 0);
        self.file.read_exact_at(bytes, chunk.at).context("cannot read it")?;
        let used = word(bytes, offset_of!(ChunkHeader, used) / 8);
        let used = usize::try_from(used).unwrap_or(usize::MAX).min(most);
        if used > known {
            let from = bytes.len();
            bytes.resize(CHUNK_HEADER_BYTES + used * SLOT_BYTES, 0);
            self.file.read_exact_at(&mut bytes[from..], chunk.at + from as u64).context("cannot read it")?;
            chunk.places.resize(used, Place::Unknown);
        }
        let (slots, _) = bytes[CHUNK_HEADER_BYTES..].as_chunks::<SLOT_BYTES>();
        for (at, (slot, place)) in slots.iter().zip(&chunk.places).enumerate() {
            match place {
                Place::Row(row) => self.sums[*row as usize].add(&words_of_slot(slot)),
                Place::None => {}
                Place::Active => active.push(words_of_slot(slot)),
                Place::Unknown => unknown.push((index, at, words_of_slot(slot))),
            }
        }
        Ok(())
    }

    /// Reads what is new in the log.
    fn read_log(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut has_grown = false;
        // All but the last that is begun are full.
        let begun = self.chunks.iter().rposition(|chunk| chunk.kind == LOG && chunk.read > 0).unwrap_or(0);
        for chunk in self.chunks[begun..].iter_mut().filter(|chunk| chunk.kind == LOG) {
            let mut header = [0; CHUNK_HEADER_BYTES];
            self.file.read_exact_at(&mut header, chunk.at).context("cannot read it")?;
            let used = word(&header, offset_of!(ChunkHeader, used) / 8);
            let used = (used / 8 * 8).min(chunk.bytes - CHUNK_HEADER_BYTES as u64);
            if used > chunk.read {
                bytes.resize((used - chunk.read) as usize, 0);
                let from = chunk.at + CHUNK_HEADER_BYTES as u64 + chunk.read;
                self.file.read_exact_at(bytes, from).context("cannot read it")?;
                self.log.replay(&words_of(bytes))?;
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

    fn place(&mut self, key: Key) -> Place {
        if key == Key::ACTIVE_CALL {
            return Place::Active;
        }
        let Some(Meaning::Call(call)) = key.meaning() else { return Place::None };
        if call.communicator.index() >= self.families.len() {
            return Place::Unknown;
        }
        match self.log.operation_at(call.place) {
            Some((operation, _)) => Place::Row(self.row(call.communicator, operation)),
            None => Place::Unknown,
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
        let place = values[active_call::PLACE];
        let Some(Call::Counted(operation)) = active_call::call_of(place) else { return };
        let comm = CommId::new(place as u32);
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

impl CallSums {
    fn add(&mut self, slot: &[u64; SLOT_BYTES / 8]) {
        const VALUES: usize = offset_of!(Slot, values) / 8;
        self.calls = self.calls.wrapping_add(slot[VALUES + call::CALLS]);
        self.bytes = self.bytes.wrapping_add(slot[VALUES + call::BYTES]);
        self.ticks = self.ticks.wrapping_add(slot[VALUES + call::TICKS]);
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.get(index).map_or(0, |&word| u64::from_ne_bytes(word))
}

fn words_of_slot(slot: &[u8; SLOT_BYTES]) -> [u64; SLOT_BYTES / 8] {
    let (words, _) = slot.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
}
