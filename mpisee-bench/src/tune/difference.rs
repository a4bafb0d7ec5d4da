//! Differences between runs that were made in turn.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The probability with which intervals contain what ever more runs would show.
pub const CONFIDENCE: f64 = 0.95;

/// The relative difference of pairs of times, as the mean of the pairs with its interval: -0.2 for a fifth less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The number of pairs.
    pub pairs: usize,
    /// The mean.
    pub mean: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end of the interval.
    pub high: f64,
}

impl Difference {
    /// Of pairs of times before and after, by Student's t on the logarithms of their ratios; none of fewer than two.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Difference> {
        let ratios: Vec<f64> = pairs.iter().map(|(before, after)| (after / before).ln()).collect();
        let count = ratios.len() as f64;
        if ratios.len() < 2 || ratios.iter().any(|ratio| !ratio.is_finite()) {
            return None;
        }
        let mean = ratios.iter().sum::<f64>() / count;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
        let noise = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * (variance / count).sqrt();
        let [mean, low, high] = [mean, mean - noise, mean + noise].map(f64::exp_m1);
        Some(Difference { pairs: ratios.len(), mean, low, high })
    }

    /// Returns whether the interval has less time alone.
    pub fn is_faster(&self) -> bool {
        self.high < 0.0
    }

    /// Returns whether the interval has more time alone.
    pub fn is_slower(&self) -> bool {
        self.low > 0.0
    }

    /// `-22.6 % ± 3.0 %`.
    pub fn text(&self) -> String {
        format!("{:+.1} % ± {:.1} %", 100.0 * self.mean, 50.0 * (self.high - self.low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_from_noise() {
        let fifth = Difference::of(&[(1.0, 0.79), (2.0, 1.62), (1.5, 1.2), (1.0, 0.8)]).unwrap();
        assert!(fifth.is_faster() && !fifth.is_slower(), "{fifth:?}");
        assert!((fifth.mean + 0.2).abs() < 0.01 && fifth.low < fifth.mean && fifth.mean < fifth.high);
        let noise = Difference::of(&[(1.0, 0.7), (1.0, 1.3), (1.0, 1.1)]).unwrap();
        assert!(!noise.is_faster() && !noise.is_slower(), "{noise:?}");
        assert!(Difference::of(&[(1.0, 3.0), (1.0, 3.1), (1.0, 2.9)]).unwrap().is_slower());
    }

    /// t for 95 % and two degrees of freedom is 4.303.
    #[test]
    fn the_interval_is_students() {
        let e = std::f64::consts::E;
        let found = Difference::of(&[(1.0, 1.0), (1.0, e), (1.0, e * e)]).unwrap();
        let noise = 4.302_65 / 3.0_f64.sqrt();
        assert!(((1.0 + found.high).ln() - 1.0 - noise).abs() < 1e-4, "{found:?}");
        assert_eq!(Difference::of(&[(1.0, 1.0)]), None);
        assert_eq!(Difference::of(&[(1.0, 1.0), (0.0, 1.0)]), None);
    }

    #[test]
    fn people_read_percent() {
        let difference = Difference { pairs: 6, mean: -0.226, low: -0.256, high: -0.196 };
        assert_eq!(difference.text(), "-22.6 % ± 3.0 %");
    }
}
