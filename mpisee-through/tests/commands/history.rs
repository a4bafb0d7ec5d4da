//! `mpisee-through runs --history`: planted changes, and the numbers of the other commands.

use crate::support::history::{ENTRIES, MORE_CALLS, SLOWER, history, label, runs};
use crate::support::runs::{add, copy, run};
use crate::support::{Builder, Written};
use serde_json::Value;

fn json(home: &Written, arguments: &[&str]) -> Value {
    let ran = home.run(&[arguments, &["--format", "json"]].concat());
    serde_json::from_str(&ran.exits(0).stdout).unwrap()
}

fn rows<'v>(answer: &'v Value, table: &str) -> &'v Vec<Value> {
    answer[table].as_array().unwrap()
}

/// The number of an entry, as `points` has it.
fn point(answer: &Value, entry: usize, quantity: &str, call: &str) -> Value {
    let is_it =
        |row: &&Value| row["entry"] == label(entry) && row["quantity"] == quantity && row["call"] == call;
    rows(answer, "points").iter().find(is_it).unwrap_or_else(|| panic!("no {quantity} of '{call}'")).clone()
}

#[test]
fn planted_changes_are_named_at_their_entries_with_their_cause() {
    let home = history();
    let text = home.run(&["runs", "--history", "history"]).exits(0).stdout.clone();
    let since = |entry: usize| format!("Since {}, ", label(entry));
    let slower = since(SLOWER)
        + "MPI time is 40 % longer (from 750 ms to 1.05 s): MPI_Allreduce on W explains 300 ms.";
    let calls = since(MORE_CALLS)
        + "there are 31 % more calls (from 52 to 68): MPI_Alltoall on W_s1.* explains 16 calls.";
    for sentence in [&slower, &calls] {
        assert!(text.contains(sentence.as_str()), "no '{sentence}':\n{text}");
    }
    assert!(text.find(&calls) < text.find(&slower), "the newest comes first:\n{text}");
    home.run(&["runs", "--history", "history"]).golden("history");
    home.golden_at(80, "history", &["runs", "--history", "history"]);
    home.run(&["runs", "--history", "history", "--table", "changes", "--format", "csv"])
        .golden("history.csv");
}

#[test]
fn numbers_are_those_of_other_commands() {
    let home = history();
    let answer = json(&home, &["runs", "--history", "history"]);
    assert_eq!(point(&answer, 0, "wall_s", "")["runs"], 5);
    let set = format!("history/{}.runs", label(3));
    let of_runs = json(&home, &["runs", &set]);
    let setting = &of_runs["points"][0];
    let wall = point(&answer, 3, "wall_s", "");
    for (name, of_runs) in [("value", "runtime_s"), ("min", "runtime_min_s"), ("max", "runtime_max_s")] {
        assert_eq!(wall[name], setting[of_runs], "{name}");
    }
    let reduce = rows(&of_runs, "variation").iter().find(|row| row["call"] == "MPI_Allreduce").unwrap();
    assert_eq!(point(&answer, 3, "time_s", "MPI_Allreduce")["value"], reduce["time_s"]);
    assert_eq!(point(&answer, 3, "calls", "MPI_Allreduce")["max"], reduce["calls_max"]);
    let profile = format!("{set}/app-1.mpisee");
    let single = home.beside().join("single");
    std::fs::create_dir(&single).unwrap();
    copy(&home, &profile, "single/one.mpisee");
    copy(&home, &format!("history/{}.runs/app-2.mpisee", label(4)), "single/two.mpisee");
    let answer = json(&home, &["runs", "--history", "single"]);
    let number = |quantity: &str, call: &str| {
        let is_it =
            |row: &&Value| row["entry"] == "one" && row["quantity"] == quantity && row["call"] == call;
        rows(&answer, "points").iter().find(is_it).unwrap()["value"].as_f64().unwrap()
    };
    let efficiency = json(&home, &["efficiency", &profile]);
    let parallel = &rows(&efficiency, "efficiency")[0]["parallel_efficiency"];
    assert_eq!(parallel.as_f64(), Some(number("parallel_efficiency", "")), "{efficiency}");
    let ops = json(&home, &["ops", &profile, "--all"]);
    let sum =
        |name: &str| rows(&ops, "operations").iter().map(|row| row[name].as_f64().unwrap()).sum::<f64>();
    assert_eq!((number("calls", ""), number("bytes", "")), (sum("calls"), sum("bytes")), "{ops}");
    assert!((number("time_s", "") - sum("mean_s")).abs() < 1e-9);
    let diff = json(&home, &["diff", &profile, "single/two.mpisee"]);
    let total =
        |what: &str| rows(&diff, "runs").iter().find(|row| row["what"] == what).unwrap()["before"].as_f64();
    assert_eq!(total("wall time"), Some(number("wall_s", "")));
    assert_eq!(total("MPI time"), Some(number("time_s", "")));
    assert_eq!(total("calls per rank"), Some(number("calls", "") / 4.0));
}

