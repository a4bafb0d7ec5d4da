//! Communicators that are alike, as one: those that one call made, of one size and shape, and their like descendants.

use crate::shape::{Shape, stride};
use crate::units::natural_order;
use mpisee_profile::comm_name::creation;
use mpisee_profile::rows::CommRow;
use std::collections::HashMap;

/// The fewest like communicators that share a line; fewer are as well shown one by one.
const FEWEST: usize = 3;

/// Communicators that are alike, or a single one.
pub struct Family {
    /// Their name, with `*` for what differs: `W_s2.*`.
    pub name: String,
    /// The family that they descend from.
    pub parent: Option<usize>,
    /// Their places in `comms.csv`.
    pub places: Vec<usize>,
}

/// What like communicators have in common.
#[derive(PartialEq, Eq, Hash)]
struct Likeness<'a> {
    /// The creation within the parent: `s2`.
    step: &'a str,
    created_by: &'a str,
    size: u32,
    shape: &'a Shape,
    stride: Option<u32>,
    topology: &'a str,
    reorder: Option<u8>,
}

/// The families of the communicators at `places`, each after the one that it descends from; `parents` is the place of
/// each communicator's parent.
pub fn families(
    rows: &[CommRow],
    shapes: &[Shape],
    parents: &[Option<usize>],
    places: &[usize],
) -> Vec<Family> {
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for &place in places {
        children.entry(parents[place]).or_default().push(place);
    }
    for list in children.values_mut() {
        list.sort_by(|&left, &right| natural_order(&rows[left].comm, &rows[right].comm));
    }
    let mut families: Vec<Family> = Vec::new();
    for &root in children.get(&None).map_or(&[][..], Vec::as_slice) {
        families.push(Family { name: rows[root].comm.clone(), parent: None, places: vec![root] });
    }
    let mut next = 0;
    while next < families.len() {
        let parent = &families[next];
        let is_aggregate = parent.places.len() > 1;
        let below: Vec<usize> =
            parent.places.iter().filter_map(|&place| children.get(&Some(place))).flatten().copied().collect();
        let parent_name = parent.name.clone();
        for places in by_likeness(rows, shapes, &below) {
            if is_aggregate || places.len() >= FEWEST {
                let name = common_name(rows, &places, &parent_name);
                families.push(Family { name, parent: Some(next), places });
            } else {
                for place in places {
                    let name = rows[place].comm.clone();
                    families.push(Family { name, parent: Some(next), places: vec![place] });
                }
            }
        }
        next += 1;
    }
    families
}

/// Every communicator by itself.
pub fn each(rows: &[CommRow], parents: &[Option<usize>], places: &[usize]) -> Vec<Family> {
    let numbers: HashMap<usize, usize> = places.iter().enumerate().map(|(at, &place)| (place, at)).collect();
    let alone = |&place: &usize| Family {
        name: rows[place].comm.clone(),
        parent: parents[place].and_then(|parent| numbers.get(&parent).copied()),
        places: vec![place],
    };
    places.iter().map(alone).collect()
}

/// Like communicators together, in the order of the first of each kind.
fn by_likeness(rows: &[CommRow], shapes: &[Shape], places: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Likeness<'_>, usize> = HashMap::new();
    for &place in places {
        let row = &rows[place];
        let made = creation(&row.comm);
        let likeness = Likeness {
            step: made.strip_prefix(row.parent.as_str()).unwrap_or(made),
            created_by: &row.created_by,
            size: row.size,
            shape: &shapes[place],
            stride: stride(&row.members),
            topology: &row.topology,
            reorder: row.reorder,
        };
        let group = *known.entry(likeness).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(place);
    }
    groups
}

/// `W_s2.*` for `W_s2.0` and `W_s2.8`; a single one of a folded parent keeps its own name.
fn common_name(rows: &[CommRow], places: &[usize], parent_name: &str) -> String {
    let first = &rows[places[0]];
    if places.len() == 1 {
        return first.comm.clone();
    }
    let made = creation(&first.comm);
    let step = made.strip_prefix(first.parent.as_str()).unwrap_or(made);
    let several = if made.len() < first.comm.len() { ".*" } else { "" };
    format!("{parent_name}{step}{several}")
}
