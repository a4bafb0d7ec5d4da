//! Caliper's JSON in its split form, which Hatchet and Thicket read (`from_caliper`): a tree of
//! regions, communicators and operations, and a row of numbers for each of its nodes and each rank.

use super::two_counts;
use crate::filter::CallFilter;
use crate::group::By;
use crate::load;
use crate::processes::Processes;
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::rows::{RankRow, RegionRow};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;

/// A node: a region, a communicator or an operation.
struct Node {
    label: String,
    parent: Option<usize>,
}

/// The numbers of a rank at a node.
#[derive(Clone, Copy, Default)]
struct Numbers {
    /// Without what is below the node.
    time_s: f64,
    /// With it.
    inclusive_s: f64,
    calls: u64,
    bytes: u64,
}

/// The program as root, below it its regions, in these the communicators by descent, and the
/// operations on each.
pub struct CallTree {
    /// Parents come before their children.
    nodes: Vec<Node>,
    places: HashMap<(Option<usize>, String), usize>,
    /// By node and rank.
    numbers: BTreeMap<(usize, u32), Numbers>,
}

impl CallTree {
    /// Sums up the profile.
    pub fn read(view: &ProfileView) -> Result<Self> {
        let ranks = view.ranks("what single ranks did")?;
        let mut tree = CallTree { nodes: Vec::new(), places: HashMap::new(), numbers: BTreeMap::new() };
        let root = tree.node(None, &view.program());
        tree.add_calls(view, root)?;
        let regions: Vec<RegionRow> = load::all(view.profile())?;
        tree.add_time_outside(root, ranks, &regions);
        tree.sum_up();
        Ok(tree)
    }

    /// The node of that label below another.
    fn node(&mut self, parent: Option<usize>, label: &str) -> usize {
        let next = self.nodes.len();
        let place = *self.places.entry((parent, label.to_owned())).or_insert(next);
        if place == next {
            self.nodes.push(Node { label: label.to_owned(), parent });
        }
        place
    }

    /// The node of a region: `solver/halo` is `halo` in `solver`.
    fn region(&mut self, root: usize, region: &str) -> usize {
        let names = region.split('/').filter(|name| !name.is_empty());
        names.fold(root, |parent, name| self.node(Some(parent), name))
    }

    fn add_calls(&mut self, view: &ProfileView, root: usize) -> Result<()> {
        let by = By { comm: true, rank: true, region: true, call: true, ..By::default() };
        let groups = view.group(&CallFilter::default(), by)?;
        if let Some(error) = groups.cut_off {
            return Err(error.into());
        }
        for (key, cell) in &groups.cells {
            let region = self.region(root, &groups.regions[key.region as usize]);
            let ancestry = ancestry(view.processes(), &groups.comms[key.comm as usize]);
            let comm = ancestry.iter().rev().fold(region, |parent, name| self.node(Some(parent), name));
            let call = self.node(Some(comm), &groups.calls[key.call as usize]);
            let numbers = self.numbers.entry((call, key.rank)).or_default();
            numbers.time_s += cell.time_s();
            numbers.calls += cell.calls;
            numbers.bytes += cell.bytes;
        }
        Ok(())
    }

    /// Adds the time outside of MPI to regions, and what is outside of any region to the root.
    fn add_time_outside(&mut self, root: usize, ranks: &[RankRow], regions: &[RegionRow]) {
        let mut outside_s: HashMap<(usize, u32), f64> = HashMap::new();
        for row in ranks {
            *outside_s.entry((root, row.rank)).or_default() += row.wall_s.0 - row.mpi_s.0;
        }
        for row in regions {
            let node = self.region(root, &row.region);
            let own_s = row.wall_s.0 - row.mpi_s.0;
            *outside_s.entry((node, row.rank)).or_default() += own_s;
            if let Some(parent) = self.nodes[node].parent {
                *outside_s.entry((parent, row.rank)).or_default() -= own_s;
            }
        }
        for (at, time_s) in outside_s {
            // Where several threads call MPI, they may take longer than the rank.
            self.numbers.entry(at).or_default().time_s += time_s.max(0.0);
        }
    }

    /// Adds times to all ancestors.
    fn sum_up(&mut self) {
        let own: Vec<((usize, u32), f64)> =
            self.numbers.iter().map(|(&at, numbers)| (at, numbers.time_s)).collect();
        for ((node, rank), time_s) in own {
            let mut next = Some(node);
            while let Some(node) = next {
                self.numbers.entry((node, rank)).or_default().inclusive_s += time_s;
                next = self.nodes[node].parent;
            }
        }
    }

    /// Writes it, with what is known of the run as metadata.
    pub fn write(&self, view: &ProfileView, out: &mut dyn Write) -> Result<()> {
        // Hatchet takes the order of node k from the first column of row k.
        let mut first: HashSet<usize> = HashSet::new();
        let (mut rows, mut others) = (Vec::new(), Vec::new());
        for (&(node, rank), numbers) in &self.numbers {
            let is_first = first.insert(node);
            let row = json!([
                node,
                rank,
                to_nine_decimals(numbers.time_s),
                to_nine_decimals(numbers.inclusive_s),
                numbers.calls,
                numbers.bytes,
                node
            ]);
            if is_first { rows.push(row) } else { others.push(row) }
        }
        rows.append(&mut others);
        let are_values =
            [true, true, true, true, true, true, false].map(|is_value| json!({ "is_value": is_value }));
        let nodes: Vec<Value> = self.nodes.iter().map(node_json).collect();
        let mut document = json!({
            "data": rows,
            "columns": [
                "Node order", "mpi.rank", "sum#time.duration", "inclusive#sum#time.duration", "calls", "bytes", "path"
            ],
            "column_metadata": are_values,
            "nodes": nodes,
        });
        let run = view.run();
        let metadata = [
            ("program", json!(view.program())),
            ("command", json!(run.command.join(" "))),
            ("ranks", json!(run.ranks)),
            ("nodes used", json!(run.nodes)),
            ("mpi", json!(run.mpi.library)),
            ("start", json!(run.start)),
            ("complete", json!(run.complete)),
            ("mpisee.version", json!(run.mpisee_version)),
        ];
        if let Some(document) = document.as_object_mut() {
            document.extend(metadata.map(|(name, value)| (name.to_owned(), value)));
        }
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
        Ok(())
    }

    /// How much is in it.
    pub fn sentence(&self) -> String {
        two_counts((self.nodes.len() as u64, "node"), (self.numbers.len() as u64, "row"))
    }
}

fn node_json(node: &Node) -> Value {
    match node.parent {
        Some(parent) => json!({ "label": node.label, "column": "path", "parent": parent }),
        None => json!({ "label": node.label, "column": "path" }),
    }
}

/// The communicator and its ancestors, outwards.
fn ancestry<'a>(processes: &'a Processes, comm: &'a str) -> Vec<&'a str> {
    let mut names = vec![comm];
    let mut next = processes.comms.get(comm);
    while let Some(row) = next.filter(|row| !row.parent.is_empty() && !names.contains(&row.parent.as_str())) {
        names.push(&row.parent);
        next = processes.comms.get(&row.parent);
    }
    names
}
