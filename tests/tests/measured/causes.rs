//! `mpisee-through advise` on real programs with a known cause, or none: the cause is found, and
//! nobody else is blamed.

use mpisee_tests::{Finished, Mpi, Run, case, through};
use std::collections::BTreeSet;

/// The machine's other work makes ranks late, which is found, too, and may hide what was planted:
/// up to these parts of the run nothing else is found, and what was planted is.
const EXACT: f64 = 0.005;
const VISIBLE: f64 = 0.1;

/// Rules and what they are about, as they are ordered.
type Found = Vec<(String, String)>;

/// The rules that name a rank as the one for which others wait, or whose part is large.
const BLAMING: [&str; 5] = ["finalize", "skewed-volume", "slow-transfer", "through-one-rank", "waiting"];

fn run(mpi: &Mpi, kind: &str, ranks: u32) -> Finished {
    Run::new(mpi, "advise/causes").ranks(ranks).argument(kind).profiled()
}

fn found(finished: &Finished, options: &[&str]) -> Found {
    let profile = finished.directory().display().to_string();
    let output = through(&[&["advise", "--format", "json", &profile], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let findings = document["findings"].as_array().expect("a list of findings");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    findings.iter().map(|finding| (text(&finding["rule"]), text(&finding["about"]))).collect()
}

fn has(found: &Found, rule: &str, about: &str) -> bool {
    found.iter().any(|(one, of)| one == rule && of == about)
}

fn finds(mpi: &Mpi, kind: &str, ranks: u32, rule: &str, about: &str) {
    let finished = run(mpi, kind, ranks);
    let (found, disturbance) = (found(&finished, &[]), finished.disturbance());
    let shown = format!("{kind}: {found:?}, disturbed by {disturbance}");
    assert!(has(&found, rule, about) || disturbance > VISIBLE, "{shown}");
}

#[case]
fn skewed_volumes_in_a_collective(mpi: &Mpi) {
    finds(mpi, "skewed", 2, "skewed-volume", "W");
}

#[case]
fn small_messages_one_after_the_other(mpi: &Mpi) {
    finds(mpi, "tiny", 2, "small-messages", "W");
}

#[case]
fn barriers_right_before_a_reduction(mpi: &Mpi) {
    finds(mpi, "barrier", 2, "needless-barriers", "W");
}

#[case]
fn a_gather_by_a_loop_of_receives(mpi: &Mpi) {
    finds(mpi, "gather", 4, "through-one-rank", "W");
}

#[case]
fn a_rank_that_works_on_at_the_end(mpi: &Mpi) {
    let finished = run(mpi, "late end", 4);
    assert!(has(&found(&finished, &[]), "finalize", "MPI_Finalize"));
    let profile = finished.directory().display().to_string();
    let output = through(&["efficiency", "--loss", "--format", "csv", &profile]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = said.lines().find(|line| line.starts_with("waiting in MPI_Finalize")).expect("a row of it");
    assert!(row.ends_with(",1"), "rank 1 is waited for: {row}");
}

#[case]
fn nobody_is_blamed_where_ranks_lack_a_core(mpi: &Mpi) {
    let found = found(&run(mpi, "starved", 4), &[]);
    assert!(found.first().is_some_and(|(rule, _)| rule == "no-core"), "{found:?}");
    assert!(found.iter().all(|(rule, _)| !BLAMING.contains(&rule.as_str())), "{found:?}");
}

#[case]
fn groups_that_are_below_the_threshold_are_found_together(mpi: &Mpi) {
    let finished = run(mpi, "siblings", 4);
    let all = found(&finished, &[]);
    let halves = ["W_s1.0", "W_s1.2"].map(|comm| (comm, found(&finished, &["--comm", comm])));
    if finished.disturbance() <= EXACT {
        assert!(has(&all, "waiting", "W_s1.*"), "{all:?}");
        assert!(halves.iter().all(|(comm, half)| !has(half, "waiting", comm)), "{halves:?}");
    }
}

/// Each of ten runs of a program with one cause has one finding of that rule.
fn finds_one_in_ten_runs(mpi: &Mpi, kind: &str, ranks: u32, rule: &str) {
    for _ in 0..10 {
        let finished = run(mpi, kind, ranks);
        let (found, disturbance) = (found(&finished, &[]), finished.disturbance());
        let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
        let shown = format!("{kind}: {found:?}, disturbed by {disturbance}");
        assert!(rules.contains(&rule) || disturbance > VISIBLE, "{shown}");
        assert!(rules == [rule] || disturbance > EXACT, "{shown}");
    }
}

#[case]
fn a_rank_at_the_edge_of_standing_out_is_the_same_rule_in_each_run(mpi: &Mpi) {
    finds_one_in_ten_runs(mpi, "now and then", 2, "waiting");
}

#[case]
fn a_rank_that_is_late_everywhere_is_one_finding_in_each_run(mpi: &Mpi) {
    finds_one_in_ten_runs(mpi, "everywhere", 4, "waiting");
}

#[case]
fn nothing_is_found_in_sound_programs(mpi: &Mpi) {
    for kind in ["halo", "reduce", "alltoall", "ring"] {
        let finished = run(mpi, kind, 2);
        let found = found(&finished, &[]);
        let disturbance = finished.disturbance();
        assert!(found.is_empty() || disturbance > EXACT, "{kind}: {found:?}, disturbed by {disturbance}");
        let rules: BTreeSet<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
        // No disturbance looks like these.
        for unlikely in ["skewed-volume", "needless-barriers", "small-messages", "through-one-rank"] {
            assert!(!rules.contains(unlikely), "{kind}: {found:?}");
        }
    }
}
