//! Sums up `calls.csv`, grouped by the columns that a command asks for.
//!
//! Memory grows with the groups and the ranks in them, not with the rows. All sums are of whole
//! numbers, so that they do not depend on which thread read what.

use crate::filter::CallFilter;
use crate::processes::Processes;
use crate::scan::{self, BadField, Call, Fold};
use anyhow::{Result, bail};
use hashbrown::HashMap;
use mpisee_profile::{Profile, ProfileError, SiteId};
use std::hash::Hash;

mod aggregate;
mod names;
mod times;

pub use aggregate::of_sums;
pub use names::Names;
use names::Numbers;
pub use times::{OverRanks, Times};

/// The columns to group by; all other columns are ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct By {
    pub comm: bool,
    pub rank: bool,
    pub region: bool,
    pub call: bool,
    pub size: bool,
    pub site: bool,
    /// The time of each rank is not kept.
    pub without_times: bool,
}

/// A group: indices into the lists of [`Groups`], 0 in columns that are not grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    pub comm: u32,
    pub region: u32,
    pub call: u32,
    pub size: u32,
    pub site: u32,
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
        ranks: Times::NONE,
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

    /// Some calls of which neither the bytes nor the lengths are known.
    pub fn of_part(calls: u64, time_ns: u128, ranks: Times) -> Self {
        Cell { calls, time_ns, ranks, min_ns: 0, ..Cell::EMPTY }
    }

    /// The calls that are not among `part`, of which neither the bytes nor the lengths are known.
    pub fn without(&self, part: &Cell) -> Self {
        let calls = self.calls.saturating_sub(part.calls);
        let time_ns = self.time_ns.saturating_sub(part.time_ns);
        Cell::of_part(calls, time_ns, self.ranks.without(&part.ranks))
    }

    /// The sum of groups; an error, which names them, if counts are too large to be right.
    ///
    /// The times of ranks are sorted once, and not with each group as by [`Cell::merge`].
    pub fn sum<'c>(cells: impl IntoIterator<Item = &'c Cell>, name: &str) -> Result<Cell> {
        let mut cells = cells.into_iter();
        let Some(mut sum) = cells.next().cloned() else { return Ok(Cell::EMPTY) };
        for cell in cells {
            sum.add_sums(cell);
            sum.ranks.append(&cell.ranks);
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

/// The cells of one thread.
struct Collector<'a> {
    by: By,
    filter: &'a CallFilter,
    processes: &'a Processes,
    comms: Names,
    calls: Names,
    regions: Names,
    sizes: Numbers<(u64, u64)>,
    sites: Names,
    indices: HashMap<GroupKey, u32>,
    cells: Vec<(GroupKey, Cell)>,
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
            sites: Names::default(),
            indices: HashMap::new(),
            cells: Vec::new(),
            last: 0,
        }
    }

    /// The group of a row, if the filter takes it.
    fn key(&mut self, row: &Call<'_>) -> Result<Option<GroupKey>, BadField> {
        let Collector { by, filter, processes, .. } = self;
        let comm = self.comms.number(row.comm, "comm", |name| processes.takes_comm(&filter.comms, name))?;
        let call = self.calls.number(row.call, "call", |name| filter.takes_call(name))?;
        let region = self.regions.number(row.region, "region", |name| filter.takes_region(name))?;
        let (Some(comm), Some(call), Some(region)) = (comm, call, region) else { return Ok(None) };
        if !filter.takes_row(row.rank, row.size_min, row.size_max, row.memory) {
            return Ok(None);
        }
        let site = if by.site { site_number(&mut self.sites, row.site)? } else { 0 };
        let when = |wanted: bool, number: u32| if wanted { number } else { 0 };
        Ok(Some(GroupKey {
            comm: when(by.comm, comm),
            region: when(by.region, region),
            call: when(by.call, call),
            size: if by.size { self.sizes.number(&(row.size_min, row.size_max)) } else { 0 },
            site,
            rank: when(by.rank, row.rank),
        }))
    }

    fn cell(&mut self, key: GroupKey) -> &mut Cell {
        if self.cells.get(self.last).is_none_or(|(last, _)| *last != key) {
            let cells = &mut self.cells;
            self.last = *self.indices.entry(key).or_insert_with(|| {
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
        let sites = map(|all| &mut all.sites, &other.sites);
        let sizes: Vec<u32> = other.sizes.values.iter().map(|size| self.sizes.number(size)).collect();
        let new = |numbers: &[u32], old: u32| numbers.get(old as usize).copied().unwrap_or(0);
        for (key, cell) in other.cells {
            let GroupKey { comm, region, call, size, site, rank } = key;
            let when = |wanted: bool, number: u32| if wanted { number } else { 0 };
            let key = GroupKey {
                comm: when(self.by.comm, new(&comms, comm)),
                region: when(self.by.region, new(&regions, region)),
                call: when(self.by.call, new(&calls, call)),
                size: when(self.by.size, new(&sizes, size)),
                site: when(self.by.site, new(&sites, site)),
                rank,
            };
            self.cell(key).merge(cell);
        }
    }
}

/// The number of a site; an error if it is none. No site is one, too.
fn site_number(sites: &mut Names, digits: &[u8]) -> Result<u32, BadField> {
    let is_site = |text: &str| text.is_empty() || text.parse::<SiteId>().is_ok();
    sites.number(digits, "site", is_site)?.ok_or_else(|| {
        let text = String::from_utf8_lossy(digits).into_owned();
        let why = text.parse::<SiteId>().err().unwrap_or(text);
        BadField { column: "site", why }
    })
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
    pub cells: Vec<(GroupKey, Cell)>,
    pub comms: Vec<String>,
    pub regions: Vec<String>,
    pub calls: Vec<String>,
    /// Smallest and largest message of each size class.
    pub sizes: Vec<(u64, u64)>,
    /// Call sites; none is that of calls whose site is not known.
    pub sites: Vec<Option<SiteId>>,
    /// The error that ended reading; the sums are of the rows before it.
    pub cut_off: Option<ProfileError>,
}

impl Groups {
    /// The name of the group's communicator.
    pub fn comm(&self, key: &GroupKey) -> &str {
        &self.comms[key.comm as usize]
    }

    /// The name of the group's operation.
    pub fn call(&self, key: &GroupKey) -> &str {
        &self.calls[key.call as usize]
    }

    /// The name of the group's region.
    pub fn region(&self, key: &GroupKey) -> &str {
        &self.regions[key.region as usize]
    }

    /// The call site of the group.
    pub fn site(&self, key: &GroupKey) -> Option<SiteId> {
        self.sites[key.site as usize]
    }

    /// The size class of the group.
    pub fn size(&self, key: &GroupKey) -> (u64, u64) {
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
        let Collector { by, comms, calls, regions, sizes, sites, cells, .. } = self;
        let (comms, calls, regions) = (comms.names, calls.names, regions.names);
        let sites = sites.names.iter().map(|site| site.parse().ok()).collect();
        sorted(Groups { cells, comms, regions, calls, sizes: sizes.values, sites, cut_off }, by)
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
            if by.site { groups.sites[key.site as usize] } else { None },
            key.rank,
        )
    });
    groups.cells = cells;
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
