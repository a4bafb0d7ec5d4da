//! The frames of a call site.

use crate::debug_info::{BETWEEN, Binaries, Frame};
use mpisee_profile::SiteId;
use mpisee_profile::rows::SiteRow;

/// Functions in `inlined_into` at most: each is a level of a tree, so that a damaged table could
/// fill the memory.
const MOST_INLINED: usize = 64;

/// Between a function and its place.
const AT: &str = " at ";

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
    /// How far the return address is behind the begin of the function, or its address as in the
    /// binary's symbol table where that is not known.
    pub offset: u64,
}

impl SiteFrame {
    /// The frame of a site which `sites.csv` lacks.
    pub fn unlisted(site: SiteId) -> Self {
        SiteFrame::of_name(&format!("site {site}"))
    }

    /// One of which nothing is known but a name.
    pub fn of_name(function: &str) -> Self {
        let function = function.to_owned();
        SiteFrame { function, file: String::new(), line: None, module: String::new(), offset: 0 }
    }

    /// `step at /src/solver.c:301 < main at /src/main.c:88`, as `sites.csv` has the functions into
    /// which one is inlined.
    pub fn list_text(frames: &[SiteFrame]) -> String {
        let text =
            |frame: &SiteFrame| format!("{}{AT}{}:{}", frame.function, frame.file, frame.line.unwrap_or(0));
        frames.iter().take(MOST_INLINED).map(text).collect::<Vec<_>>().join(BETWEEN)
    }

    /// The frames of such a text, in a binary of this file name; none if it is no such text, or has
    /// more of them than anybody inlines. Names of functions have `<` in them, too, so that a frame
    /// ends where a line is before it.
    pub fn of_list(text: &str, module: &str) -> Option<Vec<SiteFrame>> {
        let mut frames = Vec::new();
        let mut frame = String::new();
        for part in text.split(BETWEEN).filter(|_| !text.is_empty()) {
            if frames.len() == MOST_INLINED {
                return None;
            }
            frame.push_str(part);
            match SiteFrame::of_list_item(&frame, module) {
                Some(whole) => {
                    frames.push(whole);
                    frame.clear();
                }
                None => frame.push_str(BETWEEN),
            }
        }
        frame.is_empty().then_some(frames)
    }

    fn of_list_item(text: &str, module: &str) -> Option<SiteFrame> {
        let (place, line) = text.rsplit_once(':')?;
        let (function, file) = place.split_once(AT)?;
        let line = Some(line.parse().ok()?).filter(|&line| line > 0);
        let [function, file, module] = [function, file, module].map(str::to_owned);
        Some(SiteFrame { function, file, line, module, offset: 0 })
    }

    /// Returns whether it is a line of an interpreted language, which is in no binary.
    pub fn is_of_interpreter(&self) -> bool {
        self.module.is_empty() && !self.file.is_empty()
    }

    /// `step at solver.c:301`; without lines `step+0x1f in app`, without functions `app+0x11c5`.
    pub fn text(&self) -> String {
        match self.line_text() {
            Some(line) if self.function.is_empty() => format!("?{AT}{line}"),
            Some(line) => format!("{}{AT}{line}", self.function),
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
            Unresolved::WithoutNamedFile => "stripped, and its file of debug information is not here",
            Unresolved::WithoutFunctions => "files with its functions are missing",
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
    // A list that is damaged is an error when the table is read.
    let outer = SiteFrame::of_list(&row.inlined_into, &module).unwrap_or_default();
    let written = [vec![written], outer].concat();
    let (Some(offset), false) = (offset, row.module.is_empty()) else { return (written, None) };
    let (found, unresolved) =
        match binaries.find(&row.module, std::slice::from_ref(&row.build_id), &row.layout) {
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
        Some(first) if first.line.is_some() || !has_been_resolved && names_as_much(first, row) => {
            (found.into_iter().map(of).collect(), unresolved)
        }
        // Resolved before, by `--resolve` perhaps on another machine.
        _ => (written, unresolved.filter(|_| !has_been_resolved)),
    }
}

/// Returns whether the binary has the function's name, if the row has.
fn names_as_much(frame: &Frame, row: &SiteRow) -> bool {
    row.function.is_empty() || !frame.function.is_empty()
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_into_which_one_is_inlined_are_read_as_they_are_written() {
        let frame = |function: &str, file: &str, line: Option<u32>| SiteFrame {
            function: function.into(),
            file: file.into(),
            line,
            module: "app".into(),
            offset: 0,
        };
        let frames = [
            frame("step", "/src/solver.c", Some(301)),
            frame("Is<(1 < 2)>::operator< <int>", "C:/of a < b/io.cpp", None),
            frame("main", "", Some(88)),
        ];
        let text = SiteFrame::list_text(&frames);
        assert!(text.starts_with("step at /src/solver.c:301 < Is<"), "{text}");
        assert_eq!(SiteFrame::of_list(&text, "app").as_deref(), Some(&frames[..]));
        assert_eq!(SiteFrame::of_list("", "app"), Some(Vec::new()));
        let many = vec!["step at solver.c:301"; MOST_INLINED + 1].join(BETWEEN);
        assert_eq!(SiteFrame::of_list(&many, "app"), None);
        for damaged in
            ["step", "step at solver.c:301 < ", "step at solver.c:301 < main at", "step at solver.c:-1"]
        {
            assert_eq!(SiteFrame::of_list(damaged, "app"), None, "{damaged}");
        }
    }

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
