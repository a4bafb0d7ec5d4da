//! Finds for each knob the choice that is better than none, by runs in turn.

use super::difference::{Difference, LEAST_PAIRS, median_difference};
use super::interrupt;
use super::knobs::Knob;
use super::runner::{Change, FIRST_LIMIT, Failure, LEAST_LIMIT, Runner};
use super::selection::Tree;
use crate::replay::Item;
use crate::trial::{Report, Trial};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// The finding on a choice.
#[derive(Clone, Debug, PartialEq)]
pub enum ChoiceResult {
    /// The difference to no change in the runs that tried it; none without a pair of runs.
    Difference(Option<Difference>),
    /// The median difference of fewer pairs of runs than an interval needs, as where the search was
    /// interrupted.
    Few {
        /// The number of pairs.
        pairs: usize,
        /// The median.
        median: f64,
    },
    /// It does not work.
    Fails(String),
}

/// By knob, what was found of each of its choices.
pub type Tried = Vec<Vec<ChoiceResult>>;

/// The setting of a knob: its place, and that of the choice.
pub type Chosen = BTreeMap<usize, usize>;

/// A search in progress.
pub struct Search<'a> {
    /// Starts runs.
    pub runner: Runner<'a>,
    /// The replays of every run.
    pub trial: Trial,
    /// The knobs.
    pub knobs: Vec<Knob>,
    /// Where rules or selections go, for trials and in the end.
    pub rules: &'a Path,
    /// MPICH's own selection of algorithms.
    pub selection: Option<Tree>,
    /// How long the first run took.
    pub run_took: Duration,
}

/// The part of what a choice for all operations saves that choices for single ones have to save:
/// the first also changes operations that were not measured.
const ENOUGH: f64 = 0.9;

/// Times of a knob by round.
type Rounds = BTreeMap<u32, f64>;

/// A choice that is still tried.
#[derive(Default)]
struct Candidate {
    times_s: Rounds,
    failures: u32,
    failed: Option<String>,
    is_out: bool,
}

/// Pairs of runs for each line on the progress.
pub const PAIRS_PER_LINE: u32 = 3;

/// Rounds after which choices that are worse for certain are tried no more.
const ROUNDS_FOR_ALL: u32 = LEAST_PAIRS;

