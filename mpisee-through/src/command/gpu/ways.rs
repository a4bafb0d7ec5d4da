//! All ways that data took between GPUs, and between GPUs and the host, side by side: who moved how much from where to where.
//!
//! The same data can be in several columns, and are not added up: an MPI that takes the memory of GPUs copies by the driver, and
//! one that does not is given copies of the program's.

use super::Chosen;
use super::rows::Accessed;
use crate::load;
use crate::sheet::{self, Head, Sheet, Value};
use crate::units::human_bytes;
use anyhow::Result;
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{CopyRow, Memory, NcclPeerRow, PeerRow};
use mpisee_profile::{CommRank, Profile};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

const HEADS: [Head; 6] = [
    sheet::fixed("from", "FROM"),
    sheet::fixed("to", "TO"),
    sheet::number("mpi_bytes", "MPI"),
    sheet::number("nccl_bytes", "NCCL"),
    sheet::number("copied_bytes", "COPIES"),
    sheet::number("kernel_bytes", "KERNELS"),
];

/// Bytes from one end to another.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    /// Messages of the ranks on these GPUs, point-to-point.
    mpi: u64,
    /// The same of NCCL: `ncclSend` and `ncclRecv`.
    nccl: u64,
    /// Copies that the host asked for.
    copied: u64,
    /// Loads, stores and atomics of kernels.
    by_kernels: u64,
}

impl Moved {
    /// The column with most bytes.
    fn most(&self) -> u64 {
        self.mpi.max(self.nccl).max(self.copied).max(self.by_kernels)
    }
}

/// The ways between each two ends, and what could not be said by ends.
#[derive(Debug, Default)]
pub struct Ways {
    moved: BTreeMap<(String, String), Moved>,
    /// Bytes of messages between ranks of which one uses several GPUs.
    of_several: u64,
    /// Bytes of messages of NCCL, or from or to a rank with a GPU, where a rank's GPU is not known.
    of_unknown: u64,
}

impl Ways {
    /// Adds up a profile with rows of each rank.
    pub fn of(profile: &Profile, chosen: &Chosen, copies: &[CopyRow]) -> Result<Ways> {
        let mut ways = Ways::default();
        for row in profile.rows::<PeerRow>()? {
            let row = row?;
            let has_gpu = [row.rank, row.peer].iter().any(|rank| chosen.devices.contains_key(rank));
            let bytes = if has_gpu { row.sent_bytes } else { 0 };
            ways.add_messages(&chosen.devices, [row.rank, row.peer], bytes, |moved| &mut moved.mpi);
        }
        for ([from, to], bytes) in nccl_messages(&load::if_any(profile)?) {
            ways.add_messages(&chosen.devices, [from, to], bytes, |moved| &mut moved.nccl);
        }
        copies.iter().for_each(|row| ways.add_copies(row));
        chosen.rows.iter().for_each(|row| ways.add_accesses(row));
        Ok(ways)
    }

    /// The sheet, the pairs with most bytes first; `name` gives GPUs the names that a table shows.
    pub fn sheet(&self, name: impl Fn(&str) -> String) -> Sheet {
        let mut pairs: Vec<_> = self.moved.iter().filter(|(_, moved)| moved.most() > 0).collect();
        pairs.sort_by_key(|(_, moved)| Reverse(moved.most()));
        let row = |((from, to), moved): (&(String, String), &Moved)| {
            let ends = [from, to].map(|end| Value::Text(name(end)));
            let bytes = [moved.mpi, moved.nccl, moved.copied, moved.by_kernels].map(Value::Bytes);
            ends.into_iter().chain(bytes).collect()
        };
        Sheet { name: "ways", heads: HEADS.to_vec(), rows: pairs.into_iter().map(row).collect() }
    }

    /// A sentence for each reason for which bytes are in no row.
    pub fn notes(&self) -> Vec<String> {
        let reasons = [
            (self.of_several, "their ranks use several GPUs"),
            (self.of_unknown, "no GPU of a rank is known"),
        ];
        let sentence = |(bytes, why): (u64, &str)| {
            format!("{} of messages are in no row of FROM and TO, since {why}.", human_bytes(bytes))
        };
        reasons.into_iter().filter(|(bytes, _)| *bytes > 0).map(sentence).collect()
    }

    fn between(&mut self, from: &str, to: &str) -> &mut Moved {
        self.moved.entry((from.to_owned(), to.to_owned())).or_default()
    }

    fn add_messages(
        &mut self,
        devices: &HashMap<u32, Option<String>>,
        [from, to]: [u32; 2],
        bytes: u64,
        sum: impl Fn(&mut Moved) -> &mut u64,
    ) {
        match (devices.get(&from), devices.get(&to)) {
            (Some(Some(from)), Some(Some(to))) => {
                let sum = sum(self.between(from, to));
                *sum = sum.saturating_add(bytes);
            }
            (Some(_), Some(_)) => self.of_several = self.of_several.saturating_add(bytes),
            _ => self.of_unknown = self.of_unknown.saturating_add(bytes),
        }
    }

