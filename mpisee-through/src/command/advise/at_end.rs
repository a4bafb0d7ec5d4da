//! The rule about ranks that come to `MPI_Finalize` long before the last ones.

use super::cause::Caused;
use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::finalize::{CERTAIN_S, Last};
use crate::units::{count, time};
use mpisee_profile::run::WITHOUT_MPI;
use std::collections::BTreeSet;

/// The least share of the run that ranks wait in `MPI_Finalize`, where those who come last are few,
/// and where they are not.
const NAMED_OF_RUN: f64 = 0.02;
const UNNAMED_OF_RUN: f64 = 0.05;

/// Waiting in `MPI_Finalize`. It is about the whole run, whichever ranks and communicators are
/// chosen.
pub fn rule(facts: &Facts<'_>) -> Option<Caused> {
    let processes = facts.processes;
    let (runtime_s, ranks) = (processes.wall_max_s(), processes.count());
    // Processes without MPI end without waiting for each other.
    if facts.is_interrupted || facts.is_a_part() || ranks < 2 || facts.library == WITHOUT_MPI {
        return None;
    }
    let cost_s = processes.early_s();
    let last = Last::from_ranks(processes.ranks());
    let least = if last.is_some() { NAMED_OF_RUN } else { UNNAMED_OF_RUN };
    if facts.share_of_run(cost_s) < least || cost_s < CERTAIN_S * ranks as f64 {
        return None;
    }
    let spread = format!(
        "The longest rank takes {} from MPI_Init to MPI_Finalize. The mean over {} is {}.",
        time(runtime_s),
        count(ranks, "rank"),
        time(processes.wall_s() / ranks as f64)
    );
    let finding = Finding {
        rule: "finalize",
        about: "MPI_Finalize".to_owned(),
        cost_s,
        what: match &last {
            Some(last) => format!("Other ranks wait in MPI_Finalize for {}.", last.text()),
            None => "Ranks enter MPI_Finalize at different times.".to_owned(),
        },
        evidence: match &last {
            Some(last) => format!(
                "Measured by wall times: {} caused {:.0} % of the wait. {spread}",
                last.text(),
                100.0 * last.share
            ),
            None => format!(
                "Measured by wall times: no small group of ranks caused most of the wait, and some ranks \
                 come early. {spread}"
            ),
        },
        threshold: format!(
            "{} of the run if half of the ranks or fewer caused 80 % of the wait, else {}; and a mean wait \
             of {} per rank",
            percent(NAMED_OF_RUN),
            percent(UNNAMED_OF_RUN),
            time(CERTAIN_S)
        ),
        advice: "The cause of the delay is not measured. Compare the work of ranks after the last common \
                 call, such as output. Divide this work among more ranks."
            .to_owned(),
    };
    let ranks = last.map_or_else(BTreeSet::new, |last| last.ranks.into_iter().collect());
    Some(Caused { finding, ranks, parts_s: [0.0; 2], sources: BTreeSet::new() })
}
