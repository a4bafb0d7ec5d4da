//! `ranks`: the processes, and how unevenly their time in MPI is spread.

mod gpus;
mod nodes;

use super::Outcome;
use super::cores_used::{CORES_USED, cores_used, is_several};
use crate::cores;
use crate::filter::CallFilter;
use crate::group::{By, seconds};
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::processes::ProcessRows;
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::units::time;
use crate::view::ProfileView;
use anyhow::Result;
use clap::{Args, ValueEnum};
use mpisee_collect::aggregate;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::RankRow;
use std::collections::HashMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through ranks app.mpisee                         ranks with most time in MPI
  mpisee-through ranks app.mpisee --sort wait --top 5     largest part of wall time in MPI
  mpisee-through ranks app.mpisee --sort no-core          ready to run, without a core
  mpisee-through ranks app.mpisee --by node               nodes, with their ranks and cores
  mpisee-through ranks app.mpisee --by gpu                GPU of each rank, and its distance
  mpisee-through ranks app.mpisee --comm 'W_s2.*' --all   time on some communicators, every rank
  mpisee-through ranks app.mpisee --format csv            for scripts";

/// Ranks: node, time in MPI, volume, and the busiest operation
///
/// Times, Volume and Calls are those of the calls that the filters choose. Volume and Calls include
/// NCCL, whose time on the host has the column NCCL. % of wall is MPI time relative to the rank's
/// wall time. % on CPU is its time on cores relative to wall time, over all threads. % no core is
/// its time ready to run without a core. CPUS are the CPUs that it may use, shown if some rank
/// lacked a core.
///
/// --by node has a row for each node and takes no filters, as do profiles with sums over ranks.
/// --by gpu has a row for each rank and GPU, with the NUMA nodes of both. It names the network
/// adapter nearest to the GPU. With sums over ranks it has a row for each GPU. See
/// docs/how-to/oversubscribed-cores.md and docs/how-to/gpus.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RanksArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Rows: ranks; nodes with their ranks, cores (CORES) and time without a core; or ranks with
    /// their GPUs, and where these are
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Rows::Rank)]
    by: Rows,

    #[command(flatten)]
    shown: Shown,

    /// Order, largest first: time is MPI time, then time in NCCL; wait (in MPI) and no-core are
    /// parts of the rank's own wall time; rank is ascending
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Time)]
    sort: SortKey,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Time,
    Wait,
    NoCore,
    Volume,
    Calls,
    Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rows {
    Rank,
    Node,
    Gpu,
}

/// The column of CPUs in tables, which is for ranks that lack a core.
const CPUS: &str = "cpus_allowed";

const HEADS: [sheet::Head; 15] = [
    sheet::number("rank", "RANK"),
    sheet::fixed("host", "HOST").hidden_at(3),
    sheet::number("wall_s", "Wall"),
    sheet::number(OF_MPI[0], "MPI"),
    sheet::number(OF_MPI[1], "% of wall"),
    sheet::number(NCCL, "NCCL"),
    sheet::number("cpu_share", "% on CPU").hidden_at(0),
    sheet::number("no_core_share", "% no core").hidden_at(7),
    sheet::fixed(CPUS, "CPUS").hidden_at(0),
    sheet::number("bytes", "Volume").hidden_at(4),
    sheet::number("calls", "Calls").hidden_at(1),
    sheet::fixed("busiest_call", "MOST TIME IN").hidden_at(6),
    sheet::fixed("busiest_comm", "ON").hidden_at(5),
    sheet::number("busiest_s", "Time").hidden_at(2),
    sheet::number(CORES_USED, "Cores used").hidden_at(0),
];

/// The column of time in calls of NCCL, which only runs with such calls have.
const NCCL: &str = "nccl_s";
/// Columns that tables of processes without MPI do not have.
const OF_MPI: [&str; 2] = ["mpi_s", "share_of_wall"];
/// Columns that tables leave out where nothing is known.
const CORE_COLUMNS: [&str; 2] = ["cpu_share", "no_core_share"];

