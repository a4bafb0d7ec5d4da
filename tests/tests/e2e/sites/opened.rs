//! Libraries that a program opens as it runs, by names that mean something for a while alone, and
//! with more than their own code.

use super::all;
use mpisee_profile::rows::{CallRow, SiteRow};
use mpisee_tests::{Finished, Mpi, Run, case};
use std::collections::BTreeMap;
use std::path::Path;

const RANKS: u32 = 2;
/// As in the program.
const CALLS: u64 = 10 * RANKS as u64;

fn run(mpi: &Mpi, how: &str, library: &Path) -> Finished {
    let program = mpi.compile_variant("sites/opened", "opening", &["-O2", "-ldl"]);
    let finished =
        Run::from_program(mpi, program).ranks(RANKS).argument(how).argument(library.display()).profiled();
    finished.check();
    finished
}

/// The calls of `MPI_Allgather` over all ranks, by the file in which they are.
fn gathered(finished: &Finished) -> BTreeMap<String, u64> {
    let directory = finished.directory();
    let modules: BTreeMap<_, _> =
        all::<SiteRow>(&directory).into_iter().map(|row| (row.site, row.module)).collect();
    let mut calls = BTreeMap::new();
    for row in all::<CallRow>(&directory).iter().filter(|row| row.call == "MPI_Allgather") {
        let module = row.site.map_or("none", |site| &modules[&site]);
        *calls.entry(module.to_owned()).or_default() += row.calls;
    }
    calls
}

#[case]
fn a_library_has_its_path_however_it_was_opened(mpi: &Mpi) {
    let library = mpi.compile_variant("sites/resolved_library", "opened", &["-O2", "-shared", "-fPIC"]);
    for how in ["path", "relative", "descriptor", "replaced"] {
        let calls = gathered(&run(mpi, how, &library));
        assert_eq!(calls, BTreeMap::from([(library.display().to_string(), CALLS)]), "{how}");
    }
    let calls = gathered(&run(mpi, "memory", &library));
    assert_eq!(calls, BTreeMap::from([("/memfd:plugin (deleted)".to_owned(), CALLS)]));
}

#[case]
fn bindings_of_fortran_that_come_late_are_looked_through(mpi: &Mpi) {
    let shared = ["-shared", "-fPIC"];
    let Some(library) = mpi.compile_fortran_with("sites/late_library", "MPIF_H", &shared) else { return };
    let mut calls = gathered(&run(mpi, "path", &library));
    let in_library = calls.remove(&library.display().to_string()).unwrap_or(0);
    let in_bindings: u64 = calls.values().sum();
    assert_eq!(in_library + in_bindings, CALLS, "{in_library} and {calls:?}");
    // The first call of a rank shows that they are there.
    assert!(calls.len() <= 1 && in_bindings <= u64::from(RANKS), "{calls:?}");
}
