//! User-level failure mitigation: the processes that outlive another are profiled, and say who is missing.

use mpisee_tests::{Finished, Mpi, Run, on_each_mpi};

/// Open MPI from 5.0 on. MPICH has the functions, and ends every program that calls `MPIX_Comm_shrink`.
fn on_each_mpi_that_outlives(test: impl Fn(&Mpi)) {
    on_each_mpi(|mpi| {
        if mpi.is_open_mpi && mpi.counted_functions().contains("MPIX_Comm_shrink") {
            test(mpi);
        }
    });
}

/// Four ranks, of which `victim` dies.
fn without(mpi: &Mpi, victim: u32) -> Finished {
    // The dead leave their segments.
    let segments = tempfile::tempdir().expect("a temporary folder");
    let folder = segments.path().display().to_string();
    let run = Run::new(mpi, "outlives").launched_with(&["--with-ft", "ulfm"]).argument(victim);
    let finished = run.options(&["--segments", &folder]).profiled();
    let left = std::fs::read_dir(segments.path()).expect("the folder is there").count();
    assert_eq!(left, usize::from(victim < 4), "segments that are left");
    assert_eq!(finished.stdout, "well\n".repeat(4 - left), "{}", finished.stderr);
    finished
}

fn assert_counted(finished: &Finished, survivors: &[u32]) {
    let tables = finished.check().tables();
    assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), survivors);
    assert_eq!(tables.comm("W").members.to_string(), "0-3");
    for name in ["W_k1", "W_k2"] {
        let row = tables.comm(name);
        assert_eq!((row.created_by.as_str(), row.parent.as_str()), ("MPIX_Comm_shrink", "W"));
        assert_eq!(row.size as usize, survivors.len());
        assert_eq!(row.members.group.iter().collect::<Vec<_>>(), survivors);
    }
    let revoked = u64::from(survivors.len() < 4);
    for &rank in survivors {
        let calls = |comm: &str, call: &str| tables.of_rank(comm, call, rank).calls;
        assert_eq!(calls("W", "MPIX_Comm_shrink"), 2);
        assert_eq!(calls("W", "MPIX_Comm_revoke"), revoked);
        assert_eq!(calls("W", "MPIX_Comm_failure_ack"), 1);
        assert_eq!(calls("W", "MPIX_Comm_failure_get_acked"), 1);
        assert_eq!(calls("W", "MPI_Comm_dup"), 1);
        assert_eq!(calls("W_k1", "MPIX_Comm_agree"), 1);
        assert_eq!(calls("W_k1", "MPIX_Comm_iagree"), 1);
        assert_eq!(calls("W_k1", "MPI_Wait"), 1);
        assert_eq!(tables.of_rank("W_k1", "MPI_Allreduce", rank).bytes, 4);
        assert_eq!(calls("W_k2", "MPI_Barrier"), 1);
    }
    let copies: Vec<_> = tables.comms.iter().filter(|row| row.parent == "W_k1").collect();
    assert_eq!(copies.len(), 1, "{:?}", tables.names());
    assert_eq!(tables.sum(&copies[0].comm, "MPI_Barrier").calls, survivors.len() as u64);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
}

#[test]
fn who_outlives_another_has_a_profile_that_says_who_is_missing() {
    on_each_mpi_that_outlives(|mpi| {
        // The first rank is the one that writes the profile, if it is there.
        for (victim, survivors) in [(2, [0, 1, 3]), (0, [1, 2, 3])] {
            let finished = without(mpi, victim);
            assert_counted(&finished, &survivors);
            let run = &finished.tables().run;
            assert_eq!((run.ranks, run.complete), (4, false));
            let because = format!("rank {victim} ended before MPI_Finalize");
            assert_eq!(run.incomplete_because.as_deref(), Some(because.as_str()));
        }
    });
}

#[test]
fn where_nobody_dies_the_profile_is_complete() {
    on_each_mpi_that_outlives(|mpi| {
        let finished = without(mpi, 9);
        assert_counted(&finished, &[0, 1, 2, 3]);
        assert!(finished.tables().run.complete);
    });
}
