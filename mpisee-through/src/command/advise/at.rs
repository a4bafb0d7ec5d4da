//! Where in the program the calls are made that a finding is about, as far as most of them are made
//! at one place.

use super::facts::{Facts, FamilyFacts};
use super::finding::percent;
use std::collections::HashMap;

/// A place is named if it has this share, and beside it a second one with this share.
const MOST: f64 = 0.5;
const SECOND: f64 = 0.3;
/// All, but for rounding.
const ALL: f64 = 0.9995;

/// The whole that a share is of.
#[derive(Clone, Copy)]
enum Of {
    Time,
    Calls,
}

/// `, 92 % of it in step at solver.c:301`, of the time in an operation on a family; a second place
/// with a large share, too.
pub fn place_of_most(facts: &Facts<'_>, family: &FamilyFacts<'_>, call: &str) -> String {
    let places = places(facts, family, Of::Time, |name| name == call);
    let is_named = |(number, (share, _)): &(usize, &(f64, String))| match number {
        0 => *share >= MOST,
        _ => *share >= SECOND,
    };
    let named = places.iter().enumerate().take(2).take_while(is_named);
    let texts = named.map(|(number, (share, place))| match (share, number) {
        (share, _) if *share >= ALL => format!(", all of it in {place}"),
        (share, 0) => format!(", {:.0} % of it in {place}", 100.0 * share),
        (share, _) => format!(" and {:.0} % in {place}", 100.0 * share),
    });
    texts.collect()
}

/// ` 92.0 % of the time in messages is in step at solver.c:301.`, of operations on a family; `what`
/// is `the time in messages`.
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
    places(facts, family, of, is_one).into_iter().next().filter(|(share, _)| *share >= MOST)
}

/// The places with their shares, the largest first, up to those that are not known.
fn places(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    of: Of,
    is_one: impl Fn(&str) -> bool,
) -> Vec<(f64, String)> {
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
    let mut places: Vec<(Option<String>, f64)> = by_place.into_iter().collect();
    places.sort_by(|(one_place, one), (other_place, other)| {
        other.total_cmp(one).then_with(|| one_place.cmp(other_place))
    });
    places.into_iter().map_while(|(place, amount)| Some((amount / all, place?))).collect()
}
