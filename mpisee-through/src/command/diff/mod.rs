//! `diff`: two runs, or two sets of runs, beside each other.

mod bound;
mod by_site;
mod nccl;
mod pairing;
mod sets;
mod steps;
mod unlike;

use super::Outcome;
use crate::family_rows::{self, EACH_HINT, FamilyArgs};
use crate::filter::CallFilter;
use crate::no_match;
use crate::output::{Format, OutputArgs, printable};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value, caveats, headed};
use crate::sites::SiteArgs;
use crate::statistics::{Difference, difference, holm};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use bound::{Bound, Totals, Verdict};
use clap::{Args, ValueEnum};
use pairing::Pairing;
use sets::{Name, Opened, Set, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through diff before.runs after.runs                         two folders of mpisee --repeat
  mpisee-through diff a.mpisee a-2.mpisee -- b.mpisee b-2.mpisee     two sets, named one by one
  mpisee-through diff before.mpisee after.mpisee                     two runs: changes may be noise
  mpisee-through diff before.mpisee after.mpisee --kind collective --all
  mpisee-through diff 64.mpisee 128.mpisee                           different numbers of ranks
  mpisee-through diff before.mpisee after.mpisee --by site           by function and line
  mpisee-through diff before.runs after.runs --by site               the same, with noise
  mpisee-through diff before.runs after.runs --fail-if 'time+10%'    exit code 1 if slower";

/// Two runs, or two sets of runs: what changed
///
/// A is the first path, B the second. With more paths, A are those before -- and B those after it,
/// behind all options. A folder stands for its profiles. Copies of a run count once. The first
/// lines say if programs, commands, MPI libraries, ranks or nodes differ. JSON has program_before,
/// program_after and so on.
///
/// Calls and Volume are sums over ranks. Mean/rank is a mean over ranks and runs. Change %
/// is relative to A. Noise is how far the means of two sets differ by chance (95 %, Welch). ~ marks
/// a change that may be noise (Holm). Between two single runs any change may be noise, and none is
/// marked.
///
/// Communicators are paired by name, then by origin, size and shape. With different numbers of
/// ranks, communicators of one call count together, and all numbers are per rank. With --by site, a
/// row is an operation at a place in the program. Places are paired by function and line, between
/// builds by function and file. Max is the time of the slowest rank, in any run.
///
/// If the first runs of both sets have the order of calls (mpisee --order), calls whose number per
/// step has changed have a table of their own. A step is an iteration of the innermost loop that
/// makes most of these calls.
///
/// Exit code 1 if a bound of --fail-if is exceeded. Sets are judged by their means. See
/// docs/how-to/compare-runs.md and docs/how-to/ci.md for the rules.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "mpisee-through diff [OPTIONS] A B\n       mpisee-through diff [OPTIONS] A... -- B..."
)]
pub struct DiffArgs {
    /// Profile or folder of profiles to compare with, then the other one; before --, all of A
    #[arg(required = true, value_name = "A")]
    paths: Vec<PathBuf>,

    /// Profiles of B, if A has several
    #[arg(last = true, value_name = "B")]
    after: Vec<PathBuf>,

    /// Fail if wall, time (in MPI), nccl, calls or bytes of the chosen rows grow or shrink by more:
    /// time+10%, calls+0, bytes-5% (per rank), wall+0.5 (seconds, without %); repeatable
    #[arg(long, value_name = "BOUND")]
    fail_if: Vec<Bound>,

    /// Rows to compare: operations on communicators, or places in the program by function and line
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Compared::Comm)]
    by: Compared,

    #[command(flatten)]
    sites: SiteArgs,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// The things that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compared {
    Comm,
    Site,
}

const HEADS: [Head; 12] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("comm_after", "IN B"),
    sheet::fixed("call", "CALL"),
    sheet::number("calls_before", "Calls A").hidden_at(0),
    sheet::number("calls_after", "Calls B").hidden_at(0),
    sheet::number("bytes_before", "Volume A").hidden_at(1),
    sheet::number("bytes_after", "Volume B").hidden_at(1),
    sheet::number("mean_before_s", "Mean/rank A"),
    sheet::number("mean_after_s", "Mean/rank B"),
    sheet::number("time_change", "Change %"),
    sheet::number("noise_s", "Noise").hidden_at(2),
    sheet::fixed("may_be_noise", ""),
];

/// An operation in both sets.
struct Row {
    name: Name,
    sides: [Option<Side>; 2],
    /// The noise, as far as it is known.
    difference: Option<Difference>,
    /// True if the change is more than noise.
    is_certain: bool,
}

