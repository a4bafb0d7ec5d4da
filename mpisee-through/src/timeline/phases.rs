//! The phases of a program: stretches of time in which it does much the same.
//!
//! The bins are divided where that explains most of how they differ: the sum of squared distances
//! from the mean of each phase, plus a price for each phase, is least (optimal partitioning, B.
//! Jackson et al., 2005). The price follows from how much neighbouring bins differ by themselves.

use super::bins::{Bins, CallSeries};
use mpisee_profile::operation::is_nccl;

/// A stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub begin_s: f64,
    pub end_s: f64,
    /// The part of the ranks' time that is in MPI, from 0 to 1.
    pub mpi_share: f64,
    pub bytes_per_s: f64,
    /// The operation of MPI or NCCL to which most of the time goes; "outside of MPI" if little time
    /// is in it, and "not recorded" if most of the time recording was off.
    pub name: String,
}

/// Operations that are told apart; the others are one.
const MOST_PARTS: usize = 16;
/// Bins of a phase at least, where there are enough: at a border two may be of both phases in part.
const LEAST_BINS: usize = 3;
/// Shares of time that differ by less are alike, whatever the noise.
const ALIKE: f64 = 0.04;
/// Rates that differ by less than that part are alike.
const ALIKE_BYTES: f64 = 0.1;
/// The share of time in calls below which a phase is outside of MPI, and that of recorded time
/// below which it is not recorded.
const OUTSIDE: f64 = 0.05;

/// The phases, in their order.
pub fn phases(bins: &Bins) -> Vec<Phase> {
    let points = points(bins);
    let ends = divided(&points);
    let mut begin = 0;
    let mut ranges = Vec::new();
    for end in ends {
        ranges.push(begin..end);
        begin = end;
    }
    let begins: Vec<f64> = (0..ranges.len())
        .map(|at| match at {
            0 => 0.0,
            _ => (bins.length_s * border(&points, &ranges[at - 1], &ranges[at])).min(bins.end_s),
        })
        .collect();
    let ends = begins.iter().skip(1).copied().chain([bins.begin_s(bins.count)]);
    let all = ranges.iter().zip(begins.iter().copied().zip(ends));
    let mut phases: Vec<Phase> = Vec::new();
    for next in all.map(|(range, (begin_s, end_s))| phase(bins, range.clone(), begin_s, end_s)) {
        match phases.last_mut() {
            Some(last) if last.is_like(&next) => last.join(&next),
            _ => phases.push(next),
        }
    }
    phases
}

impl Phase {
    /// Returns whether a reader would see no difference.
    fn is_like(&self, next: &Phase) -> bool {
        let most = self.bytes_per_s.max(next.bytes_per_s);
        self.name == next.name
            && (self.mpi_share - next.mpi_share).abs() < ALIKE
            && (self.bytes_per_s - next.bytes_per_s).abs() <= ALIKE_BYTES * most
    }

    /// Goes on to the end of the next one.
    fn join(&mut self, next: &Phase) {
        let [own_s, more_s] = [self.end_s - self.begin_s, next.end_s - next.begin_s];
        let mean = |own: f64, more: f64| (own_s * own + more_s * more) / (own_s + more_s).max(1e-9);
        self.mpi_share = mean(self.mpi_share, next.mpi_share);
        self.bytes_per_s = mean(self.bytes_per_s, next.bytes_per_s);
        self.end_s = next.end_s;
    }
}

fn phase(bins: &Bins, range: std::ops::Range<usize>, begin_s: f64, end_s: f64) -> Phase {
    // Bins beside another phase may be of both in part.
    let first = range.start + usize::from(range.start > 0 && range.len() > 2);
    let last = range.end - usize::from(range.end < bins.count && range.end > first + 1 && range.len() > 2);
    let inner = first..last;
    let length_s = bins.begin_s(last) - bins.begin_s(first);
    let sum = |values: &[f64]| values[inner.clone()].iter().sum::<f64>();
    let times: Vec<f64> = bins.calls.iter().map(|series| sum(&series.time_s)).collect();
    // Without operations the sum is -0.
    let calls_s = times.iter().sum::<f64>().abs();
    let of_mpi = bins.calls.iter().zip(&times).filter(|(series, _)| !is_nccl(&series.call));
    let mpi_s = of_mpi.map(|(_, time_s)| time_s).sum::<f64>().abs();
    let bytes: f64 = bins.calls.iter().map(|series| sum(&series.bytes)).sum();
    let rank_s = sum(&bins.rank_s);
    let share = |time_s: f64| if rank_s > 0.0 { (time_s / rank_s).min(1.0) } else { 0.0 };
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&one, &other| times[other].total_cmp(&times[one]));
    let unrecorded_s = sum(&bins.unrecorded_s);
    let name = match order[..] {
        _ if unrecorded_s > (1.0 - OUTSIDE) * (rank_s + unrecorded_s) => "not recorded".to_owned(),
        _ if share(calls_s) < OUTSIDE => "outside of MPI".to_owned(),
        [first, second, ..] if times[first] < 0.5 * calls_s && times[second] > 0.0 => {
            format!("{}, {}", name_of(&bins.calls[first]), name_of(&bins.calls[second]))
        }
        [first, ..] => name_of(&bins.calls[first]),
        [] => "outside of MPI".to_owned(),
    };
    Phase { begin_s, end_s, mpi_share: share(mpi_s), bytes_per_s: bytes / length_s.max(1e-9), name }
}

