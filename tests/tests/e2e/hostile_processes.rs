//! Hostile programs: how processes begin and end, and what they leave the profiler of memory, files
//! and streams. Each one ends and prints with the profiler what it does without, leaves no segment
//! behind, and is counted as the comment at its top says.

use crate::buffers::driver;
use crate::exact::{assert_all_seen, assert_calls};
use crate::hostile::{Case, case, created_by, ranks, sorted};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{ADDRESS_SANITIZER, LIMIT, Mpi, Place, Run, Tables, case, dist, within};
use std::collections::BTreeSet;
use std::io::{PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Calls of a function by a rank, over all communicators.
fn calls_of(tables: &Tables, call: &str, rank: u32) -> u64 {
    tables.sum_where(|row| row.call == call && row.rank == rank).calls
}

fn has_sessions(mpi: &Mpi) -> bool {
    mpi.counted_functions().contains("MPI_Session_init")
}

#[case]
fn own_title(mpi: &Mpi) {
    let finished = case("own_title", 2).run(mpi);
    assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0, 1], true));
    (0..2).for_each(|rank| assert_calls(finished.tables(), "W", rank, &[("MPI_Barrier", 1, 0)]));
}

#[case]
fn own_environment(mpi: &Mpi) {
    let finished = case("own_environment", 2).run(mpi);
    assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0, 1], true));
    for rank in 0..2 {
        assert_calls(finished.tables(), "W", rank, &[("MPI_Comm_dup", 1, 0)]);
        assert_calls(finished.tables(), "W_d1", rank, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
    }
}

fn assert_the_loader_is_not_needed(mpi: &Mpi, variant: &str, linked: &[&str]) {
    let shared: Vec<&str> =
        ["-shared", "-fPIC", "-pthread", "-DLIBRARY"].into_iter().chain(linked.iter().copied()).collect();
    let library = mpi.compile_variant("hostile/loader_waits", variant, &shared);
    let program = mpi.compile_variant("hostile/loader_waits", "program", &["-ldl"]);
    for how in ["begin", "end"] {
        let run =
            || Run::from_program(mpi, program.clone()).ranks(2).argument(how).argument(library.display());
        let finished = run().profiled();
        assert_eq!(finished.stdout, run().plain().stdout);
        for rank in 0..2 {
            assert_calls(finished.tables(), "W", rank, &[("MPI_Barrier", 2, 0)]);
            assert_calls(finished.tables(), "S_d1", rank, &[("MPI_Comm_free", 1, 0)]);
        }
    }
}

#[case]
fn loader_waits(mpi: &Mpi) {
    assert_the_loader_is_not_needed(mpi, "library", &[]);
}

/// The library is linked with CUDA's driver, so that it is found when the thread communicates.
#[case]
fn loader_waits_with_a_driver(mpi: &Mpi) {
    let driver = driver();
    let folder = driver.parent().expect("it is in a folder").display();
    let linked = [format!("-L{folder}"), format!("-Wl,-rpath,{folder}")];
    let linked = ["-Wl,--no-as-needed", &linked[0], "-l:libcuda.so.1", &linked[1]];
    assert_the_loader_is_not_needed(mpi, "driver", &linked);
}

#[case]
fn bypass(mpi: &Mpi) {
    let finished = case("bypass", 2).run(mpi);
    assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0], false));
    assert_calls(finished.tables(), "W", 0, &[("MPI_Comm_dup", 1, 0)]);
    assert_calls(finished.tables(), "W_d1", 0, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
}

#[case]
fn bypass_without_communicators(mpi: &Mpi) {
    let finished = case("bypass", 2).argument("nocomm").run(mpi);
    assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0], false));
}

