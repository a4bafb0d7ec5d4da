//! Communicators of whose members no process keeps a list: the profile says the same as with lists.

use crate::exact::assert_all_seen;
use crate::sums::assert_sums_of;
use mpisee_profile::rows::CommRow;
use mpisee_profile::segment::owner_of;
use mpisee_tests::place::{Staying, until};
use mpisee_tests::signal::SIGTERM;
use mpisee_tests::{LIMIT, Mpi, Place, Run, Tables, case, dist, through, within};
use serde_json::Value;

const RANKS: u32 = 8;
/// Every list has at least one run, so that this keeps those of ranks at one distance.
const NO_LISTS: (&str, &str) = ("MPISEE_LISTED", "1");

/// Counts, with the communicators; times differ from run to run.
fn said(tables: &Tables) -> (Vec<String>, Vec<String>, Vec<String>) {
    let comm = |row: &CommRow| {
        let CommRow { comm, parent, created_by, size, count, members, label, nodes, freed, .. } = row;
        format!("{comm} {parent} {created_by} {size} {count} {members} {label} {nodes} {freed}")
    };
    let mut comms: Vec<String> = tables.comms.iter().map(comm).collect();
    let mut calls: Vec<String> = tables
        .calls
        .iter()
        .map(|row| {
            format!("{} {} {} {} {} {}", row.comm, row.rank, row.call, row.size_min, row.calls, row.bytes)
        })
        .collect();
    let mut peers: Vec<String> = tables
        .peers
        .iter()
        .map(|row| format!("{} {} {} {:?}", row.comm, row.rank, row.peer, row.counts()))
        .collect();
    [&mut comms, &mut calls, &mut peers].into_iter().for_each(|rows| rows.sort());
    (comms, calls, peers)
}

fn run<'m>(mpi: &'m Mpi, variables: &[(&str, &str)]) -> Run<'m> {
    let run = Run::new(mpi, "communicators/without_order").ranks(RANKS);
    variables.iter().fold(run, |run, (name, value)| run.variable(name, value))
}

#[case]
fn without_lists_the_profile_says_the_same(mpi: &Mpi) {
    // With rows of their own, with like ones in one row, and where all are taken for ones of
    // changing members.
    for alike in ["1000", "2", "1"] {
        let alike = ("MPISEE_ALIKE", alike);
        let [listed, unlisted] =
            [&[alike][..], &[alike, NO_LISTS]].map(|variables| run(mpi, variables).preloaded());
        listed.check();
        unlisted.check();
        let (listed, unlisted) = (listed.tables(), unlisted.tables());
        assert_all_seen(unlisted);
        assert_eq!(said(unlisted), said(listed), "{alike:?}");
        let shuffled = unlisted.comm("W_s1.0");
        assert_eq!((shuffled.size, shuffled.members.to_string().as_str()), (8, "0-7"));
        // The order of the keys is 3 5 1 7 6 0 4 2; rank 2 is the last one, with a message of 64 *
        // 8 + 2 * 8 + 7 bytes.
        assert_eq!(unlisted.peer("W_s1.0", 3, 2), [1, 512 + 24 + 7, 1, 512 + 16]);
    }
}

#[case]
fn sums_over_ranks_have_every_member(mpi: &Mpi) {
    let [rows, sums] =
        ["8", "3"].map(|fold| run(mpi, &[("MPISEE_FOLD", fold), ("MPISEE_ALIKE", "2"), NO_LISTS]));
    let [rows, sums] = [rows, sums].map(|run| run.preloaded_to("test.mpisee"));
    rows.check();
    sums.check();
    assert_sums_of(&rows.directory(), &sums.directory());
}

