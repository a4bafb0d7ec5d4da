//! Checks the order of calls: its steps add up to the calls and messages of the other tables.

use super::findings::{Check, Findings};
use crate::order::{self, ThreadOrder};
use crate::units::{count, natural_order};
use anyhow::Result;
use mpisee_profile::rows::{CallRow, Memory, OrderStepKind, OrderStepRow, PeerCounts};
use mpisee_profile::{Profile, SiteId};
use std::collections::{BTreeMap, HashMap};

/// Calls of one row of `calls.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct CallKey {
    comm: String,
    rank: u32,
    region: String,
    call: String,
    size_min: u64,
    memory: Memory,
    site: Option<SiteId>,
}

/// Calls and bytes.
type Sum = (i128, i128);

/// Messages and bytes sent and received, then operations and bytes of puts, gets and accumulates.
type Peers = [i128; 10];

/// Sums up the steps of the order, and compares them with the rows of other tables.
#[derive(Debug, Default)]
pub struct OrderCheck {
    /// The surplus of the order over the rows; of ranks with a whole order.
    calls: HashMap<CallKey, Sum>,
    /// By communicator and rank.
    peers: HashMap<(String, u32), Peers>,
    /// The ranks whose order is known, and whether it is whole.
    ranks: BTreeMap<u32, bool>,
}

/// Calls that programs repeat until something is there: those that find nothing are not in the
/// order.
fn may_find_nothing(call: &str) -> bool {
    matches!(
        call,
        "MPI_Improbe"
            | "MPI_Iprobe"
            | "MPI_Request_get_status"
            | "MPI_Test"
            | "MPI_Testall"
            | "MPI_Testany"
            | "MPI_Testsome"
    )
}

impl OrderCheck {
    /// Reads the order, if the profile has it.
    pub fn read(profile: &Profile) -> Result<OrderCheck> {
        let mut check = OrderCheck::default();
        for order in order::read(profile)? {
            *check.ranks.entry(order.row.rank).or_insert(true) &= order.row.lost == 0;
            for (step, times) in order.rules.terminals() {
                check.step(&order, &order.steps[step as usize], i128::from(times));
            }
        }
        Ok(check)
    }

    fn step(&mut self, order: &ThreadOrder, step: &OrderStepRow, times: i128) {
        let rank = order.row.rank;
        let comm = order.comm(step);
        let (calls, bytes) = match step.kind {
            OrderStepKind::Call | OrderStepKind::CountedAnew => (times, 1),
            OrderStepKind::TakenBack => (-times, -1),
            OrderStepKind::Bytes => (0, 1),
            OrderStepKind::Completed | OrderStepKind::Root | OrderStepKind::SwitchedOn => return,
            kind => return self.message(comm, rank, kind, step.bytes.into(), times),
        };
        let key = CallKey {
            comm: comm.to_owned(),
            rank,
            region: step.region.clone(),
            call: step.call.clone(),
            size_min: step.size_min.unwrap_or_default(),
            memory: step.memory.unwrap_or(Memory::Host),
            site: step.site,
        };
        let sum = self.calls.entry(key).or_default();
        sum.0 += calls;
        sum.1 += bytes * i128::from(step.bytes) * times;
    }

    fn message(&mut self, comm: &str, rank: u32, kind: OrderStepKind, bytes: i128, times: i128) {
        let (place, sign) = match kind {
            OrderStepKind::Sent => (0, 1),
            OrderStepKind::Unsent => (0, -1),
            OrderStepKind::Received => (2, 1),
            OrderStepKind::Put => (4, 1),
            OrderStepKind::Get => (6, 1),
            _ => (8, 1),
        };
        let sums = self.peers.entry((comm.to_owned(), rank)).or_default();
        sums[place] += sign * times;
        sums[place + 1] += sign * times * bytes;
    }

    /// Takes away calls.
    pub fn call(&mut self, row: &CallRow) {
        if self.ranks.get(&row.rank) != Some(&true) {
            return;
        }
        let key = CallKey {
            comm: row.comm.clone(),
            rank: row.rank,
            region: row.region.clone(),
            call: row.call.clone(),
            size_min: row.size_min,
            memory: row.memory,
            site: row.site,
        };
        let sum = self.calls.entry(key).or_default();
        sum.0 -= i128::from(row.calls);
        // Bytes that are taken away leave less than nothing.
        sum.1 -= i128::from(row.bytes);
    }

    /// Takes away messages and one-sided operations.
    pub fn peer(&mut self, comm: &str, rank: u32, counts: PeerCounts) {
        if self.ranks.get(&rank) != Some(&true) {
            return;
        }
        let counts = [
            counts.sent_messages,
            counts.sent_bytes,
            counts.received_messages,
            counts.received_bytes,
            counts.puts,
            counts.put_bytes,
            counts.gets,
            counts.get_bytes,
            counts.accumulates,
            counts.accumulate_bytes,
        ];
        let sums = self.peers.entry((comm.to_owned(), rank)).or_default();
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum -= i128::from(count));
    }

    /// Reports what differs, when all rows are added.
    pub fn finish(self, explanation: Option<&'static str>, findings: &mut Findings) {
        for (rank, _) in self.ranks.iter().filter(|&(_, &is_whole)| !is_whole) {
            let why = Some("the recorder could not note all steps");
            findings.differs_unless(why, Check::Rows, || {
                format!("order.csv has a part of the steps of rank {rank}, which are not compared")
            });
        }
        let mut calls: Vec<_> = self.calls.into_iter().collect();
        calls.retain(|(key, (calls, bytes))| {
            // Polls that found nothing are in the rows alone.
            let is_right = if may_find_nothing(&key.call) { *calls <= 0 } else { *calls == 0 };
            self.ranks.get(&key.rank) == Some(&true) && !(is_right && *bytes == 0)
        });
        calls.sort_by(|(left, _), (right, _)| {
            natural_order(&left.comm, &right.comm).then_with(|| left.cmp(right))
        });
        for (CallKey { comm, rank, call, size_min, .. }, (calls, bytes)) in calls {
            findings.differs_unless(explanation, Check::Rows, || {
                format!(
                    "on {comm}, rank {rank} has {calls:+} calls of {call} (messages from {} on) and {bytes:+} bytes \
                     in order.csv, compared with calls.csv",
                    count(size_min, "byte")
                )
            });
        }
        let mut peers: Vec<_> = self.peers.into_iter().collect();
        peers.retain(|((_, rank), sums)| {
            self.ranks.get(rank) == Some(&true) && sums.iter().any(|&sum| sum != 0)
        });
        peers.sort_by(|((left, one), _), ((right, other), _)| {
            natural_order(left, right).then_with(|| one.cmp(other))
        });
        for ((comm, rank), sums) in peers {
            findings.differs_unless(explanation, Check::Traffic, || {
                format!("on {comm}, rank {rank} has other messages in order.csv than in peers.csv: {sums:?}")
            });
        }
    }
}
