//! The tables that commands print for people, at several widths of the page.

use crate::support::{pools, splatt};

#[test]
fn summary_fits_the_page() {
    let profile = pools().write();
    for width in [40, 80, 100, 160] {
        profile.golden_at(width, "summary-pools", &["summary", "app.mpisee"]);
    }
    profile.golden_at(100, "summary-pools-each", &["summary", "app.mpisee", "--each"]);
    profile.golden_at(100, "summary-pools-all", &["summary", "app.mpisee", "--all"]);
    splatt().write().golden_at(100, "summary-splatt", &["summary", "app.mpisee"]);
}

#[test]
fn other_tables_fit_the_page() {
    let profile = pools().write();
    for command in ["ops", "comms", "efficiency", "sizes", "ranks", "regions", "locality"] {
        for width in [60, 100] {
            profile.golden_at(width, &format!("{command}-pools"), &[command, "app.mpisee"]);
        }
    }
    profile.golden_at(100, "comms-pools-each", &["comms", "app.mpisee", "--each"]);
    profile.golden_at(100, "efficiency-pools-each", &["efficiency", "app.mpisee", "--each"]);
    profile.golden_at(100, "locality-pools-each", &["locality", "app.mpisee", "--each"]);
}

#[test]
fn a_comparison_fits_the_page() {
    let before = pools().write();
    let mut slower = pools();
    for row in slower.calls.iter_mut().filter(|row| row.call == "MPI_Alltoall") {
        row.time_s.0 *= 1.25;
    }
    std::fs::rename(slower.write().directory, before.beside().join("after.mpisee")).unwrap();
    for width in [60, 100] {
        before.golden_at(width, "diff-pools", &["diff", "app.mpisee", "after.mpisee"]);
    }
    before.golden_at(100, "diff-pools-each", &["diff", "app.mpisee", "after.mpisee", "--each"]);
}

#[test]
fn families_in_csv_are_asked_for() {
    let profile = pools().write();
    let families = |command: &[&str]| profile.run(&[command, &["--format", "csv", "--families"]].concat());
    families(&["summary", "app.mpisee"]).golden("summary-families.csv");
    families(&["efficiency", "app.mpisee", "--loss"]).golden("efficiency-families.csv");
    families(&["locality", "app.mpisee"]).golden("locality-families.csv");
}

#[test]
fn colours_are_for_what_matters_and_for_terminals() {
    let profile = pools().write();
    let escape = "\u{1b}[";
    let ran = profile.run(&["summary", "app.mpisee"]);
    assert!(!ran.exits(0).stdout.contains(escape), "{}", ran.stdout);
    let ran = profile.run(&["summary", "app.mpisee", "--color", "always", "--width", "100"]);
    let lines: Vec<&str> =
        ran.exits(0).stdout.lines().filter(|line| line.contains("\u{1b}[38;5;11m")).collect();
    assert_eq!(lines.len(), 4, "two communicators and their operations dominate:\n{}", ran.stdout);
}
