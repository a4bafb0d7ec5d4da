//! The order of one thread, which it writes and a reader of the segment finds.

use crate::storage::segment::{Segment, Words};
use crate::storage::sync::own_value;
use mpisee_order::Grammar;
use mpisee_profile::Ticks;
use mpisee_profile::segment::SlotKey;
use mpisee_profile::segment::layout::Header;
use mpisee_profile::segment::log::Record;
use mpisee_profile::segment::order::{
    EDGE_WORDS, Edge, MANY_TAGS, NO_STEP, NO_TAG, Part, Step, StepKind, add_to_edge, recent,
};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits of a thread: different steps, different pairs of them, and nodes of the grammar, some 100
/// bytes each.
const MOST_STEPS: usize = 1 << 16;
const MOST_EDGES: usize = 1 << 16;
const MOST_NODES: usize = 1 << 18;
/// Steps that differ by their tags alone: further ones count as one step.
const MOST_TAGS: u32 = 16;
/// Last steps that are kept as they are, at first: after as many the steps are compressed again. It
/// grows with the compressed steps, so that compressing takes a constant time per step.
const FIRST_RECENT: usize = 1 << 10;
/// Room for edges at first.
const FIRST_EDGES: usize = 1 << 5;

/// From ticks to classes of durations, roughly.
#[derive(Clone, Copy)]
pub struct ClassOfTicks {
    /// Nanoseconds per tick times 2^32.
    ns_per_tick: u64,
}

impl ClassOfTicks {
    /// By the two moments in the header between which the profiler began.
    pub fn from_header(header: &Header) -> ClassOfTicks {
        let passed = |from: &AtomicU64, to: &AtomicU64| {
            to.load(Ordering::Relaxed).saturating_sub(from.load(Ordering::Relaxed))
        };
        let ticks = passed(&header.before_ticks, &header.start_ticks);
        let ns = passed(&header.before_monotonic_ns, &header.start_monotonic_ns);
        let is_tsc = header.ticks_are_tsc.load(Ordering::Relaxed) == 1;
        let ratio = (u128::from(ns) << 32).checked_div(u128::from(ticks)).filter(|_| is_tsc && ns > 0);
        ClassOfTicks { ns_per_tick: ratio.and_then(|ratio| u64::try_from(ratio).ok()).unwrap_or(1 << 32) }
    }

    fn ns(self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32).unwrap_or(u64::MAX)
    }
}

/// The order of a thread.
pub struct ThreadOrder {
    segment: &'static Segment,
    /// The thread's number.
    thread: u32,
    class_of: ClassOfTicks,
    grammar: Grammar,
    /// The numbers of steps.
    known: FxHashMap<Step, u32>,
    /// By number of a step, the step that followed it last, and its number.
    ///
    /// PERF: most steps follow on the same one as before, so that a comparison finds them.
    following: Vec<(Step, u32)>,
    /// The number of the last step.
    previous: u32,
    /// How many tags there are of steps, by what else they are.
    tags: FxHashMap<(StepKind, SlotKey, u64), u32>,
    recent: Words,
    /// The number of steps that are missing.
    pub lost: &'static AtomicU64,
    /// The steps that were compressed last, and the place for those that are compressed next.
    compressed: [Option<Words>; 2],
    /// Steps that are compressed there.
    published: u64,
    edges: Edges,
    /// The step of the last call.
    last: u32,
    /// When the last call or poll ended.
    ended: Option<Ticks>,
    /// The time between the polls since the last call.
    between: Ticks,
    /// True if the call in progress has completed a request, or found a message.
    has_found: bool,
    /// How often recording was switched on when the last step was taken.
    switched: u64,
    /// True from the first step on for which there was no room.
    is_full: bool,
}

impl ThreadOrder {
    /// An empty one; `None` if there is no room in the segment.
    pub fn new(
        segment: &'static Segment,
        thread: u32,
        class_of: ClassOfTicks,
        switched: u64,
    ) -> Option<ThreadOrder> {
        let recent = segment.order(Part::Recent.key(thread), recent::FIRST + FIRST_RECENT)?;
        recent.used().store(recent.body().len() as u64, Ordering::Release);
        let lost = segment.order(Part::Lost.key(thread), 1)?;
        lost.used().store(1, Ordering::Release);
        Some(ThreadOrder {
            segment,
            thread,
            class_of,
            grammar: Grammar::with_capacity(MOST_NODES),
            known: FxHashMap::default(),
            following: Vec::new(),
            previous: NO_STEP,
            tags: FxHashMap::default(),
            recent,
            lost: lost.body().first()?,
            compressed: [None; 2],
            published: 0,
            edges: Edges { thread, numbers: FxHashMap::default(), last: Vec::new(), words: None },
            last: NO_STEP,
            ended: None,
            between: Ticks::ZERO,
            has_found: false,
            switched,
            is_full: false,
        })
    }

