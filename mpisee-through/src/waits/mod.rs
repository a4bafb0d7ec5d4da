//! Who waits for whom in collective operations and messages, from sampled times of arrival.
//!
//! `arrivals` reads the samples and joins them over the members of a communicator, `hosts` and
//! `clocks` put the times of all hosts on one clock. `dependence` says on whom a member depends,
//! `instance` computes the waits in one call from that, `totals`, `operation` and `estimate` those
//! in all calls, `pattern` finds who stands out, `elsewhere` whether these waited themselves, and
//! [`sentence`] says so. `collective` puts these together, [`messages`] does the same for
//! point-to-point messages.

mod arrivals;
mod clocks;
mod collective;
mod dependence;
mod elsewhere;
mod estimate;
#[cfg(test)]
mod fixtures;
mod hosts;
mod instance;
pub mod measured;
pub mod messages;
mod operation;
mod pattern;
mod pools;
#[cfg(test)]
mod programs;
mod root;
pub mod sentence;
mod totals;

use crate::filter::{CallFilter, CallPattern, CommFilter};
use crate::group::{By, seconds};
use crate::polls::may_be_of_hang;
use crate::scan::{self, BadField, Fold, Peer};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use collective::{CallKey, Collective, Means, Silent};
pub use elsewhere::InPolls;
use elsewhere::MpiTimes;
pub use estimate::{Estimate, FEWEST};
use hashbrown::HashMap as Map;
pub use hosts::Clocks;
pub use messages::join::WithoutTimes;
use messages::{Class, MESSAGES, MessageCounts, Times};
use mpisee_profile::rows::{ArrivalRow, MessageRow, OutsideRow, Row};
use mpisee_profile::{Operation, OperationKind, Profile, ProfileError, RankSet};
pub use pattern::Finding;
use pools::Pools;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Takes who waited for whom: the communicator, the rank that waited, the one that it waited for,
/// and how long in all calls, in seconds.
pub type Sink<'s> = &'s mut dyn FnMut(&str, u32, u32, f64);

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
    /// The profile has no calls of some member.
    Calls,
    /// Numbers of persistent operations count those that were started while recording was off.
    Off,
    /// Several persistent requests were started in unlike numbers, and sampled in unlike parts.
    Requests,
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
    /// How long others waited for it, and how long it waited, in all calls; none if the sample is
    /// too small to tell.
    pub caused: Option<Estimate>,
    pub suffered: Option<Estimate>,
    /// Of messages, the parts of both.
    pub directions: Option<Directions>,
}

/// The waits of a rank by the end of messages that others, or it, waited for; in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Directions {
    /// How long it waited for senders, and for receivers.
    pub suffered_s: [f64; 2],
    /// How long others waited for it as sender, and as receiver.
    pub caused_s: [f64; 2],
}

/// The waits in an operation on a communicator, or in its messages.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub comm: String,
    /// The operation's name, or [`MESSAGES`].
    pub call: String,
    /// Other communicators of the same ranks, whose waits are in it.
    pub others: u64,
    /// All recorded calls, and those whose arrivals are known of all members; or messages.
    pub instances: u64,
    pub sampled: u64,
    /// True if members wait in other calls than those of the operation.
    pub is_nonblocking: bool,
    /// True if nobody is named since operations that all had started may have been held up by a
    /// member that was away from MPI.
    pub may_lack_progress: bool,
    /// True if nobody is named since the waiting is less than 1 % of the wall time of its members.
    pub is_small: bool,
    /// Of messages, the time in blocking sends, in seconds, and of that waiting for receivers.
    pub sends: Option<(f64, Estimate)>,
    /// The time of all members, in seconds.
    pub time_s: f64,
    /// Of that, waiting for others; none if the sample is too small to tell.
    pub waiting: Option<Estimate>,
    pub members: Vec<Member>,
    /// The findings; members by position.
    pub findings: Vec<Finding>,
}

impl Waiting {
    /// Returns whether it is about messages.
    pub fn is_of_messages(&self) -> bool {
        self.call == MESSAGES
    }
}

/// A rank that caused, or suffered, more than this part of the waiting is mentioned although it
/// does not stand out from the noise.
const MOST_BY_ONE: f64 = 0.75;

/// The rank that has nearly all of what `part` says of the members of these operations, if one has,
/// and its part. It may be in few calls or have a wide interval, so that another run may have
/// another one.
pub fn most_of_one<'w>(
    operations: impl Iterator<Item = &'w Waiting>,
    part: impl Fn(&Member) -> Option<Estimate>,
) -> Option<(u32, f64)> {
    largest(operations, part).filter(|(_, share)| *share > MOST_BY_ONE)
}

