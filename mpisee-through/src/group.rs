//! Sums up `calls.csv`, grouped by the columns that a command asks for.
//!
//! What is held grows with the groups and the ranks in them, not with the rows. All sums are of whole numbers, so that
//! they do not depend on which thread read what.

use crate::filter::CallFilter;
use crate::processes::Processes;
use crate::scan::{self, BadField, Call, Fold};
use anyhow::{Result, bail};
use hashbrown::HashMap;
use mpisee_profile::{Profile, ProfileError};
use std::hash::Hash;

mod aggregate;

pub use aggregate::of_sums;

/// The columns to group by; all other columns are ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct By {
    pub comm: bool,
    pub rank: bool,
    pub region: bool,
    pub call: bool,
    pub size: bool,
    /// The time of each rank is not kept.
    pub without_times: bool,
}

/// A group: indices into the lists of [`Groups`], 0 in columns that are not grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub comm: u32,
    pub region: u32,
    pub call: u32,
    pub size: u32,
    pub rank: u32,
}

/// The sums of a group.
#[derive(Clone, Debug)]
pub struct Cell {
    pub calls: u64,
    pub bytes: u64,
    pub time_ns: u128,
    /// The shortest call.
    pub min_ns: u64,
    /// The longest call.
    pub max_ns: u64,
    /// The times of the ranks.
    pub ranks: Times,
    /// Some sum is 2^64 or more.
    overflowed: bool,
}

impl Cell {
    /// No call.
    pub const EMPTY: Cell = Cell {
        calls: 0,
        bytes: 0,
        time_ns: 0,
        min_ns: u64::MAX,
        max_ns: 0,
        ranks: Times::Each(RankTimes { times: Vec::new(), settled: 0 }),
        overflowed: false,
    };

    /// The time in seconds.
    pub fn time_s(&self) -> f64 {
        seconds(self.time_ns)
    }

    fn add(&mut self, [calls, bytes]: [u64; 2], time_ns: u128, [min_ns, max_ns]: [u64; 2]) {
        let mut sum = |into: &mut u64, more: u64| {
            let (sum, overflowed) = into.overflowing_add(more);
            *into = sum;
            self.overflowed |= overflowed;
        };
        sum(&mut self.calls, calls);
        sum(&mut self.bytes, bytes);
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }

    /// Adds the sums of another group.
    pub fn merge(&mut self, other: Cell) {
        self.add_sums(&other);
        self.ranks.merge(other.ranks);
    }

    fn add_sums(&mut self, other: &Cell) {
        self.add([other.calls, other.bytes], other.time_ns, [other.min_ns, other.max_ns]);
        self.overflowed |= other.overflowed;
    }

    /// The sum of groups; an error, which names them, if counts are too large to be right.
    ///
    /// The times of ranks are sorted once, and not with each group as by [`Cell::merge`].
    pub fn sum<'c>(cells: impl IntoIterator<Item = &'c Cell>, name: &str) -> Result<Cell> {
        let mut cells = cells.into_iter();
        let Some(mut sum) = cells.next().cloned() else { return Ok(Cell::EMPTY) };
        for cell in cells {
            sum.add_sums(cell);
            match (&mut sum.ranks, &cell.ranks) {
                (Times::Each(times), Times::Each(more)) => times.times.extend_from_slice(&more.times),
                (ranks, _) => *ranks = Times::Unknown,
            }
        }
        sum.ranks.settle();
        if sum.overflowed {
            bail!("calls.csv: the counts of {name} add up to 2^64 or more, so they are wrong");
        }
        Ok(sum)
    }
}

/// Nanoseconds as seconds.
pub fn seconds(nanoseconds: impl Into<u128>) -> f64 {
    nanoseconds.into() as f64 / 1e9
}

/// The times of some ranks.
#[derive(Clone, Debug)]
pub enum Times {
    /// Rank by rank.
    Each(RankTimes),
    /// Statistics over ranks, in an aggregated profile.
    Over(OverRanks),
    /// Unknown: the sum of several rows that are themselves aggregated over ranks.
    Unknown,
}

