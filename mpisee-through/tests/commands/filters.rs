//! The filters that commands share: what they take, and what they say where they take nothing.

use crate::support::{Builder, Ran, Written, golden, splatt};
use std::collections::{BTreeMap, BTreeSet};

/// Six ranks in three parts of unequal sizes, two of which are a family, with a duplicate of each
/// part.
fn parts() -> Written {
    let mut profile = Builder::new(6);
    for (part, members, ranks) in [(0, "0-1", 0..2), (2, "2-3", 2..4), (4, "4", 4..5)] {
        let (comm, duplicate) = (format!("W_s1.{part}"), format!("W_s1.{part}_d1"));
        profile = profile.comm(&comm, "W", "MPI_Comm_split", members, |_| {}).comm(
            &duplicate,
            &comm,
            "MPI_Comm_dup",
            members,
            |_| {},
        );
        for rank in ranks {
            profile = profile.call(&comm, rank, "MPI_Allreduce", 10, 80, 0.5);
            profile = profile.call(&duplicate, rank, "MPI_Bcast", 1, 1000, 0.25);
        }
    }
    profile
        .comm("W_s1.5", "W", "MPI_Comm_split", "5", |_| {})
        .call("W", 0, "MPI_Barrier", 1, 0, 0.125)
        .write()
}

/// The communicators in the first column of CSV.
fn comms(ran: &Ran) -> BTreeSet<String> {
    let lines = ran.exits(0).stdout.lines().skip(1);
    lines.map(|line| line.split(',').next().unwrap().to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_family_with_its_size_is_chosen_without_what_was_made_of_it() {
    let profile = parts();
    let chosen =
        |comm: &str| comms(&profile.run(&["summary", "app.mpisee", "--comm", comm, "--format", "csv"]));
    assert_eq!(chosen("W_s1.*@2"), set(&["W_s1.0", "W_s1.2"]));
    assert_eq!(chosen("W_s1.*@1"), set(&["W_s1.4"]));
    assert_eq!(chosen("W_s1.*_d1"), set(&["W_s1.0_d1", "W_s1.2_d1", "W_s1.4_d1"]));
    let all = ["W_s1.0", "W_s1.0_d1", "W_s1.2", "W_s1.2_d1", "W_s1.4", "W_s1.4_d1"];
    assert_eq!(chosen("W_s1.*"), set(&all));
    let ops = profile.run(&["ops", "app.mpisee", "--comm", "W_s1.*@2", "--format", "csv"]);
    let ops = &ops.exits(0).stdout;
    assert!(ops.lines().nth(1).unwrap().starts_with("MPI_Allreduce,collective,2,"), "{ops}");
    assert_eq!(ops.lines().count(), 2, "{ops}");
}

#[test]
fn families_are_chosen_by_the_names_that_tables_print() {
    let profile = parts();
    let table = profile.run(&["summary", "app.mpisee", "--all"]);
    let names = table.exits(0).stdout.lines().filter_map(|line| line.split(' ').next());
    let names: Vec<&str> = names.filter(|name| name.starts_with("W_")).collect();
    assert_eq!(names, ["W_s1.*@2", "W_s1.*_d1", "W_s1.*@1", "W_s1.4_d1"]);
    for name in names {
        let ran = profile.run(&["summary", "app.mpisee", "--all", "--comm", name]);
        let shown = ran.exits(0).stdout.lines().any(|line| line.split(' ').next() == Some(name));
        assert!(shown, "{name}:\n{}", ran.stdout);
    }
}

#[test]
fn expectations_are_about_families_with_their_sizes() {
    let profile = parts();
    let lines = "calls of MPI_Allreduce on W_s1.*@2 = 40\noperations on W_s1.*@2 = 1\noperations on W_s1.* = 2\n\
                 communicators on W_s1.*@2 = 2\ncalls of MPI_Allreduce on W_s1.*@3 = 1\n";
    std::fs::write(profile.beside().join("app.expect"), lines).unwrap();
    let ran = profile.run(&["expect", "app.expect", "app.mpisee", "--format", "csv"]);
    let lines: Vec<&str> = ran.exits(1).stdout.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "ok,1,calls of MPI_Allreduce on W_s1.*@2 = 40,40",
            "ok,2,operations on W_s1.*@2 = 1,1",
            "ok,3,operations on W_s1.* = 2,2",
            "ok,4,communicators on W_s1.*@2 = 2,2",
            "FAILED,5,calls of MPI_Allreduce on W_s1.*@3 = 1,0 (no such communicator)",
        ]
    );
}

