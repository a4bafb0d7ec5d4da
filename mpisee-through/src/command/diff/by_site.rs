//! `diff --by site`: the places of both runs, or of both sets of runs, paired by function and line.
//!
//! In the same build a place is its line. Between builds lines move and addresses change: places
//! are paired by function and file, where both sides have as many of these, in the order of their
//! lines; where functions are not known, by the binary, if each side has one place in it that calls
//! the operation. Where one side has more, and the lines of the other are among these, they are
//! those. What is left over then is paired likewise by the innermost function alone, since it
//! depends on the build which functions are inlined.

use super::DiffArgs;
use super::sets::{self, Opened};
use super::{NOISE, noise_unknown, unlike};
use crate::command::sites::notes;
use crate::filter::CallFilter;
use crate::output::{Format, printable};
use crate::sheet::{self, Answer, Head, Sheet, Value, caveats, headed};
use crate::sites::{How, PlaceSum, SiteArgs, SitePlace, Sites, need_frames, place_sums};
use crate::statistics::{Difference, difference, holm, mean};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::{ProfileError, SiteId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const HEADS: [Head; 13] = [
    sheet::fixed("at", "AT"),
    sheet::fixed("at_after", "IN B"),
    sheet::fixed("call", "CALL"),
    sheet::number("calls_before", "Calls/rank A").hidden_at(0),
    sheet::number("calls_after", "Calls/rank B").hidden_at(0),
    sheet::number("mean_before_s", "Mean/rank A"),
    sheet::number("mean_after_s", "Mean/rank B"),
    sheet::number("change_s", "Change").hidden_at(1),
    sheet::number("time_change", "Change %"),
    sheet::number("max_before_s", "Max A").hidden_at(2),
    sheet::number("max_after_s", "Max B").hidden_at(2),
    sheet::number("noise_s", "Noise").hidden_at(3),
    sheet::fixed("may_be_noise", ""),
];

/// An operation at a place, as it is named in both sets.
type Name = (String, String);
/// The sums of a place, each with the number of its run: several of a run where the same lines are
/// called through several wrappers.
type Sums<'s> = Vec<(usize, &'s PlaceSum)>;
/// A place with its name.
type Named<'s> = (Name, Sums<'s>);
/// Places of both sets by a name.
type Pairs<'s> = BTreeMap<Name, [Sums<'s>; 2]>;

/// The places of a run.
struct Run {
    view: ProfileView,
    /// The file name of the program's binary.
    program: String,
    sums: Vec<PlaceSum>,
    notes: Vec<String>,
    ranks: f64,
    /// Its sites in binaries with a build ID, which says that these are the same.
    identified: BTreeSet<SiteId>,
    cut_off: Option<ProfileError>,
}

impl Run {
    fn new(view: ProfileView, args: &SiteArgs, filter: &CallFilter) -> Result<Self> {
        let mut sites = Sites::needed(&view, args, &[])?;
        let found = place_sums(&view, &mut sites, filter)?;
        let ranks = view.processes().chosen(&filter.comms).max(1) as f64;
        let identified = sites.identified();
        let notes = notes(&found.sums, &sites, filter);
        let command = view.run().command.first();
        let program =
            command.and_then(|path| Some(Path::new(path).file_name()?.to_string_lossy().into_owned()));
        let program = program.unwrap_or_default();
        Ok(Run { program, sums: found.sums, notes, ranks, identified, cut_off: found.cut_off, view })
    }
}

