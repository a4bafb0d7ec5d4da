//! `mpisee-through record` on and off while programs run: what is recorded, and what is said of it.

use mpisee_tests::place::{Staying, until, until_arrived};
use mpisee_tests::{Mpi, Place, Tables, case};
use serde_json::Value;
use std::process::Output;

/// A program of `tests/programs/live` that runs until files let it go on.
struct Running {
    place: Place,
    launcher: Staying,
}

impl Running {
    fn start(mpi: &Mpi, ranks: u32, options: &[&str], program: &str, arguments: &[&str]) -> Running {
        let place = Place::new();
        let mut command = place.command(mpi, ranks);
        command.args(options).args(["--output", "app.mpisee"]).arg(mpi.compile(program)).args(arguments);
        Running { launcher: Staying::start(&mut command), place }
    }

    /// Waits until all ranks have arrived at the end of a part.
    fn until_part(&self, part: u32) {
        let arrived = |rank| self.place.path(&format!("arrived.{}", 4 * part + rank)).exists();
        until("all ranks end the part", || (0..4).all(arrived));
    }

    fn record(&self, to: &str, wait: &str) -> String {
        let output = self.place.through(&["record", to, "--wait", wait]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    fn go(&self, name: &str) {
        std::fs::write(self.place.path(name), "").expect("the folder is there");
    }

    /// The profile once the program has ended.
    fn ended(mut self) -> (Place, Tables) {
        until("it ends", || self.launcher.0.try_wait().expect("it is our child").is_some());
        let tables = self.place.tables("app.mpisee");
        (self.place, tables)
    }
}

/// The profile has no contradiction, and none is seen in what waited.
fn check(place: &Place) {
    for command in ["check", "waits", "efficiency"] {
        let output = place.through(&[command, "app.mpisee"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The last word holds: what the program says after a request from outside, which no call has
/// followed yet.
#[case]
fn the_program_overrides_an_earlier_request(mpi: &Mpi) {
    for (options, asked, says, calls) in
        [(&[][..], "off", "on", 4 * 300), (&["--record", "off"], "on", "off", 0)]
    {
        let running = Running::start(mpi, 4, options, "live/switched", &[says]);
        running.until_part(1);
        running.record(asked, "100ms");
        running.go("go.1");
        running.until_part(2);
        running.go("go.2");
        let (place, tables) = running.ended();
        assert_eq!(tables.sum_where(|row| row.call == "MPI_Allreduce").calls, calls, "{asked}, then {says}");
        let checked = place.through(&["check", "app.mpisee"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

#[case]
fn what_is_called_while_recording_is_off_is_not_recorded(mpi: &Mpi) {
    for kind in ["alike", "different"] {
        let running = Running::start(mpi, 4, &["--instances", "all"], "live/switched", &[kind]);
        running.until_part(1);
        let said = running.record("off", "100ms");
        let program = mpi.compile("live/switched");
        assert!(said.starts_with("recording is off on 0 of 4 ranks of "), "{said}");
        assert!(said.contains(&program.display().to_string()), "{said}");
        assert!(
            said.ends_with("\nranks 0-3: has not called MPI since, and switches at its next MPI call\n"),
            "{said}"
        );
        running.go("go.1");
        running.until_part(2);
        assert!(running.record("on", "100ms").starts_with("recording is on on 0 of 4 ranks"));
        running.go("go.2");
        let (place, tables) = running.ended();
        let sum = tables.sum("W", "MPI_Allreduce");
        assert_eq!((sum.calls, sum.bytes), (4 * 200, 4 * 100 * (101 + 223)), "{kind}");
        // A rank's first call is of no request.
        let is_empty_wait = |reason: &String| reason == "waits and tests without an active request";
        assert!(tables.run.not_seen.keys().all(is_empty_wait), "{:?}", tables.run);
        assert!(tables.run.recording_was_off);
        let switches: Vec<_> = tables.run.switches.iter().map(|it| (it.on, it.ranks)).collect();
        assert_eq!(switches, [(false, 4), (true, 4)]);
        let times = tables.run.switches.iter().flat_map(|it| [it.first_s, it.last_s]);
        assert!(times.clone().is_sorted() && times.clone().all(|s| s > 0.0), "{:?}", tables.run.switches);
        // Calls of the second part are numbered, and so those of the third are the same on all
        // ranks.
        check(&place);
        let text = place.through(&["app.mpisee"]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.contains("Recording was switched from outside: off after "), "{text}");
    }
}

#[case]
fn a_program_that_goes_on_calling_switches_at_once(mpi: &Mpi) {
    let running = Running::start(mpi, 4, &[], "live/steady", &[]);
    until_arrived(&running.place.path(""), 4);
    for to in ["off", "on", "off", "on", "off"] {
        let said = running.record(to, "20s");
        assert!(said.starts_with(&format!("recording is {to} on 4 of 4 ranks of ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let calls = || {
        let output = running.place.through(&["top", "--interval", "100ms", "--format", "json"]);
        let seen: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let rows = seen["jobs"][0]["communicators"].as_array().expect("a list");
        rows.iter().map(|row| row["calls"].as_u64().expect("a number")).sum::<u64>()
    };
    let first = calls();
    assert!(first > 0);
    assert_eq!(calls(), first, "nothing is counted");
    running.go("enough");
    let (place, tables) = running.ended();
    assert_eq!(tables.run.switches.len(), 5);
    assert!(tables.run.switches.iter().all(|switch| switch.ranks == 4), "{:?}", tables.run.switches);
    check(&place);
}

#[case]
fn what_starts_without_recording_is_switched_on(mpi: &Mpi) {
    let running = Running::start(mpi, 4, &["--record", "off"], "live/switched", &["different"]);
    running.until_part(1);
    running.record("on", "100ms");
    running.go("go.1");
    running.until_part(2);
    running.go("go.2");
    let (_, tables) = running.ended();
    assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 4 * 100 * (211 + 223));
    assert_eq!(tables.run.switches.len(), 1);
    assert!(tables.run.recording_was_off);
}

#[case]
fn ranks_in_a_call_are_named_and_switch_later(mpi: &Mpi) {
    let running = Running::start(mpi, 4, &[], "lifecycle/waits", &["1000"]);
    until_arrived(&running.place.path(""), 4);
    let mut said = String::new();
    until("ranks are in their calls", || {
        said = running.record("off", "200ms");
        said.lines().count() == 4
    });
    assert!(said.contains("\nranks 0-1: is in MPI_Allreduce for "), "{said}");
    assert!(said.contains("\nrank 2: is in MPI_Recv for "), "{said}");
    assert!(said.contains("\nrank 3: has not called MPI since"), "{said}");
    running.go("go");
    let (_, tables) = running.ended();
    assert!(tables.run.complete && tables.run.not_seen.is_empty(), "{:?}", tables.run);
}

#[case]
fn without_a_job_it_says_so() {
    let place = Place::new();
    let output: Output = place.through(&["record", "off"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no program that mpisee records runs here"), "{said}");
}
