//! Sums over all instances from a sample of them, with intervals of 95 %.
//!
//! The time of a rank in all instances and its mean time of arrival are known exactly. Where they
//! differ from those of the sample, so does the sum that is estimated: rare long waits that the
//! sample lacks show in them. The estimate is that of a regression on such known sums (the
//! generalised regression estimator of survey sampling; W. G. Cochran, *Sampling Techniques*,
//! chapter 7), its error comes from the residuals, each divided by one minus its leverage.
//!
//! A regression follows the ordinary instances of the sample. Where rare ones make most of the
//! waiting, or the sample lacks them, the estimate is the value that follows if the known
//! difference is wholly waiting for one late member at a time; the interval has both, and, at the
//! low end, the value that follows if the difference in time is no waiting at all.

use crate::statistics::mean;

/// The fewest instances from which an interval is given.
pub const FEWEST: usize = 20;

/// Standard errors on each side of an interval of 95 %.
const INTERVAL: f64 = 2.0;

/// Standard errors from an estimate to the high end, for quantities whose distribution has a long
/// tail.
pub const SKEWED: f64 = 3.0;

/// Standard errors for a bound that is the best one of several.
const BEST_OF_SEVERAL: f64 = 3.0;

/// From this many standard errors between a known sum and the sample on, the sample lacks rare
/// instances.
const UNLIKE: f64 = 2.5;

/// The same for the farthest one of several known sums.
pub const UNLIKE_OF_SEVERAL: f64 = 4.0;

/// Where the waiting varies as much as that of fewer equal instances, it is rare.
const FEWEST_EFFECTIVE: f64 = 20.0;

/// A quantity whose sum over all instances is known.
#[derive(Clone, Debug)]
pub struct Auxiliary {
    /// By sampled instance.
    pub values: Vec<f64>,
    /// The mean over all instances.
    pub mean: f64,
    /// The change of what is estimated by the change of this quantity, in an instance in which one
    /// rank is very late.
    pub slope: f64,
}

/// An estimated sum over all instances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub total: f64,
    /// The ends of the interval.
    pub low: f64,
    pub high: f64,
    /// The standard error; 0 where all instances were sampled.
    pub error: f64,
}

impl Estimate {
    /// A sum that is known.
    pub fn exact(total: f64) -> Self {
        Estimate { total, low: total, high: total, error: 0.0 }
    }

    /// The same within bounds.
    pub fn clamped(self, least: f64, most: f64) -> Self {
        let within = |value: f64| value.max(least).min(most.max(least));
        Estimate {
            total: within(self.total),
            low: within(self.low),
            high: within(self.high),
            error: self.error,
        }
    }

    /// The same with each number no larger than that of another one.
    pub fn at_most(self, other: Estimate) -> Self {
        Estimate {
            total: self.total.min(other.total),
            low: self.low.min(other.low),
            high: self.high.min(other.high),
            error: self.error,
        }
    }

    /// So many times as much.
    pub fn scaled(self, factor: f64) -> Self {
        Estimate {
            total: self.total * factor,
            low: self.low * factor,
            high: self.high * factor,
            error: self.error * factor,
        }
    }

    /// The sum of two. Samples of several operations have the same instances, so that their errors
    /// may add up.
    pub fn plus(self, other: Estimate) -> Self {
        Estimate {
            total: self.total + other.total,
            low: self.low + other.low,
            high: self.high + other.high,
            error: self.error + other.error,
        }
    }

    /// The interval of the rest of an exact whole.
    pub fn rest_of(self, whole: f64) -> Self {
        Estimate { total: whole - self.total, low: whole - self.high, high: whole - self.low, ..self }
    }
}

/// Facts about a quantity beside its values in the sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSums<'a> {
    /// At most two quantities whose sums are known.
    pub sums: &'a [Auxiliary],
    /// Quantities that change as the one that is estimated, or less, whatever part of the known
    /// time is waiting: what the sample lacks of the largest is a part of what it lacks.
    pub floors: &'a [Auxiliary],
    /// True if few instances make most of the waiting, or the sample is known to lack such.
    pub is_rare: bool,
}

/// Returns whether few instances make most of a sum.
pub fn is_rare(values: &[f64]) -> bool {
    effective(values) < FEWEST_EFFECTIVE
}

/// The number of equal instances that vary as much as these: few where few instances have most of
/// the sum.
pub fn effective(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares > 0.0 { values.iter().map(|value| value.abs()).sum::<f64>().powi(2) / squares } else { 0.0 }
}

