//! The stage of the process: before MPI, tracking, recording, at its end.

use crate::storage::hot::HOT;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The way in which the shims treat a call.
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

/// Returns whether calls are counted.
#[inline]
pub fn is_recording() -> bool {
    HOT.mode.load(Ordering::Relaxed) == Mode::Recording as u8
}

/// Returns whether communicators and requests are kept track of.
#[inline]
pub fn is_tracking() -> bool {
    HOT.mode.load(Ordering::Relaxed) != Mode::Bystander as u8
}

/// Returns whether this is a forked child of the process that started the profiler.
pub fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// In a forked child: it passes all calls through.
pub fn note_fork() {
    IS_FORKED.store(true, Ordering::Relaxed);
    set_mode(Mode::Bystander);
}

static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Changes the mode.
pub fn set_mode(mode: Mode) {
    HOT.mode.store(mode as u8, Ordering::Relaxed);
    HOT.set_counted(mode == Mode::Recording);
}

/// Ends recording for good; true for the one caller that ended it.
pub fn end() -> bool {
    HOT.set_counted(false);
    HOT.mode.swap(Mode::Bystander as u8, Ordering::AcqRel) != Mode::Bystander as u8
}

/// True if nothing is tracked, so that the shims need not read the arguments of calls.
#[allow(dead_code)] // An MPI may come without Fortran.
#[inline]
pub fn is_idle() -> bool {
    !is_tracking()
}

/// True if there is an `MPI_COMM_WORLD`: a process may have sessions alone, or begin with them.
static HAS_WORLD: AtomicBool = AtomicBool::new(false);

/// Records that there is an `MPI_COMM_WORLD`; true the first time.
pub fn world_began() -> bool {
    !HAS_WORLD.swap(true, Ordering::Relaxed)
}

/// Returns whether there is an `MPI_COMM_WORLD`.
pub fn has_world() -> bool {
    HAS_WORLD.load(Ordering::Relaxed)
}

/// True if other processes spawned this world.
static SPAWNED: AtomicBool = AtomicBool::new(false);

/// Records that other processes spawned this world.
pub fn note_spawned() {
    SPAWNED.store(true, Ordering::Relaxed);
}

/// Returns whether other processes spawned this world.
pub fn was_spawned() -> bool {
    SPAWNED.load(Ordering::Relaxed)
}

/// True if the profiler began in a process without MPI.
static IS_WITHOUT_MPI: AtomicBool = AtomicBool::new(false);

/// Records that the process uses no MPI. One that is initialised later ends the profile.
pub fn note_without_mpi() {
    IS_WITHOUT_MPI.store(true, Ordering::Relaxed);
}

/// Returns whether the profiler began in a process without MPI.
pub fn is_without_mpi() -> bool {
    IS_WITHOUT_MPI.load(Ordering::Relaxed)
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

/// The number of sessions that are open.
pub fn open_sessions() -> u32 {
    SESSIONS.load(Ordering::Relaxed)
}

/// Calls of the program that no wrapper records, in callbacks and in threads that end: what they
/// complete is not known.
static UNTRACKED_CALLS: AtomicU64 = AtomicU64::new(0);

/// Notes such a call.
pub fn note_untracked_call() {
    UNTRACKED_CALLS.fetch_add(1, Ordering::Relaxed);
}

/// The number of such calls.
pub fn untracked_calls() -> u64 {
    UNTRACKED_CALLS.load(Ordering::Relaxed)
}