/// Asserts what ranks 0 and 2 did in `part_bypass`.
fn assert_others_counted(tables: &Tables) {
    for rank in [0, 2] {
        assert!(ranks(tables).contains(&rank), "{:?}", ranks(tables));
        assert_calls(tables, "W", rank, &[("MPI_Comm_split", 1, 0), ("MPI_Comm_dup", 2, 0)]);
        for comm in ["W_s1.0", "W_d2", "W_d3"] {
            assert_calls(tables, comm, rank, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
        }
    }
}

#[case]
fn part_bypass_of_init(mpi: &Mpi) {
    let finished = case("part_bypass", 3).argument("init").run(mpi);
    assert_eq!(ranks(finished.tables()), [0, 2]);
    assert_others_counted(finished.tables());
}

#[case]
fn part_bypass_of_finalize(mpi: &Mpi) {
    let case = Case { may_stay: 1, ..case("part_bypass", 3).argument("finalize") };
    assert_others_counted(case.run(mpi).tables());
}

#[case]
fn part_bypass_of_a_communicator(mpi: &Mpi) {
    for argument in ["split", "dlsym"] {
        let finished = case("part_bypass", 3).argument(argument).run(mpi);
        assert_eq!(ranks(finished.tables()), [0, 1, 2]);
        assert_others_counted(finished.tables());
        // Rank 1 does not know one of them; what it calls there is counted as not seen.
        let unknown = mpisee_profile::segment::NotSeen::UnknownCommunicator;
        let seen = calls_of(finished.tables(), "MPI_Barrier", 1);
        assert_eq!((seen, finished.tables().not_seen(unknown) > 0), (2, true));
    }
}

#[case]
fn a_rank_without_the_library(mpi: &Mpi) {
    let place = Place::new();
    let program = case("part_bypass", 2).compile(mpi);
    let mut command = place.command(mpi, 1);
    command.args(["--output", "test.mpisee"]).arg(&program).args([":", "-n", "1"]).arg(&program);
    let output = within(LIMIT, &mut command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert_eq!((sorted(&stdout), place.left()), (sorted("rank 0 ok\nrank 1 ok\n"), Vec::new()));
    let tables = place.tables("test.mpisee");
    assert_eq!((ranks(&tables), calls_of(&tables, "MPI_Barrier", 0)), (vec![0], 3));
}

#[case]
fn late_finalize(mpi: &Mpi) {
    for (argument, sent) in [("", [0, 0]), ("send", [1, 4001])] {
        let finished = case("late_finalize", 2).argument(argument).run(mpi);
        assert_eq!(finished.tables().peer("W", 1, 0)[..2], sent);
        assert_eq!(finished.tables().of_rank("W", "MPI_Irecv", 0).calls, 1);
    }
}

#[case]
fn cancelled(mpi: &Mpi) {
    if !mpi.name.starts_with("mpich") {
        return; // Open MPI may be left in these calls, too.
    }
    let finished = case("cancelled", 1).run(mpi);
    assert!(finished.stdout.starts_with("whole\n"), "{}", finished.stdout);
    for call in ["MPI_Comm_dup", "MPI_Barrier", "MPI_Comm_free"] {
        assert_eq!(calls_of(finished.tables(), call, 0), 2003, "{call}");
    }
}

#[case]
fn leaves_last(mpi: &Mpi) {
    if mpi.is_left_out(&["mpich-5", "mpiabi"], "the launcher ends the other rank when one ends by _exit") {
        return;
    }
    let finished = Case { may_stay: 1, ..case("leaves_last", 2) }.run(mpi);
    assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0], false));
    assert_eq!(finished.tables().of_rank("W", "MPI_Recv", 0).calls, 1);
    let said = "profile of 1 rank of 2 (rank 1 ended before the profile was written)";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
}

#[case]
fn address_space(mpi: &Mpi) {
    let finished = case("own_limit", 1).run(mpi);
    assert_eq!(sorted(&finished.stdout), sorted("256 MiB: ok\ngrew below 4 GiB"), "{}", finished.stderr);
}

#[case]
fn address_sanitizer(mpi: &Mpi) {
    let case = Case { compiler: ADDRESS_SANITIZER, ..case("address_sanitizer", 1) };
    assert_calls(case.run(mpi).tables(), "W", 0, &[("MPI_Barrier", 1, 0)]);
}

#[case]
fn two_sessions(mpi: &Mpi) {
    if !has_sessions(mpi) {
        return;
    }
    let finished = case("two_sessions", 2).argument("nested").run(mpi);
    let made = created_by(finished.tables(), "MPI_Comm_create_from_group");
    let bytes: BTreeSet<u64> =
        made.into_keys().map(|comm| finished.tables().sum(comm, "MPI_Bcast").bytes).collect();
    assert_eq!(bytes, BTreeSet::from([100, 200]));
}

/// Programs with sessions one after the other, or without a communicator, need not have a profile.
#[case]
fn two_sessions_without_a_profile(mpi: &Mpi) {
    if !has_sessions(mpi) {
        return;
    }
    for (argument, ranks) in [("threads", 1), ("threads", 1), ("threads", 1), ("again", 2)] {
        let why = "it cannot begin again";
        if argument == "again" && mpi.is_left_out(&["mpich-4.0", "openmpi-5"], why) {
            continue;
        }
        let place = Place::new();
        let case = case("two_sessions", ranks).argument(argument);
        let plain = case.prepare(mpi, &place).plain();
        let profiled = case.prepare(mpi, &place).preloaded_in_vain(mpi);
        assert_eq!(sorted(&profiled.stdout), sorted(&plain.stdout), "{}", profiled.stderr);
        assert_eq!(place.left(), Vec::<PathBuf>::new(), "{argument}");
    }
}

#[case]
fn own_stderr(mpi: &Mpi) {
    for argument in ["closed", "data", "gone", "full"] {
        let finished = case("own_stderr", 2).argument(argument).run(mpi);
        assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0, 1], true));
        assert_all_seen(finished.tables());
    }
}

