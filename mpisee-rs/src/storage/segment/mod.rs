//! This process's segment: a shared-memory file that grows, mapped in extents.

mod extents;
mod file;

use crate::storage::patience::PatientMutex;
use crate::storage::prefetch;
use extents::{Extents, GRANULE, MOST_BYTES};
use file::{FirstExtent, Refusal, SharedFile, create_file, limit_of, map_private};
use mpisee_in_process::guards::errno;
use mpisee_profile::segment::layout::{
    self, CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, Header, LOG, ORDER, SAMPLES, Slot,
};
use mpisee_profile::segment::log::Record;
use mpisee_profile::segment::source::{SLOT_WORDS, settled};
use mpisee_profile::segment::{SlotKey, Source};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of a limited address space, the segment takes at most one part in this many.
const MOST_OF_LIMIT: u64 = 64;
/// Bytes that the segment may have under any limit.
const ALWAYS_ALLOWED: u64 = 1 << 22;
/// The segment grows by its own size, but not by more than this.
const MOST_GROWTH: usize = 1 << 20;
/// Bytes of a log chunk, unless one record needs more.
const LOG_CHUNK_BYTES: usize = 1 << 13;
/// Bytes of the first chunk of counters: what the first page has besides the header.
const FIRST_COUNTERS_BYTES: usize = (1 << 12) - HEADER_BYTES;
/// A chunk of counters is this large at least: 15 slots.
const LEAST_COUNTERS_BYTES: usize = 1 << 10;
/// While address space is exhausted, one request in this many is tried: the program may free some,
/// but a try takes system calls, and each uncounted call makes a request.
const REQUESTS_PER_TRY: u64 = 256;

/// The segment. Its memory stays mapped until the process ends.
pub struct Segment {
    header: &'static Header,
    extents: Extents,
    growth: PatientMutex<Growth>,
}

struct Growth {
    mapped: usize,
    used: usize,
    /// Bytes of what is mapped that are in the file.
    shared: usize,
    /// `None` if no file could be made.
    file: Option<SharedFile>,
    /// Why the file cannot grow any more, if so: what is mapped from then on is private memory.
    full: Option<io::Error>,
    /// Requests for an extent since address space ran out, the first included.
    refused: u64,
    log: Option<&'static ChunkHeader>,
    /// The first chunk of counters, until a thread has it.
    first_counters: Option<&'static ChunkHeader>,
    /// Room for the words of a record.
    record: Vec<u64>,
    has_said_full: bool,
    has_said_refused: bool,
}

impl Segment {
    /// Creates the segment in a file in `directory`. If that fails, the counters are in private
    /// memory, and the sentence returned says why.
    pub fn create(directory: &Path) -> Option<(Segment, Option<String>)> {
        let mut growth = Growth {
            mapped: 0,
            used: HEADER_BYTES,
            shared: 0,
            file: None,
            full: None,
            refused: 0,
            log: None,
            first_counters: None,
            record: Vec::new(),
            has_said_full: false,
            has_said_refused: false,
        };
        match create_file(directory, unforeseen) {
            Ok(file) => growth.file = Some(file),
            Err(error) => growth.full = Some(error),
        }
        let extents = Extents::new();
        let grown = growth.map_extent(&extents, GRANULE);
        let complaint = growth.full.as_ref().map(|error| {
            format!(
                "no segment in '{}' ({error}): the counters are in private memory, and a killed rank loses them",
                directory.display()
            )
        });
        if complaint.is_some() || grown.is_err() {
            // Not even the header is in the file.
            growth.remove();
        }
        growth.has_said_full = complaint.is_some();
        grown.ok()?;
        let header = extents.address(0)?.cast::<Header>();
        // SAFETY: the first extent begins here, stays mapped, and is zero, which is a valid header
        // of atomics.
        let header = unsafe { &*header };
        let segment = Segment { header, extents, growth: PatientMutex::new(growth) };
        segment.begin_counters();
        Some((segment, complaint))
    }

    /// Makes the first chunk of counters, on the header's page.
    fn begin_counters(&self) {
        let Some(mut growth) = self.growth.lock() else { return };
        growth.first_counters = self.chunk(&mut growth, COUNTERS, FIRST_COUNTERS_BYTES, FIRST_COUNTERS_BYTES);
    }

