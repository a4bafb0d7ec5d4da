//! Answers that are rows under headings, written once for tables, CSV and JSON.

use crate::outcome::Outcome;
use crate::output::{self, Column, Format, Hideable, OutputArgs, Page, Style, Text, printable};
use crate::units::{self, human_bytes, large_count, time, to_nine_decimals};
use anyhow::Result;
use mpisee_profile::run::Imported;
use mpisee_profile::{Profile, ProfileError};
use serde_json::{Map, Number, Value as Json};
use std::ops::Range;

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any text.
    Text(String),
    /// How many.
    Count(u64),
    /// How many on average.
    Number(f64),
    /// An amount with a unit of its own.
    Quantity(f64),
    /// How much, in bytes.
    Bytes(u64),
    /// Bytes per second, on average.
    BytesPerSecond(f64),
    /// A time in seconds.
    Seconds(f64),
    /// The name of a region; what is outside of any has the empty name.
    Region(String),
    /// A part of a whole, from 0 to 1; in tables per cent.
    Share(f64),
    /// How much a number grew, by what it was; in tables per cent.
    Change {
        share: f64,
        /// True if it is more than chance, so that it stands out.
        matters: bool,
    },
    /// There is none.
    Nothing,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl Value {
    /// The part of a whole; none where that is nothing, or where the part is larger, as only sums
    /// over an unknown number of threads are.
    pub fn share_of(part: f64, whole: f64) -> Self {
        /// What rounding of both explains.
        const ROUNDING: f64 = 1e-6;
        match whole > 0.0 && part <= whole * (1.0 + ROUNDING) {
            true => Value::Share((part / whole).clamp(0.0, 1.0)),
            false => Value::Nothing,
        }
    }

    /// As tables show it.
    pub fn in_table(&self) -> String {
        match self {
            Value::Text(text) => printable(text),
            Value::Count(number) => large_count(*number),
            // Below 2^53, so that none is rounded.
            Value::Number(number) if number.fract() == 0.0 && (0.0..9e15).contains(number) => {
                large_count(*number as u64)
            }
            Value::Number(number) => format!("{number:.1}"),
            Value::Quantity(number) => quantity(*number),
            Value::Bytes(bytes) => human_bytes(*bytes),
            Value::BytesPerSecond(rate) => human_bytes(rate.round() as u64),
            Value::Seconds(time_s) => time(*time_s),
            Value::Region(name) if name.is_empty() => "(outside)".to_owned(),
            // The program may use such a name, too: the reader's own are in parentheses.
            Value::Region(name) if name.starts_with('(') => format!("'{}'", printable(name)),
            Value::Region(name) => printable(name),
            Value::Share(share) => format!("{:.1}", 100.0 * share),
            Value::Change { share: 0.0, .. } => "0.0".to_owned(),
            Value::Change { share, .. } => format!("{:+.1}", 100.0 * share),
            Value::Nothing => "-".to_owned(),
        }
    }

    fn in_csv(&self) -> String {
        match self {
            Value::Text(text) | Value::Region(text) => text.clone(),
            Value::Count(number) | Value::Bytes(number) => number.to_string(),
            Value::Number(number) | Value::Quantity(number) | Value::BytesPerSecond(number) => {
                format!("{number}")
            }
            Value::Seconds(number) | Value::Share(number) | Value::Change { share: number, .. } => {
                format!("{number:.9}")
            }
            Value::Nothing => String::new(),
        }
    }

    /// As JSON has it.
    pub fn in_json(&self) -> Json {
        match self {
            Value::Text(text) | Value::Region(text) => Json::String(text.clone()),
            Value::Count(number) | Value::Bytes(number) => Json::from(*number),
            Value::Quantity(number) => match (*number as u64, *number as i64) {
                (unsigned, _) if unsigned as f64 == *number => Json::from(unsigned),
                (_, signed) if signed as f64 == *number => Json::from(signed),
                _ => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            },
            Value::Seconds(number)
            | Value::Share(number)
            | Value::Change { share: number, .. }
            | Value::Number(number)
            | Value::BytesPerSecond(number) => {
                Number::from_f64(to_nine_decimals(*number)).map_or(Json::Null, Json::Number)
            }
            Value::Nothing => Json::Null,
        }
    }
}

/// A number with three significant digits, whatever its unit.
fn quantity(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if number.fract() == 0.0 && (0.0..9e15).contains(&number) => large_count(number as u64),
        _ if (1e-2..1e6).contains(&size) => {
            let digits = (2 - size.log10().floor() as i32).max(0) as usize;
            format!("{number:.digits$}")
        }
        _ => format!("{number:.2e}"),
    }
}

