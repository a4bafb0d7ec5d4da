//! `efficiency`: the efficiencies of the POP project, and which communicators the rest is lost on.

mod loss;
mod split;

use super::Outcome;
use super::compare_network;
use crate::beside_network::{Compared, Comparison, NetworkArgs};
use crate::cores;
use crate::family_rows::{EACH_HINT, FamilyArgs};
use crate::filter::CommFilter;
use crate::interrupted;
use crate::next_step;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::units::{count, time};
use crate::useful::{Between, Useful};
use crate::view::{ProfileView, RegionSum};
use anyhow::Result;
use clap::Args;
use loss::{Form, Loss};
use split::{Measured, Split};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through efficiency app.mpisee                           run, regions, communicators
  mpisee-through efficiency app.mpisee --format csv              run and regions, for scripts
  mpisee-through efficiency app.mpisee --loss --format csv       loss of communicators
  mpisee-through efficiency app.mpisee --network network.json    with a replay of mpisee-bench";

/// Parallel efficiency, load balance, and the cost of each communicator
///
/// Useful time is the time of a rank on a core outside of MPI. Runtime is the wall time of the
/// longest rank. The metrics are those of the POP project, and core availability:
///
/// - parallel efficiency (PE) = mean useful time / runtime = LB x CA x CE
/// - load balance (LB) = mean useful time / largest useful time
/// - core availability (CA) = largest useful time / largest time outside of MPI
/// - communication efficiency (CE) = largest time outside of MPI / runtime = SerE x TE
/// - serialisation efficiency (SerE) = largest time outside of MPI / runtime without transfers
/// - transfer efficiency (TE) = runtime without transfers / runtime
///
/// Intervals, such as 15.2 (12.3 to 17.0), show what the profile leaves open. It may be how ranks
/// waited for cores, or how long they waited for each other. Regions have no SerE and TE.
///
/// The loss, 1 - PE, is the sum of % of run over all rows. Rows are communicators, waiting for a
/// core outside of MPI, and waiting in MPI_Finalize. Imbalance % is the part of a communicator's
/// time beyond the member with least time. Waiting, Transfer and Not measured add up to its time.
/// Like communicators share a row; Each is the time of the ones with least and most. With a replay
/// (--network), the transfer is split as in compare-network. See docs/explanation/efficiency.md for
/// all definitions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct EfficiencyArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Show only the loss of communicators (default: run and regions before it)
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
/// After [`HEADS`], for people.
const OF_CORES: Head = sheet::number("core_availability", "CA %");
/// For programs, at the end.
const EXACT_OF_CORES: [Head; 7] = [
    OF_CORES,
    sheet::number("core_availability_low", "from"),
    sheet::number("core_availability_high", "to"),
    sheet::number("parallel_low", "from"),
    sheet::number("parallel_high", "to"),
    sheet::number("load_balance_low", "from"),
    sheet::number("load_balance_high", "to"),
];

/// The times of some ranks in the run or in a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Efficiency {
    pub ranks: u64,
    /// The wall time of the longest rank.
    pub runtime_s: f64,
    pub useful: Useful,
    /// True if the time in MPI is unknown, as recording was off and no call was recorded.
    is_unrecorded: bool,
}

/// A factor and its ends.
pub type Factor = (f64, [f64; 2]);

/// The widest interval whose value is shown to people, by the whole and by the value. In a wider
/// one the value is that of an assumption.
const WIDEST: [f64; 2] = [0.1, 0.5];

/// Returns whether the ends of a value are shown alone.
fn is_wide(value: f64, [low, high]: [f64; 2], whole: f64) -> bool {
    high - low > WIDEST[0] * whole || high - low > WIDEST[1] * value
}

impl Efficiency {
    /// Of the run.
    pub fn of_run(view: &ProfileView) -> Self {
        let processes = view.processes();
        Efficiency {
            ranks: processes.count(),
            runtime_s: processes.wall_max_s(),
            useful: processes.useful(),
            is_unrecorded: view.run().recording_was_off && processes.mpi_s() == 0.0,
        }
    }

    /// Of a region of this run.
    fn of_region(&self, region: &RegionSum) -> Self {
        let RegionSum { ranks, wall_max_s, ref useful, .. } = *region;
        Efficiency { ranks, runtime_s: wall_max_s, useful: useful.clone(), ..*self }
    }

