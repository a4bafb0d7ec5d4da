//! `mpisee-through diff` and `expect`: two runs, and a run against what is expected of it.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{Builder, Ran, Written, golden, pools, splatt};

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
comm,comm_after,call,calls_before,calls_after,bytes_before,bytes_after,mean_before_s,mean_after_s,time_change,spread_s,within_spread
W,,MPI_Allreduce,80,120,640,960,0.250000000,0.375000000,0.500000000,0.330718914,~
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
";
    assert!(ran.exits(0).stdout.starts_with(notes), "{}", ran.stdout);
    let ran = diff(&rows_of_four(2), &other, &["--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert_eq!(document["caveats"].as_array().map(Vec::len), Some(4), "{document}");
    assert_eq!((&document["program_before"], &document["program_after"]), (&"splatt".into(), &"lu".into()));
    assert_eq!((&document["ranks_after"], &document["nodes_after"]), (&12.into(), &3.into()));
    assert!(!diff(&splatt(), &splatt(), &[]).exits(0).stdout.contains("Note"), "like runs");
}

#[test]
fn errors_of_either_profile_are_reported() {
    let before = splatt().write();
    before
        .run(&["diff", "app.mpisee", "other.mpisee"])
        .fails_with(&["'other.mpisee'", "nothing of that name"]);
    let incomplete = splatt().with(|profile| profile.run.recording_was_off = true);
    let ran = diff(&splatt(), &incomplete, &[]);
    assert!(ran.exits(0).stdout.starts_with("Note       In B: Recording was off"), "{}", ran.stdout);
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
    profile.run(&["expect", "--write", "app.expect", "app.mpisee"]).prints("");
    let text = std::fs::read_to_string(profile.beside().join("app.expect")).unwrap();
    assert!(text.contains("\ncalls of MPI_Bcast on W_a1_s2.* = 6\n"), "{text}");
    assert!(text.contains("\noperations on W_x2 = 0\n"), "{text}");
    assert!(text.contains("\nimbalance of MPI_Alltoallv on W_a1 <= 2.0\n"), "{text}");
    profile.run(&["expect", "app.expect", "app.mpisee"]).exits(0);
    profile
        .run(&["expect", "--write", "app.expect", "app.mpisee"])
        .fails_with(&["'app.expect' exists already", "--write 'app.expect.new'"]);
    let other = changed().write();
    std::fs::write(other.beside().join("app.expect"), text).unwrap();
    let ran = other.run(&["expect", "app.expect", "app.mpisee"]);
    ran.exits(1);
    let failed: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("FAILED")).collect();
    assert_eq!(failed.len(), 9, "{}", ran.stdout);
}

#[test]
fn expectations_fit_the_page() {
    let profile = pools().write();
    profile.run(&["expect", "--write", "app.expect", "app.mpisee"]).prints("");
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
            let deviation = |side: &Option<Side>| side.map_or(0.0, |(_, times)| {
                let mean = times.iter().sum::<f64>() / 4.0;
                (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 4.0).sqrt()
            });
            let both = sides[0].is_some_and(|(_, times)| times.iter().sum::<f64>() > 0.0) && sides[1].is_some();
            if both {
                let spread = deviation(&sides[0]).max(deviation(&sides[1]));
                prop_assert!((row["spread_s"].parse::<f64>().unwrap() - spread).abs() < 1e-8);
            }
            seen += 1;
        }
        prop_assert_eq!(seen, expected.len());
    }
}

/// The solver after a change: lines moved, a place is faster, one is gone, a new one has come, and all addresses are others.
fn rebuilt() -> Builder {
    let mut profile = support::solver();
    let sites: Vec<_> = profile.sites.iter().map(|row| row.site).collect();
    for row in &mut profile.sites {
        row.build_id += "0";
        let offset = u64::from_str_radix(&row.offset[2..], 16).unwrap() + 64;
        row.offset = format!("{offset:#x}");
        row.site = mpisee_profile::SiteId::new(&row.module, &row.build_id, offset);
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
    let before = support::solver();
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
    let profile = support::solver().write();
    let check = |text: &str| {
        std::fs::write(profile.beside().join("app.expect"), text).unwrap();
        profile.run(&["expect", "app.expect", "app.mpisee", "--format", "csv"])
    };
    let holds = "calls of MPI_Waitall at halo.c = 6000\ncalls at exchange = 4000\ncalls at halo.c:93 on W = 2000\n\
                 calls at write_results >= 36\ncalls at nowhere = 0\n";
    check(holds).exits(0);
    let ran = check("calls at exchange* on W_s1.* <= 3999\ncalls at nowhere <= 3\n");
    let rows: Vec<&str> = ran.exits(1).stdout.lines().skip(1).collect();
    assert_eq!(rows[0], "FAILED,1,calls at exchange* on W_s1.* <= 3999,4000");
    assert_eq!(rows[1], "NOT CHECKED,2,calls at nowhere <= 3,0 (no such call there)");
    let without = splatt().write();
    std::fs::write(without.beside().join("app.expect"), holds).unwrap();
    without.run(&["expect", "app.expect", "app.mpisee"]).fails_with(&["'app.mpisee' has no call sites"]);
}
