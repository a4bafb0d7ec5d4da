//! The numbers of the summary against their definition, on random profiles.

use crate::support::Builder;
use mpisee_profile::rows::CallRow;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RANKS: u32 = 5;
const COMMS: [(&str, &str); 3] = [("W", "0-4"), ("W_s1.0", "0-2"), ("W_s1.3", "3,4")];
const CALLS: [&str; 3] = ["MPI_Allreduce", "MPI_Send", "MPI_Wait"];

/// Rows as a profile may have them: each rank on its communicators, several size classes each.
fn rows() -> impl Strategy<Value = Vec<(usize, usize, usize, u64, u64, u32)>> {
    proptest::collection::vec((0..3usize, 0..5usize, 0..3usize, 1..9u64, 0..5000u64, 0..4_000_000u32), 0..60)
}

fn members(comm: usize) -> Vec<u32> {
    [vec![0, 1, 2, 3, 4], vec![0, 1, 2], vec![3, 4]][comm].clone()
}

/// mean, min, max, sum of time; bytes, calls.
type Numbers = ([f64; 4], u64, u64);

/// Straight from the definition: a list of all members' times, with 0 for those without a row.
fn expected(rows: &[CallRow]) -> BTreeMap<(String, String), Numbers> {
    let keys: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.comm.clone(), row.call.clone())).collect();
    let numbers = |(comm, call): &(String, String)| {
        let of = |row: &&CallRow| row.comm == *comm && row.call == *call;
        let place = COMMS.iter().position(|(name, _)| name == comm).unwrap();
        let times: Vec<f64> = members(place)
            .iter()
            .map(|&rank| rows.iter().filter(of).filter(|row| row.rank == rank).map(|row| row.time_s.0).sum())
            .collect();
        let sum: f64 = times.iter().sum();
        let min = times.iter().copied().fold(f64::INFINITY, f64::min);
        let max = times.iter().copied().fold(0.0, f64::max);
        let bytes = rows.iter().filter(of).map(|row| row.bytes).sum();
        let calls = rows.iter().filter(of).map(|row| row.calls).sum();
        ([sum / times.len() as f64, min, max, sum], bytes, calls)
    };
    keys.into_iter().map(|key| (key.clone(), numbers(&key))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_summary_agrees_with_the_definition(rows in rows()) {
        let mut builder = Builder::new(RANKS);
        for (comm, members) in &COMMS[1..] {
            builder = builder.comm(comm, "W", "MPI_Comm_split", members, |_| {});
        }
        for (comm, rank, call, calls, bytes, micros) in rows {
            let members = members(comm);
            let rank = members[rank % members.len()];
            builder = builder.call(COMMS[comm].0, rank, CALLS[call], calls, bytes, f64::from(micros) * 1e-6);
        }
        for rank in &mut builder.ranks {
            rank.wall_s.0 = 1000.0;
        }
        let profile = builder.write();
        profile.run(&["check", "app.mpisee"]).exits(0);

        let ran = profile.run(&["app.mpisee", "--format", "csv"]);
        let mut found = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        for record in csv::Reader::from_reader(ran.exits(0).stdout.as_bytes()).records() {
            let record = record.unwrap();
            let time = |field: usize| record[field].parse::<f64>().unwrap();
            let count = |field: usize| record[field].parse::<u64>().unwrap();
            let key = (record[0].to_owned(), record[5].to_owned());
            if order.last() != Some(&key.0) {
                order.push(key.0.clone());
            }
            found.insert(key, ([time(6), time(7), time(8), time(9)], count(10), count(11)));
        }

        let expected = expected(&builder.calls);
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (key, (times, bytes, calls)) in &expected {
            let (found_times, found_bytes, found_calls) = &found[key];
            prop_assert_eq!((bytes, calls), (found_bytes, found_calls));
            for (left, right) in times.iter().zip(found_times) {
                prop_assert!((left - right).abs() < 1e-8, "{:?}: {:?} and {:?}", key, times, found_times);
            }
        }
        let total = |comm: &String| -> f64 {
            expected.iter().filter(|((name, _), _)| name == comm).map(|(_, (times, ..))| times[3]).sum()
        };
        prop_assert!(order.windows(2).all(|pair| total(&pair[0]) >= total(&pair[1]) - 1e-8), "{:?}", order);
    }

    #[test]
    fn check_finds_the_pairs_that_do_not_agree(
        rows in proptest::collection::vec((0..3usize, 0..5usize, 0..5usize, 0..3u64, 0..3u64), 0..40)
    ) {
        let mut builder = Builder::new(RANKS);
        for (comm, members) in &COMMS[1..] {
            builder = builder.comm(comm, "W", "MPI_Comm_split", members, |_| {});
        }
        // Sent and received apart, per communicator, sender and receiver.
        let mut sent: BTreeMap<(usize, u32, u32), u64> = BTreeMap::new();
        let mut received = sent.clone();
        for (comm, rank, peer, to, from) in rows {
            let members = members(comm);
            let (rank, peer) = (members[rank % members.len()], members[peer % members.len()]);
            builder = builder.peer(COMMS[comm].0, rank, peer, (to, 101 * to), (from, 101 * from));
            *sent.entry((comm, rank, peer)).or_default() += to;
            *received.entry((comm, peer, rank)).or_default() += from;
        }
        let pairs: BTreeSet<_> = sent.keys().chain(received.keys()).copied().collect();
        let differ = |pair: &&(usize, u32, u32)| sent.get(pair).unwrap_or(&0) != received.get(pair).unwrap_or(&0);
        let expected: Vec<String> = pairs
            .iter()
            .filter(differ)
            .map(|&(comm, from, to)| format!("on {}, rank {from} sent to rank {to} ", COMMS[comm].0))
            .collect();

        let ran = builder.write().run(&["check", "app.mpisee", "--format", "csv"]);
        ran.exits(i32::from(!expected.is_empty()));
        let mut found: Vec<String> = Vec::new();
        for record in csv::Reader::from_reader(ran.stdout.as_bytes()).records() {
            let record = record.unwrap();
            prop_assert_eq!(&record[0], "traffic");
            if record[2].contains(" sent to ") {
                found.push(record[2].to_owned());
            }
        }
        prop_assert_eq!(found.len(), expected.len(), "{:?} {:?}", found, expected);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!(found.starts_with(expected.as_str()), "{} {}", found, expected);
        }
    }

    #[test]
    fn the_tree_has_every_communicator_after_its_parent(
        parents in proptest::collection::vec(0..1000usize, 0..30),
        limit in 1..5usize
    ) {
        let mut builder = Builder::new(2);
        for (n, parent) in parents.into_iter().enumerate() {
            let parent = builder.comms[parent % builder.comms.len()].comm.clone();
            builder = builder.comm(&format!("{parent}_d{n}"), &parent, "MPI_Comm_dup", "0-1", |_| {});
        }
        // The tree is not to depend on the order of the rows.
        builder.comms.reverse();
        let profile = builder.write();
        let names = |arguments: &[&str]| -> Vec<(String, String)> {
            let ran = profile.run(&[&["comms", "app.mpisee", "--format", "csv"], arguments].concat());
            let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
            reader.records().map(Result::unwrap).map(|row| (row[0].to_owned(), row[1].to_owned())).collect()
        };
        let all = names(&[]);
        prop_assert_eq!(all.len(), builder.comms.len());
        let mut seen = BTreeSet::from([String::new()]);
        for (comm, parent) in &all {
            prop_assert!(seen.contains(parent), "{} before its parent", comm);
            prop_assert!(seen.insert(comm.clone()), "{} twice", comm);
        }
        // With a limit, a communicator stays if it and its ancestors are among the first of their
        // parents.
        let mut kept = BTreeSet::from([String::new()]);
        let mut children: BTreeMap<&str, usize> = BTreeMap::new();
        for (comm, parent) in &all {
            let rank = children.entry(parent).or_default();
            *rank += 1;
            if kept.contains(parent) && *rank <= limit {
                kept.insert(comm.clone());
            }
        }
        let limited = names(&["--top", &limit.to_string()]);
        prop_assert_eq!(limited.len() + 1, kept.len());
        prop_assert!(limited.iter().all(|(comm, _)| kept.contains(comm)));
    }
}
