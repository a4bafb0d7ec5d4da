//! The outcome of a command, from which the exit code follows.

/// How a command ended, when it could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is written.
    Done,
    /// The answer is written, and it says that the profile does not agree with itself, with another
    /// or with what is expected of it.
    Differs,
}
