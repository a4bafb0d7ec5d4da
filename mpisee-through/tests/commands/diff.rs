//! `mpisee-through diff` and `expect`: two runs, and a run against what is expected of it.

mod cores;
mod nccl;

use crate::support::{Builder, Ran, Written, golden, pools, runs, splatt};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Runs `diff` on two profiles.
fn diff(before: &Builder, after: &Builder, arguments: &[&str]) -> Ran {
    let (before, after) = (before.write(), after.write());
    std::fs::rename(&after.directory, before.beside().join("after.mpisee")).unwrap();
    before.run(&[&["diff", "app.mpisee", "after.mpisee"], arguments].concat())
}

/// The run of [`splatt`] with a duplicate before everything else, and more reductions by one rank.
fn changed() -> Builder {
    let mut profile = splatt()
        .comm("W_d9", "W", "MPI_Comm_dup", "0-7", |_| {})
        .call("W_d9", 0, "MPI_Barrier", 3, 0, 0.5)
        .call("W", 6, "MPI_Allreduce", 40, 320, 1.0);
    for row in profile.calls.iter_mut().filter(|row| row.comm == "W_a1_s2.0") {
        row.comm = "W_a1_s3.0".to_owned();
    }
    profile
        .comms
        .iter_mut()
        .filter(|row| row.comm == "W_a1_s2.0")
        .for_each(|row| row.comm = "W_a1_s3.0".to_owned());
    profile
}

