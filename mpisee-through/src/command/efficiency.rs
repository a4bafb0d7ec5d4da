//! `efficiency`: the efficiencies of the POP project, and which communicators the rest is lost on.

mod loss;
mod split;

use super::Outcome;
use super::compare_network;
use crate::beside_network::{Compared, Comparison, NetworkArgs};
use crate::family_rows::{EACH_HINT, FamilyArgs};
use crate::filter::CommFilter;
use crate::interrupted;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::units::count;
use crate::view::{ProfileView, RegionSum};
use anyhow::Result;
use clap::Args;
use loss::{Form, Loss};
use mpisee_profile::rows::RankRow;
use split::{Measured, Split};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through efficiency app.mpisee                        the run, its regions, the communicators' parts
  mpisee-through efficiency app.mpisee --format csv           run and regions, for other programs
  mpisee-through efficiency app.mpisee --loss --format csv    the communicators' parts
  mpisee-through efficiency app.mpisee --network network.json also what of it the network takes, by mpisee-bench --like";

/// Parallel efficiency, load balance and communication efficiency, and what each communicator costs
///
/// Useful time is what a rank spends outside of MPI; runtime is the wall time of the longest rank.
///
/// parallel efficiency (PE) = mean useful time / runtime = LB x CE
/// load balance (LB) = mean useful time / largest useful time
/// communication efficiency (CE) = largest useful time / runtime = SerE x TE
/// serialisation efficiency (SerE) = largest useful time / runtime without transfers
/// transfer efficiency (TE) = runtime without transfers / runtime
///
/// These are the metrics of the POP project. The runtime without transfers is the largest sum, over ranks, of
/// a rank's useful time and what it waited for others as mpisee-through waits measures it, where POP
/// simulates an ideal network. Intervals are those of the waiting. Time in MPI that was not measured
/// may be either: where that makes 1 % of the runtime or more, there are bounds alone (60.0 to 95.0).
/// Regions have no SerE and TE, since arrivals are not known by region.
///
/// The loss, 1 - PE, is the sum of the communicators' parts and of the time that ranks wait in
/// MPI_Finalize for the last ones, if they came there, both by ranks x runtime (% of run). These are
/// named where up to half of the ranks caused 80 % of it. Imbalance % is the part of a communicator's
/// time that its members spent beyond the one that spent least: mostly waiting for others. Waiting,
/// Transfer and Not measured are its time. Like communicators share a row (W_s2.*); Each is the time of
/// the ones with least and most. docs/questions.md has the source.
///
/// Where network.json beside the profile, or --network, has a replay of its communication (mpisee-bench
/// --like), the transfer of its operations is split as compare-network does: what the network takes,
/// siblings that communicate at once, and what is not explained.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct EfficiencyArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Only the communicators' parts in the loss (default: run and regions before them)
    #[arg(long)]
    loss: bool,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    network: NetworkArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [Head; 8] = [
    sheet::fixed("region", "REGION"),
    sheet::number("ranks", "RANKS").hidden_at(2),
    sheet::number("runtime_s", "Runtime"),
    sheet::number("useful_mean_s", "Useful mean"),
    sheet::number("useful_max_s", "max").hidden_at(1).hidden_as("Useful max"),
    sheet::number("parallel_efficiency", "PE %"),
    sheet::number("load_balance", "LB %"),
    sheet::number("communication_efficiency", "CE %"),
];

/// The times of some ranks in the run or in a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Efficiency {
    pub ranks: u64,
    /// The wall time of the longest rank.
    pub runtime_s: f64,
    /// Sum over ranks of the time outside of MPI.
    pub useful_s: f64,
    /// The largest of them.
    pub useful_max_s: f64,
    /// True if the time in MPI is unknown, as recording was off and no call was recorded.
    is_unrecorded: bool,
}

impl Efficiency {
    /// Adds a rank: its wall time and what of it was in MPI.
    pub fn add(&mut self, wall_s: f64, mpi_s: f64) {
        // Where threads call MPI at once, their time may be more than the wall time.
        let useful_s = (wall_s - mpi_s).max(0.0);
        self.ranks += 1;
        self.runtime_s = self.runtime_s.max(wall_s);
        self.useful_s += useful_s;
        self.useful_max_s = self.useful_max_s.max(useful_s);
    }

    /// Of the run.
    pub fn of_run(view: &ProfileView) -> Self {
        let processes = view.processes();
        let is_unrecorded = view.run().recording_was_off && processes.mpi_s() == 0.0;
        let mut all = Efficiency { is_unrecorded, ..Efficiency::default() };
        processes.ranks().iter().for_each(|row| all.add(row.wall_s.0, row.mpi_s.0));
        processes.nodes().iter().for_each(|row| {
            all.add_sums(row.ranks, row.wall_max_s.0, row.useful_s.0, row.useful_max_s.0);
        });
        all
    }