/// The rank that has most of what `part` says of the members of these operations, and its part.
pub fn largest<'w>(
    operations: impl Iterator<Item = &'w Waiting>,
    part: impl Fn(&Member) -> Option<Estimate>,
) -> Option<(u32, f64)> {
    let mut sums_s: BTreeMap<u32, f64> = BTreeMap::new();
    for member in operations.flat_map(|one| &one.members) {
        *sums_s.entry(member.rank).or_default() += part(member).map_or(0.0, |part| part.total);
    }
    let all_s: f64 = sums_s.values().sum();
    let (rank, most_s) = sums_s.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    (all_s > 0.0).then(|| (rank, most_s / all_s))
}

/// Who waits for whom.
pub struct Report {
    /// By communicator and operation, in the order of names.
    pub operations: Vec<Waiting>,
    /// Of communicators of the same ranks together, those of which somebody stands out that does
    /// not on one of them.
    pub together: Vec<Waiting>,
    /// The names of hosts.
    pub hosts: Vec<String>,
    /// By host, how far off its clock may be beside the others, in seconds.
    pub uncertainty_s: Vec<f64>,
    /// By communicator, the time of all ranks in collective operations, in seconds.
    pub collective_s: BTreeMap<String, f64>,
    /// The same in calls about messages; nothing if the profile has no sample of these.
    pub message_s: BTreeMap<String, f64>,
    /// The time of ranks in all of MPI, to look for waits that are not measured.
    mpi: MpiTimes,
    /// Messages without times by the reason, and the ranks at fault; of the chosen communicators.
    pub without_times: BTreeMap<WithoutTimes, (u64, BTreeSet<u32>)>,
    /// All their messages.
    pub messages: u64,
    /// Operations with samples and without waits, by the reason.
    pub left_out: LeftOutBy,
    /// Sampled calls that are left out since some member lacks them.
    pub partial: u64,
    /// The error that ended reading.
    pub cut_off: Option<ProfileError>,
}

impl Report {
    /// The time of ranks in calls that test or probe for messages.
    pub fn in_polls(&self, takes: impl Fn(u32) -> bool) -> Option<InPolls<'_>> {
        self.mpi.in_polls(takes)
    }
}

/// Waiting below this part of the members' wall time is no finding.
const LEAST_OF_RUN: f64 = 0.01;

/// Computes the waits of the operations that the filter takes; its choice of ranks does not matter.
pub fn measure(view: &ProfileView, filter: &CallFilter) -> Result<Report> {
    with_pairs(view, filter, None)
}

/// The same; `sink` gets who waited for whom.
pub fn with_pairs(view: &ProfileView, filter: &CallFilter, mut sink: Option<Sink<'_>>) -> Result<Report> {
    let ranks = view.ranks("the arrival of single ranks")?;
    need_samples(view.profile())?;
    let mut clocks = Clocks::new(ranks.iter().map(|row| (row.rank, row.host.as_str())));
    let samples = Samples::read(view, &mut clocks)?;
    let calls = Calls::read(view, filter)?;
    let uncertainty_s = (0..clocks.names.len()).map(|host| clocks.uncertainty_s(host)).collect();
    let mut report = Report {
        operations: Vec::new(),
        together: Vec::new(),
        hosts: clocks.names.clone(),
        uncertainty_s,
        collective_s: BTreeMap::new(),
        message_s: BTreeMap::new(),
        mpi: MpiTimes::default(),
        without_times: BTreeMap::new(),
        messages: 0,
        left_out: samples.left_out,
        partial: 0,
        cut_off: samples.cut_off,
    };
    let known = ProfileTotals {
        view,
        filter,
        calls: &calls,
        silent: &Silent::read(view, &samples.collectives)?,
        means: &collective::mean_arrivals(view)?,
        wall_s: ranks.iter().map(|row| (row.rank, row.wall_s.0)).collect(),
    };
    report.add_collectives(samples.collectives, &clocks, &known, sink.as_mut())?;
    if let Some(comms) = samples.comms_of_messages.filter(|_| filter.takes_call(MESSAGES)) {
        report.add_messages(samples.messages, &comms, &clocks, &known, sink)?;
    }
    for operations in report.left_out.values_mut() {
        operations.retain(|(comm, call)| known.takes(comm, call));
    }
    report.left_out.retain(|_, operations| !operations.is_empty());
    report.collective_s = calls.collective_s;
    report.mpi = calls.mpi;
    report.cut_off = report.cut_off.take().or(calls.cut_off);
    Ok(report)
}

