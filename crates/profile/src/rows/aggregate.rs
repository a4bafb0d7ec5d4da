//! The tables of an aggregate profile, whose rows are sums over ranks. They take the place of
//! `ranks.csv`, `calls.csv`, `peers.csv`, `outside.csv`, `regions.csv` and `gpu.csv`; `comms.csv`
//! is there in both kinds of profile.
//!
//! `ranks` is the number of ranks that have a row of the kind in a profile by rank; least, most and
//! standard deviation are over these. Where several ranks have the least or the most, the first of
//! them is named.

use super::{Cpus, GpuMemory, Memory, Row, Seconds};
use crate::RankSet;
use crate::gpu::Access;
use crate::ranks::Range;
use crate::site::SiteId;
use mpisee_profile_derive::Columns;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ranks as ranges, `0-63,128-191`; of those that would take too many ranges only the number is
/// kept, `~500000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// The ranks.
    Listed(RankSet),
    /// Their number alone.
    Counted(u64),
}

impl Default for Ranks {
    fn default() -> Self {
        Ranks::Listed(RankSet::default())
    }
}

/// Limit on the ranks of two interleaved sets that are joined rank by rank; beyond it they are only
/// counted.
const MOST_WALKED: u64 = 1 << 22;
/// Limit on the ranges of a set; beyond it only the number of ranks is kept, so that no set grows
/// with the job.
const MOST_RANGES: usize = 4096;

impl Ranks {
    /// One rank.
    pub fn one(rank: u32) -> Self {
        Ranks::Listed(RankSet::evenly_spaced(rank, 1, 1))
    }

    /// Their number.
    pub fn len(&self) -> u64 {
        match self {
            Ranks::Listed(set) => set.len(),
            Ranks::Counted(count) => *count,
        }
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds others, none of which is among these.
    pub fn join(&mut self, other: Ranks) {
        *self = match (std::mem::take(self), other) {
            (Ranks::Listed(one), Ranks::Listed(other))
                if one.is_apart(&other) || one.len().saturating_add(other.len()) <= MOST_WALKED =>
            {
                let both = one.joined(other);
                if both.ranges().len() <= MOST_RANGES {
                    Ranks::Listed(both)
                } else {
                    Ranks::Counted(both.len())
                }
            }
            (one, other) => Ranks::Counted(one.len().saturating_add(other.len())),
        };
    }
}

impl std::fmt::Display for Ranks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ranks::Listed(set) => set.fmt(out),
            Ranks::Counted(count) => write!(out, "~{count}"),
        }
    }
}

impl std::str::FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('~') {
            Some(count) => {
                let wrong = |_| format!("'{text}' is not a number of ranks, like ~500000");
                Ok(Ranks::Counted(count.parse().map_err(wrong)?))
            }
            None => Ok(Ranks::Listed(text.parse()?)),
        }
    }
}

/// The form in messages between ranks.
#[derive(Serialize, Deserialize)]
enum BinaryRanks {
    /// Of each range the first rank, how many follow, and the distance.
    Listed(Vec<(u32, u32, u32)>),
    Counted(u64),
}

impl Serialize for Ranks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        let range = |range: &Range| (range.first, (range.last - range.first) / range.stride, range.stride);
        let ranks = match self {
            Ranks::Listed(set) => BinaryRanks::Listed(set.ranges().iter().map(range).collect()),
            Ranks::Counted(count) => BinaryRanks::Counted(*count),
        };
        ranks.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer)?.parse().map_err(D::Error::custom);
        }
        let range = |(first, more, stride): (u32, u32, u32)| {
            let last = u64::from(first) + u64::from(more) * u64::from(stride);
            Some(Range { first, last: u32::try_from(last).ok()?, stride })
        };
        match BinaryRanks::deserialize(deserializer)? {
            BinaryRanks::Counted(count) => Ok(Ranks::Counted(count)),
            BinaryRanks::Listed(ranges) => {
                let set = ranges.into_iter().map(range).collect::<Option<_>>().and_then(RankSet::of_ranges);
                set.map(Ranks::Listed).ok_or_else(|| D::Error::custom("ranges of ranks are not in order"))
            }
        }
    }
}

