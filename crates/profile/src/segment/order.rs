//! The order of what each thread counts.
//!
//! A [`Step`] is one change of a counter, or the completion of a request. A thread numbers its
//! steps in the order in which it first takes them; the log has each, see
//! [`super::log::Record::Step`]. The sequence of these numbers is in chunks of the kind
//! [`super::layout::ORDER`]: what was compressed last ([`Part::Compressed`]), and the steps since
//! then ([`Part::Recent`]). So a process that is killed leaves its whole order.
//!
//! How long steps took, and the time between them, is kept for each pair of a step and the one
//! before ([`Edge`]).

use super::SlotKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// One change of a counter, or the completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    /// Its kind.
    pub kind: StepKind,
    /// The tag of a message; [`NO_TAG`] where there is none or it is not known, and [`MANY_TAGS`].
    pub tag: i32,
    /// The slot that it changes; of a completion, the slot of the call that started the request.
    pub key: SlotKey,
    /// The bytes.
    pub bytes: u64,
}

/// Not the tag of any message.
pub const NO_TAG: i32 = -1;
/// In place of the tags of steps that differ by their tags alone, of which there are many.
pub const MANY_TAGS: i32 = -2;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StepKind {
    /// A call, with the bytes that this process contributes.
    Call = 1,
    /// A call is taken back that was counted before its message was known.
    TakenBack = 2,
    /// Bytes of a call that was counted before, modulo 2^64.
    Bytes = 3,
    /// A message that was sent.
    Sent = 4,
    /// A message that was cancelled.
    Unsent = 5,
    /// A message that was received.
    Received = 6,
    /// See [`crate::rows::Access::Put`].
    Put = 7,
    /// See [`crate::rows::Access::Get`].
    Get = 8,
    /// See [`crate::rows::Access::Accumulate`].
    Accumulate = 9,
    /// The next call completes a request that was started by a call under this key.
    Completed = 10,
    /// Recording was switched on again.
    SwitchedOn = 11,
    /// A call that was taken back is counted in the class of the message that came.
    CountedAnew = 12,
    /// The call before has this root.
    Root = 13,
}

impl StepKind {
    /// All kinds.
    pub const ALL: [StepKind; 13] = [
        StepKind::Call,
        StepKind::TakenBack,
        StepKind::Bytes,
        StepKind::Sent,
        StepKind::Unsent,
        StepKind::Received,
        StepKind::Put,
        StepKind::Get,
        StepKind::Accumulate,
        StepKind::Completed,
        StepKind::SwitchedOn,
        StepKind::CountedAnew,
        StepKind::Root,
    ];

    fn from_number(number: u64) -> Option<StepKind> {
        StepKind::ALL.into_iter().find(|&kind| kind as u64 == number)
    }
}

/// Words of a step.
pub const STEP_WORDS: usize = 3;

impl Step {
    /// As words: kind and, from bit 32 on, tag; key; bytes.
    pub fn words(&self) -> [u64; STEP_WORDS] {
        [self.kind as u64 | u64::from(self.tag.cast_unsigned()) << 32, self.key.0, self.bytes]
    }

    /// The step with these words; `None` of words that no writer makes.
    pub fn from_words([first, key, bytes]: [u64; STEP_WORDS]) -> Option<Step> {
        let tag = ((first >> 32) as u32).cast_signed();
        Some(Step {
            kind: StepKind::from_number(first & u64::from(u32::MAX))?,
            tag,
            key: SlotKey(key),
            bytes,
        })
    }
}

/// Threads whose order can be kept.
pub const MOST_THREADS: u32 = 1 << 16;

/// The part of a thread's order that a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// The last steps, see [`recent`].
    Recent = 0,
    /// One of two places for the steps up to some moment, compressed: their number, then bytes, of
    /// which [`ChunkHeader::used`](super::layout::ChunkHeader::used) says how many.
    Compressed = 1,
    /// The other.
    CompressedToo = 2,
    /// The [`Edge`]s.
    Edges = 3,
    /// One word: the number of steps that are missing after the others.
    Lost = 4,
}

impl Part {
    const ALL: [Part; 5] = [Part::Recent, Part::Compressed, Part::CompressedToo, Part::Edges, Part::Lost];
}

