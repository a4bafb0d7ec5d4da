//! Rules about how communicators are made: too often, never freed, not reordered.

use super::facts::{Comm, Facts};
use super::finding::{Finding, percent};
use crate::units::{count, natural_order};
use mpisee_profile::comm_name::{CommName, Part, creation};
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, BTreeSet};

/// The number of like creations that counts as a loop.
const CREATIONS: u64 = 16;
/// The number of like communicators, none of them freed, that counts as a leak.
const LEAKED: usize = 8;

/// Communicators of the same processes, made by the same call from the same parent again and again.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    // Each creation is told by its first part; parts of one call are no repetition.
    let mut creations: BTreeMap<&str, &CommRow> = BTreeMap::new();
    for row in facts.comms.values().filter_map(|comm| comm.row).filter(|row| !row.parent.is_empty()) {
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
    let finding = |((parent, call, _), mut rows): ((&str, &str, String), Vec<&CommRow>)| {
        rows.sort_by(|left, right| natural_order(&left.comm, &right.comm));
        repeated(facts, parent, call, &rows)
    };
    alike.into_iter().filter_map(finding).collect()
}

fn repeated(facts: &Facts<'_>, parent: &str, call: &str, rows: &[&CommRow]) -> Option<Finding> {
    // Of a row that stands for many it is not told how many were freed: at least one was not, or all were.
    let open = rows.iter().filter(|row| row.freed == 0).count();
    let number = rows.iter().map(|row| row.count).fold(0, u64::saturating_add);
    let (in_loop, leaked) = (number >= CREATIONS, open >= LEAKED);
    let what = match (in_loop, leaked) {
        (false, false) => return None,
        (true, false) => format!("Like communicators are created from {parent} again and again."),
        (false, true) => format!("Like communicators of {parent} are created and never freed."),
        (true, true) => {
            format!("Like communicators are created from {parent} again and again, and never freed.")
        }
    };
    let used = facts.comms.get(parent).and_then(|comm| comm.call(call));
    let per_creation = used.map_or(0.0, |used| used.time_s / used.calls.max(1) as f64);
    let creators = facts.comms.get(parent).map_or(0, Comm::size);
    let cost_s = per_creation * number as f64 * f64::from(creators);
    Some(Finding {
        rule: "creation",
        about: parent.to_owned(),
        cost_s,
        what,
        evidence: format!(
            "{call} made {} with {} processes, {} to {}; never freed: {open}. A creation takes {:.1} us.",
            count(number, "communicator"),
            rows[0].size,
            rows[0].comm,
            rows[rows.len() - 1].comm,
            1e6 * per_creation,
        ),
        threshold: format!("{CREATIONS} like creations, or {LEAKED} like communicators that are not freed"),
        advice: if leaked {
            "Create it once and keep it, or free each with MPI_Comm_free: MPI libraries have a limited number.".to_owned()
        } else {
            "Create it once and keep it.".to_owned()
        },
    })
}

const REORDER_OF_RUN: f64 = 0.01;

/// Topologies over several nodes that asked for reordering, and whose ranks are in the order of the parent's.
///
/// The order of ranks is told by the communicators that were split from the topology: the number in such a name is the
/// smallest rank in the topology, which without reordering is the position of its smallest world rank.
pub fn reorder(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |comm: &Comm<'_>| {
        let row = comm.row.filter(|row| row.reorder == Some(1) && row.nodes > 1)?;
        let positions: Vec<u32> = row.members.group.iter().collect();
        let parts: Vec<(u32, Option<u32>)> = facts
            .comms
            .values()
            .filter_map(|part| part.row)
            .filter(|part| part.parent == row.comm)
            .filter_map(|part| {
                let Part::Rank(number) = part.comm.parse::<CommName>().ok()?.part()? else { return None };
                let smallest = part.members.group.iter().next()?;
                Some((number, positions.binary_search(&smallest).ok().map(|position| position as u32)))
            })
            .collect();
        let different: BTreeSet<u32> = parts.iter().map(|&(number, _)| number).collect();
        let in_order = parts.iter().all(|&(number, position)| Some(number) == position);
        let below = format!("{}_", row.comm);
        let with_parts =
            facts.comms.values().filter(|other| other.name == row.comm || other.name.starts_with(&below));
        let cost_s: f64 = with_parts.map(|other| other.time_s(|_| true)).sum();
        (different.len() > 1 && in_order && facts.share_of_run(cost_s) >= REORDER_OF_RUN).then(|| Finding {
            rule: "reorder",
            about: row.comm.clone(),
            cost_s,
            what: format!("{} asked {} to reorder ranks, and they are in the old order.", row.comm, row.created_by),
            evidence: format!(
                "{} that were split from it have the ranks that they would have without reordering; it is on {}.",
                count(parts.len() as u64, "communicator"),
                count(u64::from(row.nodes), "node"),
            ),
            threshold: format!("{} of the run on it and its parts", percent(REORDER_OF_RUN)),
            advice: "Many MPI libraries ignore the request. Place ranks by mpirun so that neighbours of the grid share \
                     a node, or order them with MPI_Comm_split before the topology is made."
                .to_owned(),
        })
    };
    facts.comms.values().filter_map(finding).collect()
}