/// Writes to a pipe until it takes no more.
fn fill(pipe: &PipeWriter) {
    // SAFETY: the descriptor is open, and nobody else has it.
    let set = |flags: i32| unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, flags) };
    set(libc::O_NONBLOCK);
    while { pipe }.write(&[b'.'; 4096]).is_ok() {}
    set(0);
}

/// The profiler's own messages go to a pipe that nobody reads: one without a reader, and one that
/// is full.
#[case]
fn stderr_without_a_reader(mpi: &Mpi) {
    for has_reader in [false, true] {
        let place = Place::new();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        if has_reader {
            fill(&writer);
        }
        let reader = has_reader.then_some(reader);
        let mut command = Command::new(dist().join("bin/mpisee"));
        command.args(["-o", "test.mpisee"]).arg(mpi.compile("hostile/own_title"));
        command.env("MPISEE_SEGMENTS", place.segments()).current_dir(place.path("."));
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status();
        assert!(status.expect("it starts").success());
        assert_eq!(place.tables("test.mpisee").of_rank("W", "MPI_Barrier", 0).calls, 1);
        drop(reader);
    }
}

#[case]
fn little_memory(mpi: &Mpi) {
    let finished = case("little_memory", 2).argument("waitall").run(mpi);
    assert_eq!(finished.tables().not_seen(NotSeen::NoRoom), 2 * 2);
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").calls, 2 * 50);
    let place = Place::new();
    let program = mpi.compile("hostile/little_memory");
    let plain = within(LIMIT, mpi.launcher(2, &[]).arg(&program).arg("finalize"));
    if !plain.status.success() {
        mpisee_tests::harness::leave_out(format!("{} needs more memory in MPI_Finalize itself", mpi.name));
        return;
    }
    let mut command = place.command(mpi, 2);
    command.arg(program).arg("finalize");
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("has no memory to write the profile"), "{said}");
    place.wait_for_ranks(&[]);
    place.recover(&["--output", "recovered"]);
    assert_eq!(place.tables("recovered.mpisee").sum("W", "MPI_Allreduce").calls, 2 * 50);
}

/// Ranks that seem to be on several nodes, the last of which comes when the others have given up
/// waiting for it.
#[case]
fn comes_late(mpi: &Mpi) {
    let place = Place::new();
    let own = "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; mkdir $rank; export MPISEE_SEGMENTS=$PWD/$rank; \
               export OMPI_COMM_WORLD_LOCAL_SIZE=1 MPI_LOCALNRANKS=1; exec \"$@\"";
    let mut command = mpi.launcher(2, &[]);
    command.args(["sh", "-c", own, "own"]).arg(dist().join("bin/mpisee")).args(["--wait", "2"]);
    command.arg(mpi.compile("hostile/comes_late"));
    let ended = place.run_within(LIMIT, &mut command);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sorted(&ended.text()), ["rank 0 ok", "rank 1 ok"]);
    assert_eq!(ended.profiles(), ["comes_late-2.mpisee", "comes_late.mpisee"], "{}", ended.stderr);
    let barriers =
        ended.profiles().iter().map(|name| ended.tables(name).sum("W", "MPI_Barrier").calls).sum::<u64>();
    assert_eq!(barriers, 2);
}

#[case]
fn no_room_in_files(mpi: &Mpi) {
    let finished = case("no_room_in_files", 2).run(mpi);
    let barriers = |rank| {
        let rows = finished.tables().calls.iter();
        rows.filter(|row| row.call == "MPI_Barrier" && row.rank == rank).map(|row| row.calls).sum::<u64>()
    };
    assert_eq!(barriers(1), 1 + 400 * 3);
    let is_lost = barriers(0) < barriers(1);
    assert_eq!(finished.tables().not_seen(NotSeen::LostCounts), u64::from(is_lost), "{}", finished.stderr);
    assert_eq!(finished.tables().run.complete, !is_lost);
}

#[case]
fn sessions_beyond(mpi: &Mpi) {
    if !has_sessions(mpi) {
        return;
    }
    for (argument, barriers, notes) in [("world", 5, 1), ("exit", 10, 0)] {
        let why = "the launcher ends the other rank when one has ended its session in an exit handler";
        if argument == "exit" && mpi.is_left_out(&["mpich-5", "mpiabi"], why) {
            continue;
        }
        let finished = case("sessions_beyond", 2).argument(argument).run(mpi);
        let made = created_by(finished.tables(), "MPI_Comm_create_from_group");
        let [comm] = &made.into_keys().collect::<Vec<_>>()[..] else { panic!("one is made") };
        assert_eq!(finished.tables().of_rank(comm, "MPI_Barrier", 0).calls, barriers, "{argument}");
        assert_eq!(finished.tables().run.notes.len(), notes, "{:?}", finished.tables().run.notes);
    }
}
