//! The rule about ranks that are outside of MPI for longer than the others.

use super::cause::{Caused, UNEVEN_WORK};
use super::facts::Facts;
use super::finding::{Finding, percent};
use super::work::{self, SLIGHT, outside};
use crate::units::{count, time};
use mpisee_profile::rows::RankRow;
use mpisee_profile::run::WITHOUT_MPI;
use std::collections::BTreeSet;

/// Load balance below this is uneven.
const BALANCE: f64 = 0.8;
/// Ranks with this part of the most work have as much.
const AS_MUCH: f64 = 0.9;
/// The least share of the run in which the others have no work.
const LOST_OF_RUN: f64 = 0.05;

/// Uneven work. It is about the whole run, whichever communicators are chosen; nobody is named who
/// may only have lacked a core. Without MPI all of the time is outside of it, and says nothing of
/// work.
pub fn rule(facts: &Facts<'_>) -> Option<Caused> {
    let rows = facts.processes.ranks();
    if facts.is_a_part() || facts.library == WITHOUT_MPI || !work::is_known(facts) {
        return None;
    }
    let most = rows.iter().max_by(|one, other| outside(one)[1].total_cmp(&outside(other)[1]))?;
    let [most_s, least_s] = outside(most);
    // The most even that it can have been.
    let [_, balance] = facts.processes.useful().balance_ends()?;
    let even_s = balance * least_s;
    let cost_s: f64 = rows.iter().map(|row| (least_s - outside(row)[0]).max(0.0)).sum();
    if balance.is_nan() || balance >= BALANCE || facts.share_of_run(cost_s) < LOST_OF_RUN {
        return None;
    }
    let shortest_s = rows.iter().map(|row| outside(row)[0]).fold(f64::INFINITY, f64::min);
    let waited_for_core = most_s > (1.0 + SLIGHT) * least_s;
    let or_more = if waited_for_core { " or more" } else { "" };
    let finding = Finding {
        rule: UNEVEN_WORK,
        about: "(run)".to_owned(),
        cost_s,
        what: format!("Work is uneven: rank {} has the most.", most.rank),
        evidence: format!(
            "Measured: rank {} is outside of MPI for {}{or_more}. The mean over {} is {}, the least {}. The \
             load balance is {:.0} %{}.",
            most.rank,
            time(least_s),
            count(rows.len() as u64, "rank"),
            time(even_s),
            time(shortest_s),
            100.0 * balance,
            if waited_for_core { " at most, because this rank also waited for a core" } else { "" }
        ),
        threshold: format!(
            "load balance below {} and {} of the run in which the others have less to do",
            percent(BALANCE),
            percent(LOST_OF_RUN)
        ),
        advice: "Divide the work anew. Time outside of MPI may also be input, output or a slower system. \
                 mpisee-through ranks and efficiency show each rank and region."
            .to_owned(),
    };
    let has_as_much = |row: &&RankRow| outside(row)[1] >= AS_MUCH * least_s;
    let ranks = rows.iter().filter(has_as_much).map(|row| row.rank).collect();
    Some(Caused { finding, ranks, parts_s: [0.0; 2], sources: BTreeSet::new() })
}
