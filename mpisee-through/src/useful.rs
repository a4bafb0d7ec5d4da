//! The time of ranks outside of MPI, and what of it they were on a core.
//!
//! The kernel counts the time that threads were ready to run and had no core, and not whether they
//! were in MPI. What of it was outside of MPI lies between two ends; the value between is that of
//! cores that lacked as often outside of MPI as in it.

use crate::core_share::{share, share_of_node};
use mpisee_profile::rows::{NodeRow, RankRow, RegionRow, RegionTotalRow, Seconds, threads};

/// A time in seconds, between two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Between {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Between {
    pub fn exact(value: f64) -> Self {
        Between { value, low: value, high: value }
    }

    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Between { value: change(self.value), low: change(self.low), high: change(self.high) }
    }

    fn with(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Between {
            value: join(self.value, other.value),
            low: join(self.low, other.low),
            high: join(self.high, other.high),
        }
    }
}

/// The time of one thread of a rank, in a run or in a region: the mean over those that call MPI.
#[derive(Clone, Copy, Debug)]
struct OneThread {
    wall_s: f64,
    mpi_s: f64,
}

impl OneThread {
    fn outside_s(self) -> f64 {
        // Beyond the wall time is what rounding adds.
        (self.wall_s - self.mpi_s).max(0.0)
    }

    /// The time outside of MPI on a core, where the thread had none for a time that is known or
    /// between two ends.
    fn on_core(self, without_core: Between) -> Between {
        let outside_s = self.outside_s();
        let part = if self.wall_s > 0.0 { outside_s / self.wall_s } else { 0.0 };
        let Between { value, low, high } = without_core;
        Between {
            value: outside_s - value * part,
            low: outside_s - high.min(outside_s),
            high: outside_s - (low - self.mpi_s).max(0.0).min(outside_s),
        }
    }
}

/// The useful time of a rank, as the mean of its threads that call MPI.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OfRank {
    threads: f64,
    low_s: f64,
    high_s: f64,
}

/// The time outside of MPI of some ranks, in the run or in a region.
#[derive(Clone, Debug, PartialEq)]
pub struct Useful {
    /// The threads that call MPI, over all ranks.
    pub threads: f64,
    /// The most of a rank.
    pub most_threads: u64,
    /// Over the threads that call MPI, the wall time, and what of it was outside of MPI.
    pub thread_s: f64,
    pub outside_s: f64,
    /// The most of a rank, as the mean of its threads.
    pub outside_max_s: f64,
    /// The same on a core: the sum, and the most of a rank. `None` where it was not measured.
    pub on_core: Option<[Between; 2]>,
    /// Each rank; `None` where there are sums over ranks.
    each: Option<Vec<OfRank>>,
    /// True if threads were in MPI at once and it is unknown how many, so that nothing of this is
    /// known.
    pub is_unknown: bool,
}

impl Default for Useful {
    /// Of no rank.
    fn default() -> Self {
        Useful {
            threads: 0.0,
            most_threads: 0,
            thread_s: 0.0,
            outside_s: 0.0,
            outside_max_s: 0.0,
            on_core: Some([Between::default(); 2]),
            each: Some(Vec::new()),
            is_unknown: false,
        }
    }
}

impl Useful {
    /// That of a rank.
    pub fn of_rank(row: &RankRow) -> Self {
        let without_core = share(row).map(|share| Between::exact(share * row.wall_s.0));
        Useful::per_thread(row.threads(), row.wall_s.0, row.mpi_s.0, without_core)
    }

    /// That of a rank in a region.
    pub fn of_region(row: &RegionRow, rank: &RankRow) -> Self {
        let without_core = share(rank).map(|share| without_core(row, rank, share));
        Useful::per_thread(row.threads(rank), row.wall_s.0, row.mpi_s.0, without_core)
    }

    fn per_thread(count: f64, wall_s: f64, mpi_s: f64, without_core: Option<Between>) -> Self {
        let one = OneThread { wall_s, mpi_s: mpi_s / count };
        let on_core = without_core.map(|without_core| one.on_core(without_core));
        let Between { low, high, .. } = on_core.unwrap_or(Between::exact(one.outside_s()));
        Useful {
            each: Some(vec![OfRank { threads: count, low_s: low, high_s: high }]),
            threads: count,
            most_threads: count.ceil() as u64,
            thread_s: count * wall_s,
            outside_s: count * one.outside_s(),
            outside_max_s: one.outside_s(),
            on_core: on_core.map(|on_core| [on_core.map(|time_s| count * time_s), on_core]),
            is_unknown: is_beyond(one.mpi_s, wall_s),
        }
    }

