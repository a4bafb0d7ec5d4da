//! Folded stacks, of which flame graphs are made.

use super::frames;
use crate::filter::CallFilter;
use crate::group::By;
use crate::output::printable;
use crate::sites::{PathSum, Sites};
use crate::view::ProfileView;
use anyhow::Result;
use std::collections::BTreeMap;

/// The outermost frame of calls that are on no path.
const NO_PATH: &str = "(no path)";
/// The place of calls whose site is not known.
const NO_SITE: &str = "(site not known)";
const NS_PER_US: u128 = 1000;

/// A line for each stack: its functions from the outermost on, and microseconds.
pub fn text(view: &ProfileView, sites: &mut Sites, filter: &CallFilter, sums: &[PathSum]) -> Result<String> {
    let mut stacks: BTreeMap<String, u128> = BTreeMap::new();
    // What is on paths is in the calls of the path's first site.
    let mut of_sites = BTreeMap::new();
    for sum in sums {
        let names = frames(sum.path, sites).iter().map(|frame| escaped(&frame.name())).collect();
        *stacks.entry(stack(names, &sum.call)).or_default() += u128::from(sum.time_ns);
        let first = sites.stack(sum.path).first().copied();
        *of_sites.entry((first, sum.call.as_str())).or_default() += u128::from(sum.time_ns);
    }
    let mut groups =
        view.group(filter, By { call: true, site: true, without_times: true, ..By::default() })?;
    if let Some(error) = groups.cut_off.take() {
        return Err(error.into());
    }
    // A site beyond the limit has paths, and its calls are on the row without site, which therefore
    // comes last.
    let mut not_at_their_site: BTreeMap<&str, u128> = BTreeMap::new();
    let (with_site, without): (Vec<_>, Vec<_>) =
        groups.cells.iter().partition(|(key, _)| groups.site(key).is_some());
    let mut add = |names: Vec<String>, call: &str, time_ns: u128| {
        let names = [NO_PATH.to_owned()].into_iter().chain(names).collect();
        *stacks.entry(stack(names, call)).or_default() += time_ns;
    };
    for (key, cell) in with_site {
        let (site, call) = (groups.site(key), groups.call(key));
        let on_paths_ns = of_sites.remove(&(site, call)).unwrap_or(0);
        *not_at_their_site.entry(call).or_default() += on_paths_ns.saturating_sub(cell.time_ns);
        let frames = site.map(|site| sites.frames(site)).unwrap_or_default();
        let names = frames.iter().rev().map(|frame| escaped(&frame.name())).collect();
        add(names, call, cell.time_ns.saturating_sub(on_paths_ns));
    }
    // Of sites that no rank numbered no row is left.
    for ((_, call), time_ns) in of_sites {
        *not_at_their_site.entry(call).or_default() += time_ns;
    }
    for (key, cell) in without {
        let call = groups.call(key);
        let on_paths_ns = not_at_their_site.remove(call).unwrap_or(0);
        add(vec![NO_SITE.to_owned()], call, cell.time_ns.saturating_sub(on_paths_ns));
    }
    let lines = stacks.into_iter().filter_map(|(stack, time_ns)| {
        let time_us = (time_ns + NS_PER_US / 2) / NS_PER_US;
        (time_us > 0).then(|| format!("{stack} {time_us}\n"))
    });
    Ok(lines.collect())
}

fn stack(mut names: Vec<String>, call: &str) -> String {
    names.push(call.to_owned());
    names.join(";")
}

/// A name without what separates frames and stacks, or what a terminal would obey.
fn escaped(name: &str) -> String {
    printable(&name.replace(';', ",").replace('\n', " "))
}
