//! The places in the program that call MPI, and the call paths that lead there, by family of
//! communicators.

use super::columns::Table;
use super::places::{FamilyNumbers, Numbered};
use crate::command::{paths, sites};
use crate::group::seconds;
use crate::sites::SiteFrame;
use serde::Serialize;
use std::collections::BTreeMap;

/// The places with an operation each, as `sites` has them.
#[derive(Debug, Default, Serialize)]
pub struct CallSites {
    /// The answer of the command, without the lists of communicators and sites.
    table: Table,
    parts: Parts,
    /// On places that are not known, and lines that are missing.
    notes: String,
}

/// The call paths of slow calls, as `paths` has them.
#[derive(Debug, Default, Serialize)]
pub struct CallPaths {
    table: Table,
    parts: Parts,
    /// The functions of each path from the outermost on, by number.
    frames: Vec<Vec<u32>>,
    names: Vec<String>,
    /// How much of the time is on paths.
    lead: String,
}

/// The share of each row that is on each family, column by column.
#[derive(Debug, Default, Serialize)]
struct Parts {
    row: Vec<u32>,
    comm: Vec<u32>,
    calls: Vec<u64>,
    time_s: Vec<f64>,
}

impl Parts {
    /// Of calls and nanoseconds by communicator, of each row.
    fn from_rows<'a>(
        rows: impl Iterator<Item = &'a BTreeMap<String, (u64, u128)>>,
        comms: &mut FamilyNumbers<'_>,
    ) -> Self {
        let mut all = Parts::default();
        for (row, by_comm) in (0..).zip(rows) {
            let mut sums: BTreeMap<u32, (u64, u128)> = BTreeMap::new();
            for (comm, &(calls, time_ns)) in by_comm {
                let sum = sums.entry(comms.number(comm)).or_default();
                sum.0 = sum.0.saturating_add(calls);
                sum.1 = sum.1.saturating_add(time_ns);
            }
            for (comm, (calls, time_ns)) in sums {
                all.row.push(row);
                all.comm.push(comm);
                all.calls.push(calls);
                all.time_s.push(seconds(time_ns));
            }
        }
        all
    }
}

/// Columns of `sites` that would list what the parts have, by families.
const LISTS: [&str; 2] = ["comms", "sites"];

impl CallSites {
    /// Of the answer of `sites`, of which the first rows are shown.
    pub fn from_found(found: &mut sites::SitesAnswer, comms: &mut FamilyNumbers<'_>) -> Self {
        let Some(sheet) = found.answer.sheets.first_mut() else { return CallSites::default() };
        sheet.keep_columns(|name, _| !LISTS.contains(&name));
        let notes = found.answer.values.iter().find(|(name, _)| *name == "notes");
        let shown = found.sums.iter().take(sheet.rows.len());
        CallSites {
            parts: Parts::from_rows(shown.map(|sum| &sum.comms), comms),
            table: Table::from(&*sheet),
            notes: notes.map_or(String::new(), |(_, notes)| notes.in_table()),
        }
    }
}

impl CallPaths {
    /// Of the answer of `paths`.
    pub fn from_found(found: &paths::PathsAnswer, comms: &mut FamilyNumbers<'_>) -> Self {
        let mut names = Numbered::default();
        let number = |path: &paths::OnPath| -> Vec<u32> {
            path.frames.iter().map(SiteFrame::text).map(|text| names.number(&text)).collect()
        };
        let frames = found.paths.iter().map(number).collect();
        CallPaths {
            table: found.answer.sheets.first().map_or_else(Table::default, Table::from),
            parts: Parts::from_rows(found.paths.iter().map(|path| &path.comms), comms),
            frames,
            names: names.names,
            lead: found.answer.lead.trim_end().to_owned(),
        }
    }
}
