//! The state of the process: what starts with `MPI_Init` and ends with `MPI_Finalize`.

use crate::generated::pmpi;
use crate::mpi::abi::{self, Comm, Group, Predefined};
use crate::naming::RowSharing;
use crate::state::communicator::Communicators;
use crate::state::region::Regions;
use crate::state::request::Requests;
use crate::storage::segment::Segment;
use mpisee_profile::options::Options;
use mpisee_profile::segment::NotSeen;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What the shims do.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Hand calls on and nothing else: before init, after finalize, in a forked child, under another MPI.
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

/// What is set once, when MPI is initialised.
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
    pub row_sharing: RowSharing,
}

// SAFETY: handles of MPI are names of the library's objects, never dereferenced here.
unsafe impl Send for Process {}
// SAFETY: as above; everything else in it is `Sync`.
unsafe impl Sync for Process {}

static PROCESS: OnceLock<Process> = OnceLock::new();
/// The communicators that are alive.
pub static COMMUNICATORS: Communicators = Communicators::new();
/// The requests that are open.
pub static REQUESTS: Requests = Requests::new();

/// The state, once there is one.
#[inline]
pub fn process() -> Option<&'static Process> {
    PROCESS.get()
}

/// Counts a call that is in no table.
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

/// The rank in a communicator.
pub fn rank(comm: Comm) -> u32 {
    let mut rank = 0;
    // SAFETY: the communicator is valid, `rank` is written by the call.
    unsafe { pmpi::MPI_Comm_rank.get()(abi::Raw::new(comm), &raw mut rank) };
    rank as u32
}

/// The size of a communicator, or of the local group of an intercommunicator.
pub fn size(comm: Comm) -> u32 {
    let mut size = 0;
    // SAFETY: the communicator is valid, `size` is written by the call.
    unsafe { pmpi::MPI_Comm_size.get()(abi::Raw::new(comm), &raw mut size) };
    size as u32
}
