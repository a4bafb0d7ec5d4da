//! Correct MPI programs that are hard on a profiler (`tests/programs/hostile`): each one ends and prints with the
//! profiler what it does without, leaves no segment behind, and is counted as the comment at its top says.

mod exact;

use exact::{assert_all_seen, assert_calls};
use mpisee_profile::comm_name::is_shared_row;
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Place, Run, Tables, dist, on_each_mpi, within};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A program and how to start it.
struct Case {
    program: &'static str,
    ranks: u32,
    argument: &'static str,
    compiler: &'static [&'static str],
    launcher: &'static [&'static str],
    options: &'static [&'static str],
    /// Segments that may stay: of ranks that ended without `MPI_Finalize` as far as the library can see.
    may_stay: usize,
}

/// `tests/programs/hostile/PROGRAM.c` on so many ranks.
const fn case(program: &'static str, ranks: u32) -> Case {
    Case { program, ranks, argument: "", compiler: &[], launcher: &[], options: &[], may_stay: 0 }
}

/// The lines that a program printed, in alphabetical order, without UCX's about receives that nobody completed.
fn sorted(stdout: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        stdout.lines().filter(|line| !line.contains("UCX  WARN")).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

impl Case {
    fn argument(self, argument: &'static str) -> Case {
        Case { argument, ..self }
    }

    fn options(self, options: &'static [&'static str]) -> Case {
        Case { options, ..self }
    }

    fn compile(&self, mpi: &Mpi) -> PathBuf {
        mpi.compile_with(&format!("hostile/{}", self.program), self.compiler)
    }

    fn prepare<'m>(&self, mpi: &'m Mpi, place: &Place) -> Run<'m> {
        let run = Run::of(mpi, self.compile(mpi)).ranks(self.ranks).launched_with(self.launcher);
        let run = run.variable("MPISEE_SEGMENTS", &place.segments().display().to_string());
        if self.argument.is_empty() { run } else { run.argument(self.argument) }
    }

    /// Runs the program without the profiler and with it, and compares. Both runs end with code 0.
    fn run(&self, mpi: &Mpi) -> Finished {
        eprintln!("{} {}", self.program, self.argument);
        let place = Place::new();
        let plain = self.prepare(mpi, &place).plain();
        let profiled = self.prepare(mpi, &place).options(self.options).profiled();
        assert_eq!(sorted(&profiled.stdout), sorted(&plain.stdout), "{}", profiled.stderr);
        let left = place.left();
        assert!(left.len() <= self.may_stay, "segments stay: {left:?}");
        profiled
    }
}

/// The ranks of which the profile has counters.
fn ranks(tables: &Tables) -> Vec<u32> {
    tables.ranks.iter().map(|row| row.rank).collect()
}

/// Calls of a function by a rank, over all communicators.
fn calls_of(tables: &Tables, call: &str, rank: u32) -> u64 {
    tables.sum_where(|row| row.call == call && row.rank == rank).calls
}

fn has_sessions(mpi: &Mpi) -> bool {
    mpi.counted_functions().contains("MPI_Session_init")
}

#[test]
fn own_title() {
    on_each_mpi(|mpi| {
        let finished = case("own_title", 2).run(mpi);
        assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0, 1], true));
        (0..2).for_each(|rank| assert_calls(finished.tables(), "W", rank, &[("MPI_Barrier", 1, 0)]));
    });
}

#[test]
fn own_environment() {
    on_each_mpi(|mpi| {
        let finished = case("own_environment", 2).run(mpi);
        assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0, 1], true));
        for rank in 0..2 {
            assert_calls(finished.tables(), "W", rank, &[("MPI_Comm_dup", 1, 0)]);
            assert_calls(finished.tables(), "W_d1", rank, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
        }
    });
}

#[test]
fn bypass() {
    on_each_mpi(|mpi| {
        let finished = case("bypass", 2).run(mpi);
        assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0], false));
        assert_calls(finished.tables(), "W", 0, &[("MPI_Comm_dup", 1, 0)]);
        assert_calls(finished.tables(), "W_d1", 0, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
    });
}

#[test]
fn bypass_without_communicators() {
    on_each_mpi(|mpi| {
        let finished = case("bypass", 2).argument("nocomm").run(mpi);
        assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0], false));
    });
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