/// Compares the places of both sets.
pub fn answer(args: &DiffArgs) -> Result<Answer> {
    let paths = super::paths(args)?;
    let Opened { views, notes } = Opened::open(paths)?;
    let filter = super::filtered(views.iter().flatten(), &args.filter)?;
    need_frames(views.iter().flatten(), &args.sites, &[])?;
    let read = |views: Vec<ProfileView>| -> Result<Vec<Run>> {
        views.into_iter().map(|view| Run::new(view, &args.sites, &filter)).collect()
    };
    let [before, after] = views;
    let mut sets = [read(before)?, read(after)?];
    let cut_off = sets.iter_mut().flatten().find_map(|run| run.cut_off.take());
    if sets.iter().flatten().all(|run| run.sums.is_empty()) && cut_off.is_none() {
        crate::no_match::need_operation(&sets[0][0].view, &args.filter, true)?;
    }
    let sets = [&sets[0][..], &sets[1][..]];
    let pairs = in_order(paired(sets), sets);
    let has_other_names = pairs.iter().any(|pair| pair.other.is_some());
    let are_both_named = has_other_names && args.output.format() == Format::Table;
    let mut rows: Vec<Vec<Value>> = pairs.iter().map(|pair| pair.row(sets)).collect();
    if are_both_named {
        rows.iter_mut().zip(&pairs).for_each(|(row, pair)| row[..2].clone_from_slice(&pair.named()));
    }
    let mut closing = args.shown.cut(&args.output, &mut rows, "There are no operations to compare.");
    closing += &notes_text(sets);
    let mut sheet = Sheet { name: "changes", heads: HEADS.to_vec(), rows };
    if are_both_named {
        sheet.heads[0].heading = "IN A";
    }
    let counts = sets.map(<[Run]>::len);
    let are_single = counts == [1, 1];
    if args.output.format() == Format::Table {
        sheet.keep_columns(|name, _| {
            (name != "at_after" || has_other_names) && !(are_single && NOISE.contains(&name))
        });
    }
    let first = sets.map(|set| &set[0].view);
    let mut answer = Answer::new(first[0].profile(), sheet, cut_off);
    answer.caveats = [notes, unlike::sentences(first)].concat();
    answer.caveats.extend(unlike::on_cores(sets.map(|set| set.iter().map(|run| &run.view))));
    // Whoever compares places of two runs has been told by diff that they may differ by chance.
    answer.caveats.extend(noise_unknown(counts).filter(|_| !are_single));
    answer.caveats.extend(caveats_of(sets));
    if !are_single {
        let set = |(name, side): (&str, usize)| {
            let text = sets::described(&sets::name(paths[side]), counts[side], first[side]);
            headed(name, &printable(&text), args.output.page())
        };
        answer.lead = [("A", 0), ("B", 1)].map(set).concat();
    }
    answer.values = unlike::values(first);
    answer.values.extend([
        ("runs_before", Value::Count(counts[0] as u64)),
        ("runs_after", Value::Count(counts[1] as u64)),
    ]);
    answer.closing = closing;
    Ok(answer)
}

/// The notes on places of both sets, a line each. Those of further runs differ in shares alone.
fn notes_text(sets: [&[Run]; 2]) -> String {
    let mut text = String::new();
    for (name, set) in ["A", "B"].into_iter().zip(sets) {
        let place = super::place_of(name, set.len(), &set[0].view);
        text.extend(set[0].notes.iter().map(|note| format!("In {place}: {note}\n")));
    }
    text
}

/// The caveats of each profile, with the set and profile that they are of.
fn caveats_of(sets: [&[Run]; 2]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, set) in ["A", "B"].into_iter().zip(sets) {
        for run in set {
            let place = super::place_of(name, set.len(), &run.view);
            sentences
                .extend(caveats(run.view.profile()).iter().map(|sentence| format!("In {place}: {sentence}")));
        }
    }
    sentences
}

/// The pairs with what is known of the noise: changes that are certain first, then the largest.
fn in_order<'s>(mut pairs: Vec<Pair<'s>>, sets: [&[Run]; 2]) -> Vec<Pair<'s>> {
    for pair in &mut pairs {
        pair.difference = difference(&pair.times_s(0, sets[0]), &pair.times_s(1, sets[1]));
    }
    let chances: Vec<f64> =
        pairs.iter().map(|pair| pair.difference.map_or(1.0, |found| found.chance)).collect();
    for (pair, is_certain) in pairs.iter_mut().zip(holm(&chances)) {
        pair.is_certain = is_certain;
    }
    let change = |pair: &Pair<'_>| (pair.mean_s(1, sets[1]) - pair.mean_s(0, sets[0])).abs();
    pairs.sort_by(|one, other| {
        other
            .is_certain
            .cmp(&one.is_certain)
            .then_with(|| change(other).total_cmp(&change(one)))
            .then_with(|| natural_order(&one.name.0, &other.name.0))
    });
    pairs
}

/// A place of one set, or the same place of both.
struct Pair<'s> {
    name: Name,
    /// The name in the second set, where that is another.
    other: Option<String>,
    sides: [Sums<'s>; 2],
    /// The noise, as far as it is known.
    difference: Option<Difference>,
    /// True if the change is more than noise.
    is_certain: bool,
}

