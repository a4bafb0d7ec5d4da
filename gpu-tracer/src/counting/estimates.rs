//! Estimates of what all launches accessed, from those of some intervals: between two moments at
//! which no kernel that counts can be running in a context, every launch counts or none.
//!
//! The first interval in which a kernel is launched counts from that launch on; of the others one
//! in N is drawn. What a counter has of a kernel's launches in drawn intervals, divided by how many
//! these were, stands for the launches that were not counted (a ratio estimate: Cochran, Sampling
//! Techniques, 3rd edition, 6.3 and 6.4, with intervals as the units).

use mpisee_profile::gpu::Values;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// How an interval of a context came to count, or that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interval {
    Passed,
    Drawn,
    /// A kernel was launched that had not been counted before.
    First,
}

/// Launches of a kernel while there was something to count.
#[derive(Clone, Copy, Debug, Default)]
struct Launches {
    context: u64,
    all: u64,
    /// True if an interval counts, or did, because of this kernel.
    had_first: bool,
    /// Launches in the interval that runs.
    current: u64,
    first: u64,
    drawn: u64,
    /// Drawn intervals with a launch of it, and the sum of the squares of the launches in each.
    intervals: u64,
    squares: f64,
    has_changed: bool,
}

/// Sums of a counter.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    current: u64,
    first: u64,
    drawn: u64,
    /// Sums over drawn intervals: of its squares, and of its products with the launches of the
    /// kernel.
    squares: f64,
    products: f64,
}

/// A counter: accesses and bytes of bulk copies, and of which kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    kernel: usize,
    accesses: Sum,
    extra: Sum,
}

/// All of a process.
#[derive(Debug)]
pub struct Estimates {
    /// N, where one interval in N is drawn; 1: everything counts, and nothing is estimated.
    every: u32,
    random: RandomState,
    draws: u64,
    /// By context.
    intervals: HashMap<u64, Interval>,
    /// Numbers of kernels, by module and name.
    numbers: HashMap<u64, HashMap<String, usize>>,
    kernels: Vec<Launches>,
    counters: HashMap<u32, Counter>,
}

impl Estimates {
    /// No launches yet; one interval in `every` will be drawn.
    pub fn new(every: u32) -> Self {
        Estimates {
            every: every.max(1),
            random: RandomState::new(),
            draws: 0,
            intervals: HashMap::new(),
            numbers: HashMap::new(),
            kernels: Vec::new(),
            counters: HashMap::new(),
        }
    }

    /// Returns whether only some intervals count.
    pub fn is_on(&self) -> bool {
        self.every > 1
    }

    /// Returns whether launches in a context count now.
    pub fn counts(&self, context: u64) -> bool {
        !self.is_on() || self.intervals.get(&context).is_some_and(|it| *it != Interval::Passed)
    }

    /// Returns whether a launch of a kernel would count.
    pub fn would_count(&self, context: u64, module: u64, kernel: &str) -> bool {
        self.counts(context) || self.number(module, kernel).is_none_or(|it| !self.kernels[it].had_first)
    }

    /// A kernel is launched that could be counted. Returns whether it is.
    pub fn launching(&mut self, context: u64, module: u64, kernel: &str) -> bool {
        if !self.is_on() {
            return true;
        }
        let number = self.number(module, kernel).unwrap_or_else(|| {
            self.numbers.entry(module).or_default().insert(kernel.to_owned(), self.kernels.len());
            self.kernels.push(Launches { context, ..Launches::default() });
            self.kernels.len() - 1
        });
        let launches = &mut self.kernels[number];
        launches.all += 1;
        launches.has_changed = true;
        let interval = self.intervals.entry(context).or_insert(Interval::Passed);
        if !launches.had_first {
            launches.had_first = true;
            if *interval == Interval::Passed {
                *interval = Interval::First;
            }
        }
        *interval != Interval::Passed
    }

