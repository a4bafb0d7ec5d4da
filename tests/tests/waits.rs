//! `mpisee-through waits` on real programs: who is late in a known way is named, and caused as much as the program's own books
//! say.

use mpisee_tests::{Finished, Mpi, Run, on_each_mpi, through};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Seconds that a rank caused and suffered.
type Waits = BTreeMap<u32, [f64; 2]>;

/// Runs of other tests would make ranks late.
static ALONE: Mutex<()> = Mutex::new(());

/// The program of that kind, in which ranks are late by `us` microseconds.
fn run(mpi: &Mpi, kind: &str, calls: u32, us: u32, ranks: u32) -> Finished {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Run::new(mpi, "waits/planted").ranks(ranks).argument(kind).argument(calls).argument(us).profiled()
}

/// By the books of the program, which prints them.
fn true_waits(finished: &Finished) -> Waits {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let rank = words.next()?.parse().ok()?;
        let mut seconds = || words.next()?.parse::<f64>().ok();
        Some((rank, [seconds()?, seconds()?]))
    };
    finished.stdout.lines().map(|text| line(text).unwrap_or_else(|| panic!("'{text}'"))).collect()
}

/// What `waits` says of an operation, and what stands out: kind and ranks.
fn told(finished: &Finished, call: &str) -> (Waits, Vec<(String, String)>) {
    let profile = finished.directory().display().to_string();
    let output = through(&["waits", "--format", "json", "--all", "--call", call, &profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = |name: &str| document[name].as_array().unwrap_or_else(|| panic!("{document}")).clone();
    let number = |row: &serde_json::Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{row}"));
    let waits = rows("waits");
    let waits = waits
        .iter()
        .map(|row| (number(row, "rank") as u32, ["caused_s", "suffered_s"].map(|it| number(row, it))));
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().expect("a text").to_owned();
    let findings = rows("findings");
    let findings = findings.iter().map(|row| (text(row, "finding"), text(row, "ranks")));
    (waits.collect(), findings.collect())
}

/// Each rank's part is within a tenth of all waiting, and what stands out is what was planted.
fn finds(kind: &str, [calls, us]: [u32; 2], ranks: u32, call: &str, planted: &[(&str, &str)]) {
    on_each_mpi(|mpi| {
        let finished = run(mpi, kind, calls, us, ranks);
        let (told, findings) = told(&finished, call);
        let expected = true_waits(&finished);
        assert!(told.keys().eq(expected.keys()), "{kind}: {told:?}, {expected:?}");
        let all: f64 = expected.values().map(|[_, suffered]| suffered).sum();
        for (rank, [caused, suffered]) in &told {
            let [true_caused, true_suffered] = expected[rank];
            let shown =
                format!("{kind} {calls}, rank {rank}: {:?} instead of {:?}", told[rank], expected[rank]);
            assert!((caused - true_caused).abs() < 0.1 * all, "{shown}");
            assert!((suffered - true_suffered).abs() < 0.1 * all, "{shown}");
        }
        let found: Vec<(&str, &str)> =
            findings.iter().map(|(kind, ranks)| (kind.as_str(), ranks.as_str())).collect();
        assert_eq!(found, planted, "{kind} {calls}: {told:?}");
    });
}

#[test]
fn one_late_rank() {
    finds("one", [100, 5000], 3, "MPI_Allreduce", &[("late rank", "1")]);
    finds("one", [1200, 2000], 3, "MPI_Allreduce", &[("late rank", "1")]);
}

#[test]
fn two_late_ranks() {
    finds("two", [60, 20000], 4, "MPI_Allreduce", &[("late ranks", "1, 2")]);
}

#[test]
fn ranks_that_are_late_in_turn() {
    finds("alternating", [100, 5000], 3, "MPI_Allreduce", &[("alternating", "1, 2")]);
    // With more ranks than cores, ranks are late that wait for a core.
    finds("alternating", [1200, 2000], 2, "MPI_Allreduce", &[("alternating", "0, 1")]);
}

#[test]
fn a_rank_that_is_ever_later() {
    finds("growing", [100, 5000], 3, "MPI_Allreduce", &[("late rank", "1"), ("growing", "")]);
}

#[test]
fn a_late_root() {
    finds("root", [100, 5000], 3, "MPI_Bcast", &[("late root", "1")]);
}

#[test]
fn a_rank_for_which_the_root_waits() {
    finds("leaf", [100, 5000], 3, "MPI_Reduce", &[("late rank", "2")]);
}

#[test]
fn late_ranks_on_the_rows_of_a_grid() {
    finds("rows", [100, 5000], 4, "MPI_Allreduce", &[("late rank", "1"), ("late rank", "3")]);
}

#[test]
fn nobody_is_blamed_where_nobody_is_late() {
    on_each_mpi(|mpi| {
        let (told, findings) = told(&run(mpi, "sound", 2000, 300, 2), "MPI_Allreduce");
        assert!(findings.is_empty() && told.len() == 2, "{findings:?}, {told:?}");
    });
}