    /// A call that began at `since` and took `ticks`. One that may find nothing, and has found
    /// nothing, is not in the order.
    pub fn call(&mut self, step: Step, since: Ticks, ticks: Ticks, may_find_nothing: bool) {
        let is_poll = may_find_nothing && !self.has_found;
        self.has_found = false;
        let end = since.saturating_add(ticks);
        let ended = self.ended.unwrap_or(since);
        self.between = self.between.saturating_add(since.saturating_sub(ended));
        // One call may be counted in parts, which begin alike.
        self.ended = Some(end.max(ended));
        if is_poll {
            return;
        }
        let between = std::mem::take(&mut self.between);
        if let Some(number) = self.append(step) {
            let edge = (std::mem::replace(&mut self.last, number), number);
            self.edges.add(self.segment, self.class_of, edge, between, ticks);
        }
    }

    /// Any other step.
    pub fn take(&mut self, step: Step) {
        let _ = self.append(step);
    }

    /// The call in progress has completed a request.
    pub fn complete(&mut self, started: SlotKey) {
        self.has_found = true;
        self.take(Step { kind: StepKind::Completed, tag: NO_TAG, key: started, bytes: 0 });
    }

    /// The call in progress has found something.
    pub fn find(&mut self) {
        self.has_found = true;
    }

    /// Recording was switched on so often: where that is new, it was off.
    pub fn note_switches(&mut self, switched: u64) {
        if std::mem::replace(&mut self.switched, switched) == switched {
            return;
        }
        (self.last, self.ended, self.between) = (NO_STEP, None, Ticks::ZERO);
        self.take(Step { kind: StepKind::SwitchedOn, tag: NO_TAG, key: SlotKey::nothing(0), bytes: 0 });
    }

    /// The number of a step; `None` where there is no room for a new one.
    fn number(&mut self, step: Step) -> Option<u32> {
        let before = std::mem::replace(&mut self.previous, NO_STEP) as usize;
        let number = match self.following.get(before) {
            Some(&(following, number)) if following == step => number,
            _ => {
                let number = self.find_number(step)?;
                if let Some(following) = self.following.get_mut(before) {
                    *following = (step, number);
                }
                number
            }
        };
        self.previous = number;
        Some(number)
    }

    /// The same, of a step that another one followed before.
    fn find_number(&mut self, mut step: Step) -> Option<u32> {
        if let Some(&number) = self.known.get(&step) {
            return Some(number);
        }
        if step.tag >= 0 && !self.is_told_apart(&step) {
            step.tag = MANY_TAGS;
            if let Some(&number) = self.known.get(&step) {
                return Some(number);
            }
        }
        let number = self.known.len();
        let has_room =
            number < MOST_STEPS && self.known.try_reserve(1).is_ok() && self.following.try_reserve(1).is_ok();
        if !has_room || !self.segment.log(&Record::Step { thread: self.thread, step }) {
            return None;
        }
        self.known.insert(step, number as u32);
        self.following.push((step, number as u32));
        Some(number as u32)
    }

    /// Returns whether a step with a new tag is one of its own.
    fn is_told_apart(&mut self, step: &Step) -> bool {
        if self.tags.try_reserve(1).is_err() {
            return false;
        }
        let tags = self.tags.entry((step.kind, step.key, step.bytes)).or_insert(0);
        *tags = tags.saturating_add(1);
        *tags <= MOST_TAGS
    }

    /// Appends a step to the sequence; returns its number.
    fn append(&mut self, step: Step) -> Option<u32> {
        let number = if self.is_full { None } else { self.number(step) };
        let number = number.filter(|&number| self.grammar.push(number));
        let Some(number) = number else {
            self.end();
            count(self.lost, 1);
            return None;
        };
        let (head, ring) = self.recent.body().split_at(recent::FIRST);
        let steps = own_value(&head[recent::STEPS]);
        ring[(steps % ring.len() as u64) as usize].store(u64::from(number), Ordering::Relaxed);
        head[recent::STEPS].store(steps + 1, Ordering::Release);
        if steps + 1 - self.published >= ring.len() as u64 {
            self.publish();
        }
        Some(number)
    }

    /// Steps that come from now on do not follow on the last one.
    pub fn end(&mut self) {
        self.is_full = true;
    }

