//! The tables of places in the program that call MPI.

use super::{Row, Seconds};
use crate::site::{PathId, SiteId};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// `sites.csv`: one row per return address or line of Python, of all ranks: of an MPI call, of the
/// call in which a rank ended, or of a frame on a call path. Where call sites are not kept there is
/// no such file.
///
/// The profiler writes the address alone; `function`, `file`, `line` and `inlined_into` are empty
/// until they are resolved. For a line of Python, it writes the first three, and neither binary nor
/// address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct SiteRow {
    /// The site: 12 hexadecimal digits, equal on all ranks that run the same binary.
    pub site: SiteId,
    /// The binary, with its whole path on one of the ranks; empty if the code belongs to no file,
    /// and of a line of Python.
    pub module: String,
    /// The binary's GNU build ID in hexadecimal; empty if it has none.
    pub build_id: String,
    /// A hash of the binary's program headers in hexadecimal, which tells files apart that were
    /// given one build ID. Empty of a line of Python, and in profiles of older versions.
    #[serde(default)]
    pub layout: String,
    /// The address to which the call returns, as in the binary's symbol table: `0x4011c5`. The call
    /// is right before it. Empty of a line of Python.
    pub offset: String,
    /// The function that the site is in.
    #[serde(default)]
    pub function: String,
    /// The source file of the function.
    #[serde(default)]
    pub file: String,
    /// The line in the source file.
    #[serde(default)]
    pub line: Option<u32>,
    /// The functions into which that one is inlined, the innermost first: `step at
    /// /src/solver.c:301 < main at /src/main.c:88`. Line 0 is one that is not known.
    #[serde(default)]
    pub inlined_into: String,
}

impl SiteRow {
    /// A return address that is not resolved, `offset` is the address as in the binary's symbol
    /// table.
    pub fn unresolved(site: SiteId, module: &str, build_id: &str, layout: &str, offset: u64) -> Self {
        let [module, build_id, layout] = [module, build_id, layout].map(str::to_owned);
        let [function, file, inlined_into] = [const { String::new() }; 3];
        let offset = format!("{offset:#x}");
        SiteRow { site, module, build_id, layout, offset, function, file, line: None, inlined_into }
    }

    /// A line of an interpreted language.
    pub fn of_line(site: SiteId, function: &str, file: &str, line: Option<u32>) -> Self {
        let [module, build_id, layout, offset, inlined_into] = [const { String::new() }; 5];
        let [function, file] = [function, file].map(str::to_owned);
        SiteRow { site, module, build_id, layout, offset, function, file, line, inlined_into }
    }
}

impl Row for SiteRow {
    const FILE: &'static str = "sites.csv";
    const OPTIONAL: &'static [&'static str] = &["file", "function", "inlined_into", "layout", "line"];
}

/// `paths.csv`: one row per call path, communicator, rank and operation: calls that took so long
/// that their whole path was taken. A profile without such calls has no such file.
///
/// These calls are in `calls.csv`, too, at the first site of their path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct PathRow {
    /// The path, as in `stacks.csv`.
    pub path: PathId,
    /// The communicator.
    pub comm: String,
    /// The process.
    pub rank: u32,
    /// The standard's name of the function.
    pub call: String,
    /// The number of calls.
    pub calls: u64,
    /// The time in the calls.
    pub time_s: Seconds,
}

impl Row for PathRow {
    const FILE: &'static str = "paths.csv";
}

/// `path-totals.csv`: one row per call path, communicator or family, and operation, over ranks. It
/// takes the place of `paths.csv` in an aggregate profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct PathTotalRow {
    /// The path, as in `stacks.csv`.
    pub path: PathId,
    /// The communicator or family.
    pub comm: String,
    /// The standard's name of the function.
    pub call: String,
    /// The number of ranks that made such calls.
    pub ranks: u64,
    /// The number of calls, over all ranks.
    pub calls: u64,
    /// The time in the calls, over all ranks.
    pub time_s: Seconds,
    /// The time of the rank with most.
    pub time_max_s: Seconds,
    /// The rank with most time.
    pub time_max_rank: u32,
}

impl Row for PathTotalRow {
    const FILE: &'static str = "path-totals.csv";
}

/// `site-totals.csv`: one row per call site and operation, over ranks, in an aggregate profile: how
/// the times of ranks differ, which the rows of `totals.csv` do not show where a site has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct SiteTotalRow {
    /// The site, as in `sites.csv`.
    pub site: SiteId,
    /// The standard's name of the function.
    pub call: String,
    /// The number of ranks that made such calls.
    pub ranks: u64,
    /// The number of calls, over all ranks.
    pub calls: u64,
    /// The time in the calls, over all ranks.
    pub time_s: Seconds,
    /// The time of the rank with least, of those that made such calls.
    pub time_min_s: Seconds,
    /// The time of the rank with most.
    pub time_max_s: Seconds,
    /// The rank with most time.
    pub time_max_rank: u32,
}

impl Row for SiteTotalRow {
    const FILE: &'static str = "site-totals.csv";
}

/// `stacks.csv`: one row per call path, of all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct StackRow {
    /// The path.
    pub path: PathId,
    /// The call sites of the path, from the MPI call outwards, separated by spaces; see
    /// `sites.csv`.
    pub sites: String,
}

impl Row for StackRow {
    const FILE: &'static str = "stacks.csv";
}
