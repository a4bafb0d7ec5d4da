//! Sums up `calls.csv` while it streams by: per communicator and operation, time per rank.
//!
//! What is held grows with communicators × operations × ranks that used them, not with the rows.

use crate::filter::CallFilter;
use crate::load::Processes;
use anyhow::{Context, Result};
use mpisee_profile::rows::{CallRow, CommRow, Seconds};
use mpisee_profile::{Profile, ProfileError};
use std::collections::HashMap;

/// The sums of an operation on a communicator.
#[derive(Debug, Default)]
struct Cell {
    times: RankTimes,
    bytes: u64,
    calls: u64,
}

/// Time in seconds per rank, ascending by rank.
///
/// PERF: tables are written rank by rank, so adding is mostly a push or a sum at the end.
#[derive(Debug, Default)]
struct RankTimes(Vec<(u32, f64)>);

impl RankTimes {
    fn add(&mut self, rank: u32, Seconds(time_s): Seconds) {
        match self.0.last_mut() {
            Some((last, sum_s)) if *last == rank => *sum_s += time_s,
            Some((last, _)) if *last > rank => match self.0.binary_search_by_key(&rank, |&(rank, _)| rank) {
                Ok(found) => self.0[found].1 += time_s,
                Err(place) => self.0.insert(place, (rank, time_s)),
            },
            _ => self.0.push((rank, time_s)),
        }
    }
}

/// Numbers for names, and what was decided about a name when it was first seen.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<String, (u32, bool)>,
}

impl Names {
    /// The number of the name, if `is_wanted` says so, which is asked once per name.
    fn number(&mut self, name: &str, is_wanted: impl FnOnce() -> bool) -> Option<u32> {
        let (number, wanted) = match self.numbers.get(name) {
            Some(&known) => known,
            None => {
                let next = (self.numbers.len() as u32, is_wanted());
                self.numbers.insert(name.to_owned(), next);
                next
            }
        };
        wanted.then_some(number)
    }

    fn by_number(self) -> Vec<String> {
        let mut names: Vec<(u32, String)> =
            self.numbers.into_iter().map(|(name, (number, _))| (number, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }
}

/// An operation on a communicator, over its ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSum {
    /// The standard's name of the function.
    pub call: String,
    /// Mean over ranks of the time in it.
    pub mean_s: f64,
    /// The time of the rank that spent least in it.
    pub min_s: f64,
    /// The time of the rank that spent most in it.
    pub max_s: f64,
    /// The time in it, summed over ranks.
    pub time_s: f64,
    /// Bytes, summed over ranks.
    pub bytes: u64,
    /// Calls, summed over ranks.
    pub calls: u64,
}

/// A communicator and what happened on it.
#[derive(Clone, Debug)]
pub struct CommSum<'a> {
    /// Its name.
    pub comm: String,
    /// Its row in `comms.csv`, unless the profile lacks it.
    pub row: Option<&'a CommRow>,
    /// The number of ranks over which mean, minimum and maximum are taken.
    pub ranks: u64,
    /// The time in its operations, summed over operations and ranks.
    pub time_s: f64,
    /// Bytes, summed over operations and ranks.
    pub bytes: u64,
    /// Calls, summed over operations and ranks.
    pub calls: u64,
    /// Its operations.
    pub operations: Vec<OperationSum>,
}

/// Everything that was read, and why reading ended early if it did.
pub struct Aggregate<'a> {
    /// Communicators with an operation that is chosen, in no order.
    pub comms: Vec<CommSum<'a>>,
    /// The error that ended reading; the sums are of the rows before it.
    pub cut_off: Option<ProfileError>,
}

/// Sums up the rows of `calls.csv` that the filter chooses.
///
/// Mean and minimum are over all members of the communicator that are in `ranks.csv` and chosen by the
/// filter: a member without a row spent no time in the operation.
pub fn aggregate<'a>(
    profile: &Profile,
    processes: &'a Processes,
    filter: &CallFilter,
) -> Result<Aggregate<'a>> {
    let mut comms = Names::default();
    let mut calls = Names::default();
    let mut cells: HashMap<(u32, u32), Cell> = HashMap::new();
    let mut cut_off = None;
    for row in profile.rows::<CallRow>()? {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                cut_off = Some(error);
                break;
            }
        };
        let is_wanted = || filter.comms.takes_comm(&row.comm, processes.comms.get(&row.comm));
        let Some(comm) = comms.number(&row.comm, is_wanted) else { continue };
        let Some(call) = calls.number(&row.call, || filter.takes_call(&row.call)) else { continue };
        if filter.takes_row(&row) {
            add(cells.entry((comm, call)).or_default(), &row)?;
        }
    }
    let comms = sum_up(cells, &comms.by_number(), &calls.by_number(), processes, filter)?;
    Ok(Aggregate { comms, cut_off })
}

