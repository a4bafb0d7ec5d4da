//! Turns sums over ranks into the rows of an aggregate profile.

use super::sums::Spread;
use super::{ALL, Aggregate, Cell, CellKey, Comm, Region, Traffic};
use crate::devices::DeviceTables;
use mpisee_profile::comm_name::{is_of_changing_members, is_one_per_process};
use mpisee_profile::rows::{
    BinaryRow, CommRow, GpuTotalRow, Members, NodeRow, OffsetRow, OutsideTotalRow, PathTotalRow, PeerCounts,
    Ranks, RegionTotalRow, Seconds, SiteRow, SiteTotalRow, SpreadRow, StackRow, TotalRow, VariableTotalRow,
};
use mpisee_profile::segment::key::class_bounds;
use mpisee_profile::{Operation, RankSet};
use std::collections::HashMap;

/// The tables of an aggregate profile.
#[derive(Debug, Default)]
pub struct AggregateTables {
    /// `nodes.csv`.
    pub nodes: Vec<NodeRow>,
    /// `comms.csv`.
    pub comms: Vec<CommRow>,
    /// `totals.csv`.
    pub totals: Vec<TotalRow>,
    /// `spread.csv`.
    pub spread: Vec<SpreadRow>,
    /// `offsets.csv`.
    pub offsets: Vec<OffsetRow>,
    /// `outside-totals.csv`.
    pub outside: Vec<OutsideTotalRow>,
    /// `region-totals.csv`.
    pub regions: Vec<RegionTotalRow>,
    /// `sites.csv`.
    pub sites: Vec<SiteRow>,
    /// `path-totals.csv`.
    pub paths: Vec<PathTotalRow>,
    /// `site-totals.csv`.
    pub site_totals: Vec<SiteTotalRow>,
    /// `stacks.csv`.
    pub stacks: Vec<StackRow>,
    /// `variable-totals.csv`.
    pub variables: Vec<VariableTotalRow>,
    /// `gpu-totals.csv`.
    pub gpu: Vec<GpuTotalRow>,
    /// `binaries.csv`.
    pub binaries: Vec<BinaryRow>,
    /// GPUs, and what is near them.
    pub devices: DeviceTables,
    /// Sentences for `run.json`.
    pub notes: Vec<String>,
}

impl Aggregate {
    /// The rows, once all ranks are merged. A family of one communicator has that communicator's
    /// name.
    pub fn tables(&self) -> AggregateTables {
        let names = self.names();
        let total = |(key, cell): &(CellKey, Cell)| self.total_row(*key, cell, name_of(&names, key.comm));
        AggregateTables {
            nodes: self.nodes.iter().map(|(host, node)| node.row(host)).collect(),
            comms: self.comm_rows(&names),
            totals: self.cells.iter().map(total).collect(),
            spread: self.spread_rows(&names),
            offsets: self.offset_rows(&names),
            outside: self.outside_rows(&names),
            regions: self.regions.iter().filter_map(region_row).collect(),
            sites: self.sites.sites(),
            paths: self.path_rows(&names),
            site_totals: self.sites.totals(),
            stacks: self.sites.stacks(),
            variables: self.variables.rows(),
            gpu: self.gpu.rows(),
            binaries: self.gpu.binaries(),
            devices: self.devices.tables(),
            notes: self
                .gpu
                .notes()
                .into_iter()
                .chain(self.sites.note())
                .chain(self.variables.note())
                .collect(),
        }
    }

    /// The names of families by their number.
    fn names(&self) -> Vec<String> {
        let name = |(family, comm): &(String, Comm)| {
            let alone = comm.about.as_ref().filter(|_| comm.count <= 1).and_then(|about| about.name.clone());
            alone.unwrap_or_else(|| family.clone())
        };
        self.comms.iter().map(name).collect()
    }

