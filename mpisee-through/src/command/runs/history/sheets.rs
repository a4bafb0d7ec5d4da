//! The tables of a history.

use super::History;
use super::sentences::error_rate_sentence;
use super::series::{Quantity, Series};
use crate::sheet::{self, Head, Sheet, Value};

/// For programs: a row for each number of each entry.
const POINT_HEADS: [Head; 10] = [
    sheet::number("history", "HISTORY"),
    sheet::fixed("entry", "ENTRY"),
    sheet::fixed("start", "START"),
    sheet::number("runs", "RUNS"),
    sheet::fixed("quantity", "QUANTITY"),
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("value", "Median"),
    sheet::number("min", "Min"),
    sheet::number("max", "Max"),
];

/// For programs: a row for each lasting change.
const CHANGE_HEADS: [Head; 9] = [
    sheet::number("history", "HISTORY"),
    sheet::fixed("entry", "SINCE"),
    sheet::fixed("quantity", "QUANTITY"),
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("before", "Before"),
    sheet::number("after", "After"),
    sheet::number("change", "Change %"),
    sheet::number("chance", "Chance"),
];

/// For people: a row for each entry.
const HEADS: [Head; 8] = [
    sheet::fixed("entry", "ENTRY"),
    sheet::number("runs", "RUNS").hidden_at(0),
    sheet::number("wall_s", "Wall"),
    sheet::number("mpi_mean_s", "MPI/rank"),
    sheet::number("parallel_efficiency", "PE %"),
    sheet::number("calls", "Calls"),
    sheet::number("bytes", "Volume"),
    sheet::fixed("is_changed", ""),
];

/// The numbers of all entries.
pub fn points(all: &[History]) -> Sheet {
    let mut rows = Vec::new();
    for (number, history) in (1..).zip(all) {
        for series in &history.series {
            for (at, entry) in history.entries.iter().enumerate() {
                let spread = series.spread(at);
                let [comm, call] = series.names();
                let mut row = vec![
                    Value::Count(number),
                    entry.label.as_str().into(),
                    entry.start().into(),
                    Value::Count(spread.runs as u64),
                    series.quantity.name().into(),
                    comm.into(),
                    call.into(),
                ];
                row.extend([spread.median, spread.min, spread.max].map(|value| series.quantity.value(value)));
                rows.push(row);
            }
        }
    }
    Sheet { name: "points", heads: POINT_HEADS.to_vec(), rows }
}

/// The lasting changes, the newest first.
pub fn changes(all: &[History]) -> Sheet {
    let mut rows = Vec::new();
    for (number, history) in (1..).zip(all) {
        let mut steps: Vec<_> = history
            .series
            .iter()
            .flat_map(|series| series.lasting_changes().iter().map(move |step| (series, step)))
            .collect();
        steps.sort_by_key(|(_, step)| std::cmp::Reverse(step.at));
        rows.extend(steps.into_iter().map(|(series, step)| {
            let [comm, call] = series.names();
            let share = (step.after - step.before) / step.before;
            let change = match step.before > 0.0 {
                true => Value::Change { share, matters: true },
                false => Value::Nothing,
            };
            vec![
                Value::Count(number),
                history.entries[step.at].label.as_str().into(),
                series.quantity.name().into(),
                comm.into(),
                call.into(),
                series.quantity.value(step.before),
                series.quantity.value(step.after),
                change,
                Value::Number(step.chance),
            ]
        }));
    }
    Sheet { name: "changes", heads: CHANGE_HEADS.to_vec(), rows }
}

/// A history for people.
pub fn table(history: &History) -> Sheet {
    let of_run: Vec<Option<&Series>> =
        [Quantity::Wall, Quantity::Time, Quantity::Efficiency, Quantity::Calls, Quantity::Bytes]
            .map(|of| history.series.iter().find(|series| series.quantity == of && series.part.is_none()))
            .into();
    let row = |at: usize| {
        let entry = &history.entries[at];
        let mut row = vec![entry.label.as_str().into(), Value::Count(entry.runs.len() as u64)];
        row.extend(of_run.iter().map(|series| {
            series.map_or(Value::Nothing, |series| series.quantity.value(series.spread(at).median))
        }));
        let is_changed =
            history.series.iter().any(|series| series.lasting_changes().iter().any(|step| step.at == at));
        row.push(if is_changed { CHANGED } else { "" }.into());
        row
    };
    let mut sheet =
        Sheet { name: "entries", heads: HEADS.to_vec(), rows: (0..history.entries.len()).map(row).collect() };
    sheet.keep_columns(|_, is_empty| !is_empty);
    sheet
}

/// The mark of an entry that changed something.
const CHANGED: &str = "*";

/// The sentences below the tables.
pub fn closing() -> String {
    format!("{CHANGED} marks entries since which a number has changed. {}\n", error_rate_sentence())
}
