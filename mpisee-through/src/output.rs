//! Where results go and how they look: tables for people, CSV and JSON for scripts.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// What results are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For reading, fitted to the terminal
    Table,
    /// Comma-separated values with a header row
    Csv,
    /// One JSON object
    Json,
}

/// Format and file of the result.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// What to write (default: what the name of the file ends in, .csv or .json, else a table)
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,

    /// Where to write, - for standard output
    #[arg(short = 'o', long, value_name = "FILE", default_value = "-", value_parser = parse_file)]
    output: PathBuf,
}

/// An output file; the name of a format is rejected as a likely mistake.
fn parse_file(text: &str) -> Result<PathBuf, String> {
    match Format::from_str(text, false) {
        Ok(_) => Err(format!(
            "is no file: --format {text} chooses the format; write ./{text} for a file of that name"
        )),
        Err(_) => Ok(PathBuf::from(text)),
    }
}

/// How many entries a table shows unless asked otherwise.
const SHOWN_IN_TABLE: usize = 10;

impl OutputArgs {
    /// What to write.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_else(|| match self.output.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            _ => Format::Table,
        })
    }

    /// How many entries to show: what is asked for, else a screenful in tables and everything for scripts.
    pub fn limit(&self, top: Option<usize>, all: bool) -> usize {
        match (top, self.format()) {
            _ if all => usize::MAX,
            (Some(top), _) => top,
            (None, Format::Table) => SHOWN_IN_TABLE,
            (None, Format::Csv | Format::Json) => usize::MAX,
        }
    }

    /// What a table has to fit.
    pub fn page(&self) -> Page {
        if !self.is_stdout() || !std::io::stdout().is_terminal() {
            return Page::default();
        }
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Page { width: Table::new().width(), colour }
    }

    /// Writes a finished result.
    pub fn write(&self, result: &[u8]) -> Result<()> {
        if self.is_stdout() {
            let mut stdout = std::io::stdout().lock();
            return stdout.write_all(result).and_then(|()| stdout.flush()).context("cannot write the output");
        }
        std::fs::write(&self.output, result)
            .with_context(|| format!("cannot write '{}'", self.output.display()))
    }

    /// Whether the result goes to standard output.
    pub fn is_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }
}

/// CSV with a header row of the fields' names.
pub fn csv<R: Serialize>(columns: &[&str], rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(columns)?;
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(writer.into_inner()?)
}

/// Indented JSON that ends in a newline.
pub fn json<R: Serialize>(result: &R) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(result)?;
    text.push(b'\n');
    Ok(text)
}

/// Text that an application chose, without what would move the cursor or break a line.
pub fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// What a table has to fit: a terminal, or anything (the default).
#[derive(Clone, Copy, Debug, Default)]
pub struct Page {
    /// Columns of the terminal; without one, nothing is cut or wrapped.
    pub width: Option<u16>,
    /// Whether headings may stand out.
    pub colour: bool,
}

/// How a column of a table behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Text, wrapped where the page is narrow.
    Text,
    /// Text that stays on one line as long as possible, at least this wide.
    Fixed(usize),
    /// A number, on the right, at least this wide.
    Number(usize),
}

/// The smallest width of a column of wrapped text.
const TEXT_AT_LEAST: usize = 12;

