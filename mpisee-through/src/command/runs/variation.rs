//! Runs that repeat each other: how far they differ, which stand out, and which time goes with the
//! run time.

use super::settings::Setting;
use super::sums::{Part, Run, Sums};
use crate::run_set::command_text;
use crate::sheet::{self, Head, Sheet, Value};
use crate::statistics::{self, Correlation, Spread, chance_correlation, correlation, median_range, outliers};
use crate::units::{count, natural_order, time};
use std::collections::BTreeSet;

/// For people, of a setting as a whole.
const RUN_HEADS: [Head; 6] = [
    sheet::fixed("what", "RUN"),
    sheet::number("median", "Median"),
    sheet::number("min", "Min").hidden_at(1),
    sheet::number("max", "Max").hidden_at(1),
    sheet::number("deviation", "Spread").hidden_at(0),
    sheet::number("relative", "Spread %"),
];

/// The name of both ends where a narrow table hides them.
const INTERVAL: &str = "interval of r";

/// For people, of its parts.
const HEADS: [Head; 10] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("time_s", "Time/rank"),
    sheet::number("time_min_s", "Min").hidden_at(1),
    sheet::number("time_max_s", "Max").hidden_at(1),
    sheet::number("share_of_differences", "% of differences"),
    sheet::number("correlation", "r"),
    sheet::number("correlation_low", "from").hidden_at(2).hidden_as(INTERVAL),
    sheet::number("correlation_high", "to").hidden_at(2).hidden_as(INTERVAL),
    sheet::fixed("may_be_chance", ""),
];

/// For programs.
const EXACT_HEADS: [Head; 18] = [
    sheet::number("setting", "SETTING"),
    sheet::fixed("command", "COMMAND"),
    sheet::number("ranks", "RANKS"),
    sheet::number("runs", "RUNS"),
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("time_s", "Time/rank"),
    sheet::number("time_min_s", "Min"),
    sheet::number("time_max_s", "Max"),
    sheet::number("share_of_differences", "% of differences"),
    sheet::number("correlation", "r"),
    sheet::number("correlation_low", "from"),
    sheet::number("correlation_high", "to"),
    sheet::number("chance", "Chance"),
    sheet::number("calls_min", "Calls min"),
    sheet::number("calls_max", "Calls max"),
    sheet::number("bytes_min", "Volume min"),
    sheet::number("bytes_max", "Volume max"),
];

/// The repetitions of a setting.
pub struct Variation<'s> {
    setting: &'s Setting,
    wall: Spread,
    /// The parts, those first that explain most of the differences between run times.
    parts: Vec<PartVariation>,
}

/// A part of the time over repetitions.
struct PartVariation {
    part: Part,
    time: Spread,
    calls: Spread,
    bytes: Spread,
    /// With the run time.
    correlation: Option<Correlation>,
}

impl PartVariation {
    fn from_setting(setting: &Setting, part: Part, wall_s: &[f64]) -> Self {
        let of = |number: fn(Sums) -> f64| Spread::from_values(&setting.each(|run| number(run.part(&part))));
        let time_s = setting.each(|run| run.time_per_rank_s(&part));
        PartVariation {
            time: Spread::from_values(&time_s),
            calls: of(|sums| sums.calls),
            bytes: of(|sums| sums.bytes),
            correlation: correlation(wall_s, &time_s),
            part,
        }
    }

    /// The part of the differences between run times that is in this time; all of them add up to 1.
    fn share(&self) -> f64 {
        // What would be printed as -0.0 is nothing.
        const LEAST: f64 = 0.000_5;
        self.correlation.map_or(0.0, |found| if found.slope.abs() < LEAST { 0.0 } else { found.slope })
    }
}

