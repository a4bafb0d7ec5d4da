//! Accesses of GPU kernels, or copies of the host: the file in which a process counts them.
//!
//! The file lies beside the process's segment and outlives the process as that does. It is a
//! header, then blocks of a kind, a length and that many bytes: entries, as JSON, which are written
//! once, and values of counters, which are overwritten in place. It grows at the end; nothing
//! moves.

mod owners;
pub mod records;

pub use owners::{Descriptor, Handle, Owners, common};

use crate::error::ProfileError;
use crate::memory::Memory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The first bytes of the file; the last is the version.
pub const MAGIC: [u8; 8] = *b"mpgpu\0\0\x03";
/// A block with a [`FileEntry`].
pub const ENTRY: u32 = 1;
/// A block with [`VALUES_BYTES`] of a counter of accesses.
pub const VALUES: u32 = 2;
/// A block with [`VALUES_BYTES`] of a counter of copies.
pub const COPY_VALUES: u32 = 3;
/// Bytes before what a block holds: kind and length, both `u32`, little endian as everything here.
pub const BLOCK_HEADER_BYTES: usize = 8;
/// The number of the counter and its [`Values`] or [`CopyValues`]; each `u64`.
pub const VALUES_BYTES: usize = 32;

/// The file of a process, beside its segment. `start` is the time of the process's start, in ticks
/// of the kernel, and `namespace` the number of its PID namespace: another one may have the same
/// process number, of a process that was started in the same tick.
pub fn path(segments: &Path, user: u32, pid: u32, start: u64, namespace: u64) -> PathBuf {
    segments.join(format!("mpisee-{user}-{pid}-{start}-{namespace}.gpu"))
}

/// User, process, start and namespace, from a name that [`path`] makes.
pub fn owner_of(file_name: &str) -> Option<(u32, u32, u64, u64)> {
    let mut parts = file_name.strip_prefix("mpisee-")?.strip_suffix(".gpu")?.split('-');
    let owner = (
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    );
    parts.next().is_none().then_some(owner)
}

/// The way in which an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and writes at once: atomics and reductions.
    Atomic,
}

/// Memory that is not the device's own, by where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RemoteMemory {
    /// On another device of the process.
    Device(String),
    /// Of another process, mapped by CUDA IPC: the handle, in hexadecimal, with which its owner
    /// exported it.
    Ipc(String),
    /// Of another process, imported in another way.
    Imported {
        /// Its device, as far as it is known.
        device: String,
        /// The handle that its owner has for it, too, if there is one.
        handle: Option<Handle>,
    },
    /// Of the host, allocated by CUDA.
    Pinned,
    /// Of the host, allocated by the program and registered with CUDA.
    Registered,
    /// Moved between host and devices by the driver.
    Managed,
}

impl RemoteMemory {
    /// The handle that its owner has for it, too.
    pub fn handle(&self) -> Option<Handle> {
        match self {
            RemoteMemory::Ipc(handle) => Some(Handle::Ipc(handle.clone())),
            RemoteMemory::Imported { handle, .. } => handle.clone(),
            _ => None,
        }
    }
}

