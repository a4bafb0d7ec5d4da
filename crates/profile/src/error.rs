//! Errors of profiles, each one sentence: what was found, where, and what to do.

use std::fmt;
use std::path::PathBuf;

/// Why a profile, or a part of it, cannot be read or written.
#[derive(Debug)]
pub enum ProfileError {
    /// The path is no profile directory.
    NotAProfile {
        /// The path as given.
        path: PathBuf,
        /// The part that is missing or wrong.
        why: String,
    },
    /// The directory has tables, but no `run.json`, which is written last.
    Unfinished {
        /// The path as given.
        path: PathBuf,
    },
    /// The directory was written by a newer mpisee.
    NewerFormat {
        /// The profile directory.
        path: PathBuf,
        /// The version found in `run.json`.
        found: u32,
    },
    /// A file could not be opened, read, created or written.
    File {
        /// The file.
        path: PathBuf,
        /// The attempt: "read", "create", …
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A table lacks a column.
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column as the format names it.
        column: &'static str,
        /// The header row as found.
        header: String,
    },
    /// A row, or `run.json`, does not hold what it should.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1.
        line: u64,
        /// The fault in it.
        why: String,
    },
    /// A message from another rank cannot be read.
    Message {
        /// The fault in it.
        why: String,
    },
    /// The bytes of a segment are not what the layout says.
    Segment {
        /// The fault in it.
        why: String,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAProfile { path, why } => write!(
                out,
                "'{}' is not a profile directory: {why}; give the NAME.mpisee directory that the run left",
                path.display()
            ),
            Self::Unfinished { path } => write!(
                out,
                "'{}' is not finished: run.json, which is written last, is not there; if the counts of the run are left, \
                 mpisee-through recover writes the profile",
                path.display()
            ),
            Self::NewerFormat { path, found } => write!(
                out,
                "'{}' has format version {found}, this program reads up to {}; use the mpisee-through that \
                 came with the mpisee that wrote it",
                path.display(),
                crate::FORMAT_VERSION
            ),
            Self::File { path, action, source } => {
                write!(out, "cannot {action} '{}': {source}", path.display())
            }
            Self::MissingColumn { path, column, header } => write!(
                out,
                "'{}' has no column '{column}' (its header row is '{header}'); the file was changed or is of \
                 another program",
                path.display()
            ),
            Self::Malformed { path, line, why } => write!(out, "'{}', line {line}: {why}", path.display()),
            Self::Message { why } => write!(out, "a message from another rank did not arrive whole: {why}"),
            Self::Segment { why } => write!(out, "not a readable segment: {why}"),
        }
    }
}

impl std::error::Error for ProfileError {}
