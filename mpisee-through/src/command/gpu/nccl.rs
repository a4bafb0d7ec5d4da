//! The communicators of NCCL, and how long the GPU worked on their calls.

use super::cells::{COUNTED, text};
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::load;
use crate::nccl_times::{self, TimedCalls, bus_bytes_per_s, is_of_root};
use crate::sheet::{self, Sheet, Value};
use crate::units::time;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::glob::Glob;
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, HashMap};

/// The operations of NCCL alone.
fn calls(comms: &CommFilter) -> CallFilter {
    CallFilter::of_calls(comms.clone(), &[Glob::new("nccl*")])
}

/// Each communicator of NCCL that is chosen, and the communicator of MPI that has the same
/// processes.
pub fn comm_sheet(view: &ProfileView, chosen: &CommFilter) -> Result<Sheet> {
    let by = By { comm: true, without_times: true, ..By::default() };
    let groups = view.group(&calls(chosen), by)?;
    let comms = &view.processes().comms;
    let mut cells: Vec<_> = groups.cells.iter().collect();
    cells.sort_by_key(|(_, cell)| std::cmp::Reverse(cell.bytes));
    let is_of_mpi = !view.run().is_without_mpi();
    let row = |(key, cell): &(_, crate::group::Cell)| {
        let comm = groups.comm(key);
        let known = comms.get(comm);
        let same = known.filter(|_| is_of_mpi).and_then(|row| same_of_mpi(row, comms));
        vec![
            Value::from(comm),
            known.filter(|row| !row.label.is_empty()).map_or(Value::Nothing, |row| text(&row.label)),
            known.map_or(Value::Nothing, |row| Value::Count(row.size.into())),
            known.map_or(Value::Nothing, |row| text(&row.members.to_string())),
            same.map_or(Value::Nothing, Value::from),
            Value::Count(cell.calls),
            Value::Bytes(cell.bytes),
            Value::Seconds(cell.time_s()),
        ]
    };
    let mut heads = vec![
        sheet::fixed("comm", "COMM"),
        sheet::fixed("label", "LABEL").or_none(),
        sheet::number("size", "SIZE"),
        sheet::fixed("ranks", "RANKS"),
        sheet::fixed("same_as", "SAME AS").or_none(),
    ];
    heads.extend(COUNTED);
    Ok(Sheet { name: "nccl", heads, rows: cells.into_iter().map(row).collect() })
}

/// The communicator of MPI with the same processes, the one with the shortest name. Rows of several
/// communicators have the members of all: which of them has which is not known.
fn same_of_mpi<'c>(of_nccl: &CommRow, comms: &'c HashMap<String, CommRow>) -> Option<&'c str> {
    let is_same = |row: &&CommRow| {
        let is_of_mpi = !is_nccl(&row.comm) && !load::is_one_per_process(&row.comm);
        let is_one = row.count == 1 && of_nccl.count == 1;
        is_of_mpi && is_one && row.members == of_nccl.members && row.members.elided == [0, 0]
    };
    let found = comms.values().filter(is_same).min_by_key(|row| (row.comm.len(), &row.comm));
    found.map(|row| row.comm.as_str())
}

/// The calls of a process in a size class that the GPU has timed, over all regions.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    calls: u64,
    untimed: u64,
    bytes: u64,
    /// Of all GPUs of the process.
    all_s: f64,
    /// Of one of them.
    gpu_s: f64,
    /// True if the process has several GPUs in the communicator.
    has_several: bool,
}

impl Timed {
    fn add(&mut self, timed: &TimedCalls) {
        let row = &timed.row;
        self.calls = self.calls.saturating_add(row.calls);
        self.untimed = self.untimed.saturating_add(row.untimed);
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.all_s += row.gpu_s.0;
        self.gpu_s += timed.gpu_s();
        self.has_several |= timed.gpus > 1.0;
    }

    /// Seconds of a call.
    fn mean_s(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.all_s / self.calls as f64)
    }
}

/// How long the GPU worked on the calls of a communicator, by operation and size.
///
/// The times are of ranks: a rank's own time ends with the operation, and begins when its GPU comes
/// to it. So the rank that comes last to a call has the shortest one in it. The bandwidth is by the
/// rank with the shortest mean, which is nearest to what the operation itself takes.
pub fn time_sheet(view: &ProfileView, chosen: &CommFilter) -> Result<Sheet> {
    let filter = calls(chosen);
    let mut by_rank: BTreeMap<(String, String, u64, u64), BTreeMap<u32, Timed>> = BTreeMap::new();
    for timed in nccl_times::chosen(view, &filter)? {
        let timed = timed?;
        let row = &timed.row;
        let key = (row.comm.clone(), row.call.clone(), row.size_min, row.size_max);
        by_rank.entry(key).or_default().entry(row.rank).or_default().add(&timed);
    }
    let comms = &view.processes().comms;
    let mut rows: Vec<(f64, Vec<Value>)> = by_rank
        .iter()
        .map(|((comm, call, size_min, size_max), ranks)| {
            let of = Members::from_view(view, comms.get(comm), ranks.len());
            let mut row = vec![Value::from(comm.as_str()), Value::from(call.as_str())];
            row.extend([Value::Bytes(*size_min), Value::Bytes(*size_max)]);
            row.extend(cells(call, of, ranks));
            (ranks.values().map(|timed| timed.all_s).sum(), row)
        })
        .collect();
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let heads = vec![
        sheet::fixed("comm", "COMM"),
        sheet::fixed("call", "CALL"),
        sheet::number("size_min", "FROM").hidden_at(1),
        sheet::number("size_max", "TO"),
        sheet::number("calls", "TIMED"),
        sheet::number("untimed", "NOT TIMED").or_none(),
        sheet::number("gpu_mean_s", "GPU TIME"),
        sheet::number("call_mean_s", "PER CALL"),
        sheet::number("call_min_s", "LEAST").hidden_at(0),
        sheet::number("call_min_rank", "OF RANK").hidden_at(0),
        sheet::number("call_max_s", "MOST").hidden_at(0),
        sheet::number("call_max_rank", "OF RANK").hidden_at(0),
        sheet::number("bus_bytes_per_s", "BUS B/S").or_none(),
    ];
    Ok(Sheet { name: "nccl_times", heads, rows: rows.into_iter().map(|(_, row)| row).collect() })
}

