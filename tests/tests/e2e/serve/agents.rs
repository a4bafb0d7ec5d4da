//! Agents of several nodes: one job; servers that come and go, or hang; and the end of programs,
//! which waits for none of them.

use super::{Growing, Server, TOKEN, assert_as_in_profile, of_comm};
use mpisee_tests::place::{Staying, soon, until, until_arrived};
use mpisee_tests::signal::SIGKILL;
use mpisee_tests::{Cluster, Mpi, Place, case, dist};
use serde_json::Value;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// JSON of a server on the host `login`.
fn on_login(cluster: &Cluster, path: &str) -> Value {
    let script = format!(
        "exec 3<>/dev/tcp/10.77.0.254/8090; printf 'GET /{TOKEN}/{path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
    );
    let answer = cluster.run("login", Command::new("bash").args(["-c", &script]));
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

#[case]
fn agents_of_two_nodes_are_one_job(mpi: &Mpi) {
    // One for each MPI: the server ends with its nodes.
    let Some(cluster) = Cluster::begin(2) else { return };
    if mpi.is_left_out(&["mpich-4"], "between played nodes it hangs in its MPI_Finalize now and then") {
        return;
    }
    let place = Place::on(&cluster);
    let mut command = Server::command(place.folder(), &place.segments(), &["--listen", "10.77.0.254:8090"]);
    let server = Server::run(&mut cluster.on("login", command.env("MPISEE_TOKEN", TOKEN)));
    let variables = [("MPISEE_SERVE", "10.77.0.254:8090"), ("MPISEE_TOKEN", TOKEN)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut command = mpi.launcher(4, &variables);
    cluster.launch(mpi, &mut command, 2);
    command.arg(dist().join("bin/mpisee")).args(["--watch", "--output", "growing.mpisee"]);
    command.arg(mpi.compile("live/growing")).current_dir(place.folder());
    let launcher = Staying::start(&mut cluster.on("login", &command));
    let mut growing = Growing { place, launcher, ranks: 4 };
    let job_that = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        let mut job = Value::Null;
        until(what, || {
            std::thread::sleep(Duration::from_millis(200));
            let list = on_login(&cluster, "jobs");
            let Some(key) = list["jobs"][0]["key"].as_str() else { return false };
            job = on_login(&cluster, &format!("job?key={key}"));
            holds(&job)
        });
        job
    };
    let job = job_that("both nodes are seen", &|job| job["brief"]["nodes"] == 2 && of_comm(job, "W").0 > 0);
    assert_eq!((&job["job"]["ranks_here"], &job["job"]["not_seen"]), (&"0-3".into(), &"".into()));
    let hosts: Vec<&str> =
        job["nodes"].as_array().expect("a list").iter().filter_map(|it| it["host"].as_str()).collect();
    assert_eq!(hosts, ["n1", "n2"]);
    job_that("the network between them is seen", &|job| {
        let nodes = job["nodes"].as_array().expect("a list").iter();
        nodes.clone().all(|node| {
            let loads = node["loads"].as_array().expect("a list").iter();
            loads.clone().any(|load| load["device"] == "e0" && load["value"].as_f64() > Some(1e4))
        })
    });
    growing.stand_still();
    // Each agent looks once a second.
    std::thread::sleep(Duration::from_secs(3));
    let last = job_that("counts stand still", &|job| job["brief"]["calls_per_s"] == 0.0);
    growing.end();
    assert_as_in_profile(&last, &growing.place);
    let mut history = Value::Null;
    until("the job is in the history", || {
        std::thread::sleep(Duration::from_millis(200));
        history = on_login(&cluster, "history");
        history["count"] == 1
    });
    assert_eq!((&history["jobs"][0]["nodes"], &history["jobs"][0]["ranks"]), (&2.into(), &4.into()));
    let past = on_login(&cluster, &format!("job?key={}", history["jobs"][0]["key"].as_str().expect("a key")));
    let tables = growing.place.tables("growing.mpisee");
    for (family, call) in [("W", "MPI_Allreduce"), ("W", "MPI_Sendrecv")] {
        let totals = past["totals"].as_array().unwrap_or_else(|| panic!("no sums: {past}"));
        let total =
            totals.iter().find(|it| it["family"] == family && it["call"] == call).expect("it is there");
        let sum = tables.sum_where(|row| row.comm == family && row.call == call);
        assert_eq!(
            (total["calls"].as_u64(), total["bytes"].as_u64()),
            (Some(sum.calls), Some(sum.bytes)),
            "{call}"
        );
    }
    drop(server);
}

/// An agent of a place, with what tells it where to send.
fn agent(place: &Place, to: &str, token: &str) -> Command {
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    command.args(["agent", "--wait", "60s", "--interval", "200ms", "--to", to]).current_dir(place.folder());
    command.env("MPISEE_SEGMENTS", place.segments()).env("MPISEE_TOKEN", token);
    command
}

#[case]
fn a_connection_that_is_cut_is_made_again(mpi: &Mpi) {
    let growing = &mut Growing::start(mpi, Place::new(), 2);
    // The server sees jobs of another folder, so that what it has is the agent's.
    let elsewhere = Place::new();
    let mut server = Server::start_with_token(&elsewhere, &[]);
    let address = server.address.clone();
    until("ranks begin", || growing.place.left().len() == 2);
    let mut agent = Staying::start(&mut agent(&growing.place, &address, TOKEN));
    let before = server.job_that("the agent sends", |job| of_comm(job, "W").0 > 0);
    server._process.end(SIGKILL);
    std::thread::sleep(Duration::from_millis(500));
    server = Server::start_with_token(&elsewhere, &["--listen", &address]);
    let after = server.job_that("the agent sends again", |job| of_comm(job, "W").0 > of_comm(&before, "W").0);
    assert_eq!(after["key"], before["key"], "it is the same job");
    growing.stand_still();
    let last = server.job_that_stands_still();
    growing.end();
    assert_as_in_profile(&last, &growing.place);
    assert!(agent.0.wait().expect("it is our child").success());
    let history = server.history(1);
    let tables = growing.place.tables("growing.mpisee");
    assert_eq!(history[0]["calls"].as_u64(), Some(tables.sum_where(|_| true).calls), "sums of the agent");
}

#[case]
fn a_wrong_token_is_named_in_what_the_agent_leaves(mpi: &Mpi) {
    let mut growing = Growing::start(mpi, Place::new(), 2);
    let server = Server::start_with_token(&growing.place, &[]);
    until("ranks begin", || growing.place.left().len() >= 2);
    let mut agent = Staying::start(&mut agent(&growing.place, &server.address, "another-token-than-that"));
    std::thread::sleep(Duration::from_millis(800));
    growing.stand_still();
    growing.end();
    assert!(agent.0.wait().expect("it is our child").success());
    let folder = std::fs::read_dir(growing.place.path("growing.timeline")).expect("it is there").flatten();
    let texts: Vec<String> = folder
        .filter(|entry| {
            entry.file_name().to_string_lossy().ends_with(".json") && entry.file_name() != "job.json"
        })
        .map(|entry| std::fs::read_to_string(entry.path()).expect("it can be read"))
        .collect();
    assert!(
        texts[0].contains("it answers '403 Forbidden': MPISEE_TOKEN is not the token of this server"),
        "{texts:?}"
    );
}

/// How long a program with an agent takes to end, once it may.
fn end(mpi: &mpisee_tests::Mpi, to: Option<&str>) -> Duration {
    let place = Place::new();
    let mut command = place.command(mpi, 2);
    if let Some(to) = to {
        command.arg("--watch").env("MPISEE_SERVE", to).env("MPISEE_TOKEN", TOKEN);
    }
    let launcher = Staying::start(command.arg(mpi.compile("live/growing")));
    let mut growing = Growing { place, launcher, ranks: 2 };
    until_arrived_soon(&growing);
    growing.end()
}

/// Lets it run for a while, so that an agent has tried to send.
fn until_arrived_soon(growing: &Growing) {
    until("ranks begin", || growing.place.left().len() >= 2);
    std::thread::sleep(Duration::from_millis(1500));
    growing.write("enough");
    until_arrived(growing.place.folder(), growing.ranks);
}

#[case]
fn no_server_delays_the_end_of_a_program(mpi: &Mpi) {
    // One takes connections and says nothing; at the other nobody listens.
    let hanging = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = hanging.local_addr().expect("it is bound").to_string();
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("there is a port")
        .local_addr()
        .expect("it is bound")
        .to_string();
    let without = end(mpi, None);
    for to in [address, closed] {
        soon(without + Duration::from_secs(1), || (end(mpi, Some(&to)), ()));
    }
}
