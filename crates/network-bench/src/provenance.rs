//! The arenas after a pattern: for each byte, whose byte of which offset it was before.

use crate::pattern::{Pattern, Span};
use std::collections::BTreeMap;

/// Where bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The rank whose arena had them first.
    pub rank: u32,
    /// Where they began in it.
    pub offset: u64,
}

/// The origins of all bytes of an arena, as pieces that were moved together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// By where a piece begins: where it ends, and the origin of its first byte.
    pieces: BTreeMap<u64, (u64, Origin)>,
}

impl Arena {
    /// An arena of `bytes` that are all its own.
    fn for_rank(rank: u32, bytes: u64) -> Self {
        let own = (bytes, Origin { rank, offset: 0 });
        Arena { pieces: (bytes > 0).then_some((0, own)).into_iter().collect() }
    }

    /// The pieces: begin, end, and the origin of the first byte.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, Origin)> {
        self.pieces.iter().map(|(&begin, &(end, origin))| (begin, end, origin))
    }

    /// The pieces within a span, with their offset in it.
    fn read(&self, span: Span) -> Vec<(Span, Origin)> {
        let first = self.pieces.range(..=span.0).next_back().map_or(span.0, |(&begin, _)| begin);
        let within = self.pieces.range(first..span.1).filter(|(_, (end, _))| *end > span.0);
        let cut = |(&begin, &(end, origin)): (&u64, &(u64, Origin))| {
            let (from, to) = (begin.max(span.0), end.min(span.1));
            let origin = Origin { offset: origin.offset + (from - begin), ..origin };
            ((from - span.0, to - span.0), origin)
        };
        within.map(cut).filter(|((from, to), _)| from < to).collect()
    }

    /// Puts pieces at an offset in place of what was there.
    fn write(&mut self, offset: u64, bytes: u64, pieces: &[(Span, Origin)]) {
        self.split(offset);
        self.split(offset + bytes);
        let replaced: Vec<u64> = self.pieces.range(offset..offset + bytes).map(|(&begin, _)| begin).collect();
        for begin in replaced {
            self.pieces.remove(&begin);
        }
        for &((from, to), origin) in pieces {
            self.pieces.insert(offset + from, (offset + to, origin));
        }
    }

    /// Makes a piece begin at an offset.
    fn split(&mut self, at: u64) {
        let Some((&begin, &(end, origin))) = self.pieces.range(..at).next_back() else { return };
        if end > at {
            self.pieces.insert(begin, (at, origin));
            self.pieces.insert(at, (end, Origin { offset: origin.offset + (at - begin), ..origin }));
        }
    }
}

/// The arenas of all ranks after one run of a pattern that [`Pattern::check`] accepts.
pub fn after(pattern: &Pattern, ranks: u32) -> Vec<Arena> {
    let mut arenas: Vec<Arena> = (0..ranks).map(|rank| Arena::for_rank(rank, pattern.arena(rank))).collect();
    for step in &pattern.steps {
        let moved = step.messages.iter().filter(|it| it.bytes > 0);
        let moved: Vec<_> = moved.map(|it| (it, arenas[it.source as usize].read(it.source_span()))).collect();
        for (message, pieces) in moved {
            let arena = &mut arenas[message.destination as usize];
            arena.write(message.destination_offset, message.bytes, &pieces);
        }
    }
    arenas
}

/// The byte that a rank's arena has at an offset before the pattern runs. Neighbouring bytes, and
/// the same offsets of neighbouring ranks, differ without a period that a mix-up could hide in.
pub fn byte(rank: u32, offset: u64) -> u8 {
    let mut mixed = offset ^ (u64::from(rank) << 40);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 56) as u8
}

/// Fills an arena with what it has before the pattern runs.
pub fn fill(arena: &mut [u8], rank: u32) {
    for (offset, place) in arena.iter_mut().enumerate() {
        *place = byte(rank, offset as u64);
    }
}

