//! The looks of `top`: of this node, as they are sent, and of many nodes joined.

use super::hang::hangs;
use super::job::Job;
use super::part::{self, NodeReport};
use super::report::{JobDocument, Report, SortKey};
use super::{JobSelection, Seen, Watch, before, gather};
use crate::command::agent::node::Node;
use crate::timeline::history::{CallName, History, NodeRate, QuantityName};
use anyhow::{Context, Result, bail};
use mpisee_collect::segments;
use mpisee_profile::RankSet;
use mpisee_profile::comm_name::derived;
use mpisee_profile::segment::active_call::CurrentFunction;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

/// The version of [`Message`].
pub const VERSION: u32 = 1;
/// Communicators of a job that are listed, those with most time in the interval.
const MOST_COMMS: usize = 1000;
/// Longer stays in a collective, while members are missing, are shown; as `top --hang` has it by
/// default.
const HANG_S: f64 = 5.0;

/// A message of a reader: one line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The state of a node.
    Look(Box<Look>),
    /// The ranks of a job on a node have ended.
    Ended(Ended),
}

/// A node at one moment, and since the moment before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Look {
    /// The node.
    pub host: String,
    part: NodeReport,
    /// Loads of its devices, by its kernel's counters.
    pub loads: Vec<Load>,
}

/// The load of a device since the look before, by the kernel's counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// `network`, `infiniband`, `pressure`, `memory`.
    pub source: String,
    /// The interface or port, or what is short.
    pub device: String,
    /// As in the time lines of `agent`.
    pub quantity: String,
    /// Per second; of `available_bytes` the level.
    pub value: f64,
    /// Rate of the link, bytes per second in one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// The sums of a node's ranks at the end of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// The node.
    pub host: String,
    /// The number that the processes of the job share.
    pub job: u64,
    /// By communicator family and operation.
    pub totals: Vec<Total>,
}

/// The sums of one operation on one communicator family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// The communicators.
    pub family: String,
    /// The operation.
    pub call: String,
    /// Calls that ended.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time of the ranks in them.
    pub time_s: f64,
}

/// A message with the version of the format.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    message: T,
}

impl Message {
    /// A line, with its end.
    pub fn line(&self) -> Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&Versioned { version: VERSION, message: self })?;
        line.push(b'\n');
        Ok(line)
    }

    /// From a line. Everything in it is checked: what cannot be is refused.
    pub fn parse(line: &[u8]) -> Result<Message> {
        #[derive(Deserialize)]
        struct Begin {
            version: u32,
        }
        const WHAT: &str = "it is not what mpisee-through agent --to sends";
        let begin: Begin = serde_json::from_slice(line).context(WHAT)?;
        if begin.version != VERSION {
            bail!(
                "its format has version {}, this program reads {VERSION}; use one version on all nodes",
                begin.version
            );
        }
        let Versioned { message, .. } = serde_json::from_slice::<Versioned<Message>>(line).context(WHAT)?;
        if let Message::Look(look) = &message {
            part::joined(vec![look.part.clone()]).context(WHAT)?;
        }
        Ok(message)
    }
}

impl Look {
    /// The numbers of the jobs of which it has ranks.
    pub fn jobs(&self) -> Vec<u64> {
        self.part.jobs().map(|(job, _)| job).collect()
    }

    /// The ranks of each job that it has.
    pub fn ranks(&self) -> BTreeSet<(u64, u32)> {
        self.part.jobs().flat_map(|(job, ranks)| ranks.map(move |rank| (job, rank))).collect()
    }

    /// Leaves out jobs of which others have ranks, too.
    pub fn leave_out(&mut self, others: &BTreeSet<(u64, u32)>) {
        self.part.retain(|job, ranks| !ranks.iter().any(|&rank| others.contains(&(job, rank))));
    }
}

/// Looks for ranks of a job on this node that are missing from collectives.
pub struct MissingRanks {
    watch: Watch,
    job: u64,
}

impl MissingRanks {
    /// Members are missing once others have waited for that long, in seconds.
    pub const AFTER_S: f64 = HANG_S;

    /// Of that job, among others.
    pub fn for_job(wanted: JobSelection, job: u64) -> MissingRanks {
        MissingRanks { watch: Watch { wanted, stacks: None }, job }
    }

