//! Turns the file of one process's GPU counts into its part of gpu.csv, copies.csv and staged.csv: rows, exported memory, and counts of what was
//! lost.

use mpisee_profile::gpu::{Access, CopyValues, DriverCalls, GpuFile, Handle, Record, RemoteMemory, Values};
use mpisee_profile::rows::{BinaryRow, GpuMemory, GpuRow, Memory};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A part of a rank's GPU results, sent as a line of JSON to where the profile is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GpuRecord {
    /// A row; and for memory of another process, the handle by which its owner may have exported it.
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
pub fn parts(file: &GpuFile, rank: u32) -> Vec<GpuRecord> {
    let records = RecordsById::of(file);
    let mut rows: Vec<(GpuRow, Option<Import>)> = Vec::new();
    let mut places = HashMap::new();
    let mut others = Vec::new();
    for record in &file.records {
        match record {
            Record::Counter { id, .. } => {
                let values = file.values.get(id).copied().unwrap_or_default();
                let Some((row, import)) = records.row(rank, record, values) else { continue };
                let place = *places.entry(key(&row, import.as_ref())).or_insert(rows.len());
                match rows.get_mut(place) {
                    Some((sum, _)) => add(sum, &row),
                    None => rows.push((row, import)),
                }
            }
            Record::Export { handle, device, object, name } => others.push(GpuRecord::Export {
                handle: handle.clone(),
                rank,
                device: device.clone(),
                object: records.object(*object, name),
            }),
            Record::Binary { file, build_id } => {
                others.push(GpuRecord::Binary(BinaryRow { file: file.clone(), build_id: build_id.clone() }));
            }
            Record::Device(device) => others.push(GpuRecord::Device(device.clone())),
            Record::Pe(pe) => others.push(GpuRecord::Pe { rank, pe: *pe }),
            Record::Calls { id, kind } => others.extend(calls(file, rank, *id, kind)),
            Record::Staged { .. } => others.extend(staged(file, rank, record)),
            Record::Note(text) => others.push(GpuRecord::Note { rank, text: text.clone() }),
            _ => {}
        }
    }
    let lost = |(&why, &accesses): (&&str, &u64)| GpuRecord::Lost { rank, accesses, why: why.to_owned() };
    others.extend(records.lost.iter().map(lost));
    rows.into_iter().map(|(row, import)| GpuRecord::Row(row, import)).chain(others).collect()
}

/// The values of a counter of copies. `None` if nothing was counted.
fn copied(file: &GpuFile, rank: u32, id: u32) -> Option<Copied> {
    let &CopyValues { count, bytes, nanoseconds } = file.copies.get(&id)?;
    (count > 0).then_some(Copied { rank, count, bytes, nanoseconds })
}

/// The calls of one kind.
fn calls(file: &GpuFile, rank: u32, id: u32, kind: &DriverCalls) -> Option<GpuRecord> {
    Some(GpuRecord::Calls(kind.clone(), copied(file, rank, id)?))
}

/// Copies for messages, without the communicator's name.
fn staged(file: &GpuFile, rank: u32, record: &Record) -> Option<GpuRecord> {
    let &Record::Staged { id, comm: number, is_sent, memory, is_async } = record else { return None };
    let staged = Staged { number, comm: String::new(), is_sent, memory, is_async };
    Some(GpuRecord::Staged(staged, copied(file, rank, id)?))
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

/// The records of a file, by number.
struct RecordsById<'f> {
    /// One warp in this many was counted.
    warps: u32,
    /// One interval in this many was counted.
    intervals: u32,
    stacks: HashMap<u32, &'f str>,
    ranges: HashMap<u32, (&'f RemoteMemory, u32, &'f str)>,
    lost: HashMap<&'f str, u64>,
}

impl<'f> RecordsById<'f> {
    fn of(file: &'f GpuFile) -> Self {
        let mut records = RecordsById {
            warps: 1,
            intervals: 1,
            stacks: HashMap::new(),
            ranges: HashMap::new(),
            lost: HashMap::new(),
        };
        for record in &file.records {
            match record {
                Record::Sampled(n) => records.warps = (*n).max(1),
                Record::Intervals(n) => records.intervals = (*n).max(1),
                Record::Object { id, stack } => {
                    records.stacks.insert(*id, stack);
                }
                Record::Range { id, place, object, name } => {
                    records.ranges.insert(*id, (place, *object, name));
                }
                Record::Lost { accesses, why } => {
                    records.lost.insert(why, *accesses);
                }
                _ => {}
            }
        }
        records
    }

    fn object(&self, object: u32, name: &str) -> String {
        if name.is_empty() { self.stacks.get(&object).copied().unwrap_or_default() } else { name }.to_owned()
    }

    /// The row of one counter; none of one that is empty, or whose allocation is unknown.
    fn row(&self, rank: u32, counter: &Record, values: Values) -> Option<(GpuRow, Option<Import>)> {
        let Record::Counter { device, kernel, source, launched, range, access, width, .. } = counter else {
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
