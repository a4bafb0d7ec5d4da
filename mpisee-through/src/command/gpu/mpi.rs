//! What MPI moved between the same ranks or devices, in point-to-point messages.

use super::sums::{Key, Label};
use super::{By, Chosen};
use crate::sheet::Value;
use anyhow::Result;
use mpisee_profile::Profile;
use mpisee_profile::rows::PeerRow;
use std::collections::{BTreeMap, HashSet};

/// Bytes sent to and received from another, by rank or by device.
#[derive(Debug, Default)]
pub struct Mpi {
    /// The devices that ranks stand for.
    ends: HashSet<String>,
    bytes: BTreeMap<(Label, Label), (u64, u64)>,
}

impl Mpi {
    /// What stands beside rows of this kind, if anything does.
    pub fn beside(profile: &Profile, chosen: &Chosen, by: By) -> Result<Option<Self>> {
        if !matches!(by, By::Rank | By::Device) {
            return Ok(None);
        }
        let mut mpi = Mpi::default();
        if chosen.rows.is_empty() {
            return Ok(Some(mpi));
        }
        let devices = &chosen.devices;
        mpi.ends = match by {
            By::Device => devices.values().flatten().cloned().collect(),
            _ => HashSet::new(),
        };
        let end = |rank: u32| match by {
            By::Device => devices.get(&rank).cloned().flatten().map(Label::Text),
            _ => Some(Label::Number(rank)),
        };
        for row in profile.rows::<PeerRow>()? {
            let row = row?;
            if let (Some(from), Some(to)) = (end(row.rank), end(row.peer)) {
                let sum = mpi.bytes.entry((from, to)).or_default();
                *sum = (sum.0.saturating_add(row.sent_bytes), sum.1.saturating_add(row.received_bytes));
            }
        }
        Ok(Some(mpi))
    }

    /// Sent and received, for a row of these columns; nothing where MPI has no such end.
    pub fn cells(&self, key: &Key) -> [Value; 2] {
        if !key.iter().all(|label| self.has(label)) {
            return [Value::Nothing, Value::Nothing];
        }
        let pair = (key[0].clone(), key[1].clone());
        let (sent, received) = self.bytes.get(&pair).copied().unwrap_or_default();
        [Value::Bytes(sent), Value::Bytes(received)]
    }

    /// What was sent, by sender and receiver.
    pub fn sent(&self) -> impl Iterator<Item = (&Label, &Label, u64)> {
        let sent = self.bytes.iter().map(|((from, to), (sent, _))| (from, to, *sent));
        sent.filter(|(.., bytes)| *bytes > 0)
    }

    /// Whether MPI has such an end: a rank, or a device that ranks stand for.
    fn has(&self, label: &Label) -> bool {
        match label {
            Label::Number(_) => true,
            Label::Text(device) => self.ends.contains(device),
        }
    }
}
