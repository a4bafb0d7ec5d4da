//! Checks one-sided operations: the bytes of a rank's calls are those at its targets.

use super::findings::{Check, Findings};
use crate::units::{count, natural_order};
use mpisee_profile::rows::{CallRow, PeerCounts};
use mpisee_profile::{Operation, OperationKind};
use std::collections::HashMap;

/// Columns of bytes in [`PeerCounts`], and their names.
const KINDS: [(usize, &str); 3] = [(5, "puts"), (7, "gets"), (9, "accumulates")];

/// Adds up one-sided operations, to be compared at their end.
#[derive(Debug, Default)]
pub struct TargetCheck {
    /// By communicator and rank, for each kind: bytes of calls, and at targets.
    sums: HashMap<(String, u32), [[u64; 2]; 3]>,
    /// False of a profile from before targets were counted.
    has_targets: bool,
}

impl TargetCheck {
    /// Adds calls.
    pub fn call(&mut self, row: &CallRow) {
        let operation = Operation::from_name(&row.call)
            .filter(|operation| operation.kind() == OperationKind::OneSided && !operation.is_nccl());
        let kind = match operation {
            _ if row.bytes == 0 => return,
            Some(Operation::Put | Operation::Rput) => 0,
            Some(Operation::Get | Operation::Rget) => 1,
            Some(_) => 2,
            None => return,
        };
        self.add(&row.comm, row.rank, kind, 0, row.bytes);
    }

    /// Adds operations on the memory of one target.
    pub fn target(&mut self, comm: &str, rank: u32, counts: PeerCounts) {
        for (kind, (column, _)) in
            KINDS.into_iter().enumerate().filter(|(_, (column, _))| counts[*column] > 0)
        {
            self.has_targets = true;
            self.add(comm, rank, kind, 1, counts[column]);
        }
    }

    fn add(&mut self, comm: &str, rank: u32, kind: usize, side: usize, bytes: u64) {
        let sums = match self.sums.get_mut(&(comm.to_owned(), rank)) {
            Some(sums) => sums,
            None => self.sums.entry((comm.to_owned(), rank)).or_default(),
        };
        let sum = &mut sums[kind][side];
        *sum = sum.saturating_add(bytes);
    }

    /// Reports what differs, when all rows are added.
    pub fn finish(self, explained_by: Option<&'static str>, findings: &mut Findings) {
        if !self.has_targets {
            return;
        }
        let mut all: Vec<_> = self.sums.into_iter().collect();
        all.sort_by(|((left, one), _), ((right, other), _)| natural_order(left, right).then(one.cmp(other)));
        for ((comm, rank), sums) in all {
            for ((_, kind), [called, at_targets]) in KINDS.into_iter().zip(sums) {
                if called != at_targets {
                    findings.differs_unless(explained_by, Check::Traffic, || {
                        format!(
                            "on {comm}, rank {rank} has {} of {kind} in calls.csv, and {} in peers.csv",
                            count(called, "byte"),
                            count(at_targets, "byte")
                        )
                    });
                }
            }
        }
    }
}
