//! The intervals of one node, while its agent runs: bounded, by joining neighbouring intervals.

use hashbrown::HashMap;
use mpisee_profile::rows::{NodeRateRow, RateRow, Seconds};

/// Numbers for texts that come again and again.
#[derive(Debug, Default)]
pub struct Names<T> {
    numbers: HashMap<T, u32>,
    all: Vec<T>,
}

impl<T: Clone + Eq + std::hash::Hash> Names<T> {
    /// The number of a name.
    pub fn number(&mut self, name: T) -> u32 {
        let next = self.all.len() as u32;
        let all = &mut self.all;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            all.push(name.clone());
            next
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, by number.
    pub fn all(&self) -> &[T] {
        &self.all
    }
}

/// A family of communicators, and an operation.
pub type CallName = (String, String);

/// Source, device and quantity.
pub type QuantityName = (String, String, String);

/// Counts of a node's ranks in an interval, in calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// The number of the name.
    pub name: u32,
    /// As the columns of [`RateRow`].
    pub ranks: u32,
    pub inside: u32,
    pub longest_s: f64,
    pub calls: u64,
    pub bytes: u64,
    pub time_s: f64,
    /// NaN if it is not known.
    pub min_s: f64,
    pub max_s: f64,
}

/// A node's counters in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeRate {
    /// The number of the name.
    pub name: u32,
    pub value: f64,
}

/// Begin and length, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub begin_s: f64,
    pub length_s: f64,
}

/// All intervals so far.
#[derive(Debug)]
pub struct History {
    host: String,
    most_rows: usize,
    pub calls: Names<CallName>,
    pub quantities: Names<QuantityName>,
    intervals: Vec<Interval>,
    /// By interval, and each interval's in the order of names.
    rates: Vec<(u32, Rate)>,
    node_rates: Vec<(u32, NodeRate)>,
}

impl History {
    /// Without an interval; `most_rows` are kept at most, where one interval has not more.
    pub fn new(host: &str, most_rows: usize) -> Self {
        History {
            host: host.to_owned(),
            most_rows,
            calls: Names::default(),
            quantities: Names::default(),
            intervals: Vec::new(),
            rates: Vec::new(),
            node_rates: Vec::new(),
        }
    }

    /// Gives the node another name.
    pub fn rename(&mut self, host: &str) {
        host.clone_into(&mut self.host);
    }

    /// How many intervals there are.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// When the last interval ended, in seconds; 0 before the first.
    pub fn end_s(&self) -> f64 {
        self.intervals.last().map_or(0.0, |last| last.begin_s + last.length_s)
    }

    /// Appends an interval; rates are in the order of their names.
    pub fn push(&mut self, interval: Interval, rates: &[Rate], node_rates: &[NodeRate]) {
        let number = self.intervals.len() as u32;
        self.intervals.push(interval);
        self.rates.extend(rates.iter().map(|&rate| (number, rate)));
        self.node_rates.extend(node_rates.iter().map(|&rate| (number, rate)));
    }

    /// Returns whether there are more rows than there may be, and intervals that can be joined.
    pub fn is_too_large(&self) -> bool {
        self.rates.len() + self.node_rates.len() > self.most_rows && self.intervals.len() > 1
    }

    /// Joins each interval with the next: half of them are left.
    pub fn join_pairs(&mut self) {
        let pairs = self.intervals.chunks(2).map(|pair| Interval {
            begin_s: pair[0].begin_s,
            length_s: pair.iter().map(|interval| interval.length_s).sum(),
        });
        self.intervals = pairs.collect();
        let rates = std::mem::take(&mut self.rates);
        self.rates = joined(rates, |rate| rate.name, Rate::add);
        let quantities = &self.quantities.all;
        let node_rates = std::mem::take(&mut self.node_rates);
        self.node_rates = joined(
            node_rates,
            |rate| rate.name,
            |sum, next| {
                let quantity = quantities.get(sum.name as usize).map_or("", |name| name.2.as_str());
                sum.value = joined_value(quantity, sum.value, next.value);
            },
        );
    }

