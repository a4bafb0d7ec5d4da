//! The time that `MPI_Finalize` takes longer contains the writing of the tables.

use mpisee_collect::files::Files;
use mpisee_collect::nodes::Nodes;
use mpisee_profile::{FORMAT_VERSION, Profile, RunInfo};

/// `finalize_s` in the profile that was written of a run with this time until then, with rows of
/// each rank and with sums.
fn written(so_far_s: Option<f64>) -> [Option<f64>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let mut run = RunInfo { format_version: FORMAT_VERSION, ranks: 4, ..RunInfo::default() };
    run.profiler.finalize_s = so_far_s;
    [4, 3].map(|aggregate_above| {
        let wanted = folder.path().join(format!("above-{aggregate_above}.mpisee"));
        let files = Files::create(&wanted, 4, aggregate_above, Nodes::default).unwrap();
        Profile::open(files.finish(&run).unwrap()).unwrap().run().profiler.finalize_s
    })
}

#[test]
fn the_files_are_written_in_it() {
    assert!(written(Some(2.5)).iter().all(|took_s| took_s.is_some_and(|took_s| took_s > 2.5)));
}

#[test]
fn a_run_that_did_not_come_to_its_end_has_none() {
    assert_eq!(written(None), [None, None]);
}
