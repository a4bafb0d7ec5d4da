//! The roll call: how many ranks of a job are seen.

use super::groups::at_or_by;
use super::job::Job;
use mpisee_collect::segments::{CurrentCall, missing};
use mpisee_profile::RankSet;
use std::collections::BTreeSet;

/// `4 nodes, 512 ranks; not seen: ranks 96-127`. Where they are is below, group by group.
pub fn sentence(job: &Job) -> String {
    let count = |count: usize, noun: &str| crate::units::count(count as u64, noun);
    let mut text = format!("{}, {}", count(nodes(job), "node"), count(job.ranks.len(), "rank"));
    let not_seen = not_seen(job);
    if !not_seen.is_empty() {
        let where_else = if job.is_joined { "not seen" } else { "not on this node" };
        text += &format!("; {where_else}: {}", not_seen.named());
    }
    text
}

/// The number of nodes whose ranks are seen.
pub fn nodes(job: &Job) -> usize {
    job.ranks.values().map(|rank| rank.host.as_str()).collect::<BTreeSet<_>>().len()
}

/// The ranks that no reader saw; of a job that one reader looks at, those that are not on its node.
pub fn not_seen(job: &Job) -> RankSet {
    missing(job.size, job.ranks.keys().copied())
}

/// `MPI_Recv from 12 tag 5 on W at io.c:88`, and `by step in app` where the line is not known: the
/// innermost function outside of libraries that call MPI for programs.
pub fn call_text(call: &CurrentCall) -> String {
    call.name() + &at_or_by(&call.place).unwrap_or_default()
}
