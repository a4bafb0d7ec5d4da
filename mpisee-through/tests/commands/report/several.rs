//! The report of several runs: what `diff` and `runs` say, in their numbers.

use super::{data_of, list, rows_of};
use crate::support::history::{SLOWER, history, label};
use crate::support::runs::{add, repetitions, run, series, write};
use crate::support::{Written, solver};
use serde_json::Value;

/// The data of a report with these arguments.
fn report_data(home: &Written, arguments: &[&str]) -> Value {
    let ran = home.run(&[&["report", "-o", "-"], arguments].concat());
    data_of(&ran.exits(0).stdout)
}

fn json(home: &Written, arguments: &[&str]) -> Value {
    let (command, arguments) = arguments.split_first().unwrap();
    let ran = home.run(&[&[*command, "--format", "json"], arguments].concat());
    serde_json::from_str(&ran.exits(0).stdout).unwrap()
}

/// The pages of several runs that a browser opens, with their names.
pub fn pages() -> Vec<(&'static str, String)> {
    let page = |home: &Written, arguments: &[&str]| {
        home.run(&[&["report", "-o", "-"], arguments].concat()).exits(0).stdout.clone()
    };
    let places = solver().write();
    add(&places, "b", &[solver()]);
    vec![
        ("several.html", page(&sets(), &["set", "slower"])),
        ("history.html", page(&history(), &["--history", "history"])),
        ("series.html", page(&write(&series(&[1, 2, 4, 8, 16])), &["set"])),
        ("places.html", page(&places, &["app.mpisee", "b/app-1.mpisee"])),
    ]
}

/// Two sets of repetitions, of which the second exchanges for longer.
fn sets() -> Written {
    let home = write(&repetitions());
    let slower = [2.0, 2.3, 2.1, 2.6, 2.2].map(|exchange_s| run(4, [3.0, 0.5, exchange_s]));
    add(&home, "slower", &slower);
    home
}

/// The tables of `runs` are those of the command on the profiles of the group.
fn assert_runs(home: &Written, group: &Value, paths: &[&str]) {
    let runs = json(home, &[&["runs"], paths].concat());
    for table in ["points", "variation", "parts", "growth"] {
        assert_eq!(rows_of(&group["tables"][table]), *list(&runs[table]), "{table}");
    }
    assert_eq!((&group["notes"], &group["arguments"]), (&runs["caveats"], &serde_json::json!(paths)));
}

#[test]
fn two_sets_are_compared_as_by_diff() {
    let home = sets();
    let data = report_data(&home, &["set", "slower"]);
    let diff = json(&home, &["diff", "set", "slower", "--families"]);
    let comparison = &data["comparison"];
    assert_eq!(rows_of(&comparison["changes"]), *list(&diff["changes"]));
    assert_eq!(rows_of(&comparison["totals"]), *list(&diff["runs"]));
    assert_eq!(comparison["notes"], diff["caveats"]);
    let exchange =
        rows_of(&comparison["changes"]).into_iter().find(|row| row["call"] == "MPI_Alltoall").unwrap();
    assert_eq!((&exchange["may_be_noise"], &exchange["comm"]), (&"".into(), &"W_s1.*".into()));
    assert!(comparison["sets"][1].as_str().unwrap().starts_with("slower (5 runs of "), "{comparison}");
    // They have one command: as runs of one set, those of A and B would be repetitions.
    assert_eq!(list(&data["groups"]).len(), 2);
    assert_runs(&home, &data["groups"][0], &["set"]);
    assert_runs(&home, &data["groups"][1], &["slower"]);
    let divided = report_data(&home, &["set", "--", "slower/app-1.mpisee", "slower/app-2.mpisee"]);
    let diff =
        json(&home, &["diff", "--families", "set", "--", "slower/app-1.mpisee", "slower/app-2.mpisee"]);
    assert_eq!(rows_of(&divided["comparison"]["changes"]), *list(&diff["changes"]));
}

#[test]
fn a_series_has_the_tables_and_sentences_of_runs() {
    let home = write(&series(&[1, 2, 4, 8, 16]));
    let data = report_data(&home, &["set"]);
    assert!(data["comparison"].is_null());
    assert_runs(&home, &data["groups"][0], &["set"]);
    let text = home.run(&["runs", "set"]).exits(0).stdout.clone();
    let series = &data["groups"][0]["series"][0];
    for sentence in list(&series["sentences"]).iter().chain([&series["title"]]) {
        assert!(text.contains(sentence.as_str().unwrap()), "runs does not say: {sentence}");
    }
    let predicted = series["runtime_beyond_s"][0].as_f64().unwrap();
    let said = format!("At 64 ranks the run would take {predicted:.2} s");
    assert!(text.contains(&said), "{said}\n{text}");
    // The shares there are those of the table for people, and add up to all.
    let shares: f64 = rows_of(&data["groups"][0]["tables"]["growth"])
        .iter()
        .filter_map(|row| row["predicted_share"].as_f64())
        .sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
}

