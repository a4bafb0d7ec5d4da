//! The numbers of `ops`, `ranks`, `sizes`, `regions`, `efficiency` and `locality` against their
//! definitions, on random profiles.

use crate::support::{Builder, Written};
use mpisee_profile::rows::CallRow;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RANKS: u32 = 6;
const COMMS: [(&str, &str); 4] = [("W", "0-5"), ("W_s1.0", "0-2"), ("W_s1.3", "3-5"), ("W_s2.1", "1,4")];
const CALLS: [&str; 4] = ["MPI_Allreduce", "MPI_Send", "MPI_Waitall", "MPI_New"];
const REGIONS: [&str; 4] = ["", "a", "a/b", "ab"];

/// A row of calls.csv in small numbers: communicator, rank, operation, region, calls, bytes,
/// microseconds.
type Small = (usize, usize, usize, usize, u64, u64, u32);

fn rows() -> impl Strategy<Value = Vec<Small>> {
    let row = (0..4usize, 0..6usize, 0..4usize, 0..4usize, 1..9u64, 0..500u64, 0..900_000u32);
    proptest::collection::vec(row, 0..70)
}

fn built(rows: &[Small], walls: &[u32]) -> Builder {
    let mut builder = Builder::new(RANKS).with(|profile| {
        for row in &mut profile.ranks {
            row.host = format!("n{}", row.rank / 2);
            row.wall_s.0 = 100.0 + f64::from(walls[row.rank as usize]) / 1e3;
        }
    });
    for (comm, members) in &COMMS[1..] {
        builder = builder.comm(comm, "W", "MPI_Comm_split", members, |row| row.nodes = 2);
    }
    for &(comm, rank, call, region, calls, bytes, micros) in rows {
        let members = builder.comms[comm].members.group.iter().collect::<Vec<_>>();
        let rank = members[rank % members.len()];
        let time_s = f64::from(micros) * 1e-6;
        builder = builder.call_with(COMMS[comm].0, rank, CALLS[call], calls, bytes, time_s, |row| {
            row.region = REGIONS[region].to_owned();
        });
    }
    for (rank, wall) in (0..RANKS).zip(walls) {
        let wall_s = 1.0 + f64::from(*wall) / 1e3;
        builder = builder.region("a", rank, 2, wall_s, wall_s / 2.0);
    }
    builder
}

/// The rows of a CSV output, by the columns named.
fn table(profile: &Written, arguments: &[&str]) -> Vec<BTreeMap<String, String>> {
    let ran = profile.run(&[arguments, &["--format", "csv"]].concat());
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} in {row:?}"))
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-8
}

fn sum(rows: &[CallRow], of: impl Fn(&&CallRow) -> bool) -> (u64, u64, f64) {
    rows.iter().filter(of).fold((0, 0, 0.0), |(calls, bytes, time_s), row| {
        (calls + row.calls, bytes + row.bytes, time_s + row.time_s.0)
    })
}

/// Calls, bytes and time in a row of output.
fn sums(row: &BTreeMap<String, String>, time: &str) -> (u64, u64, f64) {
    (row["calls"].parse().unwrap(), row["bytes"].parse().unwrap(), number(row, time))
}

