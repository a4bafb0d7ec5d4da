//! Call sites and call paths over ranks.

use super::sums::{Join, Spread, merge, merge_equal_keys};
use super::{ALL, Aggregate, CellKey, put};
use crate::site_tables::SiteTables;
use mpisee_profile::Operation;
use mpisee_profile::rows::{PathTotalRow, SiteRow, SiteTotalRow, StackRow};
use mpisee_profile::site::{MOST_SITES_OF_RANKS, PathId, SiteId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Call sites, and call paths, that are kept: those with the smallest identifiers, which are the
/// same in whatever order ranks are merged.
const MOST_SITES: usize = MOST_SITES_OF_RANKS;
const MOST_PATHS: usize = 1 << 14;

/// The call sites and call paths of some ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteSums {
    sites: BTreeMap<SiteId, SiteRow>,
    stacks: BTreeMap<PathId, String>,
    paths: Vec<(PathKey, OverRanks)>,
    /// By site and operation.
    totals: Vec<((SiteId, u16), OverRanks)>,
    /// True if there were more.
    has_more: bool,
}

/// A row of `path-totals.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct PathKey {
    path: PathId,
    comm: u32,
    operation: u16,
}

/// The sums of a row of `path-totals.csv` or `site-totals.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OverRanks {
    ranks: u64,
    calls: u64,
    time: Spread,
}

impl Join for OverRanks {
    fn join(&mut self, other: Self) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.calls = self.calls.saturating_add(other.calls);
        self.time.join(other.time);
    }
}

/// The sums of one rank for such a row.
#[derive(Clone, Copy)]
struct RankSums {
    calls: u64,
    time_ns: u64,
}

impl Join for RankSums {
    fn join(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }
}

impl SiteSums {
    /// Of one rank, with the numbers of its communicators, and its rows of `totals.csv`.
    pub(super) fn from_tables(
        rank: u32,
        tables: &SiteTables,
        numbers: &HashMap<String, u32>,
        cells: &[(CellKey, super::Own)],
    ) -> SiteSums {
        let path = |row: &mpisee_profile::rows::PathRow| {
            let comm = numbers.get(&row.comm).copied().unwrap_or(ALL);
            let operation = Operation::from_name(&row.call)? as u16;
            let sums = RankSums { calls: row.calls, time_ns: row.time_s.to_ns() };
            Some((PathKey { path: row.path, comm, operation }, sums))
        };
        let of_paths = merge_equal_keys(tables.paths.iter().filter_map(path).collect());
        let at_site = |(key, own): &(CellKey, super::Own)| {
            let sums = RankSums { calls: own.sums.calls, time_ns: own.time_ns };
            Some(((key.site?, key.operation), sums))
        };
        let of_sites = merge_equal_keys(cells.iter().filter_map(at_site).collect());
        let sum = |RankSums { calls, time_ns }| OverRanks {
            ranks: 1,
            calls,
            time: Spread::from_value(rank, time_ns),
        };
        SiteSums {
            sites: tables.sites.iter().map(|row| (row.site, row.clone())).collect(),
            stacks: tables.stacks.iter().map(|row| (row.path, row.sites.clone())).collect(),
            paths: of_paths.into_iter().map(|(key, sums)| (key, sum(sums))).collect(),
            totals: of_sites.into_iter().map(|(key, sums)| (key, sum(sums))).collect(),
            has_more: false,
        }
    }

    /// Adds those of other ranks.
    pub(super) fn merge(&mut self, mut other: SiteSums) {
        for (id, site) in std::mem::take(&mut other.sites) {
            // The same binary may have another path there.
            let known = self.sites.entry(id).or_insert_with(|| site.clone());
            if site.module < known.module {
                *known = site;
            }
        }
        self.stacks.append(&mut other.stacks);
        merge(&mut self.paths, other.paths);
        merge(&mut self.totals, other.totals);
        self.has_more |= other.has_more || self.sites.len() > MOST_SITES || self.stacks.len() > MOST_PATHS;
        if self.sites.len() > MOST_SITES {
            while self.sites.len() > MOST_SITES {
                self.sites.pop_last();
            }
            self.totals.retain(|((site, _), _)| self.sites.contains_key(site));
            self.stacks.retain(|_, stack| goes_through(stack, &self.sites));
        }
        while self.stacks.len() > MOST_PATHS {
            self.stacks.pop_last();
        }
        // Ranks that were merged before have lost the stacks of these paths to the limits.
        if self.has_more {
            self.paths.retain(|(key, _)| self.stacks.contains_key(&key.path));
        }
    }

    /// Renumbers communicators after a merge. The order stays.
    pub(super) fn renumber(&mut self, comms: &[u32]) {
        self.paths.iter_mut().for_each(|(key, _)| put(&mut key.comm, comms));
    }

