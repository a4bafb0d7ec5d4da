//! `sites --resolve`: functions and lines for `sites.csv`.

use crate::load;
use crate::sites::{SiteFrame, Sites};
use crate::units::count;
use crate::view::ProfileView;
use anyhow::{Context, Result};
use mpisee_profile::rows::{Row, SiteRow};
use mpisee_profile::writer::to_csv;

/// Writes what is known of each site, in a new file in place of the old one, and says how many that
/// are.
pub fn write(view: &ProfileView, sites: &mut Sites) -> Result<String> {
    let mut rows: Vec<SiteRow> = load::all(view.profile())?;
    for row in &mut rows {
        let frames = sites.frames(row.site);
        if let Some((innermost, outer)) = frames.split_first().filter(|(it, _)| !it.function.is_empty()) {
            row.function = innermost.function.clone();
            row.file = innermost.file.clone();
            row.line = innermost.line;
            row.inlined_into = SiteFrame::list_text(outer);
        }
    }
    let path = view.profile().directory().join(SiteRow::FILE);
    let new = path.with_extension("csv.new");
    let text = [SiteRow::columns().join(",").as_bytes(), b"\n", &to_csv(&rows)].concat();
    let written = std::fs::write(&new, text).with_context(|| format!("cannot write '{}'", new.display()));
    let replaced = written.and_then(|()| {
        std::fs::rename(&new, &path).with_context(|| format!("cannot replace '{}'", path.display()))
    });
    if replaced.is_err() {
        // Nobody needs it, and the error is said.
        let _ = std::fs::remove_file(&new);
    }
    replaced?;
    let known = rows.iter().filter(|row| row.line.is_some()).count();
    Ok(format!(
        "'{}' has the lines of {known} of {}.\n",
        path.display(),
        count(rows.len() as u64, "call site")
    ))
}