    /// Of a region of this run.
    fn of_region(&self, region: &RegionSum) -> Self {
        let RegionSum { ranks, wall_max_s, useful_s, useful_max_s, .. } = *region;
        Efficiency { ranks, runtime_s: wall_max_s, useful_s, useful_max_s, ..*self }
    }

    /// Adds ranks of which there are sums alone.
    fn add_sums(&mut self, ranks: u64, wall_max_s: f64, useful_s: f64, useful_max_s: f64) {
        self.ranks = self.ranks.saturating_add(ranks);
        self.runtime_s = self.runtime_s.max(wall_max_s);
        self.useful_s += useful_s;
        self.useful_max_s = self.useful_max_s.max(useful_max_s);
    }

    fn useful_mean_s(&self) -> f64 {
        self.useful_s / self.ranks.max(1) as f64
    }

    /// Mean useful time by runtime.
    pub fn parallel(&self) -> Option<f64> {
        ratio(self.useful_mean_s(), self.runtime_s).filter(|_| !self.is_unrecorded)
    }

    /// Mean useful time by the largest.
    pub fn load_balance(&self) -> Option<f64> {
        ratio(self.useful_mean_s(), self.useful_max_s).filter(|_| !self.is_unrecorded)
    }

    /// The largest useful time by runtime.
    pub fn communication(&self) -> Option<f64> {
        ratio(self.useful_max_s, self.runtime_s).filter(|_| !self.is_unrecorded)
    }

    fn row(&self, name: &str) -> Vec<Value> {
        let share = |share: Option<f64>| share.map_or(Value::Nothing, Value::Share);
        let useful = |time_s: f64| if self.is_unrecorded { Value::Nothing } else { Value::Seconds(time_s) };
        vec![
            name.into(),
            Value::Count(self.ranks),
            Value::Seconds(self.runtime_s),
            useful(self.useful_mean_s()),
            useful(self.useful_max_s),
            share(self.parallel()),
            share(self.load_balance()),
            share(self.communication()),
        ]
    }
}

/// The parallel efficiency of a run and its factors, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Factors {
    pub parallel: Option<f64>,
    pub load_balance: Option<f64>,
    pub communication: Option<f64>,
    pub serialisation: Option<f64>,
    pub transfer: Option<f64>,
}

impl Factors {
    /// Of the run, from its samples of waiting where there are any.
    pub fn of(view: &ProfileView) -> Self {
        let all = Efficiency::of_run(view);
        let measured = Measured::of(view).filter(|_| !view.run().recording_was_off);
        let split = measured.map(|(measured, _)| Split::of(view.processes().ranks(), &measured));
        Factors {
            parallel: all.parallel(),
            load_balance: all.load_balance(),
            communication: all.communication(),
            serialisation: split.and_then(|split| split.serialisation().0),
            transfer: split.and_then(|split| split.transfer().0),
        }
    }
}

fn ratio(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all)
}

/// Runs the command.
pub fn run(args: &EfficiencyArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    view.need_mpi("efficiency of MPI")?;
    answer(args, &view)?.write(&args.output)
}

/// The answer of the command.
pub fn answer(args: &EfficiencyArgs, view: &ProfileView) -> Result<Answer> {
    let all = Efficiency::of_run(view);
    let form =
        Form { families: args.families.are_on(&args.output), table: args.output.format() == Format::Table };
    let measured = Measured::of(view);
    let Loss { mut sheet, with_families, cut_off } =
        loss::loss(view, &all, measured.as_ref().map(|(measured, _)| measured), form)?;
    let mut closing =
        args.shown.cut(&args.output, &mut sheet.rows, "Nothing is lost: there is no time in MPI.");
    if with_families {
        closing += EACH_HINT;
    }
    // Calls while recording was off have arrivals and no time.
    let is_whole = !view.run().recording_was_off;
    let split = measured.as_ref().filter(|_| is_whole);
    let split = split.map(|(measured, _)| Split::of(view.processes().ranks(), measured));
    let cut_off = cut_off.or(measured.and_then(|(_, report)| report.cut_off));
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    if !args.loss {
        let regions = view.regions(&CommFilter::default())?;
        answer.sheets.insert(0, efficiencies(&all, &regions, split.as_ref(), form.table));
        answer.caveats.extend(split.as_ref().and_then(Split::limits));
    }
    let (comparison, unreadable) = Comparison::find(view, &args.network)?;
    answer.caveats.extend(unreadable);
    if let Some(comparison) = comparison {
        let most = if args.network.is_given() { usize::MAX } else { MOST_UNASKED };
        closing = beside(&mut answer, comparison, closing, &all, form, most);
    }
    answer.caveats.extend(view.note_on_times().map(|_| NCCL_IS_USEFUL.to_owned()));
    answer.caveats.extend(interrupted::warning(view));
    answer.caveats.extend(limits(view, &all));
    answer.closing = closing;
    Ok(answer)
}

