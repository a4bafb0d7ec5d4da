//! The tables of call sites and call paths of one rank.

use mpisee_profile::rows::{PathRow, Seconds, SiteRow, StackRow};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::path;
use mpisee_profile::segment::log::Code;
use mpisee_profile::segment::snapshot::{Module, Snapshot};
use mpisee_profile::site::{PathId, SiteId, layout_text};
use mpisee_profile::{Operation, Ticks};
use std::collections::BTreeMap;

/// The call sites and call paths of one rank.
#[derive(Debug, Default)]
pub struct SiteTables {
    /// Its call sites, those of its calls in progress, and those on its call paths.
    pub sites: Vec<SiteRow>,
    /// Its calls whose path was taken.
    pub paths: Vec<PathRow>,
    /// The paths.
    pub stacks: Vec<StackRow>,
}

impl SiteTables {
    /// The rows of a process, with the names of communicators by number.
    pub fn new(snapshot: &Snapshot, names: &[String], seconds: &impl Fn(Ticks) -> Seconds) -> SiteTables {
        let of_active_calls = snapshot.active_calls.iter().filter_map(|active| snapshot.code_of(active));
        let of_sites = snapshot.sites.iter().map(|site| site.code);
        let codes = of_sites.chain(snapshot.paths.iter().flatten().copied()).chain(of_active_calls);
        let sites: BTreeMap<SiteId, SiteRow> = codes.filter_map(|code| site_row(snapshot, code)).collect();
        let ids: Vec<Option<PathId>> = snapshot.paths.iter().map(|frames| snapshot.path_id(frames)).collect();
        let stacks = snapshot.paths.iter().zip(&ids);
        let stacks: BTreeMap<PathId, String> =
            stacks.filter_map(|(frames, id)| Some(((*id)?, sites_of(snapshot, frames)?))).collect();
        SiteTables {
            sites: sites.into_values().collect(),
            paths: path_rows(snapshot, names, &ids, seconds),
            stacks: stacks.into_iter().map(|(path, sites)| StackRow { path, sites }).collect(),
        }
    }
}

fn site_row(snapshot: &Snapshot, code: Code) -> Option<(SiteId, SiteRow)> {
    let module = snapshot.modules.get(code.module as usize)?;
    let site = snapshot.site_id(&code)?;
    let row = match module {
        Module::Binary { path, build_id, layout } => {
            SiteRow::unresolved(site, path, build_id, &layout_text(*layout), code.offset)
        }
        Module::Function { file, name } => {
            SiteRow::of_line(site, name, file, u32::try_from(code.offset).ok())
        }
    };
    Some((site, row))
}

fn sites_of(snapshot: &Snapshot, frames: &[Code]) -> Option<String> {
    let sites: Option<Vec<String>> =
        frames.iter().map(|code| snapshot.site_id(code).map(|site| site.to_string())).collect();
    Some(sites?.join(" "))
}

/// Rows by path, communicator and operation: paths of several numbers may be one, where a library
/// was loaded again.
fn path_rows(
    snapshot: &Snapshot,
    names: &[String],
    ids: &[Option<PathId>],
    seconds: &impl Fn(Ticks) -> Seconds,
) -> Vec<PathRow> {
    let mut sums: BTreeMap<(PathId, u32, u16), (u64, Ticks)> = BTreeMap::new();
    for (key, values) in &snapshot.counters {
        let Some(Meaning::Path(key)) = key.meaning() else { continue };
        let Some(id) = ids.get(usize::from(key.path)).copied().flatten() else { continue };
        let (calls, ticks) = sums.entry((id, key.communicator.get(), key.operation)).or_default();
        *calls = calls.wrapping_add(values[path::CALLS]);
        *ticks = ticks.wrapping_add(Ticks::new(values[path::TICKS]));
    }
    let row = |((id, communicator, operation), (calls, ticks))| {
        Some(PathRow {
            path: id,
            comm: names.get(communicator as usize)?.clone(),
            rank: snapshot.world_rank.get(),
            call: Operation::from_index(u64::from(operation))?.name().to_owned(),
            calls,
            time_s: seconds(ticks),
        })
    };
    sums.into_iter().filter_map(row).collect()
}
