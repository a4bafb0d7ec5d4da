//! Files with code: opening them, and their build IDs.

use mpisee_profile::site::layout_text;
use object::read::elf::ProgramHeader;
use object::{Object, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// A file of which only the parts are read that are looked at.
///
/// # Errors
/// Why it cannot be opened.
pub fn cached(path: &Path) -> Result<ReadCache<File>, String> {
    File::open(path).map(ReadCache::new).map_err(|error| error.to_string())
}

/// The hash of the program headers, as in `sites.csv`; empty of files that ran nowhere.
pub fn layout<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> String {
    let object::File::Elf64(elf) = file else { return String::new() };
    let endian = elf.endian();
    let words = elf.elf_program_headers().iter().map(|header| {
        let kind = u64::from(header.p_type(endian)) << 32 | u64::from(header.p_flags(endian));
        [
            kind,
            header.p_offset(endian),
            header.p_vaddr(endian),
            header.p_filesz(endian),
            header.p_memsz(endian),
        ]
    });
    layout_text(mpisee_profile::site::layout(words))
}

/// The build ID in hexadecimal; empty if there is none.
pub fn build_id<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> String {
    let id = file.build_id().ok().flatten().unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