    /// The rows of ranks, from the interval with this number on.
    pub fn rate_rows(&self, from: usize) -> impl Iterator<Item = RateRow> + '_ {
        let known = |seconds: f64| (!seconds.is_nan()).then_some(Seconds(seconds));
        let begin = self.rates.partition_point(|(interval, _)| (*interval as usize) < from);
        self.rates[begin..].iter().map(move |&(interval, rate)| {
            let Interval { begin_s, length_s } = self.intervals[interval as usize];
            let (family, call) = self.calls.all[rate.name as usize].clone();
            RateRow {
                host: self.host.clone(),
                begin_s: Seconds(begin_s),
                length_s: Seconds(length_s),
                family,
                call,
                ranks: rate.ranks,
                inside: rate.inside,
                longest_s: Seconds(rate.longest_s),
                calls: rate.calls,
                bytes: rate.bytes,
                time_s: Seconds(rate.time_s),
                min_s: known(rate.min_s),
                max_s: known(rate.max_s),
            }
        })
    }

    /// The rows of the node, from the interval with this number on.
    pub fn node_rows(&self, from: usize) -> impl Iterator<Item = NodeRateRow> + '_ {
        let begin = self.node_rates.partition_point(|(interval, _)| (*interval as usize) < from);
        self.node_rates[begin..].iter().map(move |&(interval, rate)| {
            let Interval { begin_s, length_s } = self.intervals[interval as usize];
            let (source, device, quantity) = self.quantities.all[rate.name as usize].clone();
            NodeRateRow {
                host: self.host.clone(),
                begin_s: Seconds(begin_s),
                length_s: Seconds(length_s),
                source,
                device,
                quantity,
                value: rate.value,
            }
        })
    }

    /// Calls, bytes and seconds so far, by name.
    pub fn totals(&self) -> Vec<(u64, u64, f64)> {
        let mut totals = vec![(0u64, 0u64, 0.0); self.calls.len()];
        for (_, rate) in &self.rates {
            let (calls, bytes, time_s) = &mut totals[rate.name as usize];
            *calls = calls.wrapping_add(rate.calls);
            *bytes = bytes.wrapping_add(rate.bytes);
            *time_s += rate.time_s;
        }
        totals
    }

    /// The sums of the node's counters so far, by the number of the name.
    pub fn node_totals(&self) -> HashMap<u32, f64> {
        let mut totals = HashMap::new();
        for (_, rate) in &self.node_rates {
            *totals.entry(rate.name).or_default() += rate.value;
        }
        totals
    }

    /// Takes over the rows that an earlier agent of the node wrote. Each interval has a row of the
    /// node, of the job's ranks.
    pub fn take_over(&mut self, rates: Vec<RateRow>, node_rates: Vec<NodeRateRow>) {
        let mut rates = rates.into_iter().peekable();
        let mut node_rates = node_rates.into_iter().peekable();
        while let Some(first) = node_rates.peek() {
            let interval = Interval { begin_s: first.begin_s.0, length_s: first.length_s.0 };
            let (mut of_calls, mut of_node) = (Vec::new(), Vec::new());
            while let Some(row) = node_rates.next_if(|row| row.begin_s.0 <= interval.begin_s) {
                let name = self.quantities.number((row.source, row.device, row.quantity));
                of_node.push(NodeRate { name, value: row.value });
            }
            while let Some(row) = rates.next_if(|row| row.begin_s.0 <= interval.begin_s) {
                let name = self.calls.number((row.family, row.call));
                let seconds = |seconds: Option<Seconds>| seconds.map_or(f64::NAN, |seconds| seconds.0);
                let (min_s, max_s) = (seconds(row.min_s), seconds(row.max_s));
                let RateRow { ranks, inside, calls, bytes, .. } = row;
                let (time_s, longest_s) = (row.time_s.0, row.longest_s.0);
                of_calls.push(Rate { name, ranks, inside, longest_s, calls, bytes, time_s, min_s, max_s });
            }
            self.push(interval, &of_calls, &of_node);
        }
    }
}

impl Rate {
    /// Adds the next interval: what the rank with least time had in both is at least the sum of the
    /// least.
    fn add(&mut self, next: Rate) {
        self.ranks = self.ranks.max(next.ranks);
        self.inside = next.inside;
        self.longest_s = next.longest_s;
        self.calls = self.calls.saturating_add(next.calls);
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.time_s += next.time_s;
        self.min_s += next.min_s;
        self.max_s += next.max_s;
    }
}

/// The rows of intervals that were joined in pairs; `name` distinguishes the rows of an interval.
fn joined<T: Copy>(
    rows: Vec<(u32, T)>,
    name: impl Fn(&T) -> u32,
    mut add: impl FnMut(&mut T, T),
) -> Vec<(u32, T)> {
    let mut all: Vec<(u32, T)> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for (interval, row) in rows {
        let interval = interval / 2;
        if all.last().is_none_or(|(last, _)| *last != interval) {
            places.clear();
        }
        let next = all.len();
        match *places.entry(name(&row)).or_insert(next) {
            place if place < next => add(&mut all[place].1, row),
            _ => all.push((interval, row)),
        }
    }
    all
}