#[test]
fn changed_rows_come_first() {
    diff(&splatt(), &changed(), &[]).golden("diff-what_changed_comes_first");
    diff(&splatt(), &splatt(), &["--top", "1"]).golden("diff-what_changed_comes_first-2");
    diff(&splatt(), &changed(), &["--format", "csv", "--comm", "W", "--call", "*reduce"]).prints("\
comm,comm_after,call,calls_before,calls_after,bytes_before,bytes_after,mean_before_s,mean_after_s,time_change,noise_s,may_be_noise
W,,MPI_Allreduce,80,120,640,960,0.250000000,0.375000000,0.500000000,,
");
}

#[test]
fn a_bound_that_is_exceeded_is_exit_code_1() {
    let failing =
        diff(&splatt(), &changed(), &["--fail-if", "time+5%", "--fail-if", "calls+100", "--top", "1"]);
    failing.exits(1);
    assert!(
        failing
            .stdout
            .contains("Failed     time+5 %: from 1.98 s to 2.17 s (+9.4 %)\nHolds      calls+100 per rank: "),
        "{}",
        failing.stdout
    );
    let holding = diff(&splatt(), &changed(), &["--fail-if", "time+10%", "--fail-if", "time+10"]);
    let said = "Holds      time+10 %: from 1.98 s to 2.17 s (+9.4 %)\n\
                Holds      time+10 s: from 1.98 s to 2.17 s (+9.4 %)\n";
    assert!(holding.exits(0).stdout.ends_with(said), "{}", holding.stdout);
    diff(&changed(), &splatt(), &["--fail-if", "time+0%", "--fail-if", "calls+0"]).exits(0);
    diff(&splatt(), &splatt(), &["--fail-if", "bytes+0", "--fail-if", "wall-0%"]).exits(0);
    diff(&splatt(), &splatt(), &["--fail-if", "speed+0"])
        .fails_with(&["--fail-if", "'speed+0' is not a bound"]);
}

/// A grid of so many rows of four, each with reductions.
fn rows_of_four(rows: u32) -> Builder {
    let mut builder = Builder::new(4 * rows);
    for row in 0..rows {
        let comm = format!("W_s1.{}", 4 * row);
        let members = format!("{}-{}", 4 * row, 4 * row + 3);
        builder = builder.comm(&comm, "W", "MPI_Comm_split", &members, |_| {});
        for rank in 4 * row..4 * row + 4 {
            builder = builder.call(&comm, rank, "MPI_Allreduce", 10, 80, 0.5 * f64::from(rows));
        }
    }
    builder
}

#[test]
fn runs_of_different_sizes_are_compared_per_rank() {
    diff(&rows_of_four(2), &rows_of_four(3), &[])
        .golden("diff-runs_of_different_sizes_are_compared_per_rank");
}

#[test]
fn runs_of_other_programs_mpis_and_sizes_are_noted_first() {
    let other = rows_of_four(3).with(|profile| {
        profile.run.command = vec!["/opt/other/lu".to_owned()];
        profile.run.mpi.library = "MPICH Version: 4.0.2".to_owned();
        profile.run.nodes = 3;
    });
    let ran = diff(&rows_of_four(2), &other, &[]);
    let notes = "\
Note       The runs have different programs: splatt in A, lu in B.
Note       The runs have different MPI libraries: Open MPI v5.0.3 in A, MPICH Version: 4.0.2 in B.
Note       The runs have different numbers of ranks: 8 in A, 12 in B.
Note       The runs have different numbers of nodes: 1 in A, 3 in B.
Note       A and B are one run each: the noise between equal runs is unknown";
    assert!(ran.exits(0).stdout.starts_with(notes), "{}", ran.stdout);
    let ran = diff(&rows_of_four(2), &other, &["--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert_eq!(document["caveats"].as_array().map(Vec::len), Some(5), "{document}");
    assert_eq!((&document["program_before"], &document["program_after"]), (&"splatt".into(), &"lu".into()));
    assert_eq!((&document["ranks_after"], &document["nodes_after"]), (&12.into(), &3.into()));
    assert!(!diff(&splatt(), &splatt(), &[]).exits(0).stdout.contains("have different"), "like runs");
    let other = splatt().with(|profile| profile.run.command[1] = "tucker".to_owned());
    let said = "Note       The runs have different commands: ./splatt cpd 'my tensor.tns' in A, ./splatt tucker 'my tensor.tns' in B.\n";
    let ran = diff(&splatt(), &other, &[]);
    assert!(ran.exits(0).stdout.starts_with(said), "{}", ran.stdout);
}

#[test]
fn errors_of_either_profile_are_reported() {
    let before = splatt().write();
    before
        .run(&["diff", "app.mpisee", "other.mpisee"])
        .fails_with(&["'other.mpisee'", "nothing of that name"]);
    let incomplete = splatt().with(|profile| profile.run.recording_was_off = true);
    let ran = diff(&splatt(), &incomplete, &[]);
    assert!(ran.exits(0).stdout.contains("\nNote       In B: Recording was off"), "{}", ran.stdout);
}

/// Runs of a program that differ by noise: the time of the reduction in each.
fn set(times_s: &[f64]) -> Vec<Builder> {
    let run = |&time_s: &f64| {
        let mut builder = Builder::new(4).comm("W_d1", "W", "MPI_Comm_dup", "0-3", |_| {});
        for rank in 0..4 {
            builder = builder
                .call("W", rank, "MPI_Allreduce", 10, 80, time_s)
                .call("W_d1", rank, "MPI_Bcast", 5, 50, 1.0 + 0.1 * (7.0 * time_s).sin())
                .with(|profile| profile.ranks[rank as usize].wall_s.0 = 5.0 + time_s);
        }
        builder
    };
    times_s.iter().map(run).collect()
}

/// Writes the runs of both sets to folders `a` and `b`.
fn write_sets(before: &[Builder], after: &[Builder]) -> Written {
    let home = before[0].write();
    for (folder, builders) in [("a", before), ("b", after)] {
        runs::add(&home, folder, builders);
    }
    home
}

#[test]
fn noise_between_repetitions_is_no_finding() {
    let (before, after) = (set(&[1.0, 1.41, 1.1, 1.3]), set(&[1.35, 1.05, 1.2, 1.45]));
    let home = write_sets(&before, &after);
    let ran = home.run(&["diff", "a", "b"]);
    ran.golden("diff-noise");
    // The same, named one by one.
    let names =
        |folder: &str| (1..=4).map(move |number| format!("{folder}/app-{number}.mpisee")).collect::<Vec<_>>();
    let arguments = [vec!["diff".to_owned()], names("a"), vec!["--".to_owned()], names("b")].concat();
    let named = home.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let without_names = |ran: &Ran| ran.stdout.lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(without_names(named.exits(0)), without_names(&ran));
}

#[test]
fn a_change_beyond_the_noise_stands_out() {
    let (before, after) = (set(&[1.0, 1.02, 0.98, 1.01]), set(&[1.5, 1.52, 1.47, 1.49]));
    let home = write_sets(&before, &after);
    home.run(&["diff", "a", "b"]).golden("diff-beyond_noise");
    home.run(&["diff", "a", "b", "--format", "json"]).golden("diff-beyond_noise.json");
    home.run(&["diff", "a", "b", "--fail-if", "wall+5%"]).exits(1);
    home.run(&["diff", "a", "b", "--fail-if", "wall+9%"]).exits(0);
    // One run against a set.
    let ran = home.run(&["diff", "a", "b/app-1.mpisee"]);
    let said = "Note       B is one run. The noise of B is taken to be that of the runs of A.";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    let reduction = ran.stdout.lines().find(|line| line.contains("MPI_Allreduce")).unwrap();
    assert!(reduction.contains("+49.6") && !reduction.contains('~'), "{}", ran.stdout);
}

#[test]
fn sets_that_do_not_repeat_each_other_are_refused() {
    let other = set(&[1.0]).pop().unwrap().with(|profile| profile.run.command = vec!["./lu".to_owned()]);
    let mut before = set(&[1.0]);
    before.push(other);
    let home = write_sets(&before, &set(&[1.0]));
    home.run(&["diff", "a", "b"])
        .fails_with(&["the runs of A do not repeat each other", "'./lu' on 4 ranks"]);
    home.run(&["diff", "a"]).fails_with(&["'a' is one; name the other"]);
    home.run(&["diff", "a", "b", "app.mpisee"])
        .fails_with(&["put -- between the paths of A and of B (there are 3)"]);
}

/// Runs with a reduction and an exchange that take so long, by rank, in two places of the program.
fn set_of_places(times_s: &[[f64; 2]], line: u32) -> Vec<Builder> {
    let run = |&[reduce_s, exchange_s]: &[f64; 2]| {
        let mut builder = Builder::new(4);
        builder.line("norm", "solver.c", line);
        builder.line("halo", "halo.c", 57);
        // Each has a build of its own.
        for row in &mut builder.sites {
            row.build_id = format!("ab{line}");
            let offset = u64::from(row.line.unwrap());
            row.site = mpisee_profile::SiteId::new(&row.module, &row.build_id, 0, offset);
        }
        let [reduce, exchange] = [0, 1].map(|place| builder.sites[place].site);
        for rank in 0..4 {
            builder = builder
                .call_with("W", rank, "MPI_Allreduce", 10, 80, reduce_s, |row| row.site = Some(reduce))
                .call_with("W", rank, "MPI_Waitall", 5, 0, exchange_s, |row| row.site = Some(exchange));
        }
        builder
    };
    times_s.iter().map(run).collect()
}

#[test]
fn places_of_sets_have_the_noise_of_their_runs() {
    // The reduction changes by no more than its runs differ; the exchange does, and its line has
    // moved.
    let before = [[1.0, 2.0], [1.3, 2.02], [1.1, 1.98], [1.2, 2.01]];
    let after = [[1.25, 2.5], [1.05, 2.52], [1.3, 2.48], [1.15, 2.51]];
    let home = write_sets(&set_of_places(&before, 20), &set_of_places(&after, 22));
    home.golden_at(160, "diff-sites-sets", &["diff", "a", "b", "--by", "site"]);
    home.run(&["diff", "a", "b", "--by", "site", "--format", "json"]).golden("diff-sites-sets.json");
    // A single run of each side is compared as before, without a word of noise; one against a set
    // is taken to differ as these.
    let ran = home.run(&["diff", "a/app-1.mpisee", "b/app-1.mpisee", "--by", "site"]);
    assert!(!ran.exits(0).stdout.contains("Noise") && !ran.stdout.contains('~'), "{}", ran.stdout);
    let ran = home.run(&["diff", "a", "b/app-1.mpisee", "--by", "site"]);
    assert!(ran.exits(0).stdout.contains("B is one run. The noise of B is taken to be"), "{}", ran.stdout);
    let exchange = ran.stdout.lines().find(|line| line.contains("MPI_Waitall")).unwrap();
    assert!(exchange.contains("+24.8") && !exchange.contains('~'), "{}", ran.stdout);
    // A copy counts once here, too.
    runs::copy(&home, "a/app-1.mpisee", "a/app-9.mpisee");
    let ran = home.run(&["diff", "a", "b", "--by", "site"]);
    assert!(
        ran.exits(0).stdout.contains("a (4 runs of ") && ran.stdout.contains("is a copy of"),
        "{}",
        ran.stdout
    );
}

#[test]
fn copies_of_a_run_are_no_repetitions() {
    let home = write_sets(&set(&[1.0, 1.02]), &set(&[1.5, 1.52]));
    let without = home.run(&["diff", "a", "b"]);
    runs::copy(&home, "a/app-1.mpisee", "a/app-9.mpisee");
    let ran = home.run(&["diff", "a", "b"]);
    let said = "In A: a/app-9.mpisee is a copy of a/app-1.mpisee: both are of one run, which counts once.";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    let tables = |ran: &Ran| ran.stdout[ran.stdout.find("A    ").unwrap()..].to_owned();
    assert_eq!(tables(&ran), tables(&without), "the copy changes no number");
    std::fs::write(home.beside().join("app.expect"), "communicators = 2\n").unwrap();
    let ran = home.run(&["expect", "app.expect", "a"]);
    assert!(ran.exits(0).stdout.contains("a/app-9.mpisee is a copy of a/app-1.mpisee"), "{}", ran.stdout);
    // A run in both sets.
    runs::copy(&home, "a/app-1.mpisee", "b/app-3.mpisee");
    let ran = home.run(&["diff", "a", "b"]);
    let said = "1 run of B is in A, too (a/app-1.mpisee and b/app-3.mpisee): the noise between A and B is underestimated.";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    runs::copy(&home, "a/app-1.mpisee", "c/app-1.mpisee");
    runs::copy(&home, "a/app-2.mpisee", "c/app-2.mpisee");
    home.run(&["diff", "a", "c"]).fails_with(&["A and B are the same runs", "name other runs for B"]);
}

#[test]
fn expectations_hold_in_every_run_and_for_the_median_of_what_is_measured() {
    let mut runs = set(&[1.0, 1.1, 1.2]);
    // One run has a call more, and is uneven.
    let uneven = runs.pop().unwrap().call("W", 0, "MPI_Allreduce", 1, 8, 3.0);
    runs.push(uneven);
    let home = write_sets(&runs, &set(&[1.0]));
    let text = "calls of MPI_Allreduce on W = 40\ncalls of MPI_Allreduce on W <= 41\nimbalance of MPI_Allreduce <= 1.1\n\
                calls of MPI_Bcast = 20\nefficiency >= 0.9\n";
    std::fs::write(home.beside().join("app.expect"), text).unwrap();
    home.run(&["expect", "app.expect", "a"]).golden_exiting(1, "expect-several");
    home.run(&["expect", "--write", "new.expect", "a"]).prints("");
    let written = std::fs::read_to_string(home.beside().join("new.expect")).unwrap();
    let range = "calls of MPI_Allreduce on W >= 40\ncalls of MPI_Allreduce on W <= 41\n";
    assert!(written.contains(range), "{written}");
    assert!(written.contains("calls of MPI_Bcast on W_d1 = 20\n"), "{written}");
    home.run(&["expect", "new.expect", "a/app-1.mpisee", "a/app-2.mpisee", "a/app-3.mpisee"]).exits(0);
}

fn expecting(profile: &Written, text: &str) -> Ran {
    std::fs::write(profile.beside().join("app.expect"), text).unwrap();
    profile.run(&["expect", "app.expect", "app.mpisee"])
}

#[test]
fn failed_expectation_exits_with_1() {
    let profile = splatt().write();
    let text = "\
# comments and empty lines do not count

calls of MPI_Allreduce on W = 80
operations on W = 3
bytes of Bcast <= 605   # too much
imbalance of *lv on W_a1 <= 1.5
communicators = 5
communicators on W_a1_s2.* >= 2
alive = 4
efficiency >= 0.9
";
    let ran = expecting(&profile, text);
    ran.exits(1);
    assert_eq!(ran.stderr, "");
    assert_eq!(
        ran.stdout,
        "\
OUTCOME  LINE  EXPECTED                          FOUND
ok          3  calls of MPI_Allreduce on W = 80  80
ok          4  operations on W = 3               3
FAILED      5  bytes of Bcast <= 605             606
ok          6  imbalance of *lv on W_a1 <= 1.5   1.3043
ok          7  communicators = 5                 5
ok          8  communicators on W_a1_s2.* >= 2   2
ok          9  alive = 4                         4
FAILED     10  efficiency >= 0.9                 0.6662
"
    );
    expecting(&profile, "alive <= 4\n").exits(0);
    expecting(&profile, "imbalance of MPI_Gather <= 4\n").exits(1);
}

#[test]
fn an_expectation_of_nothing_does_not_pass() {
    let profile = splatt().write();
    for (line, code, outcome) in [
        ("calls of ALLREDUCE on W = 80", 0, "ok "),
        ("calls of MPI_Gather <= 80", 1, "NOT CHECKED"),
        ("calls of MPI_Gather <= 0", 0, "ok "),
        ("calls of MPI_Gather = 0", 0, "ok "),
        ("calls of MPI_Allreduce on X = 0", 1, "NOT CHECKED"),
        ("calls of MPI_Allreduce on X = 3", 1, "FAILED"),
        ("alive on X <= 3", 1, "NOT CHECKED"),
        ("communicators on X <= 3", 1, "NOT CHECKED"),
        ("communicators on X = 0", 0, "ok "),
    ] {
        let ran = expecting(&profile, &format!("{line}\n"));
        assert!(ran.exits(code).stdout.contains(&format!("\n{outcome}")), "{line}: {}", ran.stdout);
    }
    let ran = expecting(&profile, "calls of MPI_Allreduce on X = 3\n");
    assert!(ran.stdout.contains("0 (no such communicator)"), "{}", ran.stdout);
    expecting(&profile, "calls of MPI_Allredcue <= 3\n")
        .fails_with(&["line 1", "did you mean MPI_Allreduce"]);
}

#[test]
fn written_expectations_hold() {
    let profile = splatt().write();
    let hint = profile.run(&["expect", "--write", "app.expect", "app.mpisee"]);
    assert!(hint.exits(0).stderr.contains("limits from one profile have 10 % of room"), "{}", hint.stderr);
    let text = std::fs::read_to_string(profile.beside().join("app.expect")).unwrap();
    assert!(text.contains("Calls and bytes are those of one run and 10 % more."), "{text}");
    assert!(text.contains("\ncalls of MPI_Allreduce on W <= 88\n"), "{text}");
    assert!(text.lines().count() <= 20, "{text}");
    assert!(!text.contains("bytes of MPI_Comm_dup"), "it never has any: {text}");
    assert!(!text.contains("imbalance of MPI_Comm_dup"), "on one process it cannot be uneven: {text}");
    assert!(!text.contains("W_x2"), "it has no calls: {text}");
    assert!(text.contains("\nimbalance of MPI_Alltoallv on W_a1 <= 2.0\n"), "{text}");
    profile.run(&["expect", "app.expect", "app.mpisee"]).exits(0);
    profile
        .run(&["expect", "--write", "app.expect", "app.mpisee"])
        .fails_with(&["'app.expect' exists already", "--write 'app.expect.new'"]);
    let on_stdout = profile.run(&["expect", "--write", "-", "app.mpisee"]);
    assert_eq!(on_stdout.exits(0).stdout, text.replace("through expect app.expect", "through expect FILE"));
    assert!(!profile.beside().join("-").exists());
    let other = changed().write();
    std::fs::write(other.beside().join("app.expect"), text).unwrap();
    let ran = other.run(&["expect", "app.expect", "app.mpisee"]);
    ran.exits(1);
    let failed: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("FAILED")).collect();
    assert_eq!(failed.len(), 4, "{}", ran.stdout);
}

#[test]
fn expectations_fit_the_page() {
    let profile = pools().write();
    let hint = profile.run(&["expect", "--write", "app.expect", "app.mpisee"]);
    assert!(hint.exits(0).stderr.contains("limits from one profile have 10 % of room"), "{}", hint.stderr);
    golden("expect-written", &std::fs::read_to_string(profile.beside().join("app.expect")).unwrap());
    let text = "calls of Allreduce on W_s1.* = 8000\nalive <= 4\nefficiency >= 0.9\ncalls of Gather = 1\n\
                imbalance of MPI_Scan <= 2\nbytes of MPI_Alltoall on W_s1.*_d* = 3774873600\n";
    expecting(&profile, text).golden_exiting(1, "expect-failed");
    for width in ["60", "100"] {
        let ran = profile.run(&["expect", "app.expect", "app.mpisee", "--width", width]);
        ran.golden_exiting(1, &format!("expect-failed-{width}"));
    }
    for format in ["csv", "json"] {
        let ran = profile.run(&["expect", "app.expect", "app.mpisee", "--format", format]);
        ran.golden_exiting(1, &format!("expect-failed.{format}"));
    }
}

#[test]
fn a_mistake_in_the_expectations_is_found_by_its_line() {
    let profile = splatt().write();
    expecting(&profile, "alive = 1\nalive = many\n")
        .fails_with(&["'app.expect', line 2: 'many' is not a number"]);
    expecting(&profile, "# nothing\n").fails_with(&["'app.expect' has no expectation"]);
    profile.run(&["expect", "none", "app.mpisee"]).fails_with(&["cannot read 'none'"]);
}

/// Calls, and the time of each of four ranks.
type Side = (u64, [f64; 4]);

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_are_those_of_the_means(
        rows in proptest::collection::vec((0..2usize, 0..3usize, 0..4u32, 1..9u64, 0..900_000u32), 0..40)
    ) {
        const CALLS: [&str; 3] = ["MPI_Bcast", "MPI_Send", "MPI_Wait"];
        let mut runs = [Builder::new(4), Builder::new(4)];
        let mut expected: BTreeMap<&str, [Option<Side>; 2]> = BTreeMap::new();
        for (run, call, rank, calls, micros) in rows {
            let time_s = f64::from(micros) * 1e-6;
            let builder = std::mem::replace(&mut runs[run], Builder::new(1));
            runs[run] = builder.call("W", rank, CALLS[call], calls, 0, time_s);
            let side = expected.entry(CALLS[call]).or_default()[run].get_or_insert_default();
            side.0 += calls;
            side.1[rank as usize] += time_s;
        }
        let ran = diff(&runs[0], &runs[1], &["--format", "csv"]);
        let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        let mut seen = 0;
        for row in reader.deserialize::<BTreeMap<String, String>>() {
            let row = row.unwrap();
            let sides = &expected[row["call"].as_str()];
            for (side, name) in sides.iter().zip(["before", "after"]) {
                let (calls, mean) = (&row[&format!("calls_{name}")], &row[&format!("mean_{name}_s")]);
                match side {
                    None => prop_assert!(calls.is_empty() && mean.is_empty()),
                    Some((expected_calls, times)) => {
                        prop_assert_eq!(calls.parse::<u64>(), Ok(*expected_calls));
                        let expected = times.iter().sum::<f64>() / 4.0;
                        prop_assert!((mean.parse::<f64>().unwrap() - expected).abs() < 1e-8);
                    }
                }
            }
            // Of two single runs there is no noise, and so no mark.
            prop_assert!(row["noise_s"].is_empty() && row["may_be_noise"].is_empty());
            seen += 1;
        }
        prop_assert_eq!(seen, expected.len());
    }
}

/// The solver after a change: lines moved, a place is faster, one is gone, a new one has come, and
/// all addresses are others.
fn rebuilt() -> Builder {
    let mut profile = crate::support::solver();
    let sites: Vec<_> = profile.sites.iter().map(|row| row.site).collect();
    for row in &mut profile.sites {
        row.build_id += "0";
        let offset = u64::from_str_radix(&row.offset[2..], 16).unwrap() + 64;
        row.offset = format!("{offset:#x}");
        row.site = mpisee_profile::SiteId::new(&row.module, &row.build_id, 0, offset);
        row.line = row.line.map(|line| line + 4);
        if row.function == "write_results" {
            row.function = "write_all".to_owned();
        }
    }
    let new: std::collections::HashMap<_, _> =
        sites.iter().copied().zip(profile.sites.iter().map(|row| row.site)).collect();
    for row in &mut profile.calls {
        row.site = row.site.map(|site| new[&site]);
        if row.call == "MPI_Waitall" && row.comm != "W" {
            row.time_s.0 /= 2.0;
        }
    }
    for row in &mut profile.stacks {
        let sites = row.sites.split(' ').map(|site| new[&site.parse().unwrap()].to_string());
        row.sites = sites.collect::<Vec<_>>().join(" ");
    }
    profile
}

#[test]
fn places_are_paired_between_builds() {
    let before = crate::support::solver();
    diff(&before, &rebuilt(), &["--by", "site"]).golden("diff-by_site");
    diff(&before, &rebuilt(), &["--by", "site", "--format", "csv"]).golden("diff-by_site.csv");
    // In the same build each place is itself.
    let ran = diff(&before, &before, &["--by", "site", "--format", "csv"]);
    for line in ran.exits(0).stdout.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields[1], fields[7]), ("", "0.000000000"), "{line}");
    }
    diff(&before, &splatt(), &["--by", "site"]).fails_with(&["'after.mpisee' has no call sites"]);
    diff(&before, &before, &["--by", "site", "--fail-if", "time+1%"]).fails_with(&["leave out --by site"]);
}

