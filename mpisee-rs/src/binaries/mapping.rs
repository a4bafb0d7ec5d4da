//! Where the loader has mapped the object around an address, found without a lock and without
//! allocating.
//!
//! The handler of a signal may leave a call by `siglongjmp`. A lock of the loader's would be held
//! for good then, and the next thread that loads a library would wait for ever. `_dl_find_object`
//! of glibc 2.35 and later takes none; with an older one, and another C library, [`has_finder`] is
//! false and objects are looked for under the loader's lock, while signals wait.

mod lasting;

use mpisee_in_process::guards::{cancellation, errno};
use mpisee_in_process::symbols::{Mapped, find_object};
use rustc_hash::FxHasher;
use std::ffi::c_void;
use std::hash::Hasher;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The begin of `struct link_map` of `link.h`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: usize,
    dynamic: usize,
    next: usize,
    previous: usize,
}

/// Bytes of a file's path that are enough to recognise the file, as a rule.
pub const MOST_NAME_BYTES: usize = 1 << 10;
/// The longest path that Linux opens.
pub const MOST_PATH_BYTES: usize = libc::PATH_MAX as usize;
/// Bytes of an object that tell whether it is another one: the file's header, the program headers,
/// and as a rule the build ID.
const HEAD_BYTES: usize = 1 << 10;
/// Libraries that are looked through at most.
const MOST_LIBRARIES: usize = 1 << 16;
/// Program headers that are read; files have about a dozen.
const MOST_HEADERS: usize = 32;

/// An object that the loader has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses; of a program with holes between its segments, those of one segment.
    pub range: Range<usize>,
    /// The address of the loader's description.
    link_map: usize,
}

/// Returns whether mappings can be found.
pub fn has_finder() -> bool {
    mpisee_in_process::symbols::can_find_mapped()
}

/// The mapping around an address; `None` where there is no object, or [`has_finder`] is false.
pub fn at(address: usize) -> Option<Mapping> {
    let Mapped { range, link_map } = mpisee_in_process::symbols::mapped_at(address)?;
    Some(Mapping { range, link_map })
}

impl Mapping {
    /// The load bias: added to addresses in the file, it gives those in memory.
    pub fn bias(&self) -> Option<usize> {
        Some(link_map(self.link_map)?.bias)
    }

    /// The file's path as the loader has it; empty for the program itself.
    pub fn path(&self) -> Option<Vec<u8>> {
        Some(read_text(link_map(self.link_map)?.name))
    }

    /// The begin of [`Mapping::path`] for which there is room, without an allocation.
    pub fn name<'n>(&self, room: &'n mut [u8]) -> Option<&'n [u8]> {
        let bytes = read_memory(link_map(self.link_map)?.name, room);
        room[..bytes].split(|&byte| byte == 0).next()
    }

    /// The program headers; none if the file's header is mapped neither where the object begins nor
    /// at its load bias, as that of a program with holes is.
    pub fn headers(&self) -> Vec<libc::Elf64_Phdr> {
        let starts = [Some(self.range.start), self.bias()];
        starts.into_iter().flatten().find_map(headers_of_file_at).unwrap_or_default()
    }

    /// Returns whether the object stays there as long as the process runs.
    pub fn is_lasting(&self) -> bool {
        lasting::lasting().binary_search(&self.link_map).is_ok()
    }

    /// A number that changes if the loader has put another file there; 0 of what is never unloaded.
    pub fn head(&self) -> u64 {
        if self.is_lasting() {
            return 0;
        }
        let mut head = [0; HEAD_BYTES];
        let bytes = read_memory(self.range.start, &mut head);
        let mut hasher = FxHasher::default();
        hasher.write(&head[..bytes]);
        hasher.finish()
    }
}

