//! `mpisee-through advise` on real programs: what is planted is found, and nothing else.

use mpisee_tests::{Finished, Mpi, Run, case, through};
use std::collections::BTreeSet;

/// The rules that find something, with the communicators that it is about. Ranks may share the
/// cores of the machine, which is found as well: `cores.rs` has tests of that.
fn found(finished: &Finished) -> BTreeSet<(String, String)> {
    let profile = finished.directory().display().to_string();
    let output = through(&["advise", "--format", "json", &profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let findings = document["findings"].as_array().expect("a list of findings");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let found = findings.iter().map(|finding| (text(&finding["rule"]), text(&finding["about"])));
    found.filter(|(rule, _)| rule != "no-core").collect()
}

/// The machine's other work makes ranks late, which is found, too, and may hide what was planted:
/// up to these parts of the run nothing else is found, and what was planted is.
const EXACT: f64 = 0.005;
const VISIBLE: f64 = 0.1;

/// The planted problems are found, and nothing else.
fn finds(mpi: &Mpi, program: &str, expected: &BTreeSet<(String, String)>) {
    let finished = Run::new(mpi, program).profiled();
    let found = found(&finished);
    let disturbance = finished.disturbance();
    let shown = format!("{found:?} instead of {expected:?}, disturbed by {disturbance}");
    assert!(found.is_superset(expected) || disturbance > VISIBLE, "{shown}");
    assert!(found == *expected || disturbance > EXACT, "{shown}");
}

#[case]
fn five_planted_problems_are_found_and_nothing_where_nothing_is_wrong(mpi: &Mpi) {
    let planted = [
        ("tiny-allreduces", "W_s1.0"),
        ("waiting", "W_s2.0"),
        ("creation", "W_s3.0"),
        ("polling", "W_s4.0"),
        ("waiting", "W_s5.0"),
    ];
    let planted: BTreeSet<(String, String)> =
        planted.iter().map(|&(rule, about)| (rule.to_owned(), about.to_owned())).collect();
    finds(mpi, "advise/planted", &planted);
    finds(mpi, "advise/sound", &BTreeSet::new());
}
