//! The time line of the run, in numbers of `timeline`: the data of the chart over time.

use super::columns::Table;
use super::places::FamilyNumbers;
use crate::command::timeline::text::words;
use crate::command::timeline::{FINE, phase_sheet};
use crate::timeline::bins::{Bins, NodeSeries};
use crate::timeline::load::TimeLine;
use crate::timeline::phases::phases;
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::comm_name::CommName;
use mpisee_profile::operation::is_nccl;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// Parts of the time at most: more than pixels of most charts, and few enough that long runs do not
/// make large reports.
const MOST_BINS: usize = 512;
/// Families of communicators at most; the rest is one.
const MOST_FAMILIES: usize = 16;
/// Devices and directions at most.
const MOST_DEVICES: usize = 12;

/// Readings of the agents while the program ran, in parts of the time of equal length.
#[derive(Debug, Serialize)]
pub struct OverTime {
    /// The length of a part, in seconds; the last one ends with the time.
    bin_s: f64,
    bins: usize,
    end_s: f64,
    /// Ranks of the nodes that were read.
    ranks: u32,
    /// The families with most time first.
    families: Vec<FamilyOverTime>,
    /// The sum of the families without a row.
    others: Option<FamilyOverTime>,
    /// Families in `others`.
    other_families: usize,
    /// Network interfaces and InfiniBand ports, in each direction.
    devices: Vec<DeviceOverTime>,
    /// As `timeline` has them.
    phases: Table,
    notes: Vec<String>,
}

/// A family of communicators, by part of the time.
#[derive(Debug, Default, Serialize)]
struct FamilyOverTime {
    name: String,
    /// The family of the profile that it is, by number.
    comm: Option<u32>,
    /// True if it is of NCCL, whose time is no time in MPI.
    is_nccl: bool,
    /// In whole bytes.
    bytes_per_s: Vec<f64>,
    /// The part of the ranks' time that is in its operations.
    time_share: Vec<f64>,
}

/// A direction of a network device, summed over the nodes that have it.
#[derive(Debug, Serialize)]
struct DeviceOverTime {
    /// `eth0 sent`
    name: String,
    /// In whole bytes.
    bytes_per_s: Vec<f64>,
    /// Bytes per second of the links, if they are known.
    link_bytes_per_s: Option<f64>,
}

impl OverTime {
    /// The rates of the profile's run; `None` if no agent read it.
    pub fn from_view(
        view: &ProfileView,
        profile: &Path,
        numbers: &FamilyNumbers<'_>,
    ) -> Result<Option<OverTime>> {
        let Some(line) = TimeLine::of_profile(profile, view.run())? else { return Ok(None) };
        let phases = phases(&Bins::from_line(&line, FINE));
        let bins = Bins::from_line(&line, MOST_BINS);
        let mut families = by_family(&bins, &numbers_by_family(numbers));
        let rest = families.split_off(families.len().min(MOST_FAMILIES));
        let (rest_of_nccl, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|family| family.is_nccl);
        let other_families = rest.len();
        let others = summed(rest);
        // What is of NCCL stays apart from what is time in MPI.
        let name = "other communicators of NCCL".to_owned();
        families.extend(summed(rest_of_nccl).map(|sum| FamilyOverTime { name, comm: None, ..sum }));
        let mut all = OverTime {
            bin_s: to_nine_decimals(bins.length_s),
            bins: bins.count,
            end_s: to_nine_decimals(bins.end_s),
            ranks: bins.ranks,
            families,
            others: others.map(|sum| FamilyOverTime { name: String::new(), comm: None, ..sum }),
            other_families,
            devices: devices(&bins),
            phases: Table::from(&phase_sheet(&phases)),
            notes: line.notes,
        };
        all.families.iter_mut().chain(&mut all.others).for_each(FamilyOverTime::round);
        Ok(Some(all))
    }
}

impl FamilyOverTime {
    fn add(&mut self, other: &FamilyOverTime) {
        let add = |mine: &mut Vec<f64>, more: &[f64]| {
            mine.iter_mut().zip(more).for_each(|(sum, value)| *sum += value);
        };
        add(&mut self.bytes_per_s, &other.bytes_per_s);
        add(&mut self.time_share, &other.time_share);
    }

    fn round(&mut self) {
        self.bytes_per_s.iter_mut().for_each(|rate| *rate = rate.round());
        self.time_share.iter_mut().for_each(|share| *share = to_nine_decimals(*share));
    }

    fn time(&self) -> f64 {
        self.time_share.iter().sum()
    }
}

/// Some families as one.
fn summed(families: Vec<FamilyOverTime>) -> Option<FamilyOverTime> {
    families.into_iter().reduce(|mut sum, family| {
        sum.add(&family);
        sum
    })
}

/// The numbers of the report's families by the names that agents give them.
fn numbers_by_family(numbers: &FamilyNumbers<'_>) -> HashMap<String, u32> {
    let mut by_family = HashMap::new();
    for (number, row) in numbers.rows() {
        by_family.entry(row.comm.clone()).or_insert(number);
        if let Ok(name) = row.comm.parse::<CommName>() {
            by_family.entry(name.family(row.size).to_string()).or_insert(number);
        }
    }
    by_family
}

/// Sums over operations, those with most time first.
fn by_family(bins: &Bins, numbers: &HashMap<String, u32>) -> Vec<FamilyOverTime> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut families: Vec<FamilyOverTime> = Vec::new();
    for series in &bins.calls {
        let more = FamilyOverTime {
            name: series.family.clone(),
            comm: numbers.get(&series.family).copied(),
            is_nccl: is_nccl(&series.call),
            bytes_per_s: bins.rates(&series.bytes),
            time_share: bins.shares(&series.time_s),
        };
        match places.get(series.family.as_str()) {
            Some(&place) => families[place].add(&more),
            None => {
                places.insert(&series.family, families.len());
                families.push(more);
            }
        }
    }
    families.sort_by(|one, other| other.time().total_cmp(&one.time()));
    families
}

/// Network devices with traffic, those with most first. The loopback interface is no wire.
fn devices(bins: &Bins) -> Vec<DeviceOverTime> {
    let is_network = |series: &&NodeSeries| {
        let is_wire = series.source == "infiniband" || series.source == "network" && series.device != "lo";
        is_wire && ["received_bytes", "sent_bytes"].contains(&series.quantity.as_str())
    };
    let mut found: Vec<&NodeSeries> = bins.nodes.iter().filter(is_network).collect();
    let sum = |series: &NodeSeries| series.values.iter().sum::<f64>();
    found.retain(|series| sum(series) > 0.0);
    found.sort_by(|one, other| sum(other).total_cmp(&sum(one)));
    let device = |series: &NodeSeries| DeviceOverTime {
        name: words(series),
        bytes_per_s: bins.rates(&series.values).into_iter().map(f64::round).collect(),
        link_bytes_per_s: series.link_bytes_per_s,
    };
    found.into_iter().take(MOST_DEVICES).map(device).collect()
}
