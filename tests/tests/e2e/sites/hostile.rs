//! Programs that are hostile to finding places and paths.

use super::all;
use super::resolved::{at, paths};
use mpisee_profile::rows::{CallRow, PathRow, StackRow};
use mpisee_tests::{Mpi, Run, case};

#[case]
fn an_endless_expression_in_an_unwind_table_ends_the_walk_before_it(mpi: &Mpi) {
    let finished = Run::new(mpi, "sites/endless_table").ranks(2).profiled();
    // Whether the one after the call that was left is counted depends on what that has left on the
    // stack.
    let barriers = finished.tables().of_rank("W", "MPI_Barrier", 1).calls;
    assert!((20..=21).contains(&barriers), "{barriers}");
    let paths = all::<PathRow>(&finished.directory());
    let stacks = all::<StackRow>(&finished.directory());
    let barrier = paths.iter().find(|row| row.call == "MPI_Barrier" && row.rank == 1);
    let path = barrier.unwrap_or_else(|| panic!("{paths:?}")).path;
    let stack = stacks.iter().find(|row| row.path == path).expect("a path has a stack");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(stack.sites.split(' ').count(), 2, "the caller, and the function by hand: {stack:?}");
    }
    finished.check();
}

#[case]
fn code_without_a_file_is_counted_without_a_place(mpi: &Mpi) {
    let finished = Run::new(mpi, "sites/made_code").ranks(1).profiled();
    let probes = finished.tables().sum("S", "MPI_Iprobe");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(probes.calls, 200_000);
    }
    let rows = all::<CallRow>(&finished.directory());
    let with_site: u64 =
        rows.iter().filter(|row| row.call == "MPI_Iprobe" && row.site.is_some()).map(|row| row.calls).sum();
    assert_eq!(with_site, 0);
    finished.check();
}

#[case]
fn paths_lead_through_functions_that_align_their_stacks_for_vectors(mpi: &Mpi) {
    for (level, how) in [("-O1", "plain"), ("-O2", "left"), ("-O2", "ended")] {
        if how == "ended"
            && mpi.is_left_out(&["mpich"], "its UCX does not start once the first thread has ended")
        {
            continue;
        }
        let options = [level, "-g", "-lpthread"];
        let program = mpi.compile_variant("sites/realigned", level.trim_start_matches('-'), &options);
        let finished = Run::from_program(mpi, program).ranks(2).argument(how).profiled();
        let tables = finished.tables();
        assert_eq!([0, 1].map(|rank| tables.of_rank("W", "MPI_Barrier", rank).calls), [40, 40], "{how}");
        let text = |function: &str, file: &str| at(function, file, &format!("{function} calls */"));
        let file = "realigned.c";
        let inner = ["leaf", "kernel", "advance", "all"].map(|function| text(function, file)).join(" < ");
        let found = paths(&finished, "barrier");
        assert!(!found.is_empty(), "{how}");
        assert!(found.iter().all(|path| path.starts_with(&inner)), "{level} {how}: {found:?}");
        finished.check();
    }
}