fn add(cell: &mut Cell, row: &CallRow) -> Result<()> {
    cell.times.add(row.rank, row.time_s);
    cell.bytes = sum(cell.bytes, row.bytes, &row.comm)?;
    cell.calls = sum(cell.calls, row.calls, &row.comm)?;
    Ok(())
}

fn sum(left: u64, right: u64, comm: &str) -> Result<u64> {
    left.checked_add(right)
        .with_context(|| format!("calls.csv: the counts of {comm} add up to 2^64 or more, so they are wrong"))
}

fn sum_up<'a>(
    cells: HashMap<(u32, u32), Cell>,
    comm_names: &[String],
    call_names: &[String],
    processes: &'a Processes,
    filter: &CallFilter,
) -> Result<Vec<CommSum<'a>>> {
    let mut by_comm: HashMap<u32, Vec<(u32, Cell)>> = HashMap::new();
    for ((comm, call), cell) in cells {
        by_comm.entry(comm).or_default().push((call, cell));
    }
    let mut sums = Vec::with_capacity(by_comm.len());
    for (comm, mut cells) in by_comm {
        // The order of a hash map would show in the last digits of the sums.
        cells.sort_unstable_by_key(|&(call, _)| call);
        let comm = &comm_names[comm as usize];
        let row = processes.comms.get(comm);
        let ranks = ranks_of(row, &cells, processes, filter);
        let operations: Vec<OperationSum> = cells
            .iter()
            .map(|(call, cell)| operation(&call_names[*call as usize], cell, ranks))
            .filter(|operation| filter.takes_time(operation.max_s))
            .collect();
        if operations.is_empty() {
            continue;
        }
        let total = |of: fn(&OperationSum) -> u64| {
            operations.iter().map(of).try_fold(0, |left, right| sum(left, right, comm))
        };
        sums.push(CommSum {
            comm: comm.clone(),
            row,
            ranks,
            time_s: operations.iter().map(|operation| operation.time_s).sum(),
            bytes: total(|operation| operation.bytes)?,
            calls: total(|operation| operation.calls)?,
            operations,
        });
    }
    Ok(sums)
}

/// How many ranks count: chosen members with a profile, and any others that have rows here.
fn ranks_of(row: Option<&CommRow>, cells: &[(u32, Cell)], processes: &Processes, filter: &CallFilter) -> u64 {
    let mut ranks = row.map_or(Vec::new(), |row| processes.present_members(&row.members));
    ranks.retain(|&rank| filter.comms.takes_rank(rank));
    ranks.extend(cells.iter().flat_map(|(_, cell)| cell.times.0.iter().map(|&(rank, _)| rank)));
    ranks.sort_unstable();
    ranks.dedup();
    ranks.len() as u64
}

fn operation(call: &str, cell: &Cell, ranks: u64) -> OperationSum {
    let times = || cell.times.0.iter().map(|&(_, time_s)| time_s);
    let time_s: f64 = times().sum();
    let all_have_rows = cell.times.0.len() as u64 == ranks;
    OperationSum {
        call: call.to_owned(),
        mean_s: time_s / ranks as f64,
        min_s: if all_have_rows { times().fold(f64::INFINITY, f64::min) } else { 0.0 },
        max_s: times().fold(0.0, f64::max),
        time_s,
        bytes: cell.bytes,
        calls: cell.calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn times_per_rank_do_not_depend_on_the_order_of_rows(
            rows in proptest::collection::vec((0u32..20, 0u32..1000), 0..60)
        ) {
            let mut times = RankTimes::default();
            let mut expected: BTreeMap<u32, f64> = BTreeMap::new();
            for &(rank, time) in &rows {
                times.add(rank, Seconds(f64::from(time)));
                *expected.entry(rank).or_default() += f64::from(time);
            }
            prop_assert_eq!(times.0, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_name_is_judged_once() {
        let mut names = Names::default();
        assert_eq!(names.number("W", || true), Some(0));
        assert_eq!(names.number("S", || false), None);
        assert_eq!(names.number("W", || unreachable!()), Some(0));
        assert_eq!(names.number("S", || unreachable!()), None);
        assert_eq!(names.by_number(), ["W", "S"]);
    }

    #[test]
    fn a_sum_beyond_the_range_is_an_error() {
        let error = sum(u64::MAX, 1, "W_s1.0").unwrap_err().to_string();
        assert!(error.contains("W_s1.0") && error.contains("2^64"), "{error}");
    }
}
