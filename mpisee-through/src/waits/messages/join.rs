//! Reads `messages.csv` and `streams.csv`, and joins the two ends of each message.

use super::class::Class;
use crate::group::Names;
use crate::scan::{self, BadField, Fold};
use hashbrown::{HashMap, HashSet};
use mpisee_profile::rows::{MessageEnd, MessageRow, Row, StreamRow};
use mpisee_profile::segment::instances::hash;
use mpisee_profile::segment::streams::MOST_STREAMS;
use mpisee_profile::{Profile, ProfileError};
use std::collections::BTreeMap;

/// The messages with one tag from one process to another on a communicator, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    pub comm: u32,
    pub from: u32,
    pub to: u32,
    pub tag: i32,
}

/// A message at one end: nanoseconds on the clock of the end's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSample {
    pub key: StreamKey,
    pub number: u64,
    pub is_received: bool,
    pub bytes: u64,
    pub started_ns: u64,
    /// When the end entered the call that completed its part, and when it left.
    pub completion_ns: Option<[u64; 2]>,
    /// The class of that call, if it waits for messages.
    pub class: Option<Class>,
    pub completed: u32,
}

/// The messages of a stream at one end.
#[derive(Clone, Copy, Debug)]
pub struct EndCount {
    pub messages: u64,
    /// The messages while recording was on there, of which there are samples.
    pub recorded: u64,
    /// True if their order is known.
    pub is_ordered: bool,
}

/// The rows of both tables.
#[derive(Debug, Default)]
pub struct Tables {
    /// The names of communicators by their numbers.
    pub comms: Names,
    pub sightings: Vec<MessageSample>,
    /// By stream, the counts of the sender and of the receiver, where they have a row.
    pub streams: HashMap<StreamKey, [Option<EndCount>; 2]>,
    /// True if a profile of an older version does not say how many messages were recorded.
    pub is_recorded_unknown: bool,
    /// True if ranks were ended somewhere, so that one end of a stream may lack the last messages.
    pub may_lack_last: bool,
    /// The error that ended reading.
    pub cut_off: Option<ProfileError>,
}

/// The rows of `messages.csv` of one thread.
#[derive(Default)]
struct Sightings {
    comms: Names,
    rows: Vec<MessageSample>,
}

/// The stream of a row with this rank and peer.
fn key(comm: u32, rank: u32, peer: u32, end: MessageEnd, tag: i32) -> StreamKey {
    match end {
        MessageEnd::Sent => StreamKey { comm, from: rank, to: peer, tag },
        MessageEnd::Received => StreamKey { comm, from: peer, to: rank, tag },
    }
}

impl Fold<scan::Message<'static>> for Sightings {
    fn row(&mut self, row: &scan::Message<'_>) -> Result<(), BadField> {
        let Some(comm) = self.comms.number(row.comm, "comm", |_| true)? else { return Ok(()) };
        let completion_ns = row.arrival_ns.zip(row.departure_ns).map(|(arrival, left)| [arrival, left]);
        if completion_ns.is_some_and(|[arrival_ns, departure_ns]| departure_ns < arrival_ns) {
            return Err(BadField { column: "departure_s", why: "is before arrival_s".to_owned() });
        }
        self.rows.push(MessageSample {
            key: key(comm, row.rank, row.peer, row.end, row.tag),
            number: row.message,
            is_received: row.end == MessageEnd::Received,
            bytes: row.bytes,
            started_ns: row.started_ns,
            completion_ns,
            class: std::str::from_utf8(row.call).ok().and_then(Class::from_call),
            completed: row.completed,
        });
        Ok(())
    }
}

/// The rows of `streams.csv` of one thread.
#[derive(Default)]
struct Streams {
    comms: Names,
    rows: Vec<(StreamKey, bool, EndCount)>,
    is_recorded_unknown: bool,
}

impl Fold<scan::Stream<'static>> for Streams {
    fn row(&mut self, row: &scan::Stream<'_>) -> Result<(), BadField> {
        let Some(comm) = self.comms.number(row.comm, "comm", |_| true)? else { return Ok(()) };
        let key = key(comm, row.rank, row.peer, row.end, row.tag);
        self.is_recorded_unknown |= row.recorded.is_none();
        let scan::Stream { messages, is_ordered, .. } = *row;
        let count = EndCount { messages, recorded: row.recorded.unwrap_or(messages), is_ordered };
        self.rows.push((key, row.end == MessageEnd::Received, count));
        Ok(())
    }
}

impl Tables {
    fn add_sightings(&mut self, Sightings { comms, rows }: Sightings) {
        let numbers: Vec<u32> = comms.names.iter().map(|name| self.comms.number_of(name)).collect();
        self.sightings.extend(rows.into_iter().map(|row| {
            let key = StreamKey { comm: numbers[row.key.comm as usize], ..row.key };
            MessageSample { key, ..row }
        }));
    }