/// The program headers of the file whose header is at an address.
fn headers_of_file_at(start: usize) -> Option<Vec<libc::Elf64_Phdr>> {
    let mut bytes = [0; size_of::<libc::Elf64_Ehdr>()];
    if read_memory(start, &mut bytes) != bytes.len() || !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    // SAFETY: the header consists of numbers, for which all bytes are valid, and need not be
    // aligned to be read.
    let file: libc::Elf64_Ehdr = unsafe { bytes.as_ptr().cast::<libc::Elf64_Ehdr>().read_unaligned() };
    let count = usize::from(file.e_phnum);
    let mut table = [0; MOST_HEADERS * size_of::<libc::Elf64_Phdr>()];
    let table = table.get_mut(..count * size_of::<libc::Elf64_Phdr>())?;
    let from = start.wrapping_add(file.e_phoff as usize);
    if usize::from(file.e_phentsize) != size_of::<libc::Elf64_Phdr>()
        || read_memory(from, table) != table.len()
    {
        return None;
    }
    let headers = table.chunks_exact(size_of::<libc::Elf64_Phdr>());
    // SAFETY: a program header consists of numbers, too, and each piece has its size.
    Some(
        headers
            .map(|header| unsafe { header.as_ptr().cast::<libc::Elf64_Phdr>().read_unaligned() })
            .collect(),
    )
}

/// The loader's description at an address.
fn link_map(address: usize) -> Option<LinkMap> {
    let mut bytes = [0; size_of::<LinkMap>()];
    if read_memory(address, &mut bytes) != bytes.len() {
        return None;
    }
    // SAFETY: it consists of numbers, for which all bytes are valid, and need not be aligned to be
    // read.
    Some(unsafe { bytes.as_ptr().cast::<LinkMap>().read_unaligned() })
}

/// The first address of the program itself.
fn program_start() -> usize {
    find_object(|program| Some(mapped(program.bias(), program.headers()).start)).unwrap_or(0)
}

/// Does what takes the loader's lock, once.
pub fn prepare() {
    lasting::lasting();
}

/// Returns whether a library whose file name starts with one of `names` was appended to the
/// loader's list since the last call, or all were looked at again as the last one is gone. `None`
/// where objects cannot be found.
pub fn look_for_new(names: &[&[u8]]) -> Option<bool> {
    /// The end of the list at the last look, an address in that object, and the number of what was
    /// there.
    static LAST: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    let [last, within, head] = LAST.each_ref().map(|word| word.load(Ordering::Relaxed));
    let is_last = |mapping: Mapping| mapping.link_map == last && mapping.head() as usize == head;
    let is_loaded = last != 0 && at(within).is_some_and(is_last);
    let mut address = if is_loaded { last } else { lasting::program() };
    let mut map = link_map(address).filter(|_| has_finder())?;
    let mut is_found = false;
    for _ in 0..MOST_LIBRARIES {
        if map.next == 0 {
            break; // the last one
        }
        // Another thread may unload it meanwhile.
        let Some(next) = link_map(map.next) else { break };
        (address, map) = (map.next, next);
        let mut room = [0; MOST_NAME_BYTES];
        let bytes = read_memory(map.name, &mut room);
        let path = room[..bytes].split(|&byte| byte == 0).next().unwrap_or_default();
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        is_found |= names.iter().any(|name| file.starts_with(name));
    }
    LAST[0].store(address, Ordering::Relaxed);
    LAST[1].store(map.dynamic, Ordering::Relaxed);
    LAST[2].store(at(map.dynamic).map_or(0, |mapping| mapping.head()) as usize, Ordering::Relaxed);
    Some(is_found)
}

/// From the first to the last address of what the loader maps.
pub fn mapped(bias: u64, headers: &[libc::Elf64_Phdr]) -> Range<usize> {
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let start = loaded().map(|header| bias.wrapping_add(header.p_vaddr)).min().unwrap_or(0);
    let end = loaded().map(|header| bias.wrapping_add(header.p_vaddr + header.p_memsz)).max().unwrap_or(0);
    start as usize..end as usize
}

/// Reads memory of this process, which need not be mapped; returns how many bytes could be read.
pub fn read_memory(from: usize, to: &mut [u8]) -> usize {
    // What is not mapped sets it.
    let _errno = errno::keep();
    static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
    if !IS_FORBIDDEN.load(Ordering::Relaxed) {
        match read_by_call(from, to) {
            Ok(bytes) => return bytes,
            Err(error) if !is_forbidden(&error) => return 0,
            Err(_) => IS_FORBIDDEN.store(true, Ordering::Relaxed),
        }
    }
    read_by_file(from, to).unwrap_or(0)
}