#[test]
fn entries_that_cannot_be_read_are_named_and_left_out() {
    let home = history();
    let folder = home.beside().join("history");
    std::fs::create_dir(folder.join("empty.runs")).unwrap();
    std::fs::write(folder.join("commits.txt"), "a list").unwrap();
    std::fs::write(folder.join(format!("{}.runs/app-2.mpisee/calls.csv", label(2))), "comm,rank\n").unwrap();
    let ran = home.run(&["runs", "--history", "history", "--width", "300"]);
    let text = &ran.exits(0).stdout;
    assert!(text.contains("empty.runs is left out: it has no profile."), "{text}");
    assert!(text.contains("app-2.mpisee is left out: ") && text.contains("calls.csv"), "{text}");
    assert!(!text.contains("commits.txt") && text.contains("MPI time is 40 % longer"), "{text}");
}

#[test]
fn a_folder_without_a_history_has_one_clear_sentence() {
    let home = Builder::new(2).write();
    let fails = |words: &[&str]| home.run(&["runs", "--history", "h"]).fails_with(words);
    fails(&["cannot read 'h'"]);
    std::fs::create_dir(home.beside().join("h")).unwrap();
    fails(&["'h' is empty", "NAME.runs"]);
    std::fs::write(home.beside().join("h/broken.mpisee"), "").unwrap();
    fails(&["'h' has no entry that can be read", "broken.mpisee"]);
    add(&home, "h/one.runs", &[run(2, [1.0; 3])]);
    let ran = home.run(&["runs", "--history", "h"]);
    let begun = "1 entry, one\nOne entry so far: changes show from two entries on.";
    assert!(ran.exits(0).stdout.contains(begun), "{}", ran.stdout);
    std::fs::create_dir(home.beside().join("both")).unwrap();
    add(&home, "both/one.runs", &[run(2, [1.0; 3]), run(4, [1.0; 3])]);
    let both = home.run(&["runs", "--history", "both"]);
    assert_eq!(both.exits(0).stdout.matches("One entry so far").count(), 2, "{}", both.stdout);
    add(&home, "h/two.runs", &[run(4, [1.0; 3])]);
    fails(&["no two entries of 'h' have the same command and ranks", "on 2 ranks", "on 4 ranks"]);
    home.run(&["runs", "--history", "app.mpisee"]).fails_with(&["'app.mpisee' is one profile"]);
    home.run(&["runs", "h/one.runs", "--history", "h"]).exits(2);
    home.run(&["runs", "h/one.runs", "--table", "changes"]).fails_with(&["--history"]);
    add(&home, "h/three.runs", &[run(4, [1.0; 3])]);
    let ran = home.run(&["runs", "--history", "h"]);
    let text = &ran.exits(0).stdout;
    assert!(text.contains("on 2 ranks is in one alone"), "{text}");
    assert!(text.contains("No lasting change of calls or bytes in 2 entries."), "{text}");
    assert!(text.contains("Too few runs to tell changes of times: 2 runs in 2 entries."), "{text}");
    home.run(&["runs", "--history", "h", "--table", "growth"]).fails_with(&["points and changes"]);
}

#[test]
fn other_ranks_have_a_history_of_their_own() {
    let home = history();
    for entry in [1, 2] {
        let folder = format!("history/{}.runs", label(entry));
        let place = home.beside().join(&folder);
        let name = format!("eight-{entry}");
        add(&home, &name, &[run(8, [2.0, 0.5, 0.25])]);
        std::fs::rename(home.beside().join(name).join("app-1.mpisee"), place.join("eight.mpisee")).unwrap();
    }
    let answer = json(&home, &["runs", "--history", "history"]);
    let of = |history: u64| rows(&answer, "points").iter().filter(|row| row["history"] == history).count();
    assert!(of(1) > 0 && of(2) > 0 && of(3) == 0, "{} {} {}", of(1), of(2), of(3));
    let entries: std::collections::BTreeSet<String> =
        rows(&answer, "points").iter().map(|row| row["entry"].to_string()).collect();
    assert_eq!(entries.len(), ENTRIES);
}

#[test]
fn a_copy_of_a_run_makes_no_level() {
    let home = history();
    copy(&home, &format!("history/{}.runs/app-1.mpisee", label(0)), "history/zzz.mpisee");
    let ran = home.run(&["runs", "--history", "history"]);
    assert!(ran.exits(0).stdout.contains("both are of one run, which counts once"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("zzz  "), "{}", ran.stdout);
    assert_eq!(runs(0).len(), 5);
}