impl<'a> Search<'a> {
    /// One that knows nothing of the MPI yet.
    pub fn new(runner: Runner<'a>, trial: Trial, rules: &'a Path) -> Search<'a> {
        Search { runner, trial, knobs: Vec::new(), rules, selection: None, run_took: Duration::ZERO }
    }

    /// The first run, without a change; from now on no run may take many times as long.
    pub fn begin(&mut self) -> Result<Report, String> {
        self.runner.limit = FIRST_LIMIT;
        let begin = Instant::now();
        let first = Trial { wants_selection: true, ..self.trial.clone() };
        let report = self.runner.run(&first, &Change::default()).map_err(|failure| match failure {
            Failure::Change(what) => format!("the run without a change failed: {what}"),
            Failure::All(what) => what,
        })?;
        self.run_took = begin.elapsed();
        self.runner.limit = LEAST_LIMIT.max(10 * self.run_took).min(10 * FIRST_LIMIT);
        Ok(report)
    }

    /// The runs to come, in a sentence: some choices drop out soon, and what is confirmed may have
    /// to be measured anew.
    pub fn outlook(&self, rounds: u32) -> String {
        let choices: usize = self.knobs.iter().map(|knob| knob.choices.len()).sum();
        let none: Vec<Vec<Candidate>> = self
            .knobs
            .iter()
            .map(|knob| knob.choices.iter().map(|_| Candidate::default()).collect())
            .collect();
        let runs = rounds * (settings(&none, &self.knobs).len() as u32 + 2);
        let took_s = self.run_took.as_secs_f64();
        format!(
            "{choices} algorithms for {} operations, about {runs} runs of {took_s:.1} s: about {:.0} minutes",
            self.knobs.len(),
            (f64::from(runs) * took_s / 60.0).ceil()
        )
    }

    /// The change by what was chosen.
    pub fn change(&self, chosen: &Chosen) -> Change {
        let chosen = chosen.iter().map(|(&knob, &choice)| (&self.knobs[knob], choice));
        Change::from_chosen(chosen, self.rules, self.selection.as_ref())
    }

    /// Runs a trial, and says why one that fails is not counted.
    fn run(&self, chosen: &Chosen) -> Result<Report, Failure> {
        let ended = self.runner.run(&self.trial, &self.change(chosen));
        if let Err(Failure::Change(why)) = &ended {
            let names = chosen.iter().map(|(&knob, &choice)| self.knobs[knob].choices[choice].name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let with = if names.is_empty() { "without a change".to_owned() } else { format!("with {names}") };
            progress(&format!("a run {with} failed and does not count: {why}"));
        }
        ended
    }

    fn items(&self) -> &[Item] {
        &self.trial.items
    }

    /// Tries all choices in `rounds`, in an order that changes from one to the next, and returns
    /// what was found; of a search that is interrupted what was found until then.
    pub fn try_all(&self, rounds: u32) -> Result<Tried, String> {
        let candidates = |knob: &Knob| knob.choices.iter().map(|_| Candidate::default()).collect();
        let mut all: Vec<Vec<Candidate>> = self.knobs.iter().map(candidates).collect();
        let mut none: Vec<Rounds> = vec![Rounds::new(); self.knobs.len()];
        let begin = Instant::now();
        for round in 0..rounds {
            match self.try_round(round, &mut all, &mut none) {
                Err(_) if interrupt::came() => break,
                tried => tried?,
            }
            let left = begin.elapsed() * (rounds - round - 1) / (round + 1);
            progress(&format!("round {} of {rounds} done; about {} left", round + 1, minutes(left)));
            if round + 1 >= ROUNDS_FOR_ALL {
                all.iter_mut().zip(&none).for_each(|(of_knob, none)| leave_out(of_knob, none));
            }
        }
        let found = |(of_knob, none): (Vec<Candidate>, Rounds)| {
            of_knob.into_iter().map(|it| it.found(&none)).collect()
        };
        Ok(all.into_iter().zip(none).map(found).collect())
    }

    /// Tries each choice that is still tried once.
    fn try_round(&self, round: u32, all: &mut [Vec<Candidate>], none: &mut [Rounds]) -> Result<(), String> {
        for setting in in_turn(settings(all, &self.knobs), round) {
            match self.run(&setting) {
                Ok(report) if setting.is_empty() => {
                    for (at, knob) in self.knobs.iter().enumerate() {
                        none[at].insert(round, knob.time_s(self.items(), &report.times_s));
                    }
                }
                Ok(report) => {
                    for (&knob, &choice) in &setting {
                        let time_s = self.knobs[knob].time_s(self.items(), &report.times_s);
                        all[knob][choice].times_s.insert(round, time_s);
                    }
                }
                Err(Failure::All(what)) => return Err(what),
                // The round has no pair for this setting.
                Err(Failure::Change(_)) if setting.is_empty() => {}
                Err(Failure::Change(what)) => self.blame(&setting, all, what)?,
            }
        }
        Ok(())
    }

    /// Finds out which choices of a setting fail, each in a run of its own: one that ended early
    /// for another reason, such as a launcher that was killed, works then.
    fn blame(&self, setting: &Chosen, all: &mut [Vec<Candidate>], what: String) -> Result<(), String> {
        for (&knob, &choice) in setting {
            let candidate = &mut all[knob][choice];
            candidate.failures += 1;
            match self.run(&Chosen::from([(knob, choice)])) {
                Err(Failure::All(what)) => return Err(what),
                Err(Failure::Change(what)) => candidate.failed = Some(what),
                // An algorithm that failed once more, and works alone, is not worth the runs.
                Ok(_) if candidate.failures > 1 => candidate.failed = Some(what.clone()),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// The best choice of each knob, if it seems better than none: fresh runs show whether it is.
    /// Those that were better for certain come first, since the fastest of many uncertain ones was
    /// lucky. Choices for all operations are compared with those for single ones by the time that
    /// they save.
    pub fn best(&self, tried: &Tried) -> (Chosen, Chosen) {
        let mut chosen = Chosen::new();
        for (knob, found) in tried.iter().enumerate() {
            let better = found.iter().enumerate().filter_map(|(choice, found)| match found {
                ChoiceResult::Difference(Some(difference)) if difference.median < 0.0 => {
                    Some((choice, (!difference.is_faster(), difference.median)))
                }
                _ => None,
            });
            if let Some((choice, _)) =
                better.min_by(|(_, one), (_, other)| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)))
            {
                chosen.insert(knob, choice);
            }
        }
        self.without_overlap(chosen, tried)
    }

    /// A component that comes first takes operations from the component that the rules are for:
    /// what saves more time is the first of the two.
    fn without_overlap(&self, chosen: Chosen, tried: &Tried) -> (Chosen, Chosen) {
        let saved = |knob: usize, choice: usize| match &tried[knob][choice] {
            ChoiceResult::Difference(Some(difference)) => {
                let now_s: f64 = self.knobs[knob].items.iter().map(|&at| self.items()[at].time_s).sum();
                -difference.median * now_s
            }
            _ => 0.0,
        };
        let is_general = |knob: &usize| self.knobs[*knob].collective.is_none();
        let of = |general: bool| {
            let some = chosen.iter().filter(|(knob, _)| is_general(knob) == general);
            some.map(|(&knob, &choice)| saved(knob, choice)).sum::<f64>()
        };
        let keeps_general = of(true) * ENOUGH > of(false);
        chosen.into_iter().partition(|(knob, _)| is_general(knob) == keeps_general)
    }

    /// Measures what was chosen against no change in pairs of fresh runs, and leaves out what is
    /// not better for certain, until all that is left is. Also the times without and with it, by
    /// knob.
    pub fn confirm(&self, mut chosen: Chosen, pairs: u32) -> Result<BTreeMap<usize, Confirmed>, String> {
        while !chosen.is_empty() {
            let mut times: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
            for pair in 0..pairs {
                if pair % PAIRS_PER_LINE == 0 {
                    let choices = if chosen.len() == 1 { "choice" } else { "choices" };
                    progress(&format!("confirming {} {choices}: pair {} of {pairs}", chosen.len(), pair + 1));
                }
                let mut both = [None, None];
                for place in in_turn(vec![0, 1], pair) {
                    let none = Chosen::new();
                    let setting = if place == 0 { &none } else { &chosen };
                    both[place] = match self.run(setting) {
                        Ok(report) => Some(report),
                        Err(Failure::All(what)) => return Err(what),
                        Err(Failure::Change(_)) => None,
                    };
                }
                let [Some(without), Some(with)] = both else { continue };
                for &knob in chosen.keys() {
                    let time_s = |report: &Report| self.knobs[knob].time_s(self.items(), &report.times_s);
                    times.entry(knob).or_default().push((time_s(&without), time_s(&with)));
                }
            }
            let confirmed: BTreeMap<usize, Confirmed> = chosen
                .iter()
                .filter_map(|(&knob, &choice)| {
                    Some((knob, Confirmed::from_pairs(choice, times.get(&knob)?)?))
                })
                .filter(|(_, it)| it.difference.is_faster())
                .collect();
            if confirmed.len() == chosen.len() {
                return Ok(confirmed);
            }
            chosen.retain(|knob, _| confirmed.contains_key(knob));
        }
        Ok(BTreeMap::new())
    }
}

/// A choice that fresh runs have confirmed.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// The choice, by its place.
    pub choice: usize,
    /// The difference to no change.
    pub difference: Difference,
    /// The time of all calls without it, the median of the runs.
    pub before_s: f64,
    /// The same with it.
    pub after_s: f64,
}

