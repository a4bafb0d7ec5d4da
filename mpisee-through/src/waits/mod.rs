//! Who waits for whom in collective operations, from sampled times of arrival.
//!
//! `arrivals` reads the samples and joins them over the members of a communicator, `hosts` and `clocks` put the times of all
//! hosts on one clock. `dependence` says on whom a member depends, `instance` computes the waits in one call from that,
//! `operation` and `estimate` those in all calls, `pattern` finds who stands out, and [`sentence`] says so.

mod arrivals;
mod clocks;
mod dependence;
mod estimate;
mod hosts;
mod instance;
mod operation;
mod pattern;
#[cfg(test)]
mod programs;
pub mod sentence;

use crate::filter::{CallFilter, CommFilter};
use crate::group::{By, seconds};
use crate::processes::Processes;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use arrivals::{Joined, Points};
use dependence::Dependence;
pub use estimate::{Estimate, FEWEST};
use hosts::Clocks;
use instance::Hosts;
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, CommRow, Row};
use mpisee_profile::{Kind, Operation, ProfileError};
use operation::{Estimated, Sample, Totals};
pub use pattern::Finding;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Communicator, operation and rank.
type CallKey = (String, String, u32);

/// Why an operation on a communicator has samples and no waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Members depend on neighbours, which the profile does not have.
    Neighbours,
    /// The two groups of an intercommunicator.
    Intercommunicator,
    /// Members are not listed one by one: other worlds, or several communicators on one row.
    Members,
    /// Members depend on those of lower rank, and the order of ranks is unknown.
    Order,
    /// The clocks of the members' hosts cannot be compared.
    Clocks,
    /// No sampled call is there of all members.
    Partial,
    /// Recorded calls are fewer than sampled ones, or not all rows were read.
    Calls,
}

/// Communicators and operations by the reason why they are left out.
pub type LeftOutBy = BTreeMap<LeftOut, Vec<(String, String)>>;

/// A member of an operation on a communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub rank: u32,
    /// The number of its host.
    pub host: usize,
    /// The time in all calls, in seconds.
    pub time_s: f64,
    /// How long others waited for it, and how long it waited, in all calls; none if the sample is too small to tell.
    pub caused: Option<Estimate>,
    pub suffered: Option<Estimate>,
}

/// The waits in an operation on a communicator.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub comm: String,
    pub call: String,
    /// All recorded calls, and those whose arrivals are known of all members.
    pub instances: u64,
    pub sampled: u64,
    /// The time of all members, in seconds.
    pub time_s: f64,
    /// Of that, waiting for others; none if the sample is too small to tell.
    pub waiting: Option<Estimate>,
    pub members: Vec<Member>,
    /// The findings; members by position.
    pub findings: Vec<Finding>,
}

/// Who waits for whom.
pub struct Report {
    /// By communicator and operation, in the order of names.
    pub operations: Vec<Waiting>,
    /// The names of hosts.
    pub hosts: Vec<String>,
    /// By host, how far off its clock may be beside the others, in seconds.
    pub uncertainty_s: Vec<f64>,
    /// By communicator, the time of all ranks in collective operations, in seconds.
    pub collective_s: BTreeMap<String, f64>,
    /// Operations with samples and without waits, by the reason.
    pub left_out: LeftOutBy,
    /// Sampled calls that are left out since some member lacks them.
    pub partial: u64,
    /// The error that ended reading.
    pub cut_off: Option<ProfileError>,
}

/// Waiting below this part of the members' wall time is no finding.
const LEAST_OF_RUN: f64 = 0.01;