#[test]
fn part_bypass_of_init() {
    on_each_mpi(|mpi| {
        let finished = case("part_bypass", 3).argument("init").run(mpi);
        assert_eq!(ranks(finished.tables()), [0, 2]);
        assert_others_counted(finished.tables());
    });
}

#[test]
fn part_bypass_of_finalize() {
    on_each_mpi(|mpi| {
        let case = Case { may_stay: 1, ..case("part_bypass", 3).argument("finalize") };
        assert_others_counted(case.run(mpi).tables());
    });
}

#[test]
fn part_bypass_of_a_communicator() {
    on_each_mpi(|mpi| {
        for argument in ["split", "dlsym"] {
            let finished = case("part_bypass", 3).argument(argument).run(mpi);
            assert_eq!(ranks(finished.tables()), [0, 1, 2]);
            assert_others_counted(finished.tables());
            // Rank 1 does not know one of them; what it calls there is counted as not seen.
            let unknown = mpisee_profile::segment::NotSeen::UnknownCommunicator;
            let seen = calls_of(finished.tables(), "MPI_Barrier", 1);
            assert_eq!((seen, finished.tables().not_seen(unknown) > 0), (2, true));
        }
    });
}

#[test]
fn a_rank_without_the_library() {
    on_each_mpi(|mpi| {
        let place = Place::new();
        let program = case("part_bypass", 2).compile(mpi);
        let mut command = place.command(mpi, 1);
        command.args(["--output", "test.mpisee"]).arg(&program).args([":", "-n", "1"]).arg(&program);
        let output = within(Duration::from_secs(60), &mut command);
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{stderr}");
        assert_eq!((sorted(&stdout), place.left()), (sorted("rank 0 ok\nrank 1 ok\n"), Vec::new()));
        let tables = place.tables("test.mpisee");
        assert_eq!((ranks(&tables), calls_of(&tables, "MPI_Barrier", 0)), (vec![0], 3));
    });
}

#[test]
fn longjmp() {
    on_each_mpi(|mpi| {
        let finished = case("longjmp", 2).run(mpi);
        for rank in 0..2 {
            assert_eq!(finished.tables().of_rank("W", "MPI_Comm_dup", rank).calls, 1);
            assert_calls(finished.tables(), "W_d1", rank, &[("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)]);
        }
    });
}

#[test]
fn idup_get_status() {
    on_each_mpi(|mpi| {
        let finished = case("idup_get_status", 2).run(mpi);
        for rank in 0..2 {
            assert_eq!(finished.tables().of_rank("W", "MPI_Comm_idup", rank).calls, 1);
            let expected = [("MPI_Allreduce", 1, 4), ("MPI_Comm_free", 1, 0)];
            assert_calls(finished.tables(), "W_i1_d1", rank, &expected);
        }
        assert_all_seen(finished.tables());
    });
}

#[test]
fn intercomm_outsiders() {
    on_each_mpi(|mpi| {
        // Debian's MPICH cannot spawn.
        if mpi.is_open_mpi {
            let finished = case("intercomm_outsiders", 2).run(mpi);
            let expected = "child 0: remote size 1, sum 1\nparent 0: remote size 1, sum 1\nparent 1: remote size 2, sum 2";
            assert_eq!(sorted(&finished.stdout), sorted(expected));
            assert_eq!(finished.tables().sum_where(|row| row.call == "MPI_Allreduce").calls, 2);
        }
    });
}

#[test]
fn receives_while_off() {
    on_each_mpi(|mpi| {
        let off_from_the_start = case("receives_while_off", 2).argument("on").options(&["--record", "off"]);
        let cases = [
            (case("receives_while_off", 2).argument("on"), 4),
            (case("receives_while_off", 2).argument("off"), 0),
            (off_from_the_start, 0),
        ];
        for (case, receives) in cases {
            let finished = case.run(mpi);
            assert_eq!(finished.tables().sum("W", "MPI_Barrier").calls, 2);
            assert_eq!(finished.tables().sum("W", "MPI_Irecv").calls, receives);
        }
    });
}

#[test]
fn late_finalize() {
    on_each_mpi(|mpi| {
        for (argument, sent) in [("", [0, 0]), ("send", [1, 4001])] {
            let finished = case("late_finalize", 2).argument(argument).run(mpi);
            assert_eq!(finished.tables().peer("W", 1, 0)[..2], sent);
            assert_eq!(finished.tables().of_rank("W", "MPI_Irecv", 0).calls, 1);
        }
    });
}

#[test]
fn leaves_last() {
    on_each_mpi(|mpi| {
        let finished = Case { may_stay: 1, ..case("leaves_last", 2) }.run(mpi);
        assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0], false));
        assert_eq!(finished.tables().of_rank("W", "MPI_Recv", 0).calls, 1);
        let said = "profile of 1 rank of 2 (rank 1 ended before the profile was written)";
        assert!(finished.stderr.contains(said), "{}", finished.stderr);
    });
}

