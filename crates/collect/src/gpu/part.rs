//! Turns the file of one process's GPU counts into its part of gpu.csv, copies.csv and staged.csv:
//! rows, exported memory, and counts of what was lost.

use mpisee_profile::gpu::{
    Access, CopyValues, DriverCalls, FileEntry, GpuFile, Handle, RemoteMemory, Values,
};
use mpisee_profile::rows::{BinaryRow, GpuMemory, GpuRow, Memory};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A part of a rank's GPU results, sent as a line of JSON to where the profile is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GpuPart {
    /// A row; and for memory of another process, the handle by which its owner may have exported
    /// it.
    Row(GpuRow, Option<Import>),
    /// Memory that the rank made accessible to others.
    Export {
        /// The handle by which other processes import the memory.
        handle: Handle,
        /// The owner.
        rank: u32,
        /// The device.
        device: String,
        /// Its name, or the call stack that allocated it.
        object: String,
    },
    /// A device on which the rank launched kernels. It goes into the rank's row of `ranks.csv`.
    Device(String),
    /// The rank's PE of NVSHMEM.
    Pe {
        /// The rank.
        rank: u32,
        /// The PE.
        pe: u32,
    },
    /// A sentence about the rank, for `run.json`.
    Note {
        /// The rank.
        rank: u32,
        /// The sentence.
        text: String,
    },
    /// Accesses that no row has.
    Lost {
        /// The rank.
        rank: u32,
        /// The number of accesses.
        accesses: u64,
        /// Why.
        why: String,
    },
    /// A file in which call stacks of the rank have addresses.
    Binary(BinaryRow),
    /// Calls of the host that copy, set or launch, all of one kind.
    Calls(DriverCalls, Copied),
    /// Copies for messages.
    Staged(Staged, Copied),
}

/// Counts of copies of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// The rank.
    pub rank: u32,
    /// Calls, or matches of copies with messages.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of the host, in nanoseconds.
    pub nanoseconds: u64,
}

/// A kind of copies for messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The communicator's number in the segment.
    pub number: u32,
    /// Its name; empty until that is known.
    pub comm: String,
    /// True if the copies were before a send, false if after a receive.
    pub is_sent: bool,
    /// The host's end.
    pub memory: Memory,
    /// True if the copies were put into a stream.
    pub is_async: bool,
}

/// Memory of another process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Import {
    /// The handle by which its owner may have exported it.
    pub handle: Handle,
    /// True if who imported it gave it a name.
    pub is_named: bool,
}

/// The rows of a rank, with those of one kernel, line and object in one.
pub fn parts(file: &GpuFile, rank: u32) -> Vec<GpuPart> {
    let entries = EntriesById::from_file(file);
    let mut rows: Vec<(GpuRow, Option<Import>)> = Vec::new();
    let mut places = HashMap::new();
    let mut others = Vec::new();
    for entry in &file.entries {
        match entry {
            FileEntry::Counter { id, .. } => {
                let values = file.values.get(id).copied().unwrap_or_default();
                let Some((row, import)) = entries.row(rank, entry, values) else { continue };
                let place = *places.entry(key(&row, import.as_ref())).or_insert(rows.len());
                match rows.get_mut(place) {
                    Some((sum, _)) => add(sum, &row),
                    None => rows.push((row, import)),
                }
            }
            FileEntry::Export { handle, device, object, name } => others.push(GpuPart::Export {
                handle: handle.clone(),
                rank,
                device: device.clone(),
                object: entries.object(*object, name),
            }),
            FileEntry::Binary { file, build_id } => {
                others.push(GpuPart::Binary(BinaryRow { file: file.clone(), build_id: build_id.clone() }));
            }
            FileEntry::Device(device) => others.push(GpuPart::Device(device.clone())),
            FileEntry::Pe(pe) => others.push(GpuPart::Pe { rank, pe: *pe }),
            FileEntry::Calls { id, kind } => others.extend(calls(file, rank, *id, kind)),
            FileEntry::Staged { .. } => others.extend(staged(file, rank, entry)),
            FileEntry::Note(text) => others.push(GpuPart::Note { rank, text: text.clone() }),
            _ => {}
        }
    }
    let lost = |(&why, &accesses): (&&str, &u64)| GpuPart::Lost { rank, accesses, why: why.to_owned() };
    others.extend(entries.lost.iter().map(lost));
    rows.into_iter().map(|(row, import)| GpuPart::Row(row, import)).chain(others).collect()
}

/// The values of a counter of copies. `None` if nothing was counted.
fn copied(file: &GpuFile, rank: u32, id: u32) -> Option<Copied> {
    let &CopyValues { count, bytes, nanoseconds } = file.copies.get(&id)?;
    (count > 0).then_some(Copied { rank, count, bytes, nanoseconds })
}

