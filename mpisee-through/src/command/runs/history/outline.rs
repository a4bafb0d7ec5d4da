//! The report's parts for a history beside the tables: titles, sentences, and the names of the
//! series.

use super::sentences::{error_rate_sentence, part_text};
use super::series::{Quantity, Series, Steps};
use super::{Histories, History};
use serde::Serialize;

/// The histories of a folder without their tables.
#[derive(Debug, Serialize)]
pub struct HistoryOutline {
    histories: Vec<OneHistory>,
    /// The sentence on the error rate.
    error_rate: String,
}

/// A history; its number is its place, from 1 on.
#[derive(Debug, Serialize)]
struct OneHistory {
    title: String,
    /// The newest change first.
    sentences: Vec<String>,
    /// Labels of the entries in their order.
    entries: Vec<String>,
    series: Vec<OneSeries>,
}

/// A series that can be chosen.
#[derive(Debug, Serialize)]
struct OneSeries {
    quantity: &'static str,
    comm: String,
    call: String,
    /// `MPI time`, `Calls of MPI_Allreduce on W`
    name: String,
    is_too_short: bool,
}

impl HistoryOutline {
    /// Outlines all histories.
    pub fn new(all: &Histories) -> Self {
        HistoryOutline {
            histories: all.all.iter().map(OneHistory::new).collect(),
            error_rate: error_rate_sentence(),
        }
    }
}

impl OneHistory {
    fn new(history: &History) -> Self {
        OneHistory {
            title: history.title(),
            sentences: history.sentences(),
            entries: history.entries.iter().map(|entry| entry.label.clone()).collect(),
            series: history.series.iter().map(OneSeries::new).collect(),
        }
    }
}

impl OneSeries {
    fn new(series: &Series) -> Self {
        let [comm, call] = series.names().map(str::to_owned);
        let what = match (series.quantity, &series.part) {
            (Quantity::Wall, _) => "Wall time",
            (Quantity::Time, None) => "MPI time",
            (Quantity::Time, Some(_)) => "Time",
            (Quantity::Efficiency, _) => "Parallel efficiency",
            (Quantity::Calls, _) => "Calls",
            (Quantity::Bytes, _) => "Volume",
        };
        let name = match &series.part {
            Some(part) => format!("{what}: {}", part_text(part)),
            None => what.to_owned(),
        };
        OneSeries {
            quantity: series.quantity.name(),
            comm,
            call,
            name,
            is_too_short: series.steps == Steps::TooFewRuns,
        }
    }
}
