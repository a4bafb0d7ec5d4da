//! The program and the libraries that are loaded into the process.

use crate::binaries::mapping::{self, MOST_PATH_BYTES, Mapping, mapped, read_memory};
use mpisee_in_process::native_frames::unwind_rules::{HEADER_BYTES, frames_address};
use mpisee_in_process::symbols::{LoadedObject, find_object};
use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::slice;
use std::sync::OnceLock;

/// An object that the loader has mapped.
#[derive(Clone, PartialEq)]
pub struct Object {
    /// The addresses at which it is mapped.
    pub range: Range<usize>,
    /// The load bias: added to addresses in the file, it gives those in memory.
    pub bias: usize,
    /// The file's name as the loader has it; empty for the program itself.
    pub name: Vec<u8>,
    /// The file's GNU build ID, if it has one.
    pub build_id: Vec<u8>,
    /// A hash of the program headers, which tells files apart that were given one build ID.
    pub layout: u32,
}

/// The longest build ID that is kept.
const MOST_BUILD_ID_BYTES: usize = 64;

/// The objects that are mapped around these addresses.
pub fn objects_at(addresses: &[usize]) -> Vec<Option<Object>> {
    if !mapping::has_finder() {
        return locked_objects_at(addresses);
    }
    let mut found: Vec<Option<Object>> = Vec::with_capacity(addresses.len());
    for &address in addresses {
        let known = found.iter().flatten().find(|object| object.range.contains(&address)).cloned();
        found.push(known.or_else(|| object_at(address)));
    }
    found
}

/// The same by what every C library has.
fn locked_objects_at(addresses: &[usize]) -> Vec<Option<Object>> {
    let empty = |_: &usize| {
        let (name, build_id) = (Vec::with_capacity(MOST_PATH_BYTES), Vec::with_capacity(MOST_BUILD_ID_BYTES));
        Object { range: 0..0, bias: 0, name, build_id, layout: 0 }
    };
    let mut objects: Vec<Object> = addresses.iter().map(empty).collect();
    find_object::<(), _>(|loaded| {
        let (headers, bias) = (loaded.headers(), loaded.bias());
        let range = mapped(bias, headers);
        for (_, found) in addresses.iter().zip(&mut objects).filter(|(address, _)| range.contains(address)) {
            (found.range, found.bias) = (range.clone(), bias as usize);
            fill(&mut found.name, loaded.name().to_bytes());
            fill(&mut found.build_id, build_id(bias, headers).unwrap_or_default());
            found.layout = layout(headers);
        }
        None
    });
    objects.into_iter().map(|object| Some(object).filter(|object| !object.range.is_empty())).collect()
}

/// The object that is mapped around `address`.
pub fn object_at(address: usize) -> Option<Object> {
    if mapping::has_finder() {
        let mapping = mapping::at(address)?;
        if let Some(object) = described(&mapping) {
            return Some(object);
        }
    }
    locked_objects_at(&[address]).pop().flatten()
}

/// The addresses of this library's code.
pub fn own_range() -> &'static Range<usize> {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    let find = || object_at(own_range as *const () as usize).map_or(0..0, |object| object.range);
    OWN.get_or_init(find)
}

/// The object of a mapping; `None` if its headers are not mapped, or memory cannot be read by the
/// kernel.
fn described(mapping: &Mapping) -> Option<Object> {
    let (headers, bias) = (mapping.headers(), mapping.bias()?);
    let range = mapped(bias as u64, &headers);
    let build_id = notes(bias as u64, &headers).find_map(|note| {
        let note_bytes = copied(note.start, note.bytes)?;
        build_id_among(&note_bytes, note.align).map(<[u8]>::to_vec)
    });
    let name = mapping.path()?;
    let object =
        Object { range, bias, name, build_id: build_id.unwrap_or_default(), layout: layout(&headers) };
    Some(object).filter(|object| !object.range.is_empty())
}

/// The files of all objects as the loader has their names; `None` if there is no room for them.
pub fn file_names() -> Option<Vec<OsString>> {
    const MOST_BYTES: usize = 1 << 20;
    let mut names: Vec<u8> = Vec::new();
    names.try_reserve_exact(MOST_BYTES).ok()?;
    let no_room = find_object(|object| {
        let name = object.name().to_bytes_with_nul();
        if names.capacity() - names.len() < name.len() {
            return Some(());
        }
        names.extend_from_slice(name);
        None
    });
    let each = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    no_room.is_none().then(|| each.map(|name| OsString::from_vec(name.to_vec())).collect())
}

