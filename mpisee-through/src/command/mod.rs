//! The commands: each reads a profile, answers one question and writes the answer.

pub mod check;
pub mod comms;
pub mod recover;
pub mod summary;

/// How a command ended, when it could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is written.
    Done,
    /// The answer is written, and it says that the profile does not agree with itself.
    Differs,
}
