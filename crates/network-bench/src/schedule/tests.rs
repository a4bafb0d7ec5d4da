//! The order of actions, and that no order of events in which they may happen leaves a rank waiting
//! for ever.

use super::*;
use crate::collective::Collective;
use crate::pattern::{CollectiveCall, Message};
use Action::{Complete, Start, Wait};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn message(&(source, destination, from, to): &(u32, u32, u64, u64)) -> Message {
    Message { source, destination, bytes: 8, source_offset: from, destination_offset: to, times: 1 }
}

fn step(messages: &[(u32, u32, u64, u64)]) -> Step {
    step_by(Backend::Isend, messages)
}

fn step_by(backend: Backend, messages: &[(u32, u32, u64, u64)]) -> Step {
    Step { backend, messages: messages.iter().map(message).collect(), ..Step::default() }
}

#[test]
fn a_rank_waits_only_for_what_a_later_step_touches() {
    // 0 sends two stripes; 1 passes the first on, 2 the second.
    let pattern = Pattern::from_steps(vec![
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
    let pattern = Pattern::from_steps(vec![step(&[(0, 1, 0, 0)]), step(&[(2, 0, 0, 0)])]);
    assert_eq!(schedule(&pattern, 0), [Start(0), Wait(0), Start(1), Wait(1)]);
    let elsewhere = Pattern::from_steps(vec![step(&[(0, 1, 0, 0)]), step(&[(2, 0, 0, 64)])]);
    assert_eq!(schedule(&elsewhere, 0), [Start(0), Start(1), Wait(0), Wait(1)]);
}

/// A pipeline: 1 passes the first part on while it gets the second.
fn pipeline(backend: Backend) -> Pattern {
    Pattern::from_steps(vec![
        step_by(backend, &[(0, 1, 0, 0)]),
        step_by(backend, &[(0, 1, 8, 8), (1, 2, 0, 0)]),
    ])
}

#[test]
fn accesses_are_completed_before_a_later_step_may_block() {
    let put = pipeline(Backend::Put);
    assert_eq!(schedule(&put, 0), [Start(0), Complete(0), Start(1), Wait(0), Wait(1)]);
    assert_eq!(schedule(&put, 1), [Start(0), Wait(0), Start(1), Wait(1)]);
    let get = pipeline(Backend::Get);
    assert_eq!(schedule(&get, 0), [Start(0), Start(1), Wait(0), Wait(1)]);
    // What does not block may begin meanwhile; what does may not, be it a wait or a collective
    // operation.
    let mut mixed = pipeline(Backend::Isend);
    mixed.steps[0].backend = Backend::Put;
    assert_eq!(schedule(&mixed, 0), [Start(0), Start(1), Wait(0), Wait(1)]);
    mixed.steps.push(step(&[(2, 0, 0, 8)]));
    assert_eq!(schedule(&mixed, 0), [Start(0), Start(1), Complete(0), Wait(1), Start(2), Wait(0), Wait(2)]);
}

const RANKS: u32 = 4;

/// Steps of all backends of MPI and of shared memory, some with a collective operation; messages
/// that conflict within their step are left out.
fn patterns() -> impl Strategy<Value = Pattern> {
    let backends = [Backend::Isend, Backend::Persistent, Backend::Put, Backend::Get, Backend::Shared];
    let message = (0..RANKS, 0..RANKS, 0..24_u64, 0..24_u64);
    let members = prop::collection::btree_set(0..RANKS, 0..3);
    let step = (0..backends.len(), prop::collection::vec(message, 0..5), members);
    prop::collection::vec(step, 1..7).prop_map(move |steps| {
        let of = |(backend, messages, members): (usize, Vec<_>, BTreeSet<u32>)| {
            let mut step = Step { backend: backends[backend], ..Step::default() };
            if !members.is_empty() {
                step.collectives.push(CollectiveCall {
                    collective: Collective::Barrier,
                    members: members.into_iter().collect(),
                    bytes: 0,
                    root: 0,
                });
            }
            for it in &messages {
                step.messages.push(self::message(it));
                if Pattern::from_steps(vec![step.clone()]).check(RANKS).is_err() {
                    step.messages.pop();
                }
            }
            step
        };
        Pattern::from_steps(steps.into_iter().map(of).collect())
    })
}

/// The progress of a rank in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Done {
    /// Its memory is open to others, and its messages that do not block are under way.
    posted: bool,
    /// It has come to the collective operation.
    came: bool,
    /// Its own puts or gets are completed.
    completed: bool,
}

/// An action of a rank, in parts each of which happens at once or blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Post(usize),
    /// `MPI_Win_start`, where it blocks.
    Access(usize),
    Come(usize),
    Collect(usize),
    Complete(usize),
    Wait(usize),
}