/// The identity of the object at an address, by which another one in its place is noticed.
#[derive(Clone, Debug)]
pub enum Stamp {
    /// Its mapping, and a number of what is in it.
    Mapped(Mapping, u64),
    /// All changes so far: that is all that some C libraries tell.
    Changes(Changes),
}

impl Stamp {
    /// The stamp of the object at an address; `None` where there is none.
    pub fn at(address: usize) -> Option<Stamp> {
        if !mapping::has_finder() {
            return Some(Stamp::Changes(changes()));
        }
        let mapping = mapping::at(address)?;
        let head = mapping.head();
        Some(Stamp::Mapped(mapping, head))
    }

    /// Returns whether both are of one object at one place.
    pub fn is_same(&self, other: &Stamp) -> bool {
        match (self, other) {
            (Stamp::Mapped(one, head), Stamp::Mapped(other, other_head)) => {
                one == other && head == other_head
            }
            (Stamp::Changes(one), Stamp::Changes(other)) => one.unloaded == other.unloaded,
            _ => false,
        }
    }

    /// Returns whether both objects can be loaded at the same time.
    pub fn agrees_with(&self, other: &Stamp) -> bool {
        let (Stamp::Changes(one), Stamp::Changes(other)) = (self, other) else { return true };
        one.unloaded == other.unloaded
    }

    /// Returns whether nothing has changed since.
    pub fn is_current(&self) -> bool {
        match self {
            Stamp::Mapped(mapping, _) => Stamp::at(mapping.range.start).is_some_and(|now| self.is_same(&now)),
            Stamp::Changes(before) => before.unloaded == changes().unloaded,
        }
    }
}

/// The first object whose file has a name, without its folder, that `is_wanted`.
pub fn named(is_wanted: fn(&[u8]) -> bool) -> Option<Object> {
    let address = find_object(|object| {
        is_wanted(object.file_name()).then(|| mapped(object.bias(), object.headers()).start)
    });
    object_at(address?)
}

/// A hash of where in the file the segments are, how long, and where they are mapped.
fn layout(headers: &[libc::Elf64_Phdr]) -> u32 {
    mpisee_profile::site::layout(headers.iter().map(|header| {
        let kind = u64::from(header.p_type) << 32 | u64::from(header.p_flags);
        [kind, header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz]
    }))
}

/// Replaces what is in a vector by as much as there is room for.
fn fill(to: &mut Vec<u8>, from: &[u8]) {
    to.clear();
    to.extend_from_slice(&from[..from.len().min(to.capacity())]);
}

/// An object's unwind tables: where it stays loaded as they are there, else copies.
pub struct Tables {
    /// The address of `.eh_frame_hdr`.
    pub header_at: usize,
    pub header: Cow<'static, [u8]>,
    /// The address of `.eh_frame`.
    pub frames_at: usize,
    /// From there on, to the end of what is mapped with it.
    pub frames: Cow<'static, [u8]>,
}

impl Tables {
    /// Bytes that were copied.
    pub fn copied_bytes(&self) -> usize {
        let bytes = |part: &Cow<'static, [u8]>| if matches!(part, Cow::Owned(_)) { part.len() } else { 0 };
        bytes(&self.header) + bytes(&self.frames)
    }
}

/// An object and its unwind tables.
pub enum WithTables {
    /// The tables, if there are any and there is memory for a copy where it takes one.
    Found(Object, Option<Tables>),
    /// The tables have too many bytes for a copy.
    TooLarge,
}

/// The object that is mapped around `address`, with its unwind tables if they need not be copied,
/// or have `most` bytes or fewer.
pub fn with_tables(address: usize, most: usize) -> Option<WithTables> {
    let (object, places) = tables_at(address)?;
    let stays = mapping::at(address).is_some_and(|mapping| mapping.is_lasting());
    let bytes = places.as_ref().and_then(Places::bytes).unwrap_or(0);
    if !stays && bytes > most {
        return Some(WithTables::TooLarge);
    }
    Some(WithTables::Found(object, places.and_then(|places| tables(&places, stays))))
}

