//! Sums over all messages from the sampled ones, with intervals of 95 %.
//!
//! Both ends keep a message by its number alone, so that streams of about the same length have the
//! same numbers sampled. Messages with one number are therefore one unit of the sample, those of
//! streams with another mask another stratum. Where the time in the completing calls is known for
//! all, the estimate is a regression on it, as that of collectives (`waits/estimate.rs`).

use crate::statistics::mean;
use crate::waits::estimate::{Estimate, SKEWED, is_rare};

/// Standard errors on each side of an interval of 95 %.
const INTERVAL: f64 = 2.0;
/// From this many standard errors between the known time and that of the sample on, the sample
/// lacks rare calls.
const UNLIKE: f64 = 2.5;

/// Streams of which the same numbers were sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stratum {
    /// The first of its units, and their number.
    pub first: usize,
    pub units: usize,
    /// All numbers of messages.
    pub population: f64,
    /// The part of the messages that was not sampled.
    pub missing: f64,
}

/// The strata of a communicator's streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Design {
    pub strata: Vec<Stratum>,
}

/// A quantity by unit, beside the time in calls by unit.
#[derive(Clone, Copy, Debug)]
pub struct KnownTime<'a> {
    /// The time in calls by unit, and over all calls, in seconds.
    pub times: &'a [f64],
    pub total: f64,
}

/// Sums of squares and products of differences from the strata's means, as variances of totals.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    values: f64,
    products: f64,
    times: f64,
}

impl Design {
    /// The number of units.
    pub fn units(&self) -> usize {
        self.strata.iter().map(|stratum| stratum.units).sum()
    }

    /// Returns whether all messages were sampled.
    pub fn is_exact(&self) -> bool {
        self.strata.iter().all(|stratum| stratum.missing <= 0.0)
    }

    /// How many numbers of messages a unit stands for.
    pub fn weight(&self, unit: usize) -> f64 {
        let at = self.strata.partition_point(|stratum| stratum.first <= unit);
        at.checked_sub(1).map_or(0.0, |at| self.strata[at].population / self.strata[at].units as f64)
    }

    /// The same of all units.
    fn weights(&self) -> impl Iterator<Item = f64> {
        self.strata
            .iter()
            .flat_map(|stratum| std::iter::repeat_n(stratum.population / stratum.units as f64, stratum.units))
    }

    /// The sum over all messages as the sample has it.
    pub fn plain_sum(&self, values: &[f64]) -> f64 {
        values.iter().zip(self.weights()).map(|(value, weight)| value * weight).sum()
    }

    /// The sum over all messages of a quantity that is never negative and at most the time, and its
    /// interval.
    pub fn total(&self, values: &[f64], known: Option<KnownTime<'_>>) -> Estimate {
        let plain = self.plain_sum(values);
        if self.is_exact() {
            return Estimate::exact(plain);
        }
        let Some(known) = known else {
            let error = self.moments(values, values).values.sqrt();
            let (low, high) = (plain - INTERVAL * error, plain + SKEWED * error);
            return Estimate { total: plain, low, high, error }.clamped(0.0, f64::INFINITY);
        };
        let moments = self.moments(values, known.times);
        let excess_s = known.total - self.plain_sum(known.times);
        let slope = if moments.times > 0.0 { moments.products / moments.times } else { 0.0 };
        let error = self.residual_error(values, known.times, slope, moments.times);
        let mut total = plain + slope * excess_s;
        // The time that the sample lacks may be transfer alone.
        let without = plain - INTERVAL * moments.values.sqrt();
        let (mut low, mut high) = ((total - INTERVAL * error).min(without), total + INTERVAL * error);
        // The time that the sample lacks may be waiting alone.
        high = high.max(plain + excess_s);
        let is_unlike = excess_s.abs() > UNLIKE * moments.times.sqrt();
        // A few long calls in the sample, whatever made them long, fix the slope.
        if is_unlike || is_rare(known.times) {
            let late = plain + excess_s;
            let late_error = self.residual_error(values, known.times, 1.0, f64::INFINITY);
            low = low.min(late - INTERVAL * late_error);
            high = high.max(late + INTERVAL * late_error);
            if is_unlike {
                total = late;
            }
        }
        Estimate { total, low, high, error }.clamped(0.0, known.total)
    }

    /// The factor from a sum of squares to the variance of a total.
    fn factor(stratum: &Stratum) -> f64 {
        let units = stratum.units as f64;
        stratum.population * stratum.population * stratum.missing.max(0.0) / (units * (units - 1.0).max(1.0))
    }

    fn moments(&self, values: &[f64], times: &[f64]) -> Moments {
        let mut moments = Moments::default();
        for stratum in &self.strata {
            let (values, times) = (stratum.part(values), stratum.part(times));
            let (mean, mean_time, factor) = (mean(values), mean(times), Self::factor(stratum));
            for (value, time) in values.iter().zip(times) {
                let (value, time) = (value - mean, time - mean_time);
                moments.values += factor * value * value;
                moments.products += factor * value * time;
                moments.times += factor * time * time;
            }
        }
        moments
    }

