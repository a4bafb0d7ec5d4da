//! Steps: where a number in a history of entries, each with some runs, changes for good.
//!
//! Times are noisy, so a step of a time is tested. Counts are exact, so a step of a count is read
//! off.

use super::{mean, median, normal, student_chance};
use std::ops::Range;

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
/// If no run differs from the others but by chance, a step is found with the probability `limit` at
/// most. The clearest division is taken, first of all entries, then of each part (binary
/// segmentation). Two steps that undo each other hide from a division in two, so a part is also set
/// apart from the entries around it (circular binary segmentation). Then each step is found again
/// between its neighbours.
pub fn noisy_steps(entries: &[Vec<f64>], limit: f64) -> Option<Vec<Step>> {
    if !can_show(entries, limit) {
        return None;
    }
    let mut cuts = vec![0, entries.len()];
    let mut open = vec![(0, entries.len())];
    while let Some((from, to)) = open.pop() {
        let found = find_cuts(&entries[from..to], limit);
        let inner = found.iter().map(|at| from + at);
        let ends: Vec<usize> = [from].into_iter().chain(inner).chain([to]).collect();
        if !found.is_empty() {
            open.extend(ends.windows(2).map(|ends| (ends[0], ends[1])));
            cuts.extend(&ends[1..ends.len() - 1]);
        }
    }
    cuts.sort_unstable();
    let mut found: Vec<(usize, f64)> = Vec::new();
    for ends in cuts.windows(3) {
        let from = found.last().map_or(0, |&(at, _)| at);
        let part = &entries[from..ends[2]];
        let split = clearest_part(part, &divisions(part.len())).filter(|split| split.is_step(part, limit));
        found.extend(split.map(|split| (from + split.range.start, split.chance)));
    }
    // Levels end at the steps that were found at last.
    let ends: Vec<usize> = found.iter().map(|&(at, _)| at).chain([entries.len()]).collect();
    let froms = [0].into_iter().chain(ends.iter().copied());
    let steps = found.iter().zip(froms).zip(&ends[1..]);
    Some(steps.map(|((&(at, chance), from), &to)| step(entries, [from, at, to], chance)).collect())
}

/// The clearest step of a noisy number of at least this size, where chance makes one as clear with
/// this probability at most: for numbers without a step that is certain.
pub fn possible_step(entries: &[Vec<f64>], limit: f64, smallest: f64) -> Option<Step> {
    let split = clearest_part(entries, &divisions(entries.len()))?;
    let step = step(entries, [0, split.range.start, entries.len()], split.chance);
    let is_large = (step.after - step.before).abs() >= smallest * step.before.abs();
    (is_large && step.chance <= limit).then_some(step)
}

/// The places where a part is divided in two, or a part of it is set apart; nothing if neither is
/// more than chance.
fn find_cuts(part: &[Vec<f64>], limit: f64) -> Vec<usize> {
    let is_step = |split: &Split| split.is_step(part, limit);
    let in_two = clearest_part(part, &divisions(part.len())).filter(is_step);
    let split = in_two.or_else(|| clearest_part(part, &inner_parts(part.len())).filter(is_step));
    let ends = split.map(|split| [split.range.start, split.range.end]);
    ends.into_iter().flatten().filter(|&at| at < part.len()).collect()
}

fn step(entries: &[Vec<f64>], [from, at, to]: [usize; 3], chance: f64) -> Step {
    Step { from, at, to, before: level(&entries[from..at]), after: level(&entries[at..to]), chance }
}

/// Returns whether the clearest step of as many runs is less probable than the limit.
fn can_show(entries: &[Vec<f64>], limit: f64) -> bool {
    let all = divisions(entries.len());
    all.iter().any(|range| TESTS * chance_of_order(entries, range) * all.len() as f64 <= limit)
}

/// The ends of entries that can be divided from those before.
fn divisions(entries: usize) -> Vec<Range<usize>> {
    (FEWEST_ENTRIES..(entries + 1).saturating_sub(FEWEST_ENTRIES)).map(|at| at..entries).collect()
}

/// The parts of entries that can be set apart from those before and after.
fn inner_parts(entries: usize) -> Vec<Range<usize>> {
    let starts = divisions(entries).into_iter().map(|range| range.start);
    starts
        .flat_map(|start| {
            let ends = start + FEWEST_ENTRIES..(entries + 1).saturating_sub(FEWEST_ENTRIES);
            ends.map(move |end| start..end)
        })
        .collect()
}

/// The tests of entries, in two and by inner parts, which share the probability of an error. Values
/// add hardly any error: chance puts all runs in order far more rarely.
const TESTS: f64 = 2.0;

/// A part of entries that differs from the others, and how probable it is by chance.
struct Split {
    range: Range<usize>,
    chance: f64,
}

