//! The axes of a matrix: ranks, blocks of ranks, or nodes.

use crate::filter::CommFilter;
use crate::processes::Processes;
use hashbrown::HashMap;
use mpisee_profile::RankSet;

/// The fields of both axes.
pub struct Axis {
    /// The field of each rank that is on the axis.
    fields: HashMap<u32, u32>,
    names: Vec<String>,
    /// How many ranks, or nodes, a field stands for.
    block: u32,
    by_node: bool,
}

impl Axis {
    /// The ranks that the filter takes, or their nodes, in at most N fields.
    pub fn new(processes: &Processes, filter: &CommFilter, by_node: bool, most: u32) -> Self {
        let mut ranks: Vec<(u32, &str)> =
            processes.chosen_rows(filter).into_iter().map(|row| (row.rank, row.host.as_str())).collect();
        ranks.sort_unstable();
        // Per rank its place on the axis before folding, and the name of each place.
        let mut names: Vec<String> = Vec::new();
        let mut nodes: HashMap<&str, u32> = HashMap::new();
        let mut places: Vec<(u32, u32)> = Vec::new();
        for (rank, host) in ranks {
            let next = names.len() as u32;
            let place = if by_node { *nodes.entry(host).or_insert(next) } else { next };
            if place == next {
                names.push(if by_node { host.to_owned() } else { rank.to_string() });
            }
            places.push((rank, place));
        }
        let block = (names.len() as u32).div_ceil(most).max(1);
        let fields: HashMap<u32, u32> = places.iter().map(|&(rank, place)| (rank, place / block)).collect();
        if block > 1 {
            names = in_blocks(&names, &places, block, by_node);
        }
        Axis { fields, names, block, by_node }
    }

    /// The field of a rank, if it is on the axis.
    pub fn field(&self, rank: u32) -> Option<u32> {
        self.fields.get(&rank).copied()
    }

    /// How many fields there are.
    pub fn len(&self) -> u32 {
        self.names.len() as u32
    }

    /// The rank, ranks, node or nodes of a field.
    pub fn name(&self, field: u32) -> String {
        self.names[field as usize].clone()
    }

    /// Returns whether fields stand for several ranks or nodes.
    pub fn has_blocks(&self) -> bool {
        self.block > 1
    }

    /// How many ranks or nodes a field stands for.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Returns whether fields have names rather than numbers.
    pub fn is_by_name(&self) -> bool {
        self.by_node || self.has_blocks()
    }

    /// The noun of the axis, in the plural.
    pub fn what(&self) -> &'static str {
        if self.by_node { "nodes" } else { "ranks" }
    }
}

fn in_blocks(names: &[String], places: &[(u32, u32)], block: u32, by_node: bool) -> Vec<String> {
    if by_node {
        let ends = |chunk: &[String]| match chunk {
            [only] => only.clone(),
            _ => format!("{}-{}", chunk[0], chunk[chunk.len() - 1]),
        };
        return names.chunks(block as usize).map(ends).collect();
    }
    let set = |chunk: &[(u32, u32)]| chunk.iter().map(|&(rank, _)| rank).collect::<RankSet>().to_string();
    places.chunks(block as usize).map(set).collect()
}