/// Computes the waits of the operations that the filter takes; its choice of ranks does not matter.
pub fn of(view: &ProfileView, filter: &CallFilter) -> Result<Report> {
    const MISSING: &str = "the arrival of single ranks";
    let ranks = view.ranks(MISSING)?;
    let profile = view.profile();
    if !profile.directory().join(ArrivalRow::FILE).exists() {
        bail!(
            "'{}' has no samples of collective calls (arrivals.csv): an older mpisee recorded it, or without them, or no \
             communicator of several ranks had a collective call",
            profile.directory().display()
        );
    }
    let (points, cut_off) = arrivals::read(profile)?;
    let calls = Calls::read(view, filter)?;
    let mut clocks = Clocks::new(ranks.iter().map(|row| (row.rank, row.host.as_str())));
    let (joined, mut left_out) = join(points, view.processes(), &mut clocks);
    let empty = if clocks.names.len() > 1 { calls_of_nothing(view)? } else { HashSet::new() };
    let strict = joined.iter().filter(|one| one.is_strict(&empty));
    clocks.join(strict.map(|one| (&one.joined, &one.members[..])));
    let means = mean_arrivals(view)?;
    let wall_s: HashMap<u32, f64> = ranks.iter().map(|row| (row.rank, row.wall_s.0)).collect();
    let (mut operations, mut partial) = (Vec::new(), 0);
    for one in joined {
        if !(view.processes().takes_comm(&filter.comms, &one.comm) && filter.takes_call(&one.call)) {
            continue;
        }
        partial += one.joined.partial;
        match one.waiting(&clocks, &calls, &means, &wall_s) {
            Ok(waiting) => operations.push(waiting),
            Err(reason) => left_out.entry(reason).or_default().push((one.comm, one.call)),
        }
    }
    for operations in left_out.values_mut() {
        operations.retain(|(comm, call)| {
            view.processes().takes_comm(&filter.comms, comm) && filter.takes_call(call)
        });
    }
    left_out.retain(|_, operations| !operations.is_empty());
    let uncertainty_s = (0..clocks.names.len()).map(|host| clocks.uncertainty_s(host)).collect();
    let cut_off = cut_off.or(calls.cut_off);
    Ok(Report {
        operations,
        hosts: clocks.names,
        uncertainty_s,
        collective_s: calls.collective_s,
        left_out,
        partial,
        cut_off,
    })
}

/// The collective operations of `calls.csv`.
struct Calls {
    /// Calls and seconds.
    of_rank: HashMap<CallKey, (u64, f64)>,
    collective_s: BTreeMap<String, f64>,
    cut_off: Option<ProfileError>,
}

impl Calls {
    fn read(view: &ProfileView, filter: &CallFilter) -> Result<Self> {
        let mut groups = view.group(filter, By { comm: true, rank: true, call: true, ..By::default() })?;
        let cut_off = groups.cut_off.take();
        let (mut of_rank, mut collective_s) = (HashMap::new(), BTreeMap::new());
        for (key, cell) in &groups.cells {
            let (comm, call) = (groups.comm(key), groups.call(key));
            if Operation::from_name(call).is_none_or(|operation| operation.kind() != Kind::Collective) {
                continue;
            }
            let time_s = seconds(cell.time_ns);
            of_rank.insert((comm.to_owned(), call.to_owned(), key.rank), (cell.calls, time_s));
            *collective_s.entry(comm.to_owned()).or_insert(0.0) += time_s;
        }
        Ok(Calls { of_rank, collective_s, cut_off })
    }
}

/// Operations of which some call had a message of 0 bytes, so that its members need not wait for each other; barriers aside.
fn calls_of_nothing(view: &ProfileView) -> Result<HashSet<(String, String)>> {
    let by = By { comm: true, call: true, size: true, without_times: true, ..By::default() };
    let groups = view.group(&CallFilter::of(CommFilter::default()), by)?;
    let of_nothing = groups.cells.iter().map(|(key, _)| key).filter(|key| groups.size(key).1 == 0);
    let named = of_nothing.map(|key| (groups.comm(key).to_owned(), groups.call(key).to_owned()));
    Ok(named.filter(|(_, call)| call != "MPI_Barrier").collect())
}

/// Mean arrivals over all recorded instances, in seconds on the clock of the rank's host, with the number of instances.
type Means = HashMap<CallKey, (u64, f64)>;

