//! `expect`: checks a profile against a file of expectations, such as in CI.

mod clause;

use super::Outcome;
use super::efficiency::Efficiency;
use crate::comm_pattern::CommPattern;
use crate::filter::CallFilter;
use crate::group::{self, By, Cell, seconds};
use crate::load;
use crate::order::{self, Outline};
use crate::output::{OutputArgs, is_stdout, write_file};
use crate::run_set;
use crate::sheet::{self, Answer, Head, Sheet, Value, caveats};
use crate::sites::{How, PlaceSum, SiteArgs, Sites, place_sums};
use crate::statistics::median;
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::{Context, Result, bail};
use clap::Args;
use clause::{Clause, Metric, Missing, Unplaced};
use mpisee_profile::rows::CommRow;
use mpisee_profile::{Operation, OperationKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through expect --write app.expect app.mpisee    writes expectations that the profile meets
  mpisee-through expect app.expect app.mpisee            exit code 1 if one of them fails
  mpisee-through expect app.expect app.runs              for several runs of mpisee --repeat

A FILE OF EXPECTATIONS:
  # what, of which operation, on which communicators, how much
  calls of MPI_Allreduce on W = 800
  calls of MPI_Waitall at halo.c:57 <= 4000
  calls of MPI_Allreduce per step <= 2
  bytes of MPI_Alltoallv on W_a1_b2.* <= 52428800
  imbalance of MPI_Allreduce on W <= 2
  operations on W = 3
  communicators = 5
  communicators on W_s2.* = 4
  alive = 1
  efficiency >= 0.5";

/// Check a profile against a file of expectations
///
/// Exit code 1 if an expectation fails or is NOT CHECKED. It is NOT CHECKED if the profile lacks
/// the calls of a limit (<=), or the communicators that it names. Only their number is checked
/// then, as 0. It is also NOT CHECKED if it depends on unknown lines. Operations match with or
/// without MPI_, in any case.
///
/// - calls, bytes: sums over operations and communicators that match; * is any text. W_s2.*@4 is
///   the family of that size, without communicators made of its members.
/// - calls ... at NAME: calls in functions, files (halo.c) or lines (halo.c:57) that match, as in
///   mpisee-through sites. Inlined functions match, too.
/// - calls ... per step: calls in an iteration of the innermost loop that makes most of them, on
///   the rank with the most. The run needs mpisee --order
/// - operations: number of different operations
/// - imbalance: time of the slowest rank / mean over ranks
/// - communicators: number of communicators, without S and its descendants
/// - alive: number of communicators that were not freed
/// - efficiency: parallel efficiency, as in mpisee-through efficiency
///
/// With several profiles, counts must hold in every run, imbalance and efficiency for the median.
/// Copies of a run count once.
///
/// --write makes one line for like communicators. Operations below 5 % of calls, bytes and MPI time
/// get no line. Neither do calls whose number depends on time (tests, probes, MPI_Waitany), nor the
/// imbalance of an operation with under 1 s on its slowest rank. Limits of one profile have 10 % of
/// room; those of several profiles are their range. See docs/how-to/ci.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct ExpectArgs {
    /// File of expectations
    #[arg(value_name = "FILE")]
    expectations: PathBuf,

    /// NAME.mpisee directories, or folders that contain them
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,

    /// Write FILE from the profiles; FILE must not exist, - is standard output
    #[arg(long)]
    write: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [Head; 4] = [
    sheet::fixed("outcome", "OUTCOME"),
    sheet::number("line", "LINE"),
    sheet::fixed("expected", "EXPECTED"),
    sheet::fixed("found", "FOUND"),
];

/// The data that expectations need, beside sums.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    places: bool,
    outlines: bool,
}

/// Sums of the profile, with which expectations are compared.
struct Facts<'v> {
    view: &'v ProfileView,
    cells: BTreeMap<(String, String), Cell>,
    /// The places in the program that call MPI, if an expectation is about them.
    places: Vec<PlaceSum>,
    /// The program as outlines, if an expectation is about its steps.
    outlines: Vec<Outline>,
    /// The binaries whose lines are not known, and what to do.
    note: Option<String>,
    efficiency: Option<f64>,
}

