//! The result of tuning, for people and for programs.

use super::difference::Difference;
use super::knobs::Knob;
use super::program::Program;
use super::runner::Change;
use super::runner::quoted;
use super::search::{ChoiceResult, Chosen, Confirmed, Tried};
use crate::output::{aligned, digits};
use crate::replay::Item;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The result of tuning.
pub struct Outcome {
    /// The MPI, ranks and nodes.
    pub setting: String,
    /// The number of ranks.
    pub ranks: u32,
    /// Runs of each choice, and pairs that confirmed.
    pub rounds: u32,
    /// The operations that were replayed.
    pub items: Vec<Item>,
    /// The knobs, with their choices.
    pub knobs: Vec<Knob>,
    /// The finding on each choice.
    pub tried: Tried,
    /// Choices that seemed better, too, and exclude those that were chosen.
    pub overlapped: Chosen,
    /// The choices that fresh runs have confirmed, by knob.
    pub confirmed: BTreeMap<usize, Confirmed>,
    /// All of that as variables and rules.
    pub change: Change,
    /// The difference between the program's own runs.
    pub program: Option<Program>,
    /// True if a signal ended the search before its end.
    pub is_interrupted: bool,
}

impl Outcome {
    /// Returns whether there is something to recommend: not if the program has become slower.
    pub fn is_kept(&self) -> bool {
        !self.confirmed.is_empty() && !self.program.as_ref().is_some_and(|it| it.difference.is_slower())
    }

