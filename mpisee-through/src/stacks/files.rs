//! The files that a process has mapped, and their unwind tables.

use framehop::ExplicitModuleSectionInfo;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
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
    /// The file; empty if there is none.
    pub path: String,
}

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        // The path may contain blanks.
        let mut columns = line.splitn(6, ' ');
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (begin, end) = columns.next()?.split_once('-')?;
        let rights = columns.next()?;
        let offset = number(columns.next()?)?;
        let path = columns.nth(2).unwrap_or_default().trim_start().to_owned();
        let is_code = rights.as_bytes().get(2) == Some(&b'x');
        Some(Mapping { begin: number(begin)?, end: number(end)?, is_code, offset, path })
    }

    /// Returns whether it is of a file, which may be gone.
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/')
    }

    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The mappings of a process, by their addresses.
pub fn mappings(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(Mapping::parse).collect()
}

/// An executable or library: its code and symbols, as far as stacks need them.
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

/// Files that were read, by path; `None` for those that cannot be.
#[derive(Default)]
pub struct Files {
    read: HashMap<String, Option<Arc<File>>>,
}

impl Files {
    /// The file that is mapped there; `None` for memory without one, and for files that are no programs or not there any more.
    pub fn find(&mut self, mapping: &Mapping) -> Option<Arc<File>> {
        if !mapping.is_file() {
            return None;
        }
        self.read
            .entry(mapping.path.clone())
            .or_insert_with(|| File::read(&mapping.path).map(Arc::new))
            .clone()
    }
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
        Some(File {
            segments: segments.collect(),
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            got: section(".got"),
            debug_frame: section(".debug_frame"),
        })
    }

    /// By how much the addresses of its code in the process are above those in the file.
    pub fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let mapped_end = mapping.offset.saturating_add(mapping.end - mapping.begin);
        let is_mapped = |range: &Range<u64>| mapping.offset < range.end && range.start < mapped_end;
        let (range, address) = self.segments.iter().find(|(range, _)| is_mapped(range))?;
        Some(mapping.begin.wrapping_sub(mapping.offset).wrapping_add(range.start).wrapping_sub(*address))
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
            path: "/a b/app".to_owned(),
        };
        assert_eq!(found.len(), 3);
        assert_eq!((&found[0], found[0].file_name()), (&app, "app"));
        assert_eq!((found[1].path.as_str(), found[2].path.as_str()), ("[stack]", ""));
    }

    #[test]
    fn addresses_of_a_process_lead_to_those_of_its_file() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = (addresses_of_a_process_lead_to_those_of_its_file as fn()) as usize as u64;
        let mapping = mappings(&maps).into_iter().find(|it| (it.begin..it.end).contains(&here)).unwrap();
        assert!(mapping.is_code);
        let file = Files::default().find(&mapping).unwrap();
        let address = here - file.bias(&mapping).unwrap();
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let parsed = object::File::parse(&*bytes).unwrap();
        let name = object::Object::symbols(&parsed)
            .filter(|symbol| object::ObjectSymbol::address(symbol) == address)
            .filter_map(|symbol| object::ObjectSymbol::name(&symbol).ok().map(str::to_owned))
            .find(|name| name.contains("addresses_of_a_process"));
        assert!(name.is_some(), "{address:#x}");
    }
}
