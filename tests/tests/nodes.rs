//! Programs on several nodes, played on this machine.

mod exact;

use exact::{assert_all_seen, assert_calls, assert_peers};
use mpisee_tests::{Cluster, Run, Tables, on_each_mpi, through};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the ranks are: two on each node.
const HOSTS: [&str; 6] = ["n1", "n1", "n2", "n2", "n3", "n3"];

/// Asserts that the profile is that of `on_nodes` on 6 ranks of 3 nodes.
fn assert_counted(tables: &Tables) {
    assert_eq!((tables.run.ranks, tables.run.nodes, tables.run.complete), (6, 3, true));
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
    all.extend([profile.as_str(), "--output", "csv"]);
    let output = through(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn counts_are_those_of_one_node_and_the_tables_know_the_nodes() {
    let Some(cluster) = Cluster::begin(3) else { return };
    on_each_mpi(|mpi| {
        let finished = Run::new(mpi, "on_nodes").ranks(6).on(&cluster).profiled();
        let mut printed: Vec<&str> = finished.stdout.lines().collect();
        printed.sort_unstable();
        let expected: Vec<String> =
            (0..).zip(HOSTS).map(|(rank, host)| format!("rank {rank} is on {host}")).collect();
        assert_eq!(printed, expected);
        assert_counted(finished.tables());
        finished.check();
        assert_no_segments(&cluster);
        assert_locality(&finished.directory());
    });
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

#[test]
fn rows_of_all_nodes_arrive_where_only_the_first_has_the_directory() {
    let Some(cluster) = Cluster::begin(3) else { return };
    on_each_mpi(|mpi| {
        let there = format!("/tmp/{}", mpi.name);
        cluster.run("n1", Command::new("mkdir").arg(&there));
        let output = format!("{there}/app.mpisee");
        let run = Run::new(mpi, "on_nodes").ranks(6).on(&cluster);
        let finished = run.preloaded_to(&output);
        assert!(
            finished.stderr.contains(&format!("profile of 6 ranks in {output}; ")),
            "{}",
            finished.stderr
        );
        for host in ["login", "n2", "n3"] {
            assert_eq!(cluster.files(host, "/tmp", &mpi.name), Vec::<PathBuf>::new(), "{host}");
        }
        let copy = finished.folder.path().join("copy.mpisee");
        cluster.run("n1", Command::new("cp").arg("-r").arg(&output).arg(&copy));
        assert_counted(&Tables::read(&copy, &finished.stderr));
        assert_no_segments(&cluster);
    });
}
