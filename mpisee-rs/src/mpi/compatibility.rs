//! Compatibility of the flavour with the running MPI.
//!
//! All versions of an MPI within one family have the same handles and constants, so a flavour that
//! was built for one records under another. Their functions differ: calls of functions that the
//! flavour does not export are not counted, and functions that it exports but the MPI lacks look
//! available to the program.

use crate::generated::interposed::INTERPOSED;
use crate::mpi::symbol;
use std::ffi::CStr;

/// The flavour that this library was built as.
pub const FLAVOUR: &str = env!("MPISEE_FLAVOUR");

/// The version text of the MPI that the flavour was made for.
const MADE_FOR: &str = env!("MPISEE_FLAVOUR_LIBRARY");

/// Sentences about functions that only one of the two has: the MPI that runs, which calls itself
/// `version`, and the one that the flavour was made for.
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

/// Returns whether a rank of this MPI, which calls itself `text` in full, may hang in
/// `MPI_Finalize` once another rank has got an answer there from one that was still outside: MPICH
/// before 4.2 over UCX.
///
/// Each rank there waits until its peers confirm that they have received everything, which over TCP
/// only a peer that is inside of MPI does. With all confirmations a rank goes into a barrier in
/// which it answers nobody any more.
pub fn hangs_if_left_early(text: &str) -> bool {
    let of_line = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name));
        rest.map_or("", |rest| rest.trim_start_matches(':').trim())
    };
    let mut version = of_line("MPICH Version").split('.').map_while(|number| number.parse::<u32>().ok());
    let number = version.next().zip(version.next());
    number.is_some_and(|number| number < (4, 2)) && of_line("MPICH Device").starts_with("ch4:ucx")
}

/// The number of processes that a launcher has started, by its variables, with the launcher's name.
const LAUNCHERS: [(&str, &str, &str); 2] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "MPICH's mpiexec or one like it"),
];

/// A sentence for a world of one process where a launcher has started several, as happens with
/// another MPI's launcher; and whether this process is the first of them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mpich_before_4_2_over_ucx_hangs_if_left_early() {
        let mpich = |version: &str, device: &str| {
            let text =
                format!("MPICH Version:\t{version}\nMPICH Release date:\tnever\nMPICH Device:\t{device}\n");
            hangs_if_left_early(&text)
        };
        assert!(mpich("4.0.2", "ch4:ucx") && mpich("4.1", "ch4:ucx") && mpich("3.4.3", "ch4:ucx"));
        assert!(!mpich("4.2.0", "ch4:ucx") && !mpich("4.3.0rc1", "ch4:ucx") && !mpich("10.0", "ch4:ucx"));
        assert!(!mpich("4.0.2", "ch4:ofi") && !mpich("4.0.2", "ch3:nemesis"));
        assert!(!hangs_if_left_early("Open MPI v4.1.4, package: ch4:ucx") && !hangs_if_left_early(""));
    }
}
