//! The harness itself.
use mpisee_tests::{Run, on_each_mpi};

#[test]
fn a_program_without_communication_has_a_profile() {
    on_each_mpi(|mpi| {
        let finished = Run::new(mpi, "nothing").ranks(2).profiled();
        assert_eq!(finished.tables().names(), ["W", "S"]);
        assert_eq!(finished.tables().ranks.len(), 2);
        finished.check();
    });
}