    /// The sentence on a search that a signal has ended.
    pub fn interruption(&self) -> &'static str {
        match self.is_kept() {
            true => "interrupted; what was confirmed until then is written",
            false => {
                "interrupted; what was measured until then is shown, nothing is confirmed, and files of an earlier result are as they were"
            }
        }
    }

    /// For people; `file` has the variables.
    pub fn text(&self, file: &Path) -> String {
        let mut text = format!("{}\n", self.setting);
        let heads = ["COMM", "CALL", "Size", "NOW", "Tried", "BETTER", "Now µs", "Then µs", "Difference"];
        let rows = (0..self.knobs.len()).map(|at| self.row(at));
        text += &aligned(&heads.map(str::to_owned), rows, 6);
        for (knob, found) in self.knobs.iter().zip(&self.tried) {
            for (choice, found) in knob.choices.iter().zip(found) {
                if let ChoiceResult::Fails(why) = found {
                    let call = knob.collective.map_or("all operations", |it| it.name());
                    let _ = writeln!(text, "{} for {call} does not work here: {why}", choice.name);
                }
            }
        }
        text += &self.best_of_the_rest();
        for (&knob, &choice) in &self.overlapped {
            let ChoiceResult::Difference(Some(difference)) = &self.tried[knob][choice] else { continue };
            let knob = &self.knobs[knob];
            let _ = writeln!(
                text,
                "{} for {} seemed better, too ({}); it is not measured further, since what is chosen saves more and excludes it.",
                knob.choices[choice].name,
                knob.collective.map_or("all operations", |it| it.name()),
                difference.text()
            );
        }
        if self.is_interrupted && self.confirmed.is_empty() {
            return text;
        }
        if self.confirmed.is_empty() {
            return text
                + "No choice is better for certain than what the MPI does now; nothing was written.\n";
        }
        let pairs = self.confirmed.values().map(|it| it.difference.pairs).min().unwrap_or_default();
        let _ = writeln!(
            text,
            "Differences are of {pairs} pairs of fresh runs with all choices at once, with 95 % confidence; in each, every rank reported \
             through MPI_T that the settings hold."
        );
        if let Some(program) = &self.program {
            let _ = writeln!(
                text,
                "The program: {} s without, {} s with them: {} (95 % of {} pairs of runs){}.",
                digits(program.before_s),
                digits(program.after_s),
                program.difference.text(),
                program.difference.pairs,
                match program.difference {
                    it if it.is_faster() => "",
                    it if it.is_slower() => ", so nothing was written: the program is slower",
                    _ => ", which may be no difference",
                }
            );
        }
        if self.is_kept() {
            let _ = writeln!(text, "Use them with: . {}", quoted(&file.display().to_string()));
        }
        text
    }

    /// Of knobs for which nothing was chosen, the best that was tried.
    fn best_of_the_rest(&self) -> String {
        let mut text = String::new();
        for (at, (knob, found)) in self.knobs.iter().zip(&self.tried).enumerate() {
            if self.confirmed.contains_key(&at) || self.overlapped.contains_key(&at) {
                continue;
            }
            let differences = knob.choices.iter().zip(found).filter_map(|(choice, found)| match found {
                ChoiceResult::Difference(Some(difference)) => {
                    Some((choice, difference.median, format!("{} (95 %)", difference.text())))
                }
                ChoiceResult::Few { pairs, median } => {
                    let pairs = if *pairs == 1 { "1 pair".to_owned() } else { format!("{pairs} pairs") };
                    let text = format!("{:+.1} % ({pairs} of runs, too few to be certain)", 100.0 * median);
                    Some((choice, *median, text))
                }
                _ => None,
            });
            if let Some((choice, _, difference)) = differences.min_by(|one, other| one.1.total_cmp(&other.1))
            {
                let _ = writeln!(
                    text,
                    "{} of {} on {}: the best that was tried is {}, {difference}.",
                    knob.collective.map_or("All operations", |it| it.name()),
                    knob.sizes(&self.items),
                    knob.families(&self.items),
                    choice.name,
                );
            }
        }
        text
    }

    fn row(&self, at: usize) -> [String; 9] {
        let knob = &self.knobs[at];
        let calls: u64 = knob.items.iter().map(|&item| self.items[item].calls).sum();
        let per_call = |time_s: f64| digits(time_s / calls.max(1) as f64 * 1e6);
        let [better, now, then, difference] = match self.confirmed.get(&at) {
            Some(it) => [
                knob.choices[it.choice].name.clone(),
                per_call(it.before_s),
                per_call(it.after_s),
                it.difference.text(),
            ],
            None => ["none", "", "", ""].map(str::to_owned),
        };
        [
            knob.families(&self.items),
            knob.collective.map_or("all", |it| it.name()).to_owned(),
            knob.sizes(&self.items),
            knob.now.clone(),
            knob.choices.len().to_string(),
            better,
            now,
            then,
            difference,
        ]
    }

    /// For programs.
    pub fn json(&self, file: &Path) -> String {
        let knobs: Vec<Value> = (0..self.knobs.len()).map(|at| self.knob_json(at)).collect();
        let variables: BTreeMap<&str, &str> =
            self.change.variables.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect();
        let value = json!({
            "setting": self.setting,
            "interrupted": self.is_interrupted,
            "ranks": self.ranks,
            "rounds": self.rounds,
            "choices": knobs,
            "program": self.program.as_ref().map(|it| json!({
                "before_s": it.before_s, "after_s": it.after_s, "difference": it.difference,
            })),
            "variables": if self.is_kept() { variables } else { BTreeMap::new() },
            "environment_file": self.is_kept().then(|| file.display().to_string()),
            "rules_file": self.change.rules.as_ref().filter(|_| self.is_kept()).map(|(path, _)| path.display().to_string()),
        });
        serde_json::to_string_pretty(&value).expect("numbers and texts are JSON") + "\n"
    }

    fn knob_json(&self, at: usize) -> Value {
        let knob = &self.knobs[at];
        let comms: Vec<&str> = knob.items.iter().map(|&item| self.items[item].family.as_str()).collect();
        let tried = knob.choices.iter().zip(&self.tried[at]).map(|(choice, found)| {
            let (difference, fails): (Option<&Difference>, Option<&String>) = match found {
                ChoiceResult::Difference(difference) => (difference.as_ref(), None),
                ChoiceResult::Few { .. } => (None, None),
                ChoiceResult::Fails(why) => (None, Some(why)),
            };
            let mut tried = json!({ "name": choice.name, "difference": difference, "fails": fails });
            if let ChoiceResult::Few { pairs, median } = found {
                tried["few"] = json!({ "pairs": pairs, "median": median });
            }
            tried
        });
        let confirmed = self.confirmed.get(&at);
        json!({
            "call": knob.collective.map(|it| it.name()),
            "comms": comms,
            "members": knob.members,
            "size_min": knob.bytes.map(|it| it[0]),
            "size_max": knob.bytes.map(|it| it[1]),
            "now": knob.now,
            "tried": tried.collect::<Vec<_>>(),
            "better": confirmed.map(|it| knob.choices[it.choice].name.as_str()),
            "before_s": confirmed.map(|it| it.before_s),
            "after_s": confirmed.map(|it| it.after_s),
            "difference": confirmed.map(|it| it.difference),
        })
    }
}