impl Split {
    /// Returns whether the part is more than chance, and differs by enough.
    fn is_step(&self, entries: &[Vec<f64>], limit: f64) -> bool {
        let [part, others] = sides(entries, &self.range).map(|side| level(&side));
        self.chance <= limit && (part - others).abs() >= SMALLEST * others.abs()
    }
}

/// A part, and the others.
fn sides<V: Clone>(values: &[V], range: &Range<usize>) -> [Vec<V>; 2] {
    [values[range.clone()].to_vec(), [&values[..range.start], &values[range.end..]].concat()]
}

/// The clearest of some parts by ranks, or by values where these separate all runs.
///
/// Ranks, as normal scores, give the stated probability for any distribution, as with heavy tails.
/// Of few entries they tell little. Values tell more, and order guards them: all runs of the part
/// are above, or below, all others.
fn clearest_part(entries: &[Vec<f64>], parts: &[Range<usize>]) -> Option<Split> {
    let by_ranks = clearest_by(&scores(entries), entries, parts, |_| true);
    let is_positive = entries.iter().flatten().all(|&value| value > 0.0);
    let value = |runs: &Vec<f64>| if is_positive { median(runs).ln() } else { median(runs) };
    let values: Vec<f64> = entries.iter().map(value).collect();
    let by_values = clearest_by(&values, entries, parts, |range| are_separate(entries, range));
    [by_ranks, by_values].into_iter().flatten().min_by(|one, other| one.chance.total_cmp(&other.chance))
}

/// The part with the largest t value of two samples with one variance.
fn clearest_by(
    values: &[f64],
    entries: &[Vec<f64>],
    parts: &[Range<usize>],
    is_allowed: impl Fn(&Range<usize>) -> bool,
) -> Option<Split> {
    let sums = Sums::new(values);
    let allowed = parts.iter().filter(|range| is_allowed(range));
    let (t, range) = allowed
        .filter_map(|range| Some((sums.t_value(range)?, range)))
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    let chance = student_chance(t, (values.len() - 2) as f64).max(chance_of_order(entries, range));
    Some(Split { range: range.clone(), chance: (TESTS * parts.len() as f64 * chance).min(1.0) })
}

/// Sums of the first values, of which any part has its sums at once. The values are less their
/// mean, which keeps digits.
struct Sums {
    sums: Vec<f64>,
    squares: f64,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        let mean = mean(values);
        let mut sums = vec![0.0];
        let mut sum = 0.0;
        sums.extend(values.iter().map(|value| {
            sum += value - mean;
            sum
        }));
        Sums { sums, squares: values.iter().map(|value| (value - mean).powi(2)).sum() }
    }

    /// The difference of a part and the others by its error; nothing if they do not differ.
    fn t_value(&self, range: &Range<usize>) -> Option<f64> {
        let all = self.sums.len() - 1;
        let (part, others) = (range.len() as f64, (all - range.len()) as f64);
        let sum = self.sums[range.end] - self.sums[range.start];
        let difference = (sum / part - (self.sums[all] - sum) / others).abs();
        // Sums of squares around both means: those around the mean of all, less that of the
        // difference.
        let between = difference.powi(2) * part * others / all as f64;
        let variance = (self.squares - between).max(0.0) / (all - 2) as f64;
        let error = (variance * (1.0 / part + 1.0 / others)).sqrt();
        (difference > 0.0).then(|| difference / error)
    }
}

/// The probability that chance separates all runs of this part from the others.
fn chance_of_order(entries: &[Vec<f64>], range: &Range<usize>) -> f64 {
    let count = |entries: &[Vec<f64>]| entries.iter().map(Vec::len).sum::<usize>();
    let (all, part) = (count(entries), count(&entries[range.clone()]));
    let orders: f64 = (0..part.min(all - part)).map(|i| (all - i) as f64 / (i + 1) as f64).product();
    2.0 / orders
}

/// Returns whether all runs of this part are below, or above, all others.
fn are_separate(entries: &[Vec<f64>], range: &Range<usize>) -> bool {
    let ends = |sides: [&[Vec<f64>]; 2]| {
        let start = [f64::INFINITY, f64::NEG_INFINITY];
        let widened = |ends: [f64; 2], run: &f64| [ends[0].min(*run), ends[1].max(*run)];
        sides.into_iter().flatten().flatten().fold(start, widened)
    };
    let part = ends([&entries[range.clone()], &[]]);
    let others = ends([&entries[..range.start], &entries[range.end..]]);
    part[1] < others[0] || others[1] < part[0]
}

/// The mean normal score of each entry (Blom): runs are ranked together, and equal ones share their
/// ranks.
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
/// A level has equal runs in two entries, or in several runs of the first or last entry. A single
/// entry between equal levels is no step.
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
