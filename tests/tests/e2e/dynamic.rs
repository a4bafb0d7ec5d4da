//! Processes of several worlds: spawned, connected, joined. Each world has a profile of its own,
//! and no world waits for another that has no profiler.

use crate::exact::{assert_all_seen, assert_calls, assert_calls_but, assert_peers};
use crate::sums;
use mpisee_profile::Profile;
use mpisee_profile::rows::OutsideRow;
use mpisee_tests::{Finished, Mpi, Run, Tables, case, dist, through};
use std::path::Path;

/// MPICH 5.0 opens ports where the address of a process is short enough; over these two transports
/// it is. UCX then warns, on stdout, of requests that MPICH leaves behind.
fn with_short_addresses<'m>(mpi: &Mpi, run: Run<'m>) -> Run<'m> {
    if mpi.is_open_mpi {
        return run;
    }
    run.variable("UCX_TLS", "tcp,self").variable("UCX_LOG_LEVEL", "error")
}

/// A program that brings worlds together. In one of some hundred runs Open MPI 4.1's launcher does
/// not answer a process that was spawned, with or without the profiler, and the program never ends.
fn worlds<'m>(mpi: &'m Mpi, name: &str) -> Run<'m> {
    Run::new(mpi, name).tries(3)
}

/// Returns whether this MPI can bring worlds together. MPICH over UCX cannot before 4.2, and
/// refuses.
fn has_worlds(mpi: &Mpi) -> bool {
    let said = with_short_addresses(mpi, Run::new(mpi, "dynamic/open_port").ranks(1)).plain().stdout;
    assert!(said == "yes\n" || said == "no\n" && !mpi.is_open_mpi, "{said}");
    said == "yes\n"
}

/// The launcher `mpisee`, as a command to spawn with the program after it.
fn profiler() -> String {
    dist().join("bin/mpisee").display().to_string()
}

/// A profile beside that of the test, which agrees with itself.
fn profile_in(finished: &Finished, name: &str) -> (Tables, Vec<OutsideRow>) {
    let directory = finished.place.path(name);
    let checked = through(&["check", &directory.display().to_string()]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}{}", String::from_utf8_lossy(&checked.stderr));
    (Tables::read(&directory, &finished.stderr), outside(&directory))
}

fn outside(directory: &Path) -> Vec<OutsideRow> {
    let profile = Profile::open(directory).expect("it was read before");
    let rows = profile.rows_if_any::<OutsideRow>().and_then(Iterator::collect);
    rows.expect("the rows are well formed")
}

/// The name without digests of members: `W_x1.0-_m1` for `W_x1.0-5e1c09tz_m1`.
fn without_digests(comm: &str) -> String {
    const DIGEST: usize = 8;
    let mut parts = comm.split('-');
    let first = parts.next().expect("there is one").to_owned();
    parts.fold(first, |name, part| format!("{name}-{}", &part[DIGEST..]))
}

/// Asserts that `outside.csv` has these rows: communicator without digests, rank, rank of the other
/// in it, then messages and bytes sent, messages and bytes received.
#[track_caller]
fn assert_outside(rows: &[OutsideRow], expected: &[(&str, u32, u32, [u64; 4])]) {
    let mut got: Vec<(String, u32, u32, [u64; 4])> = rows
        .iter()
        .map(|row| {
            let traffic = [row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes];
            (without_digests(&row.comm), row.rank, row.peer_in_comm.get(), traffic)
        })
        .collect();
    let mut expected: Vec<_> =
        expected.iter().map(|&(comm, rank, peer, traffic)| (comm.to_owned(), rank, peer, traffic)).collect();
    got.sort_unstable();
    expected.sort_unstable();
    assert_eq!(got, expected, "left: got, right: expected");
}

