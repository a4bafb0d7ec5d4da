//! Shares of time where threads are in MPI at once.

use mpisee_tests::{Mpi, Run, case, through};
use serde_json::Value;

#[case]
fn shares_of_threads_in_mpi_at_once_are_of_the_time_of_each(mpi: &Mpi) {
    let finished = Run::new(mpi, "threads/waiting").ranks(2).profiled();
    let ranks = &finished.tables().ranks;
    // The thread that began the program, and those that receive.
    assert_eq!(ranks.iter().map(|row| row.mpi_threads).collect::<Vec<_>>(), [Some(4), Some(1)]);
    let directory = finished.directory().display().to_string();
    let answer = |command: &str| -> Value {
        let output = through(&[command, &directory, "--format", "json"]);
        serde_json::from_slice(&output.stdout).expect("it answers")
    };
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().expect("it is known");
        assert!((found - expected).abs() < 1e-6 && (0.0..=1.0).contains(&found), "{found} {expected}");
    };
    let thread_s: f64 = ranks.iter().map(|row| row.wall_s.0 * row.threads()).sum();
    let mpi_s: f64 = ranks.iter().map(|row| row.mpi_s.0).sum();
    near(&answer("summary")["run"]["mpi_share_of_wall"], mpi_s / thread_s);
    let found = answer("ranks");
    for row in found["ranks"].as_array().expect("rows") {
        let rank = &ranks[row["rank"].as_u64().expect("a rank") as usize];
        near(&row["share_of_wall"], rank.mpi_s.0 / (rank.wall_s.0 * rank.threads()));
    }
    let found = answer("efficiency");
    let run = &found["efficiency"][0];
    let runtime_s = ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
    let outside_s = ranks.iter().map(|row| row.wall_s.0 - row.mpi_s.0 / row.threads());
    near(&run["communication_efficiency"], outside_s.fold(0.0, f64::max) / runtime_s);
    let of = |name: &str| run[name].as_f64().unwrap_or(1.0);
    let product = of("load_balance") * of("core_availability") * of("communication_efficiency");
    near(&run["parallel_efficiency"], product);
    finished.check();
}
