//! MPI's own variables of a rank, where the job reads any (`mpisee --mpi-t`): the agent asks for a
//! reading, and has what they counted at its own next one.

use crate::timeline::history::{History, NodeRate};
use anyhow::Result;
use hashbrown::HashMap;
use mpisee_collect::segments::{Followed, SegmentControl, VariableReading};
use mpisee_profile::RegionId;
use mpisee_profile::run::VariableInfo;
use mpisee_profile::segment::layout::variable::Last;

/// In a series of rates: the source, and the quantities of variables that grow and of those that
/// are levels.
const SOURCE: &str = "mpi";
const GROWN: &str = "counted";
const LEVEL: &str = "level";

/// The variables of one rank.
#[derive(Default)]
pub struct Variables {
    control: Option<SegmentControl>,
    /// The number of the series, by the variable; `None` of those that are in none.
    series: Vec<Option<Series>>,
    /// By how much each variable grew in each region so far.
    grown: HashMap<(u16, RegionId), f64>,
    /// The last value of each variable that is a level.
    levels: HashMap<u16, Level>,
}

#[derive(Clone, Copy)]
struct Series {
    name: u32,
    grows: bool,
}

/// The level of a variable on one rank.
#[derive(Clone, Copy, Default)]
struct Level {
    value: f64,
    /// The last reading so far.
    last: Last,
}

impl Variables {
    /// The variables of a process that is asked for readings by this. Without it they are read when
    /// the program itself reads.
    pub fn by(control: Option<SegmentControl>) -> Variables {
        Variables { control, ..Variables::default() }
    }

    /// Asks for a reading, which the rank takes at its next MPI call.
    pub fn request(&mut self, followed: &Followed) -> Result<()> {
        let Some(control) =
            self.control.as_mut().filter(|_| !followed.process().program.variables.is_empty())
        else {
            return Ok(());
        };
        control.check()?;
        control.ask_for_variables()?;
        for slot in followed.active_calls() {
            control.mark(slot)?;
        }
        Ok(())
    }

    /// Has the next reading count all from the begin of the job.
    pub fn begin(&mut self) {
        self.grown.clear();
    }

    /// Adds what the variables counted since the last reading, and their levels, to sums by series.
    pub fn read(&mut self, followed: &Followed, history: &mut History, sums: &mut HashMap<u32, f64>) {
        let infos = &followed.process().program.variables;
        for info in infos.iter().skip(self.series.len()) {
            self.series.push(Series::from_info(info, history));
        }
        self.add(followed.variables(), sums);
    }

    fn add(&mut self, readings: &[VariableReading], sums: &mut HashMap<u32, f64>) {
        let mut found: HashMap<u16, Level> = HashMap::new();
        for reading in readings {
            let Some(Some(series)) = self.series.get(usize::from(reading.variable)) else { continue };
            let VariableReading { variable, region, delta, .. } = *reading;
            if series.grows {
                let before = self.grown.insert((variable, region), delta).unwrap_or(0.0);
                *sums.entry(series.name).or_default() += delta - before;
                continue;
            }
            let last_time = self.levels.get(&variable).map_or(Last::default(), |level| level.last);
            found.entry(variable).or_default().add(reading, last_time);
        }
        self.levels.extend(found);
        for (variable, level) in &self.levels {
            if let Some(Some(series)) = self.series.get(usize::from(*variable)) {
                *sums.entry(series.name).or_default() += level.value;
            }
        }
    }
}

impl Series {
    fn from_info(info: &VariableInfo, history: &mut History) -> Option<Series> {
        let grows = matches!(info.class.as_str(), "counter" | "aggregate" | "timer");
        if !grows && !matches!(info.class.as_str(), "level" | "size") {
            return None;
        }
        let quantity = if grows { GROWN } else { LEVEL };
        let name = [SOURCE, &info.name, quantity].map(str::to_owned).into();
        Some(Series { name: history.quantities.number(name), grows })
    }
}

/// The counts of variables in all intervals so far, by the number of the quantity.
pub fn counted(history: &History) -> Vec<(u32, f64)> {
    let names = history.quantities.all();
    let grows = |number: u32| {
        names.get(number as usize).is_some_and(|(source, _, quantity)| source == SOURCE && quantity == GROWN)
    };
    history.node_totals().into_iter().filter(|(number, _)| grows(*number)).collect()
}

