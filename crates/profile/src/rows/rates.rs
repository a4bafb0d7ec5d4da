//! The tables of a time line, which `mpisee-through agent` writes beside a profile: what ranks did
//! in each interval, and what their node counted meanwhile. They are in `NAME.timeline`, a pair of
//! compressed files per node.

use super::{Row, Seconds};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// `rates.csv`: one row per node, interval, communicator family and operation, where there was any.
///
/// Sums of a family and an operation over all intervals are those of the profile, as far as the
/// agent read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct RateRow {
    /// The node.
    pub host: String,
    /// When the interval began, since the start of the job in `job.json`.
    pub begin_s: Seconds,
    /// How long the interval was.
    pub length_s: Seconds,
    /// The communicators, as a family over ranks: `W_s1.*@64` are those of 64 processes that one
    /// call made. `(others)` for families beyond the limit on their number.
    pub family: String,
    /// The standard's name of the operation.
    pub call: String,
    /// The ranks of the node that have made such a call so far.
    pub ranks: u32,
    /// Of `ranks`, those that were in such a call at the end of the interval.
    pub inside: u32,
    /// How long that one of `inside` had been in the call that was in it for longest; 0 if none
    /// was.
    pub longest_s: Seconds,
    /// The calls of the node's ranks that ended in the interval.
    pub calls: u64,
    /// The bytes of these calls; docs/explanation/bytes-and-times.md has the rules.
    pub bytes: u64,
    /// The time of the node's ranks in such calls, that in calls which had not ended included.
    pub time_s: Seconds,
    /// The time of that one of `ranks` that had the least; of intervals that were joined, no more
    /// than that. Empty where an agent that was started anew does not know it.
    pub min_s: Option<Seconds>,
    /// The time of that one of `ranks` that had the most; of intervals that were joined, no less
    /// than that. Empty as `min_s` is.
    pub max_s: Option<Seconds>,
}

impl Row for RateRow {
    const FILE: &'static str = "rates.csv";
}

/// `node-rates.csv`: one row per node, interval and quantity that the node's kernel or its GPUs
/// count, where there was any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct NodeRateRow {
    /// The node.
    pub host: String,
    /// When the interval began, since the start of the job in `job.json`.
    pub begin_s: Seconds,
    /// How long the interval was.
    pub length_s: Seconds,
    /// Where it was read: `job`, `network`, `infiniband`, `pressure`, `memory`, `gpu` or `mpi`.
    pub source: String,
    /// The interface, the port, what was short, the GPU, its part or its link, the variable of
    /// MPI's: `eth0`, `mlx5_0/1`, `cpu`, `gpu0`, `gpu0/mig1`, `gpu0/nvlink`,
    /// `pml_ob1_posted_recvq_length`; empty of `job` and `memory`.
    pub device: String,
    /// The quantity, with its unit: `received_bytes`, `sent_bytes`, `sent_wait_ticks` (in which a
    /// port could not send), `stalled_s` (in which some process waited for what was short),
    /// `available_bytes` (at the end, or least of intervals that were joined), `ranks` (of the
    /// node, whose processes ran at the end), `busy_s` (in which a kernel ran on the GPU),
    /// `used_bytes` (at the end, or most of intervals that were joined), `counted` (by a variable
    /// of MPI's), `level` (its last value, summed over the node's ranks; most of intervals that
    /// were joined).
    pub quantity: String,
    /// The value: in the interval, not by second.
    pub value: f64,
}

impl Row for NodeRateRow {
    const FILE: &'static str = "node-rates.csv";
}
