//! Steps: where a number in a history of entries, each with some runs, changes for good.
//!
//! Times are noisy, so a step of a time is tested. Counts are exact, so a step of a count is read off.

use super::{median, normal, student_chance};

/// Entries that a level of a time needs: one slow entry may be a slow machine.
const FEWEST_ENTRIES: usize = 2;
/// The smallest step of a time, by the level before.
pub const SMALLEST: f64 = 0.05;

/// A change that lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The first entry of the level before.
    pub from: usize,
    /// The first entry of the new level.
    pub at: usize,
    /// The first entry after the new level.
    pub to: usize,
    /// The level up to the previous step: the median over entries of the medians of their runs.
    pub before: f64,
    /// The level up to the next step.
    pub after: f64,
    /// The probability of such a step where all runs are alike; 0 for exact counts.
    pub chance: f64,
}

/// The typical value of some entries.
pub fn level(entries: &[Vec<f64>]) -> f64 {
    median(&entries.iter().map(|runs| median(runs)).collect::<Vec<f64>>())
}

/// Returns the steps of a noisy number; nothing if so few runs cannot show a step.
///
/// If no run differs from the others but by chance, a step is found with the probability `limit` at most. The division
/// with the largest t value is taken, first of all entries, then of each part (binary segmentation). Then each step is
/// found again between its neighbours.
pub fn noisy_steps(entries: &[Vec<f64>], limit: f64) -> Option<Vec<Step>> {
    if !can_show(entries, limit) {
        return None;
    }
    let find = |from: usize, to: usize| {
        let split = split(&entries[from..to])?;
        let step = step(entries, [from, from + split.at, to], split.chance);
        let is_large = (step.after - step.before).abs() >= SMALLEST * step.before.abs();
        (split.chance <= limit && is_large).then_some(step)
    };
    let mut cuts = vec![0, entries.len()];
    let mut open = vec![(0, entries.len())];
    while let Some((from, to)) = open.pop() {
        if let Some(step) = find(from, to) {
            open.extend([(from, step.at), (step.at, to)]);
            cuts.push(step.at);
        }
    }
    cuts.sort_unstable();
    let mut found: Vec<Step> = Vec::new();
    for at in 1..cuts.len() - 1 {
        let from = found.last().map_or(0, |step| step.at);
        found.extend(find(from, cuts[at + 1]));
    }
    // Levels end at the steps that were found at last.
    let ends: Vec<usize> = found.iter().map(|step| step.at).chain([entries.len()]).collect();
    let mut from = 0;
    for (at, found) in found.iter_mut().enumerate() {
        *found = step(entries, [from, found.at, ends[at + 1]], found.chance);
        from = found.at;
    }
    Some(found)
}

fn step(entries: &[Vec<f64>], [from, at, to]: [usize; 3], chance: f64) -> Step {
    Step { from, at, to, before: level(&entries[from..at]), after: level(&entries[at..to]), chance }
}

/// Returns whether the clearest step of as many runs is less probable than the limit.
fn can_show(entries: &[Vec<f64>], limit: f64) -> bool {
    cuts(entries.len()).any(|at| TESTS * chance_of_order(entries, at) <= limit)
}

/// The places where entries can be divided.
fn cuts(entries: usize) -> std::ops::Range<usize> {
    FEWEST_ENTRIES..(entries + 1).saturating_sub(FEWEST_ENTRIES)
}

/// The tests of a division, by ranks and by values, which share the probability of an error.
const TESTS: f64 = 2.0;

/// A division of entries, and how probable such a one is by chance.
struct Split {
    at: usize,
    chance: f64,
}

/// The clearest division by ranks, or by values where these separate all runs.
///
/// Ranks, as normal scores, give the stated probability for any distribution, as with heavy tails. Of few entries they tell
/// little. Values tell more, and order guards them: all runs after are above, or below, all runs before.
fn split(entries: &[Vec<f64>]) -> Option<Split> {
    let by_ranks = clearest(&scores(entries), entries, |_| true);
    let is_positive = entries.iter().flatten().all(|&value| value > 0.0);
    let value = |runs: &Vec<f64>| if is_positive { median(runs).ln() } else { median(runs) };
    let values: Vec<f64> = entries.iter().map(value).collect();
    let by_values = clearest(&values, entries, |at| are_separate(entries, at));
    [by_ranks, by_values].into_iter().flatten().min_by(|one, other| one.chance.total_cmp(&other.chance))
}

