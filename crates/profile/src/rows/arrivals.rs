//! The tables of arrivals at collectives: when each member entered and left sampled calls.
//!
//! A profile has both tables or neither. Instance `k` of an operation on a communicator is sampled
//! on all of its members or on none, so that the rows of one instance can be joined.

use super::{Row, Seconds};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// `arrivals.csv`: one row per communicator, collective operation, sampled instance and rank.
///
/// Times are those of the clock `CLOCK_MONOTONIC` of the rank's node, which all ranks of a host
/// share. A member may lack instances that others have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct ArrivalRow {
    /// The communicator.
    pub comm: String,
    /// The standard's name of the operation: `MPI_Allreduce`.
    pub call: String,
    /// The number of calls of the operation on the communicator that came before this one: the same
    /// on all members.
    pub instance: u64,
    /// The process.
    pub rank: u32,
    /// The root's rank in `MPI_COMM_WORLD`; empty if the operation has none.
    pub root: Option<u32>,
    /// When the rank entered the call; of a nonblocking or persistent operation, the call that
    /// completed it.
    pub arrival_s: Seconds,
    /// When the rank left the call of `arrival_s`. A call that only tests for completion waits for
    /// nothing: it has the same time twice.
    pub departure_s: Seconds,
    /// When the rank started a nonblocking or persistent operation; empty for a blocking one.
    #[serde(default)]
    pub started_s: Option<Seconds>,
    /// How many sends, receives and collective operations the call completed, this one included and
    /// those not that were complete when they started; empty of a blocking one.
    #[serde(default)]
    pub completed: Option<u32>,
}

impl Row for ArrivalRow {
    const FILE: &'static str = "arrivals.csv";
    const OPTIONAL: &'static [&'static str] = &["started_s", "completed"];
}

/// `collectives.csv`: one row per communicator, collective operation and rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct CollectiveRow {
    /// The communicator.
    pub comm: String,
    /// The standard's name of the operation.
    pub call: String,
    /// The process.
    pub rank: u32,
    /// Calls of the operation that the rank made on the communicator, including those while
    /// recording was off.
    pub instances: u64,
    /// Of `instances`, the number that have a row in `arrivals.csv`.
    pub sampled: u64,
    /// The mean time of arrival over all recorded instances, on the clock of `arrivals.csv`; of a
    /// nonblocking operation, of the calls that start it; of a persistent one 0.
    pub mean_arrival_s: Seconds,
    /// The mean time of departure from the same calls as in `mean_arrival_s`.
    pub mean_departure_s: Seconds,
}

impl Row for CollectiveRow {
    const FILE: &'static str = "collectives.csv";
}
