//! Records of every access of GPU kernels, as `mpisee --gpu-records` writes them: what is in the
//! file of a process, once zstd is undone.
//!
//! The file is zstd frames, one after the other, each whole when it was written, so that of a
//! killed process all but the last is there. Their content is [`RECORDS_MAGIC`] and blocks as in
//! the file of counters: [`DESCRIPTION`], as JSON, and [`ACCESSES`], of accesses one after the
//! other, each
//!
//! | bytes | |
//! | --- | --- |
//! | 4 | launch |
//! | 4 | instruction, described before |
//! | 4 | allocation, described before |
//! | 4 | lanes, a mask |
//! | 1 | kind: load, store, atomic |
//! | 1 | width of a lane's access in bytes, as a power of two; 7: a copy of any length |
//! | 2 | how many words follow |
//! | 8 each | addresses of the lanes, lowest lane first; of a copy its address and its bytes |
//!
//! all of them little endian.

use super::{Access, BLOCK_HEADER_BYTES, Handle, RemoteMemory, block};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read};

/// The first bytes; the last is the version.
pub const RECORDS_MAGIC: [u8; 8] = *b"mpgrec\0\x01";
/// A block with a [`Description`].
pub const DESCRIPTION: u32 = 1;
/// A block with accesses.
pub const ACCESSES: u32 = 2;
/// Bytes of an access before its addresses.
const FIXED_BYTES: usize = 20;
/// The code of the width of copies of any length.
const COPY: u8 = 7;
/// No block is longer.
const MOST_BYTES: usize = 1 << 28;

/// The name of the file of a process, by what ranks.csv has of it.
pub fn file_name(host: &str, pid: u32) -> String {
    format!("{}-{pid}.zst", host.replace('/', "_"))
}

/// A definition, written once before the accesses that refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Description {
    /// N, where one warp in N is recorded; 1: every warp.
    Sampled(u32),
    /// An instruction.
    Instruction {
        /// Its number.
        id: u32,
        /// The device that runs it.
        device: String,
        /// The kernel.
        kernel: String,
        /// `file:line`, or `function+0x120`.
        source: String,
        /// `file:line` of Python that launched the kernel, or nothing.
        launched: String,
    },
    /// An allocation. A later one of the same number takes the place of an earlier one.
    Allocation {
        /// Its number.
        id: u32,
        /// The first address.
        begin: u64,
        /// Its length.
        bytes: u64,
        /// Where it is.
        place: RemoteMemory,
        /// Its name, or the call stack that allocated it.
        object: String,
        /// True if it is a name that this process gave.
        is_named: bool,
    },
    /// Memory that was made accessible to other processes by a handle. A later one of the same
    /// handle takes the place of an earlier one.
    Export {
        /// The handle by which other processes import it.
        handle: Handle,
        /// The device that it is on.
        device: String,
        /// Its name, or the call stack that allocated it.
        object: String,
    },
    /// Accesses of warps that are not in the file, up to here: there was no room on the device.
    Dropped(u64),
}

/// The accesses that lanes of a warp made at once in one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarpAccess {
    /// The number of the launch; they follow each other as the kernels were launched.
    pub launch: u32,
    /// The instruction.
    pub instruction: u32,
    /// The allocation.
    pub allocation: u32,
    /// The lanes, as a mask.
    pub lanes: u32,
    /// The kind of access.
    pub access: Access,
    /// Bytes of a lane's access; 0 for a copy of any length.
    pub width: u32,
    /// Addresses of the lanes, lowest lane first; of a copy its address and its bytes.
    pub words: Vec<u64>,
}

/// A piece of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A definition.
    Description(Description),
    /// An access.
    Access(WarpAccess),
}

/// A block with a definition.
pub fn description_block(description: &Description) -> Vec<u8> {
    // It is plain; writing it to memory does not fail.
    block(DESCRIPTION, &serde_json::to_vec(description).unwrap_or_default())
}

/// A block with accesses.
pub fn accesses_block(accesses: &[WarpAccess]) -> Vec<u8> {
    let mut body = Vec::with_capacity(accesses.len() * (FIXED_BYTES + 256));
    for it in accesses {
        for word in [it.launch, it.instruction, it.allocation, it.lanes] {
            body.extend(word.to_le_bytes());
        }
        let width = if it.width == 0 { COPY } else { it.width.ilog2() as u8 };
        body.extend([it.access as u8, width]);
        body.extend((it.words.len() as u16).to_le_bytes());
        it.words.iter().for_each(|word| body.extend(word.to_le_bytes()));
    }
    block(ACCESSES, &body)
}

/// Reads what [`description_block`] and [`accesses_block`] wrote, from what zstd gives.
#[derive(Debug)]
pub struct RecordReader<R> {
    source: R,
    /// Accesses that were read, last first.
    ready: Vec<WarpAccess>,
}