impl<'s> Variation<'s> {
    /// Of a setting with several runs.
    pub fn from_setting(setting: &'s Setting) -> Option<Self> {
        if setting.runs.len() < 2 {
            return None;
        }
        let wall_s = setting.each(|run| run.runtime_s);
        let names: BTreeSet<&Part> = setting.runs.iter().flat_map(|run| run.parts.keys()).collect();
        let of = |part: &Part| PartVariation::from_setting(setting, part.clone(), &wall_s);
        let mut parts: Vec<PartVariation> = names.into_iter().map(of).collect();
        parts.sort_by(|one, other| {
            let weight = |part: &PartVariation| part.share().abs();
            weight(other)
                .total_cmp(&weight(one))
                .then_with(|| other.time.median.total_cmp(&one.time.median))
                .then_with(|| natural_order(&one.part.0, &other.part.0))
                .then_with(|| one.part.1.cmp(&other.part.1))
        });
        Some(Variation { setting, wall: Spread::from_values(&wall_s), parts })
    }

    /// The setting that was repeated.
    pub fn setting(&self) -> &'s Setting {
        self.setting
    }

    /// Family, operation, and by run the time by rank, of the parts that explain most of the
    /// differences.
    pub fn times_of_parts(&self, most: usize) -> Vec<(&Part, Vec<f64>)> {
        let times = |part: &'_ PartVariation| self.setting.each(|run| run.time_per_rank_s(&part.part));
        self.parts.iter().take(most).map(|part| (&part.part, times(part))).collect()
    }

    /// Correlations that were tried.
    fn tried(&self) -> usize {
        self.parts.iter().filter(|part| part.correlation.is_some()).count()
    }

    /// Returns whether a correlation may be the chance of so many that were tried on so few runs.
    fn may_be_chance(&self, found: &Correlation) -> bool {
        found.chance * self.tried() as f64 > 1.0 - statistics::CONFIDENCE
    }

    /// The runs as a whole, for people.
    pub fn run_sheet(&self) -> Sheet {
        let per_rank = |time_s: f64, run: &Run| time_s / run.ranks.max(1) as f64;
        let row = |name: &str, of: &dyn Fn(&Run) -> f64| {
            let spread = Spread::from_values(&self.setting.each(of));
            let relative = spread.relative().map_or(Value::Nothing, Value::Share);
            let deviation = spread.deviation.map_or(Value::Nothing, Value::Seconds);
            let [median, min, max] = [spread.median, spread.min, spread.max].map(Value::Seconds);
            vec![name.into(), median, min, max, deviation, relative]
        };
        let mut rows = vec![row("run time", &|run| run.runtime_s)];
        if !self.setting.runs.iter().all(|run| run.is_without_mpi) {
            rows.extend([
                row("MPI time, mean over ranks", &|run| per_rank(run.mpi_s, run)),
                row("time outside of MPI, mean over ranks", &|run| {
                    per_rank(run.efficiency.useful.outside_s, run)
                }),
            ]);
        }
        Sheet { name: "run", heads: RUN_HEADS.to_vec(), rows }
    }

    /// Sentences, one a line: what to expect of further runs, and which of these stand out.
    pub fn sentences(&self) -> String {
        let wall_s = self.setting.each(|run| run.runtime_s);
        let mut text = String::new();
        if let Some(range) = median_range(&wall_s) {
            text += &format!(
                "The median of many such runs lies between {} and {}, with {:.0} % certainty{}.\n",
                time(range.low),
                time(range.high),
                100.0 * range.confidence,
                match range.confidence < statistics::CONFIDENCE {
                    true => format!("; {} allow no more", count(wall_s.len() as u64, "run")),
                    false => String::new(),
                }
            );
        }
        let found = outliers(&wall_s);
        for &index in &found {
            let by = (wall_s[index] - self.wall.median) / self.wall.median;
            text += &format!(
                "Outlier: {} took {}, {:.1} % {} than the median. Correlations mostly show this run.\n",
                self.setting.runs[index].name(),
                time(wall_s[index]),
                100.0 * by.abs(),
                if by > 0.0 { "longer" } else { "less" }
            );
        }
        if found.is_empty() && wall_s.len() < 4 {
            text += "Fewer than 4 runs cannot show an outlier.\n";
        }
        text
    }

    /// The parts for people.
    pub fn sheet(&self) -> Sheet {
        let heads = if self.tried() == 0 { &HEADS[..5] } else { &HEADS[..] };
        let row = |part: &PartVariation| {
            let times = [part.time.median, part.time.min, part.time.max].map(Value::Seconds);
            let mut row = vec![part.part.0.as_str().into(), part.part.1.as_str().into()];
            row.extend(times);
            let digits = |r: f64| Value::Text(format!("{r:.2}"));
            let [low, high] = part
                .correlation
                .and_then(|found| found.interval)
                .map_or([Value::Nothing, Value::Nothing], |interval| interval.map(digits));
            let found = part.correlation.as_ref();
            row.push(found.map_or(Value::Nothing, |_| Value::Share(part.share())));
            row.push(found.map_or(Value::Nothing, |found| digits(found.r)));
            row.extend([low, high]);
            row.push(if found.is_some_and(|found| self.may_be_chance(found)) { "~" } else { "" }.into());
            row.truncate(heads.len());
            row
        };
        Sheet { name: "variation", heads: heads.to_vec(), rows: self.parts.iter().map(row).collect() }
    }

    /// Closing sentences: how far correlations of so few runs can be trusted, and which counts
    /// differ between runs.
    pub fn closing(&self) -> String {
        let mut text = String::new();
        let runs = self.setting.runs.len();
        match chance_correlation(runs, self.tried()).filter(|_| self.tried() > 0) {
            Some(bound) => {
                text += &format!(
                    "~ may be chance: of {} tried on {runs} runs, some r reaches {bound:.2} by chance in one \
                     of 20 sets.\n",
                    count(self.tried() as u64, "correlation")
                );
            }
            None => {
                text += "Correlations with the run time need at least 3 runs, and runs of different times.\n"
            }
        }
        let varies =
            |part: &&PartVariation| part.calls.min < part.calls.max || part.bytes.min < part.bytes.max;
        let varying: Vec<String> = self
            .parts
            .iter()
            .filter(varies)
            .map(|part| format!("{} on {}", part.part.1, part.part.0))
            .collect();
        const NAMED: usize = 4;
        let more = varying.len().saturating_sub(NAMED);
        let named = varying.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        text += &match (varying.is_empty(), more) {
            (true, _) => "Calls and bytes are the same in all runs.\n".to_owned(),
            (_, 0) => format!("Calls or bytes differ between the runs: {named}.\n"),
            (_, more) => format!("Calls or bytes differ between the runs: {named}, and {more} more.\n"),
        };
        text
    }
}

