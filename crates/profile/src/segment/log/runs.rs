//! Lists of world ranks, stored as arithmetic runs.

use crate::{CommRank, RankSet, WorldRank};
use smallvec::{SmallVec, smallvec};

/// Runs of this many ranks or more are not expanded into single ranks.
pub(super) const LONG: u32 = 1024;

/// As the first number of a run: its processes are of another world.
pub(super) const OUTSIDE: u32 = WorldRank::OUTSIDE.get();

/// As the first number of a run: its processes are elided.
pub(super) const ELIDED: u32 = WorldRank::ELIDED.get();

/// The first number that is no rank: [`ELIDED`] or [`OUTSIDE`].
const FIRST_MARK: u32 = ELIDED;

/// Fewer processes than this are always listed: an elided list keeps up to three ranks, and must
/// leave some out.
const FEWEST_ELIDED: u64 = 4;

/// A list of world ranks in a given order, as arithmetic runs. Processes of other worlds are
/// [`WorldRank::OUTSIDE`], elided ones [`WorldRank::ELIDED`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Runs(pub(super) SmallVec<[Run; 2]>);

/// `first`, `first + stride`, …, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first world rank.
    pub first: u32,
    /// The number of ranks.
    pub count: u32,
    /// The distance; may be negative.
    pub stride: i32,
}

impl Run {
    /// Returns whether it is of processes of other worlds.
    fn is_outside(&self) -> bool {
        self.first == OUTSIDE
    }

    /// [`OUTSIDE`] or [`ELIDED`], where it is of those.
    fn mark(&self) -> Option<u32> {
        (self.first >= FIRST_MARK).then_some(self.first)
    }

    fn nth(&self, index: u32) -> u32 {
        self.first.wrapping_add((self.stride as u32).wrapping_mul(index))
    }

    fn position(&self, rank: u32) -> Option<u32> {
        if self.mark().is_some() || self.count == 0 {
            return None;
        }
        let distance = i64::from(rank) - i64::from(self.first);
        let at = match i64::from(self.stride) {
            0 if distance == 0 => 0,
            0 => return None,
            stride if distance % stride == 0 => distance / stride,
            _ => return None,
        };
        u32::try_from(at).ok().filter(|&at| at < self.count)
    }

    fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let run = *self;
        (0..run.count).map(move |index| run.nth(index))
    }

    /// The smallest rank, how many there are, and the distance upwards. `None` for a run that
    /// passes the largest number, as one of places that are no ranks does.
    pub(super) fn ascending(&self) -> Option<(u32, u32, u32)> {
        let steps = i64::from(self.count.saturating_sub(1));
        let last = u32::try_from(i64::from(self.first) + steps * i64::from(self.stride)).ok()?;
        let count = if self.stride == 0 { self.count.min(1) } else { self.count };
        Some((self.first.min(last), count, self.stride.unsigned_abs()))
    }
}

impl Runs {
    /// `0..count`.
    pub fn first(count: u32) -> Self {
        Runs(smallvec![Run { first: 0, count, stride: 1 }])
    }

    /// `first`, `first + stride`, …, `count` of them, and the next such run.
    pub fn from_runs(runs: impl IntoIterator<Item = Run>) -> Self {
        Runs(runs.into_iter().collect())
    }

    /// Appends one rank.
    pub fn push(&mut self, rank: WorldRank) {
        let rank = rank.get();
        // A run has ranks alone, or those that have none.
        let alike = |last: &&mut Run| last.mark() == Some(rank).filter(|&rank| rank >= FIRST_MARK);
        if let Some(last) = self.0.last_mut().filter(alike) {
            if last.count == 1 {
                *last = Run { count: 2, stride: rank.wrapping_sub(last.first) as i32, ..*last };
                return;
            }
            if last.nth(last.count) == rank {
                last.count += 1;
                return;
            }
            // Two ranks that belong to nothing longer: the second may begin a run.
            if last.count == 2 {
                let second = last.nth(1);
                *last = Run { first: last.first, count: 1, stride: 1 };
                let stride = rank.wrapping_sub(second) as i32;
                self.0.push(Run { first: second, count: 2, stride });
                return;
            }
        }
        self.0.push(Run { first: rank, count: 1, stride: 1 });
    }

