//! `mpisee-through waits` on real programs: who is late in a known way is named, and caused as much
//! as the program's own books say.

use mpisee_tests::{Finished, Mpi, Run, case, harness, through};
use std::collections::BTreeMap;

/// Seconds that a rank caused and suffered.
type Waits = BTreeMap<u32, [f64; 2]>;

/// The program of that kind, in which ranks are late by `us` microseconds.
fn run(mpi: &Mpi, kind: &str, calls: u32, us: u32, ranks: u32) -> Finished {
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

/// The waiting that each rank caused and suffered according to `waits`: from, to.
type Waiting = BTreeMap<u32, [[f64; 2]; 2]>;

/// The answer of `waits` on an operation, and what stands out: kind and ranks.
fn answer(finished: &Finished, call: &str) -> (Waiting, Vec<(String, String)>) {
    let profile = finished.directory().display().to_string();
    let output = through(&["waits", "--format", "json", "--all", "--call", call, &profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = |name: &str| document[name].as_array().unwrap_or_else(|| panic!("{document}")).clone();
    let number = |row: &serde_json::Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{row}"));
    let ends = |row: &serde_json::Value, what: &str| {
        ["low_s", "high_s"].map(|end| number(row, &format!("{what}_{end}")))
    };
    let waits = rows("waits");
    let waits =
        waits.iter().map(|row| (number(row, "rank") as u32, ["caused", "suffered"].map(|it| ends(row, it))));
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().expect("a text").to_owned();
    let findings = rows("findings");
    let findings = findings.iter().map(|row| (text(row, "finding"), text(row, "ranks")));
    (waits.collect(), findings.collect())
}

/// Above this part of the time without a core, waiting varies so much that nobody may stand out.
const MOST_WITHOUT_CORE: f64 = 0.1;

/// Each rank's part is within a tenth of all waiting, and what stands out is what was planted. On a
/// machine that does other things ranks are late that wait for a core: only where the planted ones
/// caused nearly all of the waiting, by the books, they are to be named. Nobody else is named then.
fn finds(
    mpi: &Mpi,
    kind: &str,
    [calls, us]: [u32; 2],
    ranks: u32,
    call: &str,
    late: &[u32],
    planted: &[(&str, &str)],
) {
    let finished = run(mpi, kind, calls, us, ranks);
    let what = format!("{kind} {calls}");
    let (truth, findings) = agrees(&what, &finished, call);
    let all: f64 = truth.values().map(|[_, suffered]| suffered).sum();
    let by_late: f64 = late.iter().map(|rank| truth[rank][0]).sum();
    if by_late > 0.9 * all {
        let found: Vec<(&str, &str)> =
            findings.iter().map(|(kind, ranks)| (kind.as_str(), ranks.as_str())).collect();
        let without_core = finished.share_without_core();
        // Waiting may also grow, where the machine has more to do after a while, and one of two
        // late ranks may be certain alone.
        let has_planted = planted.iter().all(|it| found.contains(it));
        let has_planted_alone = found.iter().all(|it| planted.contains(it));
        let may_differ = (has_planted || has_planted_alone) && without_core > MOST_WITHOUT_CORE;
        assert!(found == planted || may_differ, "{what}: {found:?}, {without_core} without a core");
    }
}

/// Checks the parts of the ranks against the program's books; returns these, and what stands out.
fn agrees(what: &str, finished: &Finished, call: &str) -> (Waits, Vec<(String, String)>) {
    let (answer, findings) = answer(finished, call);
    let expected = true_waits(finished);
    assert!(answer.keys().eq(expected.keys()), "{what}: {answer:?}, {expected:?}");
    let all: f64 = expected.values().map(|[_, suffered]| suffered).sum();
    for (rank, answer) in &answer {
        for ([low, high], truth) in answer.iter().zip(expected[rank]) {
            let shown = format!("{what}, rank {rank}: {answer:?} instead of {:?}", expected[rank]);
            assert!(low - 0.1 * all < truth && truth < high + 0.1 * all, "{shown}");
            assert!(high - low < 0.8 * all, "{shown}");
        }
    }
    (expected, findings)
}

#[case]
fn messages_while_recording_is_off_change_nothing(mpi: &Mpi) {
    for [messages, unrecorded, us] in [[19, 2000, 20_000], [100, 20_000, 3000]] {
        let run = Run::new(mpi, "waits/switched").ranks(3);
        let finished = run.argument(messages).argument(unrecorded).argument(us).profiled();
        agrees(&format!("{messages} and {unrecorded}"), &finished, "messages");
    }
}

#[case]
fn one_late_rank(mpi: &Mpi) {
    finds(mpi, "one", [100, 5000], 3, "MPI_Allreduce", &[1], &[("late rank", "1")]);
    finds(mpi, "one", [1200, 2000], 3, "MPI_Allreduce", &[1], &[("late rank", "1")]);
}

#[case]
fn two_late_ranks(mpi: &Mpi) {
    finds(mpi, "two", [60, 20000], 4, "MPI_Allreduce", &[1, 2], &[("late ranks", "1, 2")]);
}

#[case]
fn ranks_that_are_late_in_turn(mpi: &Mpi) {
    finds(mpi, "alternating", [100, 5000], 3, "MPI_Allreduce", &[1, 2], &[("alternating", "1, 2")]);
    // With more ranks than cores, ranks are late that wait for a core.
    finds(mpi, "alternating", [1200, 5000], 2, "MPI_Allreduce", &[0, 1], &[("alternating", "0, 1")]);
}

#[case]
fn a_rank_that_is_ever_later(mpi: &Mpi) {
    finds(mpi, "growing", [100, 5000], 3, "MPI_Allreduce", &[1], &[("late rank", "1"), ("growing", "")]);
}

#[case]
fn a_late_root(mpi: &Mpi) {
    finds(mpi, "root", [100, 5000], 3, "MPI_Bcast", &[1], &[("late root", "1")]);
}

#[case]
fn a_root_that_may_have_waited_has_that_in_its_interval(mpi: &Mpi) {
    let finished = run(mpi, "long", 60, 20_000, 2);
    let (answer, findings) = answer(&finished, "MPI_Bcast");
    let truth = true_waits(&finished);
    let (suffered_s, caused_s) = (truth[&0][1], truth[&1][0]);
    assert!(suffered_s > 60.0 * 0.01, "the program's books: {truth:?}");
    for ([low, high], truth_s) in [(answer[&0][1], suffered_s), (answer[&1][0], caused_s)] {
        assert!(low < 0.1 * truth_s && truth_s < 1.1 * high, "{answer:?} instead of {truth:?}");
    }
    assert!(findings.is_empty(), "nobody is accused of what was not measured: {findings:?}");
}

#[case]
fn a_rank_for_which_the_root_waits(mpi: &Mpi) {
    finds(mpi, "leaf", [100, 5000], 3, "MPI_Reduce", &[2], &[("late rank", "2")]);
}

#[case]
fn late_ranks_on_the_rows_of_a_grid(mpi: &Mpi) {
    finds(mpi, "rows", [100, 5000], 4, "MPI_Allreduce", &[1, 3], &[("late rank", "1"), ("late rank", "3")]);
}

#[case]
fn nobody_is_blamed_where_nobody_is_late(mpi: &Mpi) {
    let finished = run(mpi, "sound", 2000, 300, 2);
    let (answer, findings) = answer(&finished, "MPI_Allreduce");
    let expected = true_waits(&finished);
    assert_eq!(answer.len(), 2);
    let is_even = expected[&0][0].max(expected[&1][0]) < 0.6 * (expected[&0][0] + expected[&1][0]);
    // Waiting may grow, where the machine has more to do after a while.
    let blames = findings.iter().any(|(_, ranks)| !ranks.is_empty());
    if blames && is_even {
        // Ranks that share a core are late in turn.
        let without_core = finished.share_without_core();
        assert!(
            without_core > MOST_WITHOUT_CORE,
            "{findings:?}, {expected:?}, {without_core} without a core"
        );
        harness::leave_out(format!("ranks had no core for {without_core} of the time"));
    }
}

/// Ranks that wait for the late one in calls of which no waits are known are not accused in its
/// place.
#[case]
fn who_passes_a_wait_on_is_said_to_have_waited(mpi: &Mpi) {
    for kind in ["bcast", "scatter", "fence", "split", "wildcard"] {
        let finished = Run::new(mpi, "waits/passed_on").ranks(4).argument(kind).profiled();
        let profile = finished.directory().display().to_string();
        let output = through(&["waits", "--format", "json", "--call", "MPI_Barrier", &profile]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let findings = document["findings"].as_array().unwrap_or_else(|| panic!("{document}"));
        let late: Vec<&serde_json::Value> = findings.iter().filter(|one| one["ranks"] != "").collect();
        assert!(!late.is_empty(), "{kind}: {document}");
        for one in late {
            let text = one["text"].as_str().unwrap_or_else(|| panic!("{one}"));
            let is_excused =
                ["may be late because of", "may be the reason"].iter().any(|words| text.contains(words));
            assert!(one["ranks"] == "2" || is_excused, "{kind}: {text}");
        }
    }
}
