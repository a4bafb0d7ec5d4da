//! The tables of a profile directory: one struct per record type, one field per column.
//!
//! Field names are column names. Times are seconds, sizes bytes, ranks those in `MPI_COMM_WORLD`.

use crate::RankSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

/// A record type: the file that holds it and its columns in order.
pub trait Row: Serialize + DeserializeOwned {
    /// The file's name in the profile directory.
    const FILE: &'static str;
    /// The columns, in the order in which they are written.
    const COLUMNS: &'static [&'static str];
}

/// Seconds, written with nanoseconds and without an exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.9}", self.0))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if seconds.is_finite() && seconds >= 0.0 {
            Ok(Seconds(seconds))
        } else {
            Err(serde::de::Error::custom(format!("{seconds} is not a time in seconds")))
        }
    }
}

/// Where a communication buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Memory of the host.
    Host,
    /// Memory of a GPU.
    Device,
    /// Memory that the driver moves between host and GPU.
    Managed,
}

/// The processes of a communicator: one group, or the two of an intercommunicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The group; of an intercommunicator, the one with the smallest world rank.
    pub group: RankSet,
    /// The other group of an intercommunicator.
    pub remote: Option<RankSet>,
}

impl Members {
    /// All processes of both groups.
    pub fn all(&self) -> RankSet {
        match &self.remote {
            Some(remote) => self.group.union(remote),
            None => self.group.clone(),
        }
    }
}

impl Members {
    /// Whether `rank` is in one of the groups.
    pub fn contains(&self, rank: u32) -> bool {
        self.group.contains(rank) || self.remote.as_ref().is_some_and(|remote| remote.contains(rank))
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.remote {
            Some(remote) => serializer.collect_str(&format_args!("{}|{remote}", self.group)),
            None => serializer.collect_str(&self.group),
        }
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parse = |part: &str| part.parse::<RankSet>().map_err(serde::de::Error::custom);
        Ok(match text.split_once('|') {
            Some((group, remote)) => Members { group: parse(group)?, remote: Some(parse(remote)?) },
            None => Members { group: parse(&text)?, remote: None },
        })
    }
}

/// `ranks.csv`: one row per process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankRow {
    /// The process.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// From the end of `MPI_Init` to the start of `MPI_Finalize`.
    pub wall_s: Seconds,
    /// Of that, inside recorded MPI calls.
    pub mpi_s: Seconds,
    /// UUID of its GPU, or empty.
    pub gpu: String,
}

impl Row for RankRow {
    const FILE: &'static str = "ranks.csv";
    const COLUMNS: &'static [&'static str] = &["rank", "host", "pid", "wall_s", "mpi_s", "gpu"];
}

/// `comms.csv`: one row per communicator.
///
/// `MPI_COMM_SELF`, `S`, and its descendants stand for one communicator of each process: their row is
/// shared, has size 1, and lists the processes that have one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommRow {
    /// Its name, which tells its ancestry: `W_a1_s2.0`.
    pub comm: String,
    /// The parent's name; empty for `W` and `S`.
    pub parent: String,
    /// The call that created it: `MPI_Comm_split`; empty for `W` and `S`.
    pub created_by: String,
    /// The number of processes, of both groups for an intercommunicator.
    pub size: u32,
    /// World ranks as ranges: `0-63,128-191`; of an intercommunicator both groups: `0-3|4-7`.
    pub members: Members,
    /// The name that the application gave with `MPI_Comm_set_name`, or empty.
    pub label: String,
    /// `cart dims=4x2 periods=1x0`, `graph degree=1-3`, `dist_graph in=2 out=1-2`, or empty.
    pub topology: String,
    /// 1 if the creating call was asked to reorder ranks, 0 if not; empty where there is no such argument.
    pub reorder: Option<u8>,
    /// How many nodes its processes are on.
    pub nodes: u32,
    /// 1 if the application freed it.
    pub freed: u8,
}

impl Row for CommRow {
    const FILE: &'static str = "comms.csv";
    const COLUMNS: &'static [&'static str] = &[
        "comm",
        "parent",
        "created_by",
        "size",
        "members",
        "label",
        "topology",
        "reorder",
        "nodes",
        "freed",
    ];
}

/// `calls.csv`: one row per communicator, rank, region, operation, size class and kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The named regions around the call, outermost first: `solver/halo`; empty outside of any.
    pub region: String,
    /// The standard's name of the function: `MPI_Allreduce`.
    pub call: String,
    /// The smallest message of the size class.
    pub size_min: u64,
    /// The largest message of the size class.
    pub size_max: u64,
    /// Where the buffer lies.
    pub memory: Memory,
    /// How many calls.
    pub calls: u64,
    /// The bytes that this process contributed (see the table of volumes in docs/volumes.md).
    pub bytes: u64,
    /// The time in the calls.
    pub time_s: Seconds,
    /// The shortest call.
    pub min_s: Seconds,
    /// The longest call.
    pub max_s: Seconds,
}

impl Row for CallRow {
    const FILE: &'static str = "calls.csv";
    const COLUMNS: &'static [&'static str] = &[
        "comm", "rank", "region", "call", "size_min", "size_max", "memory", "calls", "bytes", "time_s",
        "min_s", "max_s",
    ];
}

/// `peers.csv`: one row per communicator, rank and peer, point-to-point only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The other process.
    pub peer: u32,
    /// Messages that `rank` sent to `peer`.
    pub sent_messages: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that `rank` received from `peer`.
    pub received_messages: u64,
    /// Their bytes.
    pub received_bytes: u64,
}

impl Row for PeerRow {
    const FILE: &'static str = "peers.csv";
    const COLUMNS: &'static [&'static str] =
        &["comm", "rank", "peer", "sent_messages", "sent_bytes", "received_messages", "received_bytes"];
}

/// `regions.csv`: one row per rank and named region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionRow {
    /// The process.
    pub rank: u32,
    /// The region with those around it: `solver/halo`.
    pub region: String,
    /// The time between its begins and ends, nested regions included.
    pub wall_s: Seconds,
    /// Of that, inside recorded MPI calls.
    pub mpi_s: Seconds,
    /// How often it began.
    pub entries: u64,
}

impl Row for RegionRow {
    const FILE: &'static str = "regions.csv";
    const COLUMNS: &'static [&'static str] = &["rank", "region", "wall_s", "mpi_s", "entries"];
}
