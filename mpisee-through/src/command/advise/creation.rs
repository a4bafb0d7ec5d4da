//! Rules about how communicators are made: too often, never freed, not reordered.

use super::facts::{Comm, Facts, FamilyFacts};
use super::finding::{Finding, percent};
use crate::units::{count, count_of, natural_order, time};
use mpisee_profile::comm_name::{CommName, Sibling, creation};
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, BTreeSet};

/// The number of like creations that counts as a loop.
const CREATIONS: u64 = 16;
/// The number of like communicators, none of them freed, that counts as a leak.
const LEAKED: usize = 8;

/// Like communicators that one call made of one parent.
struct Repeated<'f> {
    parent: &'f str,
    call: &'f str,
    /// In the order of their names.
    rows: Vec<&'f CommRow>,
    number: u64,
    /// How many of them were not freed, at least.
    open: usize,
    /// The mean time of the call on the parent, and all of it for all of its processes.
    per_call_s: f64,
    cost_s: f64,
}

/// Communicators of the same processes, made by the same call from the same parent again and again.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    // Each creation has its first part; parts of one call are no repetition.
    let mut creations: BTreeMap<&str, &CommRow> = BTreeMap::new();
    let is_chosen = |row: &&CommRow| {
        let parent = facts.comms.get(&row.parent).and_then(|comm| comm.row);
        facts.is_chosen(row) || parent.is_some_and(|parent| facts.is_chosen(parent))
    };
    let rows = facts.comms.values().filter_map(|comm| comm.row);
    for row in rows.filter(|row| !row.parent.is_empty()).filter(is_chosen) {
        let first = creations.entry(creation(&row.comm)).or_insert(row);
        if row.members.group.iter().next() < first.members.group.iter().next() {
            *first = row;
        }
    }
    let mut alike: BTreeMap<(&str, &str, String), Vec<&CommRow>> = BTreeMap::new();
    for row in creations.into_values() {
        let key = (row.parent.as_str(), row.created_by.as_str(), row.members.group.to_string());
        alike.entry(key).or_default().push(row);
    }
    // What happens on like parents is one finding.
    let mut of_parents: BTreeMap<(&str, &str), Vec<Repeated<'_>>> = BTreeMap::new();
    for ((parent, call, _), mut rows) in alike {
        rows.sort_by(|left, right| natural_order(&left.comm, &right.comm));
        if let Some(repeated) = repeated(facts, parent, call, rows) {
            of_parents.entry((facts.family_of(parent).0, call)).or_default().push(repeated);
        }
    }
    of_parents.into_values().filter_map(|repeated| finding(facts, &repeated)).collect()
}

fn repeated<'f>(
    facts: &'f Facts<'_>,
    parent: &'f str,
    call: &'f str,
    rows: Vec<&'f CommRow>,
) -> Option<Repeated<'f>> {
    // Of a row that stands for many it is not recorded how many were freed: at least one was not,
    // or all were. A run that did not come to its end had no time to free its communicators.
    let open = rows.iter().filter(|row| row.freed == 0 && !facts.is_interrupted).count();
    let number = rows.iter().map(|row| row.count).fold(0, u64::saturating_add);
    if number < CREATIONS && open < LEAKED {
        return None;
    }
    let used = facts.comms.get(parent).and_then(|comm| comm.call(call));
    let per_call_s = used.map_or(0.0, |used| used.time_s / used.calls.max(1) as f64);
    let creators = facts.comms.get(parent).map_or(0, Comm::size);
    let cost_s = per_call_s * number as f64 * f64::from(creators);
    Some(Repeated { parent, call, rows, number, open, per_call_s, cost_s })
}

