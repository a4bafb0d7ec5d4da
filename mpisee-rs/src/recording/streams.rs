//! When this process sent and received a sample of its messages: with those of the other ends it
//! shows who waited for whom. [`mpisee_profile::segment::streams`] says what a stream is, and why
//! both ends number its messages alike.
//!
//! A send has its number when it is started, a receive that names its source and tag when it is
//! posted. A blocking receive from any source has it when it is complete: it was posted last. What
//! takes messages in an order that is not known leaves the streams out from which it may take them
//! ([`unorder`]).

use super::Recorder;
use super::samples;
pub use super::samples::NOT_KEPT;
use super::unfinished;
use crate::mpi::abi::{Comm, Request, constant};
use crate::naming::ROWS;
use crate::state::cached_call::Envelope;
use crate::state::communicator::{COMMUNICATORS, Communicator};
use crate::state::process;
use crate::state::thread::Thread;
use crate::state::world::{self, World};
use crate::storage::counters::{Counters, add, update};
use crate::storage::segment::Segment;
use crate::storage::sync::own_value;
use mpisee_profile::rows::MessageEnd;
use mpisee_profile::segment::instances::{INSTANCES, Sample, Subject};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::streams::recorded::{BEFORE, SINCE_PLUS_1};
use mpisee_profile::segment::streams::{
    COMMUNICATOR, IS_UNORDERED, MOST_STREAMS, PEER_AND_TAG, Stream, THREAD,
};
use mpisee_profile::segment::{SlotKey, active_call};
use mpisee_profile::{CommId, CommRank, Ticks};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Ranks up to which a stream has the room that the option says. With more it has less, so that the
/// profile grows less than their number, but never less than for `FEWEST` messages.
const LARGE: usize = 64;
const FEWEST: usize = 32;
/// Streams up to which each has the room that the option says. Of twice as many each further one
/// has half of it, and so on, but never less than for `LEAST` messages.
const MANY: usize = 32;
const LEAST: usize = 8;
/// Tags of a communicator that are left out one by one. Of a program that takes each message by a
/// new tag, all are.
const MOST_TAGS: usize = 32;

/// The streams of this process.
static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(|| Mutex::new(Streams::new()));

/// By communicator: the [`word`] of the messages that were last left out of it, whatever their tag.
///
/// PERF: receives with many tags, or with any, leave out the same again.
static LEFT_OUT: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

// SAFETY: the index and the slots of its counters live as long as the process, and who holds the
// lock uses them alone.
unsafe impl Send for Streams {}

struct Streams {
    known: FxHashMap<Stream, &'static Slot>,
    /// The recorded messages of streams, where recording was switched.
    recorded: Counters,
    /// The messages that are sent or received in an unknown order.
    unordered: FxHashSet<Unordered>,
    /// How many of them have one tag, by communicator and direction.
    with_tag: FxHashMap<(CommId, bool), usize>,
}

/// Messages of a communicator that are sent, or received, in an unknown order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Unordered {
    communicator: CommId,
    is_received: bool,
    /// `None`: with any.
    peer: Option<CommRank>,
    /// `None`: with any.
    tag: Option<i32>,
}

impl Unordered {
    /// Those that have these ends; a wildcard stands for any, and so does a peer that is no rank.
    fn new(communicator: CommId, end: MessageEnd, ends: Envelope) -> Unordered {
        let (peer, tag) = (CommRank::from_mpi(ends.peer()), Some(ends.tag()).filter(|&tag| tag >= 0));
        Unordered { communicator, is_received: end == MessageEnd::Received, peer, tag }
    }

    /// These, and all that have them among theirs.
    fn wider(self) -> [Unordered; 4] {
        [(None, None), (None, self.tag), (self.peer, None), (self.peer, self.tag)]
            .map(|(peer, tag)| Unordered { peer, tag, ..self })
    }

