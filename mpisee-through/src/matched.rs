//! Errors for filters that match nothing: they list what exists.

use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::RankSet;
use mpisee_profile::rows::CommRow;
use std::collections::BTreeMap;

/// Names that an error lists.
const LISTED: usize = 8;

/// Where a filter left no operation over: an error with the operations and communicators of the profile.
pub fn need_operation(view: &ProfileView, filter: &CallFilter, is_empty: bool) -> Result<()> {
    if !is_empty || !filter.is_on() {
        return Ok(());
    }
    let by = By { comm: true, call: true, without_times: true, ..By::default() };
    let all = view.group(&CallFilter::default(), by)?;
    if all.cut_off.is_some() {
        return Ok(()); // What is missing may be what was looked for.
    }
    let (mut comms, mut calls) = (BTreeMap::new(), BTreeMap::new());
    for (key, cell) in &all.cells {
        *comms.entry(all.comm(key)).or_insert(0u128) += cell.time_ns;
        *calls.entry(all.call(key)).or_insert(0u128) += cell.time_ns;
    }
    bail!("no operation matches the filters; the profile has {} on {}", listed(&calls), listed(&comms))
}

/// Where a filter left no communicator over: an error with those of the profile.
pub fn need_communicator(rows: &[CommRow], filter: &CommFilter, is_empty: bool) -> Result<()> {
    if !is_empty || !filter.is_on() || rows.is_empty() {
        return Ok(());
    }
    let comms = rows.iter().map(|row| (row.comm.as_str(), u128::from(row.size))).collect();
    bail!("no communicator matches the filters; the profile has {}", listed(&comms))
}

/// Where a filter left no region over: an error with those of the profile.
pub fn need_region<T>(regions: &BTreeMap<String, T>) -> Result<()> {
    let names = regions.keys().map(|name| (name.as_str(), 0)).collect();
    match regions.is_empty() {
        true => bail!("no region matches the filters; the profile has none"),
        false => bail!("no region matches the filters; the profile has {}", listed(&names)),
    }
}

/// Where the filter names communicators or ranks, and none of the profile is among them: an error with those of the profile.
pub fn need_chosen(view: &ProfileView, filter: &CommFilter) -> Result<()> {
    let processes = view.processes();
    if filter.names_comms() {
        let rows: Vec<CommRow> = processes.comms.values().cloned().collect();
        let is_empty = !rows.iter().any(|row| filter.takes_comm(&row.comm, Some(row)));
        need_communicator(&rows, filter, is_empty)?;
    }
    let present: RankSet = processes.ranks().iter().map(|row| row.rank).collect();
    if !present.is_empty() && !present.iter().any(|rank| filter.takes_rank(rank)) {
        bail!("no rank matches the filters; the profile has {present}");
    }
    Ok(())
}

/// The names of largest weight, and how many others there are.
fn listed(names: &BTreeMap<&str, u128>) -> String {
    let mut names: Vec<(&str, u128)> = names.iter().map(|(&name, &weight)| (name, weight)).collect();
    names.sort_by(|(one, weight), (other, least)| least.cmp(weight).then_with(|| natural_order(one, other)));
    let shown: Vec<&str> = names.iter().take(LISTED).map(|&(name, _)| name).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let names: Vec<String> = (0..11).map(|number| format!("W_d{number}")).collect();
        let weighted = names.iter().map(|name| (name.as_str(), 1)).chain([("W", 9)]).collect();
        let expected = "W, W_d0, W_d1, W_d2, W_d3, W_d4, W_d5, W_d6, and 4 more";
        assert_eq!(listed(&weighted), expected);
    }
}
