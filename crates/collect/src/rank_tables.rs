//! From a snapshot to the rows of the profile directory.

mod comms;

pub(crate) use comms::{Membership, comms, memberships};
pub use comms::{is_merged, members, merge, merge_degrees};

use crate::arrivals::{self, Arrivals};
use crate::form::{AsRows, Form};
use crate::gpu::{GpuPart, name_communicators};
use crate::order::{Named, OrderTables};
use crate::overhead::Overhead;
use crate::site_tables::SiteTables;
use crate::ticks::seconds_per_tick;
use mpisee_profile::nccl::Pair;
use mpisee_profile::rows::{
    CallRow, CommRow, Cpus, Memory, NcclPeerRow, NcclTimeRow, OutsideRow, PeerRow, RankRow, RegionRow,
    Seconds, VariableRow,
};
use mpisee_profile::segment::device_fact::DeviceFact;
use mpisee_profile::segment::key::{
    CallKey, GpuTimeKey, Meaning, OneSidedKind, PeerKey, PollErrorKey, TargetKey, class_bounds,
};
use mpisee_profile::segment::layout::{call, gpu_time, peer, poll_error, region, target, variable};
use mpisee_profile::segment::membership::{has_elided_members, reports, reports_side};
use mpisee_profile::segment::names::names;
use mpisee_profile::segment::snapshot::{Communicator, Moment, SharedRow, Snapshot};
use mpisee_profile::writer::Begin;
use mpisee_profile::{CommId, CommRank, Operation, RankSet, RegionId, SiteId, Ticks, WorldRank};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The table rows of one rank.
#[derive(Debug)]
pub struct RankTables<F: Form = AsRows> {
    /// The process.
    pub rank: RankRow,
    /// The communicators that it reports. Of most, the member of rank 0 does, or the first of this
    /// world; those for which [`merge`] exists are reported by every member.
    pub comms: Vec<CommRow>,
    /// Its calls.
    pub calls: F::Of<CallRow>,
    /// Its peers.
    pub peers: Vec<PeerRow>,
    /// Its peers in other worlds.
    pub outside: Vec<OutsideRow>,
    /// Its peers in communicators of NCCL.
    pub nccl_peers: Vec<NcclPeerRow>,
    /// How long the GPU worked on calls of NCCL.
    pub nccl_times: Vec<NcclTimeRow>,
    /// Its regions.
    pub regions: Vec<RegionRow>,
    /// Variables of its MPI.
    pub variables: Vec<VariableRow>,
    /// When it entered and left collective calls; none of a process whose clock cannot be compared
    /// with others.
    pub arrivals: Arrivals<F>,
    /// In which order it called MPI, if the user asked for that.
    pub order: OrderTables,
    /// Where in the program it called MPI.
    pub site_tables: SiteTables,
    /// The time that recording its calls took.
    pub overhead: Overhead,
    /// The GPUs that it sees, and what its node has near them.
    pub devices: Vec<DeviceFact>,
    /// Accesses of its GPU kernels, and copies, which the caller reads from another file than the
    /// segment.
    pub gpu: Vec<GpuPart>,
    /// The names of its communicators, by number.
    pub names: Vec<String>,
}

impl<F: Form> RankTables<F> {
    /// The rows of `snapshot`, taken at `end`.
    pub fn new(snapshot: &Snapshot, end: Moment) -> Self {
        RankTables::of_arrived(&RankSet::default(), snapshot, end)
    }

    /// The rows of a process that ended without `MPI_Finalize`, up to its last sign of life. It
    /// reports every communicator that it has, since it is unknown which other members can.
    pub fn of_ended(snapshot: &Snapshot) -> Self {
        let compared_at = arrivals::end_of_ended(snapshot);
        RankTables::reporting(snapshot, snapshot.last_known(), compared_at, |_, _| true)
    }

    /// As [`RankTables::new`], in a run in which the ranks `absent` report nothing, and others take
    /// their place.
    pub fn of_arrived(absent: &RankSet, snapshot: &Snapshot, end: Moment) -> Self {
        RankTables::reporting(snapshot, end, Some(end), |communicator, name| {
            let Communicator { created, topology, .. } = communicator;
            let is_merged = has_elided_members(created) || comms::is_reported_by_all(name, topology);
            is_merged || reports(created, absent) || reports_side(created, absent)
        })
    }

