//! Resolves return addresses after the run: to functions and lines, from the debug information of binaries that still
//! are those that ran.

use crate::names::short;
use addr2line::Loader;
use mpisee_profile::rows::BinaryRow;
use mpisee_profile::run::rfc3339;
use mpisee_profile::{Profile, ProfileError};
use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Between the calls of a stack, the innermost first.
pub const BETWEEN: &str = " < ";

/// Where files are looked for that are not where they were when the program ran.
#[derive(Clone, Debug, Default)]
pub struct SearchDirs(pub Vec<PathBuf>);

impl SearchDirs {
    /// The file, below the first of the folders that has it, with as much of its path as is there; else where it was.
    pub fn find(&self, file: &str) -> Option<PathBuf> {
        let parts: Vec<&str> = file.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let below = |place: &PathBuf| {
            let tails = (0..parts.len()).map(|skipped| place.join(parts[skipped..].join("/")));
            tails.into_iter().find(|path| path.is_file())
        };
        self.0.iter().find_map(below).or_else(|| Some(PathBuf::from(file)).filter(|path| path.is_file()))
    }
}

/// Binaries whose addresses are resolved.
pub struct Symbols {
    dirs: SearchDirs,
    /// The build IDs of the binaries when the program ran, by path.
    build_ids: HashMap<String, Vec<String>>,
    /// When the run ended, as in run.json.
    end: String,
    loaded: HashMap<String, Option<Binary>>,
    resolved: HashMap<String, String>,
    /// Why a binary could not be read.
    problems: BTreeMap<String, String>,
}

struct Binary {
    loader: Loader,
    /// Functions by address and length, for those of which there are no lines; sorted.
    functions: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// Those of the profile; nothing is loaded yet.
    pub fn of(profile: &Profile, dirs: SearchDirs) -> Result<Self, ProfileError> {
        let mut build_ids: HashMap<String, Vec<String>> = HashMap::new();
        for row in profile.rows_if_any::<BinaryRow>()? {
            let row = row?;
            build_ids.entry(row.file).or_default().push(row.build_id);
        }
        Ok(Symbols { build_ids, ..Symbols::without(dirs, &profile.run().end) })
    }

    /// Those of a program that began to run then and goes on; files that are newer are not resolved.
    pub fn of_running(dirs: SearchDirs, began: &str) -> Self {
        Symbols::without(dirs, began)
    }

    fn without(dirs: SearchDirs, end: &str) -> Self {
        Symbols {
            dirs,
            build_ids: HashMap::new(),
            end: end.to_owned(),
            loaded: HashMap::new(),
            resolved: HashMap::new(),
            problems: BTreeMap::new(),
        }
    }

