//! The two sets of runs that are compared, and what each has of an operation on a communicator.

use super::bound::Totals;
use super::nccl::NcclNames;
use super::pairing::Pairing;
use crate::filter::CallFilter;
use crate::group::{By, Cell};
use crate::nccl_times;
use crate::run_set::{self, command_text};
use crate::statistics::mean;
use crate::units::count;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::ProfileError;
use mpisee_profile::operation::is_nccl;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Communicator and operation.
pub type Name = (String, String);

/// One run of a set.
pub struct Run {
    pub view: ProfileView,
    /// Names of its communicators of NCCL in the first run of the set.
    of_nccl: NcclNames,
    /// Sums by communicator and operation, with names of the first run of the set.
    pub cells: BTreeMap<Name, Cell>,
    /// The ranks that the filter takes.
    pub chosen: u64,
    /// Seconds of GPUs in calls of NCCL over these, where they were measured.
    nccl_gpu_s: Option<f64>,
    /// A sentence on calls of NCCL that were not timed, where others were.
    pub untimed: Option<String>,
}

impl Run {
    fn new(
        view: ProfileView,
        of_nccl: NcclNames,
        filter: &CallFilter,
    ) -> Result<(Self, Option<ProfileError>)> {
        let by = By { comm: true, call: true, ..By::default() };
        let mut groups = view.group(filter, by)?;
        let cells = std::mem::take(&mut groups.cells);
        let cells = cells
            .into_iter()
            .map(|(key, cell)| ((of_nccl.common(groups.comm(&key)), groups.call(&key).to_owned()), cell))
            .collect();
        let chosen = view.processes().chosen(&filter.comms);
        let mut nccl_gpu_s = None;
        for timed in nccl_times::chosen(&view, filter)? {
            let timed = timed?;
            if timed.row.calls > 0 {
                *nccl_gpu_s.get_or_insert(0.0) += timed.gpu_s();
            }
        }
        let untimed = nccl_times::note_on_untimed(nccl_times::timed_and_not(&view, filter)?);
        Ok((Run { view, of_nccl, cells, chosen, nccl_gpu_s, untimed }, groups.cut_off))
    }

    fn totals(&self) -> Totals {
        let ranks = self.chosen.max(1) as f64;
        let sum = |of: fn(&Cell) -> f64| self.cells.values().map(of).sum::<f64>() / ranks;
        let time_s = |of_nccl: bool| {
            let cells = self.cells.iter().filter(|((_, call), _)| is_nccl(call) == of_nccl);
            // A sum of nothing would be -0.
            cells.map(|(_, cell)| cell.time_s()).fold(0.0, |left, right| left + right) / ranks
        };
        Totals {
            wall_s: self.view.processes().wall_max_s(),
            mpi_s: time_s(false),
            nccl_s: time_s(true),
            nccl_gpu_s: self.nccl_gpu_s.map(|gpu_s| gpu_s / ranks),
            calls: sum(|cell| cell.calls as f64),
            bytes: sum(|cell| cell.bytes as f64),
        }
    }
}

/// One of the two sets: a run, or several that repeat each other.
pub struct Set {
    /// As the command line has it.
    name: String,
    /// At least one.
    pub runs: Vec<Run>,
    pub cut_off: Option<ProfileError>,
}

/// The profiles of both sets.
pub struct Opened {
    pub views: [Vec<ProfileView>; 2],
    /// Sentences on runs of which there are several profiles.
    pub notes: Vec<String>,
}

impl Opened {
    /// Opens the profiles, of each run one.
    pub fn open(paths: [&[PathBuf]; 2]) -> Result<Self> {
        let found = [run_set::profiles(paths[0])?, run_set::profiles(paths[1])?];
        let mut notes: Vec<String> = ["A", "B"]
            .into_iter()
            .zip(&found)
            .filter_map(|(name, set)| Some(format!("In {name}: {}", set.note()?)))
            .collect();
        notes.extend(in_both([&found[0].profiles, &found[1].profiles])?);
        let views = [repeated(&found[0].profiles, "A")?, repeated(&found[1].profiles, "B")?];
        Ok(Opened { views, notes })
    }
}

