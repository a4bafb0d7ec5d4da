//! The settings beside each other: run times, speedup, and the factors of the efficiency.

use super::settings::{Axis, Series, Setting};
use crate::command::efficiency::Factors;
use crate::run_set::command_text;
use crate::sheet::{self, Head, Sheet, Value};
use crate::statistics::Spread;
use crate::view::ProfileView;
use anyhow::Result;

/// A setting in numbers.
pub struct Measured {
    pub wall: Spread,
    /// Of the run with the median time.
    pub factors: Factors,
    /// Over all ranks, the useful time of that run.
    useful_s: f64,
}

impl Measured {
    /// Reads the run with the median time again, since waiting is joined from its samples.
    pub fn from_setting(setting: &Setting) -> Result<Self> {
        let run = setting.median_run();
        let factors = Factors::from_view(&ProfileView::open(&run.path)?);
        let useful_s = run.efficiency.useful.on_core_or_outside()[0].value;
        Ok(Measured { wall: Spread::from_values(&setting.each(|run| run.runtime_s)), factors, useful_s })
    }
}

/// A setting beside the first of its series.
#[derive(Clone, Copy, Debug, Default)]
struct Scaled {
    speedup: Option<f64>,
    /// The speedup by what it would be if time went down as ranks go up; of weak scaling, the first
    /// time by this one.
    efficiency: Option<f64>,
    /// Of the useful time, summed over ranks, that of the first setting by this one; of weak
    /// scaling by rank.
    computation: Option<f64>,
}

impl Scaled {
    fn from_pair(axis: &Axis, ranks: [u64; 2], first: &Measured, this: &Measured) -> Self {
        let ratio = |one: f64, other: f64| (other > 0.0 && one > 0.0).then(|| one / other);
        let speedup = ratio(first.wall.median, this.wall.median);
        let by_ranks = ranks[0] as f64 / ranks[1].max(1) as f64;
        let computation = ratio(first.useful_s, this.useful_s);
        match axis {
            Axis::Ranks => {
                Scaled { speedup, efficiency: speedup.map(|speedup| speedup * by_ranks), computation }
            }
            Axis::RanksAnd(_) => Scaled {
                speedup: None,
                efficiency: speedup,
                computation: computation.map(|computation| computation / by_ranks),
            },
            Axis::Parameter(_) => Scaled::default(),
        }
    }
}

/// For programs.
const EXACT_HEADS: [Head; 22] = [
    sheet::number("setting", "SETTING"),
    sheet::number("series", "SERIES"),
    sheet::fixed("command", "COMMAND"),
    sheet::number("ranks", "RANKS"),
    sheet::number("nodes", "NODES"),
    sheet::fixed("parameter", "PARAMETER"),
    sheet::number("value", "VALUE"),
    sheet::number("runs", "RUNS"),
    sheet::number("runtime_s", "Runtime"),
    sheet::number("runtime_min_s", "Min"),
    sheet::number("runtime_max_s", "Max"),
    sheet::number("runtime_deviation_s", "Spread"),
    sheet::number("speedup", "Speedup"),
    sheet::number("scaling_efficiency", "Efficiency %"),
    sheet::number("parallel_efficiency", "PE %"),
    sheet::number("load_balance", "LB %"),
    sheet::number("communication_efficiency", "CE %"),
    sheet::number("serialisation_efficiency", "SerE %"),
    sheet::number("transfer_efficiency", "TE %"),
    sheet::number("core_availability", "CA %"),
    sheet::number("computation_scaling", "Computation %"),
    sheet::fixed("outliers", "OUTLIERS"),
];

/// For people, without what the heading of a series says.
const HEADS: [Head; 15] = [
    sheet::number("value", "VALUE"),
    sheet::number("ranks", "RANKS"),
    sheet::number("runs", "RUNS").hidden_at(2),
    sheet::number("runtime_s", "Runtime"),
    sheet::number("runtime_min_s", "Min").hidden_at(1),
    sheet::number("runtime_max_s", "Max").hidden_at(1),
    sheet::number("speedup", "Speedup"),
    sheet::number("scaling_efficiency", "Efficiency %"),
    sheet::number("parallel_efficiency", "PE %"),
    sheet::number("load_balance", "LB %").hidden_at(4),
    sheet::number("communication_efficiency", "CE %").hidden_at(4),
    sheet::number("serialisation_efficiency", "SerE %").hidden_at(0),
    sheet::number("transfer_efficiency", "TE %").hidden_at(0),
    sheet::number("core_availability", "CA %").hidden_at(4),
    sheet::number("computation_scaling", "Computation %").hidden_at(3),
];

