//! Random communication, of which each rank keeps books: the profile has the same, also when a rank
//! is killed. The binary `soak` does this for as long as is wished.

use mpisee_tests::soak::Soak;
use mpisee_tests::{Mpi, case};

#[track_caller]
fn balances(mpi: &Mpi, soak: Soak) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let balance = soak.run(mpi, folder.path()).unwrap_or_else(|why| panic!("{soak:?}: {why}"));
    assert!(balance.calls > 0 && balance.recorded >= balance.calls, "{balance:?}");
}

#[case]
fn the_books_of_a_run_balance(mpi: &Mpi) {
    balances(mpi, Soak { seed: 1, milliseconds: 2000, kill: None });
}

#[case]
fn every_call_that_was_completed_before_a_rank_is_killed_is_recovered(mpi: &Mpi) {
    balances(mpi, Soak { seed: 2, milliseconds: 0, kill: Some((5, 1200)) });
}