    fn comm_rows(&self, names: &[String]) -> Vec<CommRow> {
        let by_family: HashMap<&str, &String> =
            self.comms.iter().map(|(family, _)| family.as_str()).zip(names).collect();
        let nodes: Vec<&Ranks> = self.nodes.iter().map(|(_, node)| &node.ranks).collect();
        let row = |((family, comm), name): (&(String, Comm), &String)| {
            let about = comm.about.clone().unwrap_or_default();
            CommRow {
                comm: name.clone(),
                parent: self.parent_name(&about.parent, &by_family),
                created_by: about.created_by,
                size: match is_of_changing_members(family) {
                    true => comm.group.len() as u32,
                    false => comm.size,
                },
                count: if is_one_per_process(family) { 1 } else { comm.count.max(1) },
                members: members(comm, about.outside),
                label: about.label,
                topology: about.topology,
                reorder: about.reorder,
                nodes: if is_one_per_process(family) { 1 } else { count_nodes(comm, &nodes) },
                freed: about.freed,
                between: String::new(),
            }
        };
        self.comms.iter().zip(names).map(row).collect()
    }

    /// The name of the parent's row. If no member that reports the communicator is in the parent,
    /// the parent's size is unknown, and the first row of that name is taken.
    fn parent_name(&self, family: &str, by_family: &HashMap<&str, &String>) -> String {
        if let Some(name) = by_family.get(family) {
            return (*name).clone();
        }
        let any_size = format!("{family}@");
        let found = self.comms.iter().map(|(family, _)| family).find(|known| known.starts_with(&any_size));
        let found = found.filter(|_| !family.is_empty()).and_then(|known| by_family.get(known.as_str()));
        found.map_or_else(|| family.to_owned(), |name| (*name).clone())
    }

    fn total_row(&self, key: CellKey, cell: &Cell, comm: String) -> TotalRow {
        let (size_min, size_max) = class_bounds(key.size_class);
        let [time_s, time_min_s, time_max_s] = seconds_of(&cell.time);
        TotalRow {
            comm,
            region: self.regions.get(key.region as usize).map_or_else(String::new, |(path, _)| path.clone()),
            call: call_name(key.operation.into()),
            size_min,
            size_max,
            memory: key.memory,
            site: key.site,
            ranks: cell.ranks,
            calls: cell.sums.calls,
            bytes: cell.sums.bytes,
            time_s,
            time_min_s,
            time_min_rank: cell.time.min_rank,
            time_max_s,
            time_max_rank: cell.time.max_rank,
            time_deviation_s: Seconds(cell.time.deviation(cell.ranks) * 1e-9),
            min_s: seconds(cell.sums.shortest_ns.into()),
            max_s: seconds(cell.sums.longest_ns.into()),
        }
    }

    fn spread_rows(&self, names: &[String]) -> Vec<SpreadRow> {
        let narrow = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        let rows = self.wholes.iter().map(|((comm, call), whole)| {
            let [time_s, time_min_s, time_max_s] = seconds_of(&whole.time);
            SpreadRow {
                comm: name_of(names, *comm),
                call: if *call == ALL { String::new() } else { call_name(*call) },
                ranks: whole.ranks,
                calls: narrow(whole.calls.sum),
                calls_min: whole.calls.min,
                calls_max: whole.calls.max,
                calls_max_rank: whole.calls.max_rank,
                bytes: narrow(whole.bytes.sum),
                bytes_min: whole.bytes.min,
                bytes_max: whole.bytes.max,
                bytes_max_rank: whole.bytes.max_rank,
                time_s,
                time_min_s,
                time_min_rank: whole.time.min_rank,
                time_max_s,
                time_max_rank: whole.time.max_rank,
                time_deviation_s: Seconds(whole.time.deviation(whole.ranks) * 1e-9),
            }
        });
        rows.collect()
    }

