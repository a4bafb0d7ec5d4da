//! `ranks` with a row for each node, as always of an aggregate profile.

use super::super::cores_used::{CORES_USED, cores_used, is_several};
use super::{RanksArgs, SortKey};
use crate::core_share::{share_of_node, share_of_node_on_core};
use crate::output::Format;
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::units::time;
use crate::useful::Useful;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::Profile;
use mpisee_profile::rows::{NodeRow, Row, SpreadRow};

/// Columns that tables leave out where nothing is known.
const CORE_COLUMNS: [&str; 6] =
    ["cores", "node_cpus", "cpu_share", "no_core_share", "no_core_max_s", "no_core_max_rank"];

const HEADS: [Head; 17] = [
    sheet::fixed("host", "HOST"),
    sheet::number("ranks", "RANKS"),
    sheet::fixed("members", "PROCS").or_none(),
    sheet::number("wall_max_s", "Wall max"),
    sheet::number("mpi_mean_s", "MPI/rank"),
    sheet::number("share_of_wall", "% of wall"),
    sheet::number("mpi_min_s", "MPI min"),
    sheet::number("mpi_min_rank", "of rank").or_none(),
    sheet::number("mpi_max_s", "MPI max"),
    sheet::number("mpi_max_rank", "of rank").or_none(),
    sheet::number("cores", "CORES"),
    sheet::number("node_cpus", "of node").hidden_at(0),
    sheet::number("cpu_share", "% on CPU").hidden_at(0),
    sheet::number("no_core_share", "% no core"),
    sheet::number("no_core_max_s", "No core max").hidden_at(1),
    sheet::number("no_core_max_rank", "of rank").or_none(),
    sheet::number(CORES_USED, "Cores used").hidden_at(0),
];

/// As [`super::answer`].
pub fn answer(args: &RanksArgs, view: &ProfileView, nodes: &[NodeRow]) -> Result<Answer> {
    let is_aggregate = !view.processes().nodes().is_empty();
    need_whole_nodes(args, view, is_aggregate)?;
    let mut nodes: Vec<&NodeRow> = nodes.iter().collect();
    let first = |row: &NodeRow| row.wall_max_rank.min(row.mpi_min_rank).min(row.mpi_max_rank);
    nodes.sort_by(|left, right| {
        let order = match args.sort {
            SortKey::Wait => share_of_wall(right).total_cmp(&share_of_wall(left)),
            SortKey::NoCore => {
                let most_s = |row: &NodeRow| row.cpu_wait_max_s.map_or(0.0, |most_s| most_s.0);
                most_s(right).total_cmp(&most_s(left))
            }
            SortKey::Rank => std::cmp::Ordering::Equal,
            SortKey::Time | SortKey::Volume | SortKey::Calls => {
                right.mpi_max_s.0.total_cmp(&left.mpi_max_s.0)
            }
        };
        order.then_with(|| first(left).cmp(&first(right)))
    });
    let mut rows = nodes.iter().copied().map(cells).collect();
    let closing = args.shown.cut(&args.output, &mut rows, "There is no node in the profile.");
    let mut sheet = Sheet { name: "nodes", heads: HEADS.to_vec(), rows };
    if args.output.format() == Format::Table {
        sheet.keep_columns(|name, is_empty| !is_empty || !CORE_COLUMNS.contains(&name));
        let used_several = nodes.iter().any(|row| is_several(row.cpu_s.map(|cpu_s| cpu_s.0), row.wall_s.0));
        sheet.keep_columns(|name, _| name != CORES_USED || used_several);
    }
    let mut answer = Answer::new(view.profile(), sheet, None);
    answer.lead = spread(&nodes);
    if is_aggregate {
        answer.lead += &most_of_all(view.profile())?;
        answer.lead += &format!("The rows of {} are over the ranks of a node.\n", NodeRow::FILE);
    }
    answer.closing = closing;
    Ok(answer)
}

