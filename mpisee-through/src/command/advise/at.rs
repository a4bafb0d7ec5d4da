//! Where in the program the calls are made that a finding is about, as far as most of them are made at one place.

use super::facts::{Facts, FamilyFacts};
use super::finding::percent;
use std::collections::HashMap;

/// A place is named if it has this share.
const MOST: f64 = 0.5;
/// All, but for rounding.
const ALL: f64 = 0.9995;

/// The whole that a share is of.
#[derive(Clone, Copy)]
enum Of {
    Time,
    Calls,
}

/// `, most of it in step at solver.c:301`, of the time in an operation on a family.
pub fn place_of_most(facts: &Facts<'_>, family: &FamilyFacts<'_>, call: &str) -> String {
    let said = |(share, place): (f64, String)| {
        let part = if share >= ALL { "all" } else { "most" };
        format!(", {part} of it in {place}")
    };
    main(facts, family, Of::Time, |name| name == call).map_or(String::new(), said)
}

/// ` 92.0 % of the time in messages is in step at solver.c:301.`, of operations on a family; `what` is
/// `the time in messages`.
pub fn of_time(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    what: &str,
    is_one: impl Fn(&str) -> bool,
) -> String {
    let said = |(share, place): (f64, String)| match share >= ALL {
        true => format!(" All of {what} is in {place}."),
        false => format!(" {} of {what} is in {place}.", percent(share)),
    };
    main(facts, family, Of::Time, is_one).map_or(String::new(), said)
}

/// ` 92.0 % of the tests are made in step at solver.c:301.`, of operations on a family.
pub fn of_calls(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    nouns: &str,
    is_one: impl Fn(&str) -> bool,
) -> String {
    let said = |(share, place): (f64, String)| match share >= ALL {
        true => format!(" All {nouns} are made in {place}."),
        false => format!(" {} of the {nouns} are made in {place}.", percent(share)),
    };
    main(facts, family, Of::Calls, is_one).map_or(String::new(), said)
}

/// The place that has most of it, with its share.
fn main(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    of: Of,
    is_one: impl Fn(&str) -> bool,
) -> Option<(f64, String)> {
    let mut by_place: HashMap<Option<String>, f64> = HashMap::new();
    for sum in facts.places.iter().filter(|sum| is_one(&sum.call)) {
        let on_family = family.comms.iter().filter_map(|comm| sum.comms.get(&comm.name));
        let amount: f64 = match of {
            Of::Time => on_family.map(|(_, time_ns)| *time_ns as f64).sum(),
            Of::Calls => on_family.map(|(calls, _)| *calls as f64).sum(),
        };
        if amount > 0.0 {
            let place = sum.place.as_ref().map(|place| place.short_text());
            *by_place.entry(place).or_default() += amount;
        }
    }
    let all: f64 = by_place.values().sum();
    let (place, most) = by_place.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    Some((most / all, place?)).filter(|(share, _)| *share >= MOST)
}
