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
use mpisee_profile::rows::{CopyRow, GpuRow, Memory, NcclPeerRow, PeerRow, Row};
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

/// The reason for which there is no row though data moved.
const COLLECTIVES_ALONE: &str = "There is no table of data between GPUs: of MPI and NCCL collectives alone moved data, and who sends to whom in \
    them is not known. Their bytes are in the lists below.";

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

/// The ways that the profile has counts of, in the order of the columns: MPI, NCCL, copies and kernels.
#[derive(Clone, Copy, Debug, Default)]
struct Counted([bool; 4]);

impl Counted {
    fn of(profile: &Profile) -> Self {
        let has = |file: &str| profile.directory().join(file).exists();
        let is_of_mpi = !profile.run().is_without_mpi();
        Counted([is_of_mpi, has(NcclPeerRow::FILE), has(CopyRow::FILE), has(GpuRow::FILE)])
    }
}

/// The ways between each two ends, and what could not be said by ends.
#[derive(Debug, Default)]
pub struct Ways {
    moved: BTreeMap<(String, String), Moved>,
    counted: Counted,
    /// Bytes of messages between ranks of which one uses several GPUs.
    of_several: u64,
    /// Bytes of messages of NCCL, or from or to a rank with a GPU, where a rank's GPU is not known.
    of_unknown: u64,
    /// Bytes of messages between two ranks of which no GPU is known, where some buffers are in memory of GPUs.
    of_neither: u64,
    /// Bytes of messages of NCCL to ranks of a communicator that no process of the profile has.
    of_absent: u64,
}

impl Ways {
    /// Adds up a profile with rows of each rank. `has_buffers` says that some buffers of calls are in memory of GPUs: where no rank's GPU is
    /// known, as of AMD's, messages may be of any.
    pub fn of(profile: &Profile, chosen: &Chosen, copies: &[CopyRow], has_buffers: bool) -> Result<Ways> {
        let mut ways = Ways { counted: Counted::of(profile), ..Ways::default() };
        let may_be_of_any = has_buffers && chosen.devices.is_empty();
        for row in profile.rows::<PeerRow>()? {
            let row = row?;
            let has_gpu =
                may_be_of_any || [row.rank, row.peer].iter().any(|rank| chosen.devices.contains_key(rank));
            if !has_gpu {
                let bytes = if has_buffers { row.sent_bytes } else { 0 };
                ways.of_neither = ways.of_neither.saturating_add(bytes);
                continue;
            }
            let (bytes, ends) = (row.sent_bytes, [row.rank, row.peer]);
            let ends = ends.map(|rank| Gpu::of_process(&chosen.devices, rank));
            ways.add_messages(ends, bytes, |moved| &mut moved.mpi);
        }
        for (from, to, bytes) in nccl_messages(&load::if_any(profile)?) {
            match to {
                Some(to) => {
                    let ends = [from, to].map(|row| Gpu::of_row(&chosen.devices, row));
                    ways.add_messages(ends, bytes, |moved| &mut moved.nccl);
                }
                None => ways.of_absent = ways.of_absent.saturating_add(bytes),
            }
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
            let bytes = [moved.mpi, moved.nccl, moved.copied, moved.by_kernels];
            // Nothing is known of a way that was not counted, not even that it moved nothing.
            let cell = |(bytes, is_counted)| if is_counted { Value::Bytes(bytes) } else { Value::Nothing };
            ends.into_iter().chain(bytes.into_iter().zip(self.counted.0).map(cell)).collect()
        };
        Sheet { name: "ways", heads: HEADS.to_vec(), rows: pairs.into_iter().map(row).collect() }
    }

    /// A sentence for each reason for which bytes are in no row, or that collectives alone moved data. `one_sided` are bytes of one-sided
    /// operations.
    pub fn notes(&self, has_collectives: bool, one_sided: u64) -> Vec<String> {
        let reasons = [
            (self.of_several, "their ranks use several GPUs"),
            (self.of_unknown, "no GPU of a rank is known"),
            (self.of_absent, "the profile does not have who received them"),
        ];
        let has_rows = self.moved.values().any(|moved| moved.most() > 0);
        let sentence = |(bytes, why): (u64, &str)| {
            let bytes = human_bytes(bytes);
            match has_rows {
                true => format!("{bytes} of messages are in no row of FROM and TO, since {why}."),
                false => format!("{bytes} of messages are not shown between GPUs, since {why}."),
            }
        };
        let mut notes: Vec<String> =
            reasons.into_iter().filter(|(bytes, _)| *bytes > 0).map(sentence).collect();
        let others = [
            (
                self.of_neither,
                "messages",
                "are between ranks of which no GPU is known; they may be of the host's memory",
            ),
            (one_sided, "one-sided operations", "are in no row, since their targets are not counted"),
        ];
        let others = others.into_iter().filter(|(bytes, ..)| *bytes > 0);
        notes.extend(others.map(|(bytes, of, why)| format!("{} of {of} {why}.", human_bytes(bytes))));
        match has_collectives && !has_rows && notes.is_empty() {
            true => vec![COLLECTIVES_ALONE.to_owned()],
            false => notes,
        }
    }

    fn between(&mut self, from: &str, to: &str) -> &mut Moved {
        self.moved.entry((from.to_owned(), to.to_owned())).or_default()
    }

