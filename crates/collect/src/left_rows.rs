//! Rows that a rank leaves in a file beside its segment for the rank that writes the profile of
//! their node.
//!
//! PERF: ranks come to the end of MPI together, and each makes its rows while the others make
//! theirs. The one that writes the profile then copies text, in place of making the rows of all.

use crate::run::RunSums;
use crate::wire::Message;
use crate::wire::pieces::{Frame, TABLES};
use mpisee_profile::ProfileError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The rows of a rank that has arrived, where all others have, too.
///
/// The file has the length of its head in a word, the head, and the text of the tables.
pub struct LeftRows {
    /// Its part in `run.json`.
    pub sums: RunSums,
    bytes_of_tables: [u64; TABLES],
    path: PathBuf,
    /// The open file, read up to the first table.
    file: File,
}

#[derive(Serialize, Deserialize)]
struct Head {
    sums: RunSums,
    bytes_of_tables: [u64; TABLES],
}

impl Message for Head {}

/// The most bytes that are copied at once.
///
/// PERF: they stay in the cache, and many rows take no more memory than few.
const MOST_AT_ONCE: u64 = 1 << 18;

/// Writes such a file, which was opened for that.
pub fn write(file: File, sums: RunSums, tables: [&[u8]; TABLES]) -> io::Result<()> {
    let head = Head { sums, bytes_of_tables: tables.map(|text| text.len() as u64) }.encode();
    let mut file = BufWriter::new(file);
    file.write_all(&(head.len() as u64).to_le_bytes())?;
    file.write_all(&head)?;
    tables.iter().try_for_each(|text| file.write_all(text))?;
    file.flush()
}

impl LeftRows {
    /// Begins to read such a file; `None` of one that is not whole.
    pub fn open(path: PathBuf, mut file: File) -> Option<LeftRows> {
        let bytes = file.metadata().ok()?.len();
        let mut word = [0; size_of::<u64>()];
        file.read_exact(&mut word).ok()?;
        let bytes_of_head = u64::from_le_bytes(word);
        let mut head = Vec::new();
        (&file).take(bytes_of_head).read_to_end(&mut head).ok()?;
        let Head { sums, bytes_of_tables } = Head::decode(&head).ok()?;
        let parts = [word.len() as u64, bytes_of_head].into_iter().chain(bytes_of_tables);
        let is_whole = parts.fold(0, u64::saturating_add) == bytes;
        is_whole.then_some(LeftRows { sums, bytes_of_tables, path, file })
    }

    /// Reads the rows.
    pub fn read(
        mut self,
        mut append: impl FnMut(&Frame) -> Result<(), ProfileError>,
    ) -> Result<(), ProfileError> {
        let mut text = Vec::new();
        for (table, mut left) in (0..).zip(self.bytes_of_tables) {
            while left > 0 {
                text.resize(left.min(MOST_AT_ONCE) as usize, 0);
                left -= text.len() as u64;
                let read = self.file.read_exact(&mut text);
                read.map_err(|source| ProfileError::File {
                    path: self.path.clone(),
                    action: "read",
                    source,
                })?;
                append(&Frame::Rows { table, is_last: left == 0, text: &text })?;
            }
        }
        Ok(())
    }
}

/// Where a rank leaves its rows, by the path of its segment.
pub fn path(segment: &Path) -> PathBuf {
    segment.with_extension("rows")
}

/// Removes what a rank has left.
pub fn remove(segment: &Path) -> io::Result<()> {
    match std::fs::remove_file(path(segment)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_if_they_are_whole() {
        let text = "0,n1\n".repeat(70_000).into_bytes();
        let mut tables = [&b""[..]; TABLES];
        (tables[0], tables[TABLES - 1]) = (b"1,2\n", &text);
        let sums = RunSums { wall_ns: 4711, ..RunSums::default() };
        let scratch = tempfile::tempdir().unwrap();
        let path = path(&scratch.path().join("mpisee-1-2-3.segment"));
        assert!(path.ends_with("mpisee-1-2-3.rows"));
        write(File::create(&path).unwrap(), sums.clone(), tables).unwrap();
        let open = || LeftRows::open(path.clone(), File::open(&path).unwrap());
        let again = open().unwrap();
        assert_eq!(again.sums, sums);
        let mut read = Vec::new();
        let append = |frame: &Frame| {
            let &Frame::Rows { table, is_last, text } = frame else { panic!("{frame:?}") };
            read.push((table, is_last, text.to_vec()));
            Ok(())
        };
        again.read(append).unwrap();
        let (first, second) = text.split_at(MOST_AT_ONCE as usize);
        let last = TABLES as u8 - 1;
        let expected = [(0, true, &b"1,2\n"[..]), (last, false, first), (last, true, second)];
        assert_eq!(read, expected.map(|(table, is_last, text)| (table, is_last, text.to_vec())));
        let content = std::fs::read(&path).unwrap();
        for length in [0, 1, 15, 16, 40, content.len() - 1] {
            std::fs::write(&path, &content[..length]).unwrap();
            assert!(open().is_none(), "{length}");
        }
        std::fs::write(&path, [&content[..], b"x"].concat()).unwrap();
        assert!(open().is_none());
    }
}
