//! Loaded files: the file that an address of code is from, and its build ID.

use mpisee_profile::own_process;
use std::ffi::{CStr, c_int, c_void};

/// A note whose owner is `GNU` and whose description is the build ID.
const NT_GNU_BUILD_ID: u32 = 3;

/// The place of code in its file.
#[derive(Clone, Debug, Default)]
pub struct CodeLocation {
    /// The whole path.
    pub file: String,
    /// As the file has it, wherever it is loaded.
    pub address: u64,
    /// In hexadecimal; empty if there is none.
    pub build_id: String,
}

struct Search {
    address: u64,
    found: Option<CodeLocation>,
}

/// The file that an address of code comes from.
pub fn place(address: usize) -> Option<CodeLocation> {
    let mut search = Search { address: address as u64, found: None };
    // SAFETY: the function is called before this returns, with the pointer that it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// Returns whether the address is in this file; 1 ends the search.
extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: `place` handed over its own, which nobody else uses meanwhile.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the loader describes a file that it keeps while this runs.
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader says how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let Some(address) = search.address.checked_sub(info.dlpi_addr) else { return 0 };
    let is_within = |header: &libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD
            && address >= header.p_vaddr
            && address - header.p_vaddr < header.p_memsz
    };
    if !headers.iter().any(is_within) {
        return 0;
    }
    let build_id = notes(info.dlpi_addr, headers).find_map(build_id).unwrap_or_default();
    search.found = Some(CodeLocation { file: path(info.dlpi_name), address, build_id });
    1
}

/// The whole path of a file that the loader names; it has no name for the program.
fn path(name: *const std::ffi::c_char) -> String {
    let name = match name.is_null() {
        true => String::new(),
        // SAFETY: the loader's names end in a zero and live as long as the file is loaded.
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    };
    let found = match name.as_str() {
        "" => std::fs::read_link(own_process::folder().join("exe")).ok(),
        name if !name.starts_with('/') => std::fs::canonicalize(name).ok(),
        _ => None,
    };
    found.map_or(name, |path| path.display().to_string())
}

/// The notes of a file, as far as they are loaded with it.
fn notes(base: u64, headers: &[libc::Elf64_Phdr]) -> impl Iterator<Item = &[u8]> {
    let is_loaded = |note: &libc::Elf64_Phdr| {
        let end = note.p_vaddr.checked_add(note.p_filesz);
        headers.iter().any(|it| {
            it.p_type == libc::PT_LOAD
                && it.p_flags & libc::PF_R != 0
                && it.p_vaddr <= note.p_vaddr
                && end.is_some_and(|end| end <= it.p_vaddr + it.p_filesz)
        })
    };
    headers.iter().filter(move |it| it.p_type == libc::PT_NOTE && is_loaded(it)).map(move |note| {
        let begin = std::ptr::with_exposed_provenance::<u8>((base + note.p_vaddr) as usize);
        // SAFETY: the segment that holds it is loaded and can be read.
        unsafe { std::slice::from_raw_parts(begin, note.p_filesz as usize) }
    })
}

/// The build ID in some notes: each has the lengths of its name and description, its kind, and
/// these two, each filled up to words of 4 bytes.
fn build_id(mut notes: &[u8]) -> Option<String> {
    loop {
        let (header, rest) = notes.split_at_checked(12)?;
        let word = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        let filled = |bytes: u32| bytes.next_multiple_of(4) as usize;
        let (name, rest) = rest.split_at_checked(filled(word(0)))?;
        let (description, rest) = rest.split_at_checked(filled(word(4)))?;
        if word(8) == NT_GNU_BUILD_ID && name == b"GNU\0" {
            let id = &description[..word(4) as usize];
            return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        let words = |words: &[u32]| words.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<u8>>();
        let other = [words(&[4, 5, 1]), b"GNU\0".to_vec(), b"12345\0\0\0".to_vec()].concat();
        let wanted = [words(&[4, 3, 3]), b"GNU\0".to_vec(), vec![0xab, 0x01, 0xff, 0]].concat();
        assert_eq!(build_id(&[other.clone(), wanted.clone()].concat()).as_deref(), Some("ab01ff"));
        assert_eq!(build_id(&other), None);
        let whole = [other, wanted].concat();
        (0..whole.len()).for_each(|end| assert_eq!(build_id(&whole[..end]), None));
    }
}