/// Asserts that these are all communicators: name without digests, creating call, size, members.
#[track_caller]
fn assert_comms(tables: &Tables, expected: &[(&str, &str, u32, &str)]) {
    let mut got: Vec<(String, &str, u32, String)> = tables
        .comms
        .iter()
        .map(|row| (without_digests(&row.comm), row.created_by.as_str(), row.size, row.members.to_string()))
        .collect();
    let mut expected: Vec<(String, &str, u32, String)> = expected
        .iter()
        .map(|&(comm, created_by, size, members)| (comm.to_owned(), created_by, size, members.to_owned()))
        .collect();
    got.sort_unstable();
    expected.sort_unstable();
    assert_eq!(got, expected, "left: got, right: expected");
}

/// Rows of the two parents of `spawning.c`.
fn assert_parents(tables: &Tables, outside: &[OutsideRow]) {
    assert_comms(
        tables,
        &[
            ("W", "", 2, "0-1"),
            ("S", "", 1, "0-1"),
            ("W_p1", "MPI_Comm_spawn", 5, "0-1|+3"),
            ("W_p1_m1", "MPI_Intercomm_merge", 5, "0-1+3"),
            ("W_p1_m1_d1", "MPI_Comm_dup", 5, "0-1+3"),
            ("W_p1_m1_d1_s1.0", "MPI_Comm_split", 4, "0-1+2"),
            ("W_p1_m1_d1_s2.0", "MPI_Comm_split", 2, "0-1"),
            ("W_p1_m1_d1_s2.0_d1", "MPI_Comm_dup", 2, "0-1"),
            ("W_p1_m2", "MPI_Intercomm_merge", 5, "0-1+3"),
            ("W_p1_m2_i1", "MPI_Comm_idup", 5, "0-1+3"),
            ("W_p1_m2_g1.0-", "MPI_Comm_create_group", 2, "0+1"),
            ("W_x1.0-", "MPI_Intercomm_create", 5, "0-1|+3"),
        ],
    );
    assert_both_worlds(tables);
    assert_eq!(tables.comm("W_p1_m1").label, "both worlds");
    assert_eq!(tables.comm("W_p1").freed, 1);
    for rank in 0..2 {
        assert_calls_of_parent(tables, rank);
    }
    // The last of the parents is the first of that part: it is sorted backwards.
    assert_eq!(tables.sum("W_p1_m1_d1_s1.0", "MPI_Bcast").bytes, 2 * 59);
    assert_peers(
        tables,
        &[
            ("W_p1_m1", 0, 1, [1, 4000, 0, 0]),
            ("W_p1_m1", 1, 0, [0, 0, 1, 4000]),
            ("W_p1_m1_d1_s2.0", 0, 1, [1, 61, 1, 61]),
            ("W_p1_m1_d1_s2.0", 1, 0, [1, 61, 1, 61]),
        ],
    );
    assert_outside(
        outside,
        &[
            ("W_p1", 0, 0, [1, 1000, 1, 2000]),
            ("W_p1", 0, 2, [0, 0, 1, 2003]),
            ("W_p1", 1, 1, [1, 1001, 1, 2001]),
            ("W_p1_m1", 0, 4, [0, 0, 1, 4004]),
            ("W_p1_m1", 1, 2, [1, 4001, 0, 0]),
            ("W_x1.0-", 1, 1, [1, 71, 1, 71]),
        ],
    );
    assert_all_seen(tables);
}

/// Calls of a parent of `spawning.c`.
fn assert_calls_of_parent(tables: &Tables, rank: u32) {
    let of = u64::from(rank);
    let heard = if rank == 0 { 2003 } else { 0 };
    let world = [("MPI_Comm_spawn", 1, 0), ("MPI_Intercomm_create", 1, 0)];
    assert_calls(tables, "W", rank, &world);
    assert_calls(
        tables,
        "W_p1",
        rank,
        &[
            ("MPI_Send", 1, 1000 + of),
            ("MPI_Recv", 1 + u64::from(rank == 0), 2000 + of + heard),
            ("MPI_Bcast", 1, 0),
            ("MPI_Intercomm_merge", 2, 0),
            ("MPI_Comm_disconnect", 1, 0),
        ],
    );
    let ring = 4000 + of + 4000 + (of + 4) % 5;
    let merged = [("MPI_Sendrecv", 1, ring), ("MPI_Comm_dup", 1, 0), ("MPI_Comm_free", 1, 0)];
    assert_calls(tables, "W_p1_m1", rank, &merged);
    let again = [("MPI_Allreduce", 1, 4 * 53), ("MPI_Comm_split", 2, 0), ("MPI_Comm_free", 1, 0)];
    assert_calls(tables, "W_p1_m1_d1", rank, &again);
    assert_calls_but(tables, "W_p1_m2_i1", rank, &["MPI_Comm_free"], &[("MPI_Allgather", 1, 67)]);
}