fn mean_arrivals(view: &ProfileView) -> Result<Means, ProfileError> {
    let mut means = Means::new();
    for row in view.profile().rows_if_any::<CollectiveRow>()? {
        let CollectiveRow { comm, call, rank, instances, mean_arrival_s, .. } = row?;
        means.insert((comm, call, rank), (instances, mean_arrival_s.0));
    }
    Ok(means)
}

/// An operation on a communicator, with the sampled instances that all members have.
struct Operations {
    comm: String,
    call: String,
    dependence: Dependence,
    members: Vec<u32>,
    joined: Joined,
}

/// Joins the samples of all operations, and says which have no waits.
fn join(points: Points, processes: &Processes, clocks: &mut Clocks) -> (Vec<Operations>, LeftOutBy) {
    let mut left_out = LeftOutBy::new();
    let mut all = Vec::new();
    for ((comm, call), points) in points {
        let row = processes.comms.get(&comm);
        // Of one process, nobody waits.
        if row.is_some_and(|row| row.size < 2) {
            continue;
        }
        match dependence(&call, row, processes) {
            Err(reason) => left_out.entry(reason).or_default().push((comm, call)),
            Ok((dependence, members)) => {
                let joined = arrivals::join(points, &members);
                clocks.begin_with(&joined, &members);
                all.push(Operations { comm, call, dependence, members, joined });
            }
        }
    }
    (all, left_out)
}

/// On whom the members of an operation depend, and who they are.
fn dependence(
    call: &str,
    row: Option<&CommRow>,
    processes: &Processes,
) -> Result<(Dependence, Vec<u32>), LeftOut> {
    let row = row.ok_or(LeftOut::Members)?;
    if row.members.remote.is_some() {
        return Err(LeftOut::Intercommunicator);
    }
    if row.count > 1 || row.members.outsiders() > 0 || row.members.has_elided() {
        return Err(LeftOut::Members);
    }
    let dependence = Dependence::of(call).ok_or(LeftOut::Neighbours)?;
    if dependence == Dependence::OnLower && !is_in_order(row, processes) {
        return Err(LeftOut::Order);
    }
    Ok((dependence, row.members.group.iter().collect()))
}

/// Whether the ranks of the communicator are in the order of those of `MPI_COMM_WORLD`, as in its duplicates.
fn is_in_order(row: &CommRow, processes: &Processes) -> bool {
    let is_duplicate = |row: &CommRow| row.created_by.contains("_dup") || row.created_by.contains("_idup");
    let mut row = row;
    // A name is longer than that of its parent; anything else could lead in a circle.
    while row.comm != "W" {
        match processes.comms.get(&row.parent) {
            Some(parent) if is_duplicate(row) && parent.comm.len() < row.comm.len() => row = parent,
            _ => return false,
        }
    }
    true
}

impl Operations {
    /// Whether no member can leave a call before all have arrived; `empty` are operations with calls that move nothing.
    fn is_strict(&self, empty: &HashSet<(String, String)>) -> bool {
        Dependence::is_strict(&self.call) && !empty.contains(&(self.comm.clone(), self.call.clone()))
    }

    fn key(&self, rank: u32) -> CallKey {
        (self.comm.clone(), self.call.clone(), rank)
    }