    fn offset_rows(&self, names: &[String]) -> Vec<OffsetRow> {
        let rows = self.offsets.iter().map(|&((comm, offset_min, offset_max), traffic)| {
            let Traffic { pairs, counts } = traffic;
            let PeerCounts {
                sent_messages,
                sent_bytes,
                received_messages,
                received_bytes,
                puts,
                put_bytes,
                gets,
                get_bytes,
                accumulates,
                accumulate_bytes,
            } = counts;
            let comm = name_of(names, comm);
            OffsetRow {
                comm,
                offset_min,
                offset_max,
                pairs,
                sent_messages,
                sent_bytes,
                received_messages,
                received_bytes,
                puts,
                put_bytes,
                gets,
                get_bytes,
                accumulates,
                accumulate_bytes,
            }
        });
        rows.collect()
    }

    fn outside_rows(&self, names: &[String]) -> Vec<OutsideTotalRow> {
        let rows = self.outside.iter().map(|&(comm, traffic)| {
            let Traffic { pairs, counts } = traffic;
            let PeerCounts {
                sent_messages,
                sent_bytes,
                received_messages,
                received_bytes,
                puts,
                put_bytes,
                gets,
                get_bytes,
                accumulates,
                accumulate_bytes,
            } = counts;
            let comm = name_of(names, comm);
            OutsideTotalRow {
                comm,
                pairs,
                sent_messages,
                sent_bytes,
                received_messages,
                received_bytes,
                puts,
                put_bytes,
                gets,
                get_bytes,
                accumulates,
                accumulate_bytes,
            }
        });
        rows.collect()
    }
}

pub fn seconds(nanoseconds: u128) -> Seconds {
    Seconds(nanoseconds as f64 * 1e-9)
}

/// Sum, least and most of a time over ranks.
pub fn seconds_of(time_ns: &Spread) -> [Seconds; 3] {
    [time_ns.sum, time_ns.min.into(), time_ns.max.into()].map(seconds)
}

pub(super) fn name_of(names: &[String], number: u32) -> String {
    names.get(number as usize).cloned().unwrap_or_default()
}

pub(super) fn call_name(operation: u32) -> String {
    Operation::from_index(operation.into()).map_or_else(String::new, |operation| operation.name().to_owned())
}

fn region_row((path, region): &(String, Region)) -> Option<RegionTotalRow> {
    let entered = region.as_ref()?;
    let [wall_s, _, wall_max_s] = seconds_of(&entered.wall);
    let [_, _, useful_max_s] = seconds_of(&entered.useful);
    Some(RegionTotalRow {
        region: path.clone(),
        ranks: entered.ranks,
        entries: entered.entries,
        wall_s,
        wall_max_s,
        wall_max_rank: entered.wall.max_rank,
        mpi_s: seconds(entered.mpi_ns),
        useful_s: seconds(entered.outside_ns),
        useful_max_s,
        mpi_threads: entered.threads,
        mpi_thread_s: entered.thread_ns.map(|time_ns| seconds(time_ns.into())),
    })
}

fn members(comm: &Comm, outside: [u32; 2]) -> Members {
    let listed = |ranks: &Ranks| match ranks {
        Ranks::Listed(set) => (set.clone(), 0),
        Ranks::Counted(count) => (RankSet::default(), *count),
    };
    let (group, elided) = listed(&comm.group);
    let remote = comm.remote.as_ref().map(listed);
    let more = remote.as_ref().map_or(0, |(_, more)| *more);
    Members { group, remote: remote.map(|(set, _)| set), outside, elided: [elided, more] }
}

/// The number of nodes of a communicator, or of a whole family; all nodes if the members are only
/// counted.
fn count_nodes(comm: &Comm, nodes: &[&Ranks]) -> u32 {
    let groups: Vec<&Ranks> = std::iter::once(&comm.group).chain(&comm.remote).collect();
    let is_on = |node: &&&Ranks| {
        groups.iter().any(|group| match (group, node) {
            (Ranks::Listed(group), Ranks::Listed(node)) => group.shares(node),
            _ => true,
        })
    };
    nodes.iter().filter(is_on).count() as u32
}
