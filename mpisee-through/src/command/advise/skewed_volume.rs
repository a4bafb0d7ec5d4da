//! The rule about collectives with a count for each member in which a few members have most of the
//! bytes.

use super::facts::{Comm, Facts, FamilyFacts};
use super::finding::{Finding, percent};
use super::waiting;
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::units::{count, human_bytes, time};
use mpisee_profile::glob::Glob;
use std::collections::{BTreeMap, HashMap};

/// Blocking operations with counts of their own for each member, and what a member's bytes are.
const CALLS: [(&str, &str); 8] = [
    ("MPI_Allgatherv", "contributes"),
    ("MPI_Alltoallv", "sends"),
    ("MPI_Alltoallw", "sends"),
    ("MPI_Gatherv", "contributes"),
    ("MPI_Neighbor_allgatherv", "sends"),
    ("MPI_Neighbor_alltoallv", "sends"),
    ("MPI_Reduce_scatter", "gets"),
    ("MPI_Scatterv", "gets"),
];
/// The least time in them that is not known to be waiting, of the run.
const OF_RUN: f64 = 0.05;
/// The least bytes of the member that has most, by the mean over all members.
const MOST_BY_MEAN: f64 = 1.5;

/// Bytes of each rank by communicator and operation.
type Volumes = HashMap<(String, String), BTreeMap<u32, u64>>;

/// Operations on like communicators whose volume is skewed.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    // Where no operation takes enough time, the table is not read again.
    let families: Vec<FamilyFacts<'_>> = facts.families().collect();
    let costly = |family: &FamilyFacts<'_>, call: &str| {
        family.call(call).is_some_and(|used| facts.share_of_run(used.time_s) >= OF_RUN)
    };
    let candidates: Vec<(&FamilyFacts<'_>, &str, &str)> = families
        .iter()
        .flat_map(|family| CALLS.iter().map(move |&(call, does)| (family, call, does)))
        .filter(|(family, call, _)| costly(family, call))
        .collect();
    let volumes = if candidates.is_empty() { None } else { volumes(facts) };
    let Some(volumes) = volumes else { return Vec::new() };
    candidates
        .into_iter()
        .filter_map(|(family, call, does)| finding(facts, family, [call, does], &volumes))
        .collect()
}

/// None where the table has sums over ranks.
fn volumes(facts: &Facts<'_>) -> Option<Volumes> {
    let globs: Vec<Glob> = CALLS.iter().map(|(call, _)| Glob::new(&call.to_lowercase())).collect();
    let filter = CallFilter::of_calls(CommFilter::default(), &globs);
    let by = By { comm: true, call: true, rank: true, ..By::default() };
    let groups = facts.view.group(&filter, by).ok()?;
    let mut volumes = Volumes::new();
    for (key, cell) in &groups.cells {
        let of = volumes.entry((groups.comm(key).to_owned(), groups.call(key).to_owned())).or_default();
        *of.entry(key.rank).or_default() += cell.bytes;
    }
    Some(volumes)
}

/// The volume of an operation on a communicator, in bytes.
struct Skew<'f> {
    comm: &'f str,
    most: u64,
    rank: u32,
    mean: f64,
}

/// None on communicators whose members are not all in the profile.
fn skew<'f>(comm: &'f Comm<'f>, call: &str, volumes: &Volumes) -> Option<Skew<'f>> {
    let of = volumes.get(&(comm.name.clone(), call.to_owned()))?;
    let row = comm.row.filter(|row| row.count == 1 && row.members.remote.is_none())?;
    let (&rank, &most) = of.iter().max_by_key(|&(rank, bytes)| (bytes, std::cmp::Reverse(rank)))?;
    let sum = of.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    (row.size > 1).then(|| Skew { comm: &comm.name, most, rank, mean: sum as f64 / f64::from(row.size) })
}

fn finding(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    [call, does]: [&str; 2],
    volumes: &Volumes,
) -> Option<Finding> {
    let used = family.call(call)?;
    let known = waiting::of_family(facts, family, Some(call));
    // Of the part whose waiting is not known, all may be transfer.
    let cost_s = used.time_s - known.map_or(0.0, |(_, waiting)| waiting.total);
    let skews: Vec<Skew<'_>> = family.comms.iter().filter_map(|comm| skew(comm, call, volumes)).collect();
    let most: f64 = skews.iter().map(|one| one.most as f64).sum();
    let mean: f64 = skews.iter().map(|one| one.mean).sum();
    if facts.share_of_run(cost_s) < OF_RUN || mean <= 0.0 || most < MOST_BY_MEAN * mean {
        return None;
    }
    let worst = skews
        .iter()
        .max_by(|one, other| (one.most as f64 - one.mean).total_cmp(&(other.most as f64 - other.mean)))?;
    let several = if family.comms.len() > 1 { format!(" on {}", worst.comm) } else { String::new() };
    Some(Finding {
        rule: "skewed-volume",
        about: family.name.to_owned(),
        cost_s,
        what: format!(
            "Members of {} have unequal parts in {call}: the largest is {:.1} times the mean.",
            family.title,
            most / mean
        ),
        evidence: format!(
            "Measured: rank {} {does} {}{several} in {}; the mean of the members is {}. The calls take {} \
             summed over ranks. {}",
            worst.rank,
            human_bytes(worst.most),
            count(used.calls / u64::from(family.size()).max(1), "call"),
            human_bytes(worst.mean as u64),
            time(used.time_s),
            match known {
                Some(known) => format!(
                    "Waiting for others takes {} of this time, and is not in Time.",
                    waiting::share(known)
                ),
                None => "The waiting part of this time was not measured.".to_owned(),
            }
        ),
        threshold: format!(
            "{MOST_BY_MEAN} times the mean over members, and {} of the run without waiting",
            percent(OF_RUN)
        ),
        advice:
            "All members may need as long as the member that moves most. Divide the data more evenly, or \
             move the large part by messages of its own. Measure the gain."
                .to_owned(),
    })
}
