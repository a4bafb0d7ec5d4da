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

/// The version text of the MPI that the flavour was made for.
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
            "the flavour {FLAVOUR} is for another version of this MPI; calls of functions that it lacks \
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

/// The number of processes that a launcher has started, by its variables, with the launcher's name.
const LAUNCHERS: [(&str, &str, &str); 2] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "MPICH's mpiexec or one like it"),
];

/// A sentence for a world of one process where a launcher has started several, as happens with another MPI's launcher; and
/// whether this process is the first of them.
pub fn launched_apart(world_size: u32, version: &str) -> Option<(String, bool)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let (size, rank, launcher) = LAUNCHERS
        .iter()
        .find_map(|(size, rank, launcher)| Some((number(size)?, number(rank)?, launcher)))
        .filter(|&(size, ..)| world_size == 1 && size > 1)?;
    let library = version.split(',').next().unwrap_or_default();
    Some((
        format!(
            "{launcher} has started {size} processes, but each of them is an MPI_COMM_WORLD of its own and has a profile \
             of its own: the program runs {library}, whose own launcher it may need"
        ),
        rank == 0,
    ))
}
