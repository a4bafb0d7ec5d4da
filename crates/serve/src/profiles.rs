//! The profiles of the folder that is served, by names that come from listing it: no name of a
//! request becomes a path.

use anyhow::{Context, Result, bail};
use mpisee_through::library::{Outline, outline};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Levels of folders below that are looked into: a profile is four levels below at most.
const MOST_DEPTH: usize = 3;
/// Entries of folders that are looked at, so that a large file system is not walked.
const MOST_ENTRIES: usize = 50_000;
/// Profiles that are listed.
const MOST_PROFILES: usize = 2000;
/// A list is that old at most.
const FRESH: Duration = Duration::from_secs(2);

/// A profile in the list.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its path below the folder.
    pub name: String,
    /// Seconds since 1970 of the last change.
    pub changed_s: u64,
    /// The run; none if it cannot be read.
    pub run: Option<Outline>,
    /// Why it cannot be read.
    pub why: Option<String>,
}

/// The list, as it is sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct List {
    /// The folder.
    pub folder: String,
    /// The last one first.
    pub profiles: Vec<Listed>,
    /// True if there may be more: the folder has too many profiles or entries, or goes deeper than
    /// is looked.
    pub is_cut_off: bool,
}

/// The profiles of a folder.
pub struct Profiles {
    /// Without links in it.
    root: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    at: Option<Instant>,
    list: List,
    /// Outlines by path, as long as run.json does not change.
    outlines: HashMap<PathBuf, (SystemTime, Listed)>,
}

impl Profiles {
    /// Of a folder, which must be there.
    pub fn from_folder(folder: &Path) -> Result<Profiles> {
        let root = folder.canonicalize().with_context(|| format!("cannot find '{}'", folder.display()))?;
        if !root.is_dir() {
            bail!("'{}' is no folder; name the one with the profiles", folder.display());
        }
        Ok(Profiles { root, known: Mutex::default() })
    }

    /// The profiles of now, or of a moment ago.
    pub fn list(&self) -> List {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.at.is_none_or(|at| at.elapsed() >= FRESH) {
            known.list = self.listed(&mut known.outlines);
            known.at = Some(Instant::now());
        }
        known.list.clone()
    }

    fn listed(&self, outlines: &mut HashMap<PathBuf, (SystemTime, Listed)>) -> List {
        let mut found = Found::default();
        found.look_into(&self.root, 0);
        let is_cut_off =
            found.entries > MOST_ENTRIES || found.profiles.len() > MOST_PROFILES || found.has_deeper;
        found.profiles.sort_by_key(|(_, changed)| std::cmp::Reverse(*changed));
        found.profiles.truncate(MOST_PROFILES);
        let before = std::mem::take(outlines);
        let mut list = List { folder: self.root.display().to_string(), profiles: Vec::new(), is_cut_off };
        for (path, changed) in found.profiles {
            let listed = match before.get(&path).filter(|(at, _)| *at == changed) {
                Some((_, listed)) => listed.clone(),
                None => self.describe(&path, changed),
            };
            list.profiles.push(listed.clone());
            outlines.insert(path, (changed, listed));
        }
        list
    }

    fn describe(&self, path: &Path, changed: SystemTime) -> Listed {
        let name = path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned();
        let since_1970 = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let run = self.inside(path).and_then(|()| outline(path));
        let (run, why) = match run {
            Ok(run) => (Some(run), None),
            Err(why) => (None, Some(format!("{why:#}"))),
        };
        Listed { name, changed_s: since_1970.as_secs(), run, why }
    }

    /// The profile of that name in the list.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        self.list();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |path: &&PathBuf| {
            path.strip_prefix(&self.root).is_ok_and(|below| below.to_string_lossy() == name)
        };
        let path = known.outlines.keys().find(is_it).cloned();
        drop(known);
        let path = path.context("there is no profile of that name in the folder that is served")?;
        self.inside(&path)?;
        Ok(path)
    }

    /// Fails if something in the profile is a link that leads out of the folder, whose text would
    /// be in a page, or no file, which may never be read to its end.
    fn inside(&self, profile: &Path) -> Result<()> {
        const MOST_FILES: usize = 1000;
        let whole = profile.canonicalize()?;
        if !whole.starts_with(&self.root) {
            bail!("it is not in the folder that is served");
        }
        for (count, entry) in std::fs::read_dir(&whole)?.enumerate() {
            let entry = entry?;
            if count == MOST_FILES {
                bail!("it has more than {MOST_FILES} files");
            }
            let is_inside =
                |path: PathBuf| path.canonicalize().is_ok_and(|file| file.starts_with(&self.root));
            if entry.file_type()?.is_symlink() && !is_inside(entry.path()) {
                bail!("'{}' leads out of the folder that is served", entry.file_name().to_string_lossy());
            }
            if !std::fs::metadata(entry.path()).is_ok_and(|kind| kind.is_file() || kind.is_dir()) {
                bail!("'{}' is no file", entry.file_name().to_string_lossy());
            }
        }
        Ok(())
    }
}

/// Folders that were looked into.
#[derive(Default)]
struct Found {
    entries: usize,
    profiles: Vec<(PathBuf, SystemTime)>,
    /// True if there are, or may be, folders below the last level, which are not looked into.
    has_deeper: bool,
    /// Entries of folders at the last level that were looked at.
    last_entries: usize,
}

impl Found {
    /// Links are not followed.
    fn look_into(&mut self, folder: &Path, depth: usize) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            let described = std::fs::symlink_metadata(path.join("run.json")).and_then(|file| file.modified());
            match described {
                Ok(changed) => self.profiles.push((path, changed)),
                Err(_) if depth < MOST_DEPTH => self.look_into(&path, depth + 1),
                Err(_) => self.look_for_deeper(&path),
            }
        }
    }

    /// Finds out whether a folder of the last level has one in it, which could be a profile or have
    /// some.
    fn look_for_deeper(&mut self, folder: &Path) {
        if self.has_deeper {
            return;
        }
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            self.last_entries += 1;
            if self.last_entries > MOST_ENTRIES || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.has_deeper = true;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_limits_of_the_list() {
        assert_eq!(MOST_DEPTH + 1, 4);
        let limits = format!(
            "the last {MOST_PROFILES} profiles are listed, up to four folders deep, among the first {MOST_ENTRIES} \
             files and folders"
        );
        assert!(include_str!("../page/bundle.js").contains(&limits), "{limits}");
    }

    #[test]
    fn a_folder_that_is_too_deep_is_said_to_have_more() {
        let place = tempfile::tempdir().unwrap();
        let add = |name: &str| {
            let profile = place.path().join(name);
            std::fs::create_dir_all(&profile).unwrap();
            std::fs::write(profile.join("run.json"), "{").unwrap();
        };
        let listed = || {
            let list = Profiles::from_folder(place.path()).unwrap().list();
            let names: Vec<String> = list.profiles.into_iter().map(|profile| profile.name).collect();
            (names, list.is_cut_off)
        };
        add("a/b/c/four.mpisee");
        std::fs::create_dir_all(place.path().join("a/b/c/empty")).unwrap();
        assert_eq!(listed(), (vec!["a/b/c/four.mpisee".to_owned()], false));
        add("a/b/c/d/five.mpisee");
        assert_eq!(listed(), (vec!["a/b/c/four.mpisee".to_owned()], true));
    }
}