/// Rows of the three children of `spawning.c`.
fn assert_children(tables: &Tables, outside: &[OutsideRow]) {
    assert_comms(
        tables,
        &[
            ("W", "", 3, "0-2"),
            ("S", "", 1, "0-2"),
            ("P", "", 5, "0-2|+2"),
            ("P_m1", "MPI_Intercomm_merge", 5, "0-2+2"),
            ("P_m1_d1", "MPI_Comm_dup", 5, "0-2+2"),
            ("P_m1_d1_s1.0", "MPI_Comm_split", 4, "0-1+2"),
            ("P_m1_d1_s1.4", "MPI_Comm_split", 1, "2"),
            ("P_m1_d1_s2.2", "MPI_Comm_split", 3, "0-2"),
            ("P_m1_d1_s2.2_d1", "MPI_Comm_dup", 3, "0-2"),
            ("P_m2", "MPI_Intercomm_merge", 5, "0-2+2"),
            ("P_m2_i1", "MPI_Comm_idup", 5, "0-2+2"),
            ("P_m2_g1.0-", "MPI_Comm_create_group", 2, "0+1"),
            ("W_x1.0-", "MPI_Intercomm_create", 5, "0-2|+2"),
        ],
    );
    assert_both_worlds(tables);
    assert_eq!(tables.comm("P").parent, "");
    for rank in 0..3 {
        let of = u64::from(rank);
        let mut parent = vec![
            ("MPI_Send", 1, if rank < 2 { 2000 + of } else { 2003 }),
            ("MPI_Bcast", 1, 3001),
            ("MPI_Intercomm_merge", 2, 0),
            ("MPI_Comm_disconnect", 1, 0),
        ];
        if rank < 2 {
            parent.push(("MPI_Recv", 1, 1000 + of));
        }
        assert_calls(tables, "P", rank, &parent);
        let world = [("MPI_Intercomm_create", 1, 0), ("MPI_Allreduce", 1, 73)];
        assert_calls(tables, "W", rank, &world);
        let sum = tables.of_rank("P_m1_d1_s2.2", "MPI_Sendrecv", rank);
        assert_eq!((sum.calls, sum.bytes), (1, 2 * 61));
    }
    assert_outside(
        outside,
        &[
            ("P", 0, 0, [1, 2000, 1, 1000]),
            ("P", 1, 1, [1, 2001, 1, 1001]),
            ("P", 2, 0, [1, 2003, 0, 0]),
            ("P_m1", 0, 1, [0, 0, 1, 4001]),
            ("P_m1", 2, 0, [1, 4004, 0, 0]),
            ("W_x1.0-", 1, 1, [1, 71, 1, 71]),
        ],
    );
    assert_all_seen(tables);
    assert!(tables.run.notes.iter().any(|note| note.contains("were spawned")), "{:?}", tables.run.notes);
}

