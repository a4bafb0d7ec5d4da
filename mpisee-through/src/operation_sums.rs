//! Sums by communicator, or family of like ones, and operation: time over ranks, bytes, calls.

use crate::family_rows::{self, Family};
use crate::filter::CallFilter;
use crate::group::{By, Cell, Groups, Times, seconds};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::ProfileError;
use std::collections::{BTreeMap, HashMap};

/// Sums over ranks, and how these differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Mean over ranks of the time.
    pub mean_s: f64,
    /// The time of the rank that spent least; unknown where only a part of sums over ranks is
    /// chosen.
    pub min_s: Option<f64>,
    /// The time of the rank that spent most.
    pub max_s: Option<f64>,
    /// The first rank that spent most.
    pub max_rank: Option<u32>,
    /// The time, summed over ranks.
    pub time_s: f64,
    /// Bytes, summed over ranks.
    pub bytes: u64,
    /// Calls, summed over ranks.
    pub calls: u64,
}

impl Sums {
    fn new(cell: &Cell, ranks: u64) -> Self {
        Sums {
            mean_s: cell.time_s() / ranks as f64,
            min_s: cell.ranks.least_ns(ranks).map(seconds),
            max_s: cell.ranks.most_ns().map(seconds),
            max_rank: cell.ranks.most_rank(),
            time_s: cell.time_s(),
            bytes: cell.bytes,
            calls: cell.calls,
        }
    }
}

/// An operation on a communicator, over its ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSum {
    /// The standard's name of the function.
    pub call: String,
    /// Its sums.
    pub sums: Sums,
}

/// A communicator, or a family of like ones, and the sums of its operations.
#[derive(Clone, Debug)]
pub struct CommSum<'a> {
    /// The name.
    pub comm: String,
    /// The row of `comms.csv`, unless the profile lacks it.
    pub family: Option<Family<'a>>,
    /// The number of ranks over which mean, minimum and maximum are taken.
    pub ranks: u64,
    /// Over all operations.
    pub sums: Sums,
    /// The operations.
    pub operations: Vec<OperationSum>,
    /// Of several communicators, names and times over ranks of the ones with least and most.
    pub spread: Option<[(String, f64); 2]>,
}

/// Everything that was read, and why reading ended early if it did.
pub struct CommSums<'a> {
    /// Communicators with an operation that is chosen, in no order.
    pub comms: Vec<CommSum<'a>>,
    /// The error that ended reading; the sums are of the rows before it.
    pub cut_off: Option<ProfileError>,
}

/// Sums up the rows of `calls.csv` that the filter chooses, with a sum for each communicator or for
/// each family.
///
/// Mean and minimum are over all members of the communicators that are in `ranks.csv` and chosen by
/// the filter: a member without a row spent no time in the operation.
pub fn sums<'a>(view: &'a ProfileView, filter: &CallFilter, with_families: bool) -> Result<CommSums<'a>> {
    let mut groups = view.group(filter, By { comm: true, call: true, ..By::default() })?;
    let cut_off = groups.cut_off.take();
    let totals = view.times_over_operations(filter)?;
    let mut comms = Vec::new();
    for (name, family, cells) in by_family(groups, view, filter, with_families) {
        let total = totals.get(&name);
        comms.extend(Summing { name, family, cells, total, view, filter }.sum()?);
    }
    Ok(CommSums { comms, cut_off })
}

/// Communicator, operation and sums.
type Named = (String, String, Cell);