impl<'v> Facts<'v> {
    fn gather(view: &'v ProfileView, needs: Needs) -> Result<Self> {
        let by = By { comm: true, call: true, ..By::default() };
        let mut groups = view.group(&CallFilter::default(), by)?;
        if let Some(error) = groups.cut_off {
            // Sums of a part hold nothing.
            return Err(error.into());
        }
        let cells = std::mem::take(&mut groups.cells);
        let name = |key: &group::GroupKey| (groups.comm(key).to_owned(), groups.call(key).to_owned());
        let cells = cells.iter().map(|(key, cell)| (name(key), cell.clone())).collect();
        let efficiency = Efficiency::of_run(view).parallel().map(|(value, _)| value);
        let outlines = if needs.outlines { order::outlines(view, None)? } else { Vec::new() };
        let (places, note) = match needs.places {
            true => {
                let mut sites = Sites::needed(view, &SiteArgs::default(), &[])?;
                (place_sums(view, &mut sites, &CallFilter::default())?.sums, sites.note())
            }
            false => (Vec::new(), None),
        };
        Ok(Facts { view, cells, places, outlines, note, efficiency })
    }

    fn takes_comm(&self, clause: &Clause, comm: &str) -> bool {
        clause.takes_comm(comm, || self.view.processes().families())
    }

    /// The part of what a clause names that the profile lacks.
    fn missing(&self, clause: &Clause) -> Option<Missing> {
        let known = self.view.processes().comms.keys().chain(self.cells.keys().map(|(comm, _)| comm));
        let has_comm = known.into_iter().any(|comm| self.takes_comm(clause, comm));
        let has_call =
            self.cells.keys().any(|(comm, call)| self.takes_comm(clause, comm) && clause.takes_call(call));
        match (has_comm, has_call) {
            (false, _) if clause.names(Missing::Communicator) => Some(Missing::Communicator),
            (_, false) if clause.names(Missing::Call) => Some(Missing::Call),
            _ => match (self.calls_at_place(clause), self.unplaced(clause)) {
                (None, _) => None,
                (Some(_), unplaced) if unplaced.calls() > 0 => Some(Missing::Lines(unplaced)),
                (Some(0), _) => Some(Missing::Place),
                (Some(_), _) => None,
            },
        }
    }

    /// The calls that may be at the place that a clause names, or elsewhere: the profile does not
    /// say.
    fn unplaced(&self, clause: &Clause) -> Unplaced {
        let mut unplaced = Unplaced::default();
        let Some(glob) = clause.place() else { return unplaced };
        // A place whose lines are known calls what is known to be called there: another operation
        // of a library without lines says nothing against it.
        let there: BTreeSet<&str> = self.places_of(clause).map(|sum| sum.call.as_str()).collect();
        let may_be_there = |sum: &&PlaceSum| {
            clause.takes_call(&sum.call) && (there.is_empty() || there.contains(&*sum.call))
        };
        for sum in self.places.iter().filter(may_be_there) {
            let calls_without = match &sum.place {
                None => &mut unplaced.without_site,
                Some(place) if place.is_called(glob) => continue,
                Some(place) if place.how == How::InWrapper => &mut unplaced.without_caller,
                Some(place) if !place.has_line() => &mut unplaced.without_line,
                Some(_) => continue,
            };
            *calls_without = calls_without.saturating_add(self.calls_of(clause, sum));
        }
        unplaced
    }

    /// The calls at a place on the communicators that a clause names.
    fn calls_of(&self, clause: &Clause, sum: &PlaceSum) -> u64 {
        let chosen = sum.comms.iter().filter(|(comm, _)| self.takes_comm(clause, comm));
        chosen.map(|(_, (calls, _))| *calls).fold(0, u64::saturating_add)
    }

    /// The calls at the places that a clause names; none if it names none.
    fn calls_at_place(&self, clause: &Clause) -> Option<u64> {
        clause.place()?;
        let calls = self.places_of(clause).map(|sum| self.calls_of(clause, sum));
        Some(calls.fold(0, u64::saturating_add))
    }

    /// The calls in an iteration of the loop that makes most of them; of the thread with the most.
    fn calls_per_step(&self, clause: &Clause) -> u64 {
        let is_meant = |call: &order::Call| {
            let is_there = call.comms.iter().any(|comm| self.takes_comm(clause, comm));
            (is_there && clause.takes_call(&call.name)).then_some(())
        };
        let steps = self.outlines.iter().filter_map(|outline| outline.per_step(is_meant).remove(&()));
        steps.map(|step| step.calls).max().unwrap_or(0)
    }