/// The sentence on runs that are in both sets; an error if all are. Of two single runs it is no
/// mistake.
fn in_both(sets: [&[PathBuf]; 2]) -> Result<Option<String>> {
    if sets.iter().all(|set| set.len() == 1) {
        return Ok(None);
    }
    let common = run_set::common(sets[0], sets[1]);
    let Some(first) = common.first() else { return Ok(None) };
    let example = match first.profile == first.of {
        true => first.of.display().to_string(),
        false => format!("{} and {}", first.of.display(), first.profile.display()),
    };
    if sets.iter().all(|set| set.len() == common.len()) {
        bail!("A and B are the same runs, such as {example}: name other runs for B");
    }
    Ok(Some(format!(
        "{} of B {} in A, too ({example}): the noise between A and B is underestimated.",
        count(common.len() as u64, "run"),
        if common.len() == 1 { "is" } else { "are" }
    )))
}

/// The views of profiles, which have to repeat one command.
fn repeated(profiles: &[PathBuf], set: &str) -> Result<Vec<ProfileView>> {
    let views: Result<Vec<ProfileView>> = profiles.iter().map(|path| ProfileView::open(path)).collect();
    let views = views?;
    let setting =
        |view: &ProfileView| (view.run().command.clone(), view.run().ranks, view.run().is_aggregate);
    if let Some(other) = views.iter().find(|view| setting(view) != setting(&views[0])) {
        let text = |view: &ProfileView| {
            let run = view.run();
            format!("'{}' on {}", command_text(&run.command), count(run.ranks.into(), "rank"))
        };
        bail!(
            "the runs of {set} do not repeat each other: {} is {}, {} is {}; mpisee-through runs compares such runs",
            views[0].profile().directory().display(),
            text(&views[0]),
            other.profile().directory().display(),
            text(other)
        );
    }
    Ok(views)
}

impl Set {
    /// Of these profiles; `paths` is what the command line has for them.
    pub fn new(views: Vec<ProfileView>, paths: &[PathBuf], filter: &CallFilter) -> Result<Self> {
        let mut set = Set { name: name(paths), runs: Vec::<Run>::new(), cut_off: None };
        for view in views {
            let of_nccl = match set.runs.first() {
                Some(first) => NcclNames::new(&first.view, &view)?,
                None => NcclNames::default(),
            };
            let (run, cut_off) = Run::new(view, of_nccl, filter)?;
            set.runs.push(run);
            set.cut_off = set.cut_off.or(cut_off);
        }
        Ok(set)
    }

    /// The first run, which stands for what all have in common.
    pub fn first(&self) -> &ProfileView {
        &self.runs[0].view
    }

    /// The numbers of its runs.
    pub fn totals(&self) -> Vec<Totals> {
        self.runs.iter().map(Run::totals).collect()
    }

    /// The name with the number of runs and the command.
    pub fn text(&self) -> String {
        described(&self.name, self.runs.len(), self.first())
    }

    /// The name alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_empty(&self) -> bool {
        self.runs.iter().all(|run| run.cells.is_empty())
    }

    /// The operations by the name of their row, over all runs.
    pub fn sides(
        &self,
        row_of: impl Fn(&str) -> String,
        totals: bool,
        filter: &CallFilter,
    ) -> Result<BTreeMap<Name, Side>> {
        let mut all: BTreeMap<Name, Vec<RunSide>> = BTreeMap::new();
        for (index, run) in self.runs.iter().enumerate() {
            for (name, side) in sides_of(run, &row_of, totals, filter)? {
                let sides = all.entry(name).or_default();
                // A run without the operation has none of it.
                sides.resize(index, RunSide::default());
                sides.push(side);
            }
        }
        let side = |(name, mut sides): (Name, Vec<RunSide>)| {
            sides.resize(self.runs.len(), RunSide::default());
            (name, Side::new(&sides))
        };
        Ok(all.into_iter().map(side).collect())
    }
}