/// An entry of the file, written once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileEntry {
    /// N, where one warp in N is counted; 1: every warp.
    Sampled(u32),
    /// N, where of the intervals between two waits of the program one in N is counted. Values are
    /// estimates then.
    Intervals(u32),
    /// A call stack, or what is known of it.
    Object {
        /// Its number.
        id: u32,
        /// Return addresses, innermost first: `app+0x1a2b < app+0x3c4d`.
        stack: String,
    },
    /// An allocation that was accessed. A later entry of the same number takes the place of an
    /// earlier one.
    Range {
        /// Its number.
        id: u32,
        /// Where it is.
        place: RemoteMemory,
        /// The call stack that allocated it.
        object: u32,
        /// The name that the program gave it, or nothing.
        name: String,
    },
    /// Memory that was made accessible to other processes. A later entry of the same handle takes
    /// the place of an earlier one.
    Export {
        /// The handle by which other processes import it.
        handle: Handle,
        /// The device that it is on.
        device: String,
        /// The call stack that allocated it.
        object: u32,
        /// The name that the program gave it, or nothing.
        name: String,
    },
    /// The accesses that a counter has, by its number.
    Counter {
        /// The number.
        id: u32,
        /// The device that runs the kernel.
        device: String,
        /// The kernel.
        kernel: String,
        /// `file:line`, or `function+0x120` where the module has no line table.
        source: String,
        /// `file:line` of Python that launched the kernel, or nothing.
        launched: String,
        /// The allocation that is accessed.
        range: u32,
        /// The kind of access.
        access: Access,
        /// Bytes of a lane's access; 0 for copies of any length.
        width: u32,
    },
    /// Accesses that are in no counter, up to now, and why.
    Lost {
        /// The number of accesses.
        accesses: u64,
        /// A few words.
        why: String,
    },
    /// A device on which the process launched kernels.
    Device(String),
    /// The process's PE of NVSHMEM.
    Pe(u32),
    /// A note for `run.json`.
    Note(String),
    /// A file in which call stacks have addresses.
    Binary {
        /// Its whole path.
        file: String,
        /// Its GNU build ID, in hexadecimal; empty if it has none.
        build_id: String,
    },
    /// Calls of the driver that copy, set or launch, all of one kind, whose counter has
    /// [`CopyValues`].
    Calls {
        /// The number of the counter.
        id: u32,
        /// The kind.
        kind: DriverCalls,
    },
    /// Copies for MPI's messages on a communicator, whose counter has [`CopyValues`].
    Staged {
        /// The number of the counter.
        id: u32,
        /// The communicator's number in the segment.
        comm: u32,
        /// True if they were before a send, false if after a receive.
        is_sent: bool,
        /// The host's end.
        memory: Memory,
        /// True if the copies were put into a stream.
        is_async: bool,
    },
}

/// A kind of calls of the driver that copy, set or launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DriverCalls {
    /// The function, without suffixes.
    pub call: String,
    /// True if it puts work into a stream.
    pub is_async: bool,
    /// The device of the context in which the call is made.
    pub device: String,
    /// Where the bytes are from; none where nothing is read.
    pub from: Option<CopyEnd>,
    /// Where the bytes go; none where nothing is written.
    pub to: Option<CopyEnd>,
    /// `file:line` of Python that made the call, or nothing.
    pub line: String,
}

/// An end of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyEnd {
    /// The kind of memory.
    pub memory: Memory,
    /// The device that it is on; empty for memory of the host and managed memory.
    pub device: String,
}

/// The values of a counter of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Accesses that were counted, not scaled; with [`FileEntry::Intervals`] those that all
    /// intervals had, by estimate.
    pub accesses: u64,
    /// Of copies of any length, their bytes; else, if only some warps are counted, the sum of the
    /// squares of the accesses that a warp made at once.
    pub extra: u64,
    /// With [`FileEntry::Intervals`] the square of the standard error of `accesses`.
    pub variance: u64,
}

/// The values of a counter of copies: of calls of the driver, or of copies for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyValues {
    /// Calls, or matches of copies with messages.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of the host, in nanoseconds.
    pub nanoseconds: u64,
}

/// Values of a counter, of one kind.
pub trait CounterValues: Copy {
    /// The kind of their block.
    const KIND: u32;

    /// The words behind the number of the counter.
    fn words(self) -> [u64; 3];
}

impl CounterValues for Values {
    const KIND: u32 = VALUES;

    fn words(self) -> [u64; 3] {
        [self.accesses, self.extra, self.variance]
    }
}

impl CounterValues for CopyValues {
    const KIND: u32 = COPY_VALUES;

    fn words(self) -> [u64; 3] {
        [self.count, self.bytes, self.nanoseconds]
    }
}

/// The file, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFile {
    /// Entries in order.
    pub entries: Vec<FileEntry>,
    /// Values of accesses, by the counter's number.
    pub values: BTreeMap<u32, Values>,
    /// Values of copies, by the counter's number.
    pub copies: BTreeMap<u32, CopyValues>,
}