impl Confirmed {
    fn from_pairs(choice: usize, pairs: &[(f64, f64)]) -> Option<Confirmed> {
        let difference = Difference::from_pairs(pairs)?;
        let median =
            |of: fn(&(f64, f64)) -> f64| crate::statistics::median(&pairs.iter().map(of).collect::<Vec<_>>());
        Some(Confirmed { choice, difference, before_s: median(|it| it.0), after_s: median(|it| it.1) })
    }
}

impl Candidate {
    fn pairs(&self, none: &Rounds) -> Vec<(f64, f64)> {
        self.times_s.iter().filter_map(|(round, &time_s)| Some((*none.get(round)?, time_s))).collect()
    }

    fn is_tried(&self) -> bool {
        self.failed.is_none() && !self.is_out
    }

    fn found(self, none: &Rounds) -> ChoiceResult {
        let pairs = self.pairs(none);
        if let Some(why) = self.failed {
            return ChoiceResult::Fails(why);
        }
        match (Difference::from_pairs(&pairs), median_difference(&pairs)) {
            (None, Some(median)) => ChoiceResult::Few { pairs: pairs.len(), median },
            (difference, _) => ChoiceResult::Difference(difference),
        }
    }
}

/// Prints what is done, for who waits.
pub fn progress(what: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "mpisee-bench: {what}");
}

/// `under a minute` or `12 minutes`.
fn minutes(time: Duration) -> String {
    match (time.as_secs_f64() / 60.0).round() {
        none if none < 1.0 => "under a minute".to_owned(),
        one if one < 2.0 => "1 minute".to_owned(),
        more => format!("{more:.0} minutes"),
    }
}

