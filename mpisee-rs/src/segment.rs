//! This process's segment: a shared-memory file, mapped once and grown in place.

use mpisee_profile::segment::layout::{
    self, CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, Header, LOG,
};
use mpisee_profile::segment::log::Record;
use mpisee_profile::segment::{Source, file_name};
use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Address space set aside for growth, tried in turn.
const RESERVATIONS: [usize; 5] = [1 << 34, 1 << 30, 1 << 26, 1 << 24, 1 << 22];
/// The part of a limited address space that is taken at most; the rest is the program's.
const MOST_OF_LIMIT: u64 = 64;
/// How often a system call that a signal interrupts is made again, and another name is tried.
const MOST_TRIES: u32 = 100;
/// The first size of the file.
const FIRST_BYTES: usize = 1 << 16;
/// The file grows by its own size, but not by more than this.
const MOST_GROWTH: usize = 1 << 20;
/// Bytes of a log chunk, unless one record needs more.
const LOG_CHUNK_BYTES: usize = 1 << 13;

/// The segment. Its memory stays mapped until the process ends.
pub struct Segment {
    base: *mut u8,
    growth: Mutex<Growth>,
}

struct Growth {
    reserved: usize,
    mapped: usize,
    used: usize,
    /// `None` if no file could be made.
    file: Option<SharedFile>,
    /// Why the file cannot grow any more, if so: what is mapped from then on is private memory.
    full: Option<io::Error>,
    log: Option<&'static ChunkHeader>,
}

struct SharedFile {
    path: PathBuf,
    /// Device and inode, by which the file is known again.
    identity: (u64, u64),
    owner: u32,
}

// SAFETY: `base` is a mapping that lives as long as the process; what lies in it is atomic.
unsafe impl Send for Segment {}
// SAFETY: as above; growth is behind a mutex.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes the segment, in a file of `directory` if that can be. Otherwise the counters are in private
    /// memory, and the sentence returned says why.
    pub fn create(directory: &Path) -> Option<(Segment, Option<String>)> {
        let most = address_space_limit() / MOST_OF_LIMIT;
        let fitting = RESERVATIONS.iter().filter(|&&bytes| bytes as u64 <= most);
        let smallest = RESERVATIONS.last();
        let (base, reserved) = fitting.chain(smallest).find_map(|&bytes| Some((reserve(bytes)?, bytes)))?;
        let growth = Growth { reserved, mapped: 0, used: HEADER_BYTES, file: None, full: None, log: None };
        let segment = Segment { base, growth: Mutex::new(growth) };
        let mut growth = segment.growth.lock().unwrap_or_else(PoisonError::into_inner);
        match create_file(directory, unforeseen) {
            Ok(file) => growth.file = Some(file),
            Err(error) => growth.full = Some(error),
        }
        let grown = growth.map(base, FIRST_BYTES);
        let complaint = growth.full.as_ref().map(|error| {
            format!(
                "no segment in '{}' ({error}): the counters are in private memory, and a killed rank loses them",
                directory.display()
            )
        });
        if complaint.is_some() {
            // Not even the begin is in it.
            growth.remove();
        }
        drop(growth);
        grown.then_some((segment, complaint))
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the begin of the segment is mapped and zero at first, which is a valid header of atomics.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// A new chunk for counters, of `bytes` bytes; `None` if there is no room.
    pub fn counters(&self, bytes: usize) -> Option<&'static ChunkHeader> {
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        self.chunk(&mut growth, COUNTERS, bytes)
    }

    /// Appends to the log; false if there is no room.
    pub fn log(&self, record: &Record) -> bool {
        let words = record.encode();
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let room = |chunk: &ChunkHeader| {
            let body = chunk.bytes.load(Ordering::Relaxed) - CHUNK_HEADER_BYTES as u64;
            body - chunk.used.load(Ordering::Relaxed)
        };
        let bytes = words.len() * 8;
        let chunk = match growth.log.filter(|chunk| room(chunk) >= bytes as u64) {
            Some(chunk) => chunk,
            None => {
                let size = LOG_CHUNK_BYTES.max((CHUNK_HEADER_BYTES + bytes).next_multiple_of(64));
                let Some(chunk) = self.chunk(&mut growth, LOG, size) else { return false };
                growth.log = Some(chunk);
                chunk
            }
        };
        let used = chunk.used.load(Ordering::Relaxed);
        for (index, word) in words.iter().enumerate() {
            let at = CHUNK_HEADER_BYTES / 8 + used as usize / 8 + index;
            // SAFETY: the record fits into the chunk, as just looked at, so the word lies in mapped memory.
            let place = unsafe { &*ptr::from_ref(chunk).cast::<AtomicU64>().add(at) };
            place.store(*word, Ordering::Relaxed);
        }
        chunk.used.store(used + bytes as u64, Ordering::Release);
        self.note_moment();
        true
    }

    /// Keeps the moment, as the last of which something is known if the process is killed. For what happens seldom.
    pub fn note_moment(&self) {
        self.header().last_ticks.store(crate::clock::ticks(), Ordering::Relaxed);
    }

    fn chunk(&self, growth: &mut Growth, kind: u64, bytes: usize) -> Option<&'static ChunkHeader> {
        let mut end = growth.used + bytes;
        if end > growth.mapped {
            let (was_full, boundary) = (growth.full.is_some(), growth.mapped);
            if !growth.map(self.base, end) {
                return None;
            }
            if !was_full && growth.full.is_some() {
                self.end_file(&mut growth.used, boundary);
                growth.say_full();
                end = boundary + bytes;
                if end > growth.mapped && !growth.map(self.base, end) {
                    return None;
                }
            }
        }
        let chunk = self.begin_chunk(growth.used, kind, bytes);
        growth.used = end;
        let header = self.header();
        if growth.full.is_none() {
            header.shared.store(end as u64, Ordering::Relaxed);
        }
        header.used.store(end as u64, Ordering::Release);
        Some(chunk)
    }

    /// The file has no room beyond `boundary`: a reader of it must find whole chunks up to there.
    fn end_file(&self, used: &mut usize, boundary: usize) {
        if boundary > *used {
            self.begin_chunk(*used, LOG, boundary - *used);
            *used = boundary;
        }
        let header = self.header();
        header.shared.store(boundary as u64, Ordering::Relaxed);
        header.used.store(boundary as u64, Ordering::Release);
    }

    /// Says what the bytes from `at` on are; they are mapped, and in no chunk yet.
    fn begin_chunk(&self, at: usize, kind: u64, bytes: usize) -> &'static ChunkHeader {
        // SAFETY: the caller has mapped the chunk; it is zero, aligned to 64 bytes, and handed out once.
        let chunk = unsafe { &*self.base.add(at).cast::<ChunkHeader>() };
        chunk.bytes.store(bytes as u64, Ordering::Relaxed);
        chunk.kind.store(kind, Ordering::Relaxed);
        chunk
    }

    /// Whether the counters are in a file, which outlives the process.
    pub fn is_in_file(&self) -> bool {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner).file.is_some()
    }

    /// Removes the file. Only the process that made it may.
    pub fn remove(&self) {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner).remove();
    }
}

