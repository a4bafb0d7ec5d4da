//! From an instruction of a module to the line of source it was made for: the line table in the
//! module's image, as `nvcc -lineinfo` writes it.
//!
//! The table is that of DWARF 2 with relocatable addresses: a sequence begins at the symbol of its
//! section. NVIDIA adds an instruction that says of the rows after it that they are of an inlined
//! function, and which earlier row of the sequence called that. Such rows get the caller's line,
//! since that of the header that has atomicAdd helps nobody.

use gimli::{
    DebugLine, DebugLineOffset, EndianSlice, IncompleteLineProgram, LineInstruction, LineProgramHeader,
    LineRow, LittleEndian, Reader,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::collections::{BTreeMap, HashMap};

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// `DW_LNE_NVIDIA_inlined_call`: the number of the calling row, from 1, and the function's name; 0
/// if not inlined.
const INLINED_CALL: u8 = 0x90;
/// Images larger than that are not looked through for functions.
const MOST_FUNCTIONS: usize = 1 << 16;

/// Functions and lines of a module's image.
#[derive(Debug, Default)]
pub struct Lines {
    /// The begin of functions, see [`in_section`].
    functions: HashMap<String, u64>,
    /// Rows by where they begin.
    rows: BTreeMap<u64, String>,
}

impl Lines {
    /// Reads the image of a module. One that cannot be read, or has no line table, has no lines.
    pub fn read(image: &[u8]) -> Lines {
        let Ok(file) = object::File::parse(image) else { return Lines::default() };
        let mut lines = Lines::default();
        let kernels = file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
        for symbol in kernels.take(MOST_FUNCTIONS) {
            if let (Ok(name), Some(section)) = (symbol.name(), symbol.section_index()) {
                lines.functions.insert(name.to_owned(), in_section(section.0) | symbol.address());
            }
        }
        // Lines that were read before an error are still right.
        let _ = lines.read_table(&file);
        lines
    }

    fn read_table(&mut self, file: &object::File) -> Option<()> {
        let section = file.section_by_name(".debug_line")?;
        let mut data = section.uncompressed_data().ok()?.into_owned();
        for (offset, relocation) in section.relocations() {
            if let RelocationTarget::Symbol(symbol) = relocation.target()
                && let Ok(symbol) = file.symbol_by_index(symbol)
                && let Some(section) = symbol.section_index()
                && let Some(place) = data.get_mut(offset as usize..offset as usize + 8)
            {
                let address = symbol.address().wrapping_add_signed(relocation.addend());
                place.copy_from_slice(&(in_section(section.0) | address).to_le_bytes());
            }
        }
        let table = DebugLine::new(&data, LittleEndian);
        let mut offset = 0;
        while let Some(length) = data.get(offset..offset + 4) {
            let program = table.program(DebugLineOffset(offset), 8, None, None).ok()?;
            self.read_unit(program);
            // Units follow each other, each after its length; of these the format of 32 bits is all
            // that there is.
            offset += 4 + u32::from_le_bytes(length.try_into().ok()?) as usize;
        }
        Some(())
    }

    fn read_unit(&mut self, mut program: IncompleteLineProgram<Slice<'_>>) {
        let header = program.header().clone();
        let mut row = LineRow::new(&header);
        // The rows of the sequence, and the number of the one that called what is inlined now.
        let mut sequence: Vec<String> = Vec::new();
        let mut caller = 0usize;
        let mut instructions = header.instructions();
        while let Ok(Some(instruction)) = instructions.next_instruction(&header) {
            if let LineInstruction::UnknownExtended(opcode, mut operands) = instruction
                && opcode.0 == INLINED_CALL
            {
                caller = operands.read_uleb128().map_or(0, |row| row as usize);
            }
            let Ok(true) = row.execute(instruction, &mut program) else { continue };
            if row.end_sequence() {
                sequence.clear();
                caller = 0;
            } else {
                let own = || text(&header, &row);
                let line = caller.checked_sub(1).and_then(|at| sequence.get(at).cloned()).unwrap_or_else(own);
                self.rows.insert(row.address(), line.clone());
                sequence.push(line);
            }
            row.reset(&header);
        }
    }

    /// The names of the functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// The line of what is `offset` bytes into a function.
    pub fn line(&self, function: &str, offset: u64) -> Option<&str> {
        let at = self.functions.get(function)? + offset;
        let (row, line) = self.rows.range(..=at).next_back()?;
        (row >> SECTION_SHIFT == at >> SECTION_SHIFT).then_some(line.as_str())
    }
}

/// Sections of a module are apart; here they lie in one space of addresses, each far from the
/// others.
const SECTION_SHIFT: u32 = 40;

fn in_section(section: usize) -> u64 {
    (section as u64) << SECTION_SHIFT
}

/// `file:line` of a row.
fn text(header: &LineProgramHeader<Slice<'_>>, row: &LineRow) -> String {
    let line = row.line().map_or(0, |line| line.get());
    let Some(file) = row.file(header) else { return format!("?:{line}") };
    let string = |value| match value {
        gimli::AttributeValue::String(text) => {
            Reader::to_string_lossy(&text).unwrap_or_default().into_owned()
        }
        _ => String::new(),
    };
    let name = string(file.path_name());
    let folder = file.directory(header).map(string).unwrap_or_default();
    if name.starts_with('/') || folder.is_empty() {
        format!("{name}:{line}")
    } else {
        format!("{folder}/{name}:{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by tests/modules/make of the source beside it.
    const MODULE: &[u8] = include_bytes!("../../tests/modules/lines.cubin");

    #[test]
    fn instructions_have_their_lines() {
        let lines = Lines::read(MODULE);
        let line = |function, offset| lines.line(function, offset).map(|it| it.rsplit('/').next().unwrap());
        assert_eq!(line("copy", 0), Some("lines.cu:7"));
        assert_eq!(line("copy", 0x50), Some("lines.cu:9"));
        assert_eq!(line("copy", 0xe0), Some("lines.cu:12"));
        // A function that is part of its caller, and has a name there.
        assert_eq!(line("copy", 0xf0), Some("lines.cu:4"));
        assert_eq!(line("$copy$_Z6helperPKfi", 0), Some("lines.cu:4"));
        assert_eq!(line("none", 0), None);
        assert!(lines.functions().any(|name| name == "count"));
    }

    #[test]
    fn inlined_code_has_the_line_of_its_call() {
        let lines = Lines::read(MODULE);
        let of_count: Vec<&str> =
            (0..0x180).step_by(16).filter_map(|offset| lines.line("count", offset)).collect();
        assert!(of_count.iter().all(|line| line.contains("lines.cu:")), "{of_count:?}");
        assert!(of_count[1..8].iter().all(|line| line.ends_with("lines.cu:14")), "{of_count:?}");
    }

    #[test]
    fn image_that_is_no_module_has_no_lines() {
        for end in (0..MODULE.len()).step_by(7) {
            let _ = Lines::read(&MODULE[..end]);
        }
        assert_eq!(Lines::read(b"").line("copy", 0), None);
    }
}
