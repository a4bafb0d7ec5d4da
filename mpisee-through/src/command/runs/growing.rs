//! How the parts of a series grow, and what will dominate at four times its largest setting.

use super::scaling::number;
use super::settings::{Axis, Series, Setting};
use super::sums::{OUTSIDE, Part, Sums};
use crate::output::{Column, Hideable, Page};
use crate::sheet::{self, Head, Sheet, Value};
use crate::statistics::growth::{Growth, Point, Prediction};
use crate::statistics::{Spread, median};
use crate::units::{count_of, natural_order, time};
use std::collections::BTreeSet;

/// How far beyond the largest setting is looked.
const BEYOND: f64 = 4.0;

/// A quantity of a part, summed over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Time,
    Calls,
    Bytes,
}

const QUANTITIES: [Quantity; 3] = [Quantity::Time, Quantity::Calls, Quantity::Bytes];

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Quantity::Time => "time_s",
            Quantity::Calls => "calls",
            Quantity::Bytes => "bytes",
        }
    }

    fn amount(self, sums: Sums) -> f64 {
        match self {
            Quantity::Time => sums.time_s,
            Quantity::Calls => sums.calls,
            Quantity::Bytes => sums.bytes,
        }
    }
}

/// The parts of a series over its settings.
pub struct Growing<'s> {
    series: &'s Series,
    settings: Vec<&'s Setting>,
    /// The largest first, at four times the largest setting or, without a fit, now.
    parts: Vec<PartGrowth>,
    /// The value of the parameter there, and the number of ranks.
    beyond: f64,
    ranks_beyond: f64,
}

/// A part over the settings of a series.
struct PartGrowth {
    part: Part,
    /// By setting, the time over all ranks by ranks x run time.
    shares: Vec<f64>,
    /// By setting, medians over its runs.
    sums: Vec<Sums>,
    /// Of time, calls and bytes.
    growth: [Option<Growth>; 3],
}

/// Of medians over runs, with the standard errors that follow from how the runs differ.
fn growth(points: impl Iterator<Item = (f64, Spread)>) -> Option<Growth> {
    let point = |(p, spread): (f64, Spread)| {
        let error = spread.deviation.map(|deviation| deviation / (spread.runs as f64).sqrt());
        Point { p, y: spread.median, error }
    };
    let points: Vec<Point> = points.map(point).collect();
    // Below 1 the logarithm is negative.
    points.iter().all(|point| point.p >= 1.0).then(|| Growth::from_points(&points)).flatten()
}

impl PartGrowth {
    fn from_part(part: &Part, points: &[(f64, &Setting)]) -> Self {
        let spread = |setting: &Setting, quantity: Quantity| {
            Spread::from_values(&setting.each(|run| quantity.amount(run.part(part))))
        };
        let growth =
            QUANTITIES.map(|quantity| growth(points.iter().map(|at| (at.0, spread(at.1, quantity)))));
        let sums = |&(_, setting): &(f64, &Setting)| {
            let [time_s, calls, bytes] = QUANTITIES.map(|quantity| spread(setting, quantity).median);
            Sums { time_s, calls, bytes }
        };
        let share = |&(_, setting): &(f64, &Setting)| {
            median(&setting.each(|run| {
                let whole_s = run.efficiency.run_s();
                if whole_s > 0.0 { run.part(part).time_s / whole_s } else { 0.0 }
            }))
        };
        PartGrowth {
            part: part.clone(),
            shares: points.iter().map(share).collect(),
            sums: points.iter().map(sums).collect(),
            growth,
        }
    }

    /// The time over all ranks at `p`.
    fn time_at(&self, p: f64) -> Option<Prediction> {
        self.growth[0].as_ref().map(|growth| growth.at(p))
    }

    fn name(&self) -> String {
        match self.part.1.is_empty() {
            true => self.part.0.clone(),
            false => format!("{} on {}", self.part.1, self.part.0),
        }
    }
}

impl<'s> Growing<'s> {
    /// Of a series of these settings.
    pub fn from_series(series: &'s Series, settings: &'s [Setting]) -> Self {
        let points: Vec<(f64, &Setting)> =
            series.points.iter().map(|&(value, index)| (value, &settings[index])).collect();
        let runs = points.iter().flat_map(|(_, setting)| &setting.runs);
        let names: BTreeSet<&Part> = runs.flat_map(|run| run.parts.keys()).collect();
        let mut parts: Vec<PartGrowth> =
            names.into_iter().map(|part| PartGrowth::from_part(part, &points)).collect();
        let beyond = points.last().map_or(0.0, |point| point.0) * BEYOND;
        let ranks = points.last().map_or(0, |point| point.1.ranks()) as f64;
        let ranks_beyond = if matches!(series.axis, Axis::Parameter(_)) { ranks } else { ranks * BEYOND };
        let weight = |part: &PartGrowth| {
            let now_s = part.sums.last().map_or(0.0, |sums| sums.time_s);
            part.time_at(beyond).map_or(now_s, |there| there.value)
        };
        parts.sort_by(|one, other| {
            weight(other)
                .total_cmp(&weight(one))
                .then_with(|| natural_order(&one.part.0, &other.part.0))
                .then_with(|| one.part.1.cmp(&other.part.1))
        });
        let settings = points.into_iter().map(|point| point.1).collect();
        Growing { series, settings, parts, beyond, ranks_beyond }
    }