    fn has(self, stream: &Stream) -> bool {
        stream.communicator == self.communicator
            && (stream.end == MessageEnd::Received) == self.is_received
            && self.peer.is_none_or(|peer| peer == stream.peer)
            && self.tag.is_none_or(|tag| tag == stream.tag)
    }

    /// As one word, which is never 0; nothing for those with one tag.
    fn word(self) -> Option<u64> {
        // A communicator's number is below 2^24, and a rank below 2^31.
        let peer = self.peer.map_or(0, |peer| u64::from(peer.get()) + 1);
        let word =
            1 << 63 | u64::from(self.communicator.get()) << 33 | u64::from(self.is_received) << 32 | peer;
        self.tag.is_none().then_some(word)
    }
}

/// A message that the call in progress sends or receives, by its number in its stream.
#[derive(Clone, Copy)]
pub struct NumberedMessage {
    slot: &'static Slot,
    number: u64,
}

impl NumberedMessage {
    /// Counts a message of a stream; `None` if it is not to be kept.
    #[inline(always)]
    pub fn count(slot: &'static Slot) -> Option<NumberedMessage> {
        let number = samples::count(slot);
        samples::is_due(slot, number).then_some(NumberedMessage { slot, number })
    }

    /// Keeps the message of a blocking call if it is to be kept; the call completed `together`
    /// sends and receives.
    #[cold]
    #[inline(never)]
    pub fn keep(self, active_call: &Slot, bytes: u64, together: u32) {
        let NumberedMessage { slot, number } = self;
        if samples::choose(slot, number)
            && let Some(world) = world::world()
        {
            let [arrival, departure] = [active_call::SINCE, active_call::RETURNED]
                .map(|at| Ticks::new(own_value(&active_call.values[at])));
            let completion = samples::active_operation(active_call).map(|operation| (operation, together));
            let subject = Subject::Message { bytes, completion };
            let sample = Sample { number, start: arrival, arrival, departure, subject };
            world::guarded(|| samples::keep(world, slot, &sample));
        }
    }

    /// Begins to keep the message of a nonblocking call if it is to be kept; `bytes` is the length
    /// of one to send.
    #[cold]
    #[inline(never)]
    pub fn keep_later(self, active_call: &Slot, request: Request, bytes: u64) {
        let NumberedMessage { slot, number } = self;
        if samples::choose(slot, number)
            && let Some(world) = world::world()
        {
            world::guarded(|| {
                let subject = Subject::Message { bytes, completion: None };
                unfinished::begin(world, slot, active_call, request, number, subject);
            });
        }
    }
}

/// The slot of a stream; [`NOT_KEPT`] if none of its messages is kept.
pub fn find(
    recorder: &Recorder,
    communicator: &Communicator,
    end: MessageEnd,
    peer: CommRank,
    tag: i32,
) -> &'static Slot {
    let stream = Stream { communicator: communicator.id, peer, end, tag };
    streams().find(recorder, communicator, stream).unwrap_or(&NOT_KEPT)
}

/// A matched probe has taken a message, whose receive follows: it waits for the sender in the place
/// of a receive.
pub fn matched(recorder: &Recorder, communicator: &Communicator, from: Envelope, bytes: u64) {
    let Some(peer) = CommRank::from_mpi(from.peer()) else { return };
    let slot = find(recorder, communicator, MessageEnd::Received, peer, from.tag());
    let message = NumberedMessage::count(slot);
    if let Some(message) = message.filter(|_| process::is_recording()) {
        message.keep(recorder.thread.active_call, bytes, 1);
    }
}

/// The number of that slot, for a persistent request, see [`samples::number`]. A receive that does
/// not name source and tag leaves out what it may take.
pub fn find_number(recorder: &Recorder, communicator: &Communicator, end: MessageEnd, ends: Envelope) -> u32 {
    if end == MessageEnd::Received && is_wildcard(ends) && ends.peer() != constant::PROC_NULL {
        unorder(communicator.id, end, ends);
    }
    let slot =
        CommRank::from_mpi(ends.peer()).map(|peer| find(recorder, communicator, end, peer, ends.tag()));
    let Some(slot) = slot.filter(|slot| !ptr::eq(*slot, &NOT_KEPT)) else { return 0 };
    let number = samples::number(slot);
    if number == 0 {
        // Its messages have no numbers, and others of the stream do.
        slot.values[COMMUNICATOR].fetch_or(IS_UNORDERED, Ordering::Relaxed);
    }
    number
}