/// Sums of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Sum<'a> {
    mpi_ns: u128,
    nccl_ns: u128,
    bytes: u64,
    calls: u64,
    /// Communicator, operation and time of what took most.
    busiest: Option<(&'a str, &'a str, u128)>,
}

/// Runs the command.
pub fn run(args: &RanksArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    answer(args, &view)?.write(&args.output)
}

/// The answer of the command.
pub fn answer(args: &RanksArgs, view: &ProfileView) -> Result<Answer> {
    if args.by == Rows::Gpu {
        return gpus::answer(args, view);
    }
    match &view.processes().rows {
        ProcessRows::Ranks(ranks) if args.by == Rows::Node => {
            nodes::answer(args, view, &aggregate::node_rows(ranks))
        }
        ProcessRows::Ranks(_) => of_ranks(args, view),
        ProcessRows::Nodes(rows) => nodes::answer(args, view, rows),
    }
}

fn of_ranks(args: &RanksArgs, view: &ProfileView) -> Result<Answer> {
    let by = By { comm: true, call: true, rank: true, ..By::default() };
    no_match::need_chosen(view, &args.filter.comms)?;
    let groups = view.group(&view.with_times_as_operations(&args.filter)?, by)?;
    // Ranks without calls are an answer, unless calls are chosen.
    no_match::need_operation(view, &args.filter, groups.cells.is_empty() && args.filter.names_calls())?;
    let mut sums: HashMap<u32, Sum<'_>> = HashMap::new();
    for (key, cell) in &groups.cells {
        let sum = sums.entry(key.rank).or_default();
        let time_ns = if is_nccl(groups.call(key)) { &mut sum.nccl_ns } else { &mut sum.mpi_ns };
        *time_ns = time_ns.saturating_add(cell.time_ns);
        sum.bytes = sum.bytes.saturating_add(cell.bytes);
        sum.calls = sum.calls.saturating_add(cell.calls);
        if sum.busiest.is_none_or(|(_, _, most_ns)| cell.time_ns > most_ns) {
            sum.busiest = Some((groups.comm(key), groups.call(key), cell.time_ns));
        }
    }
    let mut ranks: Vec<_> = view
        .processes()
        .chosen_rows(&args.filter.comms)
        .into_iter()
        .map(|row| (row, sums.get(&row.rank).copied().unwrap_or_default()))
        .collect();
    ranks.sort_by(|(left, one), (right, other)| {
        let order = match args.sort {
            SortKey::Time => (other.mpi_ns, other.nccl_ns).cmp(&(one.mpi_ns, one.nccl_ns)),
            SortKey::Wait => share_of_wall(right, other).total_cmp(&share_of_wall(left, one)),
            SortKey::NoCore => {
                let share = |row: &RankRow| cores::share(row).unwrap_or(0.0);
                share(right).total_cmp(&share(left))
            }
            SortKey::Volume => other.bytes.cmp(&one.bytes),
            SortKey::Calls => other.calls.cmp(&one.calls),
            SortKey::Rank => std::cmp::Ordering::Equal,
        };
        order.then_with(|| left.rank.cmp(&right.rank))
    });
    let has_nccl = groups.cells.iter().any(|(key, _)| is_nccl(groups.call(key)));
    let mut spreads = String::new();
    if !view.run().is_without_mpi() {
        spreads += &spread("MPI", ranks.iter().map(|(row, sum)| (row.rank, sum.mpi_ns)));
    }
    if has_nccl {
        spreads += &spread("NCCL", ranks.iter().map(|(row, sum)| (row.rank, sum.nccl_ns)));
    }
    let mut rows = ranks.iter().map(|(row, sum)| cells(row, sum)).collect();
    let closing = args.shown.cut(&args.output, &mut rows, "The profile has no rank.");
    let mut sheet = Sheet { name: "ranks", heads: HEADS.to_vec(), rows };
    if !has_nccl {
        sheet.keep_columns(|name, _| name != NCCL);
    }
    if args.output.format() == Format::Table {
        let is_lacking = ranks.iter().any(|(row, _)| cores::is_lacking(row));
        hide_needless(&mut sheet, is_lacking, view.run().is_without_mpi());
        let used_several = ranks.iter().any(|(row, _)| is_several(row.cpu_s(), row.wall_s.0));
        sheet.keep_columns(|name, _| name != CORES_USED || used_several);
    }
    let on_nccl = view.note_on_nccl_times(groups.cells.iter().map(|(key, _)| groups.call(key)));
    let mut answer = Answer::new(view.profile(), sheet, groups.cut_off);
    answer.lead = spreads;
    answer.closing = closing;
    answer.caveats.extend(on_nccl);
    answer.caveats.extend(view.note_on_waits(&args.filter));
    Ok(answer)
}

