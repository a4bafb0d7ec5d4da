//! What one rank does in which order: it starts each step as soon as the data allow.
//!
//! A rank waits for a step of its own only where a later one touches the same bytes of its arena, and at the end; there is
//! no barrier between steps. This cannot hang: the first step that anybody waits for was started by everybody who has a part in
//! it, since these only wait for earlier ones before.

use crate::pattern::Pattern;

/// Something that a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the messages of a step, and carry out its collective operation.
    Start(usize),
    /// Wait for the messages of a step.
    Wait(usize),
}

/// The actions of one rank.
pub fn schedule(pattern: &Pattern, rank: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut pending: Vec<usize> = Vec::new();
    for (number, step) in pattern.steps.iter().enumerate().filter(|(_, step)| step.concerns(rank)) {
        pending.retain(|&earlier| {
            let is_independent = pattern.steps[earlier].is_independent_of(step, rank);
            if !is_independent {
                actions.push(Action::Wait(earlier));
            }
            is_independent
        });
        actions.push(Action::Start(number));
        pending.push(number);
    }
    actions.extend(pending.into_iter().map(Action::Wait));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Message, Step};
    use Action::{Start, Wait};

    fn step(messages: &[(u32, u32, u64, u64)]) -> Step {
        let message = |&(source, destination, from, to): &(u32, u32, u64, u64)| Message {
            source,
            destination,
            bytes: 8,
            source_offset: from,
            destination_offset: to,
            times: 1,
        };
        Step { messages: messages.iter().map(message).collect(), ..Step::default() }
    }

    #[test]
    fn a_rank_waits_only_for_what_a_later_step_touches() {
        // 0 sends two stripes; 1 passes the first on, 2 the second.
        let pattern = Pattern::of(vec![
            step(&[(0, 1, 0, 0), (0, 2, 8, 0)]),
            step(&[(1, 3, 0, 0)]),
            step(&[(2, 3, 0, 8)]),
        ]);
        assert_eq!(schedule(&pattern, 0), [Start(0), Wait(0)]);
        assert_eq!(schedule(&pattern, 1), [Start(0), Wait(0), Start(1), Wait(1)]);
        assert_eq!(schedule(&pattern, 3), [Start(1), Start(2), Wait(1), Wait(2)]);
    }

    #[test]
    fn a_read_is_waited_for_before_it_is_overwritten() {
        let pattern = Pattern::of(vec![step(&[(0, 1, 0, 0)]), step(&[(2, 0, 0, 0)])]);
        assert_eq!(schedule(&pattern, 0), [Start(0), Wait(0), Start(1), Wait(1)]);
        let elsewhere = Pattern::of(vec![step(&[(0, 1, 0, 0)]), step(&[(2, 0, 0, 64)])]);
        assert_eq!(schedule(&elsewhere, 0), [Start(0), Start(1), Wait(0), Wait(1)]);
    }
}