    /// With what the process's GPU kernels accessed, and the devices that ran them.
    pub fn with_kernels(mut self, mut parts: Vec<GpuPart>) -> Self {
        let mut devices = BTreeSet::new();
        parts.retain(|part| {
            let GpuPart::Device(device) = part else { return true };
            devices.insert(device.clone());
            false
        });
        // Where kernels were traced, a device with a context alone is not used.
        if !devices.is_empty() {
            self.rank.gpu = Vec::from_iter(devices).join("|");
        }
        name_communicators(&mut parts, &self.names);
        self.gpu = parts;
        self
    }

    /// The rows of a process; `is_reported` selects the communicators that it reports. At
    /// `compared_at` its clock is compared with those of others, if it can be.
    fn reporting(
        snapshot: &Snapshot,
        end: Moment,
        compared_at: Option<Moment>,
        is_reported: impl Fn(&Communicator, &str) -> bool,
    ) -> Self {
        let mut rows = Rows {
            snapshot,
            names: names(snapshot),
            paths: region_paths(snapshot),
            threads: threads_by_region(snapshot),
            site_ids: snapshot.site_ids(),
            seconds: seconds_per_tick(snapshot, end),
            end: end.ticks,
            poll_errors: HashMap::new(),
        };
        let by_site = snapshot.counters_by_site(&rows.site_ids);
        let (mut calls, mut peer_rows, mut nccl_peers) = (vec![], BTreeMap::new(), vec![]);
        let (mut regions, mut variables, mut nccl_times) = (vec![], vec![], vec![]);
        for (key, values) in &*by_site {
            match key.meaning() {
                Some(Meaning::Call(key)) => {
                    let operation = snapshot.operation_at(key.operation).map(|(operation, _)| operation);
                    calls.push(Call { key, operation, values });
                }
                Some(Meaning::Peer(key)) if rows.is_of_nccl(key) => {
                    nccl_peers.extend(rows.nccl_peer(key, values));
                }
                Some(Meaning::Peer(key)) => rows.set_messages(&mut peer_rows, key, values),
                Some(Meaning::Target(key)) => rows.set_one_sided(&mut peer_rows, key, values),
                Some(Meaning::Region(id)) => regions.push((id, values)),
                Some(Meaning::Variable(number, region)) => {
                    variables.extend(rows.variable(number, region, values));
                }
                Some(Meaning::GpuTime(key)) => nccl_times.extend(rows.nccl_time(key, values)),
                Some(Meaning::PollError(error)) => {
                    rows.poll_errors.insert(error, values);
                }
                _ => {}
            }
        }
        let (outside, peers): (Vec<_>, Vec<_>) =
            peer_rows.into_iter().partition(|(_, row)| row.peer == WorldRank::OUTSIDE.get());
        let (mpi_ticks, mpi_ticks_by_region) = time_in_mpi(snapshot, &calls);
        let regions = regions
            .into_iter()
            .filter_map(|(id, values)| rows.region(id, values, *mpi_ticks_by_region.get(id.index())?));
        let mut rank = rows.rank(mpi_ticks);
        let overhead = Overhead::from_snapshot(snapshot, &rows.seconds).within(rank.wall_s);
        rank.profiler_s = overhead.estimate_s;
        RankTables {
            order: OrderTables::new(&rows.named(), &rows.seconds),
            site_tables: SiteTables::new(snapshot, &rows.names, &rows.seconds),
            arrivals: compared_at
                .map_or_else(Arrivals::default, |end| Arrivals::new(snapshot, &rows.names, end)),
            rank,
            comms: comms(snapshot, &rows.names, is_reported),
            regions: regions.collect(),
            variables,
            nccl_times,
            calls: rows.calls::<F>(&mut calls),
            peers: peers.into_iter().map(|(_, row)| row).collect(),
            outside: outside.into_iter().map(|(key, row)| outside_row(row, key)).collect(),
            nccl_peers,
            overhead,
            devices: snapshot.program.devices.clone(),
            gpu: Vec::new(),
            names: rows.names,
        }
    }
}

/// Calls of one operation.
struct Call<'c> {
    key: CallKey,
    /// `None` of one that no writer makes.
    operation: Option<Operation>,
    values: &'c [u64; 6],
}

/// The rows of peers, of messages and one-sided operations together.
type PeerRows = BTreeMap<PeerKey, PeerRow>;

