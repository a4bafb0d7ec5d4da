//! Directories to which a profile may be written: the requested one, then fallbacks.

use mpisee_profile::ProfileError;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories that are left to try for a profile: the requested one, then fallbacks.
pub struct Candidates {
    left: std::vec::IntoIter<PathBuf>,
    /// The file systems that are full or read-only, by device number.
    useless: Vec<u64>,
}

impl Candidates {
    /// `wanted`; else the same name in `folder`, the working directory, where users look first and
    /// which most often is on a file system that lasts; in `$TMPDIR`; in `/tmp`; and beside the
    /// segments, in memory, which lasts least. A name that is too long for a file is cut there.
    pub fn new(wanted: PathBuf, folder: PathBuf, segments: PathBuf) -> Self {
        let name = wanted.file_name().unwrap_or_else(|| "profile.mpisee".as_ref());
        let name = shortened(name);
        let temporary = std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        let folders = [Some(folder), temporary, Some(PathBuf::from("/tmp")), Some(segments)];
        let mut all = vec![wanted];
        for folder in folders.into_iter().flatten() {
            let directory = folder.join(&name);
            if !all.contains(&directory) {
                all.push(directory);
            }
        }
        Candidates { left: all.into_iter(), useless: Vec::new() }
    }

    /// Records why a profile could not be written to `directory`: if the file system is full or
    /// read-only, no other directory on it is tried.
    pub fn note(&mut self, directory: &Path, error: &ProfileError) {
        let is_of_file_system = |error: &Error| {
            [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem]
                .contains(&error.kind())
        };
        if let ProfileError::File { source, .. } = error
            && is_of_file_system(source)
        {
            self.useless.extend(device(directory));
        }
    }
}

impl Iterator for Candidates {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        let useless = &self.useless;
        self.left.find(|directory| device(directory).is_none_or(|device| !useless.contains(&device)))
    }
}

/// The longest name that a file system takes, in bytes.
const LONGEST_NAME: usize = 255;
/// Bytes of one that was longer: there is room for a number, and for an ending while it is written.
const SHORTENED: usize = 200;

/// The name, if a file may have it, else its begin.
fn shortened(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    if bytes.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut end = SHORTENED;
    while end > 0 && bytes[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    let mut short = OsStr::from_bytes(&bytes[..end]).to_owned();
    short.push(".mpisee");
    short
}

/// The number of the file system on which the directory would be.
fn device(directory: &Path) -> Option<u64> {
    let folder = match directory.parent()? {
        folder if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder,
    };
    Some(std::fs::metadata(folder).ok()?.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_file_may_have_is_cut_for_the_fallbacks() {
        let [short, long] = ["n".repeat(248), format!("x{}", "é".repeat(150))].map(|name| name + ".mpisee");
        let second = |name: &str| {
            Candidates::new(Path::new("/nowhere").join(name), PathBuf::from("/"), PathBuf::from("/"))
                .nth(1)
                .unwrap()
        };
        assert_eq!(second(&short), Path::new("/").join(&short));
        assert_eq!(second(&long), PathBuf::from(format!("/x{}.mpisee", "é".repeat(99))));
    }
}
