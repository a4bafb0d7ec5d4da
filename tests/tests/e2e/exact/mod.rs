//! All rows of a rank on a communicator, for comparison as a whole.
#![allow(dead_code, reason = "each test file uses its part")]

use mpisee_tests::Tables;
use std::collections::BTreeMap;

/// Asserts that the rows of `rank` on `comm` are these calls, and no others: name, calls, bytes.
#[track_caller]
pub fn assert_calls(tables: &Tables, comm: &str, rank: u32, expected: &[(&str, u64, u64)]) {
    assert_calls_but(tables, comm, rank, &[], expected);
}

/// As [`assert_calls`], calls of certain names aside.
#[track_caller]
pub fn assert_calls_but(
    tables: &Tables,
    comm: &str,
    rank: u32,
    aside: &[&str],
    expected: &[(&str, u64, u64)],
) {
    let mut got: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in tables.calls.iter().filter(|row| row.comm == comm && row.rank == rank) {
        let sum = got.entry(&row.call).or_default();
        sum.0 += row.calls;
        sum.1 += row.bytes;
    }
    got.retain(|call, _| !aside.contains(call));
    let expected: BTreeMap<&str, (u64, u64)> =
        expected.iter().map(|&(call, calls, bytes)| (call, (calls, bytes))).collect();
    assert_eq!(got, expected, "left: got, right: expected, of rank {rank} on {comm}");
}

/// Asserts that the calls of `rank` to `call` on `comm` are in the size classes of these messages,
/// one each.
#[track_caller]
pub fn assert_classes(tables: &Tables, comm: &str, rank: u32, call: &str, messages: &[u64]) {
    let messages: Vec<[u64; 2]> = messages.iter().map(|&bytes| [bytes; 2]).collect();
    assert_in_classes(tables, comm, rank, call, &messages);
}

/// As [`assert_classes`], with the size of each message and the bytes that the call counts.
#[track_caller]
pub fn assert_in_classes(tables: &Tables, comm: &str, rank: u32, call: &str, messages: &[[u64; 2]]) {
    let mut expected: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for &[message, bytes] in messages {
        let least = if message == 0 { 0 } else { 1 << message.ilog2() };
        let sum = expected.entry(least).or_default();
        sum.0 += 1;
        sum.1 += bytes;
    }
    let mut got: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for row in tables.calls.iter() {
        if row.comm == comm && row.rank == rank && row.call == call {
            let sum = got.entry(row.size_min).or_default();
            sum.0 += row.calls;
            sum.1 += row.bytes;
        }
    }
    assert_eq!(got, expected, "left: got, right: expected, by class, of {call} by {rank} on {comm}");
}

/// Asserts that `peers.csv` has these rows and no others that are not zero: communicator, rank,
/// peer, then messages and bytes sent, messages and bytes received.
#[track_caller]
pub fn assert_peers(tables: &Tables, expected: &[(&str, u32, u32, [u64; 4])]) {
    let mut got: Vec<(&str, u32, u32, [u64; 4])> = tables
        .peers
        .iter()
        .map(|row| {
            let traffic = [row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes];
            (row.comm.as_str(), row.rank, row.peer, traffic)
        })
        .filter(|row| row.3 != [0; 4])
        .collect();
    let mut expected = expected.to_vec();
    got.sort_unstable();
    expected.sort_unstable();
    assert_eq!(got, expected, "left: got, right: expected");
}

/// Asserts that nothing happened that is in no table.
#[track_caller]
pub fn assert_all_seen(tables: &Tables) {
    assert_eq!(tables.run.not_seen, BTreeMap::new());
}

/// The number that a program printed after `word`.
#[track_caller]
pub fn printed(stdout: &str, word: &str) -> u64 {
    let mut lines = stdout.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok());
    lines.next().unwrap_or_else(|| panic!("{word} is not in\n{stdout}"))
}

/// The counts of `calls.csv` and `peers.csv`, without times: what must not depend on the MPI.
pub fn counts(tables: &Tables) -> Vec<String> {
    let calls = tables.calls.iter().map(|row| {
        format!(
            "{} {} {:?} {} {}..{} {:?}: {} calls, {} bytes",
            row.comm,
            row.rank,
            row.region,
            row.call,
            row.size_min,
            row.size_max,
            row.memory,
            row.calls,
            row.bytes
        )
    });
    let peers =
        tables.peers.iter().map(|row| format!("{} {} {}: {:?}", row.comm, row.rank, row.peer, row.counts()));
    let mut all: Vec<String> = calls.chain(peers).collect();
    all.sort_unstable();
    all
}
