//! The communicators of the report: families of like ones, and grids of processes.

use super::places::{FamilyNumbers, RankAxis};
use crate::family_rows::Family;
use crate::operation_sums::{CommSum, Sums};
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::CommRow;
use serde::Serialize;
use std::collections::HashMap;

/// A communicator, or a family of like ones; the sums are those of `summary --families`.
#[derive(Debug, Default, Serialize)]
pub struct CommData {
    name: String,
    /// The argument of `--comm` that chooses its members, and nothing that was made of them.
    pattern: String,
    /// True if it is of NCCL, whose time is no time in MPI.
    is_nccl: bool,
    parent: Option<u32>,
    /// How many communicators it stands for.
    count: u64,
    /// `8`, or `4 × 8` of several.
    size: String,
    /// The processes, for reading.
    members: String,
    label: String,
    created_by: String,
    topology: String,
    /// On how many nodes each is.
    nodes: String,
    /// Over how many ranks mean and minimum are taken.
    ranks: u64,
    #[serde(flatten)]
    sums: SumsData,
}

/// The fields are those of [`Sums`].
#[derive(Debug, Default, Serialize)]
struct SumsData {
    mean_s: f64,
    min_s: Option<f64>,
    max_s: Option<f64>,
    max_rank: Option<u32>,
    time_s: f64,
    bytes: u64,
    calls: u64,
}

impl From<&Sums> for SumsData {
    fn from(sums: &Sums) -> Self {
        SumsData {
            mean_s: to_nine_decimals(sums.mean_s),
            min_s: sums.min_s.map(to_nine_decimals),
            max_s: sums.max_s.map(to_nine_decimals),
            max_rank: sums.max_rank,
            time_s: to_nine_decimals(sums.time_s),
            bytes: sums.bytes,
            calls: sums.calls,
        }
    }
}

/// All families, in the order of their numbers.
pub fn families(numbers: &FamilyNumbers<'_>, sums: &[CommSum<'_>]) -> Vec<CommData> {
    let sums: HashMap<&str, &CommSum<'_>> = sums.iter().map(|sum| (sum.comm.as_str(), sum)).collect();
    let all = numbers.names.iter().map(|(name, family)| {
        let sum = sums.get(name.as_str());
        let mut data = family.as_ref().map_or_else(CommData::default, of_family);
        data.name.clone_from(name);
        if data.pattern.is_empty() {
            data.pattern.clone_from(name);
        }
        data.is_nccl = is_nccl(name);
        data.ranks = sum.map_or(0, |sum| sum.ranks);
        data.sums = sum.map_or_else(SumsData::default, |sum| SumsData::from(&sum.sums));
        data
    });
    all.collect()
}

fn of_family(family: &Family<'_>) -> CommData {
    let common = |of: fn(&CommRow) -> &str| {
        let first = of(family.rows[0]);
        if family.rows.iter().all(|row| of(row) == first) { first.to_owned() } else { String::new() }
    };
    CommData {
        pattern: if family.is_single() { family.name.clone() } else { family.sized_name() },
        parent: family.parent.map(|parent| parent as u32),
        count: family.count(),
        size: family.size_text(),
        members: shortened(family.processes()),
        label: family.label(),
        created_by: common(|row| &row.created_by),
        topology: common(|row| &row.topology),
        nodes: family.nodes(),
        ..CommData::default()
    }
}

/// Long lists of ranks are cut: a report has many of them.
fn shortened(members: String) -> String {
    const MOST: usize = 120;
    match members.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &members[..end]),
        None => members,
    }
}

/// A grid of processes: a communicator with a Cartesian topology whose ranks are in the order of
/// their ranks in the world.
#[derive(Debug, Serialize)]
pub struct Grid {
    /// The name of the communicator.
    name: String,
    /// The number of its family.
    comm: u32,
    dims: Vec<u32>,
    periods: Vec<bool>,
    /// The field of each process, in the order of the grid.
    fields: Vec<u32>,
}

/// Processes of a grid at most, and grids.
const MOST_PROCESSES: u32 = 4096;
const MOST_GRIDS: usize = 12;

/// Grids of two or three dimensions, the first ones by name.
pub fn grids(view: &ProfileView, numbers: &FamilyNumbers<'_>, axis: &RankAxis) -> Vec<Grid> {
    if !view.may_share_rows() || axis.len() as usize != view.processes().ranks().len() {
        return Vec::new();
    }
    numbers.rows().filter_map(|(number, row)| grid(number, row, axis)).take(MOST_GRIDS).collect()
}

fn grid(comm: u32, row: &CommRow, axis: &RankAxis) -> Option<Grid> {
    let (dims, periods) = row.topology.strip_prefix("cart dims=")?.split_once(" periods=")?;
    let dims: Vec<u32> = dims.split('x').map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
    let periods: Vec<bool> = periods.split('x').map(|periodic| periodic == "1").collect();
    let is_drawn = row.size <= MOST_PROCESSES
        && row.count == 1
        && dims.iter().filter(|&&extent| extent > 1).count() >= 2
        && dims.len() <= 3
        && dims.iter().map(|&extent| u64::from(extent)).product::<u64>() == row.members.len();
    if !is_drawn {
        return None;
    }
    let fields = row.members.all().iter().map(|rank| axis.field(rank)).collect::<Option<Vec<u32>>>()?;
    Some(Grid { name: row.comm.clone(), comm, dims, periods, fields })
}