/// The value of two intervals: what was counted adds up.
fn joined_value(quantity: &str, one: f64, next: f64) -> f64 {
    match quantity {
        "available_bytes" => one.min(next),
        "used_bytes" | "level" => one.max(next),
        "ranks" => next,
        _ => one + next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(most_rows: usize, intervals: u32) -> History {
        let mut history = History::new("n1", most_rows);
        let send = history.calls.number(("W".to_owned(), "MPI_Send".to_owned()));
        let recv = history.calls.number(("W".to_owned(), "MPI_Recv".to_owned()));
        let quantity = |source: &str, quantity: &str| (source.to_owned(), String::new(), quantity.to_owned());
        let ranks = history.quantities.number(quantity("job", "ranks"));
        let memory = history.quantities.number(quantity("memory", "available_bytes"));
        let sent = history.quantities.number(quantity("network", "sent_bytes"));
        for number in 0..intervals {
            let rate = |name, calls: u32| Rate {
                name,
                ranks: 2,
                inside: number,
                longest_s: f64::from(number) / 4.0,
                calls: calls.into(),
                bytes: 8 * u64::from(calls),
                time_s: 0.5,
                min_s: 0.1,
                max_s: 0.4,
            };
            let of_node = [(ranks, 2.0), (memory, 100.0 - f64::from(number)), (sent, 10.0)];
            let of_node = of_node.map(|(name, value)| NodeRate { name, value });
            let interval = Interval { begin_s: number.into(), length_s: 1.0 };
            // Receives in every second interval alone.
            let rates = [rate(send, number), rate(recv, 7)];
            history.push(interval, &rates[..if number % 2 == 0 { 2 } else { 1 }], &of_node);
            if history.is_too_large() {
                history.join_pairs();
            }
        }
        history
    }

    #[test]
    fn intervals_are_joined_in_pairs_and_nothing_is_lost() {
        let mut history = history(1000, 5);
        let before = history.totals();
        history.join_pairs();
        assert_eq!(history.totals(), before);
        let rows: Vec<RateRow> = history.rate_rows(0).collect();
        let brief = |row: &RateRow| (row.begin_s.0, row.length_s.0, row.call.clone(), row.calls, row.inside);
        let expected = [
            (0.0, 2.0, "MPI_Send", 1, 1),
            (0.0, 2.0, "MPI_Recv", 7, 0),
            (2.0, 2.0, "MPI_Send", 5, 3),
            (2.0, 2.0, "MPI_Recv", 7, 2),
            (4.0, 1.0, "MPI_Send", 4, 4),
            (4.0, 1.0, "MPI_Recv", 7, 4),
        ];
        let expected = expected
            .map(|(begin, length, call, calls, inside)| (begin, length, call.to_owned(), calls, inside));
        assert_eq!(rows.iter().map(brief).collect::<Vec<_>>(), expected);
        let send = &rows[0];
        assert_eq!(
            (send.min_s, send.max_s, send.time_s),
            (Some(Seconds(0.2)), Some(Seconds(0.8)), Seconds(1.0))
        );
        let values: Vec<f64> = history.node_rows(0).map(|row| row.value).collect();
        assert_eq!(values, [2.0, 99.0, 20.0, 2.0, 97.0, 20.0, 2.0, 96.0, 10.0]);
        assert_eq!(history.rate_rows(2).count(), 2);
    }

    #[test]
    fn rows_stay_within_their_limit() {
        let history = history(100, 5000);
        assert!(history.rates.len() + history.node_rates.len() <= 105, "{}", history.len());
        let calls: u64 = history.totals().iter().map(|(calls, ..)| calls).sum();
        assert_eq!(calls, (0..5000).sum::<u64>() + 2500 * 7);
        let mut at_s = 0.0;
        for interval in &history.intervals {
            assert_eq!(interval.begin_s, at_s);
            at_s += interval.length_s;
        }
        assert_eq!(at_s, 5000.0);
    }

    #[test]
    fn rows_that_were_written_are_taken_over() {
        let before = history(1000, 5);
        let mut after = History::new("n1", 1000);
        after.take_over(before.rate_rows(0).collect(), before.node_rows(0).collect());
        assert_eq!(after.totals(), before.totals());
        assert_eq!((after.len(), after.end_s()), (5, 5.0));
        assert!(after.rate_rows(0).eq(before.rate_rows(0)) && after.node_rows(0).eq(before.node_rows(0)));
    }
}
