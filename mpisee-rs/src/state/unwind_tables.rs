//! Unwind tables of a binary, and whether evaluating one of their rules ends.
//!
//! A rule may be a program of its own, a DWARF expression, which compilers write for the table of jumps into libraries alone.
//! One that was written by hand may jump back, and never end. The unwinder evaluates whatever there is.

use crate::state::objects::Tables;
use gimli::{
    BaseAddresses, CallFrameInstruction, CommonInformationEntry, EhFrame, EhFrameHdr, EndianSlice,
    Expression, LittleEndian, Operation, ParsedEhFrameHdr, Reader, UnwindExpression, UnwindSection,
};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A table that the unwinder has, too.
#[derive(Clone, Default)]
pub struct Bytes(Arc<Vec<u8>>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A table's entry for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Rules with an expression that jumps back, and may not end.
    Endless,
    /// Rules that end.
    Ending,
    /// Nothing, or what cannot be parsed: the frame is left by its frame pointer, if there is one.
    Missing,
}

/// `.eh_frame_hdr` and `.eh_frame`.
pub struct UnwindTables {
    header: Bytes,
    frames: Bytes,
    /// Their addresses in memory, less that at which the binary is loaded.
    header_at: u64,
    frames_at: u64,
    bias: u64,
}

type Part<'t> = EndianSlice<'t, LittleEndian>;
const BYTES_OF_ADDRESS: u8 = 8;

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
        tables.parsed()?.table()?;
        Some(tables)
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

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame(self.frames_at).set_eh_frame_hdr(self.header_at)
    }

    fn parsed(&self) -> Option<ParsedEhFrameHdr<Part<'_>>> {
        EhFrameHdr::new(&self.header, LittleEndian).parse(&self.bases(), BYTES_OF_ADDRESS).ok()
    }

    /// The rules at an address in memory.
    pub fn rules(&self, address: u64) -> Rules {
        match self.jumps_back(address.wrapping_sub(self.bias)) {
            Some(true) => Rules::Endless,
            Some(false) => Rules::Ending,
            None => Rules::Missing,
        }
    }

    fn jumps_back(&self, address: u64) -> Option<bool> {
        let bases = self.bases();
        let parsed = self.parsed()?;
        let table = parsed.table()?;
        let offset = table.pointer_to_offset(table.lookup(address, &bases).ok()?).ok()?;
        let mut section = EhFrame::new(&self.frames, LittleEndian);
        section.set_address_size(BYTES_OF_ADDRESS);
        let row = section.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
        // Of an address without rules of its own the table has those before.
        if !row.contains(address) {
            return None;
        }
        let cie = row.cie();
        let all = [cie.instructions(&section, &bases), row.instructions(&section, &bases)];
        let is_endless = all.into_iter().any(|mut instructions| {
            std::iter::from_fn(|| instructions.next().ok().flatten())
                .filter_map(expression)
                .any(|expression| expression.get(&section).is_ok_and(|it| has_jump_back(it, cie)))
        });
        Some(is_endless)
    }
}

fn expression(instruction: CallFrameInstruction<usize>) -> Option<UnwindExpression<usize>> {
    match instruction {
        CallFrameInstruction::DefCfaExpression { expression }
        | CallFrameInstruction::Expression { expression, .. }
        | CallFrameInstruction::ValExpression { expression, .. } => Some(expression),
        _ => None,
    }
}

fn has_jump_back<R: Reader>(expression: Expression<R>, cie: &CommonInformationEntry<R>) -> bool {
    let mut operations = expression.operations(cie.encoding());
    std::iter::from_fn(|| operations.next().ok().flatten()).any(
        |operation| matches!(operation, Operation::Bra { target } | Operation::Skip { target } if target < 0),
    )
}
