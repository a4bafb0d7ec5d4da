//! Time in calls of NCCL is no time in MPI, whichever command adds it up.

mod support;

use support::gpus::beside_nccl;
use support::runs;

#[test]
fn ranks_have_it_in_a_column_of_its_own() {
    let profile = beside_nccl().write();
    profile.run(&["ranks", "app.mpisee"]).golden("nccl-ranks");
    let ran = profile.run(&["ranks", "app.mpisee", "--call", "MPI_*", "--format", "csv"]);
    assert!(!ran.exits(0).stdout.contains("nccl"), "{}", ran.stdout);
}

#[test]
fn regions_have_it_in_a_column_of_its_own() {
    beside_nccl().write().run(&["regions", "app.mpisee"]).golden("nccl-regions");
}

#[test]
fn places_and_paths_have_no_share_of_mpi_for_it() {
    let profile = beside_nccl().write();
    profile.run(&["sites", "app.mpisee"]).golden("nccl-sites");
    profile.run(&["paths", "app.mpisee"]).golden("nccl-paths");
}

#[test]
fn the_mpi_time_of_two_runs_is_without_it() {
    let home = runs::write(&[beside_nccl(), beside_nccl()]);
    let ran = home.run(&["diff", "set/app-1.mpisee", "set/app-2.mpisee", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let totals = found["runs"].as_array().unwrap();
    let time = totals.iter().find(|row| row["what"] == "MPI time").unwrap();
    assert_eq!((&time["before"], &time["after"]), (&1.0.into(), &1.0.into()), "{time}");
}

#[test]
fn parts_of_runs_add_up_to_the_time_of_all_ranks() {
    let home = runs::write(&[beside_nccl(), beside_nccl()]);
    let ran = home.run(&["runs", "set", "--table", "variation", "--format", "csv"]);
    let text = &ran.exits(0).stdout;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let place = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let median = |row: csv::StringRecord| row[place("time_s")].parse::<f64>().unwrap();
    let sum: f64 = reader.records().map(|row| median(row.unwrap())).sum();
    assert!((sum - 10.0).abs() < 1e-6, "{sum}\n{text}");
}

/// The text of a command that is of MPI alone.
fn of_mpi_alone(command: &[&str]) -> String {
    let profile = beside_nccl().write();
    let ran = profile.run(&[command, &["app.mpisee", "--width", "200"]].concat());
    let text = ran.exits(0).stdout.clone();
    assert!(text.contains("NCCL's communicators are not in it; mpisee-through gpu has them."), "{text}");
    assert!(!text.contains("N1-5e1c09tz") && !text.contains("ncclAllReduce"), "{text}");
    text
}

#[test]
fn locality_has_communicators_of_mpi_alone() {
    of_mpi_alone(&["locality"]);
}

#[test]
fn the_matrix_has_bytes_of_mpi_alone() {
    let text = of_mpi_alone(&["matrix"]);
    assert!(text.contains("Not in it: 64 B in collectives"), "{text}");
    of_mpi_alone(&["matrix", "--collectives"]);
}
