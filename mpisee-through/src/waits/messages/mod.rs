//! Who waits for whom in point-to-point messages, from sampled messages of which both ends are
//! known.
//!
//! `class` says which calls wait, `join` reads the tables and joins both ends, `calls` computes the
//! waits in the calls that completed messages, `comm` and `estimate` from these those of all
//! messages on a communicator, `pattern` finds who stands out.

mod calls;
mod class;
mod comm;
mod estimate;
pub mod join;
mod pattern;
#[cfg(test)]
mod programs;
mod sums;

use super::hosts::{Clocks, Passed};
use super::{LeftOut, Sink, Waiting};
use calls::CompletedMessage;
pub use class::Class;
use comm::CommMessages;
use hashbrown::{HashMap, HashSet};
use join::{Joined, MessagePart};
use mpisee_profile::Operation;
pub use pattern::LateEnd;

/// The name that messages have among operations.
pub const MESSAGES: &str = "messages";

/// The time of a rank in calls about messages on a communicator, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// By [`Class`].
    pub by_class_s: [f64; Class::COUNT],
    /// In calls that do not wait: those that start a message, test for one, or receive one that a
    /// probe has matched.
    pub other_s: f64,
    /// In probes that match no message, and in tests that a hang may explain: of these the profile
    /// has no samples.
    pub probes_s: f64,
    /// True if there are requests of collectives, files or windows, for which calls may wait as
    /// well.
    pub has_other_requests: bool,
    pub starts: Starts,
}

/// The operations that started requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Starts {
    #[default]
    None,
    One(Operation),
    Several,
}

impl Starts {
    pub fn add(&mut self, operation: Operation) {
        *self = match *self {
            Starts::None => Starts::One(operation),
            Starts::One(known) if known == operation => *self,
            _ => Starts::Several,
        };
    }
}

impl Times {
    /// The time in the calls that waited for the requests of this operation, in seconds, if there
    /// were no other calls about requests.
    pub fn of_requests_s(&self, call: &str) -> Option<f64> {
        let is_alone = matches!(self.starts, Starts::One(operation) if operation.name() == call);
        (is_alone && self.other_s == 0.0).then(|| self.by_class_s[Class::Wait as usize])
    }

    /// All of the time.
    pub fn sum(&self) -> f64 {
        self.by_class_s.iter().sum::<f64>() + self.other_s + self.probes_s
    }
}

/// The messages by communicator, and by rank and whether it received them.
pub type MessageCounts = HashMap<String, HashMap<(u32, bool), u64>>;

/// Known facts of messages beside their sample.
pub struct MessageTotals<'a> {
    /// The time by communicator, and by rank.
    pub times: &'a HashMap<String, HashMap<u32, Times>>,
    pub counts: MessageCounts,
    /// By rank, in seconds.
    pub wall_s: &'a std::collections::HashMap<u32, f64>,
    /// True if numbers of messages count some that were not recorded.
    pub was_off: bool,
}

/// Moves the first moments of hosts to those of messages, if they are earlier.
pub fn begin_with(joined: &Joined, clocks: &mut Clocks) {
    for part in &joined.parts {
        for (rank, time_ns) in
            [(part.rank, part.arrival_ns.min(part.started_ns)), (part.peer, part.peer_started_ns)]
        {
            if let Some(host) = clocks.host(rank) {
                clocks.begin_at(host, time_ns);
            }
        }
    }
}

/// The messages between hosts, for a comparison of their clocks. A call that only tests has no
/// known end.
pub fn passed<'j>(joined: &'j Joined, clocks: &Clocks) -> Vec<Passed> {
    let passed = |part: &'j MessagePart| {
        let hosts = [clocks.host(part.peer)?, clocks.host(part.rank)?];
        let is_bound = part.is_received && hosts[0] != hosts[1] && part.departure_ns > part.arrival_ns;
        is_bound.then_some(Passed { hosts, sent_ns: part.peer_started_ns, received_ns: part.departure_ns })
    };
    joined.parts.iter().filter_map(passed).collect()
}

/// The waits of the communicators that `takes` takes, and those that have none.
pub fn waits(
    mut joined: Joined,
    comms: &[String],
    clocks: &Clocks,
    known: &MessageTotals<'_>,
    takes: impl Fn(&str) -> bool,
    mut sink: Option<Sink<'_>>,
) -> (Vec<Waiting>, Vec<(LeftOut, String)>) {
    let mut left_out = Vec::new();
    for comm in drop_incomparable(&mut joined, clocks) {
        left_out.push((LeftOut::Clocks, comms[comm as usize].clone()));
    }
    let mut completions = calls::completions(&mut joined.parts, &joined.streams, clocks);
    drop(std::mem::take(&mut joined.parts));
    completions.sort_unstable_by_key(|one| (one.comm, one.rank, one.class, one.stream, one.number));
    let mut of_comm: HashMap<u32, &[CompletedMessage]> = HashMap::new();
    for chunk in completions.chunk_by(|one, other| one.comm == other.comm) {
        of_comm.insert(chunk[0].comm, chunk);
    }
    let mut streams_of: HashMap<u32, Vec<u32>> = HashMap::new();
    for (index, stream) in (0..).zip(&joined.streams) {
        streams_of.entry(stream.key.comm).or_default().push(index);
    }
    let mut found = Vec::new();
    for (comm, streams) in streams_of {
        let name = &comms[comm as usize];
        if !takes(name) {
            continue;
        }
        let completions = of_comm.get(&comm).copied().unwrap_or_default();
        let sampled = CommMessages::new(name, comm, completions, &streams, &joined, known);
        found.push(sampled.waiting(clocks, known, sink.as_mut()));
    }
    found.sort_by(|one, other| one.comm.cmp(&other.comm));
    (found, left_out)
}

/// Takes out messages whose ends have clocks that cannot be compared; returns their communicators.
fn drop_incomparable(joined: &mut Joined, clocks: &Clocks) -> Vec<u32> {
    let are_comparable = |from: u32, to: u32| match (clocks.host(from), clocks.host(to)) {
        (Some(from), Some(to)) => clocks.are_joined([from, to].into_iter()),
        _ => false,
    };
    let mut dropped: HashSet<u32> = HashSet::new();
    let mut is_kept = Vec::with_capacity(joined.streams.len());
    for stream in &joined.streams {
        let key = stream.key;
        is_kept.push(are_comparable(key.from, key.to));
        if is_kept.last() == Some(&false) {
            dropped.insert(key.comm);
            joined.uncovered.extend([(key.comm, key.from, false), (key.comm, key.to, true)]);
        }
    }
    if !dropped.is_empty() {
        // Their numbers stay: parts have the indices of streams.
        joined.parts.retain(|part| is_kept[part.stream as usize]);
    }
    let mut dropped: Vec<u32> = dropped.into_iter().collect();
    dropped.sort_unstable();
    dropped
}