    /// Reads both tables of a profile; nothing where there are neither messages nor streams.
    /// Samples without their streams are an error.
    pub fn read(profile: &Profile) -> Result<Self, ProfileError> {
        let mut tables = Tables { may_lack_last: !profile.run().complete, ..Tables::default() };
        let [has_messages, has_streams] =
            [MessageRow::FILE, StreamRow::FILE].map(|file| profile.directory().join(file).exists());
        if !has_messages && !has_streams {
            return Ok(tables);
        }
        if has_messages {
            let scanned = scan::scan::<scan::Message, Sightings>(profile, Sightings::default)?;
            tables.cut_off = scanned.cut_off;
            scanned.folds.into_iter().for_each(|fold| tables.add_sightings(fold));
        }
        let scanned = scan::scan::<scan::Stream, Streams>(profile, Streams::default)?;
        tables.cut_off = tables.cut_off.or(scanned.cut_off);
        for Streams { comms, rows, is_recorded_unknown } in scanned.folds {
            tables.is_recorded_unknown |= is_recorded_unknown;
            let numbers: Vec<u32> = comms.names.iter().map(|name| tables.comms.number_of(name)).collect();
            for (key, is_received, count) in rows {
                let key = StreamKey { comm: numbers[key.comm as usize], ..key };
                let ends = tables.streams.entry(key).or_default();
                ends[usize::from(is_received)] = Some(count);
            }
        }
        Ok(tables)
    }
}

/// A stream of which both ends have the same messages, but for the last of a rank that was ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    pub key: StreamKey,
    /// The messages that both ends recorded, at most.
    pub messages: u64,
    /// Messages that both ends sampled.
    pub sampled: u64,
    /// The number of lowest bits that are zero in the hashes of all of these.
    pub bits: u32,
}

/// An end of a message that both ends have, and that some call completed there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessagePart {
    /// The index of its stream.
    pub stream: u32,
    pub number: u64,
    /// True if this is the receiver's end.
    pub is_received: bool,
    pub rank: u32,
    pub peer: u32,
    /// When it was started here, and when at the other end, on the clock of each.
    pub started_ns: u64,
    pub peer_started_ns: u64,
    /// When the other end entered the call that completed its part; when it started, if that is
    /// unknown.
    pub peer_arrival_ns: u64,
    /// When the rank entered and left the call that completed it.
    pub arrival_ns: u64,
    pub departure_ns: u64,
    /// The class of that call, if it waits for messages.
    pub class: Option<Class>,
    /// The sends and receives that this call completed.
    pub completed: u32,
}

/// Why messages have no times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WithoutTimes {
    /// The rank had as many streams as it keeps before the first message.
    Full,
    /// The order in which the rank sent or received them is unknown.
    Unordered,
    /// The rank sent other messages than were received.
    Unequal,
}

/// The messages that both ends have.
#[derive(Debug, Default)]
pub struct Joined {
    pub streams: Vec<Stream>,
    pub parts: Vec<MessagePart>,
    /// The ends with messages in streams that are left out: communicator, rank, and whether it
    /// received them.
    pub uncovered: HashSet<(u32, u32, bool)>,
    /// Recorded messages in streams that are left out, by communicator, reason, and the rank at
    /// fault.
    pub left_out: BTreeMap<(u32, WithoutTimes, u32), u64>,
    /// Recorded messages in all streams, as the end with more of them has them, by communicator and
    /// sender.
    pub messages: HashMap<(u32, u32), u64>,
    /// Ranks whose table of streams was full.
    pub full: HashSet<u32>,
    /// As in [`Tables`].
    pub is_recorded_unknown: bool,
}

/// Joins both ends of each stream; leaves out streams whose ends disagree or do not know the order
/// of their messages.
pub fn join(tables: &mut Tables) -> Joined {
    let full = full_ranks(&tables.streams);
    let mut joined = Joined { is_recorded_unknown: tables.is_recorded_unknown, full, ..Joined::default() };
    tables.sightings.sort_unstable_by_key(|one| (one.key, one.number, one.is_received));
    let mut with_rows: HashSet<StreamKey> = HashSet::new();
    for of_stream in tables.sightings.chunk_by(|one, other| one.key == other.key) {
        let key = of_stream[0].key;
        let ends = tables.streams.get(&key).copied().unwrap_or_default();
        if let [Some(sent), Some(received)] = ends
            && sent.is_ordered
            && received.is_ordered
            && (sent.messages == received.messages || tables.may_lack_last)
            && joined.add(key, sent.recorded.min(received.recorded), of_stream)
        {
            with_rows.insert(key);
        }
    }
    for (key, ends) in &tables.streams {
        let messages = ends.iter().flatten().map(|count| count.recorded).max().unwrap_or(0);
        let of_sender = joined.messages.entry((key.comm, key.from)).or_default();
        *of_sender = of_sender.saturating_add(messages);
        if messages > 0 && !with_rows.contains(key) {
            let (reason, rank) = joined.reason(key, *ends);
            let left_out = joined.left_out.entry((key.comm, reason, rank)).or_default();
            *left_out = left_out.saturating_add(messages);
            joined.uncovered.extend([(key.comm, key.from, false), (key.comm, key.to, true)]);
        }
    }
    joined
}

