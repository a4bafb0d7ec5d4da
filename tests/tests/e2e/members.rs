//! Cost of finding out the members of a communicator.

use mpisee_tests::{Mpi, Run, case};

#[case]
fn comparisons_for_a_communicator_grow_like_its_members(mpi: &Mpi) {
    const RANKS: u64 = 128;
    // MPICH finds each rank at once.
    if !mpi.is_open_mpi {
        return;
    }
    let counter = mpi.compile_with("hostile/slow_translate", &["-shared", "-fPIC"]);
    let run = Run::new(mpi, "hostile/many_members").ranks(RANKS as u32).argument("dup").argument("cart");
    let finished = run.variable("LD_PRELOAD", &counter.display().to_string()).profiled();
    for kind in ["dup", "cart"] {
        let line = finished.stdout.lines().find(|line| line.starts_with(kind)).expect("a line for each kind");
        let compared = line.split_whitespace().rev().nth(1).expect("it ends in N comparisons");
        let compared: u64 = compared.parse().expect("a number");
        // A duplicate has its parent's members. One after the other it would be half the square:
        // 8256.
        let expected = if kind == "dup" { 0..1 } else { 1..48 * RANKS };
        assert!(expected.contains(&compared), "{line}");
    }
    let everybody = format!("0-{}", RANKS - 1);
    assert_eq!(finished.tables().comm("W_d1").members.to_string(), everybody);
    finished.check();
}