#[test]
fn refused_completions() {
    on_each_mpi(|mpi| {
        if mpi.is_left_out(&["mpiabi"], "null arrays end the program") {
            return;
        }
        for argument in ["some", "null", "any"] {
            case("refused_completions", 1).argument(argument).run(mpi);
        }
    });
}

#[test]
fn one_handle() {
    const UCX: &[&str] =
        &["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"];
    on_each_mpi(|mpi| {
        for (argument, call) in [("", "MPI_Wait"), ("all", "MPI_Waitall")] {
            let launcher = if mpi.is_open_mpi { UCX } else { &[] };
            let finished = Case { launcher, ..case("one_handle", 2).argument(argument) }.run(mpi);
            for comm in ["W_d1", "W_d2"] {
                let expected = [("MPI_Isend", 100, 400), (call, 100, 0), ("MPI_Comm_free", 1, 0)];
                assert_calls(finished.tables(), comm, 0, &expected);
            }
            assert_all_seen(finished.tables());
        }
    });
}

#[test]
fn address_space() {
    on_each_mpi(|mpi| {
        let finished = case("own_limit", 1).run(mpi);
        assert_eq!(sorted(&finished.stdout), sorted("256 MiB: ok\ngrew below 4 GiB"), "{}", finished.stderr);
    });
}

#[test]
fn address_sanitizer() {
    on_each_mpi(|mpi| {
        let case = Case { compiler: &["-fsanitize=address"], ..case("address_sanitizer", 1) };
        assert_calls(case.run(mpi).tables(), "W", 0, &[("MPI_Barrier", 1, 0)]);
    });
}

/// The communicators that `call` created, but those that share a row, each name once.
fn created_by<'t>(tables: &'t Tables, call: &str) -> BTreeMap<&'t str, String> {
    let rows: Vec<_> = tables.comms.iter().filter(|row| row.created_by == call).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.comm.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "two communicators have one name");
    let own = rows.into_iter().filter(|row| !is_shared_row(&row.comm));
    own.map(|row| (row.comm.as_str(), row.members.to_string())).collect()
}

#[test]
fn create_group_threads() {
    on_each_mpi(|mpi| {
        let finished = case("create_group_threads", 3).run(mpi);
        let tables = finished.tables();
        let made = created_by(tables, "MPI_Comm_create_group");
        assert_eq!(made.len(), 600);
        for (comm, members) in made {
            let (other, bytes) = if members == "0-1" { (1, 100) } else { (2, 200) };
            assert_calls(tables, comm, 0, &[("MPI_Bcast", 1, 0), ("MPI_Comm_free", 1, 0)]);
            assert_calls(tables, comm, other, &[("MPI_Bcast", 1, bytes), ("MPI_Comm_free", 1, 0)]);
            assert_calls(tables, comm, 3 - other, &[]);
        }
        finished.check();
    });
}

/// Asserts that of what two threads created some have rows of their own, on which both ranks moved messages of one
/// size by one `call`, and that all calls are there: `bytes` in all.
#[track_caller]
fn assert_same_on_both(finished: &Finished, created: &str, call: &str, bytes: u64) {
    let tables = finished.tables();
    let made = created_by(tables, created);
    assert!((20..=40).contains(&made.len()), "{} have rows of their own", made.len());
    for comm in made.into_keys() {
        let rows = tables.calls.iter().filter(|row| row.comm == comm && row.call == call);
        let mut rows: Vec<_> = rows.map(|row| (row.rank, row.calls, row.size_min)).collect();
        rows.sort_unstable();
        assert!(matches!(rows[..], [(0, 1, least), (1, 1, other)] if least == other), "{comm}: {rows:?}");
    }
    let sum = tables.sum_where(|row| row.call == call);
    assert_eq!((sum.calls, sum.bytes), (2 * 2 * 300, bytes));
    finished.check();
}