/// The division with the largest t value of two samples with one variance.
fn clearest(values: &[f64], entries: &[Vec<f64>], is_allowed: impl Fn(usize) -> bool) -> Option<Split> {
    let all =
        cuts(values.len()).filter(|&at| is_allowed(at)).filter_map(|at| Some((t_value(values, at)?, at)));
    let (t, at) = all.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let tried = cuts(values.len()).len() as f64;
    let of_t = tried * student_chance(t, (values.len() - 2) as f64);
    Some(Split { at, chance: (TESTS * of_t.max(chance_of_order(entries, at))).min(1.0) })
}

fn t_value(values: &[f64], at: usize) -> Option<f64> {
    let (before, after) = values.split_at(at);
    let means = [before, after].map(super::mean);
    let squares = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let variance = (squares(before, means[0]) + squares(after, means[1])) / (values.len() - 2) as f64;
    let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    let difference = (means[1] - means[0]).abs();
    (difference > 0.0).then(|| difference / error)
}

/// The probability that chance separates the runs at one of the places as they are at this one.
fn chance_of_order(entries: &[Vec<f64>], at: usize) -> f64 {
    let count = |entries: &[Vec<f64>]| entries.iter().map(Vec::len).sum::<usize>();
    let (all, part) = (count(entries), count(&entries[..at]));
    let orders: f64 = (0..part.min(all - part)).map(|i| (all - i) as f64 / (i + 1) as f64).product();
    cuts(entries.len()).len() as f64 * 2.0 / orders
}

/// Returns whether all runs before are below, or above, all runs after.
fn are_separate(entries: &[Vec<f64>], at: usize) -> bool {
    let ends = |entries: &[Vec<f64>]| {
        let fold = |of: fn(f64, f64) -> f64, start| entries.iter().flatten().copied().fold(start, of);
        [fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY)]
    };
    let [before, after] = [ends(&entries[..at]), ends(&entries[at..])];
    before[1] < after[0] || after[1] < before[0]
}

/// The mean normal score of each entry (Blom): runs are ranked together, and equal ones share their ranks.
fn scores(entries: &[Vec<f64>]) -> Vec<f64> {
    let of_entry =
        |(entry, runs): (usize, &Vec<f64>)| runs.iter().map(|&run| (run, entry)).collect::<Vec<_>>();
    let mut all: Vec<(f64, usize)> = entries.iter().enumerate().flat_map(of_entry).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut sums = vec![0.0; entries.len()];
    let mut first = 0;
    for equal in all.chunk_by(|one, other| one.0 == other.0) {
        let rank = first as f64 + (equal.len() + 1) as f64 / 2.0;
        let score = normal((rank - 0.375) / (all.len() as f64 + 0.25));
        equal.iter().for_each(|&(_, entry)| sums[entry] += score);
        first += equal.len();
    }
    sums.iter().zip(entries).map(|(sum, runs)| sum / runs.len() as f64).collect()
}

/// Returns the steps of an exact number; nothing if the number varies as times do.
///
/// A level has equal runs in two entries, or in several runs of the first or last entry. A single entry between equal
/// levels is no step.
pub fn exact_steps(entries: &[Vec<f64>]) -> Option<Vec<Step>> {
    let is_equal = |runs: &Vec<f64>| runs.iter().all(|&run| run == runs[0]);
    if !entries.iter().all(is_equal) {
        return None;
    }
    let mut found: Vec<Step> = Vec::new();
    let mut level: Option<(usize, f64)> = None;
    let (mut at, mut changes) = (0, 0);
    for equal in entries.chunk_by(|one, other| one[0] == other[0]) {
        let is_at_end = at == 0 || at + equal.len() == entries.len();
        changes += usize::from(at > 0);
        if equal.len() >= FEWEST_ENTRIES || (is_at_end && equal[0].len() > 1) {
            let after = equal[0][0];
            match level {
                Some((_, before)) if before == after => {}
                Some((from, before)) => {
                    found.push(Step { from, at, to: entries.len(), before, after, chance: 0.0 });
                    level = Some((at, after));
                }
                None => level = Some((at, after)),
            }
        }
        at += equal.len();
    }
    for next in (1..found.len()).rev() {
        found[next - 1].to = found[next].at;
    }
    // If a third of the entries differ from the entry before, the number is noise of single runs.
    (3 * changes <= entries.len() || changes <= 1).then_some(found)
}

#[cfg(test)]
mod tests;
