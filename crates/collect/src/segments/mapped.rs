//! A segment's file in the memory of a reader.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// The words of a segment's file, which its process changes meanwhile.
///
/// Its process never truncates the file. Who reads again and again calls [`Mapped::check`] before
/// each reading: to read what somebody else has cut off would end the reader by SIGBUS, and no
/// rank.
pub struct Mapped {
    base: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and all access to it is atomic.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps the whole file, which has `least` bytes at least; to write it, the file must be open
    /// for that.
    pub fn new(file: &File, least: usize, to_write: bool) -> Result<Mapped> {
        let bytes = length(file)?;
        if bytes < least.max(size_of::<u64>()) {
            bail!("it is cut off: it has {bytes} bytes, and {least} are to be read");
        }
        let access = if to_write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // PERF: all pages are there, so that a reading does not stop at each for the first time.
        let kind = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping of an open file, at an address of the kernel's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("cannot map it");
        }
        let base = NonNull::new(base.cast()).context("cannot map it")?;
        Ok(Mapped { base, bytes })
    }

    /// Fails if the file is shorter than what is mapped.
    pub fn check(&self, file: &File) -> Result<()> {
        let bytes = length(file)?;
        if bytes < self.bytes {
            bail!("it is cut off: it has {bytes} bytes, and had {}", self.bytes);
        }
        Ok(())
    }

    /// All words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, has as many words, and lives as long as this; its
        // process and this one access them by atomic operations alone.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes / size_of::<u64>()) }
    }

    /// The word at an offset in bytes; `None` beyond the end.
    pub fn word(&self, offset: usize) -> Option<&AtomicU64> {
        self.words().get(offset / size_of::<u64>())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing that was borrowed of the mapping outlives this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn length(file: &File) -> Result<usize> {
    Ok(usize::try_from(file.metadata().context("cannot look at it")?.len())?)
}
