//! `agent`: reads the segments of a job on its node in intervals, with what the node counts, and
//! keeps the time line.

mod alone;
mod gpus;
mod job;
mod metrics;
pub mod node;
mod ranks;
pub mod search;
pub mod send;
mod variables;

use super::Outcome;
use super::job_selection::SegmentsArgs;
use super::top::live::{MissingRanks, Reader, Total};
use super::top::parse_interval;
use crate::output::printable;
use crate::signals;
use crate::timeline::files::{NodeFiles, claim, node_path, read, table_path};
use crate::timeline::history::{CallName, History, Interval, NodeRate, Rate};
use crate::timeline::{JOB, JOB_ENDED, NodeFile, RANKS, UNCOUNTED, UNRECORDED, make_folder};
use crate::units::{count, parse_seconds};
use anyhow::{Context, Result, bail};
use clap::Args;
use gpus::Gpus;
use job::{begin_of, beside_profile, identity, job_file};
use metrics::{Metrics, Reading, Server};
use mpisee_collect::process::raise_descriptor_limit;
use mpisee_collect::segments::WorldSegments;
use mpisee_profile::options::{SERVER, TOKEN};
use mpisee_profile::path_text::shell_path;
use mpisee_profile::rows::{NodeRateRow, RateRow};
use node::Node;
use ranks::Ranks;
use search::{Search, job_of};
use send::Sending;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 64 mpisee --watch ./app       starts an agent on each node
  mpisee-through agent                    the only job of this node
  mpisee-through agent --wait 60s &       before the job begins
  mpisee-through agent 4711               the job of process 4711, or jobs that it starts
  srun --overlap --ntasks-per-node=1 mpisee-through agent --interval 5s
                                          one agent per node of a running job
  mpisee-through agent --metrics          for Prometheus, at http://127.0.0.1:9464/metrics
  MPISEE_TOKEN=… mpisee-through agent --to login:8080
                                          for mpisee-through serve on another host
  mpisee-through timeline app.timeline    shows the time line, also while the job runs";

/// Record a running job over time, on one node
///
/// Start one agent per node. The agent reads the counters of the ranks and writes NAME.timeline.
/// Agents of several nodes share that folder. Show it with `mpisee-through timeline`.
///
/// Ranks never wait for the agent. The agent prefers cores that no rank may use. It ends with the
/// job, or by a signal. A late agent has one long first interval. A restarted agent goes on after
/// the earlier one. See docs/how-to/over-time.md for agents, metrics and phases.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    /// Job: one of its processes or a parent of it, its profile's name (app), its batch job, or the
    /// folder of its segments (default: the only job in MPISEE_SEGMENTS, else in /dev/shm)
    #[arg(value_name = "PID|NAME|JOB|DIR")]
    which: Option<String>,

    #[command(flatten)]
    segments: SegmentsArgs,

    /// Time between readings; it doubles when there are more than --rows rows
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "1s")]
    interval: f64,

    /// Folder to write (default: the profile's name with .timeline)
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Time to wait for a job to begin; for a process, the agent waits as long as the process runs
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "0s")]
    wait: f64,

    /// Serve the counts to Prometheus and others, as OpenMetrics over HTTP (without a value:
    /// 127.0.0.1:9464)
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9464")]
    metrics: Option<SocketAddr>,

    /// Send counts and places of ranks to mpisee-through serve, with the token in MPISEE_TOKEN
    /// (default: the address in MPISEE_SERVE, if it is set)
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<String>,

    /// A descriptor that stands for the job until it ends, from mpisee --watch
    #[arg(long, value_name = "FD", hide = true)]
    held: Option<RawFd>,

    /// Rows to keep; above this, neighbouring intervals are joined
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..), default_value_t = 400_000)]
    rows: u32,
}

/// Rows are written at least this often, so that an agent that is killed loses no more.
const FLUSH: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(args: &AgentArgs) -> Result<Outcome> {
    let done = read_jobs(args);
    if let (Some(_), Err(why)) = (args.held, &done) {
        // Nobody sees the standard error of an agent that mpisee started.
        alone::say_beside(args.which.as_deref().unwrap_or_default(), &format!("no time line: {why:#}"));
    }
    done
}

