//! Aggregation over ranks, for profiles of very large jobs.
//!
//! Each rank makes an [`Aggregate`] of its own tables. Two of them merge into one, in any order: on
//! the way to the writer, each rank adds its children's to its own. Nothing grows with the number
//! of ranks but the list of nodes. Communicators that are alike are one row, a family: see
//! [`mpisee_profile::CommName::family`].

mod check;
mod gpu;
mod node;
mod regions;
mod sites;
mod sums;
mod tables;
mod variables;

use gpu::GpuSums;
pub use gpu::MOST_OBJECTS;
use node::Node;
pub use node::node_rows;
use regions::{Region, own_regions};
pub use tables::AggregateTables;

use crate::devices::Devices;
use crate::rank_tables::{Membership, RankTables, is_merged, memberships, merge_degrees};
use mpisee_profile::comm_name::{derived, is_of_changing_members};
use mpisee_profile::rows::{CommRow, Memory, PeerCounts, PeerRow, Ranks};
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::{Operation, RankSet, SiteId};
use serde::{Deserialize, Serialize};
use sites::SiteSums;
use std::collections::{BTreeMap, HashMap};
use sums::{Join, Spread, merge, merge_equal_keys, merge_named};
use variables::VariableSums;

/// In the key of a [`Whole`], every communicator, or every operation.
const ALL: u32 = u32::MAX;
/// Offsets of a communicator that are counted one by one; where there are more, by powers of two.
const MOST_OFFSETS: usize = 64;

/// Sums over some ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    nodes: Vec<(String, Node)>,
    /// By family; the places are the numbers in other keys.
    comms: Vec<(String, Comm)>,
    /// By path; the places are the numbers in other keys.
    regions: Vec<(String, Region)>,
    cells: Vec<(CellKey, Cell)>,
    /// By communicator and operation, either of which may be [`ALL`].
    wholes: Vec<((u32, u32), Whole)>,
    offsets: Vec<(OffsetKey, Traffic)>,
    /// With processes of other worlds, by communicator.
    outside: Vec<(u32, Traffic)>,
    sites: SiteSums,
    variables: VariableSums,
    gpu: GpuSums,
    devices: Devices,
}

impl Join for Ranks {
    fn join(&mut self, other: Self) {
        Ranks::join(self, other);
    }
}

/// A communicator or a family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Comm {
    size: u32,
    count: u64,
    /// Its processes, each of which adds itself.
    group: Ranks,
    /// The other group of intercommunicators.
    remote: Option<Ranks>,
    /// Its description by the members that report it; `None` if these are not among the ranks.
    about: Option<About>,
}

/// The description of a communicator, or what those of a family have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct About {
    /// Its own name, unless there are several.
    name: Option<String>,
    parent: String,
    created_by: String,
    label: String,
    topology: String,
    reorder: Option<u8>,
    freed: u8,
    outside: [u32; 2],
}

impl Join for Comm {
    fn join(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.group.join(other.group);
        self.remote.join(other.remote);
        self.about.join(other.about);
    }
}

impl Join for About {
    fn join(&mut self, other: Self) {
        // Two reports of one communicator are of one that all members report.
        let same = self.name.is_some() && self.name == other.name;
        for (outside, more) in self.outside.iter_mut().zip(other.outside) {
            *outside = if same { (*outside).max(more) } else { outside.saturating_add(more) };
        }
        if !same {
            self.name = None;
        }
        let graphs = [&self.topology, &other.topology].iter().all(|text| text.starts_with("dist_graph"));
        if self.topology != other.topology {
            self.topology =
                if graphs { merge_degrees(&self.topology, &other.topology) } else { String::new() };
        }
        for (own, others) in [(&mut self.label, &other.label), (&mut self.created_by, &other.created_by)] {
            if own != others {
                own.clear();
            }
        }
        // A family may descend from several: that with the longest name, which the largest size
        // has.
        let rank = |name: &String| (name.len(), name.clone());
        if rank(&other.parent) > rank(&self.parent) {
            self.parent = other.parent;
        }
        self.reorder = if self.reorder == other.reorder { self.reorder } else { None };
        self.freed = self.freed.min(other.freed);
    }
}

