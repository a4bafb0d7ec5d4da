//! Which runs repeat each other, and which are a series, as their profiles say it.

use super::sums::Run;
use crate::run_set::command_text;
use crate::units::count;
use std::collections::BTreeMap;

/// Runs of one command on as many ranks and nodes with one MPI library: repetitions, by the time
/// when they began.
pub struct Setting {
    pub runs: Vec<Run>,
}

impl Setting {
    pub fn command(&self) -> &[String] {
        &self.runs[0].command
    }

    pub fn ranks(&self) -> u64 {
        self.runs[0].ranks
    }

    /// The numbers of its runs.
    pub fn each(&self, of: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    /// The run whose time is the median, or the shorter of the two in the middle.
    pub fn median_run(&self) -> &Run {
        let mut order: Vec<&Run> = self.runs.iter().collect();
        order.sort_by(|one, other| one.runtime_s.total_cmp(&other.runtime_s));
        order[(order.len() - 1) / 2]
    }

    /// `./app 256 on 8 ranks`
    pub fn text(&self) -> String {
        let run = &self.runs[0];
        let nodes = if run.nodes > 1 { format!(" on {} nodes", run.nodes) } else { String::new() };
        format!("{} on {}{nodes}", command_text(&run.command), count(run.ranks, "rank"))
    }
}

/// The groups of runs that repeat each other.
pub fn settings(runs: Vec<Run>) -> Vec<Setting> {
    let mut settings: BTreeMap<(Vec<String>, String, u64, u32), Vec<Run>> = BTreeMap::new();
    for run in runs {
        let key = (run.command.clone(), run.library.clone(), run.ranks, run.nodes);
        settings.entry(key).or_default().push(run);
    }
    let in_order = |mut runs: Vec<Run>| {
        runs.sort_by(|one, other| one.start.cmp(&other.start));
        Setting { runs }
    };
    settings.into_values().map(in_order).collect()
}

/// The quantity that changes along a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// The number of ranks, and nothing else: strong scaling.
    Ranks,
    /// The number of ranks, and a number of the command line with it, by its name: weak scaling, if
    /// that is the size of the problem.
    RanksAnd(String),
    /// A number of the command line, by its name.
    Parameter(String),
}

impl Axis {
    /// The name of what the series is over: `ranks`, `ranks and -n`, `-n`.
    pub fn name(&self) -> String {
        match self {
            Axis::Ranks => "ranks".to_owned(),
            Axis::RanksAnd(name) => format!("ranks and {name}"),
            Axis::Parameter(name) => name.clone(),
        }
    }
}

/// Settings of one program and MPI that differ in one thing.
pub struct Series {
    pub axis: Axis,
    /// The settings in the order of what changes, with its value.
    pub points: Vec<(f64, usize)>,
}

/// The series that settings form. A setting is in one series at most; the ranks come first.
pub fn series(settings: &[Setting]) -> Vec<Series> {
    let mut kinds: BTreeMap<(&str, usize, &str), Vec<usize>> = BTreeMap::new();
    for (index, setting) in settings.iter().enumerate() {
        let run = &setting.runs[0];
        let program = run.command.first().map_or("", String::as_str);
        kinds.entry((program, run.command.len(), run.library.as_str())).or_default().push(index);
    }
    let mut found = Vec::new();
    for mut left in kinds.into_values() {
        found.extend(take(
            &mut left,
            |index| settings[index].command(),
            |group| {
                let points = sorted(group.iter().map(|&index| (settings[index].ranks() as f64, index)));
                has_several(&points).then_some(Series { axis: Axis::Ranks, points })
            },
        ));
        found.extend(take(
            &mut left,
            |index| settings[index].ranks(),
            |group| {
                let (name, points) = numbers(settings, group)?;
                Some(Series { axis: Axis::Parameter(name), points })
            },
        ));
        found.extend(take(
            &mut left,
            |_| (),
            |group| {
                let (name, _) = numbers(settings, group)?;
                let points = sorted(group.iter().map(|&index| (settings[index].ranks() as f64, index)));
                // Otherwise ranks and parameter do not grow together.
                let is_one_each = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
                is_one_each.then_some(Series { axis: Axis::RanksAnd(name), points })
            },
        ));
    }
    found
}

/// Takes the groups with one key that form a series from those that are left.
fn take<K: Ord>(
    left: &mut Vec<usize>,
    key: impl Fn(usize) -> K,
    form: impl Fn(&[usize]) -> Option<Series>,
) -> Vec<Series> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    left.iter().for_each(|&index| groups.entry(key(index)).or_default().push(index));
    let found: Vec<Series> = groups.into_values().filter_map(|group| form(&group)).collect();
    left.retain(|index| !found.iter().any(|series| series.points.iter().any(|(_, other)| other == index)));
    found
}

