//! The nodes of a profile with sums over ranks: what it has in place of single ranks.

use crate::core_share::{share_of_node, share_of_node_on_core};
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use mpisee_profile::rows::{NodeRow, Ranks, Seconds};
use serde::Serialize;

/// Fields of nodes in charts at most; where there are more, consecutive nodes share one.
const MOST_FIELDS: usize = 1024;

/// Nodes in the order of their ranks, or blocks of them, column by column.
#[derive(Debug, Default, Serialize)]
pub struct Nodes {
    /// How many nodes share a field.
    block: usize,
    /// The host, or the first and the last.
    names: Vec<String>,
    /// Ranks in all.
    ranks: Vec<u64>,
    /// The first of these.
    first_rank: Vec<u32>,
    /// Over the ranks, sums.
    wall_s: Vec<f64>,
    mpi_s: Vec<f64>,
    /// Of single ranks.
    mpi_min_s: Vec<f64>,
    mpi_min_rank: Vec<u32>,
    mpi_max_s: Vec<f64>,
    mpi_max_rank: Vec<u32>,
    /// Sums over ranks, as shares of their wall time by it; none where unknown of some.
    cpu_s: Vec<Option<f64>>,
    no_core_s: Vec<Option<f64>>,
}

impl Nodes {
    /// The nodes of the profile; none if it has rows of each rank.
    pub fn from_view(view: &ProfileView) -> Option<Self> {
        let rows = view.processes().nodes();
        let mut rows: Vec<(u32, &NodeRow)> = rows.iter().map(|row| (first_rank(row), row)).collect();
        rows.sort_by_key(|(first, _)| *first);
        let block = rows.len().div_ceil(MOST_FIELDS).max(1);
        let mut all = Nodes { block, ..Nodes::default() };
        rows.chunks(block).for_each(|nodes| all.push(nodes));
        (!all.names.is_empty()).then_some(all)
    }

    fn push(&mut self, nodes: &[(u32, &NodeRow)]) {
        let [(first, node), ..] = nodes else { return };
        let last = &nodes[nodes.len() - 1].1.host;
        let name = if nodes.len() > 1 { format!("{} to {last}", node.host) } else { node.host.clone() };
        let sum = |of: fn(&NodeRow) -> f64| to_nine_decimals(nodes.iter().map(|(_, row)| of(row)).sum());
        let known = |of: &dyn Fn(&NodeRow) -> Option<Seconds>| {
            let sum: Option<f64> = nodes.iter().map(|(_, row)| of(row).map(|time| time.0)).sum();
            sum.map(to_nine_decimals)
        };
        let least = nodes.iter().map(|(_, row)| (row.mpi_min_s.0, row.mpi_min_rank));
        let least = least.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default();
        let most = nodes.iter().map(|(_, row)| (row.mpi_max_s.0, row.mpi_max_rank));
        let most = most.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default();
        self.names.push(name);
        self.ranks.push(nodes.iter().map(|(_, row)| row.ranks).sum());
        self.first_rank.push(*first);
        self.wall_s.push(sum(|row| row.wall_s.0));
        self.mpi_s.push(sum(|row| row.mpi_s.0));
        self.mpi_min_s.push(least.0);
        self.mpi_min_rank.push(least.1);
        self.mpi_max_s.push(most.0);
        self.mpi_max_rank.push(most.1);
        let of_wall = |share: Option<f64>, row: &NodeRow| share.map(|share| Seconds(share * row.wall_s.0));
        self.cpu_s.push(known(&|row| of_wall(share_of_node_on_core(row), row)));
        self.no_core_s.push(known(&|row| of_wall(share_of_node(row), row)));
    }
}

/// The smallest rank of which the node's row says something, where its list of ranks is left out.
fn first_rank(row: &NodeRow) -> u32 {
    let named = row.wall_max_rank.min(row.mpi_min_rank).min(row.mpi_max_rank);
    match &row.members {
        Ranks::Listed(ranks) => ranks.iter().next().unwrap_or(named),
        Ranks::Counted(_) => named,
    }
}
