//! How long the GPU worked on calls of NCCL, for the rows of the summary.

use crate::filter::CallFilter;
use crate::nccl_times::{self, TimedCalls};
use crate::operation_sums::CommSum;
use crate::view::ProfileView;
use anyhow::Result;
use std::collections::HashMap;

/// How long GPUs worked; nothing of a profile without such times.
#[derive(Debug, Default)]
pub struct GpuTimes {
    /// Seconds over all ranks, by communicator and operation. Of a process with several GPUs it is
    /// their mean.
    seconds: HashMap<String, HashMap<String, f64>>,
    /// Calls that were timed, and those that were not.
    calls: [u64; 2],
}

impl GpuTimes {
    /// Of the calls that the filter takes.
    pub fn read(view: &ProfileView, filter: &CallFilter) -> Result<Self> {
        let mut times = GpuTimes::default();
        for timed in nccl_times::chosen(view, filter)? {
            let timed = timed?;
            let gpu_s = timed.gpu_s();
            let TimedCalls { row, .. } = timed;
            times.calls = [times.calls[0] + row.calls, times.calls[1] + row.untimed];
            if row.calls > 0 {
                *times.seconds.entry(row.comm).or_default().entry(row.call).or_default() += gpu_s;
            }
        }
        Ok(times)
    }

    /// A sentence on calls that were not timed, where others were.
    pub fn note(&self) -> Option<String> {
        nccl_times::note_on_untimed(self.calls)
    }

    /// The mean over the ranks of a row, of one of its operations.
    pub fn of_operation(&self, comm: &CommSum<'_>, call: &str) -> Option<f64> {
        let names: Vec<&str> = match &comm.family {
            Some(family) => family.rows.iter().map(|row| row.comm.as_str()).collect(),
            None => vec![&comm.comm],
        };
        let times = names.into_iter().filter_map(|name| self.seconds.get(name)?.get(call));
        let sum_s = times.fold(None, |sum: Option<f64>, time_s| Some(sum.unwrap_or(0.0) + time_s));
        sum_s.map(|sum_s| sum_s / comm.ranks.max(1) as f64)
    }

    /// The same of several operations.
    pub fn of_operations<'c>(
        &self,
        comm: &CommSum<'_>,
        calls: impl IntoIterator<Item = &'c str>,
    ) -> Option<f64> {
        let times = calls.into_iter().filter_map(|call| self.of_operation(comm, call));
        times.fold(None, |sum: Option<f64>, time_s| Some(sum.unwrap_or(0.0) + time_s))
    }

    /// The same of all operations of a row.
    pub fn of_comm(&self, comm: &CommSum<'_>) -> Option<f64> {
        self.of_operations(comm, comm.operations.iter().map(|operation| operation.call.as_str()))
    }
}