/// The first offset at which an arena has another byte than it should have after the pattern.
pub fn first_wrong(arena: &[u8], expected: &Arena) -> Option<u64> {
    expected.pieces().find_map(|(begin, end, origin)| {
        let wrong = |&at: &u64| arena[at as usize] != byte(origin.rank, origin.offset + (at - begin));
        (begin..end).find(wrong)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Message, Step};
    use crate::schedule::{Action, schedule};
    use proptest::prelude::*;

    const RANKS: u32 = 4;

    /// Steps of messages with small offsets, of which those that conflict within their step are
    /// left out.
    fn patterns() -> impl Strategy<Value = Pattern> {
        let message = (0..RANKS, 0..RANKS, 0..12_u64, 0..24_u64, 0..24_u64).prop_map(
            |(source, destination, bytes, source_offset, destination_offset)| Message {
                source,
                destination,
                bytes,
                source_offset,
                destination_offset,
                times: 1,
            },
        );
        let steps = prop::collection::vec(prop::collection::vec(message, 0..6), 1..5);
        steps.prop_map(|steps| {
            let kept = |messages: Vec<Message>| {
                messages.into_iter().fold(Step::default(), |mut step, message| {
                    step.messages.push(message);
                    if Pattern::from_steps(vec![step.clone()]).check(RANKS).is_err() {
                        step.messages.pop();
                    }
                    step
                })
            };
            Pattern::from_steps(steps.into_iter().map(kept).collect())
        })
    }

    /// Where a rank is in its schedule, and which messages have arrived.
    struct Run<'p> {
        pattern: &'p Pattern,
        actions: Vec<Vec<Action>>,
        next: Vec<usize>,
        started: Vec<Vec<bool>>,
        done: Vec<Vec<bool>>,
        arenas: Vec<Vec<u8>>,
    }

    /// Something that may happen next.
    type Event<'p> = Box<dyn FnOnce(&mut Run<'p>)>;

    impl<'p> Run<'p> {
        fn new(pattern: &'p Pattern) -> Self {
            let arenas = (0..RANKS).map(|rank| {
                let mut arena = vec![0; pattern.arena(rank) as usize];
                fill(&mut arena, rank);
                arena
            });
            let steps = pattern.steps.len();
            Run {
                pattern,
                actions: (0..RANKS).map(|rank| schedule(pattern, rank)).collect(),
                next: vec![0; RANKS as usize],
                started: vec![vec![false; steps]; RANKS as usize],
                done: pattern.steps.iter().map(|step| vec![false; step.messages.len()]).collect(),
                arenas: arenas.collect(),
            }
        }

        /// Something that can be done now, of which `choice` picks one; false if there is nothing.
        fn advance(&mut self, choice: usize) -> bool {
            let mut possible: Vec<Event<'p>> = Vec::new();
            for rank in 0..RANKS as usize {
                match self.actions[rank].get(self.next[rank]).copied() {
                    Some(Action::Start(step)) => possible.push(Box::new(move |run: &mut Run<'p>| {
                        run.started[rank][step] = true;
                        run.next[rank] += 1;
                    })),
                    Some(Action::Complete(_)) => {
                        possible.push(Box::new(move |run: &mut Run<'p>| run.next[rank] += 1));
                    }
                    Some(Action::Wait(step)) if self.is_complete(rank as u32, step) => {
                        possible.push(Box::new(move |run: &mut Run<'p>| run.next[rank] += 1));
                    }
                    _ => {}
                }
            }
            for (number, step) in self.pattern.steps.iter().enumerate() {
                for (at, message) in step.messages.iter().enumerate() {
                    let both = [message.source, message.destination];
                    let begun = both.iter().all(|&rank| self.started[rank as usize][number]);
                    if begun && !self.done[number][at] {
                        let message = *message;
                        possible.push(Box::new(move |run: &mut Run<'p>| run.carry_out(number, at, message)));
                    }
                }
            }
            let count = possible.len();
            match possible.into_iter().nth(choice % count.max(1)) {
                Some(act) => {
                    act(self);
                    true
                }
                None => false,
            }
        }

        fn is_complete(&self, rank: u32, step: usize) -> bool {
            let messages = self.pattern.steps[step].messages.iter().zip(&self.done[step]);
            messages.filter(|(it, _)| it.source == rank || it.destination == rank).all(|(_, &done)| done)
        }

        fn carry_out(&mut self, step: usize, at: usize, message: Message) {
            let (from, to) = message.source_span();
            let bytes = self.arenas[message.source as usize][from as usize..to as usize].to_vec();
            let (from, to) = message.destination_span();
            self.arenas[message.destination as usize][from as usize..to as usize].copy_from_slice(&bytes);
            self.done[step][at] = true;
        }
    }

    proptest! {
        /// Whatever comes first where the schedule leaves it open, the arenas are the same, and no
        /// rank waits for ever.
        #[test]
        fn every_order_of_events_leaves_the_expected_bytes(
            pattern in patterns(),
            choices in prop::collection::vec(any::<usize>(), 200),
        ) {
            let mut run = Run::new(&pattern);
            let mut choices = choices.into_iter().cycle();
            while run.advance(choices.next().unwrap()) {}
            for (rank, actions) in run.actions.iter().enumerate() {
                prop_assert_eq!(run.next[rank], actions.len(), "rank {} hangs in\n{}", rank, pattern);
            }
            for (arena, expected) in run.arenas.iter().zip(after(&pattern, RANKS)) {
                prop_assert_eq!(first_wrong(arena, &expected), None, "{}", pattern);
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let message = Message {
            source: 0,
            destination: 1,
            bytes: 64,
            source_offset: 0,
            destination_offset: 8,
            times: 1,
        };
        let pattern = Pattern::from_steps(vec![Step { messages: vec![message], ..Step::default() }]);
        let expected = &after(&pattern, 2)[1];
        let mut arena = vec![0; 72];
        fill(&mut arena, 1);
        assert_eq!(first_wrong(&arena, expected), Some(8));
        (0..64).for_each(|at| arena[8 + at] = byte(0, at as u64));
        assert_eq!(first_wrong(&arena, expected), None);
        arena[40] ^= 1;
        assert_eq!(first_wrong(&arena, expected), Some(40));
    }
}