/// `nodes.csv`: one row per node, over its processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct NodeRow {
    /// The name of the host.
    pub host: String,
    /// The ranks on it.
    pub members: Ranks,
    /// The number of ranks.
    pub ranks: u64,
    /// Sum of the wall times, each from the end of `MPI_Init` to the start of `MPI_Finalize`.
    pub wall_s: Seconds,
    /// The shortest wall time.
    pub wall_min_s: Seconds,
    /// The longest wall time.
    pub wall_max_s: Seconds,
    /// The rank with the longest wall time.
    pub wall_max_rank: u32,
    /// Sum of the times inside recorded MPI calls.
    pub mpi_s: Seconds,
    /// The least time of a rank inside recorded MPI calls.
    pub mpi_min_s: Seconds,
    /// The rank with the least time in MPI.
    pub mpi_min_rank: u32,
    /// The most time of a rank inside recorded MPI calls.
    pub mpi_max_s: Seconds,
    /// The rank with the most time in MPI.
    pub mpi_max_rank: u32,
    /// Sum of what the threads that call MPI spent outside of it.
    pub useful_s: Seconds,
    /// The most time that a rank spent outside of MPI, as the mean of these threads.
    pub useful_max_s: Seconds,
    /// Of `wall_s`, what the profiler itself took, see [`super::RankRow`].
    pub profiler_s: Seconds,
    /// Sum of the times on a core, over the ranks that have one; empty if none has.
    #[serde(default)]
    pub cpu_s: Option<Seconds>,
    /// Sum of the times in which ranks were ready to run and had no core, see
    /// [`super::RankRow::cpu_wait_s`].
    #[serde(default)]
    pub cpu_wait_s: Option<Seconds>,
    /// The most time in which a rank was ready to run and had no core.
    #[serde(default)]
    pub cpu_wait_max_s: Option<Seconds>,
    /// The rank of `cpu_wait_max_s`.
    #[serde(default)]
    pub cpu_wait_max_rank: Option<u32>,
    /// The CPUs that some rank may use.
    #[serde(default)]
    pub cpus_allowed: Cpus,
    /// CPUs of the node that are online.
    #[serde(default)]
    pub node_cpus: Option<u32>,
    /// The least CPU quota of a rank's cgroup in cores; empty if no rank has one.
    #[serde(default)]
    pub cpu_quota: Option<f64>,
    /// Sum of the threads that called MPI, see [`super::RankRow::mpi_threads`]; empty if that of no
    /// rank is known.
    #[serde(default)]
    pub mpi_threads: Option<u64>,
    /// Sum of the time that these threads lived, see [`super::RankRow::mpi_thread_s`].
    #[serde(default)]
    pub mpi_thread_s: Option<Seconds>,
}

impl Row for NodeRow {
    const FILE: &'static str = "nodes.csv";
    const OPTIONAL: &'static [&'static str] = &[
        "cpu_quota",
        "cpu_s",
        "cpu_wait_max_rank",
        "cpu_wait_max_s",
        "cpu_wait_s",
        "cpus_allowed",
        "mpi_thread_s",
        "mpi_threads",
        "node_cpus",
    ];
}

/// `totals.csv`: one row per communicator or family, region, operation, size class, kind of memory
/// and call site, over ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct TotalRow {
    /// The communicator or family.
    pub comm: String,
    /// The named regions around the call, outermost first: `solver/halo`; empty outside of any.
    pub region: String,
    /// The standard's name of the function.
    pub call: String,
    /// The smallest message of the size class.
    pub size_min: u64,
    /// The largest message of the size class.
    pub size_max: u64,
    /// The kind of memory that has the buffers, as in `calls.csv`.
    pub memory: Memory,
    /// The place in the program that makes the calls, see [`super::SiteRow`]; empty if it is not
    /// known, or was not kept.
    #[serde(default)]
    pub site: Option<SiteId>,
    /// The number of ranks that made such calls.
    pub ranks: u64,
    /// The number of calls, over all ranks.
    pub calls: u64,
    /// The bytes of the calls, over all ranks, as in [`super::CallRow::bytes`].
    pub bytes: u64,
    /// The time in the calls, over all ranks.
    pub time_s: Seconds,
    /// The time of the rank with least.
    pub time_min_s: Seconds,
    /// The rank of `time_min_s`.
    pub time_min_rank: u32,
    /// The time of the rank with most.
    pub time_max_s: Seconds,
    /// The rank of `time_max_s`.
    pub time_max_rank: u32,
    /// The standard deviation of the ranks' times.
    pub time_deviation_s: Seconds,
    /// The shortest call.
    pub min_s: Seconds,
    /// The longest call.
    pub max_s: Seconds,
}

impl Row for TotalRow {
    const FILE: &'static str = "totals.csv";
    const OPTIONAL: &'static [&'static str] = &["site"];
}

