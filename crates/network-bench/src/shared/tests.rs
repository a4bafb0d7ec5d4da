//! Tests of the handshakes, by threads in place of ranks.

use super::{Handshake, Layout, PAGE, SLOT_BYTES, check_nodes};
use crate::backend::Backend;
use crate::pattern::{Message, Pattern, Step};
use crate::provenance::{after, fill, first_wrong};
use crate::schedule::{Action, schedule};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const RANKS: u32 = 3;

fn step(backend: Backend, messages: &[(u32, u32, u64, u64, u64)]) -> Step {
    let message = |&(source, destination, bytes, source_offset, destination_offset)| Message {
        source,
        destination,
        bytes,
        source_offset,
        destination_offset,
        times: 1,
    };
    let messages = messages.iter().map(message).collect();
    Step { name: "one".to_owned(), backend, messages, ..Step::default() }
}

/// The segments of all ranks.
struct Segments {
    layout: Layout,
    slots: Vec<Vec<AtomicU64>>,
    arenas: Vec<Vec<AtomicU8>>,
}

impl Segments {
    fn new(pattern: &Pattern) -> Option<Segments> {
        let layout = Layout::from_pattern(pattern, RANKS, Backend::Shared)?;
        let slots = (0..RANKS).map(|rank| (0..layout.arena(rank) / SLOT_BYTES).map(|_| AtomicU64::new(0)));
        let arena = |rank: u32| (0..pattern.arena(rank)).map(|_| AtomicU8::new(0)).collect();
        Some(Segments {
            slots: slots.map(Iterator::collect).collect(),
            arenas: (0..RANKS).map(arena).collect(),
            layout,
        })
    }

    fn fill(&self) {
        for (rank, arena) in self.arenas.iter().enumerate() {
            let mut bytes = vec![0; arena.len()];
            fill(&mut bytes, rank as u32);
            arena.iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
        }
    }

    fn contents(&self, rank: usize) -> Vec<u8> {
        self.arenas[rank].iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
    }

    fn handshake(&self, step: usize, message: usize, destination: u32, run: u64) -> Handshake<'_> {
        let place = self.layout.slot(step, message) / SLOT_BYTES;
        Handshake::new(&self.slots[destination as usize][place as usize], run)
    }

    fn copy(&self, message: &Message) {
        let from = &self.arenas[message.source as usize][message.source_offset as usize..];
        let to = &self.arenas[message.destination as usize][message.destination_offset as usize..];
        for (from, to) in from.iter().zip(to).take(message.bytes as usize) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// One rank's part in a run: as often as a rank is an end of a message it announces, and then
    /// completes it.
    fn run(&self, pattern: &Pattern, rank: u32, run: u64) {
        for action in schedule(pattern, rank) {
            let (Action::Start(step) | Action::Complete(step) | Action::Wait(step)) = action;
            for (at, message) in pattern.steps[step].messages.iter().enumerate() {
                let ends = [message.source, message.destination].into_iter().filter(|&end| end == rank);
                let handshake = self.handshake(step, at, message.destination, run);
                for _ in ends {
                    match action {
                        Action::Start(_) => handshake.announce(),
                        Action::Complete(_) => unreachable!("nobody puts or gets"),
                        Action::Wait(_) => {
                            while !handshake.complete(|| self.copy(message)) {
                                std::thread::yield_now();
                            }
                        }
                    }
                }
                // Whoever announces last may copy at once.
                if message.source == rank || message.destination == rank {
                    handshake.complete(|| self.copy(message));
                }
            }
        }
    }
}

/// Steps of messages with small offsets, of which those that conflict within their step are left
/// out.
fn patterns() -> impl Strategy<Value = Pattern> {
    let message = (0..RANKS, 0..RANKS, 0..12_u64, 0..24_u64, 0..24_u64);
    let steps = prop::collection::vec(prop::collection::vec(message, 0..6), 1..5);
    steps.prop_map(|steps| {
        let kept = |messages: Vec<_>| {
            let mut kept = Vec::new();
            for message in messages {
                kept.push(message);
                if Pattern::from_steps(vec![step(Backend::Shared, &kept)]).check(RANKS).is_err() {
                    kept.pop();
                }
            }
            step(Backend::Shared, &kept)
        };
        Pattern::from_steps(steps.into_iter().map(kept).collect())
    })
}