/// The cells from the run time on, but for the range of times.
fn cells(measured: &Measured, scaled: Scaled, speedup: fn(f64) -> Value) -> Vec<Value> {
    let share = |share: Option<f64>| share.map_or(Value::Nothing, Value::Share);
    let Factors { parallel, load_balance, communication, serialisation, transfer, cores } = measured.factors;
    let mut cells = vec![scaled.speedup.map_or(Value::Nothing, speedup), share(scaled.efficiency)];
    cells.extend([parallel, load_balance, communication, serialisation, transfer, cores].map(share));
    cells.push(share(scaled.computation));
    cells
}

/// A series for people.
pub fn sheet(series: &Series, settings: &[Setting], measured: &[Measured]) -> Sheet {
    let first = series.points[0].1;
    let row = |&(value, index): &(f64, usize)| {
        let (setting, this) = (&settings[index], &measured[index]);
        let ranks = [settings[first].ranks(), setting.ranks()];
        let scaled = Scaled::from_pair(&series.axis, ranks, &measured[first], this);
        let mut row = vec![
            Value::Text(number(value)),
            Value::Count(setting.ranks()),
            Value::Count(setting.runs.len() as u64),
            Value::Seconds(this.wall.median),
            Value::Seconds(this.wall.min),
            Value::Seconds(this.wall.max),
        ];
        row.extend(cells(this, scaled, |speedup| Value::Text(format!("{speedup:.2}"))));
        row
    };
    let rows = series.points.iter().map(row).collect();
    let mut sheet = Sheet { name: "points", heads: HEADS.to_vec(), rows };
    let are_single = series.points.iter().all(|point| settings[point.1].runs.len() == 1);
    sheet.keep_columns(|name, is_empty| match name {
        "value" => matches!(series.axis, Axis::Parameter(_)),
        "runtime_min_s" | "runtime_max_s" => !are_single,
        _ => !is_empty,
    });
    sheet
}

/// A number of the command line.
pub fn number(value: f64) -> String {
    format!("{value}")
}

/// All settings for programs.
pub fn exact_sheet(all: &[Series], settings: &[Setting], measured: &[Measured]) -> Sheet {
    let row = |(index, (setting, this)): (usize, (&Setting, &Measured))| {
        let found = all.iter().enumerate().find_map(|(number, series)| {
            let point = series.points.iter().find(|point| point.1 == index)?;
            Some((number, series, point.0))
        });
        let scaled = found.map_or_else(Scaled::default, |(_, series, _)| {
            let first = series.points[0].1;
            let ranks = [settings[first].ranks(), setting.ranks()];
            Scaled::from_pair(&series.axis, ranks, &measured[first], this)
        });
        let parameter = found.map(|(_, series, _)| series.axis.name());
        let mut row = vec![
            Value::Count(index as u64 + 1),
            found.map_or(Value::Nothing, |(number, ..)| Value::Count(number as u64 + 1)),
            Value::Text(command_text(setting.command())),
            Value::Count(setting.ranks()),
            Value::Count(setting.runs[0].nodes.into()),
            parameter.map_or(Value::Nothing, Value::Text),
            found.map_or(Value::Nothing, |(.., value)| Value::Number(value)),
            Value::Count(setting.runs.len() as u64),
            Value::Seconds(this.wall.median),
            Value::Seconds(this.wall.min),
            Value::Seconds(this.wall.max),
            this.wall.deviation.map_or(Value::Nothing, Value::Seconds),
        ];
        row.extend(cells(this, scaled, Value::Number));
        let outliers = crate::statistics::outliers(&setting.each(|run| run.runtime_s));
        let names: Vec<String> = outliers.iter().map(|&index| setting.runs[index].name()).collect();
        row.push(Value::Text(names.join(" ")));
        row
    };
    let rows = settings.iter().zip(measured).enumerate().map(row).collect();
    Sheet { name: "points", heads: EXACT_HEADS.to_vec(), rows }
}