/// Each world's view of the communicators that some processes of both made: it has a name for them,
/// and no parent of the others.
#[track_caller]
fn assert_both_worlds(tables: &Tables) {
    let created_by = |call: &str| {
        let mut found = tables.comms.iter().filter(|row| row.created_by == call);
        found.next().unwrap_or_else(|| panic!("{call} is in no row"))
    };
    let (inter, few) = (created_by("MPI_Intercomm_create"), created_by("MPI_Comm_create_group"));
    assert_eq!((inter.parent.as_str(), inter.between.as_str()), ("W", "W|"));
    assert_calls(tables, &few.comm, 0, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
    assert_eq!(tables.sum(&few.parent, "MPI_Comm_create_group").calls, 1);
    assert_eq!(tables.run.names_agree, Some(true));
}

const BOTH_ARE_WELL: [&str; 2] = ["children are well", "parents are well"];

/// Asserts that these lines were printed. Launchers mix what comes from two worlds at once.
#[track_caller]
fn assert_prints(finished: &Finished, expected: &[&str]) {
    let Finished { stdout, stderr, .. } = finished;
    for line in expected {
        assert_eq!(stdout.matches(line).count(), 1, "{line} in\n{stdout}\n{stderr}");
    }
    let length: usize = expected.iter().map(|line| line.len() + 1).sum();
    assert_eq!(stdout.len(), length, "{stdout}");
}

fn spawning(mpi: &Mpi) -> Run<'_> {
    worlds(mpi, "dynamic/spawning").ranks(2)
}

#[case(only = has_worlds)]
fn parents_and_children_have_a_profile_each(mpi: &Mpi) {
    let program = mpi.compile("dynamic/spawning");
    let run = spawning(mpi).argument(profiler()).argument("--output").argument("test.mpisee");
    let finished = run.argument(program.display()).profiled();
    assert_prints(&finished, &BOTH_ARE_WELL);
    assert_parents(finished.check().tables(), &outside(&finished.directory()));
    let (children, outside) = profile_in(&finished, "test-spawned.mpisee");
    assert_children(&children, &outside);
}