impl Part {
    /// The word by which the chunk of a thread's part is known.
    pub fn key(self, thread: u32) -> u64 {
        u64::from(thread) << 8 | self as u64
    }

    fn from_key(key: u64) -> Option<(u32, Part)> {
        let part = *Part::ALL.get(usize::try_from(key & 0xff).ok()?)?;
        Some((u32::try_from(key >> 8).ok()?, part))
    }
}

/// Words of [`Part::Recent`].
pub mod recent {
    /// The number of all steps so far.
    pub const STEPS: usize = 0;
    /// The first of the last steps: that with number N is at N modulo the number of words from here
    /// on.
    pub const FIRST: usize = 1;
}

/// Classes of durations.
pub const CLASSES: usize = 16;
/// The upper bound of the first class in nanoseconds; each further one is four times as large.
pub const FIRST_CLASS_NS: u64 = 64;

/// The class of a duration.
pub fn duration_class(ns: u64) -> usize {
    let bits = u64::BITS - ns.leading_zeros();
    ((bits.saturating_sub(FIRST_CLASS_NS.ilog2()) as usize).div_ceil(2)).min(CLASSES - 1)
}

/// Durations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Their sum in ticks.
    pub ticks: u64,
    /// The sum of their squares in ticks.
    pub squares: u128,
    /// How many there are of each class.
    pub classes: [u32; CLASSES],
}

/// A step that followed another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// The number of the step of the call before; [`NO_STEP`] of the first call.
    pub previous: u32,
    /// The number of the step.
    pub step: u32,
    /// How often.
    pub count: u64,
    /// From the end of the call before to the begin of this one.
    pub between: Durations,
    /// From the begin of the call to its end.
    pub during: Durations,
}

/// No step comes before.
pub const NO_STEP: u32 = u32::MAX;

/// Words of [`Durations`]: the sum, the sum of squares in two, the lower first, and two classes in
/// each of the others.
const DURATION_WORDS: usize = 3 + CLASSES / 2;
/// Words of an edge: the step before and the step, the count, then the durations between and
/// during.
pub const EDGE_WORDS: usize = 2 + 2 * DURATION_WORDS;

/// Adds a call to the words of its edge, which this thread alone writes: `between` and `during` are
/// durations in ticks and in nanoseconds.
pub fn add_to_edge(words: &[AtomicU64; EDGE_WORDS], between: [u64; 2], during: [u64; 2]) {
    let change = |word: usize, new: &dyn Fn(u64) -> u64| {
        words[word].store(new(words[word].load(Ordering::Relaxed)), Ordering::Relaxed);
    };
    change(1, &|count| count.wrapping_add(1));
    for (first, [ticks, ns]) in [(2, between), (2 + DURATION_WORDS, during)] {
        change(first, &|sum| sum.wrapping_add(ticks));
        let square = u128::from(ticks) * u128::from(ticks);
        let (low, carried) = words[first + 1].load(Ordering::Relaxed).overflowing_add(square as u64);
        words[first + 1].store(low, Ordering::Relaxed);
        let high = (square >> 64) as u64 + u64::from(carried);
        if high > 0 {
            change(first + 2, &|sum| sum.wrapping_add(high));
        }
        let class = duration_class(ns);
        let one = 1 << (class % 2 * 32);
        change(first + 3 + class / 2, &|counts| counts.wrapping_add(one));
    }
}

impl Edge {
    /// As words.
    pub fn words(&self) -> [u64; EDGE_WORDS] {
        let mut words = [0; EDGE_WORDS];
        words[0] = u64::from(self.previous) << 32 | u64::from(self.step);
        words[1] = self.count;
        let (between, during) = words[2..].split_at_mut((EDGE_WORDS - 2) / 2);
        for (to, durations) in [(between, &self.between), (during, &self.during)] {
            to[..3].copy_from_slice(&[
                durations.ticks,
                durations.squares as u64,
                (durations.squares >> 64) as u64,
            ]);
            for (word, pair) in to[3..].iter_mut().zip(durations.classes.chunks(2)) {
                *word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
            }
        }
        words
    }