impl Level {
    /// Takes the readings in one more region into account, of which those up to `last_time` are
    /// known from an earlier look.
    ///
    /// The reading that was requested in this interval is preferred: it is at the agent's moment.
    /// Those at the borders of regions always find the program between two regions; so a short
    /// region would show a level that the program hardly ever has. Where the program came to no
    /// call that reads on request, the latest reading is taken. The slots do not lie in the order
    /// of the readings.
    fn add(&mut self, reading: &VariableReading, last_time: Last) {
        let Last { reading: number, requested } = reading.last;
        if requested > self.last.requested && requested > last_time.requested {
            self.value = reading.requested_value;
        } else if number > self.last.reading && self.last.requested <= last_time.requested {
            self.value = reading.value;
        }
        self.last.reading = self.last.reading.max(number);
        self.last.requested = self.last.requested.max(requested);
    }
}

/// The rows of an interval.
pub fn rates(sums: HashMap<u32, f64>) -> Vec<NodeRate> {
    let mut rates: Vec<NodeRate> = sums
        .into_iter()
        .filter(|(_, value)| *value != 0.0 && value.is_finite())
        .map(|(name, value)| NodeRate { name, value })
        .collect();
    rates.sort_unstable_by_key(|rate| rate.name);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(region: u32, value: f64, requested_value: f64, last: [u64; 2]) -> VariableReading {
        let [reading, requested] = last;
        let region = RegionId::new(region);
        VariableReading {
            variable: 0,
            region,
            value,
            delta: 0.0,
            requested_value,
            last: Last { reading, requested },
        }
    }

    /// The levels at each of several looks.
    fn levels(looks: &[&[VariableReading]]) -> Vec<Option<f64>> {
        let series = vec![Some(Series { name: 9, grows: false })];
        let mut variables = Variables { series, ..Variables::default() };
        let look = |readings: &&[VariableReading]| {
            let mut sums = HashMap::new();
            variables.add(readings, &mut sums);
            sums.get(&9).copied()
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn the_level_is_that_of_the_last_reading_in_whatever_order_the_slots_lie() {
        let (long, short) = (reading(1, 5.0, 0.0, [8, 0]), reading(2, 0.0, 0.0, [7, 0]));
        let shorter = reading(2, 1.0, 0.0, [9, 0]);
        let found = levels(&[&[long, short], &[short, long], &[long, shorter], &[shorter, long]]);
        assert_eq!(found, [5.0, 5.0, 1.0, 1.0].map(Some));
    }

    #[test]
    fn the_level_is_that_of_the_reading_that_was_requested_in_the_interval() {
        // The program is nearly always in region 1, and each interval ends with a reading at the
        // end of region 2.
        let short = |last| reading(2, 0.0, 0.0, [last, 0]);
        let first = [reading(1, 4.0, 5.0, [7, 1]), short(8)];
        let second = [reading(1, 4.0, 6.0, [10, 2]), short(11)];
        let none = [reading(1, 4.0, 6.0, [13, 2]), short(14)];
        let in_short = [reading(1, 4.0, 6.0, [16, 2]), reading(2, 0.0, 3.0, [17, 3])];
        assert_eq!(levels(&[&first, &second, &none, &in_short]), [5.0, 6.0, 0.0, 3.0].map(Some));
    }

    #[test]
    fn growth_is_that_since_the_last_look() {
        let series = vec![Some(Series { name: 9, grows: true })];
        let mut variables = Variables { series, ..Variables::default() };
        let mut grown = |delta| {
            let mut sums = HashMap::new();
            variables.add(&[VariableReading { delta, ..reading(0, 50.0, 0.0, [1, 0]) }], &mut sums);
            sums.get(&9).copied()
        };
        assert_eq!(grown(4.0), Some(4.0));
        assert_eq!(grown(7.0), Some(3.0));
    }

    #[test]
    fn rows_are_in_the_order_of_their_names_and_have_something() {
        let sums = [(7, 2.0), (3, 0.0), (1, 5.0), (4, f64::NAN)].into_iter().collect();
        let rates: Vec<(u32, f64)> = rates(sums).into_iter().map(|rate| (rate.name, rate.value)).collect();
        assert_eq!(rates, [(1, 5.0), (7, 2.0)]);
    }
}