/// Fails for what sums over the ranks of a node do not answer.
fn need_whole_nodes(args: &RanksArgs, view: &ProfileView, is_aggregate: bool) -> Result<()> {
    let is_by_call = matches!(args.sort, SortKey::Volume | SortKey::Calls);
    if (args.filter.is_on() || is_by_call) && !is_aggregate {
        bail!(
            "a row for each node (--by node) is about all that its ranks did: without filters, and not by volume or calls"
        );
    }
    if args.filter.is_on() {
        let missing = "what single ranks did on a part of the communicators or operations";
        return Err(view.unanswerable(missing).into());
    }
    if is_by_call {
        return Err(view.unanswerable("the volume and calls of single ranks").into());
    }
    Ok(())
}

fn cells(row: &NodeRow) -> Vec<Value> {
    let share = |share: Option<f64>| share.map_or(Value::Nothing, Value::Share);
    let cpu_s = row.cpu_s.map(|cpu_s| cpu_s.0);
    let count = |number: Option<u32>| number.map_or(Value::Nothing, |number| Value::Count(number.into()));
    let cores = row.cpus_allowed.len();
    vec![
        row.host.as_str().into(),
        Value::Count(row.ranks),
        Value::Text(row.members.to_string()),
        Value::Seconds(row.wall_max_s.0),
        Value::Seconds(row.mpi_s.0 / row.ranks.max(1) as f64),
        Value::share_of(row.mpi_s.0, thread_s(row)),
        Value::Seconds(row.mpi_min_s.0),
        Value::Count(row.mpi_min_rank.into()),
        Value::Seconds(row.mpi_max_s.0),
        Value::Count(row.mpi_max_rank.into()),
        if cores > 0 { Value::Count(cores) } else { Value::Nothing },
        count(row.node_cpus),
        share(share_of_node_on_core(row)),
        share(share_of_node(row)),
        row.cpu_wait_max_s.map_or(Value::Nothing, |most_s| Value::Seconds(most_s.0)),
        count(row.cpu_wait_max_rank),
        cores_used(cpu_s, row.wall_s.0 / row.ranks.max(1) as f64),
    ]
}

/// The wall time of the node's ranks, of each thread that calls MPI.
fn thread_s(row: &NodeRow) -> f64 {
    let useful = Useful::of_node(row);
    if useful.is_unknown { row.wall_s.0 } else { useful.thread_s }
}

/// The part of the wall time of the node's ranks that was in MPI, as the mean of their threads; 0
/// where they have none.
fn share_of_wall(row: &NodeRow) -> f64 {
    if row.wall_s.0 > 0.0 { row.mpi_s.0 / thread_s(row) } else { 0.0 }
}

/// Mean, least and most in a sentence.
fn spread(nodes: &[&NodeRow]) -> String {
    let least = nodes.iter().min_by(|left, right| {
        left.mpi_min_s.0.total_cmp(&right.mpi_min_s.0).then(left.mpi_min_rank.cmp(&right.mpi_min_rank))
    });
    let most = nodes.iter().max_by(|left, right| {
        left.mpi_max_s.0.total_cmp(&right.mpi_max_s.0).then(right.mpi_max_rank.cmp(&left.mpi_max_rank))
    });
    let (Some(least), Some(most)) = (least, most) else { return String::new() };
    let ranks: u64 = nodes.iter().map(|row| row.ranks).sum();
    let mean_s = nodes.iter().map(|row| row.mpi_s.0).sum::<f64>() / ranks.max(1) as f64;
    format!(
        "MPI time over {ranks} ranks: mean {}, least {} (rank {}), most {} (rank {}).\n",
        time(mean_s),
        time(least.mpi_min_s.0),
        least.mpi_min_rank,
        time(most.mpi_max_s.0),
        most.mpi_max_rank,
    )
}

/// The ranks with most calls and bytes, which sums over ranks have.
fn most_of_all(profile: &Profile) -> Result<String> {
    let mut text = String::new();
    // The row that is about everything.
    for row in profile.rows::<SpreadRow>()? {
        let row = row?;
        if row.comm.is_empty() && row.call.is_empty() {
            text += &format!(
                "Most calls: {} (rank {}). Most bytes: {} (rank {}).\n",
                row.calls_max, row.calls_max_rank, row.bytes_max, row.bytes_max_rank
            );
        }
    }
    Ok(text)
}