#[test]
fn calls_of_a_place_are_expected() {
    let profile = crate::support::solver().write();
    let check = |text: &str| {
        std::fs::write(profile.beside().join("app.expect"), text).unwrap();
        profile.run(&["expect", "app.expect", "app.mpisee", "--format", "csv"])
    };
    let holds = "calls of MPI_Waitall at halo.c = 6000\ncalls at exchange = 4000\ncalls at halo.c:93 on W = 2000\n\
                 calls at write_results >= 36\ncalls of MPI_Waitall at nowhere = 0\n";
    check(holds).exits(0);
    let ran = check("calls at exchange* on W_s1.* <= 3999\ncalls of MPI_Waitall at nowhere <= 3\n");
    let rows: Vec<&str> = ran.exits(1).stdout.lines().skip(1).collect();
    assert_eq!(rows[0], "FAILED,1,calls at exchange* on W_s1.* <= 3999,4000");
    assert_eq!(rows[1], "NOT CHECKED,2,calls of MPI_Waitall at nowhere <= 3,0 (no such call there)");
    let without = splatt().write();
    std::fs::write(without.beside().join("app.expect"), holds).unwrap();
    without.run(&["expect", "app.expect", "app.mpisee"]).fails_with(&["'app.mpisee' has no call sites"]);
}