#[case]
fn of_a_killed_run_those_are_members_that_left_a_segment_and_the_others_are_counted(mpi: &Mpi) {
    let place = Place::new();
    let mut command = mpi.launcher(RANKS, &[(NO_LISTS.0.to_owned(), NO_LISTS.1.to_owned())]);
    command.arg(dist().join("bin/mpisee")).arg("--segments").arg(place.segments());
    command.arg(mpi.compile("communicators/without_order")).arg("kill").current_dir(place.path("."));
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    let recover = |name: &str, options: &[&str]| {
        place.recover(&[&["--output", name], options].concat());
        let output = through(&["check", &place.path(name).display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !said.contains("DIFFERS"), "{said}");
    };
    recover("all.mpisee", &[]);
    recover("all_sums.mpisee", &["--fold", "3"]);
    assert_sums_of(&place.path("all.mpisee"), &place.path("all_sums.mpisee"));
    let all = place.tables("all.mpisee");
    assert_eq!(all.comm("W_s1.0").members.to_string(), "0-7");
    let peers = |tables: &Tables, rank: u32| said_of(tables, rank);
    let whole = peers(&all, 5);
    assert!(whole.len() >= 3 * 8, "{whole:?}");

    // Rank 3 is the first in the shuffled order: without it, and the smallest, others still say who
    // they are.
    for path in place.left() {
        let name = path.file_name().expect("it is a file").to_string_lossy();
        let (_, pid) = owner_of(&name).expect("it is a segment's name");
        let rank = all.ranks.iter().find(|row| row.pid == pid);
        if rank.is_some_and(|row| [1, 3, 6].contains(&row.rank)) {
            std::fs::remove_file(path).expect("it is there");
        }
    }
    recover("some.mpisee", &[]);
    recover("some_sums.mpisee", &["--fold", "3"]);
    let some = place.tables("some.mpisee");
    assert_eq!(some.ranks.len(), 5);
    let shuffled = some.comm("W_s1.0");
    // The first and the smallest are known to all.
    assert_eq!((shuffled.members.to_string().as_str(), shuffled.size), ("0,2-5,7~2", 8));
    assert_eq!(peers(&some, 5), whole);
}

#[case]
fn missing_ranks_are_named_as_far_as_the_node_has_them(mpi: &Mpi) {
    let place = Place::new();
    let mut command = mpi.launcher(RANKS, &[(NO_LISTS.0.to_owned(), NO_LISTS.1.to_owned())]);
    command.arg(dist().join("bin/mpisee")).arg("--segments").arg(place.segments());
    command.arg(mpi.compile("communicators/without_order")).arg("wait").current_dir(place.path("."));
    let mut staying = Staying::start(&mut command);
    let mut job = Value::Null;
    let look = |job: &mut Value| {
        let arguments = ["top", "--interval", "100ms", "--hang", "300ms", "--format", "json"];
        let output = place.through(&arguments);
        *job = serde_json::from_slice::<Value>(&output.stdout)
            .map_or(Value::Null, |mut all| all["jobs"][0].take());
    };
    until("the hang is seen", || {
        look(&mut job);
        job["waiting"][0]["inside"] == "0-2,4-7"
    });
    let hang = &job["waiting"][0];
    assert_eq!((hang["comm"].as_str(), hang["elided"].as_u64()), (Some("W_s1.0"), Some(0)));
    assert_eq!(hang["missing"][0]["ranks"], "3");

    // Two that others do not have by rank are on another node.
    let pid = |rank: usize| job["processes"][rank]["pid"].as_u64();
    let elsewhere = [pid(1), pid(6)];
    for path in place.left() {
        let owner = path.file_name().and_then(|name| owner_of(name.to_str()?)).map(|(_, pid)| u64::from(pid));
        if owner.is_some() && elsewhere.contains(&owner) {
            std::fs::remove_file(path).expect("it is there");
        }
    }
    // A segment that its rank changes while it is read is skipped, and read in the next look.
    until("all six are read in one look", || {
        look(&mut job);
        job["processes"].as_array().is_some_and(|processes| processes.len() == 6)
    });
    let hang = &job["waiting"][0];
    assert_eq!((hang["inside"].as_str(), hang["elided"].as_u64()), (Some("0,2,4-5,7"), Some(2)), "{job}");
    assert_eq!(hang["missing"][0]["ranks"], "3", "{job}");
    staying.end(SIGTERM);
    place.wait_for_ranks(&[]);
}

/// The messages of a rank.
fn said_of(tables: &Tables, rank: u32) -> Vec<String> {
    let of_rank = tables.peers.iter().filter(|row| row.rank == rank);
    let mut rows: Vec<String> = of_rank
        .map(|row| format!("{} {} {} {}", row.comm, row.peer, row.sent_bytes, row.received_bytes))
        .collect();
    rows.sort();
    rows
}