#[case(only = has_worlds)]
fn sums_over_ranks_of_two_worlds_are_those_of_the_rows(mpi: &Mpi) {
    let program = mpi.compile("dynamic/spawning");
    let run = |fold: &str| {
        let run = spawning(mpi).variable("MPISEE_FOLD", fold).argument(profiler());
        run.argument("--fold")
            .argument(fold)
            .argument("--output")
            .argument("test.mpisee")
            .argument(program.display())
            .preloaded_to("test.mpisee")
    };
    let [rows, sums] = ["4096", "1"].map(run);
    for name in ["test.mpisee", "test-spawned.mpisee"] {
        let directory = sums.place.path(name);
        let checked = through(&["check", &directory.display().to_string()]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        sums::assert_sums_of(&rows.place.path(name), &directory);
    }
}

#[case(only = has_worlds)]
fn children_that_inherit_the_preload_have_a_profile(mpi: &Mpi) {
    let run = spawning(mpi).argument(mpi.compile("dynamic/spawning").display());
    let finished = run.preloaded();
    assert_prints(&finished, &BOTH_ARE_WELL);
    assert_parents(finished.check().tables(), &outside(&finished.directory()));
    // Open MPI 5.0 does not pass variables of mpirun -x on to spawned processes.
    let inherits = !mpi.name.starts_with("openmpi-5");
    assert_eq!(finished.place.path("test-spawned.mpisee").exists(), inherits, "{}", mpi.name);
    if inherits {
        let (children, outside) = profile_in(&finished, "test-spawned.mpisee");
        assert_children(&children, &outside);
    }
}

#[case(only = has_worlds)]
fn parents_do_not_wait_for_children_without_the_profiler(mpi: &Mpi) {
    let finished = spawning(mpi).argument(mpi.compile("dynamic/spawning").display()).profiled();
    assert_prints(&finished, &BOTH_ARE_WELL);
    assert_parents(finished.check().tables(), &outside(&finished.directory()));
    assert!(!finished.place.path("test-spawned.mpisee").exists());
}

#[case(only = has_worlds)]
fn children_do_not_wait_for_parents_without_the_profiler(mpi: &Mpi) {
    let program = mpi.compile("dynamic/spawning");
    let run = spawning(mpi).argument(profiler()).argument("--output").argument("of-children");
    let finished = run.argument(program.display()).plain();
    assert_prints(&finished, &BOTH_ARE_WELL);
    let (children, outside) = profile_in(&finished, "of-children-spawned.mpisee");
    assert_children(&children, &outside);
    assert!(!finished.directory().exists());
}

#[case(only = has_worlds)]
fn parts_of_one_world_that_meet_have_one_name(mpi: &Mpi) {
    let finished = with_short_addresses(mpi, worlds(mpi, "dynamic/meeting")).profiled();
    assert_eq!(finished.stdout, "all is well\n");
    let tables = finished.check().tables();
    assert_comms(
        tables,
        &[
            ("W", "", 4, "0-3"),
            ("S", "", 1, "0-3"),
            ("W_s1.0", "MPI_Comm_split", 2, "0,2"),
            ("W_s1.1", "MPI_Comm_split", 2, "1,3"),
            ("W_p1.0-", "MPI_Comm_accept", 4, "0,2|1,3"),
            ("W_p1.0-_m1", "MPI_Intercomm_merge", 4, "0-3"),
            ("W_p1.0-", "MPI_Comm_accept", 2, "0|1"),
            ("W_p1.2-", "MPI_Comm_join", 2, "2|3"),
        ],
    );
    let between = |members: &str, between: &str| {
        let mut found = tables.comms.iter().filter(|row| row.members.to_string() == members);
        let row = found.next().unwrap_or_else(|| panic!("no row of {members}"));
        assert_eq!((row.parent.as_str(), row.between.as_str()), ("W", between));
        row.comm.as_str()
    };
    let halves = between("0,2|1,3", "W_s1.0|W_s1.1");
    let (accepted, joined) = (between("0|1", "S|S"), between("2|3", "S|S"));
    assert_eq!(tables.run.names_agree, Some(true));
    for rank in 0..4 {
        let half = format!("W_s1.{}", rank % 2);
        let call = if rank % 2 == 0 { "MPI_Comm_accept" } else { "MPI_Comm_connect" };
        assert_calls(tables, &half, rank, &[(call, 1, 0), ("MPI_Comm_free", 1, 0)]);
        let own = if rank < 2 { call } else { "MPI_Comm_join" };
        assert_calls(tables, "S", rank, &[(own, 1, 0)]);
        let both = 2000 + u64::from(rank) + u64::from(rank ^ 1);
        let inter = [("MPI_Sendrecv", 1, both), ("MPI_Intercomm_merge", 1, 0), ("MPI_Comm_disconnect", 1, 0)];
        assert_calls(tables, halves, rank, &inter);
    }
    assert_eq!(tables.sum(&format!("{halves}_m1"), "MPI_Allreduce").bytes, 4 * 101);
    for (rank, peer) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        let (sent, received) = (1000 + u64::from(rank), 1000 + u64::from(peer));
        assert_eq!(tables.peer(halves, rank, peer), [1, sent, 1, received]);
    }
    assert_eq!(tables.peer(accepted, 0, 1), [1, 103, 0, 0]);
    assert_eq!(tables.peer(accepted, 1, 0), [0, 0, 1, 103]);
    assert_eq!(tables.peer(joined, 3, 2), [1, 107, 0, 0]);
    assert_eq!(tables.peer(joined, 2, 3), [0, 0, 1, 107]);
    assert!(!finished.directory().join("outside.csv").exists());
    assert_all_seen(tables);
}