/// The rows of one process: its counters with names instead of numbers, and seconds instead of
/// ticks.
struct Rows<'a, F> {
    snapshot: &'a Snapshot,
    /// Of communicators, by number.
    names: Vec<String>,
    /// Of regions, by number.
    paths: Vec<String>,
    /// Of regions, by number: the threads that call MPI in them; `None` if that is unknown.
    threads: Option<Vec<BTreeSet<u64>>>,
    /// Of call sites, by number.
    site_ids: Vec<Option<SiteId>>,
    seconds: F,
    /// The moment of the snapshot.
    end: Ticks,
    /// The errors of the times of polls.
    poll_errors: HashMap<PollErrorKey, &'a [u64; 6]>,
}

impl<F: Fn(Ticks) -> Seconds> Rows<'_, F> {
    /// The row of the rank, without what recording took of it.
    fn rank(&self, mpi_ticks: Ticks) -> RankRow {
        let Snapshot { cpu_at_start, cpu_at_end, node_cpus, cpu_quota, program, .. } = self.snapshot;
        let used = cpu_at_end.zip(*cpu_at_start).map(|(end, start)| end.since(start));
        let of_us = |us: u64| Seconds(us as f64 * 1e-6);
        let cpus_allowed = program.cpus.last().cloned().unwrap_or_default();
        RankRow {
            cpu_user_s: used.map(|used| of_us(used.user_us)),
            cpu_system_s: used.map(|used| of_us(used.system_us)),
            cpu_wait_s: used.and_then(|used| used.wait_ns).map(|wait_ns| Seconds(wait_ns as f64 * 1e-9)),
            involuntary_switches: used.map(|used| used.involuntary_switches),
            voluntary_switches: used.map(|used| used.voluntary_switches),
            minor_faults: used.map(|used| used.minor_faults),
            major_faults: used.map(|used| used.major_faults),
            cpus_at_start: program
                .cpus
                .first()
                .filter(|&at_start| *at_start != cpus_allowed)
                .cloned()
                .unwrap_or_default(),
            node_cpus: Some(*node_cpus).filter(|&cpus| cpus > 0),
            cpu_quota: cpu_quota.map(|thousandths| thousandths.get() as f64 * 1e-3),
            rank: self.snapshot.world_rank.get(),
            host: self.snapshot.host.clone(),
            pid: self.snapshot.pid,
            wall_s: (self.seconds)(self.end.saturating_sub(self.snapshot.start_ticks)),
            mpi_s: (self.seconds)(mpi_ticks),
            gpu: devices_used(&program.devices),
            numa_nodes: numa_nodes(&program.devices, &cpus_allowed),
            profiler_s: Seconds(0.0),
            cpus_allowed,
            mpi_threads: u32::try_from(self.snapshot.threads()).ok(),
            mpi_thread_s: self.snapshot.thread_ticks(self.end).map(&self.seconds),
        }
    }

    fn named(&self) -> Named<'_> {
        Named { snapshot: self.snapshot, comms: &self.names, regions: &self.paths, sites: &self.site_ids }
    }

    /// The rows of calls, which come in the order of their keys.
    ///
    /// Rows are sorted by communicator, region, operation, size and site.
    fn calls<T: Form>(&self, calls: &mut [Call]) -> T::Of<CallRow> {
        let mut rows = T::Of::default();
        let rank = self.snapshot.world_rank.to_string();
        let place = |call: &Call| (call.key.communicator, call.key.region);
        for calls in calls.chunk_by_mut(|one, other| place(one) == place(other)) {
            let (comm, region) = place(&calls[0]);
            let (comm, region) = (self.names.get(comm.index()), self.paths.get(region.index()));
            let (Some(comm), Some(region)) = (comm, region) else { continue };
            calls.sort_unstable_by_key(|&Call { key, operation, .. }| {
                (operation.map(|operation| operation as u16), key.size_class, key.operation, key.memory)
            });
            // PERF: a rank may have hundreds of thousands of rows. Their common begin is made once.
            let begin = Begin::new(&[comm, &rank, region]);
            let mut texts = [comm.clone(), region.clone(), String::new()];
            for &Call { key, operation, values } in calls.iter() {
                let is_counted = values[call::CALLS] > 0 || values[call::BYTES] > 0;
                let Some(operation) = operation.filter(|_| is_counted) else { continue };
                let row = self.call(texts, key, operation, values);
                T::add(&mut rows, &begin, &row);
                texts = [row.comm, row.region, row.call];
            }
        }
        rows
    }

    /// The row of calls. It takes the names of the communicator and the region, and a text that
    /// becomes the name of the operation.
    fn call(
        &self,
        [comm, region, mut name]: [String; 3],
        key: CallKey,
        operation: Operation,
        values: &[u64; 6],
    ) -> CallRow {
        let (size_min, size_max) = class_bounds(key.size_class);
        name.clear();
        name.push_str(operation.name());
        CallRow {
            comm,
            rank: self.snapshot.world_rank.get(),
            region,
            call: name,
            size_min,
            size_max,
            memory: key.memory,
            site: key.operation.site_number().and_then(|number| *self.site_ids.get(number as usize)?),
            calls: values[call::CALLS],
            bytes: values[call::BYTES],
            time_s: (self.seconds)(Ticks::new(values[call::TICKS])),
            min_s: (self.seconds)(Ticks::new(values[call::SHORTEST_PLUS_1].saturating_sub(1))),
            max_s: (self.seconds)(Ticks::new(values[call::LONGEST])),
            time_error_s: self.poll_error(key).map(&self.seconds),
        }
    }

    /// Half of the 95 % interval of the time of calls of which not all were timed.
    fn poll_error(&self, key: CallKey) -> Option<Ticks> {
        let CallKey { communicator, region, operation, size_class: 0, memory: Memory::Host } = key else {
            return None;
        };
        let values = self.poll_errors.get(&PollErrorKey { communicator, region, operation })?;
        let error = 1.96 * (values[poll_error::VARIANCE] as f64).sqrt() + values[poll_error::DOUBT] as f64;
        (values[poll_error::UNTIMED] > 0).then(|| Ticks::new(error.ceil() as u64))
    }

    fn set_messages(&self, rows: &mut PeerRows, key: PeerKey, values: &[u64; 6]) {
        let Some([sent_messages, sent_bytes, received_messages, received_bytes]) = messages(values) else {
            return;
        };
        if let Some(row) = self.peer_row(rows, key, values) {
            row.sent_messages = sent_messages;
            row.sent_bytes = sent_bytes;
            row.received_messages = received_messages;
            row.received_bytes = received_bytes;
        }
    }

    fn set_one_sided(&self, rows: &mut PeerRows, key: TargetKey, values: &[u64; 6]) {
        let Some(row) = self.peer_row(rows, key.peer, values) else { return };
        match key.kind {
            OneSidedKind::PutsAndGets => {
                row.puts = values[target::PUTS];
                row.put_bytes = values[target::PUT_BYTES];
                row.gets = values[target::GETS];
                row.get_bytes = values[target::GET_BYTES];
            }
            OneSidedKind::Accumulates => {
                row.accumulates = values[target::ACCUMULATES];
                row.accumulate_bytes = values[target::ACCUMULATE_BYTES];
            }
        }
    }

    /// Returns the row of a peer, and adds it if it is missing. Where members are not listed,
    /// `values` has the peer's world rank.
    fn peer_row<'r>(
        &self,
        rows: &'r mut PeerRows,
        key: PeerKey,
        values: &[u64; 6],
    ) -> Option<&'r mut PeerRow> {
        let communicator = self.snapshot.communicators.get(key.communicator.index())?;
        let created = &communicator.created;
        let peer_group = created.remote.as_ref().unwrap_or(&created.group);
        let peer = match (communicator.shared_row, values[peer::WORLD_RANK_PLUS_1]) {
            (Some(SharedRow::Changing), _) => WorldRank::new(key.peer.get()),
            (_, 0) => peer_group.get(key.peer).filter(|&rank| rank != WorldRank::ELIDED)?,
            (_, plus_1) => WorldRank::new(u32::try_from(plus_1 - 1).ok()?),
        };
        let comm = self.names.get(key.communicator.index())?;
        Some(rows.entry(key).or_insert_with(|| PeerRow {
            comm: comm.clone(),
            rank: self.snapshot.world_rank.get(),
            peer: peer.get(),
            ..PeerRow::default()
        }))
    }

    fn is_of_nccl(&self, key: PeerKey) -> bool {
        let communicator = self.snapshot.communicators.get(key.communicator.index());
        communicator.is_some_and(|communicator| communicator.created.is_of_nccl())
    }

    fn nccl_peer(&self, key: PeerKey, values: &[u64; 6]) -> Option<NcclPeerRow> {
        let [sent_messages, sent_bytes, received_messages, received_bytes] = messages(values)?;
        let Pair { own, peer } = Pair::unpack(key.peer);
        Some(NcclPeerRow {
            comm: self.names.get(key.communicator.index())?.clone(),
            rank: self.snapshot.world_rank.get(),
            rank_in_comm: CommRank::new(own),
            peer_in_comm: CommRank::new(peer),
            device: self.device_of(key.communicator, CommRank::new(own)),
            sent_messages,
            sent_bytes,
            received_messages,
            received_bytes,
        })
    }

    /// The GPU of a rank of the process in a communicator of NCCL; empty if it is not known.
    fn device_of(&self, of: CommId, own: CommRank) -> String {
        let uuid = |fact: &DeviceFact| match fact {
            DeviceFact::NcclRank { comm, rank, uuid } if (*comm, *rank) == (of.get(), own) => {
                Some(uuid.clone())
            }
            _ => None,
        };
        self.snapshot.program.devices.iter().find_map(uuid).unwrap_or_default()
    }

    fn nccl_time(&self, key: GpuTimeKey, values: &[u64; 6]) -> Option<NcclTimeRow> {
        let (size_min, size_max) = class_bounds(key.size_class);
        let of_ns = |ns: u64| Seconds(ns as f64 * 1e-9);
        let (calls, untimed) = (values[gpu_time::CALLS], values[gpu_time::UNTIMED]);
        (calls > 0 || untimed > 0).then_some(())?;
        Some(NcclTimeRow {
            comm: self.names.get(key.communicator.index())?.clone(),
            rank: self.snapshot.world_rank.get(),
            region: self.paths.get(key.region.index())?.clone(),
            call: Operation::from_index(key.operation.into())?.name().to_owned(),
            size_min,
            size_max,
            calls,
            untimed,
            bytes: values[gpu_time::BYTES],
            gpu_s: of_ns(values[gpu_time::NS]),
            min_s: of_ns(values[gpu_time::SHORTEST_NS_PLUS_1].saturating_sub(1)),
            max_s: of_ns(values[gpu_time::LONGEST_NS]),
        })
    }

    fn variable(&self, number: u16, region: RegionId, values: &[u64; 6]) -> Option<VariableRow> {
        let info = self.snapshot.program.variables.get(usize::from(number))?;
        let real = |which: usize| Some(f64::from_bits(values[which])).filter(|number| number.is_finite());
        let grows = grows(&info.class);
        let (value, readings) = (real(variable::VALUE)?, values[variable::READINGS]);
        (readings > 0).then(|| VariableRow {
            rank: self.snapshot.world_rank.get(),
            region: self.paths.get(region.index()).cloned().unwrap_or_default(),
            name: info.name.clone(),
            class: info.class.clone(),
            value,
            delta: real(variable::DELTA).filter(|_| grows),
            least: real(variable::LEAST).filter(|_| !grows),
            most: real(variable::MOST).filter(|_| !grows),
            readings,
        })
    }

    /// The threads that call MPI in a region.
    fn threads_in(&self, id: RegionId) -> Option<&BTreeSet<u64>> {
        self.threads.as_ref()?.get(id.index())
    }

    fn region(&self, id: RegionId, values: &[u64; 6], mpi_ticks: Ticks) -> Option<RegionRow> {
        let open = match values[region::OPEN_SINCE] {
            0 => Ticks::ZERO,
            since => self.end.saturating_sub(Ticks::new(since)),
        };
        let wall = open.wrapping_add(Ticks::new(values[region::TICKS]));
        let threads = self.threads_in(id);
        let lived = threads.and_then(|threads| self.snapshot.lived(threads.iter().copied(), wall, self.end));
        let if_ended = |value: usize| (values[region::OPEN_SINCE] == 0).then_some(values[value]);
        Some(RegionRow {
            rank: self.snapshot.world_rank.get(),
            region: self.paths.get(id.index())?.clone(),
            wall_s: (self.seconds)(wall),
            mpi_s: (self.seconds)(mpi_ticks),
            entries: values[region::ENTRIES],
            cpu_s: if_ended(region::CPU_US).map(|us| Seconds(us as f64 / 1e6)),
            involuntary_switches: if_ended(region::INVOLUNTARY_SWITCHES),
            mpi_threads: threads.and_then(|threads| u32::try_from(threads.len()).ok()),
            mpi_thread_s: lived.map(|lived| (self.seconds)(lived.max(wall))),
        })
    }
}