/// Reads a text that ends in a zero, of at most [`MOST_PATH_BYTES`] bytes; it ends where memory
/// cannot be read.
pub fn read_text(from: usize) -> Vec<u8> {
    const PIECE: usize = 512;
    let (mut text, mut piece) = (Vec::new(), [0; PIECE]);
    while text.len() < MOST_PATH_BYTES {
        let bytes = read_memory(from.wrapping_add(text.len()), &mut piece);
        let end = piece[..bytes].iter().position(|&byte| byte == 0);
        text.extend_from_slice(&piece[..end.unwrap_or(bytes)]);
        if end.is_some() || bytes < PIECE {
            break;
        }
    }
    text
}

fn read_by_call(from: usize, to: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: to.len() };
    // SAFETY: the kernel writes to the slice alone, and fails where it cannot read.
    let read =
        unsafe { libc::process_vm_readv(libc::gettid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Returns whether a system call is not to be had here, as in some containers.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

/// The same without that system call. The file is opened each time: one that was opened before a
/// fork is of the other process.
fn read_by_file(from: usize, to: &mut [u8]) -> io::Result<usize> {
    // Opening, reading and closing a file are where a thread ends that is to be cancelled.
    let _not_cancelled = cancellation::hold();
    std::fs::File::open("/proc/thread-self/mem")?.read_at(to, from as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn the_longest_path_is_read_whole() {
        for bytes in [0, 511, 512, 513, MOST_PATH_BYTES - 1] {
            let path = CString::new("p".repeat(bytes)).unwrap();
            assert_eq!(read_text(path.as_ptr().addr()), path.as_bytes());
        }
        assert_eq!(read_text(0), b"", "no memory is there");
    }

    #[test]
    fn the_program_is_found_as_the_loader_has_it() {
        let address = the_program_is_found_as_the_loader_has_it as *const () as usize;
        if !has_finder() {
            return;
        }
        let mapping = at(address).expect("it is loaded");
        assert!(mapping.range.contains(&address));
        assert_eq!(mapping.name(&mut [0; 64]), Some(&b""[..]));
        // With holes between the program's segments, the loader has the range of each.
        let of_segment = Mapping { range: address..address + 1, ..mapping.clone() };
        for mapping in [&mapping, &of_segment] {
            let range = mapped(mapping.bias().unwrap() as u64, &mapping.headers());
            assert!(range.contains(&address), "{mapping:x?}: {range:x?}");
        }
        assert_eq!(mapping.head(), 0, "it is never unloaded");
        assert_eq!(at(1), None);
    }

    #[test]
    fn memory_is_read_by_the_file_as_by_the_system_call() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut copies = [[0; 100]; 2];
        let from = bytes.as_ptr() as usize;
        let [of_call, of_file] = &mut copies;
        assert_eq!(
            (read_by_call(from, of_call).ok(), read_by_file(from, of_file).ok()),
            (Some(100), Some(100))
        );
        assert_eq!(copies.map(|copy| copy.to_vec()), [bytes.clone(), bytes.clone()]);
        let [of_call, of_file] = &mut copies;
        assert!(read_by_call(1, of_call).is_err() && read_by_file(1, of_file).is_err());
        assert_eq!(read_memory(1, of_call), 0);
    }

    #[test]
    fn a_library_that_is_loaded_is_noticed() {
        if !has_finder() {
            return;
        }
        let names = [&b"libBrokenLocale."[..], b"libnothing."];
        assert!(look_for_new(&names).is_some());
        assert_eq!(look_for_new(&names), Some(false));
        // SAFETY: the name ends in a zero; the library has no constructor that matters.
        let library = unsafe { libc::dlopen(c"libBrokenLocale.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "it comes with glibc");
        assert_eq!(look_for_new(&names), Some(true));
        assert_eq!(look_for_new(&names), Some(false), "it was seen");
    }
}
