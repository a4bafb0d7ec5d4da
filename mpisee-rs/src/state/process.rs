//! The state of the process: what starts with `MPI_Init` and ends with `MPI_Finalize`.

use crate::mpi::abi::{Group, Predefined};
use crate::state::region::Regions;
use crate::storage::segment::Segment;
use mpisee_profile::options::Options;
use mpisee_profile::segment::NotSeen;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// How the shims treat a call.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Pass calls through: before init, after finalize, in a forked child, under another MPI.
    Bystander = 0,
    /// Keep track of communicators and requests, count nothing: recording is switched off.
    Tracking = 1,
    /// Count.
    Recording = 2,
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Bystander as u8);

/// Whether calls are counted.
#[inline]
pub fn is_recording() -> bool {
    MODE.load(Ordering::Relaxed) == Mode::Recording as u8
}

/// Whether communicators and requests are kept track of.
#[inline]
pub fn is_tracking() -> bool {
    MODE.load(Ordering::Relaxed) != Mode::Bystander as u8
}

/// Changes the mode.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u8, Ordering::Relaxed);
}

/// Ends recording for good; true for the one caller that ended it.
pub fn end() -> bool {
    MODE.swap(Mode::Bystander as u8, Ordering::AcqRel) != Mode::Bystander as u8
}

/// Process-wide state, set once when MPI is initialised.
pub struct Process {
    pub options: Options,
    pub predefined: Predefined,
    pub segment: Segment,
    /// The processes of the run: the group of `MPI_COMM_WORLD`.
    pub world_group: Group,
    /// Whether there is an `MPI_COMM_WORLD`; a process may have sessions alone, or begin with them.
    pub has_world: AtomicBool,
    pub world_rank: u32,
    pub world_size: u32,
    pub start_realtime_ns: u64,
    pub library_version: String,
    pub tells_of_combined_receives: bool,
    pub thread_level: &'static str,
    pub ticks_are_tsc: bool,
    /// Sentences for `run.json`.
    pub notes: Vec<String>,
    pub regions: Regions,
}

// SAFETY: handles of MPI are names of the library's objects, never dereferenced here.
unsafe impl Send for Process {}
// SAFETY: as above; everything else in it is `Sync`.
unsafe impl Sync for Process {}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// The state, once there is one.
#[inline]
pub fn process() -> Option<&'static Process> {
    PROCESS.get()
}

/// True if nothing is tracked, so that the shims need not read the arguments of calls.
#[allow(dead_code)] // An MPI may come without Fortran.
#[inline]
pub fn is_idle() -> bool {
    !is_tracking()
}

/// Whether other processes spawned this world.
static SPAWNED: AtomicBool = AtomicBool::new(false);

/// Records that other processes spawned this world.
pub fn note_spawned() {
    SPAWNED.store(true, Ordering::Relaxed);
}

/// Whether other processes spawned this world.
pub fn was_spawned() -> bool {
    SPAWNED.load(Ordering::Relaxed)
}

/// Sessions of the application that are open.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// The application opened a session.
pub fn session_began() {
    SESSIONS.fetch_add(1, Ordering::Relaxed);
}

/// The application ended a session.
pub fn session_ended() {
    SESSIONS.fetch_sub(1, Ordering::Relaxed);
}

/// Whether no session is open.
pub fn sessions_are_over() -> bool {
    SESSIONS.load(Ordering::Relaxed) == 0
}

/// Counts a call that is in no table, by the reason.
#[cold]
pub fn not_seen(reason: NotSeen) {
    if let Some(process) = process() {
        process.segment.header().not_seen[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Installs the state. False if there is one already.
pub fn install(process: Process) -> bool {
    PROCESS.set(process).is_ok()
}