#[test]
fn calls_that_may_be_at_the_place_are_neither_there_nor_missing() {
    let profile = crate::support::solver().write();
    // 12 calls of MPI_Barrier are in a library without lines, 4 of MPI_Comm_split at no site, and
    // of 4 of 40 calls to write nobody knows who called HDF5.
    let without_line = "0 (at least: of 12 calls no line is known)";
    for (line, outcome, found) in [
        ("calls of MPI_Barrier at solver.c:310 = 12", "NOT CHECKED", without_line),
        ("calls of MPI_Barrier at solver.c:310 >= 12", "NOT CHECKED", without_line),
        ("calls of MPI_Barrier at solver.c:310 = 0", "NOT CHECKED", without_line),
        ("calls of MPI_Barrier at solver.c:310 <= 3", "NOT CHECKED", without_line),
        ("calls of MPI_Barrier at solver.c:310 <= 12", "ok", "0"),
        ("calls of MPI_Barrier at solver.c:310 = 13", "FAILED", without_line),
        ("calls of MPI_Barrier at solver.c:310 on W_s1.* = 3", "FAILED", "0 (no such call)"),
        (
            "calls of MPI_Comm_split at main = 4",
            "NOT CHECKED",
            "0 (at least: of 4 calls no call site is known)",
        ),
        (
            "calls at write_results = 40",
            "NOT CHECKED",
            "36 (at least: of 4 calls no caller outside of its library is known)",
        ),
        (
            "calls at write_results = 41",
            "FAILED",
            "36 (at least: of 4 calls no caller outside of its library is known)",
        ),
        (
            "calls at nowhere = 0",
            "NOT CHECKED",
            "0 (at least: of 12 calls no line, of 4 calls no caller outside of its library, of 4 calls no call site is known)",
        ),
    ] {
        std::fs::write(profile.beside().join("app.expect"), format!("{line}\n")).unwrap();
        let ran = profile.run(&["expect", "app.expect", "app.mpisee", "--format", "json"]);
        let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let row = &answer["expectations"][0];
        assert_eq!((row["outcome"].as_str(), row["found"].as_str()), (Some(outcome), Some(found)), "{line}");
        assert_eq!(ran.code, Some(i32::from(outcome != "ok")), "{line}");
    }
    let ran = expecting(&profile, "calls of MPI_Barrier at solver.c:310 = 12\n");
    let note = "\n\nNo lines are known of libtools.so (not on this machine). MPISEE_DEBUGINFO=DIR names a folder that has it as it ran.\n";
    assert!(ran.exits(1).stdout.ends_with(note), "{}", ran.stdout);
    let ran = expecting(&profile, "calls of MPI_Waitall at halo.c = 5\n");
    assert!(!ran.exits(1).stdout.contains("No lines"), "{}", ran.stdout);
}