/// A column: its name in CSV and JSON, its heading in tables, and how it behaves there.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub name: &'static str,
    pub heading: &'static str,
    pub column: Column,
    /// The order in which a narrow table hides columns, if it may hide this one: the smallest
    /// number first, of equals the last column.
    pub hidden_at: Option<u8>,
    /// A name for columns that are hidden together, such as both ends of an interval.
    pub hidden_with: Option<&'static str>,
    /// Shares from here on stand out.
    pub large_from: Option<f64>,
}

impl Head {
    /// A narrow table may hide it.
    pub const fn or_none(self) -> Self {
        self.hidden_at(u8::MAX)
    }

    /// A narrow table may hide it, in this place of the order.
    pub const fn hidden_at(self, order: u8) -> Self {
        Head { hidden_at: Some(order), ..self }
    }

    /// A narrow table hides it together with the other columns of this name, by which it says so.
    pub const fn hidden_as(self, name: &'static str) -> Self {
        Head { hidden_with: Some(name), ..self }
    }

    /// Shares of a whole, of which large ones stand out.
    pub const fn of_whole(self) -> Self {
        Head { large_from: Some(LARGE_SHARE), ..self }
    }

    fn text(&self, value: &Value) -> Text {
        let style = match (value, self.large_from) {
            (Value::Share(share), Some(from)) if *share >= from => Style::Large,
            (Value::Change { share, matters: true }, _) if *share > 0.0 => Style::Worse,
            (Value::Change { share, matters: true }, _) if *share < 0.0 => Style::Better,
            _ => Style::Plain,
        };
        Text::new(value.in_table(), style)
    }
}

/// The share of a whole from which on it stands out.
pub const LARGE_SHARE: f64 = 0.2;

/// A column of short text that should not be wrapped.
pub const fn fixed(name: &'static str, heading: &'static str) -> Head {
    Head { name, heading, column: Column::Fixed(0), hidden_at: None, hidden_with: None, large_from: None }
}

/// A column of text that may be long: it is cut before other columns are hidden.
pub const fn long(name: &'static str, heading: &'static str) -> Head {
    Head { name, heading, column: Column::Long(0), hidden_at: None, hidden_with: None, large_from: None }
}

/// A column of lists of communicators, which are cut first of all.
pub const fn comms(name: &'static str, heading: &'static str) -> Head {
    Head { column: Column::Comms(0), ..long(name, heading) }
}

/// A column of numbers.
pub const fn number(name: &'static str, heading: &'static str) -> Head {
    Head { name, heading, column: Column::Number(0), hidden_at: None, hidden_with: None, large_from: None }
}

/// Rows under headings.
#[derive(Debug)]
pub struct Sheet {
    /// The name of the list in JSON.
    pub name: &'static str,
    pub heads: Vec<Head>,
    pub rows: Vec<Vec<Value>>,
}

impl Sheet {
    /// The sheet as a table; no row, no text.
    pub fn table(&self, page: Page) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let columns: Vec<(&str, Column)> =
            self.heads.iter().map(|head| (head.heading, head.column)).collect();
        let cells =
            |row: &Vec<Value>| self.heads.iter().zip(row).map(|(head, cell)| head.text(cell)).collect();
        let rows: Vec<Vec<Text>> = self.rows.iter().map(cells).collect();
        page.fitted_table(&columns, rows, &self.hideable())
    }

    /// The columns that a narrow table may hide, in their order.
    fn hideable(&self) -> Vec<Hideable<'static>> {
        let mut heads: Vec<(usize, &Head)> =
            self.heads.iter().enumerate().rev().filter(|(_, head)| head.hidden_at.is_some()).collect();
        heads.sort_by_key(|(_, head)| head.hidden_at);
        let mut hideable: Vec<Hideable<'static>> = Vec::new();
        for (index, head) in heads {
            let together = head.hidden_with.and_then(|name| hideable.iter_mut().find(|it| it.name == name));
            match together {
                Some(together) => together.columns.push(index),
                None => {
                    let name = head.hidden_with.unwrap_or(head.heading);
                    hideable.push(Hideable { columns: vec![index], name });
                }
            }
        }
        hideable
    }

    /// Removes columns.
    pub fn remove_columns(&mut self, columns: Range<usize>) {
        self.heads.drain(columns.clone());
        self.rows.iter_mut().for_each(|row| drop(row.drain(columns.clone())));
    }

    /// Keeps the columns that `keeps` takes, by their names and whether nothing is in them.
    pub fn keep_columns(&mut self, keeps: impl Fn(&str, bool) -> bool) {
        for at in (0..self.heads.len()).rev() {
            let is_empty = |row: &Vec<Value>| row.get(at).is_none_or(|cell| *cell == Value::Nothing);
            if !keeps(self.heads[at].name, self.rows.iter().all(is_empty)) {
                self.remove_columns(at..at + 1);
            }
        }
    }

    /// The rows with a header.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let columns: Vec<&str> = self.heads.iter().map(|head| head.name).collect();
        output::csv(&columns, self.rows.iter().map(|row| row.iter().map(Value::in_csv).collect::<Vec<_>>()))
    }

    fn json(&self) -> Json {
        let object = |row: &Vec<Value>| -> Map<String, Json> {
            self.heads.iter().zip(row).map(|(head, cell)| (head.name.to_owned(), cell.in_json())).collect()
        };
        self.rows.iter().map(|row| Json::Object(object(row))).collect()
    }
}