/// How the times of ranks differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverRanks {
    /// How many have rows.
    pub ranks: u64,
    /// The least of these.
    pub least_ns: u64,
    pub most_ns: u64,
    /// The first rank that has most.
    pub most_rank: u32,
    /// The standard deviation over these.
    pub deviation_s: f64,
}

impl Times {
    /// How many ranks have rows, if that is known.
    pub fn ranks(&self) -> Option<u64> {
        match self {
            Times::Each(times) => Some(times.len() as u64),
            Times::Over(over) => Some(over.ranks),
            Times::Unknown => None,
        }
    }

    /// The least time of a rank; a rank without rows has none.
    pub fn least_ns(&self, of: u64) -> Option<u64> {
        let least_ns = match self {
            Times::Each(times) => times.min_ns(),
            Times::Over(over) => over.least_ns,
            Times::Unknown => return None,
        };
        Some(if self.ranks().is_some_and(|ranks| ranks >= of) { least_ns } else { 0 })
    }

    /// The time of the rank that has most.
    pub fn most_ns(&self) -> Option<u64> {
        match self {
            Times::Each(times) => Some(times.max_ns()),
            Times::Over(over) => Some(over.most_ns),
            Times::Unknown => None,
        }
    }

    /// The first rank that has most.
    pub fn most_rank(&self) -> Option<u32> {
        match self {
            Times::Each(times) => times
                .iter()
                .max_by_key(|&(rank, time_ns)| (time_ns, std::cmp::Reverse(rank)))
                .map(|(rank, _)| rank),
            Times::Over(over) => Some(over.most_rank),
            Times::Unknown => None,
        }
    }

    /// The standard deviation over `of` ranks with this mean; a rank without rows has no time.
    pub fn deviation_s(&self, of: u64, mean_s: f64) -> Option<f64> {
        let (with_rows, squares) = match self {
            Times::Each(times) => {
                let squares =
                    times.iter().map(|(_, time_ns)| (seconds(time_ns) - mean_s).powi(2)).sum::<f64>();
                (times.len() as u64, squares)
            }
            Times::Over(over) => {
                // Those with rows have a mean of their own.
                let ranks = over.ranks.max(1) as f64;
                let own_mean_s = mean_s * of as f64 / ranks;
                (over.ranks, ranks * (over.deviation_s.powi(2) + (own_mean_s - mean_s).powi(2)))
            }
            Times::Unknown => return None,
        };
        let without_rows = of.saturating_sub(with_rows) as f64;
        Some(((squares + without_rows * mean_s.powi(2)) / of.max(1) as f64).sqrt())
    }

    /// Rank and nanoseconds, ascending by rank; nothing where rows are sums over ranks.
    pub fn each(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let times = match self {
            Times::Each(times) => Some(times),
            Times::Over(_) | Times::Unknown => None,
        };
        times.into_iter().flat_map(RankTimes::iter)
    }

    fn add(&mut self, rank: u32, time_ns: u64) {
        if let Times::Each(times) = self {
            times.add(rank, time_ns);
        }
    }

    fn settle(&mut self) {
        if let Times::Each(times) = self {
            times.settle();
        }
    }

    fn merge(&mut self, other: Times) {
        *self = match (std::mem::replace(self, Times::Unknown), other) {
            (Times::Each(mut times), Times::Each(other)) => {
                times.merge(other);
                Times::Each(times)
            }
            (Times::Each(nothing), other) if nothing.len() == 0 => other,
            (own, Times::Each(nothing)) if nothing.len() == 0 => own,
            _ => Times::Unknown,
        };
    }
}

/// Time in nanoseconds per rank.
#[derive(Clone, Debug, Default)]
pub struct RankTimes {
    /// Ascending by rank up to `settled`, in any order and with repetitions after it.
    times: Vec<(u32, u64)>,
    settled: usize,
}

impl RankTimes {
    fn add(&mut self, rank: u32, time_ns: u64) {
        let all_settled = self.settled == self.times.len();
        if let Some((last, sum_ns)) = self.times.last_mut()
            && *last == rank
        {
            *sum_ns = sum_ns.saturating_add(time_ns);
            return;
        }
        // PERF: tables are written rank by rank, so that it is mostly a new last one.
        let is_next = all_settled && self.times.last().is_none_or(|&(last, _)| last < rank);
        self.times.push((rank, time_ns));
        if is_next {
            self.settled += 1;
        } else if self.times.len() > 2 * self.settled + 64 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.settled < self.times.len() {
            self.times.sort_unstable_by_key(|&(rank, _)| rank);
            self.times.dedup_by(|(next, time_ns), (rank, sum_ns)| {
                let same = next == rank;
                if same {
                    *sum_ns = sum_ns.saturating_add(*time_ns);
                }
                same
            });
            self.settled = self.times.len();
        }
    }

