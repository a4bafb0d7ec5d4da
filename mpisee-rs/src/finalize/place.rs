//! Where the profile goes.

use crate::by_hand::was_spawned;
use crate::process::Process;
use mpisee_profile::ProfileError;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `MPISEE_OUTPUT`, or the program's name in the working directory; always `NAME.mpisee`. Spawned processes are
/// often of the same program and inherit the variable: theirs is `NAME-spawned.mpisee`, whoever ends first.
pub fn wanted(process: &Process, command: &[String]) -> PathBuf {
    let program = command.first().map_or("profile", String::as_str);
    let name = Path::new(program).file_name().unwrap_or_else(|| "profile".as_ref());
    let wanted = process.options.output.clone().unwrap_or_else(|| PathBuf::from(name));
    let has_extension = wanted.extension().is_some_and(|extension| extension == "mpisee");
    let mut wanted = if has_extension { wanted.with_extension("") } else { wanted }.into_os_string();
    wanted.push(if was_spawned() { "-spawned.mpisee" } else { ".mpisee" });
    PathBuf::from(wanted)
}

/// The places for a profile that are left: the one that was asked for, and others if it cannot be there.
pub struct Places {
    left: std::vec::IntoIter<PathBuf>,
    /// The file systems that are full or read-only, by device number.
    useless: Vec<u64>,
}

impl Places {
    /// What was asked for; else the same name in the working directory, where users look first and which most often is
    /// on a file system that lasts; in `$TMPDIR`; in `/tmp`; and beside the segments, in memory, which lasts least.
    pub fn new(process: &Process, command: &[String]) -> Self {
        let wanted = wanted(process, command);
        let name = wanted.file_name().unwrap_or_else(|| "profile.mpisee".as_ref()).to_owned();
        let temporary = std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        let segments = process.options.segments.clone();
        let folders = [Some(PathBuf::new()), temporary, Some(PathBuf::from("/tmp")), Some(segments)];
        let mut all = vec![wanted];
        for folder in folders.into_iter().flatten() {
            let place = folder.join(&name);
            if !all.contains(&place) {
                all.push(place);
            }
        }
        Places { left: all.into_iter(), useless: Vec::new() }
    }

    /// Remembers why a profile could not be written at `place`: where a file system has no room, or none to write, no
    /// other place on it is tried.
    pub fn note(&mut self, place: &Path, error: &ProfileError) {
        let is_of_file_system = |error: &Error| {
            [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem]
                .contains(&error.kind())
        };
        if let ProfileError::File { source, .. } = error
            && is_of_file_system(source)
        {
            self.useless.extend(device(place));
        }
    }
}

impl Iterator for Places {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        let useless = &self.useless;
        self.left.find(|place| device(place).is_none_or(|device| !useless.contains(&device)))
    }
}

/// The number of the file system on which the directory would be.
fn device(place: &Path) -> Option<u64> {
    let folder = match place.parent()? {
        folder if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder,
    };
    Some(std::fs::metadata(folder).ok()?.dev())
}

/// The path from the root on, for somebody who may be elsewhere.
pub fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}