/// The members of a communicator.
#[derive(Clone, Copy)]
struct Members {
    /// NCCL's ranks.
    size: u32,
    /// Processes of the profile.
    processes: u64,
}

impl Members {
    /// Of the communicator of a row; `with_times` processes have calls.
    fn from_view(view: &ProfileView, row: Option<&CommRow>, with_times: usize) -> Members {
        let present = row.map_or(0, |row| view.ranks_on(&[row], std::iter::empty(), &CommFilter::default()));
        Members { size: row.map_or(0, |row| row.size), processes: present.max(with_times as u64).max(1) }
    }
}

/// From the number of calls to the bandwidth.
fn cells(call: &str, of: Members, ranks: &BTreeMap<u32, Timed>) -> Vec<Value> {
    let sum = |of: fn(&Timed) -> u64| ranks.values().map(of).fold(0, u64::saturating_add);
    let calls = sum(|timed| timed.calls);
    let of_all = |of: fn(&Timed) -> f64| ranks.values().map(of).sum::<f64>();
    let seconds = |seconds: Option<f64>| seconds.map_or(Value::Nothing, Value::Seconds);
    // Where a process has several GPUs it is not known which of them took longer.
    let has_each = !ranks.values().any(|timed| timed.has_several);
    let each =
        || ranks.iter().filter_map(|(&rank, timed)| Some((timed.mean_s()?, rank))).filter(|_| has_each);
    let by_time = |one: &(f64, u32), other: &(f64, u32)| one.0.total_cmp(&other.0);
    let (least, most) = (each().min_by(by_time), each().max_by(by_time));
    // Of ranks that spend alike, as far as it is shown, none is named.
    let is_alone = |one_s: f64| each().filter(|(other_s, _)| time(*other_s) == time(one_s)).count() == 1;
    let rank = |of: Option<(f64, u32)>| {
        of.filter(|&(one_s, _)| is_alone(one_s)).map_or(Value::Nothing, |(_, rank)| Value::Count(rank.into()))
    };
    let per_call = |timed: &Timed| timed.bytes as f64 / timed.calls.max(1) as f64;
    let largest = || ranks.values().map(per_call).fold(0.0, f64::max);
    // The root of a broadcast has no bytes of its own.
    let block = |rank: u32| {
        let own = ranks.get(&rank).map(per_call);
        own.filter(|&bytes| bytes > 0.0).unwrap_or_else(largest)
    };
    // The links of the root have all blocks of a gather or scatter; other ranks are done with their
    // own.
    let basis = if is_of_root(call) { most } else { least };
    let bus = basis.and_then(|(basis_s, rank)| bus_bytes_per_s(call, of.size, block(rank), basis_s));
    vec![
        Value::Count(calls),
        Value::Count(sum(|timed| timed.untimed)),
        seconds((calls > 0).then(|| of_all(|timed| timed.gpu_s) / of.processes as f64)),
        seconds((calls > 0).then(|| of_all(|timed| timed.all_s) / calls as f64)),
        seconds(least.map(|(least_s, _)| least_s)),
        rank(least),
        seconds(most.map(|(most_s, _)| most_s)),
        rank(most),
        bus.map_or(Value::Nothing, Value::BytesPerSecond),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_by_the_rank_that_waits_least() {
        let timed = |calls, untimed, bytes, gpu_s| Timed {
            calls,
            untimed,
            bytes,
            all_s: gpu_s,
            gpu_s,
            has_several: false,
        };
        // The root has no bytes of its own.
        let ranks = BTreeMap::from([(0, timed(2, 1, 0, 0.5)), (1, timed(2, 0, 2000, 1.5))]);
        let two = Members { size: 2, processes: 2 };
        let shown = |call: &str, of: Members| -> Vec<f64> {
            cells(call, of, &ranks).iter().filter_map(|cell| cell.in_json().as_f64()).collect()
        };
        assert_eq!(shown("ncclBroadcast", two), [4.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.75, 1.0, 4000.0]);
        // The root's links have the blocks of all.
        assert_eq!(shown("ncclGather", two).last(), Some(&1_333.333_333_333));
        // A third process has no calls of this size; two processes with two GPUs each.
        assert_eq!(shown("ncclBroadcast", Members { processes: 4, ..two })[2], 0.5);
        let several: BTreeMap<_, _> =
            ranks.iter().map(|(&rank, &timed)| (rank, Timed { has_several: true, ..timed })).collect();
        let cells_of_several = cells("ncclBroadcast", Members { size: 4, ..two }, &several);
        assert!(cells_of_several[4..].iter().all(|cell| matches!(cell, Value::Nothing)));
        let none = BTreeMap::from([(0, timed(0, 3, 0, 0.0))]);
        let shown = cells("ncclAllReduce", two, &none);
        assert!(shown[2..].iter().all(|cell| matches!(cell, Value::Nothing)));
    }
}
