//! Windows, files and probed messages: handles that stand for the communicator on which they were
//! made.

use crate::mpi::abi::{self, File, FromFortran, Raw, Win};
use crate::state::world;
use crate::storage::table::Table;
use mpisee_profile::CommId;
use mpisee_profile::segment::NotSeen;
use std::marker::PhantomData;

/// Maps live handles of one kind to the communicators on which they were made. MPI keeps a copy of
/// the communicator's group, so a handle may outlive its communicator; the communicator's number
/// stays valid.
pub struct Handles<H> {
    /// By handle.
    pub communicators: Table<CommId>,
    /// The reason that is counted for a call on an unknown handle.
    pub unknown: NotSeen,
    /// True for windows: their operations name a process by its rank in the communicator.
    pub has_targets: bool,
    handle: PhantomData<fn(H)>,
}

impl<H: FromFortran> Handles<H> {
    /// Calls on handles that are not in it are counted as `unknown`.
    const fn new(unknown: NotSeen, has_targets: bool) -> Self {
        Handles { communicators: Table::new(), unknown, has_targets, handle: PhantomData }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.communicators.share();
    }

    /// Returns whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.communicators.is_empty()
    }

    /// The communicator; an unknown handle is counted as not seen.
    #[inline]
    pub fn communicator_of(&self, handle: Raw<H>) -> Option<CommId> {
        let communicator = self.communicators.get(abi::bits(handle.get()));
        if communicator.is_none() {
            world::not_seen(self.unknown);
        }
        communicator
    }
}

/// The windows that are open.
pub static WINDOWS: Handles<Win> = Handles::new(NotSeen::UnknownWindow, true);
/// The files that are open.
pub static FILES: Handles<File> = Handles::new(NotSeen::UnknownFile, false);
/// The communicators of probed messages. An entry stays until MPI reuses the handle: the one handle
/// for all messages from `MPI_PROC_NULL` is received more than once, and counts on the communicator
/// that returned it last.
pub static MESSAGES: Table<CommId> = Table::new();

/// Several threads call MPI at the same time.
pub fn share() {
    MESSAGES.share();
    WINDOWS.share();
    FILES.share();
}

/// Returns whether an open window or probed message may still add peers to its communicator, even
/// if that was freed.
pub fn may_bring_peers() -> bool {
    !WINDOWS.is_empty() || !MESSAGES.is_empty()
}
