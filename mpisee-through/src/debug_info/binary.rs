//! A binary whose addresses are resolved.

use super::debug_files::DebugFiles;
use super::object_file::cached;
use crate::short_names::short;
use addr2line::Loader;
use addr2line::gimli::{self, EndianSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection, ObjectSymbol, ReadRef};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A function that a call is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's name without parameters; empty if it is not known.
    pub function: String,
    /// Its source file; empty if that is not known.
    pub file: String,
    /// The line of the call in it.
    pub line: Option<u32>,
    /// Where no line is known, how far the return address is behind the function's begin.
    pub offset: Option<u64>,
}

impl Frame {
    /// `solver.c:301`, if the line is known.
    pub fn line_text(&self) -> Option<String> {
        let name = self.file.rsplit('/').next().filter(|name| !name.is_empty())?;
        Some(format!("{name}:{}", self.line?))
    }
}

/// A binary, with its debug information or that of another file.
pub struct Binary {
    loader: Loader,
    /// Functions by address and length, for those of which there are no lines; sorted.
    functions: Vec<(u64, u64, String)>,
    /// True if there is debug information.
    pub has_lines: bool,
    /// True if the binary, and what was found of it elsewhere, has a table of all symbols.
    pub has_symbols: bool,
    /// True if functions, other than lines, are described in files of their own (`-gsplit-dwarf`),
    /// or in the file with what several debug files have in common (dwz), which is missing.
    is_split: bool,
    /// True if the binary names a file with its debug information, and none was found that fits.
    pub lacks_named_file: bool,
}

impl Binary {
    /// Reads the binary, and its debug information, wherever that is.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(path: &Path, debug: &DebugFiles) -> Result<Self, String> {
        let cache = cached(path)?;
        let parsed = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let apart = if has_lines(&parsed) { None } else { debug.of_binary(path, &parsed) };
        let own = functions(&parsed);
        let names_file = parsed.gnu_debuglink().is_ok_and(|link| link.is_some());
        let lacks_named_file = names_file && !has_lines(&parsed) && apart.is_none();
        let lines_from = apart.as_deref().unwrap_or(path);
        let binary = Binary::with(lines_from, debug, own, has_symbols(&parsed))?;
        Ok(Binary { lacks_named_file, ..binary })
    }

    /// Reads debug information of a binary that is not there.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn of_debug_file(path: &Path, debug: &DebugFiles) -> Result<Self, String> {
        Binary::with(path, debug, Vec::new(), false)
    }

    /// Lines from `path`, functions from there and those that are known.
    fn with(
        path: &Path,
        debug: &DebugFiles,
        mut known: Vec<(u64, u64, String)>,
        has_symbols_already: bool,
    ) -> Result<Self, String> {
        let cache = cached(path)?;
        let parsed = object::File::parse(&cache).map_err(|error| error.to_string())?;
        known.extend(functions(&parsed));
        known.sort_unstable();
        known.dedup();
        let supplement: Option<PathBuf> = debug.supplement(path, &parsed);
        let names_common_file = parsed.gnu_debugaltlink().is_ok_and(|link| link.is_some());
        let lacks_common_file = names_common_file && supplement.is_none();
        let loader = Loader::new_with_sup(path, supplement).map_err(|error| error.to_string())?;
        Ok(Binary {
            loader,
            functions: known,
            has_lines: has_lines(&parsed),
            has_symbols: has_symbols_already || has_symbols(&parsed),
            is_split: is_split(&parsed) || lacks_common_file,
            lacks_named_file: false,
        })
    }

    /// Returns whether the file with the functions around the call before a return address is
    /// missing. Which of them were inlined there is not known then: a line may be of one, and the
    /// function that around it.
    pub fn lacks_functions(&self, address: u64) -> bool {
        let first = |address| self.loader.find_frames(address).ok()?.next().ok()?;
        self.is_split && first(address.saturating_sub(1)).is_some_and(|frame| frame.function.is_none())
    }

    /// The functions that the call before a return address is in: the innermost of inlined ones
    /// first.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let call = address.saturating_sub(1);
        let mut frames = Vec::new();
        if let Ok(mut found) = self.loader.find_frames(call) {
            while let Ok(Some(frame)) = found.next() {
                let function = frame.function.and_then(|it| it.raw_name().ok().map(|name| short(&name)));
                let place = frame.location.and_then(|it| Some((it.file?.to_owned(), it.line?)));
                let (file, line) = place.map_or((String::new(), None), |(file, line)| (file, Some(line)));
                match function {
                    None if line.is_none() => {}
                    None => {
                        let function = self.function(call).map_or_else(String::new, |(name, _)| name);
                        frames.push(Frame { function, file, line, offset: None });
                    }
                    Some(function) => frames.push(Frame { function, file, line, offset: None }),
                }
            }
        }
        if let Some(outermost) = frames.last_mut() {
            self.complete_name(outermost, call);
        }
        if let [frame] = &mut frames[..]
            && frame.line.is_none()
        {
            frame.offset = self.function(call).map(|(_, offset)| offset + 1);
        }
        if frames.is_empty() {
            frames.extend(self.function(call).map(|(function, offset)| Frame {
                function,
                offset: Some(offset + 1),
                ..Frame::default()
            }));
        }
        frames
    }

    /// Gives a function that is not inlined its namespace and class, which compilers leave out of
    /// the debug information of one that other files do not see.
    fn complete_name(&self, frame: &mut Frame, call: u64) {
        let Some((whole, _)) = self.function(call) else { return };
        let scope = whole.strip_suffix(&frame.function);
        if scope.is_some_and(|scope| scope.ends_with("::")) {
            frame.function = whole;
        }
    }

    /// The function at an address, and how far that is behind its begin.
    fn function(&self, address: u64) -> Option<(String, u64)> {
        let after = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let (begin, length, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - begin < *length).then(|| (short(name), address - begin))
    }
}

fn has_lines<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> bool {
    file.section_by_name(".debug_info").is_some()
}

fn has_symbols<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> bool {
    file.symbol_table().is_some()
}

/// Returns whether a unit of the debug information names a file that has the rest of it.
fn is_split<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> bool {
    // Units that are split, and few others, take their addresses from there.
    if file.section_by_name(".debug_addr").is_none() {
        return false;
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| -> Result<Cow<'d, [u8]>, gimli::Error> {
        let found = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok(found.unwrap_or_default())
    };
    let Ok(sections) = gimli::DwarfSections::load(section) else { return false };
    let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let unit = dwarf.unit(header);
        if unit.is_ok_and(|unit| unit.dwo_name().is_ok_and(|name| name.is_some())) {
            return true;
        }
    }
    false
}

fn functions<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Vec<(u64, u64, String)> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let of_code = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0);
    of_code
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect()
}