fn read_jobs(args: &AgentArgs) -> Result<Outcome> {
    let mut held = args.held.and_then(alone::inherited);
    let server = args.metrics.map(Server::start).transpose()?;
    raise_descriptor_limit();
    signals::catch();
    let mut search = Search::new(&args.segments, args.which.as_deref())?;
    let mut jobs = 0;
    while let Some(world) = search.wait(args.wait)? {
        jobs += 1;
        let said = Agent::new(args, &search, &world, server.as_ref())?.run(|| drop(held.take()))?;
        writeln!(std::io::stdout(), "{}", printable(&said))?;
        if signals::caught().is_some() {
            break;
        }
    }
    if jobs == 0 {
        bail!("{}", search.nothing("; start it before, or let the agent --wait 60s"));
    }
    Ok(Outcome::Done)
}

/// How long before a reading ranks are asked to read MPI's variables, at most: they do at their
/// next call.
const ASKED_BEFORE: Duration = Duration::from_millis(50);

/// The moment at which an agent began, and the CPU time of the process so far, in seconds.
struct Begun {
    at: Instant,
    cpu_s: f64,
}

/// An agent of one job.
struct Agent<'a> {
    search: &'a Search,
    job: u64,
    /// The begin of the job, nanoseconds since 1970.
    start_ns: u64,
    folder: PathBuf,
    /// Begin of the job on the clock of [`Instant`].
    start: Instant,
    begun: Begun,
    interval_s: f64,
    ranks: Ranks,
    node: Node,
    gpus: Gpus,
    history: History,
    files: NodeFiles,
    about: NodeFile,
    /// Ranks whose recording was off at the last reading.
    unrecorded_before: Option<usize>,
    /// By name, what an earlier agent has counted.
    before: Vec<(u64, u64, f64)>,
    metrics: Option<Metrics>,
    missing: MissingRanks,
    sending: Option<Sending>,
    /// A sentence on files that could not be written.
    failed: Option<String>,
}

/// The ranks of the job on this node, which no other agent reads.
fn ranks_of(world: &WorldSegments) -> Result<Ranks> {
    let mut ranks = Ranks::default();
    world.segments().for_each(|segment| ranks.add(segment));
    if ranks.are_of_another {
        bail!("another agent reads this job on this node; a second one would count everything twice");
    }
    Ok(ranks)
}

/// The node in the time line before anything is read.
fn node_file(args: &AgentArgs, search: &Search, server: Option<&Server>, host: String) -> NodeFile {
    NodeFile {
        host,
        node: identity(&search.all().directory),
        interval_s: args.interval,
        metrics: server.map(|server| server.address.to_string()),
        ..NodeFile::default()
    }
}

