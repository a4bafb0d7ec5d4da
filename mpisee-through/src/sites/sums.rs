//! The calls of each place in the program.

use super::Sites;
use super::paths::{PathSum, path_sums};
use super::place::SitePlace;
use crate::filter::CallFilter;
use crate::group::{By, Cell, OverRanks, Times};
use crate::processes::ProcessRows;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::rows::SiteTotalRow;
use mpisee_profile::{ProfileError, SiteId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An operation that is called at a place.
#[derive(Clone, Debug)]
pub struct PlaceSum {
    /// The place; none for calls whose site is not known.
    pub place: Option<SitePlace>,
    pub call: String,
    pub cell: Cell,
    /// True if these are all calls that the place makes, with bytes and lengths. Of calls through a
    /// library those are there whose path was taken, and the rest is at the library.
    pub is_whole: bool,
    /// Calls and nanoseconds by communicator.
    pub comms: BTreeMap<String, (u64, u128)>,
    /// The sites in it: several that have the same function and line, or none.
    pub sites: BTreeSet<SiteId>,
}

/// The share of the time that certain sums have, `12.5 %`; none if it would be 0.0 %, which is not
/// worth a sentence.
pub fn share_of_time(sums: &[PlaceSum], is_it: impl Fn(&PlaceSum) -> bool) -> Option<String> {
    let all_ns: u128 = sums.iter().map(|sum| sum.cell.time_ns).sum();
    let of: u128 = sums.iter().filter(|sum| is_it(sum)).map(|sum| sum.cell.time_ns).sum();
    (of * 2000 >= all_ns.max(1)).then(|| format!("{:.1} %", 100.0 * of as f64 / all_ns.max(1) as f64))
}

/// A sentence on the time that is at no place.
pub fn without_place(sums: &[PlaceSum]) -> Option<String> {
    let share = share_of_time(sums, |sum| sum.place.is_none())?;
    Some(format!(
        "Of {share} of this time the call site is not known, or beyond the limit on sites (MPISEE_SITES)."
    ))
}

/// The operations of all places.
pub struct PlaceSums {
    /// By place and operation, in their order.
    pub sums: Vec<PlaceSum>,
    /// All calls by communicator and operation.
    pub calls: BTreeMap<(String, String), u64>,
    /// The error that ended reading; the sums are of the rows before it.
    pub cut_off: Option<ProfileError>,
}

/// Communicator, operation and site of calls.
type Origin = (String, String, SiteId);
/// Calls that were made through wrappers, by the place that called these.
type Moved = HashMap<Origin, BTreeMap<SitePlace, Vec<PathSum>>>;

/// Sums up the calls that the filter takes. Calls of wrappers are where the wrapper was called, as
/// far as they are on paths.
///
/// # Errors
/// Of a table that cannot be read.
pub fn place_sums(view: &ProfileView, sites: &mut Sites, filter: &CallFilter) -> Result<PlaceSums> {
    let mut groups = view.group(filter, By { comm: true, call: true, site: true, ..By::default() })?;
    let mut moved = moved(view, sites, filter)?;
    let mut sums: BTreeMap<(Option<SitePlace>, String), PlaceSum> = BTreeMap::new();
    let mut calls: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (key, cell) in std::mem::take(&mut groups.cells) {
        let (comm, call, site) =
            (groups.comm(&key).to_owned(), groups.call(&key).to_owned(), groups.site(&key));
        *calls.entry((comm.clone(), call.clone())).or_default() += cell.calls;
        let mut add = |place: Option<SitePlace>, cell: Cell, is_whole: bool| {
            let sum = sums.entry((place.clone(), call.clone())).or_insert_with(|| PlaceSum {
                place,
                call: call.clone(),
                cell: Cell::EMPTY,
                is_whole: true,
                comms: BTreeMap::new(),
                sites: BTreeSet::new(),
            });
            sum.is_whole &= is_whole;
            let (calls, time_ns) = sum.comms.entry(comm.clone()).or_default();
            *calls = calls.saturating_add(cell.calls);
            *time_ns = time_ns.saturating_add(cell.time_ns);
            sum.sites.extend(site);
            sum.cell.merge(cell);
        };
        let Some(site) = site else {
            add(None, cell, true);
            continue;
        };
        let place = sites.place(site);
        let Some(parts) = moved.remove(&(comm.clone(), call.clone(), site)) else {
            add(Some(place), cell, true);
            continue;
        };
        let parts: Vec<(SitePlace, Cell)> =
            parts.into_iter().map(|(place, sums)| (place, cell_of(&sums))).collect();
        let rest = parts.iter().fold(cell, |rest, (_, part)| rest.without(part));
        parts.into_iter().for_each(|(place, part)| add(Some(place), part, false));
        if rest.calls > 0 || rest.time_ns > 0 {
            add(Some(place), rest, false);
        }
    }
    let mut sums: Vec<PlaceSum> = sums.into_values().collect();
    add_times_over_ranks(view, &mut sums)?;
    Ok(PlaceSums { sums, calls, cut_off: groups.cut_off })
}

/// Adds how the times of ranks differ, where rows are sums over ranks, and a place has all calls of
/// one site and no others.
fn add_times_over_ranks(view: &ProfileView, sums: &mut [PlaceSum]) -> Result<()> {
    if matches!(view.processes().rows, ProcessRows::Ranks(_)) {
        return Ok(());
    }
    let mut totals = HashMap::new();
    for row in view.profile().rows_if_any::<SiteTotalRow>()? {
        let row = row?;
        totals.insert((row.site, row.call.clone()), row);
    }
    for sum in sums.iter_mut().filter(|sum| sum.is_whole && sum.sites.len() == 1) {
        let site = sum.sites.first().copied();
        let total = site.and_then(|site| totals.get(&(site, sum.call.clone())));
        if let Some(row) = total.filter(|row| row.calls == sum.cell.calls) {
            sum.cell.ranks = Times::Over(OverRanks {
                ranks: row.ranks,
                least_ns: row.time_min_s.to_ns(),
                most_ns: row.time_max_s.to_ns(),
                most_rank: row.time_max_rank,
            });
        }
    }
    Ok(())
}

/// Paths have neither region nor size nor memory: where these are chosen, calls stay at their
/// sites.
fn moved(view: &ProfileView, sites: &mut Sites, filter: &CallFilter) -> Result<Moved> {
    let mut moved = Moved::new();
    if filter.names_parts_of_operations() {
        return Ok(moved);
    }
    for sum in path_sums(view, filter)? {
        let Some(&first) = sites.stack(sum.path).first() else { continue };
        let Some(place) = sites.outside_of_wrappers(sum.path) else { continue };
        let origin = (sum.comm.clone(), sum.call.clone(), first);
        moved.entry(origin).or_default().entry(place).or_default().push(sum);
    }
    Ok(moved)
}

fn cell_of(sums: &[PathSum]) -> Cell {
    let calls = sums.iter().map(|sum| sum.calls).fold(0, u64::saturating_add);
    let time_ns = sums.iter().map(|sum| u128::from(sum.time_ns)).sum();
    let ranks: Option<Vec<(u32, u64)>> = sums.iter().map(|sum| Some((sum.rank?, sum.time_ns))).collect();
    Cell::of_part(calls, time_ns, ranks.map_or(Times::Unknown, Times::of_ranks))
}