    /// Asks for the first slot of the first thread, that of its call in progress, wherever the
    /// segment is one day.
    #[inline(always)]
    pub fn prefetch_first_slot() {
        prefetch::data(FirstExtent::address(HEADER_BYTES + CHUNK_HEADER_BYTES));
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.header
    }

    /// A new chunk for counters, of `bytes` bytes or what the last extent has left; `None` if there
    /// is no room.
    pub fn counters(&self, bytes: usize) -> Option<&'static ChunkHeader> {
        let mut growth = self.growth.lock()?;
        let first = growth.first_counters.take();
        first.or_else(|| self.chunk(&mut growth, COUNTERS, LEAST_COUNTERS_BYTES, bytes))
    }

    /// A new chunk for samples of at least `words` words, of what `key` counts; `None` if there is
    /// no room.
    pub fn samples(&self, key: SlotKey, words: usize) -> Option<Words> {
        self.chunk_of_words(SAMPLES, key.0, words)
    }

    /// A new chunk for a part of the order of a thread, of at least `words` words; `None` if there
    /// is no room.
    pub fn order(&self, part: u64, words: usize) -> Option<Words> {
        self.chunk_of_words(ORDER, part, words)
    }

    fn chunk_of_words(&self, kind: u64, key: u64, words: usize) -> Option<Words> {
        let bytes = (CHUNK_HEADER_BYTES + words * 8).next_multiple_of(64);
        let mut growth = self.growth.lock()?;
        let chunk = self.chunk(&mut growth, kind, bytes, bytes)?;
        chunk.key.store(key, Ordering::Release);
        Some(Words(chunk))
    }

    /// Visits the slots of all threads.
    pub fn each_slot(&self, mut visit: impl FnMut(&Slot)) {
        let end = self.header().used.load(Ordering::Acquire) as usize;
        let mut at = HEADER_BYTES;
        while at < end {
            let Some(chunk) = self.extents.address(at) else { return };
            // SAFETY: chunks follow each other from the header on up to `used`, which is published
            // when the chunk before it has its header (`begin_chunk`); they are mapped, aligned,
            // and never unmapped.
            let chunk = unsafe { &*chunk.cast::<ChunkHeader>() };
            let bytes = chunk.bytes.load(Ordering::Relaxed) as usize;
            if chunk.kind.load(Ordering::Relaxed) == COUNTERS {
                let slots = ptr::from_ref(chunk).cast::<u8>().wrapping_add(CHUNK_HEADER_BYTES).cast::<Slot>();
                for number in 0..chunk.used.load(Ordering::Acquire) as usize {
                    // SAFETY: the chunk has as many slots as its writer says that it uses, with all
                    // their bytes in one extent.
                    visit(unsafe { &*slots.wrapping_add(number) });
                }
            }
            if bytes == 0 {
                return;
            }
            at += bytes;
        }
    }

    /// Appends to the log; false if there is no room.
    pub fn log(&self, record: &Record) -> bool {
        let Some(mut growth) = self.growth.lock() else { return false };
        let mut words = std::mem::take(&mut growth.record);
        record.encode_to(&mut words);
        let is_logged = self.append(&mut growth, &words);
        growth.record = words;
        drop(growth);
        self.note_moment();
        is_logged
    }

    /// Appends a record to the log; false if there is no room.
    fn append(&self, growth: &mut Growth, words: &[u64]) -> bool {
        let room = |chunk: &ChunkHeader| {
            let body = chunk.bytes.load(Ordering::Relaxed) - CHUNK_HEADER_BYTES as u64;
            body - chunk.used.load(Ordering::Relaxed)
        };
        let bytes = words.len() * 8;
        let chunk = match growth.log.filter(|chunk| room(chunk) >= bytes as u64) {
            Some(chunk) => chunk,
            None => {
                let least = (CHUNK_HEADER_BYTES + bytes).next_multiple_of(64);
                let Some(chunk) = self.chunk(growth, LOG, least, LOG_CHUNK_BYTES.max(least)) else {
                    return false;
                };
                growth.log = Some(chunk);
                chunk
            }
        };
        let used = chunk.used.load(Ordering::Relaxed);
        let body = &Words(chunk).body()[used as usize / 8..];
        body.iter().zip(words).for_each(|(place, word)| place.store(*word, Ordering::Relaxed));
        chunk.used.store(used + bytes as u64, Ordering::Release);
        true
    }

    /// Stores the current time as the last sign of life, in case the process is killed. Called only
    /// on rare events.
    pub fn note_moment(&self) {
        self.header().last_ticks.store(crate::storage::clock::ticks().get(), Ordering::Relaxed);
    }

    /// A chunk of `most` bytes, or of `least` and more where an extent has no room for `most`:
    /// readers of the file walk from chunk to chunk, but in memory a chunk lies in one extent.
    fn chunk(
        &self,
        growth: &mut Growth,
        kind: u64,
        least: usize,
        most: usize,
    ) -> Option<&'static ChunkHeader> {
        if growth.mapped - growth.used < least {
            let left = growth.mapped;
            growth.extend(&self.extents, least)?;
            self.leave_extent(growth, left)?;
        }
        let bytes = most.min(growth.mapped - growth.used);
        let chunk = self.begin_chunk(growth.used, kind, bytes)?;
        growth.used += bytes;
        self.publish_end(growth);
        Some(chunk)
    }

    /// Fills the extent that ends at `end`, so that readers find whole chunks up to there.
    fn leave_extent(&self, growth: &mut Growth, end: usize) -> Option<()> {
        if end > growth.used {
            self.begin_chunk(growth.used, LOG, end - growth.used)?;
            growth.used = end;
            self.publish_end(growth);
        }
        Some(())
    }

    fn publish_end(&self, growth: &Growth) {
        let header = self.header();
        header.shared.store(growth.used.min(growth.shared) as u64, Ordering::Relaxed);
        header.used.store(growth.used as u64, Ordering::Release);
    }

    /// Writes the header of a chunk at `at`; its bytes are mapped, and in no chunk yet.
    fn begin_chunk(&self, at: usize, kind: u64, bytes: usize) -> Option<&'static ChunkHeader> {
        let chunk = self.extents.address(at)?.cast::<ChunkHeader>();
        // SAFETY: `at..at + bytes` lies in one extent, which is never unmapped; it is zero, aligned
        // to 64 bytes, and handed out once.
        let chunk = unsafe { &*chunk };
        chunk.bytes.store(bytes as u64, Ordering::Relaxed);
        chunk.kind.store(kind, Ordering::Relaxed);
        Some(chunk)
    }

    /// Returns whether the counters are in a file, which outlives the process.
    pub fn is_in_file(&self) -> bool {
        self.growth.lock().is_some_and(|growth| growth.file.is_some())
    }

    /// The path of the file, if all counters are in it.
    pub fn path(&self) -> Option<PathBuf> {
        let growth = self.growth.lock()?;
        growth.file.as_ref().filter(|_| growth.full.is_none()).map(|file| file.path.clone())
    }

    /// Returns whether the file can be found by its name.
    pub fn is_there(&self) -> bool {
        self.growth.lock().is_some_and(|growth| growth.file.as_ref().is_some_and(SharedFile::is_there))
    }

    /// Removes the file. Only the process that made it may.
    pub fn remove(&self) {
        if let Some(mut growth) = self.growth.lock() {
            growth.remove();
        }
    }
}

