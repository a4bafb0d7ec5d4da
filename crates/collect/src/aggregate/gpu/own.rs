//! The sums that one rank contributes, from its own rows of accesses.

use super::super::sums::{Spread, merge_equal_keys};
use super::{Code, Detail, GpuSums, Key, Line, Note, Sum};
use crate::gpu::GpuPart;
use mpisee_profile::rows::{GpuRow, NcclTimeRow, PeerDevice};
use std::collections::BTreeMap;

/// The note of a rank that has copies.
const LEFT_OUT: &str = "copies between host and GPUs were counted, but are not in profiles with sums over ranks; \
                        MPISEE_FOLD sets from how many ranks on there are sums";
/// The note of a rank that has times of NCCL on the GPU.
const TIMES_LEFT_OUT: &str = "the GPU's time in calls of NCCL was measured, but is not in profiles with sums over ranks; \
                              MPISEE_FOLD sets from how many ranks on there are sums";

impl GpuSums {
    /// Of one rank, with the owners in its rows as far as they are known.
    pub fn from_parts(parts: &[GpuPart]) -> GpuSums {
        let mut sums = GpuSums::default();
        let mut lines: BTreeMap<Code, Vec<(Key, Sum)>> = BTreeMap::new();
        let (mut notes, mut has_copies) = (Vec::new(), None);
        for part in parts {
            match part {
                GpuPart::Row(row, import) => {
                    sums.orphans += u64::from(import.is_some());
                    let (code, key, sum) = own(row);
                    lines.entry(code).or_default().push((key, sum));
                }
                GpuPart::Note { rank, text } => {
                    notes.push(((true, text.as_str().into()), Note { ranks: 1, first: *rank, accesses: 0 }));
                }
                GpuPart::Lost { rank, accesses, why } => {
                    notes.push((
                        (false, why.as_str().into()),
                        Note { ranks: 1, first: *rank, accesses: *accesses },
                    ));
                }
                GpuPart::Binary(row) => {
                    sums.binaries.insert((row.file.clone(), row.build_id.clone()));
                }
                GpuPart::Calls(_, copied) => has_copies = Some(copied.rank),
                GpuPart::Export { .. } | GpuPart::Device(_) | GpuPart::Pe { .. } | GpuPart::Staged(..) => {}
            }
        }
        if let Some(first) = has_copies {
            let note = Note { ranks: 1, first, accesses: 0 };
            notes.push(((true, LEFT_OUT.into()), note));
        }
        // Of a rank, equal notes are one.
        notes.sort_by(|(left, _), (right, _)| left.cmp(right));
        notes.dedup_by(|(key, _), (before, _)| key == before);
        sums.all_notes = notes.len() as u64;
        sums.notes = notes;
        sums.limit_notes(Detail::All);
        let line = |(code, rows)| {
            let mut line = Line { rows: merge_equal_keys(rows), ..Line::default() };
            line.limit(Detail::All, false);
            (code, line)
        };
        sums.lines = lines.into_iter().map(line).collect();
        sums.limit(Detail::All);
        sums
    }
}

impl GpuSums {
    /// Notes that these sums leave out a rank's times of NCCL on the GPU, if there are any.
    pub fn without_times_of_nccl(mut self, times: &[NcclTimeRow]) -> GpuSums {
        if let Some(NcclTimeRow { rank, .. }) = times.first() {
            self.notes.push(((true, TIMES_LEFT_OUT.into()), Note { ranks: 1, first: *rank, accesses: 0 }));
            self.notes.sort_by(|(left, _), (right, _)| left.cmp(right));
            self.all_notes += 1;
        }
        self
    }
}

fn own(row: &GpuRow) -> (Code, Key, Sum) {
    let name = |text: &str| text.into();
    let code = Code { kernel: name(&row.kernel), source: name(&row.source), launched: name(&row.launched) };
    let offset = row.peer_rank.map(|peer| i64::from(peer) - i64::from(row.rank));
    let key = Key {
        object: row.object.as_str().into(),
        memory: row.memory,
        offset: offset.map(|offset| (offset, offset)),
        peer_device: peer_device(row),
        access: row.access,
        width: row.width,
        sampled: row.sampled,
    };
    let sum = Sum {
        count: 1,
        accesses: row.accesses,
        bytes: Spread::from_value(row.rank, row.bytes),
        // It is the root of a whole number.
        variance: (row.error * row.error).round() as u128,
    };
    (code, key, sum)
}

fn peer_device(row: &GpuRow) -> Option<PeerDevice> {
    match row.peer_device.as_str() {
        "" => None,
        "host" => Some(PeerDevice::Host),
        "managed" => Some(PeerDevice::Managed),
        device if device == row.device => Some(PeerDevice::Same),
        _ => Some(PeerDevice::Another),
    }
}
