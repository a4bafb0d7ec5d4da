//! Sets of ranks, kept and written as ranges: `0-63,128-191`.

use crate::WorldRank;
use std::fmt;
use std::str::FromStr;

/// `first`, `first + stride`, … , `last`; a single rank has `first == last` and stride 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest rank.
    pub first: u32,
    /// The largest rank, itself a member.
    pub last: u32,
    /// The distance between neighbours, at least 1.
    pub stride: u32,
}

impl Range {
    /// The number of ranks in the range.
    pub fn len(&self) -> u64 {
        u64::from((self.last - self.first) / self.stride) + 1
    }

    /// Never: a range holds at least its first rank.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn contains(&self, rank: u32) -> bool {
        (self.first..=self.last).contains(&rank) && (rank - self.first).is_multiple_of(self.stride)
    }
}

/// A set of ranks, in ascending order. Its text form is the `members` column of `comms.csv`:
/// ranges `a-b`, single ranks `a`, and `a-b:s` for every s-th rank once that is shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSet {
    ranges: Vec<Range>,
}

/// Below this many ranks a strided run is written rank by rank, which every script can read.
const SHORTEST_STRIDED_RUN: u64 = 9;

impl RankSet {
    /// The ranks `0..count`.
    pub fn first(count: u32) -> Self {
        Self::evenly_spaced(0, count, 1)
    }

    /// The ranks `first`, `first + stride`, …, `count` of them; the last must be a number of 32
    /// bits.
    pub fn evenly_spaced(first: u32, count: u32, stride: u32) -> Self {
        match count {
            0 => Self::default(),
            _ if stride == 1 || u64::from(count) >= SHORTEST_STRIDED_RUN => {
                RankSet { ranges: vec![Range { first, last: first + (count - 1) * stride, stride }] }
            }
            _ => (0..count).map(|index| first + index * stride).collect(),
        }
    }

    /// Sets that have no rank in common, as one.
    pub fn disjoint(sets: impl IntoIterator<Item = Self>) -> Self {
        let mut sorted: Vec<Range> = sets.into_iter().flat_map(|set| set.ranges).collect();
        sorted.sort_by_key(|range| range.first);
        let mut ranges: Vec<Range> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match ranges.last_mut() {
                Some(before)
                    if before.stride == 1
                        && range.stride == 1
                        && before.last.checked_add(1) == Some(range.first) =>
                {
                    before.last = range.last;
                }
                _ => ranges.push(range),
            }
        }
        RankSet { ranges }
    }

    /// These ranges, if each begins after the one before it does and none is odd.
    pub fn of_ranges(ranges: Vec<Range>) -> Option<Self> {
        let is_range = |range: &Range| {
            range.stride > 0
                && range.last.checked_sub(range.first).is_some_and(|span| span.is_multiple_of(range.stride))
        };
        let in_order = ranges.is_sorted_by(|left, right| left.first < right.first);
        (in_order && ranges.iter().all(is_range)).then_some(RankSet { ranges })
    }

    /// Returns whether all of its ranks come before, or after, all of the other's.
    pub(crate) fn is_apart(&self, other: &Self) -> bool {
        let ends =
            |set: &Self| Some((set.ranges.first()?.first, set.ranges.iter().map(|range| range.last).max()?));
        match (ends(self), ends(other)) {
            (Some((first, last)), Some((others_first, others_last))) => {
                last < others_first || others_last < first
            }
            _ => true,
        }
    }

    /// Returns whether some rank is in both. Takes as long as the smaller set is large, unless one
    /// is found.
    pub fn shares(&self, other: &Self) -> bool {
        let (few, many) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        few.ranges.iter().flat_map(each).any(|rank| many.contains(rank))
    }

    /// Sets that have no rank in common, as one. Where all of one come before the other, as those
    /// of neighbouring blocks of ranks do, it takes no longer than there are ranges.
    pub fn joined(self, other: Self) -> Self {
        if !self.is_apart(&other) {
            return self.union(&other);
        }
        let begin = |set: &Self| set.ranges.first().map(|range| range.first);
        let (mut first, second) = if begin(&self) <= begin(&other) { (self, other) } else { (other, self) };
        second.ranges.into_iter().for_each(|range| first.append(range));
        first
    }

    /// Appends a range of larger ranks; one that continues the last becomes a part of it.
    fn append(&mut self, next: Range) {
        let [.., last] = &mut self.ranges[..] else {
            self.ranges.push(next);
            return;
        };
        let gap = next.first - last.last;
        let single = |range: &Range| range.first == range.last;
        let continues = match (single(last), single(&next)) {
            (false, false) => gap == last.stride && gap == next.stride,
            (false, true) => gap == last.stride,
            (true, false) => gap == next.stride,
            (true, true) => gap == 1,
        };
        if continues {
            *last = Range { first: last.first, last: next.last, stride: gap };
            return;
        }
        let before = self.ranges.len().checked_sub(2).map(|place| self.ranges[place]);
        match before {
            // Three at one distance begin a run.
            Some(before)
                if single(&before)
                    && single(&self.ranges[self.ranges.len() - 1])
                    && single(&next)
                    && self.ranges[self.ranges.len() - 1].first - before.first == gap =>
            {
                self.ranges.pop();
                let begin = self.ranges.len() - 1;
                self.ranges[begin] = Range { first: before.first, last: next.last, stride: gap };
            }
            _ => self.ranges.push(next),
        }
    }

    /// The number of ranks.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Returns whether there is no rank in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether `rank` is in it.
    pub fn contains(&self, rank: u32) -> bool {
        self.ranges.iter().any(|range| range.contains(rank))
    }

    /// The ranks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        // Ranges with different strides may interleave, so their order is not that of the ranks.
        let interleaved = self.ranges.iter().any(|range| range.stride != 1);
        let mut sorted: Vec<u32> =
            if interleaved { self.ranges.iter().flat_map(each).collect() } else { Vec::new() };
        sorted.sort_unstable();
        sorted.into_iter().chain(self.ranges.iter().filter(move |_| !interleaved).flat_map(each))
    }

    /// Both sets together.
    pub fn union(&self, other: &Self) -> Self {
        if self == other || other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        if let (Some(own), Some(others)) = (self.as_one_run(), other.as_one_run())
            && own.first <= others.last.saturating_add(1)
            && others.first <= own.last.saturating_add(1)
        {
            let (first, last) = (own.first.min(others.first), own.last.max(others.last));
            return RankSet { ranges: vec![Range { first, last, stride: 1 }] };
        }
        self.iter().chain(other.iter()).collect()
    }

    /// The only range, if it has no gaps.
    fn as_one_run(&self) -> Option<Range> {
        match self.ranges.as_slice() {
            [range] if range.stride == 1 => Some(*range),
            _ => None,
        }
    }

    /// Adds the ranks of `other`; quickly if they come after all that are there.
    pub fn add(&mut self, other: &Self) {
        let largest = self.ranges.iter().map(|range| range.last).max();
        match other.ranges.first() {
            Some(first) if largest.is_none_or(|largest| largest < first.first) => {
                other.ranges.iter().for_each(|&range| self.push(range));
            }
            Some(_) => *self = self.union(other),
            None => {}
        }
    }

    /// Appends what comes after all ranks that are there.
    fn push(&mut self, range: Range) {
        let is_one = range.first == range.last;
        if let Some(before) = self.ranges.last_mut()
            && (is_one || range.stride == 1)
            && (before.stride == 1 || is_one)
            && before.last.checked_add(before.stride) == Some(range.first)
        {
            before.last = range.last;
            return;
        }
        self.ranges.push(range);
        // Single ranks at one distance become a range once there are enough of them.
        let Some(tail) = self.ranges.last_chunk::<{ SHORTEST_STRIDED_RUN as usize }>() else { return };
        let stride = tail[1].first - tail[0].first;
        let (first, last) = (tail[0].first, range.last);
        let evenly = tail.windows(2).all(|pair| pair[1].first - pair[0].first == stride);
        if evenly && tail.iter().all(|range| range.first == range.last) {
            self.ranges.truncate(self.ranges.len() - tail.len());
            self.ranges.push(Range { first, last, stride });
        }
    }

    /// The ranges, by their first rank.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }
}

