//! `diff --by site`: the places of both runs, paired by function and line.
//!
//! Between builds lines move and addresses change: places that are left over are paired by function and file, where both runs
//! have as many of these, in the order of their lines; where functions are not known, by the binary, if each run has one place
//! in it that calls the operation.

use super::DiffArgs;
use super::unlike;
use crate::filter::CallFilter;
use crate::output::Format;
use crate::sheet::{self, Answer, Head, Sheet, Value, caveats};
use crate::sites::{PlaceSum, SiteArgs, Sites, place_sums};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::ProfileError;
use std::collections::BTreeMap;

const HEADS: [Head; 11] = [
    sheet::fixed("at", "AT"),
    sheet::fixed("at_after", "IN B"),
    sheet::fixed("call", "CALL"),
    sheet::number("calls_before", "Calls/rank A").hidden_at(0),
    sheet::number("calls_after", "Calls/rank B").hidden_at(0),
    sheet::number("mean_before_s", "Time A"),
    sheet::number("mean_after_s", "Time B"),
    sheet::number("change_s", "Change").hidden_at(1),
    sheet::number("time_change", "Change %"),
    sheet::number("max_before_s", "Max A").hidden_at(2),
    sheet::number("max_after_s", "Max B").hidden_at(2),
];

/// An operation at a place, as it is named in both runs.
type Name = (String, String);
/// A place with its name: several sums where the same lines are called through several wrappers.
type Named<'s> = (Name, Vec<&'s PlaceSum>);
/// Places of both runs by a name.
type Pairs<'s> = BTreeMap<Name, [Vec<&'s PlaceSum>; 2]>;

/// The places of a run.
struct Run {
    view: ProfileView,
    sums: Vec<PlaceSum>,
    note: Option<String>,
    ranks: f64,
    cut_off: Option<ProfileError>,
}

impl Run {
    fn new(view: ProfileView, args: &SiteArgs, filter: &CallFilter) -> Result<Self> {
        let mut sites = Sites::needed(&view, args, &[])?;
        let found = place_sums(&view, &mut sites, filter)?;
        let ranks = view.processes().chosen(&filter.comms).max(1) as f64;
        Ok(Run { sums: found.sums, note: sites.note(), ranks, cut_off: found.cut_off, view })
    }
}

/// The runs to compare, of which there are two.
fn single_runs(args: &DiffArgs) -> Result<[ProfileView; 2]> {
    let [mut before, mut after] = super::sets::Opened::open(super::paths(args)?)?.views;
    match (before.pop(), after.pop()) {
        (Some(one), Some(other)) if before.is_empty() && after.is_empty() => Ok([one, other]),
        _ => bail!("--by site compares two runs, and not sets of runs: name one profile of each"),
    }
}

/// Compares the places of both runs.
pub fn answer(args: &DiffArgs) -> Result<Answer> {
    let [before, after] = single_runs(args)?;
    let filter = super::filtered([&before, &after].into_iter(), &args.filter)?;
    let [mut before, mut after] =
        [Run::new(before, &args.sites, &filter)?, Run::new(after, &args.sites, &filter)?];
    let mut cut_off = before.cut_off.take().or(after.cut_off.take());
    if before.sums.is_empty() && after.sums.is_empty() && cut_off.is_none() {
        crate::matched::need_operation(&before.view, &args.filter, true)?;
    }
    let mut pairs = paired([&before, &after]);
    pairs.sort_by(|one, other| {
        let change = |pair: &Pair<'_>| (pair.mean_s(1, &after) - pair.mean_s(0, &before)).abs();
        change(other).total_cmp(&change(one)).then_with(|| natural_order(&one.name.0, &other.name.0))
    });
    let mut rows: Vec<Vec<Value>> = pairs.iter().map(|pair| pair.row([&before, &after])).collect();
    let mut closing = args.shown.cut(&args.output, &mut rows, "There are no operations to compare.");
    let named = |name: &str, run: &Run| run.note.as_ref().map(|note| format!("In {name}: {note}\n"));
    closing.extend(named("A", &before).into_iter().chain(named("B", &after)));
    let mut sheet = Sheet { name: "changes", heads: HEADS.to_vec(), rows };
    if args.output.format() == Format::Table {
        sheet.keep_columns(|name, is_empty| name != "at_after" || !is_empty);
    }
    let mut answer = Answer::new(before.view.profile(), sheet, cut_off.take());
    let views = [&before.view, &after.view];
    let of_profiles = [("A", views[0]), ("B", views[1])].into_iter().flat_map(|(name, view)| {
        caveats(view.profile()).into_iter().map(move |said| format!("In {name}: {said}"))
    });
    answer.caveats = unlike::sentences(views).into_iter().chain(of_profiles).collect();
    answer.values = unlike::values(views);
    answer.closing = closing;
    Ok(answer)
}

