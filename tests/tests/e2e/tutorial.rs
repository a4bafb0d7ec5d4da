//! The program of the tutorial: its late rank and the line are found, and are gone with `balanced`.

use mpisee_tests::profile::Sum;
use mpisee_tests::{Finished, Mpi, Run, case, through};
use serde_json::Value;

fn answer(finished: &Finished, command: &str) -> Value {
    let output = through(&[command, &finished.directory().display().to_string(), "--format", "json"]);
    serde_json::from_slice(&output.stdout).expect("it answers")
}

#[case]
fn the_late_rank_and_its_line_are_found(mpi: &Mpi) {
    let program = mpi.compile_example("heat");
    let late = Run::from_program(mpi, program.clone()).ranks(2).profiled();
    // The root sends one strip of 200 rows of 1000 numbers in each of 100 steps, and keeps the
    // other.
    const STRIP: u64 = 200 * 1000 * 8;
    assert_eq!(late.tables().sum("W_a1", "MPI_Scatter"), Sum { calls: 200, bytes: 2 * 100 * STRIP });
    let waits = answer(&late, "waits");
    let rows = waits["waits"].as_array().expect("rows");
    let caused = |rank: u64| {
        let row = rows.iter().find(|row| row["call"] == "MPI_Scatter" && row["rank"] == rank);
        row.and_then(|row| row["caused_s"].as_f64()).expect("the rank has a row")
    };
    assert!(caused(0) > 0.0);
    assert_eq!(caused(1), 0.0, "a root does not wait for who receives");
    let sites = answer(&late, "sites");
    let scatters: Vec<&Value> =
        sites["sites"].as_array().expect("rows").iter().filter(|row| row["call"] == "MPI_Scatter").collect();
    let [site] = scatters[..] else { panic!("{sites}") };
    assert!(site["at"].as_str().is_some_and(|at| at.starts_with("get_sources at heat.c:")), "{site}");
    late.check();

    let balanced = Run::from_program(mpi, program).ranks(2).argument("balanced").profiled();
    assert_eq!(balanced.tables().sum("W_a1", "MPI_Scatter").calls, 0);
    assert_eq!(balanced.tables().sum("W_a1", "MPI_Allreduce").calls, 200);
    let change = |finished: &Finished| finished.stdout.split("change ").nth(1).map(str::to_owned);
    assert_eq!(change(&late), change(&balanced), "both compute the same");
    balanced.check();
}
