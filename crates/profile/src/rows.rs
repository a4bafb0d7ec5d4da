//! The tables of a profile directory: one struct per record type, one field per column.
//!
//! Field names are column names. Times are seconds, sizes bytes, ranks those in `MPI_COMM_WORLD`.

use crate::RankSet;
use crate::site::SiteId;
use mpisee_profile_derive::Columns;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

pub mod aggregate;
pub mod arrivals;
mod columns;
mod copies;
mod cpus;
mod devices;
mod gpu;
pub mod messages;
pub mod order;
pub mod peers;
pub mod rates;
mod seconds;
pub mod sites;
mod tables;
mod variables;

pub use crate::memory::Memory;
pub use aggregate::{
    GpuTotalRow, NodeRow, OffsetRow, OutsideTotalRow, PeerDevice, Ranks, RegionTotalRow, SpreadRow, TotalRow,
};
pub use arrivals::{ArrivalRow, CollectiveRow};
pub use columns::{Cell, Column, ColumnKind, ColumnValue, Columns};
pub use copies::{CopyMode, CopyRow, StagedRow};
pub use cpus::Cpus;
pub use devices::{DeviceLinkRow, DeviceRow, NicRow};
pub use gpu::{BinaryRow, GpuMemory, GpuRow, PeRow};
pub use messages::{MessageEnd, MessageRow, StreamRow};
pub use order::{OrderRow, OrderRuleRow, OrderStepKind, OrderStepRow, OrderTimeRow};
pub use peers::{Access, NcclPeerRow, OutsideRow, PeerCounts, PeerRow};
pub use rates::{NodeRateRow, RateRow};
pub use seconds::Seconds;
pub use sites::{PathRow, PathTotalRow, SiteRow, SiteTotalRow, StackRow};
use tables::file_of_row;
pub use tables::{TABLES, Table, TableVisitor, visit_tables};
pub use variables::{VariableRow, VariableTotalRow};

/// A record type: the file that holds it. Its columns are its fields.
pub trait Row: Serialize + DeserializeOwned + Columns + fmt::Debug {
    /// The file's name in the profile directory.
    const FILE: &'static str;
    /// Columns that a profile may lack.
    const OPTIONAL: &'static [&'static str] = &[];

    /// The columns, in the order in which they are written.
    fn columns() -> &'static [&'static str] {
        let mut columns: &[&str] = &[];
        // It ends with the names, before any value is asked for.
        let _ = Self::deserialize(FieldNames(&mut columns));
        columns
    }
}

/// Keeps the names of a struct's fields, by which serde asks for their values.
struct FieldNames<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Error::custom("a row is a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(Error::custom("there are no values"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Limit on the processes of one communicator, which bounds time and memory on corrupt input; no
/// job has as many.
pub const MOST_PROCESSES: u64 = 1 << 23;

/// The processes of a communicator: one group, or the two of an intercommunicator.
///
/// Processes of other worlds (MPI 4.1, 11.4: those that were spawned, that spawned this one, or
/// that connected) have no rank here. In the text form, `0-3|+2`, they are counted after the ranks
/// of their group. For a family of communicators whose processes would take too many ranges, only
/// their number is kept, `~500000`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The group; of an intercommunicator, the one with the smallest world rank.
    pub group: RankSet,
    /// The other group of an intercommunicator.
    pub remote: Option<RankSet>,
    /// The processes of other worlds in `group` and in `remote`.
    pub outside: [u32; 2],
    /// The processes of this world in `group` and in `remote` that are counted and not listed.
    pub elided: [u64; 2],
}

impl Members {
    /// All processes of this world, of both groups.
    pub fn all(&self) -> RankSet {
        match &self.remote {
            Some(remote) => self.group.union(remote),
            None => self.group.clone(),
        }
    }

    /// The number of processes of this world, of both groups.
    pub fn len(&self) -> u64 {
        let listed = self.group.len() + self.remote.as_ref().map_or(0, RankSet::len);
        self.elided.iter().fold(listed, |sum, &more| sum.saturating_add(more))
    }

