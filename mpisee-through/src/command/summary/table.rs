//! The summary as a table for people.

use super::{SMALL_SHARE, Summary};
use crate::family_rows::EACH_HINT;
use crate::operation_sums::{CommSum, OperationSum, Sums};
use crate::output::{Column, Hideable, Page, Style, Text, printable};
use crate::sheet::{LARGE_SHARE, headed};
use crate::units::{count, human_bytes, large_count, time};
use mpisee_profile::comm_name::is_nccl;

/// The columns, and when a narrow page hides them.
const COLUMNS: [&str; 11] = [
    "COMM",
    "SIZE",
    "Time sum",
    OF_MPI,
    "Mean/rank",
    "Min/rank",
    "Max/rank",
    OF_RANK,
    OF_GPU,
    "Volume",
    "Calls",
];
const OF_MPI: &str = "% of MPI";
const OF_RANK: &str = "of rank";
const OF_GPU: &str = "GPU time";
const HIDDEN_FIRST: [&str; 8] =
    ["Min/rank", OF_RANK, "Mean/rank", "Calls", "Max/rank", "Volume", OF_GPU, "SIZE"];

/// Returns for each column whether the table has it.
fn is_shown(summary: &Summary) -> [bool; COLUMNS.len()] {
    let has_times_of_gpu = summary.comms.iter().any(|comm| summary.gpu.of_comm(comm).is_some());
    COLUMNS.map(|heading| match heading {
        OF_MPI => !summary.run.is_without_mpi(),
        OF_RANK => summary.run.names_slowest_rank,
        OF_GPU => has_times_of_gpu,
        _ => true,
    })
}

/// The run, then the communicators, each with its operations.
pub fn table(summary: &Summary, page: Page) -> String {
    let mut text = String::new();
    for (heading, value) in summary.run.lines() {
        text += &headed(heading, &printable(&value), page);
    }
    for sentence in summary.run.sentences().into_iter().chain(summary.notes.iter().cloned()) {
        text += &headed("Note", &printable(&sentence), page);
    }
    if let Some(why) = &summary.partial_because {
        text += &headed("Partial", &format!("only the rows before an error are shown: {why}"), page);
    }
    let Some((comms, hidden)) = comms_table(summary, page) else {
        let nothing = match summary.filtered {
            true => "\nNo operation matches the filters.\n",
            false => "\nThe profile has no operations.\n",
        };
        return text + nothing;
    };
    text += &comms;
    let closing: Vec<String> =
        page.hidden(&hidden).into_iter().map(|line| line + "\n").chain(closing(summary)).collect();
    if !closing.is_empty() {
        text.push('\n');
        text += &page.wrapped_lines(&closing.concat());
    }
    if let Some(finding) = &summary.first_finding {
        text += &format!("\n{}", page.wrapped_lines(&format!("First finding: {finding}\n")));
    }
    text + &page.wrapped_lines(&summary.next)
}

/// The rows that are not shown, and how to see them.
fn closing(summary: &Summary) -> Vec<String> {
    let mut sentences = Vec::new();
    if !summary.left_out.is_empty() {
        let counts =
            summary.left_out.iter().map(|comm| comm.family.as_ref().map_or(1, |family| family.count()));
        let (more, are) = match counts.fold(0, u64::saturating_add) {
            1 => ("1 more communicator".to_owned(), "is"),
            more => (format!("{more} more communicators"), "are"),
        };
        sentences.push(format!(
            "{more} {are} left out, with {}; --all shows all, --top N the first N.\n",
            left_out_time(summary)
        ));
    }
    if summary.comms.iter().any(|comm| comm.spread.is_some()) {
        sentences.push(EACH_HINT.to_owned());
    }
    sentences
}

/// The time of communicators that are left out: that in MPI with its share, and that of NCCL's
/// calls, which have none.
fn left_out_time(summary: &Summary) -> String {
    let sum_s = |of_nccl: bool| {
        let taken = summary.left_out.iter().filter(|comm| is_nccl(&comm.comm) == of_nccl);
        let times = taken.map(|comm| comm.sums.time_s);
        times.fold(None, |sum: Option<f64>, time_s| Some(sum.unwrap_or(0.0) + time_s))
    };
    let over_ranks = |time_s: f64| format!("{} over all ranks", time(time_s));
    let of_mpi = sum_s(false).map(|time_s| {
        let share = percent(time_s, summary.mpi_s).map(|share| format!(" ({share} % of MPI)"));
        over_ranks(time_s) + share.as_deref().unwrap_or_default()
    });
    let of_nccl = sum_s(true).map(|time_s| format!("{} in calls of NCCL", over_ranks(time_s)));
    of_mpi.into_iter().chain(of_nccl).collect::<Vec<_>>().join(" and ")
}

/// A line of the table.
enum Line {
    /// A communicator, with text below it.
    Comm(String),
    Operation,
}

