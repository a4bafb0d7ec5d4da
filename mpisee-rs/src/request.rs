//! The requests that are open: what each one stands for, from its start to its completion.

use crate::abi::{self, Request};
use crate::record::Counted;
use crate::table::{Found, Table};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a request stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A send; its bytes were counted when it started.
    Send,
    /// A receive; its bytes are known when it completes.
    Receive,
    /// A collective operation.
    Collective,
    /// An `MPI_Comm_idup`, with its number among those on their way.
    Duplication(u32),
}

/// An open request.
#[derive(Clone, Copy)]
pub struct Started {
    pub kind: Kind,
    /// The call that started it, as it was counted; of a persistent request, that of its last start.
    pub counted: Counted,
    /// The bytes of its message, or, of a receive, the room for it.
    pub message: u64,
    /// The destination of a send.
    pub peer: i32,
    /// Whether the request stays after its completion.
    pub persistent: bool,
    /// Whether there is something to complete.
    pub active: bool,
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
    completed: Completed,
}

impl Requests {
    pub const fn new() -> Self {
        Requests { table: Table::new(), completed: Completed::new() }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.table.share();
        self.completed.locked.store(true, Ordering::Relaxed);
    }

    /// Adds the request that a call stored at `place`.
    #[inline]
    pub fn add(&self, request: Request, place: *const Request, started: Started) {
        let key = abi::bits(request);
        if abi::is_shared_request(request) {
            self.completed.push(key, place.addr(), started);
        } else {
            self.table.insert(key, started);
        }
    }

    /// What the request at `place` stands for. Not yet taken out: a test may leave it open.
    #[inline]
    pub fn given(&self, request: Request, place: *const Request, null: Request) -> Given {
        let key = abi::bits(request);
        if key == abi::bits(null) {
            return Given::Nothing;
        }
        if abi::is_shared_request(request) {
            return Given::Shared(key, place.addr());
        }
        match self.table.find(key) {
            Some(found) if found.value.active => Given::Known(key, found),
            Some(_) => Given::Nothing,
            None => Given::Unknown,
        }
    }

    /// The persistent request with this handle, active or not.
    pub fn persistent(&self, request: Request) -> Option<(u64, Found<Started>)> {
        let key = abi::bits(request);
        self.table.find(key).filter(|found| found.value.persistent).map(|found| (key, found))
    }

    /// Changes what is known of an open request.
    pub fn change(&self, key: u64, found: &Found<Started>, started: Started) {
        self.table.replace_found(found, key, started);
    }

    /// Takes a completed request out; a persistent one stays, inactive. `None` if nothing is known of it.
    #[inline]
    pub fn complete(&self, given: &Given) -> Option<Started> {
        match given {
            Given::Nothing | Given::Unknown => None,
            Given::Known(key, found) => {
                let started = found.value;
                if started.persistent {
                    let inactive = Started { active: false, cancelled: false, ..started };
                    self.table.replace_found(found, *key, inactive);
                } else {
                    self.table.remove_found(found);
                }
                Some(started)
            }
            Given::Shared(key, place) => self.completed.take(*key, *place),
        }
    }

    /// Forgets a request that the application freed.
    pub fn forget(&self, request: Request, place: *const Request) -> Option<Started> {
        let key = abi::bits(request);
        if abi::is_shared_request(request) {
            self.completed.take(key, place.addr())
        } else {
            self.table.remove(key)
        }
    }
}

impl Given {
    /// The open request, if it is one in the table.
    pub fn started(&self) -> Option<&Started> {
        match self {
            Given::Known(_, found) => Some(&found.value),
            _ => None,
        }
    }

    /// Whether its completion has something to learn from the status.
    pub fn needs_status(&self) -> bool {
        self.started().is_some_and(|started| started.kind == Kind::Receive || started.cancelled)
    }
}

/// Requests that were complete when they were started. MPI libraries give them all the same handle, so that
/// several are open under one name; they are told apart by where the application keeps them, or, if it
/// moved them, taken in the order in which they began. Nothing is left to learn of them but whose they were.
struct Completed {
    locked: AtomicBool,
    lock: AtomicBool,
    queue: UnsafeCell<VecDeque<(u64, usize, Started)>>,
}

/// How many of the oldest are compared by place.
const LOOK_AHEAD: usize = 64;
/// More than this are not kept: a program that never completes them has leaked them.
const MOST_KEPT: usize = 1 << 20;

// SAFETY: the queue is used by one thread at a time: MPI allows only one, or the lock is taken.
unsafe impl Sync for Completed {}

impl Completed {
    const fn new() -> Self {
        Completed {
            locked: AtomicBool::new(false),
            lock: AtomicBool::new(false),
            queue: UnsafeCell::new(VecDeque::new()),
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut VecDeque<(u64, usize, Started)>) -> R) -> R {
        let locked = self.locked.load(Ordering::Relaxed);
        while locked && self.lock.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: with several threads the lock is held, otherwise there is one.
        let result = work(unsafe { &mut *self.queue.get() });
        if locked {
            self.lock.store(false, Ordering::Release);
        }
        result
    }

    fn push(&self, key: u64, place: usize, started: Started) {
        self.with(|queue| {
            if queue.len() == MOST_KEPT {
                queue.pop_front();
            }
            queue.push_back((key, place, started));
        });
    }

    fn take(&self, key: u64, place: usize) -> Option<Started> {
        self.with(|queue| {
            let ahead = || queue.iter().take(LOOK_AHEAD);
            let at = ahead()
                .position(|&(other, there, _)| (other, there) == (key, place))
                .or_else(|| ahead().position(|&(other, ..)| other == key))?;
            queue.remove(at).map(|(.., started)| started)
        })
    }
}

impl Started {
    /// A request that is gone with its completion.
    #[inline]
    pub fn once(kind: Kind, counted: Counted) -> Self {
        Started {
            kind,
            counted,
            message: counted.message,
            peer: crate::abi::constant::PROC_NULL,
            persistent: false,
            active: true,
            reclassed: true,
            cancelled: false,
        }
    }
}