#[test]
fn repetitions_have_the_sentences_of_runs_and_the_times_of_each() {
    let home = write(&repetitions());
    let data = report_data(&home, &["set"]);
    let text = home.run(&["runs", "set"]).exits(0).stdout.clone();
    let found = &data["groups"][0]["repetitions"][0];
    for sentence in list(&found["sentences"]).iter().chain(list(&found["closing"])) {
        assert!(text.contains(sentence.as_str().unwrap()), "runs does not say: {sentence}");
    }
    let part = &found["parts"][0];
    assert_eq!((&part["comm"], &part["call"]), (&"W_s1.*".into(), &"MPI_Alltoall".into()));
    assert_eq!(part["times_s"], serde_json::json!([1.0, 1.3, 1.1, 1.6, 1.2, 1.4]));
    let places: Vec<usize> = list(&found["runs"]).iter().map(super::index).collect();
    let run = &data["groups"][0]["runs"][places[3]];
    assert_eq!((run["runtime_s"].as_f64(), &run["profile"]), (Some(5.11), &"set/app-4.mpisee".into()));
}

#[test]
fn two_sets_on_other_numbers_of_ranks_are_a_series_too() {
    let home = write(&series(&[2]));
    add(&home, "four", &series(&[4]));
    let data = report_data(&home, &["set", "four"]);
    assert_eq!(data["comparison"]["is_per_rank"], true);
    assert_eq!(list(&data["groups"]).len(), 1);
    assert_runs(&home, &data["groups"][0], &["set", "four"]);
    assert_eq!(data["groups"][0]["series"][0]["title"], "./splatt cpd 'my tensor.tns' on 2, 4 ranks");
}

#[test]
fn places_of_two_runs_are_compared_as_by_diff() {
    let home = solver().write();
    let mut slower = solver();
    slower.calls.iter_mut().filter(|row| row.call == "MPI_Waitall").for_each(|row| row.time_s.0 *= 2.0);
    add(&home, "b", &[slower]);
    let paths = ["app.mpisee", "b/app-1.mpisee"];
    let data = report_data(&home, &paths);
    let diff = json(&home, &["diff", "--by", "site", paths[0], paths[1]]);
    assert_eq!(rows_of(&data["comparison"]["sites"]), *list(&diff["changes"]));
    assert!(data["missing"].get("places").is_none());
}

#[test]
fn what_cannot_be_compared_is_said() {
    let home = write(&series(&[1, 2, 4]));
    let data = report_data(&home, &["set", "app.mpisee"]);
    let why = data["without_comparison"].as_str().unwrap();
    assert!(why.contains("the runs of A do not repeat each other"), "{why}");
    assert_runs(&home, &data["groups"][0], &["set", "app.mpisee"]);
    add(&home, "one", &[run(2, [1.0; 3])]);
    home.run(&["report", "one"]).fails_with(&["one/app-1.mpisee", "is one run", "report one/app-1.mpisee"]);
    home.run(&["report", "set", "nothing"]).fails_with(&["'nothing'"]);
    let calls = home.beside().join("set/app-2.mpisee/calls.csv");
    std::fs::write(&calls, "comm,rank\n").unwrap();
    home.run(&["report", "set"]).fails_with(&["set/app-2.mpisee/calls.csv"]);
    home.run(&["report", "set", "app.mpisee"]).fails_with(&["set/app-2.mpisee/calls.csv"]);
}

#[test]
fn names_and_arguments_are_those_of_the_command_line() {
    let home = sets();
    let ran = home.run(&["report", "set", "slower"]);
    assert!(ran.exits(0).stderr.contains("set-slower.html") && ran.stdout.is_empty());
    assert!(home.beside().join("set-slower.html").exists());
    home.run(&["report", "set"]).exits(0);
    assert!(home.beside().join("set-runs.html").exists());
    let data = report_data(&home, &["set", "--", "slower"]);
    assert_eq!(data["diff_arguments"], serde_json::json!(["set", "--", "slower"]));
}

#[test]
fn a_history_has_the_tables_and_sentences_of_runs() {
    let home = history();
    let data = report_data(&home, &["--history", "history"]);
    let runs = json(&home, &["runs", "--history", "history"]);
    let group = &data["groups"][0];
    for table in ["points", "changes"] {
        assert_eq!(rows_of(&group["tables"][table]), *list(&runs[table]), "{table}");
    }
    assert_eq!(group["arguments"], serde_json::json!(["--history", "history"]));
    assert_eq!(list(&group["runs"]).len(), 60);
    let history = &data["history"]["histories"][0];
    let text = home.run(&["runs", "--history", "history"]).exits(0).stdout.clone();
    for sentence in list(&history["sentences"]).iter().chain([&history["title"]]) {
        assert!(text.contains(sentence.as_str().unwrap()), "runs does not say: {sentence}");
    }
    assert_eq!(history["entries"][SLOWER], label(SLOWER));
}

#[test]
fn a_report_of_a_history_prints_its_sentences_in_a_log() {
    let home = history();
    let ran = home.run(&["report", "--history", "history"]);
    assert!(ran.exits(0).stderr.contains("history.html"), "{}", ran.stderr);
    assert!(ran.stdout.contains("MPI_Allreduce on W explains 300 ms."), "{}", ran.stdout);
    assert!(home.beside().join("history.html").exists());
    let ran = home.run(&["report", "--history", "history", "-o", "-"]);
    assert!(ran.exits(0).stdout.starts_with("<!doctype html>"), "the page is alone there");
    assert!(!ran.stdout.ends_with("300 ms.\n"));
    home.run(&["report", "--history", "nothing"]).fails_with(&["cannot read 'nothing'"]);
    home.run(&["report", "app.mpisee", "--history", "history"]).exits(2);
    home.run(&["report"]).exits(2);
}
