//! `--metrics`: what the agent has read, as OpenMetrics over HTTP, for Prometheus and its like.
//!
//! The readings only add numbers; the text is made when somebody asks for it, by a thread of its own.

use crate::output::printable;
use crate::timeline::JobFile;
use crate::timeline::history::{CallName, Rate};
use anyhow::{Context, Result};
use mpisee_profile::Operation;
use mpisee_profile::segment::active_call::Call;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pairs of family and operation that have a label of their own, so that a job with ever new communicators does not fill a data base.
const MOST_SERIES: usize = 200;
/// The family and the operation of the others.
const OTHERS: &str = "(others)";
/// The longest request that is read, and how long it and its answer may take.
const MOST_REQUEST_BYTES: usize = 8192;
const MOST_TIME: Duration = Duration::from_secs(2);

/// What is told of a pair of family and operation.
#[derive(Clone, Debug, Default, PartialEq)]
struct Series {
    family: String,
    call: String,
    calls: u64,
    bytes: u64,
    time_s: f64,
    inside: u32,
    /// Of a collective, ranks of the node that make such calls and are not in one, while others are.
    outside: u32,
    /// Of a collective, how long the first that is in it has been there.
    longest_s: f64,
}

/// What is told.
#[derive(Debug, Default)]
struct State {
    /// Labels of the job.
    job: Vec<(&'static str, String)>,
    series: Vec<Series>,
    ranks: usize,
    rank_s: f64,
    readings: u64,
}

/// A server of metrics, until the process ends.
pub struct Metrics {
    state: Arc<Mutex<State>>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Metrics {
    /// Listens from now on.
    pub fn serve(address: SocketAddr, job: &JobFile, host: &str, batch_job: Option<&str>) -> Result<Metrics> {
        let cannot =
            || format!("cannot serve metrics on {address}; --metrics 127.0.0.1:0 takes any free port");
        let listener = TcpListener::bind(address).with_context(cannot)?;
        let address = listener.local_addr().with_context(cannot)?;
        let labels = vec![
            ("command", job.command.join(" ")),
            ("profile", job.profile.clone()),
            ("start", job.start.clone()),
            ("host", host.to_owned()),
            ("batch_job", batch_job.unwrap_or_default().to_owned()),
        ];
        let state = Arc::new(Mutex::new(State { job: labels, ..State::default() }));
        let shared = Arc::clone(&state);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || answer_all(&listener, &shared))
            .with_context(cannot)?;
        Ok(Metrics { state, address })
    }

    /// Adds an interval. `names` are those of the rates.
    pub fn add(&self, names: &[CallName], rates: &[Rate], ranks: usize, length_s: f64) {
        lock(&self.state).add(names, rates, ranks, length_s);
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn add(&mut self, names: &[CallName], rates: &[Rate], ranks: usize, length_s: f64) {
        // Names have their places for good, so that counters only grow.
        while self.series.len() < names.len().min(MOST_SERIES) {
            let (family, call) = names[self.series.len()].clone();
            self.series.push(Series { family, call, ..Series::default() });
        }
        if names.len() > MOST_SERIES && self.series.len() == MOST_SERIES {
            let (family, call) = (OTHERS.to_owned(), OTHERS.to_owned());
            self.series.push(Series { family, call, ..Series::default() });
        }
        for series in &mut self.series {
            (series.inside, series.outside, series.longest_s) = (0, 0, 0.0);
        }
        for rate in rates {
            let Some(series) = self.series.get_mut((rate.name as usize).min(MOST_SERIES)) else { continue };
            series.calls = series.calls.wrapping_add(rate.calls);
            series.bytes = series.bytes.wrapping_add(rate.bytes);
            series.time_s += rate.time_s;
            series.inside += rate.inside;
            if rate.inside > 0 && is_collective(&series.call) {
                series.outside += rate.ranks.saturating_sub(rate.inside);
                series.longest_s = series.longest_s.max(rate.longest_s);
            }
        }
        self.ranks = ranks;
        self.rank_s += ranks as f64 * length_s;
        self.readings += 1;
    }

    /// The text, by the specification of OpenMetrics 1.0.
    fn text(&self) -> String {
        let mut text = String::new();
        let labels: Vec<String> = self.job.iter().map(|(name, value)| label(name, value)).collect();
        head(&mut text, "mpisee_job", "info", "The job.");
        let _ = writeln!(text, "mpisee_job_info{{{}}} 1", labels.join(","));
        self.family(&mut text, ("mpisee_calls", "counter", "Calls that ended."), |it| it.calls.to_string());
        self.family(&mut text, ("mpisee_bytes", "counter", "Bytes of these calls."), |it| {
            it.bytes.to_string()
        });
        let about = ("mpisee_mpi_seconds", "counter", "Time of the ranks in such calls.");
        self.family(&mut text, about, |it| format!("{:.6}", it.time_s));
        let about = ("mpisee_ranks_inside", "gauge", "Ranks that are in such a call.");
        self.family(&mut text, about, |it| it.inside.to_string());
        let about = "Ranks that make such calls and are not in one, while others are; of collectives.";
        self.family(&mut text, ("mpisee_ranks_missing", "gauge", about), |it| it.outside.to_string());
        let about = "How long the first rank in the call has been there; of collectives.";
        self.family(&mut text, ("mpisee_collective_wait_seconds", "gauge", about), |it| {
            format!("{:.6}", it.longest_s)
        });
        head(&mut text, "mpisee_ranks", "gauge", "Ranks of the node whose processes run.");
        let _ = writeln!(text, "mpisee_ranks {}", self.ranks);
        head(&mut text, "mpisee_rank_seconds", "counter", "Time that these ranks ran, all together.");
        let _ = writeln!(text, "mpisee_rank_seconds_total {:.6}", self.rank_s);
        head(&mut text, "mpisee_readings", "counter", "Readings of the agent.");
        let _ = writeln!(text, "mpisee_readings_total {}", self.readings);
        text + "# EOF\n"
    }

    fn family(
        &self,
        text: &mut String,
        (name, kind, about): (&str, &str, &str),
        value: impl Fn(&Series) -> String,
    ) {
        head(text, name, kind, about);
        let suffix = if kind == "counter" { "_total" } else { "" };
        for series in &self.series {
            let (family, call) = (label("family", &series.family), label("call", &series.call));
            let _ = writeln!(text, "{name}{suffix}{{{family},{call}}} {}", value(series));
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, about: &str) {
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if name.ends_with("_seconds") {
        let _ = writeln!(text, "# UNIT {name} seconds");
    }
    let _ = writeln!(text, "# HELP {name} {about}");
}

fn label(name: &str, value: &str) -> String {
    let value = printable(value).replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}

fn is_collective(call: &str) -> bool {
    let operation = Operation::from_name(call).map(Call::Counted);
    operation.is_some_and(mpisee_collect::segments::is_collective)
}

/// Answers one after the other; a slow one has its time, and no more.
fn answer_all(listener: &TcpListener, state: &Mutex<State>) {
    for stream in listener.incoming().flatten() {
        // Who has left gets no answer.
        let _ = answer(stream, state);
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let begin = Instant::now();
    stream.set_write_timeout(Some(MOST_TIME))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST_BYTES {
        let left = MOST_TIME.checked_sub(begin.elapsed()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(std::io::ErrorKind::TimedOut)?))?;
        let mut part = [0; 1024];
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&part[..length]),
        }
    }
    let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    let mut words = line.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ("200 OK", kind, lock(state).text())
        }
        (Some("GET"), _) => ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is answered\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobFile {
        JobFile {
            format_version: 1,
            job: "1a2b".to_owned(),
            command: vec!["./app".to_owned(), "\"x\\y\"\n".to_owned()],
            profile: "app.mpisee".to_owned(),
            ranks: 4,
            start: "2025-06-01T12:00:00Z".to_owned(),
            start_ns: 1_748_779_200_000_000_000,
        }
    }

