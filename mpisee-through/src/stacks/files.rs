//! The files that a process has mapped, and their unwind tables.

use super::memory::Memory;
use framehop::ExplicitModuleSectionInfo;
use mpisee_in_process::native_frames::unwind_rules::{
    self, IndexedTables, Rules, frames_address, may_debug_frame_be_endless, may_eh_frame_be_endless,
};
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSegment, SegmentFlags};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A line of /proc/PID/maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub begin: u64,
    pub end: u64,
    /// True if it may be executed.
    pub is_code: bool,
    /// The place in the file.
    pub offset: u64,
    /// The device and the inode of the file: a container, or a later build, may have another one at
    /// the same path.
    pub file: (String, u64),
    /// The file; empty if there is none.
    pub path: String,
}

/// The kernel puts this after the path of a file that is gone.
const DELETED: &str = " (deleted)";

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        // The path may contain blanks.
        let mut columns = line.splitn(6, ' ');
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (begin, end) = columns.next()?.split_once('-')?;
        let rights = columns.next()?;
        let offset = number(columns.next()?)?;
        let file = (columns.next()?.to_owned(), columns.next()?.parse().ok()?);
        let path = columns.next().unwrap_or_default().trim_start().to_owned();
        let is_code = rights.as_bytes().get(2) == Some(&b'x');
        Some(Mapping { begin: number(begin)?, end: number(end)?, is_code, offset, file, path })
    }

    /// Returns whether it is of a file, which may be gone.
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/')
    }

    /// Returns whether the file that was mapped is at its path no more.
    pub fn is_deleted(&self) -> bool {
        self.path.ends_with(DELETED)
    }

    /// The path that the file has or had.
    pub fn path_when_mapped(&self) -> &str {
        self.path.strip_suffix(DELETED).unwrap_or(&self.path)
    }

    /// Its last part.
    pub fn file_name(&self) -> &str {
        self.path_when_mapped().rsplit('/').next().unwrap_or_default()
    }
}

/// The mappings of a process, by their addresses.
pub fn mappings(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(Mapping::parse).collect()
}

/// Of a file in memory, the bytes with its program headers, and of a table, that are read at most.
const MOST_HEAD_BYTES: usize = 1 << 16;
const MOST_TABLE_BYTES: usize = 1 << 28;

/// An executable or library: its code and symbols, as far as stacks need them.
#[derive(Default)]
pub struct File {
    /// The segments with code: their place in the file, and the address there.
    segments: Vec<(Range<u64>, u64)>,
    text: Section,
    eh_frame: Section,
    eh_frame_hdr: Section,
    got: Section,
    debug_frame: Section,
}

/// A section's addresses and bytes.
#[derive(Clone, Default)]
struct Section(Option<(Range<u64>, Arc<[u8]>)>);

impl Section {
    fn get(&self) -> Option<unwind_rules::Section<'_>> {
        let (addresses, bytes) = self.0.as_ref()?;
        Some(unwind_rules::Section { address: addresses.start, bytes })
    }

    /// Its address as the unwinder has it.
    fn begin(&self) -> u64 {
        self.0.as_ref().map_or(0, |(addresses, _)| addresses.start)
    }
}

/// Files that were read, by device, inode and path; `None` for those that cannot be.
#[derive(Default)]
pub struct Files {
    read: HashMap<(String, u64, String), Option<Arc<File>>>,
}

impl Files {
    /// The file that a process has mapped there, whose `root` may be that of a container, or if
    /// that cannot be read the one at this path here; `None` for memory without one, and for files
    /// that are no programs or not there any more.
    pub fn find(&mut self, root: &str, mapping: &Mapping) -> Option<Arc<File>> {
        if !mapping.is_file() {
            return None;
        }
        let read = || File::read(&format!("{root}{}", mapping.path)).or_else(|| File::read(&mapping.path));
        let (device, inode) = mapping.file.clone();
        self.read.entry((device, inode, mapping.path.clone())).or_insert_with(|| read().map(Arc::new)).clone()
    }
}

