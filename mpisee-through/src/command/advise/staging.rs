//! The rule about copies between GPUs and the host for messages.

use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::units::{human_bytes, time};
use mpisee_profile::rows::{CopyMode, StagedRow};
use std::collections::{BTreeMap, BTreeSet};

/// The share of the run from which on copies are a finding.
const FROM: f64 = 0.01;

/// Copies that a rank waits for, on a communicator.
#[derive(Default)]
struct Staged {
    bytes: u64,
    time_s: f64,
    ranks: BTreeSet<u32>,
}

/// A finding for each communicator whose copies take long. Of copies in streams only the host's
/// time is known, which is no measure of them.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let Ok(rows) = facts.view.profile().rows_if_any::<StagedRow>() else { return Vec::new() };
    let mut staged: BTreeMap<String, Staged> = BTreeMap::new();
    let chosen = |row: &StagedRow| {
        let is_measured = row.mode == CopyMode::Blocking;
        is_measured && facts.takes_rank(row.rank) && facts.comms.contains_key(&row.comm)
    };
    for row in rows.flatten().filter(chosen) {
        let sum = staged.entry(row.comm).or_default();
        sum.bytes = sum.bytes.saturating_add(row.bytes);
        sum.time_s += row.time_s.0;
        sum.ranks.insert(row.rank);
    }
    let large = staged.into_iter().filter(|(_, sum)| facts.share_of_run(sum.time_s) >= FROM);
    large.map(|(comm, sum)| finding(facts, comm, &sum)).collect()
}

fn finding(facts: &Facts<'_>, comm: String, sum: &Staged) -> Finding {
    let share = percent(facts.share_of_run(sum.time_s));
    let mean = time(sum.time_s / sum.ranks.len().max(1) as f64);
    Finding {
        rule: "staging",
        cost_s: sum.time_s,
        what: format!("Copies between GPUs and the host for messages on {comm} take {share} of the run."),
        evidence: format!(
            "{} were copied right before sends or right after receives. The copies took {} over all ranks, \
             {mean} per copying rank (mean).",
            human_bytes(sum.bytes),
            time(sum.time_s)
        ),
        threshold: format!("blocking copies that take {} of the run or more", percent(FROM)),
        advice: format!(
            "Pass buffers on the GPU to a CUDA-aware MPI. This saves {share} of the run at most, because the \
             data still has to move. mpisee-through gpu PROFILE --by staging lists all copies."
        ),
        about: comm,
    }
}