/// Counts the operation of a persistent request once more; returns its number. `slot` may be that
/// of a stream, or of a collective operation.
pub fn count_again(thread: &Thread, slot: &Slot) -> u64 {
    if matches!(SlotKey(own_value(&slot.key)).meaning(), Some(Meaning::Stream(_))) {
        is_counted_by(slot, thread);
    }
    samples::count(slot)
}

/// A call on a communicator sent or received, or posted a receive, and is not counted.
#[cold]
pub fn miss(comm: Comm, end: MessageEnd, ends: Envelope) {
    if ends.peer() != constant::PROC_NULL
        && let Some(communicator) = COMMUNICATORS.get(comm)
    {
        unorder(communicator.id, end, ends);
    }
}

/// A request was cancelled of which nothing is known.
#[cold]
pub fn unorder_all() {
    for slot in streams().known.values() {
        slot.values[COMMUNICATOR].fetch_or(IS_UNORDERED, Ordering::Relaxed);
    }
}

/// Returns whether a receive does not name source and tag.
pub fn is_wildcard(ends: Envelope) -> bool {
    ends.peer() == constant::ANY_SOURCE || ends.tag() == constant::ANY_TAG
}

/// Messages with these ends are sent or received in an unknown order on a communicator; a wildcard
/// stands for all.
#[cold]
pub fn unorder(communicator: CommId, end: MessageEnd, ends: Envelope) {
    let last = &LEFT_OUT[communicator.index() % LEFT_OUT.len()];
    let messages = Unordered::new(communicator, end, ends);
    let left_out = last.load(Ordering::Relaxed);
    if messages.wider().into_iter().any(|wider| wider.word() == Some(left_out)) {
        return;
    }
    if let Some(word) = streams().unorder(messages).and_then(Unordered::word) {
        last.store(word, Ordering::Relaxed);
    }
}

/// Recording is about to be switched: keeps how many messages of each stream are recorded.
pub fn note_switch(world: &World, on: bool) {
    streams().note_switch(&world.segment, on);
}

fn streams() -> MutexGuard<'static, Streams> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most samples of a stream, if there are few streams.
fn of_stream(wanted: u64, ranks: u32) -> usize {
    match usize::try_from(wanted).unwrap_or(usize::MAX) {
        usize::MAX => usize::MAX,
        wanted => wanted.min((wanted.saturating_mul(LARGE) / ranks.max(1) as usize).max(FEWEST)),
    }
}

impl Streams {
    fn new() -> Streams {
        Streams {
            known: FxHashMap::default(),
            recorded: Counters::new(),
            unordered: FxHashSet::default(),
            with_tag: FxHashMap::default(),
        }
    }

