//! `mpisee-through runs`: repetitions and series, planted and found.

mod support;

use support::{Builder, Written};

/// Writes runs to the folder `set`.
fn write(builders: &[Builder]) -> Written {
    let home = builders[0].write();
    std::fs::create_dir(home.beside().join("set")).unwrap();
    for (number, builder) in (1..).zip(builders) {
        let place = home.beside().join(format!("set/app-{number}.mpisee"));
        std::fs::rename(builder.write().directory, place).unwrap();
    }
    home
}

/// A run in which each rank computes, reduces on `W` and exchanges on its part of `W`: seconds of each, by rank.
fn run(ranks: u32, [outside_s, reduce_s, exchange_s]: [f64; 3]) -> Builder {
    let mut builder = Builder::new(ranks);
    for first in (0..ranks).step_by(2) {
        let members = if first + 1 < ranks { format!("{first}-{}", first + 1) } else { first.to_string() };
        builder = builder.comm(&format!("W_s1.{first}"), "W", "MPI_Comm_split", &members, |_| {});
    }
    for rank in 0..ranks {
        let comm = format!("W_s1.{}", rank - rank % 2);
        builder = builder
            .call("W", rank, "MPI_Allreduce", 10, 80, reduce_s)
            .call(&comm, rank, "MPI_Alltoall", 3, 3000, exchange_s)
            .with(|profile| profile.ranks[rank as usize].wall_s.0 = outside_s + reduce_s + exchange_s);
    }
    builder
}

/// As Fig. 4 of the mpisee paper: the time on the parts goes with the run time, that of `W` does not.
fn repetitions() -> Vec<Builder> {
    let times = [(1.0, 0.52), (1.3, 0.48), (1.1, 0.50), (1.6, 0.51), (1.2, 0.49), (1.4, 0.51)];
    let mut runs: Vec<Builder> =
        times.iter().map(|&(exchange, reduce)| run(4, [3.0, reduce, exchange])).collect();
    for (minute, run) in (10..).zip(&mut runs) {
        run.run.start = format!("2026-06-01T12:{minute}:00Z");
    }
    runs
}

/// Computation is divided among the ranks; a reduction takes log p, an exchange p.
fn series(ranks: &[u32]) -> Vec<Builder> {
    let of = |&ranks: &u32| {
        let p = f64::from(ranks);
        run(ranks, [16.0 / p, 0.001 + 0.1 * p.log2(), 0.02 * p])
    };
    ranks.iter().map(of).collect()
}

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
        ran.stdout.contains("2 of 2 settings ran once: how far equal runs differ is unknown"),
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
        .fails_with(&["is one run, and runs compares several", "mpisee --repeat 5"]);
    home.run(&["runs", "set/app-1.mpisee", "nothing"])
        .fails_with(&["'nothing'", "there is nothing of that name"]);
    std::fs::create_dir(home.beside().join("empty")).unwrap();
    home.run(&["runs", "empty"]).fails_with(&["'empty' is no profile", "no profile in it"]);
}