/// The parts of all settings that were repeated, for programs. `variations` come with the numbers
/// of their settings.
pub fn exact_sheet(variations: &[(usize, Variation<'_>)]) -> Sheet {
    let mut rows = Vec::new();
    for (number, variation) in variations {
        let setting = variation.setting;
        let command = command_text(setting.command());
        for part in &variation.parts {
            let found = part.correlation.as_ref();
            let number_of = |value: Option<f64>| value.map_or(Value::Nothing, Value::Number);
            let interval = found.and_then(|found| found.interval);
            rows.push(vec![
                Value::Count(*number as u64),
                Value::Text(command.clone()),
                Value::Count(setting.ranks()),
                Value::Count(setting.runs.len() as u64),
                part.part.0.as_str().into(),
                part.part.1.as_str().into(),
                Value::Seconds(part.time.median),
                Value::Seconds(part.time.min),
                Value::Seconds(part.time.max),
                found.map_or(Value::Nothing, |found| Value::Share(found.slope)),
                number_of(found.map(|found| found.r)),
                number_of(interval.map(|interval| interval[0])),
                number_of(interval.map(|interval| interval[1])),
                number_of(found.map(|found| found.chance)),
                Value::Number(part.calls.min),
                Value::Number(part.calls.max),
                Value::Number(part.bytes.min),
                Value::Number(part.bytes.max),
            ]);
        }
    }
    Sheet { name: "variation", heads: EXACT_HEADS.to_vec(), rows }
}
