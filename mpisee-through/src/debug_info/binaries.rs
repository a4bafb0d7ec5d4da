//! Finds the binaries that ran, and keeps what was read of them.

use super::binary::Binary;
use super::debug_files::DebugFiles;
use super::object_file::{build_id, cached, layout};
use mpisee_profile::run::rfc3339;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where files are looked for that are not where they were when the program ran.
#[derive(Clone, Debug, Default)]
pub struct SearchDirs(pub Vec<PathBuf>);

impl SearchDirs {
    /// The file, below the first of the folders that has it, with as much of its path as is there;
    /// else where it was.
    pub fn find(&self, file: &str) -> Option<PathBuf> {
        let parts: Vec<&str> = file.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let below = |place: &PathBuf| {
            let tails = (0..parts.len()).map(|skipped| place.join(parts[skipped..].join("/")));
            tails.into_iter().find(|path| path.is_file())
        };
        self.0.iter().find_map(below).or_else(|| Some(PathBuf::from(file)).filter(|path| path.is_file()))
    }
}

/// Why a binary is not read.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The reason as a sentence without its full stop, which begins with the file.
    pub said: String,
    /// True if the file is not there.
    pub is_missing: bool,
}

impl Problem {
    /// The end of a message: what to do.
    pub fn hint(&self) -> &'static str {
        if self.is_missing { "; --source DIR says where to look" } else { "" }
    }
}

/// The binaries of a run.
pub struct Binaries {
    dirs: SearchDirs,
    debug: DebugFiles,
    /// When the run began, as in run.json: files that are newer are not what ran.
    begin: String,
    /// By path, the build IDs that it may have, and the layout.
    loaded: HashMap<(String, Vec<String>, String), Result<Binary, Problem>>,
}

impl Binaries {
    /// Nothing is read yet.
    pub fn new(dirs: SearchDirs, debug: DebugFiles, begin: &str) -> Self {
        Binaries { dirs, debug, begin: begin.to_owned(), loaded: HashMap::new() }
    }

    /// A sentence on what servers of debug information did not give, if they were asked in vain.
    pub fn servers_note(&self) -> Option<String> {
        self.debug.note()
    }

    /// The binary that was at this path and had one of these build IDs, if it is known which, and
    /// this layout, as `sites.csv` has it; any if that is empty.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn find(&mut self, file: &str, build_ids: &[String], layout: &str) -> Result<&Binary, &Problem> {
        let key = (file.to_owned(), build_ids.to_vec(), layout.to_owned());
        if !self.loaded.contains_key(&key) {
            let loaded = self.load(file, build_ids, layout);
            self.loaded.insert(key.clone(), loaded);
        }
        self.loaded[&key].as_ref()
    }

    fn load(&self, file: &str, build_ids: &[String], layout: &str) -> Result<Binary, Problem> {
        let problem = |is_missing: bool, said: String| Problem { said, is_missing };
        let instead = || {
            let known = build_ids.iter().filter(|id| !id.is_empty());
            known
                .filter_map(|id| self.debug.of_missing(Path::new(file), id))
                .find_map(|path| Binary::of_debug_file(&path, &self.debug).ok())
        };
        let Some(path) = self.dirs.find(file) else {
            return instead().ok_or_else(|| problem(true, format!("'{file}' is not there")));
        };
        let shown = path.display();
        let unreadable = |why: String| problem(false, format!("'{shown}' cannot be read: {why}"));
        if let Some(changed) = self.changed(build_ids, layout, &path).map_err(unreadable)? {
            let said = format!("'{shown}' is not what ran: {changed}");
            return instead().ok_or_else(|| problem(false, said));
        }
        Binary::read(&path, &self.debug).map_err(unreadable)
    }

    /// Why it is another file than the one that ran.
    fn changed(&self, were: &[String], had: &str, path: &Path) -> Result<Option<String>, String> {
        let cache = cached(path)?;
        let file = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let was = were.iter().find(|was| !was.is_empty());
        if let Some(was) = was {
            let is = build_id(&file);
            if !were.contains(&is) {
                return Ok(Some(format!("its build ID was {was} and is {}", or_none(&is))));
            }
        }
        // Linkers are also told to give all files one build ID.
        let has = layout(&file);
        if !had.is_empty() && !has.is_empty() && has != had {
            return Ok(Some("its segments are others, whatever its build ID".to_owned()));
        }
        if was.is_some() {
            return Ok(None);
        }
        let is_newer = written(path).is_some_and(|written| written > self.begin);
        Ok(is_newer.then(|| "it was written after the run began".to_owned()))
    }
}

/// When a file was last written, in the form of run.json.
pub fn written(path: &Path) -> Option<String> {
    let written = path.metadata().ok()?.modified().ok()?;
    let since_1970 = written.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(rfc3339(u64::try_from(since_1970.as_nanos()).ok()?))
}

fn or_none(build_id: &str) -> &str {
    if build_id.is_empty() { "none" } else { build_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_same_name_is_told_by_its_layout() {
        let own = std::env::current_exe().unwrap();
        let own_name = own.to_str().unwrap();
        let cache = cached(&own).unwrap();
        let file = object::File::parse(&cache).unwrap();
        let (id, has) = (build_id(&file), layout(&file));
        let debug = DebugFiles::from_environment(false);
        let mut binaries = Binaries::new(SearchDirs::default(), debug, "9999-12-31T00:00:00Z");
        for layout in ["", has.as_str()] {
            assert!(binaries.find(own_name, std::slice::from_ref(&id), layout).is_ok(), "{layout}");
        }
        let problem = binaries.find(own_name, &[id], "00000001").err().unwrap();
        assert!(problem.said.contains("is not what ran") && problem.said.contains("segments"), "{problem:?}");
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
