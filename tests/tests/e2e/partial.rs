//! Worlds of which only some ranks have the profiler: the program runs as without it, ends, and
//! what those ranks counted is in the profile.

use crate::exact::{assert_all_seen, assert_calls};
use mpisee_tests::place::{Staying, said, until};
use mpisee_tests::signal::SIGKILL;
use mpisee_tests::{Cluster, LIMIT, Mpi, Place, Run, Tables, case, dist, through, within};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A script around each rank: rank 0 alone gets the profiler.
const FIRST_ALONE: &str = "if [ \"${PMIX_RANK-$PMI_RANK}\" = 0 ]; then exec \"$0\" \"$@\"; fi
while [ \"${1#-}\" != \"$1\" ]; do shift 2; done
exec \"$@\"";

/// The lines that the program prints, in order.
fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Runs the command in a folder, with success, and asserts that the program prints what it prints
/// without the profiler. Returns what the profiler said.
#[track_caller]
fn run_as_plain(command: &mut Command, folder: &Path, size: i32) -> Vec<String> {
    let output = within(LIMIT, command.current_dir(folder).stdin(Stdio::null()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let of = |those: &dyn Fn(i32) -> bool, each: &dyn Fn(i32) -> i32| -> i32 {
        (0..size).filter(|&rank| those(rank)).map(each).sum()
    };
    let expected: Vec<String> = (0..size)
        .map(|rank| {
            let half = of(&|other| other % 2 == rank % 2, &|other| 1 << other);
            let copy = of(&|_| true, &|other| 100 << other);
            let pair = of(&|other| other / 2 == rank / 2, &|other| 10000 << other);
            let all = of(&|_| true, &|other| 7 + other);
            format!("rank {rank}: {half} {copy} {pair} {all}")
        })
        .collect();
    assert_eq!(lines(&output), expected, "{stderr}");
    said(&stderr).into_iter().map(str::to_owned).collect()
}

/// Asserts that the profile has what `partial` did on these ranks of 4 on one node, all of it.
#[track_caller]
fn assert_counted(tables: &Tables, ranks: &[u32]) {
    let rows: Vec<u32> = tables.ranks.iter().map(|row| row.rank).collect();
    assert_eq!(rows, ranks);
    assert_eq!((tables.run.ranks, tables.run.nodes, tables.run.complete), (4, 1, false));
    for &rank in ranks {
        let last = (rank + 3) % 4;
        let world = [
            ("MPI_Comm_split", 2, 0),
            ("MPI_Comm_idup", 1, 0),
            ("MPI_Wait", 1, 0),
            ("MPI_Sendrecv", 1, u64::from(1000 + rank + 1000 + last)),
            ("MPI_Allreduce", 1, 4),
        ];
        assert_calls(tables, "W", rank, &world);
        let bytes = if rank < 2 { 0 } else { 4001 + 4002 + 4003 };
        let half = [("MPI_Allreduce", 1, 4), ("MPI_Bcast", 3, bytes), ("MPI_Comm_free", 1, 0)];
        assert_calls(tables, &format!("W_s1.{}", rank % 2), rank, &half);
        assert_calls(tables, "W_i2", rank, &[("MPI_Allreduce", 1, 4), ("MPI_Comm_free", 1, 0)]);
        let pair = format!("W_s3.{}", rank / 2 * 2);
        assert_calls(tables, &pair, rank, &[("MPI_Comm_dup", 1, 0), ("MPI_Comm_free", 1, 0)]);
        let copy = format!("{pair}_d1");
        assert_calls(tables, &copy, rank, &[("MPI_Allreduce", 1, 4), ("MPI_Comm_free", 1, 0)]);
        assert_eq!(tables.peer("W", rank, (rank + 1) % 4)[..2], [1, u64::from(1000 + rank)]);
        assert_eq!(tables.peer("W", rank, last)[2..], [1, u64::from(1000 + last)]);
    }
    assert_all_seen(tables);
}

/// Asserts that nothing is wrong with a profile that says why it is incomplete.
#[track_caller]
fn assert_readable(profile: &Path, why: &str) {
    for command in ["check", "summary"] {
        let output = through(&[command, &profile.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("The profile is incomplete: {why}.")), "{said}");
    }
}

/// Asserts that one line says which ranks are in the profile, and why the others are not.
#[track_caller]
fn assert_said(said: &[String], ranks: &str, why: &str) {
    let begin = format!("mpisee: profile of {ranks} ({why}) in test.mpisee; read it with: ");
    assert!(said.len() == 1 && said[0].starts_with(&begin), "{said:?}");
}

/// The command that profiles a program.
fn profiler(command: &mut Command) -> &mut Command {
    command.arg(dist().join("bin/mpisee")).args(["--output", "test.mpisee"])
}

#[case]
fn a_part_of_the_run_is_profiled(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/partial");
    // The part with rank 0, and the other.
    for (ranks, others) in [([0, 1], "2-3"), ([2, 3], "0-1")] {
        let place = Place::new();
        let mut command = mpi.launcher(2, &[]);
        if ranks[0] == 0 {
            profiler(&mut command).arg(&program).args([":", "-n", "2"]).arg(&program);
        } else {
            profiler(command.arg(&program).args([":", "-n", "2"])).arg(&program);
        }
        let said = run_as_plain(&mut command, place.folder(), 4);
        let why = format!("ranks {others} ran without an active profiler, or in another container");
        assert_said(&said, "2 ranks of 4", &why);
        let profile = place.path("test.mpisee");
        let tables = Tables::read(&profile, "");
        assert_counted(&tables, &ranks);
        assert_eq!(tables.run.profiler.collected, "node");
        assert_readable(&profile, &why);
    }
}

#[case]
fn a_script_profiles_the_first_rank_alone(mpi: &Mpi) {
    let place = Place::new();
    let mut command = mpi.launcher(4, &[]);
    profiler(command.args(["sh", "-c", FIRST_ALONE])).arg(mpi.compile("lifecycle/partial"));
    let said = run_as_plain(&mut command, place.folder(), 4);
    assert_said(&said, "1 rank of 4", "ranks 1-3 ran without an active profiler, or in another container");
    let profile = place.path("test.mpisee");
    assert_counted(&Tables::read(&profile, ""), &[0]);
    assert_readable(&profile, "ranks 1-3 ran without an active profiler, or in another container");
}

#[case]
fn scripts_that_stay_around_all_ranks_leave_out_none(mpi: &Mpi) {
    // The shells have the library, too, and do not use MPI; what follows the program keeps them
    // from becoming it.
    let place = Place::new();
    let preload = [("LD_PRELOAD".to_owned(), mpi.library().display().to_string())];
    let mut command = mpi.launcher(4, &preload);
    command.args(["sh", "-c", "\"$@\"; code=$?; exit $code", "script"]).arg(mpi.compile("lifecycle/partial"));
    let said = run_as_plain(&mut command, place.folder(), 4);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(Tables::read(&place.path("partial.mpisee"), "").run.complete);
}

#[case]
fn rank_variable_of_the_launcher_itself_leaves_out_no_rank(mpi: &Mpi) {
    let place = Place::new();
    let mut command = mpi.launcher(4, &[]);
    // A launcher in a step of Slurm with PMI-2, which its ranks inherit, too.
    command.env("PMI_RANK", "0").env("PMI_JOBID", "7.0");
    profiler(&mut command).arg(mpi.compile("lifecycle/partial"));
    let said = run_as_plain(&mut command, place.folder(), 4);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(Tables::read(&place.path("test.mpisee"), "").run.complete);
}

/// A script around each rank: odd ones are in a container, from which no processes outside are
/// seen.
const ODD_APART: &str = "case ${PMIX_RANK-$PMI_RANK} in
    1 | 3) exec unshare --user --map-root-user --pid --fork --mount-proc \"$0\" \"$@\" ;;
    *) exec \"$0\" \"$@\" ;;
esac";

#[case]
fn ranks_in_containers_and_outside_meet_by_messages(mpi: &Mpi) {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"]);
    if !unshare.output().is_ok_and(|output| output.status.success()) {
        mpisee_tests::harness::leave_out("no namespaces can be made here");
        return;
    }
    if mpi.is_left_out(&["mpich-5", "mpiabi"], "it reads memory of processes in containers in vain") {
        return;
    }
    let place = Place::new();
    let mut command = mpi.launcher(4, &[]);
    // Shared memory needs one numbering of processes.
    command.env("OMPI_MCA_btl", "tcp,self").env("UCX_TLS", "tcp,self");
    profiler(command.args(["sh", "-c", ODD_APART])).arg(mpi.compile("lifecycle/partial"));
    let said = run_as_plain(&mut command, place.folder(), 4);
    assert_eq!(said.len(), 1, "{said:?}");
    let run = Tables::read(&place.path("test.mpisee"), "").run;
    assert!(run.complete);
    assert_eq!((run.profiler.collected.as_str(), run.names_agree), ("tree", Some(true)));
}

/// Returns whether the MPI cannot run the program on several nodes.
fn is_for_one_node(mpi: &Mpi) -> bool {
    mpi.is_left_out(&["mpich-5", "mpiabi"], "it does not get through between nodes that are played")
}

/// A command of 6 ranks on the nodes, on which those that `is_profiled` in the shell says get the
/// profiler.
fn on_nodes(cluster: &Cluster, mpi: &Mpi, is_profiled: &str) -> Command {
    let mut command = mpi.launcher(6, &[]);
    cluster.launch(mpi, &mut command, 2);
    // UCX warns, on stdout, of an operation that not all ranks came to.
    command.env("UCX_LOG_LEVEL", "error");
    let script = FIRST_ALONE.replace("[ \"${PMIX_RANK-$PMI_RANK}\" = 0 ]", is_profiled);
    profiler(command.args(["sh", "-c", &script])).arg(mpi.compile("lifecycle/partial"));
    command
}

#[case]
fn on_several_nodes_a_script_profiles_the_first_rank_alone(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    if is_for_one_node(mpi) {
        return;
    }
    let place = Place::on(&cluster);
    let mut command = on_nodes(&cluster, mpi, "[ \"${PMIX_RANK-$PMI_RANK}\" = 0 ]");
    command.current_dir(place.folder());
    let said = run_as_plain(&mut cluster.on("login", &command), place.folder(), 6);
    // One rank of its node lacks it, so that rank 0 does not wait for those of other nodes.
    let why = "ranks 1-5 ran without an active profiler, on other nodes, or in another container";
    assert_said(&said, "1 rank of 6", why);
    let tables = Tables::read(&place.path("test.mpisee"), "");
    assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), [0]);
    assert_readable(&place.path("test.mpisee"), why);
}