    /// The edge with these words.
    pub fn from_words(words: &[u64; EDGE_WORDS]) -> Edge {
        let durations = |from: &[u64]| Durations {
            ticks: from[0],
            squares: u128::from(from[1]) | u128::from(from[2]) << 64,
            classes: std::array::from_fn(|class| (from[3 + class / 2] >> (class % 2 * 32)) as u32),
        };
        let (between, during) = words[2..].split_at((EDGE_WORDS - 2) / 2);
        Edge {
            previous: (words[0] >> 32) as u32,
            step: words[0] as u32,
            count: words[1],
            between: durations(between),
            during: durations(during),
        }
    }
}

/// The order of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadOrder {
    /// The steps, by their numbers.
    pub steps: Vec<Step>,
    /// The first steps, compressed.
    pub compressed: Vec<u8>,
    /// The steps after these.
    pub recent: Vec<u32>,
    /// The number of all steps.
    pub length: u64,
    /// The number of further steps, for which there was no room.
    pub lost: u64,
    /// Which steps followed each other.
    pub edges: Vec<Edge>,
}

/// The orders of threads, by their numbers, as far as they are read.
#[derive(Debug, Default)]
pub struct Orders {
    threads: BTreeMap<u32, Vec<Step>>,
    chunks: BTreeMap<(u32, Part), (u64, Vec<u64>)>,
}

impl Orders {
    /// Adds a step of a thread.
    pub fn add_step(&mut self, thread: u32, step: Step) {
        self.threads.entry(thread).or_default().push(step);
    }

    /// Adds a chunk, of which so much is used. One that took the place of another comes later.
    pub fn add_chunk(&mut self, key: u64, used: u64, words: Vec<u64>) {
        if used > 0
            && let Some(part) = Part::from_key(key)
        {
            self.chunks.insert(part, (used, words));
        }
    }

    /// The orders; of a thread whose parts do not fit together, the steps alone.
    pub fn threads(&self) -> Vec<(u32, ThreadOrder)> {
        let of_chunks = self.chunks.keys().map(|&(thread, _)| thread);
        let threads: BTreeSet<u32> = self.threads.keys().copied().chain(of_chunks).collect();
        let steps = |thread| self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        threads.into_iter().map(|thread| (thread, self.thread(thread, steps(thread)))).collect()
    }

