//! Data from one GPU to another, and from and to the host, side by side: who moved how much from
//! where to where.
//!
//! The same data can be in several columns, and are not added up: an MPI that takes the memory of
//! GPUs copies by the driver, and one that does not is given copies of the program's.

use super::rows::Accessed;
use super::{Chosen, RankDevices, only};
use crate::load;
use crate::sheet::{self, Head, Sheet, Value};
use crate::units::human_bytes;
use anyhow::Result;
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{CopyRow, GpuRow, Memory, NcclPeerRow, PeerRow, Row};
use mpisee_profile::{CommRank, Profile};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const HEADS: [Head; 6] = [
    sheet::fixed("from", "FROM"),
    sheet::fixed("to", "TO"),
    sheet::number("mpi_bytes", "MPI"),
    sheet::number("nccl_bytes", "NCCL"),
    sheet::number("copied_bytes", "COPIES"),
    sheet::number("kernel_bytes", "KERNELS"),
];

/// Bytes of operations whose other end the profile does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithoutPeers {
    /// Collectives of MPI and NCCL.
    pub collective: u64,
    /// Puts, gets and accumulating operations of MPI, and `ncclPutSignal`.
    pub one_sided: u64,
}

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

/// The ways that the profile has counts of, in the order of the columns: MPI, NCCL, copies and
/// kernels.
#[derive(Clone, Copy, Debug, Default)]
struct Counted([bool; 4]);

