//! The file of counters, written so that it is whole whenever the process is killed.
//!
//! It is opened again for each batch: the program may close a descriptor that is kept open, and
//! reuse its number.

use mpisee_in_process::guards::descriptors;
use mpisee_profile::gpu::{
    BLOCK_HEADER_BYTES, CounterValues, FileEntry, MAGIC, Values, entry_block, values_block,
};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Records that wait at most until they can be written.
const MOST_WAITING: usize = 1 << 16;

/// The file, with counters whose values are of one kind.
#[derive(Debug)]
pub struct Output<V = Values> {
    path: PathBuf,
    /// Device and inode, by which it is known again.
    identity: (u64, u64),
    /// The end of the whole entries.
    end: u64,
    /// The offsets of the counters' values.
    places: HashMap<u32, u64>,
    /// Records and values that found no descriptor or memory, to be tried again with what comes
    /// next.
    waiting: (Vec<FileEntry>, HashMap<u32, V>),
    /// Set with the first error; what comes later is not written, so that no part is missing in
    /// between.
    failed: Option<String>,
}

impl<V: CounterValues> Output<V> {
    /// Makes the file. It takes the place of one that this process made before it called exec: the
    /// counts of MPI begin anew there, too. The name is of this process alone, by its number and
    /// the time of its start, which exec leaves as they are.
    pub fn create(path: &Path) -> io::Result<Self> {
        let _held = descriptors::hold();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_earlier(path) => {
                std::fs::remove_file(path)?;
                options.open(path)?
            }
            opened => opened?,
        };
        file.write_all_at(&MAGIC, 0)?;
        Ok(Output {
            path: path.to_owned(),
            identity: identity(&file)?,
            end: MAGIC.len() as u64,
            places: HashMap::new(),
            waiting: Default::default(),
            failed: None,
        })
    }

    /// Appends entries, and puts values into their places; those of new counters are appended.
    pub fn write(&mut self, entries: &[FileEntry], values: &[(u32, V)]) {
        if self.failed.is_some() {
            return;
        }
        let (mut waiting, mut latest) = std::mem::take(&mut self.waiting);
        waiting.extend_from_slice(entries);
        latest.extend(values.iter().copied());
        let mut all: Vec<_> = latest.iter().map(|(&id, &values)| (id, values)).collect();
        all.sort_unstable_by_key(|&(id, _)| id);
        match self.try_write(&waiting, &all) {
            Ok(()) => {}
            Err(error) if is_passing(&error) && waiting.len() < MOST_WAITING => {
                self.waiting = (waiting, latest);
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    fn try_write(&mut self, entries: &[FileEntry], values: &[(u32, V)]) -> io::Result<()> {
        let (known, new): (Vec<_>, Vec<_>) = values.iter().partition(|(id, _)| self.places.contains_key(id));
        let mut batch: Vec<u8> = entries.iter().flat_map(entry_block).collect();
        let mut places = Vec::new();
        for &(id, values) in new {
            places.push((id, self.end + batch.len() as u64));
            batch.extend(values_block(id, values));
        }
        // The program may have closed its standard descriptors, and write to their numbers.
        let _held = descriptors::hold();
        let file = self.open()?;
        file.write_all_at(&batch, self.end)?;
        self.end += batch.len() as u64;
        self.places.extend(places);
        for &(id, values) in known {
            let body = &values_block(id, values)[BLOCK_HEADER_BYTES..];
            file.write_all_at(body, self.places[&id] + BLOCK_HEADER_BYTES as u64)?;
        }
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(&self.path)?;
        if identity(&file)? != self.identity {
            return Err(io::Error::other("another file took its name"));
        }
        file.seek(SeekFrom::Start(self.end))?;
        Ok(file)
    }

    /// Why nothing is written any more, if so.
    pub fn failure(&self) -> Option<&str> {
        let waits = !self.waiting.0.is_empty() || !self.waiting.1.is_empty();
        self.failed.as_deref().or(waits.then_some("there is no descriptor for the file, or no memory"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns whether a file is of this user, has no other name and begins as the tracer's do. No link
/// is followed, and no pipe waited for.
fn is_earlier(path: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return false };
    let Ok(metadata) = file.metadata() else { return false };
    // SAFETY: getuid cannot fail.
    let is_own = metadata.uid() == unsafe { libc::getuid() };
    // The version is left out: another mpisee may have been there before exec. A file that could
    // not be written is empty.
    let mut first = [0; MAGIC.len() - 1];
    is_own
        && metadata.is_file()
        && metadata.nlink() == 1
        && (metadata.len() == 0 || file.read_exact_at(&mut first, 0).is_ok() && MAGIC.starts_with(&first))
}

/// Returns whether what cannot be done now may be done later: there is no descriptor, or no memory,
/// at the moment.
fn is_passing(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| [libc::EMFILE, libc::ENFILE, libc::ENOMEM].contains(&code))
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::gpu::GpuFile;

    #[test]
    fn values_change_in_place_and_records_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::<Values>::create(&folder.path().join("a.gpu")).unwrap();
        let values = |accesses| Values { accesses, extra: 2, variance: 3 };
        output.write(&[FileEntry::Sampled(1)], &[(0, values(1)), (1, values(10))]);
        let length = output.path().metadata().unwrap().len();
        output.write(&[], &[(1, values(11))]);
        assert_eq!(output.path().metadata().unwrap().len(), length);
        output.write(&[FileEntry::Note("x".to_owned())], &[(0, values(2)), (2, values(20))]);
        let file = GpuFile::read(output.path()).unwrap().unwrap();
        assert_eq!(file.entries, [FileEntry::Sampled(1), FileEntry::Note("x".to_owned())]);
        assert_eq!(file.values, [(0, values(2)), (1, values(11)), (2, values(20))].into());
        assert_eq!(output.failure(), None);
    }

    #[test]
    fn what_cannot_be_written_now_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::<Values>::create(&folder.path().join("a.gpu")).unwrap();
        let values = |accesses| Values { accesses, extra: 2, variance: 3 };
        output.waiting = (vec![FileEntry::Sampled(1)], [(0, values(1)), (1, values(10))].into());
        assert!(output.failure().is_some());
        output.write(&[FileEntry::Sampled(2)], &[(1, values(11))]);
        assert_eq!(output.failure(), None);
        let file = GpuFile::read(output.path()).unwrap().unwrap();
        assert_eq!(file.entries, [FileEntry::Sampled(1), FileEntry::Sampled(2)]);
        assert_eq!(file.values, [(0, values(1)), (1, values(11))].into());
    }

    #[test]
    fn a_file_from_before_exec_is_replaced_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a.gpu", "b.gpu"].map(|name| folder.path().join(name));
        Output::<Values>::create(&path).unwrap().write(&[FileEntry::Sampled(1)], &[]);
        drop(Output::<Values>::create(&path).unwrap());
        assert_eq!(GpuFile::read(&path).unwrap().unwrap().entries, []);
        std::fs::hard_link(&path, &other).unwrap();
        assert!(Output::<Values>::create(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(Output::<Values>::create(&path).is_err());
        assert!(path.is_symlink() && other.is_file());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Output::<Values>::create(&path).is_err());
    }

    #[test]
    fn a_file_that_is_another_now_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gpu");
        let mut output = Output::<Values>::create(&path).unwrap();
        std::fs::rename(&path, folder.path().join("away")).unwrap();
        std::fs::write(&path, "not ours").unwrap();
        output.write(&[FileEntry::Sampled(1)], &[]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "not ours");
        assert_eq!(output.failure(), Some("another file took its name"));
        assert!(Output::<Values>::create(&path).is_err());
    }
}