impl<'a> Agent<'a> {
    fn new(
        args: &AgentArgs,
        search: &'a Search,
        world: &WorldSegments,
        server: Option<&Server>,
    ) -> Result<Agent<'a>> {
        let begun = Begun { at: Instant::now(), cpu_s: alone::cpu_s() };
        let job = job_of(world).unwrap_or_default();
        let mut ranks = ranks_of(world)?;
        let host = world.running().next().map_or(String::new(), |segment| segment.header.host.clone());
        let mut history = History::new(&host, args.rows as usize);
        // The log of a segment has the program's name.
        ranks.read(&mut history);
        let program = ranks.program().context("no rank of the job can be read")?.clone();
        let (start_ns, start_monotonic_ns) = ranks.start_ns().unwrap_or_default();
        let named = job_file(job, &program, world.size(), start_ns);
        let wanted = args.output.clone().unwrap_or_else(|| beside_profile(&named.profile));
        let (folder, named) = make_folder(&wanted, &named, &host)?;
        let about = claim(&folder, node_file(args, search, server, host))?;
        let host = about.host.clone();
        history.rename(&host);
        alone::move_away_from(&ranks.cpus());
        // What was counted so far comes with the first interval.
        ranks.forget_counts();
        let node = Node::below(Path::new("/"), &mut history);
        let batch_job = program.job.as_deref();
        let offered = Metrics::new(&named, &host, batch_job);
        server.inspect(|server| server.show(&offered));
        let mut agent = Agent {
            search,
            job,
            start_ns,
            start: begin_of(&named, (start_ns, start_monotonic_ns)),
            begun,
            interval_s: args.interval,
            about: NodeFile { link_bytes_per_s: node.links.clone(), ..about },
            files: NodeFiles::new(&folder, &host),
            folder,
            ranks,
            node,
            gpus: Gpus::start(&host),
            history,
            unrecorded_before: None,
            before: Vec::new(),
            metrics: server.is_some().then_some(offered),
            missing: MissingRanks::for_job(search.all(), job),
            sending: None,
            failed: None,
        };
        agent.take_over(&host)?;
        agent.send_to(args)?;
        Ok(agent)
    }

    /// Begins to send to a server, if there is to be one.
    fn send_to(&mut self, args: &AgentArgs) -> Result<()> {
        let by_variable = std::env::var(SERVER).ok().filter(|to| !to.is_empty());
        let Some(to) = args.to.as_ref().or(by_variable.as_ref()) else { return Ok(()) };
        let target = match send::Target::new(to, std::env::var(TOKEN).ok()) {
            Ok(target) => target,
            // Started by mpisee --watch, nobody would see the error, and the time line is of use
            // without.
            Err(why) if args.to.is_none() => {
                self.ranks.notes.push(format!("{SERVER}: {why:#}"));
                return Ok(());
            }
            Err(why) => return Err(why),
        };
        let reader = Reader::for_jobs(self.search.all(), Some(self.job));
        let interval = Duration::from_secs_f64(args.interval);
        self.sending = Some(Sending::start(target, reader, self.job, interval)?);
        Ok(())
    }

    /// Sums of all that the ranks did, by communicator family and operation.
    fn totals(&self) -> Vec<Total> {
        let names = self.history.calls.all().iter();
        names
            .zip(self.history.totals())
            .map(|((family, call), (calls, bytes, time_s))| {
                let (family, call) = (family.clone(), call.clone());
                Total { family, call, calls, bytes, time_s }
            })
            .collect()
    }

    /// Goes on where an earlier agent of this job on this node ended.
    fn take_over(&mut self, host: &str) -> Result<()> {
        let rates = table_path::<RateRow>(&self.folder, host);
        let node_rates = table_path::<NodeRateRow>(&self.folder, host);
        if rates.exists() && node_rates.exists() {
            let (rates, _) = read::<RateRow>(&rates)?;
            let (node_rates, _) = read::<NodeRateRow>(&node_rates)?;
            self.history.take_over(rates, node_rates);
            self.before = self.history.totals();
            self.ranks.leave_out(variables::counted(&self.history).into_iter());
            let earlier = std::fs::read(node_path(&self.folder, host)).ok();
            let earlier: Option<NodeFile> = earlier.and_then(|text| serde_json::from_slice(&text).ok());
            self.about.joined = earlier.map_or(0, |earlier| earlier.joined);
            self.interval_s *= 2f64.powi(self.about.joined.min(20) as i32);
        }
        self.files.rewrite(&self.history)
    }

    /// Reads until the job ends, and says how that went; calls `ended` before anything that may
    /// take a while then.
    fn run(mut self, ended: impl FnOnce()) -> Result<String> {
        let begin = Instant::now();
        self.node.read(&mut Vec::new(), &mut self.history);
        self.describe();
        let mut scanned = None;
        let mut written = Instant::now();
        let mut due_s = self.interval_s;
        if self.start.elapsed().as_secs_f64() > 2.0 * self.interval_s {
            due_s = 0.0;
        }
        loop {
            if self.ranks.have_variables() {
                self.sleep_until(due_s - ASKED_BEFORE.as_secs_f64().min(0.1 * self.interval_s));
                self.ranks.ask_for_variables();
            }
            self.sleep_until(due_s);
            let is_over = self.ranks.running() == 0;
            let changed = self.search.changed();
            let is_complete = (1..=self.ranks.len()).contains(&self.ranks.expected());
            // Other jobs come and go in the same directory.
            if !is_complete && (changed != scanned || self.ranks.expected() > 0) {
                scanned = changed;
                // One that fails is tried again at the next reading.
                match self.search.segments(self.job, self.start_ns) {
                    Ok(segments) => segments.iter().for_each(|segment| self.ranks.add(segment)),
                    Err(_) => scanned = None,
                }
            }
            self.read();
            self.describe_gpus();
            let has_new_links =
                self.node.links.keys().any(|link| !self.about.link_bytes_per_s.contains_key(link));
            if has_new_links || self.about.ranks != self.ranks.len() as u32 {
                self.about.ranks = self.ranks.len() as u32;
                self.about.link_bytes_per_s.extend(self.node.links.clone());
                self.describe();
            }
            if self.history.is_too_large() {
                self.join();
            } else if written.elapsed() >= FLUSH || self.about.readings == 1 {
                let kept = self.files.append(&self.history);
                self.note_failure(kept);
                written = Instant::now();
            }
            let signal = signals::caught();
            if is_over && self.ranks.running() == 0 || signal.is_some() {
                let why = signal.map_or(JOB_ENDED.to_owned(), |signal| format!("signal {signal}"));
                ended();
                return self.end(begin, why, signal.is_none());
            }
            let now_s = self.start.elapsed().as_secs_f64();
            // Moments at multiples of the interval, so that nodes read at about the same time.
            due_s = ((now_s / self.interval_s + 1e-3).floor() + 1.0) * self.interval_s;
        }
    }

    /// Sleeps until that long after the begin of the job, its end, or a signal.
    fn sleep_until(&mut self, due_s: f64) {
        loop {
            let left_s = due_s - self.start.elapsed().as_secs_f64();
            if left_s <= 0.0 || self.ranks.running() == 0 || signals::caught().is_some() {
                return;
            }
            self.ranks.sleep(Duration::from_secs_f64(left_s));
        }
    }

    /// Reads ranks and node, and appends an interval.
    fn read(&mut self) {
        let begin_s = self.history.end_s();
        let before_s = self.start.elapsed().as_secs_f64();
        self.gpus.ask();
        let mut rates = self.ranks.read(&mut self.history);
        // Reading takes a while, where the agent has to wait for a core.
        let now_s = (before_s + self.start.elapsed().as_secs_f64()) / 2.0;
        let length_s = (now_s - begin_s).max(1e-9);
        if !self.before.is_empty() {
            let before = std::mem::take(&mut self.before);
            rates.iter_mut().for_each(|rate| without(rate, &before));
        }
        let unrecorded_s = length_s * self.unrecorded();
        // Before it began the agent has not looked at what the node counts.
        let uncounted_s =
            (self.begun.at.duration_since(self.start).as_secs_f64() - begin_s).clamp(0.0, length_s);
        let mut node_rates = self.rates_of_job(unrecorded_s, uncounted_s);
        node_rates.extend(self.ranks.variables());
        self.node.read(&mut node_rates, &mut self.history);
        self.gpus.read(&mut self.history, length_s - uncounted_s, &mut node_rates);
        if let Some(metrics) = self.metrics.clone() {
            // Times from the files of an earlier agent may be any.
            let moment = |s: f64| {
                let after = Duration::try_from_secs_f64(s).ok();
                after.and_then(|after| self.start.checked_add(after)).unwrap_or_else(Instant::now)
            };
            let recorded_s = self.ranks.ran_s(moment(begin_s), moment(now_s)) - unrecorded_s;
            metrics.add(&Reading {
                names: self.history.calls.all(),
                rates: &rates,
                missing: &self.missing(&rates),
                ranks: self.ranks.running(),
                recorded_s: recorded_s.max(0.0),
            });
            metrics.set_gpus(&self.gpus.states);
        }
        self.history.push(Interval { begin_s, length_s }, &rates, &node_rates);
        self.about.readings += 1;
    }

    /// Ranks that are missing from collectives, where somebody has waited for a while.
    fn missing(&self, rates: &[Rate]) -> Vec<(CallName, u32)> {
        let has_waited = |rate: &Rate| rate.inside > 0 && rate.longest_s >= MissingRanks::AFTER_S;
        if !rates.iter().any(has_waited) {
            return Vec::new();
        }
        self.missing.look().unwrap_or_default()
    }

    /// How many ranks were not recorded in the interval that was read last: the mean of its begin
    /// and its end.
    fn unrecorded(&mut self) -> f64 {
        let at_end = self.ranks.unrecorded();
        let at_begin = self.unrecorded_before.replace(at_end).unwrap_or(at_end);
        (at_begin + at_end) as f64 / 2.0
    }

    fn rates_of_job(&mut self, unrecorded_s: f64, uncounted_s: f64) -> Vec<NodeRate> {
        let mut rate = |quantity: &str, value| {
            let name = (JOB.to_owned(), String::new(), quantity.to_owned());
            NodeRate { name: self.history.quantities.number(name), value }
        };
        // Each interval has the first.
        let mut rates = vec![rate(RANKS, self.ranks.running() as f64)];
        for (quantity, seconds) in [(UNRECORDED, unrecorded_s), (UNCOUNTED, uncounted_s)] {
            if seconds > 0.0 {
                rates.push(rate(quantity, seconds));
            }
        }
        rates
    }

    /// Writes what is said of the node.
    fn describe(&mut self) {
        let written = self.files.describe(&self.about);
        self.note_failure(written);
    }

    /// Keeps in mind that something could not be written. It is written later, if there is room
    /// again.
    fn note_failure(&mut self, written: Result<()>) {
        let Err(why) = written else { return };
        if self.failed.is_none() {
            let at_s = self.start.elapsed().as_secs_f64();
            self.failed =
                Some(format!("files could not be written for a time, from {at_s:.1} s on: {why:#}"));
        }
    }

    /// Writes the tables of GPUs, once they are known.
    fn describe_gpus(&mut self) {
        let Some(topology) = self.gpus.topology.take() else { return };
        let written = self.files.write_gpus(&topology.gpus, &topology.links);
        self.note_failure(written);
        self.about.link_bytes_per_s.extend(topology.link_bytes_per_s());
        self.describe();
    }

    /// Joins intervals, and reads less often from now on.
    fn join(&mut self) {
        self.history.join_pairs();
        self.interval_s *= 2.0;
        self.about.joined += 1;
        let written = self.files.rewrite(&self.history);
        self.note_failure(written);
        self.describe();
    }

    fn end(mut self, begin: Instant, why: String, is_over: bool) -> Result<String> {
        self.files.append(&self.history)?;
        let missing = self.ranks.expected().saturating_sub(self.ranks.len());
        if missing > 0 {
            self.ranks.notes.push(format!("{missing} of the node's ranks were not found"));
        }
        self.ranks.note_killed();
        if let Some(sending) = self.sending.take() {
            let notes = if is_over { sending.end(self.totals()) } else { sending.leave() };
            self.ranks.notes.extend(notes);
        }
        self.about.notes = std::mem::take(&mut self.ranks.notes);
        self.about.notes.append(&mut self.node.notes);
        self.about.notes.append(&mut self.gpus.notes);
        self.about.notes.extend(self.failed.take());
        self.about.cpu_s = alone::cpu_s() - self.begun.cpu_s;
        self.about.wall_s = begin.elapsed().as_secs_f64();
        self.about.ended = why;
        self.files.describe(&self.about)?;
        Ok(format!(
            "{} of {} in {}, at {:.3} % of a core; read it with: mpisee-through timeline {}",
            count(self.history.len() as u64, "interval"),
            count(self.ranks.len() as u64, "rank"),
            self.folder.display(),
            100.0 * self.about.cpu_s / self.about.wall_s.max(1e-9),
            shell_path(&self.folder),
        ))
    }
}

/// Subtracts what an earlier agent has counted of all that the ranks did. What is left is that of
/// the time between; nobody knows how it divides among ranks.
fn without(rate: &mut Rate, before: &[(u64, u64, f64)]) {
    let Some(&(calls, bytes, time_s)) = before.get(rate.name as usize) else { return };
    rate.calls = rate.calls.saturating_sub(calls);
    rate.bytes = rate.bytes.saturating_sub(bytes);
    rate.time_s = (rate.time_s - time_s).max(0.0);
    rate.min_s = f64::NAN;
    rate.max_s = f64::NAN;
}
