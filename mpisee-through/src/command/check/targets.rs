//! Checks one-sided operations: the bytes of a rank's calls are those at its targets.

use super::findings::{Check, Findings};
use crate::units::{count, natural_order};
use mpisee_profile::Operation;
use mpisee_profile::rows::{Access, CallRow, PeerCounts};
use std::collections::{BTreeMap, HashMap};

/// The columns of operations, in the order of [`Sums`].
const KINDS: [&str; 3] = ["puts", "gets", "accumulates"];

/// For each kind, bytes of calls, and at targets.
type Sums = [[u64; 2]; 3];

/// Sums up one-sided bytes by communicator and rank, for a comparison in [`TargetCheck::finish`].
#[derive(Debug, Default)]
pub struct TargetCheck {
    sums: HashMap<String, BTreeMap<u32, Sums>>,
}

impl TargetCheck {
    /// Adds calls.
    pub fn call(&mut self, row: &CallRow) {
        let kind = match Operation::from_name(&row.call).and_then(Access::from_operation) {
            Some(Access::Put) => 0,
            Some(Access::Get) => 1,
            Some(Access::Accumulate) => 2,
            None => return,
        };
        if row.bytes > 0 {
            self.add(&row.comm, row.rank, kind, 0, row.bytes);
        }
    }

    /// Adds operations on the memory of one target.
    pub fn target(&mut self, comm: &str, rank: u32, counts: PeerCounts) {
        for (kind, bytes) in
            [counts.put_bytes, counts.get_bytes, counts.accumulate_bytes].into_iter().enumerate()
        {
            if bytes > 0 {
                self.add(comm, rank, kind, 1, bytes);
            }
        }
    }

    fn add(&mut self, comm: &str, rank: u32, kind: usize, side: usize, bytes: u64) {
        if !self.sums.contains_key(comm) {
            self.sums.insert(comm.to_owned(), BTreeMap::new());
        }
        let ranks = self.sums.get_mut(comm).expect("it was inserted");
        let sum = &mut ranks.entry(rank).or_default()[kind][side];
        *sum = sum.saturating_add(bytes);
    }

    /// Reports what differs, when all rows are added.
    pub fn finish(self, explained_by: Option<&'static str>, findings: &mut Findings) {
        let mut comms: Vec<_> = self.sums.into_iter().collect();
        comms.sort_by(|(left, _), (right, _)| natural_order(left, right));
        let ranks =
            comms.iter().flat_map(|(comm, ranks)| ranks.iter().map(move |(rank, sums)| (comm, rank, sums)));
        for (comm, rank, sums) in ranks {
            for (kind, [called, at_targets]) in KINDS.into_iter().zip(sums) {
                if called != at_targets {
                    findings.differs_unless(explained_by, Check::Traffic, || {
                        format!(
                            "on {comm}, rank {rank} has {} of {kind} in calls.csv, and {} by target",
                            count(*called, "byte"),
                            count(*at_targets, "byte")
                        )
                    });
                }
            }
        }
    }
}
