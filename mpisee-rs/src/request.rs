//! The requests that are open: what each one stands for, from its start to its completion.

use crate::abi::{self, Request};
use crate::argument::Place;
use crate::record::Counted;
use crate::table::{Found, Table};

mod shared;

use shared::SharedHandles;

/// What a request stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A send; its bytes were counted when it started.
    Send,
    /// A receive; its bytes are known when it completes.
    Receive,
    /// A send and a receive in one.
    SendReceive,
    /// A collective operation.
    Collective,
    /// An access to a window; its bytes were counted when it started.
    Access,
    /// A read or write of a file; its bytes are known when it completes.
    Transfer,
    /// An `MPI_Comm_idup`, with its number among those on their way.
    Duplication(u32),
}

impl Kind {
    /// Whether its completion tells how many bytes came, or went to a file.
    #[inline]
    pub fn completion_tells(self) -> bool {
        matches!(self, Kind::Receive | Kind::SendReceive | Kind::Transfer)
    }
}

/// An open request.
#[derive(Clone, Copy)]
pub struct Started {
    pub kind: Kind,
    /// The call that started it, as it was counted; of a persistent request, that of its last start.
    pub counted: Counted,
    /// The bytes of its message, or, of a receive, the room for it.
    pub message: u64,
    /// The bytes that each start of a persistent request contributes; those of a receive come later.
    pub at_start: u64,
    /// The destination of a send.
    pub peer: i32,
    /// Whether the request stays after its completion.
    pub persistent: bool,
    /// Whether there is something to complete.
    pub active: bool,
    /// Whether it was started while recording was on.
    pub recorded: bool,
    /// Whether the starting call may be counted anew in the size class of the message that came.
    pub reclassed: bool,
    /// Whether the application asked to cancel it.
    pub cancelled: bool,
}

/// A request as a completion call was given it.
pub enum Given {
    /// `MPI_REQUEST_NULL`, or a persistent request that is not active.
    Nothing,
    /// Started by no call that was recorded.
    Unknown,
    /// One in the table.
    Known(u64, Found<Started>),
    /// One whose handle stands for several requests; which one, its place in memory may tell.
    Shared(u64, usize),
}

/// The table of open requests.
pub struct Requests {
    table: Table<Started>,
    shared: SharedHandles,
}

impl Requests {
    pub const fn new() -> Self {
        Requests { table: Table::new(), shared: SharedHandles::new() }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.table.share();
        self.shared.share();
    }

    /// Whether none is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.shared.is_empty()
    }

    /// Adds the request that a call stored at `place`.
    ///
    /// # Safety
    /// The call did.
    #[inline]
    pub unsafe fn add(&self, place: Place<Request>, started: Started) {
        // SAFETY: the caller's promise.
        let request = unsafe { place.handle() };
        let key = abi::bits(request);
        if abi::is_shared_request(request) {
            self.shared.add(key, place.address(), started);
        } else {
            self.table.insert(key, started);
        }
    }

    /// What the request at `place` stands for. Not yet taken out: a test may leave it open.
    #[inline]
    pub fn given(&self, request: Request, place: Place<Request>, null: Request) -> Given {
        let key = abi::bits(request);
        if key == abi::bits(null) {
            return Given::Nothing;
        }
        if abi::is_shared_request(request) {
            return Given::Shared(key, place.address());
        }
        match self.table.find(key) {
            Some(found) if found.value().active => Given::Known(key, found),
            Some(_) => Given::Nothing,
            None => Given::Unknown,
        }
    }

    /// The persistent request with this handle, active or not.
    pub fn persistent(&self, request: Request) -> Option<(u64, Found<Started>)> {
        let key = abi::bits(request);
        self.table.find(key).filter(|found| found.value().persistent).map(|found| (key, found))
    }

    /// Changes what is known of an open request.
    pub fn change(&self, key: u64, found: &Found<Started>, started: Started) {
        self.table.replace_found(found, key, started);
    }

    /// Takes a completed request out, of which `settle` tells the rest; a persistent one stays, inactive. `None` if
    /// nothing is known of it, else what `settle` returned.
    #[inline]
    pub fn complete<R>(&self, given: &Given, settle: impl FnOnce(&Started) -> R) -> Option<R> {
        match given {
            Given::Nothing | Given::Unknown => None,
            Given::Known(key, found) => {
                let started = found.value();
                let settled = settle(started);
                if started.persistent {
                    let inactive = Started { active: false, cancelled: false, ..*started };
                    self.table.replace_found(found, *key, inactive);
                } else {
                    self.table.remove_found(found);
                }
                Some(settled)
            }
            Given::Shared(key, place) => self.shared.take(*key, *place).as_ref().map(settle),
        }
    }

    /// What is known of a request that stays open.
    pub fn look(&self, given: &Given) -> Option<Started> {
        match given {
            Given::Nothing | Given::Unknown => None,
            Given::Known(_, found) => Some(*found.value()),
            Given::Shared(key, place) => self.shared.look(*key, *place),
        }
    }

    /// Forgets a request that the application freed.
    pub fn forget(&self, request: Request, place: Place<Request>) -> Option<Started> {
        let key = abi::bits(request);
        if abi::is_shared_request(request) {
            self.shared.take(key, place.address())
        } else {
            self.table.remove(key)
        }
    }
}

impl Given {
    /// The open request, if it is one in the table.
    pub fn started(&self) -> Option<&Started> {
        match self {
            Given::Known(_, found) => Some(found.value()),
            _ => None,
        }
    }

    /// Whether its completion has something to learn from the status.
    pub fn needs_status(&self) -> bool {
        self.started().is_some_and(|started| started.kind.completion_tells() || started.cancelled)
    }
}

impl Started {
    /// A request that is gone with its completion, with a message, or room for one, of `message` bytes.
    #[inline]
    pub fn once(kind: Kind, counted: Counted, message: u64) -> Self {
        Started {
            kind,
            counted,
            message,
            at_start: 0,
            peer: crate::abi::constant::PROC_NULL,
            persistent: false,
            active: true,
            recorded: true,
            reclassed: true,
            cancelled: false,
        }
    }

    /// A request that is started again and again, each time with `at_start` bytes.
    pub fn persistent(kind: Kind, template: Counted, message: u64, at_start: u64) -> Self {
        Started { at_start, persistent: true, active: false, ..Started::once(kind, template, message) }
    }
}