    /// The places that a clause names; none if it names none.
    fn places_of(&self, clause: &Clause) -> impl Iterator<Item = &PlaceSum> {
        let is_there = |sum: &&PlaceSum| {
            let place = clause.place().zip(sum.place.as_ref());
            clause.takes_call(&sum.call) && place.is_some_and(|(glob, place)| place.is_called(glob))
        };
        self.places.iter().filter(is_there)
    }

    /// The communicators that a clause is about, but those of one process.
    fn comms(&self, clause: &Clause) -> impl Iterator<Item = &CommRow> {
        let is_own = |name: &str| !load::is_one_per_process(name) && self.takes_comm(clause, name);
        self.view.processes().comms.values().filter(move |row| is_own(&row.comm))
    }

    /// The processes in the communicators that a clause is about.
    fn members(&self, clause: &Clause) -> u64 {
        self.view.processes().count_in_any(self.comms(clause))
    }

    /// The cells of the operations and communicators that a clause is about.
    fn chosen(&self, clause: &Clause) -> impl Iterator<Item = (&(String, String), &Cell)> {
        let is_chosen = |comm: &str, call: &str| self.takes_comm(clause, comm) && clause.takes_call(call);
        self.cells.iter().filter(move |((comm, call), _)| is_chosen(comm, call))
    }

    /// The sum of the cells that a clause is about.
    fn sum(&self, clause: &Clause) -> Cell {
        let mut sum = Cell::EMPTY;
        self.chosen(clause).for_each(|(_, cell)| sum.merge(cell.clone()));
        sum
    }

    /// The time of the rank with the most, in seconds.
    fn slowest_s(&self, clause: &Clause) -> f64 {
        self.sum(clause).ranks.most_ns().map_or(0.0, seconds)
    }

    /// The number that a clause is about; none if there is nothing of the kind.
    fn value(&self, clause: &Clause) -> Option<f64> {
        let chosen = || self.chosen(clause);
        match clause.metric {
            Metric::Calls if clause.is_per_step => Some(self.calls_per_step(clause) as f64),
            Metric::Calls if clause.place().is_some() => {
                self.calls_at_place(clause).map(|calls| calls as f64)
            }
            Metric::Calls => Some(chosen().map(|(_, cell)| cell.calls as f64).sum()),
            Metric::Bytes => Some(chosen().map(|(_, cell)| cell.bytes as f64).sum()),
            Metric::Operations => {
                let calls: BTreeSet<&str> = chosen().map(|((_, call), _)| call.as_str()).collect();
                Some(calls.len() as f64)
            }
            Metric::Communicators => Some(self.comms(clause).map(|row| row.count as f64).sum()),
            Metric::Alive => Some(self.comms(clause).filter(|row| row.freed == 0).count() as f64),
            Metric::Efficiency => self.efficiency,
            Metric::Imbalance => {
                let sum = self.sum(clause);
                let mean_s = sum.time_s() / self.members(clause).max(sum.ranks.ranks()?).max(1) as f64;
                let most_s = seconds(sum.ranks.most_ns()?);
                (mean_s > 0.0).then(|| most_s / mean_s)
            }
        }
    }
}

/// Runs the command.
pub fn run(args: &ExpectArgs) -> Result<Outcome> {
    let found = run_set::profiles(&args.profiles)?;
    let views: Result<Vec<ProfileView>> = found.profiles.iter().map(|path| ProfileView::open(path)).collect();
    let views = views?;
    let gather = |needs: Needs| -> Result<Vec<Facts<'_>>> {
        views.iter().map(|view| Facts::gather(view, needs)).collect()
    };
    if args.write {
        write(&args.expectations, &args.profiles, &gather(Needs::default())?)?;
        return Ok(Outcome::Done);
    }
    let clauses = read(&args.expectations)?;
    let facts = gather(Needs {
        places: clauses.iter().any(|(_, clause)| clause.place().is_some()),
        outlines: clauses.iter().any(|(_, clause)| clause.is_per_step),
    })?;
    let (mut holds, mut lacks_lines) = (true, false);
    let mut rows = Vec::new();
    for (line, clause) in &clauses {
        let (verdict, found, missing) = judge_all(clause, &facts);
        holds &= verdict == Verdict::Holds;
        lacks_lines |= missing.is_some_and(|missing| missing.unplaced().without_line > 0);
        rows.push(vec![verdict.text().into(), Value::Count(*line), clause.text.as_str().into(), found]);
    }
    let sheet = Sheet { name: "expectations", heads: HEADS.to_vec(), rows };
    let mut answer = Answer::new(views[0].profile(), sheet, None);
    let named = |view: &ProfileView| {
        let directory = view.profile().directory().display().to_string();
        caveats(view.profile()).into_iter().map(move |said| format!("In {directory}: {said}"))
    };
    if views.len() > 1 {
        answer.caveats = views.iter().flat_map(named).collect();
    }
    answer.caveats.splice(0..0, found.note());
    // Runs of one binary have one note.
    let notes: BTreeSet<&str> = facts.iter().filter_map(|facts| facts.note.as_deref()).collect();
    if lacks_lines {
        answer.closing = notes.into_iter().map(|note| format!("{note}\n")).collect();
    }
    let outcome = answer.write(&args.output)?;
    Ok(if holds { outcome } else { Outcome::Differs })
}

