//! Memory of another process.

use std::collections::HashMap;

const PAGE_BYTES: usize = 4096;

/// Memory of a process, each page as it was when it was first read.
pub struct Memory {
    /// One of its threads.
    pid: u32,
    pages: HashMap<u64, Result<Box<[u8; PAGE_BYTES]>, String>>,
}

impl Memory {
    /// The memory of the process of this thread; nothing is read yet.
    pub fn new(pid: u32) -> Memory {
        Memory { pid, pages: HashMap::new() }
    }

    /// The eight bytes at an address.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn word(&mut self, address: u64) -> Result<u64, String> {
        if !address.is_multiple_of(8) {
            return Err(format!("{address:#x} is no address of a word"));
        }
        let offset = address as usize % PAGE_BYTES;
        let begin = address - offset as u64;
        let pid = self.pid;
        let page = self.pages.entry(begin).or_insert_with(|| read_page(pid, begin));
        let page = page.as_ref().map_err(Clone::clone)?;
        let bytes = page.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_ne_bytes).ok_or_else(|| format!("{address:#x} is at the end of a page"))
    }

    /// The bytes from an address on.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn bytes(&self, from: u64, count: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count).map_err(|error| error.to_string())?;
        bytes.resize(count, 0);
        read(self.pid, from, &mut bytes)?;
        Ok(bytes)
    }
}

fn read_page(pid: u32, begin: u64) -> Result<Box<[u8; PAGE_BYTES]>, String> {
    let mut page = Box::new([0; PAGE_BYTES]);
    read(pid, begin, page.as_mut_slice())?;
    Ok(page)
}

/// Fills `to` with what a process has from an address on.
fn read(pid: u32, from: u64, to: &mut [u8]) -> Result<(), String> {
    let here = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(from as usize), iov_len: to.len() };
    let pid_there = libc::pid_t::try_from(pid).map_err(|_| format!("{pid} is no process"))?;
    // SAFETY: `here` is `to`, which has as many bytes; memory of the other process is only read.
    let bytes = unsafe { libc::process_vm_readv(pid_there, &raw const here, 1, &raw const there, 1, 0) };
    if bytes == to.len().cast_signed() {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    let hint = match error.raw_os_error() {
        Some(libc::EPERM) => "; see kernel.yama.ptrace_scope, or ask as root",
        _ => "",
    };
    Err(format!("the memory of process {pid} cannot be read: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_from_outside() {
        let words = [7u64, 11];
        let address = words.as_ptr().expose_provenance() as u64;
        let mut memory = Memory::new(std::process::id());
        assert_eq!((memory.word(address), memory.word(address + 8)), (Ok(7), Ok(11)));
        assert!(memory.word(address + 1).is_err());
        assert!(memory.word(0).unwrap_err().contains("cannot be read"));
    }
}