    /// Returns whether there are points enough for models.
    fn has_models(&self) -> bool {
        self.parts.iter().any(|part| part.growth[0].is_some())
    }

    /// The time of all parts, over all ranks, at four times the largest setting. Errors of parts
    /// are taken to be independent.
    fn whole(&self) -> Prediction {
        let times: Vec<Prediction> = self.parts.iter().filter_map(|part| part.time_at(self.beyond)).collect();
        let value: f64 = times.iter().map(|there| there.value).sum();
        let width =
            |of: fn(&Prediction) -> f64| times.iter().map(|there| of(there).powi(2)).sum::<f64>().sqrt();
        // None is shorter than the sum of the least.
        let least: f64 = times.iter().map(|there| there.low).sum();
        let low = (value - width(|there| there.value - there.low)).max(least);
        Prediction { value, low, high: value + width(|there| there.high - there.value) }
    }

    /// How long a run takes there; none without models, and where the points cannot tell.
    pub fn runtime_beyond(&self) -> Option<Prediction> {
        let there = self.whole();
        let is_known = self.has_models() && there.high <= TOLD_WITHIN * there.low;
        let [value, low, high] =
            [there.value, there.low, there.high].map(|sum_s| sum_s / self.ranks_beyond.max(1.0));
        is_known.then_some(Prediction { value, low, high })
    }

    /// The value of what the series is over at which parts are predicted.
    pub fn beyond(&self) -> f64 {
        self.beyond
    }

    /// The share of a part there, and where it would be if this part alone were at the ends of its
    /// interval.
    fn share_beyond(&self, part: &PartGrowth) -> Option<Prediction> {
        let there = part.time_at(self.beyond)?;
        let all: f64 =
            self.parts.iter().filter_map(|part| part.time_at(self.beyond)).map(|at| at.value).sum();
        let others = (all - there.value).max(0.0);
        let share = |of: f64| if others + of > 0.0 { of / (others + of) } else { 0.0 };
        Some(Prediction { value: share(there.value), low: share(there.low), high: share(there.high) })
    }

    /// The value there for people: `32 ranks`, `-n 4096`.
    fn place(&self) -> String {
        match &self.series.axis {
            Axis::Ranks => count_of(self.beyond as u64, "rank", "ranks"),
            Axis::RanksAnd(name) => {
                format!("{} ({name} growing on)", count_of(self.beyond as u64, "rank", "ranks"))
            }
            Axis::Parameter(name) => format!("{name} {}", number(self.beyond)),
        }
    }

    /// The parts for people: shares of each setting, and how each grows.
    pub fn table(&self, page: Page, limit: usize) -> String {
        let values: Vec<String> = self.series.points.iter().map(|point| number(point.0)).collect();
        let mut headings = vec!["COMM".to_owned(), "CALL".to_owned()];
        let on = |(index, value): (usize, &String)| {
            if index == 0 { format!("% of run on {value}") } else { value.clone() }
        };
        headings.extend(values.iter().enumerate().map(on));
        if self.has_models() {
            headings.push(format!("at {}", number(self.beyond)));
            headings.extend(["from", "to", "Time grows", "Calls grow", "Volume grows"].map(str::to_owned));
        }
        let first_text = 2 + values.len() + 3;
        let column = |(index, heading): (usize, &'_ String)| {
            let is_text = index < 2 || index >= first_text;
            (heading.clone(), if is_text { Column::Fixed(0) } else { Column::Number(0) })
        };
        let columns: Vec<(String, Column)> = headings.iter().enumerate().map(column).collect();
        let columns: Vec<(&str, Column)> =
            columns.iter().map(|(text, kind)| (text.as_str(), *kind)).collect();
        let rows: Vec<Vec<String>> = self.parts.iter().take(limit).map(|part| self.row(part)).collect();
        // Of the settings the first and the last stay.
        let middle = values.iter().skip(1).take(values.len().saturating_sub(2)).map(String::as_str);
        let interval = format!("interval at {}", number(self.beyond));
        let mut optional = Hideable::each(&["Volume grows", "Calls grow"], &columns);
        if self.has_models() {
            optional.push(Hideable { columns: vec![first_text - 2, first_text - 1], name: &interval });
        }
        optional.extend(Hideable::each(&middle.collect::<Vec<&str>>(), &columns));
        page.fitted_table(&columns, rows, &optional)
    }