/// A chunk whose body is words.
#[derive(Clone, Copy)]
pub struct Words(&'static ChunkHeader);

impl Words {
    /// The words behind the header.
    pub fn body(self) -> &'static [AtomicU64] {
        let words = (self.0.bytes.load(Ordering::Relaxed) as usize - CHUNK_HEADER_BYTES) / 8;
        let first = ptr::from_ref(self.0).cast::<AtomicU64>().wrapping_add(CHUNK_HEADER_BYTES / 8);
        // SAFETY: a chunk lies in one extent with all its bytes, aligned to words, and is never
        // unmapped.
        unsafe { slice::from_raw_parts(first, words) }
    }

    /// The key that the chunk was given.
    pub fn key(self) -> u64 {
        self.0.key.load(Ordering::Relaxed)
    }

    /// How much of it readers are to take, in the unit of its kind.
    pub fn used(self) -> &'static AtomicU64 {
        &self.0.used
    }
}

impl Drop for Segment {
    /// Runs only if the profiler does not start: the segment of one that runs is never dropped.
    fn drop(&mut self) {
        self.remove();
    }
}

impl Source for Segment {
    fn words(&self) -> usize {
        self.header().used.load(Ordering::Acquire) as usize / 8
    }

    fn word(&self, index: usize) -> u64 {
        // SAFETY: extents are never unmapped, aligned to words, and hold atomics and zeros only.
        let word = self.extents.address(index * 8).map(|address| unsafe { &*address.cast::<AtomicU64>() });
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn slot(&self, index: usize) -> [u64; SLOT_WORDS] {
        // PERF: the address is looked up once. One extent has the whole slot: both are aligned to
        // the size of a slot.
        let address = self.extents.address(index * 8).filter(|_| index.is_multiple_of(SLOT_WORDS));
        // SAFETY: extents are never unmapped. The index is a multiple of a slot's words, so that
        // one extent has all of these, which are atomics.
        let words = address.map(|address| unsafe { &*address.cast::<[AtomicU64; SLOT_WORDS]>() });
        let read = || {
            words.map_or([0; SLOT_WORDS], |words| words.each_ref().map(|word| word.load(Ordering::Acquire)))
        };
        settled(read(), read)
    }
}

impl Growth {
    /// Maps a further extent, of at least `least` bytes; `None` if there is no address space.
    fn extend(&mut self, extents: &Extents, least: usize) -> Option<()> {
        if self.refused > 0 {
            self.refused += 1;
            if !self.refused.is_multiple_of(REQUESTS_PER_TRY) {
                return None;
            }
        }
        let least = least.next_multiple_of(GRANULE);
        let step = self.mapped.clamp(GRANULE, MOST_GROWTH).max(least);
        let mapped = self.map_extent(extents, step).or_else(|_| self.map_extent(extents, least));
        self.say_full();
        match mapped {
            Ok(()) => self.refused = 0,
            Err(error) => {
                self.refused = self.refused.max(1);
                self.say_refused(&error);
            }
        }
        (self.refused == 0).then_some(())
    }

