//! The time of ranks outside of MPI: their work, and whatever else they do there.

use super::facts::Facts;
use crate::units::time;
use crate::useful::Useful;
use mpisee_profile::rows::RankRow;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks have enough more to do to explain what others wait for them if it is this part of that.
const EXPLAINS: f64 = 0.5;
/// Waits for a core are not mentioned below this part of the time.
pub const SLIGHT: f64 = 0.02;

/// The time of a rank outside of MPI, in seconds, as the mean of its threads: all of it, and
/// without what it may have waited for a core.
pub fn outside(row: &RankRow) -> [f64; 2] {
    let useful = Useful::of_rank(row);
    [useful.outside_max_s, useful.on_core_or_outside()[1].low]
}

/// Returns whether the time outside of MPI is known of all ranks.
pub fn is_known(facts: &Facts<'_>) -> bool {
    !facts.is_interrupted && !facts.view.run().recording_was_off && facts.processes.ranks().len() > 1
}

/// Some ranks beside others.
pub struct Beside {
    /// By rank, the time outside of MPI, all of it and without what it may have waited for a core
    /// there, in seconds.
    own_s: BTreeMap<u32, [f64; 2]>,
    /// The mean of the others, all of it, in seconds, and their number.
    others_s: f64,
    others: usize,
}

impl Beside {
    /// The others are those `among` which they are. `None` if the time is not known, or there are
    /// no others.
    pub fn compare(facts: &Facts<'_>, ranks: &BTreeSet<u32>, among: &BTreeSet<u32>) -> Option<Beside> {
        let rows = facts.processes.ranks().iter().filter(|row| among.contains(&row.rank));
        let (own, others): (Vec<&RankRow>, Vec<&RankRow>) = rows.partition(|row| ranks.contains(&row.rank));
        let is_known = is_known(facts) && !own.is_empty() && !others.is_empty();
        is_known.then(|| Beside {
            own_s: own.iter().map(|row| (row.rank, outside(row))).collect(),
            others_s: others.iter().map(|row| outside(row)[0]).sum::<f64>() / others.len() as f64,
            others: others.len(),
        })
    }

    /// The ranks that have so much more to do that it explains most of the others' waiting of
    /// `waiting_s`; none if none has.
    pub fn explaining(&self, waiting_s: f64) -> BTreeSet<u32> {
        let more_s = |[_, least_s]: &[f64; 2]| least_s - self.others_s;
        let most_s = self.own_s.values().map(more_s).fold(0.0, f64::max);
        if most_s * (self.others as f64) < EXPLAINS * waiting_s {
            return BTreeSet::new();
        }
        let explain = self.own_s.iter().filter(|(_, own_s)| more_s(own_s) >= EXPLAINS * most_s);
        explain.map(|(&rank, _)| rank).collect()
    }

    /// `Rank 3 spends 2.50 s outside of MPI, the others 400 ms on average.` If ranks waited for a
    /// core, it is unknown whether the wait was outside of MPI or in it.
    pub fn sentence(&self) -> String {
        let by_time = |one: &(&u32, &[f64; 2]), other: &(&u32, &[f64; 2])| one.1[0].total_cmp(&other.1[0]);
        let (least, most) = (self.own_s.iter().min_by(by_time), self.own_s.iter().max_by(by_time));
        let (Some((_, [_, least_s])), Some((rank, [most_s, _]))) = (least, most) else {
            return String::new();
        };
        let may_be_less = self.own_s.values().any(|[all_s, least_s]| *all_s > (1.0 + SLIGHT) * least_s);
        let less = if may_be_less { " (less if this includes waits for a core)" } else { "" };
        let range = match *most_s > (1.0 + SLIGHT) * least_s {
            true => format!("{} to {}{less}", time(*least_s), time(*most_s)),
            false => time(*most_s),
        };
        let own = match self.own_s.len() {
            1 => format!("Rank {rank} spends {range} outside of MPI,"),
            _ => format!("These ranks spend {range} outside of MPI, rank {rank} the most;"),
        };
        format!("{own} the others {} on average.", time(self.others_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(own_s: &[(u32, f64)]) -> Beside {
        let own_s = own_s.iter().map(|&(rank, time_s)| (rank, [time_s; 2])).collect();
        Beside { own_s, others_s: 0.5, others: 2 }
    }

    #[test]
    fn a_rank_that_passes_waits_on_has_no_part_in_the_explanation() {
        let one_of_two = beside(&[(0, 0.001), (2, 1.5)]);
        assert_eq!(one_of_two.explaining(2.0), BTreeSet::from([2]));
        assert!(one_of_two.explaining(4.1).is_empty(), "half of it is not explained");
        assert_eq!(beside(&[(0, 1.2), (2, 1.5)]).explaining(2.0), BTreeSet::from([0, 2]));
    }

    #[test]
    fn the_range_of_several_ranks_is_said() {
        let said = beside(&[(0, 0.001), (2, 1.5)]).sentence();
        let expected = "These ranks spend 1.00 ms to 1.50 s outside of MPI, rank 2 the most; the others 500 \
                        ms on average.";
        assert_eq!(said, expected);
    }
}
