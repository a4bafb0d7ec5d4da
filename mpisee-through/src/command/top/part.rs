//! One node's part of a roll call, as a file for the reader that joins all of them.

use super::job::{Comm, Job, Rank};
use super::most_called::MostCalled;
use super::traffic::Traffic;
use anyhow::{Context, Result, bail};
use mpisee_collect::process::cpu::CoreTimes;
use mpisee_collect::segments::{CallLocation, CurrentCall, With};
use mpisee_profile::rows::MOST_PROCESSES;
use mpisee_profile::segment::active_call::CurrentFunction;
use mpisee_profile::segment::snapshot::Program;
use mpisee_profile::{CommId, Operation, RankSet, Ticks, WorldRank};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

/// Of the format; a reader joins only parts of its own.
const VERSION: u32 = 3;

/// The part of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeReport {
    version: u32,
    /// The number that the readers of one launch share; 0 where nothing tells it.
    pub launch: u64,
    /// The node.
    pub host: String,
    /// When it was written, nanoseconds since 1970, UTC.
    pub written_ns: u64,
    /// From the end of the look before to the begin of the last look: the time in which ranks that
    /// are still did nothing.
    pub between_ns: Range<u64>,
    jobs: Vec<PartJob>,
    /// Files that could not be read, and why.
    pub skipped: Vec<(String, String)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PartJob {
    job: u64,
    size: u32,
    start_realtime_ns: u64,
    elapsed_s: f64,
    /// At the look before.
    elapsed_before_s: f64,
    recording_was_off: bool,
    command: Vec<String>,
    library: String,
    flavour: String,
    stack_problems: Vec<String>,
    /// Names; others refer to them by their place.
    names: Vec<String>,
    comms: Vec<PartComm>,
    ranks: Vec<PartRank>,
}

