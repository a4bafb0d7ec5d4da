//! User-level failure mitigation: the processes that outlive another are profiled, and say who is
//! missing.

use crate::sums;
use mpisee_tests::{Finished, Mpi, Place, Run, Tables, case};

/// Open MPI from 5.0 on. MPICH has the functions, and ends every program that calls
/// `MPIX_Comm_shrink`.
fn outlives_ranks(mpi: &Mpi) -> bool {
    mpi.is_open_mpi && mpi.counted_functions().contains("MPIX_Comm_shrink")
}

/// Four ranks, of which `victim` dies.
fn without(mpi: &Mpi, victim: u32) -> Finished {
    let (run, left) = outlives(mpi, victim, |run| run.profiled());
    assert_eq!(left, usize::from(victim < 4), "segments that are left");
    run
}

/// The same, and how many segments are left.
fn outlives(mpi: &Mpi, victim: u32, start: impl FnOnce(Run) -> Finished) -> (Finished, usize) {
    // The dead leave their segments.
    let place = Place::new();
    let folder = place.segments().display().to_string();
    let run = Run::new(mpi, "lifecycle/outlives").launched_with(&["--with-ft", "ulfm"]).argument(victim);
    let finished = start(run.variable("MPISEE_SEGMENTS", &folder));
    let left = place.left().len();
    assert_eq!(finished.stdout, "well\n".repeat(4 - left), "{}", finished.stderr);
    (finished, left)
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

#[case(only = outlives_ranks)]
fn who_outlives_another_has_a_profile_that_says_who_is_missing(mpi: &Mpi) {
    // The first rank is the one that writes the profile, if it is there.
    for (victim, survivors) in [(2, [0, 1, 3]), (0, [1, 2, 3])] {
        let finished = without(mpi, victim);
        assert_counted(&finished, &survivors);
        let run = &finished.tables().run;
        assert_eq!((run.ranks, run.complete), (4, false));
        let because = format!("rank {victim} ended before the profile was written");
        assert_eq!(run.incomplete_because.as_deref(), Some(because.as_str()));
    }
}

#[case(only = outlives_ranks)]
fn sums_over_the_ranks_that_are_left_are_those_of_their_rows(mpi: &Mpi) {
    for victim in [0, 2] {
        let rows = without(mpi, victim);
        let aggregate = |run: Run| run.variable("MPISEE_FOLD", "1").preloaded_to("test.mpisee");
        let (sums, _) = outlives(mpi, victim, aggregate);
        sums::assert_sums_of(&rows.directory(), &sums.check().directory());
    }
}

#[case(only = outlives_ranks)]
fn where_nobody_dies_the_profile_is_complete(mpi: &Mpi) {
    let finished = without(mpi, 9);
    assert_counted(&finished, &[0, 1, 2, 3]);
    assert!(finished.tables().run.complete);
}

#[case(only = outlives_ranks)]
fn who_dies_while_the_profile_is_collected_is_left_out_of_it(mpi: &Mpi) {
    // The directory that the first rank began before it died stays, and is no profile.
    for (victim, survivors, name) in [(2, [0, 1, 3], "test.mpisee"), (0, [1, 2, 3], "test-2.mpisee")] {
        let place = Place::new();
        let folder = place.segments().display().to_string();
        let run = Run::new(mpi, "lifecycle/dies_in_finalize").launched_with(&["--with-ft", "ulfm"]);
        let run = run.argument(victim).argument("test.mpisee").variable("MPISEE_SEGMENTS", &folder);
        let finished = run.preloaded_to("test.mpisee");
        assert!(finished.stderr.contains(&format!("profile of 3 ranks in {name}")), "{}", finished.stderr);
        let tables = Tables::read(&finished.place.path(name), &finished.stderr);
        assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), survivors);
        let because = format!("rank {victim} ended before the profile was written");
        assert_eq!(tables.run.incomplete_because.as_deref(), Some(because.as_str()));
        for rank in survivors {
            assert_eq!(tables.of_rank("S", "MPI_Bcast", rank).calls, 2000 * 8, "{rank}");
            assert_eq!(tables.of_rank("W", "MPI_Barrier", rank).calls, 1, "{rank}");
        }
        // Counts of the dead ranks are still there.
        assert_eq!(place.left().len(), 1);
        assert_eq!(finished.place.path("test.mpisee/run.json").exists(), victim == 2);
    }
}
