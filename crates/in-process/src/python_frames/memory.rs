//! Reading the own process's memory through the kernel: what is not mapped is an answer there, and
//! not a fault.

use std::os::unix::fs::FileExt;

const PAGE_BYTES: usize = 4096;
/// Pages that are kept; far more than a call stack takes.
const MOST_PAGES: usize = 256;

/// Pages as they were when they were read.
#[derive(Debug, Default)]
pub struct Memory {
    pages: Vec<Page>,
    /// The page that was read last.
    last: usize,
}

#[derive(Debug)]
struct Page {
    /// The number of the page: its address in pages.
    number: u64,
    bytes: Box<[u8; PAGE_BYTES]>,
    is_used: bool,
}

impl Memory {
    /// Forgets what was read, and reads anew what was of use: call stacks of one thread have most
    /// pages in common, and one call of the kernel for all of them costs little more than one for
    /// each.
    pub fn renew(&mut self) {
        self.pages.retain(|it| it.is_used);
        let read = copy(&mut self.pages);
        self.pages.truncate(read);
        self.pages.iter_mut().for_each(|it| it.is_used = false);
    }

    /// Reads bytes; none if any of them cannot be read.
    pub fn read(&mut self, address: u64, to: &mut [u8]) -> Option<()> {
        let mut address = address;
        let mut rest = to;
        while !rest.is_empty() {
            let offset = (address % PAGE_BYTES as u64) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE_BYTES - offset));
            now.copy_from_slice(&self.page(address / PAGE_BYTES as u64)?[offset..offset + now.len()]);
            address = address.checked_add(now.len() as u64)?;
            rest = later;
        }
        Some(())
    }

    /// A byte, so many after a begin, which may be nonsense.
    pub fn u8(&mut self, begin: u64, offset: u64) -> Option<u8> {
        self.array(begin, offset).map(u8::from_ne_bytes)
    }

    /// A number.
    pub fn i32(&mut self, begin: u64, offset: u64) -> Option<i32> {
        self.array(begin, offset).map(i32::from_ne_bytes)
    }

    /// A pointer, or what is as long.
    pub fn u64(&mut self, begin: u64, offset: u64) -> Option<u64> {
        self.array(begin, offset).map(u64::from_ne_bytes)
    }

    fn array<const N: usize>(&mut self, begin: u64, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(begin.wrapping_add(offset), &mut bytes).map(|()| bytes)
    }

    fn page(&mut self, number: u64) -> Option<&[u8; PAGE_BYTES]> {
        if self.pages.get(self.last).is_none_or(|it| it.number != number) {
            let known = self.pages.iter().position(|it| it.number == number);
            self.last = match known {
                Some(place) => place,
                None => self.add(number)?,
            };
        }
        let page = self.pages.get_mut(self.last)?;
        page.is_used = true;
        Some(&page.bytes)
    }

    fn add(&mut self, number: u64) -> Option<usize> {
        if self.pages.len() == MOST_PAGES {
            return None;
        }
        let bytes = crate::python_frames::room(PAGE_BYTES)?.into_boxed_slice().try_into().ok()?;
        let mut page = [Page { number, bytes, is_used: false }];
        self.pages.try_reserve(1).ok()?;
        if copy(&mut page) == 0 {
            return None;
        }
        self.pages.extend(page);
        Some(self.pages.len() - 1)
    }
}

/// Pages that one call of the kernel copies.
const PAGES_AT_ONCE: usize = 64;
const NO_PIECE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Copies pages, up to the first that cannot be read; how many.
fn copy(pages: &mut [Page]) -> usize {
    let mut copied = 0;
    for some in pages.chunks_mut(PAGES_AT_ONCE) {
        let count = copy_some(some);
        copied += count;
        if count < some.len() {
            break;
        }
    }
    copied
}

