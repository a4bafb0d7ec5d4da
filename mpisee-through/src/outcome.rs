//! How a command ended.

/// How a command ended, when it could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is written.
    Done,
    /// The answer is written, and it says that the profile does not agree with itself, with another or with what is
    /// expected of it.
    Differs,
}