#[case]
fn where_one_node_has_the_profiler_that_is_said_and_an_option_helps(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    if is_for_one_node(mpi) {
        return;
    }
    let place = Place::on(&cluster);
    let mut command = on_nodes(&cluster, mpi, "[ $(hostname) = n1 ]");
    command.current_dir(place.folder());
    // Without the option the ranks of this node wait for those of the others, and one of them says
    // so.
    let file = place.path("said");
    let mut entered = cluster.on("login", &command);
    entered.stdout(Stdio::null()).stderr(std::fs::File::create(&file).expect("the folder can be written"));
    let mut waiting = Staying(entered.spawn().expect("nsenter starts"));
    let said = || std::fs::read_to_string(&file).expect("it can be read");
    let sentence = "rank 0 has waited in MPI_Finalize for 30 s: not all ranks have come; ";
    until("a rank that waits long says so", || said().contains(sentence));
    waiting.end(SIGKILL);

    let mut command = on_nodes(&cluster, mpi, "export MPISEE_WAIT=3; [ $(hostname) = n1 ]");
    command.current_dir(place.folder());
    let said = run_as_plain(&mut cluster.on("login", &command), place.folder(), 6);
    assert_said(&said, "2 ranks of 6", "ranks 2-5 ran on other nodes");
    let profile = place.path("test.mpisee");
    let tables = Tables::read(&profile, "");
    assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), [0, 1]);
    assert_readable(&profile, "ranks 2-5 ran on other nodes");
}

