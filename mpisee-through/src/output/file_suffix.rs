//! Refuses output files whose names promise a format that the command does not write.

use super::Format;
use anyhow::{Result, bail};
use clap::{ArgMatches, Command};
use std::path::{Path, PathBuf};

/// Suffixes by which readers expect a format that no table is written in. Any other suffix is part
/// of a name.
const FOREIGN: [&str; 32] = [
    "arrow", "avro", "db", "doc", "docx", "dot", "feather", "gif", "gz", "h5", "hdf5", "htm", "html", "jpeg",
    "jpg", "jsonl", "ndjson", "ods", "parquet", "pdf", "png", "sqlite", "svg", "tex", "toml", "tsv", "xls",
    "xlsx", "xml", "yaml", "yml", "zip",
];

/// The suffix of a file name in small letters.
pub fn suffix(file: &Path) -> Option<String> {
    Some(file.extension()?.to_str()?.to_ascii_lowercase())
}

/// An error if a command's `--output` has the suffix of a format that it does not write.
pub fn need_fitting_suffix(definition: &Command, command: &str, arguments: &ArgMatches) -> Result<()> {
    // Of an option that the command does not have, clap reports an error in debug builds alone.
    let has_format = definition
        .find_subcommand(command)
        .is_some_and(|it| it.get_arguments().any(|argument| argument.get_id() == "format"));
    let Ok(Some(file)) = arguments.try_get_one::<PathBuf>("output") else { return Ok(()) };
    let Some(suffix) = suffix(file) else { return Ok(()) };
    let suffix = suffix.as_str();
    let name = file.display();
    if has_format {
        let format = arguments.try_get_one::<Format>("format").ok().flatten();
        if format.is_none() && FOREIGN.contains(&suffix) {
            bail!(
                "'{name}' ends in .{suffix}, which {command} does not write: it writes a table, csv or json, and --format decides \
                 which{}",
                writer(suffix)
            );
        }
    } else if command == "report" {
        let is_html = ["html", "htm"].contains(&suffix);
        if !is_html && (FOREIGN.contains(&suffix) || ["csv", "json", "txt"].contains(&suffix)) {
            let how = if suffix == "pdf" { "; a browser can print it to PDF" } else { "" };
            bail!("'{name}' ends in .{suffix}, which report does not write: it writes HTML{how}");
        }
    }
    Ok(())
}

/// The command that writes such files.
fn writer(suffix: &str) -> &'static str {
    match suffix {
        "parquet" => "; mpisee-through export --parquet writes Parquet",
        "html" | "htm" => "; mpisee-through report writes HTML",
        "dot" => "; mpisee-through export --dot writes graphs",
        _ => "",
    }
}
