//! The calls that are on call paths.

use crate::filter::CallFilter;
use crate::processes::ProcessRows;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::PathId;
use mpisee_profile::rows::{PathRow, PathTotalRow};

/// Calls on a path: of a rank, or over all ranks in an aggregate profile.
#[derive(Clone, Debug)]
pub struct PathSum {
    pub path: PathId,
    pub comm: String,
    pub call: String,
    /// The rank; none of sums over ranks.
    pub rank: Option<u32>,
    pub calls: u64,
    pub time_ns: u64,
}

/// The calls of the communicators, operations and ranks that the filter takes, which may choose by
/// nothing else.
///
/// # Errors
/// Of a table that cannot be read, and of a choice of ranks where rows are sums over ranks.
pub fn path_sums(view: &ProfileView, filter: &CallFilter) -> Result<Vec<PathSum>> {
    let mut sums = Vec::new();
    match &view.processes().rows {
        ProcessRows::Ranks(_) => {
            for row in view.profile().rows_if_any::<PathRow>()? {
                let PathRow { path, comm, rank, call, calls, time_s } = row?;
                if filter.comms.takes_rank(rank) {
                    sums.push(PathSum { path, comm, call, rank: Some(rank), calls, time_ns: time_s.to_ns() });
                }
            }
        }
        ProcessRows::Nodes(_) => {
            if filter.comms.names_ranks() {
                view.ranks("single ranks apart")?;
            }
            for row in view.profile().rows_if_any::<PathTotalRow>()? {
                let PathTotalRow { path, comm, call, calls, time_s, .. } = row?;
                sums.push(PathSum { path, comm, call, rank: None, calls, time_ns: time_s.to_ns() });
            }
        }
    }
    let takes_comm = |comm: &str| view.processes().takes_comm(&filter.comms, comm);
    sums.retain(|sum| takes_comm(&sum.comm) && filter.takes_call(&sum.call));
    Ok(sums)
}