#[test]
fn a_family_that_is_not_there_is_an_error_with_those_that_are() {
    let profile = parts();
    for command in ["summary", "ops", "comms", "matrix"] {
        let ran = profile.run(&[command, "app.mpisee", "--comm", "W_s1.*@8"]);
        ran.fails_with(&["families are W_s1.*@1, W_s1.*@2, W_s1.*_d1@2"]);
    }
}

/// A filter that takes nothing of `splatt`, by option.
const NOTHING: [(&str, &str); 9] = [
    ("--comm", "X*"),
    ("--ranks", "99"),
    ("--kind", "io"),
    ("--call", "Allredcue"),
    ("--size", "16-31"),
    ("--region", "solver"),
    ("--memory", "device,managed"),
    ("--time-min", "1000"),
    ("--time-max", "1ns"),
];

/// The sentences of commands, each with what leads to it.
#[derive(Default)]
struct Refusals(BTreeMap<String, Vec<String>>);

impl Refusals {
    fn add(&mut self, profile: &Written, command: &str, filters: &[&str]) {
        let runs: &[&str] = if command == "diff" { &["app.mpisee", "app.mpisee"] } else { &["app.mpisee"] };
        let ran = profile.run(&[&[command], runs, filters].concat());
        ran.fails_with(&[]);
        self.0.entry(ran.stderr).or_default().push(format!("{command} {}", filters.join(" ")));
    }
}

#[test]
fn a_filter_that_takes_nothing_is_named_with_what_there_is() {
    let profile = splatt().write();
    let mut refusals = Refusals::default();
    for command in ["summary", "ops", "sizes", "ranks", "regions", "diff"] {
        NOTHING.iter().for_each(|&(option, value)| refusals.add(&profile, command, &[option, value]));
    }
    for command in ["comms", "matrix", "locality", "advise"] {
        NOTHING[..2].iter().for_each(|&(option, value)| refusals.add(&profile, command, &[option, value]));
    }
    refusals.add(&profile, "ops", &["--call", "Send", "--comm", "W_a1", "--ranks", "0-3"]);
    refusals.add(&profile, "ops", &["--call", "Send", "--time-min", "1"]);
    let text = refusals.0.iter().map(|(said, by)| format!("{said}  {}\n", by.join("\n  ")));
    golden("filters-nothing", &text.collect::<String>());
}

#[test]
fn bounds_on_times_choose_operations_in_every_command() {
    // The slowest rank spent 1.875 s in MPI_Alltoallv, and less than a second in any other
    // operation.
    let profile = splatt().region("solver", 0, 1, 5.0, 1.0).with(|profile| {
        let first = |row: &&mut mpisee_profile::rows::CallRow| row.rank == 0;
        profile.calls.iter_mut().filter(first).for_each(|row| row.region = "solver".to_owned());
    });
    let profile = profile.write();
    let rows = |command: &[&str]| -> Vec<String> {
        let ran = profile.run(&[command, &["--time-min", "1", "--format", "csv"]].concat());
        ran.exits(0).stdout.lines().skip(1).map(str::to_owned).collect()
    };
    let first = |rows: &[String]| -> BTreeSet<String> {
        rows.iter().map(|row| row.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(first(&rows(&["summary", "app.mpisee"])), set(&["W_a1"]));
    assert_eq!(first(&rows(&["ops", "app.mpisee"])), set(&["MPI_Alltoallv"]));
    assert_eq!(first(&rows(&["sizes", "app.mpisee"])), set(&["MPI_Alltoallv"]));
    let changes = rows(&["diff", "app.mpisee", "app.mpisee"]);
    assert_eq!(first(&changes), set(&["W_a1"]));
    // Three calls of MPI_Alltoallv by each rank, and none of MPI_Allreduce.
    let ranks = rows(&["ranks", "app.mpisee", "--sort", "rank"]);
    assert!(ranks[0].starts_with("0,node0,10.000000000,"), "{}", ranks[0]);
    assert!(ranks[0].ends_with(",3000017,3,MPI_Alltoallv,W_a1,1.000000000,"), "{}", ranks[0]);
    let regions = rows(&["regions", "app.mpisee"]);
    assert!(
        regions[0].starts_with("solver,1,1,5.0") && regions[0].ends_with(",3000017,3,0.5"),
        "{regions:?}"
    );
}