impl Row {
    fn change_s(&self) -> f64 {
        let [before, after] = self.sides.each_ref().map(|side| side.as_ref().map_or(0.0, |side| side.mean_s));
        after - before
    }
}

/// Runs the command.
pub fn run(args: &DiffArgs) -> Result<Outcome> {
    if args.by == Compared::Site {
        if !args.fail_if.is_empty() {
            bail!("--fail-if is about the whole run: leave out --by site");
        }
        return by_site(args)?.write(&args.output);
    }
    let Comparison { answer, is_exceeded, .. } = compared(args)?;
    let outcome = answer.write(&args.output)?;
    Ok(if is_exceeded { Outcome::Differs } else { outcome })
}

/// Two sets of runs beside each other.
pub struct Comparison {
    pub answer: Answer,
    /// Both sets for people: name, runs, command and ranks.
    pub sets: [String; 2],
    /// True if numbers are per rank, since the sets have different numbers of ranks.
    pub is_per_rank: bool,
    /// True if a bound of `--fail-if` is exceeded.
    is_exceeded: bool,
}

/// Compares places in the program.
pub fn by_site(args: &DiffArgs) -> Result<Answer> {
    by_site::answer(args)
}

/// Compares operations on communicators.
pub fn compared(args: &DiffArgs) -> Result<Comparison> {
    let ([before, after], copies) = load(args)?;
    let views = [before.first(), after.first()];
    // An aggregate profile has families only, as those of runs with other numbers of ranks are
    // compared.
    let same_ranks =
        views[0].processes().count() == views[1].processes().count() && views[0].is_laid_out_as(views[1]);
    let pairing = Pairing::new(views, same_ranks)?;
    let (rows_by_name, others) = match args.families.are_on(&args.output) && same_ranks {
        true => family_names([&before, &after], &pairing),
        false => Default::default(),
    };
    let other_name = |comm: &str| others.get(comm).map(String::as_str).or_else(|| pairing.other_name(comm));
    let pairs = sets::pairs([&before, &after], &pairing, &rows_by_name, same_ranks, &args.filter)?;
    let mut rows: Vec<Vec<Value>> =
        rows(pairs, [&before, &after]).iter().map(|of| row(of, other_name(&of.name.0))).collect();
    let mut closing = args.shown.cut(&args.output, &mut rows, "There are no operations to compare.");
    if !rows_by_name.is_empty() {
        closing += EACH_HINT;
    }
    closing += &on_noise(&rows);
    let totals = [before.totals(), after.totals()];
    let means = totals.each_ref().map(|totals| Totals::mean(totals));
    let verdicts: Vec<Verdict> = args.fail_if.iter().map(|bound| bound.judge(means[0], means[1])).collect();
    for Verdict { is_exceeded, said } in &verdicts {
        closing += &format!("{} {said}\n", if *is_exceeded { "Failed    " } else { "Holds     " });
    }
    let in_table = args.output.format() == Format::Table;
    let one_name = in_table && pairing.all_have_one_name();
    let mut sheet = changes(rows, same_ranks, one_name);
    let is_noise_known = before.runs.len() > 1 || after.runs.len() > 1;
    if in_table && !is_noise_known {
        sheet.keep_columns(|name, _| !NOISE.contains(&name));
    }
    let mut run_sheet = bound::sheet(&totals, [before.runs[0].chosen, after.runs[0].chosen]);
    if in_table && !is_noise_known {
        run_sheet.keep_columns(|name, _| !NOISE.contains(&name));
    }
    let mut answer = Answer::new(views[0].profile(), sheet, None);
    answer.caveats = [copies, notes([&before, &after])].concat();
    let sets = [before.text(), after.text()];
    answer.lead = ["A", "B"]
        .into_iter()
        .zip(&sets)
        .map(|(name, set)| headed(name, &printable(set), args.output.page()))
        .collect();
    answer.values = unlike::values(views);
    answer.values.extend([
        ("before", before.name().into()),
        ("after", after.name().into()),
        ("runs_before", Value::Count(before.runs.len() as u64)),
        ("runs_after", Value::Count(after.runs.len() as u64)),
    ]);
    answer.sheets.push(run_sheet);
    // The run as a whole comes first in a table, and second in CSV, which has one sheet.
    if in_table {
        answer.sheets.reverse();
    }
    if let Some(steps) = steps::sheet(views, &args.sites)?
        && !(in_table && steps.rows.is_empty())
    {
        answer.sheets.push(steps);
    }
    answer.closing = closing;
    answer.cut_off = before.cut_off.or(after.cut_off);
    let is_exceeded = verdicts.iter().any(|verdict| verdict.is_exceeded);
    Ok(Comparison { answer, sets, is_per_rank: !same_ranks, is_exceeded })
}

