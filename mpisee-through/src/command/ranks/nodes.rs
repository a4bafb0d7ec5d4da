//! `ranks` of an aggregate profile: a row for each node.

use super::{RanksArgs, SortKey};
use crate::command::Outcome;
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::units::time;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::Profile;
use mpisee_profile::rows::{NodeRow, Row, SpreadRow};

const HEADS: [Head; 10] = [
    sheet::fixed("host", "HOST"),
    sheet::number("ranks", "RANKS"),
    sheet::fixed("members", "PROCS").or_none(),
    sheet::number("wall_max_s", "Wall"),
    sheet::number("mpi_mean_s", "MPI mean"),
    sheet::number("share_of_wall", "% of wall"),
    sheet::number("mpi_min_s", "Min"),
    sheet::number("mpi_min_rank", "of rank").or_none(),
    sheet::number("mpi_max_s", "Max"),
    sheet::number("mpi_max_rank", "of rank").or_none(),
];

/// As [`super::run`].
pub fn run(args: &RanksArgs, view: &ProfileView, nodes: &[NodeRow]) -> Result<Outcome> {
    if args.filter.is_on() {
        let missing = "what single ranks did on a part of the communicators or operations";
        return Err(view.unanswerable(missing).into());
    }
    if matches!(args.sort, SortKey::Volume | SortKey::Calls) {
        return Err(view.unanswerable("the volume and calls of single ranks").into());
    }
    let mut nodes: Vec<&NodeRow> = nodes.iter().collect();
    let mean_s = |row: &NodeRow| row.mpi_s.0 / row.ranks.max(1) as f64;
    let first = |row: &NodeRow| row.wall_max_rank.min(row.mpi_min_rank).min(row.mpi_max_rank);
    nodes.sort_by(|left, right| {
        let order = match args.sort {
            SortKey::Wait => share_of_wall(right).total_cmp(&share_of_wall(left)),
            SortKey::Rank => std::cmp::Ordering::Equal,
            SortKey::Time | SortKey::Volume | SortKey::Calls => {
                right.mpi_max_s.0.total_cmp(&left.mpi_max_s.0)
            }
        };
        order.then_with(|| first(left).cmp(&first(right)))
    });
    let mut rows = nodes
        .iter()
        .map(|row| {
            let share =
                if row.wall_s.0 > 0.0 { Value::Share(row.mpi_s.0 / row.wall_s.0) } else { Value::Nothing };
            vec![
                row.host.as_str().into(),
                Value::Count(row.ranks),
                Value::Text(row.members.to_string()),
                Value::Seconds(row.wall_max_s.0),
                Value::Seconds(mean_s(row)),
                share,
                Value::Seconds(row.mpi_min_s.0),
                Value::Count(row.mpi_min_rank.into()),
                Value::Seconds(row.mpi_max_s.0),
                Value::Count(row.mpi_max_rank.into()),
            ]
        })
        .collect();
    let closing = args.shown.cut(&args.output, &mut rows, "There is no node in the profile.");
    let mut answer = Answer::new(view.profile(), Sheet { name: "nodes", heads: HEADS.to_vec(), rows }, None);
    answer.lead = spread(&nodes, view.profile())?;
    answer.closing = closing;
    answer.write(&args.output)
}

/// The part of the wall time of the node's ranks that was in MPI; 0 where they have none.
fn share_of_wall(row: &NodeRow) -> f64 {
    if row.wall_s.0 > 0.0 { row.mpi_s.0 / row.wall_s.0 } else { 0.0 }
}

/// Mean, least and most in sentences.
fn spread(nodes: &[&NodeRow], profile: &Profile) -> Result<String> {
    let least = nodes.iter().min_by(|left, right| {
        left.mpi_min_s.0.total_cmp(&right.mpi_min_s.0).then(left.mpi_min_rank.cmp(&right.mpi_min_rank))
    });
    let most = nodes.iter().max_by(|left, right| {
        left.mpi_max_s.0.total_cmp(&right.mpi_max_s.0).then(right.mpi_max_rank.cmp(&left.mpi_max_rank))
    });
    let (Some(least), Some(most)) = (least, most) else { return Ok(String::new()) };
    let ranks: u64 = nodes.iter().map(|row| row.ranks).sum();
    let mean_s = nodes.iter().map(|row| row.mpi_s.0).sum::<f64>() / ranks.max(1) as f64;
    let mut text = format!(
        "MPI time over {ranks} ranks: mean {}, least {} (rank {}), most {} (rank {}).\n",
        time(mean_s),
        time(least.mpi_min_s.0),
        least.mpi_min_rank,
        time(most.mpi_max_s.0),
        most.mpi_max_rank,
    );
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
    text += &format!("The rows of {} are over the ranks of a node.\n", NodeRow::FILE);
    Ok(text)
}