impl GpuFile {
    /// Reads the file; `None` if there is none. What a killed process left unfinished at the end is
    /// not taken.
    pub fn read(path: &Path) -> Result<Option<GpuFile>, ProfileError> {
        match std::fs::read(path) {
            Ok(bytes) => GpuFile::parse(&bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ProfileError::File { path: path.to_owned(), action: "read", source }),
        }
    }

    /// The same from bytes.
    pub fn parse(bytes: &[u8]) -> Result<GpuFile, ProfileError> {
        let wrong = |why: &str| ProfileError::Segment { why: why.to_owned() };
        let Some(mut rest) = bytes.strip_prefix(&MAGIC) else {
            return Err(wrong("it is no file of GPU counters, or of another version of mpisee"));
        };
        let mut file = GpuFile::default();
        while let Some((header, after)) = rest.split_at_checked(BLOCK_HEADER_BYTES) {
            let (kind, length) = (word(header, 0) as u32, word(header, 0) >> 32);
            let length = usize::try_from(length).map_err(|_| wrong("a block is too long"))?;
            let Some((body, after)) = after.split_at_checked(length) else { break };
            match kind {
                ENTRY => match serde_json::from_slice(body) {
                    Ok(entry) => file.entries.push(entry),
                    Err(error) => return Err(wrong(&format!("an entry makes no sense: {error}"))),
                },
                VALUES if length == VALUES_BYTES => {
                    let values =
                        Values { accesses: word(body, 8), extra: word(body, 16), variance: word(body, 24) };
                    file.values.insert(word(body, 0) as u32, values);
                }
                COPY_VALUES if length == VALUES_BYTES => {
                    let (count, bytes, nanoseconds) = (word(body, 8), word(body, 16), word(body, 24));
                    file.copies.insert(word(body, 0) as u32, CopyValues { count, bytes, nanoseconds });
                }
                _ => return Err(wrong("a block is of no known kind")),
            }
            rest = after;
        }
        Ok(file)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(word.unwrap_or_default())
}

/// A block with an entry.
pub fn entry_block(entry: &FileEntry) -> Vec<u8> {
    // Entries are plain; writing them to memory does not fail.
    block(ENTRY, &serde_json::to_vec(entry).unwrap_or_default())
}

/// A block with the values of a counter.
pub fn values_block<V: CounterValues>(counter: u32, values: V) -> Vec<u8> {
    let [first, second, third] = values.words();
    block(V::KIND, &[u64::from(counter), first, second, third].map(u64::to_le_bytes).concat())
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32;
    [&kind.to_le_bytes()[..], &length.to_le_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let entries = [
            FileEntry::Sampled(1),
            FileEntry::Object { id: 0, stack: "app+0x10".to_owned() },
            FileEntry::Lost { accesses: 3, why: "full".to_owned() },
        ];
        let mut bytes = MAGIC.to_vec();
        entries.iter().for_each(|entry| bytes.extend(entry_block(entry)));
        bytes.extend(values_block(7, Values { accesses: 5, extra: 9, variance: 4 }));
        bytes.extend(values_block(7, CopyValues { count: 6, bytes: 10, nanoseconds: 8 }));
        bytes
    }

    #[test]
    fn written_records_read_back_equal() {
        let file = GpuFile::parse(&sample()).unwrap();
        assert_eq!(file.entries.len(), 3);
        assert_eq!(file.values, [(7, Values { accesses: 5, extra: 9, variance: 4 })].into());
        assert_eq!(file.copies, [(7, CopyValues { count: 6, bytes: 10, nanoseconds: 8 })].into());
    }

    #[test]
    fn a_file_that_was_cut_anywhere_has_what_was_whole() {
        let bytes = sample();
        for end in MAGIC.len()..bytes.len() {
            let file = GpuFile::parse(&bytes[..end]).unwrap();
            assert!(file.entries.len() <= 3 && file.copies.is_empty());
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(GpuFile::parse(b"mpisee\0\x01").is_err());
        let mut bytes = sample();
        bytes.extend(block(9, b""));
        assert!(GpuFile::parse(&bytes).is_err());
        let mut bytes = sample();
        bytes.extend(block(ENTRY, b"{}"));
        assert!(GpuFile::parse(&bytes).is_err());
    }
}