#[test]
fn create_group_tags() {
    on_each_mpi(|mpi| {
        let finished = case("create_group_tags", 2).options(&["--alike", "20"]).run(mpi);
        assert_same_on_both(&finished, "MPI_Comm_create_group", "MPI_Bcast", 300 * (100 + 200));
    });
}

#[test]
fn intercomm_threads() {
    on_each_mpi(|mpi| {
        let finished = case("intercomm_threads", 2).options(&["--alike", "20"]).run(mpi);
        assert_same_on_both(&finished, "MPI_Intercomm_create", "MPI_Sendrecv", 300 * 2 * 2 * (100 + 200));
    });
}

/// Threads may enter such communicators in another order on each rank. Nothing that all members have distinguishes them, so
/// that the profile has to say whether their names belong together.
#[test]
fn intercomm_same_tag() {
    on_each_mpi(|mpi| {
        let finished = case("intercomm_same_tag", 4).run(mpi);
        let tables = finished.tables();
        let made = created_by(tables, "MPI_Intercomm_create");
        let is_one = |comm: &str| {
            let rows = tables.calls.iter().filter(|row| row.comm == comm && row.call == "MPI_Sendrecv");
            rows.map(|row| row.size_min).collect::<BTreeSet<_>>().len() == 1
        };
        let agree = made.into_keys().all(is_one);
        assert_eq!(tables.run.names_agree, Some(agree));
        assert_eq!(tables.sum_where(|row| row.call == "MPI_Sendrecv").calls, 300 * 2 * 4);
    });
}