impl<R: Read> RecordReader<R> {
    /// Begins to read; the error says what else it is.
    pub fn new(mut source: R) -> io::Result<Self> {
        let mut magic = [0; RECORDS_MAGIC.len()];
        source.read_exact(&mut magic)?;
        if magic != RECORDS_MAGIC {
            return Err(wrong("it has no records of GPU accesses, or is of another version of mpisee"));
        }
        Ok(RecordReader { source, ready: Vec::new() })
    }

    fn read(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(access) = self.ready.pop() {
                return Ok(Some(Item::Access(access)));
            }
            let Some((kind, body)) = self.block()? else { return Ok(None) };
            match kind {
                DESCRIPTION => {
                    let description = serde_json::from_slice(&body);
                    return description
                        .map(|it| Some(Item::Description(it)))
                        .map_err(|it| wrong(&it.to_string()));
                }
                ACCESSES => self.ready = accesses(&body).ok_or_else(|| wrong("an access makes no sense"))?,
                _ => return Err(wrong("a block is of no known kind")),
            }
        }
    }

    /// A block; none at the end, also in the middle of one.
    fn block(&mut self) -> io::Result<Option<(u32, Vec<u8>)>> {
        let mut header = [0; BLOCK_HEADER_BYTES];
        let Some(()) = whole(self.source.read_exact(&mut header))? else { return Ok(None) };
        let [kind, bytes] = [0, 4].map(|at| u32_at(&header, at).unwrap_or_default());
        if bytes as usize > MOST_BYTES {
            return Err(wrong("a block is too long"));
        }
        let mut body = vec![0; bytes as usize];
        Ok(whole(self.source.read_exact(&mut body))?.map(|()| (kind, body)))
    }
}

impl<R: Read> Iterator for RecordReader<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_owned())
}

/// Treats an unfinished end, as a killed process leaves it, as the end of the file.
fn whole(read: io::Result<()>) -> io::Result<Option<()>> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(Some),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Accesses of a block, last first.
fn accesses(mut body: &[u8]) -> Option<Vec<WarpAccess>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let (fixed, rest) = body.split_at_checked(FIXED_BYTES)?;
        let [launch, instruction, allocation, lanes] = [0, 4, 8, 12].map(|at| u32_at(fixed, at).unwrap_or(0));
        let access = *[Access::Load, Access::Store, Access::Atomic].get(usize::from(fixed[16]))?;
        let width = match fixed[17] {
            COPY => 0,
            code @ 0..COPY => 1 << code,
            _ => return None,
        };
        let count = usize::from(u16::from_le_bytes([fixed[18], fixed[19]]));
        let (words, rest) = rest.split_at_checked(8 * count)?;
        let words = words.chunks_exact(8).map(|it| super::word(it, 0)).collect();
        found.push(WarpAccess { launch, instruction, allocation, lanes, access, width, words });
        body = rest;
    }
    found.reverse();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<Item>, Vec<u8>) {
        let description = Description::Instruction {
            id: 3,
            device: "GPU-1".to_owned(),
            kernel: "copy".to_owned(),
            source: "a.cu:7".to_owned(),
            launched: "a.py:8".to_owned(),
        };
        let one = WarpAccess {
            launch: 1,
            instruction: 3,
            allocation: 9,
            lanes: 0b101,
            access: Access::Store,
            width: 8,
            words: vec![0x7000, 0x7100],
        };
        let copy = WarpAccess { launch: 2, lanes: 1, width: 0, access: Access::Load, ..one.clone() };
        let bytes = [
            &RECORDS_MAGIC[..],
            &description_block(&description),
            &accesses_block(&[one.clone(), copy.clone()]),
        ]
        .concat();
        (vec![Item::Description(description), Item::Access(one), Item::Access(copy)], bytes)
    }

    #[test]
    fn written_records_read_back_equal() {
        let (items, bytes) = sample();
        let read: io::Result<Vec<Item>> = RecordReader::new(&bytes[..]).unwrap().collect();
        assert_eq!(read.unwrap(), items);
    }

    #[test]
    fn truncated_records_keep_the_whole_frames() {
        let (items, bytes) = sample();
        for end in RECORDS_MAGIC.len()..bytes.len() {
            let read: io::Result<Vec<Item>> = RecordReader::new(&bytes[..end]).unwrap().collect();
            let read = read.unwrap();
            assert!(read.len() < items.len() && items.starts_with(&read), "{end}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(RecordReader::new(&b"mpgpu\0\0\x01"[..]).is_err());
        for wrong in
            [block(9, b""), block(DESCRIPTION, b"{}"), block(ACCESSES, &[0; 19]), block(ACCESSES, &[9; 20])]
        {
            let bytes = [&RECORDS_MAGIC[..], &wrong].concat();
            assert!(RecordReader::new(&bytes[..]).unwrap().any(|it| it.is_err()), "{wrong:?}");
        }
        let long = [&RECORDS_MAGIC[..], &ACCESSES.to_le_bytes(), &u32::MAX.to_le_bytes()].concat();
        assert!(RecordReader::new(&long[..]).unwrap().next().unwrap().is_err());
    }
}
