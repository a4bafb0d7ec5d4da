//! Times of calls of NCCL on GPUs (`nccl-times.csv`), and the bandwidth that follows from them.

use crate::filter::CallFilter;
use crate::units::count;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::comm_name::is_shared_row;
use mpisee_profile::rows::{CallRow, CommRow, Memory, NcclTimeRow, Row};
use std::collections::HashMap;

/// The calls of which each makes one of NCCL's ranks.
const INITS: [&str; 3] = ["ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitRankScalable"];

/// A row of `nccl-times.csv`.
pub struct TimedCalls {
    pub row: NcclTimeRow,
    /// GPUs of the process in the communicator, whose times are added up in the row.
    pub gpus: f64,
}

impl TimedCalls {
    /// How long a GPU of the process worked on the calls, in seconds; of several GPUs it is their
    /// mean.
    pub fn gpu_s(&self) -> f64 {
        self.row.gpu_s.0 / self.gpus
    }
}

/// The rows of a profile; none where no calls were timed.
pub fn rows(view: &ProfileView) -> Result<impl Iterator<Item = Result<TimedCalls>>> {
    let gpus = Gpus::read(view)?;
    Ok(view.profile().rows_if_any::<NcclTimeRow>()?.map(move |row| {
        let row = row?;
        let gpus = gpus.seconds(&row.comm, row.rank);
        Ok(TimedCalls { row, gpus })
    }))
}

/// The rows that a filter takes. The table does not have the memory of buffers: where some is
/// chosen, nothing is known of these calls.
pub fn chosen<'a>(
    view: &'a ProfileView,
    filter: &'a CallFilter,
) -> Result<impl Iterator<Item = Result<TimedCalls>> + 'a> {
    let is_chosen = |row: &NcclTimeRow| {
        let all = [Memory::Host, Memory::Device, Memory::Managed, Memory::Pinned];
        all.into_iter().all(|memory| filter.takes_row(row.rank, row.size_min, row.size_max, memory))
            && filter.takes_region(&row.region)
            && filter.takes_call(&row.call)
            && view.processes().takes_comm(&filter.comms, &row.comm)
    };
    Ok(rows(view)?.filter(move |timed| timed.as_ref().map_or(true, |timed| is_chosen(&timed.row))))
}

/// The number of calls that were timed, and of those that were not, of the rows that a filter
/// takes.
pub fn timed_and_not(view: &ProfileView, filter: &CallFilter) -> Result<[u64; 2]> {
    chosen(view, filter)?.try_fold([0_u64; 2], |[timed, untimed], row| {
        let row = row?.row;
        Ok([timed.saturating_add(row.calls), untimed.saturating_add(row.untimed)])
    })
}

/// A sentence on calls that were not timed, where others were.
pub fn note_on_untimed([timed, untimed]: [u64; 2]) -> Option<String> {
    (timed > 0 && untimed > 0).then(|| {
        format!(
            "The GPU's time is that of {}; {untimed} more were not timed. mpisee-through gpu has these \
             numbers by operation.",
            count(timed, "call")
        )
    })
}

/// The number of NCCL's ranks that a process has in each communicator: more than one where it uses
/// several GPUs.
struct Gpus<'v> {
    comms: &'v HashMap<String, CommRow>,
    /// Calls of [`INITS`], by communicator and rank.
    made: HashMap<String, HashMap<u32, u64>>,
    /// True if processes are missing in the profile.
    lacks_ranks: bool,
}

impl<'v> Gpus<'v> {
    fn read(view: &'v ProfileView) -> Result<Self> {
        let processes = view.processes();
        let lacks_ranks = processes.count() < u64::from(view.run().ranks);
        let mut gpus = Gpus { comms: &processes.comms, made: HashMap::new(), lacks_ranks };
        if !view.profile().directory().join(NcclTimeRow::FILE).exists() {
            return Ok(gpus);
        }
        for row in view.profile().rows::<CallRow>()? {
            let row = row?;
            if INITS.contains(&row.call.as_str()) {
                *gpus.made.entry(row.comm).or_default().entry(row.rank).or_default() += row.calls;
            }
        }
        Ok(gpus)
    }

    /// The number of a rank.
    fn seconds(&self, comm: &str, rank: u32) -> f64 {
        let Some(row) = self.comms.get(comm) else { return 1.0 };
        if let Some(own) = self.own(row, rank) {
            return own as f64;
        }
        // Members that are missing would count as GPUs of the others.
        match self.lacks_ranks && !row.created_by.starts_with("ncclCommInitAll") {
            true => 1.0,
            false => mean_per_process(row),
        }
    }