/// The calling thread's number. The C library has a function for it from glibc 2.30 on.
fn own_thread() -> libc::pid_t {
    // SAFETY: the call has no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// The same of as many as one call of the kernel copies.
fn copy_some(pages: &mut [Page]) -> usize {
    let (mut from, mut to) = ([NO_PIECE; PAGES_AT_ONCE], [NO_PIECE; PAGES_AT_ONCE]);
    for (page, (from, to)) in pages.iter_mut().zip(from.iter_mut().zip(&mut to)) {
        let address = page.number.wrapping_mul(PAGE_BYTES as u64) as usize;
        *from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: PAGE_BYTES };
        *to = libc::iovec { iov_base: page.bytes.as_mut_ptr().cast(), iov_len: PAGE_BYTES };
    }
    let count = pages.len() as libc::c_ulong;
    // SAFETY: each piece of `to` is a page that we own; of `from` the kernel checks what can be
    // read.
    let copied = unsafe { libc::process_vm_readv(own_thread(), to.as_ptr(), count, from.as_ptr(), count, 0) };
    match usize::try_from(copied) {
        Ok(copied) => copied / PAGE_BYTES,
        // Some containers forbid the call.
        Err(_) if is_forbidden() => copy_from_file(pages),
        Err(_) => 0,
    }
}

fn is_forbidden() -> bool {
    let error = std::io::Error::last_os_error().raw_os_error();
    matches!(error, Some(libc::EPERM | libc::ENOSYS | libc::EACCES))
}

/// The same by `/proc`; the file is opened each time, since the program may close descriptors that
/// are kept.
fn copy_from_file(pages: &mut [Page]) -> usize {
    let Ok(file) = std::fs::File::open("/proc/thread-self/mem") else { return 0 };
    let unread = pages.iter_mut().position(|page| {
        let address = page.number.wrapping_mul(PAGE_BYTES as u64);
        file.read_exact_at(&mut page.bytes[..], address).is_err()
    });
    unread.unwrap_or(pages.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, of which the last cannot be read.
    fn pages() -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at a place of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 3 * PAGE_BYTES, access, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: the memory was just mapped, and nothing else refers to it.
        unsafe {
            memory.cast::<u8>().write_bytes(7, 2 * PAGE_BYTES);
            assert_eq!(libc::munmap(memory.byte_add(2 * PAGE_BYTES), PAGE_BYTES), 0);
        }
        memory.expose_provenance() as u64
    }

    fn write(address: u64, value: u8) {
        // SAFETY: an address of `pages`.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address as usize).write(value) };
    }

    #[test]
    fn mapped_memory_is_read_and_unmapped_gives_none() {
        let (begin, page) = (pages(), PAGE_BYTES as u64);
        let mut memory = Memory::default();
        assert_eq!(memory.u64(begin, page - 4), Some(u64::from_ne_bytes([7; 8])));
        assert_eq!(memory.u8(begin, 2 * page - 1), Some(7));
        assert_eq!(memory.u64(begin, 2 * page - 4), None);
        for nowhere in [0, 8, u64::MAX - 3, 1 << 63] {
            assert_eq!(memory.u64(nowhere, 4), None, "{nowhere:#x}");
        }
    }

    #[test]
    fn changed_mappings_are_seen_after_a_renewal() {
        let (begin, page) = (pages(), PAGE_BYTES as u64);
        let mut memory = Memory::default();
        memory.renew();
        assert_eq!((memory.u8(begin, 0), memory.u8(begin, page)), (Some(7), Some(7)));
        write(begin, 8);
        assert_eq!(memory.u8(begin, 0), Some(7));
        memory.renew();
        assert_eq!((memory.u8(begin, 0), memory.pages.len()), (Some(8), 2));
        memory.renew();
        assert_eq!(memory.pages.len(), 1, "the other was of no use");
    }

    #[test]
    fn pages_that_are_gone_are_none() {
        let (begin, page) = (pages(), PAGE_BYTES as u64);
        let mut memory = Memory::default();
        assert_eq!((memory.u8(begin, 0), memory.u8(begin, page)), (Some(7), Some(7)));
        // SAFETY: a page of `pages`.
        let gone = unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(begin as usize), PAGE_BYTES) };
        assert_eq!(gone, 0);
        memory.renew();
        assert_eq!((memory.u8(begin, 0), memory.u8(begin, page)), (None, Some(7)));
    }

    #[test]
    fn without_the_call_the_file_has_the_same() {
        let (begin, page) = (pages(), PAGE_BYTES as u64);
        write(begin + page + 1, 9);
        let number = begin / page;
        let mut pages = [number, number + 1, number + 2].map(|number| Page {
            number,
            bytes: Box::new([0; PAGE_BYTES]),
            is_used: false,
        });
        assert_eq!(copy_from_file(&mut pages), 2);
        assert_eq!((pages[0].bytes[5], pages[1].bytes[1]), (7, 9));
    }
}