impl Source for Segment {
    fn words(&self) -> usize {
        self.header().used.load(Ordering::Acquire) as usize / 8
    }

    fn word(&self, index: usize) -> u64 {
        // SAFETY: the caller keeps `index` below `words`, and that much is mapped.
        unsafe { &*self.base.cast::<AtomicU64>().add(index) }.load(Ordering::Acquire)
    }
}

impl Growth {
    /// Maps memory up to at least `end`, from the file while that has room, else private.
    fn map(&mut self, base: *mut u8, end: usize) -> bool {
        let step = self.mapped.clamp(FIRST_BYTES, MOST_GROWTH);
        let target = end.max(self.mapped + step).next_multiple_of(FIRST_BYTES);
        if target > self.reserved {
            return false;
        }
        let from = self.mapped;
        if self.full.is_none() {
            // What is mapped stays so when the file is full, and counts on; the header says how far the file goes.
            self.full = self.file.as_ref().and_then(|file| file.map(base, from, target).err());
        }
        let mapped = self.full.is_none() || map_private(base, from, target);
        if mapped {
            self.mapped = target;
        }
        mapped
    }

    fn say_full(&self) {
        if let (Some(file), Some(error)) = (&self.file, &self.full) {
            crate::message::say(format_args!(
                "'{}' cannot grow ({error}): what comes up for the first time is counted in private memory from now \
                 on, and lost if this rank is killed",
                file.path.display()
            ));
        }
    }

    fn remove(&mut self) {
        if let Some(file) = self.file.take()
            && file.owner == std::process::id()
            && file.is_there()
        {
            let _ = std::fs::remove_file(&file.path);
        }
    }
}

fn address_space_limit() -> u64 {
    limit_of(libc::RLIMIT_AS)
}

fn limit_of(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is written, or left as it is.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_cur
}

