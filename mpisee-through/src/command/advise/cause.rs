//! One finding per cause: findings that name the same ranks, or whose ranks only pass on what
//! others cause, become one.

use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::units::time;
use std::collections::BTreeSet;

/// The rules of messages that go through one rank, of uneven work, and of ranks who wait for each
/// other.
pub const THROUGH_ONE_RANK: &str = "through-one-rank";
pub const UNEVEN_WORK: &str = "uneven-work";
pub const WAITING: &str = "waiting";

/// The advice where ranks may pass waiting on to each other.
pub const CIRCLE: &str = "These ranks may be late because of each other, so the cause may be with any of them. \
                          Compare the work of each before these calls with that of other ranks.";

/// A finding with its cause.
pub struct Caused {
    pub finding: Finding,
    /// The ranks that are the cause; empty where none is known.
    pub ranks: BTreeSet<u32>,
    /// The time that it explains in calls of collectives, and in calls for messages and for
    /// requests, on the communicators that it is about, in seconds.
    pub parts_s: [f64; 2],
    /// Communicators, as findings are about them, on which these ranks waited themselves for so
    /// long that they may be late because of that.
    pub sources: BTreeSet<String>,
}

impl Caused {
    /// Returns whether both have the same ranks as their cause. That messages go through a rank
    /// says nothing of other communicators.
    fn is_of_same(&self, other: &Caused) -> bool {
        let is_of_one_comm = [self, other].iter().any(|one| one.finding.rule == THROUGH_ONE_RANK);
        !self.ranks.is_empty()
            && self.ranks == other.ranks
            && (!is_of_one_comm || self.finding.about == other.finding.about)
    }

    /// The order in which one of them stands for the others: the more specific rule first.
    fn order(&self) -> u8 {
        match self.finding.rule {
            THROUGH_ONE_RANK => 0,
            WAITING => 1,
            _ => 2,
        }
    }

    /// Adds one with the same cause.
    fn absorb(&mut self, other: Caused, facts: &Facts<'_>) {
        self.absorb_as("Another finding has the same cause", other, facts);
    }

    fn absorb_as(&mut self, why: &str, other: Caused, facts: &Facts<'_>) {
        let (own, more) = (&mut self.finding, other.finding);
        own.evidence += &format!(
            " {why}: {} ({}, {} of the run). {}",
            more.what.trim_end_matches('.'),
            time(more.cost_s),
            percent(facts.share_of_run(more.cost_s)),
            more.evidence
        );
        // Messages through one rank take the time in which others wait for it, too, and so does its
        // work.
        own.cost_s = match own.about == more.about || [own.rule, more.rule].contains(&UNEVEN_WORK) {
            true => own.cost_s.max(more.cost_s),
            false => own.cost_s + more.cost_s,
        };
    }
}

/// The findings, one per cause.
pub fn merge(mut all: Vec<Caused>, facts: &Facts<'_>) -> Vec<Finding> {
    all.sort_by(|one, other| {
        let cost = other.finding.cost_s.total_cmp(&one.finding.cost_s);
        one.order().cmp(&other.order()).then(cost)
    });
    let mut causes: Vec<Caused> = Vec::new();
    for one in all {
        match causes.iter_mut().find(|known| known.is_of_same(&one)) {
            Some(known) => known.absorb(one, facts),
            None => causes.push(one),
        }
    }
    let roots: Vec<usize> = (0..causes.len()).map(|at| root(&causes, at)).collect();
    let is_circle: Vec<bool> = (0..causes.len()).map(|at| is_in_circle(&causes, at)).collect();
    let mut all: Vec<Option<Caused>> = causes.into_iter().map(Some).collect();
    for (at, &root) in roots.iter().enumerate().filter(|&(at, &root)| at != root) {
        let passed_on = all[at].take();
        match (&mut all[root], passed_on) {
            (Some(root), Some(passed_on)) if is_circle[at] => {
                root.absorb_as(
                    "Another finding may be a cause of this one, and this one of it",
                    passed_on,
                    facts,
                );
                root.finding.advice = CIRCLE.to_owned();
            }
            (Some(root), Some(passed_on)) => root.absorb(passed_on, facts),
            _ => {}
        }
    }
    all.into_iter().flatten().map(|one| one.finding).collect()
}

/// The cause that one passes on. Where no rank is named, those for whom it waited are no cause.
fn source(causes: &[Caused], at: usize) -> Option<usize> {
    let is_source =
        |other: &Caused| !other.ranks.is_empty() && causes[at].sources.contains(&other.finding.about);
    (0..causes.len()).find(|&other| other != at && is_source(&causes[other]))
}

/// Returns whether the sources of a cause, one after the other, lead back to it.
fn is_in_circle(causes: &[Caused], at: usize) -> bool {
    let sources = std::iter::successors(source(causes, at), |&next| source(causes, next));
    sources.take(causes.len()).any(|next| next == at)
}

/// The cause that others, one after the other, only pass on; of a circle of them the first.
fn root(causes: &[Caused], at: usize) -> usize {
    let mut way = vec![at];
    while let Some(&last) = way.last() {
        let Some(source) = source(causes, last) else { return last };
        match way.iter().position(|&it| it == source) {
            // What leads into a circle is no part of it.
            Some(begin) => return way[begin..].iter().copied().min().unwrap_or(at),
            None => way.push(source),
        }
    }
    at
}