/// The sentence below a table in which changes may be noise, and how many do not.
fn on_noise(rows: &[Vec<Value>]) -> String {
    let is_marked = |row: &&Vec<Value>| row.last().is_some_and(|cell| *cell == Value::from(MAY_BE_NOISE));
    match (rows.iter().filter(is_marked).count(), rows.len()) {
        (0, _) => String::new(),
        (marked, all) if marked == all => {
            "Each change of a mean may be noise (~): no row is certain.\n".to_owned()
        }
        _ => "~ marks changes of means that may be noise.\n".to_owned(),
    }
}

/// The mark of a change that may be noise.
const MAY_BE_NOISE: &str = "~";

/// The lines before everything else: how the sets differ, what is known of the noise, and limits of
/// each profile.
fn notes(sets: [&Set; 2]) -> Vec<String> {
    let mut notes = unlike::sentences(sets.map(Set::first));
    let [before, after] = sets.map(|set| set.runs.iter().map(|run| &run.view));
    notes.extend(unlike::on_cores([before, after]));
    let mut runs = sets.into_iter().flat_map(|set| &set.runs);
    notes.extend(runs.find_map(|run| run.view.note_on_times()));
    notes.extend(noise_unknown(sets.map(|set| set.runs.len())));
    for (name, set) in ["A", "B"].into_iter().zip(sets) {
        for run in &set.runs {
            let place = place_of(name, set.runs.len(), &run.view);
            let said = caveats(run.view.profile()).into_iter().chain(run.untimed.clone());
            notes.extend(said.map(|said| format!("In {place}: {said}")));
        }
    }
    notes
}

/// The name of a run in a note: that of its set, of several with the profile.
fn place_of(name: &str, runs: usize, view: &ProfileView) -> String {
    match runs {
        1 => name.to_owned(),
        _ => format!("{name} ({})", view.profile().directory().display()),
    }
}

/// The columns about noise.
const NOISE: [&str; 2] = ["noise_s", "may_be_noise"];

/// The sentence for sets that are too small to tell a change from noise.
fn noise_unknown(runs: [usize; 2]) -> Option<String> {
    match runs {
        [1, 1] => Some(
            "A and B are one run each: the noise between equal runs is unknown, and any change may be noise. \
             mpisee --repeat 5 makes sets of runs, and diff A.runs B.runs measures the noise."
                .to_owned(),
        ),
        [1, _] => Some("A is one run. The noise of A is taken to be that of the runs of B.".to_owned()),
        [_, 1] => Some("B is one run. The noise of B is taken to be that of the runs of A.".to_owned()),
        _ => None,
    }
}

/// The paths of A and of B.
fn paths(args: &DiffArgs) -> Result<[&[PathBuf]; 2]> {
    match (&args.paths[..], &args.after[..]) {
        ([before, after], []) => Ok([std::slice::from_ref(before), std::slice::from_ref(after)]),
        ([only], []) => bail!(
            "diff compares two runs, or two sets of runs, and '{}' is one; name the other after it",
            only.display()
        ),
        (_, []) => bail!(
            "diff compares two sets of runs: put -- between the paths of A and of B (there are {}), as in: \
             diff A1 A2 -- B1 B2",
            args.paths.len()
        ),
        (before, after) => Ok([before, after]),
    }
}

/// The filter with bounds on times replaced by the operations that are within them in one of the
/// runs.
fn filtered<'v>(views: impl Iterator<Item = &'v ProfileView>, filter: &CallFilter) -> Result<CallFilter> {
    let mut within = None;
    for view in views {
        if let Some(operations) = view.operations_within_times(filter)? {
            within.get_or_insert_with(BTreeSet::new).extend(operations);
        }
    }
    Ok(within.map_or_else(|| filter.clone(), |operations| filter.of_operations(operations)))
}

