//! Compares the difference between two sets of runs with the differences within a set.

use super::{CONFIDENCE, deviation, mean, student, student_chance};

/// The difference of the means of two sets of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Half the width of the interval that contains it with [`CONFIDENCE`].
    pub noise: f64,
    /// The probability of a difference at least as large between two sets of equal runs.
    pub chance: f64,
}

/// Compares the means by Welch's test. One run alone is taken to differ as those of the other set
/// do; of two single runs nothing is known.
pub fn difference(before: &[f64], after: &[f64]) -> Option<Difference> {
    let change = mean(after) - mean(before);
    let (error, freedom) = match (deviation(before), deviation(after)) {
        (Some(one), Some(other)) => {
            let parts =
                [(one, before.len() as f64), (other, after.len() as f64)].map(|(deviation, count)| {
                    let variance = deviation * deviation / count;
                    (variance, variance * variance / (count - 1.0))
                });
            let variance = parts[0].0 + parts[1].0;
            let least = before.len().min(after.len()) as f64 - 1.0;
            let freedom = match parts[0].1 + parts[1].1 {
                // Runs that are all equal.
                0.0 => least,
                squares => (variance * variance / squares).max(least),
            };
            (variance.sqrt(), freedom)
        }
        (Some(deviation), None) if !after.is_empty() => of_one(deviation, before.len()),
        (None, Some(deviation)) if !before.is_empty() => of_one(deviation, after.len()),
        _ => return None,
    };
    // What rounding leaves of equal numbers is no difference.
    let is_none = change.abs() <= 1e-12 * mean(before).abs().max(mean(after).abs());
    let chance = match error {
        _ if is_none => 1.0,
        0.0 => 0.0,
        error => student_chance(change / error, freedom),
    };
    Some(Difference { noise: student(0.5 + CONFIDENCE / 2.0, freedom) * error, chance })
}

/// The standard error, and its degrees of freedom, of one run against the mean of `count` others.
fn of_one(deviation: f64, count: usize) -> (f64, f64) {
    (deviation * (1.0 + 1.0 / count as f64).sqrt(), (count - 1) as f64)
}

/// Which of many differences are more than chance, where with [`CONFIDENCE`] not a single one of
/// them may be chance: Holm's method.
pub fn holm(chances: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    let mut found = vec![false; chances.len()];
    for (rank, &index) in order.iter().enumerate() {
        if chances[index] > (1.0 - CONFIDENCE) / (chances.len() - rank) as f64 {
            break;
        }
        found[index] = true;
    }
    found
}