    /// Returns whether there is no process of this world.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether some members of this world are elided: counted and not listed.
    pub fn has_elided(&self) -> bool {
        self.elided != [0, 0]
    }

    /// Lists those that `other` lists of the same communicator. Who is listed then is not counted
    /// as elided any more.
    pub fn add(&mut self, other: &Members) {
        let groups = std::iter::once(&mut self.group).chain(&mut self.remote);
        let others = std::iter::once(&other.group).chain(&other.remote);
        for ((group, elided), other) in groups.zip(&mut self.elided).zip(others) {
            let before = group.len();
            group.add(other);
            *elided = elided.saturating_sub(group.len() - before);
        }
    }

    /// The number of processes of other worlds.
    pub fn outsiders(&self) -> u64 {
        self.outside.iter().copied().map(u64::from).sum()
    }
}

impl fmt::Display for Members {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = std::iter::once(&self.group).chain(&self.remote);
        for (at, (ranks, outside)) in groups.zip(self.outside).enumerate() {
            let bar = if at == 0 { "" } else { "|" };
            write!(out, "{bar}{ranks}")?;
            if self.elided[at] > 0 {
                write!(out, "~{}", self.elided[at])?;
            }
            if outside > 0 {
                write!(out, "+{outside}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Members {
    type Err = String;

    /// Reads what `Display` writes. The error says which part is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        let (group, remote) = match text.split_once('|') {
            Some((group, remote)) => (parse_group(group)?, Some(parse_group(remote)?)),
            None => (parse_group(text)?, None),
        };
        let none = (RankSet::default(), 0, 0);
        let (other, is_inter) = remote.map_or((none, false), |remote| (remote, true));
        Ok(Members {
            group: group.0,
            outside: [group.1, other.1],
            elided: [group.2, other.2],
            remote: is_inter.then_some(other.0),
        })
    }
}

/// Ranks, after a `+` the number of processes that have none, and after a `~` that of those that
/// are not listed.
fn parse_group(text: &str) -> Result<(RankSet, u32, u64), String> {
    let (text, outside) = text.split_once('+').unwrap_or((text, "0"));
    let (ranks, elided) = text.split_once('~').unwrap_or((text, "0"));
    let wrong = |_| format!("'+{outside}' is not a number of processes of other worlds, like +2");
    let no_number = |_| format!("'~{elided}' is not a number of processes, like ~500000");
    let ranks: RankSet = ranks.parse()?;
    if ranks.len() > MOST_PROCESSES {
        return Err(format!("'{ranks}' are more processes than there can be"));
    }
    Ok((ranks, outside.trim().parse().map_err(wrong)?, elided.trim().parse().map_err(no_number)?))
}

impl Members {
    /// Returns whether `rank` is in one of the groups.
    pub fn contains(&self, rank: u32) -> bool {
        self.group.contains(rank) || self.remote.as_ref().is_some_and(|remote| remote.contains(rank))
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(Error::custom)
    }
}

fn one() -> u64 {
    1
}

/// `ranks.csv`: one row per process.
///
/// The columns on its use of the node are empty where that is unknown: of a process that did not
/// come to the end of MPI, and in profiles of earlier formats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct RankRow {
    /// The process.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// Its process ID on that host.
    pub pid: u32,
    /// From the end of `MPI_Init` to the start of `MPI_Finalize`.
    pub wall_s: Seconds,
    /// Of `wall_s`, inside recorded MPI calls; of several threads that call MPI the sum, which may
    /// be more than `wall_s`.
    pub mpi_s: Seconds,
    /// The GPUs that it used, by their UUIDs, with `|` between them: those on which it launched
    /// kernels where these were traced, else those on which it had a context when it was last
    /// looked at, mostly at the end of MPI; empty if there are none.
    pub gpu: String,
    /// Of `wall_s`, what the profiler itself took: an estimate from calls that were measured in the
    /// run; if fewer than eight were, from what a call costs in a loop.
    #[serde(default)]
    pub profiler_s: Seconds,
    /// Time on a core between the begin and the end of `wall_s`, by all threads, outside of the
    /// kernel.
    #[serde(default)]
    pub cpu_user_s: Option<Seconds>,
    /// Time on a core meanwhile, by all threads, in the kernel.
    #[serde(default)]
    pub cpu_system_s: Option<Seconds>,
    /// Time in which threads were ready to run and had no core, summed over those that lived at the
    /// end.
    #[serde(default)]
    pub cpu_wait_s: Option<Seconds>,
    /// Times that the kernel took the core from a thread that was not done.
    #[serde(default)]
    pub involuntary_switches: Option<u64>,
    /// Times that a thread gave up its core to wait.
    #[serde(default)]
    pub voluntary_switches: Option<u64>,
    /// Page faults that the kernel served from memory.
    #[serde(default)]
    pub minor_faults: Option<u64>,
    /// Page faults for which the kernel read from a disk.
    #[serde(default)]
    pub major_faults: Option<u64>,
    /// The CPUs that its threads may use, `0-3,8`: at the end of MPI, of a process that did not
    /// come to it at the begin.
    #[serde(default)]
    pub cpus_allowed: Cpus,
    /// The CPUs that its threads might use when recording began, if these are others than
    /// `cpus_allowed`.
    #[serde(default)]
    pub cpus_at_start: Cpus,
    /// CPUs of its node that are online.
    #[serde(default)]
    pub node_cpus: Option<u32>,
    /// The CPU quota of its cgroup in cores; empty if there is none.
    #[serde(default)]
    pub cpu_quota: Option<f64>,
    /// The NUMA nodes that have the CPUs of `cpus_allowed`, `0` or `0-1`; empty if that is unknown,
    /// and of a process that did not initialise CUDA.
    #[serde(default)]
    pub numa_nodes: String,
    /// Threads that called MPI or NCCL while recording was on, as many as lived at once: `mpi_s` is
    /// the sum of their times.
    #[serde(default)]
    pub mpi_threads: Option<u32>,
    /// The time that these threads lived, of each from its first recorded call: `wall_s` of each
    /// that lived throughout. Time in which none of them lived counts once. `mpi_s` is a part of
    /// it.
    #[serde(default)]
    pub mpi_thread_s: Option<Seconds>,
}

