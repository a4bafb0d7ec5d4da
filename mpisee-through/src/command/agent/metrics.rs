//! `--metrics`: the agent's readings, as OpenMetrics over HTTP for Prometheus and its like.
//!
//! The readings only add numbers; the text is made when somebody asks for it, by a thread of its
//! own.

use super::gpus::GpuState;
use crate::output::printable;
use crate::timeline::JobFile;
use crate::timeline::history::{CallName, Rate};
use anyhow::{Context, Result};
use mpisee_profile::Operation;
use mpisee_profile::segment::active_call::CurrentFunction;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pairs of family and operation that have a label of their own, so that a job with ever new
/// communicators does not fill a data base.
const MOST_SERIES: usize = 200;
/// The family and the operation of the others.
const OTHERS: &str = "(others)";
/// The longest request that is read, and how long it and its answer may take.
const MOST_REQUEST_BYTES: usize = 8192;
const MOST_TIME: Duration = Duration::from_secs(2);
/// Requests at one time.
const MOST_CONNECTIONS: usize = 32;

/// The sums of a pair of family and operation.
#[derive(Clone, Debug, Default, PartialEq)]
struct Series {
    family: String,
    call: String,
    calls: u64,
    bytes: u64,
    time_s: f64,
    inside: u32,
    /// Of a collective, ranks of the node for which others have waited in it for a while.
    missing: u32,
    /// Of a collective, how long the first that is in it has been there.
    longest_s: f64,
}

/// The state that all threads share.
#[derive(Debug, Default)]
pub struct State {
    /// Labels of the job.
    job: Vec<(&'static str, String)>,
    series: Vec<Series>,
    gpus: Vec<GpuState>,
    ranks: usize,
    rank_s: f64,
    readings: u64,
}

/// A reading.
pub struct Reading<'a> {
    /// The names of rates, by number.
    pub names: &'a [CallName],
    /// The calls of the interval.
    pub rates: &'a [Rate],
    /// Ranks of the node that are missing from collectives in which others wait.
    pub missing: &'a [(CallName, u32)],
    /// Ranks that run.
    pub ranks: usize,
    /// How long ranks ran in the interval and were recorded, all together.
    pub recorded_s: f64,
}

/// A metric, as OpenMetrics understands it: with points that differ in their labels.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    points: Vec<Point>,
}

/// The kind of a metric's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MetricKind {
    /// 1, for its labels.
    Info,
    /// A sum that only grows while the agent runs.
    Counter,
    /// Of the last reading.
    Gauge,
}