/// The sum over all `instances` of a quantity that is never negative, from its values in the
/// sampled ones. None if the sample is too small to tell.
pub fn total(values: &[f64], known: KnownSums<'_>, instances: u64) -> Option<Estimate> {
    let sum: f64 = values.iter().sum();
    if values.len() as u64 >= instances {
        return Some(Estimate::exact(sum));
    }
    if values.len() < FEWEST {
        return None;
    }
    let sample = SampledValues { values, mean: sum / values.len() as f64, instances: instances as f64 };
    let fit = Fit::from_sample(&sample, known.sums);
    let (mut total, mut error) =
        sample.moved(known.sums, &fit.slopes, |at| 1.0 - fit.leverage(known.sums, at));
    let (mut low, mut high) = (total - INTERVAL * error, total + INTERVAL * error);
    let plain = |_: usize| 1.0;
    let is_rare = known.is_rare || known.sums.iter().any(|sum| sample.is_unlike(sum));
    // A few long calls in the sample, whatever made them long, fix the slopes.
    let may_be_rare = is_rare || known.sums.iter().any(|sum| self::is_rare(&sum.values));
    if may_be_rare && !known.sums.is_empty() {
        let slopes: Vec<f64> = known.sums.iter().map(|sum| sum.slope).collect();
        let (late, late_error) = sample.moved(known.sums, &slopes, plain);
        if is_rare {
            (total, error) = (late, error.max(late_error));
        }
        low = low.min(late - INTERVAL * late_error);
        high = high.max(late + INTERVAL * late_error);
    }
    if known.sums.is_empty() {
        high = high.max(total + SKEWED * error);
    }
    // Beside the time, arrivals tell waiting from transfer: then the sample need not be right about
    // their parts.
    if known.sums.len() == 1 || may_be_rare {
        let (without, without_error) = sample.moved(&[], &[], plain);
        let floor = |floor: &Auxiliary| {
            let (least, least_error) = sample.moved(std::slice::from_ref(floor), &[floor.slope], plain);
            least - BEST_OF_SEVERAL * least_error
        };
        let floors = known.floors.iter().map(floor);
        low = low.min(floors.fold(without - INTERVAL * without_error, f64::max));
    }
    // The sampled instances are a part of all: an estimate below their sum is wrong by as much at
    // least, so that the truth may be as far above.
    if total < sum {
        high = high.max(sum + (sum - total));
    }
    let estimate = Estimate { total, low, high, error };
    Some(estimate.clamped(sum, f64::INFINITY))
}

/// How many standard errors the mean over all instances is above that of the sample.
pub fn excess(known: &Auxiliary, instances: u64) -> f64 {
    let mean = mean(&known.values);
    let sample = SampledValues { values: &known.values, mean, instances: instances as f64 };
    let (total, error) = sample.moved(&[], &[], |_| 1.0);
    let excess = known.mean * sample.instances - total;
    if error > 0.0 { excess / error } else { 0.0 }
}

struct SampledValues<'a> {
    values: &'a [f64],
    mean: f64,
    /// All instances.
    instances: f64,
}

impl SampledValues<'_> {
    /// The sum over all instances and its standard error, if the quantity changes with the known
    /// ones by these slopes; residuals are divided by `weight`.
    fn moved(&self, known: &[Auxiliary], slopes: &[f64], weight: impl Fn(usize) -> f64) -> (f64, f64) {
        let sampled = self.values.len() as f64;
        let means: Vec<f64> = known.iter().map(|known| mean(&known.values)).collect();
        let moves = known.iter().zip(&means).zip(slopes);
        let moved: f64 = moves.map(|((known, mean), slope)| slope * (known.mean - mean)).sum();
        let square = |(at, value): (usize, &f64)| {
            let of_known = known.iter().zip(&means).zip(slopes);
            let explained: f64 =
                of_known.map(|((known, mean), slope)| slope * (known.values[at] - mean)).sum();
            ((value - self.mean - explained) / weight(at)).powi(2)
        };
        let squares: f64 = self.values.iter().enumerate().map(square).sum();
        let missing = 1.0 - sampled / self.instances;
        let variance = squares / (sampled - 1.0) / sampled * missing;
        ((self.mean + moved) * self.instances, variance.sqrt() * self.instances)
    }

    /// Returns whether the mean over all instances is far from that of the sample.
    fn is_unlike(&self, known: &Auxiliary) -> bool {
        excess(known, self.instances as u64).abs() > UNLIKE
    }
}