impl RankRow {
    /// The threads that called MPI, where one that lived for half of the run counts as one half; 1
    /// where that is unknown.
    pub fn threads(&self) -> f64 {
        threads(self.mpi_threads.map(u64::from), self.mpi_thread_s, self.wall_s).unwrap_or(1.0)
    }

    /// Its GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &str> {
        self.gpu.split('|').filter(|gpu| !gpu.is_empty())
    }

    /// Time on a core, in seconds.
    pub fn cpu_s(&self) -> Option<f64> {
        Some(self.cpu_user_s?.0 + self.cpu_system_s?.0)
    }
}

impl Row for RankRow {
    const FILE: &'static str = "ranks.csv";
    const OPTIONAL: &'static [&'static str] = &[
        "cpu_quota",
        "cpu_system_s",
        "cpu_user_s",
        "cpu_wait_s",
        "cpus_allowed",
        "cpus_at_start",
        "involuntary_switches",
        "major_faults",
        "minor_faults",
        "mpi_thread_s",
        "mpi_threads",
        "node_cpus",
        "numa_nodes",
        "profiler_s",
        "voluntary_switches",
    ];
}

/// `comms.csv`: one row per communicator.
///
/// `MPI_COMM_SELF`, `S`, and its descendants stand for one communicator of each process: their row
/// is shared, has size 1, and lists the processes that have one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct CommRow {
    /// Its name, which tells its ancestry: `W_a1_s2.0`.
    pub comm: String,
    /// The parent's name; empty for `W` and `S`.
    pub parent: String,
    /// The call that created it: `MPI_Comm_split`; empty for `W` and `S`.
    pub created_by: String,
    /// The number of processes, of both groups for an intercommunicator.
    pub size: u32,
    /// The number of communicators that the row stands for: more than 1 where like ones share a
    /// row, `W_s1001+.0`, or are a family over ranks, `W_s1.*@64`.
    #[serde(default = "one")]
    pub count: u64,
    /// World ranks as ranges: `0-63,128-191`; of an intercommunicator both groups: `0-3|4-7`; with
    /// the number of processes of other worlds: `0-3|+2`.
    pub members: Members,
    /// The name that the application gave with `MPI_Comm_set_name`, or empty.
    pub label: String,
    /// `cart dims=4x2 periods=1x0`, `graph degree=1-3`, `dist_graph in=2 out=1-2`, or empty.
    pub topology: String,
    /// 1 if the creating call allowed ranks to be reordered, 0 if not; empty where there is no such
    /// argument.
    pub reorder: Option<u8>,
    /// The number of nodes that its processes of this world are on.
    pub nodes: u32,
    /// 1 if the application freed it, or all that the row stands for.
    pub freed: u8,
    /// Of an intercommunicator that `MPI_Intercomm_create` made, the communicators whose groups it
    /// has: `W_s1.0|W_s1.1`; else empty.
    #[serde(default)]
    pub between: String,
}