/// Messages and bytes sent and received; `None` of a slot that was made for what is counted in no
/// row.
fn messages(values: &[u64; 6]) -> Option<[u64; 4]> {
    use peer::{RECEIVED_BYTES, RECEIVED_MESSAGES, SENT_BYTES, SENT_MESSAGES};
    let counts = [SENT_MESSAGES, SENT_BYTES, RECEIVED_MESSAGES, RECEIVED_BYTES].map(|count| values[count]);
    counts.iter().any(|&count| count > 0).then_some(counts)
}

/// The devices that the process used, by their UUIDs.
fn devices_used(facts: &[DeviceFact]) -> String {
    let uuid = |fact: &DeviceFact| match fact {
        DeviceFact::Used(uuid) => Some(uuid.clone()),
        _ => None,
    };
    Vec::from_iter(BTreeSet::from_iter(facts.iter().filter_map(uuid))).join("|")
}

/// The NUMA nodes that have the CPUs; empty unless that is known of all of these.
fn numa_nodes(facts: &[DeviceFact], allowed: &Cpus) -> String {
    let node = |fact: &DeviceFact| match fact {
        DeviceFact::NumaNode(node, cpus) => Some((*node, cpus.clone())),
        _ => None,
    };
    let nodes: Vec<(u32, Cpus)> = facts.iter().filter_map(node).collect();
    let all = nodes.iter().fold(Cpus::default(), |all, (_, cpus)| all.union(cpus));
    if !allowed.is_within(&all) {
        return String::new();
    }
    let has_some = |cpus: &Cpus| cpus.iter().any(|cpu| allowed.contains(cpu));
    let numbers = nodes.iter().filter(|(_, cpus)| has_some(cpus)).map(|&(node, _)| node);
    numbers.collect::<RankSet>().to_string()
}

