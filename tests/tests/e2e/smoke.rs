//! The harness itself.
use mpisee_tests::{Mpi, Run, case};

#[case]
fn a_program_without_communication_has_a_profile(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/nothing").ranks(2).profiled();
    assert_eq!(finished.tables().names(), ["W", "S"]);
    assert_eq!(finished.tables().ranks.len(), 2);
    finished.check();
}

/// Each rank's part is at least what its calls cost, and the parts make the whole.
#[case]
fn the_profiler_states_its_own_overhead(mpi: &Mpi) {
    let finished = Run::new(mpi, "collectives/collectives").ranks(2).profiled();
    let tables = finished.tables();
    let stated = &tables.run.profiler;
    assert!(stated.call_ns > 0.0, "{stated:?}");
    for row in &tables.ranks {
        let calls: u64 =
            tables.calls.iter().filter(|call| call.rank == row.rank).map(|call| call.calls).sum();
        // The cost per call is rank 0's; the other's clock ticks alike, its cache need not.
        let least = if row.rank == 0 { calls as f64 * stated.call_ns * 1e-9 } else { 0.0 };
        assert!(row.profiler_s.0 > 0.999 * least, "{stated:?} {row:?}");
        assert!(row.profiler_s.0 > 0.0 && row.profiler_s.0 < row.wall_s.0, "{row:?}");
    }
    let sum: f64 = tables.ranks.iter().map(|row| row.profiler_s.0).sum();
    let wall: f64 = tables.ranks.iter().map(|row| row.wall_s.0).sum();
    assert!((sum - stated.time_s).abs() < 1e-8, "{sum} {stated:?}");
    assert!((sum / wall - stated.share_of_wall).abs() < 1e-4, "{wall} {stated:?}");
}