    fn merge(&mut self, mut other: RankTimes) {
        self.settle();
        other.settle();
        // PERF: the last rank of one thread's block may be the first of the other's.
        self.times.append(&mut other.times);
        self.settle();
    }

    /// Rank and nanoseconds, ascending by rank.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u64)> + '_ {
        self.times.iter().copied()
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The time of the rank that has least.
    pub fn min_ns(&self) -> u64 {
        self.iter().map(|(_, time_ns)| time_ns).min().unwrap_or(0)
    }

    /// The time of the rank that has most.
    pub fn max_ns(&self) -> u64 {
        self.iter().map(|(_, time_ns)| time_ns).max().unwrap_or(0)
    }
}

/// Numbers for values, in the order in which they come up.
#[derive(Debug)]
struct Numbers<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn number(&mut self, value: &T) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }
}

/// Numbers for names, each with the filter's decision from when it was first seen.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<Vec<u8>, (u32, bool)>,
    names: Vec<String>,
    /// PERF: neighbouring rows mostly have the same name.
    last: (Vec<u8>, Option<u32>),
}

impl Names {
    /// The number of the name, if the filter takes it; `is_wanted` is called once per name.
    fn number(
        &mut self,
        name: &[u8],
        column: &'static str,
        is_wanted: impl FnOnce(&str) -> bool,
    ) -> Result<Option<u32>, BadField> {
        if self.last.0 == name && !self.names.is_empty() {
            return Ok(self.last.1);
        }
        let (number, wanted) = match self.numbers.get(name) {
            Some(&known) => known,
            None => {
                let text = std::str::from_utf8(name)
                    .map_err(|_| BadField { column, why: "the text is not UTF-8".to_owned() })?;
                self.insert(text, is_wanted(text))
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name);
        self.last.1 = wanted.then_some(number);
        Ok(self.last.1)
    }

    /// The number of a name that is wanted.
    fn number_of(&mut self, name: &str) -> u32 {
        let known = self.numbers.get(name.as_bytes()).copied();
        known.unwrap_or_else(|| self.insert(name, true)).0
    }

    fn insert(&mut self, name: &str, is_wanted: bool) -> (u32, bool) {
        let next = (self.names.len() as u32, is_wanted);
        self.numbers.insert(name.as_bytes().to_vec(), next);
        self.names.push(name.to_owned());
        next
    }
}

/// The cells of one thread.
struct Collector<'a> {
    by: By,
    filter: &'a CallFilter,
    processes: &'a Processes,
    comms: Names,
    calls: Names,
    regions: Names,
    sizes: Numbers<(u64, u64)>,
    places: HashMap<Key, u32>,
    cells: Vec<(Key, Cell)>,
    last: usize,
}

impl<'a> Collector<'a> {
    fn new(by: By, filter: &'a CallFilter, processes: &'a Processes) -> Self {
        Collector {
            by,
            filter,
            processes,
            comms: Names::default(),
            calls: Names::default(),
            regions: Names::default(),
            sizes: Numbers::default(),
            places: HashMap::new(),
            cells: Vec::new(),
            last: 0,
        }
    }

    /// The group of a row, if the filter takes it.
    fn key(&mut self, row: &Call<'_>) -> Result<Option<Key>, BadField> {
        let Collector { by, filter, processes, .. } = self;
        let comm = self
            .comms
            .number(row.comm, "comm", |name| filter.comms.takes_comm(name, processes.comms.get(name)))?;
        let call = self.calls.number(row.call, "call", |name| filter.takes_call(name))?;
        let region = self.regions.number(row.region, "region", |name| filter.takes_region(name))?;
        let (Some(comm), Some(call), Some(region)) = (comm, call, region) else { return Ok(None) };
        if !filter.takes_row(row.rank, row.size_min, row.size_max, row.memory) {
            return Ok(None);
        }
        let when = |asked: bool, number: u32| if asked { number } else { 0 };
        Ok(Some(Key {
            comm: when(by.comm, comm),
            region: when(by.region, region),
            call: when(by.call, call),
            size: if by.size { self.sizes.number(&(row.size_min, row.size_max)) } else { 0 },
            rank: when(by.rank, row.rank),
        }))
    }