proptest! {
    /// Threads that run a pattern several times, as ranks do, leave the bytes that a run on its own
    /// leaves.
    #[test]
    fn threads_leave_the_expected_bytes_and_none_hangs(pattern in patterns()) {
        let Some(segments) = Segments::new(&pattern) else { return Ok(()) };
        for round in 0..3 {
            segments.fill();
            std::thread::scope(|scope| {
                for rank in 0..RANKS {
                    let (segments, pattern) = (&segments, &pattern);
                    scope.spawn(move || segments.run(pattern, rank, round));
                }
            });
            for (rank, expected) in after(&pattern, RANKS).iter().enumerate() {
                prop_assert_eq!(first_wrong(&segments.contents(rank), expected), None, "{}", pattern);
            }
        }
    }
}

#[test]
fn one_rank_copies_and_only_after_both_have_started() {
    let slot = AtomicU64::new(0);
    let copies = AtomicU64::new(0);
    let copy = || {
        copies.fetch_add(1, Ordering::Relaxed);
    };
    for run in 0..3 {
        let handshake = Handshake::new(&slot, run);
        assert!(!handshake.complete(copy), "nobody has started");
        handshake.announce();
        assert!(!handshake.complete(copy), "the other one has not started");
        handshake.announce();
        assert!(handshake.complete(copy) && handshake.complete(copy));
        assert_eq!(copies.load(Ordering::Relaxed), run + 1);
    }
}

#[test]
fn a_rank_that_is_in_the_next_run_already_does_not_hold_up_the_other() {
    let slot = AtomicU64::new(0);
    let first = Handshake::new(&slot, 0);
    first.announce();
    first.announce();
    assert!(first.complete(|| ()));
    Handshake::new(&slot, 1).announce();
    assert!(first.complete(|| panic!("it was copied")));
    assert!(!Handshake::new(&slot, 1).complete(|| panic!("one rank has started")));
}

#[test]
fn slots_are_in_the_segments_of_the_destinations() {
    let pattern = Pattern::from_steps(vec![
        step(Backend::Shared, &[(0, 1, 8, 0, 0), (0, 2, 8, 0, 0), (2, 1, 8, 0, 8)]),
        step(Backend::Isend, &[(1, 0, 8, 0, 100)]),
        step(Backend::Shared, &[(0, 1, 8, 0, 16)]),
    ]);
    let layout = Layout::from_pattern(&pattern, 3, Backend::Shared).unwrap();
    let slots = [(0, 0), (0, 1), (0, 2), (2, 0)].map(|(step, message)| layout.slot(step, message));
    assert_eq!(slots, [0, 0, SLOT_BYTES, 2 * SLOT_BYTES]);
    assert_eq!([0, 1, 2].map(|rank| layout.arena(rank)), [0, PAGE, PAGE]);
    assert_eq!([0, 1, 2].map(|rank| layout.segment_bytes(rank)), [108, PAGE + 24, PAGE + 8]);
    let put = Pattern::from_steps(vec![step(Backend::Put, &[(0, 1, 8, 0, 0)])]);
    assert_eq!(Layout::from_pattern(&put, 2, Backend::Shared), None);
    // The arenas of GPUs are in their own memory.
    let of_gpus = Pattern::from_steps(vec![step(Backend::Ipc, &[(0, 1, 8, 0, 0)])]);
    let layout = Layout::from_pattern(&of_gpus, 2, Backend::Ipc).unwrap();
    assert_eq!([0, 1].map(|rank| layout.segment_bytes(rank)), [0, PAGE]);
    assert_eq!(Layout::from_pattern(&of_gpus, 2, Backend::Shared), None);
}

#[test]
fn messages_between_nodes_are_refused_with_their_step() {
    let pattern = Pattern::from_steps(vec![
        step(Backend::Isend, &[(0, 2, 8, 0, 0)]),
        step(Backend::Shared, &[(0, 1, 8, 0, 0)]),
    ]);
    assert_eq!(check_nodes(&pattern, Backend::Shared, &[0, 0, 2]), Ok(()));
    let said = check_nodes(&pattern, Backend::Shared, &[0, 1, 1]).unwrap_err();
    assert!(
        said.starts_with("in step one, ranks 0 and 1 are on two nodes, which share no memory;"),
        "{said}"
    );
    assert_eq!(check_nodes(&pattern, Backend::Ipc, &[0, 1, 1]), Ok(()));
}
