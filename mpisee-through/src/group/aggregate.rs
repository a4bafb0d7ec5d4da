//! Sums up `totals.csv`, whose rows are sums over ranks already. It is small, so that one thread
//! reads it.

use super::{By, Cell, Collector, GroupKey, Groups, OverRanks, Times};
use crate::filter::CallFilter;
use crate::processes::Processes;
use anyhow::Result;
use hashbrown::HashMap;
use mpisee_profile::Profile;
use mpisee_profile::rows::{Seconds, SpreadRow, TotalRow};

/// Communicator and operation of a row of `spread.csv`; empty for all.
type Level = (String, String);

/// Sums up the rows of `totals.csv` that the filter takes.
pub fn of_sums(profile: &Profile, processes: &Processes, filter: &CallFilter, by: By) -> Result<Groups> {
    let mut all = Collector::new(by, filter, processes);
    // The number of rows on each level, and in each group: the spread over ranks is known only for
    // a group that contains a whole level.
    let mut rows_of: HashMap<Level, u64> = HashMap::new();
    let mut level_of: HashMap<GroupKey, (Level, u64)> = HashMap::new();
    let mut cut_off = None;
    for row in profile.rows::<TotalRow>()? {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                cut_off = Some(error);
                break;
            }
        };
        let level = level(&row, by);
        *rows_of.entry(level.clone()).or_default() += 1;
        if let Some(key) = key(&mut all, &row) {
            level_of.entry(key).or_insert((level, 0)).1 += 1;
            all.cell(key).merge(cell(&row));
        }
    }
    let spread = spread(profile)?;
    for (key, cell) in &mut all.cells {
        let Some((level, rows)) = level_of.get(key) else { continue };
        let is_whole =
            !(by.region || by.size || by.site) && cut_off.is_none() && rows_of.get(level) == Some(rows);
        match spread.get(level).filter(|_| is_whole) {
            Some(over) => cell.ranks = Times::Over(*over),
            None if *rows > 1 => cell.ranks = Times::Unknown,
            None => {}
        }
    }
    all.groups(cut_off)
}

/// The row of `spread.csv` that is about all rows of the same group.
fn level(row: &TotalRow, by: By) -> Level {
    let when = |wanted: bool, name: &str| if wanted { name.to_owned() } else { String::new() };
    (when(by.comm, &row.comm), when(by.call, &row.call))
}

fn key(all: &mut Collector<'_>, row: &TotalRow) -> Option<GroupKey> {
    let Collector { by, filter, processes, .. } = all;
    let (by, filter) = (*by, *filter);
    let wanted = processes.takes_comm(&filter.comms, &row.comm)
        && filter.takes_call(&row.call)
        && filter.takes_region(&row.region)
        && filter.takes_sums(row.size_min, row.size_max, row.memory);
    if !wanted {
        return None;
    }
    let when = |wanted: bool, number: u32| if wanted { number } else { 0 };
    Some(GroupKey {
        comm: when(by.comm, all.comms.number_of(&row.comm)),
        region: when(by.region, all.regions.number_of(&row.region)),
        call: when(by.call, all.calls.number_of(&row.call)),
        size: if by.size { all.sizes.number(&(row.size_min, row.size_max)) } else { 0 },
        site: if by.site {
            all.sites.number_of(&row.site.map_or(String::new(), |site| site.to_string()))
        } else {
            0
        },
        rank: 0,
    })
}

fn ns(seconds: Seconds) -> u64 {
    (seconds.0 * 1e9).round() as u64
}

fn cell(row: &TotalRow) -> Cell {
    Cell {
        calls: row.calls,
        bytes: row.bytes,
        time_ns: (row.time_s.0 * 1e9).round() as u128,
        min_ns: ns(row.min_s),
        max_ns: ns(row.max_s),
        ranks: Times::Over(OverRanks {
            ranks: row.ranks,
            least_ns: ns(row.time_min_s),
            most_ns: ns(row.time_max_s),
            most_rank: row.time_max_rank,
        }),
        overflowed: false,
    }
}

/// `spread.csv`, by level.
fn spread(profile: &Profile) -> Result<HashMap<Level, OverRanks>> {
    let mut spread = HashMap::new();
    for row in profile.rows::<SpreadRow>()? {
        let row = row?;
        let over = OverRanks {
            ranks: row.ranks,
            least_ns: ns(row.time_min_s),
            most_ns: ns(row.time_max_s),
            most_rank: row.time_max_rank,
        };
        spread.insert((row.comm, row.call), over);
    }
    Ok(spread)
}
