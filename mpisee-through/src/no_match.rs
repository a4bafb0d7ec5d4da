//! Errors for filters that match nothing: they list what exists.

use crate::filter::{CallFilter, CommFilter, FilterOption, kind_name};
use crate::group::{By, GroupKey, Groups, seconds};
use crate::similar_names::similar_calls;
use crate::units::{SizeRange, natural_order, time};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::rows::CommRow;
use mpisee_profile::{Operation, RankSet, RunInfo};
use std::collections::BTreeMap;

/// Names that an error lists.
const LISTED: usize = 8;

/// Where a filter left no operation over: an error with the operations and communicators of the
/// profile.
pub fn need_operation(view: &ProfileView, filter: &CallFilter, is_empty: bool) -> Result<()> {
    if !is_empty || !filter.is_on() {
        return Ok(());
    }
    need_rank(view, &filter.comms)?;
    let by = By { comm: true, call: true, region: true, without_times: true, ..By::default() };
    let all = view.group(&CallFilter::default(), by)?;
    if all.cut_off.is_some() {
        return Ok(()); // What is missing may be what was looked for.
    }
    for (option, alone) in filter.each_alone() {
        if view.group(&alone, by)?.cells.is_empty() {
            bail!("no operation matches {}; {}", filter.text(option), there_is(option, filter, &all, view)?);
        }
    }
    let (of_any_time, _) = filter.without_times();
    if let Some(bounds) = filter.times_text()
        && !view.group(&of_any_time, by)?.cells.is_empty()
    {
        bail!("no operation matches {bounds}; {}", times_of(view, &of_any_time)?);
    }
    let (comms, calls) = (weights(&all, Groups::comm), weights(&all, Groups::call));
    bail!(
        "no operation matches {} at once; the profile has {} on {}",
        filter.described(),
        listed(&calls),
        listed(&comms)
    )
}

/// The times that bounds on them choose from.
fn times_of(view: &ProfileView, filter: &CallFilter) -> Result<String> {
    let (operations, _) = view.operations(filter)?;
    let mut times: Vec<(u64, &str)> =
        operations.iter().filter_map(|of| Some((of.sum.ranks.most_ns()?, of.call.as_str()))).collect();
    times.sort_unstable();
    let shown = |&(time_ns, call): &(u64, &str)| format!("{} in {call}", time(seconds(time_ns)));
    Ok(match &times[..] {
        [] => "the profile has no times of single ranks for this choice".to_owned(),
        [one] => format!("the slowest rank spent {}, over all communicators", shown(one)),
        [least, .., most] => format!(
            "the slowest ranks spent from {} to {}, over all communicators",
            shown(least),
            shown(most)
        ),
    })
}

/// The time of each name.
fn weights<'g>(groups: &'g Groups, name: fn(&'g Groups, &GroupKey) -> &'g str) -> BTreeMap<&'g str, u128> {
    let mut weights = BTreeMap::new();
    for (key, cell) in &groups.cells {
        *weights.entry(name(groups, key)).or_insert(0) += cell.time_ns;
    }
    weights
}

/// The names that a filter chooses from, and those that may have been meant.
fn there_is(option: FilterOption, filter: &CallFilter, all: &Groups, view: &ProfileView) -> Result<String> {
    let calls = weights(all, Groups::call);
    Ok(match option {
        FilterOption::Comm => {
            let rows = view.processes().comms.values().filter(|row| !row.label.is_empty());
            let labels: BTreeMap<&str, u128> = rows.map(|row| (row.label.as_str(), 0)).collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("; labels are {}", listed(&labels)) };
            let families = families_with_sizes(view, &filter.comms);
            format!("the profile has operations on {}{labels}{families}", listed(&weights(all, Groups::comm)))
        }
        FilterOption::Region => {
            let mut regions = weights(all, Groups::region);
            regions.remove("");
            match regions.is_empty() {
                true => format!("no call of the profile is in a region: {}", make_regions(view.run())),
                false => format!("the profile has calls in {}", listed(&regions)),
            }
        }
        FilterOption::Memory => format!("the profile has {}", memories(view)?.join(", ")),
        FilterOption::Call => {
            let near = |pattern: &str| {
                similar_calls(pattern, calls.keys().copied())
                    .first()
                    .map(|&call| format!("did you mean {call}? "))
            };
            let meant = filter.call_patterns().find_map(near).unwrap_or_default();
            format!("{meant}the profile has {}", listed(&calls))
        }
        FilterOption::Kind => {
            let mut kinds: BTreeMap<&str, u128> = BTreeMap::new();
            for (call, time_ns) in calls {
                let kind = Operation::from_name(call).map_or("others", |call| kind_name(call.kind()));
                *kinds.entry(kind).or_default() += time_ns;
            }
            format!("the profile has {}", listed(&kinds))
        }
        FilterOption::Size => {
            let by = By { size: true, without_times: true, ..By::default() };
            let groups = view.group(&CallFilter::default(), by)?;
            let sizes = groups.cells.iter().map(|(key, _)| groups.size(key));
            let classes = sizes.map(|(min_bytes, max_bytes)| SizeRange { min_bytes, max_bytes }.to_string());
            format!("the profile has the size classes {}", classes.collect::<Vec<_>>().join(", "))
        }
    })
}

