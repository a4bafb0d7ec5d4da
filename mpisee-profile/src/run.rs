//! `run.json`: what is true of the run as a whole.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The MPI library that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MpiInfo {
    /// What `MPI_Get_library_version` says, its first line.
    pub library: String,
    /// The flavour of libmpisee.so that recorded.
    pub flavour: String,
    /// What `MPI_Init_thread` provided: single, funneled, serialized or multiple.
    pub thread_level: String,
}

/// `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// [`crate::FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The version of mpisee that wrote the profile.
    pub mpisee_version: String,
    /// The MPI library.
    pub mpi: MpiInfo,
    /// The command line of rank 0.
    pub command: Vec<String>,
    /// When rank 0 left `MPI_Init`, UTC, RFC 3339.
    pub start: String,
    /// When rank 0 entered `MPI_Finalize`, UTC, RFC 3339.
    pub end: String,
    /// Processes in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// Nodes that they ran on.
    pub nodes: u32,
    /// Whether every rank's counters are in the profile.
    pub complete: bool,
    /// Why not, if not.
    pub incomplete_because: Option<String>,
    /// What measured time: `tsc` or `monotonic`.
    pub clock: String,
    /// Whether some rank switched recording off for a part of the run.
    pub recording_was_off: bool,
    /// Calls that are in no table, by reason, summed over ranks; see [`crate::segment::NotSeen`].
    pub not_seen: BTreeMap<String, u64>,
    /// Sentences about what was out of the ordinary in recording.
    #[serde(default)]
    pub notes: Vec<String>,
}