fn parts(actions: &[Action]) -> Vec<Part> {
    let of = |&action: &Action| match action {
        Start(step) => vec![Part::Post(step), Part::Access(step), Part::Come(step), Part::Collect(step)],
        Complete(step) => vec![Part::Complete(step)],
        Wait(step) => vec![Part::Complete(step), Part::Wait(step)],
    };
    actions.iter().flat_map(of).collect()
}

/// Returns whether everything blocks as long as the standard lets it, and all ranks come to their
/// ends all the same. What blocks is blocked until other ranks have done something, and nothing is
/// undone, so that no order of events matters.
fn ends(pattern: &Pattern, schedule: impl Fn(&Pattern, u32) -> Vec<Action>) -> bool {
    let parts: Vec<Vec<Part>> = (0..RANKS).map(|rank| parts(&schedule(pattern, rank))).collect();
    let mut next = vec![0; RANKS as usize];
    let mut done = vec![vec![Done::default(); pattern.steps.len()]; RANKS as usize];
    loop {
        let before = next.clone();
        for rank in 0..RANKS {
            let at = rank as usize;
            while let Some(&part) = parts[at].get(next[at]) {
                let is_blocked = is_blocked(pattern, &done, rank, part);
                if is_blocked {
                    break;
                }
                match part {
                    Part::Post(step) => done[at][step].posted = true,
                    Part::Come(step) => done[at][step].came = true,
                    Part::Complete(step) => done[at][step].completed = true,
                    Part::Access(_) | Part::Collect(_) | Part::Wait(_) => {}
                }
                next[at] += 1;
            }
        }
        if next == before {
            return (0..RANKS as usize).all(|rank| next[rank] == parts[rank].len());
        }
    }
}

fn is_blocked(pattern: &Pattern, done: &[Vec<Done>], rank: u32, part: Part) -> bool {
    let all = |number: usize, is_done: &dyn Fn(Done) -> bool, accessed: bool| {
        let step = &pattern.steps[number];
        let mut peers = step.messages.iter().filter_map(|it| match (step.backend, accessed) {
            (Backend::Put, true) | (Backend::Get, false) => (it.source == rank).then_some(it.destination),
            (Backend::Get, true) | (Backend::Put, false) => (it.destination == rank).then_some(it.source),
            _ if it.source == rank => Some(it.destination),
            _ => (it.destination == rank).then_some(it.source),
        });
        peers.all(|peer| is_done(done[peer as usize][number]))
    };
    let is_one_sided = |step: usize| matches!(pattern.steps[step].backend, Backend::Put | Backend::Get);
    match part {
        Part::Post(_) | Part::Come(_) => false,
        Part::Access(step) | Part::Complete(step) => is_one_sided(step) && !all(step, &|it| it.posted, true),
        Part::Collect(step) => pattern.steps[step]
            .collective_of(rank)
            .is_some_and(|call| !call.members.iter().all(|&member| done[member as usize][step].came)),
        // The target of an access waits for its completion, the ends of other messages for their
        // begin.
        Part::Wait(step) if is_one_sided(step) => !all(step, &|it| it.completed, false),
        Part::Wait(step) => !all(step, &|it| it.posted, true),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_rank_waits_for_ever(pattern in patterns()) {
        prop_assert!(ends(&pattern, schedule), "{}", pattern);
    }
}

/// The model hangs where MPI does: with accesses that are completed only when the rank itself waits
/// for the step.
#[test]
fn the_model_hangs_without_completions() {
    let without = |pattern: &Pattern, rank| {
        let actions = schedule(pattern, rank);
        actions.into_iter().filter(|it| !matches!(it, Complete(_))).collect()
    };
    let put = pipeline(Backend::Put);
    assert!(ends(&put, schedule) && !ends(&put, without));
    // The origin waits for messages of a later step.
    let mut mixed = pipeline(Backend::Isend);
    mixed.steps[0].backend = Backend::Put;
    mixed.steps.push(step(&[(2, 0, 0, 8)]));
    assert!(ends(&mixed, schedule) && !ends(&mixed, without));
    assert!(ends(&pipeline(Backend::Get), schedule) && ends(&pipeline(Backend::Isend), without));
}