impl Row for CommRow {
    const FILE: &'static str = "comms.csv";
    const OPTIONAL: &'static [&'static str] = &["between", "count"];
}

/// The ends of the size class of calls whose message size is unknown, as in profiles of other
/// tools.
pub const UNKNOWN_SIZE: [u64; 2] = [0, u64::MAX];

/// `calls.csv`: one row per communicator, rank, region, operation, size class, kind of memory and
/// call site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct CallRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The named regions around the call, outermost first: `solver/halo`; empty outside of any.
    pub region: String,
    /// The standard's name of the function: `MPI_Allreduce`.
    pub call: String,
    /// The smallest message of the size class; of `MPI_Sendrecv` and its like the message is the
    /// one that it sends.
    pub size_min: u64,
    /// The largest message of the size class; 18446744073709551615 beside a smallest of 0 where
    /// sizes are unknown.
    pub size_max: u64,
    /// The kind of memory that has the buffer: `host`, `device`, `managed` or `pinned`; of a call
    /// with two buffers that of the one farthest from the host.
    pub memory: Memory,
    /// The place in the program that makes the calls, see [`SiteRow`]; empty if it is not known, or
    /// was not kept.
    #[serde(default)]
    pub site: Option<SiteId>,
    /// The number of calls.
    pub calls: u64,
    /// Bytes sent by sends, received by receives, both by `MPI_Sendrecv`; of a collective this
    /// process's part of the volume (docs/explanation/bytes-and-times.md has the rule of each
    /// operation).
    pub bytes: u64,
    /// The time in the calls.
    pub time_s: Seconds,
    /// The shortest call that was timed.
    pub min_s: Seconds,
    /// The longest call that was timed.
    pub max_s: Seconds,
    /// Half of the 95 % interval of `time_s`. Empty if every call was timed.
    #[serde(default)]
    pub time_error_s: Option<Seconds>,
}

impl Row for CallRow {
    const FILE: &'static str = "calls.csv";
    const OPTIONAL: &'static [&'static str] = &["site", "time_error_s"];
}

/// `nccl-times.csv`: one row per communicator of NCCL, process, region, operation and size class,
/// of calls that were made with `--nccl-gpu-time`: how long the GPU worked on them. A profile
/// without such calls has no such file.
///
/// The time is that between two events of CUDA in the stream, before and after the call's work;
/// waiting on the GPU for the other ranks is in it. Calls in a group are one, `ncclGroupEnd`, on
/// each communicator, unless the group has a single call there, which then has the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct NcclTimeRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The named regions around the call, outermost first; empty outside of any.
    pub region: String,
    /// The function.
    pub call: String,
    /// The smallest message of the size class.
    pub size_min: u64,
    /// The largest message of the size class.
    pub size_max: u64,
    /// Calls that were timed.
    pub calls: u64,
    /// Calls that were not, as those that fail, do not block, or are captured into a graph;
    /// docs/how-to/nccl.md has all reasons.
    pub untimed: u64,
    /// This process's part of the volume of the calls that were timed, as in calls.csv.
    pub bytes: u64,
    /// The time on the GPU.
    pub gpu_s: Seconds,
    /// That of the shortest call.
    pub min_s: Seconds,
    /// That of the longest call.
    pub max_s: Seconds,
}