fn same(left: (u64, u64, f64), right: (u64, u64, f64)) -> bool {
    left.0 == right.0 && left.1 == right.1 && near(left.2, right.2)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_agree_with_their_definitions(
        small in rows(),
        walls in proptest::collection::vec(0..5000u32, 6)
    ) {
        let builder = built(&small, &walls);
        let (profile, rows) = (builder.write(), &builder.calls);
        let of_rank = |rank: u32| sum(rows, |row| row.rank == rank).2;

        let found = table(&profile, &["ops", "app.mpisee"]);
        let calls: BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        prop_assert_eq!(found.len(), calls.len());
        for row in &found {
            let of = |line: &&CallRow| line.call == row["call"];
            let expected = sum(rows, of);
            let times: Vec<f64> =
                (0..RANKS).map(|rank| sum(rows, |line| of(line) && line.rank == rank).2).collect();
            let found = sums(row, "mean_s");
            prop_assert!(found.0 == expected.0 && found.1 == expected.1 && near(found.2, expected.2 / 6.0));
            prop_assert!(near(number(row, "max_s"), times.iter().copied().fold(0.0, f64::max)));
            prop_assert!(near(number(row, "min_s"), times.iter().copied().fold(f64::INFINITY, f64::min)));
            let all = sum(rows, |_| true).2;
            if all > 0.0 {
                prop_assert!(near(number(row, "share_of_mpi"), expected.2 / all));
            } else {
                // A share of nothing is undefined.
                prop_assert_eq!(row["share_of_mpi"].as_str(), "");
            }
            let comms: BTreeSet<&str> = rows.iter().filter(of).map(|line| line.comm.as_str()).collect();
            prop_assert_eq!(number(row, "comms"), comms.len() as f64);
            let longest = rows.iter().filter(of).map(|line| line.max_s.0).fold(0.0, f64::max);
            prop_assert!(near(number(row, "longest_s"), longest));
        }

        let found = table(&profile, &["ranks", "app.mpisee"]);
        prop_assert_eq!(found.len(), RANKS as usize);
        for row in &found {
            let rank: u32 = row["rank"].parse().unwrap();
            prop_assert!(same(sums(row, "mpi_s"), sum(rows, |line| line.rank == rank)));
            prop_assert!(near(number(row, "share_of_wall"), of_rank(rank) / builder.ranks[rank as usize].wall_s.0));
        }

        let found = table(&profile, &["sizes", "app.mpisee"]);
        // An operation that has no messages of its own is listed only if some were counted with it.
        let has_messages = |call: &str| {
            ["MPI_Allreduce", "MPI_Send"].contains(&call)
                || rows.iter().any(|row| row.call == call && row.size_max > 0)
        };
        let classes: BTreeSet<_> = (rows.iter().filter(|row| has_messages(&row.call)))
            .map(|row| (&row.call, row.size_min, row.size_max))
            .collect();
        prop_assert_eq!(found.len(), classes.len());
        for row in &found {
            let (size_min, size_max) = (row["size_min"].parse().unwrap(), row["size_max"].parse().unwrap());
            let of = |line: &&CallRow| (&line.call, line.size_min, line.size_max) == (&row["call"], size_min, size_max);
            prop_assert!(same(sums(row, "time_s"), sum(rows, of)));
        }

        for row in table(&profile, &["regions", "app.mpisee"]) {
            let region = row["region"].clone();
            let inside = |line: &&CallRow| match region.as_str() {
                "a" => ["a", "a/b"].contains(&line.region.as_str()),
                other => line.region == other,
            };
            let (calls, bytes, time_s) = sum(rows, inside);
            prop_assert_eq!((row["calls"].parse(), row["bytes"].parse()), (Ok(calls), Ok(bytes)));
            let ranks = number(&row, "ranks");
            prop_assert!(ranks == 0.0 || near(number(&row, "mpi_mean_s"), time_s / ranks));
        }
    }

    #[test]
    fn efficiencies_and_losses_add_up(
        small in rows(),
        walls in proptest::collection::vec(0..5000u32, 6)
    ) {
        let builder = built(&small, &walls);
        let (profile, rows) = (builder.write(), &builder.calls);
        let useful: Vec<f64> = builder.ranks.iter().map(|row| row.wall_s.0 - row.mpi_s.0).collect();
        let runtime = builder.ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
        let (mean, largest) = (useful.iter().sum::<f64>() / 6.0, useful.iter().copied().fold(0.0, f64::max));
        let run = &table(&profile, &["efficiency", "app.mpisee"])[0];
        prop_assert!(near(number(run, "parallel_efficiency"), mean / runtime));
        prop_assert!(near(number(run, "load_balance"), mean / largest));
        prop_assert!(near(number(run, "communication_efficiency"), largest / runtime));

        let losses = table(&profile, &["efficiency", "app.mpisee", "--loss"]);
        let lost: f64 = losses.iter().map(|row| number(row, "loss")).sum();
        prop_assert!((lost - (1.0 - mean / runtime)).abs() < 1e-7, "{} {}", lost, mean / runtime);
        for row in losses.iter().filter(|row| row["comm"] != "waiting in MPI_Finalize for the last rank") {
            let comm = builder.comms.iter().find(|comm| comm.comm == row["comm"]).unwrap();
            let times: Vec<f64> = comm.members.group.iter()
                .map(|rank| sum(rows, |line| line.comm == row["comm"] && line.rank == rank).2)
                .collect();
            let (all, least) =
                (times.iter().sum::<f64>(), times.iter().copied().fold(f64::INFINITY, f64::min));
            prop_assert!(near(number(row, "time_s"), all));
            if all > 0.0 {
                let expected = (all - least * times.len() as f64) / all;
                prop_assert!(near(number(row, "imbalance"), expected), "{:?} {}", row, expected);
            }
        }
    }

    #[test]
    fn traffic_within_a_node_has_both_ends_on_it(
        sent in proptest::collection::vec((0..2usize, 0..6u32, 0..6u32, 1..1000u64), 0..40)
    ) {
        let mut builder = built(&[], &[0; 6]);
        for &(comm, from, to, bytes) in &sent {
            builder = builder.messages(["W", "W_s2.1"][comm], from, to, 1, bytes);
        }
        let found = table(&builder.write(), &["locality", "app.mpisee"]);
        prop_assert_eq!(found.len(), 4);
        for row in &found {
            let place = ["W", "W_s2.1"].iter().position(|comm| *comm == row["comm"]);
            let of = |inside: bool| -> u64 {
                let sent = sent.iter().filter(|(comm, ..)| Some(*comm) == place);
                sent.filter(|(_, from, to, _)| !inside || from / 2 == to / 2).map(|(.., bytes)| bytes).sum()
            };
            prop_assert_eq!(row["p2p_bytes"].parse::<u64>(), Ok(of(false)));
            if of(false) > 0 {
                prop_assert!(near(number(row, "p2p_inside"), of(true) as f64 / of(false) as f64));
            }
            let pairs = |ranks: &[u32]| -> f64 {
                let all = || ranks.iter().flat_map(|one| ranks.iter().map(move |other| (one, other)));
                let of = |near: bool| all().filter(|(a, b)| a != b && (!near || *a / 2 == *b / 2)).count() as f64;
                of(true) / of(false)
            };
            let comm = builder.comms.iter().find(|comm| comm.comm == row["comm"]).unwrap();
            let members: Vec<u32> = comm.members.group.iter().collect();
            prop_assert!(near(number(row, "pairs_inside"), pairs(&members)));
        }
    }
}
