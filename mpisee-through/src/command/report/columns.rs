//! Tables of the report, column by column: small in the file, and as the commands write them in
//! JSON.

use crate::sheet::Sheet;
use serde::Serialize;
use serde_json::Value as Json;

/// A table of a command.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    /// The names of the columns in CSV and JSON.
    names: Vec<&'static str>,
    /// Their headings.
    headings: Vec<&'static str>,
    /// The values of each column.
    columns: Vec<Vec<Json>>,
}

impl From<&Sheet> for Table {
    fn from(sheet: &Sheet) -> Self {
        let column = |at: usize| sheet.rows.iter().map(|row| row[at].in_json()).collect();
        Table {
            names: sheet.heads.iter().map(|head| head.name).collect(),
            headings: sheet.heads.iter().map(|head| head.heading).collect(),
            columns: (0..sheet.heads.len()).map(column).collect(),
        }
    }
}