/// Address space without memory.
fn reserve(bytes: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

fn map_private(base: *mut u8, from: usize, to: usize) -> bool {
    map_at(base, from, to, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).is_ok()
}

fn map_at(base: *mut u8, from: usize, to: usize, kind: c_int, file: c_int) -> io::Result<()> {
    let offset = if file < 0 { 0 } else { from };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: `from..to` lies in the reservation and nothing of it was handed out yet.
    let mapped = unsafe {
        libc::mmap(
            base.add(from).cast(),
            to - from,
            access,
            kind | libc::MAP_FIXED,
            file,
            offset as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a file of a name that nobody can foresee; whatever has that name already is left alone.
fn create_file(directory: &Path, mut number: impl FnMut() -> u64) -> io::Result<SharedFile> {
    // SAFETY: getuid cannot fail.
    let user = unsafe { libc::getuid() };
    let pid = std::process::id();
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    for _ in 0..MOST_TRIES {
        let path = directory.join(file_name(user, pid, number()));
        match open(&path, flags) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                // The application's mask may take the owner's rights, too, and the file is opened again to grow.
                // SAFETY: the descriptor is open.
                unsafe { libc::fchmod(file.as_raw_fd(), 0o600) };
                return Ok(SharedFile { identity: identity(&file)?, path, owner: pid });
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

/// A random number; the time, where there is none.
pub fn unforeseen() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: as many bytes are written as there are.
    let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if length == 8 { u64::from_ne_bytes(bytes) } else { crate::clock::realtime_ns() }
}

impl SharedFile {
    /// Reserves `from..to` in the file and maps it. The file is opened anew each time: a descriptor that is
    /// kept may be closed by the application, which closes all there are, and then stand for a file of its own.
    fn map(&self, base: *mut u8, from: usize, to: usize) -> io::Result<()> {
        let file = open(&self.path, libc::O_RDWR)?;
        if identity(&file)? != self.identity {
            return Err(io::Error::other("another file took its name"));
        }
        // Who tries to go beyond this limit is sent a signal that ends the program.
        if to as u64 > limit_of(libc::RLIMIT_FSIZE) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        // Room that is promised but not there would become a SIGBUS later.
        let allocate = || {
            // SAFETY: the descriptor is open for writing.
            unsafe { libc::posix_fallocate(file.as_raw_fd(), from as i64, (to - from) as i64) }
        };
        // A timer of the application may interrupt it.
        let code = (0..MOST_TRIES).map(|_| allocate()).find(|&code| code != libc::EINTR);
        match code.unwrap_or(libc::EINTR) {
            0 => map_at(base, from, to, libc::MAP_SHARED, file.as_raw_fd()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Whether its name still leads to it.
    fn is_there(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }
}

fn open(path: &Path, flags: c_int) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `name` ends in a zero.
    let descriptor = unsafe { libc::open(name.as_ptr(), flags | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0o600) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn identity(file: &OwnedFd) -> io::Result<(u64, u64)> {
    // SAFETY: a stat of zeros is valid, and fstat fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `stat` valid for writing.
    if unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((stat.st_dev, stat.st_ino))
}

/// Puts the magic number in place, with which the segment is one.
pub fn publish(header: &Header) {
    header.version.store(layout::VERSION, Ordering::Relaxed);
    header.operations.store(mpisee_profile::Operation::fingerprint(), Ordering::Relaxed);
    header.magic.store(layout::MAGIC, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn whatever_has_the_name_is_left_alone_and_another_is_taken() {
        let scratch = std::env::temp_dir().join(format!("mpisee-planted-{}", std::process::id()));
        std::fs::create_dir(&scratch).unwrap();
        // SAFETY: getuid cannot fail.
        let user = unsafe { libc::getuid() };
        let path = |number: u64| scratch.join(file_name(user, std::process::id(), number));
        let victim = scratch.join("victim");
        std::fs::write(&victim, "as it was").unwrap();
        symlink(&victim, path(1)).unwrap();
        symlink(scratch.join("nowhere"), path(2)).unwrap();
        std::fs::hard_link(&victim, path(3)).unwrap();
        std::fs::create_dir(path(4)).unwrap();
        let pipe = CString::new(path(5).as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends in a zero.
        let code = unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) };
        assert_eq!(code, 0);
        std::fs::write(path(6), "planted").unwrap();

        let mut numbers = 1..;
        let file = create_file(&scratch, || numbers.next().unwrap()).unwrap();
        assert_eq!(file.path, path(7));
        let metadata = std::fs::symlink_metadata(&file.path).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.is_file()), (0o600, true));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");
        assert!(!scratch.join("nowhere").exists());
        assert!(create_file(&scratch, || 6).is_err(), "it does not try for ever");

        // One that took the name since is neither written nor removed.
        // (While it is mapped, no other file gets its number.)
        std::fs::rename(path(6), &file.path).unwrap();
        let base = reserve(1 << 22).unwrap();
        assert!(file.map(base, 0, FIRST_BYTES).is_err());
        let path = file.path.clone();
        Growth { reserved: 0, mapped: 0, used: 0, file: Some(file), full: None, log: None }.remove();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "planted");
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn names_differ() {
        assert_ne!(unforeseen(), unforeseen());
    }
}
