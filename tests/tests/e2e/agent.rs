//! Agents beside running programs: rates at the right times, whatever becomes of the agent, and no
//! trace of it in the program.

use mpisee_profile::Profile;
use mpisee_profile::rows::VariableRow;
use mpisee_tests::harness::leave_out;
use mpisee_tests::place::{Staying, runs, until, until_arrived};
use mpisee_tests::signal::SIGKILL;
use mpisee_tests::{Cluster, LIMIT, Mpi, Place, case, dist, within};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A row of `rates.csv`, with the names of the columns.
pub type Row = BTreeMap<String, String>;

pub fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().expect("a number")
}

/// The rows of a table, of all nodes.
pub fn rows(line: &Path, table: &str) -> Vec<Row> {
    let files = std::fs::read_dir(line).expect("the time line is there");
    let paths = files.map(|entry| entry.expect("it can be listed").path());
    let ending = format!(".{table}.csv.zst");
    let mut all = Vec::new();
    for path in paths.filter(|path| path.to_string_lossy().ends_with(&ending)) {
        let mut text = String::new();
        let file = File::open(path).expect("it is there");
        // An agent may be writing the last frame.
        let _ = zstd::Decoder::new(file).expect("it is compressed").read_to_string(&mut text);
        let mut lines = text.lines();
        let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let row = |line: &str| -> Row {
            let cells = columns.iter().zip(line.split(','));
            cells.map(|(&name, cell)| (name.to_owned(), cell.to_owned())).collect()
        };
        all.extend(lines.map(row));
    }
    all
}

