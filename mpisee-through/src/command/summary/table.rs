//! The summary as a table for people.

use super::{SMALL_SHARE, Summary};
use crate::family_rows::EACH_HINT;
use crate::operation_sums::{CommSum, Sums};
use crate::output::{Column, Hideable, Page, Style, Text, printable};
use crate::sheet::{LARGE_SHARE, headed};
use crate::units::{count, human_bytes, large_count, time};
use mpisee_profile::comm_name::is_nccl;

/// The columns, and when a narrow page hides them.
const COLUMNS: [&str; 9] = ["COMM", "SIZE", "Time", "% of MPI", "Mean", "Min", "Max", "Volume", "Calls"];
const OF_RANK: &str = "of rank";
const HIDDEN_FIRST: [&str; 7] = ["Min", OF_RANK, "Mean", "Calls", "Max", "Volume", "SIZE"];

/// The run, then the communicators, each with its operations.
pub fn table(summary: &Summary, page: Page) -> String {
    let mut text = String::new();
    for (heading, value) in summary.run.lines() {
        text += &headed(heading, &printable(&value), page);
    }
    for sentence in summary.run.sentences() {
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
    text
}

/// The rows that are not shown, and how to see them.
fn closing(summary: &Summary) -> Vec<String> {
    let mut sentences = Vec::new();
    if !summary.left_out.is_empty() {
        // A sum of nothing would be -0.
        let sum_s = |takes: fn(&str) -> bool| {
            let taken = summary.left_out.iter().filter(|comm| takes(&comm.comm));
            taken.map(|comm| comm.sums.time_s).fold(0.0, |left, right| left + right)
        };
        let (time_s, of_mpi_s) = (sum_s(|_| true), sum_s(|name| !is_nccl(name)));
        let counts =
            summary.left_out.iter().map(|comm| comm.family.as_ref().map_or(1, |family| family.count()));
        let (more, are) = match counts.fold(0, u64::saturating_add) {
            1 => ("1 more communicator".to_owned(), "is"),
            more => (format!("{more} more communicators"), "are"),
        };
        let share =
            percent(of_mpi_s, summary.mpi_s).map_or(String::new(), |share| format!(" ({share} % of MPI)"));
        sentences.push(format!(
            "{more} {are} left out, with {} over all ranks{share}; --all shows all, --top N the first N.\n",
            time(time_s)
        ));
    }
    if summary.comms.iter().any(|comm| comm.spread.is_some()) {
        sentences.push(EACH_HINT.to_owned());
    }
    sentences
}

/// A line of the table.
enum Line {
    /// A communicator, with text below it.
    Comm(String),
    Operation,
}

/// The communicators with their operations, and the headings of columns that are hidden; none without communicators.
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
        rows.push(row(Text::new(printable(&comm.comm), Style::Bold), size, &comm.sums, (summary, mpi_s)));
        let operations = operation_rows(comm, summary, mpi_s);
        lines.extend(operations.iter().map(|_| Line::Operation));
        rows.extend(operations);
    }
    let mut headings = COLUMNS.to_vec();
    if summary.run.names_slowest_rank {
        headings.insert(7, OF_RANK);
    }
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

/// A row; its share is that of the MPI time beside the summary.
fn row(name: Text, size: String, sums: &Sums, (summary, mpi_s): (&Summary, f64)) -> Vec<Text> {
    let known = |time_s: Option<f64>| time_s.map_or_else(|| "-".to_owned(), time);
    let mut row: Vec<Text> = vec![name, size.into(), time(sums.time_s).into(), share(sums.time_s, mpi_s)];
    row.extend([time(sums.mean_s), known(sums.min_s), known(sums.max_s)].map(Text::from));
    if summary.run.names_slowest_rank {
        row.push(sums.max_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()).into());
    }
    row.extend([human_bytes(sums.bytes), large_count(sums.calls)].map(Text::from));
    row
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
fn operation_rows(comm: &CommSum, summary: &Summary, mpi_s: f64) -> Vec<Vec<Text>> {
    let is_small = |sums: &Sums| !summary.all && sums.time_s < SMALL_SHARE * summary.mpi_s;
    let most_s = comm.operations.iter().map(|operation| operation.sums.time_s).fold(0.0, f64::max);
    let (small, shown): (Vec<_>, Vec<_>) = comm
        .operations
        .iter()
        .partition(|operation| is_small(&operation.sums) && operation.sums.time_s < most_s);
    let each =
        |call: &str, sums: &Sums| row(format!("  {call}").into(), String::new(), sums, (summary, mpi_s));
    let mut rows: Vec<Vec<Text>> =
        shown.iter().map(|operation| each(&operation.call, &operation.sums)).collect();
    match &small[..] {
        [] => {}
        [operation] => rows.push(each(&operation.call, &operation.sums)),
        several => {
            let all = |of: fn(&Sums) -> u64| {
                several.iter().map(|operation| of(&operation.sums)).fold(0, u64::saturating_add)
            };
            let time_s: f64 = several.iter().map(|operation| operation.sums.time_s).sum();
            let mut together: Vec<Text> = vec![
                format!("  {}", count(several.len() as u64, "more operation")).into(),
                String::new().into(),
                time(time_s).into(),
                share(time_s, mpi_s),
            ];
            let blanks = if summary.run.names_slowest_rank { 4 } else { 3 };
            together.extend((0..blanks).map(|_| Text::from(String::new())));
            together.extend(
                [human_bytes(all(|sums| sums.bytes)), large_count(all(|sums| sums.calls))].map(Text::from),
            );
            rows.push(together);
        }
    }
    rows
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
