//! Resolves return addresses after the run: to functions and lines, from the debug information of
//! binaries that still are those that ran.
//!
//! [`binary`] reads a binary, [`debug_files`] finds debug information that lies elsewhere,
//! [`binaries`] keeps what was read; call stacks as text are resolved here.

mod binaries;
mod binary;
mod debug_files;
mod object_file;

pub use binaries::{Binaries, SearchDirs, written};
pub use binary::Frame;
pub use debug_files::DebugFiles;

use mpisee_profile::rows::BinaryRow;
use mpisee_profile::{Profile, ProfileError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Between the calls of a stack, the innermost first.
pub const BETWEEN: &str = " < ";

/// Call stacks as text whose addresses are resolved.
pub struct Symbols {
    binaries: Binaries,
    /// The build IDs of the binaries when the program ran, by path.
    build_ids: HashMap<String, Vec<String>>,
    /// Their layouts, as far as they are known.
    layouts: HashMap<String, String>,
    resolved: HashMap<String, Vec<String>>,
    /// Why a binary could not be read.
    problems: BTreeMap<String, String>,
}

impl Symbols {
    /// The symbols of the profile; nothing is loaded yet.
    pub fn from_profile(profile: &Profile, dirs: SearchDirs) -> Result<Self, ProfileError> {
        let mut build_ids: HashMap<String, Vec<String>> = HashMap::new();
        for row in profile.rows_if_any::<BinaryRow>()? {
            let row = row?;
            build_ids.entry(row.file).or_default().push(row.build_id);
        }
        Ok(Symbols { build_ids, ..Symbols::without(dirs, &profile.run().start) })
    }

    /// The symbols of a program that began to run then and goes on; files that are newer are not
    /// resolved.
    pub fn of_running(dirs: SearchDirs, began: &str) -> Self {
        Symbols::without(dirs, began)
    }

    /// Notes the build ID of a binary of the program.
    pub fn add_build_id(&mut self, file: &str, build_id: &str) {
        let known = self.build_ids.entry(file.to_owned()).or_default();
        if !known.iter().any(|known| known == build_id) {
            known.push(build_id.to_owned());
            // What was resolved may be of another build.
            self.resolved.clear();
        }
    }

    /// Notes the layout of a binary of the program, as `sites.csv` has it.
    pub fn add_layout(&mut self, file: &str, layout: &str) {
        let before = self.layouts.insert(file.to_owned(), layout.to_owned());
        if before.as_deref() != Some(layout) {
            self.resolved.clear();
        }
    }

    fn without(dirs: SearchDirs, begin: &str) -> Self {
        Symbols {
            binaries: Binaries::new(dirs, DebugFiles::from_environment(false), begin),
            build_ids: HashMap::new(),
            layouts: HashMap::new(),
            resolved: HashMap::new(),
            problems: BTreeMap::new(),
        }
    }

    /// `halo_init at halo.c:12 < main at main.c:34` for `app+0x1a2b < app+0x3c4d`. What cannot be
    /// resolved stays; so does what is no call stack.
    pub fn stack(&mut self, text: &str) -> String {
        self.functions(text).join(BETWEEN)
    }

    /// The functions of such a stack, the innermost first; several for one address where functions
    /// are inlined.
    pub fn functions(&mut self, text: &str) -> &[String] {
        if !self.resolved.contains_key(text) {
            let functions = match addresses(text) {
                Some(addresses) => self.frames(&addresses),
                None => vec![text.to_owned()],
            };
            self.resolved.insert(text.to_owned(), functions);
        }
        self.resolved.get(text).map_or(&[], Vec::as_slice)
    }

    /// Why these could not be resolved, a sentence for each binary.
    pub fn problems<'t>(&self, texts: impl IntoIterator<Item = &'t String>) -> BTreeSet<String> {
        let addresses = texts.into_iter().filter_map(|text| addresses(text)).flatten();
        addresses.filter_map(|(file, _)| self.problems.get(file)).cloned().collect()
    }

    /// The calls up to `main`.
    fn frames(&mut self, addresses: &[(&str, u64)]) -> Vec<String> {
        let mut frames = Vec::new();
        for &(file, offset) in addresses {
            let found = self.resolve(file, offset);
            if found.is_empty() {
                frames.push(format!("{file}+{offset:#x}"));
            }
            for frame in found {
                let name = if frame.function.is_empty() { "?" } else { &frame.function };
                frames.push(match (frame.line_text(), frame.offset) {
                    (Some(line), _) => format!("{name} at {line}"),
                    // Without it, the calls of one function could not be told apart.
                    (None, Some(offset)) => format!("{name}+{offset:#x} in {}", name_of(file)),
                    (None, None) => format!("{name} in {}", name_of(file)),
                });
                if frame.function == "main" {
                    return frames;
                }
            }
        }
        frames
    }

    /// The functions that the call before a return address is in, the innermost first; none if the
    /// binary cannot be read.
    fn resolve(&mut self, file: &str, offset: u64) -> Vec<Frame> {
        let build_ids = self.build_ids.get(file).map(Vec::as_slice).unwrap_or_default();
        let layout = self.layouts.get(file).map_or("", String::as_str);
        match self.binaries.find(file, build_ids, layout) {
            Ok(binary) => binary.frames(offset),
            Err(problem) => {
                let said = || format!("{}; its calls are shown as addresses{}", problem.said, problem.hint());
                self.problems.entry(file.to_owned()).or_insert_with(said);
                Vec::new()
            }
        }
    }
}

/// The addresses of a call stack; none if it is something else.
fn addresses(text: &str) -> Option<Vec<(&str, u64)>> {
    text.split(BETWEEN).map(address).collect()
}

/// A file and an offset in it, from `app+0x1a2b`.
fn address(text: &str) -> Option<(&str, u64)> {
    let (file, offset) = text.rsplit_once("+0x")?;
    Some((file, u64::from_str_radix(offset, 16).ok()?)).filter(|(file, _)| !file.is_empty())
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_call_stack_stays() {
        let mut symbols = Symbols::without(SearchDirs::default(), "");
        for text in ["ghost cells", "", "a < b", "+0x12", "app+0xyz"] {
            assert_eq!(symbols.stack(text), text);
        }
        assert!(symbols.problems.is_empty());
    }

    #[test]
    fn a_binary_that_is_gone_is_named() {
        let mut symbols = Symbols::without(SearchDirs::default(), "");
        assert_eq!(symbols.stack("/no/app+0x12 < /no/app+0x34"), "/no/app+0x12 < /no/app+0x34");
        let problems = symbols.problems(&["/no/app+0x99".to_owned()]);
        assert_eq!(problems.len(), 1);
        assert!(problems.first().unwrap().starts_with("'/no/app' is not there"), "{problems:?}");
        assert!(symbols.problems(&["/other+0x12".to_owned()]).is_empty());
    }
}
