//! Lasting changes in sentences.

use super::super::sums::{OUTSIDE, OUTSIDE_OF_NCCL, Part};
use super::History;
use super::series::{FALSE_STEPS, Quantity, Series, Steps, explanation};
use crate::statistics::steps::Step;
use crate::units::{count, count_of};

impl History {
    /// The lasting changes, the newest first, then a change that is not certain, and a lack of
    /// runs.
    pub fn sentences(&self) -> Vec<String> {
        if self.entries.len() < 2 {
            return vec!["One entry so far: changes show from two entries on.".to_owned()];
        }
        let mut sentences = Vec::new();
        for at in (0..self.entries.len()).rev() {
            let steps: Vec<(&Series, &Step)> = self
                .series
                .iter()
                .filter_map(|series| {
                    Some((series, series.lasting_changes().iter().find(|step| step.at == at)?))
                })
                .collect();
            let mut explained: Vec<(Part, Quantity)> = Vec::new();
            for (series, step) in steps {
                let is_explained = |(part, quantity): &(Part, Quantity)| {
                    series.part.as_ref() == Some(part) && series.quantity == *quantity
                };
                if explained.iter().any(is_explained) {
                    continue;
                }
                let by = explanation(&self.entries, series, step).filter(|_| series.part.is_none());
                sentences.push(self.sentence(series, step, by.as_ref()));
                let quantity =
                    if series.quantity == Quantity::Wall { Quantity::Time } else { series.quantity };
                explained.extend(by.map(|(part, _)| (part, quantity)));
            }
        }
        let has_any = !sentences.is_empty();
        sentences.extend(self.series.iter().find_map(|series| {
            let step = series.uncertain_change()?;
            let label = &self.entries[step.at].label;
            let chance = per_cent(step.chance);
            Some(format!(
                "Not certain: since {label}, {}. Without a change, at most {chance} of histories look so. Add runs \
                 to tell.",
                change_text(series, &step)
            ))
        }));
        let too_few = self.series.iter().any(|series| series.steps == Steps::TooFewRuns);
        let entries = count_of(self.entries.len() as u64, "entry", "entries");
        let what = if too_few { " of calls or bytes" } else { "" };
        if !has_any {
            sentences.push(format!("No lasting change{what} in {entries}."));
        }
        if too_few {
            let runs = self.entries.iter().map(|entry| entry.runs.len() as u64).sum();
            sentences.push(format!(
                "Too few runs to tell changes of times: {} in {entries}. Use mpisee --repeat 5, or add entries.",
                count(runs, "run")
            ));
        }
        sentences
    }

    /// `Since a1b2c3d, MPI time is 31 % longer (from 1.20 s to 1.57 s): MPI_Allreduce on W explains
    /// 0.33 s.`
    fn sentence(&self, series: &Series, step: &Step, by: Option<&(Part, f64)>) -> String {
        let by = by
            .map(|(part, change)| explanation_text(part, series.quantity, change.abs()))
            .unwrap_or_default();
        format!("Since {}, {}{by}.", self.entries[step.at].label, change_text(series, step))
    }
}

/// The names of a part: `MPI_Allreduce on W`, `time outside of MPI`.
pub fn part_text((comm, call): &Part) -> String {
    match (call.is_empty(), comm.as_str()) {
        (false, comm) => format!("{call} on {comm}"),
        (true, OUTSIDE | OUTSIDE_OF_NCCL) => format!("time {comm}"),
        (true, comm) => comm.to_owned(),
    }
}

/// `: MPI_Allreduce on W explains 300 ms`
fn explanation_text(part: &Part, quantity: Quantity, change: f64) -> String {
    let amount = match quantity {
        Quantity::Calls => count(change.round() as u64, "call"),
        other => other.text(change),
    };
    format!(": {} explains {amount}", part_text(part))
}

/// `MPI time is 31 % longer (from 1.20 s to 1.57 s)`
fn change_text(series: &Series, step: &Step) -> String {
    let &Step { before, after, .. } = step;
    let text = |number: f64| series.quantity.text(number);
    let part = series.part.as_ref().map(part_text);
    if let (Some(part), true) = (&part, before == 0.0 || after == 0.0) {
        let noun = if series.quantity == Quantity::Calls { " calls" } else { "" };
        return match before == 0.0 {
            true => format!("{part} is new ({}{noun})", text(after)),
            false => format!("{part} is gone (before {}{noun})", text(before)),
        };
    }
    let by = match before == 0.0 {
        true => String::new(),
        false => per_cent((after - before).abs() / before) + " ",
    };
    let is_more = after > before;
    let choose = |more: &'static str, less: &'static str| if is_more { more } else { less };
    let what = match (series.quantity, part) {
        (Quantity::Efficiency, _) => {
            let moved = choose("rose", "fell");
            return format!("parallel efficiency {moved} from {} to {}", text(before), text(after));
        }
        (Quantity::Wall, _) => format!("wall time is {by}{}", choose("longer", "shorter")),
        (Quantity::Time, None) => format!("MPI time is {by}{}", choose("longer", "shorter")),
        (Quantity::Time, Some(part)) => format!("{part} takes {by}{}", choose("longer", "less time")),
        (Quantity::Calls, None) => format!("there are {by}{} calls", choose("more", "fewer")),
        (Quantity::Calls, Some(part)) => format!("{part} has {by}{} calls", choose("more", "fewer")),
        (Quantity::Bytes, None) => format!("the volume is {by}{}", choose("larger", "smaller")),
        (Quantity::Bytes, Some(part)) => format!("{part} moves {by}{} bytes", choose("more", "fewer")),
    };
    format!("{what} (from {} to {})", text(before), text(after))
}

/// A share with the digits that a reader needs.
fn per_cent(share: f64) -> String {
    match 100.0 * share {
        large if large >= 9.95 => format!("{large:.0} %"),
        some if some >= 0.05 => format!("{some:.1} %"),
        _ => "under 0.1 %".to_owned(),
    }
}

/// The sentence on the error rate.
pub fn error_rate_sentence() -> String {
    format!(
        "Changes of times are tested: at most {:.0} % of histories of independent runs show a false one.",
        100.0 * FALSE_STEPS
    )
}