    /// `halo_init at halo.c:12 < main at main.c:34` for `app+0x1a2b < app+0x3c4d`. What cannot be resolved stays; so
    /// does what is no call stack.
    pub fn stack(&mut self, text: &str) -> String {
        if let Some(known) = self.resolved.get(text) {
            return known.clone();
        }
        let resolved = match addresses(text) {
            Some(addresses) => self.frames(&addresses).join(BETWEEN),
            None => text.to_owned(),
        };
        self.resolved.insert(text.to_owned(), resolved.clone());
        resolved
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
            let found = self.binary(file).map(|binary| binary.frames(offset)).unwrap_or_default();
            if found.is_empty() {
                frames.push(format!("{file}+{offset:#x}"));
            }
            for (function, place) in found {
                let is_main = function == "main";
                let place =
                    if place.is_empty() { format!("in {}", name_of(file)) } else { format!("at {place}") };
                frames.push(format!("{function} {place}"));
                if is_main {
                    return frames;
                }
            }
        }
        frames
    }

    fn binary(&mut self, file: &str) -> Option<&Binary> {
        if !self.loaded.contains_key(file) {
            let loaded = self.load(file);
            let binary = loaded.map_err(|problem| self.problems.insert(file.to_owned(), problem)).ok();
            self.loaded.insert(file.to_owned(), binary);
        }
        self.loaded.get(file).and_then(Option::as_ref)
    }

    fn load(&self, file: &str) -> Result<Binary, String> {
        let rest = "; its calls are shown as addresses";
        let Some(path) = self.dirs.find(file) else {
            return Err(format!("'{file}' is not there{rest}; --source DIR says where to look"));
        };
        let shown = path.display();
        let unreadable = |why: &dyn std::fmt::Display| format!("'{shown}' cannot be read: {why}{rest}");
        let bytes = std::fs::read(&path).map_err(|error| unreadable(&error))?;
        let parsed = object::File::parse(&*bytes).map_err(|error| unreadable(&error))?;
        let is = build_id(&parsed);
        if let Some(changed) = self.changed(file, &path, &is) {
            return Err(format!("'{shown}' is not what ran: {changed}{rest}"));
        }
        let apart = debug_file(&is).filter(|_| parsed.section_by_name(".debug_info").is_none());
        let loader = Loader::new(apart.as_ref().unwrap_or(&path)).map_err(|error| unreadable(&error))?;
        Ok(Binary { loader, functions: functions(&parsed) })
    }

    /// Why it is another file than the one that ran.
    fn changed(&self, file: &str, path: &Path, is: &str) -> Option<String> {
        let were = self.build_ids.get(file).map(Vec::as_slice).unwrap_or_default();
        if let Some(was) = were.iter().find(|was| !was.is_empty()) {
            let is_same = were.iter().any(|was| was == is);
            return (!is_same).then(|| format!("its build ID was {was} and is {}", or_none(is)));
        }
        (written(path)? > self.end).then(|| "it was written after the run".to_owned())
    }
}

impl Binary {
    /// Function and place of the call before a return address: the innermost of inlined ones first.
    fn frames(&self, address: u64) -> Vec<(String, String)> {
        let call = address.saturating_sub(1);
        let mut frames = Vec::new();
        if let Ok(mut found) = self.loader.find_frames(call) {
            while let Ok(Some(frame)) = found.next() {
                let function = frame.function.and_then(|it| it.raw_name().ok().map(|name| short(&name)));
                let place = frame.location.and_then(|it| Some((it.file?.to_owned(), it.line?)));
                let place = place.map(|(file, line)| format!("{}:{line}", name_of(&file)));
                match (function, place) {
                    (None, None) => {}
                    (None, Some(place)) => {
                        let function = self.function(call).unwrap_or_else(|| "?".to_owned());
                        frames.push((function, place));
                    }
                    (Some(function), place) => frames.push((function, place.unwrap_or_default())),
                }
            }
        }
        if frames.is_empty() {
            frames.extend(self.function(call).map(|function| (function, String::new())));
        }
        frames
    }

    fn function(&self, address: u64) -> Option<String> {
        let after = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let (begin, length, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - begin < *length).then(|| short(name))
    }
}

fn functions(file: &object::File) -> Vec<(u64, u64, String)> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let of_code = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0);
    let mut functions: Vec<(u64, u64, String)> = of_code
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect();
    functions.sort_unstable();
    functions
}

/// When a file was last written, in the form of run.json.
pub fn written(path: &Path) -> Option<String> {
    let written = path.metadata().ok()?.modified().ok()?;
    let since_1970 = written.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(rfc3339(u64::try_from(since_1970.as_nanos()).ok()?))
}

fn build_id(file: &object::File) -> String {
    let id = file.build_id().ok().flatten().unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where distributions put debug information of a binary.
fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let path = Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug"));
    path.is_file().then_some(path)
}

fn or_none(build_id: &str) -> &str {
    if build_id.is_empty() { "none" } else { build_id }
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

    #[test]
    fn files_are_found_with_as_much_of_their_path_as_is_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/b")).unwrap();
        for file in ["src/halo.c", "halo.c"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let dirs = SearchDirs(vec![folder.path().join("none"), folder.path().to_owned()]);
        assert_eq!(dirs.find("/build/src/halo.c"), Some(folder.path().join("src/halo.c")));
        assert_eq!(dirs.find("./halo.c"), Some(folder.path().join("halo.c")));
        assert_eq!(dirs.find("/build/b"), None);
    }
}