/// `spread.csv`: how the totals of ranks differ, by communicator and operation, by communicator
/// (`call` is empty), by operation (`comm` is empty), and overall (both are empty).
///
/// Rows of `totals.csv` do not show that: the rank with most time in one size class need not be the
/// one with most in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct SpreadRow {
    /// The communicator or family; empty for all.
    pub comm: String,
    /// The standard's name of the function; empty for all.
    pub call: String,
    /// The number of ranks that made such calls.
    pub ranks: u64,
    /// The number of calls, over all ranks.
    pub calls: u64,
    /// The calls of the rank with fewest.
    pub calls_min: u64,
    /// The calls of the rank with most.
    pub calls_max: u64,
    /// The rank of `calls_max`.
    pub calls_max_rank: u32,
    /// The bytes of the calls, over all ranks, as in [`super::CallRow::bytes`].
    pub bytes: u64,
    /// The bytes of the rank with fewest.
    pub bytes_min: u64,
    /// The bytes of the rank with most.
    pub bytes_max: u64,
    /// The rank of `bytes_max`.
    pub bytes_max_rank: u32,
    /// The time in the calls, over all ranks.
    pub time_s: Seconds,
    /// The time of the rank with least.
    pub time_min_s: Seconds,
    /// The rank of `time_min_s`.
    pub time_min_rank: u32,
    /// The time of the rank with most.
    pub time_max_s: Seconds,
    /// The rank of `time_max_s`.
    pub time_max_rank: u32,
    /// The standard deviation of the ranks' times.
    pub time_deviation_s: Seconds,
}

impl Row for SpreadRow {
    const FILE: &'static str = "spread.csv";
}

/// `offsets.csv`: messages and one-sided operations by how far the peer is from the rank,
/// peer − rank.
///
/// Regular programs have few offsets. If a communicator has many, a row
/// has a power of two of them: 4 to 7, 8 to 15, and the same below 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct OffsetRow {
    /// The communicator or family.
    pub comm: String,
    /// The smallest offset of the row.
    pub offset_min: i64,
    /// The largest offset of the row.
    pub offset_max: i64,
    /// The number of pairs of a rank and a peer.
    pub pairs: u64,
    /// Messages that the ranks sent to their peers.
    pub sent_messages: u64,
    /// Bytes of `sent_messages`.
    pub sent_bytes: u64,
    /// Messages that the ranks received from their peers.
    pub received_messages: u64,
    /// Bytes of `received_messages`.
    pub received_bytes: u64,
    /// Puts of the ranks to the memory of their peers: `MPI_Put` and `MPI_Rput`.
    #[serde(default)]
    pub puts: u64,
    /// Bytes of `puts`.
    #[serde(default)]
    pub put_bytes: u64,
    /// Gets of the ranks from the memory of their peers: `MPI_Get` and `MPI_Rget`.
    #[serde(default)]
    pub gets: u64,
    /// Bytes of `gets`.
    #[serde(default)]
    pub get_bytes: u64,
    /// Accumulations of the ranks in the memory of their peers: `MPI_Accumulate`,
    /// `MPI_Get_accumulate`, `MPI_Fetch_and_op`, `MPI_Compare_and_swap`, and their variants with a
    /// request.
    #[serde(default)]
    pub accumulates: u64,
    /// Bytes of `accumulates`.
    #[serde(default)]
    pub accumulate_bytes: u64,
}

impl Row for OffsetRow {
    const FILE: &'static str = "offsets.csv";
    const OPTIONAL: &'static [&'static str] = super::peers::ONE_SIDED;
}

/// `outside-totals.csv`: messages and one-sided operations with processes of other worlds, over
/// ranks. A profile without such rows has no such file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct OutsideTotalRow {
    /// The communicator or family.
    pub comm: String,
    /// The number of pairs of a rank and a process of another world.
    pub pairs: u64,
    /// Messages that the ranks sent to processes of other worlds.
    pub sent_messages: u64,
    /// Bytes of `sent_messages`.
    pub sent_bytes: u64,
    /// Messages that the ranks received from processes of other worlds.
    pub received_messages: u64,
    /// Bytes of `received_messages`.
    pub received_bytes: u64,
    /// Puts of the ranks to the memory of processes of other worlds: `MPI_Put` and `MPI_Rput`.
    #[serde(default)]
    pub puts: u64,
    /// Bytes of `puts`.
    #[serde(default)]
    pub put_bytes: u64,
    /// Gets of the ranks from the memory of processes of other worlds: `MPI_Get` and `MPI_Rget`.
    #[serde(default)]
    pub gets: u64,
    /// Bytes of `gets`.
    #[serde(default)]
    pub get_bytes: u64,
    /// Accumulations of the ranks in the memory of processes of other worlds: `MPI_Accumulate`,
    /// `MPI_Get_accumulate`, `MPI_Fetch_and_op`, `MPI_Compare_and_swap`, and their variants with a
    /// request.
    #[serde(default)]
    pub accumulates: u64,
    /// Bytes of `accumulates`.
    #[serde(default)]
    pub accumulate_bytes: u64,
}

