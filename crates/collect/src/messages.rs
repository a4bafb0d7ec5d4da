//! From the sampled messages of a rank to rows.

use crate::form::{AsRows, Form};
use crate::node_clock::NodeClock;
use mpisee_profile::Ticks;
use mpisee_profile::rows::{MessageRow, StreamRow};
use mpisee_profile::segment::instances::{INSTANCES, Sample, Subject};
use mpisee_profile::segment::key::{Meaning, SlotKey};
use mpisee_profile::segment::snapshot::Snapshot;
use mpisee_profile::segment::streams::{COMMUNICATOR, IS_UNORDERED, PEER_AND_TAG, Stream, recorded};

/// The rows of a rank.
#[derive(Debug)]
pub struct Messages<F: Form = AsRows> {
    /// When it sent and received.
    pub samples: F::Of<MessageRow>,
    /// How many messages there were.
    pub streams: Vec<StreamRow>,
}

impl<F: Form> Default for Messages<F> {
    fn default() -> Self {
        Messages { samples: F::Of::default(), streams: Vec::new() }
    }
}

/// The rows of a process; `names` are those of its communicators.
pub fn rows<F: Form>(snapshot: &Snapshot, names: &[String], clock: &NodeClock) -> Messages<F> {
    let streams = snapshot.counters.iter().filter_map(|&(key, ref values)| match key.meaning() {
        Some(Meaning::Stream(number)) => row(snapshot, names, number, values).map(|row| (key, row)),
        _ => None,
    });
    let mut streams: Vec<(SlotKey, StreamRow)> = streams.collect();
    streams.sort_unstable_by(|(_, left), (_, right)| order(left).cmp(&order(right)));
    let mut rows = Messages::<F>::default();
    for (key, mut stream) in streams {
        let mut samples =
            snapshot.samples.get(&key).filter(|_| stream.ordered == 1).cloned().unwrap_or_default();
        samples.sort_unstable_by_key(|sample| sample.number);
        stream.sampled = samples.len() as u64;
        rows.samples.extend(samples.iter().filter_map(|sample| message(&stream, sample, clock)));
        rows.streams.push(stream);
    }
    rows
}

fn order(row: &StreamRow) -> impl Ord {
    (&row.comm, row.peer, row.end, row.tag)
}

fn row(snapshot: &Snapshot, names: &[String], number: u32, values: &[u64; 6]) -> Option<StreamRow> {
    let stream = Stream::from_words([values[COMMUNICATOR], values[PEER_AND_TAG]]);
    let peer = snapshot.world_rank_of(stream.communicator, stream.peer);
    let messages = values[INSTANCES];
    let peer = peer.filter(|_| messages > 0)?;
    let switched = snapshot.values_of(SlotKey::recorded(number));
    Some(StreamRow {
        comm: names.get(stream.communicator.index())?.clone(),
        rank: snapshot.world_rank.get(),
        peer: peer.get(),
        end: stream.end,
        tag: stream.tag,
        messages,
        sampled: 0,
        recorded: Some(switched.map_or(messages, |values| recorded::messages(values, messages))),
        ordered: u8::from(values[COMMUNICATOR] & IS_UNORDERED == 0),
    })
}

fn message(stream: &StreamRow, sample: &Sample, clock: &NodeClock) -> Option<MessageRow> {
    let Subject::Message { bytes, completion } = sample.subject else { return None };
    let StreamRow { ref comm, rank, peer, end, tag, .. } = *stream;
    let seen = |moment: Ticks| completion.map(|_| clock.moment(moment));
    Some(MessageRow {
        comm: comm.clone(),
        rank,
        peer,
        end,
        tag,
        message: sample.number,
        bytes,
        started_s: clock.moment(sample.start),
        arrival_s: seen(sample.arrival),
        departure_s: seen(sample.departure),
        call: completion.map_or(String::new(), |(call, _)| call.name().to_owned()),
        completed: completion.map_or(0, |(_, completed)| completed),
    })
}