impl<'s> Pair<'s> {
    fn new(name: Name, other: Option<String>, sides: [Sums<'s>; 2]) -> Self {
        Pair { name, other, sides, difference: None, is_certain: false }
    }

    /// The mean time over ranks in each run of a set, in seconds: none where a run does not come
    /// there.
    fn times_s(&self, side: usize, runs: &[Run]) -> Vec<f64> {
        let mut times_s = vec![0.0; runs.len()];
        for (run, sum) in &self.sides[side] {
            times_s[*run] += sum.cell.time_s() / runs[*run].ranks;
        }
        times_s
    }

    /// The same as the mean over the runs.
    fn mean_s(&self, side: usize, runs: &[Run]) -> f64 {
        mean(&self.times_s(side, runs))
    }

    /// The calls of a rank, as the mean over ranks and runs.
    fn calls(&self, side: usize, runs: &[Run]) -> Value {
        let sums = &self.sides[side];
        // Of calls through libraries those are there whose path was taken, which are others in each
        // run.
        if !sums.iter().all(|(_, sum)| sum.is_whole) {
            return Value::Nothing;
        }
        let calls: f64 = sums.iter().map(|(run, sum)| sum.cell.calls as f64 / runs[*run].ranks).sum();
        Value::Number(calls / runs.len() as f64)
    }

    /// The time of the slowest rank, in any run.
    fn most(&self, side: usize) -> Value {
        let runs: BTreeSet<usize> = self.sides[side].iter().map(|(run, _)| *run).collect();
        // Of several sums of a run the largest is not that of a rank in all of them.
        if runs.len() < self.sides[side].len() {
            return Value::Nothing;
        }
        let most = self.sides[side].iter().map(|(_, sum)| sum.cell.ranks.most_ns()).max().flatten();
        most.map_or(Value::Nothing, |ns| Value::Seconds(crate::group::seconds(ns)))
    }

    /// The names in both sets, as `sites` has them of calls whose caller is not known.
    fn shown(&self) -> [Value; 2] {
        let is_in_wrapper = |sums: &Sums<'s>| place_of(sums).is_some_and(|place| place.how == How::InWrapper);
        let mut known = self.sides.iter().filter(|sums| !sums.is_empty());
        let more = if known.all(is_in_wrapper) { " (caller not known)" } else { "" };
        let other = self.other.as_ref().map_or(Value::Nothing, |name| Value::Text(format!("{name}{more}")));
        [Value::Text(format!("{}{more}", self.name.0)), other]
    }

    /// The place in both sets, for a table with a column for each.
    fn named(&self) -> [Value; 2] {
        let [name, other] = self.shown();
        match (self.sides.each_ref().map(Vec::is_empty), &self.other) {
            ([true, _], _) => [Value::Nothing, name],
            ([_, true], _) => [name, Value::Nothing],
            (_, None) => [name, "same".into()],
            (_, Some(_)) => [name, other],
        }
    }

    fn row(&self, sets: [&[Run]; 2]) -> Vec<Value> {
        let is_there = [0, 1].map(|side| !self.sides[side].is_empty());
        let either = |side: usize, value: Value| if is_there[side] { value } else { Value::Nothing };
        let means = [0, 1].map(|side| self.mean_s(side, sets[side]));
        let change_s = means[1] - means[0];
        let is_in_both = is_there == [true, true];
        let share = (is_in_both && means[0] > 0.0).then(|| change_s / means[0]);
        let may_be_noise = self.difference.is_some() && !self.is_certain && change_s != 0.0;
        let [name, other] = self.shown();
        vec![
            name,
            other,
            self.name.1.as_str().into(),
            either(0, self.calls(0, sets[0])),
            either(1, self.calls(1, sets[1])),
            either(0, Value::Seconds(means[0])),
            either(1, Value::Seconds(means[1])),
            if is_in_both { Value::Seconds(change_s) } else { Value::Nothing },
            share.map_or(Value::Nothing, |share| Value::Change { share, matters: self.is_certain }),
            self.most(0),
            self.most(1),
            self.difference.map_or(Value::Nothing, |found| Value::Seconds(found.noise)),
            if may_be_noise { "~" } else { "" }.into(),
        ]
    }
}

/// The name with lines; calls whose site is not known are one.
fn name(sum: &PlaceSum) -> Name {
    let place = sum.place.as_ref().map_or_else(|| "(not known)".to_owned(), |place| place.frames_text());
    (place, sum.call.clone())
}

/// The place of sums that have one name; none of calls whose site is not known.
fn place_of<'s>(sums: &Sums<'s>) -> Option<&'s SitePlace> {
    sums.first().and_then(|(_, sum)| sum.place.as_ref())
}

