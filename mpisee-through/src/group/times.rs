//! Times of ranks: one by one, or statistics over them.

use hashbrown::HashMap;

/// The times of some ranks.
#[derive(Clone, Debug)]
pub enum Times {
    /// Rank by rank.
    Each(RankTimes),
    /// Statistics over ranks, in an aggregated profile.
    Over(OverRanks),
    /// Unknown: the sum of several rows that are themselves aggregated over ranks.
    Unknown,
}

/// How the times of ranks differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverRanks {
    /// How many have rows.
    pub ranks: u64,
    /// The least of these.
    pub least_ns: u64,
    pub most_ns: u64,
    /// The first rank that has most.
    pub most_rank: u32,
}

impl Times {
    /// No rank.
    pub const NONE: Times = Times::Each(RankTimes { times: Vec::new(), settled: 0 });

    /// How many ranks have rows, if that is known.
    pub fn ranks(&self) -> Option<u64> {
        match self {
            Times::Each(times) => Some(times.len() as u64),
            Times::Over(over) => Some(over.ranks),
            Times::Unknown => None,
        }
    }

    /// The least time of a rank; a rank without rows has none.
    pub fn least_ns(&self, of: u64) -> Option<u64> {
        let least_ns = match self {
            Times::Each(times) => times.min_ns(),
            Times::Over(over) => over.least_ns,
            Times::Unknown => return None,
        };
        Some(if self.ranks().is_some_and(|ranks| ranks >= of) { least_ns } else { 0 })
    }

    /// The time of the rank that has most.
    pub fn most_ns(&self) -> Option<u64> {
        match self {
            Times::Each(times) => Some(times.max_ns()),
            Times::Over(over) => Some(over.most_ns),
            Times::Unknown => None,
        }
    }

    /// The first rank that has most.
    pub fn most_rank(&self) -> Option<u32> {
        match self {
            Times::Each(times) => times
                .iter()
                .max_by_key(|&(rank, time_ns)| (time_ns, std::cmp::Reverse(rank)))
                .map(|(rank, _)| rank),
            Times::Over(over) => Some(over.most_rank),
            Times::Unknown => None,
        }
    }

    /// Rank and nanoseconds, ascending by rank; nothing where rows are sums over ranks.
    pub fn each(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let times = match self {
            Times::Each(times) => Some(times),
            Times::Over(_) | Times::Unknown => None,
        };
        times.into_iter().flat_map(RankTimes::iter)
    }

    /// Adds time of a rank.
    pub fn add(&mut self, rank: u32, time_ns: u64) {
        if let Times::Each(times) = self {
            times.add(rank, time_ns);
        }
    }

    /// The times of single ranks.
    pub fn of_ranks(ranks: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut times = RankTimes::default();
        ranks.into_iter().for_each(|(rank, time_ns)| times.add(rank, time_ns));
        times.settle();
        Times::Each(times)
    }

    /// The times that are left of ranks when those of a part are taken off.
    pub fn without(&self, part: &Times) -> Self {
        let (Times::Each(times), Times::Each(part)) = (self, part) else { return Times::Unknown };
        let part: HashMap<u32, u64> = part.iter().collect();
        let left = |(rank, time_ns): (u32, u64)| {
            (rank, time_ns.saturating_sub(part.get(&rank).copied().unwrap_or(0)))
        };
        Times::of_ranks(times.iter().map(left).filter(|&(_, time_ns)| time_ns > 0))
    }

    /// Appends the times of another group, to be settled after the last one.
    pub fn append(&mut self, other: &Times) {
        match (&mut *self, other) {
            (Times::Each(times), Times::Each(more)) => times.times.extend_from_slice(&more.times),
            (ranks, _) => *ranks = Times::Unknown,
        }
    }

    /// Sums up the times of each rank.
    pub fn settle(&mut self) {
        if let Times::Each(times) = self {
            times.settle();
        }
    }

    /// Adds the times of another group.
    pub fn merge(&mut self, other: Times) {
        *self = match (std::mem::replace(self, Times::Unknown), other) {
            (Times::Each(mut times), Times::Each(other)) => {
                times.merge(other);
                Times::Each(times)
            }
            (Times::Each(nothing), other) if nothing.len() == 0 => other,
            (own, Times::Each(nothing)) if nothing.len() == 0 => own,
            _ => Times::Unknown,
        };
    }
}

/// Time in nanoseconds per rank.
#[derive(Clone, Debug, Default)]
pub struct RankTimes {
    /// Ascending by rank up to `settled`, in any order and with repetitions after it.
    times: Vec<(u32, u64)>,
    settled: usize,
}

impl RankTimes {
    fn add(&mut self, rank: u32, time_ns: u64) {
        let all_settled = self.settled == self.times.len();
        if let Some((last, sum_ns)) = self.times.last_mut()
            && *last == rank
        {
            *sum_ns = sum_ns.saturating_add(time_ns);
            return;
        }
        // PERF: tables are written rank by rank, so that it is mostly a new last one.
        let is_next = all_settled && self.times.last().is_none_or(|&(last, _)| last < rank);
        self.times.push((rank, time_ns));
        if is_next {
            self.settled += 1;
        } else if self.times.len() > 2 * self.settled + 64 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.settled < self.times.len() {
            self.times.sort_unstable_by_key(|&(rank, _)| rank);
            self.times.dedup_by(|(next, time_ns), (rank, sum_ns)| {
                let same = next == rank;
                if same {
                    *sum_ns = sum_ns.saturating_add(*time_ns);
                }
                same
            });
            self.settled = self.times.len();
        }
    }

    fn merge(&mut self, mut other: RankTimes) {
        self.settle();
        other.settle();
        // PERF: the last rank of one thread's block may be the first of the other's.
        self.times.append(&mut other.times);
        self.settle();
    }

    /// Rank and nanoseconds, ascending by rank.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u64)> + '_ {
        self.times.iter().copied()
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The time of the rank that has least.
    pub fn min_ns(&self) -> u64 {
        self.iter().map(|(_, time_ns)| time_ns).min().unwrap_or(0)
    }

    /// The time of the rank that has most.
    pub fn max_ns(&self) -> u64 {
        self.iter().map(|(_, time_ns)| time_ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn times_per_rank_do_not_depend_on_the_order_of_rows(
            rows in proptest::collection::vec((0u32..90, 0u64..1000), 0..400),
            cut in 0usize..400
        ) {
            let cut = cut.min(rows.len());
            let mut parts = [RankTimes::default(), RankTimes::default()];
            let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
            for (index, &(rank, time)) in rows.iter().enumerate() {
                parts[usize::from(index >= cut)].add(rank, time);
                *expected.entry(rank).or_default() += time;
            }
            let [mut times, other] = parts;
            times.merge(other);
            prop_assert_eq!(times.iter().collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
