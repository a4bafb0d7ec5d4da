//! The report's parts for several runs beside the tables: titles, sentences, and the numbers of
//! single runs.

use super::Comparison;
use super::settings::Axis;
use super::sums::Run;
use super::variation::Variation;
use crate::units::{count, to_nine_decimals};
use serde::Serialize;
use std::collections::BTreeMap;

/// Parts of the time of which the report has the time in each run.
const PARTS: usize = 12;

/// Several runs without their tables.
#[derive(Debug, Default, Serialize)]
pub struct Outline {
    runs: Vec<OneRun>,
    series: Vec<OneSeries>,
    repetitions: Vec<Repetitions>,
}

/// A run.
#[derive(Debug, Serialize)]
struct OneRun {
    profile: String,
    /// The number of its setting, from 1 on.
    setting: usize,
    command: String,
    ranks: u64,
    nodes: u32,
    library: String,
    start: String,
    runtime_s: f64,
    /// Means over ranks.
    mpi_s: f64,
    outside_s: f64,
}

/// A series; its number is its place, from 1 on.
#[derive(Debug, Serialize)]
struct OneSeries {
    title: String,
    /// The name of what it is over.
    over: String,
    /// True if more ranks are to share the same work, so that there is an ideal speedup.
    is_strong: bool,
    sentences: Vec<String>,
    /// Where parts are predicted.
    beyond: f64,
    /// Run time there: value and interval, if the points tell it.
    runtime_beyond_s: Option<[f64; 3]>,
}

/// Runs that repeat each other.
#[derive(Debug, Serialize)]
struct Repetitions {
    /// The number of the setting, from 1 on.
    setting: usize,
    title: String,
    /// On the runs as a whole.
    sentences: Vec<String>,
    /// On their parts.
    closing: Vec<String>,
    /// The places of the runs among all of them.
    runs: Vec<usize>,
    /// The parts that explain most of the differences.
    parts: Vec<Part>,
}

/// An operation on a family of communicators; or a time that is in no operation.
#[derive(Debug, Serialize)]
struct Part {
    comm: String,
    call: String,
    /// Of each run, by rank.
    times_s: Vec<f64>,
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

impl Outline {
    /// Of what `runs` says.
    pub fn from_comparison(comparison: &Comparison<'_>) -> Self {
        let mut outline = Outline::default();
        let mut first_runs = BTreeMap::new();
        for (setting, runs) in (1..).zip(comparison.settings) {
            first_runs.insert(setting, outline.runs.len());
            outline.runs.extend(runs.runs.iter().map(|run| OneRun::new(setting, run)));
        }
        for (series, growing) in comparison.series.iter().zip(&comparison.growing) {
            let beyond = growing.runtime_beyond();
            outline.series.push(OneSeries {
                title: comparison.title(series),
                over: series.axis.name(),
                is_strong: series.axis == Axis::Ranks,
                sentences: lines(&growing.sentences()),
                beyond: growing.beyond(),
                runtime_beyond_s: beyond
                    .map(|there| [there.value, there.low, there.high].map(to_nine_decimals)),
            });
        }
        for (setting, variation) in &comparison.variations {
            outline.repetitions.push(Repetitions::from_variation(*setting, variation, first_runs[setting]));
        }
        outline
    }
}

impl OneRun {
    fn new(setting: usize, run: &Run) -> Self {
        OneRun {
            profile: run.path.display().to_string(),
            setting,
            command: crate::run_set::command_text(&run.command),
            ranks: run.ranks,
            nodes: run.nodes,
            library: run.library.clone(),
            start: run.start.clone(),
            runtime_s: to_nine_decimals(run.runtime_s),
            mpi_s: to_nine_decimals(run.mpi_s / run.ranks.max(1) as f64),
            outside_s: to_nine_decimals(run.efficiency.useful.outside_s / run.ranks.max(1) as f64),
        }
    }
}

impl Outline {
    /// Runs alone, each with the number of its setting.
    pub fn from_runs<'r>(runs: impl Iterator<Item = (usize, &'r Run)>) -> Self {
        Outline { runs: runs.map(|(setting, run)| OneRun::new(setting, run)).collect(), ..Outline::default() }
    }

    /// How many settings the runs have.
    pub fn settings(&self) -> usize {
        self.runs.iter().map(|run| run.setting).max().unwrap_or(0)
    }
}

impl Repetitions {
    fn from_variation(number: usize, variation: &Variation<'_>, first: usize) -> Self {
        let setting = variation.setting();
        let part = |(part, times_s): (&super::sums::Part, Vec<f64>)| Part {
            comm: part.0.clone(),
            call: part.1.clone(),
            times_s: times_s.into_iter().map(to_nine_decimals).collect(),
        };
        Repetitions {
            setting: number,
            title: format!("{} of {}", count(setting.runs.len() as u64, "run"), setting.text()),
            sentences: lines(&variation.sentences()),
            closing: lines(&variation.closing()),
            runs: (first..first + setting.runs.len()).collect(),
            parts: variation.times_of_parts(PARTS).into_iter().map(part).collect(),
        }
    }
}