    /// The number of a rank where its own calls say it: those that made the communicator, or the
    /// one that it is a part of.
    fn own(&self, row: &CommRow, rank: u32) -> Option<u64> {
        let mut row = row;
        let mut is_part = false;
        // No longer than a chain of parents can be: a table by another hand may go in circles.
        for _ in 0..self.comms.len() {
            let is_one = row.count == 1 && !is_shared_row(&row.comm);
            let made = self.made.get(&row.comm).and_then(|ranks| ranks.get(&rank)).filter(|_| is_one);
            if let Some(&made) = made {
                // Of several GPUs any number may be in a part.
                return (made == 1 || !is_part).then_some(made);
            }
            row = self.comms.get(&row.parent)?;
            is_part = true;
        }
        None
    }
}

/// NCCL's ranks for each process of a communicator all of whose members are in the profile.
fn mean_per_process(row: &CommRow) -> f64 {
    let members = row.members.len();
    if members == 0 { 1.0 } else { (f64::from(row.size) / members as f64).max(1.0) }
}

/// The begin of the note in `run.json` on times that sums over ranks do not have.
const LEFT_OUT: &str =
    "the GPU's time in calls of NCCL was measured, but is not in profiles with sums over ranks";

/// A sentence on times that were measured and that sums over ranks do not have.
pub fn note_on_sums(view: &ProfileView) -> Option<String> {
    let is_left_out = view.run().is_aggregate && view.run().notes.iter().any(|note| note.contains(LEFT_OUT));
    is_left_out.then(|| {
        "The GPU's time in calls of NCCL was measured, but profiles with sums over ranks leave it out. \
         MPISEE_FOLD sets the number of ranks from which on there are sums."
            .to_owned()
    })
}

/// A sentence on the share of the wall time in which GPUs worked on calls of NCCL, if it was
/// measured.
pub fn share_of_wall(view: &ProfileView) -> Result<Option<String>> {
    let gpu_s = rows(view)?.map(|timed| Ok(timed?.gpu_s())).sum::<Result<f64>>()?;
    let wall_s = view.processes().wall_s();
    Ok((gpu_s > 0.0 && wall_s > 0.0).then(|| {
        format!(
            "GPUs spent {:.1} % of their ranks' wall time in timed calls of NCCL, including waiting for \
             other ranks. Calls in several streams at once count each.",
            100.0 * gpu_s / wall_s
        )
    }))
}

/// Returns whether a call moves the blocks of all ranks from or to the root.
pub fn is_of_root(call: &str) -> bool {
    matches!(call.trim_end_matches("Config"), "ncclGather" | "ncclScatter")
}

/// The bus bandwidth of calls with these bytes in this time, if the operation has one.
pub fn bus_bytes_per_s(call: &str, size: u32, bytes: f64, time_s: f64) -> Option<f64> {
    let bytes = bus_bytes(call, size, bytes).filter(|_| time_s > 0.0)?;
    Some(bytes / time_s).filter(|&bytes_per_s| bytes_per_s > 0.0)
}

/// The bytes that the links of a rank carry at least each way in a call, as NVIDIA's nccl-tests
/// counts them for its bus bandwidth (PERFORMANCE.md there); `bytes` are those of the rules of
/// docs/explanation/bytes-and-times.md, of the rank that has most. `None` of several calls at once.
fn bus_bytes(call: &str, size: u32, bytes: f64) -> Option<f64> {
    let others = f64::from(size.checked_sub(1)?);
    let size = f64::from(size);
    Some(match call.trim_end_matches("Config") {
        "ncclAllReduce" => 2.0 * bytes * others / size,
        // A block from each, or for each.
        "ncclAllGather" | "ncclReduceScatter" | "ncclGather" | "ncclScatter" => bytes * others,
        "ncclAlltoAll" | "ncclAllToAll" => bytes * others / size,
        "ncclBroadcast" | "ncclBcast" | "ncclReduce" | "ncclSend" | "ncclRecv" => bytes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::bus_bytes;

    #[test]
    fn the_bytes_of_the_bus_are_those_of_nccl_tests() {
        let of = |call: &str| bus_bytes(call, 4, 1200.0);
        assert_eq!(of("ncclAllReduce"), Some(1800.0));
        assert_eq!(of("ncclAllReduceConfig"), Some(1800.0));
        assert_eq!([of("ncclAllGather"), of("ncclScatter")], [Some(3600.0); 2]);
        assert_eq!([of("ncclAlltoAll"), of("ncclAllToAll")], [Some(900.0); 2]);
        assert_eq!([of("ncclBroadcast"), of("ncclSend")], [Some(1200.0); 2]);
        assert_eq!([of("ncclGroupEnd"), bus_bytes("ncclSend", 0, 1.0)], [None; 2]);
    }
}