    /// Returns whether the communication efficiency has parts. Calls while recording was off have
    /// arrivals and no time.
    fn has_split(&self, view: &ProfileView) -> bool {
        !view.run().recording_was_off && !self.is_unknown()
    }

    fn is_unknown(&self) -> bool {
        self.is_unrecorded || self.useful.is_unknown
    }

    /// The runtime of all threads that call MPI.
    pub fn run_s(&self) -> f64 {
        self.runtime_s * self.useful.threads
    }

    /// The mean and the largest useful time.
    fn useful_s(&self) -> [Between; 2] {
        let [sum, most] = self.useful.on_core_or_outside();
        [sum.map(|sum_s| sum_s / self.useful.threads.max(1.0)), most]
    }

    fn factor(&self, part: Between, all: Between) -> Option<Factor> {
        let value = ratio(part.value, all.value).filter(|_| !self.is_unknown())?;
        // As much of the whole as there may be is no less than the part.
        let ends =
            [ratio(part.low, all.high).unwrap_or(0.0), ratio(part.high, all.low).unwrap_or(1.0).min(1.0)];
        Some((value, ends))
    }

    /// Mean useful time by runtime.
    pub fn parallel(&self) -> Option<Factor> {
        self.factor(self.useful_s()[0], Between::exact(self.runtime_s))
    }

    /// Mean useful time by the largest.
    fn load_balance(&self) -> Option<Factor> {
        let [mean_s, most_s] = self.useful_s();
        let (value, [_, high]) = self.factor(mean_s, most_s)?;
        let [low, high] = self.useful.balance_ends().unwrap_or_else(|| {
            // The rank with most has as much in the mean, too.
            let mean_low_s = mean_s.low + (most_s.high - most_s.low) / self.useful.threads.max(1.0);
            [ratio(mean_low_s, most_s.high).unwrap_or(0.0), high]
        });
        Some((value, [low.min(value), high.max(value).min(1.0)]))
    }

    /// The largest useful time by the largest time outside of MPI; none where time without a core
    /// was not measured.
    fn core_availability(&self) -> Option<Factor> {
        let [_, most_s] = self.useful.on_core?;
        self.factor(most_s, Between::exact(self.useful.outside_max_s))
    }

    /// The largest time outside of MPI by runtime.
    fn communication(&self) -> Option<f64> {
        ratio(self.useful.outside_max_s, self.runtime_s).filter(|_| !self.is_unknown())
    }

    /// The time that ranks had no core outside of MPI, as far as it is known.
    fn without_core_s(&self) -> f64 {
        let [sum, _] = self.useful.on_core_or_outside();
        if self.is_unknown() { 0.0 } else { self.useful.outside_s - sum.value }
    }

    /// The cells under [`HEADS`], and those of cores: for people under [`OF_CORES`], for programs
    /// under [`EXACT_OF_CORES`].
    fn row(&self, name: Value, is_table: bool) -> [Vec<Value>; 2] {
        let [mean_s, most_s] = self.useful_s();
        let useful = |time_s: Between| match self.is_unknown() {
            true => Value::Nothing,
            false if is_table && is_wide(time_s.value, [time_s.low, time_s.high], self.runtime_s) => {
                Value::Text(format!("{} to {}", time(time_s.low), time(time_s.high)))
            }
            false => Value::Seconds(time_s.value),
        };
        let value = |factor: Option<Factor>| match factor {
            Some((value, ends)) if is_table => {
                let value = Some(value).filter(|&value| !is_wide(value, ends, 1.0));
                split::text((value, ends.map(Some)))
            }
            factor => share(factor.map(|(value, _)| value)),
        };
        let ends = |factor: Option<Factor>| factor.map_or([None; 2], |(_, ends)| ends.map(Some)).map(share);
        let [parallel, balance, cores] = [self.parallel(), self.load_balance(), self.core_availability()];
        let row = vec![
            name,
            Value::Count(self.ranks),
            Value::Seconds(self.runtime_s),
            useful(mean_s),
            useful(most_s),
            value(parallel),
            value(balance),
            share(self.communication()),
        ];
        let of_cores = std::iter::once(value(cores));
        match is_table {
            true => [row, of_cores.collect()],
            false => [row, of_cores.chain([cores, parallel, balance].into_iter().flat_map(ends)).collect()],
        }
    }
}

