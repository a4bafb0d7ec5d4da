//! `gpu --annotate`: the source text, with the accesses of each line.

use super::label::Label;
use super::sums::{self, Key, Sum, Sums};
use super::{Chosen, GpuArgs, NOTHING, Of, bars};
use crate::debug_info::{SearchDirs, written};
use crate::output::{Format, Page, printable};
use crate::picture::{self, Picture, SourceFile, SourceLine};
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::units;
use crate::view::ProfileView;
use anyhow::Result;
use std::collections::BTreeMap;

/// Lines shown before and after one that accesses.
const CONTEXT: usize = 2;
/// Of a line of source so much is shown where the output is no terminal.
const LONGEST: usize = 200;

/// The lines of a file that access, by number; 0 has what is of no line.
#[derive(Debug, Default)]
struct Annotated {
    lines: BTreeMap<usize, Sum>,
    /// The file, if it was found.
    text: Vec<String>,
}

/// The files with the largest share first: text for reading, rows for CSV and JSON.
pub fn answer(view: &ProfileView, chosen: &Chosen, args: &GpuArgs) -> Result<Answer> {
    let sums = Sums::from_rows(&chosen.rows, |row| vec![Label::Text(row.source.clone())]);
    let all = sums.all(args.of);
    let mut found = sums.sorted(args.of);
    let left_out = found.len().saturating_sub(args.shown.limit(&args.output));
    found.truncate(args.shown.limit(&args.output));
    let mut caveats = Vec::new();
    let files = files(&found, view, args, &mut caveats);
    let is_table = args.output.format() == Format::Table;
    let rows = if is_table { Vec::new() } else { rows(&files, chosen, args, all) };
    let mut answer =
        Answer::new(view.profile(), Sheet { name: "lines", heads: heads(chosen, args.of), rows }, None);
    answer.caveats.extend(caveats);
    if is_table {
        let text = |(name, file): &(String, Annotated)| section(name, file, chosen, args, all);
        answer.lead = files.iter().map(text).collect::<Vec<_>>().join("\n");
    }
    answer.closing = match left_out {
        0 if found.is_empty() => format!("{}\n", NOTHING),
        _ => units::left_out(left_out, "line"),
    };
    Ok(answer)
}

/// Lines in a picture, unless asked otherwise, and at most.
const DRAWN: usize = 60;
const MOST_DRAWN: usize = 200;

/// The files as a picture: the same lines, each with a bar.
pub fn picture(view: &ProfileView, chosen: &Chosen, args: &GpuArgs) -> Picture {
    let sums = Sums::from_rows(&chosen.rows, |row| vec![Label::Text(row.source.clone())]);
    let all = sums.all(args.of);
    let mut found = sums.sorted(args.of);
    let rest = found.split_off(args.shown.in_picture(DRAWN, MOST_DRAWN).min(found.len()));
    let mut notes = sheet::caveats(view.profile());
    let files = files(&found, view, args, &mut notes);
    let files: Vec<SourceFile> = files.iter().map(|(name, file)| drawn(name, file, chosen, args)).collect();
    if !rest.is_empty() {
        let amount = rest.iter().fold(0u64, |sum, (_, one)| sum.saturating_add(one.amount(args.of)));
        let (lines, have) = if rest.len() == 1 { ("line", "has") } else { ("lines", "have") };
        let share = picture::share(amount, all);
        notes.push(format!(
            "{} more {lines} {have} {share}; --top N draws N, and {MOST_DRAWN} at most.",
            rest.len()
        ));
    }
    let title = format!("{}: {}, in the source", view.program(), bars::what(args.of));
    picture::source(&title, bars::kinds(args.of), &files, all, &notes)
}

fn drawn(name: &str, file: &Annotated, chosen: &Chosen, args: &GpuArgs) -> SourceFile {
    let mut whole = Sum::default();
    file.lines.values().for_each(|sum| whole.join(sum));
    let mut lines: Vec<SourceLine> = Vec::new();
    for number in with_context(file) {
        let about = |sum: &Sum| bars::about(&format!("line {number}"), sum, chosen.is_sampled);
        let text = file.text.get(number - 1).map_or(String::new(), |text| text.replace('\t', "    "));
        lines.push(SourceLine {
            number,
            text: printable(&text),
            does: file.lines.get(&number).map(|sum| (sum.kinds(args.of), about(sum))),
            is_after_gap: lines.last().is_some_and(|last| number > last.number + 1),
        });
    }
    let title = bars::about(name, &whole, chosen.is_sampled);
    SourceFile { name: printable(name), parts: whole.kinds(args.of), title, lines }
}

/// The files, in the order of their first lines.
fn files(
    found: &[(Key, Sum)],
    view: &ProfileView,
    args: &GpuArgs,
    caveats: &mut Vec<String>,
) -> Vec<(String, Annotated)> {
    let dirs = SearchDirs(args.source.clone());
    let mut files: Vec<(String, Annotated)> = Vec::new();
    for (key, sum) in found {
        let (name, line) = split(key[0].text());
        let at = files.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            let mut file = Annotated::default();
            if line > 0 {
                match dirs.find(name).and_then(|path| Some((std::fs::read(&path).ok()?, path))) {
                    Some((bytes, path)) => {
                        file.text = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
                        if written(&path).is_some_and(|written| written > view.run().end) {
                            caveats.push(format!(
                                "'{}' was written after the run: its lines may not be those that ran.",
                                path.display()
                            ));
                        }
                    }
                    None => caveats.push(format!("'{name}' is not there; --source DIR says where to look.")),
                }
            }
            files.push((name.to_owned(), file));
            files.len() - 1
        });
        files[at].1.lines.insert(line, sum.clone());
    }
    files
}