    fn row(&self, part: &PartGrowth) -> Vec<String> {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let mut row = vec![part.part.0.clone(), part.part.1.clone()];
        row.extend(part.shares.iter().map(|&share| Value::share_of(share, 1.0).in_table()));
        if self.has_models() {
            let there = self.share_beyond(part);
            let cell = |of: fn(Prediction) -> f64| there.map_or("-".to_owned(), |there| percent(of(there)));
            row.extend([cell(|there| there.value), cell(|there| there.low), cell(|there| there.high)]);
            row.extend(part.growth.iter().map(|growth| growth.as_ref().map_or("-".to_owned(), Growth::text)));
        }
        row
    }

    /// How many parts there are.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Sentences, one a line: which operations will dominate, and how far the models are to be
    /// trusted.
    pub fn sentences(&self) -> String {
        if !self.has_models() {
            return "Growth is fitted to three settings or more, from 1 on, because every model fits two.\n"
                .to_owned();
        }
        let place = self.place();
        let mut text = self.measured();
        text += &match self.runtime_beyond() {
            None => {
                format!("The points do not tell the run time at {place} within a factor of {TOLD_WITHIN}.\n")
            }
            Some(there) => {
                let [value, low, high] = [there.value, there.low, there.high].map(time);
                format!("At {place} the run would take {value} ({low} to {high}), the sum of its parts.\n")
            }
        };
        text += &self.dominating();
        text += &self.trust();
        text += &format!(
            "Growth is that of sums over ranks, and p is {}. The points cannot tell several named models \
             apart; unclear means any model.\n",
            if matches!(self.series.axis, Axis::Parameter(_)) {
                "the parameter"
            } else {
                "the number of ranks"
            }
        );
        text
    }

    /// The run times at both ends of the series; of strong scaling how much faster the last is.
    fn measured(&self) -> String {
        let (Some(first), Some(last)) = (self.settings.first(), self.settings.last()) else {
            return String::new();
        };
        let (Some(from), Some(to)) = (self.series.points.first(), self.series.points.last()) else {
            return String::new();
        };
        let [first_s, last_s] = [first, last].map(|of| median(&of.each(|run| run.runtime_s)));
        let speedup = match self.series.axis {
            Axis::Ranks if last_s > 0.0 => format!(
                ", {:.2} times as fast with {} times the ranks",
                first_s / last_s,
                number(to.0 / from.0.max(f64::MIN_POSITIVE))
            ),
            _ => String::new(),
        };
        let [from, to] = [from, to].map(|point| number(point.0));
        let with = match &self.series.axis {
            Axis::Ranks | Axis::RanksAnd(_) => format!("{from} and {to} ranks"),
            Axis::Parameter(name) => format!("{name} {from} and {to}"),
        };
        format!("With {with} the run took {} and {}{speedup}.\n", time(first_s), time(last_s))
    }

    /// The largest part there, in words; of MPI, where the program itself is larger.
    fn dominating(&self) -> String {
        let Some((first, share)) = self.parts.first().and_then(|part| Some((part, self.share_beyond(part)?)))
        else {
            return String::new();
        };
        // Another is as large at the upper end of its interval as the first at its lower.
        let lowest = first.time_at(self.beyond).map_or(0.0, |there| there.low);
        let highest = |part: &PartGrowth| part.time_at(self.beyond).map_or(0.0, |there| there.high);
        let rivals: Vec<String> =
            self.parts[1..].iter().filter(|part| highest(part) > lowest).map(PartGrowth::name).collect();
        let said = |part: &PartGrowth, share: Prediction| {
            let [value, low, high] = [share.value, share.low, share.high].map(|share| 100.0 * share);
            format!("{}, {value:.0} % of the run ({low:.0} to {high:.0})", part.name())
        };
        let in_mpi = self.parts[1..].iter().find(|part| part.part.0 != OUTSIDE && first.part.0 == OUTSIDE);
        let in_mpi =
            in_mpi.and_then(|part| Some(format!("; in MPI {}", said(part, self.share_beyond(part)?))));
        match rivals.len() {
            0 => format!(
                "The largest part there would be {}{}.\n",
                said(first, share),
                in_mpi.unwrap_or_default()
            ),
            1 => {
                format!("The points do not tell the largest part there: {} or {}.\n", first.name(), rivals[0])
            }
            more => format!(
                "The points do not tell the largest part there: {}, {}, or {} more.\n",
                first.name(),
                rivals[0],
                more - 1
            ),
        }
    }