    fn add_messages(&mut self, ends: [Gpu; 2], bytes: u64, sum: impl Fn(&mut Moved) -> &mut u64) {
        match ends {
            [Gpu::One(from), Gpu::One(to)] => {
                let sum = sum(self.between(from, to));
                *sum = sum.saturating_add(bytes);
            }
            [Gpu::Unknown, _] | [_, Gpu::Unknown] => self.of_unknown = self.of_unknown.saturating_add(bytes),
            _ => self.of_several = self.of_several.saturating_add(bytes),
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

/// The GPU at an end of a message.
#[derive(Clone, Copy)]
enum Gpu<'g> {
    One(&'g str),
    /// The process uses several, and which it is is not known.
    Several,
    Unknown,
}

impl<'g> Gpu<'g> {
    /// That of a process.
    fn of_process(devices: &'g HashMap<u32, Option<String>>, rank: u32) -> Gpu<'g> {
        match devices.get(&rank) {
            Some(Some(device)) => Gpu::One(device),
            Some(None) => Gpu::Several,
            None => Gpu::Unknown,
        }
    }

    /// That of a process's rank in a communicator of NCCL, which may use several.
    fn of_row(devices: &'g HashMap<u32, Option<String>>, row: &'g NcclPeerRow) -> Gpu<'g> {
        if row.device.is_empty() { Gpu::of_process(devices, row.rank) } else { Gpu::One(&row.device) }
    }
}

/// Bytes that processes sent with NCCL: a row of the sender, one of the receiver, and how many. The receiver is the process that has the
/// peer's rank as its own; none where the profile has no row of it, as of a process that was killed.
fn nccl_messages(rows: &[NcclPeerRow]) -> Vec<(&NcclPeerRow, Option<&NcclPeerRow>, u64)> {
    let of_rank: HashMap<(&str, CommRank), &NcclPeerRow> =
        rows.iter().map(|row| ((row.comm.as_str(), row.rank_in_comm), row)).collect();
    let receiver = |row: &NcclPeerRow| of_rank.get(&(row.comm.as_str(), row.peer_in_comm)).copied();
    rows.iter().map(|row| (row, receiver(row), row.sent_bytes)).collect()
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
            let ends = ends.map(|rank| Gpu::of_process(&devices, rank));
            ways.add_messages(ends, bytes, |moved| &mut moved.mpi);
        }
        let moved: Vec<_> = ways
            .moved
            .iter()
            .map(|((from, to), it)| (from.as_str(), to.as_str(), it.mpi, it.copied))
            .collect();
        assert_eq!(moved, [("GPU-a", "GPU-b", 31, 23), ("GPU-b", "GPU-a", 37, 0), ("host", "GPU-a", 0, 13),]);
        let notes = ways.notes(true, 0);
        let begins: Vec<&str> = notes.iter().map(|note| &note[..16]).collect();
        assert_eq!(begins, ["41 B of messages", "43 B of messages"]);
        assert!(notes.iter().all(|note| note.contains("FROM and TO")), "{notes:?}");
    }

    #[test]
    fn why_there_is_no_table_is_in_one_sentence() {
        let mut ways = Ways::default();
        assert_eq!(ways.notes(false, 0), [""; 0]);
        assert_eq!(ways.notes(true, 0), [COLLECTIVES_ALONE]);
        let of_one_sided = "59 B of one-sided operations are in no row, since their targets are not counted.";
        assert_eq!(ways.notes(true, 59), [of_one_sided]);
        ways.of_absent = 47;
        assert_eq!(
            ways.notes(true, 0),
            [
                "47 B of messages are not shown between GPUs, since the profile does not have who received them."
            ]
        );
    }

    #[test]
    fn the_receiver_of_ncclsend_is_who_has_the_rank() {
        let row = |rank, own, peer, sent_bytes| NcclPeerRow {
            comm: "N1-5e1c09tz".to_owned(),
            rank,
            rank_in_comm: CommRank::new(own),
            peer_in_comm: CommRank::new(peer),
            device: String::new(),
            sent_messages: 1,
            sent_bytes,
            received_messages: 0,
            received_bytes: 0,
        };
        // Ranks of NCCL are in the reverse order; the last peer has no row, as of a rank that was killed.
        let rows = [row(0, 1, 0, 5), row(1, 0, 1, 7), row(1, 0, 4, 900)];
        let found = nccl_messages(&rows);
        let found: Vec<_> =
            found.iter().map(|(from, to, bytes)| (from.rank, to.map(|to| to.rank), *bytes)).collect();
        assert_eq!(found, [(0, Some(1), 5), (1, Some(0), 7), (1, None, 900)]);
    }

    #[test]
    fn the_gpu_of_a_rank_of_nccl_is_known_where_the_process_uses_several() {
        let devices = HashMap::from([(2, None)]);
        let row = |device: &str| NcclPeerRow {
            comm: "N1-5e1c09tz".to_owned(),
            rank: 2,
            rank_in_comm: CommRank::new(4),
            peer_in_comm: CommRank::FIRST,
            device: device.to_owned(),
            sent_messages: 1,
            sent_bytes: 5,
            received_messages: 0,
            received_bytes: 0,
        };
        assert!(matches!(Gpu::of_row(&devices, &row("GPU-c")), Gpu::One("GPU-c")));
        assert!(matches!(Gpu::of_row(&devices, &row("")), Gpu::Several));
    }
}