/// The samples of a profile, joined over ranks.
struct Samples {
    collectives: Vec<Collective>,
    messages: messages::join::Joined,
    /// The communicators of messages by their numbers; none of a profile without samples of
    /// messages.
    comms_of_messages: Option<Vec<String>>,
    left_out: LeftOutBy,
    cut_off: Option<ProfileError>,
}

impl Samples {
    /// Reads them, and puts the clocks of all hosts together.
    fn read(view: &ProfileView, clocks: &mut Clocks) -> Result<Self> {
        let (points, mut cut_off) = arrivals::read_if_any(view.profile())?;
        let mut tables = messages::join::Tables::read(view.profile())?;
        cut_off = cut_off.or(tables.cut_off.take());
        let has_messages = !tables.streams.is_empty();
        let messages = messages::join::join(&mut tables);
        let (collectives, left_out) = collective::join(points, view.processes(), clocks);
        messages::begin_with(&messages, clocks);
        let empty = if clocks.names.len() > 1 { collective::calls_of_nothing(view)? } else { HashSet::new() };
        let strict = collectives.iter().filter(|one| one.is_strict(&empty));
        let passed = messages::passed(&messages, clocks);
        clocks.join(strict.map(|one| (&one.joined, &one.members[..])), passed.into_iter());
        let comms_of_messages = has_messages.then_some(tables.comms.names);
        Ok(Samples { collectives, messages, comms_of_messages, left_out, cut_off })
    }
}

/// Exact sums over all calls, and the choice among them.
struct ProfileTotals<'a> {
    view: &'a ProfileView,
    filter: &'a CallFilter,
    calls: &'a Calls,
    silent: &'a Silent,
    means: &'a Means,
    /// By rank, in seconds.
    wall_s: HashMap<u32, f64>,
}

impl ProfileTotals<'_> {
    fn takes(&self, comm: &str, call: &str) -> bool {
        self.view.processes().takes_comm(&self.filter.comms, comm) && self.filter.takes_call(call)
    }
}

impl Report {
    fn add_collectives(
        &mut self,
        collectives: Vec<Collective>,
        clocks: &Clocks,
        known: &ProfileTotals<'_>,
        mut sink: Option<&mut Sink<'_>>,
    ) -> Result<()> {
        let mut pools = Pools::default();
        for one in collectives.into_iter().filter(|one| known.takes(&one.comm, &one.call)) {
            self.partial += one.joined.partial;
            match one.waiting(clocks, known, &mut pools, sink.as_deref_mut()) {
                Ok(waiting) => self.operations.push(waiting),
                Err(reason) => self.left_out.entry(reason).or_default().push((one.comm, one.call)),
            }
        }
        self.together = pools.findings(&known.wall_s);
        self.left_out.entry(LeftOut::Partial).or_default().extend(collective::without_samples(known.means));
        Ok(())
    }

    /// Counts the messages without times on the communicators with these numbers.
    fn count_messages(
        &mut self,
        joined: &messages::join::Joined,
        comms: &[String],
        counts: &MessageCounts,
        known: &ProfileTotals<'_>,
    ) {
        let takes = |comm: &str| known.takes(comm, MESSAGES);
        let mut add = |reason: WithoutTimes, rank: u32, messages: u64| {
            let (sum, ranks) = self.without_times.entry(reason).or_default();
            *sum = sum.saturating_add(messages);
            ranks.insert(rank);
        };
        for (&(comm, reason, rank), &messages) in &joined.left_out {
            if takes(&comms[comm as usize]) {
                add(reason, rank, messages);
            }
        }
        let in_streams = joined.messages.iter().map(|(&(comm, rank), &messages)| {
            let comm = comms[comm as usize].as_str();
            ((comm, rank), messages)
        });
        let in_streams: Map<(&str, u32), u64> = in_streams.filter(|((comm, _), _)| takes(comm)).collect();
        self.messages = in_streams.values().copied().fold(0, u64::saturating_add);
        let counts = counts.iter().filter(|(comm, _)| takes(comm) && has_streams(known.view, comm));
        for (comm, of_comm) in counts {
            for (&(rank, _), &sent) in of_comm.iter().filter(|((_, is_received), _)| !is_received) {
                let known = in_streams.get(&(comm.as_str(), rank)).copied().unwrap_or(0);
                let more = sent.saturating_sub(known);
                self.messages = self.messages.saturating_add(more);
                if more > 0 && joined.full.contains(&rank) {
                    add(WithoutTimes::Full, rank, more);
                }
            }
        }
    }

