//! Sessions: communicators without a world, under MPIs that have them.

use mpisee_tests::{Mpi, Run, Tables, case};

fn has_sessions(mpi: &Mpi) -> bool {
    mpi.counted_functions().contains("MPI_Session_init")
}

fn assert_counted(tables: &Tables) {
    let all = tables.labelled("everyone");
    assert!(all.starts_with("F1.0-"), "{all}");
    assert_eq!(tables.comm(all).created_by, "MPI_Comm_create_from_group");
    let copy = format!("{all}_d1");
    assert_eq!(tables.comm(&copy).parent, all);
    for rank in 0..4 {
        let both = 2 * 1009 + u64::from(rank) + u64::from((rank + 3) % 4);
        assert_eq!(tables.of_rank(all, "MPI_Sendrecv", rank).bytes, both);
        assert_eq!(tables.of_rank(all, "MPI_Comm_create_from_group", rank).calls, 1);
        let half = tables.labelled(["even", "odd"][rank as usize % 2]);
        assert!(half.starts_with(&format!("F1.{}-", rank % 2)), "{half}");
        assert_eq!(tables.of_rank(half, "MPI_Allreduce", rank).bytes, 4001);
        assert_eq!(tables.peer(all, rank, (rank + 1) % 4)[..2], [1, 1009 + u64::from(rank)]);
    }
    assert_eq!(tables.sum(&copy, "MPI_Bcast").bytes, 3 * 2003);
    let both = tables.labelled("both");
    assert!(both.starts_with("F1.0-"), "{both}");
    assert!(tables.comm(both).members.remote.is_some());
    assert_eq!(tables.sum(both, "MPI_Sendrecv").bytes, 4 * 2 * 8009);
    let named = |name: &&str| name.starts_with('F');
    assert_eq!(tables.names().into_iter().filter(named).count(), 5, "{:?}", tables.names());
    assert_eq!(tables.run.names_agree, Some(true));
    assert_eq!(tables.ranks.len(), 4);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
}

#[case(only = has_sessions)]
fn sessions_alone_have_a_profile_of_communicators_without_parents(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/sessions").profiled();
    assert_counted(finished.tables());
    assert!(finished.tables().calls.iter().all(|row| row.comm != "W" && row.comm != "S"));
    finished.check();
}

#[case(only = has_sessions)]
fn a_world_that_comes_after_the_first_session_is_in_the_same_profile(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/sessions").argument("world").profiled();
    assert_counted(finished.tables());
    assert_eq!(finished.tables().sum("W", "MPI_Scan").bytes, 3 * 77);
    finished.check();
}

#[case(only = has_sessions)]
fn without_a_communicator_of_all_there_is_a_profile_and_nobody_waits(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/sessions").argument("alone").ranks(3).profiled();
    let tables = finished.check().tables();
    assert_eq!((tables.run.complete, tables.run.names_agree), (true, Some(true)));
    assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), [0, 1, 2]);
    let mut names: Vec<&str> = tables.names().into_iter().filter(|name| name.starts_with('F')).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 3, "{names:?}");
    for (rank, comm) in (0..).zip(names) {
        assert!(comm.starts_with(&format!("F1.{rank}-")), "{comm}");
        assert_eq!(tables.comm(comm).members.to_string(), rank.to_string());
        assert_eq!(tables.of_rank(comm, "MPI_Bcast", rank).calls, 1);
    }
    assert_eq!(finished.stderr.matches("mpisee: profile of 3 ranks in ").count(), 1, "{}", finished.stderr);
}