    fn cell(&mut self, key: Key) -> &mut Cell {
        if self.cells.get(self.last).is_none_or(|(last, _)| *last != key) {
            let cells = &mut self.cells;
            self.last = *self.places.entry(key).or_insert_with(|| {
                cells.push((key, Cell::EMPTY));
                (cells.len() - 1) as u32
            }) as usize;
        }
        &mut self.cells[self.last].1
    }

    /// Adds the cells of another thread.
    fn merge(&mut self, other: Collector<'_>) {
        let known = |_: &str| true;
        // Names were checked when they came up, so that none is refused here.
        let mut map = |names: fn(&mut Self) -> &mut Names, from: &Names| -> Vec<u32> {
            let number =
                |name: &String| names(self).number(name.as_bytes(), "", known).ok().flatten().unwrap_or(0);
            from.names.iter().map(number).collect()
        };
        let comms = map(|all| &mut all.comms, &other.comms);
        let calls = map(|all| &mut all.calls, &other.calls);
        let regions = map(|all| &mut all.regions, &other.regions);
        let sizes: Vec<u32> = other.sizes.values.iter().map(|size| self.sizes.number(size)).collect();
        let new = |numbers: &[u32], old: u32| numbers.get(old as usize).copied().unwrap_or(0);
        for (key, cell) in other.cells {
            let Key { comm, region, call, size, rank } = key;
            let when = |asked: bool, number: u32| if asked { number } else { 0 };
            let key = Key {
                comm: when(self.by.comm, new(&comms, comm)),
                region: when(self.by.region, new(&regions, region)),
                call: when(self.by.call, new(&calls, call)),
                size: when(self.by.size, new(&sizes, size)),
                rank,
            };
            self.cell(key).merge(cell);
        }
    }
}

impl Fold<Call<'static>> for Collector<'_> {
    fn row(&mut self, row: &Call<'_>) -> Result<(), BadField> {
        let Some(key) = self.key(row)? else { return Ok(()) };
        let with_times = !(self.by.rank || self.by.without_times);
        let cell = self.cell(key);
        cell.add([row.calls, row.bytes], row.time_ns.into(), [row.min_ns, row.max_ns]);
        if with_times {
            cell.ranks.add(row.rank, row.time_ns);
        }
        Ok(())
    }
}

/// All groups, and the names of what their keys say.
pub struct Groups {
    /// Sums by group, in the order of the names.
    pub cells: Vec<(Key, Cell)>,
    pub comms: Vec<String>,
    pub regions: Vec<String>,
    pub calls: Vec<String>,
    /// Smallest and largest message of each size class.
    pub sizes: Vec<(u64, u64)>,
    /// The error that ended reading; the sums are of the rows before it.
    pub cut_off: Option<ProfileError>,
}

impl Groups {
    /// The name of the group's communicator.
    pub fn comm(&self, key: &Key) -> &str {
        &self.comms[key.comm as usize]
    }

    /// The name of the group's operation.
    pub fn call(&self, key: &Key) -> &str {
        &self.calls[key.call as usize]
    }

    /// The name of the group's region.
    pub fn region(&self, key: &Key) -> &str {
        &self.regions[key.region as usize]
    }

    /// The size class of the group.
    pub fn size(&self, key: &Key) -> (u64, u64) {
        self.sizes[key.size as usize]
    }
}

/// Sums up the rows of `calls.csv` that the filter takes.
pub fn of_rows(profile: &Profile, processes: &Processes, filter: &CallFilter, by: By) -> Result<Groups> {
    let make = || Collector::new(by, filter, processes);
    let scanned = scan::scan::<Call, Collector<'_>>(profile, make)?;
    let mut folds = scanned.folds.into_iter();
    let mut all = folds.next().unwrap_or_else(make);
    for other in folds {
        all.merge(other);
    }
    for (_, cell) in &mut all.cells {
        cell.ranks.settle();
    }
    all.groups(scanned.cut_off)
}

