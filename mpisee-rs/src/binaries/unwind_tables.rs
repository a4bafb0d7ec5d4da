//! The unwind tables of a binary.

use crate::binaries::objects::Tables;
use mpisee_in_process::native_frames::unwind_rules::{IndexedTables, Rules, Section};
use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A table that the unwinder has, too.
#[derive(Clone, Default)]
pub struct Bytes(Arc<Cow<'static, [u8]>>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// `.eh_frame_hdr` and `.eh_frame`.
pub struct UnwindTables {
    header: Bytes,
    frames: Bytes,
    /// The addresses of the two sections in the file.
    header_at: u64,
    frames_at: u64,
    /// The load bias: an address in memory is the one in the file and this.
    bias: u64,
}

impl UnwindTables {
    /// The tables of a binary that is loaded at `bias`; `None` if they cannot be searched.
    pub fn new(tables: Tables, bias: usize) -> Option<UnwindTables> {
        let Tables { header_at, header, frames_at, frames } = tables;
        let in_file = |at: usize| at.wrapping_sub(bias) as u64;
        let tables = UnwindTables {
            header: Bytes(Arc::new(header)),
            frames: Bytes(Arc::new(frames)),
            header_at: in_file(header_at),
            frames_at: in_file(frames_at),
            bias: bias as u64,
        };
        tables.indexed().can_be_searched().then_some(tables)
    }

    pub fn header(&self) -> Bytes {
        self.header.clone()
    }

    pub fn frames(&self) -> Bytes {
        self.frames.clone()
    }

    pub fn header_range(&self) -> Range<u64> {
        self.header_at..self.header_at + self.header.len() as u64
    }

    pub fn frames_range(&self) -> Range<u64> {
        self.frames_at..self.frames_at + self.frames.len() as u64
    }

    fn indexed(&self) -> IndexedTables<'_> {
        IndexedTables {
            header: Section { address: self.header_at, bytes: &self.header },
            frames: Section { address: self.frames_at, bytes: &self.frames },
            text: 0,
            got: 0,
        }
    }

    /// The rules at an address in memory.
    pub fn rules(&self, address: u64) -> Rules {
        self.indexed().rules(address.wrapping_sub(self.bias))
    }
}
