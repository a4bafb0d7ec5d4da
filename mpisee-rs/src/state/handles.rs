//! Windows, files and probed messages: handles that stand for the communicator on which they were made.

use super::process;
use crate::mpi::abi::{self, File, FromFortran, Raw, Win};
use crate::storage::table::Table;
use mpisee_profile::segment::NotSeen;
use std::marker::PhantomData;

/// The communicators of the handles of one kind that are in use. MPI keeps a copy of the communicator's group,
/// so that the handle may outlive the communicator; its number stays valid.
pub struct Handles<H> {
    /// Numbers of communicators, by handle.
    pub communicators: Table<u32>,
    /// Why a call on another handle is not seen.
    pub unknown: NotSeen,
    handle: PhantomData<fn(H)>,
}

impl<H: FromFortran> Handles<H> {
    /// Calls on handles that are not in it are counted as `unknown`.
    pub const fn new(unknown: NotSeen) -> Self {
        Handles { communicators: Table::new(), unknown, handle: PhantomData }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.communicators.share();
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.communicators.is_empty()
    }

    /// The number of the communicator; a handle that nobody knows is counted as not seen.
    #[inline]
    pub fn communicator_of(&self, handle: Raw<H>) -> Option<u32> {
        let communicator = self.communicators.get(abi::bits(handle.get()));
        if communicator.is_none() {
            process::not_seen(self.unknown);
        }
        communicator
    }
}

/// The windows that are open.
pub static WINDOWS: Handles<Win> = Handles::new(NotSeen::UnknownWindow);
/// The files that are open.
pub static FILES: Handles<File> = Handles::new(NotSeen::UnknownFile);
/// The communicators of messages that were probed, by number. An entry stays until its handle is given out
/// again: the one that stands for all messages from `MPI_PROC_NULL` is received more than once, and is on the
/// communicator where it came up last.
pub static MESSAGES: Table<u32> = Table::new();

/// Several threads call MPI at the same time.
pub fn share() {
    MESSAGES.share();
    WINDOWS.share();
    FILES.share();
}

/// Whether a window or a message is open that may still bring peers, whatever became of its communicator.
pub fn may_bring_peers() -> bool {
    !WINDOWS.is_empty() || !MESSAGES.is_empty()
}
