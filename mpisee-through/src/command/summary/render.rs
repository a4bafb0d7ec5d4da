//! The summary as a table, as CSV and as JSON.

use super::Summary;
use super::run::RunSummary;
use crate::load::members_text;
use crate::operation_sums::{CommSum, OperationSum};
use crate::output::{self, Column, Page, printable};
use crate::units::{human_bytes, seconds, to_nine_decimals};
use anyhow::Result;
use mpisee_profile::rows::{Members, Seconds};
use serde::Serialize;

/// The run, then the communicators in the form of Fig. 6 of the paper.
pub fn table(summary: &Summary, page: Page, human: bool) -> String {
    let mut text = String::new();
    for (heading, value) in summary.run.lines() {
        text += &format!("{}  {}\n", page.bold(&format!("{heading:<9}")), printable(&value));
    }
    for sentence in summary.run.sentences() {
        text += &format!("{}  {}\n", page.bold("Note     "), printable(&sentence));
    }
    if let Some(why) = &summary.partial_because {
        text += &format!("{}  only the rows before an error are shown: {why}\n", page.bold("Partial  "));
    }
    text += &comms_table(summary.comms, page, human, summary.run.names_slowest_rank);
    text += &closing(summary);
    text
}

/// What is not shown, and how to see it.
fn closing(summary: &Summary) -> String {
    if summary.comms.is_empty() && summary.left_out.is_empty() {
        return match summary.filtered {
            true => "\nNo operation matches the filters.\n".to_owned(),
            false => "\nThe profile has no operations.\n".to_owned(),
        };
    }
    if summary.left_out.is_empty() {
        return String::new();
    }
    // A sum of nothing would be -0.
    let time_s = summary.left_out.iter().map(|comm| comm.time_s).fold(0.0, |left, right| left + right);
    format!(
        "\n{} left out, with {} s over all ranks; --all shows all, --top N the first N.\n",
        match summary.left_out.len() {
            1 => "1 more communicator is".to_owned(),
            more => format!("{more} more communicators are"),
        },
        seconds(time_s),
    )
}

/// Per communicator its own row and those of its operations, aligned throughout.
fn comms_table(comms: &[CommSum], page: Page, human: bool, with_rank: bool) -> String {
    let volume = |bytes: u64| if human { human_bytes(bytes) } else { bytes.to_string() };
    let rows_of = |comm: &CommSum| -> Vec<Vec<String>> {
        let row = |operation: &OperationSum| {
            let mut cells = vec![
                format!("  {}", operation.call),
                seconds(operation.mean_s),
                operation.min_s.map_or_else(|| "-".to_owned(), seconds),
                operation.max_s.map_or_else(|| "-".to_owned(), seconds),
                volume(operation.bytes),
                operation.calls.to_string(),
            ];
            if with_rank {
                let rank = operation.max_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
                cells.insert(4, rank);
            }
            cells
        };
        comm.operations.iter().map(row).collect()
    };
    let mut headings = vec!["  Call", "Mean[s]", "Min[s]", "Max[s]", "Volume", "#Calls"];
    if with_rank {
        headings.insert(4, "of rank");
    }
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.len()).collect();
    for comm in comms {
        widths[0] = widths[0].max(comm.comm.chars().count());
        for row in rows_of(comm) {
            for (width, cell) in widths.iter_mut().zip(&row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }
    let columns: Vec<(&str, Column)> = headings
        .iter()
        .zip(widths.iter().copied())
        .enumerate()
        .map(|(i, (heading, width))| {
            (*heading, if i == 0 { Column::Fixed(width) } else { Column::Number(width) })
        })
        .collect();
    comms
        .iter()
        .map(|comm| {
            let heading = heading_of(comm, widths[0], widths[1], page);
            format!("\n{heading}{}", page.table(&columns, rows_of(comm)))
        })
        .collect()
}

fn heading_of(comm: &CommSum, name_width: usize, size_width: usize, page: Page) -> String {
    let mut columns = vec![
        ("COMM", Column::Fixed(name_width)),
        ("SIZE", Column::Number(size_width)),
        ("PROCS", Column::Text),
    ];
    let mut cells = vec![comm.comm.clone()];
    match comm.row {
        Some(row) => {
            let size = match row.count {
                1 => row.size.to_string(),
                count => format!("{count} × {}", row.size),
            };
            cells.extend([size, members_text(row)]);
            if !row.label.is_empty() {
                columns.push(("LABEL", Column::Text));
                cells.push(printable(&row.label));
            }
        }
        None => cells.extend(["?".to_owned(), "not in comms.csv".to_owned()]),
    }
    page.table(&columns, [cells])
}

const CSV_COLUMNS: [&str; 14] = [
    "comm", "size", "members", "label", "ranks", "call", "mean_s", "min_s", "max_s", "time_s", "bytes",
    "calls", "max_rank", "count",
];

/// One row per communicator and operation.
pub fn csv(summary: &Summary) -> Result<Vec<u8>> {
    let rows = summary.comms.iter().flat_map(|comm| {
        comm.operations.iter().map(move |operation| {
            (
                &comm.comm,
                comm.row.map(|row| row.size),
                comm.row.map(|row| &row.members),
                label(comm),
                comm.ranks,
                &operation.call,
                Seconds(operation.mean_s),
                operation.min_s.map(Seconds),
                operation.max_s.map(Seconds),
                Seconds(operation.time_s),
                operation.bytes,
                operation.calls,
                operation.max_rank,
                comm.row.map(|row| row.count),
            )
        })
    });
    output::csv(&CSV_COLUMNS, rows)
}

fn label<'a>(comm: &CommSum<'a>) -> &'a str {
    comm.row.map_or("", |row| &row.label)
}

