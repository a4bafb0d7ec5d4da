//! Descriptions of columns outside of the row types: docs/columns.md, and the schema of the Python package.

use mpisee_profile::FORMAT_VERSION;
use mpisee_profile::rows::{Column, TABLES, Table};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).ancestors().nth(2).expect("the package is two folders below the root").to_owned()
}

/// Expects the text in a file, or with `WRITE_COLUMNS` in the environment writes it there.
fn is_in_file(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("WRITE_COLUMNS").is_some() {
        return std::fs::write(&file, text).expect("the checkout can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{path} differs from the row types; `WRITE_COLUMNS=yes cargo test -p mpisee-profile --test columns` writes it anew"
    );
}

/// The text in a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', "<br>")
}

const PREAMBLE: &str = "\
<!-- Written by the test `columns` of mpisee-profile from the row types in src/rows.rs and src/rows/. Do not edit. -->
# Every column

The columns of each table of [the profile](tables.md), with type and unit. A row may lack the value of a column that *may be empty*: the value is unknown, or there is none.
Tables in profiles of earlier versions of mpisee may lack columns marked *newer*.
`mpisee-through export --parquet` writes types, units and descriptions into its files ([Use other tools](export.md)).
";

fn column_line(table: &Table, column: &Column) -> String {
    let mut notes = Vec::new();
    if column.may_be_empty {
        notes.push("may be empty");
    }
    if table.optional.contains(&column.name) {
        notes.push("newer");
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" *({})*", notes.join(", ")) };
    let unit = column.unit().unwrap_or_default();
    let about = cell(&column.description());
    format!("| `{}` | {} | {unit} | {about}{notes} |", column.name, column.kind.name())
}

#[test]
fn the_column_reference_is_that_of_the_row_types() {
    let mut page = PREAMBLE.to_owned();
    for table in TABLES {
        let _ = writeln!(page, "\n## {}\n\n{}\n", table.file, table.description().replace('\n', "\n\n"));
        page.push_str("| column | type | unit | is |\n| --- | --- | --- | --- |\n");
        for column in table.columns {
            let _ = writeln!(page, "{}", column_line(table, column));
        }
    }
    is_in_file("docs/columns.md", &page);
}

#[test]
fn the_schema_of_the_python_package_is_that_of_the_row_types() {
    let column = |table: &Table, column: &Column| {
        json!({
            "name": column.name,
            "type": column.kind.name(),
            "unit": column.unit(),
            "may_be_empty": column.may_be_empty,
            "newer": table.optional.contains(&column.name),
            "description": column.description(),
        })
    };
    let table = |table: &Table| {
        let columns: Vec<Value> = table.columns.iter().map(|each| column(table, each)).collect();
        json!({ "name": table.name(), "file": table.file, "description": table.description(), "columns": columns })
    };
    let tables: Vec<Value> = TABLES.iter().map(table).collect();
    let schema = json!({ "format_version": FORMAT_VERSION, "tables": tables });
    let text = serde_json::to_string_pretty(&schema).expect("JSON is written to memory");
    is_in_file("python/src/mpisee/columns.json", &(text + "\n"));
}

#[test]
fn files_of_the_documentation_have_row_types() {
    let page = std::fs::read_to_string(root().join("docs/tables.md")).expect("docs/tables.md is there");
    let (table, _) = page.split_once("\nRanks are").expect("the list of files comes first");
    let files: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(files.contains(&"run.json") && files.len() > 10, "{files:?}");
    for file in files.into_iter().filter(|file| file.ends_with(".csv")) {
        assert!(TABLES.iter().any(|table| table.file == file), "{file} is documented and not in TABLES");
    }
}
