//! `mpisee-through advise` on real programs: what is planted is found, and nothing else.
use mpisee_tests::{Finished, Mpi, Run, on_each_mpi, through};
use std::collections::BTreeSet;

/// The rules that find something, with the communicators that it is about. Ranks may share the cores of the machine, which
/// is found as well: `cores.rs` has tests of that.
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

/// What is planted is found, and nothing else where the machine did nothing else: that makes ranks late, which is found, too.
fn finds(mpi: &Mpi, program: &str, expected: &BTreeSet<(String, String)>) {
    let finished = Run::new(mpi, program).profiled();
    let found = found(&finished);
    assert!(found.is_superset(expected), "{found:?} instead of {expected:?}");
    assert!(found == *expected || finished.was_disturbed(), "{found:?} instead of {expected:?}");
}

/// One test, so that no other one of this file makes the processes wait for a core.
#[test]
fn five_planted_problems_are_found_and_nothing_where_nothing_is_wrong() {
    let planted = [
        ("tiny-allreduces", "W_s1.0"),
        ("late", "W_s2.0"),
        ("creation", "W_s3.0"),
        ("polling", "W_s4.0"),
        ("uneven-messages", "W_s5.0"),
    ];
    let planted: BTreeSet<(String, String)> =
        planted.iter().map(|&(rule, about)| (rule.to_owned(), about.to_owned())).collect();
    on_each_mpi(|mpi| {
        finds(mpi, "advise/planted", &planted);
        finds(mpi, "advise/sound", &BTreeSet::new());
    });
}
