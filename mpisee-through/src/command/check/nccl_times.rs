//! Checks that calls of NCCL which have a time on the GPU are among those that were counted, and
//! that their times agree.

use super::explanation;
use super::findings::{Check, Findings};
use super::names::RowCheck;
use super::times::ROUNDING_S;
use anyhow::Result;
use mpisee_profile::Profile;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::{CallRow, NcclTimeRow};
use std::collections::BTreeMap;

/// Calls in `nccl-times.csv` and in `calls.csv`, by communicator, rank and operation.
#[derive(Default)]
pub struct NcclTimeCheck {
    calls: BTreeMap<(String, u32, String), (u64, u64)>,
}

impl NcclTimeCheck {
    /// Adds a row of `calls.csv`.
    pub fn call(&mut self, row: &CallRow) {
        if is_nccl(&row.call) {
            let (_, counted) = self.calls.entry((row.comm.clone(), row.rank, row.call.clone())).or_default();
            *counted = counted.saturating_add(row.calls);
        }
    }

    /// Checks `nccl-times.csv`, when all rows of `calls.csv` are added.
    pub fn finish(
        mut self,
        profile: &Profile,
        members: &mut RowCheck<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        let incomplete = explanation::incomplete(profile.run());
        for row in profile.rows_if_any::<NcclTimeRow>()? {
            let row = row?;
            members.row("nccl-times.csv", &row.comm, row.rank, findings);
            check_times(&row, findings);
            let (asked, _) = self.calls.entry((row.comm, row.rank, row.call)).or_default();
            *asked = asked.saturating_add(row.calls).saturating_add(row.untimed);
        }
        for ((comm, rank, call), (asked, counted)) in self.calls {
            if asked > counted {
                findings.differs_unless(incomplete, Check::Rows, || {
                    format!("rank {rank} made {counted} {call} on {comm} in calls.csv, and {asked} in nccl-times.csv")
                });
            }
        }
        Ok(())
    }
}

/// The time of all calls is between those of as many shortest and longest ones.
fn check_times(row: &NcclTimeRow, findings: &mut Findings) {
    let NcclTimeRow { comm, rank, call, calls, gpu_s, min_s, max_s, .. } = row;
    let number = *calls as f64;
    let off_s = ROUNDING_S * (number + 1.0);
    if !(min_s.0 * number - off_s..=max_s.0 * number + off_s).contains(&gpu_s.0) {
        findings.differs(Check::Time, || {
            format!(
                "rank {rank} has {:.9} s of the GPU in {calls} {call} of {:.9} to {:.9} s on {comm} in nccl-times.csv",
                gpu_s.0, min_s.0, max_s.0
            )
        });
    }
}
