//! Deadlocks of ranks that were killed: `recover`, `advise` and `summary` name those that the last
//! calls prove, and no others.

use mpisee_tests::place::{Staying, until, until_arrived};
use mpisee_tests::signal::{SIGKILL, SIGTERM, send};
use mpisee_tests::{Mpi, Place, case, root};
use serde_json::Value;
use std::time::Duration;

/// A running job of a program in `tests/programs/lifecycle`.
struct Job {
    place: Place,
    launcher: Staying,
}

impl Job {
    fn start(mpi: &Mpi, ranks: u32, program: &str, mode: Option<&str>) -> Job {
        let place = Place::new();
        let program = mpi.compile_with(&format!("lifecycle/{program}"), &["-pthread"]);
        let launcher = Staying::start(place.command(mpi, ranks).arg(program).args(mode));
        until_arrived(&place.path(""), ranks);
        Job { place, launcher }
    }

    fn top(&self) -> Value {
        let output = self.place.through(&["top", "--interval", "100ms", "--once", "--format", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        document["jobs"][0].clone()
    }

    /// Waits until `top` proves a deadlock; the processes of the job.
    fn until_deadlocked(&self) -> Vec<u32> {
        let mut job = Value::Null;
        until("top proves the deadlock", || {
            job = self.top();
            job["deadlocks"].as_array().is_some_and(|all| all.iter().any(|one| one["certain"] == true))
        });
        processes(&job)
    }

    /// Ends it and recovers its profile; what `recover` says, and the place.
    fn end(mut self, how: &End, processes: &[u32]) -> (String, Place) {
        match how {
            End::KillRanks => processes.iter().for_each(|&process| send(SIGKILL, process)),
            End::TermLauncher => self.launcher.end(SIGTERM),
        }
        self.place.wait_for_ranks(&[]);
        let said = self.place.recover(&[]);
        (said, self.place)
    }
}

enum End {
    KillRanks,
    TermLauncher,
}

fn processes(job: &Value) -> Vec<u32> {
    let all = job["processes"].as_array().expect("a list").iter();
    all.map(|one| one["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process")).collect()
}

/// The findings of `advise`, as rule and finding.
fn advised(place: &Place, profile: &str) -> Vec<(String, String)> {
    let output = place.through(&["advise", "--format", "json", profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let findings = document["findings"].as_array().expect("a list").iter();
    findings.map(|one| (text(&one["rule"]), text(&one["finding"]))).collect()
}

/// `function at deadlocks.c:LINE`, the line with this remark.
fn at(function: &str, remark: &str) -> String {
    let path = root().join("tests/programs/lifecycle/deadlocks.c");
    let text = std::fs::read_to_string(path).expect("it is there");
    let line = text.lines().position(|line| line.contains(remark)).expect("the remark is there") + 1;
    format!("{function} at deadlocks.c:{line}")
}

#[case]
fn deadlocks_of_killed_ranks_are_named(mpi: &Mpi) {
    for (mode, ranks, begin, behind, how) in [
        ("ring", 2, "ranks 0 -> 1 -> 0 waited for each other: ", "", End::KillRanks),
        ("ring", 4, "ranks 0 -> 1 -> 2 -> 3 -> 0 waited for each other: ", "", End::TermLauncher),
        ("sends", 3, "ranks 0 -> 1 -> 2 -> 0 waited for each other: ", "", End::KillRanks),
        (
            "barrier",
            3,
            "ranks 0 -> 1 -> 0 waited for each other: ",
            "rank 2 waited for them",
            End::TermLauncher,
        ),
        ("any", 3, "ranks 0 -> 1 -> 0 waited for each other: ", "rank 2 waited for them", End::KillRanks),
        ("itself", 3, "rank 0 waited for itself: ", "ranks 1-2 waited for them", End::TermLauncher),
        ("tags", 3, "ranks 0 -> 1 -> 0 waited for each other: ", "rank 2 waited for them", End::KillRanks),
    ] {
        let job = Job::start(mpi, ranks, "deadlocks", Some(mode));
        let processes = job.until_deadlocked();
        let (said, place) = job.end(&how, &processes);
        let line = said.lines().find_map(|line| line.trim().strip_prefix("Deadlock: "));
        let line = line.unwrap_or_else(|| panic!("{mode}: {said}"));
        assert!(line.starts_with(begin) && line.ends_with(behind), "{mode}: {line}");
        let findings = advised(&place, "deadlocks.mpisee");
        assert_eq!(findings[0].0, "deadlock", "{mode}: {findings:?}");
        assert!(
            findings[0].1.contains(begin.trim_end_matches(": ").trim_start_matches("ranks ")),
            "{findings:?}"
        );
    }
}

#[case]
fn the_lines_of_the_calls_are_named_in_each_answer(mpi: &Mpi) {
    let job = Job::start(mpi, 2, "deadlocks", Some("ring"));
    let processes = job.until_deadlocked();
    let (said, place) = job.end(&End::KillRanks, &processes);
    let place_of_call = at("receive", "/* receive calls */");
    let sentence = format!(
        "ranks 0 -> 1 -> 0 waited for each other: rank 0 in MPI_Recv from 1 tag 5 on W, called by {place_of_call}; rank 1 in \
         MPI_Recv from 0 tag 5 on W, called by {place_of_call}"
    );
    assert!(said.contains(&format!("Deadlock: {sentence}\n")), "{said}");
    assert_eq!(advised(&place, "deadlocks.mpisee")[0].1, format!("Deadlock: {sentence}."));
    let summary = place.through(&["summary", "deadlocks.mpisee", "--width", "1000"]);
    let summary = String::from_utf8_lossy(&summary.stdout).into_owned();
    assert!(summary.contains(&format!("Deadlock: {sentence}.")), "{summary}");
}

#[case]
fn killed_ranks_that_only_waited_are_in_no_deadlock(mpi: &Mpi) {
    for (mode, how) in [("chain", End::KillRanks), ("early", End::TermLauncher), ("threads", End::KillRanks)]
    {
        let job = Job::start(mpi, 3, "deadlocks", Some(mode));
        std::thread::sleep(Duration::from_millis(300));
        let processes = processes(&job.top());
        assert_no_deadlock(mode, job.end(&how, &processes), "deadlocks.mpisee");
    }
}

#[case]
fn ranks_that_are_killed_while_they_communicate_are_in_no_deadlock(mpi: &Mpi) {
    for (program, ranks) in [("never_still", 2), ("never_still", 3), ("busy", 4)] {
        for time in 0..4 {
            let job = Job::start(mpi, ranks, program, None);
            std::thread::sleep(Duration::from_millis(20 + 37 * time));
            let processes = processes(&job.top());
            let how = if time % 2 == 0 { End::KillRanks } else { End::TermLauncher };
            assert_no_deadlock(program, job.end(&how, &processes), &format!("{program}.mpisee"));
        }
    }
}

fn assert_no_deadlock(what: &str, (said, place): (String, Place), profile: &str) {
    assert!(said.contains("incomplete profile of ranks"), "{what}: {said}");
    assert!(!said.contains("Deadlock"), "{what}: {said}");
    let findings = advised(&place, profile);
    assert!(findings.iter().all(|(rule, _)| rule != "deadlock"), "{what}: {findings:?}");
}
