//! What a segment tells of the program, for those who find it when the process is gone.

use super::log::Record;

/// What is true of the program, for those who find the segment when the process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fact {
    /// A word of the command line.
    Argument = 1,
    /// The name of the profile that was to be written.
    Profile = 2,
    /// What `MPI_Get_library_version` says.
    Library = 3,
    /// The flavour of libmpisee.so.
    Flavour = 4,
    /// As in `run.json`.
    ThreadLevel = 5,
    /// A sentence for `run.json`.
    Note = 6,
    /// Above how many ranks the profile has sums over ranks.
    Fold = 7,
    /// The job of a batch system, as in `run.json`.
    Job = 8,
    /// Where the profile was to be and the working directory, from the root on, with a zero between them.
    Wanted = 9,
}

impl Fact {
    /// The record.
    pub fn record(self, text: impl Into<String>) -> Record {
        Record::Fact { which: self as u32, text: text.into() }
    }
}
