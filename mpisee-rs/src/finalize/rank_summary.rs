//! Summary of all ranks, gathered before their rows.

use super::tree::Ranks;
use mpisee_profile::segment::NotSeen;

/// Indices of the sums over ranks: calls not seen by reason, and then these.
pub const RECORDING_WAS_OFF: usize = NotSeen::ALL.len();
/// Ranks whose clock jumped.
pub const UNSTEADY_CLOCK: usize = RECORDING_WAS_OFF + 1;
/// Wall time.
pub const WALL_NS: usize = UNSTEADY_CLOCK + 1;
/// The profiler's own.
pub const PROFILER_NS: usize = WALL_NS + 1;
/// Ranks whose counters are not in a file of their own.
pub const WITHOUT_SEGMENT: usize = PROFILER_NS + 1;
/// How many.
const SUMS: usize = WITHOUT_SEGMENT + 1;

/// Summary of one rank, or of consecutive ranks of the channel.
pub struct RankSummary {
    /// The sums.
    pub counts: [u64; SUMS],
    /// The sum of [`mpisee_profile::segment::membership::membership_sum`], modulo 2^64.
    pub names: u64,
    /// Runs of consecutive ranks on one node: their number, and a hash of the node's name.
    nodes: Vec<(u32, u64)>,
    /// Those that did not answer, or cannot read their own counters.
    pub lost: Vec<Ranks>,
}

impl RankSummary {
    /// Of one rank.
    pub fn of_one(counts: [u64; SUMS], names: u64, node: u64) -> Self {
        RankSummary { counts, names, nodes: vec![(1, node)], lost: Vec::new() }
    }

    /// Adds the ranks that follow, as [`RankSummary::encode`] has them, or says that they are lost.
    pub fn add(&mut self, next: Result<Vec<u8>, Ranks>) {
        match next.and_then(|bytes| RankSummary::decode(&bytes).ok_or(0..0)) {
            Ok(next) => {
                for (sum, count) in self.counts.iter_mut().zip(next.counts) {
                    *sum = sum.saturating_add(count);
                }
                self.names = self.names.wrapping_add(next.names);
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

    /// As words of 8 bytes: the sums, that of names, how many runs of nodes, these, and the lost.
    pub fn encode(&self) -> Vec<u8> {
        let nodes = self.nodes.iter().flat_map(|&(ranks, node)| [u64::from(ranks), node]);
        let lost = self.lost.iter().flat_map(|ranks| [u64::from(ranks.start), u64::from(ranks.end)]);
        let words =
            self.counts.into_iter().chain([self.names, self.nodes.len() as u64]).chain(nodes).chain(lost);
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
        let mut counts = [0; SUMS];
        for count in &mut counts {
            *count = words.next()?;
        }
        let names = words.next()?;
        let runs = words.next()?;
        let mut nodes = Vec::new();
        for _ in 0..runs {
            nodes.push((words.next()? as u32, words.next()?));
        }
        let mut lost = Vec::new();
        while let Some(start) = words.next() {
            lost.push(start as u32..words.next()? as u32);
        }
        Some(RankSummary { counts, names, nodes, lost })
    }
}

const NOWHERE: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_summaries_merge_in_the_order_of_ranks() {
        let one = |node: u64| {
            let mut counts = [0; SUMS];
            counts[WALL_NS] = node;
            RankSummary::of_one(counts, node.wrapping_neg(), node)
        };
        let mut upper = one(7);
        upper.add(Err(4..6));
        let mut all = one(5);
        all.add(Ok(one(5).encode()));
        all.add(Ok(one(7).encode()));
        all.add(Ok(upper.encode()));
        assert_eq!(all.counts[WALL_NS], 24);
        assert_eq!(all.names, 24u64.wrapping_neg());
        assert_eq!(all.nodes().collect::<Vec<_>>(), [(2, Some(5)), (2, Some(7)), (2, None)]);
        assert_eq!(all.lost.iter().cloned().flatten().collect::<Vec<_>>(), [4, 5]);
    }
}