impl Page {
    /// A table without lines: `columns` under their headings, two blanks between.
    pub fn table(&self, columns: &[(&str, Column)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .force_no_tty()
            .set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = self.width {
            table.set_width(width);
        }
        if self.colour {
            table.enforce_styling();
        }
        table.set_header(columns.iter().map(|(heading, _)| self.bold_cell(heading)));
        table.add_rows(rows);
        for (column, (_, kind)) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            match kind {
                Column::Text => {}
                Column::Fixed(width) => {
                    column.set_constraint(at_least(*width));
                }
                Column::Number(width) => {
                    column.set_constraint(at_least(*width)).set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// A table that wraps no number and no short text: if the page is too narrow, the `optional` columns are left out
    /// in this order, with a line that names them.
    pub fn fitted_table(
        &self,
        columns: &[(&str, Column)],
        mut rows: Vec<Vec<String>>,
        optional: &[&str],
    ) -> String {
        let content = |index: usize, heading: &str| {
            let cells = rows.iter().map(|row| row[index].chars().count());
            cells.chain([heading.chars().count()]).max().unwrap_or(0)
        };
        let mut fitted: Vec<(&str, Column)> = columns
            .iter()
            .enumerate()
            .map(|(index, &(heading, column))| match column {
                Column::Text => (heading, Column::Text),
                Column::Fixed(_) => (heading, Column::Fixed(content(index, heading))),
                Column::Number(_) => (heading, Column::Number(content(index, heading))),
            })
            .collect();
        let least = |columns: &[(&str, Column)]| -> usize {
            let width = |(_, column): &(&str, Column)| match column {
                Column::Text => TEXT_AT_LEAST + 2,
                Column::Fixed(width) | Column::Number(width) => width + 2,
            };
            columns.iter().map(width).sum()
        };
        let mut left_out = Vec::new();
        for &name in optional {
            // The blanks after the last column need no place.
            if self.width.is_none_or(|width| least(&fitted) <= usize::from(width) + 2) {
                break;
            }
            if let Some(index) = fitted.iter().position(|(heading, _)| *heading == name) {
                fitted.remove(index);
                rows.iter_mut().for_each(|row| drop(row.remove(index)));
                left_out.push(name);
            }
        }
        let mut text = self.table(&fitted, rows);
        if !left_out.is_empty() {
            text += &format!("For want of width without {}.\n", left_out.join(", "));
        }
        text
    }

    /// A word that stands out where it may.
    pub fn bold(&self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn bold_cell(&self, text: &str) -> Cell {
        let cell = Cell::new(text);
        if self.colour { cell.add_attribute(Attribute::Bold) } else { cell }
    }
}

/// The blanks after a column count as its width.
fn at_least(content: usize) -> ColumnConstraint {
    ColumnConstraint::LowerBoundary(Width::Fixed(u16::try_from(content + 2).unwrap_or(u16::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, Column); 2] = [("NAME", Column::Fixed(6)), ("WHO", Column::Text)];

    fn rows() -> Vec<Vec<String>> {
        vec![vec!["W".to_owned(), "0, 64, 128, 192, 256, 320".to_owned()]]
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let text = Page::default().table(&COLUMNS, rows());
        assert_eq!(text, "NAME    WHO\nW       0, 64, 128, 192, 256, 320\n");
    }

    #[test]
    fn a_terminal_is_filled_and_not_exceeded() {
        let text = Page { width: Some(24), colour: false }.table(&COLUMNS, rows());
        assert!(text.lines().all(|line| line.len() <= 24), "{text}");
        assert_eq!(text, "NAME    WHO\nW       0, 64, 128,\n        192, 256, 320\n");
    }

    #[test]
    fn columns_are_left_out_before_numbers_are_broken() {
        let columns = [("NAME", Column::Fixed(0)), ("TIME", Column::Number(0)), ("MORE", Column::Number(0))];
        let rows = || vec![vec!["MPI_Send".to_owned(), "0.123456".to_owned(), "123456789".to_owned()]];
        let page = |width| Page { width, colour: false };
        let all = "NAME          TIME       MORE\nMPI_Send  0.123456  123456789\n";
        assert_eq!(page(None).fitted_table(&columns, rows(), &["MORE"]), all);
        assert_eq!(page(Some(29)).fitted_table(&columns, rows(), &["MORE"]), all);
        assert_eq!(
            page(Some(28)).fitted_table(&columns, rows(), &["MORE"]),
            "NAME          TIME\nMPI_Send  0.123456\nFor want of width without MORE.\n"
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("grün\u{1b}[2J\n"), "grün\\u{1b}[2J\\n");
    }

    #[test]
    fn headings_stand_out_only_where_they_may() {
        assert!(Page { width: Some(80), colour: true }.table(&COLUMNS, rows()).contains("\u{1b}[1m"));
        assert_eq!(Page::default().bold("x"), "x");
    }
}
