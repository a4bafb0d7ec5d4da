//! The roll call of `mpisee-through top`: with whom ranks communicate, who waits for whom, and jobs
//! of several nodes.

use mpisee_tests::place::{Staying, soon, timed, until, until_arrived};
use mpisee_tests::signal::SIGKILL;
use mpisee_tests::{Cluster, Mpi, Place, case, dist};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// `deadlocks` in a mode, which stays as it is until there is a file `go`.
struct Running {
    place: Place,
    launcher: Staying,
}

impl Running {
    fn start(mpi: &Mpi, ranks: u32, mode: &str) -> Running {
        let place = Place::new();
        let program = mpi.compile_with("lifecycle/deadlocks", &["-pthread"]);
        let launcher = Staying::start(place.command(mpi, ranks).arg(program).arg(mode));
        until_arrived(&place.path(""), ranks);
        Running { place, launcher }
    }

    fn top(&self, arguments: &[&str]) -> String {
        let often = ["top", "--interval", "200ms", "--hang", "300ms", "--once"];
        let output = self.place.through(&[&often, arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is text")
    }

    fn job(&self) -> Value {
        let mut document: Value = serde_json::from_str(&self.top(&["--format", "json"])).expect("it is JSON");
        document["jobs"][0].take()
    }

    /// The job once it has a deadlock.
    fn deadlocked(&self) -> Value {
        let mut job = Value::Null;
        until("the deadlock is seen", || {
            job = self.job();
            job["deadlocks"].as_array().is_some_and(|all| !all.is_empty())
        });
        job
    }

    /// The line of the text that begins with a heading.
    fn line(&self, heading: &str) -> String {
        let text = self.top(&[]);
        let found = text.lines().find_map(|line| line.strip_prefix(heading));
        found.unwrap_or_else(|| panic!("no {heading}: {text}")).trim().to_owned()
    }

    /// Lets it end.
    fn go(mut self) {
        std::fs::write(self.place.path("go"), "").expect("the folder is there");
        let _ = self.launcher.0.wait();
    }
}

/// Ranks of a cycle, those behind it, and whether it is certain.
fn cycle(job: &Value) -> (Vec<u64>, String, bool) {
    let all = job["deadlocks"].as_array().expect("a list");
    assert_eq!(all.len(), 1, "{job}");
    let of_place = |place: &Value| place["ranks"].as_str()?.parse().ok();
    let ranks =
        all[0]["cycle"].as_array().expect("a list").iter().map(|place| of_place(place).expect("a rank"));
    let behind = all[0]["behind"].as_str().expect("a text").to_owned();
    (ranks.collect(), behind, all[0]["certain"] == true)
}

#[case]
fn ranks_that_wait_for_each_other_are_named(mpi: &Mpi) {
    for (mode, ranks, expected, behind) in [
        ("ring", 2, vec![0, 1], ""),
        ("ring", 5, vec![0, 1, 2, 3, 4], ""),
        ("sends", 3, vec![0, 1, 2], ""),
        ("barrier", 3, vec![0, 1], "2"),
        ("any", 3, vec![0, 1], "2"),
        ("itself", 3, vec![0], "1-2"),
        ("tags", 3, vec![0, 1], "2"),
    ] {
        let running = Running::start(mpi, ranks, mode);
        let job = soon(Duration::from_secs(5), || timed(|| running.deadlocked()));
        assert_eq!(cycle(&job), (expected, behind.to_owned(), true), "{mode}: {job}");
        running.go();
    }
}

#[case]
fn sentences_have_the_messages(mpi: &Mpi) {
    let running = Running::start(mpi, 2, "ring");
    running.deadlocked();
    let expected = "ranks 0 -> 1 -> 0 wait for each other: rank 0 in MPI_Recv from 1 tag 5 on W; rank 1 in MPI_Recv \
                    from 0 tag 5 on W";
    assert_eq!(running.line("Deadlock "), expected);
    assert_eq!(running.line("Roll call"), "1 node, 2 ranks");
    let job = running.job();
    let with = &job["processes"][1]["places"][0]["with"];
    assert_eq!(*with, serde_json::json!({"from": {"rank": 0, "world_rank": 0}, "tag": 5}));
    running.go();
}

#[case]
fn requests_have_their_number_and_the_first_peer(mpi: &Mpi) {
    let running = Running::start(mpi, 3, "requests");
    let job = running.deadlocked();
    // A message of another tag is on its way to each: the counts do not tell that it is not the
    // one.
    assert_eq!(cycle(&job), (vec![0, 1, 2], String::new(), false));
    let with = &job["processes"][0]["places"][0]["with"];
    assert_eq!(*with, serde_json::json!({"from": {"rank": 1, "world_rank": 1}, "requests": 2}));
    let line = running.line("Deadlock?");
    let begin = "ranks 0 -> 1 -> 2 -> 0 may wait for each other: rank 0 in MPI_Waitall (2 requests, first a receive from \
                 1) on W; ";
    assert!(line.starts_with(begin), "{line}");
    running.go();
}

#[case]
fn exchanges_of_other_tags_may_be_a_deadlock(mpi: &Mpi) {
    let running = Running::start(mpi, 3, "exchange");
    assert_eq!(cycle(&running.deadlocked()), (vec![0, 2, 1], String::new(), false));
    let line = running.line("Deadlock?");
    let begin = "ranks 0 -> 2 -> 1 -> 0 may wait for each other: rank 0 in MPI_Sendrecv to 1, from 2 on W; rank 2 in ";
    assert!(line.starts_with(begin), "{line}");
    running.go();
}

#[case]
fn who_only_waits_is_in_no_deadlock(mpi: &Mpi) {
    for mode in ["chain", "early"] {
        let running = Running::start(mpi, 3, mode);
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..3 {
            let job = running.job();
            assert_eq!(job["deadlocks"], serde_json::json!([]), "{mode}");
        }
        running.go();
    }
    // Another thread may send the message: here one does.
    let running = Running::start(mpi, 3, "threads");
    std::thread::sleep(Duration::from_millis(500));
    let job = running.job();
    let certain = job["deadlocks"].as_array().expect("a list").iter().any(|one| one["certain"] == true);
    assert!(!certain, "{job}");
    running.go();
}

#[case]
fn programs_that_communicate_are_in_no_deadlock(mpi: &Mpi) {
    let place = Place::new();
    let program = mpi.compile_with("lifecycle/busy", &["-pthread"]);
    let launcher = Staying::start(place.command(mpi, 4).arg(program));
    until_arrived(&place.path(""), 4);
    for interval in ["50ms", "60ms", "80ms", "100ms", "200ms"] {
        for _ in 0..4 {
            let output = place.through(&["top", "--interval", interval, "--hang", "0s", "--format", "json"]);
            let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
            let deadlocks = document["jobs"][0]["deadlocks"].as_array().expect("a list");
            assert!(deadlocks.iter().all(|one| one["certain"] == false), "{document}");
        }
    }
    std::fs::write(place.path("go"), "").expect("the folder is there");
    let mut launcher = launcher;
    assert!(launcher.0.wait().expect("it is our child").success());
}

/// `FILE:LINE` of the line with this remark.
fn at(remark: &str) -> String {
    let path = mpisee_tests::root().join("tests/programs/lifecycle/deadlocks.c");
    let text = std::fs::read_to_string(path).expect("it is there");
    let line = text.lines().position(|line| line.contains(remark)).expect("the remark is there") + 1;
    format!("deadlocks.c:{line}")
}

#[case]
fn a_rank_astray_on_one_of_four_nodes_is_named_with_its_line(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(4) else { return };
    let place = Place::on(&cluster);
    let program = mpi.compile_with("lifecycle/deadlocks", &["-pthread"]);
    let mut command = mpi.launcher(8, &[]);
    cluster.launch(mpi, &mut command, 2);
    command.arg(dist().join("bin/mpisee")).arg(program).arg("astray").current_dir(place.folder());
    let mut launcher = Staying::start(&mut cluster.on("login", &command));
    until_arrived(place.folder(), 8);
    // As docs/how-to/running-job.md has it.
    let look = || {
        let mut readers = mpi.launcher(4, &[]);
        cluster.launch(mpi, &mut readers, 1);
        readers
            .arg(dist().join("bin/mpisee-through"))
            .args(["top", "--stacks", "--to", "roll", "--color", "never"]);
        cluster.run("login", readers.current_dir(place.folder()))
    };
    let said = soon(Duration::from_secs(5), || timed(look));
    assert_astray(&said);

    let mut again = Command::new(dist().join("bin/mpisee-through"));
    let again = again.args(["top", "--from", "roll"]).current_dir(place.folder());
    assert_astray(&cluster.run("login", again));

    // Without the part of a node its ranks are named as not seen.
    for entry in std::fs::read_dir(place.path("roll")).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        if path.to_string_lossy().contains("-n4-") {
            std::fs::remove_file(path).expect("it is ours");
        }
    }
    let mut again = Command::new(dist().join("bin/mpisee-through"));
    let again = again.args(["top", "--from", "roll"]).current_dir(place.folder());
    let said = cluster.run("login", again);
    assert!(said.contains("Roll call  3 nodes, 6 ranks; not seen: ranks 6-7\n"), "{said}");

    std::fs::write(place.path("go"), "").expect("the folder is there");
    let _ = launcher.0.wait();
    for host in cluster.names() {
        cluster.run(&host, Command::new("sh").args(["-c", "rm -f /dev/shm/mpisee-*"]));
    }
    launcher.end(SIGKILL);
}

fn assert_astray(said: &str) {
    assert!(said.contains("Roll call  4 nodes, 8 ranks\n"), "{said}");
    for (ranks, call) in [
        ("ranks 0-4,6-7 in MPI_Allreduce on W (call 6) for ", "/* hang calls"),
        ("rank 5 in MPI_Recv from 2 tag 5 on W for ", "/* receive calls"),
    ] {
        assert_eq!(said.matches(ranks).count(), 1, "{said}");
        assert!(said.contains(&at(call)), "{said}");
    }
    assert!(said.contains(&format!("    read_header at {}\n", at("/* read_header calls"))), "{said}");
    assert!(
        said.contains("Deadlock   ranks 2 -> 5 -> 2 wait for each other: rank 2 in MPI_Allreduce on W"),
        "{said}"
    );
    assert!(said.contains("; ranks 0-1,3-4,6-7 wait for them\n"), "{said}");
}

#[case]
fn a_rank_that_is_killed_meanwhile_is_named_as_ended(mpi: &Mpi) {
    let running = Running::start(mpi, 3, "ring");
    let job = running.deadlocked();
    let pid = job["processes"][1]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a number");
    mpisee_tests::signal::send(SIGKILL, pid);
    // The launcher ends the others sooner or later; up to then there is no deadlock any more.
    for _ in 0..5 {
        let output = running.place.through(&["top", "--interval", "50ms", "--format", "json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Ok(document) = serde_json::from_str::<Value>(&text) {
            let job = &document["jobs"][0];
            if job["processes"][1]["ended"] == true {
                assert_eq!(job["deadlocks"], serde_json::json!([]), "{job}");
            }
        }
    }
    running.go();
}