/// The ranks that have as many streams as a rank keeps.
fn full_ranks(streams: &HashMap<StreamKey, [Option<EndCount>; 2]>) -> HashSet<u32> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for (key, ends) in streams {
        for (rank, _) in [key.from, key.to].into_iter().zip(ends).filter(|(_, end)| end.is_some()) {
            *counts.entry(rank).or_default() += 1;
        }
    }
    counts.into_iter().filter(|(_, count)| *count >= MOST_STREAMS).map(|(rank, _)| rank).collect()
}

impl Joined {
    /// Why a stream is left out, and the rank at whose end that is.
    fn reason(&self, key: &StreamKey, ends: [Option<EndCount>; 2]) -> (WithoutTimes, u32) {
        let ends = [key.from, key.to].into_iter().zip(ends);
        let find = |is_at_fault: &dyn Fn(u32, Option<EndCount>) -> bool| {
            ends.clone().find(|&(rank, end)| is_at_fault(rank, end)).map(|(rank, _)| rank)
        };
        if let Some(rank) = find(&|_, end| end.is_some_and(|end| !end.is_ordered)) {
            (WithoutTimes::Unordered, rank)
        } else if let Some(rank) = find(&|rank, end| end.is_none() && self.full.contains(&rank)) {
            (WithoutTimes::Full, rank)
        } else if let Some(rank) = find(&|_, end| end.is_none()) {
            // A rank numbers none of the messages that wildcards took.
            (WithoutTimes::Unordered, rank)
        } else {
            (WithoutTimes::Unequal, key.from)
        }
    }