/// A number of a metric, with names and values of labels.
type Point = (Vec<(&'static str, String)>, MetricValue);

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MetricValue {
    Whole(u64),
    Real(f64),
}

impl Metric {
    /// The unit, which is the end of the name.
    fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes", "ratio"].into_iter().find(|unit| self.name.ends_with(unit))
    }
}

/// The metrics of an agent, which threads offer to others.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<State>>);

impl Metrics {
    /// Of this job, without a reading.
    pub fn new(job: &JobFile, host: &str, batch_job: Option<&str>) -> Metrics {
        let labels = vec![
            ("command", job.command.join(" ")),
            ("profile", job.profile.clone()),
            ("start", job.start.clone()),
            ("host", host.to_owned()),
            ("batch_job", batch_job.unwrap_or_default().to_owned()),
        ];
        Metrics(Arc::new(Mutex::new(State { job: labels, ..State::default() })))
    }

    /// Adds a reading.
    pub fn add(&self, reading: &Reading) {
        lock(&self.0).add(reading);
    }

    /// Takes the sums of the GPUs so far.
    pub fn set_gpus(&self, gpus: &[GpuState]) {
        if !gpus.is_empty() {
            lock(&self.0).gpus = gpus.to_vec();
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn add(&mut self, reading: &Reading) {
        let names = reading.names;
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
            (series.inside, series.missing, series.longest_s) = (0, 0, 0.0);
        }
        for rate in reading.rates {
            let Some(series) = self.series.get_mut((rate.name as usize).min(MOST_SERIES)) else { continue };
            series.calls = series.calls.wrapping_add(rate.calls);
            series.bytes = series.bytes.wrapping_add(rate.bytes);
            series.time_s += rate.time_s;
            series.inside += rate.inside;
            // Of those without a name of their own, any may be in it.
            let call = names.get(rate.name as usize).map_or("", |(_, call)| call);
            if rate.inside > 0 && is_collective(call) {
                series.longest_s = series.longest_s.max(rate.longest_s);
            }
        }
        for (name, ranks) in reading.missing {
            let place = names.iter().position(|known| known == name).unwrap_or(MOST_SERIES);
            if let Some(series) = self.series.get_mut(place.min(MOST_SERIES)) {
                series.missing += ranks;
            }
        }
        self.ranks = reading.ranks;
        self.rank_s += reading.recorded_s;
        self.readings += 1;
    }

    /// All metrics.
    fn metrics(&self) -> Vec<Metric> {
        let info = vec![(self.job.clone(), MetricValue::Whole(1))];
        let mut all = vec![metric("mpisee_job", MetricKind::Info, "The job.", info)];
        all.extend(self.of_calls());
        let help = "Ranks of the node whose processes run.";
        let alone = |number| vec![(Vec::new(), number)];
        all.push(metric(
            "mpisee_ranks",
            MetricKind::Gauge,
            help,
            alone(MetricValue::Whole(self.ranks as u64)),
        ));
        let help = "Time that these ranks ran and were recorded, all together.";
        all.push(metric(
            "mpisee_rank_seconds",
            MetricKind::Counter,
            help,
            alone(MetricValue::Real(self.rank_s)),
        ));
        let help = "Readings of the agent.";
        all.push(metric(
            "mpisee_readings",
            MetricKind::Counter,
            help,
            alone(MetricValue::Whole(self.readings)),
        ));
        if !self.gpus.is_empty() {
            all.extend(self.of_gpus());
        }
        all
    }

    /// The metrics by family and operation.
    fn of_calls(&self) -> [Metric; 6] {
        let metric = |name, kind, help, value: fn(&Series) -> MetricValue| {
            let labels = |it: &Series| vec![("family", it.family.clone()), ("call", it.call.clone())];
            metric(name, kind, help, self.series.iter().map(|it| (labels(it), value(it))).collect())
        };
        let missing = "Ranks of the node for which others have waited in such a call for 5 s or longer; of collectives.";
        let wait = "How long the first rank in the call has been there; of collectives.";
        [
            metric("mpisee_calls", MetricKind::Counter, "Calls that ended.", |it| {
                MetricValue::Whole(it.calls)
            }),
            metric("mpisee_bytes", MetricKind::Counter, "Bytes of these calls.", |it| {
                MetricValue::Whole(it.bytes)
            }),
            metric("mpisee_mpi_seconds", MetricKind::Counter, "Time of the ranks in such calls.", |it| {
                MetricValue::Real(it.time_s)
            }),
            metric("mpisee_ranks_inside", MetricKind::Gauge, "Ranks that are in such a call.", |it| {
                MetricValue::Whole(it.inside.into())
            }),
            metric("mpisee_ranks_missing", MetricKind::Gauge, missing, |it| {
                MetricValue::Whole(it.missing.into())
            }),
            metric("mpisee_collective_wait_seconds", MetricKind::Gauge, wait, |it| {
                MetricValue::Real(it.longest_s)
            }),
        ]
    }

    /// The metrics by GPU; a GPU has no point of what it does not count.
    fn of_gpus(&self) -> [Metric; 4] {
        let labels = |gpu: &GpuState| vec![("gpu", gpu.device.clone()), ("uuid", gpu.uuid.clone())];
        let of_gpu = |value: fn(&GpuState) -> Option<MetricValue>| -> Vec<Point> {
            self.gpus.iter().filter_map(|gpu| Some((labels(gpu), value(gpu)?))).collect()
        };
        let of_links = |direction: usize| -> Vec<Point> {
            let point = |gpu, link: &str, bytes: &[Option<f64>; 2]| {
                let mut labels = labels(gpu);
                labels.push(("link", link.to_owned()));
                bytes[direction].map(|bytes| (labels, MetricValue::Whole(bytes as u64)))
            };
            let links = |gpu| [point(gpu, "nvlink", &gpu.nvlink_bytes), point(gpu, "pcie", &gpu.pcie_bytes)];
            self.gpus.iter().flat_map(links).flatten().collect()
        };
        let busy = of_gpu(|gpu| gpu.busy.map(MetricValue::Real));
        let used = of_gpu(|gpu| gpu.used_bytes.map(MetricValue::Whole));
        let received = "Bytes that the GPU received, since the agent began.";
        let sent = "Bytes that the GPU sent, since the agent began.";
        [
            metric(
                "mpisee_gpu_busy_ratio",
                MetricKind::Gauge,
                "Part of the time in which a kernel ran.",
                busy,
            ),
            metric("mpisee_gpu_memory_used_bytes", MetricKind::Gauge, "Memory in use.", used),
            metric("mpisee_gpu_received_bytes", MetricKind::Counter, received, of_links(0)),
            metric("mpisee_gpu_sent_bytes", MetricKind::Counter, sent, of_links(1)),
        ]
    }

    /// The text, by the specification of OpenMetrics 1.0.
    fn text(&self) -> String {
        let mut text = String::new();
        for metric in self.metrics() {
            let (name, (kind, suffix)) = (metric.name, metric.kind.in_text());
            let _ = writeln!(text, "# TYPE {name} {kind}");
            if let Some(unit) = metric.unit() {
                let _ = writeln!(text, "# UNIT {name} {unit}");
            }
            let _ = writeln!(text, "# HELP {name} {}", metric.help);
            for (labels, number) in &metric.points {
                let labels: Vec<String> = labels.iter().map(|(name, value)| label(name, value)).collect();
                let labels =
                    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
                let _ = match number {
                    MetricValue::Whole(number) => writeln!(text, "{name}{suffix}{labels} {number}"),
                    MetricValue::Real(number) => writeln!(text, "{name}{suffix}{labels} {number:.6}"),
                };
            }
        }
        text + "# EOF\n"
    }
}

impl MetricKind {
    /// Its name, and the ending of names of points.
    fn in_text(self) -> (&'static str, &'static str) {
        match self {
            MetricKind::Info => ("info", "_info"),
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
        }
    }
}

fn metric(name: &'static str, kind: MetricKind, help: &'static str, points: Vec<Point>) -> Metric {
    Metric { name, kind, help, points }
}

fn label(name: &str, value: &str) -> String {
    let value = printable(value).replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}

fn is_collective(call: &str) -> bool {
    let operation = Operation::from_name(call).map(CurrentFunction::Operation);
    operation.is_some_and(mpisee_collect::segments::is_collective)
}

/// A server of metrics over HTTP, for one job after the other.
pub struct Server {
    pub address: SocketAddr,
    shown: Arc<Mutex<Option<Metrics>>>,
}

impl Server {
    /// Serves until the process ends.
    pub fn start(address: SocketAddr) -> Result<Server> {
        let cannot =
            || format!("cannot serve metrics on {address}; --metrics=127.0.0.1:0 takes any free port");
        let listener = TcpListener::bind(address).with_context(cannot)?;
        let address = listener.local_addr().with_context(cannot)?;
        let shown = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&shown);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || answer_all(&listener, &shared))
            .with_context(cannot)?;
        Ok(Server { address, shown })
    }

    /// Shows these from now on.
    pub fn show(&self, metrics: &Metrics) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(metrics.clone());
    }
}

