//! Metrics by OpenTelemetry's protocol: a small collector gets the sums of the profile, and one that hangs delays nobody.

use crate::agent::{in_turn, node, start_agent_with, until_ended};
use mpisee_tests::place::{Staying, until};
use mpisee_tests::{Mpi, Place, case};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Requests: their first lines and headers, and their bodies.
type Requests = Arc<Mutex<Vec<(Vec<String>, Value)>>>;

/// A collector on a port of its own, until the test ends.
fn collector() -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it listens");
    let requests = Requests::default();
    let all = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            take(&stream, &all);
        }
    });
    (format!("http://{address}"), requests)
}

/// Reads a request, keeps it, and answers that all is well: the agent may end, and the test look, as soon as it has the answer.
fn take(stream: &TcpStream, requests: &Requests) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_lowercase()),
        }
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    requests.lock().expect("nobody panicked").push((head, serde_json::from_slice(&body).ok()?));
    (&*stream).write_all(answer.as_bytes()).ok()
}

/// The points of a metric, each with its attributes as text.
fn points(body: &Value, name: &str) -> Vec<(String, Value)> {
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("a list");
    let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap_or(&Value::Null);
    let points = metric["sum"]["dataPoints"].as_array().or(metric["gauge"]["dataPoints"].as_array());
    let labels = |point: &Value| {
        let values = point["attributes"].as_array().expect("a list").iter();
        let values = values.map(|attribute| attribute["value"]["stringValue"].as_str().expect("text"));
        values.collect::<Vec<_>>().join(" ")
    };
    points.into_iter().flatten().map(|point| (labels(point), point.clone())).collect()
}

/// A number of 64 bits, which this encoding has as text.
fn whole(point: &Value) -> u64 {
    point["asInt"].as_str().expect("text").parse().expect("a number")
}

#[case]
fn a_collector_has_the_sums_of_the_profile_at_the_end(mpi: &Mpi) {
    let place = Place::new();
    let (url, requests) = collector();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=sea"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
    ];
    let _agent = start_agent_with(&place, &["--wait", "60s", "--interval", "200ms", "--otlp"], &variables);
    let mut launcher = Staying::start(&mut in_turn(&place, mpi, &[], "1"));
    assert!(launcher.0.wait().expect("it is our child").success());
    let line = place.path("turn.timeline");
    until_ended(&line);
    assert_eq!(node(&line)["notes"], Value::Array(Vec::new()));

    let requests = requests.lock().expect("nobody panicked").clone();
    assert!(requests.len() >= 3, "{} requests", requests.len());
    let (head, last) = requests.last().expect("there are some");
    assert_eq!(head[0], "post /v1/metrics http/1.1");
    assert!(
        head.contains(&"api-key: a b".to_owned())
            && head.contains(&"content-type: application/json".to_owned()),
        "{head:?}"
    );
    let resource = last["resourceMetrics"][0]["resource"]["attributes"].to_string();
    for attribute in [
        "service.name\",\"value\":{\"stringValue\":\"in_turn",
        "team\",\"value\":{\"stringValue\":\"sea",
        "host.name",
    ] {
        assert!(resource.contains(attribute), "{attribute}: {resource}");
    }
    let profile = place.tables("turn.mpisee");
    for (labels, comm, call) in
        [("W_s1.*@2 MPI_Allreduce", "W_s1.", "MPI_Allreduce"), ("W MPI_Sendrecv", "W", "MPI_Sendrecv")]
    {
        let sum = profile.sum_where(|row| row.comm.starts_with(comm) && row.call == call);
        let of = |body: &Value, metric: &str| -> u64 {
            points(body, metric)
                .iter()
                .filter(|(found, _)| found == labels)
                .map(|(_, point)| whole(point))
                .sum()
        };
        assert_eq!((of(last, "mpisee_calls"), of(last, "mpisee_bytes")), (sum.calls, sum.bytes), "{labels}");
        let calls: Vec<u64> = requests.iter().map(|(_, body)| of(body, "mpisee_calls")).collect();
        assert!(calls.is_sorted(), "{calls:?}");
        let time_s: f64 = points(last, "mpisee_mpi_seconds")
            .iter()
            .filter(|(found, _)| found == labels)
            .map(|(_, point)| point["asDouble"].as_f64().expect("a number"))
            .sum();
        let rows = profile.calls.iter().filter(|row| row.comm.starts_with(comm) && row.call == call);
        let in_profile_s: f64 = rows.map(|row| row.time_s.0).sum();
        assert!(
            (time_s - in_profile_s).abs() < 0.01 * in_profile_s + 1e-3,
            "{labels}: {time_s}, {in_profile_s}"
        );
    }
    let begins: Vec<Value> = points(last, "mpisee_calls")
        .into_iter()
        .map(|(_, point)| point["startTimeUnixNano"].clone())
        .collect();
    assert!(begins.iter().all(|begin| *begin == begins[0] && begin.is_string()), "{begins:?}");
}

#[case]
fn a_collector_that_hangs_delays_no_reading_and_no_end(mpi: &Mpi) {
    let place = Place::new();
    // It takes connections, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let option = format!("--otlp=http://{}", listener.local_addr().expect("it listens"));
    let variables = [("OTEL_METRIC_EXPORT_INTERVAL", "300")];
    let mut agent = start_agent_with(&place, &["--wait", "60s", "--interval", "200ms", &option], &variables);
    let mut launcher = Staying::start(&mut in_turn(&place, mpi, &[], "1"));
    assert!(launcher.0.wait().expect("it is our child").success());
    let ended = Instant::now();
    until("the agent ends", || agent.0.try_wait().expect("it is our child").is_some());
    assert!(ended.elapsed() < Duration::from_secs(10), "{:?}", ended.elapsed());
    let node = node(&place.path("turn.timeline"));
    let (readings, wall_s) =
        (node["readings"].as_f64().expect("a number"), node["wall_s"].as_f64().expect("a time"));
    assert!(readings > 0.6 * wall_s / 0.2 - 12.0 && readings > 8.0, "{readings} readings in {wall_s} s");
    let notes = node["notes"].to_string();
    assert!(notes.contains("the last sums were not taken within 2 s"), "{notes}");
}
