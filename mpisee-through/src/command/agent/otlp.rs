//! `--otlp`: the metrics by OpenTelemetry's protocol, sent to a collector as JSON over HTTP.
//!
//! A thread sends them from time to time and at the end. Sums are cumulative, so that what a collector does not take is in what it gets next:
//! nothing has to be kept for it.

use super::metrics::{Metric, MetricKind, MetricValue, Metrics, Point};
use crate::output::printable;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where collectors listen that say nothing else.
const NEAR: &str = "http://localhost:4318";
/// The path of metrics below an endpoint.
const PATH: &str = "/v1/metrics";
/// As OpenTelemetry has them, where no variable says otherwise.
const INTERVAL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the agent waits at its end until the collector has the last sums.
const LAST: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read.
const MOST_ANSWER_BYTES: u64 = 65_536;

/// Where metrics go, and what is said with them.
#[derive(Debug, PartialEq)]
pub struct Target {
    url: String,
    headers: Vec<(String, String)>,
    interval: Duration,
    timeout: Duration,
    /// Attributes that the user has given.
    attributes: BTreeMap<String, String>,
}

impl Target {
    /// By the argument of `--otlp`, which may be empty, and the variables of OpenTelemetry.
    pub fn new(argument: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Target> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let url = match argument {
            "" => match set("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
                Some(whole) => whole,
                None => below(&set("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| NEAR.to_owned())),
            },
            url if url.trim_end_matches('/').matches('/').count() <= 2 => below(url),
            url => url.to_owned(),
        };
        let Some(host) =
            url.strip_prefix("http://").filter(|host| !host.starts_with('/') && !host.is_empty())
        else {
            bail!(
                "metrics are not sent to '{}': --otlp takes http://HOST:PORT; to one that wants HTTPS a collector on this node can forward them",
                printable(&url)
            );
        };
        if host.contains('@') {
            bail!("no password in the URL of --otlp, please; OTEL_EXPORTER_OTLP_HEADERS has room for it");
        }
        let headers = set("OTEL_EXPORTER_OTLP_METRICS_HEADERS").or_else(|| set("OTEL_EXPORTER_OTLP_HEADERS"));
        let headers = pairs(&headers.unwrap_or_default(), "OTEL_EXPORTER_OTLP_HEADERS")?;
        let attributes =
            pairs(&set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default(), "OTEL_RESOURCE_ATTRIBUTES")?;
        let mut attributes: BTreeMap<String, String> = attributes.into_iter().collect();
        attributes.extend(set("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
        Ok(Target {
            url,
            headers,
            interval: milliseconds(
                "OTEL_METRIC_EXPORT_INTERVAL",
                set("OTEL_METRIC_EXPORT_INTERVAL"),
                INTERVAL,
            )?,
            timeout: milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", set("OTEL_EXPORTER_OTLP_TIMEOUT"), TIMEOUT)?,
            attributes,
        })
    }
}

/// The address of metrics of an endpoint.
fn below(endpoint: &str) -> String {
    format!("{}{PATH}", endpoint.trim().trim_end_matches('/'))
}

fn milliseconds(name: &str, value: Option<String>, otherwise: Duration) -> Result<Duration> {
    let Some(value) = value else { return Ok(otherwise) };
    let number: Option<u64> = value.trim().parse().ok().filter(|number| *number > 0);
    let number =
        number.with_context(|| format!("{name} is '{}'; it takes milliseconds", printable(&value)))?;
    Ok(Duration::from_millis(number))
}

/// `name=value,name=value`, with bytes in values as `%20`.
fn pairs(text: &str, variable: &str) -> Result<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((decoded(name.trim())?, decoded(value.trim())?))
    };
    parts
        .map(|part| {
            // Headers may be secrets.
            pair(part).with_context(|| format!("{variable} has a part that is not NAME=VALUE"))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, after) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The outcome of the exports so far.
#[derive(Clone, Debug, Default)]
struct Outcome {
    tried: u64,
    failed: u64,
    /// Exports whose turn passed while an earlier one was under way.
    skipped: u64,
    last_error: String,
}

/// The metrics that are sent, and their resource.
pub struct Source {
    pub metrics: Metrics,
    /// Nanoseconds since 1970 from which on sums of the job count.
    pub since_ns: u64,
    /// The same for those of the agent.
    pub agent_since_ns: u64,
    /// Attributes of the job and the node.
    pub attributes: BTreeMap<String, String>,
}

/// Sends metrics until it is told to end.
pub struct Exporter {
    url: String,
    end: Sender<()>,
    done: Receiver<()>,
    outcome: Arc<Mutex<Outcome>>,
}

impl Exporter {
    /// Begins to send.
    pub fn start(target: Target, source: Source) -> Result<Exporter> {
        let (end, ended) = channel();
        let (to_agent, done) = channel();
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let (url, shared) = (target.url.clone(), Arc::clone(&outcome));
        std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                send_until(&target, &source, &ended, &shared);
                let _ = to_agent.send(());
            })
            .context("cannot start a thread that sends metrics")?;
        Ok(Exporter { url, end, done, outcome })
    }

    /// Sends the last sums, as far as the collector takes them soon; returns a sentence on what was lost.
    pub fn end(self) -> Option<String> {
        let _ = self.end.send(());
        let is_late = self.done.recv_timeout(LAST).is_err();
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut parts = Vec::new();
        if outcome.failed > 0 {
            let Outcome { tried, failed, last_error, .. } = &outcome;
            parts.push(format!("{failed} of {tried} exports failed, the last one by: {last_error}"));
        }
        if outcome.skipped > 0 {
            parts.push(format!("{} had no turn, since earlier ones took so long", outcome.skipped));
        }
        if is_late {
            parts.push(format!("the last sums were not taken within {} s", LAST.as_secs()));
        }
        (!parts.is_empty()).then(|| format!("metrics for {}: {}", printable(&self.url), parts.join("; ")))
    }
}

/// Sends at each interval and at the end.
fn send_until(target: &Target, source: &Source, ended: &Receiver<()>, outcome: &Mutex<Outcome>) {
    let config =
        ureq::Agent::config_builder().timeout_global(Some(target.timeout)).max_redirects(0).proxy(None);
    let client: ureq::Agent = config.build().into();
    let mut due = Instant::now() + target.interval;
    loop {
        let waited = ended.recv_timeout(due.saturating_duration_since(Instant::now()));
        let result = send(&client, target, source);
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.tried += 1;
        if let Err(why) = result {
            outcome.failed += 1;
            outcome.last_error = printable(&why);
        }
        if waited != Err(RecvTimeoutError::Timeout) {
            return;
        }
        due += target.interval;
        while due < Instant::now() {
            due += target.interval;
            outcome.skipped += 1;
        }
    }
}

/// Sends all metrics once; the error in words.
fn send(client: &ureq::Agent, target: &Target, source: &Source) -> Result<(), String> {
    let body = request(&source.metrics.all(), source, &target.attributes, now_ns()).to_string();
    let mut post = client.post(&target.url).header("Content-Type", "application/json");
    for (name, value) in &target.headers {
        post = post.header(name, value);
    }
    let mut answer = post.send(body.as_bytes()).map_err(|error| error.to_string())?;
    if answer.status().as_u16() >= 300 {
        return Err(format!("HTTP status {}", answer.status()));
    }
    let text = answer.body_mut().with_config().limit(MOST_ANSWER_BYTES).read_to_string();
    let said: Value = text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    // JSON of Protocol Buffers has 64-bit numbers as strings.
    let rejected = &said["partialSuccess"]["rejectedDataPoints"];
    let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
    match rejected {
        0 => Ok(()),
        count => {
            let why = said["partialSuccess"]["errorMessage"].as_str().unwrap_or_default();
            Err(format!("the collector rejected {count} numbers: {why}"))
        }
    }
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

/// The body of a request, by the JSON encoding of OTLP 1.
fn request(metrics: &[Metric], source: &Source, of_user: &BTreeMap<String, String>, now_ns: u64) -> Value {
    let mut attributes = source.attributes.clone();
    attributes.extend(of_user.iter().map(|(name, value)| (name.clone(), value.clone())));
    let attributes: Vec<Value> = attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    // What the metric of the job has in its labels, the resource has in its attributes.
    let numbers =
        metrics.iter().filter(|metric| metric.kind != MetricKind::Info && !metric.points.is_empty());
    let numbers: Vec<Value> = numbers.map(|it| metric(it, source, now_ns)).collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": attributes },
        "scopeMetrics": [{
            "scope": { "name": "mpisee-through", "version": env!("CARGO_PKG_VERSION") },
            "metrics": numbers,
        }],
    }] })
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn metric(metric: &Metric, source: &Source, now_ns: u64) -> Value {
    /// Sums from the same moment on, not since the last export.
    const CUMULATIVE: u32 = 2;
    let since_ns = match metric.kind {
        MetricKind::Counter => Some(source.since_ns),
        MetricKind::CounterOfAgent => Some(source.agent_since_ns),
        MetricKind::Info | MetricKind::Gauge => None,
    };
    let point = |(labels, number): &Point| {
        let attributes: Vec<Value> = labels.iter().map(|(name, value)| attribute(name, value)).collect();
        let mut point = json!({ "attributes": attributes, "timeUnixNano": now_ns.to_string() });
        if let Some(since_ns) = since_ns {
            point["startTimeUnixNano"] = since_ns.to_string().into();
        }
        match number {
            // A signed number, by the protocol.
            MetricValue::Whole(number) => point["asInt"] = (*number).min(i64::MAX as u64).to_string().into(),
            MetricValue::Real(number) => point["asDouble"] = (*number).into(),
        }
        point
    };
    let points: Vec<Value> = metric.points.iter().map(point).collect();
    let unit = match metric.unit() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    };
    let mut all = json!({ "name": metric.name, "description": metric.help, "unit": unit });
    match since_ns {
        Some(_) => {
            all["sum"] =
                json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points });
        }
        None => all["gauge"] = json!({ "dataPoints": points }),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn target(argument: &str, variables: &[(&str, &str)]) -> Result<Target, String> {
        let value = |wanted: &str| {
            let mut found = variables.iter().filter(|(name, _)| *name == wanted);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        Target::new(argument, value).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_address_is_that_of_the_argument_else_of_the_variables() {
        let url = |argument: &str, variables: &[(&str, &str)]| target(argument, variables).unwrap().url;
        assert_eq!(url("", &[]), "http://localhost:4318/v1/metrics");
        assert_eq!(url("http://c:4318", &[]), "http://c:4318/v1/metrics");
        assert_eq!(url("http://c:4318/", &[]), "http://c:4318/v1/metrics");
        assert_eq!(url("http://c/otlp/v1/metrics", &[]), "http://c/otlp/v1/metrics");
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1/base/");
        assert_eq!(url("", &[base]), "http://c:1/base/v1/metrics");
        assert_eq!(url("http://d", &[base]), "http://d/v1/metrics");
        let whole = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:2/x");
        assert_eq!(url("", &[base, whole]), "http://m:2/x");
        let error = target("https://c", &[]).unwrap_err();
        assert!(
            error.starts_with("metrics are not sent to 'https://c/v1/metrics': --otlp takes http://"),
            "{error}"
        );
        assert!(target("c:4318", &[]).is_err() && target("http://me:secret@c", &[]).is_err());
    }

    #[test]
    fn headers_and_attributes_are_those_of_the_variables() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x = 1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=other"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1500"),
        ];
        let found = target("", &variables).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found.headers, [pair("api-key", "a b="), pair("x", "1")]);
        let attributes = [pair("deployment.environment", "test"), pair("service.name", "mine")];
        assert!(found.attributes.into_iter().eq(attributes));
        assert_eq!((found.interval, found.timeout), (Duration::from_millis(1500), TIMEOUT));
        let error = target("", &[("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert_eq!(error, "OTEL_EXPORTER_OTLP_HEADERS has a part that is not NAME=VALUE");
        let error = target("", &[("OTEL_METRIC_EXPORT_INTERVAL", "1s")]).unwrap_err();
        assert_eq!(error, "OTEL_METRIC_EXPORT_INTERVAL is '1s'; it takes milliseconds");
    }

    fn source() -> Source {
        let attributes = BTreeMap::from([("host.name".to_owned(), "n1".to_owned())]);
        Source { metrics: Metrics::default(), since_ns: 5, agent_since_ns: 7, attributes }
    }

    #[test]
    fn sums_and_gauges_are_as_the_protocol_wants_them() {
        let labels = vec![("family", "W".to_owned())];
        let metrics = [
            Metric {
                name: "job",
                kind: MetricKind::Info,
                help: "",
                points: vec![(labels.clone(), MetricValue::Whole(1))],
            },
            Metric {
                name: "mpisee_bytes",
                kind: MetricKind::Counter,
                help: "Bytes.",
                points: vec![(labels, MetricValue::Whole(u64::MAX))],
            },
            Metric {
                name: "gpu_bytes",
                kind: MetricKind::CounterOfAgent,
                help: "",
                points: vec![(Vec::new(), MetricValue::Whole(3))],
            },
            Metric {
                name: "w_seconds",
                kind: MetricKind::Gauge,
                help: "",
                points: vec![(Vec::new(), MetricValue::Real(0.5))],
            },
        ];
        let body = request(&metrics, &source(), &BTreeMap::new(), 9);
        let resource = &body["resourceMetrics"][0];
        let host = json!([{ "key": "host.name", "value": { "stringValue": "n1" } }]);
        assert_eq!(resource["resource"]["attributes"], host);
        let family = json!([{ "key": "family", "value": { "stringValue": "W" } }]);
        let expected = json!([
            { "name": "mpisee_bytes", "description": "Bytes.", "unit": "By", "sum": {
                "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [{
                    "attributes": family, "timeUnixNano": "9", "startTimeUnixNano": "5", "asInt": "9223372036854775807",
                }] } },
            { "name": "gpu_bytes", "description": "", "unit": "By", "sum": {
                "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [{
                    "attributes": [], "timeUnixNano": "9", "startTimeUnixNano": "7", "asInt": "3",
                }] } },
            { "name": "w_seconds", "description": "", "unit": "s", "gauge": {
                "dataPoints": [{ "attributes": [], "timeUnixNano": "9", "asDouble": 0.5 }] } },
        ]);
        assert_eq!(resource["scopeMetrics"][0]["metrics"], expected);
    }

    /// Ends an exporter whose collector answers so; returns its last words, and how long that took.
    fn ends_with(answer: Option<&'static str>) -> (Option<String>, Duration) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 65_536];
                let _ = stream.read(&mut request);
                match answer {
                    Some(answer) => drop(stream.write_all(answer.as_bytes())),
                    // Keeps the connection, and says nothing.
                    None => std::mem::forget(stream),
                }
            }
        });
        let exporter = Exporter::start(target(&url, &[]).unwrap(), source()).unwrap();
        let begin = Instant::now();
        (exporter.end(), begin.elapsed())
    }

    #[test]
    fn a_collector_that_refuses_or_hangs_is_said_at_the_end_and_delays_nobody() {
        let taken = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        assert_eq!(ends_with(Some(taken)).0, None);
        let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let said = ends_with(Some(busy)).0.unwrap();
        assert!(said.contains("1 of 1 exports failed, the last one by: ") && said.contains("503"), "{said}");
        let part = "HTTP/1.1 200 OK\r\nContent-Length: 71\r\nConnection: close\r\n\r\n\
                    {\"partialSuccess\":{\"rejectedDataPoints\":\"7\",\"errorMessage\":\"too many\"}}";
        let said = ends_with(Some(part)).0.unwrap();
        assert!(said.ends_with("the collector rejected 7 numbers: too many"), "{said}");
        let (said, time) = ends_with(None);
        assert!(said.unwrap().ends_with("the last sums were not taken within 2 s"));
        assert!(time < 2 * LAST, "{time:?}");
    }

    #[test]
    fn a_port_without_collector_is_said_at_the_end() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let exporter = Exporter::start(target(&format!("http://{free}"), &[]).unwrap(), source()).unwrap();
        let said = exporter.end().unwrap();
        assert!(
            said.starts_with(&format!("metrics for http://{free}/v1/metrics: 1 of 1 exports failed")),
            "{said}"
        );
    }
}
