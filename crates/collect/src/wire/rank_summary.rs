//! The summary that each rank sends before its rows, and its sum over ranks.

use super::Ranks;
use crate::run::RunSums;
use serde::{Deserialize, Serialize};

/// Summary of one rank, or of consecutive ranks of the channel.
#[derive(Serialize, Deserialize)]
pub struct RankSummary {
    /// Sums for `run.json`.
    pub sums: RunSums,
    /// Ranks whose counters are not in a file of their own.
    pub without_segment: u64,
    /// Runs of consecutive ranks on one node: their number, and a hash of the node's name.
    nodes: Vec<(u32, u64)>,
    /// Ranks that did not answer, or cannot read their own counters.
    pub lost: Vec<Ranks>,
}

impl RankSummary {
    /// Of one rank.
    pub fn of_one(sums: RunSums, has_segment: bool, node: u64) -> Self {
        RankSummary {
            sums,
            without_segment: u64::from(!has_segment),
            nodes: vec![(1, node)],
            lost: Vec::new(),
        }
    }

    /// Adds the ranks that follow, or says that they are lost.
    pub fn add(&mut self, next: Result<RankSummary, Ranks>) {
        match next {
            Ok(next) => {
                self.sums.add(&next.sums);
                self.without_segment = self.without_segment.saturating_add(next.without_segment);
                for (ranks, node) in next.nodes {
                    self.add_node(ranks, node);
                }
                self.lost.extend(next.lost);
            }
            Err(lost) => {
                // No host has this number: see `host_number`. The node of a lost rank is unknown.
                self.add_node(lost.end - lost.start, NOWHERE);
                self.lost.push(lost);
            }
        }
    }

    fn add_node(&mut self, ranks: u32, node: u64) {
        match self.nodes.last_mut() {
            Some(last) if last.1 == node => last.0 += ranks,
            _ => self.nodes.push((ranks, node)),
        }
    }

    /// The nodes, as how many neighbours are on one; of ranks that are lost nothing is known.
    pub fn nodes(&self) -> impl Iterator<Item = (u32, Option<u64>)> {
        self.nodes.iter().map(|&(ranks, node)| (ranks, (node != NOWHERE).then_some(node)))
    }
}

const NOWHERE: u64 = 0;

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;

    #[test]
    fn rank_summaries_merge_in_the_order_of_ranks() {
        let one = |node: u64| {
            let sums = RunSums { wall_ns: node, membership: node.wrapping_neg(), ..RunSums::default() };
            RankSummary::of_one(sums, node != 7, node)
        };
        let mut upper = one(7);
        upper.add(Err(4..6));
        let upper = RankSummary::decode(&upper.encode()).unwrap();
        let mut all = one(5);
        all.add(Ok(one(5)));
        all.add(Ok(one(7)));
        all.add(Ok(upper));
        assert_eq!((all.sums.wall_ns, all.without_segment), (24, 2));
        assert_eq!(all.sums.membership, 24u64.wrapping_neg());
        assert_eq!(all.nodes().collect::<Vec<_>>(), [(2, Some(5)), (2, Some(7)), (2, None)]);
        assert_eq!(all.lost.iter().cloned().flatten().collect::<Vec<_>>(), [4, 5]);
    }
}