#[case(only = has_worlds)]
fn worlds_that_were_spawned_meet_and_each_has_its_profile(mpi: &Mpi) {
    let run = with_short_addresses(mpi, worlds(mpi, "dynamic/two_worlds").ranks(2));
    let finished = run.argument(profiler()).profiled();
    assert_eq!(finished.stdout, "all is well\n");
    assert_comms(
        finished.check().tables(),
        &[
            ("W", "", 2, "0-1"),
            ("S", "", 1, "0-1"),
            ("W_p1", "MPI_Comm_spawn", 4, "0-1|+2"),
            ("W_p2", "MPI_Comm_spawn", 4, "0-1|+2"),
            ("W_p3", "MPI_Comm_spawn_multiple", 5, "0-1|+3"),
            ("S_p1.1", "MPI_Comm_spawn", 2, "1|+1"),
        ],
    );
    let port = outside(&finished.directory());
    assert!(port.iter().any(|row| row.comm == "S_p1.1" && row.rank == 1 && row.sent_bytes == 109));
    for (name, call, mine, theirs) in [
        ("accepting-spawned.mpisee", "MPI_Comm_accept", 1000, 2000),
        ("connecting-spawned.mpisee", "MPI_Comm_connect", 2000, 1000),
    ] {
        let (tables, mut outside) = profile_in(&finished, name);
        let (world, own) = (("W", "", 2, "0-1"), ("S", "", 1, "0-1"));
        assert_comms(&tables, &[world, own, ("P", "", 4, "0-1|+2"), ("W_p1", call, 4, "0-1|+2")]);
        outside.retain(|row| row.comm != "P");
        let expected =
            [0, 1].map(|rank| ("W_p1", rank, rank, [1, mine + u64::from(rank), 1, theirs + u64::from(rank)]));
        assert_outside(&outside, &expected);
        assert_all_seen(&tables);
    }
    let (several, none) = profile_in(&finished, "several-spawned.mpisee");
    assert_comms(&several, &[("W", "", 3, "0-2"), ("S", "", 1, "0-2"), ("P", "", 5, "0-2|+2")]);
    assert_eq!(several.sum("P", "MPI_Scatter").bytes, 3 * 4);
    assert_eq!(none, []);
    let (alone, outside) = profile_in(&finished, "own-spawned.mpisee");
    assert_eq!(alone.run.ranks, 1);
    assert_outside(&outside, &[("P", 0, 0, [0, 0, 1, 109])]);
}

#[case]
fn spawning_from_fortran_is_recorded_whatever_the_interface(mpi: &Mpi) {
    for interface in ["MPIF_H", "USE_MPI", "USE_MPI_F08"] {
        let Some(program) = mpi.compile_fortran("fortran/spawn", interface) else { return };
        let has_worlds = has_worlds(mpi);
        // Without arguments for the children, and with some.
        for command in [None, Some(profiler())] {
            let mut run = Run::from_program(mpi, program.clone()).ranks(2);
            if let Some(command) = &command {
                run = run.argument(command);
            }
            let finished = run.profiled();
            let tables = finished.check().tables();
            for rank in 0..2 {
                assert_calls(tables, "W", rank, &[("MPI_Comm_spawn", 1, 0)]);
            }
            assert_all_seen(tables);
            if !has_worlds {
                assert_eq!(finished.stdout, "refused\n", "{interface} of {}", mpi.name);
                assert_eq!(tables.names(), ["W", "S"]);
                continue;
            }
            assert_eq!(finished.stdout, "spawned\n", "{interface} of {}", mpi.name);
            let sent = [0, 1].map(|rank| ("W_p1", rank, rank, [1, 4 * (100 + u64::from(rank)), 0, 0]));
            assert_outside(&outside(&finished.directory()), &sent);
            for rank in 0..2 {
                let bytes = 4 * (100 + u64::from(rank));
                let parent = [("MPI_Send", 1, bytes), ("MPI_Comm_disconnect", 1, 0)];
                assert_calls(tables, "W_p1", rank, &parent);
            }
            if command.is_some() {
                let (children, outside) = profile_in(&finished, "of-children-spawned.mpisee");
                let received = [0, 1].map(|rank| ("P", rank, rank, [0, 0, 1, 4 * (100 + u64::from(rank))]));
                assert_outside(&outside, &received);
                assert_all_seen(&children);
            }
        }
    }
}

#[case]
fn an_mpi_that_refuses_to_spawn_does_so_with_the_profiler(mpi: &Mpi) {
    if has_worlds(mpi) {
        return;
    }
    let run = || worlds(mpi, "dynamic/spawn_nothing").ranks(2);
    let finished = run().profiled();
    assert_eq!(finished.stdout, run().plain().stdout);
    let tables = finished.check().tables();
    assert_eq!(tables.sum("W", "MPI_Comm_spawn").calls, 2);
    assert_eq!(tables.names(), ["W", "S"]);
    assert_all_seen(tables);
}
