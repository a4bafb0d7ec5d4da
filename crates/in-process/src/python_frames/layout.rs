//! The layout of CPython's structures: a table for the versions that publish none, and the
//! published one for the others.

use super::lines::Table;
use super::memory::Memory;

/// Offsets in structures of CPython, in bytes; each is named as there. Minor versions differ,
/// patches of one do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Of a thread: its innermost frame, or what has it.
    pub current: u64,
    /// Of what has the innermost frame of a thread, if there is such a thing (3.11 and 3.12).
    pub through: Option<u64>,
    /// Of a frame.
    pub previous: u64,
    /// Of a frame: its code object, with bits for reference counting from 3.14 on.
    pub code: u64,
    /// Of a frame.
    pub instruction: Instruction,
    /// Of a frame: who owns it; none up to 3.10.
    pub owner: Option<u64>,
    /// Of an object.
    pub kind: u64,
    /// Of code.
    pub file: u64,
    /// Of code: its name with those around it, `Solver.step`; up to 3.10 its name alone.
    pub name: u64,
    /// Of code.
    pub line_table: u64,
    /// The format of the line table.
    pub table: Table,
    /// Of code.
    pub first_line: u64,
    /// Of bytes.
    pub bytes_length: u64,
    /// Of bytes.
    pub bytes: u64,
    /// Of a string.
    pub string_length: u64,
    /// Of a string.
    pub string_state: u64,
    /// Of a string of ASCII.
    pub ascii: u64,
    /// Of another string.
    pub characters: u64,
}

/// Position of a frame's current instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Its number is at this offset, and its bytes (up to 3.10).
    Number {
        /// Of a frame.
        at: u64,
        /// Bytes of one.
        bytes: i64,
    },
    /// Its address is at this offset.
    Address {
        /// Of a frame.
        at: u64,
        /// Of code: its instructions.
        code: u64,
        /// For threads with instructions of their own: of a frame, which of them; and of code,
        /// where they are.
        of_thread: Option<(u64, u64)>,
    },
}

const OLD: Layout = Layout {
    current: 24,
    through: None,
    previous: 24,
    code: 32,
    instruction: Instruction::Number { at: 104, bytes: 1 },
    owner: None,
    kind: 8,
    file: 104,
    name: 112,
    line_table: 120,
    table: Table::Pairs,
    first_line: 40,
    bytes_length: 16,
    bytes: 32,
    string_length: 16,
    string_state: 32,
    ascii: 48,
    characters: 72,
};

/// The layouts of 64-bit builds of the versions that do not publish their own.
const KNOWN: [(u32, Layout); 4] = [
    (9, OLD),
    (10, Layout { instruction: Instruction::Number { at: 96, bytes: 2 }, table: Table::Ranges, ..OLD }),
    (
        11,
        Layout {
            current: 56,
            through: Some(8),
            previous: 48,
            instruction: Instruction::Address { at: 56, code: 184, of_thread: None },
            owner: Some(69),
            file: 112,
            name: 128,
            line_table: 136,
            table: Table::Entries,
            first_line: 72,
            ..OLD
        },
    ),
    (
        12,
        Layout {
            current: 56,
            through: Some(0),
            previous: 8,
            code: 0,
            instruction: Instruction::Address { at: 56, code: 192, of_thread: None },
            owner: Some(70),
            file: 112,
            name: 128,
            line_table: 136,
            table: Table::Entries,
            first_line: 68,
            ascii: 40,
            characters: 56,
            ..OLD
        },
    ),
];

/// The offsets in `_Py_DebugOffsets`, which `_PyRuntime` begins with from 3.13 on for readers in
/// other processes, as numbers of its words of 64 bits.
struct Words {
    minor: u32,
    current: u64,
    /// And those of a frame that follow: code, instruction, one that is not used, owner.
    previous: u64,
    tlbc_index: Option<u64>,
    /// And `name` and `qualname`, which follow.
    file: u64,
    line_table: u64,
    first_line: u64,
    instructions: u64,
    /// `co_tlbc`
    of_threads: Option<u64>,
    kind: u64,
    /// And `ob_sval`, which follows.
    bytes_length: u64,
    /// And length and size of the string's structure, which follow.
    string_state: u64,
}

const WORDS: [Words; 3] = [
    Words {
        minor: 13,
        current: 23,
        previous: 29,
        tlbc_index: None,
        file: 35,
        line_table: 38,
        first_line: 39,
        instructions: 43,
        of_threads: None,
        kind: 45,
        bytes_length: 65,
        string_state: 68,
    },
    Words {
        minor: 14,
        current: 26,
        previous: 32,
        tlbc_index: Some(38),
        file: 40,
        line_table: 43,
        first_line: 44,
        instructions: 48,
        of_threads: Some(49),
        kind: 51,
        bytes_length: 75,
        string_state: 78,
    },
    Words {
        minor: 15,
        current: 26,
        previous: 40,
        tlbc_index: Some(46),
        file: 48,
        line_table: 51,
        first_line: 52,
        instructions: 56,
        of_threads: Some(57),
        kind: 59,
        bytes_length: 87,
        string_state: 90,
    },
];

/// The first bytes of `_PyRuntime` in versions that publish offsets.
const COOKIE: [u8; 8] = *b"xdebugpy";
/// The number of the word that says whether there is no global lock.
const FREE_THREADED: u64 = 2;
/// No structure that is read is longer.
const MOST_BYTES: u64 = 1 << 16;
/// `utf8_length` and `utf8`, which other strings than those of ASCII have besides.
const UTF8_BYTES: u64 = 16;

impl Layout {
    /// The layout of Python 3 with this minor version; `runtime` is where its `_PyRuntime` is.
    pub fn for_version(minor: u32, runtime: u64, memory: &mut Memory) -> Option<Layout> {
        if let Some((_, layout)) = KNOWN.iter().find(|(it, _)| *it == minor) {
            return Some(*layout);
        }
        let words = WORDS.iter().find(|it| it.minor == minor)?;
        let cookie = memory.u64(runtime, 0)?;
        let version = memory.u64(runtime, 8)?;
        if cookie.to_ne_bytes() != COOKIE || version >> 16 != u64::from(0x300 | minor) {
            return None;
        }
        words.layout(runtime, memory)
    }
}

impl Words {
    fn layout(&self, runtime: u64, memory: &mut Memory) -> Option<Layout> {
        let mut word = |number: u64| memory.u64(runtime, 8 * number).filter(|&it| it < MOST_BYTES);
        let has_own = word(FREE_THREADED)? != 0;
        let of_thread = match (self.tlbc_index, self.of_threads) {
            (Some(index), Some(of_threads)) if has_own => Some((word(index)?, word(of_threads)?)),
            _ => None,
        };
        let ascii = word(self.string_state + 2)?;
        Some(Layout {
            current: word(self.current)?,
            through: None,
            previous: word(self.previous)?,
            code: word(self.previous + 1)?,
            instruction: Instruction::Address {
                at: word(self.previous + 2)?,
                code: word(self.instructions)?,
                of_thread,
            },
            owner: Some(word(self.previous + 4)?),
            kind: word(self.kind)?,
            file: word(self.file)?,
            name: word(self.file + 2)?,
            line_table: word(self.line_table)?,
            table: Table::Entries,
            first_line: word(self.first_line)?,
            bytes_length: word(self.bytes_length)?,
            bytes: word(self.bytes_length + 1)?,
            string_state: word(self.string_state)?,
            string_length: word(self.string_state + 1)?,
            ascii,
            characters: ascii + UTF8_BYTES,
        })
    }
}
