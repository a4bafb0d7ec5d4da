//! The communicators of a job in a table: each on a row, or like ones together.

use crate::family::families;
use crate::sheet::{self, Sheet, Value};
use mpisee_profile::CommName;
use mpisee_profile::rows::CommRow;
use serde::Serialize;

/// Rows that a text has, the first in the wanted order; the screen scrolls, and CSV and JSON have
/// each communicator.
pub const MOST_COMMS: usize = 40;

/// A communicator; rates are of the interval, shares of the time of all ranks here.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub comm: String,
    pub label: String,
    pub size: u64,
    pub members_here: u64,
    pub calls: u64,
    pub bytes: u64,
    pub time_s: f64,
    pub share_of_time: f64,
    pub interval_calls_per_s: f64,
    pub interval_bytes_per_s: f64,
    pub interval_share_of_time: f64,
}

impl Row {
    /// The row of several: their sums.
    fn add(&mut self, other: &Row) {
        self.members_here += other.members_here;
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_s += other.time_s;
        self.share_of_time += other.share_of_time;
        self.interval_calls_per_s += other.interval_calls_per_s;
        self.interval_bytes_per_s += other.interval_bytes_per_s;
        self.interval_share_of_time += other.interval_share_of_time;
    }

    fn values(&self, size: Value) -> Vec<Value> {
        vec![
            Value::Text(self.comm.clone()),
            Value::Text(self.label.clone()),
            size,
            Value::Count(self.members_here),
            Value::Number(rounded(self.interval_calls_per_s)),
            Value::BytesPerSecond(rounded(self.interval_bytes_per_s)),
            Value::Share(self.interval_share_of_time),
            Value::Share(self.share_of_time),
            Value::Count(self.calls),
            Value::Bytes(self.bytes),
            Value::Seconds(self.time_s),
        ]
    }
}

/// Each communicator on a row.
pub fn each(rows: &[Row]) -> Sheet {
    sheet_of(rows.iter().map(|row| row.values(Value::Count(row.size))).collect())
}

fn sheet_of(rows: Vec<Vec<Value>>) -> Sheet {
    let heads = vec![
        sheet::fixed("comm", "COMM"),
        sheet::fixed("label", "LABEL").hidden_at(3),
        sheet::number("size", "SIZE"),
        sheet::number("members_here", "HERE").hidden_at(4),
        sheet::number("interval_calls_per_s", "Calls/s").hidden_at(6),
        sheet::number("interval_bytes_per_s", "Volume/s"),
        sheet::number("interval_share_of_time", "% of interval"),
        sheet::number("share_of_time", "% of run").hidden_at(5),
        sheet::number("calls", "Calls").hidden_at(2),
        sheet::number("bytes", "Volume").hidden_at(1),
        sheet::number("time_s", "Time sum").hidden_at(0),
    ];
    Sheet { name: "communicators", heads, rows }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Communicators of which like ones share a row.
pub struct Families {
    /// The sums of each family, its size as text, and how many it has; in the order of the first of
    /// each.
    rows: Vec<(Row, String, usize)>,
}

impl Families {
    pub fn group(rows: &[Row]) -> Families {
        let comms: Vec<CommRow> = rows.iter().map(comm_row).collect();
        let comms: Vec<&CommRow> = comms.iter().collect();
        let mut found = Vec::new();
        for family in families(&comms, &vec![true; comms.len()]) {
            let Some(&first) = family.indices.iter().min() else { continue };
            let mut sum = Row { comm: family.name.clone(), label: family.label(), ..rows[first].clone() };
            family.indices.iter().filter(|&&other| other != first).for_each(|&other| sum.add(&rows[other]));
            found.push((first, (sum, family.size_text(), family.indices.len())));
        }
        found.sort_by_key(|&(first, _)| first);
        Families { rows: found.into_iter().map(|(_, row)| row).collect() }
    }

    /// The first of them in a table.
    pub fn sheet(&self, most_rows: usize) -> Sheet {
        let row = |(row, size, _): &(Row, String, usize)| row.values(Value::Text(size.clone()));
        sheet_of(self.rows.iter().take(most_rows).map(row).collect())
    }

    /// The line below that table: how rows are shared, and how much it lacks; `None` where each
    /// communicator has its row.
    pub fn closing(&self, most_rows: usize) -> Option<String> {
        let (shown, hidden) = self.rows.split_at(most_rows.min(self.rows.len()));
        let mut sentences = Vec::new();
        if shown.iter().any(|&(_, _, count)| count > 1) {
            sentences.push("Like communicators share a row (how many × size).".to_owned());
        }
        if !hidden.is_empty() {
            let count: usize = hidden.iter().map(|&(_, _, count)| count).sum();
            let share: f64 = hidden.iter().map(|(row, ..)| row.interval_share_of_time).sum();
            sentences.push(format!(
                "{count} more {}, with {:.1} % of the interval, not shown.",
                if count == 1 { "communicator" } else { "communicators" },
                100.0 * share
            ));
        }
        (!sentences.is_empty())
            .then(|| format!("{} --format csv and --format json have each.", sentences.join(" ")))
    }
}

/// The properties by which communicators are alike.
fn comm_row(row: &Row) -> CommRow {
    let parent = row.comm.parse().ok().and_then(|name: CommName| name.parent());
    CommRow {
        comm: row.comm.clone(),
        parent: parent.map_or_else(String::new, |parent| parent.to_string()),
        size: u32::try_from(row.size).unwrap_or(u32::MAX),
        label: row.label.clone(),
        count: 1,
        ..CommRow::default()
    }
}
