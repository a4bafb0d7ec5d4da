//! Per communicator and operation: time over ranks, bytes, calls.

use crate::filter::CallFilter;
use crate::group::{By, Cell, Groups, Key, seconds};
use crate::view::ProfileView;
use anyhow::{Context, Result};
use mpisee_profile::ProfileError;
use mpisee_profile::rows::CommRow;

/// An operation on a communicator, over its ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSum {
    /// The standard's name of the function.
    pub call: String,
    /// Mean over ranks of the time in it.
    pub mean_s: f64,
    /// The time of the rank that spent least in it; unknown where only a part of sums over ranks is chosen.
    pub min_s: Option<f64>,
    /// The time of the rank that spent most in it.
    pub max_s: Option<f64>,
    /// The first rank that spent most in it.
    pub max_rank: Option<u32>,
    /// The time in it, summed over ranks.
    pub time_s: f64,
    /// Bytes, summed over ranks.
    pub bytes: u64,
    /// Calls, summed over ranks.
    pub calls: u64,
}

/// A communicator and the sums over its operations.
#[derive(Clone, Debug)]
pub struct CommSum<'a> {
    /// Its name.
    pub comm: String,
    /// Its row in `comms.csv`, unless the profile lacks it.
    pub row: Option<&'a CommRow>,
    /// The number of ranks over which mean, minimum and maximum are taken.
    pub ranks: u64,
    /// The time in its operations, summed over operations and ranks.
    pub time_s: f64,
    /// Bytes, summed over operations and ranks.
    pub bytes: u64,
    /// Calls, summed over operations and ranks.
    pub calls: u64,
    /// Its operations.
    pub operations: Vec<OperationSum>,
}

/// Everything that was read, and why reading ended early if it did.
pub struct Sums<'a> {
    /// Communicators with an operation that is chosen, in no order.
    pub comms: Vec<CommSum<'a>>,
    /// The error that ended reading; the sums are of the rows before it.
    pub cut_off: Option<ProfileError>,
}

/// Sums up the rows of `calls.csv` that the filter chooses.
///
/// Mean and minimum are over all members of the communicator that are in `ranks.csv` and chosen by the
/// filter: a member without a row spent no time in the operation.
pub fn sums<'a>(view: &'a ProfileView, filter: &CallFilter) -> Result<Sums<'a>> {
    let groups = view.group(filter, By { comm: true, call: true, ..By::default() })?;
    let mut comms = Vec::new();
    // The cells of a communicator lie beside each other.
    for cells in groups.cells.chunk_by(|(left, _), (right, _)| left.comm == right.comm) {
        comms.extend(comm(cells, &groups, view, filter)?);
    }
    Ok(Sums { comms, cut_off: groups.cut_off })
}

/// A communicator, if an operation on it is chosen by its time.
fn comm<'a>(
    cells: &[(Key, Cell)],
    groups: &Groups,
    view: &'a ProfileView,
    filter: &CallFilter,
) -> Result<Option<CommSum<'a>>> {
    let comm = groups.comm(&cells[0].0);
    let row = view.processes().comms.get(comm);
    let ranks = view.ranks_on(row, cells.iter().map(|(_, cell)| &cell.ranks), &filter.comms);
    let operations: Vec<OperationSum> = cells
        .iter()
        .map(|(key, cell)| operation(groups.call(key), cell, ranks))
        .filter(|operation| filter.takes_time(operation.max_s))
        .collect();
    if operations.is_empty() {
        return Ok(None);
    }
    let total = |of: fn(&OperationSum) -> u64| {
        operations.iter().map(of).try_fold(0, |left, right| sum(left, right, comm))
    };
    Ok(Some(CommSum {
        comm: comm.to_owned(),
        row,
        ranks,
        time_s: operations.iter().map(|operation| operation.time_s).sum(),
        bytes: total(|operation| operation.bytes)?,
        calls: total(|operation| operation.calls)?,
        operations,
    }))
}

fn sum(left: u64, right: u64, comm: &str) -> Result<u64> {
    left.checked_add(right)
        .with_context(|| format!("calls.csv: the counts of {comm} add up to 2^64 or more, so they are wrong"))
}

fn operation(call: &str, cell: &Cell, ranks: u64) -> OperationSum {
    OperationSum {
        call: call.to_owned(),
        mean_s: cell.time_s() / ranks as f64,
        min_s: cell.ranks.least_ns(ranks).map(seconds),
        max_s: cell.ranks.most_ns().map(seconds),
        max_rank: cell.ranks.most_rank(),
        time_s: cell.time_s(),
        bytes: cell.bytes,
        calls: cell.calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_beyond_the_range_is_an_error() {
        let error = sum(u64::MAX, 1, "W_s1.0").unwrap_err().to_string();
        assert!(error.contains("W_s1.0") && error.contains("2^64"), "{error}");
    }
}