/// The note on programs that use NCCL.
const NCCL_IS_USEFUL: &str = "Useful time is all time outside of MPI: calls of NCCL are in it, and waiting for GPUs and for NCCL's work on them.";

/// Operations below this part of the run are not shown beside a replay.
const COMPARED_OF_RUN: f64 = 0.01;

/// Operations that are shown beside a replay which lies beside the profile and which nobody named.
const MOST_UNASKED: usize = 2;

/// Adds what the program's transfers are beside a replay, the first `most`, and returns the text after the sheets.
fn beside(
    answer: &mut Answer,
    comparison: Comparison,
    closing: String,
    all: &Efficiency,
    form: Form,
    most: usize,
) -> String {
    let Comparison { heading, mut operations, .. } = comparison;
    if !form.table {
        answer.sheets.push(compare_network::sheet("transfer", &operations, false));
        return closing;
    }
    let run_s = all.runtime_s * all.ranks as f64;
    let matters =
        |it: &Compared| ratio(it.recorded.time_s, run_s).is_some_and(|part| part >= COMPARED_OF_RUN);
    operations.retain(matters);
    let before = if closing.is_empty() { closing } else { closing + "\n" };
    let more = match operations.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(
            "\n{} of the replay beside the profile: mpisee-through compare-network has all.\n",
            count(more as u64, "more operation")
        ),
    };
    before + &heading + &compare_network::verdicts(operations.iter().take(most)) + &more
}

/// Limits of the efficiencies, one sentence each.
fn limits(view: &ProfileView, all: &Efficiency) -> Vec<String> {
    let mut sentences = Vec::new();
    if all.is_unrecorded {
        sentences.push(
            "No MPI call was recorded, so that the time in MPI and the efficiencies are unknown.".to_owned(),
        );
    } else if view.run().recording_was_off {
        sentences.push(
            "MPI calls while recording was off count as useful time: PE and CE are upper bounds, the loss is a lower bound."
                .to_owned(),
        );
    }
    if view.processes().ranks().iter().any(threads_overlapped) {
        sentences.push(
            "Threads called MPI at once: their times add up, and efficiencies are lower than they were."
                .to_owned(),
        );
    }
    sentences
}

/// Returns whether the rank was in MPI for longer than it ran, beyond what rounding explains: only calls of several
/// threads at once can be.
fn threads_overlapped(row: &RankRow) -> bool {
    row.mpi_s.0 > row.wall_s.0 * (1.0 + 1e-6)
}

/// The run, then its regions, the longest first.
fn efficiencies(
    all: &Efficiency,
    regions: &BTreeMap<String, RegionSum>,
    split: Option<&Split>,
    is_table: bool,
) -> Sheet {
    let further = if is_table { split::HEADS.to_vec() } else { split::EXACT_HEADS.to_vec() };
    let mut regions: Vec<(&String, &RegionSum)> = regions.iter().collect();
    regions.sort_by(|(_, left), (_, right)| right.wall_max_s.total_cmp(&left.wall_max_s));
    let regions = regions.into_iter().map(|(name, region)| all.of_region(region).row(name));
    let mut rows: Vec<Vec<Value>> = std::iter::once(all.row("(run)")).chain(regions).collect();
    let heads: Vec<Head> = HEADS.into_iter().chain(further).collect();
    if let (Some(split), Some(run)) = (split, rows.first_mut()) {
        run.extend(split.cells(is_table));
    }
    rows.iter_mut().for_each(|row| row.resize(heads.len(), Value::Nothing));
    let mut sheet = Sheet { name: "efficiency", heads, rows };
    if is_table && split.is_none() {
        sheet.remove_columns(HEADS.len()..sheet.heads.len());
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the POP project's page on its metrics has other numbers; these are worked out by hand.
    #[test]
    fn efficiencies_are_those_of_pop() {
        let mut run = Efficiency::default();
        for (wall_s, mpi_s) in [(10.0, 2.0), (10.0, 6.0), (8.0, 2.0)] {
            run.add(wall_s, mpi_s);
        }
        assert_eq!(run.load_balance(), Some(6.0 / 8.0));
        assert_eq!(run.communication(), Some(8.0 / 10.0));
        assert_eq!(run.parallel(), Some(6.0 / 10.0));
        assert_eq!(Efficiency::default().parallel(), None);
        let mut threads = Efficiency::default();
        threads.add(1.0, 3.0);
        assert_eq!((threads.parallel(), threads.load_balance()), (Some(0.0), None));
    }
}