fn share(share: Option<f64>) -> Value {
    share.map_or(Value::Nothing, Value::Share)
}

/// The parallel efficiency of a run and its factors, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Factors {
    pub parallel: Option<f64>,
    pub load_balance: Option<f64>,
    pub communication: Option<f64>,
    pub serialisation: Option<f64>,
    pub transfer: Option<f64>,
    pub cores: Option<f64>,
}

impl Factors {
    /// Of the run, from its samples of waiting where there are any.
    pub fn from_view(view: &ProfileView) -> Self {
        let all = Efficiency::of_run(view);
        let measured = Measured::from_view(view).ok().filter(|_| all.has_split(view));
        let split = measured.map(|(measured, _)| Split::from_ranks(view.processes().ranks(), &measured));
        let value = |factor: Option<Factor>| factor.map(|(value, _)| value);
        Factors {
            parallel: value(all.parallel()),
            load_balance: value(all.load_balance()),
            communication: all.communication(),
            serialisation: split.and_then(|split| split.serialisation().0),
            transfer: split.and_then(|split| split.transfer().0),
            cores: value(all.core_availability()),
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
    let mut answer = answer(args, &view)?;
    answer.next = next_step::line(view.profile(), "advise", "what costs most, and what to try");
    answer.write(&args.output)
}

/// The answer of the command.
pub fn answer(args: &EfficiencyArgs, view: &ProfileView) -> Result<Answer> {
    let all = Efficiency::of_run(view);
    let form =
        Form { families: args.families.are_on(&args.output), table: args.output.format() == Format::Table };
    let measured = Measured::from_view(view);
    let missing = missing(view, &all, measured.as_ref().err().map(String::as_str));
    let measured = measured.ok();
    let Loss { mut sheet, with_families, cut_off } =
        loss::loss(view, &all, measured.as_ref().map(|(measured, _)| measured), form)?;
    let mut closing =
        args.shown.cut(&args.output, &mut sheet.rows, "Nothing is lost: there is no time in MPI.");
    if with_families {
        closing += EACH_HINT;
    }
    let split = measured.as_ref().filter(|_| all.has_split(view));
    let split = split.map(|(measured, _)| Split::from_ranks(view.processes().ranks(), measured));
    let cut_off = cut_off.or(measured.and_then(|(_, report)| report.cut_off));
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    if !args.loss {
        let regions = view.regions(&CommFilter::default())?;
        answer.sheets.insert(0, efficiencies(&all, &regions, split.as_ref(), form.table));
        answer.caveats.extend(split.as_ref().and_then(Split::limits));
        answer.caveats.extend(missing);
        answer.caveats.extend(RegionSum::note_on_threads(regions.values()));
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
const NCCL_IS_USEFUL: &str = "Useful time is all time outside of MPI. Useful time includes calls of NCCL, \
                              and waiting for GPUs and for NCCL's work on GPUs.";

/// Operations below this part of the run are not shown beside a replay.
const COMPARED_OF_RUN: f64 = 0.01;

/// Operations that are shown beside a replay which lies beside the profile and which nobody named.
const MOST_UNASKED: usize = 2;

/// Adds what the program's transfers are beside a replay, the first `most`, and returns the text
/// after the sheets.
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
    let run_s = all.run_s();
    let matters =
        |it: &Compared| ratio(it.recorded.time_s, run_s).is_some_and(|part| part >= COMPARED_OF_RUN);
    operations.retain(matters);
    let before = if closing.is_empty() { closing } else { closing + "\n" };
    let more = match operations.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(
            "\nThe replay beside the profile has {}; mpisee-through compare-network shows all.\n",
            count(more as u64, "more operation")
        ),
    };
    before + &heading + &compare_network::verdicts(operations.iter().take(most)) + &more
}

/// Limits of the efficiencies, one sentence each.
fn limits(view: &ProfileView, all: &Efficiency) -> Vec<String> {
    let mut sentences = Vec::new();
    if all.is_unrecorded {
        sentences.push("MPI time and efficiencies are unknown, because no MPI call was recorded.".to_owned());
    } else if view.run().recording_was_off {
        sentences.push(
            "MPI calls while recording was off count as useful time. PE and CE are upper bounds; the loss is \
             a lower bound."
                .to_owned(),
        );
    }
    if all.useful.is_unknown {
        sentences.push(
            "Time outside of MPI and efficiencies are unknown: the profile does not tell how many threads \
             were in MPI at once."
                .to_owned(),
        );
    } else if all.useful.most_threads > 1 {
        sentences.push(format!(
            "Up to {} threads of a rank call MPI. The time of a rank is the mean of these threads.",
            all.useful.most_threads
        ));
    }
    if let Some(lack) = cores::lack(view.processes(), |_| true) {
        sentences.push(format!(
            "{}. Useful time excludes the part of this wait outside of MPI (CA %). The part is estimated as \
             evenly spread; intervals of PE, LB and CA show its limits.",
            lack.sentence()
        ));
    }
    sentences
}

/// The factors that the profile does not tell, and why; `no_samples` says why waiting is unknown.
fn missing(view: &ProfileView, all: &Efficiency, no_samples: Option<&str>) -> Option<String> {
    if all.is_unknown() {
        // Nothing is known of any factor, which another note says.
        return None;
    }
    let split = match (view.run().recording_was_off, no_samples) {
        (true, _) => Some("recording was off for a time, in which calls have arrival times and no durations"),
        (false, why) => why,
    };
    let split = split.map(|why| format!("SerE and TE are unknown: {}.", why.trim_end_matches('.')));
    let cores = (!cores::is_measured(view.processes()) && view.run().imported.is_none()).then(|| {
        let why = cores::note_of_ended(view);
        let why = why.unwrap_or("The profile does not tell how long ranks waited for a core.".to_owned());
        format!("CA is unknown, and time without a core counts as useful. {why}")
    });
    let sentences: Vec<String> = split.into_iter().chain(cores).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
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
    let regions = regions
        .into_iter()
        .map(|(name, region)| all.of_region(region).row(Value::Region(name.clone()), is_table));
    let of_split = |is_run: bool| match split.filter(|_| is_run) {
        Some(split) => split.cells(is_table),
        None => vec![Value::Nothing; further.len()],
    };
    let rows = std::iter::once(all.row("(run)".into(), is_table)).chain(regions).enumerate();
    let rows = rows.map(|(at, [row, of_cores])| match is_table {
        true => [row, of_cores, of_split(at == 0)].concat(),
        false => [row, of_split(at == 0), of_cores].concat(),
    });
    let rows = rows.collect();
    let heads = match is_table {
        true => HEADS.into_iter().chain([OF_CORES]).chain(further.iter().copied()).collect(),
        false => HEADS.into_iter().chain(further.iter().copied()).chain(EXACT_OF_CORES).collect(),
    };
    let mut sheet = Sheet { name: "efficiency", heads, rows };
    if is_table {
        sheet.keep_columns(|name, is_empty| match name {
            "core_availability" => !is_empty,
            name => split.is_some() || !further.iter().any(|head| head.name == name),
        });
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::{RankRow, Seconds};

    /// A rank with these seconds: wall time, in MPI, on cores, without a core.
    fn rank([wall_s, mpi_s, cpu_s, wait_s]: [f64; 4]) -> RankRow {
        RankRow {
            wall_s: Seconds(wall_s),
            mpi_s: Seconds(mpi_s),
            cpu_user_s: Some(Seconds(cpu_s)),
            cpu_system_s: Some(Seconds(0.0)),
            cpu_wait_s: Some(Seconds(wait_s)),
            ..RankRow::default()
        }
    }

    fn of_ranks(rows: &[RankRow]) -> Efficiency {
        let mut all = Efficiency { ranks: rows.len() as u64, ..Efficiency::default() };
        for row in rows {
            all.runtime_s = all.runtime_s.max(row.wall_s.0);
            all.useful.add(Useful::of_rank(row));
        }
        all
    }

    /// The values of PE, LB, CA and CE, to nine decimals.
    fn values(of: &Efficiency) -> [Option<f64>; 4] {
        let value = |factor: Option<Factor>| factor.map(|(value, _)| value);
        let all = [value(of.parallel()), value(of.load_balance()), value(of.core_availability())];
        [all[0], all[1], all[2], of.communication()].map(|it| it.map(crate::units::to_nine_decimals))
    }

    /// The example of the POP project's page on its metrics has other numbers; these are worked out
    /// by hand.
    #[test]
    fn efficiencies_are_those_of_pop() {
        let rows = [(10.0, 2.0), (10.0, 6.0), (8.0, 2.0)]
            .map(|(wall_s, mpi_s)| RankRow { cpu_wait_s: None, ..rank([wall_s, mpi_s, wall_s, 0.0]) });
        assert_eq!(values(&of_ranks(&rows)), [Some(0.6), Some(0.75), None, Some(0.8)]);
        assert_eq!(values(&Efficiency::default()), [None; 4]);
    }

    #[test]
    fn time_without_a_core_is_not_useful() {
        // Of 10 s, 83 % without a core; outside of MPI 9 s.
        let lacking = of_ranks(&[rank([10.0, 1.0, 1.7, 8.3]), rank([10.0, 1.0, 1.7, 8.3])]);
        let [parallel, balance, cores, communication] = values(&lacking);
        assert_eq!(parallel, Some(0.153));
        assert_eq!((balance, cores, communication), (Some(1.0), Some(0.17), Some(0.9)));
        // All time in MPI was without a core, or all of the 1.7 s on one was outside of MPI.
        let (_, ends) = lacking.parallel().unwrap();
        assert_eq!(ends.map(crate::units::to_nine_decimals), [0.07, 0.17]);
        assert!((lacking.without_core_s() - 2.0 * 9.0 * 0.83).abs() < 1e-9);
    }

    #[test]
    fn a_rank_that_shares_its_core_is_no_imbalance() {
        // Each computes for 4 s; rank 1 had no core for as long, and rank 0 waits for it in MPI.
        let shared = of_ranks(&[rank([8.0, 4.0, 8.0, 0.0]), rank([8.0, 0.0, 4.0, 4.0])]);
        assert_eq!(values(&shared), [Some(0.5), Some(1.0), Some(0.5), Some(1.0)]);
    }

    #[test]
    fn the_ends_of_load_balance_can_be_reached() {
        // Two ranks without a core for most of the time, of which all or nothing was in MPI: one of
        // the two has half of the useful time at least.
        let lacking = of_ranks(&[rank([10.0, 8.0, 1.0, 9.0]), rank([10.0, 8.0, 2.0, 8.0])]);
        let (_, [low, high]) = lacking.load_balance().unwrap();
        assert!(low >= 0.5 && high <= 1.0, "{low} {high}");
    }

    #[test]
    fn ends_that_are_far_apart_are_shown_without_the_value() {
        let [row, of_cores] = of_ranks(&[rank([10.0, 8.0, 1.0, 9.0])]).row("(run)".into(), true);
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            _ => panic!("it is no text"),
        };
        assert_eq!(
            [text(&row[3]), text(&row[5]), text(&of_cores[0])],
            ["0 s to 1.00 s", "0.0 to 10.0", "0.0 to 50.0"]
        );
        let [row, _] = of_ranks(&[rank([10.0, 8.0, 1.0, 9.0])]).row("(run)".into(), false);
        assert!(matches!(row[3], Value::Seconds(time_s) if (time_s - 0.2).abs() < 1e-9));
    }

    #[test]
    fn threads_that_call_mpi_are_counted_each() {
        // Four threads in MPI for 7 of 10 s together: on average each is outside for 8.25 s.
        let threads = |mpi_threads| RankRow { mpi_threads, ..rank([10.0, 7.0, 40.0, 0.0]) };
        let all = of_ranks(&[threads(Some(4))]);
        assert_eq!(values(&all), [Some(0.825), Some(1.0), Some(1.0), Some(0.825)]);
        assert_eq!(all.run_s(), 40.0);
        // 23 s in MPI are of three threads at least; how many is not known.
        let unknown = |mpi_threads| of_ranks(&[RankRow { mpi_threads, ..rank([10.0, 23.0, 40.0, 0.0]) }]);
        assert_eq!(values(&unknown(None)), [None; 4]);
        assert_eq!(values(&unknown(Some(4)))[3], Some(0.425));
        // A second thread that lived for one of the ten seconds is a tenth of a thread.
        let lived = RankRow { mpi_thread_s: Some(Seconds(11.0)), ..rank([10.0, 3.3, 40.0, 0.0]) };
        let all = of_ranks(&[RankRow { mpi_threads: Some(2), ..lived }]);
        assert!((values(&all)[3].unwrap() - 0.7).abs() < 1e-12 && all.run_s() == 11.0, "{all:?}");
    }
}
