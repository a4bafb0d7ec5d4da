//! Builds a segment in memory, as a rank would leave it, for tests and simulations.

use super::SlotKey;
use super::layout::{
    self, CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, HOST_BYTES, Header, LOG, SLOT_BYTES, Slot,
};
use super::log::Record;
use crate::Operation;
use std::mem::offset_of;

/// The words of a segment; see [`super::source::Source`].
#[derive(Clone, Debug)]
pub struct Words(Vec<u64>);

/// The process whose segment it is.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'o> {
    /// Its number.
    pub pid: u32,
    /// Its host's name.
    pub host: &'o str,
    /// Its rank in `MPI_COMM_WORLD`.
    pub world_rank: u32,
    /// The size of `MPI_COMM_WORLD`.
    pub world_size: u32,
}

impl Words {
    /// A header and nothing else. Ticks are nanoseconds, and recording began at 0.
    pub fn new(owner: Owner<'_>) -> Self {
        let mut words = Words(vec![0; HEADER_BYTES / 8]);
        words.set(offset_of!(Header, magic), layout::MAGIC);
        words.set(offset_of!(Header, version), layout::VERSION);
        words.set(offset_of!(Header, operations), Operation::fingerprint());
        words.set(offset_of!(Header, pid), owner.pid.into());
        words.set(offset_of!(Header, world_rank), owner.world_rank.into());
        words.set(offset_of!(Header, world_size), owner.world_size.into());
        let mut host = [0; HOST_BYTES];
        let kept = owner.host.len().min(HOST_BYTES);
        host[..kept].copy_from_slice(&owner.host.as_bytes()[..kept]);
        for (place, bytes) in host.as_chunks::<8>().0.iter().enumerate() {
            words.set(offset_of!(Header, host) + 8 * place, u64::from_ne_bytes(*bytes));
        }
        words.grown()
    }

    /// With these records in its log.
    pub fn log(self, records: &[Record]) -> Self {
        let body: Vec<u64> = records.iter().flat_map(Record::encode).collect();
        self.chunk(LOG, body.len() as u64 * 8, body)
    }

    /// With these counters.
    pub fn counters(self, slots: &[(SlotKey, [u64; 6])]) -> Self {
        let mut body = vec![0; slots.len() * SLOT_BYTES / 8];
        for ((key, values), slot) in slots.iter().zip(body.chunks_exact_mut(SLOT_BYTES / 8)) {
            slot[offset_of!(Slot, key) / 8] = key.0;
            slot[offset_of!(Slot, values) / 8..].copy_from_slice(values);
        }
        self.chunk(COUNTERS, slots.len() as u64, body)
    }

    /// With a chunk of `kind`, of which `used` says that it is in use: slots, or bytes of log.
    pub fn chunk(mut self, kind: u64, used: u64, mut body: Vec<u64>) -> Self {
        body.resize(body.len().next_multiple_of(8), 0);
        let at = self.0.len() * 8;
        let bytes = CHUNK_HEADER_BYTES + body.len() * 8;
        self.0.resize(self.0.len() + CHUNK_HEADER_BYTES / 8, 0);
        self.set(at + offset_of!(ChunkHeader, kind), kind);
        self.set(at + offset_of!(ChunkHeader, bytes), bytes as u64);
        self.set(at + offset_of!(ChunkHeader, used), used);
        self.0.extend(body);
        self.grown()
    }

    /// Puts `value` at `byte`, as that of a field of the [`Header`].
    pub fn set(&mut self, byte: usize, value: u64) {
        self.0[byte / 8] = value;
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// The words, to be changed.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    /// The same as bytes, as in a file.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn grown(mut self) -> Self {
        let bytes = self.0.len() as u64 * 8;
        self.set(offset_of!(Header, used), bytes);
        self.set(offset_of!(Header, shared), bytes);
        self
    }
}