    /// How many are missing, by communicator family and operation.
    pub fn look(&self) -> Result<Vec<(CallName, u32)>> {
        let mut missing: BTreeMap<CallName, u32> = BTreeMap::new();
        for job in self.watch.look()?.jobs.iter().filter(|job| job.id.0 == self.job) {
            for hang in hangs(job, HANG_S, 0.0) {
                let CurrentFunction::Operation(operation) = hang.longest.call else { continue };
                let size =
                    job.comms.get(&hang.comm).map_or(0, |comm| comm.size.try_into().unwrap_or(u32::MAX));
                let family = derived(&hang.comm, |name| name.family(size));
                let ranks = hang.missing.iter().map(|group| group.at.ranks.len()).sum::<u64>();
                *missing.entry((family, operation.name().to_owned())).or_default() += ranks as u32;
            }
        }
        Ok(missing.into_iter().collect())
    }
}

/// Looks at the jobs of this node again and again.
pub struct Reader {
    watch: Watch,
    /// The job to look at; all without.
    only: Option<u64>,
    host: String,
    before: Option<Seen>,
    before_at: Instant,
    node: Node,
    /// Has the names of what the node counts.
    names: History,
}

impl Reader {
    /// By a process, a name, a job or a directory, else of all jobs of this node; `only` is the
    /// number of a job.
    pub fn new(which: Option<&str>, only: Option<u64>) -> Result<Reader> {
        Ok(Reader::for_jobs(JobSelection::new(which, segments::own_user()?)?, only))
    }

    /// The same, of wanted jobs.
    pub fn for_jobs(wanted: JobSelection, only: Option<u64>) -> Reader {
        let watch = Watch { wanted, stacks: None };
        let host = gather::host();
        let mut names = History::new(&host, 0);
        let mut node = Node::below(Path::new("/"), &mut names);
        node.read(&mut Vec::new(), &mut names);
        Reader { watch, only, host, before: None, before_at: Instant::now(), node, names }
    }

    /// The name of this node.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The state now, and since the look that was kept last.
    pub fn look(&mut self) -> Result<Look> {
        let now = self.watch.look()?;
        let first = self.before.as_ref().unwrap_or(&now);
        let is_wanted = |job: &&Job| self.only.is_none_or(|only| job.id.0 == only);
        let jobs = now.jobs.iter().filter(is_wanted).map(|job| (before(first, job), job));
        let between_ns = first.end_ns.min(now.begin_ns)..now.begin_ns;
        let part = NodeReport::new(0, self.host.clone(), now.end_ns, between_ns, jobs, Vec::new());
        let length_s = self.before_at.elapsed().as_secs_f64().max(1e-3);
        let mut rates = Vec::new();
        self.node.read(&mut rates, &mut self.names);
        let loads = self.loads(&rates, length_s);
        self.before = Some(now);
        self.before_at = Instant::now();
        Ok(Look { host: self.host.clone(), part, loads })
    }
}

impl Reader {
    /// The loads in that time; links are there also where nothing went over them.
    fn loads(&self, rates: &[NodeRate], length_s: f64) -> Vec<Load> {
        let load = |(number, name): (usize, &QuantityName)| {
            let (source, device, quantity) = name.clone();
            let is_level = quantity == "available_bytes";
            let is_traffic = quantity == "received_bytes" || quantity == "sent_bytes";
            let counted = rates.iter().find(|rate| rate.name as usize == number).map(|rate| rate.value);
            let value = counted.or(is_traffic.then_some(0.0))?;
            let value = if is_level { value } else { value / length_s };
            let limit = self.node.links.get(&device).copied().filter(|_| is_traffic);
            Some(Load { source, device, quantity, value, limit })
        };
        self.names.quantities.all().iter().enumerate().filter_map(load).collect()
    }
}

/// A job of one or several nodes, at one moment.
pub struct LiveJob {
    /// The number that its processes share.
    pub job: u64,
    /// Size of `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// When it began, nanoseconds since 1970, UTC.
    pub start_ns: u64,
    /// Seconds since then.
    pub elapsed_s: f64,
    /// The command line.
    pub command: Vec<String>,
    /// The nodes of the ranks that are seen.
    pub hosts: Vec<String>,
    /// The ranks that are seen.
    pub seen: RankSet,
    /// Ranks whose processes ended.
    pub ended: u32,
    /// Calls so far.
    pub calls: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// The part of the ranks' time in MPI, in all.
    pub mpi_share: f64,
    /// Seconds since the look before; rates are of these.
    pub interval_s: f64,
    /// The part of the ranks' time in MPI.
    pub interval_mpi_share: f64,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Communicators with the largest parts of the ranks' time, and these parts.
    pub busiest: Vec<(String, f64)>,
    /// The job as `top --format json` has it, without the list of processes; and
    /// `communicators_left_out`.
    pub document: Value,
}