    fn thread(&self, thread: u32, steps: &[Step]) -> ThreadOrder {
        let part = |part| self.chunks.get(&(thread, part));
        let compressed = [Part::Compressed, Part::CompressedToo].into_iter().filter_map(part);
        let compressed = compressed.filter_map(|(used, words)| {
            let (&length, bytes) = words.split_first()?;
            let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
            Some((length, bytes.get(..usize::try_from(*used).ok()?)?.to_vec()))
        });
        let (begun, compressed) = compressed.max_by_key(|&(length, _)| length).unwrap_or_default();
        let mut order =
            ThreadOrder { steps: steps.to_vec(), compressed, length: begun, ..Default::default() };
        if let Some((_, words)) = part(Part::Recent)
            && let Some((&[length], ring)) = words.split_first_chunk::<{ recent::FIRST }>()
        {
            let is_there = length >= begun && length - begun <= ring.len() as u64;
            let at = |number: u64| ring[(number % ring.len() as u64) as usize] as u32;
            if is_there {
                order.recent = (begun..length).map(at).collect();
                order.length = length;
            } else {
                order.lost = length.saturating_sub(begun).max(1);
            }
        } else {
            // Those after the compressed ones had no room in the file.
            order.lost = 1;
        }
        let counted = part(Part::Lost).and_then(|(_, words)| words.first());
        order.lost = order.lost.saturating_add(counted.copied().unwrap_or_default());
        if let Some((used, words)) = part(Part::Edges) {
            let edges = words.as_chunks::<EDGE_WORDS>().0.iter().map(Edge::from_words);
            order.edges = edges.take(usize::try_from(*used).unwrap_or(usize::MAX)).collect();
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_and_edges_are_read_as_written(
            kind in 0..StepKind::ALL.len(), tag: i32, words: [u64; 7], counts: [u32; CLASSES],
            numbers: [u32; 2],
        ) {
            let step = Step { kind: StepKind::ALL[kind], tag, key: SlotKey(words[0]), bytes: words[1] };
            prop_assert_eq!(Step::from_words(step.words()), Some(step));
            let squares = u128::from(words[2]) << 64 | u128::from(words[3]);
            let between = Durations { ticks: words[4], squares, classes: counts };
            let during = Durations { ticks: words[5], squares: squares ^ 1, classes: counts.map(|it| !it) };
            let edge = Edge { previous: numbers[0], step: numbers[1], count: words[6], between, during };
            prop_assert_eq!(Edge::from_words(&edge.words()), edge);
        }

        #[test]
        fn parts_have_keys_of_their_own(thread in 0..MOST_THREADS) {
            for part in Part::ALL {
                prop_assert_eq!(Part::from_key(part.key(thread)), Some((thread, part)));
            }
        }
    }

    #[test]
    fn calls_are_added_to_an_edge() {
        let words = [const { AtomicU64::new(0) }; EDGE_WORDS];
        words[0].store(7 << 32 | 9, Ordering::Relaxed);
        let long = 3 << 40;
        for [between, during] in [[100, 63], [300, 64], [long, 64]] {
            add_to_edge(&words, [between, between], [during, 2 * during]);
        }
        let edge = Edge::from_words(&words.map(AtomicU64::into_inner));
        let classes = |counted: &[(usize, u32)]| {
            let mut classes = [0; CLASSES];
            counted.iter().for_each(|&(class, count)| classes[class] = count);
            classes
        };
        let between = Durations {
            ticks: 400 + long,
            squares: 10_000 + 90_000 + u128::from(long) * u128::from(long),
            classes: classes(&[(1, 1), (2, 1), (15, 1)]),
        };
        let during = Durations { ticks: 191, squares: 63 * 63 + 2 * 64 * 64, classes: classes(&[(1, 3)]) };
        assert_eq!(edge, Edge { previous: 7, step: 9, count: 3, between, during });
    }

    #[test]
    fn a_class_is_four_times_the_one_before() {
        let classes = [(0, 0), (63, 0), (64, 1), (255, 1), (256, 2), (1023, 2), (1024, 3), (u64::MAX, 15)];
        for (ns, class) in classes {
            assert_eq!(duration_class(ns), class, "{ns}");
        }
    }

    #[test]
    fn recent_steps_follow_on_the_compressed_ones() {
        let mut orders = Orders::default();
        let step = Step { kind: StepKind::Call, tag: NO_TAG, key: SlotKey(7), bytes: 8 };
        orders.add_step(3, step);
        orders.add_chunk(Part::Compressed.key(3), 2, vec![5, u64::from_ne_bytes([1, 2, 0, 0, 0, 0, 0, 0])]);
        orders.add_chunk(Part::CompressedToo.key(3), 1, vec![9, 4]);
        // Of a ring with four places, those of the steps 9 and 10 are at 1 and 2.
        orders.add_chunk(Part::Recent.key(3), 5, vec![11, 80, 90, 100, 70]);
        orders.add_chunk(Part::Lost.key(3), 1, vec![2]);
        let threads = orders.threads();
        let expected = ThreadOrder {
            steps: vec![step],
            compressed: vec![4],
            recent: vec![90, 100],
            length: 11,
            lost: 2,
            edges: Vec::new(),
        };
        assert_eq!(threads, [(3, expected)]);
    }

    #[test]
    fn steps_that_are_not_in_the_file_are_lost() {
        let step = Step { kind: StepKind::Call, tag: NO_TAG, key: SlotKey(7), bytes: 8 };
        let lost = |recent: Option<Vec<u64>>| {
            let mut orders = Orders::default();
            orders.add_step(3, step);
            orders.add_chunk(Part::Compressed.key(3), 1, vec![5, 0]);
            recent.into_iter().for_each(|words| orders.add_chunk(Part::Recent.key(3), 4, words));
            let (_, order) = orders.threads().remove(0);
            (order.length, order.recent.len(), order.lost)
        };
        assert_eq!(lost(Some(vec![6, 1, 1])), (6, 1, 0));
        // Between the compressed steps and the last two there are others.
        assert_eq!(lost(Some(vec![9, 1, 1])), (5, 0, 4));
        assert_eq!(lost(Some(vec![4, 1, 1])), (5, 0, 1), "older than what is compressed");
        assert_eq!(lost(None), (5, 0, 1));
    }
}
