//! `sites --annotate`: the lines of source around calls.

use crate::debug_info::{SearchDirs, written};
use crate::group::seconds;
use crate::output::{Page, printable};
use crate::sites::PlaceSum;
use crate::units::time;
use crate::view::ProfileView;
use std::collections::HashMap;
use std::path::PathBuf;

/// Lines before and after a call.
const CONTEXT: usize = 2;
/// Of a line of source so much is shown where the output is no terminal.
const LONGEST: usize = 200;

/// A source file, with a sentence if its lines may be others, or why they are not shown.
type Source = Result<(Vec<String>, Option<String>), String>;

/// The lines around each call, each under its place.
pub fn text(sums: &[PlaceSum], view: &ProfileView, dirs: &[PathBuf], page: Page) -> String {
    let dirs = SearchDirs(dirs.to_vec());
    let mut files: HashMap<String, Source> = HashMap::new();
    let mut out = String::new();
    for sum in sums {
        let Some(frame) = sum.place.as_ref().and_then(|place| place.frames.first()) else { continue };
        let Some(line) = frame.line.and_then(|line| usize::try_from(line).ok()) else { continue };
        let file =
            files.entry(frame.file.clone()).or_insert_with(|| read(&frame.file, &dirs, &view.run().end));
        let head =
            format!("{}, {}: {} over all ranks", super::text(sum), sum.call, time(seconds(sum.cell.time_ns)));
        out += &page.bold(&printable(&head));
        out.push('\n');
        match file {
            Ok((lines, doubt)) => {
                out.extend(doubt.iter().map(|doubt| format!("  {doubt}\n")));
                out += &around(lines, line, page);
            }
            Err(why) => out += &format!("  {why}\n"),
        }
        out.push('\n');
    }
    out
}

fn read(name: &str, dirs: &SearchDirs, end: &str) -> Source {
    let Some(path) = dirs.find(name) else {
        return Err(format!("'{name}' is not there; --source DIR says where to look"));
    };
    let is_newer = written(&path).is_some_and(|written| written.as_str() > end);
    let doubt =
        is_newer.then(|| format!("'{}' was written after the run: the lines may have moved", path.display()));
    let bytes =
        std::fs::read(&path).map_err(|error| format!("'{}' cannot be read: {error}", path.display()))?;
    Ok((String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect(), doubt))
}

/// A line and those around it, with their numbers.
fn around(lines: &[String], line: usize, page: Page) -> String {
    let first = line.saturating_sub(CONTEXT).max(1);
    let last = (line + CONTEXT).min(lines.len());
    let digits = last.to_string().len();
    let room = page.width.map_or(LONGEST, |width| usize::from(width).saturating_sub(digits + 6).max(20));
    let shown = (first..=last).map(|number| {
        let text = lines[number - 1].replace('\t', "    ");
        let text: String = printable(&text).chars().take(room).collect();
        let mark = if number == line { '>' } else { ' ' };
        format!("{mark} {number:>digits$} │ {text}").trim_end().to_owned() + "\n"
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_as_far_as_there_are_any() {
        let lines: Vec<String> = ["a", "\tb", "c"].map(str::to_owned).to_vec();
        assert_eq!(around(&lines, 1, Page::default()), "> 1 │ a\n  2 │     b\n  3 │ c\n");
        assert_eq!(around(&lines, 9, Page::default()), "");
    }
}
