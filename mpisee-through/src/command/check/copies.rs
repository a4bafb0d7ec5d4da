//! Checks that bytes which were copied for messages are among those that were copied.

use super::explanation;
use super::findings::{Check, Findings};
use super::names::RowCheck;
use anyhow::Result;
use mpisee_profile::Profile;
use mpisee_profile::rows::{CopyRow, StagedRow};
use std::collections::BTreeMap;

/// Checks `copies.csv` and `staged.csv`; `is_there` says whether a rank has a row in `ranks.csv`.
pub fn check(
    profile: &Profile,
    is_there: impl Fn(u32) -> bool,
    members: &mut RowCheck<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let incomplete = explanation::incomplete(profile.run());
    // Bytes that were staged and copied, by rank.
    let mut bytes: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in profile.rows_if_any::<CopyRow>()? {
        let row = row?;
        let (_, copied) = bytes.entry(row.rank).or_insert_with(|| {
            if !is_there(row.rank) {
                let what = || format!("rank {} is in copies.csv and not in ranks.csv", row.rank);
                findings.differs_unless(incomplete, Check::Rows, what);
            }
            (0, 0)
        });
        *copied = copied.saturating_add(row.bytes);
    }
    for row in profile.rows_if_any::<StagedRow>()? {
        let row = row?;
        members.row("staged.csv", &row.comm, row.rank, findings);
        let (staged, _) = bytes.entry(row.rank).or_default();
        *staged = staged.saturating_add(row.bytes);
    }
    for (rank, (staged, copied)) in bytes {
        if staged > copied {
            findings.differs(Check::Rows, || {
                format!(
                    "rank {rank} copied {copied} bytes in copies.csv, and {staged} for messages in staged.csv"
                )
            });
        }
    }
    Ok(())
}
