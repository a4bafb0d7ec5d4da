//! Running jobs: what readers of nodes see, joined, with what came before; ended ones go to the
//! history.

use crate::samples::{Sample, Samples};
use crate::store::{Record, Store};
use crate::totals::Totals;
use hyper::body::Bytes;
use mpisee_through::library::live::{Ended, LiveJob, Load, Look, joined};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Nodes whose looks are held, and bytes of these.
const MOST_SOURCES: usize = 4096;
const MOST_BYTES: usize = 1 << 30;
/// A node is shown as it was last seen for that long.
const STALE: Duration = Duration::from_secs(60);
/// Jobs that are shown while they run.
const MOST_JOBS: usize = 1000;

/// The last look of an agent.
struct Source {
    look: Arc<Look>,
    /// Numbers of jobs, and ranks of these.
    ranks: BTreeSet<(u64, u32)>,
    at: Instant,
    /// Of the line that it came in.
    bytes: usize,
    /// The sums, once its ranks have ended.
    totals: Option<Totals>,
    /// Jobs that the server reads itself, since the agent is silent.
    read_here: BTreeSet<u64>,
}

impl Source {
    fn has(&self, job: u64) -> bool {
        self.ranks.range((job, 0)..=(job, u32::MAX)).next().is_some()
    }

    /// Returns whether its look has the job, and is the one that is shown.
    fn is_used_for(&self, job: u64) -> bool {
        self.has(job) && !self.read_here.contains(&job)
    }

    /// Its look, without jobs that the server reads itself.
    fn used(&self) -> Look {
        let mut look = (*self.look).clone();
        if !self.read_here.is_empty() {
            look.leave_out(&self.ranks.iter().filter(|(job, _)| !self.is_used_for(*job)).copied().collect());
        }
        look
    }
}

/// A job that runs.
struct Entry {
    key: String,
    job: u64,
    ranks: u32,
    start_ns: u64,
    seen: Instant,
    live: LiveJob,
    /// As it was when more of its ranks were seen: at its end they go one after the other.
    fuller: Option<LiveJob>,
    samples: Samples,
    /// Its page.
    page: Bytes,
}

/// A job in the list.
#[derive(Serialize)]
struct Brief<'a> {
    key: &'a str,
    command: &'a [String],
    ranks: u32,
    seen: u64,
    ended: u32,
    nodes: usize,
    start_s: u64,
    elapsed_s: f64,
    mpi_share: f64,
    interval_mpi_share: f64,
    calls_per_s: f64,
    bytes_per_s: f64,
    waiting: usize,
    deadlocks: usize,
}

/// The running jobs.
pub struct Jobs {
    store: Arc<Store>,
    state: Mutex<State>,
    /// Of the looks at this node.
    interval: Duration,
}

#[derive(Default)]
struct State {
    sources: Vec<Source>,
    bytes: usize,
    entries: Vec<Entry>,
    list: Bytes,
    /// Ended jobs that the store did not take, as while somebody else has locked it.
    unkept: Vec<Record>,
}