/// A place of one run, or the same place of both.
struct Pair<'s> {
    name: Name,
    /// The name in the second run, where that is another.
    other: Option<String>,
    sides: [Vec<&'s PlaceSum>; 2],
}

impl Pair<'_> {
    /// The mean time over the ranks of a run, in seconds.
    fn mean_s(&self, side: usize, run: &Run) -> f64 {
        self.sides[side].iter().map(|sum| sum.cell.time_s()).sum::<f64>() / run.ranks
    }

    fn row(&self, runs: [&Run; 2]) -> Vec<Value> {
        let is_there = [0, 1].map(|side| !self.sides[side].is_empty());
        let either = |side: usize, value: Value| if is_there[side] { value } else { Value::Nothing };
        let calls = |side: usize| {
            let calls: f64 = self.sides[side].iter().map(|sum| sum.cell.calls as f64).sum();
            // Of calls through libraries those are there whose path was taken, which are others in each run.
            let are_all = self.sides[side].iter().all(|sum| sum.is_whole);
            either(side, if are_all { Value::Number(calls / runs[side].ranks) } else { Value::Nothing })
        };
        let means = [0, 1].map(|side| self.mean_s(side, runs[side]));
        // Of several sums the largest is not that of a rank in all of them.
        let most = |side: usize| match self.sides[side][..] {
            [sum] => sum
                .cell
                .ranks
                .most_ns()
                .map_or(Value::Nothing, |ns| Value::Seconds(crate::group::seconds(ns))),
            _ => Value::Nothing,
        };
        let change_s = means[1] - means[0];
        let is_in_both = is_there == [true, true];
        let change = is_in_both && means[0] > 0.0;
        vec![
            self.name.0.as_str().into(),
            self.other.as_deref().map_or(Value::Nothing, Value::from),
            self.name.1.as_str().into(),
            calls(0),
            calls(1),
            either(0, Value::Seconds(means[0])),
            either(1, Value::Seconds(means[1])),
            if is_in_both { Value::Seconds(change_s) } else { Value::Nothing },
            match change {
                true => Value::Change { share: change_s / means[0], matters: false },
                false => Value::Nothing,
            },
            most(0),
            most(1),
        ]
    }
}

/// The name with lines; calls whose site is not known are one.
fn name(sum: &PlaceSum) -> Name {
    let place = sum.place.as_ref().map_or_else(|| "(not known)".to_owned(), |place| place.frames_text());
    (place, sum.call.clone())
}

/// All places, each with that of the other run, if there is one.
fn paired<'s>(runs: [&'s Run; 2]) -> Vec<Pair<'s>> {
    let mut by_name: Pairs<'s> = BTreeMap::new();
    for (side, run) in runs.into_iter().enumerate() {
        for sum in &run.sums {
            by_name.entry(name(sum)).or_default()[side].push(sum);
        }
    }
    let (both, alone): (Pairs<'s>, Pairs<'s>) =
        by_name.into_iter().partition(|(_, sides)| sides.iter().all(|side| !side.is_empty()));
    let whole = |(name, sides)| Pair { name, other: None, sides };
    let mut pairs: Vec<Pair<'s>> = both.into_iter().map(whole).collect();
    let mut by_functions: BTreeMap<Name, [Vec<Named<'s>>; 2]> = BTreeMap::new();
    for (name, sides) in alone {
        let side = usize::from(sides[0].is_empty());
        let [before, after] = sides;
        let sums = if side == 0 { before } else { after };
        match sums.first().and_then(|sum| sum.place.as_ref()) {
            Some(place) => {
                let key = (place.functions(), name.1.clone());
                by_functions.entry(key).or_default()[side].push((name, sums));
            }
            None => pairs.push(one_sided(name, side, sums)),
        }
    }
    for (_, [mut before, mut after]) in by_functions {
        let has_functions = |(_, sums): &Named<'_>| {
            sums.first().and_then(|sum| sum.place.as_ref()).is_some_and(|place| place.has_functions())
        };
        // Without functions, the order of several is a guess.
        let is_clear = before.len() == 1 || before.iter().all(has_functions);
        if before.len() != after.len() || !is_clear {
            pairs.extend(before.into_iter().map(|(name, sums)| one_sided(name, 0, sums)));
            pairs.extend(after.into_iter().map(|(name, sums)| one_sided(name, 1, sums)));
            continue;
        }
        let order = |(_, sums): &Named<'_>| {
            sums.first().and_then(|sum| sum.place.as_ref()).map(|place| place.order())
        };
        before.sort_by_key(order);
        after.sort_by_key(order);
        pairs.extend(before.into_iter().zip(after).map(|((name, one), (other, another))| Pair {
            name,
            other: Some(other.0),
            sides: [one, another],
        }));
    }
    pairs
}

fn one_sided(name: Name, side: usize, sums: Vec<&PlaceSum>) -> Pair<'_> {
    let mut sides = [Vec::new(), Vec::new()];
    sides[side] = sums;
    Pair { name, other: None, sides }
}