/// `a.runs (5 runs of ./app, 4 ranks)`: a set with its number of runs and its first run.
pub fn described(name: &str, runs: usize, first: &ProfileView) -> String {
    let run = first.run();
    let (runs, ranks) = (count(runs as u64, "run"), count(run.ranks.into(), "rank"));
    format!("{name} ({runs} of {}, {ranks})", command_text(&run.command))
}

/// The name of a set, as the command line has it.
pub fn name(paths: &[PathBuf]) -> String {
    match paths {
        [only] => only.display().to_string(),
        [first, .., last] => format!("{} … {}", first.display(), last.display()),
        [] => String::new(),
    }
}

/// An operation on a communicator, or on like ones, in one run.
#[derive(Clone, Copy, Debug, Default)]
struct RunSide {
    calls: f64,
    bytes: f64,
    mean_s: f64,
}

/// The same in a set: means over its runs.
#[derive(Clone, Debug, Default)]
pub struct Side {
    pub calls: f64,
    pub bytes: f64,
    /// Mean over ranks.
    pub mean_s: f64,
    /// The time in each run.
    pub times_s: Vec<f64>,
}

impl Side {
    fn new(sides: &[RunSide]) -> Self {
        let mean_of = |of: fn(&RunSide) -> f64| mean(&sides.iter().map(of).collect::<Vec<_>>());
        Side {
            calls: mean_of(|side| side.calls),
            bytes: mean_of(|side| side.bytes),
            mean_s: mean_of(|side| side.mean_s),
            times_s: sides.iter().map(|side| side.mean_s).collect(),
        }
    }
}

/// The operations of a run by the name of their row.
fn sides_of(
    run: &Run,
    row_of: &impl Fn(&str) -> String,
    totals: bool,
    filter: &CallFilter,
) -> Result<BTreeMap<Name, RunSide>> {
    // Like communicators are one: their members' times stand beside each other.
    let mut cells: BTreeMap<Name, Vec<&Cell>> = BTreeMap::new();
    let mut members: BTreeMap<String, u64> = BTreeMap::new();
    for row in run.view.processes().comms.values() {
        let present = run.view.processes().chosen_count(&row.members, &filter.comms);
        *members.entry(row_of(&run.of_nccl.common(&row.comm))).or_default() += present;
    }
    for ((comm, call), cell) in &run.cells {
        cells.entry((row_of(comm), call.clone())).or_default().push(cell);
    }
    let side = |(name, cells): (Name, Vec<&Cell>)| {
        let ranks = members.get(&name.0).copied().unwrap_or(0);
        let cell = Cell::sum(cells, &name.0)?;
        let ranks = ranks.max(cell.ranks.ranks().unwrap_or(0)).max(1);
        let by = if totals { 1.0 } else { ranks as f64 };
        let (calls, bytes) = (cell.calls as f64 / by, cell.bytes as f64 / by);
        Ok((name, RunSide { calls, bytes, mean_s: cell.time_s() / ranks as f64 }))
    };
    cells.into_iter().map(side).collect()
}

/// The operations of both sets by their common names.
pub fn pairs(
    sets: [&Set; 2],
    pairing: &Pairing,
    rows_by_name: &BTreeMap<String, String>,
    totals: bool,
    filter: &CallFilter,
) -> Result<BTreeMap<Name, [Option<Side>; 2]>> {
    let mut pairs: BTreeMap<Name, [Option<Side>; 2]> = BTreeMap::new();
    for (place, set) in sets.into_iter().enumerate() {
        let row_of = |comm: &str| {
            let name = pairing.name(place, comm);
            rows_by_name.get(name).map_or(name, String::as_str).to_owned()
        };
        for (key, side) in set.sides(row_of, totals, filter)? {
            pairs.entry(key).or_default()[place] = Some(side);
        }
    }
    Ok(pairs)
}