/// The cells of each communicator or family.
fn by_family<'a>(
    mut groups: Groups,
    view: &'a ProfileView,
    filter: &CallFilter,
    with_families: bool,
) -> Vec<(String, Option<Family<'a>>, Vec<Named>)> {
    let families =
        family_rows::of_table(view, |row| view.processes().takes_row(&filter.comms, row), with_families);
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, family) in families.iter().enumerate() {
        places.extend(family.rows.iter().map(|row| (row.comm.as_str(), place)));
    }
    let mut cells_of: Vec<Vec<Named>> = families.iter().map(|_| Vec::new()).collect();
    let mut unknown: BTreeMap<String, Vec<Named>> = BTreeMap::new();
    for (key, cell) in std::mem::take(&mut groups.cells) {
        let (comm, call) = (groups.comm(&key), groups.call(&key));
        let cells = match places.get(comm) {
            Some(&place) => &mut cells_of[place],
            None => unknown.entry(comm.to_owned()).or_default(),
        };
        cells.push((comm.to_owned(), call.to_owned(), cell));
    }
    let known =
        families.into_iter().zip(cells_of).map(|(family, cells)| (family.name.clone(), Some(family), cells));
    let unknown = unknown.into_iter().map(|(comm, cells)| (comm, None, cells));
    known.filter(|(.., cells)| !cells.is_empty()).chain(unknown).collect()
}

/// The parts of the sums of a communicator or family.
struct Summing<'a, 's> {
    name: String,
    family: Option<Family<'a>>,
    cells: Vec<Named>,
    /// The times over ranks, where they cannot be added up from those of the operations.
    total: Option<&'s Times>,
    view: &'a ProfileView,
    filter: &'s CallFilter,
}

impl<'a> Summing<'a, '_> {
    /// The sums, if an operation is chosen by its time.
    fn sum(self) -> Result<Option<CommSum<'a>>> {
        let ranks = self.ranks();
        let mut by_call: BTreeMap<&str, Vec<&Cell>> = BTreeMap::new();
        for (_, call, cell) in &self.cells {
            by_call.entry(call).or_default().push(cell);
        }
        let mut operations = Vec::new();
        let mut chosen: Vec<&Cell> = Vec::new();
        let mut is_whole = true;
        for (call, cells) in by_call {
            let sums = Sums::new(&Cell::sum(cells.iter().copied(), &self.name)?, ranks);
            match self.filter.takes_time(sums.max_s) {
                true => {
                    operations.push(OperationSum { call: call.to_owned(), sums });
                    chosen.extend(cells);
                }
                false => is_whole = false,
            }
        }
        if operations.is_empty() {
            return Ok(None);
        }
        let mut all = Cell::sum(chosen.iter().copied(), &self.name)?;
        if let Some(times) = self.total {
            all.ranks = if is_whole { times.clone() } else { Times::Unknown };
        }
        let spread = self.spread(&operations);
        Ok(Some(CommSum {
            sums: Sums::new(&all, ranks),
            operations,
            ranks,
            spread,
            comm: self.name,
            family: self.family,
        }))
    }

    /// How many ranks count: chosen members with a profile, and any others that have rows here.
    fn ranks(&self) -> u64 {
        let rows = self.family.as_ref().map_or(&[][..], |family| &family.rows);
        self.view.ranks_on(rows, self.cells.iter().map(|(.., cell)| &cell.ranks), &self.filter.comms)
    }

    /// Of several communicators, the ones with least and most time in these operations.
    fn spread(&self, operations: &[OperationSum]) -> Option<[(String, f64); 2]> {
        let family = self.family.as_ref().filter(|family| !family.is_single())?;
        let mut times: BTreeMap<&str, u128> = family.rows.iter().map(|row| (row.comm.as_str(), 0)).collect();
        for (comm, call, cell) in &self.cells {
            if operations.iter().any(|operation| operation.call == *call) {
                *times.entry(comm).or_default() += cell.time_ns;
            }
        }
        let mut times: Vec<(&str, u128)> = times.into_iter().collect();
        times.sort_by(|(one, least), (other, most)| least.cmp(most).then_with(|| natural_order(one, other)));
        let named = |&(comm, time_ns): &(&str, u128)| (comm.to_owned(), seconds(time_ns));
        Some([named(times.first()?), named(times.last()?)])
    }
}