fn each(range: &Range) -> impl Iterator<Item = u32> + use<> {
    (range.first..=range.last).step_by(range.stride as usize)
}

impl FromIterator<WorldRank> for RankSet {
    fn from_iter<I: IntoIterator<Item = WorldRank>>(ranks: I) -> Self {
        ranks.into_iter().map(WorldRank::get).collect()
    }
}

impl FromIterator<u32> for RankSet {
    /// Takes ranks in any order; the same rank twice counts once.
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Self {
        let mut sorted: Vec<u32> = ranks.into_iter().collect();
        if !sorted.is_sorted() {
            sorted.sort_unstable();
        }
        sorted.dedup();
        let mut ranges = Vec::new();
        let mut rest = sorted.as_slice();
        while let Some(&first) = rest.first() {
            let run = leading_run(rest);
            let stride = if run > 1 { rest[1] - first } else { 1 };
            // A short strided run may hide a contiguous one that begins at its second rank.
            let take = if stride == 1 || run as u64 >= SHORTEST_STRIDED_RUN { run } else { 1 };
            let stride = if take > 1 { stride } else { 1 };
            ranges.push(Range { first, last: rest[take - 1], stride });
            rest = &rest[take..];
        }
        RankSet { ranges }
    }
}

/// The number of first ranks that lie at one distance from each other.
fn leading_run(ranks: &[u32]) -> usize {
    if ranks.len() < 2 {
        return ranks.len();
    }
    let stride = ranks[1] - ranks[0];
    1 + ranks.windows(2).take_while(|pair| pair[1] - pair[0] == stride).count()
}