    /// The standard error of the total, if the quantity changes with the time by this slope;
    /// residuals are divided by one minus their leverage on a fitted slope.
    fn residual_error(&self, values: &[f64], times: &[f64], slope: f64, squares: f64) -> f64 {
        let mut variance = 0.0;
        for stratum in &self.strata {
            let (values, times) = (stratum.part(values), stratum.part(times));
            let (mean, mean_time, factor) = (mean(values), mean(times), Self::factor(stratum));
            for (value, time) in values.iter().zip(times) {
                let time = time - mean_time;
                let leverage = match squares > 0.0 && squares.is_finite() {
                    true => (1.0 / values.len() as f64 + factor * time * time / squares).min(0.9),
                    false => 0.0,
                };
                let residual = (value - mean - slope * time) / (1.0 - leverage);
                variance += factor * residual * residual;
            }
        }
        variance.sqrt()
    }
}

impl Stratum {
    fn part<'a>(&self, values: &'a [f64]) -> &'a [f64] {
        &values[self.first..self.first + self.units]
    }
}

/// Waits by unit, where those of some calls are known within bounds alone.
#[derive(Clone, Debug, Default)]
pub struct Bounded {
    /// The waits that are known.
    pub least: Vec<f64>,
    /// The likely waits.
    pub likely: Vec<f64>,
    /// The whole time of calls of which some messages are unknown.
    pub most: Vec<f64>,
    /// The sum over single messages, of which a call waits for one at most.
    pub each: Vec<f64>,
    /// The time in the calls.
    pub times: Vec<f64>,
}

impl Bounded {
    pub fn new(units: usize) -> Self {
        let zeros = || vec![0.0; units];
        Bounded { least: zeros(), likely: zeros(), most: zeros(), each: zeros(), times: zeros() }
    }

    /// Sets all to zero.
    pub fn clear(&mut self) {
        for values in [&mut self.least, &mut self.likely, &mut self.most, &mut self.each, &mut self.times] {
            values.fill(0.0);
        }
    }

    /// Adds others, unit by unit.
    pub fn add(&mut self, other: &Bounded) {
        let pairs = [
            (&mut self.least, &other.least),
            (&mut self.likely, &other.likely),
            (&mut self.most, &other.most),
            (&mut self.each, &other.each),
            (&mut self.times, &other.times),
        ];
        for (sums, more) in pairs {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }

    /// The sum of the waits over all messages; `total_s` is the time in all calls, if that is
    /// known.
    pub fn total(&self, design: &Design, total_s: Option<f64>) -> Estimate {
        let estimate = |values: &[f64]| {
            design.total(values, total_s.map(|total| KnownTime { times: &self.times, total }))
        };
        let likely = estimate(&self.likely);
        if self.least == self.most {
            return likely;
        }
        let (least, most, each) =
            (estimate(&self.least), estimate(&self.most), design.total(&self.each, None));
        let high = most.high.min(each.high).max(least.high);
        let low = least.low.min(high);
        let total = likely.total.min(each.total).max(least.total);
        Estimate { total, low, high, error: likely.error }.clamped(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(units: usize, population: f64) -> Design {
        let missing = 1.0 - units as f64 / population;
        Design { strata: vec![Stratum { first: 0, units, population, missing }] }
    }

    #[test]
    fn sums_over_all_messages_are_exact() {
        let found = design(3, 3.0).total(&[1.0, 2.0, 4.0], None);
        assert_eq!(found, Estimate::exact(7.0));
    }

    #[test]
    fn the_known_time_corrects_the_sample() {
        // Waits are all of the time but a constant; the sample has calls that are shorter than the
        // mean.
        let times: Vec<f64> = (0..40).map(|at| 1.0 + f64::from(at % 7)).collect();
        let waits: Vec<f64> = times.iter().map(|time| time - 1.0).collect();
        let found = design(40, 1000.0).total(&waits, Some(KnownTime { times: &times, total: 4200.0 }));
        assert!((found.total - 3200.0).abs() < 1e-6 && found.error < 1e-6, "{found:?}");
        assert!(found.low < 3000.0, "what the sample lacks may be no wait: {found:?}");
    }

    #[test]
    fn strata_add_up_with_their_own_weights() {
        let strata = vec![
            Stratum { first: 0, units: 2, population: 2.0, missing: 0.0 },
            Stratum { first: 2, units: 4, population: 40.0, missing: 0.9 },
        ];
        let design = Design { strata };
        assert!((design.plain_sum(&[1.0, 2.0, 1.0, 1.0, 2.0, 2.0]) - 63.0).abs() < 1e-12);
        let found = design.total(&[1.0, 2.0, 1.0, 1.0, 2.0, 2.0], None);
        // Of the second: 40² × 0.9 / (4 × 3) × 4 × 0.25.
        assert!((found.error - 120f64.sqrt()).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn unknown_messages_of_a_call_widen_the_interval() {
        let mut waits = Bounded::new(40);
        for unit in 0..40 {
            let known = unit % 2 == 0;
            waits.times[unit] = 2.0;
            waits.least[unit] = if known { 1.5 } else { 0.25 };
            waits.likely[unit] = if known { 1.5 } else { 1.0 };
            waits.most[unit] = if known { 1.5 } else { 2.0 };
            waits.each[unit] = 9.0;
        }
        let found = waits.total(&design(40, 40.0), Some(80.0));
        assert!((found.low - 35.0).abs() < 1e-9 && (found.high - 70.0).abs() < 1e-9, "{found:?}");
        assert!((found.total - 50.0).abs() < 1e-9, "{found:?}");
        waits.each.fill(1.5);
        assert!((waits.total(&design(40, 40.0), Some(80.0)).high - 60.0).abs() < 1e-9);
    }
}