    /// Compresses all steps so far.
    pub fn publish(&mut self) {
        let bytes = self.grammar.rules().encode();
        let words = 1 + bytes.len().div_ceil(8);
        let has_room = |place: &Words| place.body().len() >= words;
        let place = self.compressed[1].filter(has_room).or_else(|| {
            let part =
                if self.compressed[0].is_some_and(is_first) { Part::CompressedToo } else { Part::Compressed };
            self.segment.order(part.key(self.thread), 2 * words)
        });
        let Some(place) = place else {
            // Without room for it, only the last steps would be found.
            self.is_full = true;
            return;
        };
        if let Some(before) = self.compressed[1].filter(|before| !has_room(before)) {
            before.used().store(0, Ordering::Relaxed);
        }
        place.used().store(0, Ordering::Release);
        for (to, from) in place.body()[1..].iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..from.len()].copy_from_slice(from);
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        place.body()[0].store(self.grammar.len(), Ordering::Relaxed);
        place.used().store(bytes.len() as u64, Ordering::Release);
        self.compressed = [Some(place), self.compressed[0]];
        self.published = self.grammar.len();
        self.widen(bytes.len());
    }

    /// Makes more room for the last steps where compressing them takes longer.
    fn widen(&mut self, compressed: usize) {
        let room = self.recent.body().len() - recent::FIRST;
        if room >= compressed {
            return;
        }
        let key = Part::Recent.key(self.thread);
        let Some(wider) = self.segment.order(key, recent::FIRST + 2 * compressed) else { return };
        // All steps are compressed now, so that none has to be copied.
        let steps = own_value(&self.recent.body()[recent::STEPS]);
        wider.body()[recent::STEPS].store(steps, Ordering::Relaxed);
        wider.used().store(wider.body().len() as u64, Ordering::Release);
        self.recent.used().store(0, Ordering::Relaxed);
        self.recent = wider;
    }
}

/// Counts steps that are missing.
pub fn count(lost: &AtomicU64, steps: u64) {
    lost.store(own_value(lost).wrapping_add(steps), Ordering::Relaxed);
}

/// Returns whether a place is the first of the two for compressed steps.
fn is_first(place: Words) -> bool {
    place.key() & 0xff == Part::Compressed as u64
}

/// Which steps followed each other.
struct Edges {
    thread: u32,
    numbers: FxHashMap<(u32, u32), u32>,
    /// By number of a step, the step of the last call before it, and the number of the edge.
    last: Vec<(u32, u32)>,
    words: Option<Words>,
}

impl Edges {
    fn add(
        &mut self,
        segment: &Segment,
        class_of: ClassOfTicks,
        (previous, step): (u32, u32),
        between: Ticks,
        during: Ticks,
    ) {
        let number = match self.last.get(step as usize) {
            Some(&(before, number)) if before == previous => number as usize,
            _ => {
                let Some(number) = self.number(segment, (previous, step)) else { return };
                self.note_last(step as usize, (previous, number as u32));
                number
            }
        };
        let Some(words) = self.words else { return };
        let Some(place) = words.body().as_chunks::<EDGE_WORDS>().0.get(number) else { return };
        let durations = [between, during].map(|ticks| [ticks.get(), class_of.ns(ticks.get())]);
        add_to_edge(place, durations[0], durations[1]);
        let used = words.used();
        if own_value(used) <= number as u64 {
            let edge = Edge { previous, step, ..Edge::default() };
            place[0].store(edge.words()[0], Ordering::Relaxed);
            used.store(number as u64 + 1, Ordering::Release);
        }
    }

    fn note_last(&mut self, step: usize, edge: (u32, u32)) {
        /// No edge leads from it.
        const NONE: (u32, u32) = (NO_STEP - 1, 0);
        let missing = (step + 1).saturating_sub(self.last.len());
        if self.last.try_reserve(missing).is_ok() {
            self.last.extend(std::iter::repeat_n(NONE, missing));
            self.last[step] = edge;
        }
    }

    fn number(&mut self, segment: &Segment, edge: (u32, u32)) -> Option<usize> {
        if let Some(&number) = self.numbers.get(&edge) {
            return Some(number as usize);
        }
        let number = self.numbers.len();
        let room = self.words.map_or(0, |words| words.body().len() / EDGE_WORDS);
        let has_room = number < MOST_EDGES && (number < room || self.grow(segment, room));
        if !has_room || self.numbers.try_reserve(1).is_err() {
            return None;
        }
        self.numbers.insert(edge, number as u32);
        Some(number)
    }

    fn grow(&mut self, segment: &Segment, room: usize) -> bool {
        let wanted = (2 * room).max(FIRST_EDGES);
        let Some(larger) = segment.order(Part::Edges.key(self.thread), wanted * EDGE_WORDS) else {
            return false;
        };
        if let Some(words) = self.words {
            for (to, from) in larger.body().iter().zip(words.body()) {
                to.store(own_value(from), Ordering::Relaxed);
            }
            larger.used().store(own_value(words.used()), Ordering::Release);
            words.used().store(0, Ordering::Relaxed);
        }
        self.words = Some(larger);
        true
    }
}

#[cfg(test)]
mod tests;
