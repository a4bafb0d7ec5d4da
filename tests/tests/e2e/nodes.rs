//! Programs on several nodes, played on this machine.

use crate::exact::{assert_all_seen, assert_calls, assert_peers};
use mpisee_tests::place::{Staying, until_arrived};
use mpisee_tests::signal::SIGKILL;
use mpisee_tests::{Cluster, LIMIT, Mpi, Place, Run, Tables, case, dist, through, within};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The node of each rank: two on each.
const HOSTS: [&str; 6] = ["n1", "n1", "n2", "n2", "n3", "n3"];

/// Asserts that the profile is that of `on_nodes` on 6 ranks of 3 nodes.
fn assert_counted(tables: &Tables) {
    assert_eq!((tables.run.ranks, tables.run.nodes, tables.run.complete), (6, 3, true));
    assert_eq!(tables.run.names_agree, Some(true));
    let hosts: Vec<(u32, &str)> = tables.ranks.iter().map(|row| (row.rank, row.host.as_str())).collect();
    assert_eq!(hosts, (0..).zip(HOSTS).collect::<Vec<_>>());
    let comms = [
        ("W", "0-5", "", 3),
        ("W_t1.0", "0-1", "node", 1),
        ("W_t1.2", "2-3", "node", 1),
        ("W_t1.4", "4-5", "node", 1),
        ("W_s2.0", "0,2,4", "across", 3),
        ("W_s2.1", "1,3,5", "across", 3),
    ];
    for (name, members, label, nodes) in comms {
        let row = tables.comm(name);
        let got = (row.members.to_string(), row.label.as_str(), row.nodes);
        assert_eq!(
            got,
            (members.to_owned(), if label.is_empty() { row.label.as_str() } else { label }, nodes)
        );
    }
    let mut peers = Vec::new();
    for rank in 0..6 {
        let (next, last) = ((rank + 1) % 6, (rank + 5) % 6);
        let ring = u64::from(1000 + rank + 1000 + last);
        let world = [("MPI_Comm_split_type", 1, 0), ("MPI_Comm_split", 1, 0), ("MPI_Sendrecv", 1, ring)];
        assert_calls(tables, "W", rank, &world);
        let node = format!("W_t1.{}", rank / 2 * 2);
        let message = if rank % 2 == 0 { "MPI_Send" } else { "MPI_Recv" };
        assert_calls(
            tables,
            &node,
            rank,
            &[("MPI_Allreduce", 1, 5003), (message, 1, 2017), ("MPI_Comm_free", 1, 0)],
        );
        let bytes = if rank < 2 { 0 } else { 3 * 4001 };
        assert_calls(
            tables,
            &format!("W_s2.{}", rank % 2),
            rank,
            &[("MPI_Bcast", 3, bytes), ("MPI_Comm_free", 1, 0)],
        );
        peers.push(("W".to_owned(), rank, next, [1, u64::from(1000 + rank), 0, 0]));
        peers.push(("W".to_owned(), rank, last, [0, 0, 1, u64::from(1000 + last)]));
        let one_way = if rank % 2 == 0 { [1, 2017, 0, 0] } else { [0, 0, 1, 2017] };
        peers.push((node, rank, rank ^ 1, one_way));
    }
    let peers: Vec<_> =
        peers.iter().map(|(comm, rank, peer, row)| (comm.as_str(), *rank, *peer, *row)).collect();
    assert_peers(tables, &peers);
    assert_all_seen(tables);
}

/// Asserts that no process has left a segment on any node.
fn assert_no_segments(cluster: &Cluster) {
    for host in cluster.names() {
        assert_eq!(cluster.files(&host, "/dev/shm", "mpisee-"), Vec::<PathBuf>::new(), "{host}");
    }
}

