//! Sets of runs as the command line names them: profiles, and folders that have profiles in them.

mod copies;

use copies::Copy;
pub use copies::common;

use crate::profile_folders::{inside, is_folder};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The runs that paths stand for.
#[derive(Debug, Default)]
pub struct RunProfiles {
    /// One profile of each run, in their order; those of a folder in the order of their names.
    pub profiles: Vec<PathBuf>,
    /// Further profiles of these runs, which do not count.
    copies: Vec<Copy>,
}

impl RunProfiles {
    /// The sentence on the profiles that do not count, if there are any.
    pub fn note(&self) -> Option<String> {
        copies::sentence(&self.copies)
    }
}

/// The runs that paths stand for, each once.
pub fn profiles(paths: &[PathBuf]) -> Result<RunProfiles> {
    let mut all: Vec<PathBuf> = Vec::new();
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths {
        for profile in at(path)? {
            let place = profile.canonicalize().unwrap_or_else(|_| profile.clone());
            if !known.contains(&place) {
                known.push(place);
                all.push(profile);
            }
        }
    }
    Ok(copies::divided(all))
}

/// The profile, or those in the folder. What is neither is left to the reader of profiles to
/// explain.
fn at(path: &Path) -> Result<Vec<PathBuf>> {
    if !is_folder(path) {
        return Ok(vec![path.to_owned()]);
    }
    let found = inside(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    if found.is_empty() {
        bail!("'{}' is no profile, since it has no run.json, and there is no profile in it", path.display());
    }
    Ok(found)
}

/// The command for people.
pub fn command_text(command: &[String]) -> String {
    let quoted = |word: &String| match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    match command.is_empty() {
        true => "(unknown command)".to_owned(),
        false => command.iter().map(quoted).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_profiles_and_each_counts_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        for name in
            ["app.runs/app.mpisee", "app.runs/app-10.mpisee", "app.runs/app-2.mpisee", "app.runs/notes"]
        {
            std::fs::create_dir_all(path(name)).unwrap();
            if name.ends_with(".mpisee") {
                std::fs::write(path(name).join("run.json"), "{}").unwrap();
            }
        }
        std::fs::create_dir(path("empty")).unwrap();
        let found = profiles(&[path("app.runs/app-2.mpisee"), path("app.runs"), path("nothing")]).unwrap();
        let expected = ["app.runs/app-2.mpisee", "app.runs/app-10.mpisee", "app.runs/app.mpisee", "nothing"];
        assert_eq!(found.profiles, expected.map(path));
        let error = profiles(&[path("empty")]).unwrap_err().to_string();
        assert!(error.contains("there is no profile in it"), "{error}");
    }
}