/// The result of a command.
pub struct Answer {
    /// Text before the first sheet of a table.
    pub lead: String,
    /// The sheets; CSV has the first alone.
    pub sheets: Vec<Sheet>,
    /// The headings above the sheets of a table, in their order; none if it has none.
    pub titles: Vec<&'static str>,
    /// Numbers that are not in rows, for JSON.
    pub values: Vec<(&'static str, Value)>,
    /// Text after the last sheet of a table.
    pub closing: String,
    /// The last line of a table: the command to type next.
    pub next: String,
    /// Notes on the profile for the reader.
    pub caveats: Vec<String>,
    /// The error that ended reading.
    pub cut_off: Option<ProfileError>,
}

impl Answer {
    /// An answer of one sheet.
    pub fn new(profile: &Profile, sheet: Sheet, cut_off: Option<ProfileError>) -> Self {
        Answer { cut_off, titles: Vec::new(), ..Answer::of_sheets(profile, vec![("", sheet)]) }
    }

    /// An answer of several sheets, each with its heading.
    pub fn of_sheets(profile: &Profile, titled: Vec<(&'static str, Sheet)>) -> Self {
        let (titles, sheets) = titled.into_iter().unzip();
        Answer {
            lead: String::new(),
            sheets,
            titles,
            values: Vec::new(),
            closing: String::new(),
            next: String::new(),
            caveats: caveats(profile),
            cut_off: None,
        }
    }

    /// Writes the answer; a table that broke off is an error after that.
    pub fn write(self, output: &OutputArgs) -> Result<Outcome> {
        let text = match output.format() {
            Format::Table => self.table(output.page()).into_bytes(),
            Format::Csv => self.sheets[0].csv()?,
            Format::Json => output::json(&self.json())?,
        };
        output.write(&text)?;
        self.cut_off.map_or(Ok(Outcome::Done), |error| Err(error.into()))
    }

    /// The command to type next, unless there is nothing to go on from.
    fn last_line(&self, page: Page) -> String {
        let has_rows = self.sheets.is_empty() || self.sheets.iter().any(|sheet| !sheet.rows.is_empty());
        if has_rows { page.wrapped_lines(&self.next) } else { String::new() }
    }

    fn table(&self, page: Page) -> String {
        let mut text = heading_lines(&self.caveats, self.cut_off.as_ref(), page);
        let parts = std::iter::once(page.wrapped_lines(&self.lead))
            .chain(self.sheets.iter().enumerate().map(|(at, sheet)| self.titled(at, sheet.table(page))))
            .chain([page.wrapped_lines(&self.closing), self.last_line(page)]);
        for part in parts.filter(|part| !part.is_empty()) {
            if !text.is_empty() {
                text.push('\n');
            }
            text += &part;
        }
        text
    }

    /// A sheet below its heading, if it has any row.
    fn titled(&self, at: usize, table: String) -> String {
        match self.titles.get(at) {
            Some(title) if !table.is_empty() => format!("{title}\n{table}"),
            _ => table,
        }
    }

    /// The answer as one object.
    pub fn json(&self) -> Json {
        let mut document = Map::new();
        let list = |sentences: &[String]| sentences.iter().cloned().map(Json::String).collect::<Json>();
        document.insert("caveats".to_owned(), list(&self.caveats));
        let partial = self.cut_off.as_ref().map_or(Json::Null, |error| Json::String(error.to_string()));
        document.insert("partial_because".to_owned(), partial);
        for (name, value) in &self.values {
            document.insert((*name).to_owned(), value.in_json());
        }
        for sheet in &self.sheets {
            document.insert(sheet.name.to_owned(), sheet.json());
        }
        Json::Object(document)
    }
}

/// Limits of every number from this profile, one sentence each.
pub fn caveats(profile: &Profile) -> Vec<String> {
    let run = profile.run();
    let mut sentences: Vec<String> = run.imported.iter().map(Imported::sentence).collect();
    if !run.complete {
        let why = run.incomplete_because.as_deref().unwrap_or("run.json does not say why");
        sentences.push(format!("The profile is incomplete: {why}."));
    }
    if run.recording_was_off {
        sentences.push("Recording was off for a part of the run on some rank.".to_owned());
    }
    sentences
}

/// The lines at the top of a table about what is not in it.
pub fn heading_lines(caveats: &[String], cut_off: Option<&ProfileError>, page: Page) -> String {
    let notes = caveats.iter().map(|sentence| headed("Note", &printable(sentence), page));
    let partial = cut_off.map(|why| {
        headed(
            "Partial",
            &format!("only the rows before an error are shown: {}", printable(&why.to_string())),
            page,
        )
    });
    notes.chain(partial).collect()
}

/// A heading, and text beside it in as many lines as it needs.
pub fn headed(heading: &str, text: &str, page: Page) -> String {
    const WIDTH: usize = 11;
    let padded = format!("{}{}", page.bold(heading), " ".repeat(WIDTH.saturating_sub(heading.len())));
    let lines = page.wrapped(&(padded + text), &" ".repeat(WIDTH));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// How many rows to show.
#[derive(Debug, clap::Args)]
pub struct Shown {
    /// Show N rows (default: 10 in a table, all in CSV and JSON)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all rows (default: see --top)
    #[arg(long)]
    all: bool,
}

impl Shown {
    /// How many there are at most.
    pub fn limit(&self, output: &OutputArgs) -> usize {
        output.limit(self.top, self.all)
    }

    /// Rows in a picture: as many as the user wants, else `unless_asked`; `most` at most.
    pub fn in_picture(&self, unless_asked: usize, most: usize) -> usize {
        let wanted = if self.all { most } else { self.top.unwrap_or(unless_asked) };
        wanted.min(most)
    }

    /// Cuts the rows and says what was cut; `nothing` is said where there is no row at all.
    pub fn cut(&self, output: &OutputArgs, rows: &mut Vec<Vec<Value>>, nothing: &str) -> String {
        self.cut_of(output, rows, nothing, "")
    }

    /// The same for one of several tables: `of` names what its rows are of.
    pub fn cut_of(&self, output: &OutputArgs, rows: &mut Vec<Vec<Value>>, nothing: &str, of: &str) -> String {
        let limit = self.limit(output);
        let left_out = rows.len().saturating_sub(limit);
        rows.truncate(limit);
        match left_out {
            0 if rows.is_empty() => format!("{nothing}\n"),
            _ => units::left_out_of(left_out, "row", of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_name_are_hidden_at_once() {
        let heads = vec![
            fixed("comm", "COMM"),
            number("low", "from").hidden_at(1).hidden_as("interval"),
            number("high", "to").hidden_at(1).hidden_as("interval"),
            number("calls", "Calls").hidden_at(0),
        ];
        let sheet = Sheet { name: "sheet", heads, rows: Vec::new() };
        let found: Vec<_> = sheet.hideable().into_iter().map(|it| (it.name, it.columns)).collect();
        assert_eq!(found, [("Calls", vec![3]), ("interval", vec![2, 1])]);
    }

    #[test]
    fn a_value_has_a_form_for_each_format() {
        let forms = |value: Value| (value.in_table(), value.in_csv(), value.in_json().to_string());
        let owned =
            |(table, csv, json): (&str, &str, &str)| (table.to_owned(), csv.to_owned(), json.to_owned());
        assert_eq!(forms(Value::Share(0.5)), owned(("50.0", "0.500000000", "0.5")));
        let change = |share| forms(Value::Change { share, matters: true });
        assert_eq!(change(0.5), owned(("+50.0", "0.500000000", "0.5")));
        assert_eq!(change(0.0), owned(("0.0", "0.000000000", "0.0")));
        assert_eq!(forms(Value::Number(2.5)), owned(("2.5", "2.5", "2.5")));
        assert_eq!(forms(Value::Quantity(1234.5)), owned(("1234", "1234.5", "1234.5")));
        assert_eq!(forms(Value::Quantity(0.000_012_345)), owned(("1.23e-5", "0.000012345", "0.000012345")));
        assert_eq!(forms(Value::Quantity(7.0)), owned(("7", "7", "7")));
        assert_eq!(forms(Value::Bytes(2048)), owned(("2.00 KiB", "2048", "2048")));
        assert_eq!(forms(Value::Nothing), owned(("-", "", "null")));
        assert_eq!(forms(Value::Seconds(0.1 + 0.2)), owned(("300 ms", "0.300000000", "0.3")));
        assert_eq!(forms(Value::Seconds(1.5e-6)), owned(("1.50 µs", "0.000001500", "1.5e-6")));
        assert_eq!(forms(Value::Region(String::new())), owned(("(outside)", "", "\"\"")));
        let own = Value::Region("(outside)".to_owned());
        assert_eq!(forms(own), owned(("'(outside)'", "(outside)", "\"(outside)\"")));
        assert_eq!(forms("a\n".into()), owned(("a\\n", "a\n", "\"a\\n\"")));
    }
}