    fn add_copies(&mut self, row: &CopyRow) {
        let (Some(from), Some(to)) = (end(row.from, &row.from_device), end(row.to, &row.to_device)) else {
            // A launch, or memory that is set.
            return;
        };
        if (from, to) != (HOST, HOST) {
            let sum = &mut self.between(from, to).copied;
            *sum = sum.saturating_add(row.bytes);
        }
    }

    fn add_accesses(&mut self, row: &Accessed) {
        let Some((_, kernels)) = &row.rank else { return };
        let memory = known(&row.peer_device);
        let (from, to) = match row.access {
            Access::Load => (memory, kernels.as_str()),
            Access::Store | Access::Atomic => (kernels.as_str(), memory),
        };
        let sum = &mut self.between(from, to).by_kernels;
        *sum = sum.saturating_add(row.bytes);
    }
}

/// Bytes that processes sent to each other with NCCL. The receiver is the process that has the peer's rank as its own.
fn nccl_messages(rows: &[NcclPeerRow]) -> Vec<([u32; 2], u64)> {
    let processes: HashMap<(&str, CommRank), u32> =
        rows.iter().map(|row| ((row.comm.as_str(), row.rank_in_comm), row.rank)).collect();
    let message = |row: &NcclPeerRow| {
        let peer = processes.get(&(row.comm.as_str(), row.peer_in_comm))?;
        Some(([row.rank, *peer], row.sent_bytes))
    };
    rows.iter().filter_map(message).collect()
}

const HOST: &str = "host";

/// An end of a copy.
fn end(memory: Option<Memory>, device: &str) -> Option<&str> {
    Some(match memory? {
        Memory::Host | Memory::Pinned => HOST,
        Memory::Managed => "managed",
        Memory::Device => known(device),
    })
}

fn known(device: &str) -> &str {
    if device.is_empty() { "(unknown)" } else { device }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_direction() {
        let mut ways = Ways::default();
        let copy = |from, from_device: &str, to, to_device: &str, bytes| CopyRow {
            rank: 0,
            device: "GPU-a".to_owned(),
            call: "cuMemcpy".to_owned(),
            mode: mpisee_profile::rows::CopyMode::Blocking,
            from,
            from_device: from_device.to_owned(),
            to,
            to_device: to_device.to_owned(),
            line: String::new(),
            calls: 1,
            bytes,
            time_s: mpisee_profile::rows::Seconds(0.0),
        };
        let device = Some(Memory::Device);
        for row in [
            copy(Some(Memory::Pinned), "", device, "GPU-a", 11),
            copy(Some(Memory::Host), "", device, "GPU-a", 2),
            copy(device, "GPU-a", device, "GPU-b", 23),
            copy(Some(Memory::Host), "", Some(Memory::Pinned), "", 400),
            copy(None, "", device, "GPU-a", 800),
        ] {
            ways.add_copies(&row);
        }
        let devices = [(0, Some("GPU-a")), (1, Some("GPU-b")), (2, None)];
        let devices = devices.map(|(rank, device)| (rank, device.map(str::to_owned))).into();
        for (ends, bytes) in [([0, 1], 31), ([1, 0], 37), ([1, 2], 41), ([3, 1], 43)] {
            ways.add_messages(&devices, ends, bytes, |moved| &mut moved.mpi);
        }
        let moved: Vec<_> = ways
            .moved
            .iter()
            .map(|((from, to), it)| (from.as_str(), to.as_str(), it.mpi, it.copied))
            .collect();
        assert_eq!(moved, [("GPU-a", "GPU-b", 31, 23), ("GPU-b", "GPU-a", 37, 0), ("host", "GPU-a", 0, 13),]);
        let notes = ways.notes();
        let begins: Vec<&str> = notes.iter().map(|note| &note[..16]).collect();
        assert_eq!(begins, ["41 B of messages", "43 B of messages"]);
    }

    #[test]
    fn the_receiver_of_ncclsend_is_who_has_the_rank() {
        let row = |rank, own, peer, sent_bytes| NcclPeerRow {
            comm: "N1-5e1c09tz".to_owned(),
            rank,
            rank_in_comm: CommRank::new(own),
            peer_in_comm: CommRank::new(peer),
            sent_messages: 1,
            sent_bytes,
            received_messages: 0,
            received_bytes: 0,
        };
        // Ranks of NCCL are in the reverse order; the last peer has no row, as of a rank that was killed.
        let rows = [row(0, 1, 0, 5), row(1, 0, 1, 7), row(1, 0, 4, 900)];
        assert_eq!(nccl_messages(&rows), [([0, 1], 5), ([1, 0], 7)]);
    }
}