    fn waiting(
        &self,
        clocks: &Clocks,
        calls: &Calls,
        means: &Means,
        wall_s: &HashMap<u32, f64>,
    ) -> Result<Waiting, LeftOut> {
        if self.joined.instances.is_empty() {
            return Err(LeftOut::Partial);
        }
        let hosts: Option<Vec<usize>> = self.members.iter().map(|&rank| clocks.host(rank)).collect();
        let hosts = hosts.ok_or(LeftOut::Partial)?;
        if !clocks.are_joined(hosts.iter().copied()) {
            return Err(LeftOut::Clocks);
        }
        let counted: Option<Vec<(u64, f64)>> =
            self.members.iter().map(|&rank| calls.of_rank.get(&self.key(rank)).copied()).collect();
        let counted = counted.ok_or(LeftOut::Calls)?;
        let totals = self.totals(clocks, &hosts, &counted, means);
        let sample = self.sample(clocks, hosts);
        let sampled = sample.waits(self.dependence);
        let estimated = operation::estimate(&sample, &totals, self.dependence, &sampled);
        let wall_s: f64 = self.members.iter().filter_map(|rank| wall_s.get(rank)).sum();
        let findings = match &estimated {
            Some(estimated) if estimated.waiting.total >= LEAST_OF_RUN * wall_s => {
                pattern::findings(&sample, self.dependence, &sampled, estimated, totals.instances)
            }
            _ => Vec::new(),
        };
        Ok(Waiting {
            comm: self.comm.clone(),
            call: self.call.clone(),
            instances: totals.instances,
            sampled: sample.numbers.len() as u64,
            time_s: counted.iter().map(|(_, time_s)| time_s).sum(),
            waiting: estimated.as_ref().map(|estimated| estimated.waiting),
            members: self.members_of(&sample.hosts.of_member, &counted, estimated.as_ref()),
            findings,
        })
    }

    fn members_of(
        &self,
        hosts: &[usize],
        counted: &[(u64, f64)],
        estimated: Option<&Estimated>,
    ) -> Vec<Member> {
        let member = |(position, &rank): (usize, &u32)| Member {
            rank,
            host: hosts[position],
            time_s: counted[position].1,
            caused: estimated.map(|estimated| estimated.caused[position]),
            suffered: estimated.map(|estimated| estimated.suffered[position]),
        };
        self.members.iter().enumerate().map(member).collect()
    }

    /// The known sums over all recorded instances.
    fn totals(&self, clocks: &Clocks, hosts: &[usize], counted: &[(u64, f64)], means: &Means) -> Totals {
        let most = counted.iter().map(|(calls, _)| *calls).max().unwrap_or(0);
        let mean_of = |(&rank, &host): (&u32, &usize)| {
            let (instances, mean_s) = *means.get(&self.key(rank))?;
            Some((instances, clocks.common_of_mean_s(host, mean_s)))
        };
        let found: Option<Vec<(u64, f64)>> = self.members.iter().zip(hosts).map(mean_of).collect();
        // Means over other instances cannot be compared.
        let is_same = counted.iter().all(|(calls, _)| *calls == most);
        let found = found.filter(|found| is_same && found.iter().all(|(made, _)| *made == found[0].0));
        Totals {
            instances: most,
            mean_times_s: counted.iter().map(|&(calls, time_s)| time_s / calls.max(1) as f64).collect(),
            mean_arrivals_s: found.map(|found| found.into_iter().map(|(_, mean_s)| mean_s).collect()),
        }
    }

    fn sample(&self, clocks: &Clocks, hosts: Vec<usize>) -> Sample {
        let common = |times_ns: &[u64]| -> Vec<f64> {
            let each = times_ns.chunks_exact(hosts.len()).flat_map(|instance| instance.iter().zip(&hosts));
            each.map(|(&time_ns, &host)| clocks.common_s(host, time_ns)).collect()
        };
        let position = |root: &Option<u32>| root.and_then(|root| self.members.binary_search(&root).ok());
        let is_one = hosts.iter().all(|host| *host == hosts[0]);
        let of_host = |host| if is_one { 0.0 } else { clocks.uncertainty_s(host) };
        Sample {
            numbers: self.joined.instances.clone(),
            roots: self.joined.roots.iter().map(position).collect(),
            arrivals: common(&self.joined.arrivals_ns),
            departures: common(&self.joined.departures_ns),
            hosts: Hosts { uncertainty_s: (0..clocks.names.len()).map(of_host).collect(), of_member: hosts },
        }
    }
}

/// The choice of communicators and operations without that of ranks, which is made of the result.
pub fn filter(comms: &CommFilter, calls: &[mpisee_profile::glob::Glob]) -> CallFilter {
    CallFilter::of_calls(comms.without_ranks(), calls)
}
