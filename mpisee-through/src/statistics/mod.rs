//! Statistics of a few runs: how far they differ, which of them stand out, what goes with what, and
//! how certain that is.
//!
//! Runs are few. So each number here comes with what so few runs say of it, and with nothing where
//! they say nothing.

mod difference;
pub mod growth;
pub mod steps;

pub use difference::{Difference, difference, holm};

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, FisherSnedecor, Normal, StudentsT};

/// The probability with which statements are to hold.
pub const CONFIDENCE: f64 = 0.95;

/// How a number differs between runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The number of runs.
    pub runs: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// The standard deviation between runs, of two or more.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of the numbers of some runs; zeros for none.
    pub fn from_values(values: &[f64]) -> Self {
        let sorted = sorted(values);
        Spread {
            runs: values.len(),
            median: median(values),
            min: sorted.first().copied().unwrap_or(0.0),
            max: sorted.last().copied().unwrap_or(0.0),
            deviation: deviation(values),
        }
    }

    /// The standard deviation by the median.
    pub fn relative(&self) -> Option<f64> {
        self.deviation.filter(|_| self.median > 0.0).map(|deviation| deviation / self.median)
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median, of an even number the mean of the middle two; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => sorted[count / 2 - 1].midpoint(sorted[count / 2]),
    }
}

/// The mean; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation of the population that the values are a sample of; none of fewer than
/// two.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
    let mean = mean(values);
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64).sqrt();
    // What rounding leaves of equal numbers is no difference.
    Some(if deviation <= 1e-12 * mean.abs() { 0.0 } else { deviation })
}

/// A range that contains the median of ever more such runs, and how probable that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRange {
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
}

/// The narrowest range between two of the values that contains the median with [`CONFIDENCE`], or
/// that of all values with what confidence so few give. It assumes nothing of the distribution: a
/// value is above the median half of the time.
pub fn median_range(values: &[f64]) -> Option<MedianRange> {
    let sorted = sorted(values);
    let count = sorted.len();
    if count < 2 {
        return None;
    }
    let coin = Binomial::new(0.5, count as u64).ok()?;
    // With so many values left out at each end.
    let confidence = |left_out: usize| 1.0 - 2.0 * coin.cdf(left_out as u64);
    let left_out = (0..count / 2).rev().find(|&left_out| confidence(left_out) >= CONFIDENCE).unwrap_or(0);
    let (low, high) = (sorted[left_out], sorted[count - 1 - left_out]);
    Some(MedianRange { low, high, confidence: confidence(left_out) })
}

/// The probability with which equal runs without an outlier are said to have one.
const OUTLIER_CHANCE: f64 = 0.01;
/// Values that are nearer to the median, by its part, are none.
const OUTLIER_FROM: f64 = 0.02;

/// The indices of values that are too far from the others for chance, by Grubbs' test, the farthest
/// first. Of fewer than four none can be told.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..values.len()).collect();
    let mut found = Vec::new();
    // The larger part of the runs are what others are compared with.
    while left.len() >= 4 && 2 * (found.len() + 1) < values.len() {
        let rest: Vec<f64> = left.iter().map(|&index| values[index]).collect();
        let (mean, middle) = (mean(&rest), median(&rest));
        let Some(deviation) = deviation(&rest).filter(|&deviation| deviation > 0.0) else { break };
        let distance = |&index: &usize| (values[index] - mean).abs();
        let Some(place) =
            (0..left.len()).max_by(|&one, &other| distance(&left[one]).total_cmp(&distance(&left[other])))
        else {
            break;
        };
        let index = left[place];
        let is_far = (values[index] - middle).abs() > OUTLIER_FROM * middle.abs();
        if !is_far || distance(&index) / deviation <= grubbs(left.len()) {
            break;
        }
        left.remove(place);
        found.push(index);
    }
    found
}

/// The distance from the mean, in standard deviations, beyond which one of `count` values is an
/// outlier.
fn grubbs(count: usize) -> f64 {
    let n = count as f64;
    let t = student(1.0 - OUTLIER_CHANCE / (2.0 * n), n - 2.0);
    (n - 1.0) / n.sqrt() * (t * t / (n - 2.0 + t * t)).sqrt()
}

/// The value that a variable with Student's distribution exceeds with the probability `1 - below`.
pub fn student(below: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(below))
}

/// The probability of a value with Student's distribution at least as far from 0.
fn student_chance(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(t.abs()))
}

/// The value below which a ratio of two variances of equal populations lies with this probability.
fn fisher(above: f64, below: f64, confidence: f64) -> f64 {
    FisherSnedecor::new(above, below).map_or(f64::INFINITY, |fisher| fisher.inverse_cdf(confidence))
}

/// How one number of runs goes with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Pearson's coefficient, -1 to 1.
    pub r: f64,
    /// The interval that contains that of ever more runs with [`CONFIDENCE`], by Fisher's
    /// transformation; of four runs or more.
    pub interval: Option<[f64; 2]>,
    /// The probability of a coefficient that is as far from 0 where nothing goes with anything.
    pub chance: f64,
    /// By how much the second number grows where the first grows by 1.
    pub slope: f64,
}

/// The correlation of two numbers of the same runs; none of fewer than three runs, or where one of
/// the numbers is always the same.
pub fn correlation(one: &[f64], other: &[f64]) -> Option<Correlation> {
    let count = one.len().min(other.len());
    if count < 3 {
        return None;
    }
    let (mean_one, mean_other) = (mean(one), mean(other));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        one.iter().zip(other).map(|(x, y)| of(x - mean_one, y - mean_other)).sum()
    };
    let (both, first, second) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    // What rounding leaves of equal numbers is no difference.
    let is_equal = |squares: f64, mean: f64| squares.sqrt() <= 1e-9 * mean.abs();
    if is_equal(first, mean_one) || is_equal(second, mean_other) {
        return None;
    }
    let r = (both / (first * second).sqrt()).clamp(-1.0, 1.0);
    let freedom = (count - 2) as f64;
    let t = r * (freedom / (1.0 - r * r).max(f64::MIN_POSITIVE)).sqrt();
    let interval = (count >= 4).then(|| {
        // At ±1 the transformation is infinite.
        let z = r.clamp(-1.0 + 1e-12, 1.0 - 1e-12).atanh();
        let width = normal(0.5 + CONFIDENCE / 2.0) / ((count - 3) as f64).sqrt();
        [(z - width).tanh(), (z + width).tanh()]
    });
    Some(Correlation { r, interval, chance: student_chance(t, freedom), slope: both / first })
}

fn normal(below: f64) -> f64 {
    Normal::new(0.0, 1.0).map_or(f64::INFINITY, |normal| normal.inverse_cdf(below))
}

/// The coefficient that the largest of `tried` correlations over so many runs stays below with
/// [`CONFIDENCE`] where nothing goes with anything.
pub fn chance_correlation(runs: usize, tried: usize) -> Option<f64> {
    let freedom = runs.checked_sub(2).filter(|&freedom| freedom > 0)? as f64;
    let t = student(1.0 - (1.0 - CONFIDENCE) / (2.0 * tried.max(1) as f64), freedom);
    Some((t * t / (freedom + t * t)).sqrt())
}

#[cfg(test)]
mod tests;
