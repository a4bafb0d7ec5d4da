//! Reads the tables of call sites and stacks, and refuses rows that no resolution or tree can be
//! made of.

use super::frames::SiteFrame;
use mpisee_profile::rows::{PathRow, PathTotalRow, Row, SiteRow, StackRow};
use mpisee_profile::{PathId, Profile, ProfileError, SiteId};
use std::collections::HashMap;

/// Call sites on a path at most. The recorder takes 128; each is a level of a tree, so that a
/// damaged table could fill the memory.
const MOST_OF_PATH: usize = 1024;

/// The rows of `sites.csv`; nothing if there is none.
///
/// # Errors
/// Of a table that cannot be read, of an address that is none, and of functions that are no list.
pub fn sites(profile: &Profile) -> Result<Vec<SiteRow>, ProfileError> {
    let mut rows: Vec<SiteRow> = Vec::new();
    let mut line = 2;
    for row in profile.rows_if_any::<SiteRow>()? {
        let row = row?;
        let is_address = row.offset.strip_prefix("0x").is_some_and(|it| u64::from_str_radix(it, 16).is_ok());
        let is_of_python = row.offset.is_empty() && row.module.is_empty();
        if !is_address && !is_of_python {
            let why = format!("column 'offset': '{}' is no address like 0x4011c5", row.offset);
            return Err(malformed::<SiteRow>(profile, line, why));
        }
        if SiteFrame::of_list(&row.inlined_into, "").is_none() {
            let why = format!(
                "column 'inlined_into': '{}' is no list of functions like step at /src/solver.c:301",
                row.inlined_into
            );
            return Err(malformed::<SiteRow>(profile, line, why));
        }
        line += 1 + newlines(&[&row.module, &row.function, &row.file, &row.inlined_into]);
        rows.push(row);
    }
    Ok(rows)
}

/// The sites of each path of `stacks.csv`, the innermost first.
///
/// # Errors
/// Of a table that cannot be read or is missing, and of a path that is too long.
pub fn stacks(profile: &Profile) -> Result<HashMap<PathId, Vec<SiteId>>, ProfileError> {
    let has_paths =
        [PathRow::FILE, PathTotalRow::FILE].iter().any(|file| profile.directory().join(file).exists());
    let mut stacks = HashMap::new();
    if !has_paths {
        return Ok(stacks);
    }
    for (row, line) in profile.rows::<StackRow>()?.zip(2..) {
        let row = row?;
        let count = row.sites.split(' ').count();
        if count > MOST_OF_PATH {
            let why = format!("column 'sites': {count} call sites are more than a path has ({MOST_OF_PATH})");
            return Err(malformed::<StackRow>(profile, line, why));
        }
        // What is no site is one that `check` reports.
        stacks.insert(row.path, row.sites.split(' ').filter_map(|site| site.parse().ok()).collect());
    }
    Ok(stacks)
}

fn malformed<R: Row>(profile: &Profile, line: u64, why: String) -> ProfileError {
    ProfileError::Malformed { path: profile.directory().join(R::FILE), line, why }
}

/// Lines that the fields of a row take beyond its own.
fn newlines(fields: &[&str]) -> u64 {
    fields.iter().map(|field| field.matches('\n').count() as u64).sum()
}
