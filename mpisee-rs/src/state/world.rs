//! The facts of the run that are set once, when MPI is initialised, and the segment to which
//! everything is counted.
//!
//! Code that needs them takes a [`World`]; only the layers above get the one of this process.

use crate::mpi::abi::{self, Group, Predefined};
use crate::storage::hot::HOT;
use crate::storage::segment::Segment;
use mpisee_profile::WorldRank;
use mpisee_profile::options::Options;
use mpisee_profile::path_text::shell_path;
use mpisee_profile::segment::NotSeen;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the completion of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// By its status.
    Plain,
    /// The same, except where the status of `MPI_Isendrecv` does not describe its receive.
    ExceptIsendrecv,
    /// As MPI reports it, and noted in the order of calls.
    Noted,
}

impl Settling {
    /// The way with the order, or without.
    pub fn new(reports_isendrecv_status: bool, order: bool) -> Settling {
        match (order, reports_isendrecv_status) {
            (true, _) => Settling::Noted,
            (false, true) => Settling::Plain,
            (false, false) => Settling::ExceptIsendrecv,
        }
    }
}

/// The processes of one `MPI_COMM_WORLD`, or of the sessions of a program without one, as this
/// process sees them.
pub struct World {
    pub options: Options,
    pub predefined: Predefined,
    pub segment: Segment,
    /// The group of all processes, that of `MPI_COMM_WORLD`.
    pub group: Group,
    /// This process's rank in the group.
    pub rank: WorldRank,
    /// The size of the group.
    pub size: u32,
    pub start_realtime_ns: u64,
    pub library_version: String,
    /// True if the status of `MPI_Isendrecv` describes its receive.
    pub reports_isendrecv_status: bool,
    /// How completions are recorded.
    pub settling: Settling,
    /// The thread level of `MPI_Init`; where recording began otherwise, the highest.
    pub thread_level_of_init: &'static str,
    /// True once the program has opened a session, which has a thread level of its own.
    pub has_had_session: AtomicBool,
    pub ticks_are_tsc: bool,
    /// Sentences for `run.json`.
    pub notes: Vec<String>,
}

impl World {
    /// The command that makes a profile of what this run leaves on the node, and of no other run:
    /// its process is named.
    pub fn recover_command(&self) -> String {
        recover_command(&[std::process::id()], &self.options.segments)
    }
}

/// The command that makes profiles of the runs of these processes, of those that left segments in
/// the folder.
pub fn recover_command(processes: &[u32], folder: &Path) -> String {
    let only: String = processes.iter().map(|pid| format!(" --only {pid}")).collect();
    format!("mpisee-through recover{only} {}", shell_path(folder))
}

// SAFETY: handles of MPI are names of the library's objects, never dereferenced here.
unsafe impl Send for World {}
// SAFETY: the handles are only copied; everything else in it is `Sync`.
unsafe impl Sync for World {}

impl World {
    /// The thread level of the program. That of a session is not asked: the highest is assumed.
    pub fn thread_level(&self) -> &'static str {
        if self.has_had_session.load(Ordering::Relaxed) { "multiple" } else { self.thread_level_of_init }
    }
}

static WORLD: OnceLock<World> = OnceLock::new();

/// The world of this process, once MPI is initialised.
#[inline]
pub fn world() -> Option<&'static World> {
    WORLD.get()
}

/// Installs the world. False if there is one already.
pub fn install(world: World) -> bool {
    HOT.request_null.store(abi::bits(world.predefined.request_null), Ordering::Relaxed);
    WORLD.set(world).is_ok()
}

/// Runs recording code. A panic in it is counted as not seen, and the application goes on.
#[inline]
pub fn guarded<R>(work: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(work));
    if result.is_err() {
        not_seen(NotSeen::InternalError);
    }
    result.ok()
}

/// Counts a call that is in no table, by the reason.
#[cold]
pub fn not_seen(reason: NotSeen) {
    if let Some(world) = world() {
        world.segment.header().not_seen[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}