    /// That of the ranks of a node.
    pub fn of_node(row: &NodeRow) -> Self {
        let mean_wall_s = Seconds(row.wall_s.0 / row.ranks.max(1) as f64);
        let threads = threads(row.mpi_threads, row.mpi_thread_s, mean_wall_s);
        let threads = threads.unwrap_or_else(|| row.ranks.max(1) as f64);
        let lost = share_of_node(row);
        let without_core = |wall_s: f64| lost.map(|share| Between::exact(share * wall_s));
        let times = [row.wall_s, row.mpi_s, row.useful_s, row.useful_max_s].map(|time_s| time_s.0);
        Useful::of_sums(row.ranks, threads, times, without_core)
    }

    /// That of ranks in a region, of which there are sums alone; `run` is that of the run, of
    /// `ranks` ranks.
    pub fn of_region_total(row: &RegionTotalRow, run: &Useful, ranks: u64) -> Self {
        // Without their number, as many as in the run.
        let ranks_here = row.ranks.max(1) as f64;
        let mean_wall_s = Seconds(row.wall_s.0 / ranks_here);
        let threads = threads(row.mpi_threads, row.mpi_thread_s, mean_wall_s);
        let threads = threads
            .map_or_else(|| run.threads * ranks_here / ranks.max(1) as f64, |count| count.max(ranks_here));
        // The share of the run is assumed. Sums do not bound that of a region: the ends are none of
        // its wall time, and all.
        let lost =
            run.on_core.filter(|_| run.outside_s > 0.0).map(|[sum, _]| 1.0 - sum.value / run.outside_s);
        let without_core =
            |wall_s: f64| lost.map(|share| Between { value: share * wall_s, low: 0.0, high: wall_s });
        let times = [row.wall_s, row.mpi_s, row.useful_s, row.useful_max_s].map(|time_s| time_s.0);
        let sums = Useful::of_sums(row.ranks, threads, times, without_core);
        Useful { is_unknown: sums.is_unknown || run.is_unknown, ..sums }
    }

    /// Of ranks of which the sums of the wall time, the time in MPI and the time outside of it are
    /// known, and the most of the last.
    fn of_sums(
        ranks: u64,
        threads: f64,
        [wall_s, mpi_s, outside_s, outside_max_s]: [f64; 4],
        without_core: impl Fn(f64) -> Option<Between>,
    ) -> Self {
        let ranks = ranks.max(1) as f64;
        let one = OneThread { wall_s: wall_s / ranks, mpi_s: mpi_s / threads };
        let on_core = without_core(one.wall_s).map(|without_core| {
            let part = match one.outside_s() {
                0.0 => Between::default(),
                whole_s => one.on_core(without_core).map(|on_core_s| on_core_s / whole_s),
            };
            let sum = part.map(|part| part * outside_s);
            // The rank with most may have lacked a core more or less than the others. It has the
            // mean at least.
            let most =
                Between { value: part.value * outside_max_s, low: sum.low / threads, high: outside_max_s };
            [sum, most]
        });
        Useful {
            threads,
            most_threads: (threads / ranks).ceil() as u64,
            thread_s: outside_s + mpi_s,
            outside_s,
            outside_max_s,
            on_core,
            each: None,
            is_unknown: threads <= ranks && is_beyond(outside_s + mpi_s, wall_s),
        }
    }

    /// Adds that of other ranks.
    pub fn add(&mut self, other: Useful) {
        self.threads += other.threads;
        self.most_threads = self.most_threads.max(other.most_threads);
        self.thread_s += other.thread_s;
        self.outside_s += other.outside_s;
        self.outside_max_s = self.outside_max_s.max(other.outside_max_s);
        self.on_core = self.on_core.zip(other.on_core).map(|([sum, most], [more, other])| {
            [sum.with(more, |sum, more| sum + more), most.with(other, f64::max)]
        });
        self.each = self.each.take().zip(other.each).map(|(mut each, more)| {
            each.extend(more);
            each
        });
        self.is_unknown |= other.is_unknown;
    }

    /// The lowest and the highest load balance, mean useful time by the largest, that the useful
    /// times of ranks allow; `None` where these are unknown, or nothing.
    pub fn balance_ends(&self) -> Option<[f64; 2]> {
        balance_ends(self.each.as_ref()?)
    }

    /// The sum of the useful time and the most of a rank: on a core as far as that was measured.
    pub fn on_core_or_outside(&self) -> [Between; 2] {
        self.on_core.unwrap_or([self.outside_s, self.outside_max_s].map(Between::exact))
    }
}

