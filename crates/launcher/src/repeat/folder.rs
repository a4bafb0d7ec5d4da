//! The folder that has the profiles of repeated runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The ending of its name.
const ENDING: &str = "runs";

/// Makes the folder: a new one, `app.runs` or, where that exists, with a number, `app-2.runs`; what
/// is wanted with a slash at its end is taken as it is, so that further runs come to those that are
/// there.
pub fn make(wanted: Option<&Path>, name: &str) -> io::Result<PathBuf> {
    match wanted {
        Some(folder) if folder.as_os_str().as_bytes().ends_with(b"/") => {
            fs::create_dir_all(folder)?;
            Ok(folder.to_owned())
        }
        Some(path) => new(path),
        None => new(Path::new(name)),
    }
}

fn new(path: &Path) -> io::Result<PathBuf> {
    let stem = if path.extension().is_some_and(|ending| ending == ENDING) {
        path.with_extension("")
    } else {
        path.into()
    };
    if let Some(parent) = stem.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut number = 1u64;
    loop {
        let mut name = stem.clone().into_os_string();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.push(format!(".{ENDING}"));
        match fs::create_dir(&name) {
            Ok(()) => return Ok(PathBuf::from(name)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The names of the profiles in it.
pub fn profiles(folder: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().join("run.json").exists()).map(|entry| entry.file_name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_new_unless_a_slash_asks_for_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        let made = |wanted: &str| make(Some(&path(wanted)), "app").unwrap();
        assert_eq!(made("app"), path("app.runs"));
        assert_eq!(made("app.runs"), path("app-2.runs"));
        assert_eq!(made("deep/app.v1"), path("deep/app.v1.runs"));
        assert_eq!(made("all/"), path("all/"));
        fs::create_dir(path("all/app.mpisee")).unwrap();
        assert!(profiles(&made("all/")).is_empty(), "without run.json it is none");
        fs::write(path("all/app.mpisee/run.json"), "{}").unwrap();
        assert_eq!(profiles(&made("all/")).into_iter().collect::<Vec<_>>(), ["app.mpisee"]);
    }
}