    /// Adds the rows of a stream in the order of their messages; false, and nothing, if its ends
    /// disagree on a message or have none in common.
    fn add(&mut self, key: StreamKey, messages: u64, rows: &[MessageSample]) -> bool {
        let stream = self.streams.len() as u32;
        let before = self.parts.len();
        let (mut sampled, mut ones) = (0, 0);
        for both in rows.chunk_by(|one, other| one.number == other.number) {
            let [sent, received] = both else {
                if both.len() > 2 {
                    self.parts.truncate(before);
                    return false;
                }
                continue;
            };
            if sent.is_received == received.is_received || sent.bytes != received.bytes {
                self.parts.truncate(before);
                return false;
            }
            sampled += 1;
            ones |= hash(sent.number);
            for (own, other) in [(sent, received), (received, sent)] {
                let Some([arrival_ns, departure_ns]) = own.completion_ns else { continue };
                let (rank, peer) = if own.is_received { (key.to, key.from) } else { (key.from, key.to) };
                self.parts.push(MessagePart {
                    stream,
                    number: own.number,
                    is_received: own.is_received,
                    rank,
                    peer,
                    started_ns: own.started_ns,
                    peer_started_ns: other.started_ns,
                    peer_arrival_ns: other
                        .completion_ns
                        .map_or(other.started_ns, |[arrival_ns, _]| arrival_ns),
                    arrival_ns,
                    departure_ns,
                    class: own.class,
                    completed: own.completed,
                });
            }
        }
        if sampled == 0 || sampled > messages {
            self.parts.truncate(before);
            return false;
        }
        let bits = if sampled == messages { 0 } else { ones.trailing_zeros() };
        // A switch at the same moment as a message may count it for neither side.
        self.streams.push(Stream { key, messages: messages.max(sampled), sampled, bits });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(number: u64, is_received: bool) -> MessageSample {
        let started_ns = 100 * number + u64::from(is_received);
        MessageSample {
            key: StreamKey { comm: 0, from: 3, to: 5, tag: -7 },
            number,
            is_received,
            bytes: 8,
            started_ns,
            completion_ns: Some([started_ns, started_ns + 10]),
            class: Some(Class::Receive),
            completed: 1,
        }
    }

    /// With the messages of each end, and whether their order is known.
    fn tables(rows: Vec<MessageSample>, ends: [(u64, bool); 2]) -> Tables {
        let count = |(messages, is_ordered)| Some(EndCount { messages, recorded: messages, is_ordered });
        let streams = [(rows[0].key, ends.map(count))].into_iter().collect();
        Tables { sightings: rows, streams, ..Tables::default() }
    }

    #[test]
    fn messages_that_both_ends_have_are_joined() {
        let rows = [(4, true), (0, false), (4, false), (2, true), (9, false)];
        let mut rows: Vec<MessageSample> = rows.map(|(number, received)| sighting(number, received)).into();
        rows.push(MessageSample { completion_ns: None, ..sighting(0, true) });
        let joined = join(&mut tables(rows, [(10, true); 2]));
        assert_eq!((joined.streams.len(), joined.streams[0].sampled), (1, 2));
        assert!(joined.left_out.is_empty());
        let parts: Vec<(u64, u32, u64)> =
            joined.parts.iter().map(|part| (part.number, part.rank, part.peer_started_ns)).collect();
        assert_eq!(parts, [(0, 3, 1), (4, 3, 401), (4, 5, 400)], "0 was not seen to be completed by rank 5");
    }

    #[test]
    fn streams_whose_ends_disagree_are_left_out_and_counted() {
        let rows = || vec![sighting(0, false), sighting(0, true), sighting(1, false), sighting(1, true)];
        let mut other_bytes = rows();
        other_bytes[3].bytes = 9;
        for (rows, sent, received) in [
            (other_bytes, (10, true), (10, true)),
            (rows(), (10, true), (11, true)),
            (rows(), (10, true), (10, false)),
            (vec![sighting(0, false), sighting(1, true)], (10, true), (10, true)),
            (vec![sighting(0, false), sighting(0, false)], (10, true), (10, true)),
        ] {
            let joined = join(&mut tables(rows, [sent, received]));
            assert_eq!((joined.streams.len(), joined.parts.len()), (0, 0));
            let reason = if received.1 { (WithoutTimes::Unequal, 3) } else { (WithoutTimes::Unordered, 5) };
            let messages = sent.0.max(received.0);
            assert_eq!(joined.left_out, BTreeMap::from([((0, reason.0, reason.1), messages)]));
            assert_eq!(joined.messages[&(0, 3)], messages);
            assert!(joined.uncovered.contains(&(0, 3, false)) && joined.uncovered.contains(&(0, 5, true)));
        }
    }

    #[test]
    fn ends_of_a_run_that_was_ended_may_differ_by_the_last_messages() {
        let rows = || {
            vec![
                sighting(0, false),
                sighting(0, true),
                sighting(1, false),
                sighting(1, true),
                sighting(2, false),
            ]
        };
        for (sent, received) in [(10, 9), (9, 10)] {
            let mut tables = tables(rows(), [(sent, true), (received, true)]);
            tables.may_lack_last = true;
            let joined = join(&mut tables);
            assert!(joined.left_out.is_empty());
            assert_eq!((joined.streams[0].messages, joined.streams[0].sampled), (9, 2));
            assert_eq!(joined.messages[&(0, 3)], 10);
        }
    }

    #[test]
    fn an_end_without_numbers_does_not_know_their_order() {
        for (lacking, rank) in [(0, 3), (1, 5)] {
            let mut tables = tables(vec![sighting(0, lacking == 0)], [(10, true); 2]);
            tables.streams.values_mut().for_each(|ends| ends[lacking] = None);
            let left_out = join(&mut tables).left_out;
            assert_eq!(left_out, BTreeMap::from([((0, WithoutTimes::Unordered, rank), 10)]));
        }
    }

    #[test]
    fn a_stream_has_the_messages_that_were_recorded() {
        let rows = vec![sighting(3, false), sighting(3, true), sighting(5, false), sighting(5, true)];
        let mut tables = tables(rows, [(2000, true); 2]);
        for ends in tables.streams.values_mut() {
            ends[0].as_mut().unwrap().recorded = 2;
            ends[1].as_mut().unwrap().recorded = 3;
        }
        let joined = join(&mut tables);
        assert_eq!((joined.streams[0].messages, joined.streams[0].sampled), (2, 2));
        assert_eq!(joined.messages[&(0, 3)], 3);
    }

    #[test]
    fn streams_that_one_end_had_no_room_for_are_blamed_on_the_full_table() {
        let mut tables = Tables::default();
        let end = Some(EndCount { messages: 3, recorded: 3, is_ordered: true });
        for tag in 0..=MOST_STREAMS as i32 {
            // The receiver had no room for the last one.
            let is_last = tag == MOST_STREAMS as i32;
            let key = StreamKey { comm: 0, from: 3, to: 5, tag };
            tables.streams.insert(key, [end, end.filter(|_| !is_last)]);
        }
        let joined = join(&mut tables);
        assert_eq!(joined.full.len(), 2);
        assert_eq!(joined.left_out[&(0, WithoutTimes::Full, 5)], 3);
        assert_eq!(joined.left_out[&(0, WithoutTimes::Unequal, 3)], 3 * MOST_STREAMS as u64);
    }
}