/// Returns whether variables of a class count something, so that what they grew is what happened
/// meanwhile.
fn grows(class: &str) -> bool {
    ["counter", "aggregate", "timer"].contains(&class)
}

/// Paths by region number: `solver/halo`; "" for 0.
fn region_paths(snapshot: &Snapshot) -> Vec<String> {
    let mut paths = vec![String::new()];
    for region in &snapshot.regions {
        let path = match paths.get(region.parent.index()).map(String::as_str) {
            None | Some("") => region.name.clone(),
            Some(outer) => format!("{outer}/{}", region.name),
        };
        paths.push(path);
    }
    paths
}

/// The time in MPI, of all calls and by region. That of NCCL's calls is none.
fn time_in_mpi(snapshot: &Snapshot, calls: &[Call]) -> (Ticks, Vec<Ticks>) {
    let mut all = Ticks::ZERO;
    let mut by_region = vec![Ticks::ZERO; snapshot.regions.len() + 1];
    for Call { key, operation, values } in calls {
        if operation.is_some_and(Operation::is_nccl) {
            continue;
        }
        let ticks = Ticks::new(values[call::TICKS]);
        all = all.wrapping_add(ticks);
        if let Some(sum) = by_region.get_mut(key.region.index()) {
            *sum = sum.wrapping_add(ticks);
        }
    }
    include_inner(snapshot, &mut by_region);
    (all, by_region)
}

