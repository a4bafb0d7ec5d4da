//! Folders that have profiles in them.

use crate::units::natural_order;
use std::io;
use std::path::{Path, PathBuf};

/// Returns whether the path is a folder of profiles, and no profile itself.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() && !path.join("run.json").exists()
}

/// The profiles in a folder, in the order of their names.
///
/// # Errors
/// If the folder cannot be read.
pub fn inside(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?.path();
        if entry.join("run.json").exists() {
            found.push(entry);
        }
    }
    found.sort_by(|one, other| natural_order(&one.to_string_lossy(), &other.to_string_lossy()));
    Ok(found)
}
