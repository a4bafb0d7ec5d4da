//! Who waits for whom, by family of communicators.

use super::places::{FamilyNumbers, Numbered, RankAxis};
use crate::filter::CallFilter;
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use crate::waits::{self, Report};
use anyhow::Result;
use mpisee_profile::ProfileError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Pairs of fields at most; where there are more, those with least waiting are left out.
const MOST_PAIRS: usize = 250_000;

/// The waits as `waits` estimates them.
#[derive(Debug, Default, Serialize)]
pub struct Waits {
    operations: Operations,
    ranks: OfRanks,
    pairs: Pairs,
    /// The sentences on ranks that stand out.
    findings: Vec<String>,
}

/// Waiting in operations of families, column by column; `messages` is an operation, too.
#[derive(Debug, Default, Serialize)]
struct Operations {
    comm: Vec<u32>,
    call: Vec<u32>,
    time_s: Vec<f64>,
    /// Of that time, waiting for others, with the ends of its interval.
    waiting_s: Vec<f64>,
    waiting_low_s: Vec<f64>,
    waiting_high_s: Vec<f64>,
}

/// How long others waited for ranks, and how long these waited, column by column.
#[derive(Debug, Default, Serialize)]
struct OfRanks {
    comm: Vec<u32>,
    call: Vec<u32>,
    field: Vec<u32>,
    caused_s: Vec<f64>,
    suffered_s: Vec<f64>,
}

/// How long some waited for others, column by column.
#[derive(Debug, Default, Serialize)]
struct Pairs {
    comm: Vec<u32>,
    waiting: Vec<u32>,
    cause: Vec<u32>,
    time_s: Vec<f64>,
    /// The part of the waiting that is left out.
    left_out_s: f64,
}

/// Of a profile with samples of arrivals, and the error that ended reading.
pub fn waits(
    view: &ProfileView,
    comms: &mut FamilyNumbers<'_>,
    calls: &mut Numbered,
    axis: &RankAxis,
) -> Result<(Waits, Option<ProfileError>)> {
    let mut sums: BTreeMap<(u32, u32, u32), f64> = BTreeMap::new();
    let mut add = |comm: &str, waiting, cause, time_s: f64| {
        if let (Some(waiting), Some(cause)) = (axis.field(waiting), axis.field(cause)) {
            *sums.entry((comms.number(comm), waiting, cause)).or_default() += time_s;
        }
    };
    let mut report = waits::with_pairs(view, &CallFilter::default(), Some(&mut add))?;
    let cut_off = report.cut_off.take();
    let mut all = Waits { pairs: Pairs::from_sums(sums), ..Waits::default() };
    all.add_operations(&report, comms, calls);
    all.add_ranks(&report, comms, calls, axis);
    all.findings = waits::sentence::sentences(&report, |_| true).into_iter().map(|one| one.text).collect();
    Ok((all, cut_off))
}

impl Waits {
    fn add_operations(&mut self, report: &Report, comms: &mut FamilyNumbers<'_>, calls: &mut Numbered) {
        let mut sums: BTreeMap<(u32, u32), [f64; 4]> = BTreeMap::new();
        for operation in &report.operations {
            let Some(waiting) = operation.waiting else { continue };
            let place = (comms.number(&operation.comm), calls.number(&operation.call));
            let more = [operation.time_s, waiting.total, waiting.low, waiting.high];
            let sum = sums.entry(place).or_default();
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        for ((comm, call), sum) in sums {
            let [time_s, waiting_s, low_s, high_s] = sum.map(to_nine_decimals);
            self.operations.comm.push(comm);
            self.operations.call.push(call);
            self.operations.time_s.push(time_s);
            self.operations.waiting_s.push(waiting_s);
            self.operations.waiting_low_s.push(low_s);
            self.operations.waiting_high_s.push(high_s);
        }
    }

    fn add_ranks(
        &mut self,
        report: &Report,
        comms: &mut FamilyNumbers<'_>,
        calls: &mut Numbered,
        axis: &RankAxis,
    ) {
        let mut sums: BTreeMap<(u32, u32, u32), [f64; 2]> = BTreeMap::new();
        for operation in &report.operations {
            let (comm, call) = (comms.number(&operation.comm), calls.number(&operation.call));
            for member in &operation.members {
                let Some(field) = axis.field(member.rank) else { continue };
                if let (Some(caused), Some(suffered)) = (member.caused, member.suffered) {
                    let sum = sums.entry((comm, call, field)).or_default();
                    sum[0] += caused.total;
                    sum[1] += suffered.total;
                }
            }
        }
        for ((comm, call, field), sum) in sums {
            let [caused_s, suffered_s] = sum.map(to_nine_decimals);
            self.ranks.comm.push(comm);
            self.ranks.call.push(call);
            self.ranks.field.push(field);
            self.ranks.caused_s.push(caused_s);
            self.ranks.suffered_s.push(suffered_s);
        }
    }
}

impl Pairs {
    fn from_sums(sums: BTreeMap<(u32, u32, u32), f64>) -> Self {
        let mut largest: Vec<((u32, u32, u32), f64)> = sums.into_iter().collect();
        let mut left_out_s = 0.0;
        if largest.len() > MOST_PAIRS {
            largest.sort_by(|(_, one), (_, other)| other.total_cmp(one));
            left_out_s = largest.drain(MOST_PAIRS..).map(|(_, time_s)| time_s).sum();
            largest.sort_by_key(|&(place, _)| place);
        }
        let mut all = Pairs { left_out_s: to_nine_decimals(left_out_s), ..Pairs::default() };
        for ((comm, waiting, cause), time_s) in largest {
            all.comm.push(comm);
            all.waiting.push(waiting);
            all.cause.push(cause);
            all.time_s.push(to_nine_decimals(time_s));
        }
        all
    }
}
