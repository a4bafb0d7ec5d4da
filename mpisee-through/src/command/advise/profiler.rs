//! The rule about runs of which the profiler itself took much.

use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::own_cost;
use crate::units::time;
use mpisee_profile::rows::RankRow;

/// The least part of a rank's wall time.
const OF_WALL: f64 = 0.1;
/// The least time, over all ranks: in a short run a few calls are much.
const LEAST_S: f64 = 0.1;

/// The finding, where recording took much of some rank.
pub fn rule(facts: &Facts<'_>) -> Option<Finding> {
    let chosen = facts.processes.ranks().iter().filter(|row| facts.takes_rank(row.rank));
    let ranks: Vec<RankRow> = chosen.cloned().collect();
    let most = own_cost::most(&ranks).filter(|most| most.share_of_wall >= OF_WALL)?;
    let all_s: f64 = ranks.iter().map(|row| row.profiler_s.0).sum();
    (all_s >= LEAST_S).then(|| Finding {
        rule: "profiler",
        about: format!("rank {}", most.rank),
        cost_s: all_s,
        what: format!(
            "The profiler itself took about {} of the wall time of rank {}.",
            percent(most.share_of_wall),
            most.rank
        ),
        evidence: format!(
            "Measured in a sample of calls: {} of rank {}, {} of all ranks. The profiler makes short calls \
             longer by this time. Ranks that wait for this rank wait longer, too.",
            time(most.time_s),
            most.rank,
            time(all_s)
        ),
        threshold: format!("{} of a rank's wall time, and {}", percent(OF_WALL), time(LEAST_S)),
        advice:
            "Trust the counts, and the times of long calls. Find the most frequent calls (mpisee-through \
             ops). Record only a part of the run: --record off and mpisee-through record, or MPI_Pcontrol(0) \
             and MPI_Pcontrol(1)."
                .to_owned(),
    })
}
