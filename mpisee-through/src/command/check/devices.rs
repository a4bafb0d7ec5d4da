//! Checks that GPUs and their links are of the nodes, and that ranks use the GPUs which their rows
//! name.

use super::findings::{Check, Findings};
use anyhow::Result;
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, NicRow, RankRow, Ranks};
use mpisee_profile::{Profile, RankSet};
use std::collections::{HashMap, HashSet};

/// Checks `gpus.csv` and `gpu-links.csv`, by `ranks.csv` and `nics.csv`.
pub fn check(
    profile: &Profile,
    ranks: &[RankRow],
    incomplete: Option<&'static str>,
    findings: &mut Findings,
) -> Result<()> {
    let by_rank: HashMap<u32, &RankRow> = ranks.iter().map(|row| (row.rank, row)).collect();
    let mut of_nodes = HashSet::new();
    for row in profile.rows_if_any::<DeviceRow>()? {
        let DeviceRow { host, uuid, ranks, .. } = row?;
        // Of more ranges than a row has there is the number alone.
        let listed = match &ranks {
            Ranks::Listed(set) => Some(set),
            Ranks::Counted(_) => None,
        };
        for rank in listed.into_iter().flat_map(RankSet::iter) {
            match by_rank.get(&rank) {
                None => findings.differs_unless(incomplete, Check::Rows, || {
                    format!("rank {rank} is in gpus.csv with {uuid} and not in ranks.csv")
                }),
                Some(row) if row.host != host || !row.gpus().any(|gpu| gpu == uuid) => {
                    findings.differs(Check::Rows, || {
                        format!(
                            "rank {rank} is in gpus.csv with {uuid} of {host}, and in ranks.csv without it"
                        )
                    });
                }
                Some(_) => {}
            }
        }
        of_nodes.insert((host, uuid));
    }
    for row in profile.rows_if_any::<NicRow>()? {
        let NicRow { host, nic, .. } = row?;
        of_nodes.insert((host, nic));
    }
    for row in profile.rows_if_any::<DeviceLinkRow>()? {
        let DeviceLinkRow { host, device, peer, .. } = row?;
        for end in [device, peer] {
            let place = (host.clone(), end);
            if !of_nodes.contains(&place) {
                findings.differs(Check::Rows, || {
                    format!("{} of {host} is in gpu-links.csv and not in gpus.csv or nics.csv", place.1)
                });
            }
        }
    }
    Ok(())
}