/// The GNU build ID of a file in hexadecimal, as a process has it in its memory; `None` if it has
/// none there.
pub fn build_id_in_memory(memory: &Memory, mappings: &[Mapping], path: &str) -> Option<String> {
    let head = head_in_memory(memory, mappings, path)?;
    let elf = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let endian = elf.endian().ok()?;
    for header in elf.program_headers(endian, &*head).ok()? {
        // The first segment is as in the file, and has the notes as a rule.
        let Some(mut notes) = header.notes(endian, &*head).ok().flatten() else { continue };
        while let Some(note) = notes.next().ok().flatten() {
            if note.n_type(endian) == object::elf::NT_GNU_BUILD_ID && note.name() == b"GNU" {
                return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
    }
    None
}

/// The begin of a file as a process has it in its memory.
fn head_in_memory(memory: &Memory, mappings: &[Mapping], path: &str) -> Option<Vec<u8>> {
    let first = mappings.iter().find(|mapping| mapping.path == path && mapping.offset == 0)?;
    let bytes = usize::try_from(first.end - first.begin).ok()?.min(MOST_HEAD_BYTES);
    memory.bytes(first.begin, bytes).ok()
}

impl File {
    fn read(path: &str) -> Option<File> {
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let is_code =
            |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0);
        let segments = file.segments().filter(|segment| is_code(segment.flags())).map(|segment| {
            let (begin, length) = segment.file_range();
            (begin..begin.saturating_add(length), segment.address())
        });
        let section = |name: &str| {
            let found = file.section_by_name(name).and_then(|section| {
                let data = section.uncompressed_data().ok()?;
                let end = section.address().checked_add(section.size())?;
                Some((section.address()..end, Arc::from(&*data)))
            });
            Section(found)
        };
        let file = File {
            segments: segments.collect(),
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            got: section(".got"),
            debug_frame: section(".debug_frame"),
        };
        Some(file.without_endless_tables())
    }

    /// The same of a file that is gone, from what a process has of it in its memory.
    pub fn in_memory(memory: &Memory, mappings: &[Mapping], path: &str) -> Option<File> {
        let first = mappings.iter().find(|mapping| mapping.path == path && mapping.offset == 0)?;
        let head = head_in_memory(memory, mappings, path)?;
        let elf = FileHeader64::<Endianness>::parse(&*head).ok()?;
        let endian = elf.endian().ok()?;
        let headers = elf.program_headers(endian, &*head).ok()?;
        let loaded = || headers.iter().filter(|header| header.p_type(endian) == object::elf::PT_LOAD);
        let begins = loaded().find(|header| header.p_offset(endian) == 0)?;
        let bias = first.begin.wrapping_sub(begins.p_vaddr(endian));
        let code = loaded().filter(|header| header.p_flags(endian) & object::elf::PF_X != 0);
        let segments = code.map(|header| {
            let begin = header.p_offset(endian);
            (begin..begin.saturating_add(header.p_filesz(endian)), header.p_vaddr(endian))
        });
        let section = |addresses: Range<u64>| {
            let bytes = usize::try_from(addresses.end.checked_sub(addresses.start)?).ok()?;
            let data = memory.bytes(bias.wrapping_add(addresses.start), bytes.min(MOST_TABLE_BYTES)).ok()?;
            Some((addresses, Arc::<[u8]>::from(data)))
        };
        let index = headers.iter().find(|header| header.p_type(endian) == object::elf::PT_GNU_EH_FRAME)?;
        let begin = index.p_vaddr(endian);
        let index = section(begin..begin.checked_add(index.p_memsz(endian))?)?;
        let table = frames_address(begin, &index.1)?;
        let ends = loaded().map(|header| {
            let begin = header.p_vaddr(endian);
            begin..begin.saturating_add(header.p_filesz(endian))
        });
        let end = ends.into_iter().find(|range| range.contains(&table))?.end;
        Some(File {
            segments: segments.collect(),
            eh_frame: Section(section(table..end)),
            eh_frame_hdr: Section(Some(index)),
            ..File::default()
        })
    }

    /// By how much the addresses of its code in the process are above those in the file.
    pub fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let mapped_end = mapping.offset.saturating_add(mapping.end - mapping.begin);
        let is_mapped = |range: &Range<u64>| mapping.offset < range.end && range.start < mapped_end;
        let (range, address) = self.segments.iter().find(|(range, _)| is_mapped(range))?;
        Some(mapping.begin.wrapping_sub(mapping.offset).wrapping_add(range.start).wrapping_sub(*address))
    }

    /// Leaves out tables that the unwinder would take without an index, if evaluating one of their
    /// rules may not end: [`File::rules`] finds rules by the index.
    fn without_endless_tables(mut self) -> File {
        let (text, got) = (self.text.begin(), self.got.begin());
        let has_index = self.eh_frame_hdr.0.is_some();
        if !has_index && self.eh_frame.get().is_some_and(|table| may_eh_frame_be_endless(table, text, got)) {
            self.eh_frame = Section(None);
        }
        let is_used = self.eh_frame.0.is_none();
        if is_used && self.debug_frame.get().is_some_and(|table| may_debug_frame_be_endless(table.bytes)) {
            self.debug_frame = Section(None);
        }
        self
    }

    /// The rules at an address in the file, of tables with an index.
    pub fn rules(&self, address: u64) -> Rules {
        let (Some(header), Some(frames)) = (self.eh_frame_hdr.get(), self.eh_frame.get()) else {
            return Rules::Missing;
        };
        let (text, got) = (self.text.begin(), self.got.begin());
        IndexedTables { header, frames, text, got }.rules(address)
    }

    /// Its sections, for the unwinder.
    pub fn sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let addresses = |section: &Section| section.0.as_ref().map(|(addresses, _)| addresses.clone());
        let bytes = |section: &Section| section.0.as_ref().map(|(_, bytes)| bytes.clone());
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: addresses(&self.text),
            text: bytes(&self.text),
            got_svma: addresses(&self.got),
            eh_frame_svma: addresses(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: addresses(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            debug_frame: bytes(&self.debug_frame),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let text = "55d0c0a00000-55d0c0a01000 r-xp 00001000 08:01 42                         /a b/app\n\
                    7ffd1000-7ffd2000 rw-p 00000000 00:00 0                          [stack]\n\
                    7ffd3000-7ffd4000 rw-p 00000000 00:00 0 \n\
                    nonsense\n";
        let found = mappings(text);
        let app = Mapping {
            begin: 0x55d0_c0a0_0000,
            end: 0x55d0_c0a0_1000,
            is_code: true,
            offset: 0x1000,
            file: ("08:01".to_owned(), 42),
            path: "/a b/app".to_owned(),
        };
        assert_eq!(found.len(), 3);
        assert_eq!((&found[0], found[0].file_name()), (&app, "app"));
        assert_eq!((found[1].path.as_str(), found[2].path.as_str()), ("[stack]", ""));
        let gone = "7f00-7f01 r-xp 0000 08:01 43 /usr/lib/libmpisee.so (deleted)";
        assert_eq!(mappings(gone)[0].file_name(), "libmpisee.so");
    }

    #[test]
    fn addresses_of_a_process_lead_to_those_of_its_file() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = (addresses_of_a_process_lead_to_those_of_its_file as fn()) as usize as u64;
        let mapping = mappings(&maps).into_iter().find(|it| (it.begin..it.end).contains(&here)).unwrap();
        assert!(mapping.is_code);
        let file = Files::default().find("", &mapping).unwrap();
        let address = here - file.bias(&mapping).unwrap();
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let parsed = object::File::parse(&*bytes).unwrap();
        let name = object::Object::symbols(&parsed)
            .filter(|symbol| object::ObjectSymbol::address(symbol) == address)
            .filter_map(|symbol| object::ObjectSymbol::name(&symbol).ok().map(str::to_owned))
            .find(|name| name.contains("addresses_of_a_process"));
        assert!(name.is_some(), "{address:#x}");
    }

    #[test]
    fn what_is_deleted_is_read_in_memory() {
        let maps = || mappings(&std::fs::read_to_string("/proc/self/maps").unwrap());
        let original = maps().into_iter().find(|it| it.file_name().starts_with("libm.so")).unwrap().path;
        let scratch = tempfile::tempdir().unwrap();
        let copy = scratch.path().join("libmcopy.so");
        std::fs::copy(&original, &copy).unwrap();
        // SAFETY: the library's constructors are those of the C library's own.
        let library = unsafe { libloading::Library::new(&copy) }.unwrap();
        let expected = File::read(copy.to_str().unwrap()).unwrap();
        std::fs::remove_file(&copy).unwrap();
        let maps = maps();
        let mapping = maps.iter().find(|it| it.path.contains("libmcopy.so") && it.is_code).unwrap();
        assert!(mapping.is_deleted() && mapping.is_file());
        let found = File::in_memory(&Memory::new(std::process::id()), &maps, &mapping.path).unwrap();
        assert_eq!(found.bias(mapping), expected.bias(mapping));
        let table = |section: &Section| section.0.clone().unwrap();
        assert_eq!(table(&found.eh_frame_hdr), table(&expected.eh_frame_hdr));
        let (frames, expected) = (table(&found.eh_frame), table(&expected.eh_frame));
        assert_eq!(frames.0.start, expected.0.start);
        assert!(frames.1.starts_with(&expected.1));
        drop(library);
    }
}
