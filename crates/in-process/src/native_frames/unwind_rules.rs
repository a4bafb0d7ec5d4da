//! Unwind rules of a binary, and whether evaluating them ends.
//!
//! A rule may be a program of its own, a DWARF expression. The usual ones are computed in
//! [`super::computed_frame`]; one that was written by hand may jump back, and never end. An
//! unwinder evaluates any rule that it finds.

use crate::native_frames::computed_frame::{Caller, ComputedFrame};
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EhFrameHdr,
    EndianSlice, Expression, FrameDescriptionEntry, LittleEndian, Operation, ParsedEhFrameHdr, Reader,
    UnwindExpression, UnwindSection,
};

/// A table's entry for an address.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a walk allocates nothing for it, and there is one at a time")]
pub enum Rules {
    /// Rules that may not end, as an expression jumps back, or by which the caller cannot be found
    /// here: the walk ends.
    Refused,
    /// Rules that an unwinder can evaluate: no expression jumps back, and all registers are
    /// followed.
    Safe,
    /// Rules by which the caller is computed.
    Computed(ComputedFrame),
    /// No entry, or one that cannot be parsed: the frame is left by its frame pointer, if there is
    /// one.
    Missing,
}

/// A section of a binary.
#[derive(Clone, Copy, Debug)]
pub struct Section<'t> {
    /// The address in the file.
    pub address: u64,
    /// The contents.
    pub bytes: &'t [u8],
}

/// `.eh_frame`, with `.eh_frame_hdr` as its index.
#[derive(Clone, Copy, Debug)]
pub struct IndexedTables<'t> {
    /// `.eh_frame_hdr`.
    pub header: Section<'t>,
    /// `.eh_frame`.
    pub frames: Section<'t>,
    /// The address of `.text`, from which entries may count; 0, as for framehop, where there is
    /// none.
    pub text: u64,
    /// The same of `.got`.
    pub got: u64,
}

/// Bytes of `.eh_frame_hdr` that say where `.eh_frame` is.
pub const HEADER_BYTES: usize = 8;

/// The address of `.eh_frame`, from that of `.eh_frame_hdr` and its first bytes; `None` unless
/// these are as linkers write them.
pub fn frames_address(header_address: u64, header: &[u8]) -> Option<u64> {
    // Of the encodings of a pointer: a distance from where it is itself, with four bytes and a
    // sign.
    const PCREL_SDATA4: u8 = 0x1b;
    let &[1, PCREL_SDATA4, _, _, a, b, c, d, ..] = header else { return None };
    let distance = i32::from_ne_bytes([a, b, c, d]);
    Some(header_address.wrapping_add(4).wrapping_add_signed(i64::from(distance)))
}

type Part<'t> = EndianSlice<'t, LittleEndian>;
const BYTES_OF_ADDRESS: u8 = 8;

impl<'t> IndexedTables<'t> {
    /// Returns whether the index can be searched.
    pub fn can_be_searched(&self) -> bool {
        self.parsed().is_some_and(|parsed| parsed.table().is_some())
    }

    /// The rules at an address in the file.
    pub fn rules(&self, address: u64) -> Rules {
        self.rules_of_entry(address).unwrap_or(Rules::Missing)
    }

    fn rules_of_entry(&self, address: u64) -> Option<Rules> {
        let bases = self.bases();
        let parsed = self.parsed()?;
        let table = parsed.table()?;
        let offset = table.pointer_to_offset(table.lookup(address, &bases).ok()?).ok()?;
        let section = eh_frame(self.frames.bytes);
        let row = section.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
        // Of an address without rules of its own the table has those before.
        row.contains(address).then(|| match Caller::from_entry(&row, &section, &bases, address) {
            Caller::Computed(frame) => Rules::Computed(frame),
            Caller::Unknown => Rules::Refused,
            Caller::ByRegisters if jumps_back(&row, &section, &bases) => Rules::Refused,
            Caller::ByRegisters => Rules::Safe,
        })
    }

    fn bases(&self) -> BaseAddresses {
        let bases = BaseAddresses::default().set_eh_frame(self.frames.address);
        bases.set_eh_frame_hdr(self.header.address).set_text(self.text).set_got(self.got)
    }