/// Both sets, with sentences on runs of which there are several profiles. An operation that is
/// within bounds on times in one run is compared in all.
fn load(args: &DiffArgs) -> Result<([Set; 2], Vec<String>)> {
    let paths = paths(args)?;
    let Opened { views: [before, after], notes } = Opened::open(paths)?;
    let filter = filtered(before.iter().chain(&after), &args.filter)?;
    let [before, after] = [Set::new(before, paths[0], &filter)?, Set::new(after, paths[1], &filter)?];
    let is_empty =
        before.is_empty() && after.is_empty() && before.cut_off.is_none() && after.cut_off.is_none();
    no_match::need_operation(before.first(), &args.filter, is_empty)?;
    Ok(([before, after], notes))
}

/// The rows: changes that are certain first, then the largest of the mean time.
fn rows(pairs: BTreeMap<Name, [Option<Side>; 2]>, sets: [&Set; 2]) -> Vec<Row> {
    let of = |(name, sides): (Name, [Option<Side>; 2])| {
        let [before, after] = [0, 1].map(|set: usize| {
            let none = || vec![0.0; sets[set].runs.len()];
            sides[set].as_ref().map_or_else(none, |side| side.times_s.clone())
        });
        let difference = difference(&before, &after);
        Row { name, sides, difference, is_certain: false }
    };
    let mut rows: Vec<Row> = pairs.into_iter().map(of).collect();
    let chances: Vec<f64> = rows.iter().map(|row| row.difference.map_or(1.0, |found| found.chance)).collect();
    for (row, is_certain) in rows.iter_mut().zip(holm(&chances)) {
        row.is_certain = is_certain;
    }
    rows.sort_by(|one, other| {
        other
            .is_certain
            .cmp(&one.is_certain)
            .then_with(|| other.change_s().abs().total_cmp(&one.change_s().abs()))
            .then_with(|| natural_order(&one.name.0, &other.name.0))
            .then_with(|| one.name.1.cmp(&other.name.1))
    });
    rows
}

/// The sheet of changes; without the names in the second run if all have one name.
fn changes(mut rows: Vec<Vec<Value>>, totals: bool, one_name: bool) -> Sheet {
    let mut heads = HEADS.to_vec();
    if !totals {
        heads.iter_mut().for_each(|head| head.heading = per_rank(head.heading));
    }
    if one_name {
        heads.remove(1);
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    Sheet { name: "changes", heads, rows }
}

/// The heading of a column whose numbers are per rank.
fn per_rank(heading: &'static str) -> &'static str {
    match heading {
        "Calls A" => "Calls/rank A",
        "Calls B" => "Calls/rank B",
        "Volume A" => "Volume/rank A",
        "Volume B" => "Volume/rank B",
        other => other,
    }
}

/// The family of each common name that shares a row: that of the first run, else that of the
/// second; and the names that families of the first have in the second, where they are others.
fn family_names(sets: [&Set; 2], pairing: &Pairing) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut names, mut others) = (BTreeMap::new(), BTreeMap::new());
    for (place, set) in sets.into_iter().enumerate() {
        for family in family_rows::of_table(set.first(), |_| true, true) {
            for row in family.rows.iter().filter(|_| !family.is_single()) {
                let common = pairing.name(place, &row.comm);
                let is_of_first = place == 1 && sets[0].first().processes().comms.contains_key(common);
                if !is_of_first {
                    names.insert(common.to_owned(), family.name.clone());
                } else if let Some(name) = names.get(common).filter(|name| **name != family.name) {
                    others.insert(name.clone(), family.name.clone());
                }
            }
        }
    }
    (names, others)
}

fn row(row: &Row, other_name: Option<&str>) -> Vec<Value> {
    let Row { name: (comm, call), sides, difference, is_certain } = row;
    let each =
        |of: fn(&Side) -> Value| sides.iter().map(move |side| side.as_ref().map_or(Value::Nothing, of));
    let mut cells =
        vec![comm.as_str().into(), other_name.map_or(Value::Nothing, Value::from), call.as_str().into()];
    cells.extend(each(|side| Value::Number(side.calls)));
    cells.extend(each(|side| Value::Bytes(side.bytes.round() as u64)));
    cells.extend(each(|side| Value::Seconds(side.mean_s)));
    let share = match sides {
        [Some(before), Some(_)] if before.mean_s > 0.0 => Some(row.change_s() / before.mean_s),
        _ => None,
    };
    cells.push(share.map_or(Value::Nothing, |share| Value::Change { share, matters: *is_certain }));
    cells.push(difference.map_or(Value::Nothing, |found| Value::Seconds(found.noise)));
    let may_be_noise = difference.is_some() && !is_certain && row.change_s() != 0.0;
    cells.push(if may_be_noise { MAY_BE_NOISE } else { "" }.into());
    cells
}
