//! The waits in collective operations, blocking or not.

use super::arrivals::{self, Joined, Points};
use super::dependence::Dependence;
use super::hosts::Clocks;
use super::instance::Hosts;
use super::operation::{self, Estimated, SampledCalls, SampledWaits};
use super::pools::Pools;
use super::{LEAST_OF_RUN, LeftOut, LeftOutBy, Member, ProfileTotals, Sink, Waiting, pattern};
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::processes::Processes;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::ProfileError;
use mpisee_profile::rows::{CollectiveRow, CommRow};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Communicator, operation and rank.
pub type CallKey = (String, String, u32);

/// Operations of which some call had a message of 0 bytes, so that its members need not wait for
/// each other; barriers aside.
pub fn calls_of_nothing(view: &ProfileView) -> Result<HashSet<(String, String)>> {
    let by = By { comm: true, call: true, size: true, without_times: true, ..By::default() };
    let groups = view.group(&CallFilter::from_comms(CommFilter::default()), by)?;
    let of_nothing = groups.cells.iter().map(|(key, _)| key).filter(|key| groups.size(key).1 == 0);
    let named = of_nothing.map(|key| (groups.comm(key).to_owned(), groups.call(key).to_owned()));
    Ok(named.filter(|(_, call)| !Dependence::is_barrier(call)).collect())
}

/// Operations with a count for each member, and the ranks of which no call contributed anything:
/// nobody need wait for these.
pub struct Silent {
    of: HashMap<(String, String), HashSet<u32>>,
}

impl Silent {
    /// Of the operations that contributions are counted of by what a member sends.
    pub fn read(view: &ProfileView, sampled: &[Collective]) -> Result<Self> {
        let has_counts = |call: &str| {
            Dependence::has_counts(call)
                && !matches!(Dependence::from_call(call), Some(Dependence::AllOnRoot))
        };
        let mut of = HashMap::new();
        if !sampled.iter().any(|one| has_counts(&one.call)) {
            return Ok(Silent { of });
        }
        let by = By { comm: true, call: true, rank: true, without_times: true, ..By::default() };
        let groups = view.group(&CallFilter::from_comms(CommFilter::default()), by)?;
        for (key, _) in groups.cells.iter().filter(|(_, cell)| cell.bytes == 0) {
            if has_counts(groups.call(key)) {
                let operation = (groups.comm(key).to_owned(), groups.call(key).to_owned());
                of.entry(operation).or_insert_with(HashSet::new).insert(key.rank);
            }
        }
        Ok(Silent { of })
    }

    /// By member; empty if all contribute.
    fn members(&self, one: &Collective) -> Vec<bool> {
        let ranks = self.of.get(&(one.comm.clone(), one.call.clone()));
        ranks.map_or(Vec::new(), |ranks| one.members.iter().map(|rank| ranks.contains(rank)).collect())
    }
}

/// A rank's sums over all of its recorded calls of an operation.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalSums {
    pub instances: u64,
    pub sampled: u64,
    /// In seconds, on the clock of the rank's host.
    pub mean_arrival_s: f64,
}

pub type Means = HashMap<CallKey, ArrivalSums>;

pub fn mean_arrivals(view: &ProfileView) -> Result<Means, ProfileError> {
    let mut means = Means::new();
    for row in view.profile().rows_if_any::<CollectiveRow>()? {
        let CollectiveRow { comm, call, rank, instances, sampled, mean_arrival_s, .. } = row?;
        let recorded = ArrivalSums { instances, sampled, mean_arrival_s: mean_arrival_s.0 };
        means.insert((comm, call, rank), recorded);
    }
    Ok(means)
}

/// Operations with counts of which no member has a sample, since some of them were zero in all
/// calls.
pub fn without_samples(means: &Means) -> Vec<(String, String)> {
    let mut sampled: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ((comm, call, _), recorded) in means.iter().filter(|((_, call, _), _)| Dependence::has_counts(call)) {
        *sampled.entry((comm, call)).or_default() += recorded.sampled;
    }
    let without = sampled.into_iter().filter(|(_, sampled)| *sampled == 0);
    without.map(|((comm, call), _)| (comm.to_owned(), call.to_owned())).collect()
}

/// An operation on a communicator, with the sampled instances that all members have.
pub struct Collective {
    pub comm: String,
    pub call: String,
    dependence: Dependence,
    pub members: Vec<u32>,
    pub joined: Joined,
}

/// Joins the samples of all operations, and says which have no waits.
pub fn join(points: Points, processes: &Processes, clocks: &mut Clocks) -> (Vec<Collective>, LeftOutBy) {
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
                let joined = arrivals::join(&points, &members);
                clocks.begin_with(&joined, &members);
                all.push(Collective { comm, call, dependence, members, joined });
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
    let dependence = Dependence::from_call(call).ok_or(LeftOut::Neighbours)?;
    if dependence == Dependence::AllOnLower && !is_in_order(row, processes) {
        return Err(LeftOut::Order);
    }
    Ok((dependence, row.members.group.iter().collect()))
}

/// Returns whether the ranks of the communicator are in the order of those of `MPI_COMM_WORLD`, as
/// in its duplicates.
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