    /// The number of ranks.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|run| u64::from(run.count)).sum()
    }

    /// The number of runs.
    ///
    /// Not inlined: of an `Option<Runs>` that is `None`, the compiler may load what would be the
    /// number before it looks whether there is one, and valgrind then reports a program that
    /// depends on a value which was never set.
    #[inline(never)]
    pub fn run_count(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The world rank of a member.
    pub fn get(&self, member: CommRank) -> Option<WorldRank> {
        let index = member.get();
        let mut before = 0u32;
        for run in &self.0 {
            if index - before < run.count {
                return Some(WorldRank::new(run.nth(index - before)));
            }
            before += run.count;
        }
        None
    }

    /// The ranks, in order.
    pub fn iter(&self) -> impl Iterator<Item = WorldRank> + '_ {
        self.0.iter().flat_map(Run::iter).map(WorldRank::new)
    }

    /// Returns whether a list of who it is takes more than `most` runs.
    pub(super) fn is_without_order(&self, most: usize) -> bool {
        self.0.len() > most && self.len() - u64::from(self.outsiders()) >= FEWEST_ELIDED
    }

    /// The elided form of a long list without order: the numbers of processes of this world and of
    /// others, the position of the first of this world, and the ranks of that one, of the smallest,
    /// and of `itself`.
    pub(super) fn without_list(&self, itself: Option<WorldRank>) -> Runs {
        let outsiders = self.outsiders();
        let before = self.first_insider().map_or(outsiders, CommRank::get);
        let mut known: Vec<WorldRank> = Vec::new();
        for rank in [self.get(CommRank::new(before)), itself, self.min()].into_iter().flatten() {
            if rank.is_listed() && !known.contains(&rank) {
                known.push(rank);
            }
        }
        let elided = self.len() as u32 - outsiders - known.len() as u32;
        let marks = |first, count| Some(Run { first, count, stride: 0 }).filter(|run| run.count > 0);
        let mut runs: Runs = known.into_iter().collect();
        runs.0.insert_many(0, marks(OUTSIDE, before));
        runs.0.extend(marks(ELIDED, elided));
        runs.0.extend(marks(OUTSIDE, outsiders - before));
        runs
    }

    /// The smallest listed rank; `None` if no rank is listed, as where every process is of another
    /// world.
    pub fn min(&self) -> Option<WorldRank> {
        let least = |run: &Run| match run.ascending() {
            Some((first, ..)) => Some(first),
            None => run.iter().min(),
        };
        self.0
            .iter()
            .filter(|run| run.count > 0 && run.mark().is_none())
            .filter_map(least)
            .min()
            .map(WorldRank::new)
    }

    /// Returns whether this group has a smaller world rank than the other; a group of another world
    /// has none. Of a group that is not listed the first member counts, since every member has that
    /// one.
    pub fn comes_before(&self, other: &Runs) -> bool {
        let key = |runs: &Runs| match runs.elided() {
            0 => runs.min(),
            _ => runs.first_insider().and_then(|at| runs.get(at)),
        };
        key(self).unwrap_or(WorldRank::OUTSIDE) < key(other).unwrap_or(WorldRank::OUTSIDE)
    }

    /// An elided list of `size` processes of this world, with the ranks of the first one and of
    /// `itself`.
    pub fn of_elided(size: u32, first: WorldRank, itself: Option<WorldRank>) -> Runs {
        let mut runs: Runs =
            [Some(first), itself.filter(|&rank| rank != first)].into_iter().flatten().collect();
        let rest = size - runs.len() as u32;
        runs.0.extend(Some(Run { first: ELIDED, count: rest, stride: 0 }).filter(|run| run.count > 0));
        runs
    }

    /// The runs as numbers: first rank, how many, distance.
    pub fn words(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|run| [run.first, run.count, run.stride as u32])
    }

    /// The member with a world rank.
    pub fn position(&self, rank: WorldRank) -> Option<CommRank> {
        let mut before = 0;
        for run in &self.0 {
            if let Some(at) = run.position(rank.get()) {
                return Some(CommRank::new(before + at));
            }
            before += run.count;
        }
        None
    }

    /// Returns whether the world ranks ascend.
    pub fn is_ascending(&self) -> bool {
        let ascends = |run: &Run| run.mark().is_none() && (run.count == 1 || run.stride > 0);
        let follows = |pair: &[Run]| pair[0].nth(pair[0].count.saturating_sub(1)) < pair[1].first;
        self.0.iter().all(ascends) && self.0.windows(2).all(follows)
    }

    /// The number of processes of other worlds.
    pub fn outsiders(&self) -> u32 {
        self.0.iter().filter(|run| run.is_outside()).map(|run| run.count).sum()
    }

    /// The number of elided processes of this world.
    pub fn elided(&self) -> u64 {
        let elided = self.0.iter().filter(|run| run.mark() == Some(ELIDED));
        elided.map(|run| u64::from(run.count)).sum()
    }

    /// The first member that is of this world.
    pub(crate) fn first_insider(&self) -> Option<CommRank> {
        let inside = self.0.iter().position(|run| !run.is_outside() && run.count > 0)?;
        Some(CommRank::new(self.0[..inside].iter().map(|run| run.count).sum()))
    }

    /// The ranks, whatever their order. A long run takes no longer than a short one.
    pub fn to_set(&self) -> RankSet {
        let insiders = self.0.iter().filter(|run| run.mark().is_none());
        let (long, short): (Vec<&Run>, Vec<&Run>) = insiders.partition(|run| run.count >= LONG);
        let mut sets: Vec<RankSet> = Vec::with_capacity(long.len() + 1);
        let mut rest: Vec<u32> = short.into_iter().flat_map(Run::iter).collect();
        for run in long {
            match run.ascending() {
                Some((first, count, stride)) => sets.push(RankSet::evenly_spaced(first, count, stride)),
                None => rest.extend(run.iter()),
            }
        }
        sets.push(rest.into_iter().collect());
        RankSet::disjoint(sets)
    }
}

impl FromIterator<WorldRank> for Runs {
    fn from_iter<I: IntoIterator<Item = WorldRank>>(ranks: I) -> Self {
        let mut runs = Runs::default();
        ranks.into_iter().for_each(|rank| runs.push(rank));
        runs
    }
}