/// All places, each with that of the other set, if there is one.
fn paired<'s>(sets: [&'s [Run]; 2]) -> Vec<Pair<'s>> {
    let mut by_name: Pairs<'s> = BTreeMap::new();
    for (side, runs) in sets.into_iter().enumerate() {
        for (run, sum) in
            runs.iter().enumerate().flat_map(|(at, run)| run.sums.iter().map(move |sum| (at, sum)))
        {
            by_name.entry(name(sum)).or_default()[side].push((run, sum));
        }
    }
    let programs = sets.map(|runs| runs.first().map_or("", |run| run.program.as_str()));
    matched(by_name, &unchanged_binaries(sets), programs)
}

/// Pairs places, of which `unchanged` binaries are the same in both sets; `programs` are the file
/// names of the programs.
fn matched<'s>(by_name: Pairs<'s>, unchanged: &BTreeSet<&str>, programs: [&str; 2]) -> Vec<Pair<'s>> {
    let mut pairs = Vec::new();
    let mut by_functions: BTreeMap<Name, [Vec<Named<'s>>; 2]> = BTreeMap::new();
    for (name, sides) in by_name {
        let Some(place) = sides.iter().find_map(place_of) else {
            pairs.push(Pair::new(name, None, sides));
            continue;
        };
        let program = programs[usize::from(sides[0].is_empty())];
        let of_functions = by_functions.entry((place.functions(program), name.1.clone())).or_default();
        for (sums, places) in sides.into_iter().zip(of_functions).filter(|(sums, _)| !sums.is_empty()) {
            places.push((name.clone(), sums));
        }
    }
    let mut left_over: [Vec<Named<'s>>; 2] = Default::default();
    for (_, sides) in by_functions {
        let binary = sides.iter().flatten().find_map(|(_, sums)| Some(binary_of(place_of(sums)?)));
        if binary.is_some_and(|binary| unchanged.contains(binary)) {
            let mut others: [Vec<Named<'s>>; 2] = Default::default();
            pairs.extend(paired_by_name(sides, &mut others));
            pairs.extend(alone(others));
        } else if is_order_clear(&sides) {
            pairs.extend(paired_in_order(sides));
        } else if is_part_of_the_other(&sides) {
            pairs.extend(paired_by_name(sides, &mut left_over));
        } else {
            pairs.extend(alone(sides));
        }
    }
    pairs.extend(paired_by_line(left_over));
    pairs
}

fn binary_of(place: &SitePlace) -> &str {
    place.frames.first().map_or("", |frame| &frame.module)
}

/// The binaries that are the same in both sets: a place has the same identifier there. Lines of
/// Python have theirs whatever has changed around them.
fn unchanged_binaries<'s>(sets: [&'s [Run]; 2]) -> BTreeSet<&'s str> {
    let sites = |runs: &'s [Run]| {
        let sums = runs.iter().flat_map(|run| run.sums.iter().map(move |sum| (run, sum)));
        let of_binaries =
            sums.filter_map(|(run, sum)| Some((&run.identified, binary_of(sum.place.as_ref()?), &sum.sites)));
        of_binaries.flat_map(|(identified, binary, sites)| {
            sites.intersection(identified).map(move |site| (binary, *site))
        })
    };
    let before: BTreeSet<(&str, SiteId)> = sites(sets[0]).collect();
    sites(sets[1])
        .filter(|site| before.contains(site))
        .map(|(binary, _)| binary)
        .filter(|it| !it.is_empty())
        .collect()
}

/// Returns whether the places of a function are those of the other set in their order: without
/// functions, the order of several is a guess.
fn is_order_clear([before, after]: &[Vec<Named<'_>>; 2]) -> bool {
    let has_functions = |(_, sums): &Named<'_>| place_of(sums).is_some_and(SitePlace::has_functions);
    before.len() == after.len() && (before.len() == 1 || before.iter().all(has_functions))
}

/// Returns whether one set has all places of the other, and more. Otherwise lines have moved, and a
/// line says nothing of which is which.
fn is_part_of_the_other([before, after]: &[Vec<Named<'_>>; 2]) -> bool {
    let (fewer, more) = if before.len() < after.len() { (before, after) } else { (after, before) };
    fewer.iter().all(|(name, _)| more.iter().any(|(other, _)| other == name))
}

fn paired_in_order<'s>([mut before, mut after]: [Vec<Named<'s>>; 2]) -> impl Iterator<Item = Pair<'s>> {
    let order = |(_, sums): &Named<'s>| place_of(sums).map(SitePlace::order);
    before.sort_by_key(order);
    after.sort_by_key(order);
    before.into_iter().zip(after).map(|((name, one), (other, another))| {
        let other = Some(other.0).filter(|other| *other != name.0);
        Pair::new(name, other, [one, another])
    })
}

