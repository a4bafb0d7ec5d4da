//! The roll call: where all ranks of a job are, in one sentence.

use super::groups::{RankGroup, at_or_by};
use super::job::Job;
use mpisee_collect::segments::{CurrentCall, missing};
use mpisee_profile::RankSet;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Places that are named.
const MOST_PLACES: usize = 6;

/// `4 nodes, 512 ranks: 511 in MPI_Allreduce on W_s2.0 at solver.c:214; rank 37 in MPI_Recv from 12 tag 5 on W at io.c:88`. The groups
/// with the most ranks come first.
pub fn sentence(job: &Job, groups: &[RankGroup]) -> String {
    let count = |count: usize, noun: &str| crate::units::count(count as u64, noun);
    let mut text = format!("{}, {}: ", count(nodes(job), "node"), count(job.ranks.len(), "rank"));
    let mut groups: Vec<&RankGroup> = groups.iter().collect();
    let first = |place: &RankGroup| place.at.ranks.ranges().first().map(|range| range.first);
    groups.sort_by_key(|place| (Reverse(place.at.ranks.len()), first(place)));
    let mut parts: Vec<String> = groups.iter().take(MOST_PLACES).map(|place| part(place)).collect();
    if groups.len() > MOST_PLACES {
        parts.push(format!("and {} more", count(groups.len() - MOST_PLACES, "place")));
    }
    text += &parts.join("; ");
    let not_seen = not_seen(job);
    if !not_seen.is_empty() {
        let where_else = if job.is_joined { "not seen" } else { "not on this node" };
        text += &format!("; {where_else}: {}", not_seen.named());
    }
    text
}

fn part(place: &RankGroup) -> String {
    let who = match place.at.ranks.len() {
        1 => place.at.ranks.named(),
        several => several.to_string(),
    };
    let what = match (&place.at.call, place.at.ended) {
        (Some(call), false) => format!("{who} in {}", call_text(call)),
        (None, false) => format!("{who} in no MPI call{}", place.idle_text()),
        (Some(call), true) => format!("{who} ended in {}", call_text(call)),
        (None, true) => format!("{who} ended"),
    };
    match place.most_called_text() {
        Some(text) => format!("{what} ({text})"),
        None => what,
    }
}

/// The number of nodes whose ranks are seen.
pub fn nodes(job: &Job) -> usize {
    job.ranks.values().map(|rank| rank.host.as_str()).collect::<BTreeSet<_>>().len()
}

/// The ranks that no reader saw; of a job that one reader looks at, those that are not on its node.
pub fn not_seen(job: &Job) -> RankSet {
    missing(job.size, job.ranks.keys().copied())
}

/// `MPI_Recv from 12 tag 5 on W at io.c:88`, and `by step in app` where the line is not known: the innermost function outside of
/// libraries that call MPI for programs.
pub fn call_text(call: &CurrentCall) -> String {
    call.name() + &at_or_by(&call.place).unwrap_or_default()
}