/// The object that is mapped around `address`, and where it has its unwind tables.
fn tables_at(address: usize) -> Option<(Object, Option<Places>)> {
    let object = object_at(address)?;
    // The headers need not be where the file begins.
    if let Some(headers) = mapping::at(address).map(|mapping| mapping.headers()).filter(|it| is_whole(it)) {
        let places = places(object.bias as u64, &headers);
        return Some((object, places));
    }
    let places = find_object(|loaded| {
        let (bias, headers) = (loaded.bias(), loaded.headers());
        mapped(bias, headers).contains(&address).then(|| places(bias, headers))
    });
    Some((object, places.flatten()))
}

/// Returns whether these are program headers, and not what else lies there.
fn is_whole(headers: &[libc::Elf64_Phdr]) -> bool {
    headers.iter().any(|header| header.p_type == libc::PT_LOAD)
}

/// Where an object has its unwind tables.
struct Places {
    /// `.eh_frame_hdr`.
    header: Range<usize>,
    /// The mapped segments, one of which has `.eh_frame`.
    segments: [Range<usize>; MOST_SEGMENTS],
}

impl Places {
    /// The end of the segment around an address.
    fn end_of_segment(&self, at: usize) -> Option<usize> {
        self.segments.iter().find(|range| range.contains(&at)).map(|range| range.end)
    }

    /// Where `.eh_frame` is; `None` unless the header is of a kind that is understood.
    fn frames(&self) -> Option<Range<usize>> {
        let start = self.header.start;
        if self.header.len() < HEADER_BYTES || self.end_of_segment(start)? < self.header.end {
            return None;
        }
        let at = frames_address(start as u64, &copied(start, HEADER_BYTES)?)? as usize;
        Some(at..self.end_of_segment(at)?)
    }

    /// Bytes of the tables.
    fn bytes(&self) -> Option<usize> {
        Some(self.header.len().saturating_add(self.frames()?.len()))
    }
}

/// Mapped pieces of an object that are looked at; most have four.
const MOST_SEGMENTS: usize = 16;

fn places(bias: u64, headers: &[libc::Elf64_Phdr]) -> Option<Places> {
    let range = |header: &libc::Elf64_Phdr, bytes: u64| {
        let start = bias.wrapping_add(header.p_vaddr) as usize;
        start..start.saturating_add(bytes as usize)
    };
    let header = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let mut segments = [const { 0..0 }; MOST_SEGMENTS];
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    for (segment, header) in segments.iter_mut().zip(loaded) {
        *segment = range(header, header.p_filesz);
    }
    Some(Places { header: range(header, header.p_memsz), segments })
}

/// The tables of an object, which `stays` loaded or may be unloaded.
fn tables(places: &Places, stays: bool) -> Option<Tables> {
    let range = places.frames()?;
    let part = |range: &Range<usize>| {
        if !stays {
            return copied(range.start, range.len()).map(Cow::Owned);
        }
        // SAFETY: the range is in a segment of an object that is mapped, and never unloaded; the
        // loader does not change its unwind tables.
        Some(Cow::Borrowed(unsafe { slice::from_raw_parts(range.start as *const u8, range.len()) }))
    };
    let (header, frames) = (part(&places.header)?, part(&range)?);
    Some(Tables { header_at: places.header.start, header, frames_at: range.start, frames })
}

/// Copies memory; `None` where it cannot be read, or there is no room for it.
fn copied(from: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes).ok()?;
    copy.resize(bytes, 0);
    (read_memory(from, &mut copy) == bytes).then_some(copy)
}

/// How many objects were loaded and unloaded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub loaded: u64,
    pub unloaded: u64,
}

/// The changes so far.
pub fn changes() -> Changes {
    find_object(|object| Some(Changes::by(object))).unwrap_or_default()
}

impl Changes {
    fn by(object: LoadedObject) -> Changes {
        let (loaded, unloaded) = object.changes();
        Changes { loaded, unloaded }
    }
}

/// The addresses of all objects that are loaded.
#[derive(Default)]
pub struct Loaded {
    ranges: Vec<Range<usize>>,
    changes: Changes,
}

/// Objects whose addresses are kept at most.
const MOST_OBJECTS: usize = 1 << 12;

