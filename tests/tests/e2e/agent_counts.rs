//! Counts of time lines where they are not simple: bytes that are known late, MPI's variables
//! before an agent began, time without recording.

use crate::agent::{number, rows, start_agent, through, until_ended};
use mpisee_profile::Profile;
use mpisee_profile::rows::VariableRow;
use mpisee_tests::place::{Staying, until, until_arrived};
use mpisee_tests::{Mpi, Place, case};
use std::path::Path;
use std::time::{Duration, Instant};

/// The sum of a quantity of the nodes.
fn sum_of(line: &Path, source: &str, quantity: &str) -> f64 {
    let rows = rows(line, "node-rates").into_iter();
    let rows = rows.filter(|row| row["source"] == source && row["quantity"] == quantity);
    rows.map(|row| number(&row, "value")).sum()
}

#[case]
fn bytes_of_receives_that_complete_late_are_counted(mpi: &Mpi) {
    let place = Place::new();
    let mut agent = start_agent(&place, &["--interval", "100ms", "--wait", "60s"]);
    let mut command = place.command(mpi, 2);
    let mut launcher = Staying::start(command.arg(mpi.compile("live/posted")));
    assert!(launcher.0.wait().expect("it is our child").success());
    until("the agent ends", || agent.0.try_wait().expect("it is our child").is_some());
    let rows = rows(&place.path("posted.timeline"), "rates");
    let received = rows.iter().filter(|row| row["call"] == "MPI_Irecv");
    assert_eq!(received.map(|row| number(row, "bytes")).sum::<f64>(), 3.0 * 4421.0, "{rows:?}");
    let tables = place.tables("posted.mpisee");
    assert_eq!(tables.sum_where(|row| row.call == "MPI_Irecv").bytes, 3 * 4421);
}

#[case]
fn a_late_agent_has_variables_as_often_as_they_counted(mpi: &Mpi) {
    const COUNT: &str = "coll_monitoring_a2a_count";
    if !mpi.is_open_mpi {
        return; // MPICH has no performance variable.
    }
    let place = Place::new();
    let mut command = place.command(mpi, 2);
    command.args(["--mpi-t", COUNT]).arg(mpi.compile("live/growing"));
    command.env("OMPI_MCA_pml", "^cm,ucx").env("OMPI_MCA_pml_monitoring_enable", "1");
    let mut launcher = Staying::start(&mut command);
    until("ranks begin", || place.left().len() == 2);
    std::thread::sleep(Duration::from_millis(500));
    let line = place.path("growing.timeline");
    let counted = || if line.is_dir() { sum_of(&line, "mpi", "counted") } else { 0.0 };
    // A later one goes on where the first ended.
    let mut agent = start_agent(&place, &["--interval", "100ms"]);
    until("rows are written", || counted() > 0.0);
    agent.end(mpisee_tests::signal::SIGKILL);
    let before = counted();
    let mut agent = start_agent(&place, &["--interval", "100ms"]);
    until("the later one writes rows", || counted() > before);
    std::fs::write(place.path("enough"), "").expect("the folder is there");
    std::fs::write(place.path("go"), "").expect("the folder is there");
    assert!(launcher.0.wait().expect("it is our child").success());
    until("the agent ends", || agent.0.try_wait().expect("it is our child").is_some());
    let profile = Profile::open(place.path("growing.mpisee")).expect("there is a profile");
    let variables: Vec<VariableRow> = profile.rows_if_any().and_then(Iterator::collect).expect("rows");
    let of_run: f64 = variables.iter().filter_map(|row| row.delta).sum();
    assert!(of_run > 0.0, "{variables:?}");
    assert_eq!(counted(), of_run);
    assert!(sum_of(&line, "job", "uncounted_s") > 0.3, "the agent was late");
}

#[case]
fn time_without_recording_is_not_time_outside_of_mpi(mpi: &Mpi) {
    let place = Place::new();
    let mut launcher = Staying::start(place.command(mpi, 2).arg(mpi.compile("live/growing")));
    until("ranks begin", || place.left().len() == 2);
    let _agent = start_agent(&place, &["--interval", "100ms", "--wait", "60s"]);
    let record = |to: &str| assert!(place.through(&["record", to]).status.success());
    std::thread::sleep(Duration::from_millis(1000));
    let before = Instant::now();
    record("off");
    let off = Instant::now();
    std::thread::sleep(Duration::from_millis(2000));
    let least_s = off.elapsed().as_secs_f64();
    record("on");
    std::thread::sleep(Duration::from_millis(1000));
    std::fs::write(place.path("enough"), "").expect("the folder is there");
    until_arrived(place.folder(), 2);
    let most_s = before.elapsed().as_secs_f64();
    std::fs::write(place.path("go"), "").expect("the folder is there");
    assert!(launcher.0.wait().expect("it is our child").success());
    let line = place.path("growing.timeline");
    until_ended(&line);
    let unrecorded_s = sum_of(&line, "job", "unrecorded_s");
    // Both ranks have followed a request when the command for it ends, or with their next calls.
    assert!((1.9 * least_s..2.0 * most_s).contains(&unrecorded_s), "{least_s} {unrecorded_s} {most_s}");
    let shown = through(&place, &line);
    let phases = shown["phases"].as_array().expect("a list");
    let mut names: Vec<&str> = phases.iter().filter_map(|phase| phase["name"].as_str()).collect();
    // An interval in which the machine stood still may part a phase in two.
    names.dedup();
    assert_eq!(names.iter().filter(|name| **name == "not recorded").count(), 1, "{names:?}");
}
