//! Point-to-point messages of MPI between the same ranks or devices, to compare with the accesses
//! of kernels.

use super::label::Label;
use super::rows::Ends;
use super::sums::Key;
use super::{By, Chosen, only};
use crate::sheet::Value;
use anyhow::Result;
use mpisee_profile::Profile;
use mpisee_profile::rows::{OffsetRow, PeerRow};
use std::collections::{BTreeMap, HashSet};

/// Bytes sent to and received from another, by rank or by device.
#[derive(Debug, Default)]
pub struct Mpi {
    /// The devices that ranks stand for.
    ends: HashSet<String>,
    bytes: BTreeMap<(Label, Label), (u64, u64)>,
    /// Where rows are sums over ranks, by how far the other is.
    offsets: BTreeMap<(i64, i64), (u64, u64)>,
}

impl Mpi {
    /// The messages beside rows of this kind, if they have any.
    pub fn beside(profile: &Profile, chosen: &Chosen, by: By) -> Result<Option<Self>> {
        if !matches!(by, By::Rank | By::Device) {
            return Ok(None);
        }
        let mut mpi = Mpi::default();
        if chosen.rows.is_empty() {
            return Ok(Some(mpi));
        }
        if chosen.ends == Ends::Distances {
            return if by == By::Rank { by_offset(profile).map(Some) } else { Ok(None) };
        }
        let devices = &chosen.devices;
        mpi.ends = match by {
            By::Device => devices.values().filter_map(only).cloned().collect(),
            _ => HashSet::new(),
        };
        let end = |rank: u32| match by {
            By::Device => devices.get(&rank).and_then(only).cloned().map(Label::Text),
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
        if let [Label::Offset(first, last)] = key[..] {
            return self.at(first, last).map_or([Value::Nothing, Value::Nothing], |(sent, received)| {
                [Value::Bytes(sent), Value::Bytes(received)]
            });
        }
        if !key.iter().all(|label| self.has(label)) {
            return [Value::Nothing, Value::Nothing];
        }
        let pair = (key[0].clone(), key[1].clone());
        let (sent, received) = self.bytes.get(&pair).copied().unwrap_or_default();
        [Value::Bytes(sent), Value::Bytes(received)]
    }

    /// Sent and received over these offsets; none where some are together with others.
    fn at(&self, first: i64, last: i64) -> Option<(u64, u64)> {
        let mut sum = (0u64, 0u64);
        for (&(from, to), &(sent, received)) in &self.offsets {
            if first <= from && to <= last {
                sum = (sum.0.saturating_add(sent), sum.1.saturating_add(received));
            } else if from <= last && first <= to {
                return None;
            }
        }
        Some(sum)
    }

    /// The bytes sent, by sender and receiver.
    pub fn sent(&self) -> impl Iterator<Item = (&Label, &Label, u64)> {
        let sent = self.bytes.iter().map(|((from, to), (sent, _))| (from, to, *sent));
        sent.filter(|(.., bytes)| *bytes > 0)
    }

    /// Returns whether MPI has such an end: a rank, or a device that ranks stand for.
    fn has(&self, label: &Label) -> bool {
        match label {
            Label::Number(_) => true,
            Label::Offset(..) => false,
            Label::Text(device) => self.ends.contains(device),
        }
    }
}

fn by_offset(profile: &Profile) -> Result<Mpi> {
    let mut mpi = Mpi::default();
    for row in profile.rows::<OffsetRow>()? {
        let row = row?;
        let sum = mpi.offsets.entry((row.offset_min, row.offset_max)).or_default();
        *sum = (sum.0.saturating_add(row.sent_bytes), sum.1.saturating_add(row.received_bytes));
    }
    Ok(mpi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_range_belong_to_no_part_of_it() {
        let offsets = [((-1, -1), (5, 6)), ((1, 1), (7, 8)), ((2, 3), (10, 20)), ((4, 7), (100, 200))];
        let mpi = Mpi { offsets: offsets.into(), ..Mpi::default() };
        assert_eq!(mpi.at(1, 1), Some((7, 8)));
        assert_eq!(mpi.at(2, 3), Some((10, 20)));
        assert_eq!(mpi.at(1, 7), Some((117, 228)));
        assert_eq!(mpi.at(2, 2), None);
        assert_eq!(mpi.at(3, 7), None);
        assert_eq!(mpi.at(8, 15), Some((0, 0)));
    }
}