impl RankSet {
    /// `rank 3`, `ranks 0-2`.
    pub fn named(&self) -> String {
        format!("{} {self}", if self.len() == 1 { "rank" } else { "ranks" })
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match range {
                Range { first, last, .. } if first == last => write!(out, "{comma}{first}")?,
                Range { first, last, stride: 1 } => write!(out, "{comma}{first}-{last}")?,
                Range { first, last, stride } => write!(out, "{comma}{first}-{last}:{stride}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for RankSet {
    type Err = String;

    /// Reads what `Display` writes; blanks around ranges are allowed. The error says which part is
    /// wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = RankSet::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            set.ranges.push(parse_range(part).ok_or_else(|| {
                format!("'{part}' is not a rank, a range like 0-63, or a strided range like 0-56:8")
            })?);
        }
        set.ranges.sort_by_key(|range| range.first);
        Ok(set)
    }
}

fn parse_range(part: &str) -> Option<Range> {
    let (ends, stride) = match part.split_once(':') {
        Some((ends, stride)) => (ends, stride.parse().ok().filter(|&stride: &u32| stride > 0)?),
        None => (part, 1),
    };
    let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
    let first: u32 = first.trim().parse().ok()?;
    let last: u32 = last.trim().parse().ok()?;
    let span = last.checked_sub(first)?;
    Some(Range { first, last: last - span % stride, stride })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_written_as_the_design_shows() {
        let set: RankSet = (0..64).chain(128..192).collect();
        assert_eq!(set.to_string(), "0-63,128-191");
        assert_eq!([64, 0, 192, 128].into_iter().collect::<RankSet>().to_string(), "0,64,128,192");
        assert_eq!((0..100).step_by(8).collect::<RankSet>().to_string(), "0-96:8");
        assert_eq!([0, 3, 4, 5].into_iter().collect::<RankSet>().to_string(), "0,3-5");
    }

    #[test]
    fn a_wrong_range_is_named() {
        assert!("0-3,5-x".parse::<RankSet>().unwrap_err().contains("'5-x'"));
        assert!("7-3".parse::<RankSet>().is_err());
        assert!("0-8:0".parse::<RankSet>().is_err());
    }

    #[test]
    fn neighbouring_blocks_become_few_ranges() {
        for (members, expected) in [
            ((0..4096).collect::<Vec<u32>>(), 1),
            ((0..4096).step_by(2).collect(), 1),
            ((7..4096).step_by(64).collect(), 1),
            ((0..4096).filter(|rank| rank % 64 < 8).collect(), 64),
        ] {
            let mut blocks: Vec<RankSet> =
                members.iter().map(|&rank| RankSet::evenly_spaced(rank, 1, 1)).collect();
            while blocks.len() > 1 {
                let pairs = blocks.chunks(2).map(|pair| match pair {
                    [one, other] => one.clone().joined(other.clone()),
                    _ => pair[0].clone(),
                });
                blocks = pairs.collect();
            }
            assert_eq!(blocks[0].iter().collect::<Vec<_>>(), members);
            assert!(blocks[0].ranges().len() <= expected, "{}", blocks[0]);
        }
    }

    proptest! {
        #[test]
        fn joined_sets_have_the_ranks_of_both(
            ranks in proptest::collection::btree_set(0u32..300, 0..120), in_first: u128, cut in 0u32..300
        ) {
            let all: Vec<u32> = ranks.into_iter().collect();
            let splits: [&dyn Fn(u32) -> bool; 2] =
                [&|rank| rank < cut, &|rank| in_first >> (rank % 128) & 1 == 1];
            for is_first in splits {
                let (first, second): (Vec<u32>, Vec<u32>) = all.iter().partition(|&&rank| is_first(rank));
                let joined = |ranks: Vec<u32>| {
                    let each = ranks.into_iter().map(|rank| RankSet::evenly_spaced(rank, 1, 1));
                    each.fold(RankSet::default(), RankSet::joined)
                };
                let both = joined(second).joined(joined(first));
                prop_assert_eq!(both.iter().collect::<Vec<_>>(), all.clone());
                prop_assert_eq!(both.len(), all.len() as u64);
            }
        }

        #[test]
        fn added_ranks_are_members_in_any_order_of_adding(
            sets in proptest::collection::vec(proptest::collection::btree_set(0u32..200, 0..60), 0..6),
        ) {
            let mut set = RankSet::default();
            for ranks in &sets {
                set.add(&ranks.iter().copied().collect());
            }
            let all: std::collections::BTreeSet<u32> = sets.into_iter().flatten().collect();
            prop_assert_eq!(set.len(), all.len() as u64);
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), all.iter().copied().collect::<Vec<_>>());
            let mut one_by_one = RankSet::default();
            all.iter().for_each(|&rank| one_by_one.add(&RankSet::evenly_spaced(rank, 1, 1)));
            prop_assert_eq!(one_by_one.to_string(), all.into_iter().collect::<RankSet>().to_string());
        }

        #[test]
        fn text_and_ranks_agree(ranks in proptest::collection::btree_set(0u32..300, 0..120)) {
            let set: RankSet = ranks.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), ranks.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), ranks.len() as u64);
            let again: RankSet = set.to_string().parse().unwrap();
            prop_assert_eq!(again.iter().collect::<Vec<_>>(), ranks.into_iter().collect::<Vec<_>>());
        }
    }
}