    fn name(family: &str, call: &str) -> CallName {
        (family.to_owned(), call.to_owned())
    }

    fn rate(name: u32, inside: u32) -> Rate {
        let (ranks, calls, bytes, time_s, longest_s) = (4, 10, 80, 0.5, 7.25);
        Rate { name, ranks, inside, longest_s, calls, bytes, time_s, min_s: 0.1, max_s: 0.2 }
    }

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn counters_grow_and_levels_are_those_of_the_last_reading() {
        let metrics = Metrics::serve(([127, 0, 0, 1], 0).into(), &job(), "n1", Some("Slurm 4711.0")).unwrap();
        let names = [name("W", "MPI_Send"), name("W_s1.*@2", "MPI_Allreduce")];
        metrics.add(&names, &[rate(0, 1), rate(1, 3)], 4, 1.0);
        metrics.add(&names, &[rate(1, 3)], 4, 1.5);
        let answer = asked(metrics.address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"), "{head}");
        for line in [
            "mpisee_job_info{command=\"./app \\\"x\\\\y\\\"\\\\n\",profile=\"app.mpisee\",start=\"2025-06-01T12:00:00Z\",host=\"n1\",batch_job=\"Slurm 4711.0\"} 1",
            "mpisee_calls_total{family=\"W\",call=\"MPI_Send\"} 10",
            "mpisee_bytes_total{family=\"W_s1.*@2\",call=\"MPI_Allreduce\"} 160",
            "mpisee_mpi_seconds_total{family=\"W_s1.*@2\",call=\"MPI_Allreduce\"} 1.000000",
            "mpisee_ranks_inside{family=\"W\",call=\"MPI_Send\"} 0",
            "mpisee_ranks_missing{family=\"W_s1.*@2\",call=\"MPI_Allreduce\"} 1",
            "mpisee_collective_wait_seconds{family=\"W_s1.*@2\",call=\"MPI_Allreduce\"} 7.250000",
            "mpisee_collective_wait_seconds{family=\"W\",call=\"MPI_Send\"} 0.000000",
            "mpisee_rank_seconds_total 10.000000",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(asked(metrics.address, "GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(asked(metrics.address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn families_without_end_have_one_label() {
        let mut state = State::default();
        let names: Vec<CallName> = (0..1000).map(|it| name(&format!("W_d{it}"), "MPI_Bcast")).collect();
        let rates: Vec<Rate> = (0..1000).map(|it| rate(it, 0)).collect();
        state.add(&names[..150], &rates[..150], 4, 1.0);
        state.add(&names, &rates, 4, 1.0);
        assert_eq!(state.series.len(), MOST_SERIES + 1);
        let calls: Vec<u64> = state.series.iter().map(|series| series.calls).collect();
        assert_eq!((calls[0], calls[160], calls[MOST_SERIES]), (20, 10, 8000));
        let lines = state.text().lines().filter(|line| line.starts_with("mpisee_calls_total")).count();
        assert_eq!(lines, MOST_SERIES + 1);
    }

    #[test]
    fn a_client_that_says_nothing_keeps_no_other_waiting() {
        let metrics = Metrics::serve(([127, 0, 0, 1], 0).into(), &job(), "n1", None).unwrap();
        let _silent = TcpStream::connect(metrics.address).unwrap();
        let begin = Instant::now();
        let answer = asked(metrics.address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("# EOF\n") && begin.elapsed() < 5 * MOST_TIME, "{answer}");
    }
}