impl Counted {
    fn from_profile(profile: &Profile) -> Self {
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
    /// True if some rank has a GPU, or some buffer is in memory of one.
    is_of_gpus: bool,
    /// Bytes of messages between ranks of which one uses several GPUs.
    of_several: u64,
    /// Pairs of GPUs between which such messages may have gone, of MPI and of NCCL.
    may_have_moved: [BTreeSet<(String, String)>; 2],
    /// Bytes of messages of which the GPU of a rank is not known.
    of_unknown: u64,
    /// Bytes of messages of NCCL to ranks of a communicator that no process of the profile has.
    of_absent: u64,
}

impl Ways {
    /// Adds up a profile with rows of each rank. `has_buffers` says that some buffers of calls are
    /// in memory of GPUs, or of calls of NCCL: where no rank's GPU is known, as of AMD's, messages
    /// may be of any.
    pub fn from_profile(
        profile: &Profile,
        chosen: &Chosen,
        copies: &[CopyRow],
        has_buffers: bool,
    ) -> Result<Ways> {
        let mut ways = Ways {
            counted: Counted::from_profile(profile),
            is_of_gpus: has_buffers || !chosen.devices.is_empty(),
            ..Ways::default()
        };
        for row in profile.rows::<PeerRow>()? {
            let row = row?;
            // A rank whose GPU is not known may have used one: its context can be gone before the
            // driver is asked.
            let bytes = if ways.is_of_gpus { row.sent_bytes } else { 0 };
            let ends = [row.rank, row.peer].map(|rank| Gpu::of_process(&chosen.devices, rank));
            ways.add_messages(ends, bytes, Messages::Mpi);
        }
        for (from, to, bytes) in nccl_messages(&load::if_any(profile)?) {
            match to {
                Some(to) => {
                    let ends = [from, to].map(|row| Gpu::of_row(&chosen.devices, row));
                    ways.add_messages(ends, bytes, Messages::Nccl);
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
        let row = |(pair, moved): (&(String, String), &Moved)| {
            let ends = [&pair.0, &pair.1].map(|end| Value::Text(name(end)));
            let bytes = [moved.mpi, moved.nccl, moved.copied, moved.by_kernels];
            let [mpi, nccl] = self.may_have_moved.each_ref().map(|pairs| pairs.contains(pair));
            // Nothing is known of a way that was not counted, not even that it moved nothing; nor
            // of messages that may have gone between others.
            let is_known = |(at, bytes): (usize, u64)| {
                self.counted.0[at] && (bytes > 0 || ![mpi, nccl, false, false][at])
            };
            let cell = |(at, bytes)| if is_known((at, bytes)) { Value::Bytes(bytes) } else { Value::Nothing };
            ends.into_iter().chain(bytes.into_iter().enumerate().map(cell)).collect()
        };
        Sheet { name: "ways", heads: HEADS.to_vec(), rows: pairs.into_iter().map(row).collect() }
    }

    /// A sentence for each reason for which bytes are in no row. Of collectives it is there where
    /// there are no rows at all: it says why.
    pub fn notes(&self, without_peers: WithoutPeers) -> Vec<String> {
        let has_rows = self.moved.values().any(|moved| moved.most() > 0);
        let one_sided = if self.is_of_gpus { without_peers.one_sided } else { 0 };
        let collective = if has_rows { 0 } else { without_peers.collective };
        let reasons = [
            (self.of_several, "messages", "their ranks use several GPUs"),
            (self.of_unknown, "messages", "no GPU of a rank is known"),
            (self.of_absent, "messages", "the profile does not have who received them"),
            (one_sided, "one-sided operations", "the GPU of a window is not known"),
            (collective, "collectives", "who sends to whom in them is not known"),
        ];
        let sentence = |(bytes, of, why): (u64, &str, &str)| {
            let bytes = human_bytes(bytes);
            match has_rows {
                true => format!("{bytes} of {of} are in no row of FROM and TO, since {why}."),
                false => format!("{bytes} of {of} are not shown between GPUs, since {why}."),
            }
        };
        reasons.into_iter().filter(|(bytes, ..)| *bytes > 0).map(sentence).collect()
    }

    fn between(&mut self, from: &str, to: &str) -> &mut Moved {
        self.moved.entry((from.to_owned(), to.to_owned())).or_default()
    }

    fn add_messages(&mut self, ends: [Gpu; 2], bytes: u64, of: Messages) {
        match ends {
            [Gpu::One(from), Gpu::One(to)] => {
                let moved = self.between(from, to);
                let sum = match of {
                    Messages::Mpi => &mut moved.mpi,
                    Messages::Nccl => &mut moved.nccl,
                };
                *sum = sum.saturating_add(bytes);
            }
            [Gpu::Unknown, _] | [_, Gpu::Unknown] => self.of_unknown = self.of_unknown.saturating_add(bytes),
            [from, to] if bytes > 0 => {
                self.of_several = self.of_several.saturating_add(bytes);
                let pairs =
                    from.each().flat_map(|from| to.each().map(move |to| (from.to_owned(), to.to_owned())));
                self.may_have_moved[of as usize].extend(pairs);
            }
            _ => {}
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

/// The library of a message.
#[derive(Clone, Copy)]
enum Messages {
    Mpi,
    Nccl,
}

/// The GPU at an end of a message.
#[derive(Clone, Copy)]
enum Gpu<'g> {
    One(&'g str),
    /// The process uses several, and which it is is not known.
    Several(&'g BTreeSet<String>),
    Unknown,
}

impl<'g> Gpu<'g> {
    /// That of a process.
    fn of_process(devices: &'g RankDevices, rank: u32) -> Gpu<'g> {
        let Some(devices) = devices.get(&rank) else { return Gpu::Unknown };
        only(devices).map_or(Gpu::Several(devices), |device| Gpu::One(device))
    }

    /// That of a process's rank in a communicator of NCCL, which may use several.
    fn of_row(devices: &'g RankDevices, row: &'g NcclPeerRow) -> Gpu<'g> {
        if row.device.is_empty() { Gpu::of_process(devices, row.rank) } else { Gpu::One(&row.device) }
    }

    /// The GPUs that it may be.
    fn each(self) -> impl Iterator<Item = &'g str> {
        let (one, several) = match self {
            Gpu::One(device) => (Some(device), None),
            Gpu::Several(devices) => (None, Some(devices)),
            Gpu::Unknown => (None, None),
        };
        one.into_iter().chain(several.into_iter().flatten().map(String::as_str))
    }
}

/// Bytes that processes sent with NCCL: a row of the sender, one of the receiver, and how many. The
/// receiver is the process that has the peer's rank as its own; none where the profile has no row
/// of it, as of a process that was killed.
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
        let gpus = |all: &[&str]| all.iter().map(|&gpu| gpu.to_owned()).collect();
        let devices =
            RankDevices::from([(0, gpus(&["GPU-a"])), (1, gpus(&["GPU-b"])), (2, gpus(&["GPU-a", "GPU-c"]))]);
        for (ends, bytes) in [([0, 1], 31), ([1, 0], 37), ([1, 2], 41), ([3, 1], 43)] {
            let ends = ends.map(|rank| Gpu::of_process(&devices, rank));
            ways.add_messages(ends, bytes, Messages::Mpi);
        }
        let moved: Vec<_> = ways
            .moved
            .iter()
            .map(|((from, to), it)| (from.as_str(), to.as_str(), it.mpi, it.copied))
            .collect();
        assert_eq!(moved, [("GPU-a", "GPU-b", 31, 23), ("GPU-b", "GPU-a", 37, 0), ("host", "GPU-a", 0, 13),]);
        let notes = ways.notes(WithoutPeers { collective: 8, one_sided: 0 });
        let begins: Vec<&str> = notes.iter().map(|note| &note[..16]).collect();
        assert_eq!(begins, ["41 B of messages", "43 B of messages"]);
        assert!(notes.iter().all(|note| note.contains("FROM and TO")), "{notes:?}");
    }

    #[test]
    fn bytes_of_operations_without_peers_are_said_to_be_left_out() {
        let mut ways = Ways { is_of_gpus: true, ..Ways::default() };
        assert_eq!(ways.notes(WithoutPeers::default()), [""; 0]);
        let without_peers = WithoutPeers { collective: 53, one_sided: 59 };
        let of_one_sided = "59 B of one-sided operations are not shown between GPUs, since the GPU of a window is not known.";
        let of_collectives =
            "53 B of collectives are not shown between GPUs, since who sends to whom in them is not known.";
        assert_eq!(ways.notes(without_peers), [of_one_sided, of_collectives]);
        ways.of_absent = 47;
        let of_absent =
            "47 B of messages are not shown between GPUs, since the profile does not have who received them.";
        assert_eq!(ways.notes(without_peers), [of_absent, of_one_sided, of_collectives]);
        // Beside rows, one-sided operations alone.
        ways.between("GPU-a", "GPU-b").mpi = 61;
        let notes = ways.notes(WithoutPeers { collective: 53, one_sided: 59 });
        let begins: Vec<&str> = notes.iter().map(|note| &note[..9]).collect();
        assert_eq!(begins, ["47 B of m", "59 B of o"]);
        // Of hosts alone there is nothing to say.
        let of_hosts = Ways::default();
        assert_eq!(of_hosts.notes(WithoutPeers { collective: 0, one_sided: 59 }), [""; 0]);
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
        // Ranks of NCCL are in the reverse order; the last peer has no row, as of a rank that was
        // killed.
        let rows = [row(0, 1, 0, 5), row(1, 0, 1, 7), row(1, 0, 4, 900)];
        let found = nccl_messages(&rows);
        let found: Vec<_> =
            found.iter().map(|(from, to, bytes)| (from.rank, to.map(|to| to.rank), *bytes)).collect();
        assert_eq!(found, [(0, Some(1), 5), (1, Some(0), 7), (1, None, 900)]);
    }

    #[test]
    fn the_gpu_of_a_rank_of_nccl_is_known_where_the_process_uses_several() {
        let both = BTreeSet::from(["GPU-c", "GPU-d"].map(str::to_owned));
        let devices = RankDevices::from([(2, both)]);
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
        assert!(matches!(Gpu::of_row(&devices, &row("")), Gpu::Several(_)));
    }
}