    fn find(
        &mut self,
        recorder: &Recorder,
        communicator: &Communicator,
        stream: Stream,
    ) -> Option<&'static Slot> {
        if let Some(&known) = self.known.get(&stream) {
            return is_counted_by(known, recorder.thread).then_some(known);
        }
        let most = self.most_samples(of_stream(recorder.world.options.messages, recorder.world.size));
        let has_waits = !communicator.is_inter() && communicator.size > 1;
        if most == 0 || stream.tag < 0 || !has_waits || !ROWS.has_own_row(communicator.id) {
            return None;
        }
        self.known.try_reserve(1).ok()?;
        let slot = samples::slot(recorder, SlotKey::stream(self.known.len() as u32), most)?;
        let [communicator, ends] = stream.words();
        let own = Unordered {
            communicator: stream.communicator,
            is_received: stream.end == MessageEnd::Received,
            peer: Some(stream.peer),
            tag: Some(stream.tag),
        };
        let is_unordered = own.wider().iter().any(|wider| self.unordered.contains(wider));
        let communicator = if is_unordered { communicator | IS_UNORDERED } else { communicator };
        slot.values[PEER_AND_TAG].store(ends, Ordering::Relaxed);
        slot.values[THREAD].store(ptr::from_ref(recorder.thread).addr() as u64, Ordering::Relaxed);
        slot.values[COMMUNICATOR].store(communicator, Ordering::Release);
        if !process::is_recording() {
            // None of its messages is recorded so far, which a slot without values says.
            self.recorded_of(&recorder.world.segment, slot);
        }
        self.known.insert(stream, slot);
        Some(slot)
    }

    /// The slot for the recorded messages of a stream.
    fn recorded_of(&self, segment: &Segment, stream: &Slot) -> Option<&'static Slot> {
        let Some(Meaning::Stream(number)) = SlotKey(own_value(&stream.key)).meaning() else { return None };
        self.recorded.slot(segment, SlotKey::recorded(number))
    }

    /// Notes how many messages each stream has when recording is switched.
    fn note_switch(&self, segment: &Segment, on: bool) {
        for stream in self.known.values() {
            let Some(recorded) = self.recorded_of(segment, stream) else { continue };
            let all = stream.values[INSTANCES].load(Ordering::Relaxed);
            update(recorded, |values| {
                let since_plus_1 = if on {
                    all + 1
                } else {
                    // A new slot is of a stream that was recorded from its begin on.
                    let since = own_value(&values[SINCE_PLUS_1]).saturating_sub(1);
                    add(&values[BEFORE], all.saturating_sub(since));
                    0
                };
                values[SINCE_PLUS_1].store(since_plus_1, Ordering::Relaxed);
            });
        }
    }

    /// The most samples of the next stream, of which the first ones have `wanted`.
    fn most_samples(&self, wanted: usize) -> usize {
        match self.known.len() {
            MOST_STREAMS.. => 0,
            0..MANY => wanted,
            _ if wanted == usize::MAX => wanted,
            known => (wanted / (known / MANY + 1).next_power_of_two()).max(LEAST.min(wanted)),
        }
    }

    /// Leaves them out, or with many tags those with any. Returns what is left out from now on;
    /// nothing without memory, where streams that come later are left in.
    fn unorder(&mut self, messages: Unordered) -> Option<Unordered> {
        if let Some(known) = messages.wider().into_iter().find(|wider| self.unordered.contains(wider)) {
            // So are all of them that are known, and those that come later will be.
            return Some(known);
        }
        let key = (messages.communicator, messages.is_received);
        let with_tag = self.with_tag.get(&key).copied().unwrap_or(0);
        let messages = if messages.tag.is_none() || with_tag < MOST_TAGS {
            messages
        } else {
            Unordered { peer: None, tag: None, ..messages }
        };
        for (_, slot) in self.known.iter().filter(|(stream, _)| messages.has(stream)) {
            slot.values[COMMUNICATOR].fetch_or(IS_UNORDERED, Ordering::Relaxed);
        }
        self.unordered.try_reserve(1).ok()?;
        self.with_tag.try_reserve(1).ok()?;
        self.unordered.insert(messages);
        self.with_tag.insert(key, with_tag + usize::from(messages.tag.is_some()));
        Some(messages)
    }
}

