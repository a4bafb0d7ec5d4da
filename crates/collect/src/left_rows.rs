//! Rows that a rank leaves in a file beside its segment for the rank that writes the profile of their node.
//!
//! PERF: ranks come to the end of MPI together, and each makes its rows while the others make theirs. The one that writes the
//! profile then copies text, in place of making the rows of all.

use crate::run::RunSums;
use crate::wire::Message;
use crate::wire::pieces::{Pieces, TABLES};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The rows of a rank that has arrived, where all others have, too.
pub struct LeftRows {
    /// Its part in `run.json`.
    pub sums: RunSums,
    /// Its rows as a piece, see [`crate::wire::pieces`].
    pub rows: Vec<u8>,
}

/// Bytes of each of the two lengths with which the file begins: of the sums, and of the rows.
const LENGTH_BYTES: usize = size_of::<u64>();

impl LeftRows {
    /// From the text of its tables.
    pub fn new(sums: RunSums, parts: [&[u8]; TABLES]) -> LeftRows {
        let mut rows = Vec::with_capacity(parts.iter().map(|text| text.len()).sum());
        let mut pieces = Pieces::new(|piece: &[u8]| rows.extend_from_slice(piece));
        pieces.put(parts);
        pieces.finish();
        LeftRows { sums, rows }
    }

    /// Writes the file, which was opened for that.
    pub fn write(&self, mut file: File) -> io::Result<()> {
        let sums = self.sums.encode();
        let lengths = [sums.len(), self.rows.len()].map(|length| (length as u64).to_le_bytes());
        file.write_all(&[&lengths.concat()[..], &sums].concat())?;
        file.write_all(&self.rows)
    }

    /// From the content of such a file; `None` of one that is not whole.
    pub fn parse(mut content: Vec<u8>) -> Option<LeftRows> {
        let length_at = |at: usize| {
            let bytes = content.get(at..at + LENGTH_BYTES)?;
            usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
        };
        let (sums, rows) = (length_at(0)?, length_at(LENGTH_BYTES)?);
        let begin = (2 * LENGTH_BYTES).checked_add(sums)?;
        if begin.checked_add(rows)? != content.len() {
            return None;
        }
        let sums = RunSums::decode(&content[2 * LENGTH_BYTES..begin]).ok()?;
        Some(LeftRows { sums, rows: content.split_off(begin) })
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
        let text = "0,n1\n".repeat(30_000).into_bytes();
        let mut parts = [&b""[..]; TABLES];
        (parts[0], parts[TABLES - 1]) = (b"1,2\n", &text);
        let left = LeftRows::new(RunSums { wall_ns: 4711, ..RunSums::default() }, parts);
        let scratch = tempfile::tempdir().unwrap();
        let path = path(&scratch.path().join("mpisee-1-2-3.segment"));
        assert!(path.ends_with("mpisee-1-2-3.rows"));
        left.write(File::create(&path).unwrap()).unwrap();
        let content = std::fs::read(&path).unwrap();
        let again = LeftRows::parse(content.clone()).unwrap();
        assert_eq!((again.sums, again.rows), (left.sums, left.rows));
        for length in [0, 1, 15, 16, 40, content.len() - 1] {
            assert!(LeftRows::parse(content[..length].to_vec()).is_none(), "{length}");
        }
        assert!(LeftRows::parse([&content[..], b"x"].concat()).is_none());
    }
}