impl Jobs {
    /// None yet; ended ones go to the store.
    pub fn new(store: Arc<Store>, interval: Duration) -> Jobs {
        let state = State { list: Bytes::from_static(b"{\"jobs\":[]}"), ..State::default() };
        Jobs { store, state: Mutex::new(state), interval }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of jobs, as it is sent.
    pub fn list(&self) -> Bytes {
        self.state().list.clone()
    }

    /// A job, as it is sent.
    pub fn page(&self, key: &str) -> Option<Bytes> {
        self.state().entries.iter().find(|entry| entry.key == key).map(|entry| entry.page.clone())
    }

    /// Takes what an agent sent in a line of that many bytes. False if there is no room.
    pub fn take(&self, look: Look, bytes: usize) -> bool {
        let ranks = look.ranks();
        if ranks.is_empty() {
            return true;
        }
        let mut state = self.state();
        // Names of hosts need not be unique; no two nodes have the same ranks.
        let is_it = |source: &Source| source.look.host == look.host && !source.ranks.is_disjoint(&ranks);
        let at = state.sources.iter().position(is_it);
        let before = at.map_or(0, |at| state.sources[at].bytes);
        if at.is_none() && state.sources.len() >= MOST_SOURCES || state.bytes - before + bytes > MOST_BYTES {
            return false;
        }
        state.bytes = state.bytes - before + bytes;
        let read_here = BTreeSet::new();
        let source =
            Source { look: Arc::new(look), ranks, at: Instant::now(), bytes, totals: None, read_here };
        match at {
            Some(at) => state.sources[at] = source,
            None => state.sources.push(source),
        }
        true
    }

    /// The ranks of a job on a node have ended.
    pub fn end(&self, ended: Ended) {
        let mut state = self.state();
        let totals = Totals::of_node(&ended.totals);
        let of_node = |source: &&mut Source| source.look.host == ended.host && source.has(ended.job);
        for source in state.sources.iter_mut().filter(of_node) {
            source.totals = Some(totals.clone());
        }
    }

    /// Joins what is known with a look at this node, and adds it to what came before.
    pub fn update(&self, local: Option<Look>) {
        let patience = 3 * self.interval + Duration::from_secs(2);
        let mut ended = Vec::new();
        let looks = {
            let mut state = self.state();
            state.forget_stale();
            let running_here = local.iter().flat_map(Look::jobs).collect();
            state.end_whole_jobs(&running_here, &mut ended);
            state.looks(local, patience)
        };
        self.keep(ended);
        // Without the lock: who asks meanwhile gets what there was.
        let jobs = join(&looks);
        let loads: BTreeMap<&str, &[Load]> =
            looks.iter().map(|look| (look.host.as_str(), look.loads.as_slice())).collect();
        let mut ended = Vec::new();
        {
            let mut state = self.state();
            for job in jobs {
                state.add(job, &loads);
            }
            let (over, running) = std::mem::take(&mut state.entries)
                .into_iter()
                .partition(|entry| entry.seen.elapsed() > patience);
            state.entries = running;
            ended.extend(Vec::<Entry>::into_iter(over).map(|entry| entry.record(None)));
            state.list = state.list_page();
        }
        self.keep(ended);
    }

    /// Puts all jobs that run into the history, as far as they are known: the server ends.
    pub fn keep_all(&self) {
        let entries = std::mem::take(&mut self.state().entries);
        self.keep(entries.into_iter().map(|entry| entry.record(None)).collect());
    }

    /// Puts jobs into the history, and those that it did not take before.
    fn keep(&self, records: Vec<Record>) {
        const MOST_UNKEPT: usize = 1000;
        let mut all = std::mem::take(&mut self.state().unkept);
        all.extend(records);
        let mut unkept = Vec::new();
        for record in all {
            // One that it does not take says enough of the others.
            if !unkept.is_empty() {
                unkept.push(record);
            } else if let Err(why) = self.store.add(&record) {
                crate::say(&format!("the history does not take a job, which is tried again: {why:#}"));
                unkept.push(record);
            }
        }
        unkept.truncate(MOST_UNKEPT);
        self.state().unkept = unkept;
    }
}

/// The jobs in all looks; where one cannot be joined with the others, without that.
fn join(looks: &[Look]) -> Vec<LiveJob> {
    match joined(looks) {
        Ok(jobs) => jobs,
        Err(_) => {
            looks.iter().flat_map(|look| joined(std::slice::from_ref(look)).unwrap_or_default()).collect()
        }
    }
}

impl State {
    fn forget_stale(&mut self) {
        let bytes = &mut self.bytes;
        self.sources.retain(|source| {
            let is_fresh = source.at.elapsed() < STALE;
            *bytes -= if is_fresh { 0 } else { source.bytes };
            is_fresh
        });
    }

    /// Jobs of which all nodes said that they have ended are over, unless they run on this node.
    fn end_whole_jobs(&mut self, running_here: &BTreeSet<u64>, ended: &mut Vec<Record>) {
        let jobs: BTreeSet<u64> =
            self.sources.iter().flat_map(|source| source.ranks.iter().map(|(job, _)| *job)).collect();
        for job in jobs.difference(running_here).copied() {
            let (of_job, others): (Vec<Source>, Vec<Source>) =
                std::mem::take(&mut self.sources).into_iter().partition(|source| source.has(job));
            self.sources = others;
            let totals: Option<Vec<&Totals>> = of_job.iter().map(|source| source.totals.as_ref()).collect();
            let Some(totals) = totals.as_deref().map(Totals::of_job) else {
                self.sources.extend(of_job);
                continue;
            };
            if let Some(at) = self.entries.iter().position(|entry| entry.job == job) {
                let entry = self.entries.remove(at);
                let sent = |host: &String| of_job.iter().any(|source| source.look.host == *host);
                let is_whole = entry.fuller.as_ref().unwrap_or(&entry.live).hosts.iter().all(sent);
                ended.push(entry.record(is_whole.then_some(totals)));
            }
            self.bytes -= of_job.iter().map(|source| source.bytes).sum::<usize>();
        }
    }

    /// The looks of all readers, each rank once. A job on this node is the agent's, unless that has
    /// sent nothing for `patience`, as one that was killed: then it is the server's, also at its
    /// end, so that no older numbers come back.
    fn looks(&mut self, local: Option<Look>, patience: Duration) -> Vec<Look> {
        let here = local.as_ref().map(Look::ranks).unwrap_or_default();
        for source in self.sources.iter_mut().filter(|source| source.at.elapsed() > patience) {
            source.read_here.extend(source.ranks.intersection(&here).map(|(job, _)| *job));
        }
        let mut looks: Vec<Look> = self.sources.iter().map(Source::used).collect();
        // Old looks without a job would only say that nodes were not looked at in the same time.
        looks.retain(|look| !look.jobs().is_empty());
        looks.sort_by(|one, other| one.host.cmp(&other.host));
        if let Some(mut local) = local {
            let others: BTreeSet<(u64, u32)> = looks.iter().flat_map(Look::ranks).collect();
            local.leave_out(&others);
            looks.push(local);
        }
        looks
    }