/// A communicator; `before` has calls, bytes and seconds at the look before.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PartComm {
    name: u32,
    label: String,
    size: u64,
    members: String,
    elided: u64,
    here: u64,
    ambiguous: bool,
    is_inter: bool,
    now: (u64, u64, f64),
    before: (u64, u64, f64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PartRank {
    rank: u32,
    pid: u32,
    host: String,
    ended: bool,
    elapsed_s: f64,
    /// See [`Rank::thread_s`].
    thread_s: f64,
    thread_before_s: f64,
    /// Of [`Rank::core_times`] those without a core, at the look before and now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waited_ns: Option<[u64; 2]>,
    may_act_unseen: bool,
    is_stopped: bool,
    is_still: bool,
    calls: Vec<PartCall>,
    /// Communicator, operation, calls.
    completed: Vec<(u32, String, u64)>,
    /// Communicator, peer, sent, received; this and the next two only of ranks that are still.
    peers: Vec<(u32, u32, u64, u64)>,
    /// Communicator, peer, whether they are sent, tag, messages.
    streams: Vec<(u32, u32, bool, i32, Option<u64>)>,
    /// Communicator, posted receives.
    posted: Vec<(u32, Option<u64>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_s: Option<f64>,
    /// The functions in which it sleeps, and which of them stands for the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    asleep: Option<(Vec<String>, usize)>,
    /// Operation, calls, calls at the site with most of them, the functions there.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_called: Option<(String, u64, u64, Vec<String>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PartCall {
    call: String,
    /// The number of the communicator in the process, and its name.
    comm: Option<(u32, u32)>,
    number: Option<u64>,
    with: Option<With>,
    for_s: f64,
    stack: Vec<String>,
    outside: usize,
}

/// Names by number.
#[derive(Default)]
struct Names {
    known: HashMap<String, u32>,
    all: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.known.get(name) {
            return number;
        }
        let number = self.all.len() as u32;
        self.all.push(name.to_owned());
        self.known.insert(name.to_owned(), number);
        number
    }
}

impl NodeReport {
    /// Of the jobs at a look, each with the same job at the look before.
    pub fn new<'j>(
        launch: u64,
        host: String,
        written_ns: u64,
        between_ns: Range<u64>,
        jobs: impl IntoIterator<Item = (&'j Job, &'j Job)>,
        skipped: Vec<(String, String)>,
    ) -> NodeReport {
        let jobs = jobs.into_iter().map(|(before, now)| PartJob::new(before, now)).collect();
        NodeReport { version: VERSION, launch, host, written_ns, between_ns, jobs, skipped }
    }

    /// The jobs of which it has ranks: their numbers, and their ranks there.
    pub fn jobs(&self) -> impl Iterator<Item = (u64, impl Iterator<Item = u32> + '_)> + '_ {
        self.jobs.iter().map(|job| (job.job, job.ranks.iter().map(|rank| rank.rank)))
    }

    /// Leaves out the jobs for which `keep` is false, by their numbers and ranks.
    pub fn retain(&mut self, keep: impl Fn(u64, &[u32]) -> bool) {
        self.jobs.retain(|job| {
            let ranks: Vec<u32> = job.ranks.iter().map(|rank| rank.rank).collect();
            keep(job.job, &ranks)
        });
    }

    /// From a file.
    pub fn parse(text: &[u8]) -> Result<NodeReport> {
        #[derive(Deserialize)]
        struct Begin {
            version: u32,
        }
        const WHAT: &str = "it is not what top --to writes";
        let begin: Begin = serde_json::from_slice(text).context(WHAT)?;
        if begin.version != VERSION {
            let theirs = begin.version;
            bail!(
                "its format has version {theirs}, this program reads {VERSION}; use one version on all nodes"
            );
        }
        serde_json::from_slice(text).context(WHAT)
    }
}

/// Returns whether there is a moment between the two looks of all parts.
pub fn were_at_once(parts: &[NodeReport]) -> bool {
    let last_begin = parts.iter().map(|part| part.between_ns.start).max();
    let first_end = parts.iter().map(|part| part.between_ns.end).min();
    last_begin <= first_end
}

/// The jobs of several parts: each at the look before and at the last one.
pub fn joined(parts: Vec<NodeReport>) -> Result<Vec<(Job, Job)>> {
    let mut all: Vec<(Job, Job)> = Vec::new();
    let is_pieced_together = !were_at_once(&parts);
    for part in parts {
        for job in part.jobs {
            let (before, mut now) = job.jobs().with_context(|| format!("the part of {}", part.host))?;
            now.is_pieced_together = is_pieced_together;
            let is_same = |(_, known): &&mut (Job, Job)| {
                (known.id.0, known.size) == (now.id.0, now.size)
                    && !now.ranks.keys().any(|rank| known.ranks.contains_key(rank))
            };
            match all.iter_mut().find(is_same) {
                Some((known_before, known_now)) => {
                    known_before.join(before);
                    known_now.join(now);
                }
                None => all.push((before, now)),
            }
        }
    }
    all.sort_by_key(|(_, now)| now.start_realtime_ns);
    Ok(all)
}

fn sums(comm: &Comm) -> (u64, u64, f64) {
    (comm.calls, comm.bytes, comm.time_s)
}

impl PartJob {
    fn new(before: &Job, now: &Job) -> PartJob {
        let mut names = Names::default();
        let still = now.still_since(before);
        let is_another = !std::ptr::eq(before, now);
        let comm = |(name, comm): (&String, &Comm), names: &mut Names| PartComm {
            name: names.number(name),
            label: comm.label.clone(),
            size: comm.size,
            members: comm.members.to_string(),
            elided: comm.elided,
            here: comm.here,
            ambiguous: comm.ambiguous,
            is_inter: comm.is_inter,
            now: sums(comm),
            before: before.comms.get(name).map_or_else(|| sums(&Comm::default()), sums),
        };
        let comms = now.comms.iter().map(|entry| comm(entry, &mut names)).collect();
        let ranks = now.ranks.iter().map(|(&rank, state)| {
            let earlier = before.ranks.get(&rank).filter(|_| is_another);
            let is_still = still.contains(&rank);
            PartRank::new(rank, state, earlier.unwrap_or(state), is_still, &mut names)
        });
        let ranks = ranks.collect();
        PartJob {
            job: now.id.0,
            size: now.size,
            start_realtime_ns: now.start_realtime_ns,
            elapsed_s: now.elapsed_s,
            elapsed_before_s: before.elapsed_s,
            recording_was_off: now.recording_was_off,
            command: now.program.command.clone(),
            library: now.program.library.clone(),
            flavour: now.program.flavour.clone(),
            stack_problems: now.stack_problems.iter().cloned().collect(),
            names: names.all,
            comms,
            ranks,
        }
    }

    fn jobs(self) -> Result<(Job, Job)> {
        if u64::from(self.size) > MOST_PROCESSES {
            bail!("it is of {} ranks, more than there can be", self.size);
        }
        let names: Vec<Arc<str>> = self.names.iter().map(|name| Arc::from(name.as_str())).collect();
        let job = |elapsed_s: f64| Job {
            id: (self.job, self.size, self.start_realtime_ns),
            size: self.size,
            start_realtime_ns: self.start_realtime_ns,
            elapsed_s,
            is_joined: true,
            ..Job::default()
        };
        let (mut before, mut now) = (job(self.elapsed_before_s), job(self.elapsed_s));
        now.recording_was_off = self.recording_was_off;
        now.program = Program {
            command: self.command,
            library: self.library,
            flavour: self.flavour,
            ..Program::default()
        };
        now.stack_problems = self.stack_problems.into_iter().collect();
        for comm in self.comms {
            let name = name_of(&names, comm.name)?.to_string();
            let [earlier, later] = comm.moments(self.size)?;
            before.comms.insert(name.clone(), earlier);
            now.comms.insert(name, later);
        }
        for rank in self.ranks {
            if rank.rank >= self.size {
                bail!("it has rank {} of {}", rank.rank, self.size);
            }
            let number = WorldRank::new(rank.rank);
            let core_times = rank.waited_ns.map(|[waited_ns, _]| CoreTimes { ran_ns: 0, waited_ns });
            let earlier = Rank { thread_s: rank.thread_before_s, core_times, ..Rank::default() };
            before.ranks.insert(number, earlier);
            now.ranks.insert(number, rank.state(&names)?);
        }
        now.growth = Some(now.growth_since(&before));
        Ok((before, now))
    }
}

fn name_of(names: &[Arc<str>], number: u32) -> Result<&Arc<str>> {
    names.get(number as usize).with_context(|| format!("it has no name of number {number}"))
}

impl PartComm {
    fn moments(&self, ranks: u32) -> Result<[Comm; 2]> {
        let members = self.members.parse::<RankSet>().map_err(anyhow::Error::msg)?;
        if members.ranges().iter().any(|range| range.last >= ranks) {
            bail!("it has a communicator of ranks {members} in a job of {ranks}");
        }
        if self.here > u64::from(ranks) || self.size > MOST_PROCESSES || self.elided > MOST_PROCESSES {
            bail!("it has a communicator of {} processes, {} of them there", self.size, self.here);
        }
        let moment = |(calls, bytes, time_s): (u64, u64, f64)| Comm {
            label: self.label.clone(),
            size: self.size,
            members: members.clone(),
            elided: self.elided,
            here: self.here,
            ambiguous: self.ambiguous,
            is_inter: self.is_inter,
            calls,
            bytes,
            time_s,
        };
        Ok([moment(self.before), moment(self.now)])
    }
}

impl PartRank {
    fn new(rank: WorldRank, state: &Rank, before: &Rank, is_still: bool, names: &mut Names) -> Self {
        let call = |current: &CurrentCall, names: &mut Names| PartCall {
            call: current.call.name().to_owned(),
            comm: current.comm.as_ref().map(|(id, name)| (id.get(), names.number(name))),
            number: current.number,
            with: current.with,
            for_s: current.for_s,
            stack: current.place.stack.clone(),
            outside: current.place.outside,
        };
        let none = Traffic::default();
        let traffic = if is_still { &state.traffic } else { &none };
        let mut part = PartRank {
            rank: rank.get(),
            pid: state.pid,
            host: state.host.clone(),
            ended: state.ended,
            elapsed_s: state.elapsed_s,
            thread_s: state.thread_s,
            thread_before_s: before.thread_s,
            waited_ns: before
                .core_times
                .zip(state.core_times)
                .map(|(old, new)| [old.waited_ns, new.waited_ns]),
            may_act_unseen: state.may_act_unseen,
            is_stopped: state.is_stopped,
            is_still,
            calls: state.calls.iter().map(|current| call(current, names)).collect(),
            completed: Vec::new(),
            peers: Vec::new(),
            streams: Vec::new(),
            posted: Vec::new(),
            idle_s: state.idle_s,
            asleep: state.asleep.as_ref().map(|place| (place.stack.clone(), place.outside)),
            most_called: state.most_called.as_ref().map(|most| {
                (most.operation.name().to_owned(), most.calls, most.calls_there, most.stack.clone())
            }),
        };
        for ((name, operation), &calls) in &state.completed {
            part.completed.push((names.number(name), operation.name().to_owned(), calls));
        }
        for ((name, peer), &[sent, received]) in &traffic.peers {
            part.peers.push((names.number(name), peer.get(), sent, received));
        }
        for (((name, peer), is_sent, tag), &messages) in &traffic.streams {
            part.streams.push((names.number(name), peer.get(), *is_sent, *tag, messages));
        }
        for (name, &posted) in &traffic.posted {
            part.posted.push((names.number(name), posted));
        }
        part
    }

    fn state(self, names: &[Arc<str>]) -> Result<Rank> {
        let mut state = Rank {
            pid: self.pid,
            host: self.host,
            ended: self.ended,
            elapsed_s: self.elapsed_s,
            thread_s: self.thread_s,
            core_times: self.waited_ns.map(|[_, waited_ns]| CoreTimes { ran_ns: 0, waited_ns }),
            may_act_unseen: self.may_act_unseen,
            is_stopped: self.is_stopped,
            is_still: self.is_still,
            idle_s: self.idle_s,
            asleep: self.asleep.map(|(stack, outside)| CallLocation {
                stack,
                outside,
                ..CallLocation::default()
            }),
            ..Rank::default()
        };
        if let Some((operation, calls, calls_there, stack)) = self.most_called {
            let operation = operation_of(&operation)?;
            state.most_called = Some(MostCalled { operation, calls, calls_there, stack });
        }
        for call in self.calls {
            state.calls.push(call.current(names)?);
        }
        for (name, operation, calls) in self.completed {
            state.completed.insert((name_of(names, name)?.to_string(), operation_of(&operation)?), calls);
        }
        for (name, peer, sent, received) in self.peers {
            let key = (Arc::clone(name_of(names, name)?), WorldRank::new(peer));
            state.traffic.peers.insert(key, [sent, received]);
        }
        for (name, peer, is_sent, tag, messages) in self.streams {
            let key = (Arc::clone(name_of(names, name)?), WorldRank::new(peer));
            state.traffic.streams.insert((key, is_sent, tag), messages);
        }
        for (name, posted) in self.posted {
            state.traffic.posted.insert(Arc::clone(name_of(names, name)?), posted);
        }
        Ok(state)
    }
}

fn operation_of(name: &str) -> Result<Operation> {
    Operation::from_name(name).with_context(|| format!("it has a call of '{name}', which is not known"))
}

impl PartCall {
    fn current(self, names: &[Arc<str>]) -> Result<CurrentCall> {
        let call = match [CurrentFunction::Finalize, CurrentFunction::Abort]
            .into_iter()
            .find(|call| call.name() == self.call)
        {
            Some(call) => call,
            None => CurrentFunction::Operation(operation_of(&self.call)?),
        };
        let comm = match self.comm {
            Some((id, name)) => Some((CommId::new(id), name_of(names, name)?.to_string())),
            None => None,
        };
        Ok(CurrentCall {
            call,
            comm,
            number: self.number,
            with: self.with,
            since: Ticks::ZERO,
            for_s: self.for_s,
            place: CallLocation { stack: self.stack, outside: self.outside, ..CallLocation::default() },
        })
    }
}

impl Job {
    /// Adds what another node knows of the same job.
    fn join(&mut self, other: Job) {
        if self.program.command.is_empty() {
            self.program = other.program;
        }
        self.start_realtime_ns = self.start_realtime_ns.min(other.start_realtime_ns);
        self.id.2 = self.start_realtime_ns;
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        if let (Some(growth), Some(more)) = (&mut self.growth, other.growth) {
            growth.join(more);
        }
        self.recording_was_off |= other.recording_was_off;
        self.stack_problems.extend(other.stack_problems);
        self.ranks.extend(other.ranks);
        for (name, comm) in other.comms {
            match self.comms.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(comm);
                }
                Entry::Occupied(mut known) => known.get_mut().join(&comm),
            }
        }
    }
}