/// Adds the ticks of nested regions to the regions around them. A nested region has the larger
/// number.
fn include_inner(snapshot: &Snapshot, ticks: &mut [Ticks]) {
    for (index, region) in snapshot.regions.iter().enumerate().rev() {
        let inner = ticks[index + 1];
        let outer = &mut ticks[region.parent.index()];
        *outer = outer.wrapping_add(inner);
    }
}

/// The threads that have made a recorded call in each region, or in one in it.
fn threads_by_region(snapshot: &Snapshot) -> Option<Vec<BTreeSet<u64>>> {
    let mut threads = vec![BTreeSet::new(); snapshot.regions.len() + 1];
    for (region, thread) in snapshot.callers.as_ref()? {
        threads.get_mut(region.index())?.insert(*thread);
    }
    for (index, region) in snapshot.regions.iter().enumerate().rev() {
        let inner = threads[index + 1].clone();
        threads[region.parent.index()].extend(inner);
    }
    Some(threads)
}

/// The row of a peer that has no rank in this world.
fn outside_row(row: PeerRow, key: PeerKey) -> OutsideRow {
    OutsideRow {
        comm: row.comm,
        rank: row.rank,
        peer_in_comm: key.peer,
        sent_messages: row.sent_messages,
        sent_bytes: row.sent_bytes,
        received_messages: row.received_messages,
        received_bytes: row.received_bytes,
        puts: row.puts,
        put_bytes: row.put_bytes,
        gets: row.gets,
        get_bytes: row.get_bytes,
        accumulates: row.accumulates,
        accumulate_bytes: row.accumulate_bytes,
    }
}
