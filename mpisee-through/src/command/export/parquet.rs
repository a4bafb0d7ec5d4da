//! Parquet: every table as a file, whose metadata has the types, units and descriptions of the row
//! types.
//!
//! Columns are written by parquet's own interface, without Arrow, which takes three times as long
//! to compile.

use super::two_counts;
use anyhow::{Context, Result};
use mpisee_profile::Profile;
use mpisee_profile::rows::{Cell, Column, ColumnKind, Row, TABLES, TableVisitor, visit_tables};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Rows in a group, which are held until they are written.
const GROUP_ROWS: usize = 1 << 17;

/// Writes the tables of a profile into a folder, and says how many.
pub fn write(profile: &Profile, folder: &Path) -> Result<String> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create '{}'", folder.display()))?;
    let run_json = profile.directory().join("run.json");
    let run = std::fs::read_to_string(&run_json)
        .with_context(|| format!("cannot read '{}'", run_json.display()))?;
    let copy = folder.join("run.json");
    std::fs::write(&copy, &run).with_context(|| format!("cannot write '{}'", copy.display()))?;
    let mut export = Export { profile, folder, run, tables: 0, rows: 0 };
    visit_tables(&mut export)?;
    Ok(two_counts((export.tables, "table"), (export.rows, "row")))
}

struct Export<'e> {
    profile: &'e Profile,
    folder: &'e Path,
    /// The text of `run.json`.
    run: String,
    tables: u64,
    rows: u64,
}

impl TableVisitor for Export<'_> {
    type Error = anyhow::Error;

    fn table<R: Row>(&mut self) -> Result<()> {
        let path = self.folder.join(R::FILE).with_extension("parquet");
        if !self.profile.directory().join(R::FILE).exists() {
            // That of another profile would look like this one's.
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)
                    .with_context(|| format!("cannot remove '{}', of another profile", path.display())),
                _ => Ok(()),
            };
        }
        match self.write_rows::<R>(&path) {
            Ok(rows) => {
                self.tables += 1;
                self.rows += rows;
                Ok(())
            }
            Err(error) => {
                // A part of a table would look like all of it; there may be no file yet.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

impl Export<'_> {
    fn write_rows<R: Row>(&self, path: &Path) -> Result<u64> {
        let failed = || format!("cannot write '{}'", path.display());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(self.metadata::<R>()))
            .build();
        let schema = schema(R::FILE, R::COLUMNS).with_context(failed)?;
        let file = File::create(path).with_context(failed)?;
        let mut writer =
            SerializedFileWriter::new(file, schema, Arc::new(properties)).with_context(failed)?;
        let mut columns: Vec<Values> = R::COLUMNS.iter().map(Values::new).collect();
        let (mut all, mut held) = (0, 0);
        for row in self.profile.rows::<R>()? {
            let row = row?;
            let mut cells = Vec::with_capacity(columns.len());
            row.cells(&mut cells);
            columns.iter_mut().zip(&cells).for_each(|(values, cell)| values.push(cell));
            held += 1;
            if held == GROUP_ROWS {
                write_group(&mut writer, &mut columns).with_context(failed)?;
                all += held as u64;
                held = 0;
            }
        }
        if held > 0 {
            write_group(&mut writer, &mut columns).with_context(failed)?;
        }
        writer.close().with_context(failed)?;
        Ok(all + held as u64)
    }

    /// The file's metadata on the run, the table and its columns.
    fn metadata<R: Row>(&self) -> Vec<KeyValue> {
        let described = |column: &Column| {
            let (unit, description) = (column.unit(), column.description());
            json!({ "name": column.name, "type": column.kind.name(), "unit": unit, "description": description })
        };
        let columns: Vec<serde_json::Value> = R::COLUMNS.iter().map(described).collect();
        let table = TABLES.iter().find(|table| table.file == R::FILE);
        let description = table.map_or(String::new(), |table| table.description());
        [
            ("mpisee.format_version", self.profile.run().format_version.to_string()),
            ("mpisee.table", description),
            ("mpisee.columns", json!(columns).to_string()),
            ("mpisee.run", self.run.clone()),
        ]
        .map(|(key, value)| KeyValue::new(key.to_owned(), value))
        .to_vec()
    }
}

fn write_group(writer: &mut SerializedFileWriter<File>, columns: &mut [Values]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for values in columns {
        if let Some(mut column) = group.next_column()? {
            values.write(&mut column)?;
            column.close()?;
        }
    }
    group.close()?;
    Ok(())
}

fn schema(file: &str, columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> = columns.iter().map(field).collect();
    let name = file.trim_end_matches(".csv");
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields?).build()?))
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match column.kind {
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::U8 => (Physical::INT32, Some(LogicalType::integer(8, false))),
        ColumnKind::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        ColumnKind::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnKind::I32 => (Physical::INT32, Some(LogicalType::integer(32, true))),
        ColumnKind::I64 => (Physical::INT64, Some(LogicalType::integer(64, true))),
        ColumnKind::F64 => (Physical::DOUBLE, None),
    };
    let repetition = if column.may_be_empty { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

/// The values of a column that are not written yet.
struct Values {
    kind: ValuesOf,
    /// Of a column that may be empty, for each row 1 if it has a value, else 0.
    levels: Option<Vec<i16>>,
}

/// Values by the type in which Parquet stores them; it has unsigned integers in signed ones of the
/// same bits.
enum ValuesOf {
    Text(Vec<ByteArray>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Real(Vec<f64>),
}

impl Values {
    fn new(column: &Column) -> Self {
        let kind = match column.kind {
            ColumnKind::Text => ValuesOf::Text(Vec::new()),
            ColumnKind::U8 | ColumnKind::U32 | ColumnKind::I32 => ValuesOf::Int32(Vec::new()),
            ColumnKind::U64 | ColumnKind::I64 => ValuesOf::Int64(Vec::new()),
            ColumnKind::F64 => ValuesOf::Real(Vec::new()),
        };
        Values { kind, levels: column.may_be_empty.then(Vec::new) }
    }

    /// Appends the value of a row, which has the type of the column.
    fn push(&mut self, cell: &Cell<'_>) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(*cell != Cell::Empty));
        }
        match (&mut self.kind, cell) {
            (ValuesOf::Text(values), Cell::Text(text)) => values.push(text.as_bytes().to_vec().into()),
            (ValuesOf::Int32(values), Cell::Unsigned(value)) => values.push(*value as i32),
            (ValuesOf::Int32(values), Cell::Signed(value)) => values.push(*value as i32),
            (ValuesOf::Int64(values), Cell::Unsigned(value)) => values.push(*value as i64),
            (ValuesOf::Int64(values), Cell::Signed(value)) => values.push(*value),
            (ValuesOf::Real(values), Cell::Real(value)) => values.push(*value),
            (_, cell) => debug_assert_eq!(*cell, Cell::Empty, "cells have the type of their column"),
        }
    }

    /// Writes the values, and forgets them.
    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.kind {
            ValuesOf::Text(values) => {
                column.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ValuesOf::Int32(values) => {
                column.typed::<Int32Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ValuesOf::Int64(values) => {
                column.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ValuesOf::Real(values) => {
                column.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}
