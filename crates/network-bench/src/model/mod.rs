//! Models fitted to measurements: lines for the time of a message by its size, and how ranks share
//! network interfaces.

pub mod interface;

use crate::statistics::median;
use mpisee_profile::network::{PairPoint, SizeRange};

/// Segments at the most.
const MOST_SEGMENTS: usize = 4;
/// Sizes of a segment at the least: a line through two is no model.
const FEWEST_SIZES: usize = 3;
/// Relative noise of a measurement below which a better fit means nothing.
const NOISE: f64 = 0.01;

/// Lines fitted to times by size, and how far they are off.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The lines, by ascending size.
    pub segments: Vec<SizeRange>,
    /// The median of the relative errors over the sizes.
    pub error_median: f64,
    /// The largest of the relative errors.
    pub error_max: f64,
}

/// A line through some of the points, by weighted least squares of relative errors.
#[derive(Clone, Copy, Debug)]
struct Line {
    latency_s: f64,
    per_byte_s: f64,
    /// The sum of the squared relative errors.
    error: f64,
}

impl Line {
    fn at(&self, bytes: f64) -> f64 {
        self.latency_s + self.per_byte_s * bytes
    }

    fn through(points: &[(f64, f64)]) -> Line {
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|&(bytes, time_s)| of(bytes, time_s) / (time_s * time_s)).sum::<f64>()
        };
        let (weights, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
        let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
        let determinant = weights * xx - x * x;
        let slope = if determinant > 0.0 { (weights * xy - x * y) / determinant } else { 0.0 };
        // Neither a message that takes longer the shorter it is, nor an empty one in less than no
        // time.
        let (latency_s, per_byte_s) = match (y - slope * x) / weights {
            latency_s if slope < 0.0 || latency_s.is_nan() => (y / weights, 0.0),
            latency_s if latency_s < 0.0 => (0.0, xy / xx),
            latency_s => (latency_s, slope),
        };
        let line = Line { latency_s, per_byte_s, error: 0.0 };
        let error = points.iter().map(|&(bytes, time_s)| (line.at(bytes) / time_s - 1.0).powi(2)).sum();
        Line { error, ..line }
    }
}