    /// Returns whether the sums are in order, and every communicator is one of `comms`.
    pub(super) fn is_sound(&self, comms: usize) -> bool {
        let is_comm = |comm: u32| (comm as usize) < comms || comm == ALL;
        let is_call = |operation: u16| Operation::from_index(u64::from(operation)).is_some();
        self.paths.is_sorted_by(|(left, _), (right, _)| left < right)
            && self.totals.is_sorted_by(|(left, _), (right, _)| left < right)
            && self.totals.iter().all(|((_, operation), _)| is_call(*operation))
            && self.paths.iter().all(|(key, _)| is_comm(key.comm) && is_call(key.operation))
    }

    /// The rows of `sites.csv`.
    pub(super) fn sites(&self) -> Vec<SiteRow> {
        self.sites.values().cloned().collect()
    }

    /// The rows of `stacks.csv`.
    pub(super) fn stacks(&self) -> Vec<StackRow> {
        self.stacks.iter().map(|(path, sites)| StackRow { path: *path, sites: sites.clone() }).collect()
    }

    /// The rows of `site-totals.csv`.
    pub(super) fn totals(&self) -> Vec<SiteTotalRow> {
        let row = |((site, operation), sum): &((SiteId, u16), OverRanks)| {
            let [time_s, time_min_s, time_max_s] = super::tables::seconds_of(&sum.time);
            SiteTotalRow {
                site: *site,
                call: super::tables::call_name((*operation).into()),
                ranks: sum.ranks,
                calls: sum.calls,
                time_s,
                time_min_s,
                time_max_s,
                time_max_rank: sum.time.max_rank,
            }
        };
        self.totals.iter().map(row).collect()
    }

    /// A sentence for `run.json` where some were left out.
    pub(super) fn note(&self) -> Option<String> {
        self.has_more.then(|| {
            format!(
                "sites.csv and stacks.csv have {MOST_SITES} call sites and {MOST_PATHS} call paths at most, and there are more"
            )
        })
    }
}

/// Returns whether all places of a stack are among these sites.
fn goes_through(stack: &str, sites: &BTreeMap<SiteId, SiteRow>) -> bool {
    stack.split(' ').all(|site| site.parse().is_ok_and(|site: SiteId| sites.contains_key(&site)))
}

impl Aggregate {
    /// The rows of `path-totals.csv`, with the names of families by number.
    pub(super) fn path_rows(&self, names: &[String]) -> Vec<PathTotalRow> {
        let row = |(key, sum): &(PathKey, OverRanks)| {
            let [time_s, _, time_max_s] = super::tables::seconds_of(&sum.time);
            PathTotalRow {
                path: key.path,
                comm: super::tables::name_of(names, key.comm),
                call: super::tables::call_name(key.operation.into()),
                ranks: sum.ranks,
                calls: sum.calls,
                time_s,
                time_max_s,
                time_max_rank: sum.time.max_rank,
            }
        };
        self.sites.paths.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank whose sites are these numbers, with one path through the first and the last, which
    /// has all of its calls.
    fn of_rank(numbers: std::ops::Range<u64>) -> SiteSums {
        let id = |number: u64| SiteId::new("/app", "", 0, number);
        let site = |number| (id(number), SiteRow::unresolved(id(number), "/app", "", "", number));
        let (first, last) = (id(numbers.start), id(numbers.end - 1));
        let path = PathId::new([first, last]);
        let sum = OverRanks { ranks: 1, calls: 1, time: Spread::from_value(0, 1) };
        SiteSums {
            sites: numbers.map(site).collect(),
            stacks: BTreeMap::from([(path, format!("{first} {last}"))]),
            paths: vec![(PathKey { path, comm: 0, operation: 0 }, sum.clone())],
            totals: vec![((first, 0), sum)],
            has_more: false,
        }
    }

    #[test]
    fn paths_beyond_the_limit_on_sites_are_left_out_as_these_are() {
        const RANKS: u64 = 40;
        let each = MOST_SITES as u64 / RANKS * 2;
        let ranks = || (0..RANKS).map(|rank| of_rank(rank * each..(rank + 1) * each));
        let merged = |mut ranks: Box<dyn Iterator<Item = SiteSums>>| {
            let mut all = ranks.next().expect("there are some");
            ranks.for_each(|rank| all.merge(rank));
            all
        };
        let sums = merged(Box::new(ranks()));
        assert_eq!(sums.sites.len(), MOST_SITES);
        assert!(sums.note().is_some());
        assert!(!sums.stacks.is_empty() && sums.stacks.len() < RANKS as usize, "{}", sums.stacks.len());
        assert!(sums.stacks.values().all(|stack| goes_through(stack, &sums.sites)));
        assert!(sums.paths.iter().all(|(key, _)| sums.stacks.contains_key(&key.path)));
        assert!(sums.totals.iter().all(|((site, _), _)| sums.sites.contains_key(site)));
        assert_eq!(sums, merged(Box::new(ranks().collect::<Vec<_>>().into_iter().rev())), "in any order");
    }
}