/// Leaves out choices that are slower than none, or than the best of the knob, for certain.
fn leave_out(of_knob: &mut [Candidate], none: &Rounds) {
    let median =
        |it: &Candidate| Difference::from_pairs(&it.pairs(none)).map_or(f64::INFINITY, |it| it.median);
    let best = (0..of_knob.len())
        .filter(|&at| of_knob[at].is_tried())
        .min_by(|&one, &other| median(&of_knob[one]).total_cmp(&median(&of_knob[other])));
    let best_s = best.map(|at| of_knob[at].times_s.clone()).unwrap_or_default();
    for (at, candidate) in of_knob.iter_mut().enumerate().filter(|(_, it)| it.is_tried()) {
        let is_slower =
            |than: &Rounds| Difference::from_pairs(&candidate.pairs(than)).is_some_and(|it| it.is_slower());
        let is_out = is_slower(none) || (Some(at) != best && is_slower(&best_s));
        candidate.is_out = is_out;
    }
}

/// The settings of a round: no change; then of each knob for single operations one choice that is
/// still tried at a time, since these do not meet; and those for all operations each by itself.
fn settings(all: &[Vec<Candidate>], knobs: &[Knob]) -> Vec<Chosen> {
    let tried = |of_knob: &[Candidate]| -> Vec<usize> {
        (0..of_knob.len()).filter(|&at| of_knob[at].is_tried()).collect()
    };
    let mut settings = vec![Chosen::new()];
    let mut single: Vec<Chosen> = Vec::new();
    for (knob, of_knob) in all.iter().enumerate() {
        for (place, choice) in tried(of_knob).into_iter().enumerate() {
            match knobs[knob].collective {
                None => settings.push(Chosen::from([(knob, choice)])),
                Some(_) => {
                    if single.len() <= place {
                        single.push(Chosen::new());
                    }
                    single[place].insert(knob, choice);
                }
            }
        }
    }
    settings.extend(single);
    settings
}

/// The same in another order: each is the first in turn, and every second time they go backwards.
fn in_turn<T>(mut all: Vec<T>, round: u32) -> Vec<T> {
    let first = (round / 2) as usize % all.len().max(1);
    all.rotate_left(first);
    if round % 2 == 1 {
        all.reverse();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_all() {
        assert_eq!(in_turn(vec![0, 1, 2], 0), [0, 1, 2]);
        assert_eq!(in_turn(vec![0, 1, 2], 1), [2, 1, 0]);
        assert_eq!(in_turn(vec![0, 1, 2], 2), [1, 2, 0]);
        assert_eq!(in_turn(vec![0, 1], 3), [0, 1]);
    }

    #[test]
    fn what_is_slower_for_certain_is_tried_no_more() {
        let rounds = |times_s: [f64; 6]| -> Rounds { (0..).zip(times_s).collect() };
        let candidate = |times_s| Candidate { times_s: rounds(times_s), ..Candidate::default() };
        let mut of_knob = [
            [2.0, 2.1, 2.0, 2.2, 1.9, 2.0],
            [0.5, 0.51, 0.5, 0.49, 0.5, 0.5],
            [0.9, 1.2, 0.4, 0.3, 0.5, 0.4],
        ]
        .map(candidate);
        of_knob.iter_mut().for_each(|it| assert!(it.is_tried()));
        leave_out(&mut of_knob, &rounds([1.0; 6]));
        assert_eq!(of_knob.each_ref().map(Candidate::is_tried), [false, true, true]);
        let [slow, fast, _] = of_knob;
        let none = rounds([1.0; 6]);
        assert!(matches!(slow.found(&none), ChoiceResult::Difference(Some(it)) if it.is_slower()));
        assert!(matches!(fast.found(&none), ChoiceResult::Difference(Some(it)) if it.is_faster()));
        let failed = Candidate { failed: Some("it hung".to_owned()), ..Candidate::default() };
        assert_eq!(failed.found(&none), ChoiceResult::Fails("it hung".to_owned()));
    }

    #[test]
    fn choices_for_all_operations_are_tried_alone() {
        let knob = |collective| Knob {
            collective,
            members: vec![4],
            bytes: None,
            items: Vec::new(),
            now: String::new(),
            choices: Vec::new(),
        };
        let knobs = [
            knob(Some(crate::collective::Collective::Bcast)),
            knob(None),
            knob(Some(crate::collective::Collective::Scan)),
        ];
        let out = Candidate { is_out: true, ..Candidate::default() };
        let all = [
            vec![Candidate::default(), Candidate::default()],
            vec![Candidate::default()],
            vec![out, Candidate::default()],
        ];
        let expected =
            [Chosen::new(), Chosen::from([(1, 0)]), Chosen::from([(0, 0), (2, 1)]), Chosen::from([(0, 1)])];
        assert_eq!(settings(&all, &knobs), expected);
    }
}