impl Row for OutsideTotalRow {
    const FILE: &'static str = "outside-totals.csv";
    const OPTIONAL: &'static [&'static str] = super::peers::ONE_SIDED;
}

/// `region-totals.csv`: one row per named region, over the ranks that entered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct RegionTotalRow {
    /// The region with those around it: `solver/halo`.
    pub region: String,
    /// The number of ranks that entered it.
    pub ranks: u64,
    /// The number of entries, over all ranks.
    pub entries: u64,
    /// Sum over ranks of the time in the region, as in [`super::RegionRow::wall_s`].
    pub wall_s: Seconds,
    /// The longest time of a rank in the region.
    pub wall_max_s: Seconds,
    /// The rank of `wall_max_s`.
    pub wall_max_rank: u32,
    /// Of `wall_s`, inside recorded MPI calls.
    pub mpi_s: Seconds,
    /// Sum of what the threads that call MPI there spent in the region and outside of MPI.
    pub useful_s: Seconds,
    /// The most that a rank spent in the region and outside of MPI, as the mean of these threads.
    pub useful_max_s: Seconds,
    /// Sum of the threads that called MPI there, see [`super::RegionRow::mpi_threads`], where a
    /// rank without any counts as one; empty if that of no rank is known.
    #[serde(default)]
    pub mpi_threads: Option<u64>,
    /// Sum of the time that these threads lived meanwhile, see [`super::RegionRow::mpi_thread_s`].
    #[serde(default)]
    pub mpi_thread_s: Option<Seconds>,
}

impl Row for RegionTotalRow {
    const FILE: &'static str = "region-totals.csv";
    const OPTIONAL: &'static [&'static str] = &["mpi_thread_s", "mpi_threads"];
}

/// The place of memory, relative to the device whose kernels access it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerDevice {
    /// On the same device: of another rank that shares it.
    Same,
    /// On another device.
    Another,
    /// On the host.
    Host,
    /// Wherever the driver has moved it.
    Managed,
}

/// `gpu-totals.csv`: accesses of kernels to memory beyond their own device and process, over ranks;
/// one row per kernel, source line, launching line, relation to the owner, object, kind of access
/// and width. A profile without such accesses has no such file.
///
/// A line that accesses more than 64 objects has `*` for numbers in their names, and where these
/// are still too many, `*` for all of them. Offsets are as in [`OffsetRow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct GpuTotalRow {
    /// The kind of memory: `device`, `ipc`, `imported`, `pinned`, `registered` or `managed`.
    pub memory: GpuMemory,
    /// The smallest offset of the owner's rank from that of the rank whose kernels they are: 0 for
    /// its own memory, empty if the owner is unknown.
    pub offset_min: Option<i64>,
    /// The largest offset of the owner's rank.
    pub offset_max: Option<i64>,
    /// The place of the memory: `same`, `another`, `host` or `managed`; empty if that is unknown.
    pub peer_device: Option<PeerDevice>,
    /// The kernel's name, mangled.
    pub kernel: String,
    /// The line that accesses, as in [`super::GpuRow`].
    pub source: String,
    /// The line that launched the kernel, as in [`super::GpuRow`].
    pub launched: String,
    /// The memory's name or its allocating call, as in [`super::GpuRow`]; with `*` where there are
    /// too many.
    pub object: String,
    /// The kind of access: `load`, `store` or `atomic`.
    pub access: Access,
    /// Bytes of one lane's access, as in [`super::GpuRow`].
    pub width: u32,
    /// The number of rows of `gpu.csv`, as it would be by rank, for which this one stands.
    pub count: u64,
    /// Accesses by single lanes, over all of them; scaled, if sampled.
    pub accesses: u64,
    /// Bytes of `accesses`.
    pub bytes: u64,
    /// The bytes of the row with fewest.
    pub bytes_min: u64,
    /// The bytes of the row with most.
    pub bytes_max: u64,
    /// The rank of the row with most bytes, the first where there are several.
    pub bytes_max_rank: u32,
    /// N, where one warp in N was counted, or one interval between waits of the program.
    pub sampled: u32,
    /// The standard error of `accesses`: the root of the sum of the squares of the rows'.
    pub error: f64,
}

impl Row for GpuTotalRow {
    const FILE: &'static str = "gpu-totals.csv";
}
