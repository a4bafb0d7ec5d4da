//! The lines of an outline, and their times, from those of calls and the calls before them.
//!
//! Times are kept for each pair of a call and the one before, over the whole run. So two lines have
//! times of their own if other calls precede them, and share the mean of their calls if not.

use mpisee_profile::rows::{OrderStepKind, OrderStepRow};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A line of an outline.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The loops around it.
    pub depth: usize,
    /// How often it is repeated in the loop around it.
    pub times: u64,
    /// How often it is made in all by one thread.
    pub total: u64,
    /// The number of the call in the outline; `None` of a loop.
    pub call: Option<usize>,
    /// The time in all these calls of one thread, of a loop in all calls of it.
    pub time_s: f64,
    /// The time between all these calls and the calls before them.
    pub between_s: f64,
}

/// Calls and their times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Their number.
    pub calls: u64,
    /// The time in them.
    pub time_s: f64,
    /// The time between the call before and each.
    pub between_s: f64,
}

impl Times {
    fn add(&mut self, other: Times) {
        self.calls += other.calls;
        self.time_s += other.time_s;
        self.between_s += other.between_s;
    }

    /// Of one call, if there is any.
    fn mean(&self) -> Option<[f64; 2]> {
        (self.calls > 0).then(|| [self.time_s, self.between_s].map(|sum_s| sum_s / self.calls as f64))
    }
}

/// The times of steps, by the step of the call before and their own.
pub type Edges = FxHashMap<(Option<u32>, u32), Times>;

/// The same by the numbers of items.
pub struct ItemTimes {
    edges: FxHashMap<(Option<usize>, usize), Times>,
    items: FxHashMap<usize, Times>,
    /// Items that say that recording was off: no call is known before the next one.
    switches: Vec<usize>,
}

impl ItemTimes {
    /// Of steps that belong to these items.
    pub fn new(item_of: &[Option<u32>], steps: &[OrderStepRow], edges: &Edges) -> ItemTimes {
        let item = |step: u32| item_of.get(step as usize).copied().flatten().map(|item| item as usize);
        let mut times =
            ItemTimes { edges: FxHashMap::default(), items: FxHashMap::default(), switches: Vec::new() };
        for (&(before, step), &sum) in edges {
            let Some(own) = item(step) else { continue };
            times.edges.entry((before.and_then(item), own)).or_default().add(sum);
            times.items.entry(own).or_default().add(sum);
        }
        let switches = steps.iter().zip(0..).filter(|(step, _)| step.kind == OrderStepKind::SwitchedOn);
        times.switches = switches.filter_map(|(_, number)| item(number)).collect();
        times
    }

    /// Mean times of a call in seconds: in it, and since the call before.
    fn mean(&self, before: Option<usize>, item: usize) -> [f64; 2] {
        let before = before.filter(|before| !self.switches.contains(before));
        let edge = self.edges.get(&(before, item)).and_then(Times::mean);
        edge.or_else(|| self.items.get(&item).and_then(Times::mean)).unwrap_or_default()
    }
}

/// Gives the lines of a range their times; returns the sums. `before` has the calls before the
/// first one, each with its share.
///
/// A loop within a loop has at least twice its repetitions, so that there are at most 63.
pub fn fill_times(
    lines: &mut [Line],
    range: Range<usize>,
    before: &[(Option<usize>, f64)],
    times: &ItemTimes,
) -> [f64; 2] {
    let mut before = before.to_vec();
    let mut sums = [0.0; 2];
    let mut at = range.start;
    while at < range.end {
        let Line { depth, times: repeated, total, call, .. } = lines[at];
        let first = 1.0 / repeated.max(1) as f64;
        let (line, last, next) = match call {
            Some(item) => {
                let mut mean = times.mean(Some(item), item).map(|mean| mean * (1.0 - first));
                for &(before, share) in &before {
                    let entered = times.mean(before, item);
                    mean.iter_mut().zip(entered).for_each(|(mean, entered)| *mean += entered * share * first);
                }
                (mean.map(|mean| mean * total as f64), Some(item), at + 1)
            }
            None => {
                let inner = &lines[at + 1..range.end];
                let end = at + 1 + inner.iter().position(|it| it.depth <= depth).unwrap_or(inner.len());
                let last = lines[at + 1..end].iter().rev().find_map(|line| line.call);
                let mut entered: Vec<_> = before.iter().map(|&(call, share)| (call, share * first)).collect();
                entered.push((last, 1.0 - first));
                (fill_times(lines, at + 1..end, &entered, times), last, end)
            }
        };
        [lines[at].time_s, lines[at].between_s] = line;
        sums.iter_mut().zip(line).for_each(|(sum, line)| *sum += line);
        before = vec![(last, 1.0)];
        at = next;
    }
    sums
}