    fn add(&mut self, live: LiveJob, loads: &BTreeMap<&str, &[Load]>) {
        // Nodes may report at different times that the job began; launchers reuse numbers of jobs.
        const MOST_APART_NS: u64 = 60_000_000_000;
        let is_it = |entry: &&mut Entry| {
            (entry.job, entry.ranks) == (live.job, live.ranks)
                && entry.start_ns.abs_diff(live.start_ns) < MOST_APART_NS
        };
        let ages = self.ages(&live);
        if let Some(entry) = self.entries.iter_mut().find(is_it) {
            entry.seen = Instant::now();
            entry.start_ns = entry.start_ns.min(live.start_ns);
            entry.samples.add(sample(&live));
            entry.replace(live);
            entry.write(loads, &ages);
        } else if self.entries.len() < MOST_JOBS {
            let key = format!("{:x}-{}-{}", live.job, live.ranks, live.start_ns / 1_000_000_000);
            let (job, ranks, start_ns) = (live.job, live.ranks, live.start_ns);
            let (samples, page) = (Samples::default(), Bytes::new());
            let mut entry =
                Entry { key, job, ranks, start_ns, seen: Instant::now(), live, fuller: None, samples, page };
            entry.samples.add(sample(&entry.live));
            entry.write(loads, &ages);
            self.entries.push(entry);
        }
    }

    /// How long ago an agent of each node was heard of; without a node that the server reads
    /// itself.
    fn ages(&self, live: &LiveJob) -> BTreeMap<String, f64> {
        let of_job = self.sources.iter().filter(|source| source.is_used_for(live.job));
        of_job.map(|source| (source.look.host.clone(), source.at.elapsed().as_secs_f64())).collect()
    }

    fn list_page(&self) -> Bytes {
        let mut jobs: Vec<Brief> = self.entries.iter().map(|entry| entry.brief(&entry.live)).collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.start_s));
        Bytes::from(json!({ "jobs": jobs, "agents": self.sources.len() }).to_string())
    }
}

fn sample(live: &LiveJob) -> Sample {
    Sample {
        at_s: live.elapsed_s,
        length_s: live.interval_s,
        mpi: live.interval_mpi_share,
        calls_per_s: live.calls_per_s,
        bytes_per_s: live.bytes_per_s,
        comms: live.busiest.iter().cloned().collect(),
    }
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

impl Entry {
    /// Takes a look that is later.
    fn replace(&mut self, live: LiveJob) {
        let before = std::mem::replace(&mut self.live, live);
        let fullest = self.fuller.take().unwrap_or(before);
        self.fuller = (fullest.seen.len() > self.live.seen.len()).then_some(fullest);
    }

    fn brief<'a>(&'a self, live: &'a LiveJob) -> Brief<'a> {
        Brief {
            key: &self.key,
            command: &live.command,
            ranks: live.ranks,
            seen: live.seen.len(),
            ended: live.ended,
            nodes: live.hosts.len(),
            start_s: self.start_ns / 1_000_000_000,
            elapsed_s: live.elapsed_s,
            mpi_share: live.mpi_share,
            interval_mpi_share: live.interval_mpi_share,
            calls_per_s: live.calls_per_s,
            bytes_per_s: live.bytes_per_s,
            waiting: length(&live.document["waiting"]),
            deadlocks: length(&live.document["deadlocks"]),
        }
    }

    /// Makes what is sent of it.
    fn write(&mut self, loads: &BTreeMap<&str, &[Load]>, ages: &BTreeMap<String, f64>) {
        let node = |host: &String| {
            let loads = loads.get(host.as_str()).copied().unwrap_or_default();
            json!({ "host": host, "age_s": ages.get(host), "loads": loads })
        };
        let nodes: Vec<Value> = self.live.hosts.iter().map(node).collect();
        let page = json!({
            "key": self.key, "brief": self.brief(&self.live), "job": self.live.document,
            "nodes": nodes, "samples": self.samples.all(),
        });
        self.page = Bytes::from(page.to_string());
    }

    /// As the history has it.
    fn record(&self, totals: Option<Totals>) -> Record {
        let live = self.fuller.as_ref().unwrap_or(&self.live);
        Record {
            key: self.key.clone(),
            start_s: self.start_ns / 1_000_000_000,
            ended_s: self.start_ns / 1_000_000_000 + live.elapsed_s.max(0.0) as u64,
            command: live.command.join(" "),
            ranks: live.ranks,
            nodes: live.hosts.len() as u32,
            elapsed_s: live.elapsed_s,
            mpi_share: live.mpi_share,
            calls: totals.as_ref().map_or(live.calls, |totals| totals.calls),
            bytes: totals.as_ref().map_or(live.bytes, |totals| totals.bytes),
            detail: json!({
                "key": self.key, "brief": self.brief(live), "job": live.document,
                "hosts": live.hosts, "samples": self.samples.all(),
                "totals": totals.as_ref().map(|totals| &totals.rows),
            })
            .to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