impl Collector<'_> {
    /// Its groups, in the order of names.
    fn groups(self, cut_off: Option<ProfileError>) -> Result<Groups> {
        let Collector { by, comms, calls, regions, sizes, cells, .. } = self;
        let (comms, calls, regions) = (comms.names, calls.names, regions.names);
        sorted(Groups { cells, comms, regions, calls, sizes: sizes.values, cut_off }, by)
    }
}

/// Sorts by name, since the order in which threads first see a name varies.
fn sorted(mut groups: Groups, by: By) -> Result<Groups> {
    for (key, cell) in &groups.cells {
        if cell.overflowed {
            let comm = if by.comm { groups.comm(key) } else { "a group of rows" };
            bail!("calls.csv: the counts of {comm} add up to 2^64 or more, so they are wrong");
        }
    }
    let mut cells = std::mem::take(&mut groups.cells);
    let name = |by: bool, names: &[String], number: u32| {
        if by { names[number as usize].clone() } else { String::new() }
    };
    cells.sort_by_cached_key(|(key, _)| {
        (
            name(by.comm, &groups.comms, key.comm),
            name(by.region, &groups.regions, key.region),
            name(by.call, &groups.calls, key.call),
            if by.size { groups.sizes[key.size as usize] } else { (0, 0) },
            key.rank,
        )
    });
    groups.cells = cells;
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn times_per_rank_do_not_depend_on_the_order_of_rows(
            rows in proptest::collection::vec((0u32..90, 0u64..1000), 0..400),
            cut in 0usize..400
        ) {
            let cut = cut.min(rows.len());
            let mut parts = [RankTimes::default(), RankTimes::default()];
            let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
            for (index, &(rank, time)) in rows.iter().enumerate() {
                parts[usize::from(index >= cut)].add(rank, time);
                *expected.entry(rank).or_default() += time;
            }
            let [mut times, other] = parts;
            times.merge(other);
            prop_assert_eq!(times.iter().collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn groups_add_up() {
        let cell = |ranks: &[(u32, u64)]| {
            let mut cell = Cell::EMPTY;
            for &(rank, time_ns) in ranks {
                cell.add([2, 10], time_ns.into(), [time_ns, time_ns]);
                cell.ranks.add(rank, time_ns);
            }
            cell
        };
        let sum = Cell::sum(&[cell(&[(1, 5), (3, 7)]), cell(&[(0, 1), (3, 2)])], "W").unwrap();
        assert_eq!((sum.calls, sum.bytes, sum.time_ns, sum.min_ns, sum.max_ns), (8, 40, 15, 1, 7));
        assert_eq!(sum.ranks.each().collect::<Vec<_>>(), [(0, 1), (1, 5), (3, 9)]);
        assert_eq!(Cell::sum(&[], "W").unwrap().calls, 0);
        let huge = Cell { calls: u64::MAX, ..Cell::EMPTY };
        let error = Cell::sum(&[huge.clone(), huge], "W_s1.0").unwrap_err().to_string();
        assert!(error.contains("W_s1.0") && error.contains("2^64"), "{error}");
    }

    #[test]
    fn a_name_is_judged_once() {
        let mut names = Names::default();
        assert_eq!(names.number(b"W", "comm", |_| true), Ok(Some(0)));
        assert_eq!(names.number(b"S", "comm", |_| false), Ok(None));
        assert_eq!(names.number(b"W", "comm", |_| unreachable!()), Ok(Some(0)));
        assert_eq!(names.number(b"S", "comm", |_| unreachable!()), Ok(None));
        assert_eq!(names.names, ["W", "S"]);
        assert_eq!(names.number(b"\xff", "comm", |_| true).unwrap_err().column, "comm");
    }

    #[test]
    fn the_first_name_may_be_empty() {
        let mut names = Names::default();
        assert_eq!(names.number(b"", "region", |_| true), Ok(Some(0)));
        assert_eq!(names.number(b"", "region", |_| unreachable!()), Ok(Some(0)));
    }
}