/// Returns whether the messages of a stream are all counted by this thread. Where another counted
/// some before, their order is unknown.
fn is_counted_by(slot: &Slot, thread: &Thread) -> bool {
    let is_own = own_value(&slot.values[THREAD]) == ptr::from_ref(thread).addr() as u64;
    if !is_own {
        slot.values[COMMUNICATOR].fetch_or(IS_UNORDERED, Ordering::Relaxed);
    }
    is_own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> &'static Slot {
        let values = [const { AtomicU64::new(0) }; 6];
        Box::leak(Box::new(Slot { key: AtomicU64::new(0), sequence: AtomicU64::new(0), values }))
    }

    #[test]
    fn what_is_left_out_already_is_not_looked_at_again() {
        let (communicator, other) = (CommId::new(3), CommId::new(4));
        let [first, second] = [1, 2].map(CommRank::new);
        let mut streams = Streams::new();
        let mut stream = |communicator, end, peer, tag| {
            let slot = slot();
            streams.known.insert(Stream { communicator, peer, end, tag }, slot);
            slot
        };
        let slots = [
            stream(communicator, MessageEnd::Received, first, 5),
            stream(communicator, MessageEnd::Received, second, 5),
            stream(communicator, MessageEnd::Received, second, 6),
            stream(communicator, MessageEnd::Sent, first, 5),
            stream(other, MessageEnd::Received, first, 5),
        ];
        // Which of them a call has left out.
        let mut left_out = |communicator, end, peer, tag| {
            let messages = Unordered::new(communicator, end, Envelope::new(peer, tag));
            assert!(streams.unorder(messages).is_some());
            slots.map(|slot| slot.values[COMMUNICATOR].swap(0, Ordering::Relaxed) & IS_UNORDERED != 0)
        };
        let nothing = [false; 5];
        let with_first = [true, false, false, false, false];
        let any = constant::ANY_SOURCE;
        let any_tag = constant::ANY_TAG;
        assert_eq!(left_out(communicator, MessageEnd::Received, 1, any_tag), with_first);
        assert_eq!(left_out(communicator, MessageEnd::Received, 1, any_tag), nothing);
        assert_eq!(left_out(communicator, MessageEnd::Received, 1, 5), nothing);
        assert_eq!(left_out(communicator, MessageEnd::Received, any, 6), [false, false, true, false, false]);
        assert_eq!(left_out(communicator, MessageEnd::Received, 2, 6), nothing);
        assert_eq!(
            left_out(communicator, MessageEnd::Received, any, any_tag),
            [true, true, true, false, false]
        );
        for peer in [any, 1, 2] {
            assert_eq!(left_out(communicator, MessageEnd::Received, peer, any_tag), nothing);
            assert_eq!(left_out(communicator, MessageEnd::Received, peer, 5), nothing);
        }
        assert_eq!(
            left_out(communicator, MessageEnd::Sent, any, any_tag),
            [false, false, false, true, false]
        );
        assert_eq!(left_out(other, MessageEnd::Received, 1, 5), [false, false, false, false, true]);
    }

    #[test]
    fn many_tags_leave_out_all() {
        let (communicator, slot) = (CommId::new(3), slot());
        let mut streams = Streams::new();
        let end = MessageEnd::Received;
        streams.known.insert(Stream { communicator, peer: CommRank::new(1), end, tag: 1_000_000 }, slot);
        for tag in 0..2 * MOST_TAGS as i32 {
            let ends = Envelope::new(constant::ANY_SOURCE, tag);
            let left_out = streams.unorder(Unordered::new(communicator, end, ends)).expect("there is memory");
            let all = tag >= MOST_TAGS as i32;
            assert_eq!(left_out.tag.is_none(), all, "tag {tag}");
            assert_eq!(own_value(&slot.values[COMMUNICATOR]) & IS_UNORDERED != 0, all, "tag {tag}");
        }
        assert_eq!(streams.unordered.len(), MOST_TAGS + 1);
    }

    #[test]
    fn each_kind_of_message_that_is_left_out_has_a_word_of_its_own() {
        let last = CommId::new((1 << CommId::BITS) - 1);
        let mut words = FxHashSet::default();
        for communicator in [CommId::WORLD, CommId::SELF, last] {
            for end in [MessageEnd::Sent, MessageEnd::Received] {
                for peer in [constant::ANY_SOURCE, 0, 1, i32::MAX] {
                    let ends = Envelope::new(peer, constant::ANY_TAG);
                    words.insert(Unordered::new(communicator, end, ends).word().expect("it has no tag"));
                }
            }
        }
        assert!(words.len() == 24 && !words.contains(&0));
    }
}
