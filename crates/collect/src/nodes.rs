//! The node of each rank, stored as runs of consecutive ranks.

use mpisee_profile::{RankSet, WorldRank};
use std::collections::HashMap;
use std::hash::Hash;

/// The node of each rank, as runs of consecutive ranks on one node: one run per node if ranks are
/// placed in blocks, one per rank at worst.
#[derive(Debug, Default)]
pub struct Nodes {
    /// The first rank and the length of each run, ascending, and the number of its node.
    runs: Vec<(u32, u32, u32)>,
    count: u32,
}

impl Nodes {
    /// From runs of ranks: the first, how many, and what stands for their node.
    pub fn new<N: Eq + Hash>(runs: impl IntoIterator<Item = (WorldRank, u32, N)>) -> Self {
        let mut numbers = HashMap::new();
        let mut sorted: Vec<_> = runs
            .into_iter()
            .map(|(first, ranks, node)| {
                let next = numbers.len() as u32;
                (first.get(), ranks, *numbers.entry(node).or_insert(next))
            })
            .collect();
        sorted.sort_unstable();
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for (first, ranks, node) in sorted {
            match runs.last_mut() {
                Some(before) if before.2 == node && before.0 + before.1 == first => before.1 += ranks,
                _ => runs.push((first, ranks, node)),
            }
        }
        runs.shrink_to_fit();
        Nodes { runs, count: numbers.len() as u32 }
    }

    /// The number of nodes.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// On how many nodes these ranks are; one that is not known is on none.
    pub(crate) fn count_of(&self, ranks: &RankSet) -> u32 {
        let mut found = Vec::new();
        for range in ranks.ranges() {
            if range.stride == 1 {
                let begin = self.runs.partition_point(|&(first, ranks, _)| first + (ranks - 1) < range.first);
                let overlapping = self.runs[begin..].iter().take_while(|&&(first, ..)| first <= range.last);
                found.extend(overlapping.map(|&(.., node)| node));
            } else {
                let each = (range.first..=range.last).step_by(range.stride as usize);
                found.extend(each.filter_map(|rank| self.number(rank)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found.len() as u32
    }

    fn number(&self, rank: u32) -> Option<u32> {
        let after = self.runs.partition_point(|&(first, ..)| first <= rank);
        let &(first, ranks, node) = self.runs.get(after.checked_sub(1)?)?;
        (rank - first < ranks).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nodes_are_counted_as_one_by_one(
            node_of in prop::collection::vec(prop::option::of(0u8..5), 1..60),
            members in prop::collection::btree_set(0u32..60, 0..40),
        ) {
            let runs = (0..).zip(&node_of).filter_map(|(rank, node)| node.map(|node| (WorldRank::new(rank), 1, node)));
            let nodes = Nodes::new(runs);
            let members: RankSet = members.into_iter().collect();
            let mut expected: Vec<u8> =
                members.iter().filter_map(|rank| *node_of.get(rank as usize)?).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(nodes.count_of(&members), expected.len() as u32);
        }
    }

    #[test]
    fn neighbours_on_one_node_are_one_run() {
        let nodes = Nodes::new(
            [(4, 4, "b"), (0, 2, "a"), (2, 2, "a"), (8, 1, "a")]
                .map(|(first, ranks, node)| (WorldRank::new(first), ranks, node)),
        );
        assert_eq!(nodes.runs, [(0, 4, 1), (4, 4, 0), (8, 1, 1)]);
        assert_eq!((nodes.count(), nodes.count_of(&RankSet::first(8))), (2, 2));
    }
}
