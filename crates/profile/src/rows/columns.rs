//! The columns of tables as data: name, type, unit and description, all from the row types by
//! `#[derive(Columns)]`.
//!
//! docs/reference/columns.md, the Python package and files of `mpisee-through export` have their
//! descriptions from here.

use super::{
    CopyMode, Cpus, GpuMemory, Members, Memory, MessageEnd, OrderStepKind, PeerDevice, Ranks, Seconds,
};
use crate::CommRank;
use crate::gpu::Access;
use crate::site::{OrderId, PathId, SiteId};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// An integer of 0 to 255.
    U8,
    /// An integer from 0, in 32 bits.
    U32,
    /// An integer from 0, in 64 bits.
    U64,
    /// An integer in 32 bits.
    I32,
    /// An integer in 64 bits.
    I64,
    /// A number in 64 bits.
    F64,
}

impl ColumnKind {
    /// The name of the type, as numpy, pandas and DuckDB's documentation spell it: `uint64`.
    pub fn name(self) -> &'static str {
        match self {
            ColumnKind::Text => "text",
            ColumnKind::U8 => "uint8",
            ColumnKind::U32 => "uint32",
            ColumnKind::U64 => "uint64",
            ColumnKind::I32 => "int32",
            ColumnKind::I64 => "int64",
            ColumnKind::F64 => "float64",
        }
    }
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'r> {
    /// It is unknown, or there is none.
    Empty,
    /// Of a column of text.
    Text(Cow<'r, str>),
    /// Of a column of integers from 0.
    Unsigned(u64),
    /// Of a column of integers.
    Signed(i64),
    /// Of a column of numbers.
    Real(f64),
}

/// A type that a column may have.
pub trait ColumnValue {
    /// The type of the values.
    const KIND: ColumnKind;
    /// True if a row may have no value.
    const MAY_BE_EMPTY: bool = false;
    /// True if it is a time in seconds.
    const IS_TIME: bool = false;

    /// The value.
    fn cell(&self) -> Cell<'_>;
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name in the header row.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ColumnKind,
    /// True if a row may have no value.
    pub may_be_empty: bool,
    about: &'static str,
    is_time: bool,
}

impl Column {
    /// The column of a field of type `V`, with its doc comment.
    pub const fn new<V: ColumnValue>(name: &'static str, about: &'static str) -> Self {
        Column { name, about, kind: V::KIND, may_be_empty: V::MAY_BE_EMPTY, is_time: V::IS_TIME }
    }

    /// The unit of its values: `s`, `bytes` or `cores`; none of counts, ranks, names and flags.
    pub fn unit(&self) -> Option<&'static str> {
        let is_number = !matches!(self.kind, ColumnKind::Text);
        match self.name {
            _ if self.is_time => Some("s"),
            "cpu_quota" => Some("cores"),
            "width" | "size_min" | "size_max" => Some("bytes"),
            name if is_number && !name.ends_with("_rank") && name.split('_').any(|word| word == "bytes") => {
                Some("bytes")
            }
            _ => None,
        }
    }

    /// The meaning of a value, in Markdown: one or more sentences.
    pub fn description(&self) -> String {
        without_links(self.about)
    }
}

/// A row type with its columns. `#[derive(Columns)]` implements it.
pub trait Columns {
    /// The doc comment of the row type.
    const ABOUT: &'static str;
    /// The columns, in the order in which they are written.
    const COLUMNS: &'static [Column];

    /// Appends the values of a row, one per column.
    fn cells<'r>(&'r self, cells: &mut Vec<Cell<'r>>);
}

/// The description of a table in Markdown, from the doc comment of its row type: "`calls.csv`: one
/// row per …" without the name.
pub fn table_description(about: &str) -> String {
    let text = about.split_once("`: ").map_or(about, |(_, text)| text);
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    without_links(&(first + letters.as_str()))
}

/// Takes rustdoc's links out: ``[`super::RankRow`]`` becomes `` `ranks.csv` `` where it names a row
/// type, else the last name.
fn without_links(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once("`]").unwrap_or((part, ""));
        let path: Vec<&str> =
            path.split("::").filter(|part| !["crate", "super", "self"].contains(part)).collect();
        let name = match path.as_slice() {
            [row, column] => format!("`{column}` of `{}`", super::file_of_row(row)),
            [row] => format!("`{}`", super::file_of_row(row)),
            _ => path.join("::"),
        };
        plain += &name;
        plain += rest;
    }
    plain
}

macro_rules! integers {
    ($($type:ty, $kind:ident, $cell:ident;)*) => {$(
        impl ColumnValue for $type {
            const KIND: ColumnKind = ColumnKind::$kind;

            fn cell(&self) -> Cell<'_> {
                Cell::$cell((*self).into())
            }
        }
    )*};
}

integers! {
    u8, U8, Unsigned;
    u32, U32, Unsigned;
    u64, U64, Unsigned;
    i32, I32, Signed;
    i64, I64, Signed;
    f64, F64, Real;
}

impl ColumnValue for String {
    const KIND: ColumnKind = ColumnKind::Text;

    fn cell(&self) -> Cell<'_> {
        Cell::Text(Cow::Borrowed(self))
    }
}

impl ColumnValue for CommRank {
    const KIND: ColumnKind = ColumnKind::U32;

    fn cell(&self) -> Cell<'_> {
        Cell::Unsigned(self.get().into())
    }
}

impl ColumnValue for Seconds {
    const KIND: ColumnKind = ColumnKind::F64;
    const IS_TIME: bool = true;

    fn cell(&self) -> Cell<'_> {
        Cell::Real(self.0)
    }
}

impl<V: ColumnValue> ColumnValue for Option<V> {
    const KIND: ColumnKind = V::KIND;
    const MAY_BE_EMPTY: bool = true;
    const IS_TIME: bool = V::IS_TIME;

    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Empty, V::cell)
    }
}

/// Types whose text is that of `Display`.
macro_rules! texts {
    ($($type:ty),*) => {$(
        impl ColumnValue for $type {
            const KIND: ColumnKind = ColumnKind::Text;

            fn cell(&self) -> Cell<'_> {
                Cell::Text(Cow::Owned(self.to_string()))
            }
        }
    )*};
}

texts!(Members, Ranks, Cpus, SiteId, PathId, OrderId);

/// The name of an enum's variant in tables.
struct Word<'w, T>(&'w T);

impl<T: Serialize> fmt::Display for Word<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(out)
    }
}

/// Enums whose text is the name of the variant.
macro_rules! words {
    ($($type:ty),*) => {$(
        impl ColumnValue for $type {
            const KIND: ColumnKind = ColumnKind::Text;

            fn cell(&self) -> Cell<'_> {
                Cell::Text(Cow::Owned(Word(self).to_string()))
            }
        }
    )*};
}

words!(Memory, GpuMemory, CopyMode, Access, MessageEnd, OrderStepKind, PeerDevice);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enums_are_written_as_in_tables() {
        assert_eq!(Memory::Host.cell(), Cell::Text("host".into()));
        assert_eq!(MessageEnd::Received.cell(), Cell::Text("received".into()));
    }

    #[test]
    fn links_of_rustdoc_become_names_of_files() {
        assert_eq!(without_links("see [`super::RankRow::cpu_wait_s`]."), "see `cpu_wait_s` of `ranks.csv`.");
        assert_eq!(
            table_description("`calls.csv`: one row, as [`super::CallRow`]."),
            "One row, as `calls.csv`."
        );
    }
}
