//! Pairs the communicators of two runs: by name, else by how they were made, size and shape.

use crate::processes::Processes;
use crate::shape::{self, Shape};
use mpisee_profile::comm_name::derived;
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Names under which the communicators of both runs are compared.
pub struct Pairing {
    /// Per run, the common name of each communicator.
    names: [HashMap<String, String>; 2],
    /// Common names whose communicator is called otherwise in the second run.
    others: HashMap<String, String>,
}

/// How a communicator was made and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Likeness {
    parent: String,
    created_by: String,
    label: String,
    size: u32,
    shape: String,
}

impl Pairing {
    /// Pairs by name, and what is left over by likeness. Where the numbers of ranks differ, parts of one creation are one,
    /// and sizes say nothing.
    pub fn new(before: &Processes, after: &Processes, same_ranks: bool) -> Self {
        let known = [before, after].map(|processes| likenesses(processes, same_ranks));
        let mut names: [HashMap<String, String>; 2] = [before, after].map(|processes| {
            processes.comms.keys().map(|comm| (comm.clone(), unit(comm, same_ranks))).collect()
        });
        let [first, second] = &known;
        let is_same = |name: &String| match (first.get(name), second.get(name)) {
            (Some(one), Some(other)) => one.created_by == other.created_by && one.size == other.size,
            _ => false,
        };
        let shared: HashSet<String> = first.keys().filter(|name| is_same(name)).cloned().collect();
        let left_over = |known: &BTreeMap<String, Likeness>| {
            let mut by_likeness: BTreeMap<Likeness, Vec<String>> = BTreeMap::new();
            for (name, likeness) in known.iter().filter(|(name, _)| !shared.contains(*name)) {
                by_likeness.entry(likeness.clone()).or_default().push(name.clone());
            }
            by_likeness
        };
        let (left, mut right) = (left_over(first), left_over(second));
        let mut others = HashMap::new();
        let mut renamed: HashMap<String, String> = HashMap::new();
        for (likeness, name) in left {
            // Only where nothing else is like it.
            if let ([name], Some([other])) = (&name[..], right.remove(&likeness).as_deref()) {
                others.insert(name.clone(), other.clone());
                renamed.insert(other.clone(), name.clone());
            }
        }
        for (comm, name) in &mut names[1] {
            match renamed.get(name) {
                Some(common) => *name = common.clone(),
                // Another communicator of the first run has this name.
                None if first.contains_key(name) && !shared.contains(name) => {
                    *name = format!("{comm} (after)")
                }
                None => {}
            }
        }
        Pairing { names, others }
    }

    /// The common name of a communicator of the first (0) or second (1) run.
    pub fn name<'a>(&'a self, run: usize, comm: &'a str) -> &'a str {
        self.names[run].get(comm).map_or(comm, String::as_str)
    }

    /// Returns whether no communicator is called otherwise in the second run.
    pub fn all_have_one_name(&self) -> bool {
        self.others.is_empty()
    }

    /// The communicator's name in the second run, where that is not the common one.
    pub fn other_name(&self, common: &str) -> Option<&str> {
        self.others.get(common).map(String::as_str)
    }
}

/// The unit of comparison: a communicator, or all parts of creations that have the same names but for numbers of ranks.
fn unit(comm: &str, same_ranks: bool) -> String {
    if same_ranks {
        return comm.to_owned();
    }
    derived(comm, |name| name.without_ranks().without_size())
}

/// The likeness of each unit; of several communicators that are one, of the first.
fn likenesses(processes: &Processes, same_ranks: bool) -> BTreeMap<String, Likeness> {
    let mut rows: Vec<CommRow> = processes.comms.values().cloned().collect();
    rows.sort_by(|left, right| left.comm.cmp(&right.comm));
    let shapes = shape::shapes(&rows, processes);
    let mut found = BTreeMap::new();
    for (row, shape) in rows.iter().zip(&shapes) {
        let likeness = Likeness {
            parent: unit(&row.parent, same_ranks),
            created_by: row.created_by.clone(),
            label: row.label.clone(),
            size: if same_ranks { row.size } else { 0 },
            shape: match (same_ranks, shape) {
                (false, Shape::Grid { along, .. }) => format!("part along {along:?}"),
                (_, shape) => shape.to_string(),
            },
        };
        found.entry(unit(&row.comm, same_ranks)).or_insert(likeness);
    }
    found
}