fn finding(facts: &Facts<'_>, repeated: &[Repeated<'_>]) -> Option<Finding> {
    let Repeated { parent, call, rows, per_call_s, .. } = repeated.first()?;
    let (name, title) = facts.family_of(parent);
    let number = repeated.iter().map(|one| one.number).fold(0, u64::saturating_add);
    let open: usize = repeated.iter().map(|one| one.open).sum();
    let is_leak = repeated.iter().any(|one| one.open >= LEAKED);
    let others = match number - repeated[0].number {
        0 => String::new(),
        others => format!(", and {}", count(others, "other")),
    };
    let (are_freed, free) = match is_leak {
        true => (
            format!(", and {open} or more are not freed"),
            ". Or free each with MPI_Comm_free: MPI libraries limit the number of communicators at a time",
        ),
        false => (String::new(), ""),
    };
    Some(Finding {
        rule: "creation",
        about: name.to_owned(),
        cost_s: repeated.iter().map(|one| one.cost_s).sum(),
        what: format!("{} are created from {title}{are_freed}.", count(number, "like communicator")),
        evidence: format!(
            "{call} made {} to {}, each of {}{others}. A call takes {} on average.",
            rows[0].comm,
            rows[rows.len() - 1].comm,
            count_of(rows[0].size.into(), "process", "processes"),
            time(*per_call_s),
        ),
        threshold: format!("{CREATIONS} like creations, or {LEAKED} like communicators that are not freed"),
        advice: format!("If these communicators serve the same purpose, create one and keep it{free}."),
    })
}

const REORDER_OF_RUN: f64 = 0.01;

/// A topology whose ranks are in the order of its parent's though MPI was allowed to reorder them.
struct InOrder<'f> {
    row: &'f CommRow,
    parts: u64,
    /// The time on it and on what was made of it.
    cost_s: f64,
}

/// Topologies over several nodes that allowed reordering, and whose ranks are in the order of the
/// parent's.
pub fn reorder(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |family: FamilyFacts<'_>| {
        let found: Vec<InOrder<'_>> =
            family.comms.iter().filter_map(|comm| in_order(facts, comm.row?)).collect();
        let InOrder { row, .. } = found.first()?;
        let cost_s: f64 = found.iter().map(|one| one.cost_s).sum();
        (facts.share_of_run(cost_s) >= REORDER_OF_RUN).then(|| Finding {
            rule: "reorder",
            about: family.name.to_owned(),
            cost_s,
            what: format!(
                "{} was allowed to reorder the ranks of {}, and kept their order.",
                row.created_by, family.title
            ),
            evidence: format!(
                "{} split from the topology have the same ranks as without reordering. The topology is on \
                 {}.",
                count(found.iter().map(|one| one.parts).sum(), "communicator"),
                count(found.iter().map(|one| u64::from(one.row.nodes)).max().unwrap_or(0), "node"),
            ),
            threshold: format!("{} of the run on the topology and its parts", percent(REORDER_OF_RUN)),
            advice: "Many MPI libraries ignore the request. Measure whether another order is faster. Place \
                     ranks with mpirun so that neighbours of the grid share a node. Or order ranks with \
                     MPI_Comm_split before the topology is made."
                .to_owned(),
        })
    };
    facts.families().filter_map(finding).collect()
}

/// The order of ranks follows from the communicators that were split from the topology: the number
/// in such a name is the smallest rank in the topology, which without reordering is the position of
/// its smallest world rank.
fn in_order<'f>(facts: &'f Facts<'_>, row: &'f CommRow) -> Option<InOrder<'f>> {
    if row.reorder != Some(1) || row.nodes <= 1 {
        return None;
    }
    let positions: Vec<u32> = row.members.group.iter().collect();
    let below = format!("{}_", row.comm);
    let parts = facts.comms.values().filter_map(|part| part.row).filter(|part| part.parent == row.comm);
    let parts: Vec<(u32, Option<u32>)> = parts
        .filter_map(|part| {
            let Sibling::Rank(number) = part.comm.parse::<CommName>().ok()?.part()? else { return None };
            let smallest = part.members.group.iter().next()?;
            Some((number, positions.binary_search(&smallest).ok().map(|position| position as u32)))
        })
        .collect();
    let different: BTreeSet<u32> = parts.iter().map(|&(number, _)| number).collect();
    let is_in_order = different.len() > 1 && parts.iter().all(|&(number, position)| Some(number) == position);
    let with_parts =
        facts.comms.values().filter(|other| other.name == row.comm || other.name.starts_with(&below));
    let cost_s = with_parts.map(|other| other.time_s(|_| true)).sum();
    is_in_order.then_some(InOrder { row, parts: parts.len() as u64, cost_s })
}