/// The calls of one kind.
fn calls(file: &GpuFile, rank: u32, id: u32, kind: &DriverCalls) -> Option<GpuPart> {
    Some(GpuPart::Calls(kind.clone(), copied(file, rank, id)?))
}

/// Copies for messages, without the communicator's name.
fn staged(file: &GpuFile, rank: u32, entry: &FileEntry) -> Option<GpuPart> {
    let &FileEntry::Staged { id, comm: number, is_sent, memory, is_async } = entry else { return None };
    let staged = Staged { number, comm: String::new(), is_sent, memory, is_async };
    Some(GpuPart::Staged(staged, copied(file, rank, id)?))
}

pub(super) type Key = (String, String, String, String, String, String, Access, u32, Option<Import>);

/// The key by which rows of one rank and owner are summed up.
pub(super) fn key(row: &GpuRow, import: Option<&Import>) -> Key {
    (
        row.device.clone(),
        format!("{:?} {}", row.memory, row.peer_device),
        row.kernel.clone(),
        row.source.clone(),
        row.launched.clone(),
        row.object.clone(),
        row.access,
        row.width,
        import.cloned(),
    )
}

/// Adds what another counter counted. Errors of independent draws add up as squares.
pub(super) fn add(sum: &mut GpuRow, row: &GpuRow) {
    sum.accesses += row.accesses;
    sum.bytes += row.bytes;
    sum.error = sum.error.hypot(row.error);
}

/// The entries of a file, by number.
struct EntriesById<'f> {
    /// One warp in this many was counted.
    warps: u32,
    /// One interval in this many was counted.
    intervals: u32,
    stacks: HashMap<u32, &'f str>,
    ranges: HashMap<u32, (&'f RemoteMemory, u32, &'f str)>,
    lost: HashMap<&'f str, u64>,
}

impl<'f> EntriesById<'f> {
    fn from_file(file: &'f GpuFile) -> Self {
        let mut entries = EntriesById {
            warps: 1,
            intervals: 1,
            stacks: HashMap::new(),
            ranges: HashMap::new(),
            lost: HashMap::new(),
        };
        for entry in &file.entries {
            match entry {
                FileEntry::Sampled(n) => entries.warps = (*n).max(1),
                FileEntry::Intervals(n) => entries.intervals = (*n).max(1),
                FileEntry::Object { id, stack } => {
                    entries.stacks.insert(*id, stack);
                }
                FileEntry::Range { id, place, object, name } => {
                    entries.ranges.insert(*id, (place, *object, name));
                }
                FileEntry::Lost { accesses, why } => {
                    entries.lost.insert(why, *accesses);
                }
                _ => {}
            }
        }
        entries
    }

    fn object(&self, object: u32, name: &str) -> String {
        if name.is_empty() { self.stacks.get(&object).copied().unwrap_or_default() } else { name }.to_owned()
    }

    /// The row of one counter; none of one that is empty, or whose allocation is unknown.
    fn row(&self, rank: u32, counter: &FileEntry, values: Values) -> Option<(GpuRow, Option<Import>)> {
        let FileEntry::Counter { device, kernel, source, launched, range, access, width, .. } = counter
        else {
            return None;
        };
        let &(place, object, name) = self.ranges.get(range)?;
        if values.accesses == 0 {
            return None;
        }
        let host = || (Some(rank), "host".to_owned());
        let (memory, (peer_rank, peer_device)) = match place {
            RemoteMemory::Device(device) => (GpuMemory::Device, (Some(rank), device.clone())),
            RemoteMemory::Ipc(_) => (GpuMemory::Ipc, (None, String::new())),
            RemoteMemory::Imported { device, .. } => (GpuMemory::Imported, (None, device.clone())),
            RemoteMemory::Pinned => (GpuMemory::Pinned, host()),
            RemoteMemory::Registered => (GpuMemory::Registered, host()),
            RemoteMemory::Managed => (GpuMemory::Managed, (Some(rank), "managed".to_owned())),
        };
        // Bulk copies of all warps are counted.
        let n = if *width == 0 { 1 } else { u64::from(self.warps) };
        let accesses = values.accesses.saturating_mul(n);
        let error = match n {
            1 => (values.variance as f64).sqrt(),
            _ => (values.extra as f64 * n as f64 * (n - 1) as f64).sqrt(),
        };
        let bytes = if *width == 0 { values.extra } else { accesses.saturating_mul(u64::from(*width)) };
        let row = GpuRow {
            rank,
            device: device.clone(),
            peer_rank,
            peer_device,
            memory,
            kernel: kernel.clone(),
            source: source.clone(),
            launched: launched.clone(),
            object: self.object(object, name),
            access: *access,
            width: *width,
            accesses,
            bytes,
            sampled: self.intervals.max(n as u32),
            error,
        };
        let import = place.handle().map(|handle| Import { handle, is_named: !name.is_empty() });
        Some((row, import))
    }
}
