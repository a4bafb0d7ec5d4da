//! The shared-memory segment in which one rank counts.
//!
//! ```text
//! Header │ chunk │ chunk │ chunk │ …            grows at the end, nothing ever moves
//!          ├ counters: slots of 64 bytes, written by one thread each; one of them says where the thread is now
//!          ├ log: what happened once (a communicator was created, named, freed; a region appeared)
//!          ├ order: in which order a thread counted, if the user asks for it
//!          └ samples: when the process entered and left some of its collective calls, and the calls of some of its messages
//! ```
//!
//! Every number is a 64-bit word in native byte order. A slot has a sequence number that is odd
//! while its owner writes, so a reader in another process sees whole slots at any moment
//! ([`snapshot`]), and a killed rank leaves what it had counted. The library reads its own segment
//! at `MPI_Finalize` through the same code.

pub mod active_call;
pub mod awaited;
pub mod counts;
pub mod cpu;
pub mod device_fact;
pub mod fact;
pub mod hash;
pub mod instances;
pub mod key;
pub mod layout;
pub mod log;
pub mod membership;
pub mod names;
pub mod order;
pub mod snapshot;
pub mod source;
pub mod streams;
pub mod switch_request;
#[cfg(feature = "testing")]
pub mod words;

pub use cpu::CpuReading;
pub use key::{
    CallKey, GpuTimeKey, InstancesKey, OneSidedKind, OperationAtSite, PathKey, PeerKey, SlotKey, TargetKey,
};
pub use snapshot::{Moment, Snapshot};
pub use source::Source;
use std::collections::BTreeMap;
pub use streams::Stream;

/// The file name of a process's segment; the number is random, so that the name is unpredictable.
pub fn file_name(user: u32, pid: u32, number: u64) -> String {
    format!("mpisee-{user}-{pid}-{number:x}.segment")
}

/// User and process, from a name that [`file_name`] makes.
pub fn owner_of(file_name: &str) -> Option<(u32, u32)> {
    let mut parts = file_name.strip_prefix("mpisee-")?.strip_suffix(".segment")?.split('-');
    let (user, pid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number(parts.next()?) && parts.next().is_none()).then_some((user, pid))
}

/// Why a call is in no table. Counted per rank, summed into `run.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum NotSeen {
    /// A call on a communicator that no recorded call created.
    UnknownCommunicator,
    /// A call on a window that no recorded call created.
    UnknownWindow,
    /// A call on a file that no recorded call opened.
    UnknownFile,
    /// The completion of a request that no recorded call started.
    UnknownRequest,
    /// A wait or test without an active request: it belongs to no communicator.
    CompletionOfNothing,
    /// A receive, or an access to a file, whose request was freed while it was active: what it
    /// received or transferred is unknown.
    FreedReceive,
    /// The receive of an `MPI_Isendrecv`, where the MPI library does not report what arrived (MPICH
    /// 4.0 leaves the status unchanged).
    UnreportedReceive,
    /// A call by a thread that was ending.
    EndingThread,
    /// A call for which no room was left in memory.
    NoRoom,
    /// A call whose recording failed inside the profiler.
    InternalError,
    /// A receive with less room than its message: MPI drops the message and reports the error.
    TruncatedReceive,
    /// A call made by a callback of the program, as an error handler or a copy function of an
    /// attribute, while the MPI call that called the callback goes on.
    CallInCallback,
    /// A call that never returned to the program: its error handler left it by longjmp or an
    /// exception.
    CallLeft,
    /// A rank that lost part of its counts at its end: its segment could not grow, and no file took
    /// the rest.
    LostCounts,
    /// A variable of MPI that was chosen, and that MPI does not read, or has no number for.
    UnreadVariable,
    /// An operation of NCCL on elements of a type whose size is unknown: it counts with 0 bytes.
    UnknownSize,
    /// A call of NCCL by a process that a rank forked.
    ForkedProcess,
}

impl NotSeen {
    /// Every reason, in the order of the header's counters.
    pub const ALL: [NotSeen; 17] = [
        NotSeen::UnknownCommunicator,
        NotSeen::UnknownWindow,
        NotSeen::UnknownFile,
        NotSeen::UnknownRequest,
        NotSeen::CompletionOfNothing,
        NotSeen::FreedReceive,
        NotSeen::UnreportedReceive,
        NotSeen::EndingThread,
        NotSeen::NoRoom,
        NotSeen::InternalError,
        NotSeen::TruncatedReceive,
        NotSeen::CallInCallback,
        NotSeen::CallLeft,
        NotSeen::LostCounts,
        NotSeen::UnreadVariable,
        NotSeen::UnknownSize,
        NotSeen::ForkedProcess,
    ];

    /// `counts`, in the order of the header's counters, by the keys of `run.json`; those that are
    /// not 0.
    pub fn named(counts: &[u64]) -> BTreeMap<String, u64> {
        let named = NotSeen::ALL.iter().map(|reason| reason.name().to_owned()).zip(counts.iter().copied());
        named.filter(|&(_, count)| count > 0).collect()
    }

    /// The key in `run.json`.
    pub fn name(self) -> &'static str {
        match self {
            NotSeen::UnknownCommunicator => "calls on communicators of unknown origin",
            NotSeen::UnknownWindow => "calls on windows of unknown origin",
            NotSeen::UnknownFile => "calls on files of unknown origin",
            NotSeen::UnknownRequest => "completions of requests of unknown origin",
            NotSeen::CompletionOfNothing => "waits and tests without an active request",
            NotSeen::FreedReceive => {
                "receives and file accesses whose request was freed before they completed"
            }
            NotSeen::UnreportedReceive => "receives of which the MPI library does not tell what came",
            NotSeen::EndingThread => "calls by ending threads",
            NotSeen::NoRoom => "calls for which no memory was left",
            NotSeen::InternalError => "calls whose recording failed",
            NotSeen::TruncatedReceive => "receives with less room than their message",
            NotSeen::CallInCallback => "calls inside callbacks of other calls",
            NotSeen::CallLeft => "calls that an error handler left without a return",
            NotSeen::LostCounts => "ranks that found no file for part of their counts",
            NotSeen::UnreadVariable => "chosen variables of MPI that have no number, or could not be read",
            NotSeen::UnknownSize => "operations of NCCL on elements of unknown size",
            NotSeen::ForkedProcess => "calls of NCCL by processes that a rank forked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_user_and_process() {
        assert_eq!(owner_of(&file_name(1000, 4711, 0x18a)), Some((1000, 4711)));
        for other in [
            "mpisee-1000-4711.segment",
            "mpisee-1000-4711-.segment",
            "mpisee-1000-4711-1-2.segment",
            "mpisee--1-4711-1.segment",
            "mpisee-99999999999-1-1.segment",
            "mpisee-1-1-xyz.segment",
            "mpisee-1-1-1.segment.old",
        ] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
