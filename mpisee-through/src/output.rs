//! Where results go and how they look: tables for people, CSV and JSON for scripts.

mod file_suffix;
mod page;
mod plain;
mod shorten;

pub use file_suffix::need_fitting_suffix;
pub use page::{Column, Hideable, Page, Style, Text};
pub use plain::{ForBrowser, on_terminal, printable};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For reading, fitted to the terminal
    Table,
    /// Comma-separated values with a header row
    Csv,
    /// One JSON object
    Json,
}

/// When tables have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorWhen {
    /// In a terminal, unless NO_COLOR is set
    Auto,
    /// Also in pipes and files
    Always,
    /// No colours
    Never,
}

/// Format and file of the result.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Format of the result (default: by the suffix of the file, .csv or .json, else a table)
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,

    /// File to write, - for standard output
    #[arg(short = 'o', long, value_name = "FILE", default_value = "-", value_parser = parse_file)]
    output: PathBuf,

    /// Width of tables in columns (default: that of the terminal; elsewhere as needed)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(NARROWEST..))]
    width: Option<u16>,

    /// Colours of tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorWhen::Auto)]
    color: ColorWhen,
}

/// The least that `--width` accepts.
const NARROWEST: i64 = 40;

/// An output file; the name of a format or of a picture is rejected as a likely mistake.
fn parse_file(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    if Format::from_str(text, false).is_ok() {
        return Err(format!(
            "is no file: --format {text} chooses the format; write ./{text} for a file of that name"
        ));
    }
    if file_suffix::suffix(&file).is_some_and(|suffix| suffix == "svg" || suffix == "png") {
        return Err(format!(
            "is the name of a picture, and this option writes tables: --image {text} draws one, with matrix, waits and gpu"
        ));
    }
    Ok(file)
}

/// How many entries a table shows unless asked otherwise.
const SHOWN_IN_TABLE: usize = 10;

impl OutputArgs {
    /// The format of the result.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_else(|| match file_suffix::suffix(&self.output).as_deref() {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            _ => Format::Table,
        })
    }

    /// How many entries to show: what is asked for, else a screenful in tables and everything for
    /// scripts.
    pub fn limit(&self, top: Option<usize>, all: bool) -> usize {
        match (top, self.format()) {
            _ if all => usize::MAX,
            (Some(top), _) => top,
            (None, Format::Table) => SHOWN_IN_TABLE,
            (None, Format::Csv | Format::Json) => usize::MAX,
        }
    }

    /// The same, with colours only for `--color always`.
    pub fn without_colours_unless_asked(&self) -> Self {
        let color = match self.color {
            ColorWhen::Always => ColorWhen::Always,
            ColorWhen::Auto | ColorWhen::Never => ColorWhen::Never,
        };
        OutputArgs { color, ..self.clone() }
    }

    /// The page that tables fit.
    pub fn page(&self) -> Page {
        let in_terminal = self.is_stdout() && std::io::stdout().is_terminal();
        // Launchers give the programs that they start terminals without a width.
        let is_wide = |&width: &u16| i64::from(width) >= NARROWEST;
        let is_allowed = || std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Page {
            width: self.width.or_else(|| in_terminal.then(page::terminal_width).flatten().filter(is_wide)),
            colour: match self.color {
                ColorWhen::Auto => in_terminal && is_allowed(),
                ColorWhen::Always => true,
                ColorWhen::Never => false,
            },
        }
    }

    /// Writes a finished result. What a terminal would obey in it is not written to one, nor in
    /// tables anywhere.
    pub fn write(&self, result: &[u8]) -> Result<()> {
        let is_for_people = match self.format() {
            Format::Table => true,
            Format::Csv => self.is_stdout() && std::io::stdout().is_terminal(),
            Format::Json => false,
        };
        let result = match std::str::from_utf8(result) {
            Ok(text) if is_for_people => {
                Cow::Owned(on_terminal(text, self.page().colour).into_owned().into_bytes())
            }
            _ => Cow::Borrowed(result),
        };
        write_file(&self.output, &result)
    }

    /// Returns whether the result goes to standard output.
    pub fn is_stdout(&self) -> bool {
        is_stdout(&self.output)
    }
}

/// Returns whether a file name stands for standard output.
pub fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Writes a file; `-` is standard output.
pub fn write_file(file: &Path, contents: &[u8]) -> Result<()> {
    if is_stdout(file) {
        let mut stdout = std::io::stdout().lock();
        return stdout.write_all(contents).and_then(|()| stdout.flush()).context("cannot write the output");
    }
    std::fs::write(file, contents).with_context(|| format!("cannot write '{}'", file.display()))
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
    let text = serde_json::to_string_pretty(result)?;
    Ok((plain::in_json(&text).into_owned() + "\n").into_bytes())
}