    /// The launch of a kernel counts.
    pub fn launched(&mut self, module: u64, kernel: &str) {
        if self.is_on()
            && let Some(number) = self.number(module, kernel)
        {
            self.kernels[number].current += 1;
        }
    }

    fn number(&self, module: u64, kernel: &str) -> Option<usize> {
        self.numbers.get(&module)?.get(kernel).copied()
    }

    /// A module is gone, and another may have its number.
    pub fn module_gone(&mut self, module: u64) {
        self.numbers.remove(&module);
    }

    /// A counter is one of a kernel's.
    pub fn counter(&mut self, counter: u32, module: u64, kernel: &str) {
        if let Some(kernel) = self.number(module, kernel) {
            self.counters.insert(counter, Counter { kernel, ..Counter::default() });
        }
    }

    /// A counter counted more.
    pub fn add(&mut self, counter: u32, accesses: u64, extra: u64) {
        if let Some(it) = self.counters.get_mut(&counter) {
            it.accesses.current += accesses;
            it.extra.current += extra;
        }
    }

    /// The interval of a context ends, and all that its kernels counted was added. Returns whether
    /// it counted.
    pub fn end(&mut self, context: u64) -> bool {
        if !self.is_on() {
            return false;
        }
        let is_next_drawn = self.draw();
        let next = if is_next_drawn { Interval::Drawn } else { Interval::Passed };
        let ended = self.intervals.insert(context, next).unwrap_or(Interval::Passed);
        if ended == Interval::Passed {
            return false;
        }
        let is_first = ended == Interval::First;
        for counter in self.counters.values_mut().filter(|it| self.kernels[it.kernel].context == context) {
            let launches = self.kernels[counter.kernel].current;
            counter.accesses.end(launches, is_first);
            counter.extra.end(launches, is_first);
        }
        for kernel in self.kernels.iter_mut().filter(|it| it.context == context && it.current > 0) {
            let launches = std::mem::take(&mut kernel.current);
            if is_first {
                kernel.first += launches;
            } else {
                kernel.drawn += launches;
                kernel.intervals += 1;
                kernel.squares += (launches as f64).powi(2);
            }
        }
        true
    }

    fn draw(&mut self) -> bool {
        self.draws += 1;
        self.random.hash_one(self.draws).is_multiple_of(u64::from(self.every))
    }

    /// The estimates that changed since they were last taken, by counter.
    pub fn take_changed(&mut self) -> Vec<(u32, Values)> {
        let of_changed = self.counters.iter().filter(|(_, it)| self.kernels[it.kernel].has_changed);
        let changed =
            of_changed.map(|(&counter, it)| (counter, it.estimate(&self.kernels[it.kernel]))).collect();
        self.kernels.iter_mut().for_each(|it| it.has_changed = false);
        changed
    }
}

impl Sum {
    fn end(&mut self, launches: u64, is_first: bool) {
        let now = std::mem::take(&mut self.current);
        if is_first {
            self.first += now;
        } else {
            self.drawn += now;
            self.squares += (now as f64).powi(2);
            self.products += now as f64 * launches as f64;
        }
    }

    /// The estimate for all launches, and its variance.
    fn estimate(&self, of: &Launches) -> (f64, f64) {
        let counted = (self.first + self.drawn) as f64;
        let other = of.all.saturating_sub(of.first + of.drawn) as f64;
        let rest = of.all.saturating_sub(of.first) as f64;
        if other == 0.0 || of.first + of.drawn == 0 {
            return (counted, 0.0);
        }
        if of.drawn == 0 {
            // How launches differ is not known, so that the error may be as large as what is added.
            let added = self.first as f64 / of.first as f64 * other;
            return (counted + added, added.powi(2));
        }
        let (drawn, n) = (of.drawn as f64, of.intervals as f64);
        let ratio = self.drawn as f64 / drawn;
        let estimate = self.first as f64 + ratio * rest;
        if n < 2.0 {
            return (estimate, (ratio * other).powi(2));
        }
        let residuals = self.squares - 2.0 * ratio * self.products + ratio.powi(2) * of.squares;
        let share = n / (n - 1.0) * residuals.max(0.0) / drawn.powi(2);
        (estimate, share * rest.powi(2) * (other / rest))
    }
}

