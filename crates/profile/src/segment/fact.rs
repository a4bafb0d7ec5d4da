//! Facts about the program in a segment, for readers after the process has ended.

use super::log::Record;

/// A fact about the program, for readers after the process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fact {
    /// A word of the command line.
    Argument = 1,
    /// The name of the profile that was to be written.
    Profile = 2,
    /// The text of `MPI_Get_library_version`.
    Library = 3,
    /// The flavour of libmpisee.so.
    Flavour = 4,
    /// As in `run.json`.
    ThreadLevel = 5,
    /// A sentence for `run.json`.
    Note = 6,
    /// The number of ranks above which the profile is aggregated.
    Fold = 7,
    /// The job of a batch system, as in `run.json`.
    Job = 8,
    /// The absolute paths of the wanted profile and of the working directory, with a zero between
    /// them.
    Wanted = 9,
    /// The CPUs that the process may use, `0-3,8`: when recording began, and again at the end of
    /// MPI if they differ then.
    Cpus = 10,
    /// A control variable of MPI's that is not at its default: name, value and what set it, with
    /// zeros between them.
    Control = 11,
    /// A request to switch recording that the process followed, see
    /// [`super::switch_request::FollowedRequest`].
    FollowedRequest = 12,
    /// A sentence for `run.json` on this rank, whichever it is.
    NoteOfRank = 13,
    /// A fact about GPUs, see [`super::device_fact::DeviceFact`].
    Device = 14,
}

impl Fact {
    /// The record.
    pub fn record(self, text: impl Into<String>) -> Record {
        Record::Fact { which: self as u32, text: text.into() }
    }
}
