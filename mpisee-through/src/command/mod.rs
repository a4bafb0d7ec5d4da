//! The commands: each reads a profile, answers one question and writes the answer.

pub mod advise;
pub mod check;
pub mod comms;
pub mod diff;
pub mod efficiency;
pub mod expect;
pub mod gpu;
pub mod gpu_records;
pub mod locality;
pub mod matrix;
pub mod ops;
pub mod ranks;
pub mod recover;
pub mod regions;
pub mod sizes;
mod skipped;
pub mod summary;
pub mod top;

/// How a command ended, when it could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is written.
    Done,
    /// The answer is written, and it says that the profile does not agree with itself, with another or with what is
    /// expected of it.
    Differs,
}
