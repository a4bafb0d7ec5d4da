//! Code that is loaded where other code was: its calls have sites of their own.

use super::all;
use mpisee_profile::rows::{CallRow, SiteRow};
use mpisee_tests::{Finished, Mpi, Run, case};
use std::collections::BTreeMap;

/// As in the program.
const CALLS: u64 = 10;
const ROUNDS: u64 = 30;
/// Calls until one waits, on a machine with other work.
const FEW: u64 = 3;

/// Runs the program with two libraries, and `most` sites.
fn swapped(mpi: &Mpi, what: &str, most: &str) -> Finished {
    // Without the MPI: in a namespace of its own it would be another one.
    let shared = ["-O2", "-shared", "-fPIC", "-Wl,--as-needed"];
    let first = mpi.compile_variant("sites/swapped_library", "first", &shared);
    let second =
        mpi.compile_variant("sites/swapped_library", "second", &[&shared[..], &["-DSECOND"]].concat());
    let program = mpi.compile_variant("sites/swapped", "swapping", &["-O2", "-ldl"]);
    let run = Run::from_program(mpi, program).ranks(2).argument(what).variable("MPISEE_SITES", most);
    let finished = run.argument(first.display()).argument(second.display()).profiled();
    finished.check();
    finished
}

/// The calls of rank 0 by operation and by the library, `first` or `second`, or `none`, whose site
/// they are at.
fn counted(finished: &Finished, operation: &str) -> BTreeMap<&'static str, u64> {
    let directory = finished.directory();
    let modules: BTreeMap<_, _> =
        all::<SiteRow>(&directory).into_iter().map(|row| (row.site, row.module)).collect();
    let mut calls = BTreeMap::new();
    for row in all::<CallRow>(&directory).iter().filter(|row| row.rank == 0 && row.call == operation) {
        let module = row.site.map_or("", |site| modules[&site].as_str());
        let library = ["first", "second"].into_iter().find(|name| module.ends_with(name)).unwrap_or("none");
        *calls.entry(library).or_default() += row.calls;
    }
    calls
}

/// Returns whether all code was at one address.
fn is_replaced(finished: &Finished) -> bool {
    match finished.stdout.trim() {
        "replaced" => true,
        "elsewhere" => false,
        other => panic!("'{other}'"),
    }
}

/// Runs the program until its counts are right, five times at most. New code is noticed in a call
/// that waits, and whose path is taken: on a busy machine that may be a later one.
fn assert_once(mpi: &Mpi, what: &str, most: &str, is_right: impl Fn(&Finished) -> bool) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let finished = swapped(mpi, what, most);
        if is_right(&finished) {
            return;
        }
        seen.push(counted(&finished, "MPI_Allreduce"));
    }
    panic!("{seen:?}");
}

#[case]
fn all_operations_of_one_call_are_at_the_new_library(mpi: &Mpi) {
    assert_once(mpi, "operations", "4096", |finished| {
        // The call in which it is noticed is at the first one's site.
        let late = if is_replaced(finished) { FEW } else { 0 };
        let first = counted(finished, "MPI_Allreduce")["first"];
        let of_second_operation = counted(finished, "MPI_Reduce_scatter_block");
        (CALLS..=CALLS + late).contains(&first)
            && of_second_operation == BTreeMap::from([("first", CALLS), ("second", CALLS)])
    });
}

#[case]
fn libraries_in_turns_have_one_site_each(mpi: &Mpi) {
    let half = ROUNDS / 2 * CALLS;
    // Enough for the program's own, and not for one more in each round.
    assert_once(mpi, "rounds", "16", |finished| {
        let calls = counted(finished, "MPI_Allreduce");
        assert_eq!(calls.values().sum::<u64>(), ROUNDS * CALLS, "{calls:?}");
        assert!(!calls.contains_key("none"), "{calls:?}");
        let sites = all::<SiteRow>(&finished.directory());
        assert!(sites.iter().filter(|row| row.module.ends_with("first")).count() <= 1, "{sites:?}");
        // In each round the call in which it is noticed is at the other one's site.
        let late = if is_replaced(finished) { ROUNDS / 2 } else { 0 };
        calls.values().all(|calls| calls.abs_diff(half) <= late)
    });
}

#[case]
fn a_library_in_a_namespace_of_its_own_has_sites(mpi: &Mpi) {
    let finished = swapped(mpi, "namespace", "4096");
    let library = match finished.stdout.trim() {
        "found" => "first",
        "not found" => "none",
        other => panic!("'{other}'"),
    };
    assert_eq!(counted(&finished, "MPI_Allreduce"), BTreeMap::from([(library, CALLS)]));
}

#[case]
fn made_code_in_place_of_a_library_is_at_no_site(mpi: &Mpi) {
    assert_once(mpi, "made", "4096", |finished| {
        let calls = counted(finished, "MPI_Allreduce");
        let sum: u64 = calls.values().sum();
        if is_replaced(finished) {
            // The calls in which it is noticed are at the site of the code before.
            assert_eq!(sum, 3 * CALLS, "{calls:?}");
            calls.get("none").is_some_and(|calls| calls.abs_diff(CALLS) <= FEW)
        } else {
            assert!(sum >= 2 * CALLS, "{calls:?}");
            calls["first"] >= 2 * CALLS
        }
    });
}
