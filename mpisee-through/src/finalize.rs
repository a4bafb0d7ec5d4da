//! Who comes last to `MPI_Finalize`, by the wall times of ranks.
//!
//! A rank's wall time ends where it enters `MPI_Finalize`, and begins where it left `MPI_Init`,
//! from which ranks return at about the same time: how much earlier one comes than the last is the
//! difference of their wall times.

use mpisee_profile::RankSet;
use mpisee_profile::rows::RankRow;

/// Together, the ranks that are named caused this part of the waiting at least.
const NAMED_FROM: f64 = 0.8;

/// From here on a mean wait, in seconds, is more than the times at which ranks return from
/// `MPI_Init` explain.
pub const CERTAIN_S: f64 = 0.02;

/// The ranks for which the others wait in `MPI_Finalize`.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// Ascending.
    pub ranks: Vec<u32>,
    /// The part of the waiting that they caused.
    pub share: f64,
}

impl Last {
    /// The fewest ranks, up to half of all, that caused four fifths of the waiting together; none
    /// if it takes more, since then it is rather the others that came early, and where the wait is
    /// too short to tell. While several are missing, each causes an equal part of the wait.
    pub fn from_ranks(ranks: &[RankRow]) -> Option<Self> {
        let mut caused: Vec<(f64, u32)> = caused(ranks);
        let whole_s: f64 = caused.iter().map(|(caused_s, _)| caused_s).sum();
        caused.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let (mut sum_s, mut named) = (0.0, Vec::new());
        for &(caused_s, rank) in caused.iter().take(ranks.len() / 2) {
            sum_s += caused_s;
            named.push(rank);
            if sum_s >= NAMED_FROM * whole_s && whole_s >= CERTAIN_S * ranks.len() as f64 {
                named.sort_unstable();
                return Some(Last { ranks: named, share: sum_s / whole_s });
            }
        }
        None
    }

    /// `rank 3`, `ranks 3, 5-7`.
    pub fn text(&self) -> String {
        let ranks = self.set().to_string().replace(',', ", ");
        if self.ranks.len() == 1 { format!("rank {ranks}") } else { format!("ranks {ranks}") }
    }

    /// The ranks as a set.
    pub fn set(&self) -> RankSet {
        self.ranks.iter().copied().collect()
    }
}

/// How long others waited for each rank, in seconds.
fn caused(ranks: &[RankRow]) -> Vec<(f64, u32)> {
    let mut order: Vec<&RankRow> = ranks.iter().collect();
    order.sort_by(|one, other| one.wall_s.0.total_cmp(&other.wall_s.0));
    let (mut caused_s, mut before_s) = (0.0, order.first().map_or(0.0, |row| row.wall_s.0));
    let mut all = Vec::with_capacity(order.len());
    for (place, row) in order.iter().enumerate() {
        // Up to here as many as have come wait for as many as are missing.
        caused_s += (row.wall_s.0 - before_s) * place as f64 / (order.len() - place) as f64;
        before_s = row.wall_s.0;
        all.push((caused_s, row.rank));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Seconds;

    fn ranks(wall_s: &[f64]) -> Vec<RankRow> {
        let row =
            |(rank, &wall_s): (u32, &f64)| RankRow { rank, wall_s: Seconds(wall_s), ..RankRow::default() };
        (0..).zip(wall_s).map(row).collect()
    }

    #[test]
    fn those_who_come_last_are_named_if_they_are_few() {
        let last = Last::from_ranks(&ranks(&[8.0, 10.0, 8.0, 8.0])).unwrap();
        assert_eq!((last.ranks, last.share), (vec![1], 1.0));
        // Up to 8 s one waits for three, up to 10 s two wait for two.
        let last = Last::from_ranks(&ranks(&[10.0, 8.0, 10.0, 7.7])).unwrap();
        assert_eq!(last.text(), "ranks 0, 2");
        assert!((last.share - (0.3 * 2.0 / 3.0 + 4.0) / 4.3).abs() < 1e-9, "{}", last.share);
        assert_eq!(Last::from_ranks(&ranks(&[10.0, 10.0, 8.0, 10.0])), None, "one came early");
        assert_eq!(Last::from_ranks(&ranks(&[10.0; 4])), None);
        assert_eq!(Last::from_ranks(&[]), None);
        assert!(Last::from_ranks(&ranks(&[8.0, 8.05, 8.0, 8.0])).is_some_and(|last| last.ranks == [1]));
        assert_eq!(
            Last::from_ranks(&ranks(&[8.0, 8.02, 8.0, 8.0])),
            None,
            "ranks may have begun at other times"
        );
    }

    #[test]
    fn ranks_cause_what_others_wait() {
        let all = ranks(&[3.0, 1.0, 4.0, 1.5, 5.0]);
        let caused_s: f64 = caused(&all).iter().map(|(caused_s, _)| caused_s).sum();
        let waited_s: f64 = all.iter().map(|row| 5.0 - row.wall_s.0).sum();
        assert!((caused_s - waited_s).abs() < 1e-12, "{caused_s} {waited_s}");
    }
}
