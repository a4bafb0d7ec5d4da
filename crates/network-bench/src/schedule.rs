//! The order of one rank's actions: it starts each step as soon as the data allow.
//!
//! A rank waits for a step of its own only where a later one touches the same bytes of its arena,
//! and at the end; there is no barrier between steps. With `put` and `get`, others wait for a rank,
//! too: `MPI_Win_wait` of a target returns when the origins have called `MPI_Win_complete`. So a
//! rank completes the accesses that it has under way before it does anything for a later step that
//! may block: `MPI_Win_start`, which may wait for the targets' posts, a collective operation, or
//! waiting.
//!
//! This cannot hang. Say that all ranks which have something left to do are blocked, and take the
//! earliest step t for which one is. It needs of another rank q either that q begins t (posts,
//! starts a message, comes to the collective), or that q completes its accesses of t. Before q
//! begins t, it does nothing but what belongs to earlier steps, so it would be blocked for one of
//! these, against the choice of t; having begun t, it has posted and started its messages, which
//! does not block, before anything of t that does. And if the accesses of t are still to be
//! completed, q is not blocked for a later step, before which it would have completed them; for t
//! itself it is blocked by `MPI_Win_start` or a collective operation at the most, that is, by ranks
//! which have still to begin t, which the first case rules out.

use crate::backend::Backend;
use crate::pattern::{Pattern, Step};

/// Something that a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the messages of a step, and carry out its collective operation.
    Start(usize),
    /// Complete what this rank puts or gets in a step, without waiting for what others do.
    Complete(usize),
    /// Wait for the messages of a step; what this rank puts or gets in it is completed first, if it
    /// is not yet.
    Wait(usize),
}

/// Returns whether the rank accesses the memory of others in a step, so that their wait needs its
/// completion.
fn accesses(step: &Step, rank: u32) -> bool {
    step.messages.iter().any(|message| match step.backend {
        Backend::Put => message.source == rank,
        Backend::Get => message.destination == rank,
        _ => false,
    })
}

/// The actions of one rank, as they are put together.
#[derive(Default)]
struct Schedule {
    actions: Vec<Action>,
    /// Steps that were started and not waited for, ascending.
    pending: Vec<usize>,
    /// The steps among them with accesses that were not completed, ascending.
    open: Vec<usize>,
}

impl Schedule {
    /// Completes the accesses of all steps before one for which the rank may block.
    fn complete_before(&mut self, step: usize) {
        let later = self.open.partition_point(|&open| open < step);
        self.actions.extend(self.open.drain(..later).map(Action::Complete));
    }

    fn wait(&mut self, step: usize) {
        self.complete_before(step);
        self.open.retain(|&open| open != step);
        self.actions.push(Action::Wait(step));
    }
}

/// The actions of one rank.
pub fn schedule(pattern: &Pattern, rank: u32) -> Vec<Action> {
    let mut schedule = Schedule::default();
    for (number, step) in pattern.steps.iter().enumerate().filter(|(_, step)| step.concerns(rank)) {
        for earlier in std::mem::take(&mut schedule.pending) {
            match pattern.steps[earlier].is_independent_of(step, rank) {
                true => schedule.pending.push(earlier),
                false => schedule.wait(earlier),
            }
        }
        let accesses = accesses(step, rank);
        if accesses || step.collective_of(rank).is_some() {
            schedule.complete_before(number);
        }
        schedule.actions.push(Action::Start(number));
        schedule.pending.push(number);
        if accesses {
            schedule.open.push(number);
        }
    }
    for step in std::mem::take(&mut schedule.pending) {
        schedule.wait(step);
    }
    schedule.actions
}

#[cfg(test)]
mod tests;