/// An operation on a family of communicators, in words.
pub fn name_of(series: &CallSeries) -> String {
    format!("{} on {}", series.call, series.family)
}

/// By bin, the shares of the ranks' time in the operations that take most of it, of the others, and
/// how much data they move beside the most.
fn points(bins: &Bins) -> Vec<Vec<f64>> {
    let parts = bins.calls.len().min(MOST_PARTS);
    let bytes: Vec<f64> =
        (0..bins.count).map(|bin| bins.calls.iter().map(|series| series.bytes[bin]).sum()).collect();
    let bytes = bins.rates(&bytes);
    let most = bytes.iter().copied().fold(0.0, f64::max).max(1.0);
    let point = |bin: usize| {
        let share = |series: &CallSeries| bins.share(bin, series.time_s[bin]);
        let mut point: Vec<f64> = bins.calls[..parts].iter().map(share).collect();
        point.push(bins.calls[parts..].iter().map(share).sum());
        point.push(bins.unrecorded_share(bin));
        // Less weight than time, since rates of short messages vary more.
        point.push(0.5 * bytes[bin] / most);
        point
    };
    (0..bins.count).map(point).collect()
}

/// Where phases end, in bins; the last is the number of bins.
fn divided(points: &[Vec<f64>]) -> Vec<usize> {
    let count = points.len();
    let price = price(points);
    let least = if count >= 2 * LEAST_BINS { LEAST_BINS } else { count };
    let sums = Sums::from_points(points);
    let mut best = vec![f64::INFINITY; count + 1];
    let mut from = vec![0; count + 1];
    best[0] = -price;
    for end in least..=count {
        for begin in 0..=end - least {
            let cost = best[begin] + sums.distance(begin, end) + price;
            // Of equals the longer phase.
            if cost < best[end] - 1e-12 {
                best[end] = cost;
                from[end] = begin;
            }
        }
    }
    let mut ends = vec![count];
    while let Some(&end) = ends.last().filter(|&&end| from[end] > 0) {
        ends.push(from[end]);
    }
    ends.reverse();
    ends
}

/// The price of a phase: so much that noise alone makes none.
fn price(points: &[Vec<f64>]) -> f64 {
    let distance = |pair: &[Vec<f64>]| -> f64 {
        pair[0].iter().zip(&pair[1]).map(|(one, other)| (one - other).powi(2)).sum()
    };
    let mut steps: Vec<f64> = points.windows(2).map(distance).collect();
    steps.sort_by(f64::total_cmp);
    // Half of the steps are within a phase, whatever there is; each has the noise of two bins.
    let noise = steps.get(steps.len() / 2).copied().unwrap_or(0.0) / 2.0;
    4.0 * noise.max(ALIKE * ALIKE) * (points.len() as f64 + 2.0).ln()
}

/// Running sums of points and of their squares.
struct Sums {
    points: Vec<Vec<f64>>,
    squares: Vec<f64>,
}

impl Sums {
    fn from_points(points: &[Vec<f64>]) -> Sums {
        let width = points.first().map_or(0, Vec::len);
        let mut sums = Sums { points: vec![vec![0.0; width]], squares: vec![0.0] };
        for (at, point) in points.iter().enumerate() {
            let next = sums.points[at].iter().zip(point).map(|(sum, value)| sum + value).collect();
            sums.points.push(next);
            sums.squares.push(sums.squares[at] + point.iter().map(|value| value * value).sum::<f64>());
        }
        sums
    }

    /// The sum of the squared distances from the mean.
    fn distance(&self, begin: usize, end: usize) -> f64 {
        let count = (end - begin) as f64;
        let parts = self.points[begin].iter().zip(&self.points[end]);
        let mean: f64 = parts.map(|(from, to)| (to - from).powi(2)).sum::<f64>() / count;
        (self.squares[end] - self.squares[begin] - mean).max(0.0)
    }
}

