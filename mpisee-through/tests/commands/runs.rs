//! `mpisee-through runs`: repetitions and series, planted and found.

use crate::support::Builder;
use crate::support::runs::{copy, repetitions, run, series, write};

#[test]
fn the_communicator_that_goes_with_the_run_time_is_found() {
    let home = write(&repetitions());
    let ran = home.run(&["runs", "set"]);
    ran.golden("runs-repetitions");
    let ran = home.run(&["runs", "set", "--table", "variation", "--format", "csv"]);
    ran.golden("runs-repetitions.csv");
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let rows: Vec<std::collections::BTreeMap<String, String>> =
        reader.deserialize().map(Result::unwrap).collect();
    let share = |row: &std::collections::BTreeMap<String, String>| -> f64 {
        row["share_of_differences"].parse().unwrap_or(0.0)
    };
    let all: f64 = rows.iter().map(share).sum();
    assert!((all - 1.0).abs() < 1e-6, "the differences are divided: {all}");
}

#[test]
fn an_outlier_is_named() {
    let mut runs = repetitions();
    runs.push(run(4, [9.0, 0.5, 1.2]).with(|profile| profile.run.start = "2026-06-01T13:00:00Z".to_owned()));
    let ran = write(&runs).run(&["runs", "set"]);
    let said = "Outlier: app-7.mpisee took 10.7 s, ";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
}

#[test]
fn a_copy_of_a_run_counts_once() {
    let home = write(&repetitions()[..2]);
    copy(&home, "set/app-1.mpisee", "set/app-3.mpisee");
    let ran = home.run(&["runs", "set"]);
    let said = "set/app-3.mpisee is a copy of set/app-1.mpisee: both are of one run, which counts once.";
    assert!(ran.exits(0).stdout.contains(said) && ran.stdout.contains("2 runs of "), "{}", ran.stdout);
    home.run(&["runs", "set/app-1.mpisee", "set/app-3.mpisee"])
        .fails_with(&["is a copy of set/app-1.mpisee"]);
    copy(&home, "set/app-1.mpisee", "set/app-4.mpisee");
    let ran = home.run(&["runs", "set"]);
    assert!(ran.exits(0).stdout.contains("2 profiles are copies of others, as set/app-3"), "{}", ran.stdout);
    // A run with other processes that began in the same second is another one.
    home.replace("../set/app-3.mpisee/ranks.csv", "0,node0,", "0,node1,");
    home.run(&["runs", "set/app-1.mpisee", "set/app-3.mpisee"]).exits(0);
}

#[test]
fn planted_growth_is_found() {
    let home = write(&series(&[1, 2, 4, 8, 16]));
    for width in [80, 140] {
        home.golden_at(width, "runs-series", &["runs", "set"]);
    }
    home.run(&["runs", "set", "--format", "csv"]).golden("runs-series.csv");
    home.run(&["runs", "set", "--table", "growth", "--format", "csv"]).golden("runs-growth.csv");
    home.run(&["runs", "set", "--format", "json"]).golden("runs-series.json");
}

#[test]
fn two_settings_have_a_speedup_and_no_model() {
    let ran = write(&series(&[2, 4])).run(&["runs", "set"]);
    assert!(ran.exits(0).stdout.contains("Growth is fitted to three settings or more"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("2 of 2 settings ran once: the noise between equal runs is unknown"),
        "{}",
        ran.stdout
    );
    let ran = write(&series(&[2, 4])).run(&["runs", "set", "--table", "growth"]);
    ran.fails_with(&["growth needs three settings"]);
}

#[test]
fn a_parameter_of_the_command_is_a_series() {
    let runs = [100u32, 200, 400, 800].map(|size| {
        let n = f64::from(size);
        run(4, [1e-5 * n * n, 0.001, 1e-3 * n])
            .with(|profile| profile.run.command = vec!["./app".to_owned(), "-n".to_owned(), size.to_string()])
    });
    let home = write(&runs);
    home.golden_at(140, "runs-parameter", &["runs", "set"]);
}

#[test]
fn what_does_not_belong_together_is_said() {
    let other = run(4, [1.0; 3]).with(|profile| profile.run.command = vec!["./lu".to_owned()]);
    let ran = write(&[run(4, [1.0; 3]), other]).run(&["runs", "set"]);
    assert!(
        ran.exits(0).stdout.contains("There are neither repetitions nor a series among the runs."),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("./lu on 4 ranks ran once and is in no series: set/app-2.mpisee."),
        "{}",
        ran.stdout
    );
    let home = write(&repetitions());
    home.run(&["runs", "app.mpisee"])
        .fails_with(&["is one run, but runs compares several", "mpisee --repeat 5"]);
    home.run(&["runs", "set/app-1.mpisee", "nothing"])
        .fails_with(&["'nothing'", "there is nothing of that name"]);
    home.run(&["runs", "nothing.runs"]).fails_with(&["'nothing.runs'"]);
    assert!(!home.run(&["runs", "nothing.runs"]).stderr.contains("is one run"));
    std::fs::create_dir(home.beside().join("empty")).unwrap();
    home.run(&["runs", "empty"]).fails_with(&["'empty' is no profile", "no profile in it"]);
}

#[test]
fn communicators_of_nccl_are_told_apart_by_their_size() {
    let run = |digests: [&str; 2]| {
        let [all, pair] = digests.map(|digest| format!("N1-{digest}"));
        Builder::new(4)
            .comm(&all, "", "ncclCommInitRank", "0-3", |_| {})
            .comm(&pair, "", "ncclCommInitRank", "0-1", |_| {})
            .call(&all, 0, "ncclAllReduce", 2, 142, 1.0)
            .call(&pair, 0, "ncclAllReduce", 2, 62, 2.0)
    };
    let ran = write(&[run(["zzzzzzzz", "aaaaaaaa"]), run(["00000000", "bbbbbbbb"])]).run(&["runs", "set"]);
    let text = &ran.exits(0).stdout;
    assert!(text.contains("\nN1 ") && text.contains("\nN1@2 "), "{text}");
}

#[test]
fn runs_without_mpi_have_no_times_of_it() {
    let run = |time_s: f64| {
        let built = Builder::new(2).comm("N1-zzzzzzzz", "", "ncclCommInitRank", "0-1", |_| {});
        let built = built.call("N1-zzzzzzzz", 0, "ncclAllReduce", 2, 142, time_s);
        built.with(|profile| profile.run.mpi.library = "none".to_owned())
    };
    let ran = write(&[run(1.0), run(2.0)]).run(&["runs", "set"]);
    let text = &ran.exits(0).stdout;
    assert!(text.contains("run time") && text.contains("outside of NCCL"), "{text}");
    assert!(!text.contains("MPI time") && !text.contains("outside of MPI"), "{text}");
}