fn sorted(points: impl Iterator<Item = (f64, usize)>) -> Vec<(f64, usize)> {
    let mut points: Vec<(f64, usize)> = points.collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn has_several(points: &[(f64, usize)]) -> bool {
    points.first().zip(points.last()).is_some_and(|(first, last)| first.0 < last.0)
}

/// The one number in which the commands differ: its name, and its values in their order.
fn numbers(settings: &[Setting], group: &[usize]) -> Option<(String, Vec<(f64, usize)>)> {
    let first = settings[*group.first()?].command();
    let differs =
        |place: &usize| group.iter().any(|&index| settings[index].command().get(*place) != first.get(*place));
    let places: Vec<usize> = (0..first.len()).filter(differs).collect();
    let [place] = places[..] else { return None };
    let (prefix, _) = number_at_end(&first[place])?;
    let value = |&index: &usize| {
        let (other, value) = number_at_end(settings[index].command().get(place)?)?;
        (other == prefix).then_some((value, index))
    };
    let points: Option<Vec<(f64, usize)>> = group.iter().map(value).collect();
    let before = place.checked_sub(1).and_then(|before| first.get(before));
    let name = match (prefix.trim_end_matches('='), before) {
        ("", Some(option)) if option.starts_with('-') => option.clone(),
        ("", _) => format!("argument {place}"),
        (prefix, _) => prefix.to_owned(),
    };
    Some((name, sorted(points?.into_iter())))
}

/// A word as its beginning and the number at its end: `--size=` and 64 of `--size=64`.
fn number_at_end(word: &str) -> Option<(&str, f64)> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &word[digits.len()..];
    number.parse().ok().filter(|value: &f64| value.is_finite()).map(|value| (digits, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::efficiency::Efficiency;
    use std::path::PathBuf;

    fn run(command: &str, ranks: u64) -> Run {
        Run {
            path: PathBuf::new(),
            command: command.split(' ').map(str::to_owned).collect(),
            ranks,
            nodes: 1,
            library: "MPICH".to_owned(),
            start: String::new(),
            runtime_s: 1.0,
            mpi_s: 0.0,
            is_without_mpi: false,
            efficiency: Efficiency::default(),
            parts: BTreeMap::new(),
            lack: None,
            limits: Vec::new(),
            on_nccl: None,
        }
    }

    /// Axis and values of each series, and the number of settings.
    fn found(runs: &[(&str, u64)]) -> (Vec<(Axis, Vec<f64>)>, usize) {
        let settings = settings(runs.iter().map(|&(command, ranks)| run(command, ranks)).collect());
        let of = |series: Series| (series.axis, series.points.iter().map(|point| point.0).collect());
        (series(&settings).into_iter().map(of).collect(), settings.len())
    }

    #[test]
    fn repetitions_are_no_series() {
        assert_eq!(found(&[("app 1", 4), ("app 1", 4), ("app 1", 4)]), (vec![], 1));
        assert_eq!(found(&[("app", 4), ("other", 4)]), (vec![], 2));
        assert_eq!(found(&[("app fast", 4), ("app slow", 4)]), (vec![], 2));
    }

    #[test]
    fn other_numbers_of_ranks_are_a_series() {
        let runs = [("app 1", 8), ("app 1", 2), ("app 1", 2), ("app 1", 4)];
        assert_eq!(found(&runs), (vec![(Axis::Ranks, vec![2.0, 4.0, 8.0])], 3));
    }

    #[test]
    fn a_number_of_the_command_line_is_a_series() {
        for (commands, name) in [
            (["app -n 10 x", "app -n 9 x"], "-n"),
            (["app --n=10 x", "app --n=9 x"], "--n"),
            (["app 10 x", "app 9 x"], "argument 1"),
        ] {
            let found = found(&commands.map(|command| (command, 4)));
            assert_eq!(found.0, [(Axis::Parameter(name.to_owned()), vec![9.0, 10.0])]);
        }
        assert_eq!(found(&[("app 1 2", 4), ("app 2 3", 4)]).0, [], "two numbers");
    }

    #[test]
    fn ranks_and_a_number_that_grow_together_are_a_series_of_both() {
        let runs = [("app 64", 1), ("app 128", 2), ("app 256", 4)];
        assert_eq!(found(&runs).0, [(Axis::RanksAnd("argument 1".to_owned()), vec![1.0, 2.0, 4.0])]);
    }

    #[test]
    fn a_grid_is_a_series_over_ranks_for_each_command() {
        let runs = [("app 64", 1), ("app 64", 2), ("app 128", 1), ("app 128", 2)];
        let (found, settings) = found(&runs);
        assert_eq!(settings, 4);
        assert_eq!(found, [(Axis::Ranks, vec![1.0, 2.0]), (Axis::Ranks, vec![1.0, 2.0])]);
    }
}