/// The pairs with the same lines; the others are left over.
fn paired_by_name<'s>(
    [before, after]: [Vec<Named<'s>>; 2],
    left_over: &mut [Vec<Named<'s>>; 2],
) -> Vec<Pair<'s>> {
    let mut after: BTreeMap<Name, Sums<'s>> = after.into_iter().collect();
    let mut pairs = Vec::new();
    for (name, sums) in before {
        match after.remove(&name) {
            Some(others) => pairs.push(Pair::new(name, None, [sums, others])),
            None => left_over[0].push((name, sums)),
        }
    }
    left_over[1].extend(after);
    pairs
}

/// Each for itself.
fn alone<'s>([before, after]: [Vec<Named<'s>>; 2]) -> impl Iterator<Item = Pair<'s>> {
    let of_side = |side: usize| move |(name, sums)| one_sided(name, side, sums);
    before.into_iter().map(of_side(0)).chain(after.into_iter().map(of_side(1)))
}

/// Places of both sets that have one innermost function and line, whatever that is inlined into:
/// all of them on each side together, since a function that is inlined into several is one place in
/// another build. Where lines of a function have moved they are paired in their order, if both
/// sides have as many.
fn paired_by_line<'s>(left_over: [Vec<Named<'s>>; 2]) -> Vec<Pair<'s>> {
    type Lines<'s> = BTreeMap<u64, Vec<Named<'s>>>;
    let mut pairs = Vec::new();
    let mut by_function: BTreeMap<Name, [Lines<'s>; 2]> = BTreeMap::new();
    for (side, places) in left_over.into_iter().enumerate() {
        for (name, sums) in places {
            match place_of(&sums).and_then(SitePlace::innermost_function) {
                Some((function, line)) => {
                    let of_function = by_function.entry((function, name.1.clone())).or_default();
                    of_function[side].entry(line.into()).or_default().push((name, sums));
                }
                None => pairs.push(one_sided(name, side, sums)),
            }
        }
    }
    for (_, [before, after]) in by_function {
        if before.len() != after.len() && !before.is_empty() && !after.is_empty() {
            let (fewer, more) =
                if before.len() < after.len() { (&before, &after) } else { (&after, &before) };
            if !fewer.keys().all(|line| more.contains_key(line)) {
                pairs.extend(alone([before, after].map(|lines| lines.into_values().flatten().collect())));
                continue;
            }
        }
        pairs.extend(paired_lines(before, after));
    }
    pairs
}

/// The lines of a function: all in their order, or where one side has fewer, those that both have.
fn paired_lines<'s>(
    before: BTreeMap<u64, Vec<Named<'s>>>,
    mut after: BTreeMap<u64, Vec<Named<'s>>>,
) -> Vec<Pair<'s>> {
    if before.len() == after.len() {
        after = before.keys().copied().zip(after.into_values()).collect();
    }
    let mut pairs = Vec::new();
    for (line, places) in before {
        let Some(others) = after.remove(&line) else {
            pairs.extend(alone([places, Vec::new()]));
            continue;
        };
        let [(name, one), (other, another)] = [places, others].map(together);
        pairs.push(Pair::new(name, Some(other.0), [one, another]));
    }
    pairs.extend(alone([Vec::new(), after.into_values().flatten().collect()]));
    pairs
}

