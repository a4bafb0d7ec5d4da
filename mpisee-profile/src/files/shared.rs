//! Files of a profile into which all ranks write, each its own rows at their place.

use super::{CALLS, OUTSIDE, PEERS, ProfileFiles, RANKS, REGIONS, TABLES};
use crate::error::ProfileError;
use crate::rows::{CallRow, OutsideRow, PeerRow, RankRow, RegionRow, Row};
use crate::writer::TableWriter;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The tables that all ranks write, with their files. Rows of communicators and of GPU kernels are put together from
/// those of several ranks, by the one who writes the profile.
pub const SHARED: [(usize, &str); 5] = [
    (RANKS, RankRow::FILE),
    (CALLS, CallRow::FILE),
    (PEERS, PeerRow::FILE),
    (REGIONS, RegionRow::FILE),
    (OUTSIDE, OutsideRow::FILE),
];

/// The file by which the directory is known from another one of its name on another node, while all ranks write.
const MARK: &str = "writing";

/// What of a rank's rows does not get into shared files.
pub fn not_shared(parts: [&[u8]; TABLES]) -> [&[u8]; TABLES] {
    let mut rest = parts;
    SHARED.iter().for_each(|&(table, _)| rest[table] = &[]);
    rest
}

/// What a rank must know to write its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The profile directory, from the root on.
    pub directory: PathBuf,
    /// Where the rank's rows begin in the file of each table, in bytes.
    pub begins: [u64; TABLES],
    /// How many bytes of rows all ranks have of each table.
    pub lengths: [u64; TABLES],
    /// What the directory's mark holds.
    mark: u64,
}

impl Shared {
    /// Whether this process sees that very directory.
    pub fn is_seen(&self) -> bool {
        std::fs::read(self.directory.join(MARK)).is_ok_and(|mark| mark == self.mark.to_le_bytes())
    }

    /// What a rank is told whose rows follow `rows` bytes of those of this one.
    pub fn after(&self, rows: &[u64; TABLES]) -> Shared {
        let begins = std::array::from_fn(|table| self.begins[table].saturating_add(rows[table]));
        Shared { begins, ..self.clone() }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let words = std::iter::once(self.mark).chain(self.begins).chain(self.lengths);
        words
            .flat_map(u64::to_le_bytes)
            .chain(self.directory.as_os_str().as_bytes().iter().copied())
            .collect()
    }

    /// Back from bytes; `None` if these are too few.
    pub fn decode(bytes: &[u8]) -> Option<Shared> {
        let (words, path) = bytes.split_at_checked(8 * (1 + 2 * TABLES))?;
        let (words, _) = words.as_chunks::<8>();
        let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
        let mark = words.next()?;
        let mut next = || std::array::from_fn(|_| words.next().unwrap_or_default());
        let (begins, lengths) = (next(), next());
        Some(Shared { directory: PathBuf::from(OsStr::from_bytes(path)), begins, lengths, mark })
    }

    /// The file of a table.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }
}

impl ProfileFiles {
    /// Makes the files ready for `lengths` bytes of rows that all ranks write. `mark` is a number that no other directory
    /// has; the begins in what is returned are those of the first rank.
    pub fn share(&mut self, lengths: &[u64; TABLES], mark: u64) -> Result<Shared, ProfileError> {
        if lengths[OUTSIDE] > 0 && self.outside.is_none() {
            self.outside = Some(self.directory.table::<OutsideRow>()?);
        }
        let mut begins = [0; TABLES];
        for (table, _) in SHARED {
            if let Some(writer) = self.shared_table(table) {
                begins[table] = writer.flush()?;
            }
        }
        self.mark = Some(self.directory.passing_file(MARK, &mark.to_le_bytes())?);
        let directory = self.directory.directory();
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Ok(Shared { directory, begins, lengths: *lengths, mark })
    }

    /// Whether all rows are there that the ranks were to write: an error if not.
    pub fn check_shared(&mut self, shared: &Shared) -> Result<(), ProfileError> {
        SHARED.iter().try_for_each(|&(table, _)| match self.shared_table(table) {
            Some(writer) => writer.check_length(shared.begins[table].saturating_add(shared.lengths[table])),
            None => Ok(()),
        })
    }

    /// Ends the time in which all ranks write. If that failed the files are as they were before.
    pub fn end_sharing(&mut self, shared: &Shared, succeeded: bool) -> Result<(), ProfileError> {
        if let Some(mark) = self.mark.take() {
            let failed = |source| ProfileError::File { path: mark.clone(), action: "remove", source };
            std::fs::remove_file(&mark).map_err(failed)?;
        }
        if succeeded {
            return Ok(());
        }
        SHARED.iter().try_for_each(|&(table, _)| match self.shared_table(table) {
            Some(writer) => writer.cut(shared.begins[table]),
            None => Ok(()),
        })
    }

    fn shared_table(&mut self, table: usize) -> Option<&mut TableWriter> {
        match table {
            RANKS => Some(&mut self.ranks),
            CALLS => Some(&mut self.calls),
            PEERS => Some(&mut self.peers),
            REGIONS => Some(&mut self.regions),
            _ => self.outside.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood_and_the_next_rows_begin_after_these() {
        let shared = Shared {
            directory: PathBuf::from("/scratch/ä b/app.mpisee"),
            begins: std::array::from_fn(|table| 100 + table as u64),
            lengths: std::array::from_fn(|table| 1 << (40 + table)),
            mark: 0x0123_4567_89ab_cdef,
        };
        let bytes = shared.encode();
        assert_eq!(Shared::decode(&bytes), Some(shared.clone()));
        assert_eq!(Shared::decode(&bytes[..8 * (1 + 2 * TABLES) - 1]), None);
        let next = shared.after(&std::array::from_fn(|table| 10 * table as u64));
        assert_eq!(next.begins, std::array::from_fn(|table| 100 + 11 * table as u64));
        assert_eq!(Shared { begins: shared.begins, ..next }, shared);
    }
}