    fn parsed(&self) -> Option<ParsedEhFrameHdr<Part<'t>>> {
        EhFrameHdr::new(self.header.bytes, LittleEndian).parse(&self.bases(), BYTES_OF_ADDRESS).ok()
    }
}

/// Returns whether `.eh_frame` without an index has rules that may not end, at any address, or
/// cannot be parsed.
pub fn may_eh_frame_be_endless(frames: Section, text: u64, got: u64) -> bool {
    let bases = BaseAddresses::default().set_eh_frame(frames.address).set_text(text).set_got(got);
    any_jumps_back(&eh_frame(frames.bytes), &bases).unwrap_or(true)
}

/// The same of `.debug_frame`, which has no index.
pub fn may_debug_frame_be_endless(bytes: &[u8]) -> bool {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(BYTES_OF_ADDRESS);
    any_jumps_back(&section, &BaseAddresses::default().set_text(0).set_got(0)).unwrap_or(true)
}

fn eh_frame(bytes: &[u8]) -> EhFrame<Part<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(BYTES_OF_ADDRESS);
    section
}

fn any_jumps_back<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    section: &S,
    bases: &BaseAddresses,
) -> gimli::Result<bool> {
    let mut entries = section.entries(bases);
    while let Some(entry) = entries.next()? {
        if let CieOrFde::Fde(row) = entry
            && jumps_back(&row.parse(S::cie_from_offset)?, section, bases)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn jumps_back<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    row: &FrameDescriptionEntry<R>,
    section: &S,
    bases: &BaseAddresses,
) -> bool {
    let cie = row.cie();
    let all = [cie.instructions(section, bases), row.instructions(section, bases)];
    all.into_iter().any(|mut instructions| {
        std::iter::from_fn(|| instructions.next().ok().flatten())
            .filter_map(expression)
            .any(|expression| expression.get(section).is_ok_and(|it| has_jump_back(it, cie)))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_AT: u64 = 0x2000;
    const INDEX_AT: u64 = 0x1000;
    const FUNCTION_AT: u64 = 0x400;
    const FUNCTION_BYTES: u32 = 16;
    /// DW_CFA_def_cfa_expression with DW_OP_skip -3, which jumps to itself, and with one that jumps
    /// on.
    const BACK: [u8; 5] = [0x0f, 3, 0x2f, 0xfd, 0xff];
    const ONWARD: [u8; 8] = [0x0f, 6, 0x2f, 1, 0, 0x96, 0x77, 8];

    /// An entry with its length before it, filled up to whole words.
    fn entry(mut body: Vec<u8>) -> Vec<u8> {
        body.resize(body.len().next_multiple_of(4), 0);
        [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat()
    }

    /// `.eh_frame` of a function with these rules; its addresses count from the place where they
    /// are, in 4 bytes with a sign.
    fn frames(rules: &[u8]) -> Vec<u8> {
        let common = entry([&[0; 4][..], &[1], b"zR\0", &[1, 0x78, 16, 1, 0x1b]].concat());
        let back = u32::try_from(common.len() + 4).unwrap();
        let from = TABLE_AT + u64::from(back) + 4;
        let begin = FUNCTION_AT.wrapping_sub(from) as u32;
        let words = [back, begin, FUNCTION_BYTES].map(u32::to_le_bytes).concat();
        [common, entry([&words[..], &[0], rules].concat()), vec![0; 4]].concat()
    }

    /// Its index, whose addresses count from its begin.
    fn index(frames: &[u8]) -> Vec<u8> {
        let of_entry = TABLE_AT + u64::from(frames[0]) + 4;
        let from_here = |address: u64, base: u64| (address.wrapping_sub(base) as u32).to_le_bytes();
        let to_table = from_here(TABLE_AT, INDEX_AT + 4);
        let row = [from_here(FUNCTION_AT, INDEX_AT), from_here(of_entry, INDEX_AT)].concat();
        [&[1, 0x1b, 0x03, 0x3b][..], &to_table, &1u32.to_le_bytes(), &row].concat()
    }

    fn rules_at(address: u64, rules: &[u8]) -> Rules {
        let frames = frames(rules);
        let index = index(&frames);
        let header = Section { address: INDEX_AT, bytes: &index };
        let tables =
            IndexedTables { header, frames: Section { address: TABLE_AT, bytes: &frames }, text: 0, got: 0 };
        assert!(tables.can_be_searched());
        tables.rules(address)
    }

    #[test]
    fn rules_that_jump_are_refused() {
        let end = FUNCTION_AT + u64::from(FUNCTION_BYTES);
        assert_eq!(rules_at(FUNCTION_AT, &BACK), Rules::Refused);
        assert_eq!(rules_at(end - 1, &BACK), Rules::Refused);
        assert_eq!(rules_at(end, &BACK), Rules::Missing);
        assert_eq!(rules_at(FUNCTION_AT - 1, &BACK), Rules::Missing);
        assert_eq!(rules_at(FUNCTION_AT, &ONWARD), Rules::Refused, "a jump is not computed");
        assert_eq!(rules_at(FUNCTION_AT, &[0x0c, 7, 8]), Rules::Safe);
    }

    /// The rules of a function that aligns its stack, as GCC writes them: the caller's stack
    /// pointer is stored at rbp - 8, the caller's rbp at rbp, and the return address before the
    /// caller's stack.
    const ALIGNED: [u8; 12] = [0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0, 0x90, 1];

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_caller_of_a_function_that_aligns_its_stack_is_computed() {
        use crate::native_frames::computed_frame::Registers;
        let Rules::Computed(frame) = rules_at(FUNCTION_AT, &ALIGNED) else { panic!("it is computed") };
        let own = Registers { address: FUNCTION_AT, stack: 0x7000, frame: 0x7100 };
        let memory = [(0x70f8, 0x7208), (0x7100, 0x7300), (0x7200, 0x405)];
        let read = |at| memory.iter().find(|&&(address, _)| address == at).map(|&(_, word)| word);
        let caller = Registers { address: 0x405, stack: 0x7208, frame: 0x7300 };
        assert_eq!(frame.caller(own, read), Some(caller));
        assert_eq!(frame.caller(own, |_| None), None);
        // By a register that is not followed, rbx.
        assert_eq!(rules_at(FUNCTION_AT, &[0x0c, 3, 8, 0x90, 1]), Rules::Refused);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn entries_of_a_table_of_jumps_are_computed() {
        use crate::native_frames::computed_frame::Registers;
        // rsp + 8 + ((rip & 15) >= 11) << 3, as linkers write it.
        const JUMPS: [u8; 15] =
            [0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, 0x90, 1];
        let Rules::Computed(frame) = rules_at(FUNCTION_AT, &JUMPS) else { panic!("it is computed") };
        let stack_of_caller = |address| {
            let own = Registers { address, stack: 0x7000, frame: 1 };
            frame.caller(own, |at| Some(at + 1))
        };
        let caller = |stack: u64| Some(Registers { address: stack - 7, stack, frame: 1 });
        assert_eq!([0x40a, 0x40b].map(stack_of_caller), [caller(0x7008), caller(0x7010)]);
    }

    #[test]
    fn tables_without_an_index_are_looked_through() {
        let may_be_endless = |rules: &[u8]| {
            may_eh_frame_be_endless(Section { address: TABLE_AT, bytes: &frames(rules) }, 0, 0)
        };
        assert_eq!([may_be_endless(&BACK), may_be_endless(&ONWARD)], [true, false]);
        assert!(may_eh_frame_be_endless(Section { address: TABLE_AT, bytes: &[9; 9] }, 0, 0), "no table");
        // Where `.eh_frame` has 0 for an entry that is common, and a distance, `.debug_frame` has
        // -1, and an address in the section.
        let of_debug = |rules: &[u8]| {
            let common = entry([&[0xff; 4][..], &[1, 0, 1, 0x78, 16]].concat());
            let addresses = [FUNCTION_AT, u64::from(FUNCTION_BYTES)].map(u64::to_le_bytes).concat();
            [common, entry([&[0; 4][..], &addresses, rules].concat())].concat()
        };
        assert!(may_debug_frame_be_endless(&of_debug(&BACK)));
        assert!(!may_debug_frame_be_endless(&of_debug(&ONWARD)));
    }
}