impl Row for NcclTimeRow {
    const FILE: &'static str = "nccl-times.csv";
}

/// `regions.csv`: one row per rank and named region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct RegionRow {
    /// The process.
    pub rank: u32,
    /// The region with those around it: `solver/halo`.
    pub region: String,
    /// The time between its begins and ends, nested regions included.
    pub wall_s: Seconds,
    /// Of `wall_s`, inside recorded MPI calls.
    pub mpi_s: Seconds,
    /// The number of times that it began.
    pub entries: u64,
    /// Time on cores during `wall_s`, by all threads; empty if the region was open at the end.
    #[serde(default)]
    pub cpu_s: Option<Seconds>,
    /// Times that a thread lost its core to another during `wall_s`; empty with `cpu_s`.
    #[serde(default)]
    pub involuntary_switches: Option<u64>,
    /// Threads that called MPI or NCCL in it, or in regions in it: `mpi_s` is the sum of their
    /// times.
    #[serde(default)]
    pub mpi_threads: Option<u32>,
    /// The time that these threads lived while the region was open, `wall_s` at least. Of a thread
    /// that did not live throughout the run, the most that can be: the whole life or `wall_s`.
    #[serde(default)]
    pub mpi_thread_s: Option<Seconds>,
}

impl RegionRow {
    /// The threads that call MPI in it, as of [`RankRow::threads`]; of a profile that does not
    /// tell, those of its rank.
    pub fn threads(&self, rank: &RankRow) -> f64 {
        threads(self.mpi_threads.map(u64::from), self.mpi_thread_s, self.wall_s)
            .unwrap_or_else(|| rank.threads())
    }
}

/// Threads by the time that they lived in a wall time; by their number where that is unknown, as of
/// a profile without it.
pub fn threads(number: Option<u64>, lived_s: Option<Seconds>, wall_s: Seconds) -> Option<f64> {
    let number = number?.max(1) as f64;
    let lived_s = lived_s.filter(|_| wall_s.0 > 0.0);
    Some(lived_s.map_or(number, |lived_s| (lived_s.0 / wall_s.0).clamp(1.0, number)))
}

impl Row for RegionRow {
    const FILE: &'static str = "regions.csv";
    const OPTIONAL: &'static [&'static str] =
        &["cpu_s", "involuntary_switches", "mpi_thread_s", "mpi_threads"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_the_fields_in_their_order() {
        assert_eq!(
            RegionRow::columns(),
            [
                "rank",
                "region",
                "wall_s",
                "mpi_s",
                "entries",
                "cpu_s",
                "involuntary_switches",
                "mpi_threads",
                "mpi_thread_s"
            ]
        );
        assert!(RegionRow::OPTIONAL.iter().all(|column| RegionRow::columns().contains(column)));
        assert!(NodeRow::OPTIONAL.iter().all(|column| NodeRow::columns().contains(column)));
        assert!(RankRow::OPTIONAL.iter().all(|column| RankRow::columns().contains(column)));
        assert!(CommRow::OPTIONAL.iter().all(|column| CommRow::columns().contains(column)));
        assert!(GpuRow::OPTIONAL.iter().all(|column| GpuRow::columns().contains(column)));
    }

    #[test]
    fn members_are_written_and_read_with_those_of_other_worlds() {
        for (text, outside) in [("0-3", [0, 0]), ("0-3|4-7", [0, 0]), ("0-3|+2", [0, 2]), ("0,2+3", [3, 0])] {
            let members: Members = text.parse().unwrap();
            assert_eq!((members.to_string().as_str(), members.outside), (text, outside));
        }
        let members: Members = "~5000|8-9~6+1".parse().unwrap();
        assert_eq!(members.elided, [5000, 6]);
        assert_eq!((members.to_string().as_str(), members.len()), ("~5000|8-9~6+1", 5008));
        let error = "0-3|+x".parse::<Members>().unwrap_err();
        assert!(error.contains("'+x'"), "{error}");
    }
}