/// The answer of a command as rows of CSV, head and all.
fn rows(arguments: &[&str], profile: &Path) -> Vec<Vec<String>> {
    let profile = profile.display().to_string();
    let mut all = arguments.to_vec();
    all.extend([profile.as_str(), "--format", "csv"]);
    let output = through(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[case]
fn counts_are_those_of_one_node_and_the_tables_know_the_nodes(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    let finished = Run::new(mpi, "lifecycle/on_nodes").ranks(6).on(&cluster).profiled();
    let mut printed: Vec<&str> = finished.stdout.lines().collect();
    printed.sort_unstable();
    let expected: Vec<String> =
        (0..).zip(HOSTS).map(|(rank, host)| format!("rank {rank} is on {host}")).collect();
    assert_eq!(printed, expected);
    assert_counted(finished.tables());
    assert_eq!(finished.tables().run.profiler.collected, "tree");
    finished.check();
    assert_no_segments(&cluster);
    assert_locality(&finished.directory());
}

/// Asserts what `locality` says of what `on_nodes` has done.
fn assert_locality(profile: &Path) {
    // Pairs that are on one node; bytes of messages, of which those inside; volume of collectives.
    let inside = 1000 + 1002 + 1004;
    let all = inside + 1001 + 1003 + 1005;
    let expected = [
        ("W", 3.0 / 15.0, all, Some(f64::from(inside) / f64::from(all)), 0),
        ("W_s2.0", 0.0, 0, None, 2 * 3 * 4001),
        ("W_s2.1", 0.0, 0, None, 2 * 3 * 4001),
        ("W_t1.0", 1.0, 2017, Some(1.0), 2 * 5003),
        ("W_t1.2", 1.0, 2017, Some(1.0), 2 * 5003),
        ("W_t1.4", 1.0, 2017, Some(1.0), 2 * 5003),
    ];
    let share = |share: f64| format!("{share:.9}");
    let expected: Vec<[String; 5]> = expected
        .into_iter()
        .map(|(comm, pairs, bytes, inside, collective)| {
            let inside = inside.map(share).unwrap_or_default();
            [comm.to_owned(), share(pairs), bytes.to_string(), inside, collective.to_string()]
        })
        .collect();
    let mut got = Vec::new();
    let answer = rows(&["locality", "--all"], profile);
    let columns = ["comm", "pairs_inside", "p2p_bytes", "p2p_inside", "collective_bytes"];
    let places = columns.map(|name| answer[0].iter().position(|head| head == name).expect(name));
    got.extend(answer[1..].iter().map(|row| places.map(|place| row[place].clone())));
    got.sort();
    assert_eq!(got, expected);
}

/// MPICH before 4.2 over UCX hangs in its own `MPI_Finalize` where a rank enters it while others
/// still answer from outside: in most runs of this program, which has no messages of its own,
/// before ranks were silent after the profile's last message.
#[case]
fn ranks_that_have_sent_nothing_but_their_profile_leave_mpi(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(2) else { return };
    for _ in 0..4 {
        let finished = Run::new(mpi, "lifecycle/nothing").ranks(4).on(&cluster).profiled();
        let run = &finished.tables().run;
        assert_eq!((run.ranks, run.nodes, run.complete), (4, 2, true), "{}", mpi.name);
        assert_eq!(run.profiler.collected, "tree");
    }
}

#[case]
fn starter_of_ranks_on_a_node_is_no_rank_whatever_its_environment(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    let place = Place::on(&cluster);
    let mut command = mpi.launcher(6, &[]);
    cluster.launch(mpi, &mut command, 2);
    command.env("NODES_STEP", "7.0").arg(dist().join("bin/mpisee")).arg(mpi.compile("lifecycle/on_nodes"));
    let output = within(LIMIT, &mut cluster.on("login", command.current_dir(place.folder())));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_counted(&Tables::read(&place.path("on_nodes.mpisee"), &said));
    assert_no_segments(&cluster);
}

#[case]
fn segments_of_all_nodes_may_be_in_one_folder(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    let place = Place::on(&cluster);
    let folder = place.segments().display().to_string();
    let run = Run::new(mpi, "lifecycle/on_nodes").ranks(6).on(&cluster).options(&["--segments", &folder]);
    let finished = run.profiled();
    assert_counted(finished.check().tables());
    assert_eq!(finished.tables().run.profiler.collected, "tree");
    assert_eq!(place.left().len(), 0);
}

#[case]
fn rows_of_all_nodes_arrive_where_only_the_first_has_the_directory(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    let there = format!("/tmp/{}-first", mpi.name);
    cluster.run("n1", Command::new("mkdir").arg(&there));
    let output = format!("{there}/app.mpisee");
    let run = Run::new(mpi, "lifecycle/on_nodes").ranks(6).on(&cluster);
    let finished = run.preloaded_to(&output);
    assert!(finished.stderr.contains(&format!("profile of 6 ranks in {output}; ")), "{}", finished.stderr);
    for host in ["login", "n2", "n3"] {
        assert_eq!(
            cluster.files(host, "/tmp", &format!("{}-first", mpi.name)),
            Vec::<PathBuf>::new(),
            "{host}"
        );
    }
    let copy = finished.place.path("copy.mpisee");
    cluster.run("n1", Command::new("cp").arg("-r").arg(&output).arg(&copy));
    let tables = Tables::read(&copy, &finished.stderr);
    assert_eq!(tables.run.profiler.collected, "tree");
    assert_counted(&tables);
    assert_no_segments(&cluster);
}

#[case]
fn top_shows_the_ranks_of_its_node_and_counts_the_others(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    let place = Place::on(&cluster);
    let mut command = mpi.launcher(6, &[]);
    cluster.launch(mpi, &mut command, 2);
    command.arg(dist().join("bin/mpisee")).arg(mpi.compile("lifecycle/ends")).args(["stay", "-1", "1000"]);
    let mut command = cluster.on("login", command.current_dir(place.folder()));
    let mut launcher = Staying::start(&mut command);
    until_arrived(place.folder(), 6);
    for (host, ranks) in cluster.names().zip(["0-1", "2-3", "4-5"]) {
        let mut top = Command::new(dist().join("bin/mpisee-through"));
        let said = cluster.run(&host, top.args(["top", "--format", "json"]));
        let found: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
        let jobs = found["jobs"].as_array().expect("a list");
        assert_eq!(jobs.len(), 1, "{said}");
        assert_eq!((jobs[0]["ranks"].as_u64(), jobs[0]["ranks_here"].as_str()), (Some(6), Some(ranks)));
        let here: Vec<_> = jobs[0]["processes"].as_array().expect("a list").iter().collect();
        assert_eq!(here.len(), 2, "{said}");
    }
    let end = "for it in $(grep -lsx ends /proc/[0-9]*/comm); do kill -KILL $(echo $it | cut -d/ -f3); done
               rm /dev/shm/mpisee-*";
    for host in cluster.names() {
        cluster.run(&host, Command::new("sh").args(["-c", end]));
    }
    launcher.end(SIGKILL);
}

/// A run of `ends` on 6 ranks of which rank 2 is killed, in a folder that all nodes see; every
/// rank's segment is left on its node.
fn killed(cluster: &Cluster, mpi: &Mpi) -> Place {
    let place = Place::on(cluster);
    let mut command = mpi.launcher(6, &[]);
    cluster.launch(mpi, &mut command, 2);
    command.arg(dist().join("bin/mpisee")).arg(mpi.compile("lifecycle/ends")).args(["kill", "2", "1000"]);
    let output = within(LIMIT, &mut cluster.on("login", command.current_dir(place.folder())));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !said.contains("not so"), "{said}");
    for host in cluster.names() {
        // The launcher may be gone before its ranks are.
        let script = "while grep -qsx ends /proc/[0-9]*/comm; do sleep 0.02; done";
        cluster.run(&host, Command::new("sh").args(["-c", script]));
        assert_eq!(cluster.files(&host, "/dev/shm", "mpisee-").len(), 2, "{host}");
    }
    place
}

/// `mpisee-through recover` with these arguments.
fn recover(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    command.arg("recover").args(arguments).current_dir(folder);
    command
}

/// Asserts that the profile has what these ranks of `ends` had completed.
fn assert_ended(profile: &Path, ranks: &[u32], why: &str) {
    let tables = Tables::read(profile, "");
    assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), ranks);
    for &rank in ranks {
        assert_eq!(tables.ranks[(rank - ranks[0]) as usize].host, HOSTS[rank as usize]);
        let of = |comm: &str, call| {
            let sum = tables.of_rank(comm, call, rank);
            (sum.calls, sum.bytes)
        };
        assert_eq!(of("W", "MPI_Allreduce"), (1, 1013));
        assert_eq!(of("W", "MPI_Isend"), (1, u64::from(1100 + rank)));
        assert_eq!(of("W", "MPI_Irecv"), (1, u64::from(1100 + (rank + 5) % 6)));
        let bytes = if rank < 2 { 0 } else { 3 * 1029 };
        assert_eq!(of(&format!("W_s1.{}", rank % 2), "MPI_Bcast"), (3, bytes));
    }
    assert_eq!(tables.run.nodes as usize, ranks.len() / 2);
    assert_eq!(tables.run.incomplete_because.as_deref(), Some(why));
    assert_all_seen(&tables);
}

