//! MPI's own variables of a rank, where the job reads any (`mpisee --mpi-t`): the agent asks for a reading, and has what they counted
//! at its own next one.

use crate::timeline::history::{History, NodeRate};
use anyhow::Result;
use hashbrown::HashMap;
use mpisee_collect::segments::{Asking, Followed, VariableReading};
use mpisee_profile::RegionId;
use mpisee_profile::run::VariableInfo;

/// In a series of rates: the source, and the quantities of variables that grow and of those that are levels.
const SOURCE: &str = "mpi";
const GROWN: &str = "counted";
const LEVEL: &str = "level";

/// The variables of one rank.
#[derive(Default)]
pub struct Variables {
    asking: Option<Asking>,
    /// The number of the series, by the variable; `None` of those that are in none.
    series: Vec<Option<Series>>,
    /// The readings of each variable in each region so far.
    seen: HashMap<(u16, RegionId), Seen>,
    /// The last value of each variable that is a level.
    levels: HashMap<u16, f64>,
}

#[derive(Clone, Copy)]
struct Series {
    name: u32,
    grows: bool,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    delta: f64,
    readings: u64,
}

impl Variables {
    /// Those of a process that is asked for readings by this. Without it they are read when the program itself reads.
    pub fn by(asking: Option<Asking>) -> Variables {
        Variables { asking, ..Variables::default() }
    }

    /// Asks for a reading, which the rank takes at its next MPI call.
    pub fn request(&mut self, followed: &Followed) -> Result<()> {
        let Some(asking) = self.asking.as_mut().filter(|_| !followed.process().program.variables.is_empty())
        else {
            return Ok(());
        };
        asking.check()?;
        asking.ask_for_variables()?;
        for slot in followed.active_calls() {
            asking.mark(slot)?;
        }
        Ok(())
    }

    /// Has the next reading count all from the begin of the job.
    pub fn begin(&mut self) {
        self.seen.clear();
    }

    /// Adds what the variables counted since the last reading, and their levels, to sums by series.
    pub fn read(&mut self, followed: &Followed, history: &mut History, sums: &mut HashMap<u32, f64>) {
        let infos = &followed.process().program.variables;
        for info in infos.iter().skip(self.series.len()) {
            self.series.push(Series::of(info, history));
        }
        for reading in followed.variables() {
            let Some(Some(series)) = self.series.get(usize::from(reading.variable)) else { continue };
            let VariableReading { variable, region, value, delta, readings } = *reading;
            let seen = self.seen.entry((variable, region)).or_default();
            let before = std::mem::replace(seen, Seen { delta, readings });
            if series.grows {
                *sums.entry(series.name).or_default() += delta - before.delta;
            } else if !series.grows && readings > before.readings {
                // It was read in this region last.
                self.levels.insert(variable, value);
            }
        }
        for (variable, value) in &self.levels {
            if let Some(Some(series)) = self.series.get(usize::from(*variable)) {
                *sums.entry(series.name).or_default() += value;
            }
        }
    }
}

impl Series {
    fn of(info: &VariableInfo, history: &mut History) -> Option<Series> {
        let grows = matches!(info.class.as_str(), "counter" | "aggregate" | "timer");
        if !grows && !matches!(info.class.as_str(), "level" | "size") {
            return None;
        }
        let quantity = if grows { GROWN } else { LEVEL };
        let name = [SOURCE, &info.name, quantity].map(str::to_owned).into();
        Some(Series { name: history.quantities.number(name), grows })
    }
}

/// What variables have counted in all intervals so far, by the number of the quantity.
pub fn counted(history: &History) -> Vec<(u32, f64)> {
    let names = history.quantities.all();
    let grows = |number: u32| {
        names.get(number as usize).is_some_and(|(source, _, quantity)| source == SOURCE && quantity == GROWN)
    };
    history.node_totals().into_iter().filter(|(number, _)| grows(*number)).collect()
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

    #[test]
    fn rows_are_in_the_order_of_their_names_and_have_something() {
        let sums = [(7, 2.0), (3, 0.0), (1, 5.0), (4, f64::NAN)].into_iter().collect();
        let rates: Vec<(u32, f64)> = rates(sums).into_iter().map(|rate| (rate.name, rate.value)).collect();
        assert_eq!(rates, [(1, 5.0), (7, 2.0)]);
    }
}