    /// Adds the messages, of the communicators with these numbers; collectives are there.
    fn add_messages(
        &mut self,
        joined: messages::join::Joined,
        comms: &[String],
        clocks: &Clocks,
        known: &ProfileTotals<'_>,
        sink: Option<Sink<'_>>,
    ) -> Result<()> {
        let of_messages = messages::MessageTotals {
            times: &known.calls.of_messages,
            counts: counts_of_messages(known.view.profile())?,
            wall_s: &known.wall_s,
            was_off: known.view.run().recording_was_off,
        };
        let takes = |comm: &str| known.takes(comm, MESSAGES);
        self.count_messages(&joined, comms, &of_messages.counts, known);
        let (found, reasons) = messages::waits(joined, comms, clocks, &of_messages, takes, sink);
        let chosen = comms.iter().filter(|comm| takes(comm));
        self.message_s = known.calls.message_s(chosen, &found, &self.operations);
        self.operations.extend(found);
        for (reason, comm) in reasons {
            self.left_out.entry(reason).or_default().push((comm, MESSAGES.to_owned()));
        }
        Ok(())
    }
}

/// Returns whether messages on the communicator may be in streams.
fn has_streams(view: &ProfileView, comm: &str) -> bool {
    let row = view.processes().comms.get(comm);
    row.is_some_and(|row| row.count == 1 && row.size > 1 && row.members.remote.is_none())
}

/// An error where the profile has samples neither of collective calls nor of messages.
fn need_samples(profile: &Profile) -> Result<()> {
    if !has_samples(profile) {
        if let Some(imported) = &profile.run().imported {
            bail!(
                "'{}' has no samples of collective calls (arrivals.csv): {} does not record when ranks arrive",
                profile.directory().display(),
                imported.tool
            );
        }
        if profile.run().is_without_mpi() {
            bail!(
                "'{}' has no samples of calls, because its processes ran without MPI",
                profile.directory().display()
            );
        }
        bail!(
            "'{}' has no samples of collective calls (arrivals.csv): the run used --instances 0 or an older \
             mpisee, or no collective call of several ranks shows who waits for whom",
            profile.directory().display()
        );
    }
    Ok(())
}

/// Returns whether the profile has samples of collective calls or of messages.
pub fn has_samples(profile: &Profile) -> bool {
    [ArrivalRow::FILE, MessageRow::FILE].iter().any(|file| profile.directory().join(file).exists())
}

/// The operations of `calls.csv`.
struct Calls {
    /// Calls and seconds of collective operations.
    of_rank: HashMap<CallKey, (u64, f64)>,
    collective_s: BTreeMap<String, f64>,
    /// The time in calls about messages by communicator and rank.
    of_messages: Map<String, Map<u32, Times>>,
    mpi: MpiTimes,
    cut_off: Option<ProfileError>,
}

impl Calls {
    fn read(view: &ProfileView, filter: &CallFilter) -> Result<Self> {
        // Ranks may have waited on communicators that are not chosen.
        let mut groups =
            view.group(&CallFilter::default(), By { comm: true, rank: true, call: true, ..By::default() })?;
        let mut calls = Calls {
            of_rank: HashMap::new(),
            collective_s: BTreeMap::new(),
            of_messages: Map::new(),
            mpi: MpiTimes::default(),
            cut_off: groups.cut_off.take(),
        };
        for (key, cell) in &groups.cells {
            let (comm, call) = (groups.comm(key), groups.call(key));
            // NCCL's calls return before their operation has begun.
            let operation = Operation::from_name(call).filter(|operation| !operation.is_nccl());
            let Some(operation) = operation else { continue };
            let time_s = seconds(cell.time_ns);
            let may_be_of_hang = may_be_of_hang(call, comm, &view.run().ended_in);
            let of_messages = calls.of_messages.entry_ref(comm).or_default().entry(key.rank).or_default();
            match may_be_of_hang {
                true => of_messages.probes_s += time_s,
                false => add_time(of_messages, operation, time_s),
            }
            if !is_begin_or_end(operation) {
                calls.mpi.each_s.entry(key.rank).or_default().push(([key.comm, key.call], time_s));
                calls.mpi.of_hang.extend(may_be_of_hang.then_some([key.comm, key.call]));
            }
            let is_chosen = view.processes().takes_comm(&filter.comms, comm) && filter.takes_call(call);
            if operation.kind() == OperationKind::Collective && is_chosen {
                calls.of_rank.insert((comm.to_owned(), call.to_owned(), key.rank), (cell.calls, time_s));
                *calls.collective_s.entry(comm.to_owned()).or_insert(0.0) += time_s;
            }
        }
        calls.mpi.comms = groups.comms;
        calls.mpi.calls = groups.calls;
        Ok(calls)
    }