/// How a clause and a profile compare, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Holds,
    NotChecked,
    Fails,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Holds => "ok",
            Verdict::NotChecked => "NOT CHECKED",
            Verdict::Fails => "FAILED",
        }
    }
}

fn judge(clause: &Clause, found: Option<f64>, missing: Option<Missing>) -> Verdict {
    let Some(found) = found else { return Verdict::Fails };
    let most = missing.map_or(found, |missing| found + missing.unplaced().calls() as f64);
    match clause.holds(found) {
        true if missing.is_some_and(|missing| clause.is_void(missing, found)) => Verdict::NotChecked,
        true => Verdict::Holds,
        false if clause.may_hold_between(found, most) => Verdict::NotChecked,
        false => Verdict::Fails,
    }
}

/// The verdict over all runs, what was found, and what is missing where the clause does not hold:
/// of what is measured by the median, else the worst of the runs.
fn judge_all(clause: &Clause, facts: &[Facts<'_>]) -> (Verdict, Value, Option<Missing>) {
    let values: Vec<Option<f64>> = facts.iter().map(|facts| facts.value(clause)).collect();
    let missing: Vec<Option<Missing>> = facts.iter().map(|facts| facts.missing(clause)).collect();
    let known: Option<Vec<f64>> = values.iter().copied().collect();
    let lacking = missing.iter().copied().flatten().next();
    if clause.metric.is_measured() {
        let found = known.map(|known| median(&known));
        let verdict = judge(clause, found, lacking);
        let missing = lacking.filter(|_| verdict != Verdict::Holds);
        return (verdict, shown(found.map(clause::shown), missing), missing);
    }
    let verdicts: Vec<Verdict> =
        values.iter().zip(&missing).map(|(value, missing)| judge(clause, *value, *missing)).collect();
    let worst = verdicts.iter().copied().max().unwrap_or(Verdict::Holds);
    let range = known.and_then(|known| {
        let least = known.iter().copied().reduce(f64::min)?;
        let most = known.iter().copied().reduce(f64::max)?;
        Some(match least == most {
            true => clause::shown(least),
            false => format!("{} to {}", clause::shown(least), clause::shown(most)),
        })
    });
    let bad = verdicts.iter().filter(|&&verdict| verdict == worst).count();
    let some = match worst != Verdict::Holds && bad < verdicts.len() {
        true => format!(", {} in {bad} of {} runs", worst.text(), verdicts.len()),
        false => String::new(),
    };
    let missing = lacking.filter(|_| worst != Verdict::Holds);
    (worst, shown(range.map(|range| range + &some), missing), missing)
}

/// The number found, for the reader, with what is missing.
fn shown(found: Option<String>, missing: Option<Missing>) -> Value {
    match (found, missing.map(Missing::text)) {
        (Some(found), Some(why)) => Value::Text(format!("{found} ({why})")),
        (found, why) => found.or(why).map_or(Value::Nothing, Value::Text),
    }
}

/// The clauses of a file, with their lines.
fn read(path: &Path) -> Result<Vec<(u64, Clause)>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    let mut clauses = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            let clause = line.parse::<Clause>();
            clauses.push((
                number,
                clause.map_err(|why| anyhow::anyhow!("'{}', line {number}: {why}", path.display()))?,
            ));
        }
    }
    if clauses.is_empty() {
        bail!("'{}' has no expectation; mpisee-through expect --help shows some", path.display());
    }
    Ok(clauses)
}

