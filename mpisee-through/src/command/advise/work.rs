//! The time of ranks outside of MPI: their work, and whatever else they do there.

use super::facts::Facts;
use crate::units::time;
use crate::useful::Useful;
use mpisee_profile::rows::RankRow;
use std::collections::BTreeSet;

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
    ranks: BTreeSet<u32>,
    /// The mean time outside of MPI, all of it and without what they may have waited for a core there, in seconds.
    own_s: [f64; 2],
    /// The same time of the others, in seconds, and their number.
    others_s: f64,
    others: usize,
}

impl Beside {
    /// The others are those `among` which they are. `None` if the time is not known, or there are no others.
    pub fn of(facts: &Facts<'_>, ranks: BTreeSet<u32>, among: &BTreeSet<u32>) -> Option<Beside> {
        let rows = facts.processes.ranks().iter().filter(|row| among.contains(&row.rank));
        let (own, others): (Vec<&RankRow>, Vec<&RankRow>) = rows.partition(|row| ranks.contains(&row.rank));
        let mean = |rows: &[&RankRow], which: usize| {
            rows.iter().map(|row| outside(row)[which]).sum::<f64>() / rows.len() as f64
        };
        let (own_s, others_s) = ([mean(&own, 0), mean(&own, 1)], mean(&others, 0));
        let is_known = is_known(facts) && !own.is_empty() && !others.is_empty();
        is_known.then_some(Beside { ranks, own_s, others_s, others: others.len() })
    }

    /// Returns whether they have so much more to do that it explains most of the others' waiting of `waiting_s`.
    pub fn explains(&self, waiting_s: f64) -> bool {
        (self.own_s[1] - self.others_s) * self.others as f64 >= EXPLAINS * waiting_s
    }

    /// `Outside of MPI rank 3 spends 2.5 s, the others 400 ms on average.` Where these ranks waited for a core, whether there or in MPI
    /// is unknown.
    pub fn sentence(&self) -> String {
        let mut ranks = self.ranks.iter();
        let who = match (ranks.next(), ranks.next()) {
            (Some(rank), None) => format!("rank {rank} spends"),
            _ => "these ranks spend".to_owned(),
        };
        let [all_s, least_s] = self.own_s;
        let own = match all_s > (1.0 + SLIGHT) * least_s {
            true => format!("{} to {} (less if waits for a core were there)", time(least_s), time(all_s)),
            false => time(all_s),
        };
        format!("Outside of MPI {who} {own}, the others {} on average.", time(self.others_s))
    }
}