#[derive(Serialize)]
struct Document<'a> {
    run: &'a RunSummary<'a>,
    partial_because: Option<&'a str>,
    communicators: Vec<CommDocument<'a>>,
    communicators_left_out: usize,
}

#[derive(Serialize)]
struct CommDocument<'a> {
    comm: &'a str,
    size: Option<u32>,
    /// How many communicators it stands for.
    count: Option<u64>,
    members: Option<&'a Members>,
    label: &'a str,
    /// Over how many ranks mean, minimum and maximum are taken.
    ranks: u64,
    time_s: f64,
    bytes: u64,
    calls: u64,
    operations: Vec<OperationDocument<'a>>,
}

/// An operation; the fields are those of [`OperationSum`].
#[derive(Serialize)]
struct OperationDocument<'a> {
    call: &'a str,
    mean_s: f64,
    min_s: Option<f64>,
    max_s: Option<f64>,
    time_s: f64,
    bytes: u64,
    calls: u64,
    max_rank: Option<u32>,
}

/// The run, and a list of communicators with their operations.
pub fn json(summary: &Summary) -> Result<Vec<u8>> {
    output::json(&Document {
        run: &summary.run,
        partial_because: summary.partial_because.as_deref(),
        communicators: summary.comms.iter().map(comm_document).collect(),
        communicators_left_out: summary.left_out.len(),
    })
}

fn comm_document<'a>(comm: &'a CommSum<'a>) -> CommDocument<'a> {
    CommDocument {
        comm: &comm.comm,
        size: comm.row.map(|row| row.size),
        count: comm.row.map(|row| row.count),
        members: comm.row.map(|row| &row.members),
        label: label(comm),
        ranks: comm.ranks,
        time_s: to_nine_decimals(comm.time_s),
        bytes: comm.bytes,
        calls: comm.calls,
        operations: comm.operations.iter().map(operation_document).collect(),
    }
}

fn operation_document(operation: &OperationSum) -> OperationDocument<'_> {
    OperationDocument {
        call: &operation.call,
        mean_s: to_nine_decimals(operation.mean_s),
        min_s: operation.min_s.map(to_nine_decimals),
        max_s: operation.max_s.map(to_nine_decimals),
        time_s: to_nine_decimals(operation.time_s),
        bytes: operation.bytes,
        calls: operation.calls,
        max_rank: operation.max_rank,
    }
}
