//! Differences between runs that were made in turn.

use crate::statistics::median;
use serde::Serialize;

/// The probability with which intervals contain what ever more runs would show.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest pairs of which there is an interval.
pub const LEAST_PAIRS: u32 = 6;

/// The relative difference of pairs of times with its interval: -0.2 for a fifth less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The number of pairs.
    pub pairs: usize,
    /// The median.
    pub median: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end of the interval.
    pub high: f64,
}

impl Difference {
    /// Of pairs of times before and after; none of fewer than [`LEAST_PAIRS`].
    ///
    /// The interval is that of the median, between two of the pairs: it assumes nothing of the
    /// distribution, and from 9 pairs on one that was disturbed at each end does not matter.
    pub fn from_pairs(pairs: &[(f64, f64)]) -> Option<Difference> {
        let mut ratios: Vec<f64> = pairs.iter().map(|(before, after)| after / before).collect();
        if ratios.iter().any(|ratio| !ratio.is_finite()) {
            return None;
        }
        let left_out = left_out(ratios.len())?;
        ratios.sort_by(f64::total_cmp);
        let [median, low, high] =
            [median(&ratios), ratios[left_out], ratios[ratios.len() - 1 - left_out]].map(|ratio| ratio - 1.0);
        Some(Difference { pairs: ratios.len(), median, low, high })
    }

    /// Returns whether the interval has less time alone.
    pub fn is_faster(&self) -> bool {
        self.high < 0.0
    }

    /// Returns whether the interval has more time alone.
    pub fn is_slower(&self) -> bool {
        self.low > 0.0
    }

    /// `-22.6 % [-25.6, -19.6]`: the ends of an interval are not equally far from the median.
    pub fn text(&self) -> String {
        let [median, low, high] = [self.median, self.low, self.high].map(|it| 100.0 * it);
        format!("{median:+.1} % [{low:+.1}, {high:+.1}]")
    }
}

/// The median of the relative differences, of however few pairs; none of none.
pub fn median_difference(pairs: &[(f64, f64)]) -> Option<f64> {
    let ratios: Vec<f64> = pairs.iter().map(|(before, after)| after / before).collect();
    let is_known = !ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_finite());
    is_known.then(|| median(&ratios) - 1.0)
}

/// The number of values that are left out at each end of an interval for the median: as many as
/// leave [`CONFIDENCE`]. None where all of them have less.
fn left_out(count: usize) -> Option<usize> {
    // A value is above the median half of the time: the probability that none is, one is, two are,
    // …
    let mut chance = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut below = 0.0;
    let mut found = None;
    for above in 0..count / 2 {
        below += chance;
        if 1.0 - 2.0 * below < CONFIDENCE {
            break;
        }
        found = Some(above);
        chance *= (count - above) as f64 / (above + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(ratios: &[f64]) -> Difference {
        Difference::from_pairs(&ratios.iter().map(|&ratio| (2.0, 2.0 * ratio)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_difference_is_told_from_noise() {
        let fifth = difference(&[0.79, 0.81, 0.8, 0.8, 0.82, 0.78]);
        assert!(fifth.is_faster() && !fifth.is_slower(), "{fifth:?}");
        assert!((fifth.median + 0.2).abs() < 0.01 && fifth.low < fifth.median && fifth.median < fifth.high);
        let noise = difference(&[0.7, 1.3, 1.1, 0.9, 1.0, 1.2]);
        assert!(!noise.is_faster() && !noise.is_slower(), "{noise:?}");
        assert!(difference(&[3.0, 3.1, 2.9, 3.0, 2.8, 3.2]).is_slower());
    }

    #[test]
    fn disturbed_runs_hide_no_difference() {
        let disturbed = difference(&[0.8, 0.79, 0.81, 0.8, 50.0, 0.8, 0.78, 0.82, 0.8, 0.81]);
        assert!(disturbed.is_faster() && (disturbed.median + 0.2).abs() < 0.02, "{disturbed:?}");
    }

    /// The tables of the sign test for 5 % on both sides.
    #[test]
    fn intervals_are_those_of_the_tables() {
        assert_eq!(
            [5, 6, 8, 9, 10, 12, 20].map(left_out),
            [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(5)]
        );
        let all = difference(&[0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert!((all.low + 0.5).abs() < 1e-12 && all.high.abs() < 1e-12, "{all:?}");
        assert_eq!(Difference::from_pairs(&[(1.0, 1.0); 5]), None);
        assert_eq!(Difference::from_pairs(&[(1.0, 1.0), (0.0, 1.0)].repeat(3)), None);
    }

    #[test]
    fn people_read_percent() {
        let difference = Difference { pairs: 6, median: -0.226, low: -0.256, high: -0.196 };
        assert_eq!(difference.text(), "-22.6 % [-25.6, -19.6]");
        let skewed = Difference { pairs: 6, median: -0.147, low: -0.62, high: -0.002 };
        assert_eq!(skewed.text(), "-14.7 % [-62.0, -0.2]");
    }
}
