//! Pairs the communicators of two runs: by name, else by how they were made, size and shape.

use super::nccl::NcclNames;
use crate::processes::Processes;
use crate::shape::{self, Shape};
use crate::view::ProfileView;
use anyhow::Result;
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
    /// Pairs by name, those of NCCL but for digests of ids, and what is left over by likeness.
    /// Where the numbers of ranks differ, parts of one creation are one, and sizes say nothing.
    pub fn new([before, after]: [&ProfileView; 2], same_ranks: bool) -> Result<Self> {
        // Units of unlike numbers of ranks have no digests.
        let of_nccl = if same_ranks { NcclNames::new(before, after)? } else { NcclNames::default() };
        let processes = [before.processes(), after.processes()];
        let units = Units { of_nccl: [NcclNames::default(), of_nccl], same_ranks };
        let known = [0, 1].map(|run: usize| units.likenesses(run, processes[run]));
        let mut names: [HashMap<String, String>; 2] = [0, 1].map(|run: usize| {
            processes[run].comms.keys().map(|comm| (comm.clone(), units.name(run, comm))).collect()
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
        // Of communicators of NCCL that are paired but for their digests, and below of those that
        // are alike.
        let mut others = HashMap::new();
        if same_ranks {
            let own = names[1].iter().filter(|(comm, common)| comm != common);
            others.extend(own.map(|(comm, common)| (common.clone(), comm.clone())));
        }
        let mut renamed: HashMap<String, String> = HashMap::new();
        for (likeness, name) in left {
            // Only where nothing else is like it.
            if let ([name], Some([other])) = (&name[..], right.remove(&likeness).as_deref()) {
                let own = others.get(other).unwrap_or(other).clone();
                others.insert(name.clone(), own);
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
        Ok(Pairing { names, others })
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

/// The units of comparison in both runs.
struct Units {
    /// Per run, the names in the first one.
    of_nccl: [NcclNames; 2],
    same_ranks: bool,
}

impl Units {
    /// The unit: a communicator, or all parts of creations that have the same names but for numbers
    /// of ranks.
    fn name(&self, run: usize, comm: &str) -> String {
        match self.same_ranks {
            true => self.of_nccl[run].common(comm),
            false => derived(comm, |name| name.without_ranks().without_size()),
        }
    }

    /// The likeness of each unit; of several communicators that are one, of the first.
    fn likenesses(&self, run: usize, processes: &Processes) -> BTreeMap<String, Likeness> {
        let mut rows: Vec<CommRow> = processes.comms.values().cloned().collect();
        rows.sort_by(|left, right| left.comm.cmp(&right.comm));
        let shapes = shape::shapes(&rows, processes);
        let mut found = BTreeMap::new();
        for (row, shape) in rows.iter().zip(&shapes) {
            let likeness = Likeness {
                parent: self.name(run, &row.parent),
                created_by: row.created_by.clone(),
                label: row.label.clone(),
                size: if self.same_ranks { row.size } else { 0 },
                shape: match (self.same_ranks, shape) {
                    (false, Shape::Grid { along, .. }) => format!("part along {along:?}"),
                    (_, shape) => shape.to_string(),
                },
            };
            found.entry(self.name(run, &row.comm)).or_insert(likeness);
        }
        found
    }
}