/// File and line; what has no line is all of it, and line 0.
fn split(source: &str) -> (&str, usize) {
    let parts = source.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    parts.filter(|&(_, line)| line > 0).unwrap_or((source, 0))
}

fn heads(chosen: &Chosen, of: Of) -> Vec<Head> {
    let mut heads =
        vec![sheet::fixed("file", "FILE"), sheet::number("line", "LINE"), sheet::fixed("text", "TEXT")];
    heads.extend(sums::heads(of.heading(), chosen.is_sampled));
    heads
}

fn rows(files: &[(String, Annotated)], chosen: &Chosen, args: &GpuArgs, all: u64) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (name, file) in files {
        for (&line, sum) in &file.lines {
            let number = if line > 0 { Value::Count(line as u64) } else { Value::Nothing };
            let text = line.checked_sub(1).and_then(|at| file.text.get(at));
            let text = text.map_or(Value::Nothing, |text| Value::from(text.trim()));
            let mut row = vec![Value::from(name.as_str()), number, text];
            row.extend(sum.cells(args.of, all, chosen.is_sampled));
            rows.push(row);
        }
    }
    rows
}

/// A file for reading.
fn section(name: &str, file: &Annotated, chosen: &Chosen, args: &GpuArgs, all: u64) -> String {
    let page = args.output.page();
    let of_file = file.lines.values().fold(0u64, |sum, line| sum.saturating_add(line.amount(args.of)));
    let share = 100.0 * of_file as f64 / all.max(1) as f64;
    let mut text = format!("{}  {share:.1} {}\n", page.bold(&printable(name)), args.of.heading());
    if file.lines.keys().eq([&0]) {
        return text;
    }
    let heads = sums::heads(args.of.heading(), chosen.is_sampled);
    let mut lines: Vec<Vec<String>> =
        vec![heads.iter().map(|head| head.heading.to_owned()).chain(["LINE".to_owned()]).collect()];
    let mut texts = vec![String::new()];
    let mut last = 0;
    for number in with_context(file) {
        if last > 0 && number > last + 1 {
            lines.push(vec![String::new(); heads.len() + 1]);
            texts.push("⋮".to_owned());
        }
        last = number;
        let cells = match file.lines.get(&number) {
            Some(sum) => {
                let cells = sum.cells(args.of, all, chosen.is_sampled);
                cells.iter().map(|cell| cell.in_table()).collect()
            }
            None => vec![String::new(); heads.len()],
        };
        lines.push(cells.into_iter().chain([number.to_string()]).collect());
        texts.push(file.text.get(number - 1).cloned().unwrap_or_default());
    }
    text += &aligned(&lines, &texts, page);
    text
}

/// The numbers of the lines that access, and of some around them.
fn with_context(file: &Annotated) -> Vec<usize> {
    let mut numbers: Vec<usize> = Vec::new();
    for &line in file.lines.keys().filter(|line| **line > 0) {
        let around = line.saturating_sub(CONTEXT).max(1)..=line + CONTEXT;
        numbers.extend(around.filter(|number| *number == line || *number <= file.text.len()));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Numbers under each other on the right, then the text as far as there is room.
fn aligned(lines: &[Vec<String>], texts: &[String], page: Page) -> String {
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let before: usize = widths.iter().map(|width| width + 2).sum();
    let room = page.width.map_or(LONGEST, |width| usize::from(width).saturating_sub(before + 2).max(20));
    let mut all = String::new();
    for (number, (line, text)) in lines.iter().zip(texts).enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}  "));
        let cells: String = cells.collect();
        let text: String = printable(&text.replace('\t', "    ")).chars().take(room).collect();
        let row = format!("{cells}{}{text}", if number == 0 { "" } else { "│ " });
        let row = row.trim_end();
        all += &if number == 0 { page.bold(row) } else { row.to_owned() };
        all.push('\n');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_and_a_line_or_neither() {
        assert_eq!(split("/src/halo.cu:41"), ("/src/halo.cu", 41));
        assert_eq!(split("c:/halo.cu:7"), ("c:/halo.cu", 7));
        for none in ["copy+0xe0", "halo.cu:", "halo.cu:x", "halo.cu:0", ""] {
            assert_eq!(split(none), (none, 0));
        }
    }

    #[test]
    fn lines_have_their_neighbours_as_far_as_there_are_any() {
        let mut file = Annotated::default();
        for line in [1, 5, 12] {
            file.lines.insert(line, Sum::default());
        }
        file.text = vec![String::new(); 11];
        assert_eq!(with_context(&file), [1, 2, 3, 4, 5, 6, 7, 10, 11, 12]);
        file.text.clear();
        assert_eq!(with_context(&file), [1, 5, 12]);
    }
}