#[case]
fn segments_of_a_killed_job_are_recovered_per_node_and_together(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(3) else { return };
    let place = killed(&cluster, mpi);
    let folder = place.folder();
    let mut copies = Vec::new();
    for (host, ranks) in cluster.names().zip([[0, 1], [2, 3], [4, 5]]) {
        let name = format!("{host}.mpisee");
        let said = cluster.run(&host, &recover(&["-o", &name], folder));
        let there = format!("ranks {}-{}", ranks[0], ranks[1]);
        assert!(said.contains(&format!("incomplete profile of {there} of 6, ")), "{said}");
        let elsewhere = ["2-5", "0-1,4-5", "0-3"][ranks[0] as usize / 2];
        let why = format!("{there} ended without MPI_Finalize; ranks {elsewhere} left no segment here");
        assert_ended(&folder.join(name), &ranks, &why);
        copies.push(format!("shm.{host}"));
    }
    // By one process on each node, as docs/how-to/crashed-job.md has it.
    let mut command = mpi.launcher(3, &[]);
    cluster.launch(mpi, &mut command, 1);
    let script = "mkdir shm.$(hostname) && cp -p /dev/shm/mpisee-* shm.$(hostname)";
    cluster.run("login", command.args(["sh", "-c", script]).current_dir(folder));
    let copies: Vec<&str> = copies.iter().map(String::as_str).collect();
    assert_another_node_is_not_looked_at(&cluster, copies[0], folder);

    let all = folder.join("all");
    std::fs::create_dir(&all).expect("it is new");
    cluster.run("login", Command::new("sh").args(["-c", "cp -p shm.*/* all"]).current_dir(folder));
    let why = "ranks 0-5 ended without MPI_Finalize";
    for (directories, name) in [(copies.as_slice(), "of-three.mpisee"), (&["all"], "of-one.mpisee")] {
        let arguments = [directories, &["-o", name, "--clean"]].concat();
        let said = cluster.run("login", &recover(&arguments, folder));
        assert!(said.contains("incomplete profile of ranks 0-5 of 6, "), "{said}");
        assert_ended(&folder.join(name), &[0, 1, 2, 3, 4, 5], why);
        assert!(std::fs::read_dir(folder.join(directories[0])).expect("it is there").next().is_none());
    }
    for host in cluster.names() {
        cluster.run(&host, &recover(&["--clean"], folder));
    }
    assert_no_segments(&cluster);
}

/// Asserts that a segment of the first node is that of a process which ended, also on a node where
/// a process has its number.
fn assert_another_node_is_not_looked_at(cluster: &Cluster, copy: &str, folder: &Path) {
    let entry = std::fs::read_dir(folder.join(copy))
        .expect("it is there")
        .next()
        .expect("a segment")
        .expect("it can be listed");
    let name = entry.file_name().to_string_lossy().into_owned();
    let pid = name.split('-').nth(2).expect("the name tells the process").to_owned();
    // The next process gets the number that follows the last.
    let script =
        "while echo $(($0 - 1)) >/proc/sys/kernel/ns_last_pid; sleep 60 & [ $! != \"$0\" ]; do kill $!; done
        \"$@\"; code=$?; kill $!; exit $code";
    let mut command = Command::new("sh");
    command.args(["-c", script, &pid]);
    let recover = recover(&[copy, "-o", "other.mpisee"], folder);
    command.arg(recover.get_program()).args(recover.get_args()).current_dir(folder);
    let said = cluster.run("n2", &command);
    assert!(said.contains("incomplete profile of ranks 0-1 of 6, "), "{said}");
}
