//! The summary as CSV and as JSON.

use super::Summary;
use super::run::RunSummary;
use crate::operation_sums::{CommSum, OperationSum, Sums};
use crate::output;
use crate::units::to_nine_decimals;
use anyhow::Result;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::{Members, Seconds};
use serde::Serialize;

const CSV_COLUMNS: [&str; 15] = [
    "comm",
    "size",
    "members",
    "label",
    "ranks",
    "call",
    "mean_s",
    "min_s",
    "max_s",
    "time_s",
    "bytes",
    "calls",
    "max_rank",
    "count",
    "share_of_mpi",
];

/// The column of times of GPUs, which only profiles with such times have.
const OF_GPU: &str = "gpu_mean_s";

/// One row per communicator and operation.
pub fn csv(summary: &Summary) -> Result<Vec<u8>> {
    let has_times_of_gpu = summary.comms.iter().any(|comm| summary.gpu.of_comm(comm).is_some());
    let columns: Vec<&str> = CSV_COLUMNS.into_iter().chain(has_times_of_gpu.then_some(OF_GPU)).collect();
    let of_gpu = |comm: &CommSum, call: &str| {
        let gpu_s = || summary.gpu.of_operation(comm, call).map(Seconds);
        Vec::from_iter(has_times_of_gpu.then(gpu_s))
    };
    let rows = summary.comms.iter().flat_map(|comm| {
        let (members, label) = (members(comm), label(comm));
        let of_gpu = &of_gpu;
        comm.operations.iter().map(move |OperationSum { call, sums }| {
            (
                (&comm.comm, size(comm), members.clone(), label.clone(), comm.ranks, call),
                (
                    Seconds(sums.mean_s),
                    sums.min_s.map(Seconds),
                    sums.max_s.map(Seconds),
                    Seconds(sums.time_s),
                ),
                (sums.bytes, sums.calls, sums.max_rank, count(comm), share(comm, sums, summary).map(Seconds)),
                of_gpu(comm, call),
            )
        })
    });
    output::csv(&columns, rows)
}

/// The size, if it is the same for all.
fn size(comm: &CommSum) -> Option<u32> {
    let rows = &comm.family.as_ref()?.rows;
    rows.iter().all(|row| row.size == rows[0].size).then_some(rows[0].size)
}

/// For how many communicators it stands.
fn count(comm: &CommSum) -> Option<u64> {
    comm.family.as_ref().map(|family| family.count())
}

/// The members, of several communicators all of them.
fn members(comm: &CommSum) -> Option<Members> {
    let family = comm.family.as_ref()?;
    Some(match family.rows[..] {
        [row] => row.members.clone(),
        _ => Members { group: family.members(), ..Members::default() },
    })
}

fn label(comm: &CommSum) -> String {
    comm.family.as_ref().map_or(String::new(), |family| family.label())
}

/// The share of the MPI time, of which calls of NCCL are no part.
fn share(comm: &CommSum, sums: &Sums, summary: &Summary) -> Option<f64> {
    (summary.mpi_s > 0.0 && !is_nccl(&comm.comm)).then(|| sums.time_s / summary.mpi_s)
}

#[derive(Serialize)]
struct Document<'a> {
    run: &'a RunSummary<'a>,
    partial_because: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    caveats: &'a [String],
    communicators: Vec<CommDocument<'a>>,
    communicators_left_out: usize,
}

#[derive(Serialize)]
struct CommDocument<'a> {
    comm: &'a str,
    /// None where several communicators are not of one size.
    size: Option<u32>,
    /// How many communicators it stands for.
    count: Option<u64>,
    members: Option<Members>,
    label: String,
    /// Over how many ranks mean, minimum and maximum are taken.
    ranks: u64,
    #[serde(flatten)]
    sums: SumsDocument,
    operations: Vec<OperationDocument<'a>>,
}

#[derive(Serialize)]
struct OperationDocument<'a> {
    call: &'a str,
    #[serde(flatten)]
    sums: SumsDocument,
}

/// The fields are those of [`Sums`].
#[derive(Serialize)]
struct SumsDocument {
    mean_s: f64,
    min_s: Option<f64>,
    max_s: Option<f64>,
    time_s: f64,
    /// By the MPI time of all ranks, from 0 to 1.
    share_of_mpi: Option<f64>,
    bytes: u64,
    calls: u64,
    max_rank: Option<u32>,
    /// Mean over ranks, of calls of NCCL that the GPU has timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_mean_s: Option<f64>,
}

/// The run, and a list of communicators with their operations.
pub fn json(summary: &Summary) -> Result<Vec<u8>> {
    output::json(&Document {
        run: &summary.run,
        partial_because: summary.partial_because.as_deref(),
        caveats: &summary.notes,
        communicators: summary.comms.iter().map(|comm| comm_document(comm, summary)).collect(),
        communicators_left_out: summary.left_out.len(),
    })
}

fn comm_document<'a>(comm: &'a CommSum<'a>, summary: &Summary) -> CommDocument<'a> {
    let operation = |OperationSum { call, sums }: &'a OperationSum| OperationDocument {
        call,
        sums: sums_document(comm, sums, summary, summary.gpu.of_operation(comm, call)),
    };
    CommDocument {
        comm: &comm.comm,
        size: size(comm),
        count: count(comm),
        members: members(comm),
        label: label(comm),
        ranks: comm.ranks,
        sums: sums_document(comm, &comm.sums, summary, summary.gpu.of_comm(comm)),
        operations: comm.operations.iter().map(operation).collect(),
    }
}

fn sums_document(comm: &CommSum, sums: &Sums, summary: &Summary, gpu_s: Option<f64>) -> SumsDocument {
    SumsDocument {
        mean_s: to_nine_decimals(sums.mean_s),
        min_s: sums.min_s.map(to_nine_decimals),
        max_s: sums.max_s.map(to_nine_decimals),
        time_s: to_nine_decimals(sums.time_s),
        share_of_mpi: share(comm, sums, summary).map(to_nine_decimals),
        bytes: sums.bytes,
        calls: sums.calls,
        max_rank: sums.max_rank,
        gpu_mean_s: gpu_s.map(to_nine_decimals),
    }
}
