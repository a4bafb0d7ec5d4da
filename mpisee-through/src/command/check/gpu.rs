//! Checks accesses of GPU kernels: their rows name ranks of the run, and bytes agree with accesses.

use super::explanation;
use super::findings::{Check, Findings};
use anyhow::Result;
use mpisee_profile::Profile;
use mpisee_profile::rows::{GpuRow, GpuTotalRow};

/// Checks the rows of `gpu-totals.csv`.
pub fn check_sums(profile: &Profile, findings: &mut Findings) -> Result<()> {
    for row in profile.rows_if_any::<GpuTotalRow>()? {
        check_sum(&row?, profile.run().ranks, findings);
    }
    Ok(())
}

/// Checks the rows of `gpu.csv`; `is_there` says whether a rank has a row in `ranks.csv`.
pub fn check(profile: &Profile, is_there: impl Fn(u32) -> bool, findings: &mut Findings) -> Result<()> {
    let run = profile.run();
    for row in profile.rows_if_any::<GpuRow>()? {
        let row = row?;
        if !is_there(row.rank) {
            let what = || format!("rank {} is in gpu.csv and not in ranks.csv", row.rank);
            findings.differs_unless(explanation::incomplete(run), Check::Rows, what);
        }
        if let Some(peer) = row.peer_rank.filter(|&peer| peer >= run.ranks) {
            findings.differs(Check::Rows, || {
                format!("rank {peer} owns memory in gpu.csv, and run.json has {} ranks", run.ranks)
            });
        }
        check_bytes("gpu.csv", &row.source, (row.accesses, row.width, row.bytes), findings);
    }
    Ok(())
}

/// Copies of any length, of width 0, have no bytes that follow from their number.
fn check_bytes(file: &str, line: &str, (accesses, width, bytes): (u64, u32, u64), findings: &mut Findings) {
    let expected = accesses.saturating_mul(u64::from(width));
    if width > 0 && bytes != expected {
        findings.differs(Check::Rows, || {
            format!("{line} has {accesses} accesses of {width} bytes in {file}, and {bytes} bytes")
        });
    }
}

fn check_sum(row: &GpuTotalRow, ranks: u32, findings: &mut Findings) {
    check_bytes("gpu-totals.csv", &row.source, (row.accesses, row.width, row.bytes), findings);
    let GpuTotalRow { source, count, bytes, bytes_min, bytes_max, bytes_max_rank, .. } = row;
    let at_least = bytes_min.saturating_mul(*count);
    let at_most = bytes_max.saturating_mul(*count);
    if !(at_least..=at_most).contains(bytes) {
        findings.differs(Check::Rows, || {
            format!(
                "{source} has {bytes} bytes in {count} rows of {bytes_min} to {bytes_max} bytes in gpu-totals.csv"
            )
        });
    }
    if *bytes_max_rank >= ranks {
        findings.differs(Check::Rows, || {
            format!("rank {bytes_max_rank} is in gpu-totals.csv, and run.json has {ranks} ranks")
        });
    }
    let Some((first, last)) = row.offset_min.zip(row.offset_max) else { return };
    // Of offsets by powers of two the far end may be beyond all ranks.
    let nearest = first.unsigned_abs().min(last.unsigned_abs());
    if first > last || nearest >= u64::from(ranks) {
        findings.differs(Check::Rows, || {
            format!("{source} has an owner at {first:+} to {last:+} in gpu-totals.csv, of {ranks} ranks")
        });
    }
}