/// Fits lines to (bytes, seconds) by ascending size; as many as the points justify. Where the eager
/// limit lies between two sizes, one line ends there and another one begins.
pub fn fit(points: &[(u64, f64)], eager_limit_bytes: Option<u64>) -> Fit {
    let scaled: Vec<(f64, f64)> = points.iter().map(|&(bytes, time_s)| (bytes as f64, time_s)).collect();
    let forced = eager_limit_bytes.map(|limit| points.partition_point(|&(bytes, _)| bytes <= limit));
    let forced = forced.filter(|&at| at > 0 && at < points.len());
    let criterion = |ends: &[usize]| {
        let error: f64 = pieces(ends).map(|(from, to)| Line::through(&scaled[from..to]).error).sum();
        let count = scaled.len() as f64;
        // Bayes' criterion: each further line has two numbers and a place.
        count * (error / count).max(NOISE * NOISE).ln() + 3.0 * ends.len() as f64 * count.ln()
    };
    let most = MOST_SEGMENTS.min((points.len() / FEWEST_SIZES).max(1));
    let candidates = (1..=most).filter_map(|count| best(&scaled, count, forced));
    let ends = candidates.min_by(|one, other| criterion(one).total_cmp(&criterion(other)));
    // Fewer sizes than a line and a limit need.
    let ends = ends.unwrap_or_else(|| forced.into_iter().chain([points.len()]).collect());
    let lines: Vec<(usize, usize, Line)> =
        pieces(&ends).map(|(from, to)| (from, to, Line::through(&scaled[from..to]))).collect();
    let segment = |&(from, to, line): &(usize, usize, Line)| SizeRange {
        from_bytes: match eager_limit_bytes {
            Some(limit) if forced == Some(from) => limit + 1,
            _ => points[from].0,
        },
        to_bytes: match eager_limit_bytes {
            Some(limit) if forced == Some(to) => limit,
            _ => points[to - 1].0,
        },
        latency_s: line.latency_s,
        per_byte_s: line.per_byte_s,
    };
    let mut errors: Vec<f64> = lines
        .iter()
        .flat_map(|&(from, to, line)| {
            scaled[from..to].iter().map(move |&(bytes, time_s)| (line.at(bytes) / time_s - 1.0).abs())
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    Fit {
        segments: lines.iter().map(segment).collect(),
        error_median: if errors.is_empty() { f64::NAN } else { median(&errors) },
        error_max: errors.last().copied().unwrap_or(f64::NAN),
    }
}

/// Pairs of begin and end.
fn pieces(ends: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    std::iter::once(0).chain(ends.iter().copied()).zip(ends.iter().copied())
}

/// The ends of `count` segments with the smallest error, by dynamic programming; one of them at
/// `forced`.
fn best(points: &[(f64, f64)], count: usize, forced: Option<usize>) -> Option<Vec<usize>> {
    let cost = |from: usize, to: usize| {
        let spans_limit = forced.is_some_and(|at| from < at && at < to);
        // The eager limit may leave fewer sizes on one side of it.
        let is_side = forced.is_some_and(|at| (from, to) == (0, at) || (from, to) == (at, points.len()));
        let is_too_short = to - from < FEWEST_SIZES && points.len() >= FEWEST_SIZES && !is_side;
        (!spans_limit && !is_too_short).then(|| Line::through(&points[from..to]).error)
    };
    // For each end the cost of that many segments up to there, and the ends of these.
    let mut table: Vec<Option<(f64, Vec<usize>)>> =
        (0..=points.len()).map(|end| if end == 0 { Some((0.0, Vec::new())) } else { None }).collect();
    for _ in 0..count {
        table = (0..=points.len())
            .map(|end| {
                let reached = (0..end).filter_map(|from| {
                    let (before, ends) = table[from].as_ref()?;
                    let total = before + cost(from, end)?;
                    Some((total, ends.iter().copied().chain([end]).collect::<Vec<_>>()))
                });
                reached.min_by(|one, other| one.0.total_cmp(&other.0))
            })
            .collect();
    }
    table.pop().flatten().map(|(_, ends)| ends)
}

/// LogGP's g and G of a stream of messages: the time of one at the smallest size, and per byte
/// between the two longest.
pub fn gaps(points: &[PairPoint]) -> (f64, f64) {
    let gap_s = points.first().map_or(f64::NAN, |point| point.stream_min_s);
    let per_byte_s = match points {
        [.., one, other] if other.stream_min_s > one.stream_min_s => {
            (other.stream_min_s - one.stream_min_s) / (other.bytes - one.bytes) as f64
        }
        [.., last] => last.stream_min_s / last.bytes as f64,
        [] => f64::NAN,
    };
    (gap_s, per_byte_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times on two lines that meet at a limit, with noise of half a per cent.
    fn planted(limit: u64) -> Vec<(u64, f64)> {
        (0..=22)
            .map(|power| {
                let bytes = 1 << power;
                let (latency_s, per_byte_s) = if bytes <= limit { (1e-6, 1e-9) } else { (5e-6, 0.25e-9) };
                let noise = if power % 2 == 0 { 1.005 } else { 0.995 };
                (bytes, (latency_s + per_byte_s * bytes as f64) * noise)
            })
            .collect()
    }

    #[test]
    fn planted_lines_are_found() {
        for limit in [None, Some(8192)] {
            let fit = fit(&planted(8192), limit);
            assert_eq!(fit.segments.len(), 2, "{fit:?}");
            let [eager, rendezvous] = fit.segments[..] else { panic!() };
            assert!((eager.latency_s / 1e-6 - 1.0).abs() < 0.02, "{fit:?}");
            assert!((eager.per_byte_s / 1e-9 - 1.0).abs() < 0.05, "{fit:?}");
            assert!((rendezvous.latency_s / 5e-6 - 1.0).abs() < 0.02, "{fit:?}");
            assert!((rendezvous.per_byte_s / 0.25e-9 - 1.0).abs() < 0.02, "{fit:?}");
            let begin = if limit.is_some() { 8193 } else { 16384 };
            assert_eq!((eager.to_bytes, rendezvous.from_bytes), (8192, begin));
            assert!(fit.error_max < 0.02, "{fit:?}");
        }
    }

    #[test]
    fn one_line_stays_one() {
        let points: Vec<(u64, f64)> = planted(u64::MAX);
        assert_eq!(fit(&points, None).segments.len(), 1);
        assert_eq!(fit(&points[..2], None).segments.len(), 1);
        assert_eq!(fit(&points, Some(1 << 30)).segments.len(), 1);
    }

    #[test]
    fn nothing_takes_less_than_no_time() {
        let falling = [(1, 3e-6), (2, 2e-6), (4, 1e-6)];
        let fit = fit(&falling, None);
        assert!(fit.segments[0].per_byte_s == 0.0 && fit.segments[0].latency_s > 0.0, "{fit:?}");
        assert!(fit.error_max > 0.3);
    }

    #[test]
    fn gaps_are_those_of_the_stream() {
        let point = |bytes, stream_min_s| PairPoint {
            bytes,
            stream_min_s,
            stream_median_s: 1.0,
            one_way_min_s: 0.0,
            one_way_median_s: 0.0,
            one_way_spread: 0.0,
        };
        let (gap_s, per_byte_s) = gaps(&[point(1, 2e-7), point(1000, 1e-6), point(3000, 2e-6)]);
        assert_eq!(gap_s, 2e-7);
        assert!((per_byte_s / 5e-10 - 1.0).abs() < 1e-9);
    }
}
