//! Compatibility of the flavour with the running MPI.
//!
//! All versions of an MPI within one family have the same handles and constants, so a flavour that was built for one
//! records under another. Their functions differ: calls of functions that the flavour does not export are not counted,
//! and functions that it exports but the MPI lacks look available to the program.

use crate::generated::interposed::INTERPOSED;
use crate::mpi::symbol;
use std::ffi::CStr;

/// The flavour that this library was built as.
pub const FLAVOUR: &str = env!("MPISEE_FLAVOUR");

/// What the MPI that the flavour was made for says of itself.
const MADE_FOR: &str = env!("MPISEE_FLAVOUR_LIBRARY");

/// Sentences about functions that only one of the two has: the MPI that runs, which calls itself `version`,
/// and the one that the flavour was made for.
pub fn notes(version: &str) -> Vec<String> {
    if version == MADE_FOR.trim() {
        return Vec::new();
    }
    let (mut not_counted, mut in_vain) = (Vec::new(), Vec::new());
    for &(twin, exported) in INTERPOSED {
        match (symbol::function(twin).is_some(), exported) {
            (true, false) => not_counted.push(name(twin)),
            (false, true) => in_vain.push(name(twin)),
            _ => {}
        }
    }
    let mut notes = Vec::new();
    if !not_counted.is_empty() {
        notes.push(format!(
            "the flavour {FLAVOUR} is for another version of this MPI; calls of functions that it does not know \
             are not counted: {}",
            not_counted.join(", ")
        ));
    }
    if !in_vain.is_empty() {
        notes.push(format!(
            "the flavour {FLAVOUR} is for another version of this MPI; it has functions which this MPI lacks: {}",
            in_vain.join(", ")
        ));
    }
    notes
}

/// `MPI_Send` of `PMPI_Send`.
fn name(twin: &'static CStr) -> &'static str {
    twin.to_str().unwrap_or_default().trim_start_matches('P')
}
