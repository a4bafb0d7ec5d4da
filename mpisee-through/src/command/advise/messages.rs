//! Point-to-point messages by sender and receiver, and what each rank did between them: the input
//! of two rules.

use super::facts::{Facts, Used};
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::scan::{self, BadField, Fold, Peer};
use hashbrown::HashMap;
use mpisee_profile::{Operation, OperationKind};
use std::collections::BTreeMap;

/// Messages from one rank to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub messages: u64,
    pub bytes: u64,
}

impl Sent {
    /// Adds others.
    pub fn add(&mut self, other: Sent) {
        self.messages = self.messages.saturating_add(other.messages);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// By sender and receiver.
pub type Pairs = BTreeMap<(u32, u32), Sent>;

/// Messages and times of ranks.
pub struct Messages {
    /// By communicator.
    pub pairs: HashMap<String, Pairs>,
    /// By communicator, the time of each rank in messages and in completing them, in seconds.
    pub time_s: HashMap<String, BTreeMap<u32, f64>>,
    /// By rank, over all communicators, at most how many calls may have brought something to it
    /// that it had not known when it sent the message before.
    pub rounds: HashMap<u32, u64>,
}

#[derive(Default)]
struct Collector {
    pairs: HashMap<Vec<u8>, HashMap<(u32, u32), Sent>>,
}

impl Fold<Peer<'static>> for Collector {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        if row.sent_messages > 0 {
            let sent = Sent { messages: row.sent_messages, bytes: row.sent_bytes };
            let pairs = match self.pairs.get_mut(row.comm) {
                Some(pairs) => pairs,
                None => self.pairs.entry(row.comm.to_vec()).or_default(),
            };
            pairs.entry((row.rank, row.peer)).or_default().add(sent);
        }
        Ok(())
    }
}

/// Returns whether it is about point-to-point messages; waits and tests are mostly for these.
pub fn is_message(used: &Used) -> bool {
    matches!(used.kind, Some(OperationKind::PointToPoint | OperationKind::Completion | OperationKind::Probe))
}

/// Reads the tables; none of a profile with sums over ranks, which have no senders and receivers.
pub fn read(facts: &Facts<'_>) -> Option<Messages> {
    if !facts.processes.nodes().is_empty() {
        return None;
    }
    let scanned = scan::scan::<Peer, Collector>(facts.view.profile(), Collector::default).ok()?;
    let mut pairs: HashMap<String, Pairs> = HashMap::new();
    for (comm, found) in scanned.folds.into_iter().flat_map(|fold| fold.pairs) {
        let known = pairs.entry(String::from_utf8(comm).ok()?).or_default();
        found.into_iter().for_each(|(ends, sent)| known.entry(ends).or_default().add(sent));
    }
    let by = By { comm: true, call: true, rank: true, ..By::default() };
    let groups = facts.view.group(&CallFilter::from_comms(CommFilter::default()), by).ok()?;
    let mut time_s: HashMap<String, BTreeMap<u32, f64>> = HashMap::new();
    let mut brought: HashMap<u32, Brought> = HashMap::new();
    for (key, cell) in &groups.cells {
        let call = groups.call(key);
        let Some(kind) = Operation::from_name(call).map(Operation::kind) else { continue };
        brought.entry(key.rank).or_default().add(call, kind, cell.calls);
        if matches!(kind, OperationKind::PointToPoint | OperationKind::Completion | OperationKind::Probe) {
            *time_s.entry_ref(groups.comm(key)).or_default().entry(key.rank).or_default() += cell.time_s();
        }
    }
    let rounds = brought.into_iter().map(|(rank, brought)| (rank, brought.rounds())).collect();
    Some(Messages { pairs, time_s, rounds })
}

/// Calls of a rank that may bring something to it.
#[derive(Default)]
struct Brought {
    /// Blocking receives and collectives.
    at_once: u64,
    /// Nonblocking receives, and whatever may be one.
    started: u64,
    completions: u64,
}

impl Brought {
    fn add(&mut self, call: &str, kind: OperationKind, calls: u64) {
        let into = match (call, kind) {
            ("MPI_Recv" | "MPI_Mrecv" | "MPI_Sendrecv" | "MPI_Sendrecv_replace", _) => &mut self.at_once,
            (_, OperationKind::PointToPoint) if call.contains("recv") || call.starts_with("MPI_Start") => {
                &mut self.started
            }
            (_, OperationKind::PointToPoint | OperationKind::Probe) => return,
            (_, OperationKind::Completion) => &mut self.completions,
            _ => &mut self.at_once,
        };
        *into = into.saturating_add(calls);
    }

    /// A completion that brings something completes a receive, one at least.
    fn rounds(&self) -> u64 {
        self.at_once.saturating_add(self.started.min(self.completions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_and_their_completions_bring_nothing() {
        let rounds = |calls: &[(&str, u64)]| {
            let mut brought = Brought::default();
            for &(call, number) in calls {
                brought.add(call, Operation::from_name(call).unwrap().kind(), number);
            }
            brought.rounds()
        };
        assert_eq!(rounds(&[("MPI_Isend", 1000), ("MPI_Wait", 1000)]), 0);
        assert_eq!(rounds(&[("MPI_Send", 1000), ("MPI_Barrier", 3), ("MPI_Recv", 5)]), 8);
        assert_eq!(rounds(&[("MPI_Isend", 900), ("MPI_Irecv", 900), ("MPI_Waitall", 90)]), 90);
        assert_eq!(rounds(&[("MPI_Irecv", 7), ("MPI_Test", 10_000), ("MPI_Iprobe", 10_000)]), 7);
        assert_eq!(rounds(&[("MPI_Startall", 60), ("MPI_Waitall", 60)]), 60);
    }
}
