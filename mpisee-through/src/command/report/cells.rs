//! Sums of calls by family of communicators: of operations, ranks, sizes and regions.

use super::places::{FamilyNumbers, Numbered, RankAxis};
use crate::filter::CallFilter;
use crate::group::{By, Groups, seconds};
use crate::operation_sums::CommSum;
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::ProfileError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Operations of families, column by column; the sums are those of `summary --families`.
#[derive(Debug, Default, Serialize)]
pub struct Operations {
    comm: Vec<u32>,
    call: Vec<u32>,
    time_s: Vec<f64>,
    mean_s: Vec<f64>,
    min_s: Vec<Option<f64>>,
    max_s: Vec<Option<f64>>,
    max_rank: Vec<Option<u32>>,
    bytes: Vec<u64>,
    calls: Vec<u64>,
}

impl Operations {
    /// Of the sums of families.
    pub fn from_sums(sums: &[CommSum<'_>], comms: &mut FamilyNumbers<'_>, calls: &mut Numbered) -> Self {
        let by_name: BTreeMap<String, u32> =
            (0..).zip(&comms.names).map(|(number, (name, _))| (name.clone(), number)).collect();
        let mut all = Operations::default();
        for comm in sums {
            let number = by_name.get(&comm.comm).copied().unwrap_or_else(|| comms.number(&comm.comm));
            for operation in &comm.operations {
                let sums = &operation.sums;
                all.comm.push(number);
                all.call.push(calls.number(&operation.call));
                all.time_s.push(to_nine_decimals(sums.time_s));
                all.mean_s.push(to_nine_decimals(sums.mean_s));
                all.min_s.push(sums.min_s.map(to_nine_decimals));
                all.max_s.push(sums.max_s.map(to_nine_decimals));
                all.max_rank.push(sums.max_rank);
                all.bytes.push(sums.bytes);
                all.calls.push(sums.calls);
            }
        }
        all
    }
}

/// The time of ranks in operations of families, column by column; of a block of ranks their sum.
#[derive(Debug, Default, Serialize)]
pub struct RankTimes {
    comm: Vec<u32>,
    call: Vec<u32>,
    field: Vec<u32>,
    time_s: Vec<f64>,
}

impl RankTimes {
    /// Of groups by communicator, operation and rank.
    pub fn from_groups(
        groups: &Groups,
        comms: &mut FamilyNumbers<'_>,
        calls: &mut Numbered,
        axis: &RankAxis,
    ) -> Self {
        let mut sums: BTreeMap<(u32, u32, u32), u128> = BTreeMap::new();
        for (key, cell) in &groups.cells {
            let Some(field) = axis.field(key.rank) else { continue };
            let place = (comms.number(groups.comm(key)), calls.number(groups.call(key)), field);
            *sums.entry(place).or_default() += cell.time_ns;
        }
        let mut all = RankTimes::default();
        for ((comm, call, field), time_ns) in sums {
            all.comm.push(comm);
            all.call.push(call);
            all.field.push(field);
            all.time_s.push(seconds(time_ns));
        }
        all
    }
}

/// Calls of each size class, column by column, of operations that have messages.
#[derive(Debug, Default, Serialize)]
pub struct Sizes {
    comm: Vec<u32>,
    call: Vec<u32>,
    size_min: Vec<u64>,
    size_max: Vec<u64>,
    calls: Vec<u64>,
    bytes: Vec<u64>,
    time_s: Vec<f64>,
}

/// The MPI time of each region without those in it, column by column.
#[derive(Debug, Default, Serialize)]
pub struct RegionTimes {
    comm: Vec<u32>,
    region: Vec<u32>,
    calls: Vec<u64>,
    bytes: Vec<u64>,
    time_s: Vec<f64>,
    /// The names of regions.
    names: Vec<String>,
}

/// The sums over calls of a family.
type Sum = (u64, u64, u128);

/// Adds groups up by family and another number.
fn by_family(
    groups: &Groups,
    comms: &mut FamilyNumbers<'_>,
    mut second: impl FnMut(&crate::group::GroupKey) -> Option<(u32, (u64, u64))>,
) -> BTreeMap<(u32, u32, (u64, u64)), Sum> {
    let mut sums: BTreeMap<(u32, u32, (u64, u64)), Sum> = BTreeMap::new();
    for (key, cell) in &groups.cells {
        let Some((number, size)) = second(key) else { continue };
        let sum = sums.entry((comms.number(groups.comm(key)), number, size)).or_default();
        sum.0 = sum.0.saturating_add(cell.calls);
        sum.1 = sum.1.saturating_add(cell.bytes);
        sum.2 = sum.2.saturating_add(cell.time_ns);
    }
    sums
}

impl Sizes {
    /// Of the profile, and the error that ended reading.
    pub fn from_view(
        view: &ProfileView,
        comms: &mut FamilyNumbers<'_>,
        calls: &mut Numbered,
    ) -> Result<(Self, Option<ProfileError>)> {
        let by = By { comm: true, call: true, size: true, without_times: true, ..By::default() };
        let groups = view.group(&CallFilter::default(), by)?;
        let sums = by_family(&groups, comms, |key| {
            let size = groups.size(key);
            let is_message = crate::command::sizes::has_messages(groups.call(key)) || size != (0, 0);
            is_message.then(|| (calls.number(groups.call(key)), size))
        });
        let mut all = Sizes::default();
        for ((comm, call, (size_min, size_max)), (count, bytes, time_ns)) in sums {
            all.comm.push(comm);
            all.call.push(call);
            all.size_min.push(size_min);
            all.size_max.push(size_max);
            all.calls.push(count);
            all.bytes.push(bytes);
            all.time_s.push(seconds(time_ns));
        }
        Ok((all, groups.cut_off))
    }
}

impl RegionTimes {
    /// Of the profile, and the error that ended reading.
    pub fn from_view(
        view: &ProfileView,
        comms: &mut FamilyNumbers<'_>,
    ) -> Result<(Self, Option<ProfileError>)> {
        let by = By { comm: true, region: true, without_times: true, ..By::default() };
        let groups = view.group(&CallFilter::default(), by)?;
        let mut names = Numbered::default();
        let sums = by_family(&groups, comms, |key| Some((names.number(groups.region(key)), (0, 0))));
        let mut all = RegionTimes::default();
        for ((comm, region, _), (calls, bytes, time_ns)) in sums {
            all.comm.push(comm);
            all.region.push(region);
            all.calls.push(calls);
            all.bytes.push(bytes);
            all.time_s.push(seconds(time_ns));
        }
        all.names = names.names;
        Ok((all, groups.cut_off))
    }
}
