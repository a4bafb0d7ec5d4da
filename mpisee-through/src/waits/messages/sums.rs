//! The waits on a communicator by rank, and by who caused them.

use super::class::Class;
use super::estimate::{Bounded, Design, KnownTime};
use crate::waits::estimate::{self, Estimate, SKEWED};
use crate::waits::hosts::Clocks;
use crate::waits::{Directions, Member};
use std::collections::{BTreeMap, BTreeSet};

/// A rank in the messages of a communicator.
#[derive(Clone, Debug, Default)]
pub struct OfRank {
    /// The time of which it is known how much was waiting, in seconds.
    pub time_s: f64,
    pub suffered: Estimate,
    pub caused: Estimate,
    /// For senders and for receivers; as the sample has it, in seconds.
    pub suffered_by_direction_s: [f64; 2],
    /// As sender and as receiver; as the sample has it, in seconds.
    pub caused_by_direction_s: [f64; 2],
}

/// The waiting that a rank caused in a unit of the sample, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cause {
    pub rank: u32,
    /// The rank that waited.
    pub waiting: u32,
    pub group: usize,
    pub unit: usize,
    /// True if others waited for it to receive.
    pub is_receiver: bool,
    pub likely_s: f64,
    /// In calls of which all messages are known.
    pub least_s: f64,
    /// The most that it may have caused in the others.
    pub more_s: f64,
}

/// Calls of a class by all ranks whose time is known for all of their messages, or by the others.
pub struct Group {
    class: Class,
    is_covered: bool,
    pub waits: Bounded,
    /// The time in them, in seconds.
    time_s: f64,
}

impl Group {
    fn total_s(&self) -> Option<f64> {
        self.is_covered.then_some(self.time_s)
    }

    fn known(&self) -> Option<KnownTime<'_>> {
        self.total_s().map(|total| KnownTime { times: &self.waits.times, total })
    }
}

/// Bounds of the waiting that a rank can have caused, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// All that those suffered who have no other peer: the ends of the interval.
    alone_s: [f64; 2],
    /// All that its peers suffered, at most.
    most_s: f64,
}

/// Sums over the completing calls of a communicator.
pub struct Sums {
    pub ranks: BTreeMap<u32, OfRank>,
    pub groups: Vec<Group>,
    pub causes: Vec<Cause>,
    /// By rank, those at the other ends of its messages: for nobody else can it have waited.
    pub peers: BTreeMap<u32, BTreeSet<u32>>,
    units: usize,
}

impl Sums {
    pub fn new(units: usize) -> Self {
        Sums { ranks: BTreeMap::new(), groups: Vec::new(), causes: Vec::new(), peers: BTreeMap::new(), units }
    }

    /// The index of the group.
    pub fn group(&mut self, class: Class, is_covered: bool) -> usize {
        let known =
            self.groups.iter().position(|group| (group.class, group.is_covered) == (class, is_covered));
        known.unwrap_or_else(|| {
            let waits = Bounded::new(self.units);
            self.groups.push(Group { class, is_covered, waits, time_s: 0.0 });
            self.groups.len() - 1
        })
    }

    pub fn add_to_group(&mut self, group: usize, waits: &Bounded, time_s: f64) {
        self.groups[group].waits.add(waits);
        self.groups[group].time_s += time_s;
    }

    pub fn add_cause(&mut self, cause: Cause) {
        if cause.likely_s > 0.0 || cause.more_s > 0.0 {
            self.causes.push(cause);
        }
    }

    /// The time in calls of a class, and its waiting; none without a call.
    pub fn of_class(&self, design: &Design, class: Class) -> Option<(f64, Estimate)> {
        let groups = self.groups.iter().filter(|group| group.class == class && group.time_s > 0.0);
        let each = groups.map(|group| (group.time_s, group.waits.total(design, group.total_s())));
        each.reduce(|(time_s, one), (more_s, other)| (time_s + more_s, one.plus(other)))
    }

    /// The waiting of all ranks; none without a call.
    pub fn waiting(&self, design: &Design) -> Option<Estimate> {
        let groups = self.groups.iter().filter(|group| group.time_s > 0.0);
        let each = groups.map(|group| group.waits.total(design, group.total_s()));
        let together = each.reduce(Estimate::plus)?;
        let suffered_s: f64 = self.ranks.values().map(|rank| rank.suffered.total).sum();
        Some(Estimate {
            total: suffered_s,
            low: together.low.min(suffered_s),
            high: together.high.max(suffered_s),
            error: together.error,
        })
    }

