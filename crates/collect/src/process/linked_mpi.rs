//! Whether a program has an MPI in itself, by the symbols in its file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The MPI in a program, by its symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedMpi {
    /// It has MPI's functions.
    Linked,
    /// It does not have them.
    Missing,
    /// It has no symbols.
    Unknown,
}

/// A program's file, as far as it was read.
pub struct ProgramFile {
    file: File,
    /// True if a dynamic loader loads it.
    pub has_loader: bool,
    /// Where the symbols are, and their names.
    symbols: Option<[Range<u64>; 2]>,
}

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SYMBOL_BYTES: usize = 24;
const INTERPRETER: u32 = 3;
const SYMBOL_TABLE: u32 = 2;
/// More than the symbols of any program take.
const MOST_BYTES: u64 = 1 << 31;
/// Bytes that are read at once, a multiple of those of a symbol.
const PIECE_BYTES: u64 = SYMBOL_BYTES as u64 * (1 << 15);
/// The begin of a name that each program with MPI has: `PMPI_Init` or `PMPI_Init_thread`.
const NAME: &[u8] = b"PMPI_Init";

impl ProgramFile {
    /// Reads the begin of the file; `None` if it is no program for a processor with the byte order
    /// and the words of this one.
    pub fn read(file: File) -> Option<ProgramFile> {
        let header = read(&file, 0, HEADER_BYTES as u64).ok()?;
        let is_native = cfg!(target_pointer_width = "64")
            && header[5] == if cfg!(target_endian = "little") { 1 } else { 2 };
        if header[..5] != *b"\x7fELF\x02" || !is_native {
            return None;
        }
        let table = |at: usize, count: usize, bytes: usize| {
            let length = u64::from(short(&header, count)) * bytes as u64;
            (short(&header, count - 2) as usize == bytes)
                .then(|| read(&file, long(&header, at), length).ok())?
        };
        let segments = table(32, 56, SEGMENT_BYTES)?;
        let has_loader = segments.chunks_exact(SEGMENT_BYTES).any(|segment| word(segment, 0) == INTERPRETER);
        let sections = table(40, 60, SECTION_BYTES).unwrap_or_default();
        let sections: Vec<&[u8]> = sections.chunks_exact(SECTION_BYTES).collect();
        let range = |section: &[u8]| {
            let [begin, length] = [long(section, 24), long(section, 32)];
            (length <= MOST_BYTES).then(|| begin..begin.saturating_add(length))
        };
        let table = sections.iter().find(|section| word(section, 4) == SYMBOL_TABLE);
        let symbols =
            table.and_then(|table| Some([range(table)?, range(sections.get(word(table, 40) as usize)?)?]));
        Some(ProgramFile { file, has_loader, symbols })
    }

    /// Looks for MPI's functions.
    pub fn linked_mpi(&self) -> LinkedMpi {
        let Some([symbols, names]) = &self.symbols else { return LinkedMpi::Unknown };
        let Ok(places) = self.places_of_name(names) else { return LinkedMpi::Unknown };
        let is_of_mpi = |symbol: &[u8]| short(symbol, 6) != 0 && places.contains(&word(symbol, 0));
        if places.is_empty() {
            return LinkedMpi::Missing;
        }
        let mut is_linked = false;
        let read = self.pieces(symbols, 0, |_, piece| {
            is_linked |= piece.chunks_exact(SYMBOL_BYTES).any(is_of_mpi);
        });
        match read {
            Ok(()) if is_linked => LinkedMpi::Linked,
            Ok(()) => LinkedMpi::Missing,
            Err(_) => LinkedMpi::Unknown,
        }
    }

    /// Where the name is among the names of symbols. It may be within a longer one.
    fn places_of_name(&self, names: &Range<u64>) -> io::Result<Vec<u32>> {
        let mut places = Vec::new();
        self.pieces(names, NAME.len() as u64 - 1, |begin, piece| {
            let found = piece.windows(NAME.len()).zip(begin..).filter(|(name, _)| *name == NAME);
            places.extend(found.filter_map(|(_, at)| u32::try_from(at).ok()));
        })?;
        Ok(places)
    }

    /// Passes on a part of the file in pieces, with the place of each in it; the end of one is also
    /// the begin of the next.
    fn pieces(&self, part: &Range<u64>, shared: u64, mut each: impl FnMut(u64, &[u8])) -> io::Result<()> {
        let mut begin = part.start;
        while begin < part.end {
            let piece = read(&self.file, begin, (part.end - begin).min(PIECE_BYTES + shared))?;
            each(begin - part.start, &piece);
            begin += PIECE_BYTES;
        }
        Ok(())
    }
}

fn read(file: &File, begin: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, begin)?;
    Ok(bytes)
}

fn number<const BYTES: usize>(from: &[u8], at: usize) -> [u8; BYTES] {
    from.get(at..at + BYTES).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; BYTES])
}

fn short(from: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(number(from, at))
}

fn word(from: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(number(from, at))
}

fn long(from: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(number(from, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    /// Looks at a program in C.
    fn look_at(source: &str, arguments: &[&str]) -> (bool, LinkedMpi) {
        let folder = tempfile::tempdir().unwrap();
        let [file, program] = ["program.c", "program"].map(|name| folder.path().join(name));
        std::fs::write(&file, source).unwrap();
        let compiled =
            Command::new("cc").arg(&file).arg("-o").arg(&program).args(arguments).status().unwrap();
        assert!(compiled.success(), "{source}");
        let program = ProgramFile::read(File::open(program).unwrap()).unwrap();
        (program.has_loader, program.linked_mpi())
    }

    #[test]
    fn symbols_show_whether_a_program_has_an_mpi_in_itself() {
        let with_mpi = "int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }";
        for (source, arguments, expected) in [
            (with_mpi, &[][..], (true, LinkedMpi::Linked)),
            (with_mpi, &["-static"], (false, LinkedMpi::Linked)),
            (with_mpi, &["-s"], (true, LinkedMpi::Unknown)),
            (
                "int PMPI_Init_thread(void) { return 0; } int main(void) { return PMPI_Init_thread(); }",
                &[],
                (true, LinkedMpi::Linked),
            ),
            (
                "int MPI_Init(void) { return 0; } int main(void) { return MPI_Init(); }",
                &[],
                (true, LinkedMpi::Missing),
            ),
            // It asks for another's.
            (
                "__attribute__((weak)) int PMPI_Init(void); int main(void) { return PMPI_Init ? PMPI_Init() : 0; }",
                &[],
                (true, LinkedMpi::Missing),
            ),
        ] {
            assert_eq!(look_at(source, arguments), expected, "{source} {arguments:?}");
        }
    }

    #[test]
    fn a_name_is_found_where_pieces_meet() {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("names");
        for before in [0, 1, 5, 9, 10, 11] {
            let begin = PIECE_BYTES as usize - before;
            let names = [&vec![b'x'; begin][..], NAME, b"others\0"].concat();
            std::fs::write(&path, &names).unwrap();
            let file = ProgramFile { file: File::open(&path).unwrap(), has_loader: false, symbols: None };
            let places = file.places_of_name(&(0..names.len() as u64)).unwrap();
            assert_eq!(places, [begin as u32], "{before}");
        }
    }

    #[test]
    fn a_file_that_is_no_program_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        for content in [&b""[..], b"#!/bin/sh\n", &[b"\x7fELF\x02\x01", &[0; 58][..]].concat()] {
            std::fs::write(&path, content).unwrap();
            assert!(ProgramFile::read(File::open(&path).unwrap()).is_none(), "{content:?}");
        }
    }
}