/// The factor by which imbalance may exceed that of this run.
const IMBALANCE_ROOM: f64 = 1.5;
/// The imbalance of an operation with less time on its slowest rank has no line: whether a rank
/// lacks a core for a moment decides on it.
const LEAST_TIME_OF_IMBALANCE_S: f64 = 1.0;

/// Lines are about operations and communicators with this share of the calls, the bytes or the time
/// in MPI, or more: of others the number says little, and the file stays short.
const LEAST_SHARE: f64 = 0.05;
/// The room above the counts of a single run, of which nobody knows how far those of other runs
/// differ.
const ROOM_OF_ONE_RUN_PERCENT: f64 = 10.0;

/// Writes the limits that all runs keep.
fn write(path: &Path, profiles: &[PathBuf], all: &[Facts<'_>]) -> Result<()> {
    let text = heading(path, profiles, all.len()) + &written(all);
    match is_stdout(path) {
        true => write_file(path, text.as_bytes())?,
        false => create(path, &text)?,
    }
    if all.len() == 1 {
        eprintln!(
            "mpisee-through: limits from one profile have {} of room; with --write and profiles of several runs they are the \
             range of these",
            percent(ROOM_OF_ONE_RUN_PERCENT / 100.0)
        );
    }
    Ok(())
}

/// Writes a file that does not exist.
fn create(path: &Path, text: &str) -> Result<()> {
    let cannot_write = || format!("cannot write '{}'", path.display());
    match File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).with_context(cannot_write),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "'{0}' exists already and is left as it is; without --write the profile is compared with it, --write '{0}.new' \
             makes one beside it",
            path.display()
        ),
        Err(error) => Err(error).with_context(cannot_write),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The comment above the limits.
fn heading(path: &Path, profiles: &[PathBuf], runs: usize) -> String {
    let names: Vec<String> = profiles.iter().map(|profile| profile.display().to_string()).collect();
    let file = if is_stdout(path) { "FILE".into() } else { path.display().to_string() };
    let origin = match runs {
        1 => format!(
            "# Calls and bytes are those of one run and {} more. --write with profiles of several runs takes their range.\n",
            percent(ROOM_OF_ONE_RUN_PERCENT / 100.0)
        ),
        _ => format!("# Calls and bytes are the range of {runs} runs.\n"),
    };
    format!(
        "# Expectations from {}. Check it: mpisee-through expect {file} PROFILE\n{origin}\
         # Operations with less than {} of the calls, of the bytes and of the time in MPI are left out.\n",
        names.join(" "),
        percent(LEAST_SHARE)
    )
}

