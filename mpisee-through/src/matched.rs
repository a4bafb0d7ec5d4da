//! Errors for filters that match nothing, and for misspelt names: they list what exists.

use crate::filter::{CallFilter, CommFilter};
use crate::group::{self, By};
use crate::load::Processes;
use crate::units::natural_order;
use anyhow::{Result, bail};
use mpisee_profile::Profile;
use mpisee_profile::rows::CommRow;
use std::collections::BTreeMap;

/// Names that an error lists.
const LISTED: usize = 8;
/// Jaro-Winkler similarity, from 0 to 1, of names that may have been mistaken for each other.
const SIMILAR: f64 = 0.75;

/// Where a filter left no operation over: an error with the operations and communicators of the profile.
pub fn need_operation(
    profile: &Profile,
    processes: &Processes,
    filter: &CallFilter,
    is_empty: bool,
) -> Result<()> {
    if !is_empty || !filter.is_on() {
        return Ok(());
    }
    let by = By { comm: true, call: true, without_times: true, ..By::default() };
    let all = group::group(profile, processes, &CallFilter::default(), by)?;
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

/// Those of the names that `given` may have been meant for, the likeliest first.
pub fn similar<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let given = given.to_lowercase();
    let similarity = |name: &&str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let mut found: Vec<(f64, &str)> = names.into_iter().map(|name| (similarity(&name), name)).collect();
    found.retain(|&(similarity, _)| similarity > SIMILAR);
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_name_comes_first() {
        let commands = ["summary", "advise", "matrix", "ranks", "comms"];
        assert_eq!(similar("advice", commands), ["advise"]);
        assert_eq!(similar("RANK", commands), ["ranks"]);
        assert_eq!(similar("nonsense", commands), Vec::<&str>::new());
    }

    #[test]
    fn a_long_list_is_cut() {
        let names: Vec<String> = (0..11).map(|number| format!("W_d{number}")).collect();
        let weighted = names.iter().map(|name| (name.as_str(), 1)).chain([("W", 9)]).collect();
        let expected = "W, W_d0, W_d1, W_d2, W_d3, W_d4, W_d5, W_d6, and 4 more";
        assert_eq!(listed(&weighted), expected);
    }
}