#[case]
fn each_node_writes_a_profile_where_the_ranks_do_not_meet(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    if is_for_one_node(mpi) {
        return;
    }
    // The last rank lacks it, so that those of other nodes wait for it in vain, or not at all.
    for wait in [3, 0] {
        let place = Place::on(&cluster);
        let is_profiled = format!("export MPISEE_WAIT={wait}; [ \"${{PMIX_RANK-$PMI_RANK}}\" != 5 ]");
        let mut command = on_nodes(&cluster, mpi, &is_profiled);
        command.current_dir(place.folder());
        let said = run_as_plain(&mut cluster.on("login", &command), place.folder(), 6);
        assert_eq!(said.len(), 3, "{wait}: {said:?}");
        let mut seen = Vec::new();
        for name in ["test.mpisee", "test-2.mpisee", "test-3.mpisee"] {
            let profile = place.path(name);
            let tables = Tables::read(&profile, "");
            let ranks: Vec<u32> = tables.ranks.iter().map(|row| row.rank).collect();
            assert_eq!((tables.run.ranks, tables.run.nodes, tables.run.complete), (6, 1, false));
            assert_eq!((tables.run.profiler.collected.as_str(), tables.run.names_agree), ("node", None));
            let why = match ranks[0] {
                0 => "ranks 2-5 ran on other nodes",
                2 => "ranks 0-1,4-5 ran on other nodes",
                _ => "ranks 0-3,5 ran without an active profiler, on other nodes, or in another container",
            };
            assert_readable(&profile, why);
            seen.extend(ranks);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
}

#[case]
fn a_wait_of_0_makes_a_profile_of_each_node_at_once(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    if is_for_one_node(mpi) {
        return;
    }
    let run = Run::new(mpi, "lifecycle/partial").ranks(6).on(&cluster).options(&["--wait", "0"]);
    let finished = run.profiled();
    let mut seen = Vec::new();
    for name in ["test.mpisee", "test-2.mpisee", "test-3.mpisee"] {
        let tables = Tables::read(&finished.place.path(name), &finished.stderr);
        seen.extend(tables.ranks.iter().map(|row| row.rank));
        assert_eq!((tables.ranks.len(), tables.run.nodes), (2, 1));
        assert_eq!((tables.run.profiler.collected.as_str(), tables.run.complete), ("node", false));
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
}
