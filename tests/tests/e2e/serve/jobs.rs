//! Running jobs of the server's node: numbers that grow, and are those of the profile at the end.

use super::{Growing, Server, assert_as_in_profile, of_comm};
use mpisee_tests::place::{Staying, until_arrived};
use mpisee_tests::{Mpi, Place, case};

#[case]
fn a_running_program_is_shown_and_its_numbers_are_those_of_the_profile(mpi: &Mpi) {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    assert_eq!(server.json("jobs")["jobs"], serde_json::json!([]));
    let mut growing = Growing::start(mpi, place, 4);
    let mut before = (0, 0);
    for _ in 0..3 {
        let job = server.job_that("counts grow", |job| {
            let now = of_comm(job, "W");
            now.0 > before.0 && now.1 > before.1 && job["brief"]["bytes_per_s"].as_f64() > Some(0.0)
        });
        before = of_comm(&job, "W");
        assert_eq!((&job["brief"]["ranks"], &job["brief"]["seen"]), (&4.into(), &4.into()));
        assert_eq!(job["job"]["ranks_here"], "0-3");
    }
    let job = server
        .job_that("there is a time line", |job| job["samples"].as_array().is_some_and(|all| all.len() >= 3));
    let samples = job["samples"].as_array().expect("a list");
    let time = |sample: &serde_json::Value| sample["at_s"].as_f64().expect("a time");
    assert!(samples.windows(2).all(|pair| time(&pair[0]) < time(&pair[1])), "{samples:?}");
    assert!(samples.iter().any(|sample| sample["comms"]["W"].as_f64() > Some(0.0)), "{samples:?}");
    let label =
        job["job"]["communicators"].as_array().expect("a list").iter().find(|row| row["comm"] == "W_s1.0");
    assert_eq!(label.expect("it is there")["label"], "half");
    assert!(job["nodes"][0]["loads"].as_array().is_some_and(|loads| !loads.is_empty()), "{job}");

    growing.stand_still();
    let last = server.job_that_stands_still();
    let elapsed = growing.end();
    assert!(elapsed.as_secs() < 20, "{elapsed:?}");
    assert_as_in_profile(&last, &growing.place);

    // It is in the history, with a page.
    let history = server.history(1);
    let calls: u64 = ["W", "W_s1.0", "W_s1.1"].iter().map(|comm| of_comm(&last, comm).0).sum();
    assert_eq!((history[0]["calls"].as_u64(), history[0]["ranks"].as_u64()), (Some(calls), Some(4)));
    let past = server.json(&format!("job?key={}", last["key"].as_str().expect("a key")));
    assert_eq!(of_comm(&past, "W"), of_comm(&last, "W"));
    assert!(past["nodes"].is_null() && past["samples"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!(server.json("jobs")["jobs"], serde_json::json!([]));
    assert!(server.json("profiles")["profiles"].as_array().is_some_and(|all| all.len() == 1));
}

#[case]
fn a_rank_that_is_missing_from_a_collective_is_named(mpi: &Mpi) {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let launcher = Staying::start(place.command(mpi, 4).arg(mpi.compile("lifecycle/waits")).arg("1000"));
    until_arrived(&place.path(""), 4);
    // After five seconds, as top has it.
    let job = server.job_that("the hang is seen", |job| !job["job"]["waiting"][0].is_null());
    let waiting = &job["job"]["waiting"][0];
    assert_eq!(
        (&waiting["inside"], &waiting["missing"][0]["ranks"]),
        (&"0-1".into(), &"2".into()),
        "{waiting}"
    );
    assert_eq!((&waiting["call"], &waiting["comm"]), (&"MPI_Allreduce".into(), &"W_s1.0".into()));
    assert_eq!(job["brief"]["waiting"], 1);
    std::fs::write(place.path("go"), "").expect("the folder is there");
    drop(launcher);
}