/// The limits, one a line.
fn written(all: &[Facts<'_>]) -> String {
    let facts = &all[0];
    // Like communicators are expected together, so that the file grows neither with the ranks nor
    // with the steps of a loop.
    let unit_of = unit_names(facts);
    let unit = |comm: &str| unit_of.get(comm).cloned().unwrap_or_else(|| comm.to_owned());
    let mut units: Vec<(String, &str)> =
        facts.cells.keys().map(|(comm, call)| (unit(comm), call.as_str())).collect();
    units.sort_by(|left, right| natural_order(&left.0, &right.0).then(left.1.cmp(right.1)));
    units.dedup();
    let mut comms: Vec<&str> = units.iter().map(|(comm, _)| comm.as_str()).collect();
    comms.dedup();
    comms.retain(|comm| most_shares(all, None, comm).iter().any(|share| *share >= LEAST_SHARE));
    let mut text = limit(all, &Clause::for_metric(Metric::Communicators, None, None));
    text += &limit(all, &Clause::for_metric(Metric::Alive, None, None));
    text.extend(
        comms.iter().map(|comm| limit(all, &Clause::for_metric(Metric::Operations, None, Some(comm)))),
    );
    for (comm, call) in units.iter().filter(|(_, call)| is_certain(call)) {
        let [calls, bytes, time] = most_shares(all, Some(call), comm);
        let lines = [(Metric::Calls, calls.max(time)), (Metric::Bytes, bytes)];
        let lines = lines.into_iter().filter(|(_, share)| *share >= LEAST_SHARE);
        text.extend(lines.map(|(metric, _)| limit(all, &Clause::for_metric(metric, Some(call), Some(comm)))));
    }
    text.extend(units.iter().filter_map(|(comm, call)| limit_of_imbalance(all, comm, call)));
    text
}

/// The shares of the calls, the bytes and the time in MPI that an operation has on a communicator,
/// or all operations; of the run in which each is the largest.
fn most_shares(all: &[Facts<'_>], call: Option<&str>, comm: &str) -> [f64; 3] {
    let clause = Clause::for_metric(Metric::Calls, call, Some(comm));
    let sums = |facts: &Facts<'_>, takes: &dyn Fn(&str, &str) -> bool| {
        let chosen = facts.cells.iter().filter(|((comm, call), _)| takes(comm, call));
        chosen.fold([0.0; 3], |[calls, bytes, time_s], (_, cell)| {
            [calls + cell.calls as f64, bytes + cell.bytes as f64, time_s + cell.time_s()]
        })
    };
    all.iter().fold([0.0; 3], |most, facts| {
        let takes = |comm: &str, other: &str| {
            facts.takes_comm(&clause, comm) && call.is_none_or(|call| other == call)
        };
        let (part, whole) = (sums(facts, &takes), sums(facts, &|_, _| true));
        std::array::from_fn(|at| most[at].max(if whole[at] > 0.0 { part[at] / whole[at] } else { 0.0 }))
    })
}

/// The line or lines on a count: its range over the runs, or with room above that of a single one.
fn limit(all: &[Facts<'_>], clause: &Clause) -> String {
    let values: Vec<f64> = all.iter().map(|facts| facts.value(clause).unwrap_or(0.0)).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let has_room = matches!(clause.metric, Metric::Calls | Metric::Bytes);
    let line = |relation: &str, value: f64| format!("{} {relation} {}\n", clause.text, clause::shown(value));
    match all.len() {
        1 if has_room => line("<=", (most * (100.0 + ROOM_OF_ONE_RUN_PERCENT) / 100.0).ceil()),
        _ if least == most => line("=", most),
        _ => line(">=", least) + &line("<=", most),
    }
}

/// The line on the imbalance of an operation, if it has much of the time and may be less even.
fn limit_of_imbalance(all: &[Facts<'_>], comm: &str, call: &str) -> Option<String> {
    let clause = Clause::for_metric(Metric::Imbalance, Some(call), Some(comm));
    let found = all.iter().filter_map(|facts| facts.value(&clause)).reduce(f64::max)?;
    let limit = (10.0 * found * IMBALANCE_ROOM).ceil() / 10.0;
    // All time on one rank is as many times the mean as there are members.
    let can_be_exceeded = all.iter().any(|facts| limit < facts.members(&clause) as f64);
    let is_long = all.iter().any(|facts| facts.slowest_s(&clause) >= LEAST_TIME_OF_IMBALANCE_S);
    let [_, _, time] = most_shares(all, Some(call), comm);
    (can_be_exceeded && is_long && time >= LEAST_SHARE).then(|| format!("{} <= {limit:.1}\n", clause.text))
}

/// A pattern for each communicator that takes it and those like it: the name of its family, with
/// the size where the name alone would take others, too.
fn unit_names(facts: &Facts<'_>) -> HashMap<String, String> {
    let processes = facts.view.processes();
    let known: BTreeSet<&str> =
        processes.comms.keys().chain(facts.cells.keys().map(|(comm, _)| comm)).map(String::as_str).collect();
    let mut units = HashMap::new();
    for (sized, members) in processes.families() {
        let short = sized.rsplit_once('@').map_or(sized.as_str(), |(name, _)| name);
        let pattern = CommPattern::new(short);
        let taken = known.iter().filter(|comm| pattern.takes(comm, None, || processes.families())).count();
        let name = if taken == members.len() { short } else { sized.as_str() };
        units.extend(members.iter().map(|comm| (comm.clone(), name.to_owned())));
    }
    units
}

/// Returns whether the number of calls is the same in each run of a program that does the same.
fn is_certain(call: &str) -> bool {
    let chance = ["MPI_Test", "MPI_Waitany", "MPI_Waitsome", "MPI_Request_get_status", "MPI_Parrived"];
    let kind = Operation::from_name(call).map(Operation::kind);
    kind != Some(OperationKind::Probe) && !chance.iter().any(|name| call.starts_with(name))
}