    /// Who waited for whom, in seconds: what a rank suffered, split as the sample has it. Where
    /// that has no wait of the rank, its peers have equal parts.
    pub fn pairs(&self, design: &Design) -> Vec<(u32, u32, f64)> {
        let mut sampled_s: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        let mut wholes_s: BTreeMap<u32, f64> = BTreeMap::new();
        for cause in &self.causes {
            let weighted_s = cause.likely_s * design.weight(cause.unit);
            *sampled_s.entry((cause.waiting, cause.rank)).or_default() += weighted_s;
            *wholes_s.entry(cause.waiting).or_default() += weighted_s;
        }
        let mut pairs = Vec::new();
        for (&waiting, of_rank) in &self.ranks {
            let suffered_s = of_rank.suffered.total;
            let whole_s = wholes_s.get(&waiting).copied().unwrap_or(0.0);
            if whole_s > 0.0 {
                let its = sampled_s.range((waiting, 0)..=(waiting, u32::MAX));
                pairs
                    .extend(its.map(|(&(_, cause), part_s)| (waiting, cause, suffered_s * part_s / whole_s)));
            } else if let Some(peers) = self.peers.get(&waiting) {
                let part_s = suffered_s / peers.len() as f64;
                pairs.extend(peers.iter().map(|&peer| (waiting, peer, part_s)));
            }
        }
        pairs.retain(|&(.., part_s)| part_s > 0.0);
        pairs
    }

    /// Adds to ranks what they caused, which sums to the waiting.
    pub fn add_causes(&mut self, design: &Design, waiting: Estimate) {
        self.causes.sort_unstable_by_key(|cause| (cause.rank, cause.group, cause.unit));
        for cause in &self.causes {
            let of_rank = self.ranks.entry(cause.rank).or_default();
            let weighted_s = cause.likely_s * design.weight(cause.unit);
            of_rank.caused_by_direction_s[usize::from(cause.is_receiver)] += weighted_s;
        }
        let mut buffer = [0, 1, 2].map(|_| vec![0.0; self.units]);
        for of_rank in self.causes.chunk_by(|one, other| one.rank == other.rank) {
            let of_groups = of_rank.chunk_by(|one, other| one.group == other.group);
            let groups = of_groups.map(|of_group| self.caused_in_group(design, of_group, &mut buffer));
            let caused = groups.fold(Estimate::default(), Estimate::plus);
            self.ranks.entry(of_rank[0].rank).or_default().caused = caused;
        }
        // A rank that is seldom late may not be so in the sample: its error is at least that of
        // others.
        let count = self.ranks.len().max(1) as f64;
        let squares: f64 = self.ranks.values().map(|rank| rank.caused.error.powi(2)).sum();
        let error = (squares / count).sqrt();
        let mut totals: BTreeMap<u32, f64> = BTreeMap::new();
        for (_, cause, part_s) in self.pairs(design) {
            *totals.entry(cause).or_default() += part_s;
        }
        let bounds: Vec<Bounds> = self.ranks.keys().map(|&rank| self.bounds(rank)).collect();
        // Of rare long waits the sample need not have those for each rank.
        let is_rare = self.groups.iter().any(|group| estimate::is_rare(&group.waits.likely));
        for ((rank, of_rank), bounds) in self.ranks.iter_mut().zip(bounds) {
            let one = of_rank.caused;
            let total = totals.get(rank).copied().unwrap_or(0.0);
            let [least_s, most_s] = match is_rare && !design.is_exact() {
                true => [0.0, bounds.most_s],
                false => [one.low, 0.0],
            };
            of_rank.caused = Estimate {
                total,
                low: least_s.max(bounds.alone_s[0]).min(total),
                high: one
                    .high
                    .max(one.total + SKEWED * error)
                    .max(bounds.alone_s[1])
                    .max(most_s)
                    .min(bounds.most_s)
                    .max(total),
                error: one.error.max(error),
            }
            .clamped(0.0, waiting.high.max(total));
        }
    }

    fn bounds(&self, rank: u32) -> Bounds {
        let mut bounds = Bounds::default();
        for (waiting, peers) in self.peers.iter().filter(|(_, peers)| peers.contains(&rank)) {
            let suffered = self.ranks.get(waiting).map(|of_rank| of_rank.suffered).unwrap_or_default();
            bounds.most_s += suffered.high;
            if peers.len() == 1 {
                bounds.alone_s[0] += suffered.low;
                bounds.alone_s[1] += suffered.high;
            }
        }
        bounds
    }

