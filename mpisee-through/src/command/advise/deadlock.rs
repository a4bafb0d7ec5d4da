//! The rule about ranks that waited for each other when they ended.

use super::facts::Facts;
use super::finding::Finding;
use crate::interrupted;
use mpisee_profile::run::EndedDeadlock;

/// The rule's name.
pub const RULE: &str = "deadlock";

/// The deadlocks that `recover` proved from the last calls of ranks, whichever ranks and
/// communicators are chosen.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let deadlocks = &facts.view.run().deadlocks;
    let finding = |(sentence, deadlock): (String, &EndedDeadlock)| Finding {
        rule: RULE,
        about: deadlock.cycle.first().and_then(|one| one.comm.clone()).unwrap_or_default(),
        cost_s: 0.0,
        what: format!("Deadlock: {sentence}."),
        evidence: "Proved from the last call of each rank, and from the messages sent and received before. \
                   Each rank was inside of MPI and waited for the next rank. No message for a waiting rank \
                   was on its way."
            .to_owned(),
        threshold: "every wait of the cycle is proved".to_owned(),
        advice: "Let one of these ranks make its call earlier or in another order. For exchanges, use \
                 MPI_Sendrecv, or post MPI_Irecv before sending. All members must make the collective calls \
                 of a communicator in the same order."
            .to_owned(),
    };
    interrupted::deadlocks(facts.view).into_iter().zip(deadlocks).map(finding).collect()
}