    /// How well the settings before the last predict the last.
    fn trust(&self) -> String {
        let held_out = |part: &PartGrowth| match &part.growth[0] {
            Some(growth) => growth.held_out,
            // A part that takes no time.
            None => Some(0.0),
        };
        let predicted_s: Option<f64> = self.parts.iter().map(held_out).sum();
        let (Some(sum_s), Some(last), Some(point)) =
            (predicted_s, self.settings.last(), self.series.points.last())
        else {
            return "Three settings are too few to hold one out as a test of the prediction.\n".to_owned();
        };
        let predicted_s = sum_s / last.ranks().max(1) as f64;
        let measured_s = median(&last.each(|run| run.runtime_s));
        format!(
            "The last setting is a test: the settings before predict {} at {}, and {} were measured ({:+.0} \
             %).\n",
            time(predicted_s),
            number(point.0),
            time(measured_s),
            100.0 * (predicted_s / measured_s.max(f64::MIN_POSITIVE) - 1.0)
        )
    }
}

/// A prediction whose interval spans more, as a factor, is none.
const TOLD_WITHIN: f64 = 10.0;

const PART_HEADS: [Head; 9] = [
    sheet::number("series", "SERIES"),
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("value", "VALUE"),
    sheet::number("ranks", "RANKS"),
    sheet::number("time_s", "Time"),
    sheet::number("share_of_run", "% of run"),
    sheet::number("calls", "Calls"),
    sheet::number("bytes", "Volume"),
];

/// The parts of each setting of each series, for programs: sums over ranks, medians over runs.
pub fn part_sheet(all: &[Growing<'_>]) -> Sheet {
    let mut rows = Vec::new();
    for (number, growing) in (1..).zip(all) {
        for part in &growing.parts {
            for (index, (setting, point)) in growing.settings.iter().zip(&growing.series.points).enumerate() {
                let sums = part.sums[index];
                rows.push(vec![
                    Value::Count(number),
                    part.part.0.as_str().into(),
                    part.part.1.as_str().into(),
                    Value::Number(point.0),
                    Value::Count(setting.ranks()),
                    Value::Seconds(sums.time_s),
                    Value::share_of(part.shares[index], 1.0),
                    Value::Number(sums.calls),
                    Value::Number(sums.bytes),
                ]);
            }
        }
    }
    Sheet { name: "parts", heads: PART_HEADS.to_vec(), rows }
}

const GROWTH_HEADS: [Head; 17] = [
    sheet::number("series", "SERIES"),
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::fixed("quantity", "QUANTITY"),
    sheet::fixed("model", "MODEL"),
    sheet::fixed("or", "OR"),
    sheet::number("base", "Base"),
    sheet::number("slope", "Slope"),
    sheet::number("deviation", "Deviation"),
    sheet::number("held_out", "Held out"),
    sheet::number("at", "At"),
    sheet::number("predicted", "Predicted"),
    sheet::number("predicted_low", "from"),
    sheet::number("predicted_high", "to"),
    sheet::number("predicted_share", "% of run"),
    sheet::number("predicted_share_low", "from"),
    sheet::number("predicted_share_high", "to"),
];

/// A fitted number, without the digits that rounding left.
fn digits(number: f64) -> Value {
    let text = format!("{number:.9e}");
    Value::Number(text.parse().unwrap_or(number))
}

/// The models of each series, for programs.
pub fn growth_sheet(all: &[Growing<'_>]) -> Sheet {
    let mut rows = Vec::new();
    for (number, growing) in (1..).zip(all) {
        for part in &growing.parts {
            for (quantity, growth) in QUANTITIES.iter().zip(&part.growth) {
                let Some(growth) = growth else { continue };
                let there = growth.at(growing.beyond);
                let share = growing.share_beyond(part).filter(|_| *quantity == Quantity::Time);
                let share =
                    |of: fn(Prediction) -> f64| share.map_or(Value::Nothing, |there| Value::Share(of(there)));
                let others: Vec<String> = growth.others.iter().map(|fit| fit.model.to_string()).collect();
                rows.push(vec![
                    Value::Count(number),
                    part.part.0.as_str().into(),
                    part.part.1.as_str().into(),
                    quantity.name().into(),
                    Value::Text(growth.best.model.to_string()),
                    Value::Text(others.join("|")),
                    digits(growth.best.base),
                    digits(growth.best.slope),
                    Value::Share(growth.deviation),
                    growth.off().map_or(Value::Nothing, Value::Share),
                    Value::Number(growing.beyond),
                    digits(there.value),
                    digits(there.low),
                    digits(there.high),
                    share(|there| there.value),
                    share(|there| there.low),
                    share(|there| there.high),
                ]);
            }
        }
    }
    Sheet { name: "growth", heads: GROWTH_HEADS.to_vec(), rows }
}