pub fn json(path: PathBuf) -> Value {
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// The file about the only node.
pub fn node(line: &Path) -> Value {
    let files = std::fs::read_dir(line).into_iter().flatten().flatten();
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut hosts = names.filter(|name| name.ends_with(".json") && name != "job.json");
    hosts.next().map_or(Value::Null, |name| json(line.join(name)))
}

/// Waits until the agent has ended with the job.
pub fn until_ended(line: &Path) {
    until("the agent ends with the job", || node(line)["ended"] == "the job ended");
}

pub fn through(place: &Place, line: &Path) -> Value {
    let line = line.display().to_string();
    let output = place.through(&["timeline", &line, "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// When the calls of a part ended, over all ranks, in seconds since 1970.
fn ends(place: &Place, part: &str) -> Vec<f64> {
    let text = |rank: u32| {
        std::fs::read_to_string(place.path(&format!("calls.{part}.{rank}"))).expect("it is there")
    };
    (0..2)
        .flat_map(|rank| text(rank).lines().map(|line| line.parse().expect("a time")).collect::<Vec<f64>>())
        .collect()
}

/// The share of the calls of a part, one each two milliseconds from its begin, that ended more than
/// ten late.
fn share_late(place: &Place, part: &str, begin_s: f64) -> f64 {
    let ends = ends(place, part);
    let of_rank = ends.len() / 2;
    let planned = |at: usize| begin_s + 2e-3 * (at % of_rank) as f64;
    let late = ends.iter().enumerate().filter(|&(at, &end_s)| end_s > planned(at) + 10e-3);
    late.count() as f64 / ends.len() as f64
}

/// The agents of jobs of a folder: their processes.
fn agents(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("there are processes").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_agent = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_there = std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path == folder);
        is_there && String::from_utf8_lossy(&command).contains("mpisee-through\0agent\0")
    };
    numbers.filter(is_agent).collect()
}

/// Starts an agent by hand.
pub fn start_agent(place: &Place, arguments: &[&str]) -> Staying {
    start_agent_with(place, arguments, &[])
}

/// Starts an agent by hand, with these variables in its environment.
pub fn start_agent_with(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Staying {
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    command.arg("agent").args(arguments).current_dir(place.folder()).envs(variables.iter().copied());
    Staying::start(command.env("MPISEE_SEGMENTS", place.segments()).stdin(Stdio::null()))
}

pub fn in_turn(place: &Place, mpi: &Mpi, options: &[&str], seconds: &str) -> Command {
    let mut command = place.command(mpi, 2);
    command.args(options).args(["--output", "turn.mpisee"]).arg(mpi.compile("live/in_turn")).arg(seconds);
    command
}

/// Calls, bytes and seconds of the application's parts in the profile and in the time line are the
/// same.
pub fn assert_equal_sums(place: &Place, line: &Path) {
    let profile = place.tables("turn.mpisee");
    for (family, comm, call) in
        [("W_s1.*@2", "W_s1.", "MPI_Allreduce"), ("W", "W", "MPI_Sendrecv"), ("W", "W", "MPI_Barrier")]
    {
        let of_comm = |name: &str| if family == comm { name == comm } else { name.starts_with(comm) };
        let sum = profile.sum_where(|row| of_comm(&row.comm) && row.call == call);
        let time_s: f64 = profile
            .calls
            .iter()
            .filter(|row| of_comm(&row.comm) && row.call == call)
            .map(|row| row.time_s.0)
            .sum();
        let rates: Vec<Row> = rows(line, "rates")
            .into_iter()
            .filter(|row| row["family"] == family && row["call"] == call)
            .collect();
        let all = |column: &str| rates.iter().map(|row| number(row, column)).sum::<f64>();
        assert_eq!((all("calls"), all("bytes")), (sum.calls as f64, sum.bytes as f64), "{call} on {family}");
        let off = (all("time_s") - time_s).abs();
        assert!(off < 0.01 * time_s + 1e-3, "{call} on {family}: {} and {time_s}", all("time_s"));
    }
}

#[case]
fn communicators_that_are_busy_in_turn_are_seen_at_the_right_times(mpi: &Mpi) {
    let place = Place::new();
    let _agent = start_agent(&place, &["--interval", "100ms", "--wait", "600s"]);
    let output = within(LIMIT, &mut in_turn(&place, mpi, &[], "3"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = place.path("turn.timeline");
    until_ended(&line);
    assert_equal_sums(&place, &line);

    let start_s = json(line.join("job.json"))["start_ns"].as_u64().expect("a time") as f64 * 1e-9;
    let parts: Vec<(f64, f64)> = printed
        .lines()
        .map(|line| {
            let mut times =
                line.split(' ').skip(1).map(|time| time.parse::<f64>().expect("a time") - start_s);
            (times.next().expect("a begin"), times.next().expect("an end"))
        })
        .collect();
    // The program has these phases only where the machine lets it keep its times.
    let late = share_late(&place, "part", start_s + parts[0].0).max(share_late(
        &place,
        "world",
        start_s + parts[2].0,
    ));
    if late > 0.05 {
        leave_out(format!("the machine held up {:.0} % of the calls by more than 10 ms", 100.0 * late));
        return;
    }

    // Intervals have the calls that ended in them. A busy machine may stop the agent between its
    // clock and its counts.
    for (part, call) in [("part", "MPI_Allreduce"), ("world", "MPI_Sendrecv")] {
        let ends = ends(&place, part);
        let (mut seen, mut right, mut whole) = (0, 0, 0.0);
        for row in rows(&line, "rates").iter().filter(|row| row["call"] == call) {
            let (begin_s, length_s) = (start_s + number(row, "begin_s"), number(row, "length_s"));
            let ended = ends.iter().filter(|end| (begin_s..begin_s + length_s).contains(*end)).count() as f64;
            // Four milliseconds on each of two ranks.
            right += usize::from((ended - number(row, "calls")).abs() <= 4.0);
            seen += 1;
            whole += ended;
        }
        assert!(right * 2 > seen && whole == ends.len() as f64, "{call}: {right} of {seen}, {whole} calls");
    }

    // The phases are those of the program.
    let shown = through(&place, &line);
    let phases = shown["phases"].as_array().expect("a list");
    let time = |phase: &Value, name: &str| phase[name].as_f64().expect("a time");
    // Seconds of a part in phases that have its name.
    let named_s = |(begin_s, end_s): (f64, f64), name: &str| -> f64 {
        let is_named = |phase: &&Value| phase["name"].as_str().is_some_and(|it| it.contains(name));
        let within = |phase: &Value| time(phase, "end_s").min(end_s) - time(phase, "begin_s").max(begin_s);
        phases.iter().filter(is_named).map(|phase| within(phase).max(0.0)).sum()
    };
    let names = ["MPI_Allreduce on W_s1.*@2", "outside of MPI", "MPI_Sendrecv on W"];
    for (&part, name) in parts.iter().zip(names) {
        assert!(named_s(part, name) > 0.6 * (part.1 - part.0), "{name} in {part:?}: {phases:?}");
    }
    // Two directions of 65536 bytes in each call of the last part.
    let sent = ends(&place, "world").len() as f64 * 131_072.0;
    let moved = |phase: &Value| time(phase, "bytes_per_s") * (time(phase, "end_s") - time(phase, "begin_s"));
    let last = phases.iter().filter(|phase| time(phase, "begin_s") > (parts[1].0 + parts[1].1) / 2.0);
    let moved: f64 = last.map(moved).sum();
    assert!((moved / sent - 1.0).abs() < 0.15, "{moved} of {sent} bytes: {phases:?}");

    let by_profile = place.through(&["timeline", "turn.mpisee", "--format", "json"]);
    assert_eq!(serde_json::from_slice::<Value>(&by_profile.stdout).expect("it is JSON"), shown);
    let image = place.through(&["timeline", "turn.timeline", "--image", "turn.svg"]);
    assert!(image.status.success() && place.path("turn.svg").exists());
}

#[case]
fn agents_that_are_late_killed_and_started_again_lose_nothing(mpi: &Mpi) {
    let place = Place::new();
    let mut launcher = Staying::start(&mut in_turn(&place, mpi, &[], "2"));
    until("ranks begin", || place.left().len() == 2);
    std::thread::sleep(Duration::from_millis(1500));
    let mut first = start_agent(&place, &["--interval", "100ms"]);
    let line = place.path("turn.timeline");
    until("rows are written", || {
        let node_rates = || rows(&line, "node-rates").len();
        node(&line)["ranks"] == 2 && line.join("job.json").exists() && node_rates() > 0
    });
    let second = place.through(&["agent"]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another agent reads this job"), "{said}");
    first.end(SIGKILL);
    std::thread::sleep(Duration::from_millis(300));
    let mut third = start_agent(&place, &["--interval", "100ms"]);
    assert!(launcher.0.wait().expect("it is our child").success());
    until("the agent ends", || third.0.try_wait().expect("it is our child").is_some());
    assert_eq!(node(&line)["ended"], "the job ended");
    assert_equal_sums(&place, &line);
    let rates = rows(&line, "rates");
    let late = rates.iter().find(|row| number(row, "begin_s") == 0.0).expect("a first interval");
    assert!(number(late, "length_s") > 0.4 && !late["max_s"].is_empty(), "{late:?}");
    assert!(rates.iter().any(|row| row["max_s"].is_empty()), "between two agents");
    let shown = through(&place, &line);
    assert_eq!(shown["caveats"], Value::Array(Vec::new()));
}

#[case]
fn an_agent_is_alone_on_its_node_and_has_nothing_of_the_program(mpi: &Mpi) {
    let place = Place::new();
    let mut launcher = Staying::start(&mut in_turn(&place, mpi, &["--watch"], "1"));
    until("ranks begin", || place.left().len() == 2);
    let mut found = Vec::new();
    until("an agent is there", || {
        found = agents(place.folder());
        !found.is_empty()
    });
    let [agent] = found[..] else { panic!("agents {found:?}") };
    let line = place.path("turn.timeline");
    until("it reads", || node(&line)["ranks"] == 2);
    for entry in std::fs::read_dir(format!("/proc/{agent}/fd")).expect("it runs").flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        assert!(!target.starts_with("pipe:") && !target.starts_with("/dev/pts"), "{target}");
    }
    let environment = std::fs::read(format!("/proc/{agent}/environ")).expect("it runs");
    assert!(!String::from_utf8_lossy(&environment).contains("LD_PRELOAD="));
    assert!(launcher.0.wait().expect("it is our child").success());
    until("the agent ends", || !runs(agent));
    assert_eq!(place.left(), [] as [PathBuf; 0], "no segment is left");
    assert_eq!(node(&line)["ended"], "the job ended");
}

#[case]
fn a_job_that_is_killed_has_its_time_line(mpi: &Mpi) {
    let place = Place::new();
    let mut command = place.command(mpi, 4);
    command.arg("--watch").arg(mpi.compile("lifecycle/waits")).args(["1000", "dies"]);
    let mut launcher = Staying::start(&mut command);
    let _ = launcher.0.wait();
    place.wait_for_ranks(&[]);
    let line = place.path("waits.timeline");
    until_ended(&line);
    let calls: f64 = rows(&line, "rates")
        .iter()
        .filter(|row| row["family"] == "W_s1.*@3" && row["call"] == "MPI_Allreduce")
        .map(|row| number(row, "calls"))
        .sum();
    assert_eq!(calls, 15.0);
    let inside = rows(&line, "rates").iter().map(|row| number(row, "inside")).fold(0.0, f64::max);
    assert!(inside <= 2.0);
    place.recover(&["--clean"]);
}

#[case]
fn each_node_has_an_agent_and_all_write_one_time_line(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(2) else { return };
    if mpi.is_left_out(&["mpich-4"], "between played nodes it hangs in its MPI_Finalize now and then") {
        return;
    }
    for segments in [None, Some("--segments")] {
        let place = Place::on(&cluster);
        let mut command = mpi.launcher(2, &[]);
        cluster.launch(mpi, &mut command, 1);
        command.arg(dist().join("bin/mpisee")).args(["--watch", "--output", "turn.mpisee"]);
        // Also where nodes keep their segments in one folder.
        if let Some(option) = segments {
            command.arg(option).arg(place.segments());
        }
        command.arg(mpi.compile("live/in_turn")).arg("1").current_dir(place.folder());
        let output = within(LIMIT, &mut cluster.on("login", &command));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let line = place.path("turn.timeline");
        for host in cluster.names() {
            let path = || line.join(format!("{host}.json"));
            until("each agent ends with the job", || json(path())["ended"] == "the job ended");
            assert_eq!(json(path())["ranks"], 1, "{host}");
        }
        let files = std::fs::read_dir(place.folder()).expect("the folder is there").flatten();
        let lines = files.filter(|entry| entry.file_name().to_string_lossy().ends_with(".timeline")).count();
        assert_eq!(lines, 1);
        assert_equal_sums(&place, &line);
        let shown = through(&place, &line);
        assert_eq!((&shown["ranks"], &shown["caveats"]), (&Value::from(2), &Value::Array(Vec::new())));
    }
}

/// The body of what a server on this machine answers.
fn get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("it is not zero");
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let read = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    let body = read.ok().and_then(|_| answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()));
    body.unwrap_or_default()
}

/// The port of a server, as `ADDRESS:PORT`.
fn port_of(address: &Value) -> Option<u16> {
    address.as_str()?.rsplit(':').next()?.parse().ok()
}

#[case]
fn prometheus_has_the_rates_and_its_alert_fires_for_a_hang(mpi: &Mpi) {
    if Command::new("prometheus").arg("--version").output().is_err() {
        leave_out("there is no prometheus in PATH");
        return;
    }
    let place = Place::new();
    let waits = mpi.compile("lifecycle/waits");
    let mut launcher = Staying::start(place.command(mpi, 4).arg(waits).arg("1000"));
    until_arrived(&place.path(""), 4);
    let _agent = start_agent(&place, &["--metrics=127.0.0.1:0", "--interval", "200ms"]);
    let line = place.path("waits.timeline");
    let mut port = None;
    until("the agent serves", || {
        port = port_of(&node(&line)["metrics"]);
        port.is_some()
    });
    let port = port.expect("it was just there");
    let metrics = get(port, "/metrics");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    // As in the example, but for a hang of a second.
    let monitoring = mpisee_tests::root().join("examples/monitoring");
    let rules = std::fs::read_to_string(monitoring.join("mpisee.rules.yml")).expect("it is there");
    std::fs::write(place.path("mpisee.rules.yml"), rules.replace("> 60 and", "> 1 and"))
        .expect("the folder is there");
    let check =
        Command::new("promtool").args(["check", "rules"]).arg(monitoring.join("mpisee.rules.yml")).output();
    assert!(check.is_ok_and(|checked| checked.status.success()));
    let config = std::fs::read_to_string(monitoring.join("prometheus.yml")).expect("it is there");
    let config = config.replace("localhost:9464", &format!("127.0.0.1:{port}")).replace("15s", "1s");
    std::fs::write(place.path("prometheus.yml"), config).expect("the folder is there");
    let free =
        TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("there is a port").port();
    let _prometheus = Staying::start(
        Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{free}"))
            .current_dir(place.folder()),
    );
    let query = |query: &str| -> Value {
        let answer = get(free, &format!("/api/v1/query?query={query}"));
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        answer["data"]["result"][0].clone()
    };
    let mut calls = Value::Null;
    until("prometheus has scraped", || {
        calls = query("mpisee_calls_total%7Bfamily%3D%22W_s1.*%403%22%2Ccall%3D%22MPI_Allreduce%22%7D");
        calls["value"][1] == "15"
    });
    let mut labels = Value::Null;
    until("the alert fires", || {
        let answer: Value = serde_json::from_str(&get(free, "/api/v1/alerts")).unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let is_fired =
            |alert: &&Value| alert["state"] == "firing" && alert["labels"]["alertname"] == "MpiRankMissing";
        labels = alerts.iter().find(is_fired).map_or(Value::Null, |alert| alert["labels"].clone());
        !labels.is_null()
    });
    assert_eq!((&labels["family"], &labels["call"]), (&"W_s1.*@3".into(), &"MPI_Allreduce".into()));
    assert!(labels["command"].as_str().is_some_and(|command| command.contains("waits")), "{labels}");
    assert_eq!(query("mpisee_ranks_missing%20%3E%200")["value"][1], "1");
    std::fs::write(place.path("go"), "").expect("the folder is there");
    assert!(launcher.0.wait().expect("it is our child").success());
    until_ended(&line);
}

#[case]
fn without_a_job_an_agent_says_so() {
    let place = Place::new();
    let output = place.through(&["agent"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no program that mpisee records runs here"), "{said}");
}

#[case]
fn variables_of_mpi_are_read_while_the_program_runs(mpi: &Mpi) {
    const COUNT: &str = "coll_monitoring_a2a_count";
    if !mpi.is_open_mpi {
        return; // MPICH has no performance variable.
    }
    let place = Place::new();
    let mut command = in_turn(&place, mpi, &["--mpi-t", COUNT], "2");
    command.env("OMPI_MCA_pml", "^cm,ucx").env("OMPI_MCA_pml_monitoring_enable", "1");
    let mut launcher = Staying::start(&mut command);
    let mut agent = start_agent(&place, &["--interval", "100ms", "--wait", "60s"]);
    assert!(launcher.0.wait().expect("it is our child").success());
    until("the agent ends", || agent.0.try_wait().expect("it is our child").is_some());
    let profile = Profile::open(place.path("turn.mpisee")).expect("there is a profile");
    let variables: Vec<VariableRow> = profile.rows_if_any().and_then(Iterator::collect).expect("rows");
    let counted: f64 = variables.iter().filter_map(|row| row.delta).sum();
    // The program has no region, at whose borders it would be read.
    assert!(counted > 0.0 && variables.iter().all(|row| row.readings > 5), "{variables:?}");
    let rows = rows(&place.path("turn.timeline"), "node-rates");
    let of_variable: Vec<&Row> =
        rows.iter().filter(|row| row["source"] == "mpi" && row["device"] == COUNT).collect();
    // It counts at the begin and at the end of the program.
    assert!(of_variable.len() >= 2, "{of_variable:?}");
    assert!(of_variable.iter().all(|row| row["quantity"] == "counted"));
    let seen: f64 = of_variable.iter().map(|row| number(row, "value")).sum();
    assert_eq!(seen, counted);
}
