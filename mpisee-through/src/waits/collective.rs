//! The waits in collective operations, blocking or not.

use super::arrivals::{self, Joined, Points};
use super::dependence::Dependence;
use super::hosts::Clocks;
use super::instance::Hosts;
use super::operation::{self, Estimated, SampledCalls, SampledWaits, Totals};
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

/// Operations of which some call had a message of 0 bytes, so that its members need not wait for each other; barriers aside.
pub fn calls_of_nothing(view: &ProfileView) -> Result<HashSet<(String, String)>> {
    let by = By { comm: true, call: true, size: true, without_times: true, ..By::default() };
    let groups = view.group(&CallFilter::of(CommFilter::default()), by)?;
    let of_nothing = groups.cells.iter().map(|(key, _)| key).filter(|key| groups.size(key).1 == 0);
    let named = of_nothing.map(|key| (groups.comm(key).to_owned(), groups.call(key).to_owned()));
    Ok(named.filter(|(_, call)| !Dependence::is_barrier(call)).collect())
}

/// Operations with a count for each member, and the ranks of which no call contributed anything: nobody need wait for these.
pub struct Silent {
    of: HashMap<(String, String), HashSet<u32>>,
}

impl Silent {
    /// Of the operations that contributions are counted of by what a member sends.
    pub fn read(view: &ProfileView, sampled: &[Collective]) -> Result<Self> {
        let has_counts = |call: &str| {
            Dependence::has_counts(call) && !matches!(Dependence::of(call), Some(Dependence::AllOnRoot))
        };
        let mut of = HashMap::new();
        if !sampled.iter().any(|one| has_counts(&one.call)) {
            return Ok(Silent { of });
        }
        let by = By { comm: true, call: true, rank: true, without_times: true, ..By::default() };
        let groups = view.group(&CallFilter::of(CommFilter::default()), by)?;
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

/// What a rank has of all of its recorded calls of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    pub instances: u64,
    pub sampled: u64,
    /// In seconds, on the clock of the rank's host.
    mean_arrival_s: f64,
}

pub type Means = HashMap<CallKey, Recorded>;

pub fn mean_arrivals(view: &ProfileView) -> Result<Means, ProfileError> {
    let mut means = Means::new();
    for row in view.profile().rows_if_any::<CollectiveRow>()? {
        let CollectiveRow { comm, call, rank, instances, sampled, mean_arrival_s, .. } = row?;
        let recorded = Recorded { instances, sampled, mean_arrival_s: mean_arrival_s.0 };
        means.insert((comm, call, rank), recorded);
    }
    Ok(means)
}

/// Operations with counts of which no member has a sample, since some of them were zero in all calls.
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
    let dependence = Dependence::of(call).ok_or(LeftOut::Neighbours)?;
    if dependence == Dependence::AllOnLower && !is_in_order(row, processes) {
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

impl Collective {
    /// Whether no member can leave a call before all have arrived; `empty` are operations with calls that move nothing.
    pub fn is_strict(&self, empty: &HashSet<(String, String)>) -> bool {
        Dependence::is_strict(&self.call) && !empty.contains(&(self.comm.clone(), self.call.clone()))
    }

    fn key(&self, rank: u32) -> CallKey {
        (self.comm.clone(), self.call.clone(), rank)
    }

    /// The waits in all calls; `pools` gets them if they are too small for findings, `sink` who waited for whom.
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

    /// By member, the calls and their time, and the known sums over all recorded instances.
    fn totals_of_blocking(
        &self,
        clocks: &Clocks,
        sample: &SampledCalls,
        known: &ProfileTotals<'_>,
    ) -> Result<(Vec<(u64, f64)>, Totals), LeftOut> {
        let counted: Option<Vec<(u64, f64)>> =
            self.members.iter().map(|&rank| known.calls.of_rank.get(&self.key(rank)).copied()).collect();
        let counted = counted.ok_or(LeftOut::Calls)?;
        if let Some(instances) = self.shared_calls(counted.iter().map(|(calls, _)| *calls), known) {
            return Ok(self.totals_of_shared(sample, instances, &counted));
        }
        let totals = self.totals(clocks, &sample.hosts.of_member, &counted, known.means);
        Ok((counted, totals))
    }

    /// The calls that all members have in common, as far as their samples tell, where recording was off on some for a part of the
    /// run, or some calls are in no sample since counts were zero.
    fn shared_calls(
        &self,
        calls: impl Iterator<Item = u64> + Clone,
        known: &ProfileTotals<'_>,
    ) -> Option<u64> {
        /// So large a part of the samples may be those of calls in which a member ended.
        const FEW: f64 = 0.02;
        let (least, most) = (calls.clone().min()?, calls.clone().max()?);
        let (joined, partial) = (self.joined.instances.len() as f64, self.joined.partial as f64);
        // Who ended early, or was killed, has one call less or more.
        let is_same = most - least <= 1;
        if is_same && partial <= FEW * joined {
            return None;
        }
        let shared = |(rank, calls): (&u32, u64)| {
            let sampled = known.means.get(&self.key(*rank))?.sampled;
            Some((calls as f64 * joined / sampled as f64).round() as u64)
        };
        let each = self.members.iter().zip(calls).filter_map(shared);
        // Who recorded fewer calls may have kept more of them.
        let shared = if is_same { each.min() } else { each.max() };
        Some(shared.unwrap_or(0).clamp(self.joined.instances.len() as u64, least))
    }

    /// The sums over the calls that all members recorded: nothing but the sample tells their part of the time.
    fn totals_of_shared(
        &self,
        sample: &SampledCalls,
        instances: u64,
        counted: &[(u64, f64)],
    ) -> (Vec<(u64, f64)>, Totals) {
        let sampled = sample.numbers.len() as f64;
        let time_s = |times: &Vec<f64>| times.iter().sum::<f64>() * instances as f64 / sampled;
        let times_s = sample.times();
        let of_shared = times_s.iter().zip(counted).map(|(times, (_, whole_s))| time_s(times).min(*whole_s));
        let shared = of_shared.map(|time_s| (instances, time_s)).collect();
        let most_s = counted.iter().map(|(_, time_s)| *time_s).collect();
        (shared, Totals { instances, mean_times_s: None, most_s, mean_arrivals_s: None })
    }

    /// The same of a nonblocking operation. Its time is that in the calls which completed it; where these may have completed other
    /// requests as well, it is that of the sample.
    fn totals_of_nonblocking(
        &self,
        sample: &SampledCalls,
        known: &ProfileTotals<'_>,
    ) -> Result<(Vec<(u64, f64)>, Totals), LeftOut> {
        let was_off = known.view.run().recording_was_off;
        // A persistent operation is started by other calls, and its number counts those as well that were not recorded.
        let made = |&rank: &u32| match self.call.ends_with("_init") {
            false => known.calls.of_rank.get(&self.key(rank)).map(|(calls, _)| *calls),
            true => known.means.get(&self.key(rank)).filter(|_| !was_off).map(|recorded| recorded.instances),
        };
        let sampled = sample.numbers.len() as u64;
        let calls: Vec<u64> = self.members.iter().filter_map(made).collect();
        let most = calls.iter().copied().max().ok_or(if was_off { LeftOut::Off } else { LeftOut::Calls })?;
        let shared =
            self.shared_calls(calls.iter().copied(), known).filter(|_| calls.len() == self.members.len());
        let instances = shared.unwrap_or(most).max(sampled);
        if sampled < instances && !sample.is_even() {
            return Err(LeftOut::Requests);
        }
        let known_s = self.times_of_requests(sample, known).filter(|_| shared.is_none());
        let of_sample = |times: &Vec<f64>| times.iter().sum::<f64>() * instances as f64 / sampled as f64;
        let times_s = known_s.clone().unwrap_or_else(|| sample.times().iter().map(of_sample).collect());
        let counted = times_s.into_iter().map(|time_s| (instances, time_s)).collect();
        let wall_s = |rank| known.wall_s.get(rank).copied().unwrap_or(f64::INFINITY);
        let most_s = self.members.iter().map(wall_s).collect();
        let mean_times_s =
            known_s.map(|times_s| times_s.iter().map(|time_s| time_s / instances as f64).collect());
        Ok((counted, Totals { instances, mean_times_s, most_s, mean_arrivals_s: None }))
    }

    /// By member, the time in the calls that completed the operation, in seconds, if they completed nothing else.
    fn times_of_requests(&self, sample: &SampledCalls, known: &ProfileTotals<'_>) -> Option<Vec<f64>> {
        if sample.shares.iter().any(|&share| share < 1.0) {
            return None;
        }
        let times = known.calls.of_messages.get(&self.comm)?;
        self.members.iter().map(|rank| times.get(rank)?.of_requests_s(&self.call)).collect()
    }

    /// Reports who waited for whom, so that the sums of members are those that they suffered.
    fn pairs(
        &self,
        sample: &SampledCalls,
        sampled: &SampledWaits,
        estimated: &Estimated,
        sink: &mut Sink<'_>,
    ) {
        // Limits the time that very large communicators take: each instance has as many pairs as members squared.
        const MOST_PAIRS: usize = 1 << 31;
        let pairs = self.members.len().pow(2).saturating_mul(sample.numbers.len());
        let step = pairs.div_ceil(MOST_PAIRS).max(1);
        let scale = |member: usize| {
            let waited_s: f64 = sampled.waited[member].iter().step_by(step).sum();
            if waited_s > 0.0 { estimated.suffered[member].total / waited_s } else { 0.0 }
        };
        let scales: Vec<f64> = (0..self.members.len()).map(scale).collect();
        sample.pairs(self.dependence, step, |waiting, cause, time_s| {
            sink(self.members[waiting], self.members[cause], time_s * scales[waiting]);
        });
    }

    /// The known sums over all recorded instances.
    fn totals(&self, clocks: &Clocks, hosts: &[usize], counted: &[(u64, f64)], means: &Means) -> Totals {
        let most = counted.iter().map(|(calls, _)| *calls).max().unwrap_or(0);
        let mean_of = |(&rank, &host): (&u32, &usize)| {
            let Recorded { instances, mean_arrival_s: mean_s, .. } = *means.get(&self.key(rank))?;
            Some((instances, clocks.common_of_mean_s(host, mean_s)))
        };
        let found: Option<Vec<(u64, f64)>> = self.members.iter().zip(hosts).map(mean_of).collect();
        // Means over other instances cannot be compared.
        let is_same = counted.iter().all(|(calls, _)| *calls == most);
        let found = found.filter(|found| is_same && found.iter().all(|(made, _)| *made == found[0].0));
        let mean_times_s = counted.iter().map(|&(calls, time_s)| time_s / calls.max(1) as f64);
        Totals {
            instances: most,
            mean_times_s: Some(mean_times_s.collect()),
            most_s: Vec::new(),
            mean_arrivals_s: found.map(|found| found.into_iter().map(|(_, mean_s)| mean_s).collect()),
        }
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