    /// Maps an extent of `bytes` bytes, from the file while that has room, else private.
    fn map_extent(&mut self, extents: &Extents, bytes: usize) -> io::Result<()> {
        let _errno = errno::keep();
        let (from, to) = (self.mapped, self.mapped + bytes);
        if to > most_bytes() || !extents.make_room(from, to) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let place = FirstExtent::from_offset(from, bytes);
        let file = self.file.as_ref().filter(|_| self.full.is_none());
        let in_file = match file.map(|file| file.map(from, to, place)) {
            Some(Ok(base)) => Some(base),
            Some(Err(Refusal::Space(error))) => return Err(error),
            Some(Err(Refusal::File(error))) => {
                // The extents before stay in the file; the header says how far it goes.
                self.full = Some(error);
                None
            }
            None => None,
        };
        let base = match in_file {
            Some(base) => base,
            None => map_private(bytes, place)?,
        };
        extents.enter(from, bytes, base);
        self.mapped = to;
        if in_file.is_some() {
            self.shared = to;
        }
        Ok(())
    }

    fn say_full(&mut self) {
        if let (Some(file), Some(error), false) = (&self.file, &self.full, self.has_said_full) {
            self.has_said_full = true;
            crate::storage::message::say(format_args!(
                "'{}' cannot grow ({error}): what comes up for the first time is counted in private memory from now \
                 on, and lost if this rank is killed",
                file.path.display()
            ));
        }
    }

    fn say_refused(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_said_refused, true) {
            crate::storage::message::say(format_args!(
                "no address space for further counters ({error}): what comes up for the first time is not counted \
                 until there is some"
            ));
        }
    }

    fn remove(&mut self) {
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}

/// Bytes that the segment may have under the limit on address space, which the program may change
/// at any time.
fn most_bytes() -> usize {
    let most = limit_of(libc::RLIMIT_AS) / MOST_OF_LIMIT;
    most.clamp(ALWAYS_ALLOWED, MOST_BYTES as u64) as usize
}

/// Returns whether the process may have as much more memory.
pub fn has_memory(bytes: usize) -> bool {
    let _errno = errno::keep();
    let Ok(room) = map_private(bytes, None) else { return false };
    // SAFETY: it was mapped here, and nothing is in it.
    unsafe { libc::munmap(room.cast(), bytes) };
    true
}

/// A random number; the time, where there is none.
fn unforeseen() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: as many bytes are written as there are.
    let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if length == 8 { u64::from_ne_bytes(bytes) } else { crate::storage::clock::realtime_ns() }
}

/// Writes the magic number, which makes the segment valid to readers.
pub fn publish(header: &Header) {
    header.version.store(layout::VERSION, Ordering::Relaxed);
    header.operations.store(mpisee_profile::Operation::fingerprint(), Ordering::Relaxed);
    header.magic.store(layout::MAGIC, Ordering::Release);
}

#[cfg(test)]
mod tests;