    /// By communicator with messages, the time in calls about these. Where calls wait for
    /// nonblocking collectives as well, it is without the time that these have in the sample.
    fn message_s<'c>(
        &self,
        comms: impl Iterator<Item = &'c String>,
        messages: &[Waiting],
        collectives: &[Waiting],
    ) -> BTreeMap<String, f64> {
        let mut others_s: Map<&str, f64> = Map::new();
        let are_known = |other: &&Waiting| other.is_nonblocking && other.waiting.is_some();
        for other in collectives.iter().filter(are_known) {
            *others_s.entry(&other.comm).or_default() += other.time_s;
        }
        let known_s: Map<&str, f64> = messages.iter().map(|one| (one.comm.as_str(), one.time_s)).collect();
        let time_s = |comm: &String| {
            let of_comm = self.of_messages.get(comm);
            let all_s: f64 = of_comm.map_or(0.0, |ranks| ranks.values().map(Times::sum).sum());
            let of = |times: &Map<&str, f64>| times.get(comm.as_str()).copied().unwrap_or(0.0);
            (all_s - of(&others_s)).max(of(&known_s))
        };
        comms.map(|comm| (comm.clone(), time_s(comm))).collect()
    }
}

/// `2-3, 7`.
fn rank_list(ranks: &[u32]) -> String {
    ranks.iter().copied().collect::<RankSet>().to_string().replace(',', ", ")
}

/// Returns whether it is called before, or after, all that may make a rank late.
fn is_begin_or_end(operation: Operation) -> bool {
    ["MPI_Init", "MPI_Init_thread", "MPI_Finalize"].contains(&operation.name())
}

/// Returns whether a program may wait by such calls, one after the other, and samples do not show
/// for whom.
fn is_poll(operation: Operation) -> bool {
    let is_test = ["MPI_Test", "MPI_Request_get_status"].iter().any(|it| operation.name().starts_with(it));
    let asks = operation.kind() == OperationKind::Probe || is_test;
    asks && Class::from_call(operation.name()).is_none()
}

/// Adds the time in an operation to that of messages, if it is about messages or may be.
fn add_time(times: &mut Times, operation: Operation, time_s: f64) {
    let is_persistent = operation.kind() == OperationKind::Collective && operation.name().ends_with("_init");
    if operation.starts_request() || is_persistent {
        times.starts.add(operation);
    }
    match (operation.kind(), Class::from_call(operation.name())) {
        (_, Some(class)) => times.by_class_s[class as usize] += time_s,
        (OperationKind::PointToPoint | OperationKind::Completion, None) => times.other_s += time_s,
        (OperationKind::Probe, None) => times.probes_s += time_s,
        _ => times.has_other_requests |= operation.starts_request() || is_persistent,
    }
}

/// Messages between ranks, by communicator, rank, and whether it received them.
#[derive(Default)]
struct Counts {
    comms: crate::group::Names,
    of: Map<(u32, u32, bool), u64>,
}

impl Fold<Peer<'static>> for Counts {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        // Other rows are of messages that were received, or of one-sided operations alone.
        if row.sent_messages == 0 {
            return Ok(());
        }
        if let Some(comm) = self.comms.number(row.comm, "comm", |_| true)? {
            for end in [(comm, row.rank, false), (comm, row.peer, true)] {
                *self.of.entry(end).or_default() += row.sent_messages;
            }
        }
        Ok(())
    }
}

/// The messages of `peers.csv`, and those with other worlds, of which nothing is sampled.
fn counts_of_messages(profile: &Profile) -> Result<MessageCounts> {
    let mut all = MessageCounts::new();
    for Counts { comms, of } in scan::scan::<Peer, Counts>(profile, Counts::default)?.folds {
        for ((comm, rank, is_received), messages) in of {
            let of_comm = all.entry_ref(comms.names[comm as usize].as_str()).or_default();
            *of_comm.entry((rank, is_received)).or_default() += messages;
        }
    }
    for row in profile.rows_if_any::<OutsideRow>()? {
        let row = row?;
        let of_comm = all.entry_ref(row.comm.as_str()).or_default();
        *of_comm.entry((row.rank, false)).or_default() += row.sent_messages;
        *of_comm.entry((row.rank, true)).or_default() += row.received_messages;
    }
    Ok(all)
}

/// The choice of communicators and operations without that of ranks, which is made of the result.
pub fn filter(comms: &CommFilter, calls: &[CallPattern]) -> CallFilter {
    CallFilter::of_calls(comms.without_ranks(), calls)
}
