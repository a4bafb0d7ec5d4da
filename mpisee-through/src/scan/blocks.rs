//! Cuts a table into blocks of whole records.

use mpisee_profile::ProfileError;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// PERF: small enough for a core's cache, large enough that threads seldom wait for each other.
const BLOCK: usize = 1 << 20;
/// Where no record ends within this many bytes, a quotation mark opened a field that nothing
/// closes.
const LONGEST_RECORD: usize = 1 << 26;

/// Which field of a record is which column.
#[derive(Debug)]
pub struct Columns {
    /// Per column of the format, the number of its field; none of a column that the table lacks and
    /// may lack.
    pub fields: Vec<Option<usize>>,
    /// How many fields a record has.
    pub count: usize,
}

impl Columns {
    /// How a table is laid out whose columns are those of the format, in its order, with nothing
    /// between them.
    pub fn written(&self) -> Option<Written> {
        let present: Vec<usize> = self.fields.iter().copied().flatten().collect();
        let are_in_order = present.iter().enumerate().all(|(place, field)| *field == place);
        let missing = |(column, field): (usize, &Option<usize>)| field.is_none().then_some(1 << column);
        let missing = self.fields.iter().enumerate().filter_map(missing).sum();
        (are_in_order && self.count == present.len()).then_some(Written { missing })
    }
}

/// The columns of a table that is as a version of mpisee has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// A bit for each column of this version that is not there.
    missing: u64,
}

impl Written {
    /// Returns whether all columns of this version are there.
    pub fn is_whole(self) -> bool {
        self.missing == 0
    }

    /// Returns whether the column with this number is there.
    pub fn has(self, column: usize) -> bool {
        self.missing & 1 << column == 0
    }
}

/// The rest of a table, to be taken block by block.
pub struct Blocks {
    file: io::Take<File>,
    /// Where the next block begins.
    at: u64,
    /// Where the last one ends.
    end: u64,
    /// The bytes read beyond the end of the last block's last record.
    carried: Vec<u8>,
    columns: Arc<Columns>,
    stopped: bool,
}

impl Blocks {
    /// Opens the table and reads its header row, which may lack the columns of `optional`.
    pub fn open(
        path: &Path,
        columns: &[&'static str],
        optional: &[&'static str],
    ) -> Result<Self, ProfileError> {
        let unreadable = |source| ProfileError::File { path: path.to_owned(), action: "read", source };
        let mut file = File::open(path).map_err(unreadable)?;
        let end = file.metadata().map_err(unreadable)?.len();
        let mut reader = csv::Reader::from_reader(BufReader::new(&file));
        let header = reader.headers().map_err(|error| ProfileError::Malformed {
            path: path.to_owned(),
            line: 1,
            why: error.to_string(),
        })?;
        let place = |column: &&'static str| match header.iter().position(|name| name == *column) {
            None if !optional.contains(column) => Err(ProfileError::MissingColumn {
                path: path.to_owned(),
                column,
                header: header.iter().collect::<Vec<_>>().join(","),
            }),
            place => Ok(place),
        };
        let fields = columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let columns = Arc::new(Columns { fields, count: header.len() });
        let at = reader.position().byte();
        drop(reader);
        file.seek(SeekFrom::Start(at)).map_err(unreadable)?;
        Ok(Blocks {
            file: file.take(end.saturating_sub(at)),
            at,
            end,
            carried: Vec::new(),
            columns,
            stopped: false,
        })
    }

    /// The same up to a record that begins at this byte.
    pub fn until(mut self, end: u64) -> Self {
        self.end = end;
        self.file.set_limit(end.saturating_sub(self.at));
        self
    }

    /// Where the table ends, in bytes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// An upper bound of the blocks, at least 1.
    pub fn count_at_most(&self) -> usize {
        usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX) / BLOCK + 1
    }

    /// Which field of a record is which column.
    pub fn columns(&self) -> Arc<Columns> {
        Arc::clone(&self.columns)
    }

    /// There is no block any more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Fills `block` with the next records and says at which byte of the file they begin.
    pub fn next(&mut self, block: &mut Vec<u8>) -> io::Result<Option<u64>> {
        block.clear();
        block.append(&mut self.carried);
        if self.stopped {
            return Ok(None);
        }
        loop {
            let wanted = BLOCK.max(block.len());
            let read = (&mut self.file).take(wanted as u64).read_to_end(block)?;
            let is_last = read < wanted;
            let whole = if is_last { block.len() } else { end_of_records(block).unwrap_or(0) };
            if whole == 0 && !is_last && block.len() < LONGEST_RECORD {
                continue;
            }
            // A record without an end is left to the code that splits it, which reports the error.
            let whole = if whole == 0 { block.len() } else { whole };
            self.carried.extend_from_slice(&block[whole..]);
            block.truncate(whole);
            let start = self.at;
            self.at += whole as u64;
            return Ok(if block.is_empty() { None } else { Some(start) });
        }
    }
}

/// The end of the last whole record in a text that begins with one: after the last line feed that
/// is not in quotes.
fn end_of_records(text: &[u8]) -> Option<usize> {
    let quotes = memchr::memchr_iter(b'"', text).count();
    let mut after = 0;
    let mut end = text.len();
    while let Some(feed) = memchr::memrchr(b'\n', &text[..end]) {
        after += memchr::memchr_iter(b'"', &text[feed..end]).count();
        // As many quotes before it that open as that close.
        if (quotes - after).is_multiple_of(2) {
            return Some(feed + 1);
        }
        end = feed;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_in_quotes_ends_no_record() {
        assert_eq!(end_of_records(b"a,b\nc,\"d\n"), Some(4));
        assert_eq!(end_of_records(b"a,\"b\nc\"\nd"), Some(8));
        assert_eq!(end_of_records(b"a,\"b\"\"\nc\"\nd,\"\n\n"), Some(10));
        assert_eq!(end_of_records(b"\"\n\n\n"), None);
        assert_eq!(end_of_records(b"abc"), None);
    }
}
