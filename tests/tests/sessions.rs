//! Sessions: communicators without a world, under MPIs that have them.

use mpisee_tests::{Mpi, Run, Tables, on_each_mpi};

fn on_each_mpi_with_sessions(test: impl Fn(&Mpi)) {
    on_each_mpi(|mpi| {
        if mpi.counted_functions().contains("MPI_Session_init") {
            test(mpi);
        }
    });
}

fn assert_counted(tables: &Tables) {
    assert_eq!(tables.comm("F1.0").label, "everyone");
    assert_eq!(tables.comm("F1.0").created_by, "MPI_Comm_create_from_group");
    assert_eq!(tables.comm("F1.0_d2").parent, "F1.0");
    for rank in 0..4 {
        let both = 2 * 1009 + u64::from(rank) + u64::from((rank + 3) % 4);
        assert_eq!(tables.of_rank("F1.0", "MPI_Sendrecv", rank).bytes, both);
        assert_eq!(tables.of_rank("F1.0", "MPI_Comm_create_from_group", rank).calls, 1);
        let half = format!("F3.{}", rank % 2);
        assert_eq!(tables.of_rank(&half, "MPI_Allreduce", rank).bytes, 4001);
        assert_eq!(tables.peer("F1.0", rank, (rank + 1) % 4)[..2], [1, 1009 + u64::from(rank)]);
    }
    assert_eq!(tables.sum("F1.0_d2", "MPI_Bcast").bytes, 3 * 2003);
    assert!(tables.comm("F4.0").members.remote.is_some());
    assert_eq!(tables.sum("F4.0", "MPI_Sendrecv").bytes, 4 * 2 * 8009);
    assert_eq!(tables.ranks.len(), 4);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
}

#[test]
fn sessions_alone_have_a_profile_of_communicators_without_parents() {
    on_each_mpi_with_sessions(|mpi| {
        let finished = Run::new(mpi, "sessions").profiled();
        assert_counted(finished.tables());
        assert!(finished.tables().calls.iter().all(|row| row.comm != "W" && row.comm != "S"));
        finished.check();
    });
}

#[test]
fn a_world_that_comes_after_the_first_session_is_in_the_same_profile() {
    on_each_mpi_with_sessions(|mpi| {
        let finished = Run::new(mpi, "sessions").argument("world").profiled();
        assert_counted(finished.tables());
        assert_eq!(finished.tables().sum("W", "MPI_Scan").bytes, 3 * 77);
        finished.check();
    });
}

#[test]
fn without_a_communicator_of_all_there_is_no_profile_and_nobody_waits() {
    on_each_mpi_with_sessions(|mpi| {
        let finished = Run::new(mpi, "sessions").argument("alone").ranks(3).preloaded_in_vain(mpi);
        let said = "no profile: the program has sessions and no communicator of all its processes";
        assert_eq!(finished.stderr.matches(said).count(), 1, "{}", finished.stderr);
        assert!(!finished.directory().exists());
    });
}