/// The communicators with their operations, and the headings of columns that are hidden; none
/// without communicators.
fn comms_table(summary: &Summary, page: Page) -> Option<(String, Vec<&'static str>)> {
    if summary.comms.is_empty() && summary.left_out.is_empty() {
        return None;
    }
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    for comm in summary.comms {
        lines.push(Line::Comm(about(comm)));
        let size = comm.family.as_ref().map_or_else(|| "?".to_owned(), |family| family.size_text());
        // Calls of NCCL have no share of the time in MPI.
        let mpi_s = if is_nccl(&comm.comm) { 0.0 } else { summary.mpi_s };
        let name = Text::new(printable(&comm.comm), Style::Bold);
        rows.push(row(name, size, &comm.sums, mpi_s, summary.gpu.of_comm(comm)));
        let operations = operation_rows(comm, summary, mpi_s);
        lines.extend(operations.iter().map(|_| Line::Operation));
        rows.extend(operations);
    }
    let is_shown = is_shown(summary);
    let headings: Vec<&str> =
        COLUMNS.into_iter().zip(is_shown).filter_map(|(heading, it)| it.then_some(heading)).collect();
    let shown_cells = |row: [Text; COLUMNS.len()]| -> Vec<Text> {
        row.into_iter().zip(is_shown).filter_map(|(cell, it)| it.then_some(cell)).collect()
    };
    let rows = rows.into_iter().map(shown_cells).collect();
    let kind = |index| if index == 0 { Column::Fixed(0) } else { Column::Number(0) };
    let columns: Vec<(&str, Column)> =
        headings.iter().enumerate().map(|(index, heading)| (*heading, kind(index))).collect();
    let (drawn, hidden) = page.fitted_lines(&columns, rows, &Hideable::each(&HIDDEN_FIRST, &columns));
    let mut drawn = drawn.into_iter();
    let mut text = drawn.next().map_or(String::new(), |headings| format!("\n{headings}\n"));
    for (index, (drawn, line)) in drawn.zip(&lines).enumerate() {
        if index > 0 && matches!(line, Line::Comm(_)) {
            text.push('\n');
        }
        text += &drawn;
        text.push('\n');
        if let Line::Comm(about) = line {
            text += &page.wrapped_lines(about);
        }
    }
    Some((text, hidden))
}

/// A row; its share is that of the MPI time beside it.
fn row(name: Text, size: String, sums: &Sums, mpi_s: f64, gpu_s: Option<f64>) -> [Text; COLUMNS.len()] {
    let known = |time_s: Option<f64>| Text::from(time_s.map_or_else(|| "-".to_owned(), time));
    [
        name,
        size.into(),
        time(sums.time_s).into(),
        share(sums.time_s, mpi_s),
        time(sums.mean_s).into(),
        known(sums.min_s),
        known(sums.max_s),
        sums.max_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()).into(),
        known(gpu_s),
        human_bytes(sums.bytes).into(),
        large_count(sums.calls).into(),
    ]
}

fn share(time_s: f64, mpi_s: f64) -> Text {
    let style = if mpi_s > 0.0 && time_s / mpi_s >= LARGE_SHARE { Style::Large } else { Style::Plain };
    Text::new(percent(time_s, mpi_s).unwrap_or_else(|| "-".to_owned()), style)
}

/// Per cent of the MPI time, if there is any.
fn percent(time_s: f64, mpi_s: f64) -> Option<String> {
    (mpi_s > 0.0).then(|| format!("{:.1}", 100.0 * time_s / mpi_s))
}

/// The rows of the operations; those of little time share one, unless all are asked for.
fn operation_rows(comm: &CommSum, summary: &Summary, mpi_s: f64) -> Vec<[Text; COLUMNS.len()]> {
    let is_small = |sums: &Sums| !summary.all && sums.time_s < SMALL_SHARE * summary.mpi_s;
    let most_s = comm.operations.iter().map(|operation| operation.sums.time_s).fold(0.0, f64::max);
    let (small, shown): (Vec<_>, Vec<_>) = comm
        .operations
        .iter()
        .partition(|operation| is_small(&operation.sums) && operation.sums.time_s < most_s);
    let each = |OperationSum { call, sums }: &OperationSum| {
        row(format!("  {call}").into(), String::new(), sums, mpi_s, summary.gpu.of_operation(comm, call))
    };
    let mut rows: Vec<_> = shown.into_iter().map(each).collect();
    match &small[..] {
        [] => {}
        [operation] => rows.push(each(operation)),
        several => rows.push(together(several, comm, summary, mpi_s)),
    }
    rows
}

/// The row of several operations of little time.
fn together(
    several: &[&OperationSum],
    comm: &CommSum,
    summary: &Summary,
    mpi_s: f64,
) -> [Text; COLUMNS.len()] {
    let all = |of: fn(&Sums) -> u64| {
        several.iter().map(|operation| of(&operation.sums)).fold(0, u64::saturating_add)
    };
    let time_s: f64 = several.iter().map(|operation| operation.sums.time_s).sum();
    let calls = several.iter().map(|operation| operation.call.as_str());
    let gpu_s = summary.gpu.of_operations(comm, calls);
    let blank = || Text::from(String::new());
    [
        format!("  {}", count(several.len() as u64, "more operation")).into(),
        blank(),
        time(time_s).into(),
        share(time_s, mpi_s),
        blank(),
        blank(),
        blank(),
        blank(),
        gpu_s.map_or_else(blank, |gpu_s| time(gpu_s).into()),
        human_bytes(all(|sums| sums.bytes)).into(),
        large_count(all(|sums| sums.calls)).into(),
    ]
}

/// Who is in the communicator, its label, and of several how they differ.
fn about(comm: &CommSum) -> String {
    let Some(family) = &comm.family else { return "  not in comms.csv\n".to_owned() };
    let processes = family.processes();
    let is_list = processes.starts_with(|c: char| c.is_ascii_digit()) || processes.starts_with("of ");
    let noun = match (processes.parse::<u32>(), is_list) {
        (Ok(_), _) => "rank ",
        (Err(_), true) => "ranks ",
        (Err(_), false) => "",
    };
    let mut facts = vec![format!("{noun}{processes}")];
    let label = family.label();
    if !label.is_empty() {
        facts.push(format!("label {}", printable(&label)));
    }
    if let Some([(least, least_s), (most, most_s)]) = &comm.spread {
        facts.push(format!("from {} on {least} to {} on {most}", time(*least_s), time(*most_s)));
    }
    format!("  {}\n", facts.join("; "))
}