/// Where one phase ends and the next begins, in bins: the two bins beside the border may be of both
/// in part.
fn border(points: &[Vec<f64>], one: &std::ops::Range<usize>, other: &std::ops::Range<usize>) -> f64 {
    let mean = |range: std::ops::Range<usize>| -> Vec<f64> {
        let count = range.len() as f64;
        let width = points.first().map_or(0, Vec::len);
        (0..width)
            .map(|part| points[range.clone()].iter().map(|point| point[part]).sum::<f64>() / count)
            .collect()
    };
    if one.len() < 2 || other.len() < 2 {
        return other.start as f64;
    }
    let before = mean(if one.len() > 2 { one.start + 1..one.end - 1 } else { one.start..one.end - 1 });
    let after =
        mean(if other.len() > 2 { other.start + 1..other.end - 1 } else { other.start + 1..other.end });
    let apart: f64 = before.iter().zip(&after).map(|(one, other)| (one - other).powi(2)).sum();
    if apart <= 0.0 {
        return other.start as f64;
    }
    let part_before = |point: &[f64]| -> f64 {
        let along: f64 = point
            .iter()
            .zip(before.iter().zip(&after))
            .map(|(value, (one, other))| (value - other) * (one - other))
            .sum();
        (along / apart).clamp(0.0, 1.0)
    };
    (other.start - 1) as f64 + part_before(&points[other.start - 1]) + part_before(&points[other.start])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bins of a second on one rank, with the time in each of some operations.
    fn bins(times: &[&[f64]]) -> Bins {
        let series = |(number, times): (usize, &&[f64])| CallSeries {
            family: format!("W_d{number}"),
            call: "MPI_Bcast".to_owned(),
            calls: vec![0.0; times.len()],
            bytes: times.iter().map(|time| 1000.0 * time).collect(),
            time_s: times.to_vec(),
        };
        Bins {
            length_s: 1.0,
            count: times[0].len(),
            end_s: times[0].len() as f64,
            counted: vec![1.0; times[0].len()],
            calls: times.iter().enumerate().map(series).collect(),
            nodes: Vec::new(),
            ranks: 1,
            rank_s: vec![1.0; times[0].len()],
            unrecorded_s: vec![0.0; times[0].len()],
        }
    }

    fn found(times: &[&[f64]]) -> Vec<(f64, f64, String)> {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        let brief = |phase: Phase| (rounded(phase.begin_s), rounded(phase.end_s), phase.name);
        phases(&bins(times)).into_iter().map(brief).collect()
    }

    fn expected(phases: &[(f64, f64, &str)]) -> Vec<(f64, f64, String)> {
        phases.iter().map(|&(begin, end, name)| (begin, end, name.to_owned())).collect()
    }

    #[test]
    fn borders_within_a_bin_are_found() {
        let one = [0.9, 0.9, 0.9, 0.27, 0.0, 0.0, 0.0, 0.0, 0.0];
        let other = [0.0, 0.0, 0.0, 0.63, 0.9, 0.9, 0.0, 0.0, 0.0];
        let phases =
            [(0.0, 3.3, "MPI_Bcast on W_d0"), (3.3, 6.0, "MPI_Bcast on W_d1"), (6.0, 9.0, "outside of MPI")];
        assert_eq!(found(&[&one, &other]), expected(&phases));
    }

    #[test]
    fn time_without_recording_is_a_phase_of_its_own() {
        let mut bins = bins(&[&[0.8, 0.8, 0.8, 0.8, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]);
        bins.unrecorded_s[4] = 0.5;
        bins.unrecorded_s[5..9].fill(1.0);
        bins.rank_s = bins.unrecorded_s.iter().map(|unrecorded_s| 1.0 - unrecorded_s).collect();
        let found: Vec<(f64, String)> =
            phases(&bins).into_iter().map(|phase| (phase.end_s.round(), phase.name)).collect();
        let expected = [(5.0, "MPI_Bcast on W_d0"), (9.0, "not recorded"), (13.0, "outside of MPI")];
        assert_eq!(found, expected.map(|(end_s, name)| (end_s, name.to_owned())));
        assert_eq!(bins.share(4, 0.4), 0.8);
    }

    #[test]
    fn noise_is_one_phase() {
        let mut seed = 1u64;
        let noise: Vec<f64> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                0.2 + 0.6 * (seed >> 40) as f64 / (1u64 << 24) as f64
            })
            .collect();
        assert_eq!(found(&[&noise]), expected(&[(0.0, 200.0, "MPI_Bcast on W_d0")]));
        assert_eq!(found(&[&[0.5]]), expected(&[(0.0, 1.0, "MPI_Bcast on W_d0")]));
    }

    #[test]
    fn phases_that_come_again_are_each_found_and_mixed_ones_name_two() {
        let half: Vec<f64> = (0..40).map(|bin| if bin / 10 % 2 == 0 { 0.4 } else { 0.0 }).collect();
        let more: Vec<f64> = half.iter().map(|time| time * 0.9).collect();
        let least: Vec<f64> = half.iter().map(|time| time * 0.3).collect();
        let mixed = "MPI_Bcast on W_d0, MPI_Bcast on W_d1";
        let phases = [
            (0.0, 10.0, mixed),
            (10.0, 20.0, "outside of MPI"),
            (20.0, 30.0, mixed),
            (30.0, 40.0, "outside of MPI"),
        ];
        assert_eq!(found(&[&half, &more, &least]), expected(&phases));
    }

    #[test]
    fn the_same_calls_with_other_sizes_are_another_phase() {
        let mut bins = bins(&[&[0.5; 20]]);
        bins.calls[0].bytes = (0..20).map(|bin| if bin < 8 { 1e9 } else { 1e6 }).collect();
        let begins: Vec<f64> = phases(&bins).iter().map(|phase| phase.begin_s).collect();
        assert_eq!(begins, [0.0, 8.0]);
    }
}
