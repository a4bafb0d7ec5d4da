//! Minimum, median and spread of repetitions.

use serde::Serialize;

/// The times of repetitions of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The shortest time.
    pub min_s: f64,
    /// A quarter of the repetitions took no longer.
    pub quarter_s: f64,
    /// Half of the repetitions took no longer.
    pub median_s: f64,
    /// Three quarters of the repetitions took no longer.
    pub three_quarters_s: f64,
    /// The longest time.
    pub max_s: f64,
}

impl Summary {
    /// Sums up times, of which there is at least one.
    pub fn from_times(times_s: &[f64]) -> Summary {
        let mut sorted = times_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        Summary {
            min_s: quantile(&sorted, 0.0),
            quarter_s: quantile(&sorted, 0.25),
            median_s: quantile(&sorted, 0.5),
            three_quarters_s: quantile(&sorted, 0.75),
            max_s: quantile(&sorted, 1.0),
        }
    }

    /// The middle half of the repetitions, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median_s > 0.0 { (self.three_quarters_s - self.quarter_s) / self.median_s } else { 0.0 }
    }

    /// The same of a part of each time.
    pub fn divided(self, by: f64) -> Summary {
        Summary {
            min_s: self.min_s / by,
            quarter_s: self.quarter_s / by,
            median_s: self.median_s / by,
            three_quarters_s: self.three_quarters_s / by,
            max_s: self.max_s / by,
        }
    }
}

/// The value below which `part` of the values lie, between two of them by their distance.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The median of values, of which there is at least one.
pub fn median(values: &[f64]) -> f64 {
    Summary::from_times(values).median_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_five_are_the_values_in_order() {
        let summary = Summary::from_times(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        let Summary { min_s, quarter_s, median_s, three_quarters_s, max_s } = summary;
        assert_eq!([min_s, quarter_s, median_s, three_quarters_s, max_s], [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(summary.spread(), 2.0 / 3.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(summary.divided(2.0).median_s, 1.5);
    }
}
