//! From an instruction to its line: the tables of code objects.

/// The format of the line table in a version of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `co_lnotab`, up to 3.9: bytes of code and lines, each pair added to those before.
    Pairs,
    /// `co_linetable` of 3.10: the same, but for ranges, which may have no line.
    Ranges,
    /// `co_linetable` from 3.11 on: entries of several forms (`Objects/locations.md` of CPython).
    Entries,
}

/// Bytes of an instruction.
const UNIT_BYTES: u64 = 2;
/// Marks a range of no line.
const NO_LINE: i8 = -128;

/// The line of the instruction so many bytes from the begin of the code, which is of the line
/// `first`. Where the table has none, that of the nearest before; a negative offset is that of code
/// that did not begin yet.
pub fn line(form: Table, table: &[u8], first: i32, offset: i64) -> i32 {
    let Ok(offset) = u64::try_from(offset) else { return first };
    match form {
        Table::Pairs => of_pairs(table, first, offset),
        Table::Ranges => of_ranges(table, first, offset),
        Table::Entries => of_entries(table, first, offset),
    }
}

fn of_pairs(table: &[u8], first: i32, offset: u64) -> i32 {
    let (mut at, mut line) = (0, first);
    for pair in table.chunks_exact(2) {
        at += u64::from(pair[0]);
        if at > offset {
            break;
        }
        line = line.wrapping_add(i32::from(pair[1].cast_signed()));
    }
    line
}

fn of_ranges(table: &[u8], first: i32, offset: u64) -> i32 {
    let (mut end, mut line) = (0, first);
    for pair in table.chunks_exact(2) {
        end += u64::from(pair[0]);
        let change = pair[1].cast_signed();
        if change != NO_LINE {
            line = line.wrapping_add(i32::from(change));
        }
        if offset < end {
            break;
        }
    }
    line
}

fn of_entries(table: &[u8], first: i32, offset: u64) -> i32 {
    let (mut end, mut line) = (0, first);
    let mut rest = table;
    while let Some((head, after)) = rest.split_first() {
        // A begin of an entry has the highest bit: its form, and how many instructions less one it
        // is for.
        let (form, units) = (head >> 3 & 15, u64::from(head & 7) + 1);
        let change = match form {
            10..=12 => i32::from(form) - 10,
            13 | 14 => signed(after),
            _ => 0,
        };
        line = line.wrapping_add(change);
        end += units * UNIT_BYTES;
        if offset < end {
            break;
        }
        let next = after.iter().position(|byte| byte & 0x80 != 0).unwrap_or(after.len());
        rest = &after[next..];
    }
    line
}

/// A number of 6 bits a byte, lowest first, of which all but the last have another bit; its lowest
/// bit is the sign.
fn signed(bytes: &[u8]) -> i32 {
    let (mut value, mut shift) = (0u32, 0);
    for byte in bytes {
        value |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    let half = (value >> 1).cast_signed();
    if value & 1 == 0 { half } else { -half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_add_up() {
        // As CPython's lnotab_notes.txt has them: lines 1, 2, 7, 207, 208, 209 from bytes 0, 6, 50,
        // 350, 361 and 365 on.
        let table = [0, 1, 6, 1, 44, 5, 255, 0, 45, 127, 0, 73, 11, 1, 4, 1];
        for (offset, expected) in
            [(0, 1), (5, 1), (6, 2), (49, 2), (50, 7), (349, 7), (350, 207), (361, 208), (400, 209)]
        {
            assert_eq!(line(Table::Pairs, &table, 0, offset), expected, "{offset}");
        }
        assert_eq!(line(Table::Pairs, &[], 40, 8), 40);
    }

    #[test]
    fn ranges_may_have_no_line() {
        let table = [4, 1, 6, 0x80, 2, 10, 2, 0xfe];
        for (offset, expected) in [(0, 101), (3, 101), (4, 101), (9, 101), (10, 111), (12, 109), (90, 109)] {
            assert_eq!(line(Table::Ranges, &table, 100, offset), expected, "{offset}");
        }
    }

    #[test]
    fn entries_have_several_forms() {
        let entry = |form: u8, units: u8| 0x80 | form << 3 | (units - 1);
        let table = [
            &[entry(3, 2), 0x12][..], // a line with its columns, 4 bytes of code
            &[entry(11, 8), 1, 2],    // the next line, 16
            &[entry(13, 1), 0x40 | (200 << 1) as u8 & 63, 6], // 200 lines on, 2
            &[entry(15, 1)],          // none, 2
            &[entry(14, 1), 1 | 3 << 1, 0, 1, 1], // 3 back, 2
            &[entry(12, 1), 0, 0],    // 2 on, 2
        ]
        .concat();
        let expected =
            [(-2, 10), (0, 10), (3, 10), (4, 11), (19, 11), (20, 211), (22, 211), (24, 208), (26, 210)];
        for (offset, expected) in expected {
            assert_eq!(line(Table::Entries, &table, 10, offset), expected, "{offset}");
        }
    }

    #[test]
    fn nonsense_is_some_line() {
        for form in [Table::Pairs, Table::Ranges, Table::Entries] {
            for byte in 0..=255 {
                for length in 0..40 {
                    line(form, &vec![byte; length], i32::MAX, i64::MAX);
                }
            }
        }
    }
}
