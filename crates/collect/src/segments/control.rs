//! The segment of a running process in which a request is stored, see
//! [`mpisee_profile::segment::switch_request`].

use super::{Mapped, Segment};
use anyhow::{Context, Result};
use mpisee_profile::segment::active_call::{self, ASKED, NOWHERE, countdown};
use mpisee_profile::segment::layout::{HEADER_BYTES, Header, SLOT_BYTES, Slot};
use mpisee_profile::segment::switch_request::SwitchRequest;
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A segment that is open for requests.
pub struct SegmentControl {
    file: File,
    words: Mapped,
}

/// A thread's slot after an attempt to mark it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The thread is in no call, and looks for requests at its next one.
    Set,
    /// The thread is in a call.
    InCall {
        /// The word for the call, see [`active_call`].
        word: u64,
        /// When the call began, in ticks of the process.
        since: u64,
    },
}

impl SegmentControl {
    /// Opens the segment of a process that runs.
    pub fn new(segment: &Segment) -> Result<SegmentControl> {
        let file = segment.open_to_ask()?;
        let words = Mapped::new(&file, HEADER_BYTES, true)?;
        Ok(SegmentControl { file, words })
    }

    /// Takes the segment for itself, until it is dropped; false if another holds it. Only the
    /// segment's user can open it to write, so that no other user can hold it. The library's own
    /// lock, by `flock`, is another one.
    pub fn hold(&self) -> bool {
        // SAFETY: zeros are valid for numbers; the lock of an open file needs a process of 0, and
        // one of the whole file begins at 0.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: the descriptor is open, and the lock is valid.
        let locked = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        // Some file systems have no locks.
        let errno = std::io::Error::last_os_error().raw_os_error();
        locked == 0 || !matches!(errno, Some(libc::EAGAIN | libc::EACCES))
    }

    /// Returns an error if the file has become smaller than what is mapped.
    pub fn check(&self) -> Result<()> {
        self.words.check(&self.file)
    }

    /// Stores a request to switch recording.
    pub fn request(&self, request: SwitchRequest) -> Result<()> {
        self.word(offset_of!(Header, switch_request))?.store(request.word(), Ordering::Release);
        Ok(())
    }

    /// The request that is there now, as a word: another one may have taken the place of ours.
    pub fn requested(&self) -> Result<u64> {
        Ok(self.word(offset_of!(Header, switch_request))?.load(Ordering::Acquire))
    }

    /// The request that the process has followed last, as a word.
    pub fn followed(&self) -> Result<u64> {
        Ok(self.word(offset_of!(Header, followed_switch_request))?.load(Ordering::Acquire))
    }

    /// Asks the process to read MPI's variables; false if it has not done so since it was asked
    /// last.
    pub fn ask_for_variables(&self) -> Result<bool> {
        let asked = self.word(offset_of!(Header, variables_asked))?;
        let read = self.word(offset_of!(Header, variables_read))?.load(Ordering::Acquire);
        let is_new = asked.load(Ordering::Relaxed) == read;
        if is_new {
            asked.store(read.wrapping_add(1), Ordering::Release);
        }
        Ok(is_new)
    }

    /// Marks the slot of a thread's call in progress, at that byte of the file, if the thread is in
    /// no call. A thread whose call ends or begins meanwhile overwrites the mark.
    pub fn mark(&mut self, slot: usize) -> Result<Mark> {
        self.reach(slot + SLOT_BYTES)?;
        let value = |which: usize| slot + offset_of!(Slot, values) + which * size_of::<u64>();
        let relaxed = Ordering::Relaxed;
        match self.word(value(active_call::CALL))?.compare_exchange(NOWHERE, ASKED, relaxed, relaxed) {
            Ok(_) | Err(ASKED) => Ok(Mark::Set),
            Err(word) => {
                // It looks for requests after a call that it measures. Where it does not stay in
                // its call, it overwrites the word.
                let sampling = self.word(value(active_call::SAMPLING))?;
                let left = sampling.load(relaxed);
                if let Some(soon) = countdown::hastened(left) {
                    let _ = sampling.compare_exchange(left, soon, relaxed, relaxed);
                }
                Ok(Mark::InCall { word, since: self.word(value(active_call::SINCE))?.load(relaxed) })
            }
        }
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64> {
        self.words.word(offset).context("it has become smaller")
    }

    /// Maps more of the file, if it has grown.
    fn reach(&mut self, end: usize) -> Result<()> {
        if end > size_of_val(self.words.words()) {
            self.words = Mapped::new(&self.file, end, true)?;
        }
        Ok(())
    }
}