/// Answers each in a thread of its own, in its time, and no more; those for which there is no room
/// are closed.
fn answer_all(listener: &TcpListener, shown: &Mutex<Option<Metrics>>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        let metrics = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if open.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let counted = Arc::clone(&open);
        let serve = move || {
            // Who has left gets no answer.
            let _ = answer(stream, metrics.as_ref());
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer(mut stream: TcpStream, metrics: Option<&Metrics>) -> std::io::Result<()> {
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
            // Before the first job there are none.
            ("200 OK", kind, metrics.map_or_else(|| "# EOF\n".to_owned(), |metrics| lock(&metrics.0).text()))
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
        let metrics = Metrics::new(&job(), "n1", Some("Slurm 4711.0"));
        let server = Server::start(([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.address;
        assert!(asked(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n# EOF\n"), "no job yet");
        server.show(&metrics);
        let names = [name("W", "MPI_Send"), name("W_s1.*@2", "MPI_Allreduce")];
        let reading = Reading {
            names: &names,
            rates: &[rate(0, 1), rate(1, 3)],
            missing: &[],
            ranks: 4,
            recorded_s: 4.0,
        };
        metrics.add(&reading);
        metrics.add(&Reading {
            rates: &[rate(1, 3)],
            missing: &[(names[1].clone(), 1)],
            recorded_s: 6.0,
            ..reading
        });
        let answer = asked(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
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
        assert!(asked(address, "GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(asked(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn gpus_have_what_they_count() {
        let metrics = Metrics::new(&job(), "n1", None);
        assert!(!lock(&metrics.0).text().contains("gpu"), "there is none");
        let whole = GpuState {
            device: "gpu0".to_owned(),
            uuid: "GPU-7".to_owned(),
            busy: Some(0.25),
            used_bytes: Some(4096),
            nvlink_bytes: [Some(10.0), Some(20.0)],
            pcie_bytes: [None, Some(5.0)],
        };
        metrics.set_gpus(&[whole, GpuState { device: "gpu1".to_owned(), ..GpuState::default() }]);
        let text = lock(&metrics.0).text();
        let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with("mpisee_gpu")).collect();
        lines.sort_unstable();
        let expected = [
            "mpisee_gpu_busy_ratio{gpu=\"gpu0\",uuid=\"GPU-7\"} 0.250000",
            "mpisee_gpu_memory_used_bytes{gpu=\"gpu0\",uuid=\"GPU-7\"} 4096",
            "mpisee_gpu_received_bytes_total{gpu=\"gpu0\",uuid=\"GPU-7\",link=\"nvlink\"} 10",
            "mpisee_gpu_sent_bytes_total{gpu=\"gpu0\",uuid=\"GPU-7\",link=\"nvlink\"} 20",
            "mpisee_gpu_sent_bytes_total{gpu=\"gpu0\",uuid=\"GPU-7\",link=\"pcie\"} 5",
        ];
        assert_eq!(lines, expected);
        assert!(text.contains("# UNIT mpisee_gpu_sent_bytes bytes\n"), "{text}");
    }

    #[test]
    fn families_without_end_have_one_label() {
        let mut state = State::default();
        let names: Vec<CallName> = (0..1000).map(|it| name(&format!("W_d{it}"), "MPI_Bcast")).collect();
        let rates: Vec<Rate> = (0..1000).map(|it| rate(it, 0)).collect();
        let reading = |count: usize| Reading {
            names: &names[..count],
            rates: &rates[..count],
            missing: &[],
            ranks: 4,
            recorded_s: 4.0,
        };
        state.add(&reading(150));
        state.add(&reading(1000));
        assert_eq!(state.series.len(), MOST_SERIES + 1);
        let calls: Vec<u64> = state.series.iter().map(|series| series.calls).collect();
        assert_eq!((calls[0], calls[160], calls[MOST_SERIES]), (20, 10, 8000));
        let lines = state.text().lines().filter(|line| line.starts_with("mpisee_calls_total")).count();
        assert_eq!(lines, MOST_SERIES + 1);
    }

    #[test]
    fn a_client_that_says_nothing_keeps_no_other_waiting() {
        let address = Server::start(([127, 0, 0, 1], 0).into()).unwrap().address;
        let _silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begin = Instant::now();
        let answer = asked(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("# EOF\n") && begin.elapsed() < 5 * MOST_TIME, "{answer}");
    }
}