/// The slopes of a least-squares fit on up to two known quantities.
struct Fit {
    slopes: [f64; 2],
    means: [f64; 2],
    /// The inverse of the matrix of their products; zero for a quantity that does not vary.
    inverse: [[f64; 2]; 2],
    sampled: f64,
}

impl Fit {
    fn from_sample(sample: &SampledValues<'_>, known: &[Auxiliary]) -> Self {
        let (mut products, mut with_values, mut means) = ([[0.0; 2]; 2], [0.0; 2], [0.0; 2]);
        for (mean_of, known) in means.iter_mut().zip(known) {
            *mean_of = mean(&known.values);
        }
        for (at, value) in sample.values.iter().enumerate() {
            for (row, one) in known.iter().enumerate().take(2) {
                let difference = one.values[at] - means[row];
                with_values[row] += difference * (value - sample.mean);
                for (column, other) in known.iter().enumerate().take(2) {
                    products[row][column] += difference * (other.values[at] - means[column]);
                }
            }
        }
        let inverse = inverse(products);
        let slope = |row: [f64; 2]| row[0] * with_values[0] + row[1] * with_values[1];
        Fit { slopes: inverse.map(slope), means, inverse, sampled: sample.values.len() as f64 }
    }

    /// The weight that an instance has in its own fitted value, below 1.
    fn leverage(&self, known: &[Auxiliary], at: usize) -> f64 {
        let mut differences = [0.0; 2];
        for ((difference, known), mean) in differences.iter_mut().zip(known).zip(self.means) {
            *difference = known.values[at] - mean;
        }
        let [one, other] = differences;
        let [[first, mixed], [_, second]] = self.inverse;
        let leverage =
            1.0 / self.sampled + one * one * first + 2.0 * one * other * mixed + other * other * second;
        leverage.min(0.9)
    }
}

/// The inverse of a symmetric matrix; of one without any, of its larger element alone.
fn inverse([[first, mixed], [_, second]]: [[f64; 2]; 2]) -> [[f64; 2]; 2] {
    let determinant = first * second - mixed * mixed;
    let one = |value: f64| if value > 0.0 { 1.0 / value } else { 0.0 };
    if determinant > 1e-9 * first * second {
        let over = |value: f64| value / determinant;
        [[over(second), over(-mixed)], [over(-mixed), over(first)]]
    } else if first >= second {
        [[one(first), 0.0], [0.0, 0.0]]
    } else {
        [[0.0, 0.0], [0.0, one(second)]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate of a sum from a sample of 20 instances or more, where another one is known.
    fn total_with(values: &[f64], times: &[f64], mean: f64, instances: u64) -> Estimate {
        let sums = &[Auxiliary { values: times.to_vec(), mean, slope: 1.0 }];
        total(values, KnownSums { sums, ..KnownSums::default() }, instances).unwrap()
    }

    #[test]
    fn all_instances_need_no_interval() {
        let all = total(&[1.0, 2.0, 4.0], KnownSums::default(), 3);
        assert_eq!(all, Some(Estimate::exact(7.0)));
        assert_eq!(total(&[1.0; 19], KnownSums::default(), 20), None, "too few to tell");
    }

    #[test]
    fn known_sums_correct_the_sample() {
        // Three times the known quantity, and one: exact whatever the sample.
        let values: Vec<f64> = (0..40).map(|at| 1.0 + 3.0 * f64::from(at % 7)).collect();
        let times: Vec<f64> = (0..40).map(|at| f64::from(at % 7)).collect();
        let found = total_with(&values, &times, 3.5, 1000);
        assert!((found.total - 1000.0 * (1.0 + 3.0 * 3.5)).abs() < 1e-6, "{found:?}");
        assert!(found.error < 1e-6, "{found:?}");
        assert!(found.low < found.total - 100.0, "what the sample lacks may be no wait: {found:?}");
    }

    #[test]
    fn rare_instances_that_the_sample_lacks_are_in_the_interval() {
        // One call of 1 s among 20,000; all others wait 1 ms of 2 ms.
        let waits: Vec<f64> = (0..200).map(|at| 1e-3 + 1e-6 * f64::from(at % 3)).collect();
        let times: Vec<f64> = (0..200).map(|at| 2e-3 + 1e-6 * f64::from(at % 5)).collect();
        let found = total_with(&waits, &times, (20_000.0 * 2.002e-3 + 1.0) / 20_000.0, 20_000);
        assert!((20.9..21.1).contains(&found.total), "{found:?}");
        assert!(found.low < 20.1 && found.high > 21.0, "{found:?}");
    }
}