/// Removes columns about cores in which nothing is, the CPUs unless ranks lacked some, and those of
/// MPI where there is none.
fn hide_needless(sheet: &mut Sheet, is_lacking: bool, is_without_mpi: bool) {
    sheet.keep_columns(|name, is_empty| match name {
        name if OF_MPI.contains(&name) => !is_without_mpi,
        CPUS => is_lacking && !is_empty,
        name => !is_empty || !CORE_COLUMNS.contains(&name),
    });
}

/// The wall time, of each thread that calls MPI for as long as it lives.
fn thread_s(row: &RankRow) -> f64 {
    row.wall_s.0 * row.threads()
}

/// The part of the rank's wall time, as the mean of its threads that call MPI; 0 where it has none.
fn share_of_wall(row: &RankRow, sum: &Sum<'_>) -> f64 {
    if row.wall_s.0 > 0.0 { seconds(sum.mpi_ns) / thread_s(row) } else { 0.0 }
}

fn cells(row: &RankRow, sum: &Sum<'_>) -> Vec<Value> {
    let (comm, call, most_ns) = match sum.busiest {
        Some((comm, call, most_ns)) => (comm.into(), call.into(), Value::Seconds(seconds(most_ns))),
        None => (Value::Nothing, Value::Nothing, Value::Nothing),
    };
    vec![
        Value::Count(u64::from(row.rank)),
        row.host.as_str().into(),
        Value::Seconds(row.wall_s.0),
        Value::Seconds(seconds(sum.mpi_ns)),
        Value::share_of(seconds(sum.mpi_ns), thread_s(row)),
        Value::Seconds(seconds(sum.nccl_ns)),
        cores::share_on_core(row).map_or(Value::Nothing, Value::Share),
        cores::share(row).map_or(Value::Nothing, Value::Share),
        Some(&row.cpus_allowed)
            .filter(|cpus| !cpus.is_empty())
            .map_or(Value::Nothing, |cpus| Value::Text(cpus.to_string())),
        Value::Bytes(sum.bytes),
        Value::Count(sum.calls),
        call,
        comm,
        most_ns,
        cores_used(row.cpu_s(), row.wall_s.0),
    ]
}

/// Mean, least and most of the ranks' times in a sentence; none without ranks.
fn spread(of: &str, times: impl Iterator<Item = (u32, u128)>) -> String {
    let times: Vec<_> = times.collect();
    let (Some(least), Some(most)) = (
        times.iter().min_by_key(|&&(rank, time_ns)| (time_ns, rank)),
        times.iter().max_by_key(|&&(rank, time_ns)| (time_ns, std::cmp::Reverse(rank))),
    ) else {
        return String::new();
    };
    let mean_s = times.iter().map(|&(_, time_ns)| seconds(time_ns)).sum::<f64>() / times.len() as f64;
    format!(
        "{of} time over {} ranks: mean {}, least {} (rank {}), most {} (rank {}).\n",
        times.len(),
        time(mean_s),
        time(seconds(least.1)),
        least.0,
        time(seconds(most.1)),
        most.0,
    )
}