    fn caused_in_group(&self, design: &Design, causes: &[Cause], buffer: &mut [Vec<f64>; 3]) -> Estimate {
        buffer.iter_mut().for_each(|values| values.fill(0.0));
        let [likely, least, more] = buffer;
        for cause in causes {
            likely[cause.unit] += cause.likely_s;
            least[cause.unit] += cause.least_s;
            more[cause.unit] += cause.more_s;
        }
        let known = self.groups[causes[0].group].known();
        let found = design.total(likely, known);
        if more.iter().all(|more_s| *more_s == 0.0) {
            return found;
        }
        let (least, more) = (design.total(least, known), design.total(more, None));
        Estimate { low: least.low.min(found.total), high: (least.high + more.high).max(found.total), ..found }
    }

    /// The ranks with their waits, if these are known.
    pub fn members(&self, clocks: &Clocks, are_known: bool) -> Vec<Member> {
        let member = |(&rank, of_rank): (&u32, &OfRank)| {
            let OfRank { suffered, caused, .. } = *of_rank;
            let split = |whole_s: f64, [one_s, other_s]: [f64; 2]| match one_s + other_s > 0.0 {
                true => [one_s, other_s].map(|part_s| whole_s * part_s / (one_s + other_s)),
                false => [whole_s, 0.0],
            };
            Some(Member {
                rank,
                host: clocks.host(rank)?,
                time_s: if are_known { of_rank.time_s } else { 0.0 },
                caused: are_known.then_some(caused),
                suffered: are_known.then_some(suffered),
                directions: are_known.then(|| Directions {
                    suffered_s: split(suffered.total, of_rank.suffered_by_direction_s),
                    caused_s: split(caused.total, of_rank.caused_by_direction_s),
                }),
            })
        };
        self.ranks.iter().filter_map(member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::messages::estimate::Stratum;

    fn design() -> Design {
        Design { strata: vec![Stratum { first: 0, units: 40, population: 4000.0, missing: 0.99 }] }
    }

    /// Ranks with what they suffered, and their peers.
    fn sums(suffered_s: &[f64], peers: &[&[u32]]) -> Sums {
        let mut sums = Sums::new(40);
        for ((rank, &total), peers) in (0..).zip(suffered_s).zip(peers) {
            let suffered = Estimate { total, low: total / 2.0, high: total * 1.5, error: 0.01 };
            sums.ranks.insert(rank, OfRank { suffered, ..OfRank::default() });
            sums.peers.insert(rank, peers.iter().copied().collect());
        }
        sums
    }

    fn cause(rank: u32, waiting: u32, likely_s: f64) -> Cause {
        let (group, unit, is_receiver) = (0, 7, false);
        Cause { rank, waiting, group, unit, is_receiver, likely_s, least_s: likely_s, more_s: 0.0 }
    }

    #[test]
    fn nobody_causes_its_own_wait() {
        let mut sums = sums(&[0.002, 1.5], &[&[1], &[0]]);
        sums.add_causes(&design(), Estimate::exact(1.502));
        let [one, other] = [0, 1].map(|rank| sums.ranks[&rank].caused);
        assert_eq!((one.total, one.low, one.high), (1.5, 0.75, 1.502));
        assert_eq!((other.total, other.low, other.high), (0.002, 0.001, 0.003));
        assert_eq!(sums.pairs(&design()), [(0, 1, 0.002), (1, 0, 1.5)]);
    }

    #[test]
    fn waits_are_split_as_the_sample_has_them() {
        let mut sums = sums(&[0.8, 0.6, 0.0], &[&[1, 2], &[0, 2], &[0, 1]]);
        let group = sums.group(Class::Wait, false);
        assert_eq!(group, 0);
        sums.add_cause(cause(1, 0, 0.003));
        sums.add_cause(cause(2, 0, 0.001));
        let pairs = sums.pairs(&design());
        let expected = [(0, 1, 0.6), (0, 2, 0.2), (1, 0, 0.3), (1, 2, 0.3)];
        assert_eq!(pairs.len(), expected.len());
        for (found, expected) in pairs.iter().zip(expected) {
            assert_eq!((found.0, found.1), (expected.0, expected.1));
            assert!((found.2 - expected.2).abs() < 1e-12, "{pairs:?}");
        }
        sums.add_causes(&design(), Estimate::exact(1.4));
        let sum_s: f64 = sums.ranks.values().map(|of_rank| of_rank.caused.total).sum();
        assert!((sum_s - 1.4).abs() < 1e-12);
    }
}