impl Counter {
    fn estimate(&self, of: &Launches) -> Values {
        let (accesses, variance) = self.accesses.estimate(of);
        let (extra, _) = self.extra.estimate(of);
        Values {
            accesses: accesses.round() as u64,
            extra: extra.round() as u64,
            variance: variance.round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with one counter, launched in intervals: of each its launches, and the accesses of
    /// each launch. Returns the estimate and how many launches were counted.
    fn estimate(every: u32, intervals: impl Iterator<Item = (u64, u64)>) -> (Values, u64) {
        let mut estimates = Estimates::new(every);
        let mut counted = 0;
        for (launches, accesses) in intervals {
            for _ in 0..launches {
                if estimates.launching(1, 7, "kernel") {
                    if counted == 0 {
                        estimates.counter(0, 7, "kernel");
                    }
                    counted += 1;
                    estimates.launched(7, "kernel");
                    estimates.add(0, accesses, 3 * accesses);
                }
            }
            estimates.end(1);
        }
        (estimates.take_changed()[0].1, counted)
    }

    #[test]
    fn launches_that_are_alike_are_all_there_without_an_error() {
        let (values, counted) = estimate(10, (0..3000).map(|at| (1 + at % 3, 17)));
        assert_eq!(values, Values { accesses: 6000 * 17, extra: 6000 * 51, variance: 0 });
        assert!((300..1200).contains(&counted), "{counted}");
    }

    #[test]
    fn a_kernel_that_is_launched_in_one_interval_is_counted_whole() {
        assert_eq!(estimate(1_000_000, [(5, 2)].into_iter()).1, 5);
        let (values, counted) = estimate(1_000_000, [(2, 10), (3, 10)].into_iter());
        assert_eq!((values.accesses, counted), (50, 2));
        assert_eq!(values.variance, 30 * 30, "nothing is known of the three launches");
    }

    #[test]
    fn estimates_lie_around_the_truth_within_their_errors() {
        // Launches of some intervals access three times as much.
        let accesses = |at: u64| if at * 2_654_435_761 % 97 < 30 { 300 } else { 100 };
        let steps = || (0..2000).map(move |at| (1 + at % 2, accesses(at)));
        let truth: u64 = steps().map(|(launches, each)| launches * each).sum();
        let deviations: Vec<f64> = (0..200)
            .map(|_| {
                let (values, _) = estimate(20, steps());
                (values.accesses as f64 - truth as f64) / (values.variance as f64).sqrt()
            })
            .collect();
        let mean = deviations.iter().sum::<f64>() / 200.0;
        let within = deviations.iter().filter(|it| it.abs() < 1.0).count();
        assert!(mean.abs() < 0.35, "{mean}");
        assert!((105..165).contains(&within), "{within} of 200 within one standard error");
    }

    #[test]
    fn an_interval_that_counts_for_a_new_kernel_ends_for_all() {
        let mut estimates = Estimates::new(1_000_000);
        assert!(estimates.launching(1, 7, "first"));
        assert!(estimates.counts(1) && !estimates.counts(2));
        assert!(estimates.end(1));
        assert!(!estimates.launching(1, 7, "first") && !estimates.would_count(1, 7, "first"));
        assert!(estimates.would_count(1, 7, "second") && estimates.launching(1, 7, "second"));
        assert!(estimates.launching(1, 7, "first"), "beside the new one");
        estimates.module_gone(7);
        assert!(estimates.end(1) && !estimates.end(1));
        assert!(estimates.launching(1, 7, "first"), "of another module");
    }

    #[test]
    fn all_count_where_nothing_is_drawn() {
        let mut estimates = Estimates::new(1);
        assert!(estimates.launching(1, 7, "kernel") && estimates.counts(1));
        assert_eq!((estimates.end(1), estimates.take_changed()), (false, vec![]));
    }
}