#[test]
fn split_threads() {
    on_each_mpi(|mpi| {
        let finished = case("split_threads", 2).run(mpi);
        let tables = finished.tables();
        let numbers = || (1..=300).filter(|number| number % 10 != 4);
        let expected: BTreeSet<String> =
            (1..=2).flat_map(|parent| numbers().map(move |n| format!("W_d{parent}_s{n}.0"))).collect();
        let made = created_by(tables, "MPI_Comm_split");
        assert_eq!(made.into_keys().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
        for comm in &expected {
            let bytes = if comm.starts_with("W_d1") { 100 } else { 200 };
            assert_calls(tables, comm, 1, &[("MPI_Bcast", 1, bytes), ("MPI_Comm_free", 1, 0)]);
        }
        finished.check();
    });
}

#[test]
fn failing_creations() {
    on_each_mpi(|mpi| {
        let finished = case("failing_creations", 2).run(mpi);
        for (rank, own) in [(0, "S_d1"), (1, "S_d3")] {
            for comm in ["W_d2", own] {
                let expected = [("MPI_Barrier", 1, 0), ("MPI_Comm_free", 1, 0)];
                assert_calls(finished.tables(), comm, rank, &expected);
            }
        }
    });
}

#[test]
fn freed_complete() {
    on_each_mpi(|mpi| {
        let finished = case("freed_complete", 2).run(mpi);
        assert_eq!(finished.tables().peer("W", 0, 1), [0, 0, 1, 4001]);
        assert_all_seen(finished.tables());
        finished.check();
    });
}

#[test]
fn many_copies() {
    on_each_mpi(|mpi| {
        let finished = case("many_copies", 16).run(mpi);
        assert_eq!(created_by(finished.tables(), "MPI_Comm_dup").len(), 50);
        assert_eq!(finished.tables().sum("W", "MPI_Comm_dup").calls, 50 * 16);
        assert_eq!(finished.tables().sum("W_d50", "MPI_Comm_free").calls, 16);
    });
}

#[test]
fn two_sessions() {
    on_each_mpi(|mpi| {
        if !has_sessions(mpi) {
            return;
        }
        let finished = case("two_sessions", 2).argument("nested").run(mpi);
        let made = created_by(finished.tables(), "MPI_Comm_create_from_group");
        let bytes: BTreeSet<u64> =
            made.into_keys().map(|comm| finished.tables().sum(comm, "MPI_Bcast").bytes).collect();
        assert_eq!(bytes, BTreeSet::from([100, 200]));
    });
}

/// Programs with sessions one after the other, or without a communicator, need not have a profile.
#[test]
fn two_sessions_without_a_profile() {
    on_each_mpi(|mpi| {
        if !has_sessions(mpi) {
            return;
        }
        for (argument, ranks) in [("threads", 1), ("threads", 1), ("threads", 1), ("again", 2)] {
            // MPICH 4.0 cannot begin again.
            if argument == "again" && mpi.name.starts_with("mpich-4.0") {
                continue;
            }
            let place = Place::new();
            let case = case("two_sessions", ranks).argument(argument);
            let plain = case.prepare(mpi, &place).plain();
            let profiled = case.prepare(mpi, &place).preloaded_in_vain(mpi);
            assert_eq!(sorted(&profiled.stdout), sorted(&plain.stdout), "{}", profiled.stderr);
            assert_eq!(place.left(), Vec::<PathBuf>::new(), "{argument}");
        }
    });
}

#[test]
fn idups_then_dups() {
    on_each_mpi(|mpi| {
        let finished = case("idups_then_dups", 4).run(mpi);
        assert_eq!(created_by(finished.tables(), "MPI_Comm_idup").len(), 5);
        for comm in ["W_d6", "W_d7", "W_d8"] {
            assert_eq!(finished.tables().sum(comm, "MPI_Allreduce").calls, 4);
        }
    });
}

#[test]
fn truncated() {
    on_each_mpi(|mpi| {
        let finished = case("truncated", 2).run(mpi);
        assert_eq!(finished.tables().peer("W", 1, 0)[..2], [1, 44]);
        assert_eq!(finished.tables().peer("W", 0, 1)[2], 1);
    });
}

#[test]
fn idup_in_callback() {
    on_each_mpi(|mpi| {
        let finished = case("idup_in_callback", 2).run(mpi);
        let tables = finished.tables();
        for rank in 0..2 {
            assert_eq!(tables.of_rank("W", "MPI_Comm_idup", rank).calls, 3);
            assert_eq!(tables.of_rank("W", "MPI_Barrier", rank).calls, 1);
        }
        assert_eq!(created_by(tables, "MPI_Comm_idup").len(), 0);
        assert!(tables.not_seen(NotSeen::UnknownCommunicator) > 0);
    });
}

#[test]
fn own_stderr() {
    on_each_mpi(|mpi| {
        for argument in ["closed", "data", "gone", "full"] {
            let finished = case("own_stderr", 2).argument(argument).run(mpi);
            assert_eq!((ranks(finished.tables()), finished.tables().run.complete), (vec![0, 1], true));
            assert_all_seen(finished.tables());
        }
    });
}

/// Writes to a pipe until it takes no more.
fn fill(pipe: &PipeWriter) {
    // SAFETY: the descriptor is open, and nobody else has it.
    let set = |flags: i32| unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, flags) };
    set(libc::O_NONBLOCK);
    while { pipe }.write(&[b'.'; 4096]).is_ok() {}
    set(0);
}

/// The profiler's own messages go to a pipe that nobody reads: one without a reader, and one that is full.
#[test]
fn stderr_without_a_reader() {
    on_each_mpi(|mpi| {
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
    });
}

#[test]
fn little_memory() {
    on_each_mpi(|mpi| {
        let finished = case("little_memory", 2).argument("waitall").run(mpi);
        assert_eq!(finished.tables().not_seen(NotSeen::NoRoom), 2 * 2);
        assert_eq!(finished.tables().sum("W", "MPI_Allreduce").calls, 2 * 50);
        let place = Place::new();
        let program = mpi.compile("hostile/little_memory");
        let plain = within(Duration::from_secs(60), mpi.launcher(2, &[]).arg(&program).arg("finalize"));
        if !plain.status.success() {
            eprintln!("{} is left out: it needs more memory in MPI_Finalize itself", mpi.name);
            return;
        }
        let mut command = place.command(mpi, 2);
        command.arg(program).arg("finalize");
        let output = within(Duration::from_secs(60), &mut command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("has no memory to write the profile"), "{said}");
        place.wait_for_ranks(&[]);
        place.recover(&["--output", "recovered"]);
        assert_eq!(place.tables("recovered.mpisee").sum("W", "MPI_Allreduce").calls, 2 * 50);
    });
}