/// A row of `totals.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct CellKey {
    comm: u32,
    operation: u16,
    region: u32,
    /// See [`size_class`].
    size_class: u8,
    memory: Memory,
    site: Option<SiteId>,
}

/// Sums of calls that are the same over ranks and for one rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct CallSums {
    calls: u64,
    bytes: u64,
    shortest_ns: u64,
    longest_ns: u64,
}

impl Join for CallSums {
    fn join(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.shortest_ns = self.shortest_ns.min(other.shortest_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The sums of a row of `totals.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cell {
    ranks: u64,
    sums: CallSums,
    time: Spread,
}

impl Join for Cell {
    fn join(&mut self, other: Self) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.sums.join(other.sums);
        self.time.join(other.time);
    }
}

/// The sums of one rank for a row of `totals.csv`.
#[derive(Clone, Copy, Debug)]
struct Own {
    sums: CallSums,
    time_ns: u64,
}

impl Join for Own {
    fn join(&mut self, other: Self) {
        self.sums.join(other.sums);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }
}

/// The sums of each rank as a whole, on a communicator, by an operation, or at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Whole {
    ranks: u64,
    calls: Spread,
    bytes: Spread,
    time: Spread,
}

impl Join for Whole {
    fn join(&mut self, other: Self) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.calls.join(other.calls);
        self.bytes.join(other.bytes);
        self.time.join(other.time);
    }
}

/// A communicator, and from where to where the offset of a peer is.
type OffsetKey = (u32, i64, i64);

/// Messages and one-sided operations with peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Traffic {
    pairs: u64,
    counts: PeerCounts,
}

impl Join for Traffic {
    fn join(&mut self, other: Self) {
        self.pairs = self.pairs.saturating_add(other.pairs);
        self.counts.add(other.counts);
    }
}

impl Aggregate {
    /// Of one rank, from its snapshot and the tables that were made of it, in a run in which the
    /// ranks `absent` report nothing.
    pub fn from_snapshot(snapshot: &Snapshot, tables: &RankTables, absent: &RankSet) -> Aggregate {
        let memberships = memberships(snapshot, absent);
        let rank = tables.rank.rank;
        Aggregate::with(tables, &memberships, |membership, row| {
            // Of those that all members report one of them counts, or each counts others.
            let counts =
                |row: &&CommRow| membership.reports || is_of_changing_members(&row.comm) || !is_merged(row);
            let (mut group, mut other) = membership.itself(rank);
            if let Some(row) = row.filter(|_| membership.reports && !absent.is_empty()) {
                group.join(among(&row.members.group, absent));
                row.members.remote.iter().for_each(|remote| other.join(among(remote, absent)));
            }
            let count = row.filter(counts).map_or(0, |row| row.count);
            (count, group, membership.is_inter.then_some(other))
        })
    }

    /// Of a process that ended without `MPI_Finalize`. It is not known beforehand which others did,
    /// so one report describes a whole communicator: `tables` has those that were not reported
    /// before, with all their members.
    pub fn of_ended(snapshot: &Snapshot, tables: &RankTables) -> Aggregate {
        let memberships = memberships(snapshot, &RankSet::default());
        Aggregate::with(tables, &memberships, |membership, row| {
            let listed = |set: &RankSet| {
                let mut ranks = Ranks::default();
                ranks.join(Ranks::Listed(set.clone()));
                ranks
            };
            let (group, remote) = match row.map(|row| &row.members) {
                // Of those that nobody lists each adds itself.
                Some(members) if members.has_elided() => membership.itself(tables.rank.rank),
                Some(members) => {
                    (listed(&members.group), members.remote.as_ref().map(listed).unwrap_or_default())
                }
                None => Default::default(),
            };
            (row.map_or(0, |row| row.count), group, membership.is_inter.then_some(remote))
        })
    }

    /// With what a report adds to its communicator: how many it stands for, and the processes of
    /// both groups.
    fn with(
        tables: &RankTables,
        memberships: &[Membership],
        added: impl Fn(&Membership, Option<&CommRow>) -> (u64, Ranks, Option<Ranks>),
    ) -> Aggregate {
        let rank = tables.rank.rank;
        let (comms, numbers) = own_comms(memberships, &tables.comms, added);
        let regions = own_regions(rank, tables);
        let cells = own_cells(tables, &numbers, &regions);
        Aggregate {
            nodes: vec![(tables.rank.host.clone(), Node::from_row(&tables.rank))],
            comms,
            regions,
            wholes: own_wholes(rank, &cells),
            sites: SiteSums::from_tables(rank, &tables.site_tables, &numbers, &cells),
            cells: cells.into_iter().map(|(key, own)| (key, cell(rank, own))).collect(),
            offsets: own_offsets(rank, tables, &numbers),
            outside: own_outside(tables, &numbers),
            variables: VariableSums::from_rows(&tables.variables),
            gpu: GpuSums::from_parts(&tables.gpu).without_times_of_nccl(&tables.nccl_times),
            devices: Devices::from_tables(tables),
        }
    }

    /// Adds what other ranks did.
    pub fn merge(&mut self, mut other: Aggregate) {
        merge_named(&mut self.nodes, std::mem::take(&mut other.nodes));
        let (own_comms, other_comms) = merge_named(&mut self.comms, std::mem::take(&mut other.comms));
        let (own_regions, other_regions) = merge_named(&mut self.regions, std::mem::take(&mut other.regions));
        self.renumber(&own_comms, &own_regions);
        other.renumber(&other_comms, &other_regions);
        merge(&mut self.cells, other.cells);
        merge(&mut self.wholes, other.wholes);
        merge(&mut self.offsets, other.offsets);
        self.offsets = bounded(std::mem::take(&mut self.offsets));
        merge(&mut self.outside, other.outside);
        self.sites.merge(other.sites);
        self.variables.merge(other.variables);
        self.gpu.merge(other.gpu);
        self.devices.merge(other.devices);
    }

    /// Renumbers communicators and regions after a merge. The order stays.
    fn renumber(&mut self, comms: &[u32], regions: &[u32]) {
        // PERF: where nothing came between, the numbers are the same.
        let is_same = |places: &[u32]| places.iter().copied().eq(0..places.len() as u32);
        if is_same(comms) && is_same(regions) {
            return;
        }
        for (key, _) in &mut self.cells {
            put(&mut key.comm, comms);
            put(&mut key.region, regions);
        }
        self.wholes.iter_mut().for_each(|((comm, _), _)| put(comm, comms));
        self.offsets.iter_mut().for_each(|((comm, ..), _)| put(comm, comms));
        self.outside.iter_mut().for_each(|(comm, _)| put(comm, comms));
        self.sites.renumber(comms);
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u64 {
        self.nodes.iter().map(|(_, node)| node.ranks.len()).fold(0, u64::saturating_add)
    }
}

/// Gives a row its new number.
fn put(number: &mut u32, places: &[u32]) {
    *number = places.get(*number as usize).copied().unwrap_or(ALL);
}

/// The families that a rank is in, and which each of its communicators is of.
fn own_comms(
    memberships: &[Membership],
    reported: &[CommRow],
    added: impl Fn(&Membership, Option<&CommRow>) -> (u64, Ranks, Option<Ranks>),
) -> (Vec<(String, Comm)>, HashMap<String, u32>) {
    let reports: HashMap<&str, &CommRow> = reported.iter().map(|row| (row.comm.as_str(), row)).collect();
    let family = |membership: &Membership| derived(&membership.comm, |name| name.family(membership.size));
    let families: Vec<String> = memberships.iter().map(family).collect();
    let rows = memberships.iter().zip(&families).map(|(membership, family)| {
        let row = reports.get(membership.comm.as_str()).copied();
        let (count, group, remote) = added(membership, row);
        let about = row.map(|row| about(row, membership));
        let comm = Comm { size: membership.size, count, group, remote, about };
        (family.clone(), comm)
    });
    let mut comms: Vec<(String, Comm)> = Vec::with_capacity(families.len());
    let mut sorted: Vec<(String, Comm)> = rows.collect();
    sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
    for (family, comm) in sorted {
        match comms.last_mut() {
            Some((known, sum)) if *known == family => sum.join(comm),
            _ => comms.push((family, comm)),
        }
    }
    let place = |family: &String| comms.binary_search_by(|(known, _)| known.cmp(family)).unwrap_or(0);
    let numbers = memberships.iter().zip(&families);
    let numbers =
        numbers.map(|(membership, family)| (membership.comm.clone(), place(family) as u32)).collect();
    (comms, numbers)
}

/// The absent members, which cannot add themselves.
fn among(members: &RankSet, absent: &RankSet) -> Ranks {
    Ranks::Listed(members.iter().filter(|&rank| absent.contains(rank)).collect())
}

impl Membership {
    /// The process itself, in its group of the two.
    fn itself(&self, rank: u32) -> (Ranks, Ranks) {
        let (own, none) = (Ranks::one(rank), Ranks::default());
        if self.in_first_group { (own, none) } else { (none, own) }
    }
}

fn about(row: &CommRow, membership: &Membership) -> About {
    // What all members say is to be added once.
    let is_said_by_another = row.members.has_elided() && !membership.reports;
    let outside = if is_said_by_another { [0, 0] } else { row.members.outside };
    About {
        name: Some(row.comm.clone()),
        parent: match membership.parent_size {
            Some(size) => derived(&row.parent, |name| name.family(size)),
            // Other members may have its size; without the size, the pattern of its name identifies
            // it.
            None => derived(&row.parent, |name| name.pattern()),
        },
        created_by: row.created_by.clone(),
        label: row.label.clone(),
        topology: row.topology.clone(),
        reorder: row.reorder,
        freed: row.freed,
        outside,
    }
}

fn own_cells(
    tables: &RankTables,
    numbers: &HashMap<String, u32>,
    regions: &[(String, Region)],
) -> Vec<(CellKey, Own)> {
    let mut cells = Vec::with_capacity(tables.calls.len());
    let mut last: Option<(&str, u32)> = None;
    for row in &tables.calls {
        // PERF: neighbouring rows mostly are of one communicator.
        let comm = match last {
            Some((name, number)) if name == row.comm => number,
            _ => numbers.get(&row.comm).copied().unwrap_or(ALL),
        };
        last = Some((&row.comm, comm));
        let region = regions.binary_search_by(|(path, _)| path.as_str().cmp(&row.region)).unwrap_or(0);
        let Some(operation) = Operation::from_name(&row.call) else { continue };
        let key = CellKey {
            comm,
            operation: operation as u16,
            region: region as u32,
            size_class: size_class(row.size_min),
            memory: row.memory,
            site: row.site,
        };
        let sums = CallSums {
            calls: row.calls,
            bytes: row.bytes,
            shortest_ns: row.min_s.to_ns(),
            longest_ns: row.max_s.to_ns(),
        };
        cells.push((key, Own { sums, time_ns: row.time_s.to_ns() }));
    }
    merge_equal_keys(cells)
}

fn cell(rank: u32, own: Own) -> Cell {
    Cell { ranks: 1, sums: own.sums, time: Spread::from_value(rank, own.time_ns) }
}

fn own_wholes(rank: u32, cells: &[(CellKey, Own)]) -> Vec<((u32, u32), Whole)> {
    let mut sums: Vec<((u32, u32), Own)> = Vec::new();
    let mut by_call: BTreeMap<u32, Own> = BTreeMap::new();
    // The cells of a communicator and operation lie beside each other.
    for cells in
        cells.chunk_by(|(left, _), (right, _)| (left.comm, left.operation) == (right.comm, right.operation))
    {
        let mut sum = cells[0].1;
        cells[1..].iter().for_each(|(_, own)| sum.join(*own));
        let (comm, call) = (cells[0].0.comm, u32::from(cells[0].0.operation));
        sums.push(((comm, call), sum));
        by_call.entry(call).and_modify(|known| known.join(sum)).or_insert(sum);
    }
    let mut by_comm: Vec<((u32, u32), Own)> = Vec::new();
    for ((comm, _), sum) in &sums {
        match by_comm.last_mut() {
            Some(((known, _), all)) if known == comm => all.join(*sum),
            _ => by_comm.push(((*comm, ALL), *sum)),
        }
    }
    let everything = by_call.values().copied().reduce(|mut one, other| {
        one.join(other);
        one
    });
    sums.extend(by_comm);
    sums.extend(by_call.into_iter().map(|(call, sum)| ((ALL, call), sum)));
    sums.extend(everything.map(|sum| ((ALL, ALL), sum)));
    let whole = |own: Own| Whole {
        ranks: 1,
        calls: Spread::from_value(rank, own.sums.calls),
        bytes: Spread::from_value(rank, own.sums.bytes),
        time: Spread::from_value(rank, own.time_ns),
    };
    let mut wholes: Vec<_> = sums.into_iter().map(|(key, own)| (key, whole(own))).collect();
    wholes.sort_unstable_by_key(|&(key, _)| key);
    wholes
}

fn own_offsets(rank: u32, tables: &RankTables, numbers: &HashMap<String, u32>) -> Vec<(OffsetKey, Traffic)> {
    let row = |row: &PeerRow| {
        let offset = i64::from(row.peer) - i64::from(rank);
        let traffic = Traffic { pairs: 1, counts: row.counts() };
        ((numbers.get(&row.comm).copied().unwrap_or(ALL), offset, offset), traffic)
    };
    bounded(merge_equal_keys(tables.peers.iter().map(row).collect()))
}

fn own_outside(tables: &RankTables, numbers: &HashMap<String, u32>) -> Vec<(u32, Traffic)> {
    let rows = tables.outside.iter().map(|row| {
        let traffic = Traffic { pairs: 1, counts: row.counts() };
        (numbers.get(&row.comm).copied().unwrap_or(ALL), traffic)
    });
    merge_equal_keys(rows.collect())
}

/// Groups offsets by powers of two, for communicators with too many of them.
///
/// The number of offsets only grows, so the order of merging makes no difference.
fn bounded(offsets: Vec<(OffsetKey, Traffic)>) -> Vec<(OffsetKey, Traffic)> {
    let alike = |left: &(OffsetKey, Traffic), right: &(OffsetKey, Traffic)| left.0.0 == right.0.0;
    let is_coarse = |rows: &[(OffsetKey, Traffic)]| {
        rows.len() > MOST_OFFSETS || rows.iter().any(|((_, first, last), _)| first != last)
    };
    if !offsets.chunk_by(alike).any(is_coarse) {
        return offsets;
    }
    let mut all = Vec::with_capacity(offsets.len());
    for rows in offsets.chunk_by(alike) {
        if is_coarse(rows) {
            all.extend(rows.iter().map(|&((comm, first, _), traffic)| {
                let (first, last) = power_of_two(first);
                ((comm, first, last), traffic)
            }));
        } else {
            all.extend_from_slice(rows);
        }
    }
    merge_equal_keys(all)
}

/// The class of an offset: 0, or from a power of two to before the next, or the same below 0.
fn power_of_two(offset: i64) -> (i64, i64) {
    let Some(power) = offset.unsigned_abs().checked_ilog2() else { return (0, 0) };
    let near = 1i64 << power.min(62);
    let far = near - 1 + near;
    if offset < 0 { (-far, -near) } else { (near, far) }
}
