//! The profiler's own part of the ranks' time.

use mpisee_profile::rows::RankRow;
use serde::Serialize;

/// A rank is named if recording took this many times as long of it as on average.
const NAMED_FROM: f64 = 2.0;

/// The rank of which recording took most time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MostOfRank {
    /// Its rank in the world.
    pub rank: u32,
    /// The best estimate, in seconds.
    pub time_s: f64,
    /// The same by its wall time, from 0 to 1.
    pub share_of_wall: f64,
}

/// The rank of which recording took most; none without rows of ranks.
pub fn most(ranks: &[RankRow]) -> Option<MostOfRank> {
    let row = ranks.iter().max_by(|one, other| one.profiler_s.0.total_cmp(&other.profiler_s.0))?;
    let share_of_wall = if row.wall_s.0 > 0.0 { row.profiler_s.0 / row.wall_s.0 } else { 0.0 };
    Some(MostOfRank { rank: row.rank, time_s: row.profiler_s.0, share_of_wall })
}

/// The same, where it is much more than the mean: the whole run may wait for that rank.
pub fn uneven(ranks: &[RankRow]) -> Option<MostOfRank> {
    let mean_s = ranks.iter().map(|row| row.profiler_s.0).sum::<f64>() / ranks.len().max(1) as f64;
    most(ranks).filter(|most| ranks.len() > 1 && most.time_s >= NAMED_FROM * mean_s && most.time_s > 0.0)
}

/// The time of recording by the time in which ranks had a core, from 0 to 1; none where that time
/// is not known.
pub fn share_of_core_time(ranks: &[RankRow]) -> Option<f64> {
    let with_core_s = |row: &RankRow| row.cpu_wait_s.map(|wait_s| (row.wall_s.0 - wait_s.0).max(0.0));
    let all_s: f64 = ranks.iter().map(with_core_s).sum::<Option<f64>>()?;
    let profiler_s: f64 = ranks.iter().map(|row| row.profiler_s.0).sum();
    (all_s > 0.0).then(|| (profiler_s / all_s).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Seconds;

    fn rank(rank: u32, profiler_s: f64, cpu_wait_s: Option<f64>) -> RankRow {
        let cpu_wait_s = cpu_wait_s.map(Seconds);
        RankRow {
            rank,
            wall_s: Seconds(8.0),
            profiler_s: Seconds(profiler_s),
            cpu_wait_s,
            ..RankRow::default()
        }
    }

    #[test]
    fn the_rank_that_pays_is_named_if_it_pays_much_more_than_others() {
        let paying = [rank(0, 0.25, None), rank(1, 2.0, None), rank(2, 0.25, None)];
        assert_eq!(uneven(&paying), Some(MostOfRank { rank: 1, time_s: 2.0, share_of_wall: 0.25 }));
        assert_eq!(uneven(&[rank(0, 1.0, None), rank(1, 1.5, None)]), None);
        assert_eq!(uneven(&[rank(0, 1.0, None)]), None);
        assert_eq!(uneven(&[rank(0, 0.0, None), rank(1, 0.0, None)]), None);
    }

    #[test]
    fn of_ranks_that_share_cores_the_time_with_a_core_counts() {
        let shared = [rank(0, 1.0, Some(6.0)), rank(1, 0.5, Some(7.0))];
        assert_eq!(share_of_core_time(&shared), Some(0.5));
        assert_eq!(share_of_core_time(&[rank(0, 1.0, None)]), None);
    }
}