/// Places with one innermost line as one, with the name of the only one, or else that line.
fn together(places: Vec<Named<'_>>) -> Named<'_> {
    let is_single = places.len() == 1;
    let mut named: Named<'_> = Default::default();
    for ((place, call), sums) in places {
        let line = place_of(&sums).and_then(SitePlace::innermost_line).filter(|_| !is_single);
        named.0 = (line.unwrap_or(place), call);
        named.1.extend(sums);
    }
    named
}

fn one_sided(name: Name, side: usize, sums: Sums<'_>) -> Pair<'_> {
    let mut sides = [Vec::new(), Vec::new()];
    sides[side] = sums;
    Pair::new(name, None, sides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Cell;
    use crate::sites::{How, SiteFrame};

    /// The barrier of `sync`, inlined into functions at these lines.
    fn barrier(line: u32, inlined_into: &[u32]) -> PlaceSum {
        let frame = |(function, line): (&str, u32)| SiteFrame {
            function: function.to_owned(),
            file: "/src/halo.cpp".to_owned(),
            line: Some(line),
            module: "app".to_owned(),
            offset: 0,
        };
        let outer = inlined_into.iter().map(|&line| ("step", line));
        let frames = [("sync", line)].into_iter().chain(outer).map(frame).collect();
        PlaceSum {
            place: Some(SitePlace { frames, how: How::Innermost }),
            call: "MPI_Barrier".to_owned(),
            cell: Cell::EMPTY,
            is_whole: true,
            comms: BTreeMap::new(),
            sites: BTreeSet::new(),
        }
    }

    /// The pairs, with the number of sums on both sides.
    fn found<'p>(pairs: &'p [Pair<'_>]) -> Vec<(&'p str, Option<&'p str>, [usize; 2])> {
        let found = |pair: &'p Pair<'_>| {
            (pair.name.0.as_str(), pair.other.as_deref(), pair.sides.each_ref().map(Vec::len))
        };
        pairs.iter().map(found).collect()
    }

    #[test]
    fn what_is_inlined_into_several_functions_is_one_place_of_another_build() {
        let before = [barrier(25, &[32]), barrier(25, &[40]), barrier(26, &[41])];
        let after = [barrier(25, &[]), barrier(27, &[])];
        let named = |sums: &'static [PlaceSum]| sums.iter().map(|sum| (name(sum), vec![(0, sum)])).collect();
        let pairs = paired_by_line([named(before.to_vec().leak()), named(after.to_vec().leak())]);
        let expected = [
            ("sync at halo.cpp:25", Some("sync at halo.cpp:25"), [2, 1]),
            ("sync at halo.cpp:26 < step at halo.cpp:41", Some("sync at halo.cpp:27"), [1, 1]),
        ];
        assert_eq!(found(&pairs), expected);
    }

    #[test]
    fn lines_that_have_moved_are_paired_in_their_order() {
        let matched = |before: &[u32], after: &[u32], unchanged: &[&str]| {
            let mut by_name: Pairs<'static> = BTreeMap::new();
            for (side, lines) in [before, after].into_iter().enumerate() {
                let sums: &'static [PlaceSum] =
                    lines.iter().map(|&line| barrier(line, &[])).collect::<Vec<_>>().leak();
                sums.iter().for_each(|sum| by_name.entry(name(sum)).or_default()[side].push((0, sum)));
            }
            let pairs = matched(by_name, &unchanged.iter().copied().collect(), ["app"; 2]);
            let line = |name: &str| name.rsplit(':').next().unwrap().to_owned();
            let all = found(&pairs).into_iter().map(|(name, other, sides)| match (other, sides) {
                (Some(other), _) => format!("{}-{}", line(name), line(other)),
                (None, [1, 1]) => line(name),
                (None, [1, 0]) => format!("{}-", line(name)),
                (None, _) => format!("-{}", line(name)),
            });
            all.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(matched(&[6, 7, 8], &[7, 8, 9], &[]), "6-7 7-8 8-9");
        assert_eq!(matched(&[6, 7, 8], &[7, 8, 9], &["app"]), "7 8 6- -9", "in the same build");
        assert_eq!(matched(&[6, 7], &[6, 7, 8], &[]), "6 7 -8");
        assert_eq!(matched(&[6, 7], &[7, 8, 9], &[]), "6- 7- -7 -8 -9", "which is which is not known");
    }

    #[test]
    fn programs_of_other_names_are_the_same_program() {
        let barrier_in = |module: &str| {
            let mut sum = barrier(0, &[]);
            let frame = &mut sum.place.as_mut().unwrap().frames[0];
            (frame.line, frame.file, frame.module, frame.offset) = (None, String::new(), module.into(), 0x75);
            sum
        };
        let sums: &'static [PlaceSum] = ["app.old", "app.new"].map(barrier_in).to_vec().leak();
        let pairs = |programs| {
            let mut by_name: Pairs<'static> = BTreeMap::new();
            sums.iter()
                .enumerate()
                .for_each(|(side, sum)| by_name.entry(name(sum)).or_default()[side].push((0, sum)));
            super::matched(by_name, &BTreeSet::new(), programs).len()
        };
        assert_eq!((pairs(["app.old", "app.new"]), pairs(["python3", "python3"])), (1, 2));
    }
}
