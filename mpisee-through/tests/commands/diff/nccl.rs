//! `diff` of runs with communicators of NCCL.

use super::diff;
use crate::support::{Builder, Ran, runs};
use std::collections::BTreeMap;

/// Two communicators of NCCL of all ranks, and a part of the first, with other digests in each run.
fn nccl_run(digests: [&str; 2], time_s: f64) -> Builder {
    let [world, group] = digests.map(|digest| format!("N1-{digest}"));
    let part = format!("{world}_s2.5");
    let made = "ncclCommInitRank";
    Builder::new(2)
        .comm(&world, "", made, "0-1", |_| {})
        .comm(&group, "", made, "0-1", |_| {})
        .comm(&part, &world, "ncclCommSplit", "0-1", |_| {})
        .call(&world, 0, "ncclAllReduce", 2, 142, time_s)
        .call(&group, 0, "ncclAllGather", 2, 62, time_s)
        .call(&part, 0, "ncclBroadcast", 2, 14, time_s)
}

/// The communicator in B and the change of each operation, which is in both.
#[track_caller]
fn changes_of_nccl(ran: &Ran) -> BTreeMap<(String, String), (String, String)> {
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    let cells =
        |row: &BTreeMap<String, String>, [one, other]: [&str; 2]| (row[one].clone(), row[other].clone());
    rows.iter().map(|row| (cells(row, ["comm", "call"]), cells(row, ["comm_after", "time_change"]))).collect()
}

/// The changes of [`nccl_run`] from 1 s to `change` more.
fn expected_of_nccl(change: &str) -> BTreeMap<(String, String), (String, String)> {
    let rows = [
        ("N1-zzzzzzzz", "ncclAllReduce", "N1-00000000"),
        ("N1-aaaaaaaa", "ncclAllGather", "N1-bbbbbbbb"),
        ("N1-zzzzzzzz_s2.5", "ncclBroadcast", "N1-00000000_s2.5"),
    ];
    let row = |(comm, call, after): (&str, &str, &str)| {
        ((comm.to_owned(), call.to_owned()), (after.to_owned(), change.to_owned()))
    };
    rows.map(row).into()
}

#[test]
fn communicators_of_nccl_are_paired_though_each_run_has_other_ids() {
    let (before, after) = (nccl_run(["zzzzzzzz", "aaaaaaaa"], 1.0), nccl_run(["00000000", "bbbbbbbb"], 1.5));
    let ran = diff(&before, &after, &["--format", "csv"]);
    assert_eq!(changes_of_nccl(&ran), expected_of_nccl("0.500000000"));
}

#[test]
fn communicators_of_nccl_are_paired_in_sets() {
    let home =
        runs::write(&[nccl_run(["zzzzzzzz", "aaaaaaaa"], 1.0), nccl_run(["11111111", "gggggggg"], 1.0)]);
    let after = [nccl_run(["00000000", "bbbbbbbb"], 1.5), nccl_run(["33333333", "hhhhhhhh"], 1.5)];
    runs::add(&home, "after", &after);
    let ran = home.run(&["diff", "set", "after", "--format", "csv"]);
    assert_eq!(changes_of_nccl(&ran), expected_of_nccl("0.500000000"));
}