/// The kinds of memory that operations of the profile have.
fn memories(view: &ProfileView) -> Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for (name, filter) in CallFilter::each_memory() {
        let by = By { without_times: true, ..By::default() };
        if !view.group(&filter, by)?.cells.is_empty() {
            found.push(if name == "host" { "host (buffers on the host, or none)" } else { name });
        }
    }
    Ok(found)
}

/// Where a filter left no communicator over: an error with those of the profile.
pub fn need_communicator(
    view: &ProfileView,
    rows: &[CommRow],
    filter: &CommFilter,
    is_empty: bool,
) -> Result<()> {
    if !is_empty || !filter.is_on() || rows.is_empty() {
        return Ok(());
    }
    need_rank(view, filter)?;
    let comms = rows.iter().map(|row| (row.comm.as_str(), u128::from(row.size))).collect();
    let families = families_with_sizes(view, filter);
    bail!("no communicator matches {}; the profile has {}{families}", filter.described(), listed(&comms))
}

/// The families of several communicators, where the filter asks for one by its size.
fn families_with_sizes(view: &ProfileView, filter: &CommFilter) -> String {
    if !filter.names_sizes() {
        return String::new();
    }
    let families = view.processes().families().iter().filter(|(_, members)| members.len() > 1);
    let families: BTreeMap<&str, u128> =
        families.map(|(name, members)| (name.as_str(), members.len() as u128)).collect();
    match families.is_empty() {
        true => String::new(),
        false => format!("; families are {}", listed(&families)),
    }
}

/// How a program gets regions.
pub fn make_regions(run: &RunInfo) -> &'static str {
    match run.is_without_mpi() {
        false => {
            "put mpisee_region_begin(\"NAME\") and mpisee_region_end() of mpisee.h around a part of the \
             program"
        }
        // The header includes that of MPI.
        true => {
            "put MPI_Pcontrol(0x4d505300, \"NAME\") and MPI_Pcontrol(0x4d505301) of the preloaded library \
             around a part of the program (docs/how-to/nccl.md)"
        }
    }
}

/// Where a filter left no region over: an error with those of the profile.
pub fn need_region<T>(view: &ProfileView, filter: &CallFilter, regions: &BTreeMap<String, T>) -> Result<()> {
    let filters = filter.described();
    let names = regions.keys().map(|name| (name.as_str(), 0)).collect();
    match regions.is_empty() {
        true => bail!("no region matches {filters}; the profile has none: {}", make_regions(view.run())),
        false => bail!("no region matches {filters}; the profile has {}", listed(&names)),
    }
}

/// Where the filter names communicators or ranks, and none of the profile is among them: an error
/// with those of the profile.
pub fn need_chosen(view: &ProfileView, filter: &CommFilter) -> Result<()> {
    let processes = view.processes();
    if filter.names_comms() {
        let rows: Vec<CommRow> = processes.comms.values().cloned().collect();
        let is_empty = !rows.iter().any(|row| processes.takes_comm(filter, &row.comm));
        need_communicator(view, &rows, filter, is_empty)?;
    }
    need_rank(view, filter)
}

/// Where the filter leaves no rank over: an error with those of the profile.
fn need_rank(view: &ProfileView, filter: &CommFilter) -> Result<()> {
    let present: RankSet = view.processes().ranks().iter().map(|row| row.rank).collect();
    if !present.is_empty() && !present.iter().any(|rank| filter.takes_rank(rank)) {
        let filters = filter.ranks_text().unwrap_or_default();
        bail!("no rank matches {filters}; the profile has {present}");
    }
    Ok(())
}

/// Where filters left no access of a kernel over: an error with the kernels and ranks of the
/// profile, or that it has none.
pub fn need_access<'k>(kernels: impl Iterator<Item = &'k str>, ranks: &RankSet) -> Result<()> {
    let kernels: BTreeMap<&str, u128> = kernels.map(|name| (name, 0)).collect();
    let of_ranks = if ranks.is_empty() { String::new() } else { format!(" on {}", ranks.named()) };
    match kernels.is_empty() {
        true => Ok(()),
        false => {
            bail!("no access matches the filters; the profile has kernels {}{of_ranks}", listed(&kernels))
        }
    }
}

/// The names of largest weight, and how many others there are.
pub fn listed(names: &BTreeMap<&str, u128>) -> String {
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