/// The jobs of several nodes, each joined.
pub fn joined(looks: &[Look]) -> Result<Vec<LiveJob>> {
    let jobs = part::joined(looks.iter().map(|look| look.part.clone()).collect())?;
    jobs.iter().map(|(before, now)| LiveJob::new(before, now)).collect()
}

impl LiveJob {
    fn new(before: &Job, now: &Job) -> Result<LiveJob> {
        const MOST_BUSIEST: usize = 8;
        let mut report = Report::new(before, now, SortKey::Time, HANG_S);
        let rows = &report.rows;
        let hosts: BTreeMap<&str, u32> = now.ranks.values().fold(BTreeMap::new(), |mut hosts, rank| {
            *hosts.entry(rank.host.as_str()).or_default() += 1;
            hosts
        });
        let busiest = rows.iter().filter(|row| row.interval_share_of_time > 0.0).take(MOST_BUSIEST);
        let mut job = LiveJob {
            job: now.id.0,
            ranks: now.size,
            start_ns: now.start_realtime_ns,
            elapsed_s: now.elapsed_s,
            command: now.program.command.clone(),
            hosts: hosts.into_keys().map(str::to_owned).collect(),
            seen: now.here(),
            ended: now.ranks.values().filter(|rank| rank.ended).count() as u32,
            calls: rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.calls)),
            bytes: rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes)),
            mpi_share: report.mpi_share,
            interval_s: report.interval_s,
            interval_mpi_share: report.interval_mpi_share,
            calls_per_s: rows.iter().map(|row| row.interval_calls_per_s).sum(),
            bytes_per_s: rows.iter().map(|row| row.interval_bytes_per_s).sum(),
            busiest: busiest.map(|row| (row.comm.clone(), row.interval_share_of_time)).collect(),
            document: Value::Null,
        };
        let left_out = report.rows.len().saturating_sub(MOST_COMMS);
        report.rows.truncate(MOST_COMMS);
        job.document = serde_json::to_value(JobDocument::new(now, report).without_processes())?;
        job.document["communicators_left_out"] = left_out.into();
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    fn look(host: &str, ranks: std::ops::Range<u32>) -> Look {
        let half = |more_s: f64| {
            let mut job = golden::job(more_s);
            job.ranks.retain(|rank, _| ranks.contains(&rank.get()));
            job.ranks.values_mut().for_each(|rank| rank.host = host.to_owned());
            job
        };
        let (before, now) = (half(0.0), half(2.0));
        let part = NodeReport::new(0, host.to_owned(), 0, 0..1, [(&before, &now)], Vec::new());
        Look { host: host.to_owned(), part, loads: Vec::new() }
    }

    #[test]
    fn lines_of_two_nodes_are_one_job() {
        let sent = |look: Look| match Message::parse(&Message::Look(Box::new(look)).line().unwrap()).unwrap()
        {
            Message::Look(look) => *look,
            Message::Ended(_) => panic!("it is a look"),
        };
        let looks = [sent(look("n1", 0..2)), sent(look("n2", 2..4))];
        let jobs = joined(&looks).unwrap();
        let [job] = jobs.as_slice() else { panic!("one job") };
        assert_eq!((job.hosts.as_slice(), job.seen.len()), (&["n1".to_owned(), "n2".to_owned()][..], 4));
        let [one] = joined(&looks[..1]).unwrap().try_into().ok().unwrap();
        assert_eq!(job.calls, 2 * one.calls, "each node counts what it has");
        assert_eq!(job.document["ranks_here"], "0-3");
        assert_eq!(job.document["processes"], serde_json::json!([]));
    }

    #[test]
    fn a_job_that_two_readers_see_is_left_to_one() {
        let (mut mine, other) = (look("n1", 0..4), look("n1", 2..4));
        mine.leave_out(&other.ranks());
        assert_eq!(mine.jobs(), [] as [u64; 0]);
        assert_eq!(other.jobs().len(), 1);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let said = |text: &str| format!("{:#}", Message::parse(text.as_bytes()).unwrap_err());
        for text in ["", "{", "[]", "null", "{\"version\":1}", "{\"version\":1,\"message\":{\"look\":{}}}"] {
            assert!(said(text).starts_with("it is not what mpisee-through agent --to sends: "), "{text}");
        }
        assert!(
            said("{\"version\":2,\"message\":{}}")
                .starts_with("its format has version 2, this program reads 1;")
        );
        let line = Message::Look(Box::new(look("n1", 0..2))).line().unwrap();
        let text = String::from_utf8(line).unwrap();
        assert!(text.contains("\"here\":"));
        let wrong = text.replacen("\"here\":", "\"here\":18446744073709551", 1);
        assert!(said(&wrong).contains("it has a communicator of "), "{wrong}");
    }
}