#[test]
fn freed_beside() {
    on_each_mpi(|mpi| {
        let finished = case("freed_beside", 1).run(mpi);
        let tables = finished.tables();
        assert_eq!(tables.peer("S_d1", 0, 0), [100_000, 400_000, 100_000, 400_000]);
        assert_all_seen(tables);
    });
}

/// The delete function of an attribute ends in a jump to MPI.
#[test]
fn callback_tail() {
    on_each_mpi(|mpi| {
        let finished = Case { compiler: &["-O2"], ..case("callback_tail", 2) }.run(mpi);
        assert_eq!(finished.tables().not_seen(NotSeen::CallInCallback), 2 * 10);
        assert_eq!(finished.tables().of_rank("W", "MPI_Recv", 1).calls, 10);
        finished.check();
    });
}

/// Ranks that seem to be on several nodes, the last of which comes when the others have given up waiting for it.
#[test]
fn comes_late() {
    on_each_mpi(|mpi| {
        let place = Place::new();
        let own = "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; mkdir $rank; export MPISEE_SEGMENTS=$PWD/$rank; \
                   export OMPI_COMM_WORLD_LOCAL_SIZE=1 MPI_LOCALNRANKS=1; exec \"$@\"";
        let mut command = mpi.launcher(2, &[]);
        command.args(["sh", "-c", own, "own"]).arg(dist().join("bin/mpisee")).args(["--wait", "2"]);
        command.arg(mpi.compile("hostile/comes_late"));
        let ended = place.run_within(Duration::from_secs(60), &mut command);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(sorted(&ended.text()), ["rank 0 ok", "rank 1 ok"]);
        assert_eq!(ended.profiles(), ["comes_late-2.mpisee", "comes_late.mpisee"], "{}", ended.stderr);
        let barriers =
            ended.profiles().iter().map(|name| ended.tables(name).sum("W", "MPI_Barrier").calls).sum::<u64>();
        assert_eq!(barriers, 2);
    });
}

#[test]
fn no_room_in_files() {
    on_each_mpi(|mpi| {
        let finished = case("no_room_in_files", 2).run(mpi);
        let barriers = |rank| {
            let rows = finished.tables().calls.iter();
            rows.filter(|row| row.call == "MPI_Barrier" && row.rank == rank).map(|row| row.calls).sum::<u64>()
        };
        assert_eq!(barriers(1), 1 + 400 * 3);
        let is_lost = barriers(0) < barriers(1);
        assert_eq!(
            finished.tables().not_seen(NotSeen::LostCounts),
            u64::from(is_lost),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.tables().run.complete, !is_lost);
    });
}

#[test]
fn type_freed() {
    on_each_mpi(|mpi| {
        let finished = Case { compiler: &["-pthread"], ..case("type_freed", 2) }.run(mpi);
        assert_eq!(finished.tables().of_rank("W", "MPI_Ssend", 0).bytes, 20 * 400_000);
        assert_eq!(finished.tables().peer("W", 0, 1)[..2], [20 + 20, 20 * 400_000 + 20 * 4]);
        finished.check();
    });
}

#[test]
fn sessions_beyond() {
    on_each_mpi(|mpi| {
        if !has_sessions(mpi) {
            return;
        }
        for (argument, barriers, notes) in [("world", 5, 1), ("exit", 10, 0)] {
            let finished = case("sessions_beyond", 2).argument(argument).run(mpi);
            let made = created_by(finished.tables(), "MPI_Comm_create_from_group");
            let [comm] = &made.into_keys().collect::<Vec<_>>()[..] else { panic!("one is made") };
            assert_eq!(finished.tables().of_rank(comm, "MPI_Barrier", 0).calls, barriers, "{argument}");
            assert_eq!(finished.tables().run.notes.len(), notes, "{:?}", finished.tables().run.notes);
        }
    });
}