impl Loaded {
    /// The objects of now; `None` if there are too many.
    pub fn now() -> Option<Loaded> {
        let mut loaded = Loaded::default();
        loaded.ranges.try_reserve_exact(MOST_OBJECTS).ok()?;
        let no_room = find_object(|object| {
            if loaded.ranges.len() == loaded.ranges.capacity() {
                return Some(());
            }
            loaded.ranges.push(mapped(object.bias(), object.headers()));
            loaded.changes = Changes::by(object);
            None
        });
        no_room.is_none().then_some(loaded)
    }

    /// Returns whether no object is mapped around an address, if these are still the objects.
    pub fn is_outside(&self, address: usize, changes: Changes) -> bool {
        self.changes == changes
            && !self.ranges.is_empty()
            && !self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// `NT_GNU_BUILD_ID`.
const BUILD_ID: u32 = 3;
const NOTE_HEADER: usize = 12;

/// A segment of notes in memory.
struct Notes {
    start: usize,
    bytes: usize,
    align: usize,
}

/// The notes of an object that are mapped.
fn notes(bias: u64, headers: &[libc::Elf64_Phdr]) -> impl Iterator<Item = Notes> {
    let is_mapped = |note: &libc::Elf64_Phdr| {
        headers.iter().any(|header| {
            header.p_type == libc::PT_LOAD
                && header.p_flags & libc::PF_R != 0
                && header.p_vaddr <= note.p_vaddr
                && note.p_vaddr.saturating_add(note.p_memsz) <= header.p_vaddr.saturating_add(header.p_filesz)
        })
    };
    let notes = headers.iter().filter(move |header| header.p_type == libc::PT_NOTE && is_mapped(header));
    notes.map(move |note| Notes {
        start: bias.wrapping_add(note.p_vaddr) as usize,
        bytes: note.p_memsz as usize,
        align: note.p_align as usize,
    })
}

/// The build ID among the notes of an object.
fn build_id(bias: u64, headers: &[libc::Elf64_Phdr]) -> Option<&[u8]> {
    notes(bias, headers).find_map(|note| {
        // SAFETY: the notes are in a segment that may be read, and that the loader does not unmap
        // while it shows the object.
        let bytes = unsafe { slice::from_raw_parts(note.start as *const u8, note.bytes) };
        build_id_among(bytes, note.align)
    })
}

fn build_id_among(mut notes: &[u8], align: usize) -> Option<&[u8]> {
    let align = if align == 8 { 8 } else { 4 };
    while let Some((header, rest)) = notes.split_at_checked(NOTE_HEADER) {
        let word =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (name_bytes, bytes, kind) = (word(0) as usize, word(4) as usize, word(8));
        let name = rest.get(..name_bytes)?;
        // Offsets are from the begin of the note.
        let from = (NOTE_HEADER + name_bytes).next_multiple_of(align);
        let content = notes.get(from..from.checked_add(bytes)?)?;
        if kind == BUILD_ID && name == b"GNU\0" {
            return Some(content);
        }
        notes = notes.get((from + bytes).next_multiple_of(align)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, content.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn own_code_lies_in_its_object() {
        let address = own_code_lies_in_its_object as *const () as usize;
        let object = object_at(address).expect("it is loaded");
        assert!(object.range.contains(&address) && object.bias <= object.range.start);
        assert!(object_at(1).is_none());
    }

    #[test]
    fn addresses_outside_of_all_objects_are_known_until_one_is_loaded() {
        // Another test may load a library in between.
        let (loaded, now) = loop {
            let (loaded, now) = (Loaded::now().expect("there are few"), changes());
            if loaded.changes == now {
                break (loaded, now);
            }
        };
        assert!(loaded.is_outside(1, now));
        assert!(!loaded.is_outside(changes as *const () as usize, now));
        let one_more = Changes { loaded: now.loaded + 1, ..now };
        assert!(!loaded.is_outside(1, one_more));
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let notes =
            [note(b"GNU\0", 1, &[1; 16]), note(b"Go\0", 3, &[9; 5]), note(b"GNU\0", 3, b"\x12\xab")].concat();
        assert_eq!(build_id_among(&notes, 4), Some(&b"\x12\xab"[..]));
        assert_eq!(build_id_among(&notes[..notes.len() - 4], 4), None, "one that is cut off");
        assert_eq!(build_id_among(&[], 4), None);
    }
}