/// The ends of the load balance of ranks with these useful times.
fn balance_ends(each: &[OfRank]) -> Option<[f64; 2]> {
    let threads: f64 = each.iter().map(|rank| rank.threads).sum();
    let least_s: f64 = each.iter().map(|rank| rank.threads * rank.low_s).sum();
    let most_low_s = each.iter().map(|rank| rank.low_s).fold(0.0, f64::max);
    // The largest time M is the most of the low ends or more, and the others are M at most: the
    // balance is at most the mean of min(high / M, 1), of which no term grows with M. So M is the
    // most of the low ends, which that rank can have.
    let capped = each.iter().map(|rank| rank.threads * rank.high_s.min(most_low_s));
    let high = ratio(capped.sum::<f64>(), threads * most_low_s);
    // With M on one rank and the others at their low ends the balance falls as M grows: the rank is
    // at its high end.
    let lows = each
        .iter()
        .filter(|rank| rank.high_s >= most_low_s)
        .filter_map(|rank| ratio(least_s + rank.threads * (rank.high_s - rank.low_s), threads * rank.high_s));
    let low = lows.reduce(f64::min)?;
    Some([low, high.unwrap_or(1.0)])
}

fn ratio(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all)
}

/// Returns whether a time in MPI is longer than the wall time, beyond what rounding explains: only
/// calls of several threads can be.
fn is_beyond(mpi_s: f64, wall_s: f64) -> bool {
    mpi_s > wall_s * (1.0 + 1e-6)
}

/// The time in a region that a rank had no core, which it had not in `share` of its time. Of one
/// thread it is known when it was on none: it lacked one then, or slept, which it did no longer
/// than in the run.
fn without_core(row: &RegionRow, rank: &RankRow, share: f64) -> Between {
    let wall_s = row.wall_s.0;
    let most_s = (share * rank.wall_s.0).min(wall_s);
    let (run_s, cpu_s) = (rank.wall_s.0, rank.cpu_s().unwrap_or(0.0));
    let slept_s = run_s - cpu_s - share * run_s;
    let ends = match row.cpu_s {
        // Other threads were on a core, too, where the sum is above the wall time.
        Some(on_core) if slept_s >= 0.0 && rank.threads() == 1.0 && on_core.0 <= wall_s * (1.0 + 1e-6) => {
            let off_s = (wall_s - on_core.0).max(0.0);
            let most_s = most_s.min(off_s);
            [(off_s - slept_s).clamp(0.0, most_s), most_s]
        }
        _ => [0.0, most_s],
    };
    Between { value: (share * wall_s).clamp(ends[0], ends[1]), low: ends[0], high: ends[1] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least and the largest balance of all integer times between the ends.
    fn by_trial(each: &[(u32, u32, u32)]) -> Option<[f64; 2]> {
        let mut all: Vec<Vec<u32>> = vec![Vec::new()];
        for &(_, low, high) in each {
            all = all
                .iter()
                .flat_map(|known| (low..=high).map(|time| [&known[..], &[time]].concat()))
                .collect();
        }
        let threads: u32 = each.iter().map(|(threads, ..)| threads).sum();
        let balances = all.iter().filter_map(|times| {
            let sum: u32 = times.iter().zip(each).map(|(time, (threads, ..))| time * threads).sum();
            ratio(f64::from(sum), f64::from(threads * times.iter().max()?))
        });
        let balances: Vec<f64> = balances.collect();
        let least = balances.iter().copied().reduce(f64::min)?;
        Some([least, balances.iter().copied().fold(0.0, f64::max)])
    }

    proptest! {
        #[test]
        fn the_ends_of_the_balance_are_those_of_all_times(
            each in proptest::collection::vec((1u32..4, 0u32..7, 0u32..4), 1..5),
        ) {
            let each: Vec<(u32, u32, u32)> =
                each.into_iter().map(|(threads, low, more)| (threads, low, low + more)).collect();
            // Where nobody need have worked, times near nothing are as even as any.
            prop_assume!(each.iter().any(|&(_, low, _)| low > 0));
            let ranks: Vec<OfRank> = each
                .iter()
                .map(|&(threads, low, high)| OfRank {
                    threads: threads.into(),
                    low_s: low.into(),
                    high_s: high.into(),
                })
                .collect();
            let (found, expected) = (balance_ends(&ranks).unwrap(), by_trial(&each).unwrap());
            for (found, expected) in found.into_iter().zip(expected) {
                prop_assert!((found - expected).abs() < 1e-12, "{} {} {:?}", found, expected, each);
            }
        }
    }
}