impl Comm {
    fn join(&mut self, other: &Comm) {
        self.is_inter |= other.is_inter;
        self.ambiguous |= other.ambiguous || self.size != other.size;
        self.here += other.here;
        self.calls = self.calls.wrapping_add(other.calls);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.time_s += other.time_s;
        if self.ambiguous || self.elided > 0 {
            let listed = self.members.len().saturating_add(self.elided);
            self.members = self.members.union(&other.members);
            self.elided = if self.elided > 0 { listed.saturating_sub(self.members.len()) } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::super::report::{Report, SortKey};
    use super::*;

    #[test]
    fn parts_of_two_nodes_are_one_job() {
        let whole = golden::job(2.0);
        let half = |from: u32, host: &str, more_s: f64| {
            let mut job = golden::job(more_s);
            job.ranks.retain(|rank, _| (from..from + 2).contains(&rank.get()));
            job.ranks.values_mut().for_each(|rank| rank.host = host.to_owned());
            job
        };
        let part = |from: u32, host: &str| {
            let (before, now) = (half(from, host, 0.0), half(from, host, 2.0));
            let part = NodeReport::new(7, host.to_owned(), 0, 0..1, [(&before, &now)], Vec::new());
            NodeReport::parse(&serde_json::to_vec(&part).unwrap()).unwrap()
        };
        let jobs = joined(vec![part(2, "n2"), part(0, "n1")]).unwrap();
        let [(before, now)] = jobs.as_slice() else { panic!("one job") };
        assert_eq!(now.here(), whole.here());
        assert_eq!(before.thread_seconds(), golden::job(0.0).thread_seconds());
        for (rank, state) in &whole.ranks {
            assert_eq!(now.ranks[rank].calls.len(), state.calls.len());
            let names = |rank: &Rank| rank.calls.iter().map(CurrentCall::name).collect::<Vec<_>>();
            assert_eq!(names(&now.ranks[rank]), names(state));
        }
        // Each node counts what it has.
        assert_eq!(now.comms["W"].calls, 2 * whole.comms["W"].calls);
        assert_eq!(now.comms["W"].members, whole.comms["W"].members);
        assert_eq!(super::super::roll::nodes(now), 2);
        let twice = joined(vec![part(0, "n1"), part(0, "n1")]).unwrap();
        assert_eq!(twice.len(), 2, "two jobs, if ranks are there twice");
    }

    #[test]
    fn rates_of_nodes_with_different_intervals_are_added() {
        let part = |from: u32, host: &str, more_s: f64| {
            let [before, now] = [0.0, more_s].map(|more_s| {
                let mut job = golden::job(more_s);
                job.ranks.retain(|rank, _| (from..from + 2).contains(&rank.get()));
                job
            });
            NodeReport::new(7, host.to_owned(), 0, 0..1, [(&before, &now)], Vec::new())
        };
        let jobs = joined(vec![part(0, "n1", 1.0), part(2, "n2", 10.0)]).unwrap();
        let [(before, now)] = jobs.as_slice() else { panic!("one job") };
        let report = Report::new(before, now, SortKey::Time, 5.0);
        let row = report.rows.iter().find(|row| row.comm == "W").unwrap();
        // On each node 1000 calls of 1 MiB, and 1 s, in each second of its own; three of its ranks
        // run.
        assert_eq!((row.interval_calls_per_s, row.interval_bytes_per_s), (2000.0, 2000.0 * 1_048_576.0));
        assert!((row.interval_share_of_time - 2.0 / 3.0).abs() < 1e-8, "{}", row.interval_share_of_time);
        assert_eq!(report.interval_s, 10.0);
    }

    #[test]
    fn ranks_astray_are_in_the_part() {
        let mut now = golden::job(2.0);
        let stack = vec!["spin at hang.cpp:12".to_owned()];
        let most = MostCalled { operation: Operation::Test, calls: 9, calls_there: 8, stack };
        let rank = now.ranks.get_mut(&WorldRank::new(1)).unwrap();
        (rank.most_called, rank.idle_s) = (Some(most.clone()), Some(6.25));
        let part = NodeReport::new(7, "n1".to_owned(), 0, 0..1, [(&golden::job(0.0), &now)], Vec::new());
        let mut document = serde_json::to_value(&part).unwrap();
        let read = |document: &serde_json::Value| {
            let part = NodeReport::parse(&serde_json::to_vec(document).unwrap()).unwrap();
            let rank = joined(vec![part]).unwrap().remove(0).1.ranks.remove(&WorldRank::new(1)).unwrap();
            (rank.most_called, rank.idle_s)
        };
        assert_eq!(read(&document), (Some(most), Some(6.25)));
        // Of a rank of which this is not known, they are left out.
        let rank = document["jobs"][0]["ranks"][1].as_object_mut().unwrap();
        assert!(rank.remove("most_called").is_some() && rank.remove("idle_s").is_some());
        assert_eq!(read(&document), (None, None));
        document["jobs"][0]["ranks"][1]["most_called"] = serde_json::json!(["MPI_No", 1, 1, []]);
        let part = NodeReport::parse(&serde_json::to_vec(&document).unwrap()).unwrap();
        let said = format!("{:#}", joined(vec![part]).unwrap_err());
        assert_eq!(said, "the part of n1: it has a call of 'MPI_No', which is not known");
    }

    #[test]
    fn what_is_no_part_is_refused() {
        let said = |text: &str| format!("{:#}", NodeReport::parse(text.as_bytes()).unwrap_err());
        assert!(said("{").starts_with("it is not what top --to writes: "));
        assert!(said("{\"version\": 99}").starts_with("its format has version 99, this program reads 3"));
        assert!(said("{\"version\": 3, \"launch\": 3}").starts_with("it is not what top --to writes: "));
        let (before, now) = (golden::job(0.0), golden::job(2.0));
        let mut part = NodeReport::new(7, "n1".to_owned(), 0, 0..1, [(&before, &now)], Vec::new());
        part.jobs[0].ranks[0].rank = 8;
        assert_eq!(format!("{:#}", joined(vec![part]).unwrap_err()), "the part of n1: it has rank 8 of 8");
    }
}
