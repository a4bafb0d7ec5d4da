//! The segment's file: created under an unpredictable name, and grown only by space that is
//! reserved first.

use super::extents::GRANULE;
use mpisee_in_process::guards::cancellation;
use mpisee_in_process::guards::descriptors;
use mpisee_profile::segment::file_name;
use std::cell::UnsafeCell;
use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Limit on retries of a system call that a signal interrupts, and on attempts to find a free name.
const MOST_TRIES: u32 = 100;

/// The file, which is open only while it grows.
pub struct SharedFile {
    /// Its name.
    pub path: PathBuf,
    /// Device and inode, which distinguish it from a file that took its name.
    identity: (u64, u64),
    /// The process that made it.
    owner: u32,
}

/// A place in the library's own data for the segment's first extent: beside what each call reads,
/// and at an address that the code knows, so that it can be asked for in advance.
#[derive(Clone, Copy)]
pub struct FirstExtent(*mut u8);

/// Aligned to pages of any size.
#[cfg_attr(target_arch = "x86_64", repr(align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
struct Memory(UnsafeCell<[u8; GRANULE]>);

// SAFETY: nobody uses it but as the place of a mapping.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; GRANULE]));

impl FirstExtent {
    /// The place for an extent; `None` if it does not fit there, or after the first time.
    pub fn from_offset(from: usize, bytes: usize) -> Option<FirstExtent> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        let is_first = from == 0 && bytes == GRANULE && !IS_TAKEN.swap(true, Ordering::Relaxed);
        is_first.then(|| FirstExtent(MEMORY.0.get().cast()))
    }

    /// The address of a byte of it.
    #[inline(always)]
    pub fn address(offset: usize) -> *const u8 {
        MEMORY.0.get().cast::<u8>().wrapping_add(offset)
    }
}

/// Why no extent was mapped.
pub enum Refusal {
    /// The file cannot grow; private memory may do.
    File(io::Error),
    /// The process may not have more address space, or not more locked memory.
    Space(io::Error),
}

/// Creates a file with an unpredictable name; an existing file is never opened.
pub fn create_file(directory: &Path, mut number: impl FnMut() -> u64) -> io::Result<SharedFile> {
    let _not_cancelled = cancellation::hold();
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
                // The application's mask may take the owner's rights, too, and the file is opened
                // again to grow.
                // SAFETY: the descriptor is open.
                unsafe { libc::fchmod(file.as_raw_fd(), 0o600) };
                return Ok(SharedFile { identity: identity(&file)?, path, owner: pid });
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

impl SharedFile {
    /// Reserves `from..to` in the file and maps it. The file is opened anew each time: a descriptor
    /// that is kept may be closed by the application, which closes all there are, and then stand
    /// for a file of its own. It is mapped at `place`, or wherever the kernel puts it.
    pub fn map(&self, from: usize, to: usize, place: Option<FirstExtent>) -> Result<*mut u8, Refusal> {
        // Until the file is closed: that may end a thread that is to be cancelled, as opening it
        // may.
        let _not_cancelled = cancellation::hold();
        let file = self.reserve(from, to).map_err(Refusal::File)?;
        // PERF: the space is allocated, so a page fault only adds an entry to the page table;
        // adding many at once costs as much as one or two faults.
        let kind = libc::MAP_SHARED | libc::MAP_POPULATE;
        map(to - from, kind, place, file.as_raw_fd(), from).map_err(|error| match error.raw_os_error() {
            // EAGAIN is for what `mlockall` would have locked, beyond the limit.
            Some(libc::ENOMEM | libc::EAGAIN) => Refusal::Space(error),
            _ => Refusal::File(error),
        })
    }

    fn reserve(&self, from: usize, to: usize) -> io::Result<OwnedFd> {
        let file = open(&self.path, libc::O_RDWR)?;
        if identity(&file)? != self.identity {
            return Err(io::Error::other("another file took its name"));
        }
        // Growing beyond this limit raises a signal that ends the program.
        if to as u64 > limit_of(libc::RLIMIT_FSIZE) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        // Without reserved space, a later store to the mapping would raise SIGBUS.
        let allocate = || {
            // SAFETY: the descriptor is open for writing.
            unsafe { libc::posix_fallocate(file.as_raw_fd(), from as i64, (to - from) as i64) }
        };
        // A timer of the application may interrupt it.
        let code = (0..MOST_TRIES).map(|_| allocate()).find(|&code| code != libc::EINTR);
        match code.unwrap_or(libc::EINTR) {
            0 => Ok(file),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Removes the file. Only the process that made it may.
    pub fn remove(&self) {
        if self.owner == std::process::id() && self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Returns whether its path still refers to it.
    pub fn is_there(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }
}

/// Maps anonymous memory, initially zero, at `place`, or wherever the kernel puts it.
pub fn map_private(bytes: usize, place: Option<FirstExtent>) -> io::Result<*mut u8> {
    map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, place, -1, 0)
}

fn map(
    bytes: usize,
    kind: c_int,
    place: Option<FirstExtent>,
    file: c_int,
    offset: usize,
) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (at, fixed) = place.map_or((ptr::null_mut(), 0), |place| (place.0.cast(), libc::MAP_FIXED));
    // SAFETY: a new mapping at an address of the kernel's choice, or in place of memory that nobody
    // uses, see `FirstExtent::from_offset`.
    let base = unsafe { libc::mmap(at, bytes, access, kind | fixed, file, offset as libc::off_t) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
}

/// The limit on a resource as it is now.
pub fn limit_of(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is written, or left as it is.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_cur
}

fn open(path: &Path, flags: c_int) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // A program that has closed its stderr may still write to it.
    let _held = descriptors::hold();
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
        assert!(matches!(file.map(0, 1 << 16, None), Err(Refusal::File(_))));
        file.remove();
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "planted");
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
