//! The frames of a call site.

use crate::symbols::{Binaries, Frame};
use mpisee_profile::SiteId;
use mpisee_profile::rows::SiteRow;

/// A function that a call site is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteFrame {
    /// The function; empty if it is not known.
    pub function: String,
    /// Its source file; empty if that is not known.
    pub file: String,
    /// The line of the call.
    pub line: Option<u32>,
    /// The file name of the binary; empty if there is none.
    pub module: String,
    /// How far the return address is behind the begin of the function, or of the binary where that is not known.
    pub offset: u64,
}

impl SiteFrame {
    /// That of a site which `sites.csv` lacks.
    pub fn unlisted(site: SiteId) -> Self {
        SiteFrame::of_name(&format!("site {site}"))
    }

    /// One of which nothing is known but a name.
    pub fn of_name(function: &str) -> Self {
        let function = function.to_owned();
        SiteFrame { function, file: String::new(), line: None, module: String::new(), offset: 0 }
    }

    /// Returns whether it is a line of an interpreted language, which is in no binary.
    pub fn is_of_interpreter(&self) -> bool {
        self.module.is_empty() && !self.file.is_empty()
    }

    /// `step at solver.c:301`; without lines `step+0x1f in app`, without functions `app+0x11c5`.
    pub fn text(&self) -> String {
        match self.line_text() {
            Some(line) => format!("{} at {line}", self.function),
            None => self.name_in_module(),
        }
    }

    /// `solver.c:301`, if the line is known.
    pub fn line_text(&self) -> Option<String> {
        let name = file_name(&self.file);
        self.line.filter(|_| !name.is_empty()).map(|line| format!("{name}:{line}"))
    }

    /// The function as a name in a flame graph.
    pub fn name(&self) -> String {
        match (self.function.as_str(), self.module.as_str()) {
            ("", "") => format!("{:#x}", self.offset),
            ("", module) => format!("{module}+{:#x}", self.offset),
            (function, _) => function.to_owned(),
        }
    }

    fn name_in_module(&self) -> String {
        match (self.function.as_str(), self.module.as_str()) {
            ("", _) => self.name(),
            (function, "") => function.to_owned(),
            (function, module) if self.offset == 0 => format!("{function} in {module}"),
            (function, module) => format!("{function}+{:#x} in {module}", self.offset),
        }
    }
}

/// Why no lines of a binary are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    Missing,
    Changed,
    /// Without debug information and without a table of its functions.
    Stripped,
    /// Without debug information.
    WithoutLines,
    /// With debug information, which says nothing of some site.
    Partly,
    /// The file that the binary names for its debug information is missing, or another binary's.
    WithoutNamedFile,
    /// Lines are known, the functions around them are in files (`-gsplit-dwarf`) that are missing.
    WithoutFunctions,
}

impl Unresolved {
    /// The reason in a few words.
    pub fn text(self) -> &'static str {
        match self {
            Unresolved::Missing => "not on this machine",
            Unresolved::Changed => "not the file that ran",
            Unresolved::Stripped => "stripped",
            Unresolved::WithoutLines => "built without -g",
            Unresolved::Partly => "in part built without -g",
            Unresolved::WithoutNamedFile => {
                "the file with its debug information is missing, or another build's"
            }
            Unresolved::WithoutFunctions => "its .dwo files are missing",
        }
    }

    /// Returns whether separate debug information would help.
    pub fn is_for_debug_files(self) -> bool {
        !matches!(self, Unresolved::Missing | Unresolved::Changed)
    }
}

/// The frames of a row of `sites.csv`, and why lines of its binary are not known, if so.
pub fn of_row(row: &SiteRow, binaries: &mut Binaries) -> (Vec<SiteFrame>, Option<Unresolved>) {
    let module = file_name(&row.module).to_owned();
    let offset = row.offset.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let written = SiteFrame {
        function: row.function.clone(),
        file: row.file.clone(),
        line: row.line,
        module: module.clone(),
        offset: if row.function.is_empty() { offset.unwrap_or(0) } else { 0 },
    };
    let (Some(offset), false) = (offset, row.module.is_empty()) else { return (vec![written], None) };
    let (found, unresolved) =
        match binaries.find_with_layout(&row.module, std::slice::from_ref(&row.build_id), &row.layout) {
            Err(problem) if problem.is_missing => (Vec::new(), Some(Unresolved::Missing)),
            Err(_) => (Vec::new(), Some(Unresolved::Changed)),
            Ok(binary) => {
                let found = binary.frames(offset);
                let why = match (binary.has_lines, binary.has_symbols) {
                    _ if binary.lacks_functions(offset) => Some(Unresolved::WithoutFunctions),
                    _ if found.first().is_some_and(|frame| frame.line.is_some()) => None,
                    // The compiler's own, in every program.
                    (true, _) if found.first().is_some_and(|frame| frame.function == "_start") => None,
                    (true, _) => Some(Unresolved::Partly),
                    (false, _) if binary.lacks_named_file => Some(Unresolved::WithoutNamedFile),
                    (false, true) => Some(Unresolved::WithoutLines),
                    (false, false) => Some(Unresolved::Stripped),
                };
                (found, why)
            }
        };
    let of = |frame: Frame| SiteFrame {
        offset: frame.offset.unwrap_or(0),
        function: frame.function,
        file: frame.file,
        line: frame.line,
        module: module.clone(),
    };
    let has_been_resolved = row.line.is_some();
    match found.first() {
        Some(first) if first.line.is_some() || !has_been_resolved && row.function.is_empty() => {
            (found.into_iter().map(of).collect(), unresolved)
        }
        // Resolved before, by `--resolve` perhaps on another machine.
        _ => (vec![written], unresolved.filter(|_| !has_been_resolved)),
    }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_told_by_what_is_known_of_it() {
        let frame = |function: &str, line: Option<u32>, module: &str, offset: u64| {
            let file = line.map_or(String::new(), |_| "/src/solver.c".to_owned());
            let frame = SiteFrame { function: function.into(), file, line, module: module.into(), offset };
            (frame.text(), frame.name())
        };
        let owned = |(text, name): (&str, &str)| (text.to_owned(), name.to_owned());
        assert_eq!(frame("step", Some(301), "app", 0), owned(("step at solver.c:301", "step")));
        assert_eq!(frame("step", None, "app", 31), owned(("step+0x1f in app", "step")));
        assert_eq!(frame("step", None, "app", 0), owned(("step in app", "step")));
        assert_eq!(frame("", None, "app", 0x11c5), owned(("app+0x11c5", "app+0x11c5")));
        assert_eq!(frame("", None, "", 0x7f00), owned(("0x7f00", "0x7f00")));
    }
}