impl Collective {
    /// Returns whether no member can leave a call before all have arrived; `empty` are operations
    /// with calls that move nothing.
    pub fn is_strict(&self, empty: &HashSet<(String, String)>) -> bool {
        Dependence::is_strict(&self.call) && !empty.contains(&(self.comm.clone(), self.call.clone()))
    }

    pub fn key(&self, rank: u32) -> CallKey {
        (self.comm.clone(), self.call.clone(), rank)
    }

    /// The waits in all calls; `pools` gets them if they are too small for findings, `sink` who
    /// waited for whom.
    pub fn waiting(
        &self,
        clocks: &Clocks,
        known: &ProfileTotals<'_>,
        pools: &mut Pools,
        sink: Option<&mut Sink<'_>>,
    ) -> Result<Waiting, LeftOut> {
        if self.joined.instances.is_empty() {
            return Err(LeftOut::Partial);
        }
        let hosts: Option<Vec<usize>> = self.members.iter().map(|&rank| clocks.host(rank)).collect();
        let hosts = hosts.ok_or(LeftOut::Partial)?;
        if !clocks.are_joined(hosts.iter().copied()) {
            return Err(LeftOut::Clocks);
        }
        let sample = self.sample(clocks, hosts, known.silent.members(self));
        let (counted, totals) = match sample.starts.is_empty() {
            true => self.totals_of_blocking(clocks, &sample, known)?,
            false => self.totals_of_nonblocking(&sample, known)?,
        };
        let sampled = sample.waits(self.dependence);
        let estimated = operation::estimate(&sample, &totals, self.dependence, &sampled);
        let wall_s: f64 = self.members.iter().filter_map(|rank| known.wall_s.get(rank)).sum();
        let large = estimated.as_ref().filter(|found| found.waiting.total >= LEAST_OF_RUN * wall_s);
        let may_lack_progress = large.is_some() && pattern::may_lack_progress(&sample, &sampled);
        let findings = match large {
            Some(estimated) if !may_lack_progress => {
                pattern::findings(&sample, self.dependence, &sampled, estimated, totals.instances)
            }
            _ => Vec::new(),
        };
        if let (Some(sink), Some(estimated)) = (sink, &estimated) {
            self.pairs(&sample, &sampled, estimated, sink);
        }
        let waiting = Waiting {
            comm: self.comm.clone(),
            call: self.call.clone(),
            others: 0,
            instances: totals.instances,
            sampled: sample.numbers.len() as u64,
            time_s: counted.iter().map(|(_, time_s)| time_s).sum(),
            waiting: estimated.as_ref().map(|estimated| estimated.waiting),
            is_nonblocking: !sample.starts.is_empty(),
            may_lack_progress,
            is_small: large.is_none(),
            sends: None,
            members: self.members_of(&sample.hosts.of_member, &counted, estimated.as_ref()),
            findings,
        };
        let may_tell = matches!(self.dependence, Dependence::All | Dependence::RootOnAll);
        if large.is_none() && estimated.is_some() && may_tell {
            pools.add(&waiting, &sample.hosts, sampled);
        }
        Ok(waiting)
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
            directions: None,
        };
        self.members.iter().enumerate().map(member).collect()
    }

    /// Reports who waited for whom, so that the sums of members are those that they suffered.
    fn pairs(
        &self,
        sample: &SampledCalls,
        sampled: &SampledWaits,
        estimated: &Estimated,
        sink: &mut Sink<'_>,
    ) {
        // Limits the time that very large communicators take: each instance has as many pairs as
        // members squared.
        const MOST_PAIRS: usize = 1 << 31;
        let pairs = self.members.len().pow(2).saturating_mul(sample.numbers.len());
        let step = pairs.div_ceil(MOST_PAIRS).max(1);
        let scale = |member: usize| {
            let waited_s: f64 = sampled.waited[member].iter().step_by(step).sum();
            if waited_s > 0.0 { estimated.suffered[member].total / waited_s } else { 0.0 }
        };
        let scales: Vec<f64> = (0..self.members.len()).map(scale).collect();
        sample.pairs(self.dependence, step, |waiting, cause, time_s| {
            sink(&self.comm, self.members[waiting], self.members[cause], time_s * scales[waiting]);
        });
    }

    fn sample(&self, clocks: &Clocks, hosts: Vec<usize>, silent: Vec<bool>) -> SampledCalls {
        let common = |times_ns: &[u64]| -> Vec<f64> {
            let each = times_ns.chunks_exact(hosts.len()).flat_map(|instance| instance.iter().zip(&hosts));
            each.map(|(&time_ns, &host)| clocks.common_s(host, time_ns)).collect()
        };
        let position = |root: &Option<u32>| root.and_then(|root| self.members.binary_search(&root).ok());
        let is_one = hosts.iter().all(|host| *host == hosts[0]);
        let of_host = |host| if is_one { 0.0 } else { clocks.uncertainty_s(host) };
        SampledCalls {
            numbers: self.joined.instances.clone(),
            roots: self.joined.roots.iter().map(position).collect(),
            arrivals: common(&self.joined.arrivals_ns),
            departures: common(&self.joined.departures_ns),
            starts: common(&self.joined.starts_ns),
            shares: self.joined.completed.iter().map(|&completed| 1.0 / f64::from(completed)).collect(),
            silent,
            hosts: Hosts { uncertainty_s: (0..clocks.names.len()).map(of_host).collect(), of_member: hosts },
        }
    }
}
